"""Trino over catalogs of the caller's. Argument: JSON of their properties' texts by name. Then a statement a line comes in, as JSON text,
and its rows go out, as JSON; the end of the input ends the server."""
import json
import os
import sys

from trino import Trino


class Shared(Trino):
    def catalogs(self, hello):
        return json.loads(sys.argv[1])


# what the server and the driver say goes to the log
out, sys.stdout = os.fdopen(os.dup(1), "w"), sys.stderr
os.dup2(2, 1)
trino = Shared()
trino.start({"catalog": "none", "scratch": os.environ["FLOE_SCRATCH"]})
print("ready", file=out, flush=True)
try:
    for line in sys.stdin:
        try:
            answer = trino.run(json.loads(line))[1]
        except Exception as e:
            answer = {"error": str(e)}
        print(json.dumps(answer), file=out, flush=True)
finally:
    trino.stop()
