import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.function.Function;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileContent;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.MetadataColumns;
import org.apache.iceberg.OverwriteFiles;
import org.apache.iceberg.PartitionKey;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.RewriteFiles;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Schema;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.Table;
import org.apache.iceberg.data.BaseDeleteLoader;
import org.apache.iceberg.data.GenericFileWriterFactory;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.InternalRecordWrapper;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.deletes.BaseDVFileWriter;
import org.apache.iceberg.deletes.PositionDelete;
import org.apache.iceberg.deletes.PositionDeleteIndex;
import org.apache.iceberg.deletes.PositionDeleteWriter;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.io.DeleteWriteResult;
import org.apache.iceberg.io.OutputFileFactory;
import org.apache.iceberg.types.Types;

/** Changes of a table's rows by the library's writers and commits. */
final class TableWriter {
    private TableWriter() {}

    private static int version(Table t) {
        return ((BaseTable) t).operations().current().formatVersion();
    }

    private static OutputFileFactory files(Table t, FileFormat format) {
        return OutputFileFactory.builderFor(t, 1, 1).format(format).operationId(UUID.randomUUID().toString()).build();
    }

    private static FileFormat format(Table t) {
        return FileFormat.fromString(t.properties().getOrDefault("write.format.default", "parquet"));
    }

    /** Rows by partition, a file each. */
    private static List<DataFile> write(Table t, Schema schema, Iterable<? extends Record> rows) throws Exception {
        PartitionSpec spec = t.spec();
        PartitionKey key = new PartitionKey(spec, t.schema());
        InternalRecordWrapper wrapper = new InternalRecordWrapper(schema.asStruct());
        OutputFileFactory files = files(t, format(t));
        GenericFileWriterFactory factory = new GenericFileWriterFactory.Builder(t).dataSchema(schema).dataFileFormat(format(t)).build();
        Map<PartitionKey, DataWriter<Record>> open = new LinkedHashMap<>();
        for (Record row : rows) {
            key.partition(wrapper.wrap(row));
            DataWriter<Record> writer = open.get(key);
            if (writer == null) {
                PartitionKey own = key.copy();
                StructLike partition = spec.isUnpartitioned() ? null : own;
                writer = factory.newDataWriter(files.newOutputFile(spec, partition), spec, partition);
                open.put(own, writer);
            }
            writer.write(row);
        }
        List<DataFile> out = new ArrayList<>();
        for (DataWriter<Record> w : open.values()) {
            w.close();
            out.add(w.toDataFile());
        }
        return out;
    }

    // ---- INSERT

    static void insert(Table t, SmallSql sql, boolean overwrite) throws Exception {
        Schema schema = t.schema();
        List<Record> rows = Values.of(schema, sql);
        List<DataFile> made = write(t, schema, rows);
        if (overwrite) {
            OverwriteFiles commit = t.newOverwrite().overwriteByRowFilter(Expressions.alwaysTrue());
            made.forEach(commit::addFile);
            commit.commit();
        } else {
            AppendFiles commit = t.newAppend();
            made.forEach(commit::appendFile);
            commit.commit();
        }
    }

    // ---- DELETE and UPDATE

    /** A row's column by its path. */
    private static Function<String, Object> columns(Record row) {
        return path -> {
            Record at = row;
            String[] parts = path.split("\\.");
            for (int i = 0; i < parts.length; i++) {
                if (at.struct().field(parts[i]) == null) {
                    throw new Wire.Refused("there is no column " + path);
                }
                Object value = at.getField(parts[i]);
                if (i == parts.length - 1 || value == null) {
                    return value;
                }
                at = (Record) value;
            }
            return null;
        };
    }

    /** Live rows with file, position and, from V3 on, lineage. */
    private static CloseableIterable<Record> live(Table t, long snapshot) {
        List<Types.NestedField> fields = new ArrayList<>(lineage(t).columns());
        fields.add(MetadataColumns.FILE_PATH);
        fields.add(MetadataColumns.ROW_POSITION);
        return IcebergGenerics.read(t).useSnapshot(snapshot).project(new Schema(fields)).build();
    }

    private static Schema lineage(Table t) {
        return version(t) >= 3 ? MetadataColumns.schemaWithRowLineage(t.schema()) : t.schema();
    }

    /** Deletes the rows of a branch for which `where` is true; with `set` they come back changed, with their row ids. */
    static void change(Table t, String branch, SmallSql.Expr where, Map<String, SmallSql.Expr> set) throws Exception {
        Map<String, TreeMap<Long, Boolean>> gone = new TreeMap<>();
        List<Record> back = new ArrayList<>();
        Schema kept = lineage(t);
        if (!branch.equals("main") && !t.refs().containsKey(branch)) {
            throw new Wire.Refused("there is no branch " + branch);
        }
        if (t.refs().containsKey(branch)) {
            try (CloseableIterable<Record> rows = live(t, t.refs().get(branch).snapshotId())) {
                for (Record row : rows) {
                    if (!Boolean.TRUE.equals(where.at(columns(row)))) {
                        continue;
                    }
                    gone.computeIfAbsent((String) row.getField("_file"), f -> new TreeMap<>()).put((Long) row.getField("_pos"), true);
                    if (set != null) {
                        back.add(changed(kept, row, set));
                    }
                }
            }
        }
        if (gone.isEmpty()) {
            return;
        }
        long base = t.refs().get(branch).snapshotId();
        RowDelta commit = t.newRowDelta().toBranch(branch).validateFromSnapshot(base).validateDataFilesExist(gone.keySet()).validateDeletedFiles();
        for (DataFile f : write(t, kept, back)) {
            commit.addRows(f);
        }
        Map<String, FileScanTask> tasks = new HashMap<>();
        try (CloseableIterable<FileScanTask> planned = t.newScan().useRef(branch).planFiles()) {
            planned.forEach(task -> tasks.putIfAbsent(task.file().location(), task));
        }
        if (version(t) >= 3) {
            vectors(t, gone, tasks, commit);
        } else {
            positions(t, gone, tasks, commit);
        }
        commit.commit();
    }

    private static Record changed(Schema schema, Record row, Map<String, SmallSql.Expr> set) {
        GenericRecord out = GenericRecord.create(schema);
        for (Types.NestedField f : schema.columns()) {
            // an updated row keeps its id, and its sequence number becomes this commit's
            out.setField(f.name(), f.fieldId() == MetadataColumns.LAST_UPDATED_SEQUENCE_NUMBER.fieldId() ? null : row.getField(f.name()));
        }
        Function<String, Object> old = columns(row);
        set.forEach((path, e) -> {
            String[] parts = path.split("\\.");
            if (parts.length == 1) {
                Types.NestedField f = schema.findField(path);
                if (f == null) {
                    throw new Wire.Refused("there is no column " + path);
                }
                out.setField(path, Values.stored(f.type(), e.at(old)));
            } else if (parts.length == 2 && out.getField(parts[0]) instanceof Record inner) {
                Record copy = inner.copy();
                copy.setField(parts[1], Values.stored(schema.findField(path).type(), e.at(old)));
                out.setField(parts[0], copy);
            } else {
                throw new Wire.Skipped("the driver's small grammar does not set " + path);
            }
        });
        return out;
    }

    private static void vectors(Table t, Map<String, TreeMap<Long, Boolean>> gone, Map<String, FileScanTask> tasks, RowDelta commit) throws Exception {
        BaseDeleteLoader loader = new BaseDeleteLoader(d -> t.io().newInputFile(d.location()));
        Function<String, PositionDeleteIndex> previous = path -> {
            List<DeleteFile> old = tasks.get(path).deletes().stream().filter(d -> d.content() == FileContent.POSITION_DELETES).toList();
            return old.isEmpty() ? null : loader.loadPositionDeletes(old, path);
        };
        BaseDVFileWriter writer = new BaseDVFileWriter(files(t, FileFormat.PUFFIN), previous);
        try (writer) {
            gone.forEach((path, rows) -> {
                FileScanTask task = tasks.get(path);
                rows.keySet().forEach(p -> writer.delete(path, p, task.spec(), task.file().partition()));
            });
        }
        DeleteWriteResult result = writer.result();
        result.deleteFiles().forEach(commit::addDeletes);
        result.rewrittenDeleteFiles().forEach(commit::removeDeletes);
    }

    private static void positions(Table t, Map<String, TreeMap<Long, Boolean>> gone, Map<String, FileScanTask> tasks, RowDelta commit) throws Exception {
        OutputFileFactory files = files(t, FileFormat.PARQUET);
        GenericFileWriterFactory factory = new GenericFileWriterFactory.Builder(t).deleteFileFormat(FileFormat.PARQUET).build();
        PositionDelete<Record> line = PositionDelete.create();
        for (Map.Entry<String, TreeMap<Long, Boolean>> e : gone.entrySet()) {
            FileScanTask task = tasks.get(e.getKey());
            StructLike partition = task.spec().isUnpartitioned() ? null : task.file().partition();
            PositionDeleteWriter<Record> writer = factory.newPositionDeleteWriter(files.newOutputFile(task.spec(), partition), task.spec(), partition);
            try (writer) {
                e.getValue().keySet().forEach(p -> writer.write(line.set(e.getKey(), p)));
            }
            commit.addDeletes(writer.toDeleteFile());
        }
    }

    // ---- compaction

    /** All live rows into new files, with their ids. */
    static void compact(Table t) throws Exception {
        if (t.currentSnapshot() == null) {
            return;
        }
        Schema kept = lineage(t);
        List<Record> rows = new ArrayList<>();
        try (CloseableIterable<Record> all = IcebergGenerics.read(t).project(kept).build()) {
            all.forEach(r -> rows.add(r.copy()));
        }
        RewriteFiles commit = t.newRewrite().validateFromSnapshot(t.currentSnapshot().snapshotId());
        Set<String> vectors = new HashSet<>();
        try (CloseableIterable<FileScanTask> planned = t.newScan().planFiles()) {
            for (FileScanTask task : planned) {
                commit.deleteFile(task.file());
                for (DeleteFile d : task.deletes()) {
                    if (vectors.add(d.location() + "#" + d.contentOffset())) {
                        commit.deleteFile(d);
                    }
                }
            }
        }
        write(t, kept, rows).forEach(commit::addFile);
        commit.commit();
    }
}
