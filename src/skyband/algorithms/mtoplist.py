"""MTopList: all queries' minimal candidate set in one list, each object with its first and last view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skyband.algorithms.base import Objects, State, packed, with_room
from skyband.algorithms.shared import SharedEngine
from skyband.kernels import mtoplist as kernels
from skyband.kernels import skiplist
from skyband.kernels.stream import Answers, Ints, Rows
from skyband.kernels.views import BLOCK
from skyband.query import TopK

__all__ = ["MTopList"]


class MTopList(SharedEngine):
    """Serves any number of queries together; holds exactly their minimal candidate set, every object once.

    The union of the top-k of all live views stands in one list, best first. A minimum pointer per view names the worst
    object of its top-k, the one that a newcomer must beat; two marks per object name the first and the last view that it
    is in. With several k an object can be missing from views in between (Lemma 6.2): it is in those whose minimum is not
    in front of it (Lemma 6.3). Nothing is ever recomputed. State: the candidates once, and a few numbers for each live view
    and each lattice of queries with one slide. Cost: one comparison for an object that no view wants; else a comparison for every
    64 views, O(log candidates), and a constant for each view entered.

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
        self._list = skiplist.empty_list(64)
        per_slot: list[Any] = [np.zeros(64, np.int64) for _ in range(3)]
        minima = np.zeros(self._meta.views.starts.size, np.int64)
        self._careers = kernels.Careers(*per_slot, minima, np.zeros(kernels.REGISTERS, np.int64))
        self._extract = _extract(64)

    def _run(self, rows: Rows, at: int, watermark: int, first: int, answers: Answers) -> tuple[int, int]:
        return kernels.advance(
            self._list, self._careers, self._meta, self._extract, rows, at, watermark, first, answers
        )

    def _grow(self) -> None:
        self._grow_views()
        if self._list.registers[skiplist.FREE] == 0:
            self._list = skiplist.grown_list(self._list)
            capacity = self._list.keys.size
            self._careers = with_room(self._careers, capacity, keep=["minima", "registers"])
            self._extract = _extract(capacity)

    def _move_views(self, live: Ints, capacity: int) -> None:
        old = self._careers
        minima = np.zeros(capacity, np.int64)
        minima[: live.size] = old.minima[live % old.minima.size]
        self._careers = old._replace(
            start_w=np.searchsorted(live, old.start_w), end_w=np.searchsorted(live, old.end_w), minima=minima
        )

    @property
    def candidates(self) -> int:
        return int(self._list.registers[skiplist.LENGTH])

    def objects(self) -> Objects:
        slots = self.slots()
        return Objects(self._list.keys[slots], self._list.positions[slots], self._list.ids[slots])

    def slots(self) -> list[int]:
        """The slots of the list, best first."""
        found, slot = [], int(self._list.links[0, skiplist.HEAD])
        while slot:
            found.append(slot)
            slot = int(self._list.links[0, slot])
        return found

    def counters(self) -> dict[str, int]:
        r = self._careers.registers
        return {
            "views": self.views,
            "pointer_moves": int(r[kernels.POINTER_MOVES]),
            "mark_moves": int(r[kernels.MARK_MOVES]),
        }

    def state(self) -> dict[str, Any]:
        return {**super().state(), "list": packed(self._list), "careers": packed(self._careers)}

    def load(self, state: State) -> None:
        super().load(state)
        self._list = skiplist.SkipList(**state["list"])
        self._careers = kernels.Careers(**state["careers"])
        self._extract = _extract(self._list.keys.size)


def _extract(capacity: int) -> kernels.Extract:
    """An empty copy with room for the whole list."""
    return kernels.Extract(
        np.empty(capacity),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int64),
        np.empty(BLOCK, np.int64),
        np.zeros(2, np.int64),
    )
