"""Values with a schema, decoded in batches, against the libraries that encode them."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from skyband.connectors.arrow.proto_text import ProtoTextError, parse_proto
from skyband.connectors.arrow.record_schema import MismatchError
from skyband.connectors.registry import Registered
from tests.connectors.encoded import (
    SCALARS,
    Schemas,
    avro_bytes,
    avro_row,
    columns_of,
    decoder,
    framed,
    message_class,
    message_text,
    record,
    rows_of,
)

MICROS = {"type": "long", "logicalType": "timestamp-micros"}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
WIDER = {"int": ["int", "long", "float", "double"], "long": ["long", "float", "double"], "float": ["float", "double"]}
WIDER |= {"string": ["string", "bytes"], "bytes": ["bytes", "string"], "double": ["double"], "boolean": ["boolean"]}
DEFAULTS = {
    "int": 7,
    "long": -(2**40),
    "float": 0.5,
    "double": -2.25,
    "string": "né",
    "bytes": "\x01ÿ",
    "boolean": True,
}


def avro_value(rng, kind):
    if isinstance(kind, list):
        return avro_value(rng, rng.choice(kind))
    if isinstance(kind, dict) and kind["type"] == "enum":
        return rng.choice(kind["symbols"])
    if isinstance(kind, dict):
        return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=rng.randrange(-(10**12), 10**13))
    return {
        "null": lambda: None,
        "int": lambda: rng.choice([0, -1, 2**31 - 1, -(2**31), rng.randrange(-999, 999)]),
        "long": lambda: rng.choice([0, 2**63 - 1, -(2**63), rng.randrange(-999, 999)]),
        "float": lambda: rng.choice([0.0, -1.5, math.inf, 0.25]),
        "double": lambda: rng.choice([0.0, 1e300, -math.inf, rng.random()]),
        "boolean": lambda: rng.random() < 0.5,
        "string": lambda: rng.choice(["", "a", "naïve", "x" * 50]),
        "bytes": lambda: rng.choice([b"", b"abc", "é".encode()]),
    }[kind]()


def avro_fields(rng):
    """Fields of a writer."""
    fields = []
    for number in range(rng.randrange(1, 7)):
        kind = rng.choice([*DEFAULTS, MICROS, {"type": "enum", "name": f"E{number}", "symbols": ["A", "B", "C"]}])
        kind = rng.choice([kind, kind, ["null", kind], [kind, "null"]])
        fields.append({"name": f"f{number}", "type": kind})
    if rng.random() < 0.5:
        fields.insert(rng.randrange(len(fields) + 1), {"name": "tags", "type": {"type": "array", "items": "string"}})
    return fields


def evolved(rng, fields):
    """Fields of a reader that can read what a writer of `fields` wrote."""
    found = []
    for field in fields:
        if field["name"] == "tags" or rng.random() < 0.25:
            continue
        kind = field["type"]
        if isinstance(kind, str):
            kind = rng.choice(WIDER[kind])
            kind = rng.choice([kind, ["null", kind]])
        if isinstance(kind, dict) and kind["type"] == "enum" and rng.random() < 0.5:
            kind = {**kind, "symbols": ["B", "A"], "default": "B"}
        if rng.random() < 0.3:
            found.append({"name": f"new_{field['name']}", "type": kind, "aliases": [field["name"]]})
        else:
            found.append({"name": field["name"], "type": kind})
    for number, kind in enumerate(rng.sample(sorted(DEFAULTS), rng.randrange(3))):
        found.append({"name": f"added{number}", "type": kind, "default": DEFAULTS[kind]})
    found.append({"name": "maybe", "type": ["null", "string"], "default": None})
    rng.shuffle(found)
    return found


@pytest.mark.parametrize("seed", range(30))
def test_avro_of_several_writers_and_another_reader(seed):
    rng = random.Random(seed)
    newest = avro_fields(rng)
    reader, schemas = record(*evolved(rng, newest)), Schemas({1: record(*newest), 300: record(*newest)})
    floats = [field["name"] for field in reader["fields"] if "float" in field["type"]]
    values, want = [], []
    for _ in range(60):
        if rng.random() < 0.1:
            values.append(None)
            want.append(dict.fromkeys(field["name"] for field in reader["fields"]))
            continue
        number = rng.choice([1, 300])
        row = {field["name"]: avro_value(rng, field["type"]) for field in newest if field["name"] != "tags"}
        data = avro_bytes(schemas[number], {**row, "tags": ["a", "b"]} if "tags" in str(newest) else row)
        values.append(framed(number, data))
        row = avro_row(data, schemas[number], reader)
        added = {field["name"] for field in reader["fields"] if field["type"] == "bytes" and "default" in field}
        row |= {name: row[name].encode("latin-1") for name in added}  # fastavro returns the text
        want.append(row | {name: narrow(row[name]) for name in floats})  # and it promotes to doubles
    made = decoder("avro", schemas, reader)
    for _ in range(2):
        found, problems = rows_of(made, values)
        assert not problems
        assert [{name: plain(one) for name, one in row.items()} for row in found] == [
            {name: plain(one) for name, one in row.items()} for row in want
        ]
    assert schemas.asked <= 2, "a schema is resolved once"


def narrow(value):
    return value if value is None else float(np.float32(value))


def plain(value):
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value


def test_what_is_wrong_with_each_value_of_avro():
    writer = record({"name": "s", "type": "double"}, {"name": "g", "type": "string"})
    other = record({"name": "s", "type": "string"})
    lacking = record({"name": "g", "type": "string"})
    strange = record({"name": "s", "type": "decimel"})
    far = record({"name": "s", "type": "double"}, {"name": "t", "type": MILLIS}, {"name": "g", "type": "string"})
    schemas = Schemas({1: writer, 2: other, 3: lacking, 4: strange, 5: Registered("{}", "JSON"), 6: far})
    good = avro_bytes(writer, {"s": 1.5, "g": "a"})
    reader = record(*writer["fields"], {"name": "t", "type": MICROS, "default": 1_500})
    cases = {
        b"": "fewer than the 5 bytes",
        b"\0\0\0\0": "fewer than the 5 bytes",
        b"\1" + framed(1, good)[1:]: "does not begin with byte 0",
        framed(9, good): "the registry has no schema 9",
        framed(2**32 - 1, good): "the registry has no schema 4294967295",
        framed(2, b"\2a"): "schema 2 cannot be used: its field 's' has type string, which is not read as double",
        framed(3, b"\2a"): "schema 3 cannot be used: it has no field 's', which has no default",
        framed(4, b""): "schema 4 cannot be used: it has no type 'decimel'",
        framed(5, b""): "schema 5 cannot be used: it has type JSON, and the stream has format: avro",
        framed(6, avro_bytes(far, {"s": 1.0, "t": 2**62, "g": ""})): "column 't' contains a time that is out of range",
        framed(1, good[:-1]): "it ends before its last value",
        framed(1, good + b"\0"): "it has bytes after its last value",
        framed(1, good[:-1] + b"\xff"): "column 'g' contains invalid UTF-8",
    }
    made = decoder("avro", schemas, reader)
    values = [one for value in cases for one in (value, framed(1, good))]
    rows, problems = rows_of(made, values)
    for place, (value, why) in enumerate(cases.items()):
        assert why in problems[2 * place], value
        assert rows[2 * place + 1] == {
            "s": 1.5,
            "g": "a",
            "t": dt.datetime(1970, 1, 1, 0, 0, 0, 1500, dt.UTC),
        }
    assert len(problems) == len(cases)
    asked = schemas.asked
    rows_of(made, values)
    assert schemas.asked == asked, "unknown schemas are not asked for again at once"


def test_symbols_that_the_reader_does_not_know():
    writer = record({"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}})
    reader = record({"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}})
    values = [framed(1, avro_bytes(writer, {"e": symbol})) for symbol in "ABCA"]
    rows, problems = rows_of(decoder("avro", Schemas({1: writer}), reader), values)
    assert [row and row["e"] for row in rows] == ["A", "B", None, "A"]
    assert problems == {2: "column 'e' has the symbol 'C', which its enum does not have"}


def test_avro_defaults_of_logical_types_and_references():
    reader = record(
        {
            "name": "d",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            "default": "\xff",
        },
        {"name": "day", "type": {"type": "int", "logicalType": "date"}, "default": 1},
        {"name": "at", "type": MILLIS, "default": 1},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}, "default": "B"},
    )
    writer = {
        "type": "record",
        "name": "W",
        "fields": [{"name": "id", "type": "shop.Id"}, {"name": "n", "type": "int"}],
    }
    inner = '{"type": "record", "name": "Id", "namespace": "shop", "fields": [{"name": "x", "type": "string"}]}'
    import json

    schemas = Schemas({1: Registered(json.dumps(writer), "AVRO", (inner,))})
    rows, problems = rows_of(decoder("avro", schemas, reader), [framed(1, b"\2a\4")])
    assert not problems
    assert rows == [
        {
            "d": Decimal("-0.01"),
            "day": dt.date(1970, 1, 2),
            "at": dt.datetime(1970, 1, 1, 0, 0, 0, 1000, dt.UTC),
            "e": "B",
        }
    ]


def test_declared_columns_without_a_reader_and_with_one():
    writer = record({"name": "n", "type": "int"}, {"name": "g", "type": "string"})
    value = framed(1, avro_bytes(writer, {"n": 3, "g": "a"}))
    declared = {"N": pa.float64(), "absent": pa.string()}
    rows, _ = rows_of(decoder("avro", Schemas({1: writer}), None, declared), [value])
    assert rows == [{"N": 3.0, "absent": None}]
    with pytest.raises(MismatchError, match="it has no field 'absent'"):
        columns_of("avro", writer, declared)
    with pytest.raises(MismatchError, match="its field 'g' has type string, which is not read as double"):
        columns_of("avro", writer, {"g": pa.float64()})


KINDS = [*SCALARS, "Timestamp", "DoubleValue", "StringValue", "Int64Value", "BoolValue", "Color"]


def color(syntax):
    enum = descriptor_pb2.EnumDescriptorProto(name="Color")
    for number, name in ((0, "RED"), (5, "BLUE"), (-1, "NONE")):
        enum.value.add(name=name, number=number)
    return enum


def proto_fields(rng, syntax):
    numbers = rng.sample([*range(1, 40), 5000, 2**29 - 1], rng.randrange(1, 12))
    labels = ["optional", "repeated", "optional"] if syntax == "proto2" else ["", "optional", "repeated", ""]
    return [(f"f{number}", number, rng.choice(KINDS), rng.choice([*labels, "oneof_a"])) for number in numbers]


def proto_value(rng, kind):
    signed, bits = not kind.startswith(("u", "fixed")), 64 if "64" in kind else 32
    if kind in ("double", "float"):
        return rng.choice([0.0, -0.0, 1.5, math.inf, -2.0])
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "string":
        return rng.choice(["", "a", "naïve", "x" * 200])
    if kind == "bytes":
        return rng.choice([b"", b"\xff\x00"])
    if kind == "Color":
        return rng.choice([0, 5, -1])
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return rng.choice([0, 1, low, high, rng.randrange(low, high)])


def filled(rng, fields, kind):
    """A message with random values."""
    message = kind()
    for name, _, type_, label in fields:
        if rng.random() < 0.3:
            continue
        if type_ == "Timestamp":
            for _ in range(1 if label != "repeated" else 2):
                one = getattr(message, name).add() if label == "repeated" else getattr(message, name)
                one.seconds, one.nanos = rng.randrange(-(10**9), 10**10), rng.choice([0, 1_000, 999_999_999])
                one.SetInParent()
        elif type_.endswith("Value"):
            inner = {"DoubleValue": "double", "StringValue": "string", "Int64Value": "int64", "BoolValue": "bool"}[
                type_
            ]
            one = getattr(message, name).add() if label == "repeated" else getattr(message, name)
            one.value = proto_value(rng, inner)
            one.SetInParent()
        elif label == "repeated":
            getattr(message, name).extend([proto_value(rng, type_) for _ in range(3)])
        else:
            setattr(message, name, proto_value(rng, type_))
    return message


def proto_row(message, fields, there=None):
    """The columns of a message, as the library reads them."""
    names = {0: "RED", 5: "BLUE", -1: "NONE"}
    found = {}
    for name, _, kind, label in fields:
        if label == "repeated":
            continue
        known = there is None or name in there
        is_nested = kind == "Timestamp" or kind.endswith("Value")
        has_presence = is_nested or label or message.DESCRIPTOR.file.serialized_pb.find(b"proto3") < 0
        if not known or (has_presence and not message.HasField(name)):
            found[name] = None
            if not known and not has_presence:
                found[name] = {"string": "", "bytes": b"", "bool": False, "Color": "RED"}.get(kind, 0)
            continue
        value = getattr(message, name)
        if kind == "Timestamp":
            at = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=value.seconds)
            value = at + dt.timedelta(microseconds=value.nanos // 1000)
        elif is_nested:
            value = value.value
        elif kind == "Color":
            value = names.get(value, str(value))
        found[name] = value
    return found


def same(one, two):
    if not isinstance(one, float) or not isinstance(two, float):
        return one == two
    return math.isnan(one) == math.isnan(two) and (
        math.isnan(one) or (one, math.copysign(1, one)) == (two, math.copysign(1, two))
    )


@pytest.mark.parametrize("seed", range(30))
def test_protobuf_of_several_writers_and_another_reader(seed):
    rng = random.Random(seed)
    syntax = rng.choice(["proto2", "proto3"])
    fields = [("sure", 50, "double", "optional"), *proto_fields(rng, syntax)]
    fewer = [field for field in fields if field[0] == "sure" or rng.random() < 0.7]
    texts = {number: message_text(of, syntax=syntax, more=[color(syntax)]) for number, of in ((1, fields), (2, fewer))}
    classes = {
        number: message_class(of, syntax=syntax, more=[color(syntax)]) for number, of in ((1, fields), (2, fewer))
    }
    schemas, reader = Schemas(texts), rng.choice([1, 2])
    values, want = [], []
    read = fields if reader == 1 else fewer
    for _ in range(60):
        number = rng.choice([1, 2])
        message = filled(rng, fields if number == 1 else fewer, classes[number])
        values.append(framed(number, message.SerializeToString(), [0]))
        want.append(proto_row(classes[reader].FromString(message.SerializeToString()), read))
    found, problems = rows_of(decoder("protobuf", schemas, texts[reader]), values)
    assert not problems
    for row, wanted in zip(found, want, strict=True):
        assert row.keys() == wanted.keys()
        assert all(same(row[name], wanted[name]) for name in row), (row, wanted)


@pytest.mark.parametrize("seed", range(30))
def test_damaged_protobuf(seed):
    """What the library rejects is a problem, and what it accepts has its values, whatever is changed."""
    rng = random.Random(seed)
    kinds = [*SCALARS, "Timestamp", "DoubleValue", "Color"]
    fields = [
        (f"f{number}", number, rng.choice(kinds), rng.choice(["", "optional", "oneof_a"])) for number in range(1, 9)
    ]
    text, kind = message_text(fields, more=[color("proto3")]), message_class(fields, more=[color("proto3")])
    values, want = [], []
    for _ in range(150):
        data = bytearray(filled(rng, fields, kind).SerializeToString())
        for _ in range(rng.randrange(3)):
            if data:
                data[rng.randrange(len(data))] = rng.choice([0, 1, 8, 255, rng.randrange(256)])
        if rng.random() < 0.3:
            data = data[: rng.randrange(len(data) + 1)]
        values.append(framed(1, bytes(data), [0]))
        try:
            message = kind.FromString(bytes(data))
            want.append(proto_row(message, fields))
        except (DecodeError, OverflowError):
            want.append(None)
    found, problems = rows_of(decoder("protobuf", Schemas({1: text}), text), values)
    for place, (row, wanted) in enumerate(zip(found, want, strict=True)):
        if wanted is None or row is None:
            assert row is None, values[place]
            assert wanted is None or "time is out of range" in problems[place], values[place]
        else:
            assert all(same(row[name], wanted[name]) for name in row), (values[place], row, wanted)


def test_message_types_in_a_schema():
    text = """
    syntax = "proto3"; // a comment
    message First { double a = 1; }
    message Second { message Inner { string b = 1; enum Kind { NO = 0; YES = 1; } Kind kind = 3; } Inner inner = 1; }
    """
    schemas = Schemas({7: text})
    body = b"\x0a\x01x\x18\x01"
    by_number = decoder("protobuf", schemas, text, message="Second.Inner")
    values = [framed(7, body, path) for path in ([1, 0], [0], [2], [1, 0, 0, 0, 0])]
    values += [b"\0\0\0\0\7", b"\0\0\0\0\7\x03", b"\0\0\0\0\7\x04\x02", b"\0\0\0\0\7\x02\x80\x80\x80\x80\x01"]
    rows, problems = rows_of(by_number, values)
    assert rows[0] == {"b": "x", "kind": "YES"}
    assert "its field 'a' has type double, which is not read as string" in problems[1]
    assert problems[2] == "schema 7 cannot be used: it has no message at [2]"
    assert "out of range" in problems[3]
    assert "ends before the number of its message type" in problems[4]
    assert "out of range" in problems[5]
    assert "ends before the number of its message type" in problems[6]
    assert "out of range" in problems[7]


def test_a_protobuf_schema_with_all_that_is_skipped():
    found = parse_proto(
        r"""
        /* all of it */ syntax = "proto2"; package a.b; import public "other.proto"; option java_package = "x";
        option (custom) = { a: 1 b: [1, 2] }; extend Foo { optional int32 x = 100; }
        service S { rpc Get (A) returns (B) { option deprecated = true; } }
        message A {
          option deprecated = true; reserved 5 to 7, "old"; extensions 100 to max;
          optional string s = 1 [default = "a\"b" "c", deprecated = true]; required int64 n = 0x2;
          map<string, int32> m = 3; repeated B b = 4 [packed = true, (opt).x = -1]; optional E e = 8 [default = TWO];
          extend A { optional int32 y = 101; } message B {}
          enum E { option allow_alias = true; ONE = 1 [x = 1]; TWO = -2; }
        }"""
    )
    assert (found.package, found.imports, found.has_presence) == ("a.b", ["other.proto"], True)
    [message] = found.messages
    assert [(field.name, field.number, field.label) for field in message.fields] == [
        ("s", 1, "optional"),
        ("n", 2, "required"),
        ("m", 3, "repeated"),
        ("b", 4, "repeated"),
        ("e", 8, "optional"),
    ]
    assert message.enums[0].values == {1: "ONE", -2: "TWO"}
    columns = columns_of("protobuf", 'syntax = "proto2"; message A { optional string s = 1 [default = "a\\"b" "c"]; }')
    assert columns[0].default == 'a"bc'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it has no message"),
        ("message A { int32 a = 1; ", "it is cut off"),
        ("message A { int32 a = 1; int32 b = 1; }", "two fields with the same number"),
        ("message A { int32 a = x; }", "'x' where a number is expected"),
        ("message A { int32 a 1; }", "'1' where '=' is expected"),
        ("message A { int32 a = 0; }", "no valid name and number"),
        ("message A { optional group G = 1 { } }", "it has a group"),
        ('syntax = "proto4"; message A {}', "its syntax 'proto4'"),
        ("message A { ü }", "line 1 contains 'ü'"),
        ("message A { " * 40, "nested more than"),
        ("mesage A {}", "'mesage' where a message"),
        ("enum E {}", "has no values"),
    ],
)
def test_what_is_no_protobuf_schema(text, why):
    with pytest.raises((ProtoTextError, MismatchError)) as caught:
        columns_of("protobuf", text)
    assert why in str(caught.value)
