#!/usr/bin/env python3
"""A driver for your engine, to start from: `cargo floe conformance --engine-cmd "python3 my_driver.py" --scenario dv/`.

It works as it is: its engine is floe's own command line, asked for the rows of a table as JSON. Put your engine's calls in
its place. `floe_driver` does the rest: the protocol, typed values, digests. docs/add-an-engine.md explains.
"""
import json, os, subprocess

from floe_driver import Refused, Skipped, serve


class MyEngine:
    def start(self, hello):
        """Start the engine. hello: warehouse (folder), catalog (its name in SQL), scratch (a folder of your own)."""
        self.warehouse = hello["warehouse"]
        self.program = os.environ.get("FLOE_EXE", "floe")
        return {"engine": "my engine", "version": "0.1", "iceberg": "",
                "roles": ["read"],            # add "write" when apply() works
                "catalogs": ["hadoop"],       # "hadoop": by warehouse and name; "rest": by URI; "path": by metadata file
                "sql": False,                 # True when query() takes Spark's SQL
                "capabilities": ["v2", "v3", "read-dv", "position-deletes", "time-travel"]}  # each is put to the test

    def scan(self, table):
        """The whole table. table: namespace, name, location, metadata (file of the state to read), snapshot (id or None)."""
        at = "" if table["snapshot"] is None else f" VERSION AS OF {table['snapshot']}"
        lines = self.ask(f"SELECT * FROM {table['namespace']}.{table['name']}{at}")
        columns = self.columns(table)         # [("id", "int"), ("city", "string")]: Iceberg's type names
        rows = [tuple(json.loads(line)[name] for name, _ in columns) for line in lines]
        return columns, rows                  # of a pyarrow table both are floe_driver.arrow_result(table)

    def apply(self, sql, table):
        """One statement in Spark's text. Say no with Refused; any other exception is an error of the engine."""
        raise Refused("the template writes nothing")

    def stop(self):
        """Let go of what start() took."""

    # ---- of this example only

    def ask(self, sql):
        command = [self.program, "sql", "--catalog", f"hadoop:{self.warehouse}", "--format", "json", "-c", sql]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise Refused(done.stderr)
        return done.stdout.splitlines()

    def columns(self, table):
        with open(table["metadata"], encoding="utf-8") as f:
            meta = json.load(f)
        of = {s["snapshot-id"]: s.get("schema-id") for s in meta.get("snapshots", [])}
        chosen = of.get(table["snapshot"], meta["current-schema-id"])
        fields = next(s["fields"] for s in meta["schemas"] if s["schema-id"] == chosen)
        if not all(isinstance(f["type"], str) for f in fields):
            raise Skipped("the template reads no nested columns")
        return [(f["name"], f["type"].replace(" ", "")) for f in fields]


if __name__ == "__main__":
    serve(MyEngine)
