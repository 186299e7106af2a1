"""Avro files for tests, written by fastavro, which shares no code with the reader."""

from __future__ import annotations

import os
import zlib

import fastavro
import pyarrow as pa

from tests.spark.frames import table

MICROS = {"type": "long", "logicalType": "timestamp-micros"}
FIELDS = [
    {"name": "ts", "type": MICROS},
    {"name": "id", "type": "long"},
    {"name": "tags", "type": {"type": "array", "items": {"type": "map", "values": "int"}}},
    {"name": "g", "type": ["null", "string"]},
    {"name": "s", "type": ["double", "null"]},
    {"name": "odd", "type": "boolean"},
]


def record(*fields):
    """A schema."""
    return fastavro.parse_schema({"type": "record", "name": "Row", "namespace": "test", "fields": list(fields)})


def write_avro(path, schema, rows, **more):
    """A file of rows; its time is one second after that of the file before, by the number in its name."""
    path.parent.mkdir(exist_ok=True)
    with open(path, "wb") as file:
        fastavro.writer(file, schema, rows, **{"codec": "deflate", "sync_interval": 1000, **more})
    if path.stem.isdigit():
        os.utime(path, (1_000_000_000 + int(path.stem),) * 2)
    return path


def recompress(path, codec):
    """Compress the blocks of a file without compression: by snappy, zstandard, or zstandard without sizes."""
    data = path.read_bytes()
    marker = data[-16:]
    head, *blocks, _ = data.split(marker)
    name = codec.removesuffix(" stream").encode()
    assert head.count(b"\x14avro.codec\x08null") == 1
    parts = [head.replace(b"\x08null", bytes([2 * len(name)]) + name)]
    for block in blocks:
        _, begin = _long(block, 0)
        size, at = _long(block, begin)
        body = block[at:]
        assert len(body) == size
        packed = _COMPRESSED[codec](body)
        parts.append(block[:begin] + _as_long(len(packed)) + packed)
    path.write_bytes(marker.join([*parts, b""]))
    return path


def _zstandard_stream(data):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


_COMPRESSED = {
    "snappy": lambda data: pa.compress(data, "snappy", asbytes=True) + zlib.crc32(data).to_bytes(4, "big"),
    "zstandard": lambda data: pa.compress(data, "zstd", asbytes=True),
    "zstandard stream": _zstandard_stream,
}


def _long(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return (value >> 1) ^ -(value & 1), at


def _as_long(value):
    found, rest = bytearray(), value << 1
    while rest >= 0x80:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*found, rest])


def write_rows(folder, parts, begin=0, fields=FIELDS, **more):
    """Files of rows ``(position, score, id, group)``."""
    for number, rows in enumerate(parts, begin):
        found = [{**row, "tags": [{"a": 1}, {}]} for row in table(rows).to_pylist()]
        write_avro(folder / f"{number:03}.avro", record(*fields), found, **more)
