"""Sorting many objects best first in linear time: by the bits of their keys, ties by comparison."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.select import SORT_DEPTH, insertion_sort, sort_best_first
from skyband.kernels.stream import Floats, Ints

DIGIT = 8
BUCKETS = 1 << DIGIT
FEW = 48  # below this an insertion sort is faster


class SortRoom(NamedTuple):
    """What sorting needs beside the objects: room for as many as are sorted, and the counts of the digits."""

    bits: Any  # (2, capacity) uint64: keys as numbers that grow as the object gets worse
    places: Ints  # (2, capacity): where each object stood before
    positions: Ints  # (capacity): for moving the objects at the end
    ids: Ints
    counts: Ints  # (8 * BUCKETS)
    waiting: Ints  # for sorting ties


def sort_room(capacity: int) -> SortRoom:
    """Room for sorting `capacity` objects."""
    return SortRoom(
        np.zeros((2, capacity), np.uint64),
        np.zeros((2, capacity), np.int64),
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int64),
        np.zeros(8 * BUCKETS, np.int64),
        np.zeros(2 * SORT_DEPTH, np.int64),
    )


@kernel
def sort_bits(room: SortRoom, n: int) -> int:
    """Sort the first `n` numbers in ``bits[0]`` and their places in ``places[0]``; return the half they end up in."""
    counts = room.counts
    counts[:] = 0
    for i in range(n):
        number = room.bits[0, i]
        for digit in range(8):
            counts[digit * BUCKETS + np.int64((number >> np.uint64(digit * DIGIT)) & np.uint64(BUCKETS - 1))] += 1
    side = 0
    for digit in range(8):
        base, shift = digit * BUCKETS, np.uint64(digit * DIGIT)
        first = base + np.int64((room.bits[side, 0] >> shift) & np.uint64(BUCKETS - 1))
        if counts[first] == n:
            continue  # all agree in this digit
        begin = np.int64(0)
        for bucket in range(base, base + BUCKETS):
            counts[bucket], begin = begin, begin + counts[bucket]
        bits, places = room.bits[side], room.places[side]
        to_bits, to_places = room.bits[1 - side], room.places[1 - side]
        for i in range(n):
            mine = base + np.int64((bits[i] >> shift) & np.uint64(BUCKETS - 1))
            at = counts[mine]
            counts[mine] = at + 1
            to_bits[at] = bits[i]
            to_places[at] = places[i]
        side = 1 - side
    return side


@kernel
def radix_sort(keys: Floats, positions: Ints, ids: Ints, n: int, room: SortRoom) -> None:
    """Sort the first `n` objects best first."""
    if n < FEW:
        insertion_sort(keys, positions, ids, 0, n)
        return
    raw = keys.view(np.uint64)
    top = np.uint64(1) << np.uint64(63)
    for i in range(n):
        # + 0.0 makes -0.0 the same bits as 0.0. Of positive numbers all bits but the sign are flipped: then the better
        # is the smaller number. Negative ones are in that order as they are, after all positive ones.
        keys[i] += 0.0
        room.bits[0, i] = raw[i] if raw[i] & top else raw[i] ^ (top - np.uint64(1))
        room.places[0, i] = i
    move(keys, positions, ids, n, room, sort_bits(room, n))


@kernel
def move(keys: Floats, positions: Ints, ids: Ints, n: int, room: SortRoom, side: int) -> None:
    """Put the objects where their bits have been sorted to, then sort those with equal keys among themselves."""
    top = np.uint64(1) << np.uint64(63)
    raw = keys.view(np.uint64)
    for i in range(n):
        room.positions[i] = positions[room.places[side, i]]
        room.ids[i] = ids[room.places[side, i]]
    for i in range(n):
        number = room.bits[side, i]
        raw[i] = number if number & top else number ^ (top - np.uint64(1))
        positions[i] = room.positions[i]
        ids[i] = room.ids[i]
    begin = 0
    for i in range(1, n + 1):
        if i == n or keys[i] != keys[begin]:
            if i - begin > 1:
                sort_best_first(keys, positions, ids, begin, i, room.waiting)
            begin = i
