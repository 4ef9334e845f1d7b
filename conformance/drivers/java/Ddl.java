import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.expressions.Term;
import org.apache.iceberg.hadoop.HadoopCatalog;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;

/** Spark's words for namespaces, tables, columns and partition fields, in the library's. */
final class Ddl {
    private final HadoopCatalog catalog;
    private String namespace = "";

    Ddl(HadoopCatalog catalog) {
        this.catalog = catalog;
    }

    /** A name in full: one without namespace is in the current one. */
    TableIdentifier ident(String name) {
        String[] parts = (name.contains(".") ? name : namespace + "." + name).split("\\.");
        return TableIdentifier.of(parts[parts.length - 2], parts[parts.length - 1]);
    }

    /** Runs CREATE NAMESPACE, USE or CREATE TABLE; false when the statement is another one. */
    boolean apply(SmallSql sql) {
        if (sql.take("CREATE", "NAMESPACE")) {
            sql.take("IF", "NOT", "EXISTS");
            Namespace ns = Namespace.of(sql.word());
            if (!catalog.namespaceExists(ns)) {
                catalog.createNamespace(ns);
            }
        } else if (sql.take("USE")) {
            namespace = sql.word();
        } else if (sql.take("CREATE", "TABLE")) {
            create(ident(sql.path()), sql);
        } else {
            return false;
        }
        return true;
    }

    /** CREATE TABLE behind its name. */
    private void create(TableIdentifier name, SmallSql sql) {
        sql.need("(");
        List<Types.NestedField> fields = new ArrayList<>();
        int[] last = {0};
        do {
            String column = sql.word();
            int id = ++last[0];
            Type type = type(sql.type(), last);
            boolean required = sql.take("NOT", "NULL");
            fields.add(Types.NestedField.of(id, !required, column, type));
        } while (sql.take(","));
        sql.need(")");
        sql.need("USING", "iceberg");
        Schema schema = new Schema(fields);
        PartitionSpec.Builder spec = PartitionSpec.builderFor(schema);
        if (sql.take("PARTITIONED", "BY", "(")) {
            do {
                partition(spec, sql);
            } while (sql.take(","));
            sql.need(")");
        }
        Map<String, String> properties = new TreeMap<>(sql.take("TBLPROPERTIES") ? sql.pairs() : Map.of());
        sql.end();
        catalog.createTable(name, schema, spec.build(), properties);
    }

    /** Spark's name of a type; ids of nested fields are counted in `last`. */
    static Type type(String text, int[] last) {
        String t = text.toUpperCase(Locale.ROOT);
        if (t.startsWith("DECIMAL(")) {
            String[] args = t.substring(8, t.length() - 1).split(",");
            return Types.DecimalType.of(Integer.parseInt(args[0]), Integer.parseInt(args[1]));
        }
        if (t.startsWith("ARRAY<")) {
            int id = ++last[0];
            return Types.ListType.ofOptional(id, type(text.substring(6, text.length() - 1), last));
        }
        if (t.startsWith("MAP<")) {
            List<String> args = split(text.substring(4, text.length() - 1));
            int key = ++last[0];
            int value = ++last[0];
            return Types.MapType.ofOptional(key, value, type(args.get(0), last), type(args.get(1), last));
        }
        if (t.startsWith("STRUCT<")) {
            List<Types.NestedField> fields = new ArrayList<>();
            for (String field : split(text.substring(7, text.length() - 1))) {
                int colon = field.indexOf(':');
                int id = ++last[0];
                fields.add(Types.NestedField.optional(id, field.substring(0, colon), type(field.substring(colon + 1), last)));
            }
            return Types.StructType.of(fields);
        }
        return switch (t) {
            case "INT" -> Types.IntegerType.get();
            case "BIGINT", "LONG" -> Types.LongType.get();
            case "STRING" -> Types.StringType.get();
            case "BOOLEAN" -> Types.BooleanType.get();
            case "FLOAT" -> Types.FloatType.get();
            case "DOUBLE" -> Types.DoubleType.get();
            case "DATE" -> Types.DateType.get();
            case "TIMESTAMP" -> Types.TimestampType.withZone();
            case "TIMESTAMP_NTZ" -> Types.TimestampType.withoutZone();
            case "BINARY" -> Types.BinaryType.get();
            default -> throw new Wire.Skipped("the driver's small grammar has no type " + text);
        };
    }

    private static List<String> split(String text) {
        List<String> out = new ArrayList<>();
        int depth = 0;
        int start = 0;
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            depth += c == '<' || c == '(' ? 1 : c == '>' || c == ')' ? -1 : 0;
            if (c == ',' && depth == 0) {
                out.add(text.substring(start, i));
                start = i + 1;
            }
        }
        out.add(text.substring(start));
        return out;
    }

    private static void partition(PartitionSpec.Builder spec, SmallSql sql) {
        String name = sql.path();
        if (!sql.take("(")) {
            spec.identity(name);
            return;
        }
        switch (name.toLowerCase(Locale.ROOT)) {
            case "bucket": {
                int n = (int) sql.whole();
                sql.need(",");
                spec.bucket(sql.path(), n);
                break;
            }
            case "truncate": {
                int n = (int) sql.whole();
                sql.need(",");
                spec.truncate(sql.path(), n);
                break;
            }
            case "years":
                spec.year(sql.path());
                break;
            case "months":
                spec.month(sql.path());
                break;
            case "days":
                spec.day(sql.path());
                break;
            case "hours":
                spec.hour(sql.path());
                break;
            default:
                throw sql.beyond();
        }
        sql.need(")");
    }

    /** A partition field as Spark writes it. */
    static Term term(SmallSql sql) {
        String name = sql.path();
        if (!sql.take("(")) {
            return Expressions.ref(name);
        }
        Term out;
        switch (name.toLowerCase(Locale.ROOT)) {
            case "bucket": {
                int n = (int) sql.whole();
                sql.need(",");
                out = Expressions.bucket(sql.path(), n);
                break;
            }
            case "truncate": {
                int n = (int) sql.whole();
                sql.need(",");
                out = Expressions.truncate(sql.path(), n);
                break;
            }
            case "years":
                out = Expressions.year(sql.path());
                break;
            case "months":
                out = Expressions.month(sql.path());
                break;
            case "days":
                out = Expressions.day(sql.path());
                break;
            default:
                throw sql.beyond();
        }
        sql.need(")");
        return out;
    }
}
