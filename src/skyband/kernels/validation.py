"""Checks and splits applied to every batch, one pass each."""

from __future__ import annotations

import numpy as np

from skyband.kernels._jit import allocating_kernel, kernel
from skyband.kernels.stream import Floats, Ints


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


@allocating_kernel
def shared_positions(positions: Ints, begins: Ints) -> tuple[Ints, Ints]:
    """Return the rows that share their position with another row of their group, and a number for each position.

    Positions are sorted by group; the rows of a group begin at its entry in `begins`.
    """
    found = 0
    for group in range(begins.size - 1):
        for i in range(begins[group] + 1, begins[group + 1]):
            found += positions[i] == positions[i - 1]
    places, runs = np.empty(2 * found, np.int64), np.empty(2 * found, np.int64)
    size = run = 0
    for group in range(begins.size - 1):
        for i in range(begins[group] + 1, begins[group + 1]):
            if found == 0:
                break
            if positions[i] != positions[i - 1]:
                continue
            if size == 0 or places[size - 1] != i - 1:
                run += 1
                places[size], runs[size] = i - 1, run
                size += 1
            places[size], runs[size] = i, run
            size += 1
    return places[:size].copy(), runs[:size].copy()
