"""The pane executor's kernel: select inside a pane, merge between panes.

Objects of one pane enter and leave every window together, so that only its k best can matter; they are selected with a
threshold. When the pane closes, they are merged into the standing candidates in one sweep, which counts for each
object the better ones in the youngest view it belongs to: with k of them it can appear in no answer any more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.order import beats
from skyband.kernels.radix import SortRoom, radix_sort
from skyband.kernels.select import bring_best_forward, highest
from skyband.kernels.stream import (
    ANSWERS_FULL,
    DONE,
    STATE_FULL,
    Answers,
    Asked,
    Floats,
    Ints,
    Rows,
    close_window,
    end_after,
    first_row_at,
    has_room,
    id_at,
    is_reported,
    latest_start,
    position_at,
    write_row,
)

# Panes.registers
STANDING = 0  # standing candidates
OPEN = 1  # objects of the open pane
SELECTED = 2  # 1 once the open pane has been cut to its k best: the k-th is then the threshold
BOUNDARY = 3  # where the open pane ends; meaningful while anything is held
LIVE_FROM = 4  # the start of the oldest unanswered view: standing candidates before it are expired
SIDE = 5  # which half of the standing arrays is in use; the sweep writes the other
REGISTERS = 6

BLOCK = 16  # rows rejected at a time
LONG = 8  # a stretch of so many times k rows is worth a look ahead
SAMPLE = 2048  # the most rows looked at
LINE = 8  # rows in a line of memory
EXPECTED = 16  # of the k best, so many should be in the sample


class Panes(NamedTuple):
    """What the executor holds. Standing candidates are sorted best first, the open pane is not."""

    keys: Floats  # (2, capacity)
    positions: Ints
    ids: Ints
    dominated: Ints  # better objects in the youngest view of the object: below k, or it would be gone
    open_keys: Floats
    open_positions: Ints
    open_ids: Ints
    registers: Ints


@kernel
def likely_bar(rows: Rows, low: int, high: int, k: int, sample: Floats) -> float:
    """A key that somewhat more than k of the rows ``[low, high)`` probably reach, from a sample of them."""
    n = high - low
    lines = max(8, min(SAMPLE, EXPECTED * n // k) // LINE)
    step = n // lines
    # Eight neighbours at a time: memory is fetched by lines of so many, and a line costs as much as one row of it.
    for i in range(lines):
        for j in range(LINE):
            sample[LINE * i + j] = rows.keys[low + i * step + j]
    expected = k * LINE * lines / n
    rank = min(LINE * lines, int(expected + 3 * np.sqrt(expected) + 2))
    return float(highest(sample, LINE * lines, rank))


@kernel
def trim_open(state: Panes, k: int) -> None:
    """Cut the open pane to its k best."""
    if state.registers[OPEN] > k:
        bring_best_forward(state.open_keys, state.open_positions, state.open_ids, state.registers[OPEN], k)
        state.registers[OPEN] = k
        state.registers[SELECTED] = 1


@kernel
def take_row(state: Panes, rows: Rows, i: int, k: int) -> bool:
    """Take row `i` into the open pane unless k better ones are there already; False where there is no room."""
    keys, positions, ids, r = state.open_keys, state.open_positions, state.open_ids, state.registers
    key, position, id_ = rows.keys[i], position_at(rows, i), id_at(rows, i)
    if r[SELECTED] and not beats(key, position, id_, keys[k - 1], positions[k - 1], ids[k - 1]):
        return True
    if r[OPEN] == keys.size:
        if r[OPEN] < 2 * k:
            return False
        trim_open(state, k)
        if not beats(key, position, id_, keys[k - 1], positions[k - 1], ids[k - 1]):
            return True
    keys[r[OPEN]], positions[r[OPEN]], ids[r[OPEN]] = key, position, id_
    r[OPEN] += 1
    return True


@kernel
def take_rows(state: Panes, rows: Rows, low: int, high: int, k: int, bar: float, picked: Ints) -> int:
    """Take those of the rows ``[low, high)`` into the open pane that reach `bar`; return the first row not looked at.

    Once 2k are taken, the better half is kept, and its worst is the bar from then on.
    """
    values, r = rows.keys, state.registers
    i = low
    while i < high:
        floor = max(bar, state.open_keys[k - 1]) if r[SELECTED] else bar
        # Neither loop branches on a key: the first compiles to vector instructions, the second to conditional moves.
        while i + BLOCK <= high:
            hopeful = 0
            for j in range(BLOCK):
                hopeful += values[i + j] >= floor
            if hopeful:
                break
            i += BLOCK
        stop = min(high, i + BLOCK)
        found = 0
        for j in range(i, stop):
            picked[found] = j
            found += values[j] >= floor
        for j in range(found):
            if not take_row(state, rows, picked[j], k):
                return picked[j]
        i = stop
    return i


@kernel
def select_rows(state: Panes, rows: Rows, low: int, high: int, k: int, sample: Floats, picked: Ints) -> int:
    """Take the k best of rows ``[low, high)``, and some more, into the open pane; return the first row not taken."""
    if state.registers[OPEN] or high - low < max(LONG * k, 512) or state.open_keys.size < 2 * k:
        return take_rows(state, rows, low, high, k, -np.inf, picked)
    bar = likely_bar(rows, low, high, k, sample)
    take_rows(state, rows, low, high, k, bar, picked)
    if state.registers[OPEN] < k:
        # The look ahead was wrong (it rarely is): the rows below the bar are needed after all.
        for i in range(low, high):
            if rows.keys[i] < bar:
                take_row(state, rows, i, k)
    return high


@kernel
def purge(state: Panes) -> None:
    """Drop the standing candidates that belong to no unanswered view."""
    r = state.registers
    side, kept = r[SIDE], 0
    keys, positions, ids, dominated = state.keys[side], state.positions[side], state.ids[side], state.dominated[side]
    for i in range(r[STANDING]):
        if positions[i] >= r[LIVE_FROM]:
            keys[kept], positions[kept], ids[kept], dominated[kept] = keys[i], positions[i], ids[i], dominated[i]
            kept += 1
    r[STANDING] = kept


@kernel
def settle(state: Panes, k: int, room: SortRoom) -> None:
    """Between two calls hold no more than needed: drop standing candidates that the open pane has pushed out already."""
    trim_open(state, k)
    purge(state)
    r = state.registers
    radix_sort(state.open_keys, state.open_positions, state.open_ids, r[OPEN], room)
    side, kept, better = r[SIDE], 0, 0
    keys, positions, ids, dominated = state.keys[side], state.positions[side], state.ids[side], state.dominated[side]
    for i in range(r[STANDING]):
        while better < r[OPEN] and beats(
            state.open_keys[better],
            state.open_positions[better],
            state.open_ids[better],
            keys[i],
            positions[i],
            ids[i],
        ):
            better += 1
        # The count itself is left alone: the pane is counted once, when it closes.
        if dominated[i] + better < k:
            keys[kept], positions[kept], ids[kept], dominated[kept] = keys[i], positions[i], ids[i], dominated[i]
            kept += 1
    r[STANDING] = kept


@kernel
def close_pane(state: Panes, asked: Asked, room: SortRoom) -> None:
    """Merge the open pane into the standing candidates, best first, and drop what k younger or equal ones beat."""
    k, r = asked.k, state.registers
    trim_open(state, k)
    new = r[OPEN]
    radix_sort(state.open_keys, state.open_positions, state.open_ids, new, room)
    side = r[SIDE]
    keys, positions, ids, dominated = state.keys[side], state.positions[side], state.ids[side], state.dominated[side]
    to_keys, to_positions = state.keys[1 - side], state.positions[1 - side]
    to_ids, to_dominated = state.ids[1 - side], state.dominated[1 - side]
    # Where a window's end cuts a view's first slide, the pane shares its youngest view with older objects.
    view = latest_start(asked, state.open_positions[0])
    companions = 0
    i, j, kept = 0, 0, 0
    standing, live_from = r[STANDING], r[LIVE_FROM]
    while i < standing or j < new:
        if i < standing and (
            j == new
            or beats(
                keys[i],
                positions[i],
                ids[i],
                state.open_keys[j],
                state.open_positions[j],
                state.open_ids[j],
            )
        ):
            better = dominated[i] + j
            if positions[i] >= view:
                companions += 1
            if better < k and positions[i] >= live_from:
                to_keys[kept], to_positions[kept], to_ids[kept] = keys[i], positions[i], ids[i]
                to_dominated[kept] = better
                kept += 1
            i += 1
        else:
            if j + companions < k:
                to_keys[kept], to_positions[kept] = state.open_keys[j], state.open_positions[j]
                to_ids[kept], to_dominated[kept] = state.open_ids[j], j + companions
                kept += 1
            j += 1
    r[STANDING], r[OPEN], r[SELECTED], r[SIDE] = kept, 0, 0, 1 - side


@kernel
def write_answer(state: Panes, asked: Asked, end: int, answers: Answers) -> None:
    """Write the k best standing candidates, which all belong to the window that ends at `end`."""
    side = state.registers[SIDE]
    for i in range(min(asked.k, state.registers[STANDING])):
        write_row(answers, state.keys[side, i], state.ids[side, i])
    close_window(answers, 0, end)


@kernel
def next_boundary(asked: Asked, position: int) -> int:
    """The first window start or end beyond `position`."""
    return min(end_after(asked, position), latest_start(asked, position) + asked.slide)


@kernel
def advance(
    state: Panes,
    asked: Asked,
    rows: Rows,
    at: int,
    watermark: int,
    first: int,
    answers: Answers,
    room: SortRoom,
    sample: Floats,
    picked: Ints,
) -> tuple[int, int]:
    """Take in the rows from `at` on and answer all windows that end at or before the watermark."""
    r, n, i = state.registers, rows.keys.size, at
    while True:
        due = position_at(rows, i) if i < n else watermark
        while r[STANDING] + r[OPEN] > 0 and r[BOUNDARY] <= due:
            end = r[BOUNDARY]
            if r[OPEN] > 0:
                if r[STANDING] + min(r[OPEN], asked.k) > state.keys.shape[1]:
                    return STATE_FULL, i
                close_pane(state, asked, room)
            else:
                purge(state)
            if end == end_after(asked, end - 1):
                if r[STANDING] > 0 and is_reported(asked, end, first):
                    if not has_room(answers, min(asked.k, r[STANDING])):
                        return ANSWERS_FULL, i
                    write_answer(state, asked, end, answers)
                r[LIVE_FROM] = end - asked.size + asked.slide
            r[BOUNDARY] = next_boundary(asked, end)
        if i == n:
            break
        if r[STANDING] + r[OPEN] == 0:
            r[BOUNDARY] = next_boundary(asked, position_at(rows, i))
            r[LIVE_FROM] = end_after(asked, position_at(rows, i)) - asked.size
        stop = first_row_at(rows, i, r[BOUNDARY])
        i = select_rows(state, rows, i, stop, asked.k, sample, picked)
        if i < stop:
            return STATE_FULL, i
    settle(state, asked.k, room)
    return DONE, n
