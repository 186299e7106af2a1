"""Executor of session queries: rows in stream order in, the ranked keys of final sessions out.

Of an open session, its first and its last row and a partial for each key are stored. When it is final, its partials are
passed to an engine as one pane: engines need panes that follow each other, so final sessions are numbered. Sessions of
different groups share numbers. So sums, extremes, conditions and totals are computed as in all other windows.

Rows are collected until a session may have ended, or until as many have arrived as partials are stored. So a push costs
time for its own rows, not for all open sessions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.aggregate.executor import AggregateExecutor, KeyBatch, KeyedAnswers, chosen_answers
from skyband.aggregate.extreme_rows import PartialLayout, added
from skyband.aggregate.item_engine import ItemEngine, engine_of
from skyband.aggregate.key_panes import refuse_keys
from skyband.aggregate.partial_columns import column_of, numbers_of, partial_columns, partials_of
from skyband.aggregate.plan import ITEM
from skyband.aggregate.query import AggregateTopK
from skyband.aggregate.shape import AggregateShape
from skyband.data.arrow import from_bytes, one, to_bytes
from skyband.data.key_dictionary import KeyDictionary
from skyband.kernels.sessions import Sessions, cut_sessions
from skyband.kernels.stream import Bools, Ints
from skyband.session_windows import SessionWindows
from skyband.sharding.rows import group_rows
from skyband.windows import ALWAYS, NEVER

__all__ = ["KeySessionExecutor"]

FEW = 1024  # rows that are collected in any case
_KEY, _ID = "key", "id"


class _Open(NamedTuple):
    """Open sessions. No group has two."""

    groups: Ints
    starts: Ints
    lasts: Ints

    def taken(self, places: Ints | Bools) -> _Open:
        return _Open(*(column[places] for column in self))


class KeySessionExecutor(AggregateExecutor):
    """Process rows and return the answers of final sessions. All queries have the same gap and maximal length."""

    def __init__(self, shape: AggregateShape, places: Ints, grouped: bool, group: int = -1) -> None:
        window = shape.queries[0].window
        assert isinstance(window, SessionWindows)
        self._window = window
        super().__init__(AggregateShape(tuple(map(_of_numbers, shape.queries))), places, grouped, group)
        self._layout = PartialLayout((), _KEY, self.shape, _ID if self.shape.identified else None, ids_given=True)
        self._unknown: int | None = None  # deletes of keys without a value; None: no row can delete its key
        none = np.empty(0, np.int64)
        self._open = _Open(none, none, none)
        self._partials: pa.Table | None = None  # ``pane`` is the number of the open session
        self._fresh: list[KeyBatch] = []
        self._waiting = 0  # rows in `_fresh`
        self._watermark = ALWAYS
        self._next_end = NEVER  # no session ends earlier
        self._work = dict.fromkeys(self.engine.counters(), 0)

    @property
    def partials(self) -> int:
        """Number of partials held, and of rows that are not added to them yet."""
        return self._stored + self._waiting

    @property
    def keys(self) -> int:
        """Number of keys of open sessions, and of their values if those are counted."""
        return self._stored

    @property
    def _stored(self) -> int:
        return 0 if self._partials is None else int(self._partials.num_rows)

    @property
    def next_end(self) -> int:
        """A position before which no session ends; NEVER if there is none."""
        return self._next_end

    @property
    def groups(self) -> Ints:
        """Codes of the groups with at least one row."""
        waiting = [batch.groups for batch in self._fresh if batch.groups is not None]
        return np.unique(np.concatenate([self._open.groups, *waiting]))

    def answer_since(self, starts: Sequence[int]) -> None:
        """Set, per query, the smallest start that is answered; NEVER for a removed query."""
        self._since = list(starts)
        self._begin_engine()

    def _begin_engine(self) -> None:
        """Create an engine for the next final sessions. Nothing is left in it between two of them."""
        self.engine = engine_of(self.shape)
        self.engine.answer_since([NEVER if start == NEVER else ALWAYS for start in self._since])
        self.book = KeyDictionary(self.engine.unused, self._grouped)

    def counters(self) -> dict[str, int]:
        """Return counters of the work done, in partials and keys."""
        return {name: done + self._work[name] for name, done in super().counters().items()}

    def take_in(self, batch: KeyBatch, groups: int, first: int) -> list[KeyedAnswers]:
        """Add rows, which are in stream order: a session is final if it ends at or before the last of them."""
        if batch.deletes and self._unknown is None:
            self._unknown = 0
        if len(batch.keys):
            self._fresh.append(batch._replace(items=self._items(batch) if self.shape.items else None))
            self._waiting += len(batch.keys)
            self._next_end = min(self._next_end, self._window.first_end_from(int(batch.positions[0])))
            self._watermark = max(self._watermark, int(batch.positions[-1]))
        if self._waiting > max(FEW, self._stored):
            return self._settle(groups, first)
        return []

    def _items(self, batch: KeyBatch, mine: slice | None = None) -> pa.Array:
        return super()._items(batch, slice(0, len(batch.keys)) if mine is None else mine)

    def advance(self, to: int, groups: int, first: int) -> list[KeyedAnswers]:
        """Return the answers of all sessions that end at or before `to`."""
        self._watermark = max(self._watermark, to)
        return self._settle(groups, first) if self._next_end <= to else []

    def _settle(self, groups: int, first: int) -> list[KeyedAnswers]:
        """Assign all rows to sessions, and answer those that end at or before the watermark."""
        rows = _concatenated(self._fresh)
        self._fresh, self._waiting = [], 0
        owners, sessions, ends = self._cut(rows)
        count = self._open.groups.size
        pieces = [] if rows is None else [self._summed(rows, owners[2 * count :])]
        if self._partials is not None:
            at = self._partials.column_names.index("pane")
            moved = pa.array(owners[:count][numbers_of(self._partials["pane"])])
            pieces.insert(0, self._partials.set_column(at, "pane", moved))
        table = added(self._layout, pa.concat_tables(pieces, promote_options="default").combine_chunks())
        final = ends <= self._watermark
        self._refuse_keys(table, ends)
        self._next_end = int(ends[~final].min(initial=NEVER))
        self._open = sessions.taken(~final)
        panes = numbers_of(table["pane"])
        remaining = table.filter(pa.array(~final[panes]))
        numbers = (np.cumsum(~final) - 1)[panes[~final[panes]]]
        self._partials = None
        if remaining.num_rows:
            self._partials = remaining.set_column(table.column_names.index("pane"), "pane", pa.array(numbers))
        if not final.any():
            return []
        return self._answer(table.filter(pa.array(final[panes])), sessions, ends, final, groups, first)

    def _cut(self, rows: KeyBatch | None) -> tuple[Ints, _Open, Ints]:
        """Return the session of the first and the last row of each open one, then of each row; sessions; their ends."""
        fresh = np.empty(0, np.int64) if rows is None else rows.positions
        codes = np.zeros(fresh.size, np.int64) if rows is None or rows.groups is None else rows.groups
        positions = np.concatenate([self._open.starts, self._open.lasts, fresh])
        groups = np.concatenate([self._open.groups, self._open.groups, codes])
        order = np.lexsort([positions, groups])  # stable: bounds of open sessions are before rows at the same position
        named, begins = np.unique(groups[order], return_index=True)
        answered = np.full(named.size, ALWAYS)
        answered[np.searchsorted(named, self._open.groups)] = self._open.lasts + 1
        # A session that starts less than a gap after the first known row may have begun before.
        since = min((start for start in self._since if start != NEVER), default=ALWAYS)
        certain = ALWAYS if since == ALWAYS else since + self._window.gap
        found = Sessions(*(np.empty(positions.size, np.int64) for _ in Sessions._fields))
        bounds = np.append(begins, order.size)
        count = cut_sessions(positions[order], bounds, answered, self._window.gap, self._window.limit, certain, found)
        owners = np.empty(positions.size, np.int64)
        owners[order] = found.owner
        lasts = np.full(count, ALWAYS)
        np.maximum.at(lasts, owners, positions)
        return owners, _Open(named[found.groups[:count]], found.starts[:count].copy(), lasts), found.ends[:count].copy()

    def _summed(self, rows: KeyBatch, owners: Ints) -> pa.Table:
        """Return the partials of rows, by session and key."""
        columns = {"pane": pa.array(owners), _KEY: rows.keys}
        if rows.items is not None:
            columns[ITEM] = rows.items
        table = pa.table(columns)
        grouping = group_rows(table, table.column_names)
        values = rows.values if self.shape.values else np.empty(0)
        ids = pa.table({_ID: rows.ids})
        summed = partial_columns(self._layout, grouping.codes, grouping.size, rows.positions, values, ids)
        samples = table.take(pa.array(grouping.samples))
        return pa.table({**{name: one(samples[name]) for name in samples.column_names}, **summed})

    def _answer(
        self, table: pa.Table, sessions: _Open, ends: Ints, final: Bools, groups: int, first: int
    ) -> list[KeyedAnswers]:
        """Pass the partials of final sessions to the engine, and return their answers with their bounds."""
        places = np.flatnonzero(final)
        order = places[np.lexsort([ends[places], sessions.groups[places]])]
        begins = np.flatnonzero(np.diff(sessions.groups[order], prepend=-2))
        numbers = np.arange(order.size) - np.repeat(begins, np.diff(begins, append=order.size))
        panes = np.full(ends.size, -1)
        panes[order] = numbers  # the sessions of a group, one after another
        owners = numbers_of(table["pane"])
        if self._unknown is not None:  # a delete is unknown if it is the only row of its key in the session
            self._unknown += int((np.isnan(numbers_of(table["latest"])) & (numbers_of(table["count"]) == 1)).sum())
        in_order = np.argsort(panes[owners], kind="stable")
        table, owners = table.take(pa.array(in_order)), owners[in_order]
        table = table.set_column(table.column_names.index("pane"), "pane", pa.array(panes[owners]))
        codes = sessions.groups[owners] if self._grouped else None
        slots = self.book.slots_of(one(table[_KEY]), codes)
        if isinstance(self.engine, ItemEngine):
            slots = self.engine.slots_of(one(table[ITEM]), slots)
        rows, addends = partials_of(self.shape, table, slots, lambda extreme: _ids_of(table, extreme))
        self.engine.take_partials(rows, addends, self.book.keys, groups, first)
        self.engine.advance(int(numbers.max()) + 1, self.book.keys, groups, first)
        found = self._answered()
        self._work = self.counters()
        self._begin_engine()
        bounds = _Bounds(panes[order], sessions.groups[order], sessions.starts[order], ends[order])
        return [self._with_bounds(part, bounds) for part in found]

    def _refuse_keys(self, table: pa.Table, ends: Ints) -> None:
        """Reject more keys in a session than a query allows, whether they are deleted or not."""
        pairs = zip(self.shape.queries, self._since, strict=True)
        limited = [(query, query.max_keys) for query, start in pairs if query.max_keys and start != NEVER]
        if not limited:
            return
        keys = group_rows(table, ["pane", _KEY]).samples
        held = np.bincount(numbers_of(table["pane"])[keys], minlength=ends.size)
        for query, most in limited:
            if (more := np.flatnonzero(held > most)).size:
                refuse_keys(query, int(ends[more[0]]), int(held[more[0]]))

    @property
    def unknown_deletes(self) -> int | None:
        """Number of deletes that are the only row of their key in a session; None if no row can delete its key."""
        return self._unknown

    def _with_bounds(self, part: KeyedAnswers, bounds: _Bounds) -> KeyedAnswers:
        """Return answers with the bounds of their sessions, without sessions that may have begun earlier."""
        windows = part.windows
        groups = windows.groups if self._grouped else np.zeros_like(windows.groups)
        span = int(bounds.panes.max()) + 1
        known = bounds.groups * span + bounds.panes
        by_number = np.argsort(known)
        at = by_number[np.searchsorted(known[by_number], groups * span + windows.ends - 1)]
        starts, ends = bounds.starts[at], bounds.ends[at]
        since = dict(zip(self.places.tolist(), self._since, strict=True))
        certain = [
            start == ALWAYS or begin >= start + self._window.gap
            for start, begin in zip(map(since.__getitem__, windows.queries.tolist()), starts.tolist(), strict=True)
        ]
        return chosen_answers(
            part._replace(windows=windows._replace(starts=starts, ends=ends)), np.array(certain, bool)
        )

    def row_ids(self) -> Ints:
        """Return the ids of the rows that later answers can return."""
        found = [np.empty(0, np.int64), *(batch.ids for batch in self._fresh)]
        if self._partials is not None and self.shape.identified:
            found += [_ids_of(self._partials, extreme) for extreme in self.shape.extremes]
        return np.concatenate(found)

    def state(self) -> dict[str, Any]:
        """Return the state for `load`."""
        rows = _concatenated(self._fresh)
        waiting = None
        if rows is not None:
            columns: dict[str, Any] = {_KEY: rows.keys, "position": rows.positions}
            columns |= {"value": rows.values} if rows.values.size else {}
            columns |= {_ID: rows.ids} if rows.ids.size else {}
            columns |= {} if rows.groups is None else {"group": rows.groups}
            columns |= {} if rows.items is None else {ITEM: rows.items}
            waiting = to_bytes(pa.table(columns))
        sessions = {
            "gap": self._window.gap,
            "limit": self._window.max_length,
            "open": self._open._asdict(),
            "partials": None if self._partials is None else to_bytes(self._partials),
            "rows": waiting,
            "watermark": self._watermark,
            "next_end": self._next_end,
            "work": self._work,
            "deletes": self._unknown,
        }
        return {"sessions": sessions}

    def load(self, state: dict[str, Any]) -> None:
        """Restore the state that `state` returned."""
        saved = state["sessions"]
        self._open = _Open(**saved["open"])
        self._partials = None if saved["partials"] is None else from_bytes(saved["partials"]).combine_chunks()
        self._watermark, self._next_end = saved["watermark"], saved["next_end"]
        self._work, self._unknown = saved["work"], saved["deletes"]
        if saved["rows"] is not None:
            table = from_bytes(saved["rows"]).combine_chunks()
            numbers = {
                name: numbers_of(table[name])
                for name in ("position", "value", _ID, "group")
                if name in table.column_names
            }
            batch = KeyBatch(
                one(table[_KEY]),
                numbers.get("value", np.empty(0)),
                numbers["position"],
                numbers.get(_ID, np.empty(0, np.int64)),
                numbers.get("group"),
                one(table[ITEM]) if ITEM in table.column_names else None,
            )
            self._fresh, self._waiting = [batch], len(batch.keys)


class _Bounds(NamedTuple):
    """Final sessions, and the panes that stand for them."""

    panes: Ints
    groups: Ints
    starts: Ints
    ends: Ints


def _of_numbers(query: AggregateTopK) -> AggregateTopK:
    """Return the query over numbered panes, each of which is a window."""
    return AggregateTopK(**{**query.to_dict(), "gap": None, "max_length": None, "size": "1 microsecond"})


def _ids_of(table: pa.Table, extreme: str) -> Ints:
    """Return the ids of the rows of an extreme."""
    found: Ints = numbers_of(column_of(table, f"{extreme}.{_ID}", -1))
    return found


def _concatenated(batches: Sequence[KeyBatch]) -> KeyBatch | None:
    """Return the rows of all batches; None if there are none."""
    if len(batches) <= 1:
        return batches[0] if batches else None
    keys = pa.concat_arrays([batch.keys for batch in batches])
    values, positions, ids = (
        np.concatenate([getattr(batch, name) for batch in batches]) for name in ("values", "positions", "ids")
    )
    groups = [batch.groups for batch in batches if batch.groups is not None]
    items = [batch.items for batch in batches if batch.items is not None]
    return KeyBatch(
        keys,
        values,
        positions,
        ids,
        np.concatenate(groups) if groups else None,
        pa.concat_arrays(items) if items else None,
    )
