"""The arrays that every kernel reads and writes: input rows, answers, and where it stopped.

A kernel runs until all rows are processed or a buffer is full, and returns which. The caller then enlarges the buffer
and calls the kernel again from where it stopped. So kernels do not allocate, and one call covers any number of windows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.kernels._jit import kernel

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# How a kernel treats equal keys. None: the total order decides, and an answer has at most k rows. TIED: rows equal to
# the k-th are included. The two have different types, so that a kernel is compiled separately for each.
Ties = int | None
TIED = 1

# Why a kernel returned.
DONE = 0  # every row is processed and every window up to the watermark is answered
ANSWERS_FULL = 1  # the answer buffers cannot hold one more answer
STATE_FULL = 2  # the engine's arrays cannot hold one more object

# Answers.cursor
WINDOWS = 0  # windows written
ROWS = 1  # rows written
GROUP = 2  # the group whose windows are being written


class Rows(NamedTuple):
    """Ranked rows in stream order; positions never go backwards and keys are never NaN."""

    keys: Floats  # the score, negated for ascending queries: higher is better
    positions: Ints  # empty: row i has the position first_position + i (count windows)
    ids: Ints  # empty: row i has the id first_id + i
    first_position: int
    first_id: int


class KernelQuery(NamedTuple):
    """One query as a kernel sees it: windows ``[end - size, end)`` with ``end = origin + i * slide``."""

    k: int
    size: int
    slide: int
    origin: int
    full_only: int  # 1: report only windows that begin at or after the stream's first object


class Queries(NamedTuple):
    """Several queries of one sharing class, as a shared engine sees them: one entry per query."""

    ks: Ints
    sizes: Ints
    slides: Ints
    origins: Ints
    full_only: Ints
    since: Ints  # the smallest window start that the query answers: a query added later skips older windows


class Answers(NamedTuple):
    """Flat output buffers: the answers window by window, best row first."""

    queries: Ints  # per window: the index of the query in the engine
    groups: Ints  # per window: the code of its group
    ends: Ints  # per window: its end
    stops: Ints  # per window: the rows written when it was complete
    keys: Floats  # per row
    ids: Ints  # per row
    cursor: Ints  # WINDOWS and ROWS written so far, and their GROUP


@kernel
def position_at(rows: Rows, i: int) -> int:
    """Return the position of row `i`."""
    return rows.positions[i] if rows.positions.size else rows.first_position + i


@kernel
def id_at(rows: Rows, i: int) -> int:
    """Return the id of row `i`."""
    return rows.ids[i] if rows.ids.size else rows.first_id + i


@kernel
def first_row_at(rows: Rows, low: int, position: int) -> int:
    """Return the first row at or after `low` whose position is at least `position`; the number of rows if none is."""
    n = rows.keys.size
    if not rows.positions.size:
        return min(n, max(low, position - rows.first_position))
    # Galloping search: the distance is usually short compared to the batch.
    step = 1
    high = low
    while high < n and rows.positions[high] < position:
        low = high + 1
        high += step
        step *= 2
    high = min(high, n)
    while low < high:
        middle = (low + high) // 2
        if rows.positions[middle] < position:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def has_room(answers: Answers, rows: int) -> bool:
    """Whether one more window with `rows` rows fits."""
    return answers.cursor[WINDOWS] < answers.ends.size and answers.cursor[ROWS] + rows <= answers.keys.size


@kernel
def write_row(answers: Answers, key: float, id_: int) -> None:
    """Add a row to the window being written."""
    at = answers.cursor[ROWS]
    answers.keys[at] = key
    answers.ids[at] = id_
    answers.cursor[ROWS] = at + 1


@kernel
def close_window(answers: Answers, query: int, end: int) -> None:
    """Complete the window whose rows were just written."""
    at = answers.cursor[WINDOWS]
    answers.queries[at] = query
    answers.groups[at] = answers.cursor[GROUP]
    answers.ends[at] = end
    answers.stops[at] = answers.cursor[ROWS]
    answers.cursor[WINDOWS] = at + 1


@kernel
def end_after(query: KernelQuery, position: int) -> int:
    """Return the smallest window end after `position`."""
    return query.origin + ((position - query.origin) // query.slide + 1) * query.slide


@kernel
def latest_start(query: KernelQuery, position: int) -> int:
    """Return the start of the newest view that contains `position`."""
    return end_after(query, position + query.size) - query.slide - query.size


@kernel
def is_reported(query: KernelQuery, end: int, first: int) -> bool:
    """Whether the window that ends at `end` is reported, given the position of the stream's first object."""
    return not query.full_only or end - query.size >= first
