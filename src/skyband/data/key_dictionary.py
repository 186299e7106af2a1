"""Dictionary of keys: each key has a slot, a small integer. Unused keys are removed and their slots reused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.columns import as_arrow, nan_as_null
from skyband.errors import InvalidInputError
from skyband.kernels.keys import Keys
from skyband.kernels.stream import Ints

__all__ = ["TEXT", "KeyColumn", "KeyDictionary", "as_order", "from_order", "key_column", "letters_of", "restored"]

_FEW = 1024
TEXT = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


class KeyColumn(NamedTuple):
    """Keys in a form with the same order: integers, floats, text or bytes. Null if a row has no key."""

    stored: pa.Array
    kind: pa.DataType | None  # the type in answers; None: unknown, because all values are null


def key_column(column: Any, name: str = "keys", earlier: pa.DataType | None = None) -> KeyColumn:
    """Return any column as keys, of the same type as in earlier pushes. NaN is null, and -0.0 is 0.0."""
    found = _key_column(column, name)
    if None not in (earlier, found.kind) and found.kind != earlier:
        raise InvalidInputError(
            f"{name} changed type from {earlier} to {found.kind}, so one key would be counted as two; this push was "
            "rejected. Cast the column to one type."
        )
    return found


def _key_column(column: Any, name: str) -> KeyColumn:
    array = nan_as_null(as_arrow(column, name))
    kind = array.type
    if pa.types.is_null(kind):
        return KeyColumn(array, None)
    if pa.types.is_integer(kind):
        kind = kind if kind == pa.uint64() else pa.int64()
        return KeyColumn(array.cast(kind), kind)
    if pa.types.is_floating(kind):
        return KeyColumn(pc.add(array.cast(pa.float64()), 0.0), kind)
    if pa.types.is_boolean(kind):
        return KeyColumn(array.cast(pa.int64()), kind)
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        return KeyColumn(array.view(width).cast(pa.int64()), kind)
    if kind in TEXT:
        return KeyColumn(array, kind)
    raise InvalidInputError(f"{name} must be numbers, text, bytes, dates or times, got type {kind}.")


def restored(stored: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return stored keys in their original type."""
    if pa.types.is_temporal(kind) and not stored.type.equals(kind):
        return stored.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    return stored.cast(kind)


class KeyDictionary:
    """The slots of keys, or of keys per group.

    `unused` returns a mask of the slots whose keys are not needed any more. It is called when the dictionary has grown
    to twice the number of needed keys, so that its amortized cost is constant per key.
    """

    def __init__(self, unused: Callable[[int], Any], groups: bool = False) -> None:
        self.stored: pa.DataType | None = None
        self._unused = unused
        self._groups = groups
        self._slots: dict[Any, int] = {}
        self._names: list[Any] = []  # by slot: the key, or (group, key)
        self._free: list[int] = []
        self._sweep_at = _FEW
        self.keys = _keys(_FEW, 0)
        self._written = 0  # bytes in use

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._slots)

    @property
    def slots(self) -> int:
        """The number of slots, including free ones."""
        return len(self._names)

    @property
    def groups(self) -> Ints:
        """The group of each key; not distinct."""
        return self.keys.groups[np.fromiter(self._slots.values(), np.int64, len(self._slots))]

    def slots_of(self, stored: pa.Array, groups: Ints | None = None) -> Ints:
        """Return the slot of every key; new keys are added."""
        self.stored = stored.type
        encoded = stored.dictionary_encode()
        indices, distinct = encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary
        names, kinds, codes = distinct.to_pylist(), distinct, None
        if groups is not None:
            # The same key in another group is a different entry.
            pairs = pa.array(groups * max(1, len(names)) + indices).dictionary_encode()
            indices = pairs.indices.to_numpy(zero_copy_only=False)
            codes, places = np.divmod(pairs.dictionary.to_numpy(zero_copy_only=False), max(1, len(names)))
            kinds = distinct.take(pa.array(places))
            names = list(zip(codes.tolist(), kinds.to_pylist(), strict=True))
        self._sweep(len(names))
        known = self._slots
        found = np.fromiter((known.get(name, -1) for name in names), np.int64, len(names))
        fresh = np.flatnonzero(found < 0)
        if fresh.size:
            found[fresh] = self._enter(list(compress(names, found < 0)), kinds.take(pa.array(fresh)))
            if codes is not None:
                self.keys.groups[found[fresh]] = codes[fresh]
        return found[indices] if found.size else np.empty(0, np.int64)

    def forget(self) -> None:
        """Remove all keys that are not needed."""
        self._sweep_at = 0
        self._sweep(1)

    def values(self, slots: Ints) -> pa.Array:
        """Return the keys in these slots; null for negative ones."""
        distinct, places = np.unique(slots, return_inverse=True)
        names = [self._names[slot] if slot >= 0 else None for slot in distinct.tolist()]
        if self._groups:
            names = [None if name is None else name[1] for name in names]
        found = pa.array(names, self.stored or pa.int64())
        return found.take(pa.array(places))

    def state(self) -> dict[str, Any]:
        """Return the state for `load`, without the values of the keys, which `values` returns by slot.

        Unused keys are removed first. Otherwise, a dictionary that is stored and loaded with every batch would never
        double in size between two batches, and its unused keys would never be removed.
        """
        self.forget()
        slots = np.fromiter(self._slots.values(), np.int64, len(self._slots))
        return {"slots": slots, "groups": self.keys.groups[slots], "size": len(self._names)}

    def load(self, state: dict[str, Any], values: pa.Array) -> None:
        """Restore what `state` and `values` returned."""
        self.stored = values.type
        names: Sequence[Any] = values.to_pylist()
        if self._groups:
            names = list(zip(state["groups"].tolist(), names, strict=True))
        self._names = [None] * state["size"]
        self._reserve(state["size"])
        self._place(names, state["slots"], values)
        self.keys.groups[state["slots"]] = state["groups"]
        taken = set(state["slots"].tolist())
        self._free = [slot for slot in range(state["size"]) if slot not in taken]
        self._sweep_at = max(_FEW, 2 * len(taken))

    def _enter(self, names: list[Any], values: pa.Array) -> Ints:
        """Assign slots to new keys."""
        again = min(len(self._free), len(names))
        slots = [self._free.pop() for _ in range(again)]
        slots += range(len(self._names), len(self._names) + len(names) - again)
        self._names += [None] * (len(names) - again)
        self._reserve(len(self._names))
        found = np.array(slots, np.int64)
        self._place(names, found, values)
        return found

    def _place(self, names: Sequence[Any], slots: Ints, values: pa.Array) -> None:
        for name, slot in zip(names, slots.tolist(), strict=True):
            self._slots[name] = slot
            self._names[slot] = name
        if values.type not in TEXT:
            self.keys.prefix[slots] = as_order(values)
            return
        letters, begins, lengths = letters_of(values)
        self._write(letters)
        self.keys.begins[slots] = begins + self._written
        self.keys.lengths[slots] = lengths
        self.keys.prefix[slots] = _prefixes(letters, begins, lengths)
        self._written += letters.size

    def _write(self, letters: Any) -> None:
        old = self.keys.letters
        if self._written + letters.size > old.size:
            # Drop the bytes of removed keys before the buffer grows.
            mine = np.fromiter(self._slots.values(), np.int64, len(self._slots))
            sizes = self.keys.lengths[mine]
            begins = np.cumsum(sizes) - sizes
            used = int(sizes.sum())
            fresh = np.zeros(2 * (used + letters.size) + _FEW, np.uint8)
            source = np.repeat(self.keys.begins[mine] - begins, sizes) + np.arange(used)
            fresh[:used] = old[source]
            self.keys.begins[mine] = begins
            self._written = used
            self.keys = self.keys._replace(letters=fresh)
        self.keys.letters[self._written : self._written + letters.size] = letters

    def _sweep(self, more: int) -> None:
        """Remove unused keys if `more` keys would double the size since the last removal."""
        if len(self._slots) + more <= self._sweep_at:
            return
        unused = self._unused(len(self._names))
        for slot in np.flatnonzero(unused).tolist():
            name = self._names[slot]
            if name is not None:
                del self._slots[name]
                self._names[slot] = None
                self._free.append(slot)
                self.keys.lengths[slot] = 0
        self._sweep_at = max(_FEW, 2 * (len(self._slots) + more))

    def _reserve(self, slots: int) -> None:
        size = self.keys.prefix.size
        if slots > size:
            grown = _keys(max(slots, 2 * size), 0)
            for name in ("prefix", "begins", "lengths", "groups"):
                getattr(grown, name)[:size] = getattr(self.keys, name)
            self.keys = grown._replace(letters=self.keys.letters)


def _keys(slots: int, letters: int) -> Keys:
    zeros = [np.zeros(slots, np.int64) for _ in range(4)]
    return Keys(zeros[0], zeros[1], zeros[2], np.zeros(letters, np.uint8), zeros[3])


def as_order(values: pa.Array) -> Ints:
    """Return numbers as int64 in the same order."""
    numbers = values.to_numpy(zero_copy_only=False)
    if numbers.dtype == np.uint64:
        numbers = (numbers ^ np.uint64(1 << 63)).view(np.int64)
    if numbers.dtype == np.float64:
        bits = np.ascontiguousarray(numbers).view(np.int64)
        numbers = bits ^ ((bits >> 63) & np.int64(2**63 - 1))
    return np.asarray(numbers, np.int64)


def from_order(numbers: Ints, kind: pa.DataType) -> pa.Array:
    """Return the keys that `as_order` was called with, as they are stored for answers of type `kind`.

    >>> from_order(as_order(pa.array([-1.5, 2.0])), pa.float64()).to_pylist()
    [-1.5, 2.0]
    """
    if kind == pa.uint64():
        return pa.array(numbers.view(np.uint64) ^ np.uint64(1 << 63))
    if pa.types.is_floating(kind):
        return pa.array((numbers ^ ((numbers >> 63) & np.int64(2**63 - 1))).view(np.float64))
    return pa.array(numbers)


def letters_of(values: pa.Array) -> tuple[Any, Ints, Ints]:
    """Return the bytes of texts, and where each begins and its length. UTF-8 bytes sort like the characters."""
    wide = values.cast(pa.large_binary())
    buffers = wide.buffers()
    offsets = np.frombuffer(buffers[1], np.int64, len(wide) + 1, 8 * wide.offset)
    data = np.frombuffer(buffers[2] or b"", np.uint8)
    return data[offsets[0] : offsets[-1]], offsets[:-1] - offsets[0], np.diff(offsets)


def _prefixes(letters: Any, begins: Ints, lengths: Ints) -> Ints:
    """Return the first eight bytes of each text as an int64 in the same order."""
    found = np.zeros(begins.size, np.uint64)
    for place in range(8):
        there = lengths > place
        found[there] |= letters[begins[there] + place].astype(np.uint64) << np.uint64(56 - 8 * place)
    return (found ^ np.uint64(1 << 63)).view(np.int64)
