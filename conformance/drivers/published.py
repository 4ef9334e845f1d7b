"""A table of the local warehouse, copied with all its paths moved: what an engine in a cloud can read.

Metadata names files by full path, so a copy needs every path of metadata, manifest lists, manifests and Puffin footers rewritten. Position delete
files of version 2 hold paths in their rows; a table with one is not published.
"""
import io, json, os, re, shutil, zlib

from floe_driver import Skipped

MAGIC = b"Obj\x01"


# ---- Avro files, as far as manifests need them ------------------------------------------------------------------------

def read_long(f):
    value = shift = 0
    while True:
        b = f.read(1)[0]
        value |= (b & 127) << shift
        shift += 7
        if not b & 128:
            return (value >> 1) ^ -(value & 1)


def write_long(f, value):
    value = (value << 1) ^ (value >> 63)
    while value & ~127:
        f.write(bytes([value & 127 | 128]))
        value >>= 7
    f.write(bytes([value]))


def kind(schema, names):
    """(type name, schema) with names of earlier records resolved."""
    if isinstance(schema, list):
        return "union", schema
    if isinstance(schema, str):
        return kind(names[schema], names) if schema in names else (schema, schema)
    t = schema["type"]
    if t in ("record", "fixed", "enum"):
        names[schema["name"]] = schema
    return kind(t, names) if isinstance(t, (dict, list)) or t in names else (t, schema)


def decode(f, schema, names):
    t, schema = kind(schema, names)
    if t == "null":
        return None
    if t == "boolean":
        return f.read(1) == b"\x01"
    if t in ("int", "long", "enum"):
        return read_long(f)
    if t in ("float", "double"):
        return f.read(4 if t == "float" else 8)
    if t in ("bytes", "string"):
        data = f.read(read_long(f))
        return data if t == "bytes" else data.decode()
    if t == "fixed":
        return f.read(schema["size"])
    if t == "record":
        return {x["name"]: decode(f, x["type"], names) for x in schema["fields"]}
    if t == "union":
        branch = read_long(f)
        return (branch, decode(f, schema[branch], names))
    out = []
    while n := read_long(f):
        if n < 0:
            read_long(f)
        for _ in range(abs(n)):
            key = decode(f, "string", names) if t == "map" else None
            out.append((key, decode(f, schema["values" if t == "map" else "items"], names)))
    return out


def encode(f, schema, value, names):
    t, schema = kind(schema, names)
    if t == "boolean":
        f.write(b"\x01" if value else b"\x00")
    elif t in ("int", "long", "enum"):
        write_long(f, value)
    elif t in ("float", "double", "fixed"):
        f.write(value)
    elif t in ("bytes", "string"):
        data = value if t == "bytes" else value.encode()
        write_long(f, len(data))
        f.write(data)
    elif t == "record":
        for x in schema["fields"]:
            encode(f, x["type"], value[x["name"]], names)
    elif t == "union":
        write_long(f, value[0])
        encode(f, schema[value[0]], value[1], names)
    elif t in ("array", "map"):
        if value:
            write_long(f, len(value))
        for key, item in value:
            if t == "map":
                encode(f, "string", key, names)
            encode(f, schema["values" if t == "map" else "items"], item, names)
        write_long(f, 0)


HEADER = {"type": "map", "values": "bytes"}


def read_avro(path):
    """(header entries, records)."""
    with open(path, "rb") as f:
        if f.read(4) != MAGIC:
            raise ValueError(f"{path} is no Avro file")
        header, mark = dict(decode(f, HEADER, {})), f.read(16)
        codec, schema, records = header.get("avro.codec", b"null").decode(), json.loads(header["avro.schema"]), []
        if codec not in ("null", "deflate"):
            raise Skipped(f"the driver does not read Avro with codec {codec}")
        while head := f.read(1):
            f.seek(-1, os.SEEK_CUR)
            count, data = read_long(f), f.read(read_long(f))
            block = io.BytesIO(zlib.decompress(data, -15) if codec == "deflate" else data)
            names = {}
            records += [decode(block, schema, names) for _ in range(count)]
            if f.read(16) != mark:
                raise ValueError(f"{path}: a block does not end with the file's mark")
    return header, records


def write_avro(path, header, records):
    """Writes records with the same schema and header entries, uncompressed; gives the file's length in bytes."""
    schema, names, body = json.loads(header["avro.schema"]), {}, io.BytesIO()
    for r in records:
        encode(body, schema, r, names)
    mark = os.urandom(16)
    with open(path, "wb") as f:
        f.write(MAGIC)
        encode(f, HEADER, list({**header, "avro.codec": b"null"}.items()), {})
        f.write(mark)
        if records:
            write_long(f, len(records))
            write_long(f, len(body.getvalue()))
            f.write(body.getvalue() + mark)
        return f.tell()


def puffin(source, target, moved):
    """Copies a Puffin file with the paths in its footer moved; the blobs stay where they are. Gives its new length in bytes."""
    with open(source, "rb") as f:
        data = f.read()
    size, flags = int.from_bytes(data[-12:-8], "little", signed=True), data[-8:-4]
    head = len(data) - 16 - size
    if data[:4] != b"PFA1" or data[-4:] != b"PFA1" or data[head:head + 4] != b"PFA1":
        raise ValueError(f"{source} is no Puffin file")
    if flags[0] & 1:
        raise Skipped("the driver does not read compressed Puffin footers")
    footer = json.dumps(walk(json.loads(data[head + 4:-12]), moved)).encode()
    out = data[:head + 4] + footer + len(footer).to_bytes(4, "little") + flags + b"PFA1"
    with open(target, "wb") as f:
        f.write(out)
    return len(out)


# ---- the copy ---------------------------------------------------------------------------------------------------------

def publish(metadata, location, target, stage):
    """Writes into the folder `stage` the table state of file `metadata`, which lies under `location`, with paths under
    `target`. The result is the metadata file's new path."""
    start = re.compile(rf"(file:(//)?)?{re.escape(location.rstrip('/'))}(?=/|$)")

    def moved(path):
        return start.sub(lambda _: target.rstrip("/"), path, count=1)

    def local(path):
        return re.sub(r"^file:(//)?", "", path)

    def staged(path):
        file = os.path.join(stage, os.path.relpath(local(path), location))
        os.makedirs(os.path.dirname(file), exist_ok=True)
        return file

    def value(v):
        return v[1] if isinstance(v, tuple) else v

    def put(record, field, change):
        old = record.get(field)
        if value(old) is not None:
            record[field] = (old[0], change(old[1])) if isinstance(old, tuple) else change(old)

    with open(metadata, encoding="utf-8") as f:
        text = f.read()
    table = json.loads(text)
    seen = {}
    for snapshot in table.get("snapshots", []):
        header, manifests = read_avro(local(snapshot["manifest-list"]))
        for m in manifests:
            path = m["manifest_path"]
            if path not in seen:
                inner, entries = read_avro(local(path))
                for e in entries:
                    data = value(e["data_file"])
                    if value(data.get("content")) == 1 and value(data["file_format"]).lower() != "puffin":
                        raise Skipped("a position delete file names data files by path in its rows: this table cannot be published")
                    old = local(data["file_path"])
                    if e["status"] != 2 and os.path.exists(old):
                        if value(data["file_format"]).lower() == "puffin":
                            data["file_size_in_bytes"] = puffin(old, staged(old), moved)
                        else:
                            shutil.copyfile(old, staged(old))
                    put(data, "file_path", moved)
                    put(data, "referenced_data_file", moved)
                seen[path] = write_avro(staged(path), inner, entries)
            put(m, "manifest_path", moved)
            m["manifest_length"] = seen[path]
        write_avro(staged(snapshot["manifest-list"]), header, manifests)
    rewritten = json.dumps(walk(table, moved))
    with open(staged(metadata), "w", encoding="utf-8") as f:
        f.write(rewritten)
    return moved(metadata)


def walk(v, change):
    """JSON with every string changed."""
    if isinstance(v, dict):
        return {k: walk(x, change) for k, x in v.items()}
    if isinstance(v, list):
        return [walk(x, change) for x in v]
    return change(v) if isinstance(v, str) else v
