"""The plan of aggregate queries, shared by all parts of the pipeline. The driver loads it, so imports are light."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from skyband.aggregate.query import AggregateTopK
from skyband.queries.sharing import places_by
from skyband.sharding.plan import ShardPlan
from skyband.sharding.row_source import HIDDEN, plain

if TYPE_CHECKING:
    from skyband.aggregate.shape import AggregateShape

__all__ = ["AggregatePlan", "AggregateScan", "group_name", "is_key_name", "key_name", "scans_of"]

_KEY = f"{HIDDEN}key_"
# The columns of partials and of the answers of shards. A group column with such a name has another one there.
_OWN = ("pane", "last", "count", "infinite", "max", "min", "latest", "first", "end", "window")
_OWN_PREFIXES = ("limb_", "square_")


def key_name(scan: int) -> str:
    """Return the name of a scan's key column. Scans are numbered in the order of the workload, which can change."""
    return f"{_KEY}{scan}"


def is_key_name(name: str) -> bool:
    """Return whether a column has the key of a scan.

    >>> is_key_name(key_name(3)), is_key_name("key")
    (True, False)
    """
    return name.startswith(_KEY)


def group_name(name: str) -> str:
    """Return the name of a group column in tables of partials, whose own columns have other names.

    >>> group_name("symbol"), group_name("count")
    ('symbol', '__skyband_636f756e74')
    """
    taken = name.lower() in _OWN or name.lower().startswith(_OWN_PREFIXES)
    return f"{HIDDEN}{name.encode().hex()}" if taken else plain(name)


class AggregateScan(NamedTuple):
    """The fields that the queries of a scan share, and their workload indices."""

    key: str | None
    value: str | None
    where: str | None
    partition_by: tuple[str, ...]
    places: tuple[int, ...]


def scans_of(queries: Iterable[AggregateTopK]) -> tuple[AggregateScan, ...]:
    """Return the scans of a workload, in order of first appearance.

    >>> import skyband as sb
    >>> busy = sb.AggregateTopK(name="busy", k=3, size="1 hour", key="client", value="bytes")
    >>> high = sb.AggregateTopK(name="high", k=3, size="1 day", key="client", value="bytes", aggregate="max")
    >>> often = sb.AggregateTopK(name="often", k=3, size="1 day", key="client", aggregate="count")
    >>> [(scan.value, scan.places) for scan in scans_of([busy, often, high])]
    [('bytes', (0, 2)), (None, (1,))]
    """
    return tuple(
        AggregateScan(*shared, places) for shared, places in places_by(AggregateTopK.scan_key, queries).items()
    )


@dataclass(frozen=True, kw_only=True)
class AggregatePlan(ShardPlan):
    """Shard plan of a workload of aggregate queries."""

    family = "aggregate"
    merges_answers = True
    has_shards_by_scan = True
    value_state = "totals"
    segment_state = "parcels"

    queries: tuple[AggregateTopK, ...]
    shards: int  # per scan
    time: str  # event-time column
    groups: tuple[tuple[str, ...], ...]  # per scan: the group columns
    keys: tuple[str, ...]  # per scan: the key column
    values: tuple[str | None, ...]  # per scan: the value column; None if all queries only count
    wanted: tuple[str, ...]  # per scan: whether the row counts; false if a field is missing, null if filtered out
    homes: tuple[str, ...]  # per scan: the column with the shard number of the key
    id: str | None = None  # the column that orders rows with the same time
    ids_given: bool = False  # whether it contains ids, not hashes: then it counts before the value
    returned: tuple[str, ...] = ()  # the columns of a row that answers return
    utc: bool  # whether times are instants (TIMESTAMP), not local times (TIMESTAMP_NTZ)
    refuse_late: bool = False

    @property
    def method_name(self) -> str:
        """The algorithm, schedule or method that answers the queries, for metrics."""
        return "totals"

    @cached_property
    def scans(self) -> tuple[AggregateScan, ...]:
        """The queries by scan."""
        return scans_of(self.queries)

    @property
    def units(self) -> int:
        """Number of shards over all scans. Those of scan f start at ``f * shards``."""
        return self.shards * len(self.scans)

    def shape(self, scan: int) -> AggregateShape:
        """Return the shape of a scan's queries."""
        from skyband.aggregate.shape import AggregateShape  # noqa: PLC0415 - compiled code that the driver does not need

        return AggregateShape(tuple(self.queries[place] for place in self.scans[scan].places))

    @property
    def row_fields(self) -> tuple[str, ...]:
        """The columns that partials contain of the row of an extreme."""
        mine = () if self.id is None or self.id in self.returned else (self.id,)
        return mine + self.returned

    @cached_property
    def group_columns(self) -> tuple[str, ...]:
        """The distinct group columns of all scans, which are the group columns of an answer."""
        return tuple(dict.fromkeys(name for names in self.groups for name in names))
