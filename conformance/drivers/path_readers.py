"""Engines that read a table by its metadata file: DuckDB, PyIceberg, Polars. The argument says which."""
import glob, importlib.metadata, os, sys

from floe_driver import Refused, Skipped, arrow_result, serve

READS = ["v2", "v3", "read-dv", "position-deletes", "time-travel", "schema-evolution", "partition-evolution"]


class PathReader:
    """A state is read by its own metadata file, so that a snapshot needs no argument."""
    name, package, capabilities, refusals = "", "", READS, ()

    def start(self, hello):
        self.open(hello)
        self.catalog = hello["catalog"]
        return {"engine": self.name, "version": importlib.metadata.version(self.package), "iceberg": "", "roles": ["read"],
                "catalogs": ["path"], "sql": False, "capabilities": self.capabilities}

    def open(self, hello):
        pass

    def scan(self, table):
        if not table["metadata"]:
            raise Skipped("there is no metadata file yet")
        try:
            return arrow_result(self.read(table["metadata"]))
        except Exception as e:
            if type(e).__name__ in self.refusals:
                raise Refused(f"{type(e).__name__}: {e}") from e
            raise


    def query(self, sql, table):
        """Aggregates for the benchmark: no part of the matrix, whose questions are in Spark's text."""
        name = f"{self.catalog}.{table['namespace']}.{table['name']}"
        try:
            return arrow_result(self.ask(sql, name, table["metadata"]))
        except Exception as e:
            if type(e).__name__ in self.refusals:
                raise Refused(f"{type(e).__name__}: {e}") from e
            raise

    def ask(self, sql, name, metadata):
        raise Skipped("the driver takes no SQL")


class DuckDB(PathReader):
    name, package = "DuckDB", "duckdb"
    refusals = ("NotImplementedException", "InvalidInputException", "InvalidConfigurationException", "IOException", "BinderException")
    capabilities = READS + ["equality-deletes"]

    def open(self, hello):
        import duckdb
        self.db = duckdb.connect()
        self.db.execute("SET TimeZone = 'UTC'")
        for name in ("avro", "httpfs", "iceberg"):
            (path,) = glob.glob(os.path.join(sys.prefix, f"lib/python*/site-packages/duckdb_extension_{name}/extensions/*/{name}.duckdb_extension"))
            self.db.execute(f"LOAD '{path}'")

    def read(self, metadata):
        return self.db.execute("SELECT * FROM iceberg_scan(?)", [metadata]).to_arrow_table()

    def ask(self, sql, name, metadata):
        return self.db.execute(sql.replace(name, f"iceberg_scan('{metadata}')")).to_arrow_table()


class PyIceberg(PathReader):
    name, package = "PyIceberg", "pyiceberg"
    refusals = ("NotImplementedError", "ValidationError", "ValueError")

    def read(self, metadata):
        from pyiceberg.table import StaticTable
        return StaticTable.from_metadata(metadata).scan().to_arrow()

    def ask(self, sql, name, metadata):
        import re
        import pyarrow as pa, pyarrow.compute as pc
        from pyiceberg.table import StaticTable
        calls = re.findall(r"(\w+)\((\w+|\*)\) AS (\w+)", sql)
        columns = sorted({c for _, c, _ in calls if c != "*"})
        rows = StaticTable.from_metadata(metadata).scan(selected_fields=tuple(columns)).to_arrow()
        return pa.table({a: [rows.num_rows if c == "*" else getattr(pc, f)(rows[c]).as_py()] for f, c, a in calls})


class Polars(PathReader):
    name, package = "Polars", "polars"
    refusals = ("NotImplementedError", "ComputeError", "ValidationError")

    def read(self, metadata):
        import polars
        return polars.scan_iceberg(metadata).collect().to_arrow()

    def ask(self, sql, name, metadata):
        import polars
        return polars.SQLContext(t=polars.scan_iceberg(metadata)).execute(sql.replace(name, "t"), eager=True).to_arrow()


if __name__ == "__main__":
    serve({c.__name__.lower(): c for c in (DuckDB, PyIceberg, Polars)}[sys.argv[1]])
