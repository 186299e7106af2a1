"""The slots of items: of numbers in a compiled hash table, of text in a `KeyDictionary`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.aggregate.kernels.item_table import FREE, TAKEN, USED, enter_items, fill_table
from skyband.aggregate.kernels.partials import NONE
from skyband.data.key_dictionary import TEXT, KeyDictionary, as_order, from_order
from skyband.kernels.stream import Ints

__all__ = ["ItemDictionary", "NumberDictionary"]

_FEW = 1024


class NumberDictionary:
    """The slots of numbers per key. `unused` returns a mask of the slots that are not needed any more."""

    def __init__(self, unused: Callable[[int], Any]) -> None:
        self.stored: pa.DataType = pa.int64()
        self.owners = np.zeros(_FEW, np.int64)
        self.numbers = np.zeros(_FEW, np.int64)
        self._unused = unused
        self._used = np.zeros(_FEW, bool)
        self._free = np.zeros(_FEW, np.int64)
        self._table = np.full(4 * _FEW, NONE)
        self._counters = np.zeros(3, np.int64)
        self._sweep_at = _FEW

    def __len__(self) -> int:
        """Return the number of items."""
        return int(self._counters[USED] - self._counters[FREE])

    @property
    def slots(self) -> int:
        """The number of slots, including free ones."""
        return int(self._counters[USED])

    def slots_of(self, stored: pa.Array, keys: Ints) -> Ints:
        """Return the slot of every item; new ones are added."""
        self.stored = stored.type
        values, found = np.array(as_order(stored)), np.empty(keys.size, np.int64)
        self._counters[TAKEN] = 0
        while True:
            enter_items(
                self._table, self.owners, self.numbers, self._used, self._free, self._counters, keys, values, found
            )
            if self._counters[TAKEN] == keys.size:
                return found
            self._grow(2 * self.owners.size)

    def sweep(self) -> None:
        """Remove items that are not needed, if there are twice as many as after the last removal.

        Slots must not be removed while rows are between this dictionary and the engine, so this comes before rows.
        """
        if len(self) > self._sweep_at:
            self.forget()

    def forget(self) -> None:
        """Remove all items that are not needed."""
        slots = self.slots
        gone = np.flatnonzero(self._unused(slots) & self._used[:slots])
        free = int(self._counters[FREE])
        self._free[free : free + gone.size] = gone
        self._counters[FREE] += gone.size
        self._used[gone] = False
        if gone.size:
            fill_table(self._table, self.owners, self.numbers, self._used, slots)
        self._sweep_at = max(_FEW, 2 * len(self))

    def values(self, slots: Ints) -> pa.Array:
        """Return the numbers in these slots."""
        return from_order(self.numbers[slots], self.stored)

    def state(self) -> dict[str, Any]:
        """Return the state for `load`, without the numbers. Items that are not needed are removed."""
        self.forget()
        slots = np.flatnonzero(self._used)
        return {"slots": slots, "groups": self.owners[slots], "size": self.slots}

    def load(self, state: dict[str, Any], values: pa.Array) -> None:
        """Restore what `state` and `values` returned."""
        self.stored = values.type
        slots, size = state["slots"], int(state["size"])
        if size > self.owners.size:
            self._grow(1 << (size - 1).bit_length())
        self.owners[slots], self.numbers[slots] = state["groups"], as_order(values)
        self._used[:] = False
        self._used[slots] = True
        free = np.flatnonzero(~self._used[:size])
        self._free[: free.size] = free
        self._counters[:] = size, free.size, 0
        fill_table(self._table, self.owners, self.numbers, self._used, size)
        self._sweep_at = max(_FEW, 2 * len(self))

    def _grow(self, size: int) -> None:
        before, slots = self.owners.size, self.slots
        for name in ("owners", "numbers", "_used", "_free"):
            grown = np.zeros(size, getattr(self, name).dtype)
            grown[:before] = getattr(self, name)
            setattr(self, name, grown)
        self._table = np.full(4 * size, NONE)
        fill_table(self._table, self.owners, self.numbers, self._used, slots)


class ItemDictionary:
    """The slots of items of one type: numbers, which include dates and codes, or text."""

    def __init__(self, unused: Callable[[int], Any]) -> None:
        self._unused = unused
        self._numbers: NumberDictionary | None = None
        self._texts = KeyDictionary(unused, True)

    def slots_of(self, stored: pa.Array, keys: Ints) -> Ints:
        """Return the slots of items: the values of keys, which have these slots."""
        if stored.type in TEXT:
            return self._texts.slots_of(stored, keys)
        if self._numbers is None:
            self._numbers = NumberDictionary(self._unused)
        self._numbers.sweep()
        return self._numbers.slots_of(stored, keys)

    @property
    def slots(self) -> int:
        """The number of slots, including free ones."""
        return self._texts.slots if self._numbers is None else self._numbers.slots

    @property
    def owners(self) -> Ints:
        """The slot of each item's key. Replaced when the dictionary grows."""
        return self._texts.keys.groups if self._numbers is None else self._numbers.owners

    @property
    def order(self) -> Ints:
        """The number that each item is, as an integer in the same order."""
        return self._texts.keys.prefix if self._numbers is None else self._numbers.numbers

    def state(self) -> dict[str, Any]:
        """Return the state for `load`, without the values. Items that are not needed are removed."""
        return (self._texts if self._numbers is None else self._numbers).state()

    def values(self, slots: Ints) -> pa.Array:
        """Return the values in these slots."""
        return (self._texts if self._numbers is None else self._numbers).values(slots)

    def load(self, state: dict[str, Any], values: pa.Array) -> None:
        """Restore what `state` and `values` returned."""
        if values.type in TEXT:
            self._texts.load(state, values)
            return
        self._numbers = NumberDictionary(self._unused)
        self._numbers.load(state, values)
