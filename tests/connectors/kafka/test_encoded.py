"""Avro and Protobuf in a topic, with a schema registry in a process of its own, against the definitions."""

from __future__ import annotations

import datetime as dt

import pytest

import skyband as sb
from skyband.jobs import run
from tests.connectors.encoded import avro_bytes, framed, message_class, message_text, record
from tests.connectors.kafka.registry_server import RegistryServer, archive
from tests.connectors.kafka.test_delivery import written
from tests.connectors.kafka.topics import Sent
from tests.connectors.kafka.work import FILE, SECOND, answers, finished, rows_of, wanted
from tests.downloads import NotFetchedError
from tests.sharding.cases import EPOCH
from tests.spark.frames import read_lines
from tests.waiting import wait_for

pytestmark = pytest.mark.long

MICROS = {"type": "long", "logicalType": "timestamp-micros"}
SCORE = {"name": "s", "type": ["null", "double"], "default": None}
FIRST = record(
    {"name": "id", "type": "int"}, {"name": "at", "type": MICROS}, {"name": "g", "type": ["null", "string"]}, SCORE
)
NEWEST = record(
    {"name": "note", "type": "string", "default": "none"},
    {"name": "ts", "type": MICROS, "aliases": ["at"]},
    SCORE,
    {"name": "id", "type": "long"},
    {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
    {"name": "g", "type": ["null", "string"]},
)
FIELDS = [
    ("at", 1, "Timestamp", ""),
    ("id", 2, "int64", ""),
    ("g", 3, "string", "optional"),
    ("s", 7, "DoubleValue", ""),
]
RENAMED = [
    ("ts", 1, "Timestamp", ""),
    ("id", 2, "int64", ""),
    ("g", 3, "string", "optional"),
    ("s", 7, "DoubleValue", ""),
]
RENAMED += [("more", 9, "string", "repeated")]


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    try:
        server = RegistryServer(tmp_path_factory.mktemp("registry"), archive())
    except NotFetchedError as error:
        pytest.skip(f"schema registries are not tested: {error}")
    yield server
    server.kill()


def when(row):
    return EPOCH + dt.timedelta(microseconds=row[0])


def avro_value(number, row, schema):
    values = {"id": row[2], "at": when(row), "ts": when(row), "g": row[3], "s": row[1], "note": "x", "tags": ["a"]}
    return framed(number, avro_bytes(schema, {field["name"]: values[field["name"]] for field in schema["fields"]}))


def proto_bytes(kind, row):
    message = kind(id=row[2])
    getattr(message, "ts" if "ts" in kind.DESCRIPTOR.fields_by_name else "at").FromDatetime(when(row))
    if row[1] is not None:
        message.s.value = row[1]
    if row[3] is not None:
        message.g = row[3]
    return message.SerializeToString()


def file_of(folder, topics, topic, encoding, more="", sinks="[{type: memory}]"):
    more = "".join(f"    {line}\n" for line in more.splitlines())
    text = FILE.format(servers=topics.servers, topic=topic, shape="", more=more, watermark="0 seconds", sinks=sinks)
    (folder / "work.yaml").write_text(text.replace("format: json\n    schema: \n", f"{encoding}\n"))
    return sb.read_workload(folder / "work.yaml")


def test_avro_of_two_schemas_and_what_cannot_be_read(spark, topics, registry, tmp_path):
    rows, topic = rows_of(41, 150), topics.name()
    one = registry.register(f"{topic}-value", FIRST)
    two = registry.register(f"{topic}-value", NEWEST)
    other = registry.register("other", record({"name": "s", "type": "string"}))
    values = [
        avro_value(one, row, FIRST) if number % 3 else avro_value(two, row, NEWEST) for number, row in enumerate(rows)
    ]
    junk = {
        framed(one, b"\x02"): "the value cannot be decoded: it ends before its last value",
        framed(987654, values[0][5:]): "the registry has no schema 987654",
        framed(other, b"\x02a"): f"schema {other} cannot be used: it has no field 'ts'",
        b'{"s": 9e9}': "the value does not begin with byte 0",
        b"": "fewer than the 5 bytes",
        framed(two, b"\x00" * 5000): "more than 4000",
    }
    records = [Sent(value) for value in values]
    records[20:20] = [Sent(value) for value in junk] + [Sent(None)]
    topics.send(topic, records)
    encoding = f"format: avro\n    registry: {registry.url}\n    record: [offset]"
    file = file_of(tmp_path, topics, topic, encoding, "dead_letters: dead\nlargest_value: 4000")
    running = finished(file, spark)
    assert answers(running) == wanted(rows)
    assert running.metrics()["rows"]["malformed"] == len(junk) + 1
    found = {letter["offset"]: letter["reason"] for letter in read_lines(tmp_path / "dead", "*/part-*")}
    assert found.keys() == set(range(20, 20 + len(junk) + 1))
    for offset, why in enumerate([*junk.values(), "the value is null"], 20):
        assert why in found[offset]


def test_protobuf_whose_newest_schema_has_other_names(spark, topics, registry, tmp_path):
    rows, topic = rows_of(42, 100), topics.name()
    common = 'syntax = "proto3"; package shop; enum Side { BUY = 0; SELL = 1; }'
    registry.register(f"{topic}-side", common, "PROTOBUF")
    inside = message_text(FIELDS).replace("// a row", "shop.Side side = 40;")
    inside = inside.replace('import "', 'import "side.proto"; import "', 1) + "\nmessage Other {}"
    one = registry.register(f"{topic}-value", inside, "PROTOBUF", [("side.proto", f"{topic}-side")])
    kinds = {one: message_class(FIELDS)}
    topics.send(topic, [Sent(framed(one, proto_bytes(kinds[one], row), [0])) for row in rows[:50]])
    newest = message_text(RENAMED)
    two = registry.register(f"{topic}-value", newest, "PROTOBUF")
    kinds[two] = message_class(RENAMED)
    encoding = f"format: protobuf\n    registry: {registry.url}\n    dead_letter_topic: {topic}-dead"
    file = file_of(tmp_path, topics, topic, encoding)
    more = [framed(two, proto_bytes(kinds[two], row), [0]) for row in rows[50:]]
    topics.send(topic, [Sent(value) for value in [*more[:3], framed(one, b"", [1]), *more[3:]]])
    assert answers(finished(file, spark)) == wanted(rows)
    [letter] = topics.read(f"{topic}-dead")
    reason = {header["key"]: header["value"] for header in letter["headers"]}["skyband.reason"].decode()
    assert reason == "column 'ts' contains no valid time", "a message of another type has none of the fields"


@pytest.mark.faults
def test_a_registry_that_dies_loses_no_record(spark, topics, registry, tmp_path, tally):
    rows, topic = rows_of(43, 90), topics.name()
    one = registry.register(f"{topic}-value", FIRST)
    topics.send(topic, [Sent(avro_value(one, row, FIRST)) for row in rows[:50]])
    encoding = f"format: avro\n    registry: {registry.url}\n    registry_wait: 1 second\n"
    encoding += "    schema: {ts: timestamp, id: bigint, g: string, s: double, at: timestamp}\n"
    encoding += "    columns: {ts: 'coalesce(ts, at)'}"
    sinks = "[{type: parquet, path: out}]"
    file = file_of(tmp_path, topics, topic, encoding, "dead_letters: dead", sinks)
    running = run(file, spark=spark)
    wait_for(lambda: running.await_end(0.3) or list((tmp_path / "out").glob("*.parquet")))
    two = registry.register(f"{topic}-value", NEWEST)
    registry.kill()
    tally.fault("kill -9 of the schema registry")
    last = (rows[-1][0] + 900 * SECOND, 1.0, 1, "a")
    topics.send(topic, [Sent(avro_value(two, row, NEWEST)) for row in [*rows[50:], last]])
    with pytest.raises(sb.PipelineError, match=r"the schema registry .* is unavailable .* no data is lost"):
        running.await_end(300)
    with pytest.raises(sb.PipelineError, match="is unavailable"):
        run(file, "catch-up", spark=spark)
    registry.start()
    for number in range(1, two + 1):  # its schemas were in memory: the same numbers again
        schema = {one: FIRST, two: NEWEST}.get(number, record({"name": f"f{number}", "type": "int"}))
        subject = f"{topic}-value" if number in (one, two) else f"another-{number}"
        assert registry.register(subject, schema) == number
    finished(file, spark, "catch-up")
    tally.check_answers(written(tmp_path / "out"), wanted(rows))
    assert not list((tmp_path / "dead").glob("*/part-*"))


def test_a_schema_file_without_a_registry(spark, topics, tmp_path):
    rows, topic = rows_of(44, 80), topics.name()
    (tmp_path / "row.proto").write_text(message_text(RENAMED))
    kind = message_class(RENAMED)
    topics.send(topic, [*(Sent(proto_bytes(kind, row)) for row in rows), Sent(b"\xff")])
    file = file_of(tmp_path, topics, topic, "format: protobuf\n    schema_file: row.proto\n    message: Row")
    running = finished(file, spark)
    assert answers(running) == wanted(rows)
    assert running.metrics()["rows"]["malformed"] == 1
