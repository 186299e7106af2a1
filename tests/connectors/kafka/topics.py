"""Rows ``(position, score, id, group)`` as records of a topic, and the records of a topic as plain values."""

from __future__ import annotations

import datetime as dt
import json
import math
from itertools import count
from typing import NamedTuple

from tests.sharding.cases import EPOCH

SHAPE = "{ts: timestamp, id: bigint, g: string, s: double}"
WRITTEN = (
    "value binary, key binary, partition int, headers array<struct<key: string, value: binary>>, topic string, n int"
)
# On a busy machine a broker that has just started takes minutes to create its first topic.
PATIENT = {"kafka.delivery.timeout.ms": "900000", "kafka.max.block.ms": "900000"}
_NUMBERS = count()


class Sent(NamedTuple):
    """A record to be written."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    headers: tuple = ()


def value_of(row):
    """A row as JSON."""
    position, score, id_, group = row
    at = (EPOCH + dt.timedelta(microseconds=position)).isoformat().replace("+00:00", "Z")
    spelled = score if score is None or math.isfinite(score) else "Infinity" if score > 0 else "-Infinity"
    return json.dumps({"ts": at, "id": id_, "g": group, "s": spelled}).encode()


class Topics:
    """A client of the broker, with Spark's own reader and writer."""

    def __init__(self, spark, servers):
        self._spark, self.servers = spark, servers

    def name(self):
        """A topic of which nobody has heard."""
        return f"topic-{next(_NUMBERS)}"

    def send(self, topic, records):
        """Write records, in order. A topic that is not there is made, with two partitions."""
        rows = [
            (one.value, one.key, one.partition, [(key, value) for key, value in one.headers], topic, number)
            for number, one in enumerate(records)
        ]
        frame = self._spark.createDataFrame(rows, WRITTEN).coalesce(1).sortWithinPartitions("n").drop("n")
        frame.write.format("kafka").options(**PATIENT).option("kafka.bootstrap.servers", self.servers).option(
            "includeHeaders", "true"
        ).save()

    def send_rows(self, topic, rows, partition=0):
        """Write rows as JSON."""
        self.send(topic, [Sent(value_of(row), partition=partition) for row in rows])

    def read(self, topic, isolation="read_uncommitted"):
        """All records of a topic by partition and offset, as dictionaries."""
        frame = self._spark.read.format("kafka").option("kafka.bootstrap.servers", self.servers)
        frame = frame.option("kafka.isolation.level", isolation)
        found = frame.option("subscribe", topic).option("includeHeaders", "true").load()
        return [row.asDict(recursive=True) for row in found.orderBy("partition", "offset").collect()]
