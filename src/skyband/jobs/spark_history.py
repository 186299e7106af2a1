"""The past of queries that join a stream on Spark: its micro-batches run again in this process, beside the stream.

The offsets and lists in the checkpoint say what each micro-batch has read. The result is sent to the shards as control
messages, which the next micro-batch stores together with its rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql import SparkSession

from skyband.connectors.arrow.rows import LocalRows
from skyband.connectors.read_files import FileInput
from skyband.errors import UnsupportedError
from skyband.jobs.folder_log import LoggedFile, PlannedBatch
from skyband.jobs.history import RepeatedBatches, different_past, rows_again
from skyband.local.pipeline import LocalPlan
from skyband.queries import Query
from skyband.sharding.past_message import past_message
from skyband.sharding.plan import ShardPlan
from skyband.sharding.shard import shard_type
from skyband.snapshot import resuming
from skyband.spark.batch_log import PlannedOffsets, control_messages, planned_offsets, read_lists
from skyband.spark.checkpoint import Checkpoint
from skyband.spark.resharding import stored_blobs
from skyband.spark.topology import SparkPlan, spread
from skyband.windows import ALWAYS

__all__ = [
    "FileHistory",
    "ReadBatch",
    "SourceHistory",
    "SparkPast",
    "file_history",
    "local_checkpoint",
    "missing_past",
    "stored_queries",
]

MICROSECONDS = 1000  # in a millisecond
_OFFSET = "logOffset"
Messages = list[tuple[dict[str, Any], int | None]]


class ReadBatch(NamedTuple):
    """A micro-batch that has been planned. `watermark`: at its begin, in milliseconds; None: not known."""

    watermark: int | None
    tables: Callable[[], Iterator[pa.Table]]
    messages: list[Mapping[str, Any]]


class SourceHistory(Protocol):
    """What a stream has read."""

    time: str  # the column with the event time
    plan: LocalPlan
    begins_late: bool  # whether the first batches are not read
    begins_after: int | None  # the newest position of rows that are not read; None: all are read

    def batches(self, names: list[str], is_stopped: Callable[[], bool]) -> Iterable[ReadBatch]:
        """Return the batches that were planned since the last call. `names` are the queries that need their rows."""


class SparkPast:
    """What joining queries would hold if they had been in a stream from its start; read in parts."""

    def __init__(self, history: SourceHistory, delay: int, past: Mapping[str, int]) -> None:
        self._history = history
        self._repeated = RepeatedBatches(history.plan, history.time, delay, past)
        self._has_begun = False

    def read(self, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """Read what the stream has planned since the last call."""
        engine = self._repeated.engine
        for batch in self._history.batches(list(self._repeated.past), is_stopped):
            if self._history.begins_late and not self._has_begun and batch.watermark:
                engine.watermark = batch.watermark * MICROSECONDS
            self._has_begun = True
            if batch.watermark is not None and batch.watermark != (engine.watermark or 0) // MICROSECONDS:
                raise different_past(self._repeated.past)
            self._repeated.step(batch.tables(), batch.messages)

    @property
    def clock(self) -> int:
        """The position up to which windows are answered."""
        return max(shard.clock for shard in self._repeated.engine.shards)

    def messages(self) -> Messages:
        """Return the messages for the shards of the stopped stream."""
        attempt, reported_from = time.time_ns(), self.reported_from
        shards = self._repeated.engine.shards
        keys = spread(len(shards))
        return [(past_message(shard, reported_from, attempt), keys[shard.number]) for shard in shards]

    @property
    def reported_from(self) -> dict[str, int]:
        """The smallest start of a window that each query reports."""
        found, begins_after = self._repeated.reported_from(self.clock), self._history.begins_after
        return found if begins_after is None else {name: max(at, begins_after + 1) for name, at in found.items()}

    def first_end(self, query: Query) -> int | None:
        """Return the end of the first window that a query reports; None if only rows determine it."""
        clock, start = self.clock, self.reported_from[query.name]
        if clock == ALWAYS or not query.starts_whole or not hasattr(query.window, "first_end_from"):
            return None
        first: int = query.window.first_end_after(clock)
        return max(first, query.window.first_end_from(start)) if start > ALWAYS else first


class FileHistory:
    """The files that a stream has read. The lists of its checkpoint contain all of them."""

    begins_late = False
    begins_after: int | None = None

    def __init__(self, checkpoint: Path, rows: LocalRows, plan: LocalPlan) -> None:
        self._checkpoint, self._rows, self.plan, self.time = checkpoint, rows, plan, rows.time
        self._done = PlannedOffsets(-1, 0, None, -1)

    def batches(self, names: list[str], is_stopped: Callable[[], bool]) -> Iterator[ReadBatch]:
        """Yield the batches that were planned since the last call.

        Lists whose micro-batches Spark has forgotten are one batch each, in their order.
        """
        planned = planned_offsets(self._checkpoint, self._done.number)
        if not planned:
            return
        sources = self._checkpoint / "sources"
        files, controls = read_lists(sources / "0"), read_lists(sources / "1")

        def batch(start: int, end: int, watermark: int | None, messages: list[Mapping[str, Any]]) -> ReadBatch:
            logged = tuple(
                LoggedFile(entry.path, entry.modified * 10**6, -1 if entry.size is None else entry.size)
                for entry in files.between(start, end)
            )
            read = PlannedBatch(end, logged)
            return ReadBatch(watermark, lambda: rows_again(self._rows, read, names, is_stopped), messages)

        if planned[0].number != self._done.number + 1:
            first = planned.pop(0)
            if control_messages(controls, self._done.control, first.control):
                raise UnsupportedError(
                    f"the past of {', '.join(names)} cannot be read: the stream was flushed, or its time was advanced, "
                    "and Spark no longer keeps the position at which that was. Add the query without since."
                )
            for number in range(_end(self._done), _end(first)):
                yield batch(number, number + 1, None, [])
            self._done = first
        for one in planned:
            messages = control_messages(controls, self._done.control, one.control)
            yield batch(_end(self._done), _end(one), one.watermark, messages)
            self._done = one


def _end(offsets: PlannedOffsets) -> int:
    return -1 if offsets.source is None else int(offsets.source[_OFFSET])


def stored_queries(kind: Any, blobs: Iterable[bytes]) -> list[dict[str, Any]]:
    """Return the queries of stored shards, as their states contain them."""
    found: list[dict[str, Any]] = []
    with resuming():
        for blob in blobs:
            saved = kind.state_format.decode(blob)
            found += saved["queries"] if "queries" in saved else [query for some in saved["classes"] for query in some]
    return found


def missing_past(spark: SparkSession, checkpoint: str, plan: ShardPlan, since: Mapping[str, int]) -> dict[str, int]:
    """Return the queries with `since` that the stored state does not have, and how much of their past is read."""
    blobs = stored_blobs(spark, Checkpoint(spark, checkpoint), plan)
    numbers = {key: number for number, key in spread(plan.units).items()}
    known = [
        query for key, blob in blobs.items() for query in stored_queries(shard_type(plan, numbers.get(key, 0)), [blob])
    ]
    wanted = [query for query in plan.queries if query.name in since]
    return {query.name: since[query.name] for query in wanted if query.to_dict() not in known}


def file_history(
    spark: SparkSession, checkpoint: str, rows: FileInput, plan: SparkPlan, names: Iterable[str]
) -> FileHistory:
    """Return what a stream of files has read; raise UnsupportedError if that cannot be read in this process."""
    folder = local_checkpoint(spark, checkpoint, names)
    if rows.opened is None:
        raise UnsupportedError(
            f"since is not supported for query {next(iter(names))!r}: its past is read in this process, which cannot "
            f"read these files ({plan.reader}). Omit since: it is then answered from the first window that starts "
            "after all rows read so far."
        )
    return FileHistory(folder, *rows.opened)


def local_checkpoint(spark: SparkSession, checkpoint: str, names: Iterable[str]) -> Path:
    """Return the folder of a checkpoint; raise UnsupportedError if it is not on this machine."""
    if not Checkpoint(spark, checkpoint).is_local:
        raise UnsupportedError(
            f"since is not supported for query {next(iter(names))!r}: checkpoint {checkpoint!r}, which says what the "
            "stream has read, is not on this machine. Omit since: it is then answered from the first window that "
            "starts after all rows read so far."
        )
    return Path(checkpoint.removeprefix("file://").removeprefix("file:"))
