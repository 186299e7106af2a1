"""MTopList: all queries' minimal candidate set in one list, each object with its first and last view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skyband.kernels import ranked_list
from skyband.kernels.stream import Answers, Ints, Rows
from skyband.topk.algorithms.base import Objects, State, packed, with_more_rows
from skyband.topk.algorithms.shared import SharedEngine
from skyband.topk.kernels import mtoplist as kernels
from skyband.topk.kernels import mtoplist_batch
from skyband.topk.kernels.views import BLOCK, moved
from skyband.topk.query import TopK

__all__ = ["MTopList"]


class MTopList(SharedEngine):
    """Answer any number of queries together; keep exactly their minimal candidate set, every object once.

    The union of the top k of all live views is one list, best first. A minimum pointer per view refers to the worst
    object of its top k, which a new object must beat. Two marks per object refer to the first and the last view that
    contains it. With several k an object can be missing from a view and be in a younger one again (Lemma 6.2): it is in
    those between its marks whose minimum is not in front of it (Lemma 6.3). It leaves the list with the last of them.
    Nothing is recomputed. State: the candidates once, and a few numbers for each live view. Cost: one comparison for an
    object that no view accepts; otherwise a comparison for every 64 views, O(log candidates), and for each view entered
    one or two pointer steps and a few comparisons to move marks. If objects enter many views, all pointers and marks
    move once for a batch of objects.

    Shastri, Yang, Rundensteiner, Ward: MTopS: Scalable Processing of Continuous Top-K Multi-Query Workloads, CIKM 2011.

    >>> import skyband as sb
    >>> queries = [sb.TopK(name="short", k=1, size=2), sb.TopK(name="long", k=2, size=4, slide=2)]
    >>> monitor = sb.Monitor(queries, algorithm="mtoplist")
    >>> monitor.push(None, [5.0, 9.0, 7.0, 1.0])
    >>> monitor.answers().select(["query", "window_end", "score"]).slice(3).to_pylist()[-3:]
    [{'query': 'short', 'window_end': 4, 'score': 7.0}, {'query': 'long', 'window_end': 4, 'score': 9.0}, \
{'query': 'long', 'window_end': 4, 'score': 7.0}]
    """

    name = "mtoplist"
    summary = "many queries: one list, view marks and minimum pointers; every object once (CIKM 2011)"

    def __init__(self, queries: Sequence[TopK], since: Sequence[int] | None = None) -> None:
        super().__init__(queries, since)
        self._list = ranked_list.empty_ranked_list()
        capacity, views = self._list.keys.size, self._meta.views.starts.size
        self._view_marks = kernels.ViewMarks(np.zeros((capacity, 2), np.int32), np.zeros(views, np.int32))
        self._extract = _extract(capacity)
        self._new_objects = _new_objects()
        self._batch = mtoplist_batch.empty_batch(capacity, views, self._batch_registers())

    def _run(self, rows: Rows, at: int, watermark: int, first: int, answers: Answers) -> tuple[int, int]:
        return kernels.advance(
            self._list,
            self._view_marks,
            self._meta,
            self._extract,
            self._new_objects,
            self._batch,
            rows,
            at,
            watermark,
            first,
            answers,
        )

    def _grow(self) -> None:
        if not self._grow_views():
            self._list = ranked_list.with_more_slots(self._list)
            capacity = self._list.keys.size
            self._view_marks = self._view_marks._replace(marks=with_more_rows(self._view_marks.marks, capacity))
            self._extract = _extract(capacity)
        self._fit_batch()

    def _fit_batch(self) -> None:
        """Extend the scratch space to the capacities of the list and of the views."""
        self._batch = mtoplist_batch.empty_batch(
            self._list.keys.size, self._meta.views.starts.size, self._batch.registers
        )

    def _move_views(self, live: Ints, capacity: int) -> None:
        # Objects in the list have marks on live views; marks of free slots are undefined.
        marks, minima = self._view_marks
        self._view_marks = kernels.ViewMarks(
            np.searchsorted(live, marks).astype(np.int32), moved(minima, live, capacity)
        )

    @property
    def candidates(self) -> int:
        return int(self._list.registers[ranked_list.LENGTH])

    def objects(self) -> Objects:
        slots = self.slots()
        return Objects(self._list.keys[slots], self._list.positions[slots], self._list.ids[slots])

    def slots(self) -> list[int]:
        """The slots of the list, best first."""
        return ranked_list.slots_in_order(self._list)

    def counters(self) -> dict[str, int]:
        return {"views": self.views}

    def state(self) -> dict[str, Any]:
        return {**super().state(), "list": packed(self._list), "careers": packed(self._view_marks)}

    def load(self, state: State) -> None:
        super().load(state)
        self._list = ranked_list.RankedList(**state["list"])
        self._view_marks = kernels.ViewMarks(**state["careers"])
        self._extract = _extract(self._list.keys.size)
        self._fit_batch()


def _extract(capacity: int) -> kernels.Extract:
    """Return an empty copy with capacity for the whole list."""
    return kernels.Extract(
        np.empty(capacity),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int64),
        np.empty(BLOCK, np.int64),
        np.zeros(2, np.int64),
    )


def _new_objects() -> kernels.NewObjects:
    """Return the buffers for objects that are offered together."""
    numbers = [np.empty(kernels.TOGETHER, np.int64) for _ in range(5)]
    return kernels.NewObjects(np.empty(kernels.TOGETHER), *numbers)
