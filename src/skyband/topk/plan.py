"""What every part of the pipeline knows: queries by scan, where a row's columns are, how many shards there are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from zlib import crc32

from skyband.queries.sharing import places_by
from skyband.sharding.plan import Output, ShardPlan
from skyband.topk.query import TopK

__all__ = ["Scan", "TopKPlan", "scans_of"]


class Scan(NamedTuple):
    """What its queries have in common, and their places in the workload. Both directions may be among them."""

    by: str | None
    where: str | None
    partition_by: tuple[str, ...]
    places: tuple[int, ...]

    @property
    def identity(self) -> str:
        """What tells the scan from others, in this run and the next."""
        return repr((self.by, self.where, self.partition_by))

    def home(self, shards: int) -> int:
        """The shard of a scan without groups; the same whatever other scans there are."""
        return crc32(self.identity.encode()) % shards


def scans_of(queries: Iterable[TopK]) -> tuple[Scan, ...]:
    """The scans of a workload, in the order in which they first appear.

    >>> import skyband as sb
    >>> big = sb.TopK(name="big", k=3, size="1 hour", by="price")
    >>> small = sb.TopK(name="small", k=3, size="1 day", by="price", order="asc")
    >>> far = sb.TopK(name="far", k=3, size="1 day", by="distance")
    >>> [(scan.by, scan.places) for scan in scans_of([big, far, small])]
    [('price', (0, 2)), ('distance', (1,))]
    """
    return tuple(Scan(*shared, places) for shared, places in places_by(TopK.scan_key, queries).items())


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
