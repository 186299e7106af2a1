"""A hash table on flat arrays that maps a pair of integers to a non-negative integer.

Linear probing; the capacity is a power of two and at most half of it is used. Deletion moves later entries back instead
of leaving tombstones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.stream import Ints

EMPTY = -1
_FIRST = 0x9E3779B97F4A7C15
_SECOND = 0xBF58476D1CE4E5B9
_THIRD = 0x94D049BB133111EB
_HALF, _LOW = np.uint64(32), np.uint64(2**32 - 1)


class Lookup(NamedTuple):
    """The entries of the table; `found` is EMPTY for a free entry."""

    keys: Ints
    marks: Ints  # the second part of a key
    found: Ints


def empty_lookup(room: int) -> Lookup:
    """Return an empty table for `room` keys."""
    places = 16
    while places < 2 * room:
        places *= 2
    return Lookup(np.zeros(places, np.int64), np.zeros(places, np.int64), np.full(places, EMPTY, np.int64))


@inner_kernel
def _product(number: Any, factor: Any) -> Any:
    """Return the product modulo 2**64, from halves whose products do not overflow.

    The compiler assumes that products of signed numbers never overflow, and NumPy warns about those of unsigned ones.
    """
    low, high, factor_low = number & _LOW, number >> _HALF, factor & _LOW
    least = low * factor_low
    most = (least >> _HALF) + ((low * (factor >> _HALF)) & _LOW) + ((high * factor_low) & _LOW)
    return ((most & _LOW) << _HALF) | (least & _LOW)


@inner_kernel
def _home(key: int, mark: int, places: int) -> int:
    """Return the index where a key belongs, if it is free. Stored states contain tables, so it must not change."""
    one, two = _product(np.uint64(key), np.uint64(_FIRST)), _product(np.uint64(mark), np.uint64(_SECOND))
    mixed = (one >> _HALF) + (two >> _HALF) + (((one & _LOW) + (two & _LOW)) >> _HALF)
    mixed = ((mixed & _LOW) << _HALF) | (((one & _LOW) + (two & _LOW)) & _LOW)
    mixed = _product(mixed ^ np.uint64(np.int64(mixed) >> 29), np.uint64(_THIRD))
    found: Any = np.int64(mixed ^ np.uint64(np.int64(mixed) >> 32)) & (places - 1)
    return found


@inner_kernel
def place_of(table: Lookup, key: int, mark: int) -> int:
    """Return the index of the key, or the free index for it, where `found` is EMPTY."""
    places = table.found.size
    at = _home(key, mark, places)
    while table.found[at] != EMPTY and (table.keys[at] != key or table.marks[at] != mark):
        at = (at + 1) & (places - 1)
    return at


@inner_kernel
def put(table: Lookup, at: int, key: int, mark: int, number: int) -> None:
    """Store a key at the index that `place_of` returned."""
    table.keys[at] = key
    table.marks[at] = mark
    table.found[at] = number


@inner_kernel
def drop(table: Lookup, at: int) -> None:
    """Delete the key at this index and move displaced keys back."""
    places = table.found.size
    hole = at
    step = (at + 1) & (places - 1)
    while table.found[step] != EMPTY:
        home = _home(table.keys[step], table.marks[step], places)
        # An entry may fill the hole only if its home is not after the hole, modulo the capacity.
        if ((step - home) & (places - 1)) >= ((step - hole) & (places - 1)):
            table.keys[hole] = table.keys[step]
            table.marks[hole] = table.marks[step]
            table.found[hole] = table.found[step]
            hole = step
        step = (step + 1) & (places - 1)
    table.found[hole] = EMPTY


@kernel
def move(old: Lookup, new: Lookup) -> None:
    """Copy all entries into a larger table."""
    for at in range(old.found.size):
        if old.found[at] != EMPTY:
            put(new, place_of(new, old.keys[at], old.marks[at]), old.keys[at], old.marks[at], old.found[at])
