"""What every part of the pipeline knows of queries over uncertain streams. Light: the driver loads it, too."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from skyband.queries import Axis, UncertainTopK
from skyband.queries.uncertain import sharing_key

__all__ = ["WeighingPlan"]


@dataclass(frozen=True, kw_only=True)
class WeighingPlan:
    """A workload over uncertain tuples of one shape. Frozen, and light enough to travel with every task."""

    queries: tuple[UncertainTopK, ...]
    method: str  # how runs are shared
    refuse_late: bool
    shards: int = 1  # the probability to be among the best depends on all tuples

    @cached_property
    def classes(self) -> tuple[tuple[UncertainTopK, ...], ...]:
        """The queries that run together, in the order in which they first appear."""
        found: dict[tuple[str | None, ...], list[UncertainTopK]] = {}
        for query in self.queries:
            found.setdefault(sharing_key(query), []).append(query)
        return tuple(map(tuple, found.values()))

    @property
    def axis(self) -> Axis:
        """What all windows run along."""
        return self.queries[0].axis
