"""Google's readers: BigQuery by its command `bq`, and the lakehouse REST catalog by PyIceberg. The argument says which.

Both read a copy of the table that is published to Cloud Storage first. FLOE_GCS_WAREHOUSE is a folder there (gs://BUCKET/PATH),
GOOGLE_CLOUD_PROJECT the project that pays, GOOGLE_APPLICATION_CREDENTIALS a file of credentials, FLOE_BIGQUERY_DATASET the data set (floe).
"""
import base64, importlib.metadata, json, os, re, shutil, subprocess, sys, tempfile

from floe_driver import Refused, Skipped, arrow_result, serve
from published import publish

READS = ["v2", "v3", "read-dv", "time-travel", "schema-evolution", "partition-evolution"]


class Google:
    def start(self, hello):
        self.warehouse = os.environ["FLOE_GCS_WAREHOUSE"].rstrip("/")
        self.project = os.environ["GOOGLE_CLOUD_PROJECT"]
        self.scratch = hello["scratch"]
        self.env = {**os.environ, "CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE": os.environ["GOOGLE_APPLICATION_CREDENTIALS"]}
        return self.open()

    def run(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, env=self.env, stdin=subprocess.DEVNULL)
        if done.returncode:
            said = (done.stdout + done.stderr).strip()
            refused = re.search(r"(?i)not supported|unsupported|invalid|not implemented", said)
            raise (Refused if refused else RuntimeError)(f"{command[0]}: {said}")
        return done.stdout

    def published(self, table):
        """The state's metadata file in Cloud Storage. A state by snapshot was the newest of its own metadata file."""
        if not table["metadata"]:
            raise Skipped("there is no metadata file yet")
        name = f"{table['namespace']}_{table['name']}"
        stage = tempfile.mkdtemp(dir=self.scratch)
        try:
            target = f"{self.warehouse}/{name}"
            metadata = publish(table["metadata"], table["location"], target, stage)
            self.run("gcloud", "storage", "cp", "--recursive", *(os.path.join(stage, d) for d in sorted(os.listdir(stage))), target + "/")
        finally:
            shutil.rmtree(stage)
        return name, metadata

    def scan(self, table):
        return self.read(table, *self.published(table))


class BigQuery(Google):
    def open(self):
        self.dataset = os.environ.get("FLOE_BIGQUERY_DATASET", "floe")
        version = self.run("bq", "version").split()[-1]
        self.run("bq", f"--project_id={self.project}", "mk", "--force", "--dataset", f"{self.project}:{self.dataset}")
        return {"engine": "BigQuery", "version": version, "iceberg": "", "roles": ["read"], "catalogs": ["path"], "sql": False, "capabilities": READS}

    def query(self, sql):
        out = self.run("bq", f"--project_id={self.project}", "query", "--use_legacy_sql=false", "--format=json", "--max_rows=1000000", sql)
        return json.loads(out) if out.lstrip().startswith("[") else []

    def read(self, table, name, metadata):
        full = f"{self.project}.{self.dataset}.{name}"
        self.query(f"CREATE OR REPLACE EXTERNAL TABLE `{full}` OPTIONS (format = 'ICEBERG', uris = ['{metadata}'])")
        shown = self.run("bq", f"--project_id={self.project}", "show", "--schema", "--format=json", f"{self.project}:{self.dataset}.{name}")
        with open(table["metadata"], encoding="utf-8") as f:
            m = json.load(f)
        own = {f["name"]: f["type"] for f in next(s for s in m["schemas"] if s["schema-id"] == m["current-schema-id"])["fields"]}
        columns = [(f["name"], iceberg_type(f, own.get(f["name"]))) for f in json.loads(shown)]
        rows = self.query(f"SELECT * FROM `{full}`")
        return columns, [tuple(None if r.get(n) is None else plain(r[n], t) for n, t in columns) for r in rows]


def iceberg_type(field, own):
    """BigQuery has one integer and one float: the table's schema says which of Iceberg's two a column is."""
    t = field["type"].upper()
    if field.get("mode") == "REPEATED" or t in ("RECORD", "STRUCT"):
        raise Skipped(f"the driver reads no nested columns: {field['name']}")
    if t in ("INTEGER", "INT64"):
        return own if own in ("int", "long") else "long"
    if t in ("FLOAT", "FLOAT64"):
        return own if own in ("float", "double") else "double"
    if t in ("NUMERIC", "BIGNUMERIC"):
        return f"decimal({field.get('precision', 38)},{field.get('scale', 9)})"
    if t == "BYTES":
        return own if isinstance(own, str) and (own in ("binary", "uuid") or own.startswith("fixed")) else "binary"
    return {"BOOLEAN": "boolean", "BOOL": "boolean", "STRING": "string", "DATE": "date", "TIMESTAMP": "timestamptz", "DATETIME": "timestamp",
            "TIME": "time"}.get(t, t.lower())


def plain(text, t):
    """A value of bq's JSON, which is text for every type, in the form that floe_driver takes."""
    if t == "boolean":
        return str(text).lower() == "true"
    if t in ("int", "long"):
        return int(text)
    if t in ("float", "double"):
        return float(text)
    if t in ("timestamp", "timestamptz"):
        day, _, time = str(text).replace("T", " ").rstrip("Z").partition(" ")
        whole, _, part = time.partition(".")
        return f"{day}T{whole}.{part.ljust(6, '0')}" + ("Z" if t == "timestamptz" else "")
    if t in ("binary", "uuid") or t.startswith("fixed"):
        return base64.b64decode(text)
    return text


class Lakehouse(Google):
    URI = "https://biglake.googleapis.com/iceberg/v1/restcatalog"

    def open(self):
        from pyiceberg.catalog import load_catalog
        bucket = "/".join(self.warehouse.split("/")[:3])
        self.catalog = load_catalog("google", **{"type": "rest", "uri": os.environ.get("FLOE_LAKEHOUSE_URI", self.URI), "warehouse": bucket,
                                                 "header.x-goog-user-project": self.project, "auth": {"type": "google", "google": {}}})
        self.catalog.create_namespace_if_not_exists("floe")
        return {"engine": "lakehouse REST catalog, PyIceberg", "version": importlib.metadata.version("pyiceberg"), "iceberg": "",
                "roles": ["read"], "catalogs": ["path"], "sql": False, "capabilities": READS}

    def read(self, table, name, metadata):
        if self.catalog.table_exists(("floe", name)):
            self.catalog.drop_table(("floe", name))
        try:
            return arrow_result(self.catalog.register_table(("floe", name), metadata).scan().to_arrow())
        except (NotImplementedError, ValueError) as e:
            raise Refused(f"{type(e).__name__}: {e}") from e


if __name__ == "__main__":
    serve({"bigquery": BigQuery, "lakehouse": Lakehouse}[sys.argv[1]])
