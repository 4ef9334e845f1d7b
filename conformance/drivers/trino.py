"""Trino: one server for the whole run, asked over its client protocol; Spark's text is put into Trino's where there is an equivalent."""
import base64, json, os, re, socket, subprocess, time, urllib.error, urllib.request

from floe_driver import Refused, Skipped, serve, split_args
from trino_text import Text

CAPABILITIES = ["v2", "v3", "read-dv", "write-dv", "position-deletes", "equality-deletes", "row-level", "merge", "upgrade", "lineage", "time-travel",
                "schema-evolution", "partition-evolution", "metadata-tables", "procedures", "avro", "orc"]

CONFIG = """coordinator=true
node-scheduler.include-coordinator=true
http-server.http.port={port}
discovery.uri=http://127.0.0.1:{port}
query.max-memory=800MB
query.max-memory-per-node=600MB
memory.heap-headroom-per-node=300MB
"""

# without the memory of file contents: the harness damages files that this server may have read as their writer
CATALOG = """connector.name=iceberg
iceberg.metadata-cache.enabled=false
iceberg.catalog.type=rest
iceberg.rest-catalog.uri={rest}
iceberg.unique-table-location=false
iceberg.allowed-extra-properties=*
iceberg.expire-snapshots.min-retention=0s
fs.hadoop.enabled=true
fs.native-local.enabled=true
local.location=/
"""


class Trino:
    def start(self, hello):
        catalogs = self.catalogs(hello)
        self.catalog, self.schema, self.views = hello["catalog"], None, {}
        self.home, scratch = os.environ["FLOE_ENGINE_DIR"], hello["scratch"]
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.url, etc = f"http://127.0.0.1:{port}", os.path.join(scratch, "etc")
        os.makedirs(os.path.join(etc, "catalog"), exist_ok=True)
        for path, text in [("config.properties", CONFIG.format(port=port)), ("log.properties", "io.trino=WARN\norg.apache.iceberg=WARN\n")] + [
                (f"catalog/{name}.properties", text) for name, text in catalogs.items()]:
            with open(os.path.join(etc, path), "w") as f:
                f.write(text)
        options = {"node.environment": "floe", "node.id": "floe", "node.data-dir": os.path.join(scratch, "data"), "node.internal-address": "127.0.0.1",
                   "config": f"{etc}/config.properties", "log.levels-file": f"{etc}/log.properties", "catalog.config-dir": f"{etc}/catalog",
                   "plugin.dir": os.path.join(self.home, "plugin"), "jdk.attach.allowAttachSelf": "true", "user.timezone": "UTC"}
        self.server = subprocess.Popen(
            [os.path.join(os.environ["FLOE_JDK"], "bin/java"), f"-Xmx{os.environ.get('FLOE_TRINO_MEMORY', '1500m')}", "-XX:+UseSerialGC",
             "-XX:+ExitOnOutOfMemoryError", "--add-modules=jdk.incubator.vector", "--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow"]
            + [f"-D{k}={v}" for k, v in options.items()]
            + ["-cp", f"{os.environ['FLOE_CLASSES']}:{self.home}/lib/*", "TrinoMain", os.environ.get("FLOE_TRINO_VERSION", "483")],
            cwd=scratch, stdin=subprocess.DEVNULL)
        while True:
            self.check()
            try:
                with urllib.request.urlopen(self.url + "/v1/info", timeout=5) as r:
                    info = json.load(r)
                if not info["starting"]:
                    break
            except (OSError, ValueError):
                pass
            time.sleep(0.2)
        return {"engine": "Trino", "version": info["nodeVersion"]["version"], "iceberg": "1.11.0", "roles": ["write", "read"], "catalogs": ["rest"],
                "sql": True, "capabilities": CAPABILITIES}

    def catalogs(self, hello):
        """Text of each catalog's properties, by name."""
        if not hello.get("rest"):
            raise Skipped("Trino needs a REST catalog")
        return {hello["catalog"]: CATALOG.format(rest=hello["rest"])}

    def check(self):
        if self.server.poll() is not None:  # the harness starts a driver that ended again
            print(f"the Trino server ended with {self.server.returncode}", flush=True)
            os._exit(1)

    def request(self, url, data=None):
        headers = {"X-Trino-User": "floe", "X-Trino-Catalog": self.catalog, "X-Trino-Time-Zone": "UTC", "X-Trino-Client-Capabilities": "PARAMETRIC_DATETIME"}
        if self.schema:
            headers["X-Trino-Schema"] = self.schema
        for wait in (0.1, 0.3, 1, None):
            try:
                with urllib.request.urlopen(urllib.request.Request(url, data=data, headers=headers), timeout=110) as r:
                    return json.load(r)
            except urllib.error.HTTPError as e:
                if e.code not in (502, 503, 504) or wait is None:
                    raise
                time.sleep(wait)
            except urllib.error.URLError:
                self.check()
                raise

    def run(self, sql):
        """(columns as (name, Trino type), rows as JSON)."""
        print(sql, flush=True)
        reply, columns, rows = self.request(self.url + "/v1/statement", sql.encode()), None, []
        while True:
            columns = reply.get("columns") or columns
            rows += reply.get("data") or []
            error = reply.get("error")
            if error:
                text, cause = f"{error['errorName']}: {error.get('message', '')}", error.get("failureInfo") or {}
                while cause.get("cause"):
                    cause = cause["cause"]
                if cause.get("message") and cause["message"] not in text:
                    text += f": {cause['message']}"
                raise Refused(text) if error["errorType"] == "USER_ERROR" else RuntimeError(text)
            if "nextUri" not in reply:
                return [(c["name"], c["type"]) for c in columns or []], rows
            reply = self.request(reply["nextUri"])

    def result(self, sql):
        columns, rows = self.run(sql)
        decode = [decoder(t) for _, t in columns]
        return [(n, iceberg_type(t)) for n, t in columns], [tuple(None if v is None else d(v) for v, d in zip(r, decode)) for r in rows]

    def name(self, table):
        return f'{table["namespace"]}.{table["name"]}'

    def apply(self, sql, table):
        text = Text(sql, table, self)
        for statement in text.statements():
            self.run(statement)

    def columns(self, table):
        return [n for n, _ in self.run(f"SELECT * FROM {table} LIMIT 0")[0]]

    def partitioning(self, table):
        """The table's partition fields as Trino writes them."""
        made = self.run(f"SHOW CREATE TABLE {table}")[1][0][0]
        found = re.search(r"partitioning = ARRAY\[(.*?)\]\s*[,)]?\n", made + "\n")
        return [f.strip().strip("'") for f in split_args(found.group(1))] if found else []

    def scan(self, table):
        at = "" if table.get("snapshot") is None else f" FOR VERSION AS OF {table['snapshot']}"
        return self.result(f"SELECT * FROM {self.name(table)}{at}")

    def query(self, sql, table):
        return self.result(Text(sql, table, self).query())

    def stop(self):
        self.server.kill()


def outer(ty):
    """`map(varchar, double)` is ("map", ["varchar", "double"])."""
    m = re.fullmatch(r"([a-z ]+)\((.*)\)", ty, re.S)
    return (m.group(1), split_args(m.group(2))) if m else (ty, [])


def field(text):
    """Name and type of a row's field."""
    m = re.match(r'"((?:[^"]|"")*)"\s+(.*)|(\S+)\s+(.*)', text, re.S)
    return (m.group(1), m.group(2)) if m.group(1) is not None else (m.group(3), m.group(4))


def iceberg_type(ty):
    simple = {"integer": "int", "bigint": "long", "real": "float", "varchar": "string", "varbinary": "binary", "boolean": "boolean", "double": "double",
              "date": "date", "uuid": "uuid", "tinyint": "int", "smallint": "int", "json": "variant", "variant": "variant", "unknown": "unknown"}
    if ty in simple:
        return simple[ty]
    stamp = re.fullmatch(r"(timestamp|time)\((\d+)\)( with time zone)?", ty)
    if stamp:
        if stamp.group(1) == "time":
            return "time"
        return ("timestamptz" if stamp.group(3) else "timestamp") + ("_ns" if stamp.group(2) == "9" else "")
    name, args = outer(ty)
    if name in ("varchar", "char"):
        return "string"
    if name == "decimal":
        return f"decimal({args[0]},{args[1]})"
    if name == "array":
        return f"list<{iceberg_type(args[0])}>"
    if name == "map":
        return f"map<{iceberg_type(args[0])},{iceberg_type(args[1])}>"
    if name == "row":
        return "struct<" + ",".join(f"{n}:{iceberg_type(t)}" for n, t in map(field, args)) + ">"
    return ty


def decoder(ty):
    """From the client protocol's JSON to what `floe_driver` takes."""
    if ty == "varbinary":
        return base64.b64decode
    if re.match(r"timestamp\(\d+\)( with time zone)?$", ty):
        digits, zone = int(re.search(r"\((\d+)\)", ty).group(1)), "with" in ty

        def moment(v):
            text = v[:-4] if zone and v.endswith(" UTC") else v
            day, clock = text.split(" ", 1)
            whole, _, part = clock.partition(".")
            return f"{day}T{whole}.{part.ljust(9 if digits == 9 else 6, '0')}" + ("Z" if zone else "")
        return moment
    name, args = outer(ty)
    if name == "array":
        item = decoder(args[0])
        return lambda v: [None if x is None else item(x) for x in v]
    if name == "map":
        key, value = args[0], decoder(args[1])
        ke = int if key in ("integer", "bigint") else (lambda k: k == "true") if key == "boolean" else float if key in ("real", "double") else decoder(key)
        return lambda v: {ke(k): None if x is None else value(x) for k, x in v.items()}
    if name == "row":
        parts = [decoder(t) for _, t in map(field, args)]
        return lambda v: [None if x is None else d(x) for x, d in zip(v, parts)]
    if ty in ("json", "variant"):
        return lambda v: v if isinstance(v, str) else json.dumps(v)
    return lambda v: v


if __name__ == "__main__":
    serve(Trino)
