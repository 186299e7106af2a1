"""What every part of the pipeline knows: the queries, where a row's columns are, how many shards there are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from skyband.sharding.output import Output
from skyband.sharding.plan import ShardPlan
from skyband.topk.query import TopK
from skyband.topk.scans import Scan, scans_of

__all__ = ["TopKPlan"]


@dataclass(frozen=True, kw_only=True)
class TopKPlan(ShardPlan):
    """A workload over rows of one shape."""

    family = "topk"

    queries: tuple[TopK, ...]
    algorithm: str  # an engine's name
    shards: int
    time: str  # the column that event time is read from
    id: str  # the column that ties are broken by
    scores: tuple[str, ...]  # per scan: its score; null where the row is not of the scan, NaN where it has no score
    groups: tuple[tuple[str, ...], ...]  # per scan: the columns that tell its groups apart
    columns: tuple[str, ...]  # the row's own columns, as they are named here; those of `returned` and of groups
    returned: tuple[str, ...]  # of the row's columns, those that come back with an answer, after the group columns
    may_be_late: bool  # whether rows may arrive behind the watermark
    output: Output = "answers"  # whole answers, what changes from one to the next, or both
    delay: int = 0  # how far the watermark stands behind the newest row, in microseconds

    @cached_property
    def scans(self) -> tuple[Scan, ...]:
        """The queries by scan."""
        return scans_of(self.queries)

    @cached_property
    def group_columns(self) -> tuple[str, ...]:
        """The group columns of all scans, each once: the columns of an answer that tell its group."""
        return tuple(dict.fromkeys(name for names in self.groups for name in names))

    @cached_property
    def full_only(self) -> tuple[int, ...]:
        """The scans with a query that reports full windows only, on a time axis."""
        return tuple(
            number
            for number, scan in enumerate(self.scans)
            if self.axis == "time" and any(self.queries[place].full_only for place in scan.places)
        )
