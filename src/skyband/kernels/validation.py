"""Checks and splits applied to every batch, one pass each."""

from __future__ import annotations

import numpy as np

from skyband.kernels._jit import allocating_kernel, kernel
from skyband.kernels.stream import Floats, Ints

_BLOCK = 512  # rows: compared several at a time, and one by one only if two of them are equal
_NEGATIVE_ZERO = -(2**63)  # the bytes of -0.0 as an integer


@kernel
def count_nan(scores: Floats) -> int:
    """Return the number of NaN scores."""
    found = 0
    for i in range(scores.size):
        found += scores[i] != scores[i]
    return found


@kernel
def first_backwards(positions: Ints, last: int) -> int:
    """Return the first row with a smaller position than the row before it (or than `last`); -1 if there is none."""
    n = positions.size
    if n == 0:
        return -1
    if positions[0] < last:
        return 0
    falls = 0
    for i in range(1, n):
        falls += positions[i] < positions[i - 1]
    if falls == 0:
        return -1
    for i in range(1, n):
        if positions[i] < positions[i - 1]:
            return i
    return -1


@allocating_kernel
def rows_by_group(codes: Ints, groups: int) -> tuple[Ints, Ints]:
    """Return the rows of each group in stream order, group by group, and where each group's rows begin."""
    begins = np.zeros(groups + 1, np.int64)
    for i in range(codes.size):
        begins[codes[i] + 1] += 1
    for group in range(groups):
        begins[group + 1] += begins[group]
    at = begins[:-1].copy()
    rows = np.empty(codes.size, np.int64)
    for i in range(codes.size):
        rows[at[codes[i]]] = i
        at[codes[i]] += 1
    return rows, begins


@kernel
def has_negative_zero(bits: Ints) -> bool:
    """Whether one of the numbers is -0.0; `bits` are their bytes as integers."""
    found = 0
    for i in range(bits.size):
        found += bits[i] == _NEGATIVE_ZERO
    return found > 0


@kernel
def count_shared(positions: Ints, low: int, high: int) -> int:
    """Return how many of the rows ``[low, high)`` have the position of the row before them; `low` is at least 1."""
    now, before = positions[low:high], positions[low - 1 : high - 1]
    found = 0
    for i in range(now.size):
        found += now[i] == before[i]
    return found


@allocating_kernel
def shared_positions(positions: Ints, begins: Ints) -> tuple[Ints, Ints]:
    """Return the rows that share their position with another row of their group, and a number for each position.

    Positions are sorted by group; the rows of a group begin at its entry in `begins`.
    """
    found = 0
    for group in range(begins.size - 1):
        found += count_shared(positions, begins[group] + 1, begins[group + 1])
    places, runs = np.empty(2 * found, np.int64), np.empty(2 * found, np.int64)
    size = run = 0
    for group in range(begins.size - 1):
        for low in range(begins[group] + 1, begins[group + 1], _BLOCK):
            high = min(low + _BLOCK, begins[group + 1])
            if found == 0 or count_shared(positions, low, high) == 0:
                continue
            for i in range(low, high):
                if positions[i] != positions[i - 1]:
                    continue
                if size == 0 or places[size - 1] != i - 1:
                    run += 1
                    places[size], runs[size] = i - 1, run
                    size += 1
                places[size], runs[size] = i, run
                size += 1
    return places[:size].copy(), runs[:size].copy()
