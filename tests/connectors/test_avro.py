"""Avro files: values as fastavro writes them, columns by Avro's rules, damage, answers of local runs and of Spark."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.connectors.arrow.avro import AvroFiles
from skyband.connectors.arrow.avro_schema import AvroSchemaError, program_of
from skyband.connectors.arrow.avro_values import decoded
from skyband.connectors.arrow.splits import Split
from skyband.connectors.files import FilesSource
from skyband.jobs import run, run_local
from skyband.workload_file import sample_of
from tests.connectors.avro_files import FIELDS, MICROS, recompress, record, write_avro, write_rows
from tests.jobs.test_job import QUERIES, rows_of, wanted, whole
from tests.spark.frames import read_answers, read_lines

STREAM = "streams: {rows: {path: in, format: avro, time: ts, id: id, watermark: 0 seconds%s}}\n"
SINKS = "sinks: [{type: parquet, path: out}]\n"
SKIPPED = ", dead_letters: dead, unreadable_files: dead_letters"
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
KINDS = {  # type → random value
    "boolean": lambda draw: draw.random() < 0.5,
    "int": lambda draw: draw.choice([0, -1, 2**31 - 1, -(2**31), draw.randrange(1000)]),
    "long": lambda draw: draw.choice([0, -1, 2**63 - 1, -(2**63), draw.randrange(10**12)]),
    "float": lambda draw: draw.choice([0.0, -0.0, math.inf, 2.0**-149, -1.5, float(np.float32(draw.random()))]),
    "double": lambda draw: draw.choice([0.0, -math.inf, 5e-324, draw.gauss(0, 1e300)]),
    "bytes": lambda draw: draw.randbytes(draw.choice([0, 1, 100])),
    "string": lambda draw: draw.choice(["", "é😀", "x" * draw.randrange(90)]),
}


def source(path, **more):
    return FilesSource(path=str(path), time="ts", format="avro", schema=None, **more)


def reader(files, declared=None, **more):
    return AvroFiles("rows", source(files[0], **more), files, declared)


def read(files, splits=None, **more):
    made = reader(files, **more)
    batches = list(made.read(map(Split, files) if splits is None else splits))
    return pa.concat_tables([made.schema.empty_table(), *(batch.rows for batch in batches)]), batches


def nested(draw, depth=2):
    """A random type that is skipped, and a function that draws its values."""
    kind = draw.choice(["array", "map", "record", "union"])
    inner, value = (draw.choice(list(KINDS.items()))) if not depth else nested(draw, depth - 1)
    if kind == "array":
        return {"type": "array", "items": inner}, lambda: [_drawn(value, draw) for _ in range(draw.randrange(4))]
    if kind == "map":
        return {"type": "map", "values": inner}, lambda: {
            str(at): _drawn(value, draw) for at in range(draw.randrange(4))
        }
    if kind == "union":
        return ["null", {"type": "array", "items": inner}], lambda: draw.choice([None, [_drawn(value, draw)]])
    name = f"N{draw.randrange(10**9)}"
    return {"type": "record", "name": name, "fields": [{"name": "x", "type": inner}]}, lambda: {
        "x": _drawn(value, draw)
    }


def _drawn(value, draw):
    try:
        return value(draw)
    except TypeError:
        return value()


@pytest.mark.parametrize("seed", range(20))
def test_values_are_those_that_fastavro_wrote(tmp_path, seed):
    draw = random.Random(seed)
    fields, values, skipped = [], {}, {}
    for number in range(draw.randrange(1, 9)):
        kind, value = draw.choice(list(KINDS.items()))
        shape = draw.choice([kind, ["null", kind], [kind, "null"], {"type": kind}])
        fields.append({"name": f"c{number}", "type": shape})
        values[f"c{number}"] = (value, "null" in shape)
        if draw.random() < 0.6:
            shape, value = nested(draw)
            fields.append({"name": f"n{number}", "type": shape})
            skipped[f"n{number}"] = value
    rows = [
        {
            **{name: None if null and draw.random() < 0.3 else value(draw) for name, (value, null) in values.items()},
            **{name: value() for name, value in skipped.items()},
        }
        for _ in range(draw.choice([0, 1, 300]))
    ]
    codec = draw.choice(["null", "deflate", "bzip2", "xz"])
    file = write_avro(tmp_path / "x.avro", record(*fields), rows, codec=codec, sync_interval=draw.choice([50, 20_000]))
    found, _ = read([file])
    assert repr(found.to_pylist()) == repr([{name: row[name] for name in values} for row in rows])
    size = file.stat().st_size
    cuts = sorted(draw.randrange(size) for _ in range(3))
    parts = [Split(file, low, high) for low, high in zip([0, *cuts], [*cuts, size], strict=True)]
    assert read([file], parts)[0].equals(found)


def test_types_of_values(tmp_path):
    fields = {
        "day": ({"type": "int", "logicalType": "date"}, dt.date(1969, 7, 20)),
        "milli": ({"type": "long", "logicalType": "timestamp-millis"}, EPOCH - dt.timedelta(milliseconds=1)),
        "micro": (MICROS, EPOCH + dt.timedelta(microseconds=7)),
        "local": ({"type": "long", "logicalType": "local-timestamp-micros"}, dt.datetime(2024, 1, 1)),
        "price": ({"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}, Decimal("-12345678901.25")),
        "small": (
            {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 3},
            Decimal("-0.001"),
        ),
        "side": ({"type": "enum", "name": "Side", "symbols": ["buy", "sell"]}, "sell"),
        "raw": ({"type": "fixed", "name": "Raw", "size": 2}, b"\x00\xff"),
        "wide": (["null", "float", "double"], 0.1),
        "whole": (["int", "long"], 2**40),
    }
    schema = record(*({"name": name, "type": kind} for name, (kind, _) in fields.items()))
    row = {name: value for name, (_, value) in fields.items()}
    found, _ = read([write_avro(tmp_path / "x.avro", schema, [row])])
    assert found.to_pylist() == [{**row, "wide": pytest.approx(0.1)}]
    kinds = "date32[day] timestamp[us, tz=UTC] timestamp[us, tz=UTC] timestamp[us] decimal128(20, 2) decimal128(9, 3)"
    assert " ".join(map(str, found.schema.types)) == f"{kinds} string binary double int64"


def test_a_record_that_contains_itself_is_skipped(tmp_path):
    tree = {"type": "record", "name": "Tree", "fields": [{"name": "sub", "type": {"type": "array", "items": "Tree"}}]}
    schema = record({"name": "tree", "type": tree}, {"name": "x", "type": "int"})
    rows = [{"tree": {"sub": [{"sub": []}, {"sub": [{"sub": []}]}]}, "x": at} for at in range(3)]
    assert read([write_avro(tmp_path / "x.avro", schema, rows)])[0].to_pydict() == {"x": [0, 1, 2]}


def test_columns_are_those_of_all_files_in_the_widest_type(tmp_path):
    old = record({"name": "ts", "type": MICROS}, {"name": "n", "type": "int"}, {"name": "gone", "type": "string"})
    new = record({"name": "n", "type": "double"}, {"name": "TS", "type": MICROS}, {"name": "new", "type": "int"})
    files = [
        write_avro(tmp_path / "1.avro", old, [{"ts": EPOCH, "n": 1, "gone": "x"}]),
        write_avro(tmp_path / "2.avro", new, [{"n": 0.5, "TS": EPOCH, "new": 2}]),
    ]
    assert read(files)[0].to_pylist() == [
        {"ts": EPOCH, "n": 1.0, "gone": "x", "new": None},
        {"ts": EPOCH, "n": 0.5, "gone": None, "new": 2},
    ]
    other = record({"name": "n", "type": "string"})
    files.append(write_avro(tmp_path / "3.avro", other, [{"n": "text"}]))
    with pytest.raises(sb.InvalidInputError, match=r"column 'n' has different types in its Avro files: int, double"):
        reader(files)
    later = reader(files[:2])
    with pytest.raises(sb.InvalidInputError, match=r"3\.avro' cannot be read as Avro: its column 'n' has type string"):
        list(later.read([Split(files[2])]))


def test_what_no_engine_reads_is_not_sent_to_spark(tmp_path):
    write_rows(tmp_path / "in", [rows_of(1)])
    for more in (
        ", options: {mode: FAILFAST}",
        ", schema: {ts: timestamp, id: bigint, g: string, s: double, x: interval}",
    ):
        (tmp_path / "work.yaml").write_text(STREAM % more + QUERIES + SINKS)
        with pytest.raises(sb.InvalidInputError, match=r"is not supported for Avro files, with or without Spark\."):
            run_local(sb.read_workload(tmp_path / "work.yaml"), "once")


@pytest.mark.parametrize("codec", ["snappy", "zstandard", "zstandard stream"])
def test_compressed_blocks(tmp_path, codec):
    schema = record({"name": "x", "type": "int"}, {"name": "s", "type": "string"})
    rows = [{"x": at, "s": "y" * (at % 50)} for at in range(300)]
    plain = write_avro(tmp_path / "x.avro", schema, rows, codec="null", sync_interval=500)
    file = recompress(plain, codec)
    assert read([file])[0].to_pylist() == rows


def test_the_checksum_of_a_block_is_checked(tmp_path):
    schema = record({"name": "x", "type": "int"})
    rows = [{"x": at} for at in range(1000)]
    file = recompress(write_avro(tmp_path / "x.avro", schema, rows, codec="null", sync_interval=500), "snappy")
    data = bytearray(file.read_bytes())
    data[-17] ^= 0x01  # the checksum of the last block
    file.write_bytes(data)
    found, batches = read([file], unreadable_files="dead_letters", dead_letters="dead")
    [letter] = pa.concat_tables(one.unreadable for one in batches if one.unreadable is not None).to_pylist()
    assert "the checksum of a block is wrong" in letter["reason"]
    assert found.to_pylist() == rows[: letter["row"]]
    assert 0 < letter["row"] < 1000


def test_damaged_blocks_are_skipped_or_stop_the_stream(tmp_path):
    schema = record({"name": "x", "type": "int"}, {"name": "s", "type": "string"})
    rows = [{"x": at, "s": "y" * 50} for at in range(100)]
    file = write_avro(tmp_path / "x.avro", schema, rows, codec="null", sync_interval=500)
    whole_file = file.read_bytes()
    marker = whole_file[-16:]
    places = [at for at in range(len(whole_file)) if whole_file.startswith(marker, at)]
    size = (places[2] - places[1] - 16) // 52  # rows in a block
    damaged = bytearray(whole_file)
    damaged[places[1] + 16 + 3] = 0xFF  # the first value of the second block
    damaged[places[4] :] = b"no marker here"
    file.write_bytes(damaged)
    found, batches = read([file], unreadable_files="dead_letters", dead_letters="dead")
    assert found["x"].to_pylist() == [*range(size), *range(2 * size, 3 * size)]
    letters = pa.concat_tables(one.unreadable for one in batches if one.unreadable is not None).to_pylist()
    assert [letter["row"] for letter in letters] == [size, 3 * size]
    assert letters[0]["reason"].startswith(f"block 1 (rows {size} to {2 * size - 1}) cannot be read as Avro: record ")
    assert letters[1]["reason"].startswith(f"the file from row {3 * size} on cannot be read as Avro: the block at byte")
    with pytest.raises(sb.InvalidInputError, match=r"x\.avro' cannot be read as Avro: record \d+ of the block"):
        read([file])


@pytest.mark.parametrize("seed", range(30))
def test_no_damage_of_a_file_is_read_beyond_its_end(tmp_path, seed):
    draw = random.Random(seed)
    schema = record(*FIELDS, {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9}})
    row = {"ts": EPOCH, "id": 1, "tags": [{"k": 1}], "g": "é", "s": 0.5, "odd": True, "d": Decimal(7)}
    file = write_avro(tmp_path / "x.avro", schema, [row] * 40, codec=draw.choice(["null", "deflate"]))
    raw = bytearray(file.read_bytes())
    for _ in range(draw.randrange(1, 6)):
        raw[draw.randrange(len(raw))] = draw.randrange(256)
    file.write_bytes(raw[: draw.choice([len(raw), draw.randrange(len(raw))])])
    try:
        found, _ = read([file], unreadable_files="dead_letters", dead_letters="dead")
    except sb.InvalidInputError:
        return
    found.validate(full=True)
    assert found.num_rows <= 40


def test_text_that_is_not_utf8_is_malformed(tmp_path):
    schema = record({"name": "s", "type": "bytes"})
    file = write_avro(tmp_path / "x.avro", schema, [{"s": b"a"}, {"s": b"\xff"}, {"s": b"c"}])
    declared = pa.schema([("s", pa.string())])
    (batch,) = reader([file], declared).read([Split(file)])
    assert batch.rows["s"].to_pylist() == ["a", "c"]
    assert batch.malformed.to_pylist()[0]["row"] == 1


def test_records_have_their_own_bounds():
    program = program_of('{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}')
    values = [b"\x02", b"", b"\x04\x00", b"\x80", b"\x06"]
    data = np.frombuffer(bytearray(b"".join(values)), np.uint8)
    ends = np.cumsum([len(value) for value in values])
    begins = ends - np.array([len(value) for value in values])
    found = decoded(data, program, begins, ends, np.ones(5, np.int64))
    assert found.problems.astype(bool).tolist() == [False, True, True, True, False]
    assert found.values[0, [0, 4]].tolist() == [1, 3]


def test_an_array_of_values_without_bytes_ends():
    text = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}]}'
    data = np.frombuffer(bytearray(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"), np.uint8)
    found = decoded(data, program_of(text), np.array([0]), np.array([data.size]), np.ones(1, np.int64))
    assert found.problems.tolist() != [0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not JSON"),
        ('"long"', "top level is not a record"),
        ('{"type": "record", "name": "R", "fields": [{"name": "x", "type": "other"}]}', "no type 'other'"),
        ('{"type": "record", "name": "R"}', "not an Avro schema"),
        ('{"type": "record", "name": "R", "fields": [{"name": "x", "type": {"type": "fixed"}}]}', "not an Avro"),
    ],
)
def test_a_text_that_is_not_a_schema(text, why):
    with pytest.raises(AvroSchemaError, match=why):
        program_of(text)


def workload(folder, more="", queries=QUERIES):
    (folder / "work.yaml").write_text(STREAM % more + queries + SINKS)
    return sb.read_workload(folder / "work.yaml")


def in_time(seed):
    return sorted(rows_of(seed, 200), key=lambda row: row[0])


def test_answers_of_local_runs(tmp_path):
    rows = in_time(1)
    write_rows(tmp_path / "in", [rows[:90], rows[90:]])
    (tmp_path / "in" / "002.avro").write_bytes(b"Obj\x01 no container")
    assert run_local(workload(tmp_path, SKIPPED), "once").await_end(60)
    assert whole(read_answers(tmp_path / "out")) == wanted(rows)
    (letter,) = read_lines(tmp_path / "dead", "rows-*/part-*")
    assert letter["reason"].startswith("the file cannot be read as Avro: ")


def test_a_local_run_continues_after_columns_have_changed(tmp_path):
    rows = in_time(2)
    file = workload(tmp_path)
    for number, part in enumerate((rows[:70], rows[70:])):
        fields = FIELDS if not number else [{"name": "more", "type": "int", "default": 3}, *reversed(FIELDS)]
        write_rows(tmp_path / "in", [[], part], begin=2 * number, fields=fields)
        running = run_local(file, "catch-up" if not number else "stream")
        if number:
            running.finish()
        assert running.await_end(60)
    assert whole(read_answers(tmp_path / "out")) == wanted(rows)


@pytest.mark.long
@pytest.mark.slow
def test_answers_on_spark(tmp_path, spark):
    rows = in_time(3)
    write_rows(tmp_path / "in", [rows[:50], rows[50:120], rows[120:]])
    (tmp_path / "in" / "003.avro").write_bytes(b"Obj\x01 no container")
    file = workload(tmp_path, SKIPPED + ", files_per_batch: 2, columns: {s: s + 0}")
    running = run(file, "stream", spark=spark)
    running.finish()
    assert running.await_end(300)
    assert running.metrics()["rows"]["reader"] == "arrow"
    assert whole(read_answers(tmp_path / "out")) == wanted(rows)
    (letter,) = read_lines(tmp_path / "dead", "rows-*/part-*")
    assert letter["reason"].startswith("the file cannot be read as Avro: ")


@pytest.mark.long
def test_a_batch_on_spark(tmp_path, spark):
    rows = in_time(4)
    write_rows(tmp_path / "in", [rows[:50], rows[50:]])
    assert run(workload(tmp_path), "once", spark=spark).await_end(300)
    assert whole(read_answers(tmp_path / "out")) == wanted(rows)


def test_what_only_sparks_reader_can_do_is_rejected(tmp_path):
    with pytest.raises(sb.WorkloadFileError, match="'spark' cannot be combined with Avro files"):
        workload(tmp_path, ", reader: spark")


def test_init_recognises_avro_files(tmp_path):
    rows = in_time(5)
    write_rows(tmp_path / "in", [rows])
    found = sample_of(tmp_path / "in")
    assert (found.format, found.time, found.total) == ("avro", "ts", len(rows))
    assert [name for name, _ in found.columns] == ["ts", "id", "g", "s", "odd"]
    (tmp_path / "in" / "000.avro").rename(tmp_path / "part-00000")
    assert sample_of(tmp_path / "part-00000").format == "avro"
