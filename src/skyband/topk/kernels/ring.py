"""The whole window in a ring, and lists of its objects: each entry is a key and an object's number, best first.

Objects are numbered in order of arrival, so positions do not decrease as numbers grow. A list stores only the key and
the number: position and id are read from the ring if keys are equal.
"""

from __future__ import annotations

from typing import NamedTuple

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.select import BLOCK, SMALL
from skyband.kernels.stream import Floats, Ints, Rows, id_at, position_at

# Ring.span
HEAD = 0  # the number of the oldest object in the window
TAIL = 1  # one after the newest
LOOSE_POSITIONS = 2  # 0: an object's position is its number plus POSITION_BASE, and `positions` is not filled
POSITION_BASE = 3
LOOSE_IDS = 4  # the same for ids
ID_BASE = 5
SPAN = 6


class Ring(NamedTuple):
    """The objects from HEAD to TAIL: number o is stored at ``o % capacity``; the capacity is a power of two."""

    keys: Floats
    positions: Ints
    ids: Ints
    below: Ints  # for stacks of objects: the number under this one, -1 at the bottom; undefined elsewhere
    span: Ints


@inner_kernel
def position_of(ring: Ring, number: int) -> int:
    """The position of an object."""
    if ring.span[LOOSE_POSITIONS]:
        return ring.positions[number & (ring.keys.size - 1)]
    return number + ring.span[POSITION_BASE]


@inner_kernel
def id_of(ring: Ring, number: int) -> int:
    """The id of an object."""
    if ring.span[LOOSE_IDS]:
        return ring.ids[number & (ring.keys.size - 1)]
    return number + ring.span[ID_BASE]


@kernel
def ahead_of_equal(ring: Ring, a: int, b: int) -> bool:
    """Whether object number `a` ranks before object number `b`, which has the same key."""
    head = ring.span[HEAD]
    # Expired objects may be overwritten, and are before all objects that have not expired.
    if a < head or b < head or position_of(ring, a) != position_of(ring, b):
        return a > b
    if id_of(ring, a) != id_of(ring, b):
        return id_of(ring, a) > id_of(ring, b)
    return a > b


@inner_kernel
def ahead(ring: Ring, key_a: float, a: int, key_b: float, b: int) -> bool:
    """Whether object number `a` ranks before object number `b`; of two equal objects the later one ranks first."""
    # Kept small so that it is inlined into its callers; the slow path is rarely needed.
    if key_a != key_b:
        return key_a > key_b
    return ahead_of_equal(ring, a, b)


@inner_kernel
def swap_pairs(keys: Floats, numbers: Ints, a: int, b: int) -> None:
    """Swap the entries `a` and `b`."""
    keys[a], keys[b] = keys[b], keys[a]
    numbers[a], numbers[b] = numbers[b], numbers[a]


@kernel
def insertion_sort_pairs(ring: Ring, keys: Floats, numbers: Ints, low: int, high: int) -> None:
    """Sort ``[low, high)`` best first; quadratic, for short ranges."""
    for i in range(low + 1, high):
        key, number, j = keys[i], numbers[i], i
        while j > low and ahead(ring, key, number, keys[j - 1], numbers[j - 1]):
            keys[j], numbers[j] = keys[j - 1], numbers[j - 1]
            j -= 1
        keys[j], numbers[j] = key, number


@kernel
def split_pairs(ring: Ring, keys: Floats, numbers: Ints, low: int, high: int) -> int:
    """Partition ``[low, high)`` by a median of three; return p with all of ``[low, p)`` better than ``[p, high)``."""
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
    """Sort ``[low, high)`` best first; `waiting` is scratch space for ``select.SORT_DEPTH`` pairs of numbers."""
    at = low + 1
    while at < high and ahead(ring, keys[at - 1], numbers[at - 1], keys[at], numbers[at]):
        at += 1
    if at >= high:
        return  # already sorted, which is common if scores fall
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
    """Reorder the first `size` entries so that the best come first and the worst of those is at ``best - 1``."""
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
    """Sort the first `size` entries best first; the first `ordered` of them are sorted already."""
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
    """Sort the first `size` numbers in ascending order."""
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
            # [low, j] contains only numbers not above the pivot, [i, high) only numbers not below it.
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


@inner_kernel
def how_many_ahead(ring: Ring, keys: Floats, numbers: Ints, size: int, key: float, number: int) -> int:
    """Number of the first `size` entries, sorted best first, that rank before the object."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if ahead(ring, keys[middle], numbers[middle], key, number):
            low = middle + 1
        else:
            high = middle
    return low


@inner_kernel
def first_number_from(ring: Ring, low: int, position: int) -> int:
    """The number of the oldest object at or after `position`, which is not before number `low`; TAIL if there is none.

    The search begins at `low`, because it is near.
    """
    tail = ring.span[TAIL]
    if not ring.span[LOOSE_POSITIONS]:
        return min(tail, max(low, position - ring.span[POSITION_BASE]))
    mask, high, step = ring.keys.size - 1, low, 1
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
def first_number_back_to(ring: Ring, low: int, high: int, position: int) -> int:
    """The number of the oldest object of ``[low, high)`` at or after `position`, which is close to `high`."""
    mask = ring.keys.size - 1
    if not ring.span[LOOSE_POSITIONS]:
        return min(high, max(low, position - ring.span[POSITION_BASE]))
    step, at = 1, high
    while at > low and ring.positions[(at - 1) & mask] >= position:
        high = at - 1
        at = max(low, high - step)
        step *= 2
    # All objects from `high` on are at or after the position; those before `at` are not, unless `at` is `low`.
    at = max(low, at - 1)
    while at < high:
        middle = (at + high) // 2
        if ring.positions[middle & mask] < position:
            at = middle + 1
        else:
            high = middle
    return high


@kernel
def loosen(ring: Ring) -> None:
    """Fill in implicit positions and ids: from now on each object stores its own."""
    span, mask = ring.span, ring.keys.size - 1
    if not span[LOOSE_POSITIONS]:
        for number in range(span[HEAD], span[TAIL]):
            ring.positions[number & mask] = number + span[POSITION_BASE]
        span[LOOSE_POSITIONS] = 1
    if not span[LOOSE_IDS]:
        for number in range(span[HEAD], span[TAIL]):
            ring.ids[number & mask] = number + span[ID_BASE]
        span[LOOSE_IDS] = 1


@kernel
def settle_columns(ring: Ring, rows: Rows, at: int) -> None:
    """Check whether the positions and ids of rows from `at` on continue the sequence, or must be stored explicitly."""
    span = ring.span
    if span[HEAD] == span[TAIL]:
        span[LOOSE_POSITIONS] = 1 if rows.positions.size else 0
        span[LOOSE_IDS] = 1 if rows.ids.size else 0
        span[POSITION_BASE], span[ID_BASE] = rows.first_position + at - span[TAIL], rows.first_id + at - span[TAIL]
    elif (
        not span[LOOSE_POSITIONS]
        and (rows.positions.size or rows.first_position + at != span[TAIL] + span[POSITION_BASE])
    ) or (not span[LOOSE_IDS] and (rows.ids.size or rows.first_id + at != span[TAIL] + span[ID_BASE])):
        loosen(ring)


@inner_kernel
def append_rows(ring: Ring, rows: Rows, low: int, high: int) -> None:
    """Append the rows ``[low, high)``. There must be room, and `settle_columns` must have checked the first of them."""
    tail, mask = ring.span[TAIL], ring.keys.size - 1
    while low < high:
        slot = tail & mask
        length = min(high - low, ring.keys.size - slot)
        keys, new = ring.keys[slot : slot + length], rows.keys[low : low + length]
        for i in range(length):
            keys[i] = new[i]
        if ring.span[LOOSE_POSITIONS]:
            for i in range(length):
                ring.positions[slot + i] = position_at(rows, low + i)
        if ring.span[LOOSE_IDS]:
            for i in range(length):
                ring.ids[slot + i] = id_at(rows, low + i)
        low += length
        tail += length
    ring.span[TAIL] = tail


@kernel
def back_over_hopeless(values: Floats, low: int, high: int, floor: float) -> int:
    """Step back from `high` over whole blocks of the values ``[low, high)`` that are below `floor`."""
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
    """One after the newest of the objects ``[low, high)`` whose key is at or above `floor`; `low` if there is none."""
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
