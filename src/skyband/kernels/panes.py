"""The pane executor's kernel: select inside a pane, merge between panes.

Objects of one pane enter and leave every window together, so that only its k best can matter; they are selected with a
threshold. When the pane closes, they are merged into the standing candidates in one sweep, which counts for each
object the better ones in the youngest view it belongs to: with k of them it can appear in no answer any more.
"""

from __future__ import annotations

from typing import NamedTuple

from skyband.kernels._jit import kernel
from skyband.kernels.order import beats
from skyband.kernels.select import bring_best_forward, sort_best_first
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


class Panes(NamedTuple):
    """What the executor holds. Standing candidates are sorted best first, the open pane is not."""

    keys: Floats  # (2, capacity)
    positions: Ints
    ids: Ints
    dominated: Ints  # better objects in the youngest view of the object: below k, or it would be gone
    open_keys: Floats
    open_positions: Ints
    open_ids: Ints
    waiting: Ints  # room for sorting
    registers: Ints


@kernel
def select_rows(state: Panes, rows: Rows, low: int, high: int, k: int) -> int:
    """Take rows ``[low, high)`` into the open pane, keeping its k best and some; return the first row not taken."""
    keys, positions, ids, r = state.open_keys, state.open_positions, state.open_ids, state.registers
    size = r[OPEN]
    i = low
    while i < high:
        if r[SELECTED]:
            # Reject by blocks: the inner loop has no branch and compiles to vector instructions.
            bar = keys[k - 1]
            while i + BLOCK <= high:
                hopeful = False
                for j in range(i, i + BLOCK):
                    hopeful |= rows.keys[j] >= bar
                if hopeful:
                    break
                i += BLOCK
        stop = min(high, i + BLOCK)
        while i < stop:
            key = rows.keys[i]
            if not r[SELECTED] or key >= keys[k - 1]:
                position, id_ = position_at(rows, i), id_at(rows, i)
                if not r[SELECTED] or beats(key, position, id_, keys[k - 1], positions[k - 1], ids[k - 1]):
                    if size == keys.size:
                        if size <= k:
                            r[OPEN] = size
                            return i
                        bring_best_forward(keys, positions, ids, size, k)
                        size = k
                        r[SELECTED] = 1
                        continue
                    keys[size], positions[size], ids[size] = key, position, id_
                    size += 1
            i += 1
    r[OPEN] = size
    return i


@kernel
def trim_open(state: Panes, k: int) -> None:
    """Cut the open pane to its k best."""
    if state.registers[OPEN] > k:
        bring_best_forward(state.open_keys, state.open_positions, state.open_ids, state.registers[OPEN], k)
        state.registers[OPEN] = k
        state.registers[SELECTED] = 1


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
def settle(state: Panes, k: int) -> None:
    """Between two calls hold no more than needed: drop standing candidates that the open pane has pushed out already."""
    trim_open(state, k)
    purge(state)
    r = state.registers
    sort_best_first(state.open_keys, state.open_positions, state.open_ids, 0, r[OPEN], state.waiting)
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
def close_pane(state: Panes, asked: Asked) -> None:
    """Merge the open pane into the standing candidates, best first, and drop what k younger or equal ones beat."""
    k, r = asked.k, state.registers
    trim_open(state, k)
    new = r[OPEN]
    sort_best_first(state.open_keys, state.open_positions, state.open_ids, 0, new, state.waiting)
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
    state: Panes, asked: Asked, rows: Rows, at: int, watermark: int, first: int, answers: Answers
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
                close_pane(state, asked)
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
        i = select_rows(state, rows, i, stop, asked.k)
        if i < stop:
            return STATE_FULL, i
    settle(state, asked.k)
    return DONE, n
