"""Cohorts: queries that started together and share partials and running totals."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from skyband.aggregate.executor import AggregateExecutor
from skyband.aggregate.query import AggregateTopK
from skyband.aggregate.shape import AggregateShape
from skyband.aggregate.sketch_executor import executor_of
from skyband.windows import NEVER

__all__ = ["ALL_GROUPS", "WHOLE", "Cohort"]

WHOLE = -1  # the lane of queries without groups; other lanes are named by group code
ALL_GROUPS = -2  # the lane of all groups, on a time axis


class Cohort:
    """Queries that started together, in lanes. A removed query stays in the shape but is no longer answered."""

    def __init__(self, queries: Sequence[AggregateTopK], since: Sequence[int]) -> None:
        self.lanes: dict[int, AggregateExecutor] = {}
        self._queries = tuple(queries)
        self._since = list(since)  # per query: the smallest window start it answers; NEVER: removed
        self._places: dict[str, int] = {}

    @property
    def is_empty(self) -> bool:
        """Whether all its queries have been removed."""
        return all(start == NEVER for start in self._since)

    def settle(self, names: Sequence[str]) -> None:
        """Set the names of all queries of the workload, in workload order."""
        self._places = {name: place for place, name in enumerate(names)}
        for lane in self.lanes.values():
            lane.places = self._places_of(lane.shape)

    def begin_at(self, names: Collection[str], position: int) -> None:
        """Answer windows of these queries that begin at or after a position: earlier rows are not known."""
        for at, query in enumerate(self._queries):
            if query.name in names:
                self._since[at] = position
        for lane in self.lanes.values():
            lane.answer_since(self._starts(lane.shape))

    def remove(self, name: str) -> None:
        """Stop answering a query. Lanes without queries are released."""
        for at, query in enumerate(self._queries):
            if query.name == name:
                self._since[at] = NEVER
        for key, lane in list(self.lanes.items()):
            starts = self._starts(lane.shape)
            lane.answer_since(starts)
            if all(start == NEVER for start in starts):
                del self.lanes[key]

    def members(self, name: int, all_grouped: bool) -> tuple[AggregateTopK, ...]:
        """Return the queries of a lane, including removed ones; empty if all of them are removed."""
        mine = [bool(all_grouped or query.partition_by) == (name != WHOLE) for query in self._queries]
        if all(start == NEVER for start, is_mine in zip(self._since, mine, strict=True) if is_mine):
            return ()
        return tuple(query for query, is_mine in zip(self._queries, mine, strict=True) if is_mine)

    def lane(self, name: int, all_grouped: bool) -> AggregateExecutor:
        """Return a lane. Create it if it does not exist."""
        if name not in self.lanes:
            shape = AggregateShape(self.members(name, all_grouped))
            lane = executor_of(shape, self._places_of(shape), name == ALL_GROUPS, max(name, -1))
            lane.answer_since(self._starts(shape))
            self.lanes[name] = lane
        return self.lanes[name]

    def state(self) -> dict[str, Any]:
        """Return the state for `load`."""
        return {
            "queries": [query.to_dict() for query in self._queries],
            "since": self._since,
            "lanes": [{"lane": name, **lane.state()} for name, lane in self.lanes.items()],
        }

    @classmethod
    def load(cls, state: dict[str, Any], names: Sequence[str], all_grouped: bool) -> Cohort:
        """Return the cohort that `state` was stored from."""
        cohort = cls([AggregateTopK(**fields) for fields in state["queries"]], state["since"])
        cohort.settle(names)
        for lane in state["lanes"]:
            cohort.lane(lane["lane"], all_grouped).load(lane)
        return cohort

    def _starts(self, shape: AggregateShape) -> list[int]:
        since = {query.name: start for query, start in zip(self._queries, self._since, strict=True)}
        return [since[query.name] for query in shape.queries]

    def _places_of(self, shape: AggregateShape) -> Any:
        return np.array([self._places.get(query.name, -1) for query in shape.queries], np.int64)
