"""Sail: its Spark Connect server in this process, and Spark's client. A table is read by its folder, a state by its snapshot."""
import importlib.metadata

from floe_driver import Refused, arrow_result, serve


class Sail:
    REFUSALS = ("AnalysisException", "ParseException", "SparkConnectGrpcException")

    def start(self, hello):
        from pysail.spark import SparkConnectServer
        from pyspark.sql import SparkSession
        self.server = SparkConnectServer(ip="127.0.0.1", port=0)
        self.server.start()
        self.catalog = hello["catalog"]
        host, port = self.server.listening_address
        self.spark = SparkSession.builder.remote(f"sc://{host}:{port}").config("spark.sql.session.timeZone", "UTC").getOrCreate()
        return {"engine": "Sail", "version": importlib.metadata.version("pysail"), "iceberg": "", "roles": ["read"], "catalogs": ["path"], "sql": False,
                "capabilities": ["v2", "v3", "read-dv", "position-deletes", "equality-deletes", "time-travel", "schema-evolution", "partition-evolution"]}

    def scan(self, table):
        reader = self.spark.read.format("iceberg")
        if table.get("snapshot") is not None:
            reader = reader.option("snapshotId", str(table["snapshot"]))
        return self.guarded(lambda: reader.load(table["location"]).toArrow())

    def query(self, sql, table):
        """Aggregates for the benchmark."""
        def rows():
            self.spark.read.format("iceberg").load(table["location"]).createOrReplaceTempView("asked")
            return self.spark.sql(sql.replace(f"{self.catalog}.{table['namespace']}.{table['name']}", "asked")).toArrow()
        return self.guarded(rows)

    def guarded(self, rows):
        try:
            return arrow_result(rows())
        except Exception as e:
            kind, text = type(e).__name__, str(e).lower()
            if kind == "UnsupportedOperationException" or kind in self.REFUSALS and any(w in text for w in ("not supported", "unsupported", "not implemented")):
                raise Refused(f"{type(e).__name__}: {e}") from e
            raise

    def stop(self):
        self.spark.stop()
        self.server.stop()


if __name__ == "__main__":
    serve(Sail)
