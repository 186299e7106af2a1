"""Keys of any type: in a form with the same order, and in a dictionary that gives each key a slot, a small integer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.columns import as_arrow, nan_as_null
from skyband.data.slot_dictionary import NumberDictionary, SlotDictionary, TextDictionary
from skyband.errors import InvalidInputError
from skyband.kernels.keys import Keys
from skyband.kernels.stream import Ints

__all__ = ["TEXT", "KeyColumn", "KeyDictionary", "key_column", "restored"]

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
    """The slots of keys, or of keys per group: one dictionary for numbers or for texts, as the first keys are.

    `unused` returns a mask of the slots whose keys are not needed any more.
    """

    def __init__(self, unused: Callable[[int], Any], groups: bool = False) -> None:
        self._unused = unused
        self._groups = groups
        self._book: SlotDictionary = NumberDictionary(unused)

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._book)

    @property
    def slots(self) -> int:
        """The number of slots, including free ones."""
        return self._book.slots

    @property
    def keys(self) -> Keys:
        """The keys by slot, for kernels. Its arrays are replaced when the dictionary grows."""
        return self._book.keys

    @property
    def groups(self) -> Ints:
        """The group of each key; not distinct."""
        return self._book.owners[self._book.in_use]

    def slots_of(self, stored: pa.Array, groups: Ints | None = None) -> Ints:
        """Return the slot of every key; new keys are added. Keys that are not needed can be removed before."""
        if len(stored):
            self._adopt(stored.type)
        return self._book.slots_of(stored, groups if self._groups else None)

    def forget(self) -> None:
        """Remove all keys that are not needed."""
        self._book.forget()

    def values(self, slots: Ints) -> pa.Array:
        """Return the keys in these slots; null for negative ones."""
        return self._book.values(slots)

    def state(self) -> dict[str, Any]:
        """Return the state for `load`, without the values of the keys, which `values` returns by slot."""
        return self._book.state()

    def load(self, state: dict[str, Any], values: pa.Array) -> None:
        """Restore what `state` and `values` returned."""
        self._book = self._fresh(values.type)
        self._book.load(state, values)

    def _fresh(self, stored: pa.DataType) -> SlotDictionary:
        return TextDictionary(self._unused) if stored in TEXT else NumberDictionary(self._unused)

    def _adopt(self, stored: pa.DataType) -> None:
        """Continue with keys of a type. Texts have the same bytes in all their types, but numbers do not."""
        before = self._book.stored
        if before is None or before == stored or (before in TEXT and stored in TEXT):
            if before is None and stored in TEXT:
                self._book = self._fresh(stored)
            return
        self._book.forget()
        if len(self._book):
            raise InvalidInputError(
                f"keys changed type from {before} to {stored}, so one key would be counted as two. Cast the column to "
                "one type."
            )
        self._book = self._fresh(stored)
