"""Expand per-window values to per-row columns of the answer table, one pass each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skyband.kernels._jit import kernel
from skyband.kernels.stream import Floats, Ints


@kernel
def in_order(ends: Ints, queries: Ints, groups: Ints, ranks: Ints) -> bool:
    """Whether windows are sorted by end, query and the rank of their group; ``ranks[-1]`` is the rank of no group."""
    for i in range(1, ends.size):
        if ends[i] < ends[i - 1]:
            return False
        if ends[i] == ends[i - 1]:
            if queries[i] < queries[i - 1]:
                return False
            if queries[i] == queries[i - 1] and ranks[groups[i]] < ranks[groups[i - 1]]:
                return False
    return True


@kernel
def gather(windows: Ints, begins: Ints, counts: Ints, keys: Floats, ids: Ints, to_keys: Floats, to_ids: Ints) -> None:
    """Copy the rows of `windows`, one window after another."""
    at = 0
    for window in windows:
        begin = begins[window]
        for i in range(counts[window]):
            to_keys[at + i] = keys[begin + i]
            to_ids[at + i] = ids[begin + i]
        at += counts[window]


@kernel
def fill_bounds(ends: Ints, sizes: Ints, queries: Ints, counts: Ints, to_starts: Ints, to_ends: Ints) -> None:
    """Write the bounds of each row's window; `sizes` are the window sizes of the queries."""
    at = 0
    for window in range(ends.size):
        end = ends[window]
        start = end - sizes[queries[window]]
        for i in range(at, at + counts[window]):
            to_starts[i] = start
            to_ends[i] = end
        at += counts[window]


@kernel
def fill_ranks(counts: Ints, to_ranks: Ints) -> None:
    """Write the rank of each row: 1, 2, … in every window."""
    at = 0
    for window in range(counts.size):
        for i in range(counts[window]):
            to_ranks[at + i] = i + 1
        at += counts[window]


@kernel
def fill_tied_ranks(counts: Ints, keys: Floats, tied: Ints, to_ranks: Ints) -> None:
    """Write the rank of each row; equal keys share a rank (1, 1, 3, …) in the windows that `tied` marks with 1.

    `counts` and `tied` have an entry for each window, `keys` and `to_ranks` one for each row, best first in each
    window.
    """
    at = 0
    for window in range(counts.size):
        for i in range(at, at + counts[window]):
            shared = tied[window] and i > at and keys[i] == keys[i - 1]
            to_ranks[i] = to_ranks[i - 1] if shared else i - at + 1
        at += counts[window]


@kernel
def fill_names(
    queries: Ints,
    counts: Ints,
    begins: Ints,
    letters: NDArray[np.uint8],
    to_offsets: NDArray[np.int32],
    to_letters: NDArray[np.uint8],
) -> None:
    """Write the query name of each row in Arrow's text layout; query q has ``letters[begins[q]:begins[q + 1]]``."""
    row, at = 0, 0
    for window in range(queries.size):
        begin = begins[queries[window]]
        length = begins[queries[window] + 1] - begin
        for _ in range(counts[window]):
            to_offsets[row] = at
            for i in range(length):
                to_letters[at + i] = letters[begin + i]
            row += 1
            at += length
    to_offsets[row] = at


@kernel
def fill_scores(keys: Floats, queries: Ints, counts: Ints, ascending: Ints, to_scores: Floats) -> None:
    """Write the score of each row: the key, negated for ascending queries."""
    at = 0
    for window in range(counts.size):
        if ascending[queries[window]]:
            for i in range(at, at + counts[window]):
                to_scores[i] = 0.0 - keys[i]  # a score of 0.0 has the key -0.0 and becomes 0.0 again
        else:
            for i in range(at, at + counts[window]):
                to_scores[i] = keys[i]
        at += counts[window]


@kernel
def number_distinct(rows: Ints, numbers: Ints, distinct: Ints, places: NDArray[np.int32]) -> int:
    """Number rows by first occurrence: write the distinct ones and the number of each; return how many there are.

    `numbers` has an entry for every row that can occur, all -1; they are -1 again afterwards.
    """
    size = 0
    for i in range(rows.size):
        row = rows[i]
        if numbers[row] < 0:
            numbers[row] = size
            distinct[size] = row
            size += 1
        places[i] = numbers[row]
    for i in range(size):
        numbers[distinct[i]] = -1
    return size
