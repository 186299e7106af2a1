"""MTopBand: all queries' minimal candidate set, with a separate predicted top-k set for every live view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skyband.errors import UnsupportedError
from skyband.kernels.stream import Answers, Ints, Rows
from skyband.topk.algorithms.base import Objects, State, packed, with_room
from skyband.topk.algorithms.shared import SharedEngine
from skyband.topk.kernels import batches, pretopk
from skyband.topk.kernels import mtopband as kernels
from skyband.topk.kernels.views import BLOCK, NONE, moved
from skyband.topk.query import TopK

__all__ = ["MTopBand"]

MOST_REFERENCES = 1 << 31  # four bytes each: eight gigabytes


class MTopBand(SharedEngine):
    """Answer any number of queries together; keep exactly their minimal candidate set, with references per view.

    Queries share a view if their windows start together, and a view has as many objects as the largest k among the
    queries that it still has to answer (adaptive k). Each has a heap of references to its objects, the worst at the
    root. Nothing is recomputed, but every view has its own cost. State: the candidates once, and up to k references for
    each live view. Cost: one comparison for an object that no view accepts; otherwise a comparison for every 64 views
    and O(log k) for each view entered. If objects enter many views, each set is merged once with a batch of objects.

    Shastri, Yang, Rundensteiner, Ward: MTopS: Scalable Processing of Continuous Top-K Multi-Query Workloads, CIKM 2011.

    >>> import skyband as sb
    >>> queries = [sb.TopK(name="short", k=1, size=2), sb.TopK(name="long", k=2, size=4, slide=2)]
    >>> monitor = sb.Monitor(queries, algorithm="mtopband")
    >>> monitor.push(None, [5.0, 9.0, 7.0])
    >>> monitor.candidates, monitor.metrics()["references"]
    (2, 3)
    """

    name = "mtopband"
    summary = "many queries: a predicted top-k set for each live view, k as needed (CIKM 2011)"

    def __init__(self, queries: Sequence[TopK], since: Sequence[int] | None = None) -> None:
        super().__init__(queries, since)
        self._pool = pretopk.Pool(
            np.zeros(64),
            np.zeros(64, np.int64),
            np.zeros(64, np.int64),
            _chain(0, 64),
            np.zeros(2, np.int64),
        )
        views = self._meta.views.starts.size
        registers = np.zeros(kernels.REGISTERS, np.int64)
        registers[kernels.RESUME_AT] = NONE
        self._bands = kernels.Bands(
            np.zeros(256, np.int32),
            np.zeros(views, np.int64),
            np.full(views, NONE, np.int64),
            np.zeros(views, np.int64),
            np.full(kernels.CLASSES, NONE, np.int64),
            registers,
        )
        self._picked = np.empty(BLOCK, np.int64)
        self._batch = _batch(self._pool.keys.size, views, self._batch_registers())

    def _run(self, rows: Rows, at: int, watermark: int, first: int, answers: Answers) -> tuple[int, int]:
        return kernels.advance(
            self._pool, self._bands, self._meta, self._picked, self._batch, rows, at, watermark, first, answers
        )

    def _grow(self) -> None:
        if self._bands.registers[kernels.RESUME_AT] != NONE or self._batch.registers[batches.LACKS]:
            self._batch.registers[batches.LACKS] = 0
            if self._bands.references.size >= MOST_REFERENCES:
                raise UnsupportedError(
                    f"the sets of {self.views} open views exceed {MOST_REFERENCES} references, the limit of mtopband. "
                    "Use algorithm='mtoplist', which keeps one pointer per view."
                )
            references = np.zeros(2 * self._bands.references.size, np.int32)
            references[: self._bands.references.size] = self._bands.references
            self._bands = self._bands._replace(references=references)
            return
        if not self._grow_views():
            capacity = self._pool.keys.size
            free = self._pool.registers[pretopk.FREE]
            self._pool = with_room(self._pool, 2 * capacity, keep=["registers"])
            self._pool.references[capacity:] = _chain(capacity, 2 * capacity)
            self._pool.references[-1] = -2 - free
            self._pool.registers[pretopk.FREE] = capacity
        self._fit_batch()

    def _fit_batch(self) -> None:
        """Extend the scratch space to the capacities of the pool and of the views."""
        self._batch = _batch(self._pool.keys.size, self._meta.views.starts.size, self._batch.registers)

    def _move_views(self, live: Ints, capacity: int) -> None:
        old = self._bands
        self._bands = old._replace(
            begins=moved(old.begins, live, capacity),
            classes=moved(old.classes, live, capacity, empty=NONE),
            ordered=moved(old.ordered, live, capacity),
        )

    @property
    def candidates(self) -> int:
        return int(self._pool.registers[pretopk.OBJECTS])

    def objects(self) -> Objects:
        held = self._pool.references > 0
        return Objects(self._pool.keys[held], self._pool.positions[held], self._pool.ids[held])

    def counters(self) -> dict[str, int]:
        return {"views": self.views, "references": int(self._bands.registers[kernels.REFERENCES])}

    def state(self) -> dict[str, Any]:
        return {**super().state(), "pool": packed(self._pool), "bands": packed(self._bands)}

    def load(self, state: State) -> None:
        super().load(state)
        self._pool = pretopk.Pool(**state["pool"])
        self._bands = kernels.Bands(**state["bands"])
        self._fit_batch()


def _batch(capacity: int, views: int, registers: Ints) -> kernels.BandBatch:
    """Return the space for the new objects of a batch."""
    slots, best, spare = (np.empty(capacity, np.int32) for _ in range(3))
    return kernels.BandBatch(slots, best, spare, np.zeros(views, np.int64), registers)


def _chain(low: int, high: int) -> Any:
    """The `references` of free slots from `low` to `high`, each linked to the next."""
    following = np.arange(low + 1, high + 1, dtype=np.int64)
    following[-1] = pretopk.NO_SLOT
    return -2 - following
