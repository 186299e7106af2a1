"""The plan of queries over incomplete streams, shared by the pipeline. The driver loads it, so imports are light."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from skyband.incomplete.query import IncompleteTopK
from skyband.queries.sharing import places_by
from skyband.sharding.plan import ShardPlan

__all__ = ["IncompletePlan", "IncompleteScan", "scans_of"]


class IncompleteScan(NamedTuple):
    """The expressions that the queries of a scan share, and their workload indices."""

    object: str | None
    stream: str | None
    value: str | None
    where: str | None
    places: tuple[int, ...]
    partition_by: tuple[str, ...] = ()


def scans_of(queries: Sequence[IncompleteTopK]) -> tuple[IncompleteScan, ...]:
    """Return the scans of a workload, in order of first appearance.

    >>> import skyband as sb
    >>> low = sb.IncompleteTopK(name="low", k=1, size="1 hour", object="car", stream="camera", value="speed")
    >>> high = sb.IncompleteTopK(name="high", k=9, size="1 day", object="car", stream="camera", value="speed")
    >>> [scan.places for scan in scans_of([low, high])]
    [(0, 1)]
    """
    found = places_by(IncompleteTopK.scan_key, queries)
    return tuple(
        IncompleteScan(name, stream, value, where, places, *groups)
        for (name, stream, value, where, *groups), places in found.items()
    )


@dataclass(frozen=True, kw_only=True)
class IncompletePlan(ShardPlan):
    """Shard plan of a workload over incomplete streams."""

    family = "incomplete"
    merges_answers = True

    queries: tuple[IncompleteTopK, ...]  # with `streams` set
    shards: int
    refuse_late: bool
    groups: tuple[tuple[str, ...], ...] = ()  # per scan: its group columns, as answers name them
    delay: int = 0  # lag of the watermark behind the newest row, in microseconds

    @property
    def shares_ranks(self) -> bool:
        """Whether several objects can have rank 1."""
        return any(query.ties == "rank" for query in self.queries)

    @property
    def method_name(self) -> str:
        """The algorithm, schedule or method that answers the queries, for metrics."""
        return ", ".join(sorted({query.method for query in self.queries}))

    @cached_property
    def scans(self) -> tuple[IncompleteScan, ...]:
        """The queries by scan."""
        return scans_of(self.queries)

    @cached_property
    def group_columns(self) -> tuple[str, ...]:
        """The distinct group columns of all scans, which are the group columns of an answer."""
        return tuple(dict.fromkeys(name for names in self.groups for name in names))
