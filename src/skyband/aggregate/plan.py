"""What every part of the pipeline knows of aggregate queries. Light: the driver loads it, too."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from skyband.aggregate.query import AggregateTopK
from skyband.queries.sharing import places_by
from skyband.sharding.plan import ShardPlan

if TYPE_CHECKING:
    from skyband.aggregate.shape import AggregateShape

__all__ = ["AggregatePlan", "AggregateScan", "scans_of"]


class AggregateScan(NamedTuple):
    """What its queries have in common, and their places in the workload."""

    key: str | None
    value: str | None
    where: str | None
    partition_by: tuple[str, ...]
    places: tuple[int, ...]


def scans_of(queries: Iterable[AggregateTopK]) -> tuple[AggregateScan, ...]:
    """The scans of a workload, in the order in which they first appear.

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
    """A workload over rows of one shape."""

    family = "aggregate"
    merges_answers = True
    value_state = "totals"
    segment_state = "parcels"

    queries: tuple[AggregateTopK, ...]
    shards: int  # for each scan
    time: str  # the column that event time is read from
    groups: tuple[tuple[str, ...], ...]  # per scan: the columns that tell its groups apart
    keys: tuple[str, ...]  # per scan: the column that holds its key
    values: tuple[str | None, ...]  # per scan: that which holds its value; None where only their number counts
    wanted: tuple[
        str, ...
    ]  # per scan: whether the row counts; false where it lacks something, null where not asked for
    homes: tuple[str, ...]  # per scan: the number of the shard that the key lives in
    utc: bool  # whether times are instants, not what a clock on the wall says

    @cached_property
    def scans(self) -> tuple[AggregateScan, ...]:
        """The queries by scan."""
        return scans_of(self.queries)

    @property
    def units(self) -> int:
        """How many shards there are, over all scans; those of scan f begin at ``f * shards``."""
        return self.shards * len(self.scans)

    def shape(self, scan: int) -> AggregateShape:
        """What the queries of a scan share."""
        from skyband.aggregate.shape import AggregateShape  # noqa: PLC0415 - compiled code, and the driver does without it

        return AggregateShape(tuple(self.queries[place] for place in self.scans[scan].places))

    @cached_property
    def group_columns(self) -> tuple[str, ...]:
        """The group columns of all scans, each once: the columns of an answer that tell its group."""
        return tuple(dict.fromkeys(name for names in self.groups for name in names))
