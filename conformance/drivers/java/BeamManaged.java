import java.util.ArrayList;
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
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.hadoop.HadoopCatalog;

/** Apache Beam's Managed I/O on its direct runner, a pipeline a read or write. Tables are made by the Iceberg library it brings. */
public final class BeamManaged implements Wire.Engine {
    private static final List<String> CAPABILITIES = List.of("v2", "equality-deletes");
    /** Rows of the pipeline that runs: the direct runner is in this process. */
    private static final Queue<Row> ROWS = new ConcurrentLinkedQueue<>();

    private HadoopCatalog catalog;
    private String warehouse;
    private Ddl ddl;

    public static void main(String[] args) throws Exception {
        Wire.serve(new BeamManaged());
    }

    @Override
    public Map<String, Object> start(Map<String, Object> hello) {
        warehouse = (String) hello.get("warehouse");
        catalog = new HadoopCatalog(new Configuration(), warehouse);
        ddl = new Ddl(catalog);
        return Wire.hello("Apache Beam Managed I/O", ReleaseInfo.getReleaseInfo().getVersion(), CAPABILITIES);
    }

    private Map<String, Object> config(TableIdentifier name) {
        return Map.of("table", name.toString(), "catalog_name", "floe", "catalog_properties", Map.of("type", "hadoop", "warehouse", warehouse));
    }

    private static Pipeline pipeline() {
        return Pipeline.create(PipelineOptionsFactory.fromArgs("--targetParallelism=2").create());
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
        if (ddl.apply(sql)) {
            return;
        }
        if (sql.take("INSERT", "INTO")) {
            TableIdentifier name = ddl.ident(sql.path());
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
