import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.iceberg.IcebergBuild;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;

/** The driver protocol: JSON lines on standard input and output; whatever the engine prints goes to standard error. */
final class Wire {
    /** The engine said no in so many words. */
    static final class Refused extends RuntimeException {
        Refused(String message) {
            super(message);
        }
    }

    /** This driver has no way to ask. */
    static final class Skipped extends RuntimeException {
        Skipped(String reason) {
            super(reason);
        }
    }

    /** A table as the harness names it. */
    record Table(String namespace, String name, String location, String metadata, Long snapshot) {
        static Table of(Object json) {
            Map<?, ?> m = (Map<?, ?>) json;
            Object snapshot = m.get("snapshot");
            Long id = snapshot == null ? null : Long.valueOf(((Number) snapshot).longValue());
            return new Table((String) m.get("namespace"), (String) m.get("name"), (String) m.get("location"), (String) m.get("metadata"), id);
        }
    }

    /** Columns and rows of an answer; a row's values are in the order of the columns. */
    record Rows(List<Types.NestedField> columns, Iterable<? extends StructLike> rows) {}

    /** What an engine that reads and writes the warehouse's Hadoop catalog says of itself. */
    static Map<String, Object> hello(String engine, String version, List<String> capabilities) {
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("engine", engine);
        out.put("version", version);
        out.put("iceberg", IcebergBuild.version());
        out.put("roles", List.of("write", "read"));
        out.put("catalogs", List.of("hadoop"));
        out.put("sql", false);
        out.put("capabilities", capabilities);
        return out;
    }

    /** What an engine's driver does; what it cannot do it need not define. */
    interface Engine {
        Map<String, Object> start(Map<String, Object> hello) throws Exception;

        default void apply(String sql, Table table) throws Exception {
            throw new Skipped("this driver writes nothing");
        }

        default Rows scan(Table table) throws Exception {
            throw new Skipped("this driver reads nothing");
        }

        default Rows query(String sql, Table table) throws Exception {
            throw new Skipped("this driver takes no SQL");
        }

        default Rows changes(Table table, Long from, Long to) throws Exception {
            throw new Skipped("this driver reads no changes");
        }

        /** Does what `work` says `calls` times: `seconds` of all calls, `count`, `check`. */
        default Map<String, Object> measure(Map<String, Object> work, long calls) throws Exception {
            throw new Skipped("this driver measures nothing");
        }

        /** Whether the engine declined with this. */
        default boolean refuses(Throwable e) {
            return e instanceof IllegalArgumentException || e instanceof UnsupportedOperationException;
        }

        default void stop() throws Exception {}
    }

    private static final int PROTOCOL = 1;

    static void serve(Engine engine) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.isBlank()) {
                continue;
            }
            @SuppressWarnings("unchecked")
            Map<String, Object> request = (Map<String, Object>) Json.parse(line);
            Map<String, Object> reply = new LinkedHashMap<>();
            reply.put("id", request.get("id"));
            try {
                reply.put("ok", handle(engine, request));
            } catch (Skipped e) {
                reply.put("skipped", Map.of("reason", words(e)));
            } catch (Throwable e) {
                e.printStackTrace();
                Throwable cause = e;
                while (!(cause instanceof Refused) && !engine.refuses(cause) && cause.getCause() != null) {
                    cause = cause.getCause();
                }
                boolean no = cause instanceof Refused || engine.refuses(cause);
                Throwable root = cause;
                while (root.getCause() != null) {
                    root = root.getCause();
                }
                String message = words(no ? cause : e) + (root == cause ? "" : ": " + words(root));
                reply.put(no ? "refused" : "error", no ? Map.of("message", message) : Map.of("message", message, "class", e.getClass().getSimpleName()));
            }
            out.println(Json.write(reply));
            if ("stop".equals(request.get("cmd"))) {
                break;
            }
        }
        System.exit(0);
    }

    private static String words(Throwable e) {
        String text = e.getMessage() == null ? e.getClass().getName() : e.getMessage();
        text = text.replaceAll("\\s+", " ").trim();
        return text.substring(0, Math.min(text.length(), 1000));
    }

    private static Object handle(Engine engine, Map<String, Object> request) throws Exception {
        String sql = (String) request.get("sql");
        Object limit = request.getOrDefault("limit", 1000L);
        switch ((String) request.get("cmd")) {
            case "hello": {
                Map<String, Object> hello = new LinkedHashMap<>(Map.of("protocol", PROTOCOL));
                hello.putAll(engine.start(request));
                return hello;
            }
            case "apply":
                engine.apply(sql, Table.of(request.get("table")));
                return Map.of();
            case "scan":
                return encode(engine.scan(Table.of(request.get("table"))), ((Number) limit).longValue());
            case "query":
                return encode(engine.query(sql, Table.of(request.get("table"))), ((Number) limit).longValue());
            case "changes":
                return encode(engine.changes(Table.of(request.get("table")), id(request.get("from")), id(request.get("to"))), ((Number) limit).longValue());
            case "measure":
                return engine.measure(request, ((Number) request.get("calls")).longValue());
            case "stop":
                engine.stop();
                return Map.of();
            default:
                throw new Skipped("unknown command " + request.get("cmd"));
        }
    }

    private static Long id(Object json) {
        return json == null ? null : Long.valueOf(((Number) json).longValue());
    }

    private static Map<String, Object> encode(Rows answer, long limit) throws Exception {
        MessageDigest sha = MessageDigest.getInstance("SHA-256");
        List<Object> kept = new ArrayList<>();
        long count = 0;
        long digest = 0;
        try (AutoCloseable open = answer.rows() instanceof AutoCloseable c ? c : () -> {}) {
            for (StructLike row : answer.rows()) {
                List<Object> line = new ArrayList<>();
                for (int i = 0; i < answer.columns().size(); i++) {
                    line.add(value(answer.columns().get(i).type(), row.get(i, Object.class)));
                }
                digest += ByteBuffer.wrap(sha.digest(Json.write(line).getBytes(StandardCharsets.UTF_8))).getLong();
                if (++count <= limit) {
                    kept.add(line);
                }
            }
        }
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("columns", answer.columns().stream().map(f -> List.of(f.name(), name(f.type()))).collect(Collectors.toList()));
        out.put("count", count);
        out.put("digest", String.format("%016x", digest));
        if (count <= limit) {
            out.put("rows", kept);
        }
        return out;
    }

    /** JSON text of a variant; an engine whose library has variants sets it. */
    static java.util.function.Function<Object, Object> variant = Object::toString;

    /** A type in the protocol's words. */
    static String name(Type type) {
        switch (type.typeId().name()) {
            case "LIST":
                return "list<" + name(type.asListType().elementType()) + ">";
            case "MAP":
                return "map<" + name(type.asMapType().keyType()) + "," + name(type.asMapType().valueType()) + ">";
            case "STRUCT":
                return "struct<" + type.asStructType().fields().stream().map(f -> f.name() + ":" + name(f.type())).collect(Collectors.joining(",")) + ">";
            case "GEOMETRY":
            case "GEOGRAPHY":
                return "binary"; // their values are well-known binary
            default:
                return type.toString().replace(", ", ",");
        }
    }

    /** A value in the protocol's form. Enumerated by name: older Iceberg libraries lack some types. */
    static Object value(Type type, Object v) {
        if (v == null) {
            return null;
        }
        switch (type.typeId().name()) {
            case "BOOLEAN":
            case "INTEGER":
            case "LONG":
                return v;
            case "FLOAT": {
                float f = ((Number) v).floatValue();
                return Float.isNaN(f) ? "7fc00000" : String.format("%08x", Float.floatToRawIntBits(f));
            }
            case "DOUBLE": {
                double d = ((Number) v).doubleValue();
                return Double.isNaN(d) ? "7ff8000000000000" : String.format("%016x", Double.doubleToRawLongBits(d));
            }
            case "DECIMAL":
                return ((BigDecimal) v).setScale(((Types.DecimalType) type).scale()).toPlainString();
            case "DATE":
                return v instanceof Integer days ? LocalDate.ofEpochDay(days).toString() : v.toString();
            case "TIME":
                return ((LocalTime) v).format(DateTimeFormatter.ofPattern("HH:mm:ss.SSSSSS"));
            case "TIMESTAMP":
            case "TIMESTAMP_NANO": {
                boolean nanos = type.typeId().name().endsWith("NANO");
                boolean zoned = type.toString().startsWith("timestamptz");
                LocalDateTime at = v instanceof OffsetDateTime o ? o.withOffsetSameInstant(ZoneOffset.UTC).toLocalDateTime()
                    : v instanceof Instant i ? LocalDateTime.ofInstant(i, ZoneOffset.UTC) : (LocalDateTime) v;
                return at.format(DateTimeFormatter.ofPattern("uuuu-MM-dd'T'HH:mm:ss." + (nanos ? "SSSSSSSSS" : "SSSSSS"))) + (zoned ? "Z" : "");
            }
            case "FIXED":
            case "BINARY":
            case "GEOMETRY":
            case "GEOGRAPHY": {
                StringBuilder hex = new StringBuilder();
                ByteBuffer bytes = v instanceof byte[] b ? ByteBuffer.wrap(b) : ((ByteBuffer) v).duplicate();
                while (bytes.hasRemaining()) {
                    hex.append(String.format("%02x", bytes.get()));
                }
                return hex.toString();
            }
            case "VARIANT":
                return variant.apply(v);
            case "LIST":
                return ((List<?>) v).stream().map(x -> value(type.asListType().elementType(), x)).collect(Collectors.toCollection(ArrayList::new));
            case "MAP": {
                List<List<Object>> pairs = new ArrayList<>();
                ((Map<?, ?>) v).forEach((k, x) -> {
                    List<Object> pair = new ArrayList<>();
                    pair.add(value(type.asMapType().keyType(), k));
                    pair.add(value(type.asMapType().valueType(), x));
                    pairs.add(pair);
                });
                pairs.sort(Comparator.comparing(p -> Json.write(p.get(0))));
                return pairs;
            }
            case "STRUCT": {
                List<Object> fields = new ArrayList<>();
                List<Types.NestedField> names = type.asStructType().fields();
                for (int i = 0; i < names.size(); i++) {
                    fields.add(value(names.get(i).type(), ((StructLike) v).get(i, Object.class)));
                }
                return fields;
            }
            default:
                return v.toString();
        }
    }
}
