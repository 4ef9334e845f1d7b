"""PyIceberg's side of a shared catalog. Arguments: what to do, then the catalog's properties as KEY=VALUE (`name` among them)."""
import sys

import pyarrow as pa
from pyiceberg.catalog import load_catalog

step, props = sys.argv[1], dict(p.split("=", 1) for p in sys.argv[2:])
catalog = load_catalog(props.pop("name"), **props)


def ids(table, **scan):
    return sorted(table.scan(**scan).to_arrow()["id"].to_pylist())


def rows(*numbers):
    return pa.table({"id": pa.array(numbers, pa.int32()), "s": pa.array([str(n) for n in numbers], pa.string())})


if step == "write":
    # floe's V3 table with a deletion vector
    table = catalog.load_table("walk.t")
    assert table.format_version == 3, table.format_version
    assert table.inspect.delete_files().num_rows == 1
    assert len(ids(table)) == 19_999 and ids(table, row_filter="id = 5000") == []
    # a V2 table of its own (this version writes no V3), and everything a catalog does
    catalog.create_namespace("made")
    table = catalog.create_table("made.u", schema=rows().schema)
    table.append(rows(1, 2, 3))
    table.append(rows(4, 5))
    table.delete("id = 2")
    assert ids(table) == [1, 3, 4, 5]
    catalog.create_table("made.w", schema=rows().schema)
    catalog.rename_table("made.w", "made.x")
    assert sorted(n[1] for n in catalog.list_tables("made")) == ["u", "x"]
    catalog.drop_table("made.x")
    assert not catalog.table_exists("made.x") and ("made",) in catalog.list_namespaces()
elif step == "read":
    # what floe (and others) wrote since; the numbers that must be gone follow
    gone = [int(n) for n in props.pop("gone").split(",")]
    found = set(ids(catalog.load_table("walk.t")))
    assert len(found) == 20_000 - len(gone) and not found & set(gone), len(found)
    # floe's position deletes in PyIceberg's own V2 table
    assert ids(catalog.load_table("made.u")) == [1, 3, 5]
print("ok")
