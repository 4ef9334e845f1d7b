import java.math.BigDecimal;
import java.math.RoundingMode;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.time.format.DateTimeFormatterBuilder;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Words and expressions of Spark's SQL, as far as a program over a table library needs them; what is beyond is skipped. */
final class SmallSql {
    /** An expression: from a column's value by its path to a value; null is unknown. */
    interface Expr {
        Object at(Function<String, Object> row);
    }

    private static final Pattern TOKEN = Pattern.compile(
        "\\s*(?:(?:(X|DATE|TIMESTAMP_NTZ|TIMESTAMP)\\s*)?('(?:[^'\\\\]|''|\\\\.)*')|(\\d+(?:\\.\\d+)?)([DFL]?)\\b|([A-Za-z_]\\w*)|(<=|>=|<>|!=|=>|[-+*/%=<>(),.;:\\[\\]]))",
        Pattern.CASE_INSENSITIVE);
    private static final DateTimeFormatter MOMENT = new DateTimeFormatterBuilder().appendPattern("uuuu-MM-dd[ ]['T'][HH:mm:ss]")
        .appendFraction(java.time.temporal.ChronoField.NANO_OF_SECOND, 0, 9, true).toFormatter(Locale.ROOT);

    /** A token; `kind` is w(ord), v(alue) or s(ymbol). */
    private record Token(char kind, String text, Object value) {}

    private final List<Token> tokens = new ArrayList<>();
    private int at;

    SmallSql(String sql) {
        Matcher m = TOKEN.matcher(sql.strip());
        int end = 0;
        while (end < sql.strip().length() && m.find(end) && m.start() == end) {
            end = m.end();
            if (m.group(2) != null) {
                String text = m.group(2).substring(1, m.group(2).length() - 1).replace("''", "'");
                tokens.add(new Token('v', text, literal(m.group(1), text)));
            } else if (m.group(3) != null) {
                tokens.add(new Token('v', m.group(3), number(m.group(3), m.group(4))));
            } else if (m.group(5) != null) {
                tokens.add(new Token('w', m.group(5), null));
            } else {
                tokens.add(new Token('s', m.group(6), null));
            }
        }
        if (end < sql.strip().length()) {
            throw new Wire.Skipped("the driver's grammar has no " + sql.strip().substring(end));
        }
    }

    private static Object literal(String kind, String text) {
        switch (kind == null ? "" : kind.toUpperCase(Locale.ROOT)) {
            case "X":
                return ByteBuffer.wrap(HexFormat.of().parseHex(text));
            case "DATE":
                return LocalDate.parse(text);
            case "TIMESTAMP_NTZ":
                return LocalDateTime.parse(text, MOMENT);
            case "TIMESTAMP":
                return LocalDateTime.parse(text, MOMENT).atOffset(ZoneOffset.UTC);
            default:
                return text;
        }
    }

    private static Object number(String digits, String suffix) {
        switch (suffix.toUpperCase(Locale.ROOT)) {
            case "D":
                return Double.valueOf(digits);
            case "F":
                return Float.valueOf(digits);
            default:
                return digits.contains(".") || digits.length() > 18 && new BigDecimal(digits).compareTo(BigDecimal.valueOf(Long.MAX_VALUE)) > 0
                    ? (Object) new BigDecimal(digits) : Long.valueOf(digits);
        }
    }

    // ---- words

    /** Whether the next words are these; takes them if so. */
    boolean take(String... words) {
        for (int i = 0; i < words.length; i++) {
            if (at + i >= tokens.size() || tokens.get(at + i).kind == 'v' || !tokens.get(at + i).text.equalsIgnoreCase(words[i])) {
                return false;
            }
        }
        at += words.length;
        return true;
    }

    void need(String... words) {
        if (!take(words)) {
            throw beyond();
        }
    }

    boolean ended() {
        return at >= tokens.size() || at == tokens.size() - 1 && tokens.get(at).text.equals(";");
    }

    void end() {
        if (!ended()) {
            throw beyond();
        }
    }

    /** What the grammar does not reach. */
    Wire.Skipped beyond() {
        StringBuilder rest = new StringBuilder();
        tokens.subList(Math.min(at, tokens.size()), Math.min(at + 6, tokens.size())).forEach(t -> rest.append(' ').append(t.text));
        return new Wire.Skipped("the driver's small grammar ends at:" + rest);
    }

    String word() {
        if (at >= tokens.size() || tokens.get(at).kind != 'w') {
            throw beyond();
        }
        return tokens.get(at++).text;
    }

    Object value() {
        if (at >= tokens.size() || tokens.get(at).kind != 'v') {
            throw beyond();
        }
        return tokens.get(at++).value;
    }

    long whole() {
        boolean minus = take("-");
        Object v = value();
        if (!(v instanceof Long n)) {
            throw beyond();
        }
        return minus ? -n : n;
    }

    /** Words joined by dots. */
    String path() {
        StringBuilder out = new StringBuilder(word());
        while (take(".")) {
            out.append('.').append(word());
        }
        return out.toString();
    }

    /** `('k'='v', …)`. */
    Map<String, String> pairs() {
        Map<String, String> out = new LinkedHashMap<>();
        need("(");
        do {
            String key = value().toString();
            need("=");
            out.put(key, value().toString());
        } while (take(","));
        need(")");
        return out;
    }

    /** Text of a type: words, numbers and brackets up to the next comma or closing bracket outside. */
    String type() {
        StringBuilder out = new StringBuilder();
        int depth = 0;
        for (; at < tokens.size(); at++) {
            String t = tokens.get(at).text;
            if (depth == 0 && (t.equals(",") || t.equals(")") || t.equals(";") || t.equalsIgnoreCase("AFTER") || t.equalsIgnoreCase("FIRST") || t.equalsIgnoreCase("NOT"))) {
                break;
            }
            depth += t.equals("<") || t.equals("(") ? 1 : t.equals(">") || t.equals(")") ? -1 : 0;
            out.append(t).append(t.equals(",") ? "" : " ");
        }
        return out.toString().replace(" ", "");
    }

    // ---- expressions

    List<Expr> list() {
        List<Expr> out = new ArrayList<>();
        do {
            out.add(expr());
        } while (take(","));
        return out;
    }

    Expr expr() {
        Expr left = and();
        while (take("OR")) {
            Expr a = left;
            Expr b = and();
            left = r -> {
                Object x = a.at(r);
                Object y = b.at(r);
                return Boolean.TRUE.equals(x) || Boolean.TRUE.equals(y) ? Boolean.TRUE : x == null || y == null ? null : Boolean.FALSE;
            };
        }
        return left;
    }

    private Expr and() {
        Expr left = not();
        while (take("AND")) {
            Expr a = left;
            Expr b = not();
            left = r -> {
                Object x = a.at(r);
                Object y = b.at(r);
                return Boolean.FALSE.equals(x) || Boolean.FALSE.equals(y) ? Boolean.FALSE : x == null || y == null ? null : Boolean.TRUE;
            };
        }
        return left;
    }

    private static Expr negate(Expr e) {
        return r -> {
            Object x = e.at(r);
            return x == null ? null : !(Boolean) x;
        };
    }

    private Expr not() {
        return take("NOT") ? negate(not()) : comparison();
    }

    private Expr comparison() {
        Expr a = sum();
        if (take("IS", "NOT", "NULL")) {
            return r -> a.at(r) != null;
        }
        if (take("IS", "NULL")) {
            return r -> a.at(r) == null;
        }
        boolean not = take("NOT");
        if (take("IN")) {
            need("(");
            if (at < tokens.size() && tokens.get(at).text.equalsIgnoreCase("SELECT")) {
                throw beyond();
            }
            List<Expr> choices = list();
            need(")");
            Expr in = r -> {
                Object x = a.at(r);
                Boolean found = x == null ? null : Boolean.FALSE;
                for (Expr c : choices) {
                    Object y = c.at(r);
                    if (x != null && y != null && compare(x, y) == 0) {
                        return Boolean.TRUE;
                    }
                    found = y == null ? null : found;
                }
                return found;
            };
            return not ? negate(in) : in;
        }
        if (take("BETWEEN")) {
            Expr low = sum();
            need("AND");
            Expr high = sum();
            Expr in = r -> {
                Object x = a.at(r);
                Object l = low.at(r);
                Object h = high.at(r);
                return x == null || l == null || h == null ? null : (Object) (compare(x, l) >= 0 && compare(x, h) <= 0);
            };
            return not ? negate(in) : in;
        }
        if (take("LIKE")) {
            String pattern = value().toString();
            StringBuilder regex = new StringBuilder();
            for (char c : pattern.toCharArray()) {
                regex.append(c == '%' ? ".*" : c == '_' ? "." : Pattern.quote(String.valueOf(c)));
            }
            Pattern p = Pattern.compile(regex.toString(), Pattern.DOTALL);
            Expr like = r -> {
                Object x = a.at(r);
                return x == null ? null : (Object) p.matcher(x.toString()).matches();
            };
            return not ? negate(like) : like;
        }
        for (String op : new String[] {"=", "<>", "!=", "<=", ">=", "<", ">"}) {
            if (take(op)) {
                Expr b = sum();
                return r -> {
                    Object x = a.at(r);
                    Object y = b.at(r);
                    if (x == null || y == null) {
                        return null;
                    }
                    int c = compare(x, y);
                    return switch (op) {
                        case "=" -> c == 0;
                        case "<>", "!=" -> c != 0;
                        case "<=" -> c <= 0;
                        case ">=" -> c >= 0;
                        case "<" -> c < 0;
                        default -> c > 0;
                    };
                };
            }
        }
        return a;
    }

    private Expr sum() {
        Expr left = product();
        while (true) {
            String op = take("+") ? "+" : take("-") ? "-" : null;
            if (op == null) {
                return left;
            }
            Expr a = left;
            Expr b = product();
            left = r -> arithmetic(op, a.at(r), b.at(r));
        }
    }

    private Expr product() {
        Expr left = unary();
        while (true) {
            String op = take("*") ? "*" : take("%") ? "%" : null;
            if (op == null) {
                return left;
            }
            Expr a = left;
            Expr b = unary();
            left = r -> arithmetic(op, a.at(r), b.at(r));
        }
    }

    private Expr unary() {
        if (take("-")) {
            Expr e = unary();
            return r -> {
                Object x = e.at(r);
                return x == null ? null : x instanceof Double d ? (Object) (-d) : x instanceof Float f ? (Object) (-f) : arithmetic("-", 0L, x);
            };
        }
        return primary();
    }

    private Expr primary() {
        if (take("(")) {
            Expr e = expr();
            need(")");
            return e;
        }
        if (at < tokens.size() && tokens.get(at).kind == 'v') {
            Object v = value();
            return r -> v;
        }
        if (take("NULL")) {
            return r -> null;
        }
        if (take("TRUE")) {
            return r -> true;
        }
        if (take("FALSE")) {
            return r -> false;
        }
        if (take("CAST", "(")) {
            Expr e = expr();
            need("AS");
            String type = type();
            need(")");
            return r -> cast(e.at(r), type);
        }
        if (take("CASE", "WHEN")) {
            List<Expr[]> arms = new ArrayList<>();
            do {
                Expr when = expr();
                need("THEN");
                arms.add(new Expr[] {when, expr()});
            } while (take("WHEN"));
            Expr other = take("ELSE") ? expr() : r -> null;
            need("END");
            return r -> {
                for (Expr[] arm : arms) {
                    if (Boolean.TRUE.equals(arm[0].at(r))) {
                        return arm[1].at(r);
                    }
                }
                return other.at(r);
            };
        }
        String name = path();
        if (!take("(")) {
            return r -> r.apply(name);
        }
        List<Expr> args = take(")") ? List.of() : list();
        if (!args.isEmpty()) {
            need(")");
        }
        return function(name.toLowerCase(Locale.ROOT), args);
    }

    private Expr function(String name, List<Expr> args) {
        switch (name) {
            case "coalesce":
                return r -> args.stream().map(a -> a.at(r)).filter(x -> x != null).findFirst().orElse(null);
            case "concat":
                return r -> {
                    StringBuilder out = new StringBuilder();
                    for (Expr a : args) {
                        Object x = a.at(r);
                        if (x == null) {
                            return null;
                        }
                        out.append(x);
                    }
                    return out.toString();
                };
            case "isnan":
                return r -> args.get(0).at(r) instanceof Number n && Double.isNaN(n.doubleValue());
            case "array":
                return r -> values(args, r);
            case "map":
                return r -> {
                    Map<Object, Object> out = new LinkedHashMap<>();
                    for (int i = 0; i < args.size(); i += 2) {
                        out.put(args.get(i).at(r), args.get(i + 1).at(r));
                    }
                    return out;
                };
            case "named_struct":
                return r -> {
                    Object[] out = new Object[args.size() / 2];
                    for (int i = 0; i < out.length; i++) {
                        out[i] = args.get(2 * i + 1).at(r);
                    }
                    return out;
                };
            default:
                throw new Wire.Skipped("the driver's small grammar has no function " + name);
        }
    }

    private static List<Object> values(List<Expr> args, Function<String, Object> row) {
        List<Object> out = new ArrayList<>();
        args.forEach(a -> out.add(a.at(row)));
        return out;
    }

    private static Object cast(Object v, String type) {
        if (v == null) {
            return null;
        }
        switch (type.toUpperCase(Locale.ROOT)) {
            case "INT":
            case "BIGINT":
            case "LONG":
                return v instanceof Number n ? n.longValue() : Long.valueOf(v.toString());
            case "STRING":
                return v.toString();
            case "FLOAT":
                return v instanceof Number n ? (Object) n.floatValue() : Float.valueOf(v.toString());
            case "DOUBLE":
                return v instanceof Number n ? (Object) n.doubleValue() : Double.valueOf(v.toString());
            default:
                throw new Wire.Skipped("the driver's small grammar has no CAST to " + type);
        }
    }

    private static Object arithmetic(String op, Object a, Object b) {
        if (a == null || b == null) {
            return null;
        }
        if (!(a instanceof Number x) || !(b instanceof Number y)) {
            throw new Wire.Skipped("the driver's small grammar has no arithmetic on " + a.getClass().getSimpleName());
        }
        if (a instanceof Double || b instanceof Double || a instanceof Float || b instanceof Float) {
            double p = x.doubleValue();
            double q = y.doubleValue();
            return switch (op) {
                case "+" -> p + q;
                case "-" -> p - q;
                case "*" -> p * q;
                default -> p % q;
            };
        }
        BigDecimal p = new BigDecimal(a.toString());
        BigDecimal q = new BigDecimal(b.toString());
        BigDecimal out = switch (op) {
            case "+" -> p.add(q);
            case "-" -> p.subtract(q);
            case "*" -> p.multiply(q);
            default -> p.remainder(q);
        };
        boolean whole = !(a instanceof BigDecimal) && !(b instanceof BigDecimal);
        return whole ? (Object) out.longValueExact() : out;
    }

    /** Order of two values; NaN is equal to itself and above all, minus zero equals zero, text goes by its UTF-8 bytes. */
    static int compare(Object a, Object b) {
        if (a instanceof Number && b instanceof Number) {
            if (a instanceof Double || b instanceof Double || a instanceof Float || b instanceof Float) {
                return Double.compare(((Number) a).doubleValue() + 0.0, ((Number) b).doubleValue() + 0.0);
            }
            return new BigDecimal(a.toString()).compareTo(new BigDecimal(b.toString()));
        }
        if (a instanceof CharSequence && b instanceof CharSequence) {
            return java.util.Arrays.compareUnsigned(a.toString().getBytes(StandardCharsets.UTF_8), b.toString().getBytes(StandardCharsets.UTF_8));
        }
        if (a instanceof OffsetDateTime || b instanceof OffsetDateTime || a instanceof LocalDateTime || b instanceof LocalDateTime) {
            return moment(a).compareTo(moment(b));
        }
        if (a instanceof LocalDate x && b instanceof LocalDate y) {
            return x.compareTo(y);
        }
        if (a instanceof Boolean x && b instanceof Boolean y) {
            return x.compareTo(y);
        }
        if (a instanceof ByteBuffer x && b instanceof ByteBuffer y) {
            return x.compareTo(y);
        }
        throw new Wire.Skipped("the driver's small grammar cannot compare " + a.getClass().getSimpleName() + " and " + b.getClass().getSimpleName());
    }

    private static LocalDateTime moment(Object v) {
        return v instanceof OffsetDateTime o ? o.withOffsetSameInstant(ZoneOffset.UTC).toLocalDateTime() : v instanceof LocalDate d ? d.atStartOfDay() : (LocalDateTime) v;
    }

    /** Exact decimal of a scale. */
    static BigDecimal decimal(Object v, int scale) {
        return new BigDecimal(v.toString()).setScale(scale, RoundingMode.HALF_UP);
    }
}
