"""Dictionaries of numbers and of texts: each value of an owner has a slot, which is used again after its removal."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.data.arrow import kernel_array
from skyband.kernels.keys import Keys
from skyband.kernels.slot_table import (
    FREE,
    TAKEN,
    USED,
    WRITTEN,
    SlotTable,
    Texts,
    copy_texts,
    empty_entries,
    enter_numbers,
    enter_texts,
    hash_texts,
    move_entries,
    put_slots,
)
from skyband.kernels.stream import Ints

__all__ = ["NumberDictionary", "SlotDictionary", "TextDictionary", "as_order", "from_order", "letters_of"]

_FEW = 1024
_MOST = 2**32 - 1  # an entry has 32 bits for the slot
_BYTES = 65  # at least, per slot: its entries, owner, number or place of its text, and whether it is free


class SlotDictionary:
    """The slots of values of one type. `unused` returns a mask of the slots that are not needed any more.

    Values that are not needed are removed when there are twice as many as after the last removal, so the amortized
    cost of a removal is constant per value.
    """

    def __init__(self, unused: Callable[[int], Any]) -> None:
        self.stored: pa.DataType | None = None
        self._unused = unused
        self._table = _table(_FEW)
        self._sweep_at = _FEW

    def __len__(self) -> int:
        """Return the number of values."""
        return int(self._table.counters[USED] - self._table.counters[FREE])

    @property
    def slots(self) -> int:
        """The number of slots, including free ones."""
        return int(self._table.counters[USED])

    @property
    def in_use(self) -> Ints:
        """The slots of all values, ascending."""
        found: Ints = np.flatnonzero(self._table.used)
        return found

    @property
    def owners(self) -> Ints:
        """The owner of each slot's value. Replaced when the dictionary grows."""
        return self._table.owners

    @property
    def keys(self) -> Keys:
        """The values in their order, for kernels, by slot. The owners are the groups."""
        raise NotImplementedError

    def slots_of(self, stored: pa.Array, owners: Ints | None = None) -> Ints:
        """Return the slot of every value; new values are added. `owners` has the owner of each, None: all have 0.

        Values that are not needed can be removed before, but not between this and the next call.
        """
        if len(self) > self._sweep_at:
            self.forget()
        found = np.empty(len(stored), np.int64)
        if not found.size:
            return found
        self.stored = stored.type
        enter = self._entering(stored, np.empty(0, np.int64) if owners is None else owners, found)
        self._table.counters[TAKEN] = 0
        while True:
            enter()
            if self._table.counters[TAKEN] == found.size:
                return found
            self._make_room()

    def forget(self) -> None:
        """Remove all values that are not needed."""
        slots, table = self.slots, self._table
        gone = np.flatnonzero(self._unused(slots) & table.used[:slots])
        if gone.size:
            free = int(table.counters[FREE])
            table.free[free : free + gone.size] = gone
            table.counters[FREE] += gone.size
            table.used[gone] = False
            self._table = table._replace(entries=np.zeros_like(table.entries))
            move_entries(table.entries, table.used, self._table.entries)
        self._sweep_at = max(_FEW, 2 * len(self))

    def values(self, slots: Ints) -> pa.Array:
        """Return the values in these slots; null for negative ones."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """Return the state for `load`, without the values, which `values` returns by slot.

        Unused values are removed first. Otherwise, a dictionary that is stored and loaded with every batch would never
        double in size between two batches, and its unused values would never be removed.
        """
        self.forget()
        slots = self.in_use
        return {"slots": slots, "groups": self._table.owners[slots], "size": self.slots}

    def load(self, state: dict[str, Any], values: pa.Array) -> None:
        """Restore what `state` and `values` returned."""
        slots, size = np.asarray(state["slots"], np.int64), int(state["size"])
        if slots.size and not 0 <= slots.min() <= slots.max() < size:
            raise ValueError(f"slots from {slots.min()} to {slots.max()} of a dictionary with {size}")
        places = max(_FEW, 1 << (size - 1).bit_length()) if size > 0 else _FEW
        if not 0 <= size <= _MOST or _BYTES * places > _memory():
            raise ValueError(f"a dictionary with {size} slots, which needs more memory than this machine has")
        self.stored = values.type
        self._table = _table(places)
        self._reserve()
        table = self._table
        table.owners[slots], table.used[slots] = state["groups"], True
        free = np.flatnonzero(~table.used[:size])
        table.free[: free.size] = free
        table.counters[:3] = size, free.size, 0
        put_slots(table, slots, self._placed(slots, values))
        self._sweep_at = max(_FEW, 2 * len(self))

    def _entering(self, stored: pa.Array, owners: Ints, found: Ints) -> Callable[[], None]:
        """Return a function that enters rows until space is missing."""
        raise NotImplementedError

    def _placed(self, slots: Ints, values: pa.Array) -> Ints:
        """Store values in slots, and return the numbers of their entries."""
        raise NotImplementedError

    def _reserve(self) -> None:
        """Reserve space for the values of all slots of the table."""
        raise NotImplementedError

    def _make_room(self) -> None:
        """Double the number of slots."""
        before = self._table
        size = before.owners.size
        grown = _table(2 * size)
        for name in ("owners", "used", "free"):
            getattr(grown, name)[:size] = getattr(before, name)
        grown.counters[:] = before.counters
        move_entries(before.entries, grown.used, grown.entries)
        self._table = grown
        self._reserve()


class NumberDictionary(SlotDictionary):
    """The slots of numbers, which include dates and times."""

    def __init__(self, unused: Callable[[int], Any]) -> None:
        super().__init__(unused)
        self.numbers = np.zeros(_FEW, np.int64)  # per slot: an integer in the same order
        self._nothing = np.zeros(_FEW, np.int64)

    @property
    def keys(self) -> Keys:
        """The numbers in their order, for kernels, by slot."""
        return Keys(self.numbers, self._nothing, self._nothing, np.zeros(0, np.uint8), self.owners)

    def values(self, slots: Ints) -> pa.Array:
        """Return the numbers in these slots; null for negative ones."""
        return from_order(self.numbers[slots], self.stored or pa.int64(), slots < 0)

    def _entering(self, stored: pa.Array, owners: Ints, found: Ints) -> Callable[[], None]:
        numbers = np.ascontiguousarray(as_order(stored))
        numbers = numbers if numbers.flags.writeable else numbers.copy()
        return lambda: enter_numbers(self._table, self.numbers, owners, numbers, found)

    def _placed(self, slots: Ints, values: pa.Array) -> Ints:
        self.numbers[slots] = as_order(values)
        return self.numbers[slots]

    def _reserve(self) -> None:
        self.numbers = _extended(self.numbers, self.owners.size)
        self._nothing = np.zeros(self.owners.size, np.int64)


class TextDictionary(SlotDictionary):
    """The slots of texts and bytes. UTF-8 bytes sort like the characters."""

    def __init__(self, unused: Callable[[int], Any]) -> None:
        super().__init__(unused)
        self._seed = secrets.randbits(62)  # so that no stream can be made of texts with equal hashes
        self._texts = Texts(np.zeros(8 * _FEW, np.uint8), *(np.zeros(_FEW, np.int64) for _ in range(3)))

    @property
    def keys(self) -> Keys:
        """The texts in their order, for kernels, by slot."""
        letters, begins, lengths, prefix = self._texts
        return Keys(prefix, begins, lengths, letters, self.owners)

    def values(self, slots: Ints) -> pa.Array:
        """Return the texts in these slots; null for negative ones."""
        is_null = slots < 0
        letters = np.empty(int(self._texts.lengths[slots[~is_null]].sum()), np.uint8)
        offsets = np.zeros(slots.size + 1, np.int64)
        copy_texts(self._texts, slots, letters, offsets[1:])
        valid = pa.array(~is_null).buffers()[1] if is_null.any() else None
        buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(letters)]
        found = pa.Array.from_buffers(pa.large_binary(), slots.size, buffers)
        return found.cast(self.stored or pa.string())

    def _entering(self, stored: pa.Array, owners: Ints, found: Ints) -> Callable[[], None]:
        letters, begins, lengths = letters_of(stored)
        return lambda: enter_texts(self._table, self._texts, owners, letters, begins, lengths, self._seed, found)

    def _placed(self, slots: Ints, values: pa.Array) -> Ints:
        letters, begins, lengths = letters_of(values)
        self._texts = self._texts._replace(letters=np.concatenate([letters, np.zeros(8 * _FEW, np.uint8)]))
        self._texts.begins[slots], self._texts.lengths[slots] = begins, lengths
        self._table.counters[WRITTEN] = letters.size
        hashes = np.empty(slots.size, np.int64)
        hash_texts(self._texts, slots, self._seed, hashes)
        return hashes

    def _reserve(self) -> None:
        rest = (_extended(column, self.owners.size) for column in self._texts[1:])
        self._texts = Texts(self._texts.letters, *rest)

    def _make_room(self) -> None:
        """Double the number of slots or of bytes. The bytes of removed texts are dropped first."""
        counters = self._table.counters
        if not counters[FREE] and counters[USED] == self.owners.size:
            super()._make_room()
            return
        slots = self.in_use
        lengths = self._texts.lengths[slots]
        used = int(lengths.sum())
        size = self._texts.letters.size
        letters = np.zeros(size if counters[WRITTEN] - used >= size // 2 else 2 * size, np.uint8)
        ends = np.zeros(slots.size, np.int64)
        copy_texts(self._texts, slots, letters, ends)
        self._texts.begins[slots] = ends - lengths
        self._texts = self._texts._replace(letters=letters)
        counters[WRITTEN] = used


def as_order(values: pa.Array) -> Ints:
    """Return numbers as int64 in the same order."""
    numbers = values.to_numpy(zero_copy_only=False)
    if numbers.dtype == np.uint64:
        numbers = (numbers ^ np.uint64(1 << 63)).view(np.int64)
    if numbers.dtype == np.float64:
        bits = np.ascontiguousarray(numbers).view(np.int64)
        numbers = bits ^ ((bits >> 63) & np.int64(2**63 - 1))
    return np.asarray(numbers, np.int64)


def from_order(numbers: Ints, kind: pa.DataType, is_null: Any = None) -> pa.Array:
    """Return the keys that `as_order` was called with, as they are stored for answers of type `kind`.

    >>> from_order(as_order(pa.array([-1.5, 2.0])), pa.float64()).to_pylist()
    [-1.5, 2.0]
    """
    found: Any = numbers
    if kind == pa.uint64():
        found = numbers.view(np.uint64) ^ np.uint64(1 << 63)
    elif pa.types.is_floating(kind):
        found = (numbers ^ ((numbers >> 63) & np.int64(2**63 - 1))).view(np.float64)
    return pa.array(found, mask=is_null)


def letters_of(values: pa.Array) -> tuple[Any, Ints, Ints]:
    """Return the bytes of texts, and where each begins and its length. UTF-8 bytes sort like the characters."""
    wide = values.cast(pa.large_binary())
    buffers = wide.buffers()
    offsets = np.frombuffer(buffers[1], np.int64, len(wide) + 1, 8 * wide.offset)
    first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    data = buffers[2] if size else pa.py_buffer(b"")
    letters = kernel_array(pa.Array.from_buffers(pa.uint8(), size, [None, data], offset=first if size else 0))
    return letters, offsets[:-1] - offsets[0], np.diff(offsets)


def _table(slots: int) -> SlotTable:
    return SlotTable(
        entries=empty_entries(slots),
        owners=np.zeros(slots, np.int64),
        used=np.zeros(slots, bool),
        free=np.zeros(slots, np.int64),
        counters=np.zeros(4, np.int64),
    )


def _memory() -> int:
    """Return the bytes of memory of this machine, or an upper bound of them."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not available on this system
        return 2**48


def _extended(array: Any, size: int) -> Any:
    grown = np.zeros(size, array.dtype)
    grown[: array.size] = array
    return grown
