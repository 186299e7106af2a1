"""Values that tasks read as JSON, against Python's parser and against Spark's, which share no code with the kernel."""

from __future__ import annotations

import datetime as dt
import json
import math
import random

import pyarrow as pa
import pytest

from skyband.connectors.arrow.json_values import JsonReader
from tests.connectors.json_texts import SCHEMA, text_of


def read(texts, schema=None, **more):
    reader = JsonReader.of(schema or SCHEMA, **{"in_utc": True, "largest": 1 << 20, **more})
    rows = reader.read(pa.array(texts, pa.binary()))
    return rows.done.to_pylist(), pa.table(rows.columns, schema=reader.schema).to_pylist()


def as_python(text, schema=SCHEMA):
    """The row in an object, by the definitions; an error if it is not JSON of these types."""

    def once(pairs):
        assert len({name for name, _ in pairs} & schema.keys()) == len([1 for name, _ in pairs if name in schema])
        return dict(pairs)

    def no(word):
        raise ValueError(word)

    whole = json.loads(text.decode(), object_pairs_hook=once, parse_constant=no)
    assert isinstance(whole, dict)
    return {name: _typed(whole.get(name), kind) for name, kind in schema.items()}


def _typed(value, kind):  # noqa: PLR0911 - one for each type
    if value is None:
        return None
    if kind == "boolean":
        assert isinstance(value, bool)
        return value
    if kind in ("string", "timestamp", "timestamp_ntz", "date"):
        assert isinstance(value, str)
        if kind == "string":
            return value
        if kind == "date":
            return dt.date.fromisoformat(value)
        found = dt.datetime.fromisoformat(value)
        if kind == "timestamp_ntz":
            assert found.tzinfo is None
            return found
        return found if found.tzinfo else found.replace(tzinfo=dt.UTC)
    assert isinstance(value, int | float)
    assert not isinstance(value, bool)
    if kind == "double":
        return float(value)
    bits = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}[kind]
    assert isinstance(value, int)
    assert -(2**bits) <= value < 2**bits
    return value


def same(one, other):
    return one == other and all(
        not isinstance(value, float) or math.copysign(1, value) == math.copysign(1, other[name])
        for name, value in one.items()
    )


@pytest.mark.parametrize("seed", range(20))
def test_what_is_read_is_what_python_reads(seed):
    rng = random.Random(seed)
    texts = [text_of(rng) for _ in range(1500)]
    done, rows = read(texts)
    for text, is_done, row in zip(texts, done, rows, strict=True):
        if is_done:
            assert same(row, as_python(text)), text
        else:
            assert set(row.values()) == {None}, text
    assert 0.2 < sum(done) / len(done) < 0.9


@pytest.mark.parametrize("seed", range(6))
def test_what_is_read_is_what_spark_reads(spark, seed):
    from pyspark.sql import functions as sf

    rng = random.Random(1000 + seed)
    texts = list({text for text in (text_of(rng) for _ in range(4000)) if _is_text(text)})
    usual = JsonReader.of(SCHEMA, in_utc=True, largest=1 << 20).read(pa.array(texts, pa.binary()))
    done, rows = usual.done.to_pylist(), _numbered(pa.table(usual.columns, names=list(SCHEMA))).to_pylist()
    shape = ", ".join(f"`{name}` {kind}" for name, kind in SCHEMA.items()) + ", corrupt string"
    frame = spark.createDataFrame(list(enumerate(texts)), "n int, value binary")
    row = sf.from_json(sf.col("value").cast("string"), shape, {"columnNameOfCorruptRecord": "corrupt"})
    columns = [sf.col(f"row.`{name}`") for name in SCHEMA]
    table = frame.select("n", row.alias("row")).select("n", "row.corrupt", *columns).toArrow()
    for found in _numbered(table).to_pylist():
        number, corrupt = found.pop("n"), found.pop("corrupt")
        if done[number]:
            assert corrupt is None, texts[number]
            assert same(rows[number], found), texts[number]


def _numbered(table):
    """Times as numbers: Spark has some that Python has not."""
    for name, kind in (("ts", pa.int64()), ("tn", pa.int64()), ("dt", pa.int32())):
        place = table.column_names.index(name)
        table = table.set_column(place, name, table[name].cast(kind))
    return table


def _is_text(raw):
    try:
        return bool(raw.decode())
    except UnicodeDecodeError:
        return False


def test_usual_objects_are_read():
    """So that the tests above compare something of each type."""
    usual = [
        b'{"t":1,"h":-2,"i":3,"l":-4,"d":0.5,"b":true,"s":"x","ts":"2024-01-01T00:00:00Z"}',
        b'{"tn":"2024-01-01 00:00:00.25","dt":"2024-02-29"}',
        b' {"more": {"a": [1, {"b": null}], "c": "\\n"}, "s" : "}" }\n',
        b"{}",
        '{"größe": 1e3, "s": "€ 😀"}'.encode(),
        b'{"d": 0.30000000000000004, "ts": "2024-01-01 00:00:00+05:30"}',
        b'{"l": -9223372036854775807, "d": 123456789012345678901}',
    ]
    done, rows = read(usual)
    assert all(done)
    assert [as_python(text) for text in usual] == rows


@pytest.mark.parametrize(
    "odd",
    [
        *(b"", b"[]", b"null", b"7", b'{"d": "NaN"}', b'{"d": NaN}', b'{"l": 1.0}', b'{"i": 2147483648}', b'{"s": 1}'),
        *(
            b'{"d":1}{"d":2}',
            b'{"d":1} x',
            b'{"t":1,"t":2}',
            b'{"s":"\\u00e9"}',
            b'{"s":"\xff"}',
            b'{"s":"\xed\xa0\x80"}',
        ),
        *(b'{"ts":"2024-01-01"}', b'{"ts":1704067200}', b'{"d":01}', b'{"d":1.}', b'{"d":.5}', b'{"d":-}', b"{'d':1}"),
        *(b'{"d":1', b'{"d"', b"{", b'{"x":[1,]}', b'{"x":{"a":1,}}', b'{"x":"\\u12"}', b'{"x":tru}', b'{"s":"a\nb"}'),
    ],
)
def test_others_are_left(odd):
    done, rows = read([b'{"d":1}', odd, b'{"d":2}'])
    assert done == [True, False, True]
    assert [row["d"] for row in rows] == [1.0, None, 2.0]
    assert set(rows[1].values()) == {None}


def test_times_without_an_offset_are_left_in_other_zones():
    texts = [b'{"ts":"2024-01-01T00:00:00"}', b'{"ts":"2024-01-01T00:00:00Z"}', b'{"tn":"2024-01-01T00:00:00"}']
    assert read(texts, in_utc=False)[0] == [False, True, True]


def test_nulls_large_values_and_slices():
    texts = [b'{"i":1}', None, b'{"i":3, "more": "' + b"x" * 100 + b'"}', b'{"i":4}']
    done, rows = read(texts, largest=50)
    assert done == [True, False, False, True]
    reader = JsonReader.of(SCHEMA, in_utc=True, largest=1000)
    part = reader.read(pa.array(texts, pa.binary()).slice(2))
    assert part.columns[2].to_pylist() == [3, 4]
    assert len(reader.read(pa.array([], pa.binary())).done) == 0
    assert rows[3]["i"] == 4


def test_types_that_only_spark_reads():
    assert JsonReader.of({"a": "decimal(10,2)"}, in_utc=True, largest=1) is None
    assert JsonReader.of({f"c{number}": "int" for number in range(63)}, in_utc=True, largest=1) is None
