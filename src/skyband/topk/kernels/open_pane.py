"""The open pane, which receives new objects: its k best, selected with a threshold (the bar).

Objects of one pane enter and leave every window together, so only its k best can be in an answer. The pane collects up
to 2k objects and then keeps the better half. From then on the k-th object is the bar, and most new objects are rejected
by it in blocks of 64. With ties, the pane also keeps all objects equal to the k-th, and the next cut happens when the
pane has doubled in size.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.order import beats
from skyband.kernels.select import BLOCK, bring_best_forward, bring_ties_forward, highest, skip_hopeless
from skyband.kernels.stream import Floats, Ints, Rows, Ties, id_at, position_at

# OpenPane.registers
SIZE = 0  # objects held
SELECTED = 1  # 1 after the pane has been cut to its k best: the k-th is then the bar
CUT_AT = 2  # with ties: number of objects at which the pane is cut next, if that is more than 2k
MISSES = 3  # number of panes without an estimate after the last one that was too high
WAIT = 4  # how many of them are left
REGISTERS = 5

MOST_MISSES = 63
HINTED = 3  # the bar of at least this many times k rows is estimated from the last pane, if that is possible,
LONG = 8  # and else, of at least this many times k rows, from a sample
LEAST_SAMPLED = 512  # rows: fewer are not sampled
SAMPLE = 2048  # maximum number of rows in the sample
LINE = 8  # rows per cache line
MOST_SAMPLED = 4  # one of at least this many rows is in the sample
EXPECTED = 16  # how many of the k best the sample should contain


class OpenPane(NamedTuple):
    """Objects in arbitrary order. `sample`, `picked` and `hint` are not part of the stored state."""

    keys: Floats
    positions: Ints
    ids: Ints
    registers: Ints
    sample: Floats
    picked: Ints
    hint: Floats  # one number: the bar for the next pane, estimated from the last one; NaN if there is none


def empty_pane(capacity: int) -> OpenPane:
    """Return an open pane with capacity for `capacity` objects; it grows to 2k."""
    return OpenPane(
        np.zeros(capacity),
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int64),
        np.zeros(REGISTERS, np.int64),
        np.zeros(SAMPLE),
        np.zeros(BLOCK, np.int64),
        np.full(1, np.nan),
    )


@kernel
def sampled_bar(pane: OpenPane, rows: Rows, low: int, high: int, k: int) -> float:
    """Estimate from a sample a key that somewhat more than k of the rows ``[low, high)`` reach."""
    n = high - low
    lines = max(8, min(SAMPLE, EXPECTED * n // k, n // MOST_SAMPLED) // LINE)
    step = n // lines
    # Sample eight neighbours at a time: memory is fetched in cache lines, so a whole line costs as much as one row.
    for i in range(lines):
        for j in range(LINE):
            pane.sample[LINE * i + j] = rows.keys[low + i * step + j]
    expected = k * LINE * lines / n
    rank = min(LINE * lines, int(expected + 3 * np.sqrt(expected) + 2))
    return float(highest(pane.sample, LINE * lines, rank))


@kernel
def trim(pane: OpenPane, k: int, ties: Ties) -> None:
    """Cut the pane to its k best."""
    size = pane.registers[SIZE]
    if size > k:
        bring_best_forward(pane.keys, pane.positions, pane.ids, size, k)
        pane.registers[SIZE] = k
        pane.registers[SELECTED] = 1
        if ties is not None:
            pane.registers[SIZE] = bring_ties_forward(pane.keys, pane.positions, pane.ids, size, k)
            pane.registers[CUT_AT] = 2 * pane.registers[SIZE]


@kernel
def cut_at(pane: OpenPane, k: int, ties: Ties) -> int:
    """Number of objects at which the pane is cut down instead of enlarged."""
    return 2 * k if ties is None else max(2 * k, pane.registers[CUT_AT])


@kernel
def pane_room(pane: OpenPane, k: int, ties: Ties) -> int:
    """Number of objects at which the pane is full. With ties, an array may be longer than the next cut needs."""
    return pane.keys.size if ties is None else min(pane.keys.size, cut_at(pane, k, ties))


@kernel
def is_below_bar(pane: OpenPane, key: float, position: int, id_: int, k: int, ties: Ties) -> bool:
    """Whether a pane that has been cut contains k better objects for certain."""
    if ties is not None:
        return key < pane.keys[k - 1]
    return not beats(key, position, id_, pane.keys[k - 1], pane.positions[k - 1], pane.ids[k - 1])


@kernel
def estimate_bar(pane: OpenPane, size: int, k: int) -> None:
    """Estimate the next pane's bar from the `size` best of this pane, sorted, so that somewhat more than k reach it."""
    pane.hint[0] = np.nan
    if size >= k >= 4:
        margin = int(3 * np.sqrt(k)) + 2
        last = min(size, k + margin) - 1
        # Extrapolate to the rows that are missing: assume that keys are as dense as those just above the last one.
        missing, above = k + margin - 1 - last, min(margin, last)
        pane.hint[0] = pane.keys[last] - (pane.keys[last - above] - pane.keys[last]) * (missing / above)


@kernel
def take_row(pane: OpenPane, rows: Rows, i: int, k: int, ties: Ties) -> bool:
    """Add row `i` unless the pane contains k better objects; return False if there is no room."""
    keys, positions, ids, r = pane.keys, pane.positions, pane.ids, pane.registers
    key, position, id_ = rows.keys[i], position_at(rows, i), id_at(rows, i)
    if r[SELECTED] and is_below_bar(pane, key, position, id_, k, ties):
        return True
    if r[SIZE] == pane_room(pane, k, ties):
        if r[SIZE] < cut_at(pane, k, ties):
            return False
        trim(pane, k, ties)
        if is_below_bar(pane, key, position, id_, k, ties):
            return True
        if ties is not None and r[SIZE] == keys.size:
            return False
    keys[r[SIZE]], positions[r[SIZE]], ids[r[SIZE]] = key, position, id_
    r[SIZE] += 1
    return True


@kernel
def take_rows(pane: OpenPane, rows: Rows, low: int, high: int, k: int, ties: Ties, bar: float) -> int:
    """Add those of the rows ``[low, high)`` that reach `bar`; return the index of the first row not processed."""
    r, picked = pane.registers, pane.picked
    i = low
    while i < high:
        floor = max(bar, pane.keys[k - 1]) if r[SELECTED] else bar
        i = skip_hopeless(rows.keys, i, high, floor)
        stop = min(high, i + BLOCK)
        part = rows.keys[i:stop]
        found = 0
        for j in range(part.size):
            picked[found] = j
            found += part[j] >= floor
        if not r[SELECTED] and r[SIZE] + found <= pane_room(pane, k, ties):
            size = r[SIZE]
            for j in range(found):
                row = i + picked[j]
                pane.keys[size + j], pane.positions[size + j] = rows.keys[row], position_at(rows, row)
                pane.ids[size + j] = id_at(rows, row)
            r[SIZE] = size + found
        else:
            for j in range(found):
                if not take_row(pane, rows, i + picked[j], k, ties):
                    return i + picked[j]
        i = stop
    return i


@kernel
def select_rows(pane: OpenPane, rows: Rows, low: int, high: int, k: int, ties: Ties) -> int:
    """Add the k best of rows ``[low, high)``, and some more; return the first row not processed for lack of room."""
    r = pane.registers
    # The estimate covers these rows only: the pane must be empty and must have room for all rows that reach the bar.
    least = max(HINTED * k, BLOCK) if np.isfinite(pane.hint[0]) else max(LONG * k, LEAST_SAMPLED)
    if r[SIZE] or high - low < least or pane.keys.size < 2 * k:
        return take_rows(pane, rows, low, high, k, ties, -np.inf)
    if r[WAIT] > 0:
        r[WAIT] -= 1
        pane.hint[0] = np.nan
        return take_rows(pane, rows, low, high, k, ties, -np.inf)
    bar = pane.hint[0] if np.isfinite(pane.hint[0]) else sampled_bar(pane, rows, low, high, k)
    pane.hint[0] = np.nan
    taken = take_rows(pane, rows, low, high, k, ties, bar)
    if r[SIZE] >= k:
        r[MISSES] = 0
        return taken
    # The estimate was too high: rows below the bar are needed as well. Start again from the first row, because this
    # pass may be interrupted if many rows tie and the pane runs out of room. This is rare, unless scores fall: then
    # every estimate is too high, and more and more panes go without one.
    r[MISSES] = min(2 * r[MISSES] + 1, MOST_MISSES)
    r[WAIT], r[SIZE] = r[MISSES], 0
    return take_rows(pane, rows, low, high, k, ties, -np.inf)


@kernel
def take_all(pane: OpenPane, rows: Rows, low: int, high: int) -> int:
    """Add rows ``[low, high)`` without selection until the pane is full; return the first row not added."""
    size = pane.registers[SIZE]
    stop = min(high, low + pane.keys.size - size)
    for i in range(low, stop):
        pane.keys[size], pane.positions[size], pane.ids[size] = rows.keys[i], position_at(rows, i), id_at(rows, i)
        size += 1
    pane.registers[SIZE] = size
    return stop
