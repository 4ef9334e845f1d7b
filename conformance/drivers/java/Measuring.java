import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileMetadata;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Table;
import org.apache.iceberg.deletes.PositionDeleteIndex;
import org.apache.iceberg.io.CloseableIterable;

/** Work that is timed around the library's own calls. */
final class Measuring {
    private Measuring() {}

    private static Map<String, Object> measured(long start, long count, long check) {
        double seconds = (System.nanoTime() - start) / 1e9;
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("seconds", seconds);
        out.put("count", count);
        out.put("check", check);
        return out;
    }

    /** Decodes the blob that a file holds. */
    static Map<String, Object> decode(Path blob, long positions, long calls) throws Exception {
        byte[] bytes = Files.readAllBytes(blob);
        DeleteFile file = FileMetadata.deleteFileBuilder(PartitionSpec.unpartitioned()).ofPositionDeletes().withFormat(FileFormat.PUFFIN)
            .withPath(blob.toString()).withFileSizeInBytes(bytes.length).withRecordCount(positions).withReferencedDataFile("data.parquet")
            .withContentOffset(0).withContentSizeInBytes(bytes.length).build();
        long start = System.nanoTime();
        PositionDeleteIndex index = PositionDeleteIndex.deserialize(bytes, file);
        for (long i = 1; i < calls; i++) {
            index = PositionDeleteIndex.deserialize(bytes, file);
        }
        Map<String, Object> out = measured(start, index.cardinality(), 0);
        long[] sum = new long[1];
        index.forEach(p -> sum[0] += p);
        out.put("check", sum[0]);
        return out;
    }

    /** Plans a scan of all rows, to its last task. */
    static Map<String, Object> plan(Table table, long calls) throws Exception {
        boolean told = forgetPeak();
        long files = 0;
        long vectors = 0;
        long start = System.nanoTime();
        for (long i = 0; i < calls; i++) {
            files = 0;
            vectors = 0;
            try (CloseableIterable<FileScanTask> tasks = table.newScan().planFiles()) {
                for (FileScanTask task : tasks) {
                    files++;
                    List<DeleteFile> deletes = task.deletes();
                    vectors += deletes.size() == 1 && deletes.get(0).format() == FileFormat.PUFFIN ? 1 : 0;
                }
            }
        }
        Map<String, Object> out = measured(start, files, vectors);
        if (told) {
            for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
                if (line.startsWith("VmHWM:")) {
                    out.put("peak_mib", Long.parseLong(line.replaceAll("[^0-9]", "")) / 1024.0);
                }
            }
        }
        return out;
    }

    /** Forgets the process's peak memory so far; false where the system cannot. */
    private static boolean forgetPeak() {
        try {
            Files.writeString(Path.of("/proc/self/clear_refs"), "5");
            return true;
        } catch (java.io.IOException e) {
            return false;
        }
    }
}
