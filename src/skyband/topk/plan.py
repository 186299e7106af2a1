"""The plan that all parts of the pipeline share: queries by scan, column names, and the number of shards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from zlib import crc32

from skyband.queries.sharing import places_by
from skyband.session_windows import SessionWindows
from skyband.sharding.plan import ShardPlan
from skyband.topk.query import RankingRule, TopK

__all__ = ["OrderColumn", "Scan", "TopKPlan", "scans_of"]


class OrderColumn(NamedTuple):
    """A column that ranks rows whose values before it are equal; places are those of the highest score first."""

    name: str
    flipped: bool = False  # whether lower values have higher places
    nulls_low: bool = True  # whether rows without a value have the lowest place
    integer: bool = False  # the score itself, as an integer


class Scan(NamedTuple):
    """The common key of its queries, and their indexes in the workload. A scan may contain both directions."""

    by: str | None
    where: str | None
    partition_by: tuple[str, ...]
    rule: RankingRule | None
    session: SessionWindows | None  # None: all other windows
    places: tuple[int, ...]

    @property
    def identity(self) -> str:
        """Identifies the scan, in this run and the next."""
        rule = () if self.rule is None else (tuple(self.rule),)
        session = () if self.session is None else (self.session.gap, self.session.max_length)
        return repr((self.by, self.where, self.partition_by, *rule, *session))

    def home(self, shards: int) -> int:
        """The shard of a scan without groups; it does not depend on other scans."""
        return crc32(self.identity.encode()) % shards


def scans_of(queries: Iterable[TopK]) -> tuple[Scan, ...]:
    """Return the scans of a workload, in the order in which they first appear.

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
    """A workload over rows with one schema."""

    family = "topk"
    compares_merged = False

    queries: tuple[TopK, ...]
    algorithm: str  # an engine's name
    shards: int
    time: str  # the column with the event time
    id: str  # the column that breaks ties
    scores: tuple[str, ...]  # per scan: its score column; null if the row is not of the scan, NaN if it has no score
    groups: tuple[tuple[str, ...], ...]  # per scan: its group columns
    columns: tuple[str, ...]  # the stored columns of the row: those of `returned` and of groups
    returned: tuple[str, ...]  # the row's columns that answers contain, after the group columns
    may_be_late: bool  # whether rows may arrive behind the watermark
    orders: tuple[tuple[OrderColumn, ...], ...] = ()  # per scan: columns that rank rows with equal scores
    entities: tuple[str | None, ...] = ()  # per scan: the column of which an answer contains each value once
    delay: int = 0  # delay of the watermark behind the newest row, in microseconds

    @property
    def method_name(self) -> str:
        """The algorithm, schedule or method that answers the queries, for metrics."""
        return self.algorithm

    @property
    def bound(self) -> int | None:
        """The upper bound of the candidates of one group."""
        return sum(query.k * query.window.most_views for query in self.queries)

    @property
    def has_whole(self) -> bool:
        """Whether all windows of bounded rows can be answered in one pass."""
        return self.output == "answers" and not any(scan.session for scan in self.scans)

    @cached_property
    def scans(self) -> tuple[Scan, ...]:
        """The queries by scan."""
        return scans_of(self.queries)

    @cached_property
    def group_columns(self) -> tuple[str, ...]:
        """The distinct group columns of all scans."""
        return tuple(dict.fromkeys(name for names in self.groups for name in names))

    def has_group_value(self, scan: int, name: str) -> bool:
        """Whether answers of a scan have a value in a group column: that of the group, or the row's own value."""
        return name in self.groups[scan] or name in self.columns

    @cached_property
    def extra_columns(self) -> tuple[str, ...]:
        """The distinct columns of `orders` and `entities`."""
        names = [column.name for columns in self.orders for column in columns]
        return tuple(dict.fromkeys([*names, *(name for name in self.entities if name is not None)]))

    @cached_property
    def full_only(self) -> tuple[int, ...]:
        """The indexes of scans with a query that reports full windows only, on a time axis."""
        return tuple(
            number
            for number, scan in enumerate(self.scans)
            if self.axis == "time" and any(self.queries[place].full_only for place in scan.places)
        )
