"""Prune the rows of a batch: keep those that fewer than k later rows beat before the next window ends.

Only later rows count against a row: if the watermark is between two rows, the earlier one is late and is dropped.
So between two window ends, a row is pruned only if k rows at its position or later are better. If it is known from
which position on no row is late, earlier rows count against it too, unless a window begins between them.
Equal scores at one position are all kept, because the ids that order them are not known here. With ties, rows of equal
score never count against each other.
"""

from __future__ import annotations

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.stream import Bools, Floats, Ints, Ties


@kernel
def cells_of(positions: Ints, width: int, steps: Ints, counts: Ints) -> int:
    """Count sorted positions by cells of a width: write distances between cells and their rows; return the number."""
    size = 0
    cell = 0
    for position in positions:
        here = position // width
        if size == 0 or here != cell:
            steps[size] = 0 if size == 0 else here - cell
            counts[size] = 0
            cell = here
            size += 1
        counts[size - 1] += 1
    return size


@kernel
def next_end(lattices: Ints, position: int) -> int:
    """Return the first window end after `position`, over all lattices of (slide, origin)."""
    end = 2**62
    for i in range(lattices.shape[0]):
        slide, origin = lattices[i, 0], lattices[i, 1]
        end = min(end, origin + ((position - origin) // slide + 1) * slide)
    return end


@kernel
def last_start(lattices: Ints, position: int) -> int:
    """Return the last window start up to `position`, over all lattices of (slide, origin)."""
    start = -(2**62)
    for i in range(lattices.shape[0]):
        slide, origin = lattices[i, 0], lattices[i, 1]
        start = max(start, origin + (position - origin) // slide * slide)
    return start


@kernel
def sinks(key_a: float, position_a: int, key_b: float, position_b: int) -> bool:
    """Whether `a` ranks below `b` by score and position."""
    return key_a < key_b or (key_a == key_b and position_a < position_b)


@kernel
def put(keys: Floats, positions: Ints, size: int, k: int, key: float, position: int) -> int:
    """Insert a row into the heap of the k best, worst at the root; return its size. A full heap drops its root."""
    if size < k:
        at = size
        while at > 0 and sinks(key, position, keys[(at - 1) // 2], positions[(at - 1) // 2]):
            keys[at], positions[at] = keys[(at - 1) // 2], positions[(at - 1) // 2]
            at = (at - 1) // 2
        keys[at], positions[at] = key, position
        return size + 1
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and sinks(keys[child + 1], positions[child + 1], keys[child], positions[child]):
            child += 1
        if not sinks(keys[child], positions[child], key, position):
            break
        keys[at], positions[at] = keys[child], positions[child]
        at = child
    keys[at], positions[at] = key, position
    return size


@kernel
def is_beaten(key: float, position: int, ties: Ties, heap_keys: Floats, heap_positions: Ints) -> bool:
    """Whether the k best rows, of which the worst is at the root of a full heap, beat a row."""
    if ties is None:
        return sinks(key, position, heap_keys[0], heap_positions[0])
    return key < heap_keys[0]


@kernel
def mark_unbeaten(
    keys: Floats,
    positions: Ints,
    begins: Ints,
    end_lattices: Ints,
    ends: Ints,
    start_lattices: Ints,
    starts: Ints,
    k: int,
    ties: Ties,
    timely: int,
    heap_keys: Floats,
    heap_positions: Ints,
    kept: Bools,
) -> None:
    """Mark in `kept` the rows that fewer than k others beat in every window that contains them.

    Rows are in the order of group and position; `begins` has the index where each group begins. `ends` are all window
    ends between the first and the last row, and one after it; if empty, they are computed from the lattices. `starts`
    are the same for window starts, and one before the first row. From the position `timely` on no row is late.
    """
    for group in range(begins.size - 1):
        low = begins[group]
        while low < begins[group + 1]:
            first = positions[low]
            end = ends[np.searchsorted(ends, first, side="right")] if ends.size else next_end(end_lattices, first)
            high = low + 1
            while high < begins[group + 1] and positions[high] < end:
                high += 1
            if high - low <= k:
                kept[low:high] = True
                low = high
                continue
            size, i = 0, high - 1
            while i >= low and positions[i] >= timely:
                if starts.size:
                    start = starts[np.searchsorted(starts, positions[i], side="right") - 1]
                else:
                    start = last_start(start_lattices, positions[i])
                start, last = max(start, timely), i
                while i >= low and positions[i] >= start:
                    if size < k or not is_beaten(keys[i], positions[i], ties, heap_keys, heap_positions):
                        size = put(heap_keys, heap_positions, size, k, keys[i], positions[i])
                    i -= 1
                for j in range(i + 1, last + 1):
                    if size < k or not is_beaten(keys[j], positions[j], ties, heap_keys, heap_positions):
                        kept[j] = True
            while i >= low:
                if size < k or not is_beaten(keys[i], positions[i], ties, heap_keys, heap_positions):
                    kept[i] = True
                    size = put(heap_keys, heap_positions, size, k, keys[i], positions[i])
                i -= 1
            low = high


@kernel
def _add(heap: Ints, size: int, row: int, keys: Floats, positions: Ints) -> None:
    """Add a row to a heap of `size` rows with the worst one at the root."""
    at = size
    while at > 0:
        above = heap[(at - 1) // 2]
        if not sinks(keys[row], positions[row], keys[above], positions[above]):
            break
        heap[at] = above
        at = (at - 1) // 2
    heap[at] = row


@kernel
def _remove_worst(heap: Ints, size: int, keys: Floats, positions: Ints) -> None:
    """Remove the root of a heap of `size` rows."""
    row, at = heap[size - 1], 0
    while True:
        child = 2 * at + 1
        if child >= size - 1:
            break
        left, right = heap[child], heap[min(child + 1, size - 2)]
        if sinks(keys[right], positions[right], keys[left], positions[left]):
            child, left = child + 1, right
        if not sinks(keys[left], positions[left], keys[row], positions[row]):
            break
        heap[at] = left
        at = child
    heap[at] = row


@kernel
def mark_outweighed(
    keys: Floats, positions: Ints, rows: Ints, weights: Floats, needed: float, unit: int, heap: Ints, found: Bools
) -> None:
    """Mark in `found` the tuples whose later and better ones, before the next multiple of `unit`, weigh `needed`.

    `rows` maps an index in the order by position to the tuple. The heap has as few of the best later tuples as weigh
    `needed`: if a tuple is better than the worst of them, the better ones weigh less.
    """
    low, n = 0, rows.size
    while low < n:
        end = (positions[rows[low]] // unit + 1) * unit
        high = low + 1
        while high < n and positions[rows[high]] < end:
            high += 1
        size, total = 0, 0.0
        for i in range(high - 1, low - 1, -1):
            row = rows[i]
            if total >= needed and sinks(keys[row], positions[row], keys[heap[0]], positions[heap[0]]):
                found[row] = True
                continue
            if weights[row] > 0:
                _add(heap, size, row, keys, positions)
                size, total = size + 1, total + weights[row]
            while size > 0 and total - weights[heap[0]] >= needed:
                total -= weights[heap[0]]
                _remove_worst(heap, size, keys, positions)
                size -= 1
        low = high


@kernel
def newest_of_cells(positions: Ints, rows: Ints, lattices: Ints, found: Ints) -> int:
    """Write the newest position in each interval ``(start, next start]`` between window starts; return their number.

    A query that reports only full windows compares window starts with the first object. All rows of one interval give
    the same result, so the newest one represents them.
    """
    size = 0
    bound = -(2**62)
    for row in rows:
        position = positions[row]
        if size and position <= bound:
            found[size - 1] = position
            continue
        bound = next_end(lattices, position - 1)
        found[size] = position
        size += 1
    return size
