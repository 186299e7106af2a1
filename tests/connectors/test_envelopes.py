"""Change events in envelopes and records without a value: the same rows without Spark, on Spark, and from topics."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from random import Random

import pytest
from pyspark.sql import functions as sf

import skyband as sb
from skyband.connectors.arrow.rows import LocalRows
from skyband.connectors.files import FilesSource
from skyband.connectors.kafka import KafkaSource
from skyband.connectors.kafka_records import rows_of
from skyband.connectors.source import Reading
from skyband.connectors.sources import RECORD, WRONG
from skyband.jobs import run_local
from skyband.workload_file.reader import read_with_data
from tests.jobs.test_local_job import assert_equal, local, on_spark
from tests.spark.frames import collected

SCHEMA = {"player": "string", "points": "double", "games": "int"}
STRANGE = [
    "null",
    "[]",
    "nonsense",
    "{}",
    '{"payload": 3}',
    '{"payload": null}',
    '{"op": "t", "ts_ms": 5}',
    '{"op": 1, "after": {"player": "a"}}',
    '{"op": "d", "after": {"player": "a"}}',
    '{"op": "u", "before": {"player": "a"}, "after": null}',
    '{"op": "c", "after": {"player": "a", "points": "many"}}',
    '{"op": "c", "after": {"player": "a", "games": 3000000000}}',
    '{"op": "c", "after": {"player": "a"}, "ts_ms": "soon"}',
]


def event(random, at):
    """A change event, and the row in it."""
    op = random.choice("crud")
    row = {
        "player": random.choice("abcd"),
        "points": random.choice([1.0, 2.5, None]),
        "games": random.choice([0, 7, None]),
    }
    other = {"player": row["player"], "points": 99.0}
    before, after = (row, None) if op == "d" else (random.choice([None, other]), row)
    parts = {"before": before, "after": after, "op": op, "ts_ms": at, "source": {"lsn": random.choice([1, "x", None])}}
    wrapped = {"schema": {"type": "struct"}, "payload": parts} if random.random() < 0.5 else parts
    return json.dumps(wrapped), {**row, "op": op, "op_time": at}


def events(seed, strange=True):
    random, lines, rows = Random(seed), [], []
    for number in range(60):
        if strange and random.random() < 0.25:
            lines.append(random.choice(STRANGE))
        line, row = event(random, number * 1000)
        lines.append(line)
        rows.append(row)
    return lines, rows


def told(rows):
    start = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    found = []
    for row in rows:
        time = row["op_time"]
        found.append({**row, "op_time": time and (time.replace(tzinfo=dt.UTC) - start) // dt.timedelta(milliseconds=1)})
    return found


def stream(folder, lines, **more):
    (folder / "changes.jsonl").write_text("".join(f"{line}\n" for line in lines))
    found = FilesSource(path="changes.jsonl", time="op_time", schema=SCHEMA, envelope="debezium", **more)
    return found.settled(folder)


@pytest.mark.parametrize("seed", range(4))
def test_rows_without_spark(tmp_path, seed):
    lines, rows = events(seed, strange=seed > 0)
    (batch,) = LocalRows("s", stream(tmp_path, lines)).read()
    assert told(batch.rows.to_pylist()) == rows
    assert batch.read == len(lines)
    assert sorted(batch.malformed["value"].to_pylist()) == sorted(line for line in lines if line in STRANGE)


def test_rows_and_dead_letters_on_spark(spark, tmp_path):
    lines, rows = events(7)
    found = stream(tmp_path, lines).read(Reading(spark, "s", streaming=False, with_record=True))
    wrong = collected(found.where(sf.col(WRONG).isNotNull()).select(f"{RECORD}.value", WRONG))
    assert sorted(row["value"] for row in wrong) == sorted(line for line in lines if line in STRANGE)
    assert {row[WRONG] for row in wrong} <= {"the line is not a Debezium envelope of a row that matches the schema"}
    assert told(collected(found.where(sf.col(WRONG).isNull()).drop(RECORD, WRONG))) == rows


def records(spark, sent):
    rows = [(key, value, "t", 0, number, dt.datetime(2024, 1, 1), []) for number, (key, value) in enumerate(sent)]
    kinds = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, "
    return spark.createDataFrame(rows, f"{kinds}headers array<struct<key: string, value: binary>>")


def topic(**more):
    given = {"servers": ["a:1"], "topic": ["t"], "time": "kafka_timestamp", "schema": SCHEMA, "format": "json"}
    return KafkaSource(**{**given, **more})


def test_envelopes_and_tombstones_of_a_topic(spark):
    lines, rows = events(8)
    sent = [(b"k", line.encode()) for line in lines] + [(b"k", None)] * 3
    found = rows_of(records(spark, sent), topic(envelope="debezium", id="kafka_offset"))
    right = [row for row in collected(found) if row[WRONG] is None]
    assert told([{name: row[name] for name in rows[0]} for row in right]) == rows
    assert len({row["kafka_offset"] for row in right}) == len(rows)
    assert found.where(sf.col(WRONG).isNotNull()).count() == sum(line in STRANGE for line in lines)


@pytest.mark.parametrize(
    ("tombstones", "expected"),
    [
        (
            "delete",
            [("a", "u", 1.0, None), ("a", "d", None, None), ("b", "u", None, "problem"), (None, "d", None, None)],
        ),
        ("ignore", [("a", 1.0, None), ("b", None, "problem")]),
        (None, [("a", 1.0, None), ("a", None, "problem"), ("b", None, "problem"), (None, None, "problem")]),
    ],
)
def test_records_without_a_value(spark, tombstones, expected):
    sent = [(b"a", b'{"points": 1.0}'), (b"a", None), (b"b", b"nonsense"), (None, None)]
    found = rows_of(records(spark, sent), topic(tombstones=tombstones, record=["key"]))
    names = ["kafka_key", "op", "points"] if tombstones == "delete" else ["kafka_key", "points"]
    rows = [(*(row[name] for name in names), row[WRONG] and "problem") for row in collected(found)]
    assert rows == expected


FILE = """
streams:
  s: {path: changes.jsonl, envelope: debezium, schema: {player: string, points: double, games: int}, time: op_time,
      watermark: 0 seconds, dead_letters: malformed}
queries: [{name: now, type: aggregate, aggregate: latest, key: player, value: points, delete: op = 'd', k: 9,
           size: 1 minute}]
sinks: [{type: memory}]
"""


def test_a_workload_over_changes(tmp_path):
    lines, rows = events(9)
    stream(tmp_path, lines)
    (tmp_path / "work.yaml").write_text(FILE)
    running = run_local(sb.read_workload(tmp_path / "work.yaml"))
    assert running.await_end(600)
    held = {}
    for row in rows:  # a row that is neither a delete nor has a value is dropped
        if row["op"] == "d":
            held.pop(row["player"], None)
        elif row["points"] is not None:
            held[row["player"]] = row["points"]
    assert {row["key"]: row["score"] for row in running.memory("s").to_pylist()} == held
    assert running.metrics()["s"]["malformed"] == sum(line in STRANGE for line in lines)


@pytest.mark.long
def test_both_readers_on_spark_agree_with_a_local_run(spark, tmp_path):
    lines, _ = events(9)
    stream(tmp_path, lines)
    (tmp_path / "work.yaml").write_text(FILE)
    file = sb.read_workload(tmp_path / "work.yaml")
    ours = local(file)
    for reader in ("spark", "auto"):
        assert_equal(file, ours, on_spark(file, spark, reader), (None,))
        parts = (tmp_path / "malformed").rglob("*.json")
        letters = [json.loads(line)["value"] for part in parts for line in part.read_text().splitlines()]
        assert sorted(letters) == sorted(line for line in lines if line in STRANGE)
        shutil.rmtree(tmp_path / "malformed")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("changes.jsonl", "changes.csv", "cannot be combined with format: csv"),
        ("player: string, ", "op: string, ", "'op' is a column that the envelope adds"),
        ("dead_letters: malformed", "options: {multiLine: true}", "is not supported with envelope"),
        ("schema: {player: string, points: double, games: int}, ", "", "with envelope, it has the columns of the row"),
        ("delete: op = 'd'", "delete: opp = 'd'", "did you mean 'op'"),
        ("time: op_time", "time: opp_time", "did you mean 'op_time'"),
    ],
)
def test_keys_that_do_not_fit_an_envelope(tmp_path, old, new, said):
    stream(tmp_path, events(1)[0])
    (tmp_path / "work.yaml").write_text(FILE.replace(old, new))
    with pytest.raises(sb.SkybandError, match=said):
        read_with_data(tmp_path / "work.yaml")


def test_tombstones_delete_only_without_an_envelope():
    raw = {"format": "json", "schema": SCHEMA, "envelope": "debezium", "tombstones": "delete", "topic": "t"}
    assert [key for key, _ in KafkaSource.rules(raw)] == ["tombstones"]
