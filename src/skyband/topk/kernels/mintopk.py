"""MinTopk's kernel: the super-top-k list with start and end window marks and a lower-bound pointer per window.

The paper's symbols: W_i window i, ``tkc`` its top-k counter, ``lbp`` its lower-bound pointer, ``start_w`` and ``end_w``
an object's window marks, ``C_nw`` the number of windows alive at once.
"""

from __future__ import annotations

from typing import NamedTuple

from skyband.kernels._jit import kernel
from skyband.kernels.order import beats
from skyband.kernels.select import BLOCK, skip_hopeless
from skyband.kernels.skiplist import FREE, HEAD, LENGTH, SkipList, insert, remove
from skyband.kernels.stream import (
    ANSWERS_FULL,
    DONE,
    STATE_FULL,
    Answers,
    Ints,
    KernelQuery,
    Rows,
    close_window,
    end_after,
    first_row_at,
    has_room,
    id_at,
    is_reported,
    position_at,
    write_row,
)

# SuperTopk.registers
OLDEST = 0  # W_exp: the oldest unanswered window
NEWEST = 1  # W_new: the newest open window; below OLDEST: none
POINTER_MOVES = 2  # number of steps by which lower-bound pointers moved, for cost tests
REGISTERS = 3

NOWHERE = HEAD  # the lower-bound pointer of a window without objects


class SuperTopk(NamedTuple):
    """MinTopk's state in addition to the list. Windows are stored in a ring: window w at ``w % C_nw``."""

    start_w: Ints  # per slot: the oldest window whose predicted top-k contains the object
    end_w: Ints  # per slot: the newest window that contains the object
    tkc: Ints  # per window: objects in its predicted top-k
    lbp: Ints  # per window: the slot of the worst object in it
    registers: Ints


@kernel
def is_wanted(chain: SkipList, state: SuperTopk, k: int, w: int, key: float, position: int, id_: int) -> bool:
    """Whether the object belongs to the predicted top-k of window `w`; it replaces an object equal to it."""
    ring = w % state.tkc.size
    worst = state.lbp[ring]
    return state.tkc[ring] < k or not beats(
        chain.keys[worst], chain.positions[worst], chain.ids[worst], key, position, id_
    )


@kernel
def leave_oldest_window(chain: SkipList, state: SuperTopk, slot: int) -> None:
    """Remove the object from its oldest window, and from the list if that was its last window."""
    state.start_w[slot] += 1
    if state.start_w[slot] > state.end_w[slot]:
        remove(chain, slot)


@kernel
def update_super_topk(chain: SkipList, state: SuperTopk, k: int, key: float, position: int, id_: int) -> None:
    """Insert an object that belongs to the newest window's predicted top-k (UpdateSuperTopk)."""
    oldest, newest = state.registers[OLDEST], state.registers[NEWEST]
    # The worst object of a window gets worse as the window's number grows (Lemma 4.2), so bisection finds the first
    # window that accepts the new object.
    low, high = oldest, newest
    while low < high:
        middle = (low + high) // 2
        if is_wanted(chain, state, k, middle, key, position, id_):
            high = middle
        else:
            low = middle + 1
    slot = insert(chain, key, position, id_)
    state.start_w[slot], state.end_w[slot] = low, newest
    for w in range(low, newest + 1):
        ring = w % state.tkc.size
        worst = state.lbp[ring]
        if state.tkc[ring] < k:
            state.tkc[ring] += 1
            if worst == NOWHERE or beats(
                chain.keys[worst], chain.positions[worst], chain.ids[worst], key, position, id_
            ):
                state.lbp[ring] = slot
        else:
            # One step is enough because windows are processed oldest first. An object between the two worst of this
            # window can only be one that expires earlier. All but the worst of this window are better than it and are
            # in its windows too, so it was the k-th and worst of each of them. If the new object is better, those
            # windows have already dropped it. If not, the new object is directly behind it and is the next better one
            # here.
            state.lbp[ring] = chain.before[worst]
            state.registers[POINTER_MOVES] += 1
            leave_oldest_window(chain, state, worst)


@kernel
def purge_expired_window(chain: SkipList, state: SuperTopk) -> None:
    """Remove the oldest window, whose predicted top-k is the head of the list (Lemma 4.4), from the window marks."""
    oldest = state.registers[OLDEST]
    slot = chain.links[0, HEAD]
    for _ in range(state.tkc[oldest % state.tkc.size]):
        follower = chain.links[0, slot]
        leave_oldest_window(chain, state, slot)
        slot = follower
    state.registers[OLDEST] = oldest + 1


@kernel
def output_topk_results(chain: SkipList, state: SuperTopk, end: int, answers: Answers) -> None:
    """Write the head of the list, which is the answer of the oldest window."""
    slot = chain.links[0, HEAD]
    for _ in range(state.tkc[state.registers[OLDEST] % state.tkc.size]):
        write_row(answers, chain.keys[slot], chain.ids[slot])
        slot = chain.links[0, slot]
    close_window(answers, 0, end)


@kernel
def open_windows(chain: SkipList, state: SuperTopk, query: KernelQuery, position: int) -> None:
    """Open every window that begins at or before `position` and is not open yet."""
    r = state.registers
    if chain.registers[LENGTH] == 0:
        # The list is empty: windows that ended or began since the last object contain no object.
        r[OLDEST] = (end_after(query, position) - query.origin) // query.slide
        r[NEWEST] = r[OLDEST] - 1
    newest = (position + query.size - query.origin) // query.slide
    for w in range(r[NEWEST] + 1, newest + 1):
        state.tkc[w % state.tkc.size] = 0
        state.lbp[w % state.tkc.size] = NOWHERE
    r[NEWEST] = newest


@kernel
def advance(
    chain: SkipList,
    state: SuperTopk,
    query: KernelQuery,
    rows: Rows,
    at: int,
    watermark: int,
    first: int,
    answers: Answers,
) -> tuple[int, int]:
    """Process the rows from index `at` on and answer all windows that end at or before the watermark."""
    r, n, k, i = state.registers, rows.keys.size, query.k, at
    while True:
        due = position_at(rows, i) if i < n else watermark
        while chain.registers[LENGTH] > 0:
            end = query.origin + r[OLDEST] * query.slide
            if end > due:
                break
            if is_reported(query, end, first):
                if not has_room(answers, state.tkc[r[OLDEST] % state.tkc.size]):
                    return ANSWERS_FULL, i
                output_topk_results(chain, state, end, answers)
            purge_expired_window(chain, state)
        if i == n:
            return DONE, n
        open_windows(chain, state, query, due)
        # The newest window does not change before the boundary, so a new object has to beat the same object until then.
        boundary = min(
            query.origin + r[OLDEST] * query.slide,
            query.origin + (r[NEWEST] + 1) * query.slide - query.size,
        )
        ring = r[NEWEST] % state.tkc.size
        stop = first_row_at(rows, i, boundary)
        while i < stop:
            if state.tkc[ring] == k:
                i = skip_hopeless(rows.keys, i, stop, chain.keys[state.lbp[ring]])
            until = min(stop, i + BLOCK)
            while i < until:
                key = rows.keys[i]
                if state.tkc[ring] < k or key >= chain.keys[state.lbp[ring]]:
                    position, id_ = position_at(rows, i), id_at(rows, i)
                    if is_wanted(chain, state, k, r[NEWEST], key, position, id_):
                        if chain.registers[FREE] == 0:
                            return STATE_FULL, i
                        update_super_topk(chain, state, k, key, position, id_)
                i += 1
