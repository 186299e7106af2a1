"""The plan of queries over uncertain streams, shared by the pipeline. The driver loads it, so imports are light."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import NamedTuple

from skyband.sharding.plan import ShardPlan
from skyband.uncertain.query import UncertainTopK, classes_of, stream_of

__all__ = ["ClassPlaces", "PaneCut", "UncertainPlan", "cut_of"]


class PaneCut(NamedTuple):
    """Parameters for pruning tuples in the reducer: no window ends between two multiples of `unit`."""

    unit: int
    queries: tuple[UncertainTopK, ...]


class ClassPlaces(NamedTuple):
    """The queries of a class, by their places in the workload."""

    places: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class UncertainPlan(ShardPlan):
    """Shard plan of a workload over uncertain tuples."""

    family = "uncertain"
    has_regular_answers = False

    queries: tuple[UncertainTopK, ...]
    method: str  # schedule method
    refuse_late: bool
    may_be_late: bool = False  # whether rows may arrive behind the watermark
    shards: int = 1  # top-k probabilities depend on all tuples of a group
    groups: tuple[tuple[str, ...], ...] = ()  # per class: its group columns, as answers name them

    @property
    def method_name(self) -> str:
        """The algorithm, schedule or method that answers the queries, for metrics."""
        return self.method

    @cached_property
    def classes(self) -> tuple[tuple[UncertainTopK, ...], ...]:
        """The classes of queries that run together, in order of first appearance."""
        return classes_of(self.queries)

    @cached_property
    def scans(self) -> tuple[ClassPlaces, ...]:
        """The workload indices of each class."""
        known = {query: place for place, query in enumerate(self.queries)}
        return tuple(ClassPlaces(tuple(known[query] for query in together)) for together in self.classes)

    @cached_property
    def group_columns(self) -> tuple[str, ...]:
        """The distinct group columns of all classes, which are the group columns of an answer."""
        return tuple(dict.fromkeys(name for names in self.groups for name in names))

    @cached_property
    def streams(self) -> tuple[str | None, ...]:
        """Per class the `stream` expression, None if no query ranks streams."""
        return tuple(map(stream_of, self.classes))

    @cached_property
    def cuts(self) -> tuple[PaneCut | None, ...]:
        """Per class the pruning parameters, None for no pruning."""
        return tuple(map(cut_of, self.classes))


def cut_of(together: tuple[UncertainTopK, ...]) -> PaneCut | None:
    """Return the pruning parameters of a class. Count windows, and queries that need all tuples, allow none."""
    if together[0].axis == "count" or any(query.needs_all_tuples for query in together):
        return None
    return PaneCut(gcd(*(query.window.slide for query in together)), tuple(together))
