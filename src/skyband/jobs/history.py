"""The past of queries that join a stream: the batches in its log are ranked again, for these queries only.

The files of a batch are read as the stream read them, and the watermark moves as it did, so rows that were late then
are late again. What remains are the rows that a query would hold if it had been there from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from skyband.connectors.arrow.rows import LocalRows
from skyband.connectors.arrow.splits import Split
from skyband.errors import InvalidInputError, UnsupportedError
from skyband.jobs.folder_log import LoggedFile, read_batches
from skyband.jobs.local_stream import StoppedError
from skyband.local.arrow_source import ArrowColumn
from skyband.local.micro_batches import MicroBatches
from skyband.local.pipeline import LocalPlan
from skyband.sharding.shard import shard_type
from skyband.windows import ALWAYS

__all__ = ["LoggedPast", "refuse_without_past"]


class LoggedPast:
    """The rows that joining queries would hold if they had been in a stream from its start.

    `past` maps the names of the queries to how far before the joining their windows may begin, in microseconds. It can
    be read in parts, beside the stream.
    """

    def __init__(self, rows: LocalRows, plan: LocalPlan, delay: int, past: Mapping[str, int], log: Path) -> None:
        refuse_without_past(plan, past)
        self._rows, self._past, self._log, self._plan = rows, dict(past), log, plan.plan
        self._engine = MicroBatches(_only(plan, past), rows.time, delay)
        self._done = -1

    def read(self, until: int, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """Rank the batches of the log up to the batch `until`."""
        for batch in read_batches(self._log):
            if self._done < batch.number <= until:
                self._engine.step(self._tables(batch.number, batch.files, is_stopped), batch.messages)
                self._done = batch.number

    def join(self, engine: MicroBatches) -> None:
        """Give the shards of the stream the rows that they lack. Both have processed the same batches."""
        mine = (self._engine.newest, self._engine.watermark, [shard.clock for shard in self._engine.shards])
        if mine != (engine.newest, engine.watermark, [shard.clock for shard in engine.shards]):
            raise InvalidInputError(
                f"the past of {', '.join(self._past)} is not that of the stream: the files or the watermark: of the "
                "stream have changed since they were read. Add the query without since."
            )
        for shard, past in zip(engine.shards, self._engine.shards, strict=True):
            shard.take_past(past, {name: self._reported_from(name, engine) for name in self._past})

    def _reported_from(self, name: str, engine: MicroBatches) -> int:
        """Return the smallest start of a window that the query reports.

        All windows of a landmark start at one position. They are reported however long ago that is, because the whole
        log has been read.
        """
        clock = max(shard.clock for shard in engine.shards)
        is_landmark = next(query for query in self._plan.queries if query.name == name).window_kind == "landmark"
        return ALWAYS if clock == ALWAYS or is_landmark else clock - self._past[name]

    def _tables(self, number: int, files: tuple[LoggedFile, ...], is_stopped: Callable[[], bool]) -> Iterator[pa.Table]:
        for file in files:
            path = Path(file.path)
            if not path.exists() or path.stat().st_size != file.size:
                what = "no longer exists" if not path.exists() else "has changed since"
                raise InvalidInputError(
                    f"{file.path!r} was read by batch {number} and {what}, so the past of {', '.join(self._past)} "
                    "cannot be read. Restore the file, or add the query without since."
                )
            for batch in self._rows.read([Split(path)]):
                if is_stopped():
                    raise StoppedError
                if batch.rows.num_rows:
                    yield batch.rows


def refuse_without_past(plan: LocalPlan, past: Mapping[str, int]) -> None:
    """Reject queries of a family whose shards cannot take rows of the past."""
    if past and not shard_type(plan.plan).takes_past:
        raise UnsupportedError(
            f"since is not supported for query {next(iter(past))!r} of type {plan.family.name}: rows that were read "
            "before it joins cannot be added to its state. Omit since: it is then answered from the first window that "
            "starts after all rows read so far."
        )
    _refuse_corrections(plan, past)


def _refuse_corrections(plan: LocalPlan, past: Mapping[str, int]) -> None:
    """Reject windows that are emitted more than once: those that ended before were not emitted for these queries."""
    if past and not plan.plan.emission.is_once:
        raise UnsupportedError(
            f"since is not supported for query {next(iter(past))!r} in a stream with early or corrected answers: "
            "windows that ended before it joins would be corrected without being emitted. Omit since."
        )


def _only(plan: LocalPlan, names: Mapping[str, int]) -> LocalPlan:
    """Return the plan with rows for the scans of these queries only: the scores of the others are null."""
    columns = dict(plan.columns)
    for scan, score in zip(plan.plan.scans, plan.plan.scores, strict=True):
        if not any(plan.plan.queries[place].name in names for place in scan.places):
            columns[score] = ArrowColumn(
                pa.float64(), lambda table: pa.nulls(table.num_rows, pa.float64()), frozenset()
            )
    return replace(plan, columns=columns)
