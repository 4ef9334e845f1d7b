CREATE NAMESPACE IF NOT EXISTS demo;
USE demo;
CREATE TABLE cities (id INT, city STRING, state STRING) USING iceberg
  TBLPROPERTIES('format-version'='3', 'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read');
CREATE OR REPLACE TEMPORARY VIEW large_source AS
  SELECT id, CAST(id AS STRING) AS city, 'WA' AS state FROM range(100000);
INSERT OVERWRITE cities SELECT * FROM large_source;
DELETE FROM cities WHERE id = 5000;
UPDATE cities SET state = 'NY' WHERE id = 1;
SELECT count(*) FROM cities;
SELECT * FROM cities WHERE id IN (1, 5000);
SELECT operation, summary FROM cities.snapshots ORDER BY committed_at;
SELECT file_path, record_count FROM cities.delete_files;
