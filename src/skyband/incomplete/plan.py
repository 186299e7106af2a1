"""What every part of the pipeline knows of queries over incomplete streams. Light: the driver loads it, too."""

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
    """The columns that some queries read alike, and the places of these queries in the workload."""

    object: str | None
    stream: str | None
    value: str | None
    where: str | None
    places: tuple[int, ...]


def scans_of(queries: Sequence[IncompleteTopK]) -> tuple[IncompleteScan, ...]:
    """The queries by what they read, in the order in which they first appear.

    >>> import skyband as sb
    >>> low = sb.IncompleteTopK(name="low", k=1, size="1 hour", object="car", stream="camera", value="speed")
    >>> high = sb.IncompleteTopK(name="high", k=9, size="1 day", object="car", stream="camera", value="speed")
    >>> [scan.places for scan in scans_of([low, high])]
    [(0, 1)]
    """
    return tuple(IncompleteScan(*read, places) for read, places in places_by(IncompleteTopK.scan_key, queries).items())


@dataclass(frozen=True, kw_only=True)
class IncompletePlan(ShardPlan):
    """A workload over tuples of one shape."""

    family = "incomplete"
    merges_answers = True

    queries: tuple[IncompleteTopK, ...]  # with their streams declared
    shards: int
    refuse_late: bool
    delay: int = 0  # how far the watermark stands behind the newest row, in microseconds

    @cached_property
    def scans(self) -> tuple[IncompleteScan, ...]:
        """The queries by what they read."""
        return scans_of(self.queries)
