import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** JSON without a library, since each engine brings its own: maps, lists, strings, numbers, booleans and null. */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    static Object parse(String text) {
        Json j = new Json(text);
        Object value = j.value();
        j.space();
        if (j.at != text.length()) {
            throw new IllegalArgumentException("text after the JSON value");
        }
        return value;
    }

    private void space() {
        while (at < text.length() && Character.isWhitespace(text.charAt(at))) {
            at++;
        }
    }

    private void expect(String word) {
        if (!text.startsWith(word, at)) {
            throw new IllegalArgumentException("expected " + word + " at offset " + at);
        }
        at += word.length();
    }

    private Object value() {
        space();
        char c = text.charAt(at);
        switch (c) {
            case '{': {
                Map<String, Object> map = new LinkedHashMap<>();
                at++;
                for (space(); text.charAt(at) != '}'; space()) {
                    if (!map.isEmpty()) {
                        expect(",");
                        space();
                    }
                    String key = string();
                    space();
                    expect(":");
                    map.put(key, value());
                }
                at++;
                return map;
            }
            case '[': {
                List<Object> list = new ArrayList<>();
                at++;
                for (space(); text.charAt(at) != ']'; space()) {
                    if (!list.isEmpty()) {
                        expect(",");
                    }
                    list.add(value());
                }
                at++;
                return list;
            }
            case '"':
                return string();
            case 't':
                expect("true");
                return true;
            case 'f':
                expect("false");
                return false;
            case 'n':
                expect("null");
                return null;
            default: {
                int start = at;
                while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) {
                    at++;
                }
                String number = text.substring(start, at);
                return number.matches("-?\\d{1,18}") ? (Object) Long.valueOf(number) : new BigDecimal(number);
            }
        }
    }

    private String string() {
        expect("\"");
        StringBuilder out = new StringBuilder();
        while (text.charAt(at) != '"') {
            char c = text.charAt(at++);
            if (c != '\\') {
                out.append(c);
                continue;
            }
            char escape = text.charAt(at++);
            if (escape == 'u') {
                out.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                at += 4;
            } else {
                int plain = "bfnrt".indexOf(escape);
                out.append(plain >= 0 ? "\b\f\n\r\t".charAt(plain) : escape);
            }
        }
        at++;
        return out.toString();
    }

    /** Compact text, escaping no more than must be. */
    static String write(Object value) {
        StringBuilder out = new StringBuilder();
        write(value, out);
        return out.toString();
    }

    private static void write(Object value, StringBuilder out) {
        if (value instanceof Map) {
            String comma = "{";
            for (Map.Entry<?, ?> e : ((Map<?, ?>) value).entrySet()) {
                out.append(comma);
                write(e.getKey().toString(), out);
                out.append(':');
                write(e.getValue(), out);
                comma = ",";
            }
            out.append(comma.equals("{") ? "{}" : "}");
        } else if (value instanceof List) {
            String comma = "[";
            for (Object o : (List<?>) value) {
                out.append(comma);
                write(o, out);
                comma = ",";
            }
            out.append(comma.equals("[") ? "[]" : "]");
        } else if (value instanceof CharSequence) {
            out.append('"');
            for (char c : value.toString().toCharArray()) {
                int plain = "\b\f\n\r\t\"\\".indexOf(c);
                if (plain >= 0) {
                    out.append('\\').append("bfnrt\"\\".charAt(plain));
                } else if (c < 0x20) {
                    out.append(String.format("\\u%04x", (int) c));
                } else {
                    out.append(c);
                }
            }
            out.append('"');
        } else {
            out.append(value);
        }
    }
}
