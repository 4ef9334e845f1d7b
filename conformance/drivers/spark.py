"""Apache Spark with the Iceberg runtime: one session for the whole run."""
import os, sys

from floe_driver import Refused, serve


def iceberg_type(t):
    name = type(t).__name__
    simple = {"IntegerType": "int", "LongType": "long", "ShortType": "int", "ByteType": "int", "BooleanType": "boolean", "FloatType": "float", "DoubleType": "double",
              "StringType": "string", "BinaryType": "binary", "DateType": "date", "TimestampType": "timestamptz", "TimestampNTZType": "timestamp",
              "VariantType": "variant", "NullType": "unknown", "VarcharType": "string", "CharType": "string", "GeometryType": "binary", "GeographyType": "binary"}
    if name in simple:
        return simple[name]
    if name == "DecimalType":
        return f"decimal({t.precision},{t.scale})"
    if name == "ArrayType":
        return f"list<{iceberg_type(t.elementType)}>"
    if name == "MapType":
        return f"map<{iceberg_type(t.keyType)},{iceberg_type(t.valueType)}>"
    if name == "StructType":
        return "struct<" + ",".join(f"{f.name}:{iceberg_type(f.dataType)}" for f in t.fields) + ">"
    return name


class Spark:
    # a statement Spark does not run for a reason it can name; everything else is an error of the engine
    REFUSALS = ("AnalysisException", "ParseException", "IllegalArgumentException", "UnsupportedOperationException", "ValidationException")

    def start(self, hello):
        from pyspark.sql import SparkSession
        catalog, jars = hello["catalog"], os.environ["FLOE_JARS"]
        b = (SparkSession.builder.master("local[2]").appName("floe")
             .config("spark.driver.memory", os.environ.get("FLOE_SPARK_MEMORY", "1500m"))
             .config("spark.jars", jars)
             .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
             .config(f"spark.sql.catalog.{catalog}", "org.apache.iceberg.spark.SparkCatalog")
             .config("spark.sql.defaultCatalog", catalog)
             .config("spark.sql.shuffle.partitions", "2")
             .config("spark.sql.session.timeZone", "UTC")
             .config("spark.sql.geospatial.enabled", "true")  # off by default in Spark 4.1, unknown to 3.5
             .config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
             .config("spark.sql.warehouse.dir", os.path.join(hello["scratch"], "spark-warehouse"))
             .config("spark.local.dir", hello["scratch"])
             .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
             .config("spark.driver.extraJavaOptions", f"-Duser.timezone=UTC -Dderby.system.home={hello['scratch']} -XX:+UseSerialGC"))
        if hello.get("rest"):
            b = b.config(f"spark.sql.catalog.{catalog}.type", "rest").config(f"spark.sql.catalog.{catalog}.uri", hello["rest"])
        else:
            b = b.config(f"spark.sql.catalog.{catalog}.type", "hadoop").config(f"spark.sql.catalog.{catalog}.warehouse", hello["warehouse"])
        self.spark, self.catalog = b.getOrCreate(), catalog
        self.spark.sparkContext.setLogLevel("OFF")
        build = self.spark._jvm.org.apache.iceberg.IcebergBuild.version()
        four = self.spark.version.startswith("4")
        return {"engine": "Apache Spark", "version": self.spark.version, "iceberg": build, "roles": ["write", "read"],
                "catalogs": ["hadoop", "rest"], "sql": True, "capabilities": CAPABILITIES + (["variant"] if four else [])}

    def run(self, sql):
        try:
            return self.spark.sql(sql)
        except Exception as e:
            raise self.judge(e) from e

    def judge(self, e):
        """`Refused` for what the engine declines by name, else the exception itself."""
        names = [type(e).__name__]
        cause = getattr(e, "java_exception", None) or getattr(e, "_origin", None)
        while cause is not None and len(names) < 8:
            names.append(cause.getClass().getName())
            cause = cause.getCause()
        return Refused(str(e)) if any(n.endswith(r) for n in names for r in self.REFUSALS) else e

    def collect(self, df):
        try:
            cols = [(f.name, iceberg_type(f.dataType)) for f in df.schema.fields]
            return cols, [tuple(r) for r in self.plain(df).collect()]
        except Exception as e:
            raise self.judge(e) from e

    def plain(self, df):
        """Variants as JSON text, shapes as well-known binary."""
        asked = {"VariantType": "to_json({})", "GeometryType": "ST_AsBinary({})", "GeographyType": "ST_AsBinary({})"}
        kinds = [(f"`{f.name}`", type(f.dataType).__name__) for f in df.schema.fields]
        if not any(k in asked for _, k in kinds):
            return df
        from pyspark.sql import functions as F
        return df.select([F.expr(asked.get(k, "{}").format(n) + f" AS {n}") for n, k in kinds])

    def apply(self, sql, table):
        try:  # Spark caches a table for its session; it must see another engine's commit before it changes the table
            self.run(f"REFRESH TABLE {self.name(table)}")
        except Exception:
            pass  # the statement may be the one that creates it
        self.collect(self.run(sql)) if sql.lstrip()[:6].upper() == "SELECT" else self.run(sql)

    def name(self, table):
        return f"{self.catalog}.{table['namespace']}.{table['name']}"

    def scan(self, table):
        name, snapshot = self.name(table), table.get("snapshot")
        if snapshot is not None:
            return self.collect(self.run(f"SELECT * FROM {name} VERSION AS OF {snapshot}"))
        self.run(f"REFRESH TABLE {name}")  # the session's table cache is Spark's own default; another engine's commit needs this
        return self.collect(self.run(f"SELECT * FROM {name}"))

    def query(self, sql, table):
        self.run(f"REFRESH TABLE {self.name(table)}")
        return self.collect(self.run(sql))

    def changes(self, table, start, end):
        view = "floe_changes"
        self.run(f"REFRESH TABLE {self.name(table)}")
        options = ", ".join(f"'{k}','{v}'" for k, v in (("start-snapshot-id", start), ("end-snapshot-id", end)) if v is not None)
        self.run(f"CALL {self.catalog}.system.create_changelog_view(table => '{table['namespace']}.{table['name']}', changelog_view => '{view}'"
                 + (f", options => map({options})" if options else "") + ")")
        return self.collect(self.run(f"SELECT * FROM {view}"))

    def stop(self):
        self.spark.stop()


CAPABILITIES = ["v2", "v3", "read-dv", "write-dv", "position-deletes", "equality-deletes", "row-level", "merge", "upgrade", "lineage", "time-travel",
                "schema-evolution", "partition-evolution", "metadata-tables", "procedures", "branches", "changelog", "avro", "orc", "spark-facts"]

if __name__ == "__main__":
    serve(Spark)
