import java.net.URI;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.util.EnvironmentInformation;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.SqlParserException;
import org.apache.flink.table.api.TableException;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.table.api.ValidationException;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.catalog.CatalogTable;
import org.apache.flink.table.catalog.Column;
import org.apache.flink.table.catalog.ObjectPath;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.flink.FlinkSchemaUtil;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;

/** Apache Flink in batch mode, in this process. Its catalog keeps no tables of its own between statements, so that it sees what
 * others commit. It has no DELETE, UPDATE or MERGE on Iceberg tables; its sink upserts by a table's identifier fields. */
public final class FlinkSql implements Wire.Engine {
    private static final List<String> CAPABILITIES = List.of("v2", "v3", "read-dv", "position-deletes", "equality-deletes", "upsert", "time-travel", "avro", "orc");
    private static final Pattern CREATE = Pattern.compile("CREATE TABLE (\\S+) \\((.*?)\\)\\s+USING iceberg\\s*(?:PARTITIONED BY \\((.*?)\\)\\s*)?(?:TBLPROPERTIES\\s*(\\(.*\\)))?\\s*;?", Pattern.DOTALL | Pattern.CASE_INSENSITIVE);
    private static final Pattern RANGE = Pattern.compile("\\brange\\(([^()]*)\\)", Pattern.CASE_INSENSITIVE);
    private static final Pattern VIEW = Pattern.compile("CREATE OR REPLACE TEMPORARY VIEW (\\w+) AS (.*)", Pattern.DOTALL | Pattern.CASE_INSENSITIVE);
    private static final Pattern IDENTIFIER = Pattern.compile("ALTER TABLE (\\S+) SET IDENTIFIER FIELDS (.*)", Pattern.DOTALL | Pattern.CASE_INSENSITIVE);
    private static final Pattern UPSERT = Pattern.compile(
        "CALL \\S+\\.system\\.upsert\\(table => '([^']+)', source => '([^']+)', equality_columns => array\\(([^)]*)\\), delete_format => 'equality'\\)", Pattern.CASE_INSENSITIVE);
    private static final Pattern VALUES = Pattern.compile("((?:INSERT INTO|INSERT OVERWRITE) (\\S+) VALUES )(.*)", Pattern.DOTALL | Pattern.CASE_INSENSITIVE);
    private static final Pattern OVERWRITE = Pattern.compile("INSERT OVERWRITE (\\S+)", Pattern.CASE_INSENSITIVE);
    /** Where views are: the Iceberg catalog holds tables only. */
    private static final String VIEWS = "`default_catalog`.`default_database`.";

    private StreamExecutionEnvironment env;
    private StreamTableEnvironment tables;
    private String catalog;
    private final Set<String> views = new LinkedHashSet<>();
    private int ranges;

    public static void main(String[] args) throws Exception {
        Wire.serve(new FlinkSql());
    }

    @Override
    public Map<String, Object> start(Map<String, Object> hello) throws Exception {
        Configuration c = new Configuration();
        c.setString("taskmanager.memory.network.min", "32mb");
        c.setString("taskmanager.memory.network.max", "32mb");
        c.setString("table.local-time-zone", "UTC");
        // one cluster for all statements: left alone, each statement makes and ends one of its own
        MiniCluster cluster = new MiniCluster(new MiniClusterConfiguration.Builder().setConfiguration(c).setNumTaskManagers(1).setNumSlotsPerTaskManager(4).withRandomPorts().build());
        cluster.start();
        URI rest = cluster.getRestAddress().get();
        env = StreamExecutionEnvironment.createRemoteEnvironment(rest.getHost(), rest.getPort(), c);
        env.setParallelism(1);
        tables = StreamTableEnvironment.create(env, EnvironmentSettings.inBatchMode());
        tables.getConfig().set("table.local-time-zone", "UTC");
        catalog = (String) hello.get("catalog");
        tables.executeSql("CREATE CATALOG `" + catalog + "` WITH ('type'='iceberg', 'catalog-type'='hadoop', 'cache-enabled'='false', 'warehouse'='" + hello.get("warehouse") + "')");
        tables.useCatalog(catalog);
        return Wire.hello("Apache Flink", EnvironmentInformation.getVersion(), CAPABILITIES);
    }

    @Override
    public boolean refuses(Throwable e) {
        return e instanceof ValidationException || e instanceof TableException || e instanceof IllegalArgumentException || e instanceof UnsupportedOperationException
            || e instanceof org.apache.iceberg.exceptions.ValidationException;
    }

    private String name(Wire.Table t) {
        return "`" + catalog + "`.`" + t.namespace() + "`.`" + t.name() + "`";
    }

    @Override
    public Wire.Rows scan(Wire.Table t) throws Exception {
        String at = t.snapshot() == null ? "" : " /*+ OPTIONS('snapshot-id'='" + t.snapshot() + "') */";
        TableResult result = tables.executeSql("SELECT * FROM " + name(t) + at);
        List<Types.NestedField> columns = new ArrayList<>();
        for (Column c : result.getResolvedSchema().getColumns()) {
            Type type = FlinkSchemaUtil.convert(c.getDataType().getLogicalType());
            columns.add(Types.NestedField.optional(columns.size() + 1, c.getName(), type));
        }
        List<StructLike> rows = new ArrayList<>();
        try (CloseableIterator<Row> it = result.collect()) {
            while (it.hasNext()) {
                rows.add(struct(it.next(), columns));
            }
        }
        return new Wire.Rows(columns, rows);
    }

    /** Flink's rows as the protocol's writer reads them. */
    private static StructLike struct(Row row, List<Types.NestedField> fields) {
        Object[] values = new Object[row.getArity()];
        for (int i = 0; i < values.length; i++) {
            values[i] = plain(fields.get(i).type(), row.getField(i));
        }
        return new StructLike() {
            @Override
            public int size() {
                return values.length;
            }

            @Override
            public <T> T get(int pos, Class<T> as) {
                return as.cast(values[pos]);
            }

            @Override
            public <T> void set(int pos, T value) {
                values[pos] = value;
            }
        };
    }

    private static Object plain(Type type, Object v) {
        if (v == null) {
            return null;
        }
        if (v instanceof Row row) {
            return struct(row, type.asStructType().fields());
        }
        if (type.isListType()) {
            List<?> items = v instanceof List<?> l ? l : Arrays.asList((Object[]) v);
            List<Object> out = new ArrayList<>();
            items.forEach(x -> out.add(plain(type.asListType().elementType(), x)));
            return out;
        }
        if (type.isMapType()) {
            Map<Object, Object> out = new LinkedHashMap<>();
            ((Map<?, ?>) v).forEach((k, x) -> out.put(plain(type.asMapType().keyType(), k), plain(type.asMapType().valueType(), x)));
            return out;
        }
        return v;
    }

    // ---- statements

    private void run(String sql) throws Exception {
        System.out.println(sql);
        try {
            tables.executeSql(sql).await();
        } catch (SqlParserException e) {
            throw new Wire.Skipped("Flink has no such words: " + e.getMessage());
        }
    }

    @Override
    public void apply(String sql, Wire.Table t) throws Exception {
        String head = sql.strip().replaceAll("\\s+", " ").toUpperCase(Locale.ROOT);
        if (head.startsWith("CREATE NAMESPACE")) {
            run(sql.replaceFirst("(?i)CREATE NAMESPACE", "CREATE DATABASE"));
        } else if (head.startsWith("USE ")) {
            tables.useDatabase(sql.strip().split("\\s+")[1]);
        } else if (head.startsWith("CREATE TABLE")) {
            create(sql.strip());
        } else if (head.startsWith("INSERT INTO") || head.startsWith("INSERT OVERWRITE")) {
            insert(sql.strip());
        } else if (head.startsWith("ALTER TABLE") && head.contains(" SET TBLPROPERTIES")) {
            run(sql.replaceFirst("(?i)SET TBLPROPERTIES", "SET"));
        } else if (IDENTIFIER.matcher(sql.strip()).matches()) {
            run(IDENTIFIER.matcher(sql.strip()).replaceFirst("ALTER TABLE $1 ADD PRIMARY KEY ($2) NOT ENFORCED"));
        } else if (VIEW.matcher(sql.strip()).matches()) {
            view(sql.strip());
        } else if (UPSERT.matcher(sql.strip()).matches()) {
            upsert(sql.strip());
        } else {
            throw new Wire.Skipped("Flink has no equivalent of " + head.split(" ")[0] + " on an Iceberg table");
        }
    }

    private void create(String sql) throws Exception {
        Matcher m = CREATE.matcher(sql);
        if (!m.matches()) {
            throw new Wire.Skipped("this form of CREATE TABLE");
        }
        String columns = m.group(2).replaceAll("(?i)\\bTIMESTAMP_NTZ\\b", "TIMESTAMP(6) ").replaceAll("(?i)\\bTIMESTAMP\\b(?!\\()", "TIMESTAMP_LTZ(6)")
            .replaceAll("(?i)\\bBINARY\\b", "BYTES").replaceAll("(?i)STRUCT<", "ROW<").replaceAll("(\\w+):", "$1");
        String parts = m.group(3);
        if (parts != null && parts.contains("(")) {
            throw new Wire.Skipped("Flink partitions by columns only, not by transforms");
        }
        run("CREATE TABLE " + m.group(1) + " (" + columns + ")" + (parts == null ? "" : " PARTITIONED BY (" + parts + ")") + (m.group(4) == null ? "" : " WITH " + m.group(4)));
    }

    private void insert(String sql) throws Exception {
        Matcher over = OVERWRITE.matcher(sql);
        if (over.lookingAt() && partitioned(over.group(1))) {
            throw new Wire.Skipped("Flink's INSERT OVERWRITE of a partitioned table leaves the partitions that it brings no rows for");
        }
        Matcher m = VALUES.matcher(sql);
        run(m.matches() && m.group(3).toUpperCase(Locale.ROOT).contains("NULL") ? m.group(1) + nulls(text(m.group(3)), m.group(2)) : text(sql));
    }

    private boolean partitioned(String table) throws Exception {
        ObjectPath path = table.contains(".") ? ObjectPath.fromString(table) : new ObjectPath(tables.getCurrentDatabase(), table);
        return tables.getCatalog(catalog).orElseThrow().getTable(path) instanceof CatalogTable t && t.isPartitioned();
    }

    /** Rows of VALUES with a type at each NULL that is a whole value: Flink takes none without. */
    private String nulls(String rows, String table) throws Exception {
        List<String> types = tables.from(table).getResolvedSchema().getColumns().stream().map(c -> c.getDataType().getLogicalType().copy(true).asSerializableString()).toList();
        StringBuilder out = new StringBuilder();
        int depth = 0;
        int column = 0;
        int start = 0;
        boolean quoted = false;
        for (int i = 0; i < rows.length(); i++) {
            char c = rows.charAt(i);
            quoted ^= c == '\'';
            if (quoted || "(),".indexOf(c) < 0) {
                continue;
            }
            boolean closes = c == ')' && depth == 1;
            if (closes || c == ',' && depth == 1) {
                String value = rows.substring(start, i);
                out.append(value.strip().equalsIgnoreCase("NULL") ? "CAST(NULL AS " + types.get(column) + ")" : value).append(c);
                column = closes ? 0 : column + 1;
                start = i + 1;
            }
            depth += c == '(' ? 1 : c == ')' ? -1 : 0;
            if (c == '(' && depth == 1) {
                out.append(rows, start, i + 1);
                start = i + 1;
            }
        }
        return out.append(rows.substring(start)).toString();
    }

    private void view(String sql) throws Exception {
        Matcher m = VIEW.matcher(sql);
        m.matches();
        String query = text(m.group(2));
        run("DROP TEMPORARY VIEW IF EXISTS " + VIEWS + "`" + m.group(1) + "`");
        run("CREATE TEMPORARY VIEW " + VIEWS + "`" + m.group(1) + "` AS " + query);
        views.add(m.group(1));
    }

    /** The sink's upsert: its key is the table's, by name. */
    private void upsert(String sql) throws Exception {
        Matcher m = UPSERT.matcher(sql);
        m.matches();
        Set<String> asked = new LinkedHashSet<>(Arrays.asList(m.group(3).replace("'", "").split("\\s*,\\s*")));
        Set<String> key = new LinkedHashSet<>();
        tables.getCatalog(catalog).orElseThrow().getTable(ObjectPath.fromString(m.group(1))).getUnresolvedSchema().getPrimaryKey()
            .ifPresent(k -> key.addAll(k.getColumnNames()));
        if (!key.equals(asked)) {
            throw new Wire.Skipped("Flink's sink upserts by the table's identifier fields, which are " + key + " and not " + asked);
        }
        run("INSERT INTO " + m.group(1) + " /*+ OPTIONS('upsert-enabled'='true') */ SELECT * FROM " + VIEWS + "`" + m.group(2) + "`");
    }

    /** Spark's text of a query or an INSERT in Flink's words. */
    private String text(String sql) {
        Matcher m = RANGE.matcher(sql);
        StringBuilder out = new StringBuilder();
        while (m.find()) {
            String[] args = m.group(1).split(",");
            long low = args.length == 1 ? 0 : Long.parseLong(args[0].trim());
            long high = Long.parseLong(args[args.length == 1 ? 0 : 1].trim());
            if (high <= low) {
                throw new Wire.Skipped("an empty range");
            }
            String view = "floe_numbers_" + ranges++;
            tables.createTemporaryView(VIEWS + view, tables.fromDataStream(env.fromSequence(low, high - 1)).as("id"));
            m.appendReplacement(out, VIEWS + view);
        }
        m.appendTail(out);
        String text = out.toString().replaceAll("\\bTIMESTAMP_NTZ'", "TIMESTAMP '").replaceAll("\\bnamed_struct\\(", "row(").replaceAll("(\\d)D\\b", "$1E0")
            .replaceAll("(?<![\\w.'])(-?\\d+(?:\\.\\d+)?)F\\b", "CAST('$1' AS FLOAT)")
            .replaceAll("(?<![A-Za-z])array\\(", "ARRAY[");
        if (text.contains("ARRAY[") || text.contains("row(") || text.contains("map(") || text.contains("make_interval")) {
            throw new Wire.Skipped("the driver does not put these functions into Flink's text");
        }
        for (String view : views) {
            text = text.replaceAll("(?i)\\b(FROM|JOIN) " + view + "\\b(?!\\.)", "$1 " + Matcher.quoteReplacement(VIEWS) + view);
        }
        return text;
    }
}
