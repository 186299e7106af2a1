"""Records of a topic through a workload file, against the definitions."""

from __future__ import annotations

import datetime as dt
import time

import pytest

import skyband as sb
from skyband.connectors.kafka_records import reject_missing_connector
from skyband.connectors.sources import open_batch
from tests.connectors.kafka.topics import Sent, value_of
from tests.connectors.kafka.work import FILE, SECOND, answers, finished, rows_of, wanted, workload
from tests.sharding import cases


def test_a_topic_once(spark, topics, tmp_path):
    rows, topic = rows_of(1), topics.name()
    topics.send_rows(topic, rows)
    running = finished(workload(tmp_path, topics, topic, more="rows_per_batch: 25"), spark)
    assert answers(running) == wanted(rows)
    metrics = running.metrics()["rows"]
    assert (metrics["rows"], metrics["late"], metrics["malformed"]) == (len(rows), 0, 0)


def test_out_of_order_over_two_partitions(spark, topics, tmp_path):
    rows, topic = rows_of(2), topics.name()
    order = cases.disordered(cases.rng("late", 2), rows, 40 * SECOND)
    topics.send(topic, [Sent(value_of(row), partition=number % 2) for number, row in enumerate(order)])
    file = workload(tmp_path, topics, topic, more="rows_per_batch: 30", watermark="80 seconds")
    running = finished(file, spark)
    assert answers(running) == wanted(rows)
    assert running.metrics()["rows"]["late"] == 0


def test_what_is_delivered_twice_is_there_twice(spark, topics, tmp_path):
    rows, topic = rows_of(3, 60), topics.name()
    twice = sorted([*rows, *rows[::3]], key=lambda row: row[0])
    topics.send_rows(topic, twice)
    assert answers(finished(workload(tmp_path, topics, topic), spark)) == wanted(twice)


def test_the_record_itself_as_columns(spark, topics, tmp_path):
    topic = topics.name()
    topics.send(
        topic,
        [
            Sent(b'{"s": 1.5}', b"k1", 0, (("trace", b"a"), ("trace", b"b"), ("odd", b"\xff"))),
            Sent(b'{"s": 2.5}', b"\xfe\xff", 1),
            Sent(b'{"s": 3.5}', None, 1),
        ],
    )
    text = f"""
streams:
  s:
    source: kafka
    servers: {topics.servers}
    topic: {topic}
    format: json
    schema: {{s: double}}
    record: [key, headers, topic, partition]
    columns: {{trace: "get(filter(kafka_headers, h -> h.key = 'trace'), 0).value"}}
    time: kafka_timestamp
    id: kafka_offset
queries: [{{name: best, k: 3, size: 1 hour, by: s}}]
sinks: [{{type: memory}}]
"""
    (tmp_path / "work.yaml").write_text(text)
    found = finished(sb.read_workload(tmp_path / "work.yaml"), spark).memory("s").to_pylist()
    got = {row["s"]: row for row in found}
    assert {
        s: (row["kafka_key"], row["kafka_partition"], row["kafka_offset"], row["trace"]) for s, row in got.items()
    } == {
        1.5: ("k1", 0, 0, "a"),
        2.5: (None, 1, 0, None),
        3.5: (None, 1, 1, None),
    }
    assert [(header["key"], header["value"]) for header in got[1.5]["kafka_headers"]] == [
        ("trace", "a"),
        ("trace", "b"),
        ("odd", None),
    ]
    records = {record["value"]: record["timestamp"] for record in topics.read(topic)}
    assert got[1.5]["kafka_timestamp"].replace(tzinfo=None) == records[b'{"s": 1.5}']
    assert got[1.5]["kafka_topic"] == topic


@pytest.mark.parametrize("kind", ["csv", "text"])
def test_plain_values(spark, topics, tmp_path, kind):
    rows, topic = [row for row in rows_of(4, 40) if row[1] is not None], topics.name()
    lines = [f"{position / 1e6:.6f};{id_};{group or ''};{score}" for position, score, id_, group in rows]
    topics.send(topic, [Sent(line.replace("inf", "Inf").encode()) for line in lines])
    of_csv = "schema: {ts: double, id: bigint, g: string, s: double}\n    options: {sep: ';'}"
    of_text = """columns:
      part: split(value, ';')
      ts: try_cast(part[0] as double)
      id: try_cast(part[1] as bigint)
      g: nullif(part[2], '')
      s: try_cast(part[3] as double)"""
    text = FILE.format(
        servers=topics.servers,
        topic=topic,
        shape="{}",
        watermark="0 seconds",
        more="    time_format: seconds",
        sinks="[{type: memory}]",
    ).replace("format: json\n    schema: {}", f"format: {kind}\n    {of_csv if kind == 'csv' else of_text}")
    (tmp_path / "work.yaml").write_text(text)
    found = open_batch(spark, "rows", sb.read_workload(tmp_path / "work.yaml").streams["rows"]).toArrow().to_pylist()
    got = {row["id"]: (cases.micros(row["ts"]), row["s"], row["id"], row["g"]) for row in found}
    assert got == {row[2]: row for row in rows}


def test_where_a_run_begins(spark, topics, tmp_path):
    topic = topics.name()
    rows = [row for row in rows_of(5, 40) if row[1] is not None]
    topics.send_rows(topic, rows[:20])
    topics.send_rows(topic, rows[20:30], partition=1)
    time.sleep(0.05)
    now = dt.datetime.now(dt.UTC)
    time.sleep(0.05)
    topics.send_rows(topic, rows[30:])

    def ids(starting):
        file = workload(tmp_path, topics, topic, more=f"starting: {starting}")
        return sorted(row["id"] for row in open_batch(spark, "rows", file.streams["rows"]).collect())

    assert ids("earliest") == sorted(row[2] for row in rows)
    assert ids(f"{{{topic}: {{0: 15, 1: 10}}}}") == sorted(row[2] for row in [*rows[15:20], *rows[30:]])
    assert ids(now.isoformat()) == sorted(row[2] for row in rows[30:])
    with pytest.raises(sb.InvalidInputError, match="starting: latest skips all current records"):
        ids("latest")


def test_several_topics_and_a_pattern(spark, topics, tmp_path):
    one, two = topics.name(), topics.name()
    rows = rows_of(6, 20)
    topics.send_rows(one, rows[:10])
    topics.send_rows(two, rows[10:])
    listed = workload(tmp_path, topics, f"[{one}, {two}]").streams["rows"]
    assert open_batch(spark, "rows", listed).count() == 20
    like = listed.model_copy(update={"topic": None, "topic_pattern": f"{one}|{two}"})
    assert open_batch(spark, "rows", like).count() == 20


def test_a_session_without_the_connector_says_what_to_do():
    with (
        pytest.raises(sb.MissingDependencyError, match=r"skyband jars.*session\(kafka=True\)"),
        reject_missing_connector(),
    ):
        raise ValueError("Failed to find data source: kafka. Make sure the provider name is correct")
