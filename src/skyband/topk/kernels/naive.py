"""The baseline's kernel: keep every object of the window and select the k best at every window end."""

from __future__ import annotations

from typing import NamedTuple

from skyband.kernels._jit import kernel
from skyband.kernels.select import bring_best_forward, bring_ties_forward, sort_best_first
from skyband.kernels.stream import (
    ANSWERS_FULL,
    DONE,
    STATE_FULL,
    Answers,
    Floats,
    Ints,
    KernelQuery,
    Rows,
    Ties,
    close_window,
    has_room,
    id_at,
    position_at,
    write_row,
)
from skyband.topk.kernels.listed import Lists, first_end, following_end, start_of

# Window.registers
HEAD = 0  # the oldest object held
TAIL = 1  # one past the newest
NEXT_END = 2  # the end of the oldest unanswered window; defined while any objects are held
REGISTERS = 3


class NaiveWindow(NamedTuple):
    """The objects from HEAD to TAIL in stream order, and scratch space for the selection."""

    keys: Floats
    positions: Ints
    ids: Ints
    work_keys: Floats
    work_positions: Ints
    work_ids: Ints
    waiting: Ints  # scratch space for sorting
    registers: Ints


@kernel
def make_room(state: NaiveWindow) -> bool:
    """Move the held objects to the front of the arrays if at least half of the arrays is unused before them."""
    head, tail = state.registers[HEAD], state.registers[TAIL]
    if 2 * head < state.keys.size:
        return False
    for i in range(head, tail):
        state.keys[i - head], state.positions[i - head], state.ids[i - head] = (
            state.keys[i],
            state.positions[i],
            state.ids[i],
        )
    state.registers[HEAD], state.registers[TAIL] = 0, tail - head
    return True


@kernel
def write_answer(state: NaiveWindow, k: int, ties: Ties, end: int, answers: Answers) -> bool:
    """Select, sort and write the k best of all held objects; return False if the answers lack room."""
    head, size = state.registers[HEAD], state.registers[TAIL] - state.registers[HEAD]
    for i in range(size):
        state.work_keys[i] = state.keys[head + i]
        state.work_positions[i] = state.positions[head + i]
        state.work_ids[i] = state.ids[head + i]
    best = min(k, size)
    bring_best_forward(state.work_keys, state.work_positions, state.work_ids, size, best)
    if ties is not None:
        best = bring_ties_forward(state.work_keys, state.work_positions, state.work_ids, size, best)
    if not has_room(answers, best):
        return False
    sort_best_first(state.work_keys, state.work_positions, state.work_ids, 0, best, state.waiting)
    for i in range(best):
        write_row(answers, state.work_keys[i], state.work_ids[i])
    close_window(answers, 0, end)
    return True


@kernel
def advance(
    state: NaiveWindow,
    query: KernelQuery,
    listed: Lists,
    ties: Ties,
    rows: Rows,
    at: int,
    watermark: int,
    first: int,
    answers: Answers,
) -> tuple[int, int]:
    """Process the rows from index `at` on and answer all windows that end at or before the watermark.

    Every row belongs to at least one window: the one that ends next after it.
    """
    r, n, i = state.registers, rows.keys.size, at
    while True:
        due = position_at(rows, i) if i < n else watermark
        while r[TAIL] > r[HEAD] and r[NEXT_END] <= due:
            end = r[NEXT_END]
            is_reported = not query.full_only or start_of(query, listed, end) >= first
            if is_reported and not write_answer(state, query.k, ties, end, answers):
                return ANSWERS_FULL, i
            r[NEXT_END] = following_end(query, listed, end)
            start = start_of(query, listed, r[NEXT_END])
            while r[TAIL] > r[HEAD] and state.positions[r[HEAD]] < start:
                r[HEAD] += 1
        if i == n:
            return DONE, n
        if r[TAIL] == r[HEAD]:
            r[NEXT_END] = first_end(query, listed, due)
        if r[TAIL] == state.keys.size and not make_room(state):
            return STATE_FULL, i
        state.keys[r[TAIL]], state.positions[r[TAIL]], state.ids[r[TAIL]] = rows.keys[i], due, id_at(rows, i)
        r[TAIL] += 1
        i += 1
