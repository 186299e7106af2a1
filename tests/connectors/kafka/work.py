"""The workload file that tests of Kafka share, what it must answer, and what it did."""

from __future__ import annotations

import skyband as sb
from skyband.jobs import run
from tests.connectors.kafka.topics import SHAPE
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
    watermark: {watermark}
{more}
queries:
  - {{name: all, k: 3, size: 20 seconds, slide: 5 seconds, by: s}}
  - {{name: each, sql: "TOPK s, 2 BY g OVER 30 SECONDS"}}
sinks: {sinks}
"""


def workload(folder, topics, topic, *, more="", watermark="0 seconds", sinks="[{type: memory}]"):
    """A workload file over a topic; `more` are further keys of its stream."""
    more = "".join(f"    {line}\n" for line in more.splitlines())
    text = FILE.format(servers=topics.servers, topic=topic, shape=SHAPE, more=more, watermark=watermark, sinks=sinks)
    (folder / "work.yaml").write_text(text)
    return sb.read_workload(folder / "work.yaml")


def rows_of(seed, count=120):
    return cases.draw_rows(cases.rng("kafka", seed), count, scale=SECOND)


def wanted(rows):
    return {key: found for one in POSED for key, found in cases.wanted(one, rows).items()}


def finished(file, spark, mode="once", **more):
    running = run(file, mode, spark=spark, **more)
    assert running.await_end(300)
    return running


def answers(running):
    return cases.answered(running.memory("rows").to_pylist(), POSED)
