"""The past of queries that join a stream: the batches in its log are ranked again, for these queries only.

The files of a batch are read as the stream read them, and the watermark moves as it did, so rows that were late then
are late again. What remains are the rows that a query would hold if it had been there from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from skyband.connectors.arrow.delta_changes import stored_path
from skyband.connectors.arrow.rows import LocalRows
from skyband.connectors.arrow.splits import Split
from skyband.errors import InvalidInputError, UnsupportedError
from skyband.jobs.folder_log import LoggedFile, read_batches
from skyband.jobs.local_state import FolderSegments
from skyband.jobs.local_stream import StoppedError
from skyband.local.arrow_source import ArrowColumn
from skyband.local.micro_batches import MicroBatches
from skyband.local.pipeline import LocalPlan
from skyband.sharding.shard import MemorySegments, Shard, shard_type
from skyband.windows import ALWAYS

__all__ = ["LoggedPast", "refuse_without_past"]


class LoggedPast:
    """What joining queries would hold if they had been in a stream from its start.

    `past` maps the names of the queries to how far before the joining their windows may begin, in microseconds. It can
    be read in parts, beside the stream. Shards that store rows take those of the joining queries. Totals and bounds
    cannot be taken over: then all queries are answered again, and the shards of the stream are replaced.
    """

    def __init__(self, rows: LocalRows, plan: LocalPlan, delay: int, past: Mapping[str, int], log: Path) -> None:
        refuse_without_past(plan, past)
        self._rows, self._past, self._log, self._plan = rows, dict(past), log, plan.plan
        self._takes_rows = shard_type(plan.plan).takes_past
        self._engine = MicroBatches(_only(plan, past) if self._takes_rows else plan, rows.time, delay)
        self._done = -1

    def read(self, until: int, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """Rank the batches of the log up to the batch `until`."""
        for batch in read_batches(self._log):
            if self._done < batch.number <= until:
                self._engine.step(self._tables(batch.number, batch.files, is_stopped), batch.messages)
                self._done = batch.number

    def join(self, engine: MicroBatches, segments_of_new: Callable[[], FolderSegments]) -> None:
        """Give the shards of the stream what they lack. Both have processed the same batches."""
        clocks = zip(
            (shard.clock for shard in self._engine.shards), (shard.clock for shard in engine.shards), strict=True
        )
        is_same = (self._engine.newest, self._engine.watermark) == (engine.newest, engine.watermark)
        if not is_same or any(mine != stored != ALWAYS for mine, stored in clocks):  # a new shard has no clock yet
            raise InvalidInputError(
                f"the past of {', '.join(self._past)} is not that of the stream: the files or the watermark: of the "
                "stream have changed since they were read. Add the query without since."
            )
        reported_from = {name: self._reported_from(name, engine) for name in self._past}
        for place, (shard, past) in enumerate(zip(engine.shards, self._engine.shards, strict=True)):
            if self._takes_rows:
                shard.take_past(past, reported_from)
            else:
                engine.shards[place] = _stored(past, shard, segments_of_new())
                engine.shards[place].replace(shard, reported_from)
                engine.held[shard.number] = self._engine.held[shard.number]

    def _reported_from(self, name: str, engine: MicroBatches) -> int:
        """Return the smallest start of a window that the query reports.

        All windows of a landmark start at one position. They are reported however long ago that is, because the whole
        log has been read.
        """
        clock = max(shard.clock for shard in engine.shards)
        query = next(query for query in self._plan.queries if query.name == name)
        is_landmark = getattr(query, "window_kind", "") == "landmark"
        return ALWAYS if clock == ALWAYS or is_landmark else clock - self._past[name]

    def _tables(self, number: int, files: tuple[LoggedFile, ...], is_stopped: Callable[[], bool]) -> Iterator[pa.Table]:
        for file in files:
            path = stored_path(file.path)
            if not path.exists() or path.stat().st_size != file.size:
                what = "no longer exists" if not path.exists() else "has changed since"
                raise InvalidInputError(
                    f"{file.path!r} was read by batch {number} and {what}, so the past of {', '.join(self._past)} "
                    "cannot be read. Restore the file, or add the query without since."
                )
            for batch in self._rows.read([Split(Path(file.path))]):
                if is_stopped():
                    raise StoppedError
                if batch.rows.num_rows:
                    yield batch.rows


def refuse_without_past(plan: LocalPlan, past: Mapping[str, int]) -> None:
    """Reject queries of a family whose shards cannot take rows of the past."""
    kind = shard_type(plan.plan)
    if past and not (kind.takes_past or kind.may_be_replaced):
        raise UnsupportedError(
            f"since is not supported for query {next(iter(past))!r} of type {plan.family.name}: a plan chooses the "
            "moments of all queries together, so with another query other moments would have been answered. Omit "
            "since: it is then answered from the first window that starts after all rows read so far."
        )
    _refuse_corrections(plan, past)


def _refuse_corrections(plan: LocalPlan, past: Mapping[str, int]) -> None:
    """Reject windows that are emitted more than once: those that ended before were not emitted for these queries."""
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
