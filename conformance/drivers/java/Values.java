import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.Schema;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;

/** Rows of an INSERT as the library's generic records. */
final class Values {
    private Values() {}

    /** What stands behind `INSERT INTO t`: VALUES, or a SELECT of expressions, of a range or of nothing. */
    static List<Record> of(Schema schema, SmallSql sql) {
        List<List<SmallSql.Expr>> lines = new ArrayList<>();
        long low = 0;
        long high = 1;
        if (sql.take("VALUES")) {
            do {
                sql.need("(");
                lines.add(sql.list());
                sql.need(")");
            } while (sql.take(","));
        } else {
            sql.need("SELECT");
            lines.add(sql.list());
            if (sql.take("FROM")) {
                sql.need("range", "(");
                high = sql.whole();
                if (sql.take(",")) {
                    low = high;
                    high = sql.whole();
                    while (sql.take(",")) {
                        sql.whole();
                    }
                }
                sql.need(")");
            }
        }
        sql.end();
        List<Record> rows = new ArrayList<>();
        for (long id = low; id < high; id++) {
            long now = id;
            for (List<SmallSql.Expr> line : lines) {
                if (line.size() != schema.columns().size()) {
                    throw new Wire.Refused(line.size() + " values for " + schema.columns().size() + " columns");
                }
                GenericRecord row = GenericRecord.create(schema);
                for (int i = 0; i < line.size(); i++) {
                    row.set(i, stored(schema.columns().get(i).type(), line.get(i).at(c -> now)));
                }
                rows.add(row);
            }
        }
        return rows;
    }

    /** A value as the library's generic records hold it. */
    static Object stored(Type type, Object v) {
        if (v == null) {
            return null;
        }
        switch (type.typeId()) {
            case INTEGER:
                return Math.toIntExact(((Number) v).longValue());
            case LONG:
                return ((Number) v).longValue();
            case FLOAT:
                return ((Number) v).floatValue();
            case DOUBLE:
                return ((Number) v).doubleValue();
            case DECIMAL:
                return SmallSql.decimal(v, ((Types.DecimalType) type).scale());
            case TIMESTAMP: {
                boolean zoned = ((Types.TimestampType) type).shouldAdjustToUTC();
                return v instanceof LocalDateTime l && zoned ? l.atOffset(ZoneOffset.UTC) : v instanceof OffsetDateTime o && !zoned ? o.toLocalDateTime() : v;
            }
            case LIST: {
                List<Object> out = new ArrayList<>();
                ((List<?>) v).forEach(x -> out.add(stored(type.asListType().elementType(), x)));
                return out;
            }
            case MAP: {
                Map<Object, Object> out = new LinkedHashMap<>();
                ((Map<?, ?>) v).forEach((k, x) -> out.put(stored(type.asMapType().keyType(), k), stored(type.asMapType().valueType(), x)));
                return out;
            }
            case STRUCT: {
                GenericRecord out = GenericRecord.create(type.asStructType());
                Object[] values = v instanceof Object[] a ? a : null;
                for (int i = 0; i < out.size(); i++) {
                    out.set(i, stored(type.asStructType().fields().get(i).type(), values == null ? ((StructLike) v).get(i, Object.class) : values[i]));
                }
                return out;
            }
            default:
                return v;
        }
    }
}
