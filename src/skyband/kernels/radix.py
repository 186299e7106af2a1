"""Radix sort of objects, best first: by the bits of their keys, ties by comparison."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.select import SORT_DEPTH, insertion_sort, sort_best_first
from skyband.kernels.stream import Floats, Ints

DIGIT = 8
BUCKETS = 1 << DIGIT
FEW = 48  # below this an insertion sort is faster
PLACE = np.uint64(40)  # low bits that hold an object's index, below its digits
MANY = 1 << 14  # above this, two digits leave too many objects in one bucket


class SortRoom(NamedTuple):
    """Buffers for sorting: one entry per object, and the digit counts."""

    bits: Any  # (2, capacity) uint64: keys as numbers that grow as the object gets worse
    places: Ints  # (2, capacity): the index of each object before sorting
    keys: Floats  # (capacity): for moving the objects at the end
    positions: Ints
    ids: Ints
    counts: Ints  # (8 * BUCKETS)
    waiting: Ints  # for sorting ties


def sort_room(capacity: int) -> SortRoom:
    """Return buffers for sorting `capacity` objects."""
    return SortRoom(
        np.zeros((2, capacity), np.uint64),
        np.zeros((2, capacity), np.int64),
        np.zeros(capacity),
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
            continue  # all numbers have the same digit
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
    raw, bits = keys.view(np.uint64), room.bits[0]
    top = np.uint64(1) << np.uint64(63)
    differ = np.uint64(0)
    for i in range(n):
        # + 0.0 turns -0.0 into 0.0. For positive numbers, all bits but the sign are flipped, so that a better key is a
        # smaller number. Negative numbers have this order already, after all positive ones.
        keys[i] += 0.0
        number = raw[i]
        number = number if number & top else number ^ (top - np.uint64(1))
        bits[i] = number
        differ |= number ^ bits[0]
    # The leading digits in which the keys differ sort nearly all objects; the few with equal digits are compared.
    # Digits and index are packed into one number.
    digits = 2 if n <= MANY else 3
    shift = 0
    while shift + digits * DIGIT < 64 and differ >> np.uint64(shift + digits * DIGIT) != 0:
        shift += 1
    mask = (np.uint64(1) << np.uint64(digits * DIGIT)) - np.uint64(1)
    for i in range(n):
        bits[i] = (((bits[i] >> np.uint64(shift)) & mask) << PLACE) | np.uint64(i)
    move(keys, positions, ids, n, room, sort_digits(room, n, digits))


@kernel
def sort_digits(room: SortRoom, n: int, digits: int) -> int:
    """Sort the first `n` numbers in ``bits[0]`` by `digits` digits above the index; return the half they end up in."""
    counts, mask = room.counts, np.uint64(BUCKETS - 1)
    side = 0
    for digit in range(digits):
        by = PLACE + np.uint64(digit * DIGIT)
        bits, to_bits = room.bits[side], room.bits[1 - side]
        counts[:BUCKETS] = 0
        for i in range(n):
            counts[np.int64((bits[i] >> by) & mask)] += 1
        begin = np.int64(0)
        for bucket in range(BUCKETS):
            counts[bucket], begin = begin, begin + counts[bucket]
        for i in range(n):
            mine = np.int64((bits[i] >> by) & mask)
            at = counts[mine]
            counts[mine] = at + 1
            to_bits[at] = bits[i]
        side = 1 - side
    return side


@kernel
def move(keys: Floats, positions: Ints, ids: Ints, n: int, room: SortRoom, side: int) -> None:
    """Move the objects into the sorted order of their digits, then sort objects with equal digits."""
    bits = room.bits[side]
    old_keys, old_positions, old_ids = room.keys, room.positions, room.ids
    for i in range(n):
        old_keys[i], old_positions[i], old_ids[i] = keys[i], positions[i], ids[i]
    place_mask = (np.uint64(1) << PLACE) - np.uint64(1)
    begin = 0
    for i in range(n):
        place = np.int64(bits[i] & place_mask)
        keys[i], positions[i], ids[i] = old_keys[place], old_positions[place], old_ids[place]
        if bits[i] >> PLACE != bits[begin] >> PLACE:
            if i - begin > 1:
                sort_best_first(keys, positions, ids, begin, i, room.waiting)
            begin = i
    if n - begin > 1:
        sort_best_first(keys, positions, ids, begin, n, room.waiting)
