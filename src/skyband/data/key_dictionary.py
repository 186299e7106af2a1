"""Keys of any kind as slots, which are small numbers; what is not needed any more is forgotten, its slot used again."""

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

__all__ = ["KeyColumn", "KeyDictionary", "key_column", "restored"]

_FEW = 1024
_TEXT = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


class KeyColumn(NamedTuple):
    """Keys in a form that has their order: whole numbers, floats, text or bytes. Null where a row has none."""

    stored: pa.Array
    kind: pa.DataType | None  # as answers give them back; None: there is no value that would tell


def key_column(column: Any, name: str = "keys", earlier: pa.DataType | None = None) -> KeyColumn:
    """Any column as keys, of the kind that those of earlier pushes were of. NaN is no key, and -0.0 is 0.0."""
    found = _key_column(column, name)
    if None not in (earlier, found.kind) and found.kind != earlier:
        raise InvalidInputError(
            f"{name} are of type {found.kind} and those of earlier pushes of type {earlier}; a key would be told apart "
            "from itself. Cast the column to one type."
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
    if kind in _TEXT:
        return KeyColumn(array, kind)
    raise InvalidInputError(
        f"{name} are of type {kind}; they are compared with each other, so they must be numbers, text, bytes, dates or "
        "times."
    )


def restored(stored: pa.Array, kind: pa.DataType) -> pa.Array:
    """Keys of the kind that they came in."""
    if pa.types.is_temporal(kind) and not stored.type.equals(kind):
        return stored.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    return stored.cast(kind)


class KeyDictionary:
    """Knows the slots of keys, or of keys in groups.

    `unused` tells which slots hold a key that nothing refers to any more; it is asked when the book has grown to twice
    what was needed last time, so that looking costs less than the growing did.
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
        self._written = 0  # of the letters

    def __len__(self) -> int:
        """How many keys are known."""
        return len(self._slots)

    @property
    def slots(self) -> int:
        """How many slots there are, free ones too."""
        return len(self._names)

    @property
    def groups(self) -> Ints:
        """The groups of the keys known, each perhaps several times."""
        return self.keys.groups[np.fromiter(self._slots.values(), np.int64, len(self._slots))]

    def slots_of(self, stored: pa.Array, groups: Ints | None = None) -> Ints:
        """The slot of every key; new keys get one."""
        self.stored = stored.type
        encoded = stored.dictionary_encode()
        indices, distinct = encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary
        names, kinds, codes = distinct.to_pylist(), distinct, None
        if groups is not None:
            # A key is another one in another group.
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
        """Forget all keys that are not needed."""
        self._sweep_at = 0
        self._sweep(1)

    def values(self, slots: Ints) -> pa.Array:
        """The keys in these slots."""
        distinct, places = np.unique(slots, return_inverse=True)
        names = [self._names[slot] for slot in distinct.tolist()]
        found = pa.array([name[1] for name in names] if self._groups else names, self.stored or pa.int64())
        return found.take(pa.array(places))

    def state(self) -> dict[str, Any]:
        """Everything that `load` needs, the values of the keys apart: those of `values`, by slot.

        Keys that are not needed are forgotten first. A book that is stored and loaded with every batch would never
        grow to twice what it had when it was loaded, and never look.
        """
        self.forget()
        slots = np.fromiter(self._slots.values(), np.int64, len(self._slots))
        return {"slots": slots, "groups": self.keys.groups[slots], "size": len(self._names)}

    def load(self, state: dict[str, Any], values: pa.Array) -> None:
        """Go on from what `state` and `values` returned."""
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
        """Give new keys a slot each."""
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
        if values.type not in _TEXT:
            self.keys.prefix[slots] = _as_order(values)
            return
        letters, begins, lengths = _letters(values)
        self._write(letters)
        self.keys.begins[slots] = begins + self._written
        self.keys.lengths[slots] = lengths
        self.keys.prefix[slots] = _prefixes(letters, begins, lengths)
        self._written += letters.size

    def _write(self, letters: Any) -> None:
        old = self.keys.letters
        if self._written + letters.size > old.size:
            # What forgotten keys have left behind goes before more room is taken.
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
        """Forget keys that are not needed, if the book could outgrow what was needed twice over."""
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


def _as_order(values: pa.Array) -> Ints:
    """Numbers as whole numbers in the same order."""
    numbers = values.to_numpy(zero_copy_only=False)
    if numbers.dtype == np.uint64:
        numbers = (numbers ^ np.uint64(1 << 63)).view(np.int64)
    if numbers.dtype == np.float64:
        bits = np.ascontiguousarray(numbers).view(np.int64)
        numbers = bits ^ ((bits >> 63) & np.int64(2**63 - 1))
    return np.asarray(numbers, np.int64)


def _letters(values: pa.Array) -> tuple[Any, Ints, Ints]:
    """The bytes of texts, where each begins, and how many it has. The order of UTF-8 is that of the characters."""
    wide = values.cast(pa.large_binary())
    buffers = wide.buffers()
    offsets = np.frombuffer(buffers[1], np.int64, len(wide) + 1, 8 * wide.offset)
    data = np.frombuffer(buffers[2] or b"", np.uint8)
    return data[offsets[0] : offsets[-1]], offsets[:-1] - offsets[0], np.diff(offsets)


def _prefixes(letters: Any, begins: Ints, lengths: Ints) -> Ints:
    """The first eight bytes as one number in the same order."""
    found = np.zeros(begins.size, np.uint64)
    for place in range(8):
        there = lengths > place
        found[there] |= letters[begins[there] + place].astype(np.uint64) << np.uint64(56 - 8 * place)
    return (found ^ np.uint64(1 << 63)).view(np.int64)
