"""Records of a topic through a workload file, against the definitions."""

from __future__ import annotations

import pytest

import skyband as sb
from skyband.spark import run
from tests.kafka.topics import SHAPE, Sent, value_of
from tests.sharding import cases

SECOND = 1_000_000
POSED = [
    cases.Posed("all", cases.Asked(k=3, size=20 * SECOND, slide=5 * SECOND), {"by": "s"}),
    cases.Posed("each", cases.Asked(k=2, size=30 * SECOND, slide=30 * SECOND), {"by": "s", "partition_by": ["g"]}),
]
FILE = """
streams:
  rows:
    source: kafka
    servers: {servers}
    topic: {topic}
    format: json
    schema: {shape}
    time: ts
    id: id
    watermark: 0 seconds
{more}
queries:
  - {{name: all, k: 3, size: 20 seconds, slide: 5 seconds, by: s}}
  - {{name: each, sql: "TOPK s, 2 BY g OVER 30 SECONDS"}}
sinks: {sinks}
"""


def workload(folder, topics, topic, *, more="", sinks="[{type: memory}]"):
    """A workload file over a topic; `more` are further keys of its stream."""
    more = "".join(f"    {line}\n" for line in more.splitlines())
    text = FILE.format(servers=topics.servers, topic=topic, shape=SHAPE, more=more, sinks=sinks)
    (folder / "work.yaml").write_text(text)
    return sb.read_workload(folder / "work.yaml")


def rows_of(seed, count=120):
    return cases.draw_rows(cases.rng("kafka", seed), count, scale=SECOND)


def wanted(rows):
    return {key: found for one in POSED for key, found in cases.wanted(one, rows).items()}


def finished(file, spark, mode="once", **more):
    running = run(file, mode, spark=spark, **more)
    assert running.await_end(120)
    return running


def answers(running):
    return cases.answered(running.memory("rows").to_pylist(), POSED)


def test_a_topic_once_in_several_micro_batches(spark, topics, tmp_path):
    rows, topic = rows_of(1), topics.name()
    topics.send_rows(topic, rows)
    running = finished(workload(tmp_path, topics, topic, more="rows_per_batch: 25"), spark)
    assert answers(running) == wanted(rows)
    metrics = running.metrics()["rows"]
    assert metrics["batches"] >= 5
    assert (metrics["rows"], metrics["late"], metrics["malformed"]) == (len(rows), 0, 0)


def test_out_of_order_over_two_partitions(spark, topics, tmp_path):
    rows, topic = rows_of(2), topics.name()
    order = cases.disordered(cases.rng("late", 2), rows, 40 * SECOND)
    topics.send(topic, [Sent(value_of(row), partition=number % 2) for number, row in enumerate(order)])
    more = "rows_per_batch: 30\nwatermark: 80 seconds"
    file = workload(tmp_path, topics, topic, more=more.replace("watermark: 80 seconds", ""))
    file.streams["rows"] = file.streams["rows"].model_copy(update={"watermark": "80 seconds"})
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
        servers=topics.servers, topic=topic, shape="{}", more="    time_format: seconds", sinks="[{type: memory}]"
    ).replace("format: json\n    schema: {}", f"format: {kind}\n    {of_csv if kind == 'csv' else of_text}")
    (tmp_path / "work.yaml").write_text(text)
    running = finished(sb.read_workload(tmp_path / "work.yaml"), spark)
    assert answers(running) == wanted(rows)
