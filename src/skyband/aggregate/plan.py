"""The plan of aggregate queries, shared by all parts of the pipeline. The driver loads it, so imports are light."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from skyband.aggregate.query import AggregateTopK, Items
from skyband.queries.answer_schema import AnswerColumn
from skyband.queries.sharing import places_by
from skyband.session_windows import SessionWindows
from skyband.sharding.plan import ShardPlan
from skyband.sharding.row_source import HIDDEN, plain

if TYPE_CHECKING:
    from skyband.aggregate.shape import AggregateShape

__all__ = [
    "ITEM",
    "AggregatePlan",
    "AggregateScan",
    "group_name",
    "is_key_name",
    "key_name",
    "optional_columns",
    "own_name",
    "part_name",
    "scans_of",
]

_KEY, _PART, _OWN_VALUE = f"{HIDDEN}key_", f"{HIDDEN}part_", f"{HIDDEN}own_"
# The columns of partials and of the answers of shards. A group column with such a name has another one there.
_OWN = ("pane", "last", "count", "infinite", "max", "min", "latest", "first", "end", "window")
ITEM = f"{HIDDEN}item"  # the column of partials with a value that is counted, or its code in estimates
_ITEMS = ("values", "numbers", "hashes")
_OWN_PREFIXES = ("limb_", "square_")


def key_name(scan: int) -> str:
    """Return the name of a scan's key column. Scans are numbered in the order of the workload, which can change."""
    return f"{_KEY}{scan}"


def own_name(group: str) -> str:
    """Return the name of the column with a row's own value of a group column, in stored rows.

    >>> own_name("symbol")
    '__skyband_own_symbol'
    """
    return f"{_OWN_VALUE}{group}"


def part_name(scan: int, part: int) -> str:
    """Return the name of a column of a scan's key, if it has several. Partials contain them packed into one."""
    return f"{_PART}{scan}_{part}"


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

    key: str | tuple[str, ...] | None  # its columns; text if it is one, None if keys are pushed as arrays
    source: str | tuple[str, str | None] | None  # the value; with what is counted of it, if anything is
    where: str | None
    partition_by: tuple[str, ...]
    places: tuple[int, ...]
    delete: str | None = None
    decay: tuple[int, str] | None = None  # the half-life, and what decays
    session: SessionWindows | None = None  # None: all other windows

    @property
    def value(self) -> str | None:
        """The expression of the value."""
        return self.source[-1] if isinstance(self.source, tuple) else self.source

    @property
    def items(self) -> Items | None:
        """What is counted for each key."""
        return self.source[0] if isinstance(self.source, tuple) and self.source[0] in _ITEMS else None  # type: ignore[return-value]  # of a sketch: what its counters add up

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The expressions of the key."""
        if self.key is None:
            return ()
        return (self.key,) if isinstance(self.key, str) else self.key


def optional_columns(queries: Iterable[AggregateTopK]) -> tuple[str, ...]:
    """Return the optional columns of answers over data frames that these queries have.

    >>> import skyband as sb
    >>> optional_columns([sb.AggregateTopK(k=3, size="1 hour", key="page", aggregate="count", method="sketch")])
    ('error', 'guaranteed')
    """
    asked = list(queries)
    share = ("share",) if any(query.share for query in asked) else ()
    return (*share, *(("error", "guaranteed") if any(query.sketched for query in asked) else ()))


def scans_of(queries: Iterable[AggregateTopK]) -> tuple[AggregateScan, ...]:
    """Return the scans of a workload, in order of first appearance.

    >>> import skyband as sb
    >>> busy = sb.AggregateTopK(name="busy", k=3, size="1 hour", key="client", value="bytes")
    >>> high = sb.AggregateTopK(name="high", k=3, size="1 day", key="client", value="bytes", aggregate="max")
    >>> often = sb.AggregateTopK(name="often", k=3, size="1 day", key="client", aggregate="count")
    >>> [(scan.value, scan.places) for scan in scans_of([busy, often, high])]
    [('bytes', (0, 2)), (None, (1,))]
    """
    found = []
    for (key, value, where, groups, *more), places in places_by(AggregateTopK.scan_key, queries).items():
        found.append(AggregateScan(key, value, where, groups, places, *more))
    return tuple(found)


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
    parts: tuple[str, ...] = ()  # if the key has several columns: their names in answers
    part_kinds: tuple[str, ...] = ()  # and their types, as Spark names them
    values: tuple[
        str | None, ...
    ]  # per scan: the value column, a number unless it is counted; None if all queries only count
    wanted: tuple[str, ...]  # per scan: whether the row counts; false if a field is missing, null if filtered out
    homes: tuple[str, ...]  # per scan: the column with the shard number of the key
    id: str | None = None  # the column that orders rows with the same time
    ids_given: bool = False  # whether it contains ids, not hashes: then it counts before the value
    returned: tuple[str, ...] = ()  # the columns of a row that answers return
    own_groups: tuple[str, ...] = ()  # the group columns of which answers of other scans return the row's own value
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
    def shares_ranks(self) -> bool:
        """Whether several rows of an answer can have rank 1."""
        return any(query.shares_ranks for query in self.queries)

    def is_ordered(self, scan: int) -> bool:
        """Whether a scan needs the rows of a group in order, in one shard: their numbers or gaps define its windows.

        Other scans need partials of keys, which are in different shards.
        """
        return self.axis == "count" or self.scans[scan].session is not None

    def shard_part(self, number: int) -> str:
        """The module with the class of a shard."""
        return "ordered_shard" if self.is_ordered(number // self.shards) else "shard"

    def has_deletes(self, scan: int) -> bool:
        """Whether rows of a scan can delete their keys."""
        return self.scans[scan].delete is not None

    @property
    def counts_deletes(self) -> bool:
        """Whether deletes of keys without a value are counted."""
        return any(scan.delete is not None for scan in self.scans)

    @property
    def scan_names(self) -> list[tuple[Any, ...]]:
        """What the scans read; one without deletes has the name that it had before there were deletes."""
        more = [[scan.delete] if scan.decay is None else [scan.delete, scan.decay] for scan in self.scans]
        names = [(*scan[:4], *([] if last == [None] else last)) for scan, last in zip(self.scans, more, strict=True)]
        return [
            name if scan.session is None else (*name, "session", scan.session.gap, scan.session.max_length)
            for name, scan in zip(names, self.scans, strict=True)
        ]

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
        return mine + self.stored_fields

    @property
    def stored_fields(self) -> tuple[str, ...]:
        """The columns of a row that are stored for answers."""
        return self.returned + tuple(own_name(name) for name in self.own_groups)

    def is_wanted(self, column: AnswerColumn) -> bool:
        """Return whether answers have this column."""
        return not column.optional or column.name in optional_columns(self.queries)

    def key_fields(self, scan: int) -> tuple[str, ...]:
        """The columns of a scan's key in a row: one, or several that are packed into one."""
        return tuple(part_name(scan, part) for part in range(len(self.parts))) or (self.keys[scan],)

    @cached_property
    def group_columns(self) -> tuple[str, ...]:
        """The distinct group columns of all scans, which are the group columns of an answer."""
        return tuple(dict.fromkeys(name for names in self.groups for name in names))
