import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.beam.sdk.Pipeline;
import org.apache.beam.sdk.io.iceberg.IcebergUtils;
import org.apache.beam.sdk.managed.Managed;
import org.apache.beam.sdk.options.PipelineOptionsFactory;
import org.apache.beam.sdk.transforms.Create;
import org.apache.beam.sdk.transforms.DoFn;
import org.apache.beam.sdk.transforms.ParDo;
import org.apache.beam.sdk.util.ReleaseInfo;
import org.apache.beam.sdk.values.PCollection;
import org.apache.beam.sdk.values.Row;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.IcebergBuild;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.hadoop.HadoopCatalog;

/** Apache Beam's Managed I/O on its direct runner, a pipeline a read or write. Tables are made by the Iceberg library it brings. */
public final class BeamManaged implements Wire.Engine {
    private static final List<String> CAPABILITIES = List.of("v2", "equality-deletes", "avro");
    /** Rows of the pipeline that runs: the direct runner is in this process. */
    private static final Queue<Row> ROWS = new ConcurrentLinkedQueue<>();

    private HadoopCatalog catalog;
    private String warehouse;
    private String namespace = "";

    public static void main(String[] args) throws Exception {
        Wire.serve(new BeamManaged());
    }

    @Override
    public Map<String, Object> start(Map<String, Object> hello) {
        warehouse = (String) hello.get("warehouse");
        catalog = new HadoopCatalog(new Configuration(), warehouse);
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("engine", "Apache Beam Managed I/O");
        out.put("version", ReleaseInfo.getReleaseInfo().getVersion());
        out.put("iceberg", IcebergBuild.version());
        out.put("roles", List.of("write", "read"));
        out.put("catalogs", List.of("hadoop"));
        out.put("sql", false);
        out.put("capabilities", CAPABILITIES);
        return out;
    }

    private Map<String, Object> config(TableIdentifier name) {
        return Map.of("table", name.toString(), "catalog_name", "floe", "catalog_properties", Map.of("type", "hadoop", "warehouse", warehouse));
    }

    private static Pipeline pipeline() {
        return Pipeline.create(PipelineOptionsFactory.fromArgs("--targetParallelism=2").create());
    }

    private TableIdentifier ident(String name) {
        String[] parts = (name.contains(".") ? name : namespace + "." + name).split("\\.");
        return TableIdentifier.of(parts[parts.length - 2], parts[parts.length - 1]);
    }

    @Override
    public Wire.Rows scan(Wire.Table t) {
        if (t.snapshot() != null) {
            throw new Wire.Skipped("Managed I/O reads a table's newest state only");
        }
        ROWS.clear();
        Pipeline p = pipeline();
        PCollection<Row> rows = p.apply(Managed.read(Managed.ICEBERG).withConfig(config(TableIdentifier.of(t.namespace(), t.name())))).getSinglePCollection();
        Schema schema = IcebergUtils.beamSchemaToIcebergSchema(rows.getSchema());
        rows.apply(ParDo.of(new Keep()));
        p.run().waitUntilFinish();
        List<Record> out = new ArrayList<>();
        ROWS.forEach(r -> out.add(IcebergUtils.beamRowToIcebergRecord(schema, r)));
        return new Wire.Rows(schema.columns(), out);
    }

    private static final class Keep extends DoFn<Row, Void> {
        @ProcessElement
        public void each(@Element Row row) {
            ROWS.add(row);
        }
    }

    @Override
    public void apply(String text, Wire.Table t) {
        SmallSql sql = new SmallSql(text);
        if (sql.take("CREATE", "NAMESPACE")) {
            sql.take("IF", "NOT", "EXISTS");
            Namespace ns = Namespace.of(sql.word());
            if (!catalog.namespaceExists(ns)) {
                catalog.createNamespace(ns);
            }
        } else if (sql.take("USE")) {
            namespace = sql.word();
        } else if (sql.take("CREATE", "TABLE")) {
            TableIdentifier name = ident(sql.path());
            Ddl.create(catalog, name, sql);
        } else if (sql.take("INSERT", "INTO")) {
            TableIdentifier name = ident(sql.path());
            Table table = catalog.loadTable(name);
            List<Row> rows = new ArrayList<>();
            org.apache.beam.sdk.schemas.Schema schema = IcebergUtils.icebergSchemaToBeamSchema(table.schema());
            Values.of(table.schema(), sql).forEach(r -> rows.add(IcebergUtils.icebergRecordToBeamRow(schema, r)));
            Pipeline p = pipeline();
            p.apply(Create.of(rows).withRowSchema(schema)).apply(Managed.write(Managed.ICEBERG).withConfig(config(name)));
            p.run().waitUntilFinish();
        } else {
            throw new Wire.Skipped("Managed I/O only reads and appends");
        }
    }
}
