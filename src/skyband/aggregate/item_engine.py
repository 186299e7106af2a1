"""The engine of queries that depend on each value of a key: distinct counts, estimates of them, and quantiles.

Its slots are those of *items*: the distinct values of each key, or hashes of them. A dictionary of items maps a key's
slot and a value to the slot of the item, so the partials, tracks and segments of `AggregateEngine` serve unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import pyarrow as pa

from skyband.aggregate.engine import AggregateEngine
from skyband.aggregate.kernels.items import Items
from skyband.aggregate.kernels.partials import EVERYTHING, NONE
from skyband.aggregate.kernels.registers import SCRATCH, write_codes
from skyband.aggregate.shape import AggregateShape
from skyband.data.arrow import from_bytes, one, to_bytes
from skyband.data.key_dictionary import KeyDictionary
from skyband.data.row_hash import row_hash
from skyband.kernels.stream import Ints

__all__ = ["ItemEngine", "codes_of", "engine_of"]


def engine_of(shape: AggregateShape) -> AggregateEngine:
    """Return the engine for these queries."""
    return AggregateEngine(shape) if shape.items is None else ItemEngine(shape)


def codes_of(stored: pa.Array) -> pa.Array:
    """Return the register and rank that each value has in estimates, as one integer.

    `stored` is of the type of stored keys, so a value has the same code in process and in every task.
    """
    encoded = stored.dictionary_encode()
    codes = np.empty(len(encoded.dictionary), np.int64)
    write_codes(row_hash(pa.table({"value": encoded.dictionary})).view(np.uint64), codes)
    return pa.array(codes).take(encoded.indices)


class ItemEngine(AggregateEngine):
    """Answer queries over the values of keys. `Keys` order the keys; the engine has the dictionary of their items."""

    _items: Items

    def __init__(self, shape: AggregateShape) -> None:
        super().__init__(shape)
        self.book = KeyDictionary(self.unused_items, True)  # the group of an item is the slot of its key
        self._items = self._fresh_items(0, 0)

    def copied(self, more: int) -> Self:
        """Return a copy for answers so far. Both share the dictionary of items, to which new items can be added."""
        found = super().copied(more)
        found._items = Items._make(array.copy() for array in self._items)
        return found

    def slots_of(self, values: pa.Array, keys: Ints) -> Ints:
        """Return the slots of items: the values of keys, which have these slots."""
        return self.book.slots_of(values, keys)

    def unused(self, slots: int) -> Any:
        """Return a mask of the first `slots` keys: True if a key has no item that a window needs."""
        mask = np.ones(slots, bool)
        owners = self.book.keys.groups[: self.book.slots][~self.unused_items(self.book.slots)]
        mask[owners[owners < slots]] = False
        return mask

    def unused_items(self, slots: int) -> Any:
        """Return a mask of the first `slots` items: True if no window needs the item, and its key knows that."""
        mask = super().unused(slots)
        known = min(slots, self._state.last.size)
        mask[:known] &= ~self._state.dirty[:, :known].any(axis=0)
        return mask

    def state(self) -> dict[str, Any]:
        """Return the state for `load`."""
        return {**super().state(), "items": self.saved_items()}

    def load(self, state: dict[str, Any], fetch: Callable[[int], None] | None = None) -> None:
        """Restore the state that `state` returned. What is known of keys is computed again from their items."""
        if "items" in state:
            self.load_items(state["items"])
        super().load(state, fetch)
        own = self._state
        own.dirty[:] = 0
        for track in range(own.alive.size):
            live = own.live[track, : own.alive[track]]
            own.touched[track, : live.size] = live
            own.dirty[track, live] = EVERYTHING
            own.stale[track] = live.size
        self._items = self._fresh_items(0, 0)

    def saved_items(self) -> dict[str, Any]:
        """Return the dictionary of items for `load_items`. Items that are not needed are removed."""
        book = self.book.state()
        return {**book, "values": to_bytes(pa.table({"value": self.book.values(book["slots"])}))}

    def load_items(self, saved: dict[str, Any]) -> None:
        """Restore the dictionary that `saved_items` returned."""
        self.book.load(saved, one(from_bytes(saved["values"])["value"]))

    def _reserve_slots(self, slots: int, groups: int) -> None:
        self._reserve_state(self.book.keys.prefix.size)
        self._reserve_room(slots, groups)
        size = self._state.last.size
        if self._items.last.size < slots or self._items.held.shape[1] < size:
            self._items = self._grown_items(size, slots)
        # The dictionary replaces these arrays when it grows.
        self._items = self._items._replace(owners=self.book.keys.groups, order=self.book.keys.prefix)

    def _grown_items(self, items: int, keys: int) -> Items:
        grown, old = self._fresh_items(items, keys), self._items
        for name in ("held", "before", "after", "heads", "rows", "distinct", "dirty", "scores"):
            before = getattr(old, name)
            getattr(grown, name)[:, : before.shape[1]] = before
        grown.last[: old.last.size] = old.last
        return grown

    def _fresh_items(self, items: int, keys: int) -> Items:
        tracks = len(self.shape.tracks)
        return Items(
            owners=np.zeros(0, np.int64),
            order=np.zeros(0, np.int64),
            held=np.zeros((tracks, items), np.int64),
            before=np.full((tracks, items), NONE),
            after=np.full((tracks, items), NONE),
            heads=np.full((tracks, keys), NONE),
            rows=np.zeros((tracks, keys), np.int64),
            distinct=np.zeros((tracks, keys), np.int64),
            dirty=np.zeros((tracks, keys), bool),
            last=np.full(keys, np.iinfo(np.int64).min),
            touched=np.zeros(keys, np.int64),
            scores=np.full((self._query_set.whats.size, keys), np.nan),
            numbers=np.zeros(items, np.int64),
            counts=np.zeros(items, np.int64),
            registers=np.zeros(SCRATCH, np.int64),
            fractions=np.array(self.shape.fractions),
        )
