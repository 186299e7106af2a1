"""What every part of the pipeline knows of queries over uncertain streams. Light: the driver loads it, too."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import NamedTuple

from skyband.sharding.plan import ShardPlan
from skyband.uncertain.query import UncertainTopK, classes_of, stream_of

__all__ = ["PaneCut", "UncertainPlan", "cut_of"]


class PaneCut(NamedTuple):
    """What tuples are cut by before they travel: between two multiples of `unit` no window ends."""

    unit: int
    k: int  # the largest that is asked for


@dataclass(frozen=True, kw_only=True)
class UncertainPlan(ShardPlan):
    """A workload over uncertain tuples of one shape."""

    family = "uncertain"

    queries: tuple[UncertainTopK, ...]
    method: str  # how runs are shared
    refuse_late: bool
    may_be_late: bool = False  # whether rows may arrive behind the watermark
    shards: int = 1  # the probability to be among the best depends on all tuples

    @cached_property
    def classes(self) -> tuple[tuple[UncertainTopK, ...], ...]:
        """The queries that run together, in the order in which they first appear."""
        return classes_of(self.queries)

    @cached_property
    def streams(self) -> tuple[str | None, ...]:
        """Per class what tells streams apart, None where nobody ranks them."""
        return tuple(map(stream_of, self.classes))

    @cached_property
    def cuts(self) -> tuple[PaneCut | None, ...]:
        """Per class how its tuples are cut; None: all of them travel."""
        return tuple(map(cut_of, self.classes))


def cut_of(together: tuple[UncertainTopK, ...]) -> PaneCut | None:
    """How the tuples of a class are cut: not where they are counted, nor where ranks are expected of all of them."""
    if together[0].axis == "count" or any(query.semantics == "expected-rank" for query in together):
        return None
    return PaneCut(gcd(*(query.window.slide for query in together)), max(query.k for query in together))
