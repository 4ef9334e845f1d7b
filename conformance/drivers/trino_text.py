"""Spark's SQL text in Trino's. String literals are set aside first, so that the rules below only see code."""
import re

from floe_driver import Skipped, split_args

TYPES = {"INT": "INTEGER", "STRING": "VARCHAR", "BINARY": "VARBINARY", "FLOAT": "REAL", "TIMESTAMP": "TIMESTAMP(6) WITH TIME ZONE",
         "TIMESTAMP_LTZ": "TIMESTAMP(6) WITH TIME ZONE", "TIMESTAMP_NTZ": "TIMESTAMP(6)", "LONG": "BIGINT", "SHORT": "SMALLINT", "BYTE": "TINYINT"}
TRANSFORMS = {"years": "year", "months": "month", "days": "day", "hours": "hour"}
METADATA = "snapshots|history|refs|files|manifests|partitions|all_manifests|all_entries|entries|metadata_log_entries|properties|delete_files"
# properties of Spark's that are a table property of Trino's of its own
FORMATS = {"parquet": "PARQUET", "orc": "ORC", "avro": "AVRO"}


class Text:
    def __init__(self, sql, table, engine):
        self.kept, self.engine = [], engine
        self.full, self.short = f'{table["namespace"]}.{table["name"]}', table["name"]
        self.sql = re.sub(r"'(?:[^'\\]|''|\\.)*'", self.keep, sql.strip().rstrip(";"))

    def keep(self, m):
        self.kept.append(m.group(0))
        return f"\x01{len(self.kept) - 1}\x02"

    def back(self, sql):
        return re.sub(r"\x01(\d+)\x02", lambda m: self.kept[int(m.group(1))], sql)

    def literal(self, mark):
        return self.back(mark.strip())[1:-1]

    # ---- statements

    def statements(self):
        """Trino's statements that do the same, in order."""
        head = re.sub(r"\s+", " ", self.sql).upper()
        for start, rule in (("CREATE NAMESPACE", self.namespace), ("USE ", self.use), ("CREATE TABLE", self.create), ("CREATE OR REPLACE TEMPORARY VIEW", self.view),
                            ("INSERT OVERWRITE", self.none("INSERT OVERWRITE")), ("ALTER TABLE", self.alter), ("CALL ", self.call), ("SET ", self.none("a Spark setting")),
                            ("MERGE ", self.merge), ("UPDATE ", self.update)):
            if head.startswith(start):
                return [self.back(s) for s in rule()]
        return [self.query()]

    def none(self, what):
        def skip():
            raise Skipped(f"Trino has no equivalent of {what}")
        return skip

    def namespace(self):
        yield re.sub(r"(?i)^CREATE NAMESPACE", "CREATE SCHEMA", self.sql)

    def use(self):
        self.engine.schema = self.sql.split()[1].split(".")[-1]
        return []

    def view(self):
        m = re.match(r"(?is)CREATE OR REPLACE TEMPORARY VIEW (\w+) AS (.*)", self.sql)
        self.engine.views[m.group(1)] = self.back(self.code(m.group(2)))
        return []

    def create(self):
        m = re.match(r"(?is)CREATE TABLE (\S+) \((.*?)\)\s+USING iceberg\s*(.*)$", self.sql)
        if not m:
            raise Skipped("this form of CREATE TABLE")
        name, columns, rest = m.groups()
        out = []
        for c in split_args(columns):
            column, ty = c.strip().split(None, 1)
            ty, not_null = re.subn(r"(?i)\s+NOT NULL\s*$", "", ty)
            if re.search(r"(?i)\bDEFAULT\b", ty):
                raise Skipped("Trino has no equivalent of a column default in Spark's text")
            out.append(f"{column} {types(ty)}{' NOT NULL' if not_null else ''}")
        given = re.search(r"(?is)TBLPROPERTIES\s*\((.*)\)\s*$", rest)
        options = self.options(self.pairs(given.group(1)) if given else {})
        parts = re.search(r"(?is)PARTITIONED BY\s*\((.*?)\)\s*(?:TBLPROPERTIES|$)", rest)
        if parts:
            options.append("partitioning = ARRAY[" + ", ".join(f"'{transform(p)}'" for p in pieces(parts.group(1))) + "]")
        yield f"CREATE TABLE {name} ({', '.join(out)})" + (f" WITH ({', '.join(options)})" if options else "")

    def pairs(self, text):
        kv = [p.split("=", 1) for p in pieces(text)]
        return {self.literal(k): self.literal(v) for k, v in kv}

    def options(self, props):
        """WITH or SET PROPERTIES of Spark's properties."""
        out, extra = [], {}
        for k, v in props.items():
            if k == "format-version":
                out.append(f"format_version = {int(v)}")
            elif k == "write.format.default":
                out.append(f"format = '{FORMATS[v.lower()]}'")
            elif k.startswith("write.parquet."):
                raise Skipped(f"Trino sets {k} by its session, not by the table")
            else:
                extra[k] = v
        if extra:
            out.append("extra_properties = MAP(ARRAY[" + ", ".join(f"'{k}'" for k in extra) + "], ARRAY[" + ", ".join(f"'{v}'" for v in extra.values()) + "])")
        return out

    def alter(self):
        m = re.match(r"(?is)ALTER TABLE (\S+) (.*)", self.sql)
        name, rest = m.groups()
        rule = re.match(r"(?is)SET TBLPROPERTIES\s*\((.*)\)", rest)
        if rule:
            for option in self.options(self.pairs(rule.group(1))):
                yield f"ALTER TABLE {name} SET PROPERTIES {option}"
            return
        rule = re.match(r"(?is)ADD COLUMNS? \(?(\w+) ([^()]+?|[^()]+\([^()]*\))( AFTER \w+| FIRST)?\)?$", rest)
        if rule:
            yield f"ALTER TABLE {name} ADD COLUMN {rule.group(1)} {types(rule.group(2))}{rule.group(3) or ''}"
            return
        rule = re.match(r"(?is)ALTER COLUMN (\w+) TYPE (.*)", rest)
        if rule:
            yield f"ALTER TABLE {name} ALTER COLUMN {rule.group(1)} SET DATA TYPE {types(rule.group(2))}"
            return
        rule = re.match(r"(?is)(ADD|DROP) PARTITION FIELD (.*)", rest)
        if rule:
            field, now = transform(rule.group(2)), self.engine.partitioning(name)
            now = now + [field] if rule.group(1).upper() == "ADD" else [f for f in now if f != field]
            yield f"ALTER TABLE {name} SET PROPERTIES partitioning = ARRAY[" + ", ".join(f"'{f}'" for f in now) + "]"
            return
        if re.match(r"(?is)(RENAME|DROP) COLUMN", rest):
            yield f"ALTER TABLE {name} {rest}"
            return
        raise Skipped("Trino has no equivalent of ALTER TABLE … " + " ".join(re.findall(r"\w+", rest)[:2]))

    def call(self):
        m = re.match(r"(?is)CALL \w+\.system\.(\w+)\s*\((.*)\)$", self.sql)
        name, args = m.group(1), pieces(m.group(2))
        named = {k.strip(): v for k, v in (a.split("=>", 1) for a in args if "=>" in a)}
        table = self.literal(named.get("table") or args[0])
        if name == "rewrite_data_files":
            yield f"ALTER TABLE {table} EXECUTE optimize(file_size_threshold => '10GB')"
        elif name == "rewrite_manifests":
            yield f"ALTER TABLE {table} EXECUTE optimize_manifests"
        elif name == "expire_snapshots":
            yield f"ALTER TABLE {table} EXECUTE expire_snapshots(retention_threshold => '0s')"
        elif name == "rollback_to_snapshot":
            yield f"ALTER TABLE {table} EXECUTE rollback_to_snapshot(snapshot_id => {named.get('snapshot_id') or args[1]})"
        else:
            raise Skipped(f"Trino has no equivalent of the procedure {name}")

    def update(self):
        if re.search(r"(?is)\bSET\b(?:(?!\bWHERE\b).)*?\w+\.\w+\s*=", self.sql):
            raise Skipped("Trino assigns whole columns, not fields of a struct")
        yield self.code(self.sql)

    def merge(self):
        if re.search(r"(?i)NOT MATCHED BY SOURCE", self.sql):
            raise Skipped("Trino has no equivalent of WHEN NOT MATCHED BY SOURCE")
        sql = self.sql
        if re.search(r"(?i)(UPDATE SET|INSERT) \*", sql):
            target = re.match(r"(?is)MERGE INTO (\S+)", sql).group(1)
            source = re.search(r"(?is)USING (?:\w+|\(.*?\)) (?:AS )?(\w+) ON", sql).group(1)
            columns = self.engine.columns(target)
            sql = re.sub(r"(?i)UPDATE SET \*", "UPDATE SET " + ", ".join(f"{c} = {source}.{c}" for c in columns), sql)
            sql = re.sub(r"(?i)INSERT \*", f"INSERT ({', '.join(columns)}) VALUES ({', '.join(f'{source}.{c}' for c in columns)})", sql)
        yield self.code(sql)

    # ---- expressions

    def query(self):
        return self.back(self.code(self.sql))

    def code(self, sql):
        branch = re.search(rf"{re.escape(self.full)}\.(branch|tag)_(\w+)", sql)
        if branch:
            raise Skipped("Trino has no equivalent of writing to a branch by its name")
        if re.search(r"(?i)\bmake_interval\(", sql):
            raise Skipped("Trino has no equivalent of make_interval")
        sql = re.sub(r"(?i)\brange\(([^()]*)\)( \w+)?", self.numbers, sql)
        for view, text in self.engine.views.items():
            sql = re.sub(rf"(?i)\b(FROM|USING|JOIN) {view}\b(?!\.)(?!\s+[a-z]\b)", lambda m: f"{m.group(1)} ({text}) {view}", sql)
            sql = re.sub(rf"(?i)\b(FROM|USING|JOIN) {view}\b(?!\.)(?=\s+[a-z]\b)", lambda m: f"{m.group(1)} ({text})", sql)
        sql = re.sub(rf"(?i)\b(?:(\w+)\.)?{re.escape(self.short)}\.({METADATA})\b", self.metadata, sql)
        sql = re.sub(r"(?i)(?<!FOR )\bVERSION AS OF\b", "FOR VERSION AS OF", sql)
        sql = re.sub(r"(?i)\bCAST\((.*?) AS (\w+)\)", lambda m: f"CAST({m.group(1)} AS {types(m.group(2))})", sql)
        sql = re.sub(r"\b(TIMESTAMP_NTZ|TIMESTAMP)\s*\x01(\d+)\x02", self.moment, sql)
        sql = re.sub(r"(?<![\w.])(-?\d+(?:\.\d+)?)D\b", r"DOUBLE '\1'", sql)
        sql = re.sub(r"(?<![\w.])(-?\d+(?:\.\d+)?)F\b", r"REAL '\1'", sql)
        sql = re.sub(r"(?<![\w.])(-?\d{20,})(?![\w.])", r"DECIMAL '\1'", sql)
        sql = re.sub(r"(?i)\bINTERVAL (\d+) (DAY|HOUR|MINUTE|SECOND|MONTH|YEAR)S?\b", r"INTERVAL '\1' \2", sql)
        sql = re.sub(r"(?i)\bisnan\(", "is_nan(", sql)
        sql = call(sql, "make_interval", lambda a: f"({a[3]} * INTERVAL '1' DAY)")
        sql = call(sql, "named_struct", lambda a: "ROW(" + ", ".join(a[1::2]) + ")")
        sql = call(sql, "array", lambda a: "ARRAY[" + ", ".join(a) + "]")
        sql = call(sql, "map", lambda a: "MAP(ARRAY[" + ", ".join(a[::2]) + "], ARRAY[" + ", ".join(a[1::2]) + "])")
        return self.lineage(sql)

    def numbers(self, m):
        args = [int(a) for a in m.group(1).split(",")]
        low, high = (0, args[0]) if len(args) == 1 else (args[0], args[1])
        if high <= low:
            return f"(SELECT BIGINT '0' AS id WHERE false){m.group(2) or ''}"
        alias = m.group(2) or ""
        return f"(SELECT sequential_number AS id FROM TABLE(sequence(start => {low}, stop => {high - 1}))){alias}"

    def metadata(self, m):
        schema = f"{m.group(1)}." if m.group(1) else ""
        if m.group(2).lower() == "delete_files":
            return f'(SELECT * FROM {schema}"{self.short}$files" WHERE content <> 0)'
        return f'{schema}"{self.short}${m.group(2).lower()}"'

    def moment(self, m):
        text = self.kept[int(m.group(2))]
        self.kept.append(text if m.group(1) == "TIMESTAMP_NTZ" else text[:-1] + " UTC'")
        return f"TIMESTAMP \x01{len(self.kept) - 1}\x02"

    def lineage(self, sql):
        """Row ids and sequence numbers keep their names in a result."""
        m = re.match(r"(?is)SELECT (.*?) FROM ", sql)
        names = {"_row_id": '"$row_id"', "_last_updated_sequence_number": '"$last_updated_sequence_number"'}
        if m:
            items = [f"{names[i]} AS {i}" if i in names else i for i in (p.strip() for p in pieces(m.group(1)))]
            head, rest = f"SELECT {', '.join(items)} FROM ", sql[m.end():]
        else:
            head, rest = "", sql
        swap = lambda t: re.sub(r"(?<!AS )\b(_row_id|_last_updated_sequence_number)\b", lambda x: names[x.group(1)], t)
        return swap(head) + swap(rest)


def pieces(text):
    """Splits at the outer commas of code, where < and > compare."""
    return split_args(text, "([", ")]")


def types(text):
    text = text.strip()
    nested = re.fullmatch(r"(?is)(ARRAY|MAP|STRUCT)<(.*)>", text)
    if nested:
        kind, args = nested.group(1).upper(), split_args(nested.group(2))
        if kind == "STRUCT":
            return "ROW(" + ", ".join(f'"{n.strip()}" {types(t)}' for n, t in (a.split(":", 1) for a in args)) + ")"
        return f"{kind}({', '.join(types(a) for a in args)})"
    return TYPES.get(text.upper(), text)


def transform(text):
    m = re.fullmatch(r"(?is)(\w+)\((?:\s*(\d+)\s*,)?\s*(\w+)\s*\)", text.strip())
    if not m:
        return text.strip()
    name, n, column = m.group(1).lower(), m.group(2), m.group(3)
    return f"{TRANSFORMS.get(name, name)}({column}{', ' + n if n else ''})"


def call(sql, name, make):
    """Rewrites every call of a function, written in small letters, inner calls first."""
    while True:
        starts = [m for m in re.finditer(rf"(?<![\w.]){name}\(", sql)]
        if not starts:
            return sql
        m, depth = starts[-1], 1
        end = m.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(sql[end], 0)
            end += 1
        sql = sql[:m.start()] + make(pieces(sql[m.end():end - 1])) + sql[end:]
