"""Sinks: destinations of answers, with the same keys and validation as in workload files.

>>> import skyband as sb
>>> sb.sinks.Parquet(path="answers", queries=["big"])
ParquetSink(type='parquet', output='answers', queries=['big'], path='answers', retry=None, writers=None)
>>> sb.sinks.Postgres(table="answers", historie="newest")
Traceback (most recent call last):
    ...
skyband.errors.InvalidInputError: a sink of type postgres: historie: unknown key; did you mean 'history'?

`skyband.spark.start(…, sinks=[…])` writes to them.
"""

from __future__ import annotations

from skyband.connectors.alerts import AlertsSink as Alerts
from skyband.connectors.delta import DeltaSink as Delta
from skyband.connectors.files import CsvSink as Csv
from skyband.connectors.files import JsonlSink as Jsonl
from skyband.connectors.files import ParquetSink as Parquet
from skyband.connectors.iceberg import IcebergSink as Iceberg
from skyband.connectors.kafka import KafkaSink as Kafka
from skyband.connectors.memory import MemorySink as Memory
from skyband.connectors.postgres import PostgresSink as Postgres
from skyband.connectors.redis import RedisSink as Redis
from skyband.connectors.sink import SinkModel as Sink
from skyband.connectors.stdout import StdoutSink as Stdout
from skyband.connectors.terminal import TerminalSink as Terminal

__all__ = [
    "Alerts",
    "Csv",
    "Delta",
    "Iceberg",
    "Jsonl",
    "Kafka",
    "Memory",
    "Parquet",
    "Postgres",
    "Redis",
    "Sink",
    "Stdout",
    "Terminal",
]
