"""A hash table on flat arrays: a key of two whole numbers leads to a number that is not negative.

Linear probing over a power of two of places, at most half of them taken; a key that goes is closed over, so that no
search ever passes a place for the sake of something that is gone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.stream import Ints

EMPTY = -1
_FIRST = -7046029254386353131
_SECOND = -4658895280553007687
_THIRD = -7723592293110705685


class Lookup(NamedTuple):
    """Places for keys; `found` is EMPTY where there is none."""

    keys: Ints
    marks: Ints  # the second part of a key
    found: Ints


def empty_lookup(room: int) -> Lookup:
    """A table for `room` keys."""
    places = 16
    while places < 2 * room:
        places *= 2
    return Lookup(np.zeros(places, np.int64), np.zeros(places, np.int64), np.full(places, EMPTY, np.int64))


@inner_kernel
def _home(key: int, mark: int, places: int) -> int:
    # Compiled, these numbers wrap around; otherwise they grow. Either way a key has one home.
    mixed = int(key) * _FIRST + int(mark) * _SECOND
    mixed = (mixed ^ (mixed >> 29)) * _THIRD
    return (mixed ^ (mixed >> 32)) & (places - 1)


@inner_kernel
def place_of(table: Lookup, key: int, mark: int) -> int:
    """Where the key is, or where it would be put; `found` tells which."""
    places = table.found.size
    at = _home(key, mark, places)
    while table.found[at] != EMPTY and (table.keys[at] != key or table.marks[at] != mark):
        at = (at + 1) & (places - 1)
    return at


@inner_kernel
def put(table: Lookup, at: int, key: int, mark: int, number: int) -> None:
    """Put a key at the place that `place_of` told."""
    table.keys[at] = key
    table.marks[at] = mark
    table.found[at] = number


@inner_kernel
def drop(table: Lookup, at: int) -> None:
    """Take out the key at this place, and move up those that were pushed on by it."""
    places = table.found.size
    hole = at
    step = (at + 1) & (places - 1)
    while table.found[step] != EMPTY:
        home = _home(table.keys[step], table.marks[step], places)
        # It may fill the hole only if its home does not lie after it, going round.
        if ((step - home) & (places - 1)) >= ((step - hole) & (places - 1)):
            table.keys[hole] = table.keys[step]
            table.marks[hole] = table.marks[step]
            table.found[hole] = table.found[step]
            hole = step
        step = (step + 1) & (places - 1)
    table.found[hole] = EMPTY


@kernel
def move(old: Lookup, new: Lookup) -> None:
    """Put everything from one table into another with more room."""
    for at in range(old.found.size):
        if old.found[at] != EMPTY:
            put(new, place_of(new, old.keys[at], old.marks[at]), old.keys[at], old.marks[at], old.found[at])
