"""The records of Kafka topics that a stream has read: each micro-batch is read again from its offsets.

Spark keeps the offsets of a hundred micro-batches; the checkpoint has those of more (`spark.batch_log.OffsetLog`). The
watermark of each batch is stored beside its offsets, so batches without rows of wanted windows are skipped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from skyband.connectors.kafka import KafkaSource
from skyband.connectors.sources import open_batch
from skyband.errors import InvalidInputError, SkybandError, UnsupportedError
from skyband.jobs.local_stream import StoppedError
from skyband.jobs.spark_history import ReadBatch
from skyband.local.pipeline import LocalPlan, plan_for
from skyband.queries.workload import Workload
from skyband.sharding.shard import shard_type
from skyband.spark.batch_log import OffsetLog, PlannedOffsets, control_messages, read_lists
from skyband.spark.spark_errors import first_line
from skyband.spark.topology import SparkPlan
from skyband.spark.versions import arrow_schema

__all__ = ["TopicHistory"]

_EARLIEST = -2  # Kafka's number for the first record of a partition
_MICROSECONDS = 1000  # in a millisecond
_OMIT = "Omit since: it is then answered from the first window that starts after all rows read so far."


class TopicHistory:
    """The records that a stream has read. `past` maps joining queries to how much of their past is read."""

    def __init__(
        self,
        spark: SparkSession,
        checkpoint: Path,
        name: str,
        stream: KafkaSource,
        workload: Workload[Any],
        plan: SparkPlan,
        past: Mapping[str, int],
        delay: int,
    ) -> None:
        self._spark, self._checkpoint, self._name, self._stream = spark, checkpoint, name, stream
        self._workload, self._past, self._delay = workload, dict(past), delay
        self._log = OffsetLog(checkpoint)
        frame = self._frame(None)
        self._schema = arrow_schema(frame.schema)
        self.time = next(column for column in frame.columns if column.lower() == str(stream.time).lower())
        self.plan = self._local(plan)
        self._done: PlannedOffsets | None = None
        self.begins_late = False
        self.begins_after: int | None = None  # the newest position of rows that are not read; None: all are read

    def _local(self, plan: SparkPlan) -> LocalPlan:
        """Return the plan over the rows in this process."""
        try:
            local = plan_for(self._schema, plan.asked)
        except SkybandError as error:
            raise UnsupportedError(
                f"since is not supported for query {next(iter(self._past))!r}: its past is read in this process, which "
                f"cannot compute all expressions ({error}). {_OMIT}"
            ) from error
        if local.plan != plan.plan:
            raise UnsupportedError(
                f"since is not supported for query {next(iter(self._past))!r}: its past is read in this process, where "
                f"columns have other types. {_OMIT}"
            )
        return local

    def batches(self, names: list[str], is_stopped: Callable[[], bool]) -> Iterator[ReadBatch]:
        """Yield the batches that were planned since the last call; at first those with rows of wanted windows."""
        planned = self._log.planned(-1 if self._done is None else self._done.number)
        if not planned:
            return
        if self._done is None:
            planned = self._begin(planned)
        assert self._done is not None
        if planned and planned[0].number != self._done.number + 1:
            raise UnsupportedError(
                f"the past of {', '.join(names)} cannot be read: the stream was faster, and Spark no longer keeps the "
                f"offsets of batch {self._done.number + 1}. Add the query again."
            )
        controls = read_lists(self._checkpoint / "sources" / "1")
        for one in planned:
            start, end = self._done.source, one.source
            messages = control_messages(controls, self._done.control, one.control)

            def tables(start: Any = start, end: Any = end) -> Iterator[pa.Table]:
                if is_stopped():
                    raise StoppedError
                if end is not None and end != start:
                    yield self._rows(start or {}, end, names)

            yield ReadBatch(one.watermark, tables, messages)
            self._done = one

    def _begin(self, planned: list[PlannedOffsets]) -> list[PlannedOffsets]:
        """Return the batches to read, and set what was done before them."""
        needed = self._needed_from(planned[-1].watermark * _MICROSECONDS)
        newest = [one.watermark * _MICROSECONDS + self._delay + _MICROSECONDS for one in planned]  # of rows before it
        first = 0
        while first + 1 < len(planned) and needed is not None and newest[first + 1] < needed:
            first += 1
        if planned[first].number == 0:
            self._done = PlannedOffsets(-1, 0, self._initial(), -1)
            return planned
        self.begins_late = True
        if first == 0:  # the offset at which its rows begin is not known, so they are not read
            if needed is None or len(planned) == 1 or not shard_type(self.plan.plan).takes_past:
                raise UnsupportedError(
                    f"the past of {', '.join(self._past)} cannot be read: it is needed from before batch "
                    f"{planned[0].number}, the first whose offsets are stored. {_OMIT}"
                )
            self.begins_after, first = newest[1], 1
        self._done = planned[first - 1]
        return planned[first:]

    def _needed_from(self, clock: int) -> int | None:
        """Return the position from which rows are needed: that of the wanted windows, and of all that are open.

        None: all rows are needed.
        """
        queries = [query for query in self.plan.plan.queries if query.name in self._past]
        if not shard_type(self.plan.plan).takes_past:
            queries = list(self.plan.plan.queries)
        kinds = {getattr(query, "window_kind", "") for query in queries}
        if kinds & {"landmark", "session"} or any(getattr(query, "full_only", False) for query in queries):
            return None
        return clock - max(*self._past.values(), *(int(query.window.longest) for query in queries))

    def _initial(self) -> dict[str, Any]:
        """Return the offsets at which the stream began."""
        text = (self._checkpoint / "sources" / "0" / "0").read_text(encoding="utf-8", errors="replace")
        found: dict[str, Any] = json.loads(text[text.index("{") :])
        return found

    def _rows(self, start: Mapping[str, Any], end: Mapping[str, Any], names: list[str]) -> pa.Table:
        begins = {
            topic: {number: start.get(topic, {}).get(number, _EARLIEST) for number in parts}
            for topic, parts in end.items()
        }
        try:
            return self._frame((begins, dict(end))).toArrow().cast(self._schema)
        except Exception as error:
            raise InvalidInputError(
                f"the past of {', '.join(names)} cannot be read from {self._stream.described()}: {first_line(error)}. "
                "The topic may no longer have these records. Add the query with a shorter since, or without."
            ) from error

    def _frame(self, between: tuple[dict[str, Any], dict[str, Any]] | None) -> Any:
        return open_batch(self._spark, self._name, self._stream, asked=self._workload, between=between)
