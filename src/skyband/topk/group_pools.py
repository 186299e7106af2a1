"""All groups of a stream with few objects: one executor per sharing class serves all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from skyband.data.answer_log import AnswerLog
from skyband.kernels.stream import Ints
from skyband.topk.algorithms.grouped_panes import GroupedPanes
from skyband.topk.algorithms.panes import Candidates
from skyband.topk.group_rows import GroupRows, in_stream_order
from skyband.topk.kernels.group_runs import ArrivedRows, JoinStarts
from skyband.topk.query import TopK
from skyband.windows import ALWAYS

__all__ = ["GroupPools"]

NONE = np.empty(0, np.int64)


class GroupPools:
    """The candidates of many groups, per sharing class, and the progress of each group.

    `classes` contains indexes into the workload. `since` contains the smallest window start that each query answers in
    new groups.
    """

    def __init__(self, queries: tuple[TopK, ...], classes: Sequence[tuple[int, ...]], since: Sequence[int]) -> None:
        self._queries = queries
        self._classes = list(classes)
        self._counted = queries[0].axis == "count"
        self._pools = [GroupedPanes([queries[place] for place in mine]) for mine in self._classes]
        self._ascending = [queries[mine[0]].order == "asc" for mine in self._classes]
        self._objects = NONE  # per group, on a count axis: number of objects so far
        self._answered = ALWAYS  # on a time axis: windows that end here or earlier are answered
        self._since = np.array([since], np.int64)  # distinct rows of `since` over all groups
        self._starts: dict[tuple[int, ...], Ints] = {}  # by class: its columns of `_since`
        self._kinds = NONE  # per group: its row of `_since`
        self._windows = {queries[place].window for mine in self._classes for place in mine}
        self._next_end = ALWAYS  # the first end of an unanswered window

    def take_in(self, rows: GroupRows, watermark: int, first: int, log: AnswerLog) -> None:
        """Process the rows, and answer all windows that end at or before the watermark."""
        if rows.groups.size:
            self.reserve(int(rows.groups[-1]) + 1)
        is_due = not self._counted and watermark >= self._next_end
        if rows.groups.size or is_due:
            for pool, mine, ascending in zip(self._pools, self._classes, self._ascending, strict=True):
                groups, begins = rows.groups, rows.begins
                if is_due:
                    groups, begins = _with_others(rows, np.flatnonzero(pool.counts))
                before = self._reached(groups)
                until = before + np.diff(begins) if self._counted else np.full(groups.size, watermark)
                keys = -rows.scores if ascending else rows.scores
                arrived = ArrivedRows(keys, rows.positions, rows.ids, groups, begins, before, until)
                log.begin(-1, mine)
                pool.advance(arrived, self._joined(mine), first, log)
        if not self._counted:
            self.answered_until(watermark)
        elif rows.groups.size:
            self._objects[rows.groups] += np.diff(rows.begins)

    def _reached(self, groups: Ints) -> Ints:
        """Per group: the position up to which its windows are answered."""
        return self._objects[groups] if self._counted else np.full(groups.size, self._answered)

    def _joined(self, places: tuple[int, ...]) -> JoinStarts:
        if places not in self._starts:
            self._starts[places] = np.ascontiguousarray(self._since[:, list(places)])
        return JoinStarts(self._starts[places], self._kinds)

    def reserve(self, groups: int) -> None:
        """Make room for `groups` groups."""
        known = self._kinds.size
        if groups <= known:
            return
        more = max(groups, 2 * known) - known
        self._kinds = np.concatenate([self._kinds, np.zeros(more, np.int64)])
        self._objects = np.concatenate([self._objects, np.zeros(more, np.int64)])
        for pool in self._pools:
            pool.reserve(self._kinds.size)

    @property
    def counts(self) -> Ints:
        """Per group: number of objects kept in all classes."""
        return sum((pool.counts for pool in self._pools), np.zeros(self._kinds.size, np.int64))

    def held_of(self, groups: Ints) -> Ints:
        """Number of objects kept for each of these groups, in all classes."""
        return sum((pool.counts[groups] for pool in self._pools), np.zeros(groups.size, np.int64))

    @property
    def candidates(self) -> int:
        """Number of objects kept: the minimal sets of all groups."""
        self._settle()
        return int(self.counts.sum())

    @property
    def ids(self) -> list[Ints]:
        """The ids of all objects kept."""
        return [pool.group_objects().objects.ids for pool in self._pools]

    def is_in_use(self) -> Any:
        """Per group: whether it differs from a new group."""
        return (self.counts > 0) | (self._objects > 0)

    def counters(self) -> dict[str, int]:
        """Counters by name."""
        return {"sweeps": sum(pool.sweeps for pool in self._pools)}

    def take_out(self, group: int) -> tuple[int, list[int], list[Candidates]]:
        """Remove a group; return its number of objects, its smallest window starts, and its candidates by class."""
        held = [pool.take_out(group) for pool in self._pools]
        return int(self._objects[group]), self._since[self._kinds[group]].tolist(), held

    def put_in(self, group: int, objects: int, held: Sequence[Candidates]) -> None:
        """Add a group's candidates again; the group has had `objects` objects so far."""
        self.reserve(group + 1)
        if self._counted:
            self._objects[group] = objects
        for pool, mine in zip(self._pools, held, strict=True):
            pool.put_in(group, mine)

    def reached(self, group: int) -> int:
        """The position up to which the group's windows are answered."""
        return int(self._objects[group]) if self._counted else self._answered

    def answered_until(self, watermark: int) -> None:
        """Record that all windows that end at or before the watermark have been answered."""
        self._answered = watermark
        if watermark >= self._next_end:
            self._next_end = min(window.first_end_after(watermark) for window in self._windows)

    def changed(
        self,
        queries: tuple[TopK, ...],
        classes: Sequence[tuple[int, ...]],
        since: Sequence[int],
        moved: Mapping[int, int],
        watermark: int,
        first: int,
    ) -> GroupPools:
        """Return the same groups for other queries; `moved` maps the new index of a query to its old one."""
        self._settle()
        fresh = GroupPools(queries, classes, since)
        fresh.reserve(self._kinds.size)
        fresh._objects = self._objects
        fresh.answered_until(watermark)
        if self._counted:
            # Each group has its own row numbers: a query that joins begins with the next one.
            next_one = np.where(self._objects > 0, self._objects, ALWAYS)
            kinds = np.maximum(np.array(since, np.int64), next_one[:, None])
            for place, old in moved.items():
                kinds[:, place] = self._since[self._kinds, old]
            fresh.set_starts(kinds)
        for pool, mine, ascending in zip(fresh._pools, fresh._classes, fresh._ascending, strict=True):
            held = [
                old.group_objects() for old, way in zip(self._pools, self._ascending, strict=True) if way == ascending
            ]
            groups, objects = in_stream_order([(one.groups, one.objects) for one in held])
            present, counts = np.unique(groups, return_counts=True)
            begins = np.concatenate([[0], np.cumsum(counts)])
            until = fresh._reached(present)
            arrived = ArrivedRows(*objects, present, begins, np.zeros_like(until), until)
            pool.advance(arrived, fresh._joined(mine), first, AnswerLog())
        return fresh

    def set_starts(self, since: Ints) -> None:
        """Set the smallest window starts of each group; new groups use the first row."""
        rows, kinds = np.unique(np.concatenate([self._since[:1], since]), axis=0, return_inverse=True)
        kinds = kinds.reshape(-1)
        to_come = int(kinds[0])
        order = np.concatenate([[to_come], np.delete(np.arange(len(rows)), to_come)])
        self._since, self._kinds = rows[order], np.argsort(order)[kinds[1:]]
        self._starts = {}

    def _settle(self) -> None:
        answered = self._reached(np.arange(self._kinds.size))
        for pool, mine in zip(self._pools, self._classes, strict=True):
            pool.settle(self._joined(mine), answered)

    def state(self) -> dict[str, Any]:
        """Return the state for `load`."""
        self._settle()
        counted = np.flatnonzero(self._objects)
        return {
            "answered": self._answered,
            "counted": counted,
            "objects": self._objects[counted],
            "since": self._since,
            "kinds": self._kinds[counted],
            "pools": [pool.state() for pool in self._pools],
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        counted, since = state["counted"], np.ascontiguousarray(state["since"], np.int64)
        if since.ndim != 2 or since.shape[1] != len(self._queries) or counted.min(initial=0) < 0:
            raise ValueError("the state of the groups does not match the queries")
        if not 0 <= state["kinds"].min(initial=0) <= state["kinds"].max(initial=0) < len(since):
            raise ValueError("a group refers to window starts that do not exist")
        groups = [counted, *(pool["group"] for pool in state["pools"])]
        self.reserve(1 + max(int(some.max(initial=-1)) for some in groups))
        self.answered_until(state["answered"])
        self._since, self._starts = since, {}
        self._objects[counted], self._kinds[counted] = state["objects"], state["kinds"]
        for pool, saved in zip(self._pools, state["pools"], strict=True):
            pool.load(saved)
            pool.reserve(self._kinds.size)


def _with_others(rows: GroupRows, others: Ints) -> tuple[Ints, Ints]:
    """The groups with rows and these `others`, ascending, and where the rows of each begin."""
    groups = np.union1d(rows.groups, others)
    counts = np.zeros(groups.size + 1, np.int64)
    counts[np.searchsorted(groups, rows.groups) + 1] = np.diff(rows.begins)
    return groups, np.cumsum(counts)
