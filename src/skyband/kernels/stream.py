"""What every kernel reads and writes: rows in, answers out, and where it stopped.

A kernel works until its rows are used up or until it lacks room, and says which; its caller makes room and calls
again from where it stopped. So no kernel allocates, and one call crosses any number of windows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.kernels._jit import kernel

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# What equal keys mean to a kernel. None: the total order decides, and the k best are k. TIED: all that equal the k-th
# are in. The two are of different types, so that a kernel is compiled for each, and neither pays for the other.
Ties = int | None
TIED = 1

# Why a kernel came back.
DONE = 0  # every row is taken in and every window up to the watermark is answered
ANSWERS_FULL = 1  # the answer buffers cannot hold one more answer
STATE_FULL = 2  # the engine's arrays cannot hold one more object

# Answers.cursor
WINDOWS = 0  # windows written
ROWS = 1  # rows written
GROUP = 2  # the group whose windows are being written


class Rows(NamedTuple):
    """Ranked rows in stream order; positions never go backwards and keys are never NaN."""

    keys: Floats  # the score, negated for ascending queries: higher is better
    positions: Ints  # empty: row i stands at first_position + i (count windows)
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
    """Several queries of one sharing class, as a shared engine sees them: one entry a query."""

    ks: Ints
    sizes: Ints
    slides: Ints
    origins: Ints
    full_only: Ints
    since: (
        Ints  # the smallest window start that the query answers for: a query added later has no part in older windows
    )


class Answers(NamedTuple):
    """Flat buffers that answers are written to, window after window, best row first."""

    queries: Ints  # per window: which query of the engine it answers
    groups: Ints  # per window: whose it is
    ends: Ints  # per window: where it ends
    stops: Ints  # per window: the rows written when it was complete
    keys: Floats  # per row
    ids: Ints  # per row
    cursor: Ints  # WINDOWS and ROWS written so far, and their GROUP


@kernel
def position_at(rows: Rows, i: int) -> int:
    """The position of row `i`."""
    return rows.positions[i] if rows.positions.size else rows.first_position + i


@kernel
def id_at(rows: Rows, i: int) -> int:
    """The id of row `i`."""
    return rows.ids[i] if rows.ids.size else rows.first_id + i


@kernel
def first_row_at(rows: Rows, low: int, position: int) -> int:
    """The first row at or after `low` whose position is at least `position` (the number of rows if there is none)."""
    n = rows.keys.size
    if not rows.positions.size:
        return min(n, max(low, position - rows.first_position))
    # Gallop: the stretch is usually short against the batch.
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
    """The smallest window end beyond `position`."""
    return query.origin + ((position - query.origin) // query.slide + 1) * query.slide


@kernel
def latest_start(query: KernelQuery, position: int) -> int:
    """The start of the youngest view that holds `position`."""
    return end_after(query, position + query.size) - query.slide - query.size


@kernel
def is_reported(query: KernelQuery, end: int, first: int) -> bool:
    """Whether the window that ends at `end` is to be reported, given the position of the stream's first object."""
    return not query.full_only or end - query.size >= first
