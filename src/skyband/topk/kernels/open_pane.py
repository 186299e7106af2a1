"""The pane that objects are arriving in: its k best, found with a threshold.

Objects of one pane enter and leave every window together, so that only its k best can matter. Up to 2k are collected
before the better half is kept; then the k-th is a bar that most newcomers fail, sixty-four at a time. Where ties are
in, so is all that equals the k-th, and the next cut waits until there is twice as much again.
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
SELECTED = 1  # 1 once the pane has been cut to its k best: the k-th is then the bar
CUT_AT = 2  # where ties are in: so many objects are worth the next cut, if that is more than 2k
REGISTERS = 3

LONG = 8  # a stretch of so many times k rows is worth a look ahead
SAMPLE = 2048  # the most rows looked at
LINE = 8  # rows in a line of memory
EXPECTED = 16  # of the k best, so many should be in the sample


class OpenPane(NamedTuple):
    """Objects in no order. `sample`, `picked` and `hint` do not outlive the process."""

    keys: Floats
    positions: Ints
    ids: Ints
    registers: Ints
    sample: Floats
    picked: Ints
    hint: Floats  # one number: the bar that the last pane suggests for the next, NaN where it has none


def empty_pane(capacity: int) -> OpenPane:
    """An open pane with room for `capacity` objects; it wants to grow to 2k."""
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
def likely_bar(pane: OpenPane, rows: Rows, low: int, high: int, k: int) -> float:
    """A key that somewhat more than k of the rows ``[low, high)`` probably reach, from a sample of them."""
    n = high - low
    lines = max(8, min(SAMPLE, EXPECTED * n // k) // LINE)
    step = n // lines
    # Eight neighbours at a time: memory is fetched by lines of so many, and a line costs as much as one row of it.
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
    """A pane with so many objects is cut down rather than enlarged."""
    return 2 * k if ties is None else max(2 * k, pane.registers[CUT_AT])


@kernel
def pane_room(pane: OpenPane, k: int, ties: Ties) -> int:
    """The pane is full with so many objects. An array that ties have made long is not filled before the next cut."""
    return pane.keys.size if ties is None else min(pane.keys.size, cut_at(pane, k, ties))


@kernel
def fails(pane: OpenPane, key: float, position: int, id_: int, k: int, ties: Ties) -> bool:
    """Whether k better ones are in the pane, which has been cut, for sure."""
    if ties is not None:
        return key < pane.keys[k - 1]
    return not beats(key, position, id_, pane.keys[k - 1], pane.positions[k - 1], pane.ids[k - 1])


@kernel
def learn_bar(pane: OpenPane, size: int, k: int) -> None:
    """From a pane's `size` best, sorted, guess what somewhat more than k objects of the next pane will reach."""
    pane.hint[0] = np.nan
    if size == k and k >= 4:
        # As if the keys went on below the k-th as they lie above it: over a short way, their density hardly changes.
        margin = int(3 * np.sqrt(k)) + 2
        above = min(margin, k - 1)
        pane.hint[0] = pane.keys[k - 1] - (pane.keys[k - 1 - above] - pane.keys[k - 1]) * (margin / above)


@kernel
def take_row(pane: OpenPane, rows: Rows, i: int, k: int, ties: Ties) -> bool:
    """Take row `i` unless k better ones are there already; False where there is no room."""
    keys, positions, ids, r = pane.keys, pane.positions, pane.ids, pane.registers
    key, position, id_ = rows.keys[i], position_at(rows, i), id_at(rows, i)
    if r[SELECTED] and fails(pane, key, position, id_, k, ties):
        return True
    if r[SIZE] == pane_room(pane, k, ties):
        if r[SIZE] < cut_at(pane, k, ties):
            return False
        trim(pane, k, ties)
        if fails(pane, key, position, id_, k, ties):
            return True
        if ties is not None and r[SIZE] == keys.size:
            return False
    keys[r[SIZE]], positions[r[SIZE]], ids[r[SIZE]] = key, position, id_
    r[SIZE] += 1
    return True


@kernel
def take_rows(pane: OpenPane, rows: Rows, low: int, high: int, k: int, ties: Ties, bar: float) -> int:
    """Take those of the rows ``[low, high)`` that reach `bar`; return the first row not looked at."""
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
    """Take the k best of rows ``[low, high)``, and some more; return the first row not taken for want of room."""
    # The look ahead is about these rows only: it needs a pane without earlier ones, and room for all it lets through.
    if pane.registers[SIZE] or high - low < max(LONG * k, 512) or pane.keys.size < 2 * k:
        return take_rows(pane, rows, low, high, k, ties, -np.inf)
    bar = pane.hint[0] if np.isfinite(pane.hint[0]) else likely_bar(pane, rows, low, high, k)
    pane.hint[0] = np.nan
    taken = take_rows(pane, rows, low, high, k, ties, bar)
    if pane.registers[SIZE] < k:
        # The look ahead was wrong (it rarely is): the rows below the bar are needed after all. From the start, so that
        # it can be interrupted: they may be more than there is room for where they tie.
        pane.registers[SIZE] = 0
        taken = take_rows(pane, rows, low, high, k, ties, -np.inf)
    return taken


@kernel
def take_all(pane: OpenPane, rows: Rows, low: int, high: int) -> int:
    """Take rows ``[low, high)`` as they are, as far as there is room; return the first row not taken."""
    size = pane.registers[SIZE]
    stop = min(high, low + pane.keys.size - size)
    for i in range(low, stop):
        pane.keys[size], pane.positions[size], pane.ids[size] = rows.keys[i], position_at(rows, i), id_at(rows, i)
        size += 1
    pane.registers[SIZE] = size
    return stop
