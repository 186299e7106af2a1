"""The pane executor for many groups: one executor, and a segment of shared arrays for each group's candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from skyband.data.answer_log import AnswerLog
from skyband.kernels.stream import ANSWERS_FULL, DONE, Ints
from skyband.topk.algorithms.base import Objects
from skyband.topk.algorithms.panes import Candidates, Panes
from skyband.topk.kernels import group_runs as kernels
from skyband.topk.kernels.group_runs import ArrivedRows, GroupSegments, JoinStarts
from skyband.topk.query import TopK

__all__ = ["GroupObjects", "GroupedPanes"]

_FIRST = 1024  # initial capacity in objects
_COLUMNS = ("keys", "positions", "ids", "dominated")


class GroupObjects(NamedTuple):
    """Objects of many groups, by group."""

    groups: Ints
    objects: Objects
    dominated: Ints


class GroupedPanes:
    """Answer queries of one sharing class per group of a stream, and keep each group's minimal candidate set.

    Groups are identified by numbers. A group without objects takes two numbers of memory, whatever it contained before:
    its segment is overwritten when the arrays are full the next time.
    """

    def __init__(self, queries: Sequence[TopK]) -> None:
        self._executor = Panes(queries)
        self._segments = _empty(_FIRST, 0)
        self._minimal = True  # whether the kept objects are exactly the minimal sets

    @property
    def counts(self) -> Ints:
        """Per group: number of objects kept, which may be slightly more than its candidates."""
        return self._segments.counts

    @property
    def sweeps(self) -> int:
        """How many times arrivals were merged into a group's candidates."""
        return self._executor.counters()["sweeps"]

    def reserve(self, groups: int) -> None:
        """Make room for `groups` groups."""
        known = self._segments.counts.size
        if groups > known:
            more = np.zeros(max(groups, 2 * known) - known, np.int64)
            begins, counts = (np.concatenate([old, more]) for old in (self._segments.begins, self._segments.counts))
            self._segments = self._segments._replace(begins=begins, counts=counts)

    def advance(self, arrived: ArrivedRows, joined: JoinStarts, first: int, log: AnswerLog) -> None:
        """Process the rows of some groups and answer their windows up to each group's watermark."""
        if not arrived.groups.size:
            return
        self._minimal = False
        self._executor.make_room(int(self.counts[arrived.groups].max()))
        self._executor.cover_groups(self._segments, arrived)
        while True:
            why = self._executor.run_groups(self._segments, joined, arrived, first, log.buffers)
            if why == DONE:
                return
            if why == ANSWERS_FULL:
                log.make_room(self._executor.longest_answer())
            elif why == kernels.SEGMENTS_FULL:
                self._compact(self._executor.stored_count)
            else:
                self._executor.make_room()

    def settle(self, joined: JoinStarts, answered: Ints) -> None:
        """Keep exactly the minimal candidate sets; windows of each group are answered up to its entry in `answered`."""
        if not self._minimal:
            groups = np.flatnonzero(self.counts)
            self._executor.keep_minimal(self._segments, joined, groups, answered[groups])
            self._minimal = True

    def group_objects(self) -> GroupObjects:
        """All objects, group by group."""
        self._compact(0)
        stop = int(self._segments.registers[kernels.TAIL])
        keys, positions, ids, dominated = (getattr(self._segments, name)[:stop] for name in _COLUMNS)
        groups = np.repeat(np.arange(self.counts.size), self.counts)
        return GroupObjects(groups, Objects(keys, positions, ids), dominated)

    def take_out(self, group: int) -> Candidates:
        """Remove and return the candidates of a group."""
        low, count = int(self._segments.begins[group]), int(self.counts[group])
        self.counts[group] = 0
        return Candidates(*(getattr(self._segments, name)[low : low + count].copy() for name in _COLUMNS))

    def put_in(self, group: int, candidates: Candidates) -> None:
        """Add these objects of a group that has none."""
        size, tail = candidates.keys.size, int(self._segments.registers[kernels.TAIL])
        if tail + size > self._segments.keys.size:
            self._compact(size)
            tail = int(self._segments.registers[kernels.TAIL])
        for name, column in zip(_COLUMNS, candidates, strict=True):
            getattr(self._segments, name)[tail : tail + size] = column
        self._segments.begins[group], self._segments.counts[group] = tail, size
        self._segments.registers[kernels.TAIL] = tail + size
        self._minimal = False

    def state(self) -> dict[str, Any]:
        """Return the state for `load`."""
        held = self.group_objects()
        columns = {"group": held.groups, **held.objects._asdict(), "dominated": held.dominated}
        return {**{name: column.copy() for name, column in columns.items()}, "sweeps": self.sweeps}

    def load(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        groups = state["group"]
        if not all(state[name].shape == groups.shape for name in _COLUMNS) or (np.diff(groups) < 0).any():
            raise ValueError("the columns of the groups' candidates differ in length, or their groups are not sorted")
        self.reserve(int(groups.max(initial=-1)) + 1)
        columns: dict[str, Any] = {name: np.ascontiguousarray(state[name], np.int64) for name in _COLUMNS[1:]}
        columns["keys"] = np.ascontiguousarray(state["keys"], np.float64)
        counts = np.bincount(groups, minlength=self.counts.size)
        registers = np.zeros(kernels.REGISTERS, np.int64)
        registers[kernels.TAIL] = groups.size
        self._segments = GroupSegments(**columns, begins=np.cumsum(counts) - counts, counts=counts, registers=registers)
        self._executor.count_sweeps(state["sweeps"])
        self._minimal = True

    def _compact(self, more: int) -> None:
        """Rewrite the segments without gaps, with room for `more` additional objects and for as many again."""
        old = self._segments
        live = int(old.counts.sum()) + more
        fresh = _empty(max(_FIRST, 2 * live), 0)._replace(begins=old.begins, counts=old.counts)
        kernels.compact(old, fresh)
        fresh.registers[kernels.AT :] = old.registers[kernels.AT :]
        self._segments = fresh


def _empty(objects: int, groups: int) -> GroupSegments:
    columns: dict[str, Any] = {name: np.zeros(objects, np.int64) for name in _COLUMNS[1:]}
    return GroupSegments(
        **columns,
        keys=np.zeros(objects),
        begins=np.zeros(groups, np.int64),
        counts=np.zeros(groups, np.int64),
        registers=np.zeros(kernels.REGISTERS, np.int64),
    )
