"""DuckDB's side of a REST catalog. Arguments: the catalog's URI, its token."""
import glob
import os
import sys

import duckdb

uri, token = sys.argv[1:3]
db = duckdb.connect()
for name in ("avro", "httpfs", "iceberg"):
    (path,) = glob.glob(os.path.join(sys.prefix, f"lib/python*/site-packages/duckdb_extension_{name}/extensions/*/{name}.duckdb_extension"))
    db.execute(f"LOAD '{path}'")
db.execute(f"CREATE SECRET s (TYPE iceberg, TOKEN '{token}')")
db.execute(f"ATTACH 'lake' AS lake (TYPE iceberg, SECRET s, ENDPOINT '{uri}')")
assert db.execute("SELECT count(*), count(*) FILTER (id = 5000) FROM lake.walk.t").fetchone() == (19_999, 0)
db.execute("CREATE TABLE lake.walk.copied AS SELECT id, s FROM lake.walk.t WHERE id < 100")
assert db.execute("SELECT count(*) FROM lake.walk.copied").fetchone() == (100,)
print("ok")
