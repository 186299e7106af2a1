"""Select and sort objects in the parallel arrays ``keys, positions, ids``, best first."""

from __future__ import annotations

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.order import beats
from skyband.kernels.stream import Floats, Ints

SORT_DEPTH = 64
BLOCK = 64  # rows rejected at a time
SMALL = 16  # below this an insertion sort is faster than another split


def empty_waiting() -> Ints:
    """Return the stack buffer for `sort_best_first`."""
    return np.zeros(2 * SORT_DEPTH, np.int64)


@kernel
def swap(keys: Floats, positions: Ints, ids: Ints, a: int, b: int) -> None:
    """Exchange objects `a` and `b`."""
    keys[a], keys[b] = keys[b], keys[a]
    positions[a], positions[b] = positions[b], positions[a]
    ids[a], ids[b] = ids[b], ids[a]


@kernel
def insertion_sort(keys: Floats, positions: Ints, ids: Ints, low: int, high: int) -> None:
    """Sort ``[low, high)`` best first; quadratic, for short ranges."""
    for i in range(low + 1, high):
        key, position, id_ = keys[i], positions[i], ids[i]
        j = i
        while j > low and beats(key, position, id_, keys[j - 1], positions[j - 1], ids[j - 1]):
            keys[j], positions[j], ids[j] = keys[j - 1], positions[j - 1], ids[j - 1]
            j -= 1
        keys[j], positions[j], ids[j] = key, position, id_


@kernel
def split(keys: Floats, positions: Ints, ids: Ints, low: int, high: int) -> int:
    """Partition ``[low, high)`` around a median of three; return p with ``[low, p)`` all better than ``[p, high)``.

    Both parts are non-empty for two objects or more, because no two objects are equal in the total order.
    """
    middle, last = (low + high) // 2, high - 1
    if beats(keys[middle], positions[middle], ids[middle], keys[low], positions[low], ids[low]):
        swap(keys, positions, ids, low, middle)
    if beats(keys[last], positions[last], ids[last], keys[low], positions[low], ids[low]):
        swap(keys, positions, ids, low, last)
    if beats(keys[last], positions[last], ids[last], keys[middle], positions[middle], ids[middle]):
        swap(keys, positions, ids, middle, last)
    key, position, id_ = keys[middle], positions[middle], ids[middle]
    i, j = low, last
    while True:
        while beats(keys[i], positions[i], ids[i], key, position, id_):
            i += 1
        while beats(key, position, id_, keys[j], positions[j], ids[j]):
            j -= 1
        if i >= j:
            return max(i, low + 1)
        swap(keys, positions, ids, i, j)
        i += 1
        j -= 1


@kernel
def sort_best_first(keys: Floats, positions: Ints, ids: Ints, low: int, high: int, waiting: Ints) -> None:
    """Sort ``[low, high)`` best first; `waiting` has room for SORT_DEPTH pairs of numbers."""
    # The shorter part is sorted first, so that the stack holds at most one part for each bit of the size.
    depth = 0
    while True:
        while high - low > SMALL:
            cut = split(keys, positions, ids, low, high)
            if cut - low < high - cut:
                waiting[2 * depth], waiting[2 * depth + 1] = cut, high
                high = cut
            else:
                waiting[2 * depth], waiting[2 * depth + 1] = low, cut
                low = cut
            depth += 1
        insertion_sort(keys, positions, ids, low, high)
        if depth == 0:
            return
        depth -= 1
        low, high = waiting[2 * depth], waiting[2 * depth + 1]


@kernel
def bring_best_forward(keys: Floats, positions: Ints, ids: Ints, size: int, k: int) -> None:
    """Reorder the first `size` objects so that the k best come first and the k-th is at ``k - 1``."""
    low, high = 0, size
    while high - low > SMALL:
        cut = split(keys, positions, ids, low, high)
        if k <= cut:
            high = cut
        else:
            low = cut
    insertion_sort(keys, positions, ids, low, high)


@kernel
def bring_ties_forward(keys: Floats, positions: Ints, ids: Ints, size: int, k: int) -> int:
    """After `bring_best_forward`, move all objects with the key of the k-th behind the k best; return their number."""
    best = k
    for i in range(k, size):
        if keys[i] == keys[k - 1]:
            swap(keys, positions, ids, best, i)
            best += 1
    return best


@kernel
def highest(values: Floats, size: int, rank: int) -> float:
    """Return the `rank`-th highest of the first `size` values, which are reordered."""
    low, high = 0, size - 1
    at = rank - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if at <= j:
            high = j
        elif at >= i:
            low = i
        else:
            break
    return values[at]


@kernel
def skip_hopeless(values: Floats, low: int, high: int, floor: float) -> int:
    """Return the start of the first block of ``[low, high)`` with a value of at least `floor`, or of the remainder."""
    # Indices into a slice are not negative, and the sum has no branch, so this compiles to vector instructions.
    part = values[low:high]
    for block in range(part.size // BLOCK):
        hopeful = 0
        for j in range(BLOCK):
            hopeful += part[BLOCK * block + j] >= floor
        if hopeful:
            return low + BLOCK * block
    return low + part.size // BLOCK * BLOCK
