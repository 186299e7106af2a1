"""The pane executor's kernel: any number of queries over one candidate set, a block of arrivals at a time.

Three places, from young to old: the *open pane* takes objects as they come (`open_pane`); at a window's end it is
sorted into the *block*; when the block has grown, one sweep merges it into the *standing* candidates (`candidates`).
An answer is read from block and standing candidates together (`extract`) when it is due (`moments`).
"""

from __future__ import annotations

from skyband.kernels._jit import kernel
from skyband.kernels.stream import (
    ANSWERS_FULL,
    DONE,
    STATE_FULL,
    Answers,
    Queries,
    Rows,
    first_row_at,
    position_at,
)
from skyband.topk.kernels.band import keep_band
from skyband.topk.kernels.candidates import (
    BLOCK,
    LEAST_BLOCK,
    NEWEST,
    NO_PANE,
    PANE_END,
    STANDING,
    Held,
    PanesPlan,
    PanesScratch,
    close_pane,
    cuts_panes,
    has_space,
    held_count,
    k_at_age,
    next_start,
    sweep,
)
from skyband.topk.kernels.extract import answer_moment
from skyband.topk.kernels.moments import Moments, next_moment, pass_moment, reset
from skyband.topk.kernels.open_pane import SIZE, OpenPane, select_rows, take_all


@kernel
def roomy(k: int) -> int:
    """An open pane with room for so many objects is cut down rather than enlarged."""
    return 4 * k + 1024


@kernel
def take_raw(pane: OpenPane, plan: PanesPlan, work: PanesScratch, rows: Rows, low: int, high: int) -> int:
    """Take rows ``[low, high)``, between which no window ends, as they come; return the first one not taken."""
    i = take_all(pane, rows, low, high)
    while i < high and pane.keys.size >= roomy(plan.k):
        keep_band(pane, plan.k, plan.ties, work.heap)
        crowded = 4 * pane.registers[SIZE] > 3 * pane.keys.size
        i = take_all(pane, rows, i, high)
        if crowded:
            break  # scores that fall are beaten by nobody later: more room is needed, not another pass
    return i


@kernel
def take_pane(
    held: Held, pane: OpenPane, plan: PanesPlan, work: PanesScratch, rows: Rows, low: int, high: int
) -> tuple[int, int]:
    """Take rows ``[low, high)``, between which no window ends, or their first pane; say why it stopped, and where.

    A long pane is cut to its k best as it arrives; short ones are taken as they come, several at a time.
    """
    r, position = held.registers, position_at(rows, low)
    same = position < r[PANE_END]
    if cuts_panes(plan) and (same or high - low > 2 * plan.k):
        end = r[PANE_END] if same else next_start(plan, position)
        high = min(high, first_row_at(rows, low, end))
        if same or high - low > 2 * plan.k:
            if not same and pane.registers[SIZE]:
                if not has_space(held, pane):
                    return STATE_FULL, low
                close_pane(held, pane, plan, work, position)
            r[PANE_END] = end
            taken = select_rows(pane, rows, low, high, plan.k, plan.ties)
            return (DONE if taken == high else STATE_FULL), taken
    if r[PANE_END] != NO_PANE:
        if not has_space(held, pane):
            return STATE_FULL, low
        close_pane(held, pane, plan, work, position)
    taken = take_raw(pane, plan, work, rows, low, high)
    return (DONE if taken == high else STATE_FULL), taken


@kernel
def advance(
    held: Held,
    pane: OpenPane,
    queries: Queries,
    moments: Moments,
    plan: PanesPlan,
    work: PanesScratch,
    rows: Rows,
    at: int,
    watermark: int,
    first: int,
    answers: Answers,
) -> tuple[int, int]:
    """Take in the rows from `at` on and answer all windows that end at or before the watermark."""
    r, n, i = held.registers, rows.keys.size, at
    while True:
        due = position_at(rows, i) if i < n else watermark
        while held_count(held, pane) > 0 and next_moment(moments) <= due:
            end = next_moment(moments)
            if not has_space(held, pane):
                return STATE_FULL, i
            if pane.registers[SIZE]:
                close_pane(held, pane, plan, work, end - 1)
            if not answer_moment(held, queries, moments, plan, work, first, answers):
                return ANSWERS_FULL, i
            pass_moment(moments, plan.listed, r[NEWEST], due)
            if next_moment(moments) > end:
                if k_at_age(plan, end - r[NEWEST]) == 0:
                    r[STANDING] = r[BLOCK] = 0
                elif r[BLOCK] >= max(LEAST_BLOCK, r[STANDING] // 4):
                    sweep(held, plan, work, end)
        if i == n:
            return DONE, n
        if held_count(held, pane) == 0:
            reset(moments, plan.listed, due)
        why, taken = take_pane(held, pane, plan, work, rows, i, first_row_at(rows, i, next_moment(moments)))
        if taken > i:
            r[NEWEST] = position_at(rows, taken - 1)
        i = taken
        if why != DONE:
            return why, i
