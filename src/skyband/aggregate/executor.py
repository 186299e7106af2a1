"""Executor of a stream of keys and values, or of all groups of a stream: a key dictionary and an engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.aggregate.engine import EngineAnswers, KeyRows
from skyband.aggregate.followed_keys import FollowedKeys, KeysOfRows
from skyband.aggregate.item_engine import ItemEngine, codes_of, engine_of
from skyband.aggregate.shape import AggregateShape
from skyband.aggregate.window_totals import completed
from skyband.data.answer_log import RankedWindows, chosen, joined
from skyband.data.arrow import from_bytes, one, to_bytes
from skyband.data.key_dictionary import KeyDictionary
from skyband.errors import SnapshotError
from skyband.kernels.stream import Bools, Floats, Ints
from skyband.windows import ALWAYS

__all__ = ["AggregateExecutor", "KeyBatch", "KeyedAnswers", "chosen_answers", "ended_by"]

_CHUNK = 1 << 18  # rows: slots are released between chunks only, so this limits the number of slots


class KeyBatch(NamedTuple):
    """Rows in stream order."""

    keys: pa.Array
    values: Floats  # empty if all queries only count
    positions: Ints  # empty on a count axis
    ids: Ints
    groups: Ints | None  # None: no groups
    items: pa.Array | None = None  # the values that are counted, if they are not numbers
    deletes: bool = False  # whether rows can delete their keys: NaN is the value of those that do


class KeyedAnswers(NamedTuple):
    """Answers with resolved keys, so that slots can be reused."""

    windows: RankedWindows
    rows: pa.Table  # per row: the key and additional columns of the schema


def ended_by(answers: KeyedAnswers, last: Ints) -> KeyedAnswers:
    """Return the answers of windows that end at or before the last end of their query."""
    return chosen_answers(answers, answers.windows.ends <= last[answers.windows.queries])


def chosen_answers(answers: KeyedAnswers, wanted: Bools) -> KeyedAnswers:
    """Return the answers of the windows that the mask `wanted` selects."""
    if wanted.all():
        return answers
    rows = pa.array(np.repeat(wanted, answers.windows.counts))
    return KeyedAnswers(chosen(answers.windows, wanted), answers.rows.filter(rows))


class AggregateExecutor:
    """Process rows and return answers. `places` are the workload indices of its queries."""

    def __init__(self, shape: AggregateShape, places: Ints, grouped: bool, group: int = -1) -> None:
        self.engine = engine_of(shape)
        self.book = KeyDictionary(self.engine.unused, grouped)
        self.objects = 0
        self.shape = shape
        self._since = [ALWAYS] * len(shape.queries)
        self._limits = any(query.max_keys is not None for query in shape.queries)
        self._deletes = False  # whether rows can delete their keys
        self._followed: FollowedKeys | None = None  # None: no query limits its keys, and no row deletes its key
        self.places = places
        self._grouped = grouped
        self._group = group  # code of its group, -1 if it has no group or all groups

    @property
    def partials(self) -> int:
        """Number of partials held."""
        return self.engine.partials

    @property
    def keys(self) -> int:
        """Number of keys held, counting a key once for each group."""
        return len(self.book)

    @property
    def next_end(self) -> int:
        """End of the next window, NEVER if all windows are empty until more rows arrive."""
        return self.engine.next_end

    def answer_since(self, starts: Sequence[int]) -> None:
        """Set, per query, the smallest window start that is answered."""
        self._since = list(starts)
        self.engine.answer_since(starts)
        if self._followed is not None:
            self._followed.answer_since(self._since)

    @property
    def unknown_deletes(self) -> int | None:
        """Number of deletes of keys without a value; None if no row can delete its key."""
        return self._followed.unknown_deletes if self._followed is not None and self._deletes else None

    def _follow(self, deletes: bool) -> None:
        """Follow the keys from now on, if a query limits them or rows can delete them."""
        self._deletes |= deletes
        if self._followed is None and (deletes or self._limits):
            self._followed = FollowedKeys(self.shape)
            self._followed.answer_since(self._since)
            slots = self.book.state()["slots"]
            lasts = np.full(slots.size, ALWAYS) if isinstance(self.engine, ItemEngine) else self.engine.last_seen(slots)
            self._followed.begin_with(slots, lasts)

    def take_in(self, batch: KeyBatch, groups: int, first: int) -> list[KeyedAnswers]:
        """Process rows and return the answers of windows that end at or before the last row."""
        self._follow(batch.deletes)
        found = []
        for low in range(0, len(batch.keys), _CHUNK):
            keys = batch.keys.slice(low, _CHUNK)
            mine = slice(low, low + len(keys))
            slots = self.book.slots_of(keys, None if batch.groups is None else batch.groups[mine])
            ids = batch.ids[mine] if self.shape.identified else batch.ids[:0]
            if self._followed is not None:
                positions = batch.positions[mine] if batch.positions.size else self.objects + np.arange(len(keys))
                values = batch.values[mine] if batch.deletes else np.zeros(len(keys))
                ones = np.ones(len(keys), np.int64)
                self._followed.take(KeysOfRows(slots, positions, batch.ids[mine], values, ones))
            if isinstance(self.engine, ItemEngine):
                slots = self.engine.slots_of(self._items(batch, mine), slots)
            rows = KeyRows(slots, batch.positions[mine], batch.values[mine], ids, self.objects)
            self.engine.take_rows(rows, self.book.keys, groups, first)
            self.objects += len(keys)
            found += self._answered()
        return found

    def advance(self, to: int, groups: int, first: int) -> list[KeyedAnswers]:
        """Return the answers of all windows that end at or before `to`."""
        if self._followed is not None:
            self._followed.advance(to)
        self.engine.advance(to, self.book.keys, groups, first)
        return self._answered()

    def _items(self, batch: KeyBatch, mine: slice) -> pa.Array:
        """Return what is counted of the rows."""
        items = None if batch.items is None or self.shape.items == "numbers" else batch.items[mine]
        if items is None:
            items = pa.array(batch.values[mine] + 0.0)
        return codes_of(items) if self.shape.items == "hashes" else items

    def _answered(self) -> list[KeyedAnswers]:
        parts = self.engine.answers()
        if not parts:
            return []
        found = [self._completed(part) for part in parts]
        windows = joined([part.windows for part in found])
        groups = windows.groups if self._grouped else np.full_like(windows.groups, self._group)
        columns = {"key": self.book.values(windows.ids)}
        if self.shape.decay is not None:
            ends = np.repeat(windows.ends, windows.counts)
            windows = windows._replace(keys=self.shape.decay.as_of(windows.keys, ends))
        shares = np.concatenate([part.more["share"] for part in found])
        columns["share"] = pa.array(shares, mask=np.isnan(shares))
        # Always, because answers of queries with and without rows are concatenated.
        returned = np.array([query.row for query in self.shape.queries])[windows.queries]
        rows = np.concatenate([part.more["row"] for part in found])
        columns["id"] = pa.array(rows, mask=~np.repeat(returned, windows.counts))
        for name in ("error", "guaranteed"):
            if name in found[0].more:
                columns[name] = pa.array(np.concatenate([part.more[name] for part in found]))
        windows = windows._replace(queries=self.places[windows.queries], groups=groups)
        return [KeyedAnswers(windows, pa.table(columns))]

    def _completed(self, part: EngineAnswers) -> EngineAnswers:
        """Return answers with shares and the rows of other keys."""
        if not self.shape.totals:
            return part._replace(more=part.more | {"share": np.full(part.windows.keys.size, np.nan)})
        windows, shares, kept = completed(part.windows, part.held, part.addends, self.shape.queries)
        more = {name: column[kept] for name, column in part.more.items()}
        return part._replace(windows=windows, more=more | {"share": shares})

    @property
    def groups(self) -> Ints:
        """Codes of the groups with at least one key."""
        self.book.forget()
        return self.book.groups

    def counters(self) -> dict[str, int]:
        """Return counters of the work done, in partials and keys."""
        return self.engine.counters()

    def row_ids(self) -> Ints:
        """Return the ids of the rows that later answers can return."""
        found = [np.empty(0, np.int64)]

        def note(ids: Ints) -> Ints:
            found.append(ids.copy())
            return ids

        self.engine.renumber_rows(note)
        return np.concatenate(found)

    def state(self) -> dict[str, Any]:
        """Return the state for `load`."""
        book = self.book.state()
        values = to_bytes(pa.table({"key": self.book.values(book["slots"])}))
        followed = (
            {}
            if self._followed is None
            else {
                "followed": self._followed.state(book["slots"]),
                "deletes": self._deletes,
            }
        )
        return {"objects": self.objects, "book": book, "keys": values, "engine": self.engine.state(), **followed}

    def load(self, state: dict[str, Any]) -> None:
        """Restore the state that `state` returned."""
        slots = state["book"].get("size", 0)
        if slots > state["engine"]["last"].size:  # the dictionary reserves space for all slots
            raise SnapshotError(f"the state has {slots} keys, but no totals for them. Nothing was resumed.")
        self.objects = state["objects"]
        self.book.load(state["book"], one(from_bytes(state["keys"])["key"]))
        self.engine.load(state["engine"])
        if "followed" in state:
            self._deletes, self._followed = state["deletes"], FollowedKeys(self.shape)
            self._followed.answer_since(self._since)
            self._followed.load(state["followed"], state["book"]["slots"])
