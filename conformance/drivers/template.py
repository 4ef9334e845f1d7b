#!/usr/bin/env python3
"""A driver for your engine, to start from: `cargo floe conformance --engine-cmd "python3 my_driver.py"`.

This one is a toy: it knows no table format and reads nothing, so it says `skipped` to every scan. Put your engine's calls
where the comments are. `floe_driver` does the rest: the protocol, typed values, digests. docs/add-an-engine.md explains.
"""
from floe_driver import Refused, Skipped, serve


class MyEngine:
    def start(self, hello):
        """Start the engine. hello: warehouse (folder), catalog (its name in SQL), scratch (a folder of your own)."""
        self.warehouse = hello["warehouse"]
        return {"engine": "my engine", "version": "0.1", "iceberg": "",
                "roles": ["read"],            # add "write" when apply() works
                "catalogs": ["path"],         # "hadoop": by warehouse and name; "path": by metadata file
                "sql": False,                 # True when query() takes Spark's SQL
                "capabilities": ["v2"]}       # what it can do; every one is then put to the test

    def scan(self, table):
        """The whole table. table: namespace, name, location, metadata (file of the state to read), snapshot (id or None)."""
        raise Skipped("the template reads nothing")
        # columns = [("id", "int"), ("city", "string")]     # Iceberg's type names
        # rows = [(1, "a"), (2, None)]                       # Python values; pyarrow tables: floe_driver.arrow_result(table)
        # return columns, rows

    def apply(self, sql, table):
        """One statement in Spark's text. Say no with Refused; any other exception is an error of the engine."""
        raise Refused("the template writes nothing")

    def stop(self):
        """Let go of what start() took."""


if __name__ == "__main__":
    serve(MyEngine)
