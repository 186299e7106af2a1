"""What a task does with its part of a stream's files: read rows with Arrow, evaluate, reduce, pack envelopes.

A scan is sent to the tasks. Each worker process compiles its expressions once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from skyband.connectors.arrow.rows import LocalRows
from skyband.connectors.arrow.splits import Split
from skyband.connectors.dead_folder import StagedLetters
from skyband.sharding.projection import ProjectionRequest
from skyband.spark.envelope_columns import SCANNED
from skyband.windows import NEVER

if TYPE_CHECKING:
    from skyband.connectors.arrow.batches import FileReader, FileRows
    from skyband.connectors.files import FilesSource
    from skyband.local.pipeline import LocalPlan

__all__ = ["FileScan", "Watched"]

_MOST_KEPT = 4  # scans that a worker process holds

_PLANS: OrderedDict[str, tuple[LocalRows, LocalPlan]] = OrderedDict()  # by token of the scan


class Watched(NamedTuple):
    """The columns of projected rows from which the newest position of each stream is computed."""

    time: str
    stream: str


@dataclass(frozen=True)
class FileScan:
    """The rows of a stream's files, and the workload that is answered over them."""

    token: str  # identifies the scan in a worker process
    name: str  # of the stream
    stream: FilesSource
    reader: FileReader
    request: ProjectionRequest
    label: Any  # the stream that all rows belong to; None if a column names it
    keys: Mapping[int, int]
    streaming: bool
    watched: Watched | None = None
    letters: str | None = None  # a folder on this machine, in which tasks stage dead letters

    def read(self, splits: Sequence[Split], timely: int = NEVER) -> Iterator[pa.RecordBatch]:
        """Yield the envelopes of some parts of the files, and the counts of their rows.

        From the position `timely` on no row is late.
        """
        from skyband.spark.tasks import to_shards

        rows, plan = self._opened()
        pipeline, counted = plan.pipeline, _Counts(self.watched)
        matching = None if self.streaming else pipeline.matching
        staged = None if self.letters is None else StagedLetters(self.letters, self.name, splits)

        def batches() -> Iterator[pa.RecordBatch]:
            for some in rows.read(splits):
                counted.count(some)
                for letters in (some.malformed, some.unreadable):
                    if staged is not None and letters is not None:
                        staged.add(letters)
                if some.rows.num_rows:
                    projected = plan.project(some.rows)
                    counted.watch(projected)
                    yield from (projected if matching is None else matching(plan.plan, projected)).to_batches()

        pack = to_shards(
            lambda some: pipeline.reduce(plan.plan, some, timely),
            self.keys,
            None if self.streaming else lambda table: pipeline.positions(plan.plan, table),
        )
        # Texts are dictionaries in some files and row groups only. Rows of one schema are reduced together.
        for _, alike in groupby(batches(), key=attrgetter("schema")):
            for envelope in pack(alike):
                yield _shaped(dict(zip(envelope.schema.names, envelope.columns, strict=True)), 1)
        if staged is not None:
            staged.close()
        yield counted.batch()

    def _opened(self) -> tuple[LocalRows, LocalPlan]:
        if self.token not in _PLANS:
            _PLANS[self.token] = self.open()
            while len(_PLANS) > _MOST_KEPT:
                _PLANS.popitem(last=False)
        return _PLANS[self.token]

    def open(self) -> tuple[LocalRows, LocalPlan]:
        """Return the rows, and the plan over their columns."""
        from skyband.local.pipeline import plan_for

        rows = LocalRows(self.name, self.stream, self.reader)
        return rows, plan_for(rows.schema, self.request, **({} if self.label is None else {"stream": self.label}))


class _Counts:
    """The rows that a task has read."""

    def __init__(self, watched: Watched | None) -> None:
        self._watched = watched
        self._rows = self._malformed = self._unreadable = 0
        self._newest: dict[str, int] = {}

    def count(self, some: FileRows) -> None:
        self._rows += some.read
        self._malformed += some.malformed.num_rows
        self._unreadable += 0 if some.unreadable is None else some.unreadable.num_rows

    def watch(self, rows: pa.Table) -> None:
        """Take the newest position of each stream into account."""
        if self._watched is None:
            return
        time, stream = self._watched
        found = rows.select([stream, time]).group_by(stream).aggregate([(time, "max")])
        for name, newest in zip(
            found[stream].to_pylist(), found[f"{time}_max"].cast(pa.int64()).to_pylist(), strict=True
        ):
            if name is not None and newest is not None:
                self._newest[name] = max(newest, self._newest.get(name, newest))

    def batch(self) -> pa.RecordBatch:
        """Return one row of counts, and one for each stream."""
        size = len(self._newest)
        return _shaped(
            {
                "source_rows": pa.array([self._rows] + [None] * size, pa.int64()),
                "malformed": pa.array([self._malformed] + [None] * size, pa.int64()),
                "unreadable": pa.array([self._unreadable] + [None] * size, pa.int64()),
                "stream": pa.array([None, *self._newest], pa.string()),
                "stream_newest": pa.array([None, *self._newest.values()], pa.int64()),
            },
            1 + size,
        )


def _shaped(columns: Mapping[str, pa.Array], rows: int) -> pa.RecordBatch:
    """Return rows with all columns of `SCANNED`; those that are not given are null."""
    arrays = [columns.get(field.name, pa.nulls(rows, field.type)) for field in _SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


_KINDS = {
    "long": pa.int64(),
    "binary": pa.binary(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
}
_SCHEMA = pa.schema([(name, _KINDS[kind]) for name, kind in (part.split() for part in SCANNED.split(", "))])
