#!/usr/bin/env python3
"""A driver for your engine, to start from: `cargo floe conformance --engine-cmd "python3 my_driver.py"`.

It drives an engine by its command line. As it stands that engine is `floe sql` (the one that runs it, else `floe` on the path), so it runs
and passes before you change anything; then put your engine's calls where the comments are. `floe_driver` does the rest: the
protocol, typed values, digests. docs/add-an-engine.md explains.
"""
import json, os, subprocess

from floe_driver import Refused, arrow_result, serve  # noqa: F401 (arrow_result: columns and rows of a pyarrow table)


class MyEngine:
    def start(self, hello):
        """Start the engine. hello: warehouse (folder), catalog (its name in SQL), rest (a catalog's address or absent), scratch
        (a folder of your own)."""
        self.catalog = hello["catalog"]
        self.command = [os.environ.get("FLOE_EXE", "floe"), "sql", "--catalog", "hadoop:" + hello["warehouse"], "--format", "json", "-c"]
        version = subprocess.run([self.command[0], "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
        return {"engine": "my engine", "version": version, "iceberg": "",
                "roles": ["write", "read"],   # leave "write" out when apply() does nothing
                "catalogs": ["hadoop"],       # "hadoop": by warehouse and name; "rest": by address; "path": by metadata file
                "sql": False,                 # True when query() takes Spark's SQL
                "capabilities": ["v2", "v3", "read-dv", "write-dv", "row-level", "time-travel"]}  # every one is put to the test

    def sql(self, text):
        done = subprocess.run(self.command + [text], capture_output=True, text=True)
        if done.returncode == 1:  # the engine said no, in words a user would see
            raise Refused(done.stderr)
        if done.returncode:  # anything else it says is an error of the engine
            raise RuntimeError(done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def apply(self, sql, table):
        """One statement in Spark's text."""
        self.sql(sql)

    def scan(self, table):
        """The whole table. table: namespace, name, location, metadata (file of the state to read), snapshot (id or None)."""
        at = "" if table["snapshot"] is None else f" VERSION AS OF {table['snapshot']}"
        found = self.sql(f"SELECT * FROM {table['namespace']}.{table['name']}{at}")
        columns = self.columns(table)                                   # [("id", "int"), …]: Iceberg's type names
        return columns, [tuple(r.get(n) for n, _ in columns) for r in found]  # rows: Python values

    def columns(self, table):
        """A command line prints values without their types; better take them from your engine's own answer."""
        with open(table["metadata"], encoding="utf-8") as f:
            m = json.load(f)
        snapshots = {s["snapshot-id"]: s.get("schema-id") for s in m.get("snapshots", [])}
        wanted = snapshots.get(table["snapshot"])
        wanted = m["current-schema-id"] if wanted is None else wanted
        return [(f["name"], f["type"]) for s in m["schemas"] if s["schema-id"] == wanted for f in s["fields"]]

    def stop(self):
        """Let go of what start() took."""


if __name__ == "__main__":
    serve(MyEngine)
