"""Spark's side of a shared catalog. Arguments: its URI (jdbc:, thrift:, http:), warehouse, jars (comma-separated), scratch folder, token."""
import sys

from pyspark.sql import SparkSession

uri, warehouse, jars, scratch, token = sys.argv[1:6]
lake = "spark.sql.catalog.lake"
kind = {"jdbc": "jdbc", "thrift": "hive", "http": "rest"}[uri.split(":")[0]]
options = {"type": kind, "uri": uri}
if kind != "rest":
    options["warehouse"] = warehouse
if kind == "jdbc":
    options["jdbc.user"] = "floe"
if token:
    options["token"] = token
spark = (SparkSession.builder.master("local[1]").config("spark.jars", jars).config("spark.driver.memory", "1g")
         .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
         .config(lake, "org.apache.iceberg.spark.SparkCatalog").config(map={f"{lake}.{k}": v for k, v in options.items()})
         .config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "1").config("spark.local.dir", scratch)
         .config("spark.sql.warehouse.dir", scratch + "/spark-warehouse").config("spark.driver.bindAddress", "127.0.0.1")
         .config("spark.driver.host", "127.0.0.1").getOrCreate())
spark.sparkContext.setLogLevel("OFF")


def one(sql):
    return tuple(spark.sql(sql).collect()[0])


assert one("SELECT count(*), count(CASE WHEN id = 5000 THEN 1 END) FROM lake.walk.t") == (19_999, 0)
spark.sql("DELETE FROM lake.walk.t WHERE id = 7")
assert one("SELECT count(*) FROM lake.walk.t") == (19_998,)
assert one("SELECT count(*) FROM lake.walk.t.delete_files WHERE lower(file_format) = 'puffin'") == (1,)
spark.stop()
print("ok")
