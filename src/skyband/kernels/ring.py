"""The whole window in a ring, and lists of its objects: each a key and the number of an object, best first.

Objects are numbered as they come, so that positions never fall as numbers grow. A list needs no more than the key and
the number: position and id are looked up in the ring where keys are equal.
"""

from __future__ import annotations

from typing import NamedTuple

from skyband.kernels._jit import kernel
from skyband.kernels.select import BLOCK, SMALL
from skyband.kernels.stream import Floats, Ints, Rows

# Ring.span
HEAD = 0  # the number of the oldest object held
TAIL = 1  # one past the newest


class Ring(NamedTuple):
    """The objects from HEAD to TAIL: number o lies at ``o % capacity``, a power of two."""

    keys: Floats
    positions: Ints
    ids: Ints
    below: Ints  # for stacks of objects: the number under this one, -1 at the bottom; meaningless elsewhere
    span: Ints


@kernel
def ahead(ring: Ring, key_a: float, a: int, key_b: float, b: int) -> bool:
    """Whether object number `a` ranks before object number `b`; of two equal in everything the later does."""
    if key_a != key_b:
        return key_a > key_b
    head, mask = ring.span[HEAD], ring.keys.size - 1
    # What has expired may be overwritten, and stands before whatever has not.
    if a < head or b < head or ring.positions[a & mask] != ring.positions[b & mask]:
        return a > b
    if ring.ids[a & mask] != ring.ids[b & mask]:
        return ring.ids[a & mask] > ring.ids[b & mask]
    return a > b


@kernel
def swap_pairs(keys: Floats, numbers: Ints, a: int, b: int) -> None:
    """Exchange the entries `a` and `b`."""
    keys[a], keys[b] = keys[b], keys[a]
    numbers[a], numbers[b] = numbers[b], numbers[a]


@kernel
def insertion_sort_pairs(ring: Ring, keys: Floats, numbers: Ints, low: int, high: int) -> None:
    """Sort ``[low, high)`` best first; quadratic, for short stretches."""
    for i in range(low + 1, high):
        key, number, j = keys[i], numbers[i], i
        while j > low and ahead(ring, key, number, keys[j - 1], numbers[j - 1]):
            keys[j], numbers[j] = keys[j - 1], numbers[j - 1]
            j -= 1
        keys[j], numbers[j] = key, number


@kernel
def split_pairs(ring: Ring, keys: Floats, numbers: Ints, low: int, high: int) -> int:
    """Cut ``[low, high)`` around a median of three; return p with ``[low, p)`` all better than ``[p, high)``."""
    middle, last = (low + high) // 2, high - 1
    if ahead(ring, keys[middle], numbers[middle], keys[low], numbers[low]):
        swap_pairs(keys, numbers, low, middle)
    if ahead(ring, keys[last], numbers[last], keys[low], numbers[low]):
        swap_pairs(keys, numbers, low, last)
    if ahead(ring, keys[last], numbers[last], keys[middle], numbers[middle]):
        swap_pairs(keys, numbers, middle, last)
    key, number = keys[middle], numbers[middle]
    i, j = low, last
    while True:
        while ahead(ring, keys[i], numbers[i], key, number):
            i += 1
        while ahead(ring, key, number, keys[j], numbers[j]):
            j -= 1
        if i >= j:
            return max(i, low + 1)
        swap_pairs(keys, numbers, i, j)
        i += 1
        j -= 1


@kernel
def sort_pairs(ring: Ring, keys: Floats, numbers: Ints, low: int, high: int, waiting: Ints) -> None:
    """Sort ``[low, high)`` best first; `waiting` is room for ``select.SORT_DEPTH`` pairs of numbers."""
    depth = 0
    while True:
        while high - low > SMALL:
            cut = split_pairs(ring, keys, numbers, low, high)
            if cut - low < high - cut:
                waiting[2 * depth], waiting[2 * depth + 1] = cut, high
                high = cut
            else:
                waiting[2 * depth], waiting[2 * depth + 1] = low, cut
                low = cut
            depth += 1
        insertion_sort_pairs(ring, keys, numbers, low, high)
        if depth == 0:
            return
        depth -= 1
        low, high = waiting[2 * depth], waiting[2 * depth + 1]


@kernel
def bring_best_pairs_forward(ring: Ring, keys: Floats, numbers: Ints, size: int, best: int) -> None:
    """Reorder the first `size` entries so that the best come first and the last of those stands at ``best - 1``."""
    low, high = 0, size
    while high - low > SMALL:
        cut = split_pairs(ring, keys, numbers, low, high)
        if best <= cut:
            high = cut
        else:
            low = cut
    insertion_sort_pairs(ring, keys, numbers, low, high)


@kernel
def bring_in_order(
    ring: Ring,
    keys: Floats,
    numbers: Ints,
    ordered: int,
    size: int,
    work_keys: Floats,
    work_numbers: Ints,
    waiting: Ints,
) -> None:
    """Sort the first `size` entries best first, of which the first `ordered` are in order already."""
    if ordered == size:
        return
    sort_pairs(ring, keys, numbers, ordered, size, waiting)
    if ordered == 0 or not ahead(ring, keys[ordered], numbers[ordered], keys[ordered - 1], numbers[ordered - 1]):
        return
    late = size - ordered
    for i in range(late):
        work_keys[i], work_numbers[i] = keys[ordered + i], numbers[ordered + i]
    i, j, at = ordered - 1, late - 1, size - 1
    while j >= 0:
        if i >= 0 and ahead(ring, work_keys[j], work_numbers[j], keys[i], numbers[i]):
            keys[at], numbers[at] = keys[i], numbers[i]
            i -= 1
        else:
            keys[at], numbers[at] = work_keys[j], work_numbers[j]
            j -= 1
        at -= 1


@kernel
def sort_numbers(numbers: Ints, size: int, waiting: Ints) -> None:
    """Sort the first `size` numbers, the smallest first."""
    depth, low, high = 0, 0, size
    while True:
        while high - low > SMALL:
            pivot, i, j = numbers[(low + high) // 2], low, high - 1
            while i <= j:
                while numbers[i] < pivot:
                    i += 1
                while numbers[j] > pivot:
                    j -= 1
                if i <= j:
                    numbers[i], numbers[j] = numbers[j], numbers[i]
                    i += 1
                    j -= 1
            # [low, j] is done with what is not above the pivot, [i, high) with what is not below it.
            if j + 1 - low < high - i:
                waiting[2 * depth], waiting[2 * depth + 1] = i, high
                high = j + 1
            else:
                waiting[2 * depth], waiting[2 * depth + 1] = low, j + 1
                low = i
            depth += 1
        for i in range(low + 1, high):
            number, j = numbers[i], i
            while j > low and numbers[j - 1] > number:
                numbers[j] = numbers[j - 1]
                j -= 1
            numbers[j] = number
        if depth == 0:
            return
        depth -= 1
        low, high = waiting[2 * depth], waiting[2 * depth + 1]


@kernel
def how_many_ahead(ring: Ring, keys: Floats, numbers: Ints, size: int, key: float, number: int) -> int:
    """How many of the first `size` entries, which come best first, rank before the object."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if ahead(ring, keys[middle], numbers[middle], key, number):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def first_number_at(ring: Ring, position: int) -> int:
    """The number of the oldest object at or after `position`; TAIL if there is none."""
    mask, tail = ring.keys.size - 1, ring.span[TAIL]
    low = high = ring.span[HEAD]
    step = 1
    while high < tail and ring.positions[high & mask] < position:
        low = high + 1
        high += step
        step *= 2
    high = min(high, tail)
    while low < high:
        middle = (low + high) // 2
        if ring.positions[middle & mask] < position:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def append_rows(ring: Ring, rows: Rows, low: int, high: int) -> None:
    """Add the rows ``[low, high)``, for which there must be room."""
    tail, mask = ring.span[TAIL], ring.keys.size - 1
    while low < high:
        slot = tail & mask
        length = min(high - low, ring.keys.size - slot)
        for i in range(length):
            ring.keys[slot + i] = rows.keys[low + i]
        if rows.positions.size:
            for i in range(length):
                ring.positions[slot + i] = rows.positions[low + i]
        else:
            for i in range(length):
                ring.positions[slot + i] = rows.first_position + low + i
        if rows.ids.size:
            for i in range(length):
                ring.ids[slot + i] = rows.ids[low + i]
        else:
            for i in range(length):
                ring.ids[slot + i] = rows.first_id + low + i
        low += length
        tail += length
    ring.span[TAIL] = tail


@kernel
def back_over_hopeless(values: Floats, low: int, high: int, floor: float) -> int:
    """Step back from `high` over whole blocks of the values ``[low, high)`` that lie below `floor`."""
    while high - low >= BLOCK:
        part = values[high - BLOCK : high]
        hopeful = 0
        for j in range(BLOCK):
            hopeful += part[j] >= floor
        if hopeful:
            return high
        high -= BLOCK
    return high


@kernel
def after_last_hopeful(ring: Ring, low: int, high: int, floor: float) -> int:
    """One past the newest of the objects ``[low, high)`` whose key is at or above `floor`; `low` if there is none."""
    keys, mask = ring.keys, ring.keys.size - 1
    if high <= low or keys[(high - 1) & mask] >= floor:
        return max(low, high)
    while high > low:
        top = ((high - 1) & mask) + 1
        bottom = max(0, top - (high - low))
        at = back_over_hopeless(keys, bottom, top, floor)
        until = max(bottom, at - BLOCK)
        while at > until and not keys[at - 1] >= floor:
            at -= 1
        high -= top - at
        if at > until:
            return high
    return low
