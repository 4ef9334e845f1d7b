"""Spark's side of a shared JDBC catalog. Arguments: JDBC URI, warehouse, jars (comma-separated), scratch folder."""
import sys

from pyspark.sql import SparkSession

uri, warehouse, jars, scratch = sys.argv[1:5]
lake = "spark.sql.catalog.lake"
spark = (SparkSession.builder.master("local[1]").config("spark.jars", jars).config("spark.driver.memory", "1g")
         .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
         .config(lake, "org.apache.iceberg.spark.SparkCatalog").config(f"{lake}.catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog")
         .config(f"{lake}.uri", uri).config(f"{lake}.warehouse", warehouse).config(f"{lake}.jdbc.user", "floe")
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
