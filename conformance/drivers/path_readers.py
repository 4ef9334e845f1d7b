"""Engines that read a table by its metadata file: DuckDB, PyIceberg, Polars, Daft, chDB. The argument says which."""
import glob, importlib.metadata, json, os, re, sys

from floe_driver import Refused, Skipped, arrow_result, serve, split_args

READS = ["v2", "v3", "read-dv", "position-deletes", "time-travel", "schema-evolution", "partition-evolution"]
# what an engine without deletion vectors can show: every scenario of evolution has them or equality deletes
WITHOUT_DV = ["v2", "v3", "position-deletes", "time-travel"]


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
    refusals = ("NotImplementedException", "InvalidInputException", "InvalidConfigurationException", "IOException", "BinderException", "Error")
    capabilities = READS + ["equality-deletes"]

    def open(self, hello):
        import duckdb
        self.db = duckdb.connect()
        self.db.execute("SET TimeZone = 'UTC'")
        for name in ("avro", "httpfs", "iceberg"):
            (path,) = glob.glob(os.path.join(sys.prefix, f"lib/python*/site-packages/duckdb_extension_{name}/extensions/*/{name}.duckdb_extension"))
            self.db.execute(f"LOAD '{path}'")

    def read(self, metadata):
        return self.run("SELECT * FROM iceberg_scan(?)", [metadata])

    def ask(self, sql, name, metadata):
        return self.run(sql.replace(name, f"iceberg_scan('{metadata}')"))

    def run(self, sql, given=None):
        import duckdb
        try:
            return self.db.execute(sql, given).to_arrow_table()
        except (duckdb.FatalException, duckdb.InternalException):
            self.open(None)  # the database answers nothing after such an error; the next question gets a new one
            raise


class PyIceberg(PathReader):
    name, package = "PyIceberg", "pyiceberg"
    refusals = ("NotImplementedError", "ValidationError", "ValueError")

    def read(self, metadata):
        from pyiceberg.table import StaticTable
        return StaticTable.from_metadata(metadata).scan().to_arrow()

    def ask(self, sql, name, metadata):
        from pyiceberg.table import StaticTable
        return aggregates(StaticTable.from_metadata(metadata), sql)


def aggregates(table, sql):
    """Aggregates of a PyIceberg table, which reads rows and has no SQL: PyArrow counts and sums what it reads."""
    import pyarrow as pa, pyarrow.compute as pc
    calls = re.findall(r"(\w+)\((\w+|\*)\) AS (\w+)", sql)
    columns = sorted({c for _, c, _ in calls if c != "*"})
    rows = table.scan(selected_fields=tuple(columns)).to_arrow()
    return pa.table({a: [rows.num_rows if c == "*" else getattr(pc, f)(rows[c]).as_py()] for f, c, a in calls})


class Polars(PathReader):
    name, package = "Polars", "polars"
    refusals = ("NotImplementedError", "ComputeError", "ValidationError", "ValueError")

    def read(self, metadata):
        import polars
        return polars.scan_iceberg(metadata).collect().to_arrow()

    def ask(self, sql, name, metadata):
        import polars
        return polars.SQLContext(t=polars.scan_iceberg(metadata)).execute(sql.replace(name, "t"), eager=True).to_arrow()


class DuckDBNoCache(DuckDB):
    """Every file is read again for every scan."""
    name = "DuckDB, caches off"

    def open(self, hello):
        super().open(hello)
        for setting in ("enable_external_file_cache", "enable_http_metadata_cache", "parquet_metadata_cache"):
            self.db.execute(f"SET {setting} = false")


class Daft(PathReader):
    name, package = "Daft", "daft"
    refusals = ("NotImplementedError", "ValidationError", "ValueError")
    capabilities = WITHOUT_DV

    def read(self, metadata):
        import daft
        from pyiceberg.table import StaticTable
        return daft.read_iceberg(StaticTable.from_metadata(metadata)).to_arrow()


class ChDB(PathReader):
    name, package = "ClickHouse (chDB)", "chdb"
    refusals = ("ChdbError", "RuntimeError")
    capabilities = WITHOUT_DV + ["equality-deletes"]

    def open(self, hello):
        import chdb
        os.chdir("/")  # absolute paths are refused outside the working folder
        self.db = chdb

    def scan(self, table):
        """ClickHouse's own column types; its one byte string stands for string, binary, fixed and uuid, and the table says which."""
        if not table["metadata"]:
            raise Skipped("there is no metadata file yet")
        folder, file = table["metadata"].rsplit("/metadata/", 1)
        source = f"icebergLocal('{folder}', SETTINGS iceberg_metadata_file_path='metadata/{file}')"
        try:
            import pyarrow as pa
            described = self.db.query(f"DESCRIBE {source}", "JSONCompactEachRow").bytes().decode()
            data = self.db.query(f"SELECT * FROM {source} SETTINGS output_format_arrow_string_as_string=0", "Arrow").bytes()
        except Exception as e:
            text = str(e)
            if type(e).__name__ in self.refusals and re.search(r"\((NOT_IMPLEMENTED|UNSUPPORTED_METHOD|BAD_ARGUMENTS|ICEBERG_SPECIFICATION_VIOLATION|BAD_TYPE_OF_FIELD)\)", text):
                raise Refused(text) from e
            raise
        own = {f["name"]: f["type"] for f in current_fields(table["metadata"])}
        types = [json.loads(line)[:2] for line in described.splitlines()]
        _, rows = arrow_result(pa.ipc.open_file(data).read_all()) if data else ([], [])
        return [(n, clickhouse_type(t, own.get(n))) for n, t in types], rows


def current_fields(metadata):
    """Top-level fields of the table's current schema."""
    with open(metadata, encoding="utf-8") as f:
        m = json.load(f)
    return next(s for s in m["schemas"] if s["schema-id"] == m["current-schema-id"])["fields"]


def inside(text):
    return text[text.index("(") + 1:-1]


def clickhouse_type(t, own):
    """Iceberg's name of a ClickHouse type; `own` is the schema's type of that place, for byte strings only."""
    t = t.strip()
    if t.startswith(("Nullable(", "LowCardinality(")):
        return clickhouse_type(inside(t), own)
    simple = {"Int8": "int", "Int16": "int", "Int32": "int", "Int64": "long", "Bool": "boolean", "Float32": "float", "Float64": "double", "Date": "date",
              "Date32": "date", "UUID": "uuid", "DateTime64(6)": "timestamp", "DateTime64(6, 'UTC')": "timestamptz", "DateTime64(9)": "timestamp_ns",
              "DateTime64(9, 'UTC')": "timestamptz_ns"}
    if t in simple:
        return simple[t]
    if t.startswith("Decimal("):
        return "decimal(" + inside(t).replace(" ", "") + ")"
    if t == "String" or t.startswith("FixedString("):
        return own if isinstance(own, str) and (own in ("string", "binary", "uuid") or own.startswith("fixed")) else "string"
    nested = own if isinstance(own, dict) else {}
    if t.startswith("Array("):
        return f"list<{clickhouse_type(inside(t), nested.get('element'))}>"
    if t.startswith("Map("):
        key, value = split_args(inside(t))
        return f"map<{clickhouse_type(key, nested.get('key'))},{clickhouse_type(value, nested.get('value'))}>"
    if t.startswith("Tuple("):
        fields = [re.match(r"`?([^` ]+)`?\s+(.*)", f.strip(), re.S).groups() for f in split_args(inside(t))]
        types = {f["name"]: f["type"] for f in nested.get("fields", [])}
        return "struct<" + ",".join(f"{n}:{clickhouse_type(x, types.get(n))}" for n, x in fields) + ">"
    return t


if __name__ == "__main__":
    serve({c.__name__.lower(): c for c in (DuckDB, DuckDBNoCache, PyIceberg, Polars, Daft, ChDB)}[sys.argv[1]])
