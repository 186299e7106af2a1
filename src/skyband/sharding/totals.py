"""Aggregate queries over shards of keys: partials in, the best keys of each shard out, and these put together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.aggregate.engine import Engine
from skyband.aggregate.keeping import Keeper, Parcels, packed, unpacked
from skyband.aggregate.shape import Shape
from skyband.aggregate.table import restored
from skyband.arrow import from_bytes, one, to_bytes
from skyband.errors import SnapshotError
from skyband.kernels.aggregate import Partials
from skyband.kernels.limbs import LIMBS, ONES, add_double, limb_range
from skyband.kernels.partials import COUNT, FIRST_LIMB, INFINITE, MINUS, NEVER
from skyband.kernels.stream import Ints
from skyband.keys import KeyBook, key_column
from skyband.queries import AggregateTopK
from skyband.sharding.grouping import group_rows
from skyband.snapshot import resuming
from skyband.windows import AXIS_LIMIT, common_pane

__all__ = ["FIRST_COLUMN", "LIMB_COLUMNS", "Feed", "Memory", "Plan", "TotalsShard", "Worked", "feeds_of", "merged"]

# Sums come as so many columns: the limbs around 1. A value that has a bit outside comes as a stray, a row of its own.
FIRST_COLUMN = ONES - 3
LIMB_COLUMNS = 6


class Feed(NamedTuple):
    """What its queries have in common, and their places in the workload."""

    key: str | None
    value: str | None
    where: str | None
    partition_by: tuple[str, ...]
    places: tuple[int, ...]


def feeds_of(queries: Iterable[AggregateTopK]) -> tuple[Feed, ...]:
    """The feeds of a workload, in the order in which they first appear.

    >>> import skyband as sb
    >>> busy = sb.AggregateTopK(name="busy", k=3, size="1 hour", key="client", value="bytes")
    >>> high = sb.AggregateTopK(name="high", k=3, size="1 day", key="client", value="bytes", aggregate="max")
    >>> often = sb.AggregateTopK(name="often", k=3, size="1 day", key="client", aggregate="count")
    >>> [(feed.value, feed.places) for feed in feeds_of([busy, often, high])]
    [('bytes', (0, 2)), (None, (1,))]
    """
    places: dict[tuple[str | None, str | None, str | None, tuple[str, ...]], list[int]] = {}
    for place, query in enumerate(queries):
        places.setdefault((query.key, query.value, query.where, tuple(query.partition_by)), []).append(place)
    return tuple(Feed(*shared, tuple(found)) for shared, found in places.items())


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A workload over partials of one shape. Frozen, and light enough to travel with every task."""

    queries: tuple[AggregateTopK, ...]
    shards: int  # for each feed
    groups: tuple[tuple[str, ...], ...]  # per feed: the columns that tell its groups apart
    keys: tuple[str, ...]  # per feed: the column that holds its key
    utc: bool  # whether times are instants, not what a clock on the wall says

    @cached_property
    def feeds(self) -> tuple[Feed, ...]:
        """The queries by feed."""
        return feeds_of(self.queries)

    @property
    def units(self) -> int:
        """How many shards there are, over all feeds; those of feed f begin at ``f * shards``."""
        return self.shards * len(self.feeds)

    def shape(self, feed: int) -> Shape:
        """What the queries of a feed share."""
        return Shape(tuple(self.queries[place] for place in self.feeds[feed].places), self.pane)

    @property
    def pane(self) -> tuple[int, int]:
        """The panes that partials are made for: those of all feeds, since all are made at once."""
        return common_pane(query.window for query in self.queries)

    @cached_property
    def full_only(self) -> bool:
        """Whether somebody must know where the stream began."""
        return any(query.full_only for query in self.queries)

    @cached_property
    def group_columns(self) -> tuple[str, ...]:
        """The group columns of all feeds, each once: the columns of an answer that tell its group."""
        return tuple(dict.fromkeys(name for names in self.groups for name in names))


class Memory(dict[int, bytes]):
    """Parcels in this process."""

    def get(self, number: int) -> bytes:  # type: ignore[override]
        return self[number]

    def put(self, number: int, data: bytes) -> None:
        self[number] = data

    def remove(self, number: int) -> None:
        del self[number]


class Worked(NamedTuple):
    """What a step did, and what is held after it."""

    answers: pa.Table | None
    rows: int  # that the partials were made from
    partials: int  # held
    keys: int  # held
    unrankable: int


class TotalsShard:
    """The keys of one feed that a hash leads here, with their totals."""

    def __init__(self, plan: Plan, unit: int, parcels: Parcels) -> None:
        self.plan = plan
        self.feed, self.number = divmod(unit, plan.shards)
        self._columns = plan.groups[self.feed]
        self._engine = Engine(plan.shape(self.feed))
        self._book = KeyBook(self._engine.unused, bool(self._columns))
        self._keeper = Keeper(self._engine, parcels)
        self._groups: list[tuple[Any, ...]] = []  # by code
        self._codes: dict[tuple[Any, ...], int] = {}
        self._kinds: pa.Schema | None = None  # of the groups and the key
        self._first = AXIS_LIMIT  # where the stream began
        self._unrankable = 0

    def step(self, tables: Sequence[pa.Table], first: int | None, clock: int | None) -> Worked:
        """Take in the partials of panes that have ended, and answer the windows that end at or before `clock`.

        `first` is the oldest row of all shards' partials, where somebody asks for it. Without `clock` the stream ends.
        """
        if first is not None:
            self._first = min(self._first, first)
        rows = 0
        if tables:
            table = pa.concat_tables(tables).combine_chunks()
            rows = int(pc.sum(table["count"]).as_py() or 0)
            self._take_in(table)
        to = NEVER - 1 if clock is None else clock
        groups = max(1, len(self._groups))
        self._engine.advance(to, self._book.keys, groups, self._first)
        unrankable = self._engine.counters()["unrankable"]
        fresh, self._unrankable = unrankable - self._unrankable, unrankable
        return Worked(self._answers(), rows, self._engine.partials, len(self._book), fresh)

    @property
    def next_end(self) -> int | None:
        """When the next window that holds a row ends; None if there is none."""
        end = int(self._engine.next_end)
        return None if end >= NEVER else end

    def _take_in(self, table: pa.Table) -> None:
        name = self.plan.keys[self.feed]
        wanted = [*self._columns, name]
        self._kinds = pa.schema([table.schema.field(column) for column in wanted])
        table = table.take(pc.sort_indices(table["pane"]))
        stored = key_column(one(table[name])).stored
        codes = self._group_codes(table) if self._columns else None
        slots = self._book.slots_of(stored, codes)
        shape = self._engine.shape
        adds, limbs = _adds(table, shape.sums)
        extremes = [_numbers(table[column]) * (1 if column == "max" else -1) for column in shape.extremes]
        partials = Partials(
            slots=slots,
            positions=_numbers(table["last"]),
            lows=_numbers(table["pane"]),
            adds=adds,
            extremes=np.stack(extremes, axis=1) if extremes else np.empty((table.num_rows, 0)),
        )
        self._engine.take_partials(partials, limbs, self._book.keys, max(1, len(self._groups)), self._first)

    def _group_codes(self, table: pa.Table) -> Ints:
        grouping = group_rows(table, self._columns)
        samples = table.select(list(self._columns)).take(pa.array(grouping.samples))
        found = np.empty(grouping.size, np.int64)
        for place, group in enumerate(_tuples(samples)):
            code = self._codes.setdefault(group, len(self._groups))
            if code == len(self._groups):
                self._groups.append(group)
            found[place] = code
        return found[grouping.codes]

    def _answers(self) -> pa.Table | None:
        found = self._engine.answers()
        if not found or self._kinds is None:
            return None
        tables = []
        names = list(self._kinds.names)
        places = np.array(self.plan.feeds[self.feed].places, np.int64)
        groups = self._group_table(self._groups)
        for windows, lasts in found:
            columns: dict[str, Any] = {"query": pa.array(np.repeat(places[windows.queries], windows.counts))}
            codes = pa.array(np.repeat(windows.groups, windows.counts))
            for name in self._columns:
                columns[name] = one(groups[name]).take(codes)
            columns["end"] = pa.array(np.repeat(windows.ends, windows.counts))
            columns["last"] = pa.array(lasts)
            columns[names[-1]] = restored(self._book.values(windows.ids), self._kinds.field(names[-1]).type)
            columns["score"] = pa.array(windows.keys)
            tables.append(pa.table(columns))
        return pa.concat_tables(tables)

    def _group_table(self, groups: list[tuple[Any, ...]]) -> pa.Table:
        kinds = self._kinds or pa.schema([])
        columns = list(zip(*groups, strict=True)) if groups else [()] * len(self._columns)
        return pa.table(
            {
                name: pa.array(values, kinds.field(name).type)
                for name, values in zip(self._columns, columns, strict=True)
            }
        )

    def state(self) -> bytes:
        """The shard as checked bytes, its parcels apart."""
        self._book.forget()
        book = self._book.state()
        slots = book["slots"]
        used, codes = np.unique(book["groups"], return_inverse=True)
        groups = [self._groups[code] for code in used.tolist()] if self._columns else []  # others are forgotten
        keys = pa.table({"key": self._book.values(slots)})
        return packed(
            {
                "queries": [query.to_dict() for query in self.plan.queries],
                "unit": self.feed * self.plan.shards + self.number,
                "first": self._first,
                "kinds": None if self._kinds is None else self._kinds.serialize().to_pybytes(),
                "groups": to_bytes(self._group_table(groups)) if self._columns and self._kinds is not None else None,
                "book": {**book, "slots": slots.astype(np.int32), "groups": codes.astype(np.int32)},
                "keys": to_bytes(keys),
                "totals": self._keeper.sleep(slots),
            }
        )

    @classmethod
    def resume(cls, plan: Plan, unit: int, blob: bytes, parcels: Parcels) -> TotalsShard:
        """The shard that `state` was taken of."""
        with resuming():
            saved = unpacked(blob)
            if [query.to_dict() for query in plan.queries] != saved["queries"] or saved["unit"] != unit:
                raise SnapshotError(
                    "the shard was stored by another workload, whose totals are not those of this one; nothing was "
                    "resumed. Go on with the queries it was stored by."
                )
            shard = cls(plan, unit, parcels)
            shard._first = saved["first"]
            if saved["kinds"] is not None:
                shard._kinds = pa.ipc.read_schema(pa.py_buffer(saved["kinds"]))
            if saved["groups"] is not None:
                shard._groups = list(_tuples(from_bytes(saved["groups"])))
                shard._codes = {group: code for code, group in enumerate(shard._groups)}
            book = {**saved["book"], **{name: saved["book"][name].astype(np.int64) for name in ("slots", "groups")}}
            shard._book.load(book, one(from_bytes(saved["keys"])["key"]))
            shard._keeper.wake(saved["totals"], book["slots"], shard._book.slots)
            shard._unrankable = shard._engine.counters()["unrankable"]
        return shard


def merged(plan: Plan, feed: int, tables: Sequence[pa.Table]) -> pa.Table:
    """The answers of a feed, from those of its shards: of each window the k best of all.

    A key lives in one shard, so that the k best of all are among the k best of each.
    """
    table = pa.concat_tables(tables).combine_chunks()
    groups = plan.groups[feed]
    key = plan.keys[feed]
    windows = group_rows(table, ["query", *groups, "end"]).codes
    ends, queries = _numbers(table["end"]), _numbers(table["query"])
    # By the window's first row, sorted by end and query, so that answers come in that order.
    order = pc.sort_indices(
        table.append_column("window", pa.array(windows)),
        [
            ("end", "ascending"),
            ("query", "ascending"),
            ("window", "ascending"),
            ("score", "descending"),
            ("last", "descending"),
            (key, "descending"),
        ],
    ).to_numpy()
    begins = np.flatnonzero(np.diff(windows[order], prepend=-1))
    ranks = np.arange(order.size) - np.repeat(begins, np.diff(begins, append=order.size)) + 1
    ks = np.array([query.k for query in plan.queries], np.int64)
    best = ranks <= ks[queries[order]]
    order, ranks = order[best], ranks[best]
    chosen = table.take(pa.array(order))
    sizes = np.array([query.window.size for query in plan.queries], np.int64)
    bound = pa.timestamp("us", "UTC" if plan.utc else None)
    columns: dict[str, Any] = {
        "query": pa.array([query.name for query in plan.queries], pa.string()).take(pa.array(queries[order]))
    }
    for name in plan.group_columns:
        columns[name] = one(chosen[name]) if name in groups else pa.nulls(order.size)
    columns["window_start"] = pa.array(ends[order] - sizes[queries[order]]).cast(bound)
    columns["window_end"] = pa.array(ends[order]).cast(bound)
    columns["rank"] = pa.array(ranks.astype(np.int32))
    columns["key"] = one(chosen[key])
    columns["score"] = one(chosen["score"])
    return pa.table(columns)


def _adds(table: pa.Table, sums: bool) -> tuple[Any, tuple[int, int]]:
    """What adds up of partials, and the range of limbs that it takes."""
    counts = _numbers(table["count"])
    if not sums:
        return counts[:, None].copy(), (0, 0)
    columns = [_numbers(table[f"limb_{place}"]) for place in range(LIMB_COLUMNS)]
    used = [place for place, column in enumerate(columns) if column.any()]
    low, high = (FIRST_COLUMN + used[0], FIRST_COLUMN + used[-1] + 1) if used else (LIMBS, 0)
    strays = table["stray"].combine_chunks()
    rows = np.flatnonzero(strays.is_valid().to_numpy(zero_copy_only=False))
    values = _numbers(strays.take(pa.array(rows)))
    bits = values.view(np.int64)
    found = np.array([low, high], np.int64)
    limb_range(bits, found)
    low, high = int(found[0]), max(int(found[1]), int(found[0]))
    low, high = (low, high) if high > low else (0, 0)
    adds = np.zeros((counts.size, FIRST_LIMB + high - low), np.int64)
    adds[:, COUNT] = counts
    for place in used:
        adds[:, FIRST_LIMB + FIRST_COLUMN + place - low] = columns[place]
    infinite = np.isinf(values)
    adds[rows[infinite], INFINITE] = counts[rows[infinite]] * np.where(values[infinite] > 0, 1, MINUS)
    for row, value in zip(rows[~infinite].tolist(), bits[~infinite].tolist(), strict=True):
        one_value = np.zeros(FIRST_LIMB + high - low, np.int64)
        add_double(one_value, FIRST_LIMB, low, value)
        adds[row] += one_value * counts[row]
    return adds, (low, high)


def _numbers(column: Any) -> Any:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.ascontiguousarray(array.to_numpy(zero_copy_only=False))


def _tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows of a table as values that can be looked up: NaN and null are one, -0.0 is 0.0."""
    columns = []
    for name in table.column_names:
        array = one(table[name])
        if pa.types.is_floating(array.type):
            array = pc.add(pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array), 0.0)
        columns.append(array.to_pylist())
    return list(zip(*columns, strict=True))
