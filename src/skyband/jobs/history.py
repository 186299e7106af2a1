"""The past of queries that join a stream: the batches in its log are ranked again, for these queries only.

The files of a batch are read as the stream read them, and the watermark moves as it did, so rows that were late then
are late again. What remains are the rows that a query would hold if it had been there from the start.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from skyband.connectors.arrow.delta_changes import stored_path
from skyband.connectors.arrow.rows import LocalRows
from skyband.connectors.arrow.splits import Split
from skyband.errors import InvalidInputError, UnsupportedError
from skyband.jobs.folder_log import LoggedFile, PlannedBatch, read_batches
from skyband.jobs.local_state import FolderSegments
from skyband.jobs.local_stream import StoppedError
from skyband.local.arrow_source import ArrowColumn
from skyband.local.micro_batches import MicroBatches
from skyband.local.pipeline import LocalPlan
from skyband.sharding.shard import MemorySegments, Shard, shard_type
from skyband.windows import ALWAYS

__all__ = ["LoggedPast", "RepeatedBatches", "different_past", "refuse_without_past", "rows_again"]


class RepeatedBatches:
    """What joining queries would hold if they had been in a stream from its start: its batches run again.

    `past` maps the names of the queries to how far before the joining their windows may begin, in microseconds. Shards
    that store rows take those of the joining queries. Totals and bounds cannot be taken over: then all queries are
    answered again, and the shards of the stream are replaced.
    """

    def __init__(self, plan: LocalPlan, time: str, delay: int, past: Mapping[str, int]) -> None:
        refuse_without_past(plan, past)
        self.past, self._plan = dict(past), plan.plan
        self.takes_rows = shard_type(plan.plan).takes_past
        self.engine = MicroBatches(_only(plan, past) if self.takes_rows else plan, time, delay)

    def step(self, tables: Iterable[pa.Table], messages: Sequence[Mapping[str, Any]] = ()) -> None:
        """Run a batch again. Its answers are discarded."""
        self.engine.step(tables, messages)

    def reported_from(self, clock: int) -> dict[str, int]:
        """Return the smallest start of a window that each query reports, if windows up to `clock` are answered.

        All windows of a landmark start at one position. They are reported however long ago that is, because the whole
        log has been read.
        """
        kinds = {query.name: getattr(query, "window_kind", "") for query in self._plan.queries}
        return {
            name: ALWAYS if clock == ALWAYS or kinds[name] == "landmark" else clock - since
            for name, since in self.past.items()
        }


class LoggedPast:
    """The past of queries that join a local stream. It can be read in parts, beside the stream."""

    def __init__(self, rows: LocalRows, plan: LocalPlan, delay: int, past: Mapping[str, int], log: Path) -> None:
        self._repeated = RepeatedBatches(plan, rows.time, delay, past)
        self._rows, self._log = rows, log
        self._done = -1

    def read(self, until: int, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """Rank the batches of the log up to the batch `until`."""
        for batch in read_batches(self._log):
            if self._done < batch.number <= until:
                tables = rows_again(self._rows, batch, list(self._repeated.past), is_stopped)
                self._repeated.step(tables, batch.messages)
                self._done = batch.number

    def join(self, engine: MicroBatches, segments_of_new: Callable[[], FolderSegments]) -> None:
        """Give the shards of the stream what they lack. Both have processed the same batches."""
        mine = self._repeated.engine
        clocks = zip((shard.clock for shard in mine.shards), (shard.clock for shard in engine.shards), strict=True)
        is_same = (mine.newest, mine.watermark) == (engine.newest, engine.watermark)
        if not is_same or any(own != stored != ALWAYS for own, stored in clocks):  # a new shard has no clock yet
            raise different_past(self._repeated.past)
        reported_from = self._repeated.reported_from(max(shard.clock for shard in engine.shards))
        for place, (shard, past) in enumerate(zip(engine.shards, mine.shards, strict=True)):
            if self._repeated.takes_rows:
                shard.take_past(past, reported_from)
            else:
                engine.shards[place] = _stored(past, shard, segments_of_new())
                engine.shards[place].replace(shard, reported_from)
                engine.held[shard.number] = mine.held[shard.number]


def rows_again(
    rows: LocalRows, batch: PlannedBatch, names: Sequence[str], is_stopped: Callable[[], bool]
) -> Iterator[pa.Table]:
    """Yield the rows of a batch; `names` are the queries that need them."""
    for file in batch.files:
        path = stored_path(file.path)
        if not path.exists() or not _is_same(file, path.stat()):
            what = "no longer exists" if not path.exists() else "has changed since"
            raise InvalidInputError(
                f"{file.path!r} was read by batch {batch.number} and {what}, so the past of {', '.join(names)} "
                "cannot be read. Restore the file, or add the query without since."
            )
        for some in rows.read([Split(Path(file.path))]):
            if is_stopped():
                raise StoppedError
            if some.rows.num_rows:
                yield some.rows


def _is_same(file: LoggedFile, now: os.stat_result) -> bool:
    """Return whether a file is the one that was read. Lists that Spark wrote have no sizes, but times."""
    return now.st_size == file.size if file.size >= 0 else now.st_mtime_ns // 10**6 == file.changed // 10**6


def different_past(names: Iterable[str]) -> InvalidInputError:
    """Return the error about batches whose repetition has another result."""
    return InvalidInputError(
        f"the past of {', '.join(names)} is not that of the stream: the files or the watermark: of the "
        "stream have changed since they were read. Add the query without since."
    )


def refuse_without_past(plan: LocalPlan, past: Mapping[str, int]) -> None:
    """Reject windows of rows, and those that are emitted more than once: earlier ones were not for these queries."""
    if past and plan.plan.axis == "count":
        raise UnsupportedError(
            f"since is not supported for query {next(iter(past))!r}: it has count windows, whose bounds are numbers of "
            "rows, and since is a time. Omit since, or use windows over event time."
        )
    if past and not plan.plan.emission.is_once:
        raise UnsupportedError(
            f"since is not supported for query {next(iter(past))!r} in a stream with early or corrected answers: "
            "windows that ended before it joins would be corrected without being emitted. Omit since."
        )


def _stored(past: Shard, before: Shard, segments: FolderSegments) -> Shard:
    """Return a shard with segments in the checkpoint; those of the shard `before` are not needed after its commit."""
    blob = past.state()
    assert isinstance(past.segments, MemorySegments)
    for number, data in past.segments.items():
        segments.put(number, data)
    old = before.segments
    assert isinstance(old, FolderSegments)
    segments.stale += [*old.stale, *old.stored.values()]
    return type(past).resume(past.plan, past.number, blob, segments)


def _only(plan: LocalPlan, names: Mapping[str, int]) -> LocalPlan:
    """Return the plan with rows for the scans of these queries only: the scores of the others are null."""
    columns = dict(plan.columns)
    for scan, score in zip(plan.plan.scans, plan.plan.scores, strict=True):
        if not any(plan.plan.queries[place].name in names for place in scan.places):
            columns[score] = ArrowColumn(
                pa.float64(), lambda table: pa.nulls(table.num_rows, pa.float64()), frozenset()
            )
    return replace(plan, columns=columns)
