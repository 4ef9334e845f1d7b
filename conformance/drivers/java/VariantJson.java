import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.iceberg.variants.Variant;
import org.apache.iceberg.variants.VariantArray;
import org.apache.iceberg.variants.VariantObject;
import org.apache.iceberg.variants.VariantValue;

/** Variants as JSON text, keys in order. */
final class VariantJson {
    private VariantJson() {}

    static Object text(Object v) {
        return Json.write(plain(((Variant) v).value()));
    }

    private static Object plain(VariantValue v) {
        switch (v.type()) {
            case NULL:
                return null;
            case OBJECT: {
                VariantObject object = v.asObject();
                Map<String, Object> fields = new TreeMap<>();
                object.fieldNames().forEach(name -> fields.put(name, plain(object.get(name))));
                return fields;
            }
            case ARRAY: {
                VariantArray array = v.asArray();
                List<Object> items = new ArrayList<>();
                for (int i = 0; i < array.numElements(); i++) {
                    items.add(plain(array.get(i)));
                }
                return items;
            }
            default:
                return v.asPrimitive().get();
        }
    }
}
