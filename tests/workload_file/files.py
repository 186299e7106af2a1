"""Workload files to read: whole ones, and a short one to spoil."""

from __future__ import annotations

import pytest

import skyband as sb

SHORT = """\
streams:
  trades:
    path: trades.csv
    time: ts
queries:
  - name: big
    k: 10
    size: 1 hour
    by: price
"""

FULL = """\
# yaml-language-server: $schema=workload.schema.json
streams:
  trades:
    source: files
    format: csv
    path: trades.csv
    options: {header: true, sep: ";", maxColumns: 100}
    schema: {ts: timestamp, price: double, size: int, symbol: string, trade_id: bigint}
    files_per_batch: 1
    columns: {value: price * size}
    time: ts
    time_format: yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]XXX
    watermark: 30 seconds
    id: trade_id
  ticks:
    source: rate
    rows_per_second: 1000
  lines:
    source: socket
    host: 127.0.0.1
    port: 9999
    format: json
    schema: {at: timestamp, reading: "decimal(10, 2)", tags: array<string>}
    time: at
  bids:
    source: kafka
    servers: [127.0.0.1:9092, "[::1]:9093"]
    topic: [bids, bids.eu]
    starting: earliest
    format: json
    schema: {price: double, bidder: string}
    record: [key, headers, topic, partition, offset]
    rows_per_batch: 100000
    largest_value: 10000
    dead_letters: malformed
    dead_letter_topic: bids-malformed
    options: {kafka.security.protocol: SSL, failOnDataLoss: false}
    time: kafka_timestamp
    id: kafka_offset
queries:
  - name: big
    stream: trades
    k: 10
    size: 10 minutes
    slide: 1 minute
    by: price * size
    where: symbol <> 'X'
    partition_by: symbol
    order: asc
    origin: 2024-01-01
    full_only: true
    ties: rank
  - {name: two, stream: trades, k: 1, size: 1 hour, by: price, partition_by: [symbol, size]}
  - name: counted
    stream: ticks
    k: 3
    size: 1000
    slide: 100
    origin: 0
    by: value % 7
  - name: spoken
    stream: lines
    sql: TOPK reading, 5 OVER 1 HOUR EVERY 5 MINUTES
  - {name: bid, stream: bids, k: 3, size: 1 minute, by: price, partition_by: kafka_key}
sinks:
  - type: terminal
  - type: parquet
    path: answers
    output: changes
    queries: [big, spoken]
  - {type: memory}
  - {type: kafka, servers: "127.0.0.1:9092, other:9092", topic: best, options: {kafka.acks: all}}
engine:
  algorithm: auto
  late: refuse
  shards: 4
  checkpoint: state
  master: local[2]
  memory: 4g
  settings: {spark.sql.shuffle.partitions: 4, spark.ui.enabled: false}
"""

FAMILIES = """\
streams:
  requests: {path: requests.csv, time: at}
  flows: {path: flows.csv, time: at}
  readings: {path: readings.csv, time: at, id: reading_id}
queries:
  - {name: busy, stream: requests, type: aggregate, k: 20, size: 1 hour, slide: 1 minute, key: client, value: bytes,
     partition_by: site}
  - {name: hits, stream: requests, type: aggregate, k: 20, size: 1 hour, key: client, aggregate: count, full_only: true}
  - {name: heavy, stream: flows, type: incomplete, k: 5, size: 5 minutes, every: 10 seconds, object: flow,
     stream_by: router, value: bytes, streams: [r1, r2], weights: {r1: 2}, bounds: [0, 1000], occurrences: 3,
     method: exact, intervals: true, aggregate: sum}
  - {name: fast, stream: readings, type: uncertain, k: 3, size: 20 minutes, every: 2 minutes, by: speed,
     probability: confidence, rule: reading, semantics: pt-k, threshold: 0.5, where: speed > 0}
  - {name: sensors, stream: readings, type: uncertain, k: 1, size: 20 minutes, by: speed, probability: confidence,
     rule: reading, stream_by: sensor, where: speed > 0}
  - {name: weighed, stream: readings, type: uncertain, k: 2, size: 20 minutes, by: speed, probability: confidence,
     rule: reading, semantics: prf, rank_weights: [1, 0.5], where: speed > 0}
  - {name: falling, stream: readings, type: uncertain, k: 2, size: 20 minutes, by: speed, probability: confidence,
     rule: reading, semantics: prf, alpha: 0.9, where: speed > 0}
  - name: spoken
    sql: SELECT TOP 3 * FROM readings [RANGE 20 MINUTES] WHERE speed > 0 ORDER BY speed DESC RULE reading
      PROBABILITY confidence FREQUENCY 5 MINUTES
engine: {algorithm: dp}
"""

VALID = {
    "families": FAMILIES,
    "short": SHORT,
    "full": FULL,
    "no values": SHORT.replace("time: ts", "time: ts\n    options:\n    id:\n    columns: ~") + "sinks:\nengine:\n",
    "a folder": SHORT.replace("trades.csv", "trades\n    format: parquet"),
    "a glob": SHORT.replace("trades.csv", "'trades/*.JSON.gz'"),
    "a scheme": SHORT.replace("trades.csv", "s3a://bucket/trades.parquet/"),
    "json": '{"streams": {"a": {"source": "rate"}}, "queries": [{"k": 1, "size": 5, "by": "value"}]}',
    "an alias": SHORT.replace("k: 10", "k: &ten 10") + "  - {name: b, k: *ten, size: 1 day, by: price}\n",
    "variables": SHORT.replace("k: 10", "k: ${K:-10}")
    .replace("1 hour", "${N:-1} hour")
    .replace("trades.csv", "${P:-a.csv}"),
    "a stream unused": SHORT.replace("streams:", "streams:\n  other: {source: rate}").replace(
        "- name", "- stream: trades\n    name"
    ),
    "block text": SHORT.replace("by: price", "by: >-\n      price\n      * 2"),
    "sinks": SHORT + "sinks:\n  - {type: csv, path: a}\n  - {type: jsonl, path: b, output: answers}\n",
    "late limits": SHORT + "engine: {late: {warn: 0.1%, fail: 0.05}}\n",
    "engine": SHORT + "engine: {algorithm: mintopk, late: count, memory: 512M}\n",
    "kafka": SHORT.replace(
        "path: trades.csv\n    time: ts",
        "source: kafka\n    servers: h:9092\n    topic_pattern: a.*\n    format: text\n    time: kafka_timestamp\n"
        "    starting: 2024-01-01",
    ),
    "kafka from offsets": SHORT.replace(
        "path: trades.csv",
        "source: kafka\n    servers: h:9092\n    topic: a\n    format: csv\n    schema: {ts: timestamp}\n"
        "    starting: {a: {0: 5, 1: -2}}",
    ),
    "kafka with a registry": SHORT.replace(
        "path: trades.csv",
        "source: kafka\n    servers: h:9092\n    topic: a\n    format: avro\n    registry: http://${USER:-me}@h/api\n"
        "    registry_wait: 5 minutes\n    subject: of-a",
    ),
    "protobuf by a file": SHORT.replace(
        "path: trades.csv",
        "source: kafka\n    servers: h:9092\n    topic: a\n    format: protobuf\n    schema_file: a.proto\n"
        "    message: Row\n    options: {failOnDataLoss: false}",
    ),
    "quoted numbers": SHORT.replace("by: price", 'by: "1"'),
    "octal": SHORT.replace("k: 10", "k: 0x10"),
    "a column that is computed": SHORT.replace(
        "time: ts", "schema: {a: bigint}\n    columns: {ts: timestamp_seconds(a)}\n    time: TS"
    ),
    "two statements": SHORT.replace(
        "k: 10\n    size: 1 hour\n    by: price",
        "sql: |\n      TOPK a, 1 OVER 5 MINUTES;\n      TOPK a, 2 OVER 5 MINUTES",
    ),
}


@pytest.fixture
def read(tmp_path):
    """Reads a text as a workload file."""

    def reading(text, environment=None, name="skyband.yaml"):
        file = tmp_path / name
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return sb.read_workload(file, environment or {})

    return reading


@pytest.fixture
def problems(read, tmp_path):
    """The problems of a text as a workload file, as (line, column, key, message)."""

    def finding(text, environment=None):
        with pytest.raises(sb.WorkloadFileError) as caught:
            read(text, environment)
        assert all(problem.file == str(tmp_path / "skyband.yaml") for problem in caught.value.problems)
        return [tuple(problem[1:]) for problem in caught.value.problems]

    return finding
