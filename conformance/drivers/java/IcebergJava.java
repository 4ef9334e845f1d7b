import java.math.BigDecimal;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.IcebergBuild;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableScan;
import org.apache.iceberg.UpdateProperties;
import org.apache.iceberg.UpdateSchema;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.exceptions.ValidationException;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.hadoop.HadoopCatalog;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;

/** Iceberg's Java library by itself: its catalog, its generic readers and writers, its commits. It has no SQL: a small part of
 * Spark's text is put into calls of the library, the rest is skipped. */
public final class IcebergJava implements Wire.Engine {
    private static final List<String> CAPABILITIES = List.of("v2", "v3", "read-dv", "write-dv", "position-deletes", "equality-deletes", "row-level", "upgrade",
        "lineage", "time-travel", "schema-evolution", "partition-evolution", "branches", "avro", "orc");

    private HadoopCatalog catalog;
    private Ddl ddl;

    public static void main(String[] args) throws Exception {
        Wire.variant = VariantJson::text;
        Wire.serve(new IcebergJava());
    }

    @Override
    public Map<String, Object> start(Map<String, Object> hello) {
        catalog = new HadoopCatalog(new Configuration(), (String) hello.get("warehouse"));
        ddl = new Ddl(catalog);
        return Wire.hello("Apache Iceberg, Java", IcebergBuild.version(), CAPABILITIES);
    }

    @Override
    public boolean refuses(Throwable e) {
        return e instanceof IllegalArgumentException || e instanceof UnsupportedOperationException || e instanceof ValidationException
            || e instanceof AlreadyExistsException || e instanceof NoSuchTableException || e instanceof CommitFailedException;
    }

    @Override
    public Wire.Rows scan(Wire.Table t) {
        Table table = catalog.loadTable(TableIdentifier.of(t.namespace(), t.name()));
        TableScan scan = table.newScan();
        IcebergGenerics.ScanBuilder rows = IcebergGenerics.read(table);
        if (t.snapshot() != null) {
            scan = scan.useSnapshot(t.snapshot());
            rows = rows.useSnapshot(t.snapshot());
        }
        return new Wire.Rows(scan.schema().columns(), rows.build());
    }

    private static final Pattern AGGREGATE = Pattern.compile("(count|sum|max)\\((\\*|\\w+)\\) AS (\\w+)");

    /** Aggregates for the benchmark, over the columns that they name: `SELECT count(*) AS c, sum(n) AS s FROM t`. */
    @Override
    public Wire.Rows query(String text, Wire.Table t) throws Exception {
        Table table = catalog.loadTable(TableIdentifier.of(t.namespace(), t.name()));
        List<String[]> calls = AGGREGATE.matcher(text).results().map(m -> new String[] {m.group(1), m.group(2), m.group(3)}).toList();
        List<String> columns = calls.stream().map(c -> c[1]).filter(c -> !c.equals("*")).distinct().toList();
        if (columns.isEmpty()) {
            throw new Wire.Skipped("the driver answers aggregates of columns only");
        }
        List<Types.NestedField> fields = new ArrayList<>();
        for (String[] c : calls) {
            Type type = c[0].equals("count") ? Types.LongType.get() : table.schema().findType(c[1]);
            if (c[0].equals("sum")) {
                type = type instanceof Types.DecimalType d ? Types.DecimalType.of(38, d.scale()) : Types.LongType.get();
            }
            fields.add(Types.NestedField.optional(fields.size() + 1, c[2], type));
        }
        GenericRecord out = GenericRecord.create(new Schema(fields));
        long count = 0;
        try (CloseableIterable<Record> rows = IcebergGenerics.read(table).select(columns).build()) {
            for (Record row : rows) {
                count++;
                for (int i = 0; i < calls.size(); i++) {
                    Object value = calls.get(i)[1].equals("*") ? null : row.getField(calls.get(i)[1]);
                    if (value != null) {
                        out.set(i, calls.get(i)[0].equals("max") ? greater(out.get(i), value) : sum(out.get(i), value));
                    }
                }
            }
        }
        for (int i = 0; i < calls.size(); i++) {
            if (calls.get(i)[0].equals("count")) {
                out.set(i, count);
            }
        }
        return new Wire.Rows(fields, List.of(out));
    }

    private static Object sum(Object old, Object value) {
        if (value instanceof BigDecimal d) {
            return old == null ? d : ((BigDecimal) old).add(d);
        }
        return (old == null ? 0L : (Long) old) + ((Number) value).longValue();
    }

    @SuppressWarnings("unchecked")
    private static Object greater(Object old, Object value) {
        return old == null || ((Comparable<Object>) value).compareTo(old) > 0 ? value : old;
    }

    @Override
    public Map<String, Object> measure(Map<String, Object> work, long calls) throws Exception {
        switch ((String) work.get("what")) {
            case "decode":
                return Measuring.decode(Path.of((String) work.get("blob")), ((Number) work.get("positions")).longValue(), calls);
            case "plan":
                Wire.Table t = Wire.Table.of(work.get("table"));
                return Measuring.plan(catalog.loadTable(TableIdentifier.of(t.namespace(), t.name())), calls);
            default:
                throw new Wire.Skipped("unknown work " + work.get("what"));
        }
    }

    private Table load(String name) {
        return catalog.loadTable(ddl.ident(name));
    }

    /** `t.branch_b` is branch b of t. */
    private static String[] branch(String name) {
        int at = name.indexOf(".branch_");
        return at < 0 ? new String[] {name, "main"} : new String[] {name.substring(0, at), name.substring(at + 8)};
    }

    @Override
    public void apply(String text, Wire.Table t) throws Exception {
        SmallSql sql = new SmallSql(text);
        if (ddl.apply(sql)) {
            return;
        }
        if (sql.take("INSERT", "INTO")) {
            TableWriter.insert(load(sql.path()), sql, false);
        } else if (sql.take("INSERT", "OVERWRITE")) {
            TableWriter.insert(load(sql.path()), sql, true);
        } else if (sql.take("DELETE", "FROM")) {
            String[] name = branch(sql.path());
            SmallSql.Expr where = sql.take("WHERE") ? sql.expr() : r -> true;
            sql.end();
            TableWriter.change(load(name[0]), name[1], where, null);
        } else if (sql.take("TRUNCATE", "TABLE")) {
            load(sql.path()).newDelete().deleteFromRowFilter(Expressions.alwaysTrue()).commit();
        } else if (sql.take("UPDATE")) {
            String[] name = branch(sql.path());
            sql.need("SET");
            Map<String, SmallSql.Expr> set = new LinkedHashMap<>();
            do {
                String column = sql.path();
                sql.need("=");
                set.put(column, sql.expr());
            } while (sql.take(","));
            SmallSql.Expr where = sql.take("WHERE") ? sql.expr() : r -> true;
            sql.end();
            TableWriter.change(load(name[0]), name[1], where, set);
        } else if (sql.take("ALTER", "TABLE")) {
            alter(sql);
        } else if (sql.take("CALL")) {
            call(sql);
        } else {
            throw sql.beyond();
        }
    }

    private void alter(SmallSql sql) {
        Table table = load(sql.path());
        if (sql.take("SET", "TBLPROPERTIES")) {
            UpdateProperties update = table.updateProperties();
            sql.pairs().forEach(update::set);
            update.commit();
        } else if (sql.take("UNSET", "TBLPROPERTIES", "(")) {
            UpdateProperties update = table.updateProperties();
            do {
                update.remove(sql.value().toString());
            } while (sql.take(","));
            sql.need(")");
            update.commit();
        } else if (sql.take("ADD", "PARTITION", "FIELD")) {
            table.updateSpec().addField(Ddl.term(sql)).commit();
        } else if (sql.take("DROP", "PARTITION", "FIELD")) {
            table.updateSpec().removeField(Ddl.term(sql)).commit();
        } else if (sql.take("ADD", "COLUMN")) {
            String column = sql.word();
            UpdateSchema update = table.updateSchema().addColumn(column, Ddl.type(sql.type(), new int[] {0}));
            if (sql.take("AFTER")) {
                update.moveAfter(column, sql.word());
            } else if (sql.take("FIRST")) {
                update.moveFirst(column);
            }
            update.commit();
        } else if (sql.take("DROP", "COLUMN")) {
            table.updateSchema().deleteColumn(sql.path()).commit();
        } else if (sql.take("RENAME", "COLUMN")) {
            String column = sql.path();
            sql.need("TO");
            table.updateSchema().renameColumn(column, sql.word()).commit();
        } else if (sql.take("ALTER", "COLUMN")) {
            String column = sql.path();
            sql.need("TYPE");
            table.updateSchema().updateColumn(column, Ddl.type(sql.type(), new int[] {0}).asPrimitiveType()).commit();
        } else if (sql.take("CREATE", "TAG")) {
            table.manageSnapshots().createTag(sql.word(), table.currentSnapshot().snapshotId()).commit();
        } else if (sql.take("CREATE", "BRANCH")) {
            table.manageSnapshots().createBranch(sql.word(), table.currentSnapshot().snapshotId()).commit();
        } else {
            throw sql.beyond();
        }
        sql.end();
    }

    private void call(SmallSql sql) throws Exception {
        String[] path = sql.path().split("\\.");
        String name = path[path.length - 1];
        sql.need("(");
        Map<String, Object> args = new LinkedHashMap<>();
        do {
            if (args.isEmpty()) {
                sql.take("table", "=>");
                args.put("table", sql.value());
                continue;
            }
            String key = sql.word();
            sql.need("=>");
            if (sql.take("map", "(")) {
                do {
                    sql.value();
                } while (sql.take(","));
                sql.need(")");
                args.put(key, Map.of());
            } else {
                args.put(key, sql.value());
            }
        } while (sql.take(","));
        sql.need(")");
        sql.end();
        Table table = load((String) args.get("table"));
        switch (name) {
            case "rewrite_manifests":
                table.rewriteManifests().rewriteIf(m -> true).clusterBy(f -> 0).commit();
                break;
            case "expire_snapshots":
                table.expireSnapshots().expireOlderThan(((java.time.OffsetDateTime) args.get("older_than")).toInstant().toEpochMilli())
                    .retainLast(((Number) args.getOrDefault("retain_last", 1L)).intValue()).cleanExpiredFiles(true).commit();
                break;
            case "set_current_snapshot":
                table.manageSnapshots().setCurrentSnapshot(table.refs().get((String) args.get("ref")).snapshotId()).commit();
                break;
            case "rollback_to_snapshot":
                table.manageSnapshots().rollbackTo(((Number) args.get("snapshot_id")).longValue()).commit();
                break;
            case "rewrite_data_files":
                TableWriter.compact(table);
                break;
            default:
                throw new Wire.Skipped("the library has no procedure " + name);
        }
    }
}
