"""The engine side of floe's driver protocol: JSON lines on stdin and stdout, one reply a request.

An engine's driver is a class with some of the methods below and one line: `serve(MyEngine)`.

    start(hello)            -> dict with engine, version, iceberg, roles, capabilities; `hello` has warehouse, catalog, scratch
    apply(sql, table)       -> None; runs one statement in Spark's text
    scan(table)             -> (columns, rows); the whole table at table["snapshot"], or its newest state when that is None
    query(sql, table)       -> (columns, rows); rows in the engine's order
    changes(table, a, b)    -> (columns, rows)
    stop()

`columns` is a list of (name, Iceberg type text); rows are tuples of Python values. A method raises `Refused` when the
engine says no in so many words, `Skipped` when the driver has no way to ask; anything else it raises is an error.
"""
import base64, datetime, decimal, hashlib, json, os, re, struct, sys, threading, traceback, uuid

PROTOCOL = 1


class Refused(Exception):
    """The engine declined, with a message a user would see."""


class Skipped(Exception):
    """This driver cannot ask the engine for that."""


# ---- types -------------------------------------------------------------------------------------------------------------

def split_args(text, opens="<([", closes=">)]"):
    """Splits `a,b<c,d>` at its outer commas."""
    out, depth, cur = [], 0, ""
    for ch in text:
        depth += (ch in opens) - (ch in closes)
        if ch == "," and depth == 0:
            out.append(cur.strip()); cur = ""
        else:
            cur += ch
    return out + [cur.strip()] if cur.strip() else out


def encoder(ty):
    """A function from a Python value to the protocol's JSON for the Iceberg type `ty`. Nulls are handled by the caller."""
    ty = ty.strip()
    if ty in ("int", "long"):
        return int
    if ty == "boolean":
        return bool
    if ty == "string":
        return lambda v: v.decode() if isinstance(v, bytes) else str(v)
    if ty == "float":
        return lambda v: bits(v, ">f", "7fc00000")
    if ty == "double":
        return lambda v: bits(v, ">d", "7ff8000000000000")
    if ty.startswith("decimal"):
        scale = int(re.match(r"decimal\(\d+,\s*(\d+)\)", ty).group(1))
        return lambda v: f"{decimal.Decimal(v):.{scale}f}"
    if ty == "date":
        return lambda v: v if isinstance(v, str) else v.isoformat()[:10]
    if ty in ("timestamp", "timestamptz"):
        return lambda v: stamp(v, ty.endswith("tz"))
    if ty in ("timestamp_ns", "timestamptz_ns"):
        return lambda v: stamp_ns(v, ty.startswith("timestamptz"))
    if ty == "time":
        return lambda v: v if isinstance(v, str) else v.strftime("%H:%M:%S.%f")
    if ty == "binary" or ty.startswith("fixed"):
        return lambda v: bytes(v).hex()
    if ty == "uuid":
        return lambda v: str(uuid.UUID(bytes=bytes(v))) if isinstance(v, (bytes, bytearray)) else str(v).lower()
    if ty == "variant":
        return lambda v: json.dumps(json.loads(v) if isinstance(v, str) else v, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if ty == "unknown":
        return lambda v: None
    if ty.startswith("list<"):
        item = encoder(ty[5:-1])
        return lambda v: [None if x is None else item(x) for x in v]
    if ty.startswith("map<"):
        kt, vt = split_args(ty[4:-1])
        ke, ve = encoder(kt), encoder(vt)

        def entries(v):
            pairs = v.items() if isinstance(v, dict) else v
            return sorted(([ke(k), None if x is None else ve(x)] for k, x in pairs), key=lambda p: dump(p[0]))
        return entries
    if ty.startswith("struct<"):
        fields = [f.split(":", 1) for f in split_args(ty[7:-1])]
        enc = [(n.strip(), encoder(t)) for n, t in fields]

        def record(v):
            get = (lambda i, n: v.get(n)) if isinstance(v, dict) else (lambda i, n: v[i])
            return [None if get(i, n) is None else e(get(i, n)) for i, (n, e) in enumerate(enc)]
        return record
    return lambda v: v.hex() if isinstance(v, (bytes, bytearray)) else str(v)


def bits(value, code, nan):
    value = float(value)
    return nan if value != value else struct.pack(code, value).hex()


def stamp(value, zoned):
    if isinstance(value, str):
        return value
    if isinstance(value, int):  # microseconds since the epoch
        value = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=value)
    if value.tzinfo is not None:
        value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return value.strftime("%Y-%m-%dT%H:%M:%S.%f").rjust(26, "0") + ("Z" if zoned else "")


def stamp_ns(value, zoned):
    if isinstance(value, str):
        return value
    seconds, nanos = divmod(int(value), 1_000_000_000)
    base = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    return base.strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0") + f".{nanos:09d}" + ("Z" if zoned else "")


def dump(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def arrow_type(ty):
    """Iceberg's name of a pyarrow type."""
    import pyarrow as pa
    t = pa.types
    if t.is_dictionary(ty):
        return arrow_type(ty.value_type)
    if t.is_boolean(ty): return "boolean"
    if t.is_int64(ty): return "long"
    if t.is_int32(ty): return "int"
    if t.is_float32(ty): return "float"
    if t.is_float64(ty): return "double"
    if t.is_decimal(ty): return f"decimal({ty.precision},{ty.scale})"
    if t.is_date(ty): return "date"
    if t.is_time(ty): return "time"
    if t.is_timestamp(ty):
        return ("timestamptz" if ty.tz else "timestamp") + ("_ns" if ty.unit == "ns" else "")
    if t.is_string(ty) or t.is_large_string(ty) or (hasattr(t, "is_string_view") and t.is_string_view(ty)): return "string"
    if t.is_fixed_size_binary(ty): return f"fixed[{ty.byte_width}]"
    if t.is_binary(ty) or t.is_large_binary(ty) or (hasattr(t, "is_binary_view") and t.is_binary_view(ty)): return "binary"
    if t.is_map(ty): return f"map<{arrow_type(ty.key_type)},{arrow_type(ty.item_type)}>"
    if t.is_list(ty) or t.is_large_list(ty): return f"list<{arrow_type(ty.value_type)}>"
    if t.is_struct(ty): return "struct<" + ",".join(f"{ty.field(i).name}:{arrow_type(ty.field(i).type)}" for i in range(ty.num_fields)) + ">"
    if t.is_null(ty): return "unknown"
    if isinstance(ty, pa.BaseExtensionType):
        return "uuid" if "uuid" in str(ty) else arrow_type(ty.storage_type)
    return str(ty)


def arrow_result(table):
    """(columns, rows) of a pyarrow Table."""
    import pyarrow as pa
    cols, data = [], []
    for field, col in zip(table.schema, table.columns):
        cols.append((field.name, arrow_type(field.type)))
        if pa.types.is_timestamp(field.type):  # as integers: Python's datetime has no nanoseconds and a smaller range
            unit = "ns" if field.type.unit == "ns" else "us"
            col = col.cast(pa.timestamp(unit, field.type.tz)).cast(pa.int64())
        data.append(col.to_pylist())
    return cols, list(zip(*data)) if data else []


# ---- serving -----------------------------------------------------------------------------------------------------------

def encode_result(columns, rows, limit):
    enc = [encoder(t) for _, t in columns]
    total, count, kept = 0, 0, []
    for row in rows:
        line = [None if v is None else e(v) for v, e in zip(row, enc)]
        text = dump(line)
        total = (total + int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big")) % (1 << 64)
        count += 1
        if count <= limit:
            kept.append(line)
    out = {"columns": [[n, t] for n, t in columns], "count": count, "digest": f"{total:016x}"}
    if count <= limit:
        out["rows"] = kept
    return out


def handle(engine, request):
    cmd = request["cmd"]
    limit = request.get("limit", 1000)
    if cmd == "hello":
        return {"protocol": PROTOCOL, **engine.start(request)}
    method = getattr(engine, {"stop": "stop"}.get(cmd, cmd), None)
    if cmd == "stop":
        return (method() if method else None) or {}
    if method is None:
        raise Skipped(f"the driver has no {cmd}")
    table = request.get("table")
    if cmd == "apply":
        return method(request["sql"], table) or {}
    if cmd == "scan":
        return encode_result(*method(table), limit)
    if cmd == "query":
        return encode_result(*method(request["sql"], table), limit)
    if cmd == "changes":
        return encode_result(*method(table, request.get("from"), request.get("to")), limit)
    raise Skipped(f"unknown command {cmd}")


def serve(make):
    """Runs the protocol until `stop` or the end of input. Whatever the engine prints goes to stderr, never into the protocol."""
    os.environ["TZ"] = "UTC"
    wire = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    engine = make()
    lines = iter(sys.stdin.readline, "")
    for line in lines:
        if not line.strip():
            continue
        request = json.loads(line)
        reply = {"id": request.get("id")}
        try:
            reply["ok"] = handle(engine, request)
        except Refused as e:
            reply["refused"] = {"message": short(e)}
        except Skipped as e:
            reply["skipped"] = {"reason": short(e)}
        except BaseException as e:  # a panic in an extension module is no Exception; the harness decides what an error means
            traceback.print_exc()
            reply["error"] = {"message": short(e), "class": type(e).__name__}
        wire.write(json.dumps(reply, ensure_ascii=False) + "\n")
        wire.flush()
        if request["cmd"] == "stop":
            break
    os._exit(0)


def short(e):
    text = "\n".join(l for l in str(e).splitlines() if not re.match(r"\s*(at |\.\.\. \d+ more)", l))
    return re.sub(r"\s+", " ", text).strip()[:1200] or type(e).__name__
