"""Engines that write through the run's REST catalog: DuckDB (DML of its own) and PyIceberg (append and delete). The argument says which.

Scenarios are in Spark's text; `Statement` takes it apart and gives DuckDB's. What has no counterpart is skipped by name.
"""
import importlib.metadata, re, sys

from floe_driver import Refused, Skipped, arrow_result, serve, split_args
from path_readers import DuckDB, aggregates


def call(text, start):
    """End of the bracket that opens at `start`, exclusive; quotes are respected."""
    depth, quoted = 0, False
    for i in range(start, len(text)):
        c = text[i]
        if c == "'":
            quoted = not quoted
        elif not quoted:
            depth += (c == "(") - (c == ")")
            if depth == 0:
                return i + 1
    raise Skipped("unbalanced brackets")


def outside_quotes(text, change):
    """Applies `change` to what is not inside single quotes."""
    return "'".join(part if i % 2 else change(part) for i, part in enumerate(text.split("'")))


def duck_type(spark):
    """DuckDB's type of a Spark type; STRUCT<…> and the like included."""
    t = spark.strip()
    m = re.match(r"(?i)(struct|array|map)\s*<(.*)>$", t, re.S)
    if m:
        inner = split_args(m.group(2))
        if m.group(1).lower() == "array":
            return duck_type(m.group(2)) + "[]"
        if m.group(1).lower() == "map":
            return f"MAP({duck_type(inner[0])}, {duck_type(inner[1])})"
        fields = [re.split(r"\s*:\s*|\s+", f, maxsplit=1) for f in inner]
        return "STRUCT(" + ", ".join(f'"{n}" {duck_type(x)}' for n, x in fields) + ")"
    simple = {"TIMESTAMP": "TIMESTAMPTZ", "TIMESTAMP_LTZ": "TIMESTAMPTZ", "TIMESTAMP_NTZ": "TIMESTAMP", "STRING": "VARCHAR", "BINARY": "BLOB"}
    return simple.get(t.upper(), t)


class Statement:
    """A statement of Spark as DuckDB's text. `verb` is its first word; CREATE TABLE has columns, partition and properties too."""

    def __init__(self, sql, table, catalog="ice"):
        text = sql.strip().rstrip(";")
        self.verb = text.split(None, 1)[0].upper()
        self.table = f"{catalog}.{table['namespace']}.{table['name']}"
        text = re.sub(rf"(?<![\w.])({catalog}\.)?({table['namespace']}\.\w+)", rf"{catalog}.\2", text)
        if re.match(r"(?i)create\s+namespace", text):
            self.verb = "NAMESPACE"
            self.text = f"CREATE SCHEMA IF NOT EXISTS {catalog}.{table['namespace']}"
            return
        if re.match(r"(?i)create\s+or\s+replace\s+temp(orary)?\s+view\b", text):
            self.verb, self.text = "VIEW", self.dml(text)
            return
        if self.verb == "CREATE":
            return self.create(text)
        if self.verb == "USE":
            self.text = f"USE {catalog}.{text.split()[-1].split('.')[-1]}"
            return
        if self.verb == "ALTER":
            m = re.match(r"(?is)alter\s+table\s+(\S+)\s+set\s+tblproperties\s*\((.*)\)$", text)
            if not m:
                raise Skipped("DuckDB's driver has no translation of this ALTER TABLE")
            self.text = f"ALTER TABLE {m.group(1) if '.' in m.group(1) else self.table} SET ({m.group(2)})"
            return
        if self.verb not in ("INSERT", "DELETE", "UPDATE", "MERGE", "DROP", "SELECT") or re.match(r"(?i)insert\s+overwrite", text):
            raise Skipped(f"{' '.join(text.split()[:2])} has no counterpart")
        self.text = self.dml(text)

    def create(self, text):
        m = re.match(r"(?is)create\s+table\s+(?:if\s+not\s+exists\s+)?([^\s(]+)\s*\(", text)
        if not m:
            raise Skipped("this CREATE has no counterpart")
        if "." in m.group(1):  # a scenario may have a second table beside its own
            self.table = m.group(1)
        end = call(text, m.end() - 1)
        self.columns = [re.split(r"\s+", c.strip(), maxsplit=1) for c in split_args(text[m.end():end - 1])]
        rest = text[end:]
        part = re.search(r"(?i)partitioned\s+by\s*\(", rest)
        self.partition = rest[part.end():call(rest, part.end() - 1) - 1] if part else ""
        props = re.search(r"(?i)tblproperties\s*\(", rest)
        self.properties = dict(re.findall(r"'([^']*)'\s*=\s*'([^']*)'", rest[props.end():])) if props else {}
        cols = ", ".join(f"{n} {self.column_type(t)}" for n, t in self.columns)
        by = re.sub(r"(?i)\b(year|month|day|hour)s\s*\(", r"\1(", self.partition)
        self.text = f"CREATE TABLE {self.table} ({cols})" + (f" PARTITIONED BY ({by})" if by else "")
        if self.properties:
            self.text += " WITH (" + ", ".join(f"'{k}'='{v}'" for k, v in self.properties.items()) + ")"

    @staticmethod
    def column_type(text):
        m = re.match(r"(?is)(.*?)(\s+not\s+null)?(\s+comment\s+'.*)?$", text)
        return duck_type(m.group(1)) + (m.group(2) or "")

    @staticmethod
    def dml(text):
        text = re.sub(r"(?i)\bX'([0-9a-f]*)'", r"unhex('\1')", text)
        text = re.sub(r"(?i)\bTIMESTAMP\s*'([^']*)'", r"TIMESTAMPTZ '\1'", text)
        text = re.sub(r"(?i)\bTIMESTAMP_NTZ\s*'([^']*)'", r"TIMESTAMP '\1'", text)

        def plain(part):
            part = re.sub(r"(?i)\b(-?\d+(?:\.\d+)?)F\b", r"CAST(\1 AS FLOAT)", part)
            part = re.sub(r"(?i)\b(-?\d+(?:\.\d+)?)D\b", r"CAST(\1 AS DOUBLE)", part)
            part = re.sub(r"(?i)\b(\d+)L\b", r"CAST(\1 AS BIGINT)", part)
            part = re.sub(r"(?i)\bAS\s+TIMESTAMP\b(?!_)", "AS TIMESTAMPTZ", part)
            part = re.sub(r"(?i)\bAS\s+TIMESTAMP_NTZ\b", "AS TIMESTAMP", part)
            part = re.sub(r"(?i)\brange\(\s*(\d+)\s*\)", r"range(0, \1, 1) r(id)", part)
            part = re.sub(r"(?i)\brange\(([^(),]*),([^(),]*)\)", r"range(\1,\2, 1) r(id)", part)
            part = re.sub(r"(?i)\brange\(([^(),]*),([^(),]*),([^(),]*),[^(),]*\)", r"range(\1,\2,\3) r(id)", part)
            part = re.sub(r"(?i)\bUPDATE\s+SET\s+\*", "UPDATE", part)
            return re.sub(r"(?i)\bINSERT\s+\*", "INSERT", part)
        return outside_quotes(text, plain)


class DuckDBRest(DuckDB):
    name = "DuckDB through REST"

    def start(self, hello):
        said = super().start(hello)
        return {**said, "roles": ["write", "read"], "catalogs": ["rest"],
                "capabilities": said["capabilities"] + ["write-dv", "row-level", "merge", "upgrade"]}

    def open(self, hello):
        self.hello = hello
        super().open(hello)
        self.catalog = hello["catalog"]
        self.db.execute(f"ATTACH '' AS {self.catalog} (TYPE iceberg, ENDPOINT '{hello['rest']}', AUTHORIZATION_TYPE 'none')")

    def apply(self, sql, table):
        statement = Statement(sql, table, self.catalog)
        try:
            self.db.execute(statement.text)
        except Exception as e:
            kind, text = type(e).__name__, str(e)
            if kind == "ParserException" or (kind == "CatalogException" and "unction with name" in text):
                raise Skipped(f"DuckDB has no such words: {text}") from e
            if kind in self.refusals + ("ConstraintException", "CatalogException", "ConversionException"):
                raise Refused(f"{kind}: {text}") from e
            self.again(e)
            raise

    def again(self, e):
        """An internal error makes DuckDB refuse everything until the database is opened again."""
        if type(e).__name__ in ("InternalException", "FatalException"):
            self.open(self.hello)

    def scan(self, table):
        at = f" AT (VERSION => {table['snapshot']})" if table.get("snapshot") is not None else ""
        try:
            name = f"{self.catalog}.{table['namespace']}.{table['name']}"
            return arrow_result(self.db.execute(f"SELECT * FROM {name}{at}").to_arrow_table())
        except Exception as e:
            if type(e).__name__ in self.refusals:
                raise Refused(f"{type(e).__name__}: {e}") from e
            self.again(e)
            raise


class PyIcebergRest:
    """Rows to append come from DuckDB, which evaluates the statement's SELECT or VALUES; table and deletes are PyIceberg's."""
    REFUSALS = ("NotImplementedError", "ValidationError", "ValueError", "NotInstalledError")

    def start(self, hello):
        import duckdb
        from pyiceberg.catalog import load_catalog
        self.db = duckdb.connect()
        self.db.execute("SET TimeZone = 'UTC'")
        self.catalog_name = hello["catalog"]
        self.catalog = load_catalog("ice", type="rest", uri=hello["rest"])
        return {"engine": "PyIceberg through REST", "version": importlib.metadata.version("pyiceberg"), "iceberg": "", "roles": ["write", "read"],
                "catalogs": ["rest"], "sql": False,
                "capabilities": ["v2", "read-dv", "position-deletes", "time-travel", "schema-evolution", "partition-evolution"]}

    def guarded(self, work):
        try:
            return work()
        except Exception as e:
            if type(e).__name__ in self.REFUSALS:
                raise Refused(f"{type(e).__name__}: {e}") from e
            raise

    def apply(self, sql, table):
        s = Statement(sql, table, self.catalog_name)
        if s.verb == "NAMESPACE":
            return self.catalog.create_namespace_if_not_exists(table["namespace"])
        if s.verb == "CREATE":
            if s.partition:
                raise Skipped("the driver makes no partitioned tables")
            cols = ", ".join(f"{n} {s.column_type(t)}" for n, t in s.columns)
            schema = self.evaluated(f"CREATE OR REPLACE TABLE shape ({cols})", "SELECT * FROM shape").schema
            return self.guarded(lambda: self.catalog.create_table(self.name(s.table), schema=schema, properties=s.properties)) and None
        if s.verb == "INSERT":
            found = re.match(r"(?is)insert\s+into\s+(\S+)\s+(.*)$", s.text)
            rows = self.evaluated(found.group(2))
            target = self.guarded(lambda: self.catalog.load_table(self.name(found.group(1))))
            return self.guarded(lambda: target.append(fit(rows, target.schema().as_arrow())))
        if s.verb == "DELETE":
            found = re.match(r"(?is)delete\s+from\s+(\S+)(?:\s+where\s+(.*))?$", s.text)
            return self.guarded(lambda: self.catalog.load_table(self.name(found.group(1))).delete(found.group(2) or "true"))
        if s.verb == "ALTER":
            with self.guarded(lambda: self.catalog.load_table(self.name(s.text.split()[2]))).transaction() as tx:
                properties = dict(re.findall(r"'([^']*)'\s*=\s*'([^']*)'", s.text))
                version = properties.pop("format-version", None)
                return self.guarded(lambda: (tx.upgrade_table_version(int(version)) if version else None, tx.set_properties(properties))) and None
        raise Skipped(f"PyIceberg has no {s.verb}")

    def name(self, full):
        """A table's name within the catalog."""
        return full.split(".", 1)[1]

    def evaluated(self, *texts):
        """What DuckDB gives for the last of its statements."""
        try:
            for text in texts:
                result = self.db.execute(text)
            return result.to_arrow_table()
        except Exception as e:
            raise Skipped(f"DuckDB cannot evaluate this: {e}") from e

    def scan(self, table):
        def rows():
            found = self.catalog.load_table(f"{table['namespace']}.{table['name']}")
            return arrow_result(found.scan(snapshot_id=table.get("snapshot")).to_arrow())
        return self.guarded(rows)

    def query(self, sql, table):
        """Aggregates for the benchmark."""
        return self.guarded(lambda: arrow_result(aggregates(self.catalog.load_table(f"{table['namespace']}.{table['name']}"), sql)))


def fit(rows, wanted):
    """Rows in the table's own types, by place; a column of nothing but NULL came without one."""
    import pyarrow as pa
    columns = [pa.nulls(len(c), f.type) if c.null_count == len(c) else c.cast(f.type) for c, f in zip(rows.columns, wanted, strict=True)]
    return pa.table(columns, schema=wanted)


if __name__ == "__main__":
    serve({"duckdb": DuckDBRest, "pyiceberg": PyIcebergRest}[sys.argv[1]])
