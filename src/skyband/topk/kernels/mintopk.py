"""MinTopk's kernel: the super-top-k list with start and end window marks and a lower-bound pointer per window.

The paper's symbols: W_i window i, ``tkc`` its top-k counter, ``lbp`` its lower-bound pointer, ``start_w`` and ``end_w``
an object's window marks, ``C_nw`` the number of windows alive at once.
"""

from __future__ import annotations

from typing import NamedTuple

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.order import beats
from skyband.kernels.ranked_list import (
    BEFORE,
    HEAD,
    LENGTH,
    NEXT,
    Int32s,
    RankedList,
    insert,
    lacks_room,
    remove,
)
from skyband.kernels.select import BLOCK, skip_hopeless
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
from skyband.topk.kernels.mintopk_batch import (
    IS_FULL,
    ROOM,
    TAKEN,
    RankBatch,
    lacks_space,
    last_row,
    process_batch,
    put_list,
    take_list,
)
from skyband.topk.kernels.mintopk_batch import LENGTH as TAKEN_LENGTH

# SuperTopk.registers
OLDEST = 0  # W_exp: the oldest unanswered window
NEWEST = 1  # W_new: the newest open window; below OLDEST: none
POINTER_MOVES = 2  # number of steps by which lower-bound pointers moved, for cost tests
BASE = 3  # window marks are stored as numbers from here on, so that 32 bits suffice
REGISTERS = 4

NOWHERE = HEAD  # the lower-bound pointer of a window without objects
FARTHEST = 1 << 30  # windows after which BASE moves

# SuperTopk.marks
START_W = 0  # the oldest window whose predicted top-k contains the object
END_W = 1  # the newest window that contains the object


class SuperTopk(NamedTuple):
    """MinTopk's state in addition to the list. Windows are stored in a ring: window w at ``w % C_nw``."""

    marks: Int32s  # (capacity, 2), per slot: start_w and end_w
    tkc: Int32s  # per window: objects in its predicted top-k
    lbp: Int32s  # per window: the slot of the worst object in it
    registers: Ints


@inner_kernel
def wants(chain: RankedList, state: SuperTopk, k: int, ring: int, key: float, position: int, id_: int) -> bool:
    """Whether the object belongs to the predicted top-k of the window at `ring`; it replaces an object equal to it."""
    worst = state.lbp[ring]
    return state.tkc[ring] < k or not beats(
        chain.keys[worst], chain.positions[worst], chain.ids[worst], key, position, id_
    )


@inner_kernel
def first_that_wants(chain: RankedList, state: SuperTopk, k: int, key: float, position: int, id_: int) -> int:
    """The oldest window whose predicted top-k the object enters, given that the newest one's does.

    The worst object of a window gets worse as the window's number grows (Lemma 4.2). Most objects enter few windows, so
    the search begins at the newest: twice as far back each time, then by bisection.
    """
    oldest, newest, windows = state.registers[OLDEST], state.registers[NEWEST], state.tkc.size
    high, step = newest, 1
    low = newest - 1
    while low >= oldest and wants(chain, state, k, low % windows, key, position, id_):
        high = low
        step *= 2
        low -= step
    low = max(low, oldest - 1) + 1
    while low < high:
        middle = (low + high) // 2
        if wants(chain, state, k, middle % windows, key, position, id_):
            high = middle
        else:
            low = middle + 1
    return low


@inner_kernel
def update_super_topk(chain: RankedList, state: SuperTopk, k: int, key: float, position: int, id_: int) -> None:
    """Insert an object that belongs to the newest window's predicted top-k (UpdateSuperTopk)."""
    keys, positions, ids, around = chain.keys, chain.positions, chain.ids, chain.around
    marks, tkc, lbp, r = state.marks, state.tkc, state.lbp, state.registers
    newest, windows, base = r[NEWEST], tkc.size, r[BASE]
    low = first_that_wants(chain, state, k, key, position, id_)
    ring, w = low % windows, low
    slot = insert(chain, key, position, id_)
    marks[slot, START_W], marks[slot, END_W] = low - base, newest - base
    # One step is enough for each pointer because windows are processed oldest first. An object between the two worst of
    # a window can only be one that expires earlier. All but the worst of this window are better than it and are in its
    # windows too, so it was the k-th and worst of each of them. If the new object is better, those windows have already
    # dropped it. If not, the new object is directly behind it and is the next better one here.
    while w <= newest and tkc[ring] == k:
        # The pointers of a run of windows with the same worst object move together.
        worst, begin = lbp[ring], w
        better = around[worst, BEFORE]
        while w <= newest and lbp[ring] == worst and tkc[ring] == k:
            lbp[ring] = better
            w += 1
            ring += 1
            if ring == windows:
                ring = 0
        r[POINTER_MOVES] += w - begin
        marks[worst, START_W] = w - base
        if w - base > marks[worst, END_W]:
            remove(chain, worst)
    # The windows that are not full are the newest ones.
    while w <= newest:
        worst = lbp[ring]
        tkc[ring] += 1
        if worst == NOWHERE or beats(keys[worst], positions[worst], ids[worst], key, position, id_):
            lbp[ring] = slot
        w += 1
        ring += 1
        if ring == windows:
            ring = 0


@inner_kernel
def purge_expired_window(chain: RankedList, state: SuperTopk) -> None:
    """Remove the oldest window, whose predicted top-k is the head of the list (Lemma 4.4), from the window marks."""
    around, marks, r = chain.around, state.marks, state.registers
    oldest = r[OLDEST]
    mark, slot = oldest - r[BASE], around[HEAD, NEXT]
    for _ in range(state.tkc[oldest % state.tkc.size]):
        follower = around[slot, NEXT]
        if marks[slot, END_W] <= mark:
            remove(chain, slot)
        else:
            marks[slot, START_W] = mark + 1
        slot = follower
    r[OLDEST] = oldest + 1


@kernel
def output_topk_results(chain: RankedList, state: SuperTopk, end: int, answers: Answers) -> None:
    """Write the head of the list, which is the answer of the oldest window."""
    slot = chain.around[HEAD, NEXT]
    for _ in range(state.tkc[state.registers[OLDEST] % state.tkc.size]):
        write_row(answers, chain.keys[slot], chain.ids[slot])
        slot = chain.around[slot, NEXT]
    close_window(answers, 0, end)


@kernel
def move_base(chain: RankedList, state: SuperTopk) -> None:
    """Count the window marks from the oldest window on."""
    r = state.registers
    by = r[OLDEST] - r[BASE]
    slot = chain.around[HEAD, NEXT]
    while slot != HEAD:
        state.marks[slot, START_W] -= by
        state.marks[slot, END_W] -= by
        slot = chain.around[slot, NEXT]
    r[BASE] = r[OLDEST]


@kernel
def open_windows(chain: RankedList, state: SuperTopk, query: KernelQuery, position: int) -> None:
    """Open every window that begins at or before `position` and is not open yet."""
    r = state.registers
    if chain.registers[LENGTH] == 0:
        # The list is empty: windows that ended or began since the last object contain no object.
        r[OLDEST] = r[BASE] = (end_after(query, position) - query.origin) // query.slide
        r[NEWEST] = r[OLDEST] - 1
    newest = (position + query.size - query.origin) // query.slide
    for w in range(r[NEWEST] + 1, newest + 1):
        state.tkc[w % state.tkc.size] = 0
        state.lbp[w % state.tkc.size] = NOWHERE
    r[NEWEST] = newest
    if newest - r[BASE] > FARTHEST:
        move_base(chain, state)


@kernel
def run_batches(
    chain: RankedList,
    state: SuperTopk,
    batch: RankBatch,
    query: KernelQuery,
    rows: Rows,
    at: int,
    first: int,
    answers: Answers,
) -> int:
    """Process batches of rows from `at` on while they are worth it; return the row reached.

    After the first one, the list is in the batch's arrays, and pointers are slots that it will have when it is linked.
    """
    r, b = state.registers, batch.registers
    while at < rows.keys.size:
        stop, bar = last_row(chain, batch, state.tkc, state.lbp, r[OLDEST], r[NEWEST], query, rows, at)
        if stop == at:
            break
        if lacks_space(chain, batch, stop - at):
            b[ROOM] = stop - at
            break
        if not b[TAKEN]:
            take_list(chain, state.marks, r[BASE], batch)
        at, r[OLDEST], r[NEWEST] = process_batch(
            batch, state.tkc, state.lbp, query, rows, at, stop, r[OLDEST], r[NEWEST], bar, first, answers
        )
        r[POINTER_MOVES] += r[NEWEST] - r[OLDEST] + 1
        if b[IS_FULL] or b[TAKEN_LENGTH] == 0:
            break
    return at


@kernel
def link_again(chain: RankedList, state: SuperTopk, batch: RankBatch) -> bool:
    """Link the list if it is in the batch's arrays; return False if it needs more room."""
    if batch.registers[TAKEN]:
        if batch.registers[TAKEN_LENGTH] >= chain.keys.size:
            return False
        r = state.registers
        r[BASE] = r[OLDEST]
        put_list(chain, state.marks, r[BASE], batch)
    return True


@kernel
def advance(
    chain: RankedList,
    state: SuperTopk,
    query: KernelQuery,
    rows: Rows,
    at: int,
    stop: int,
    watermark: int,
    first: int,
    answers: Answers,
) -> tuple[int, int]:
    """Process the rows from index `at` on, one by one, and answer all windows that end at or before the watermark.

    If `stop` is a row, this ends before it, when the windows that end by its position are answered.
    """
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
        if i >= stop:
            return DONE, i
        # The newest window does not change before the boundary, so a new object has to beat the same object until then.
        boundary = min(
            query.origin + r[OLDEST] * query.slide,
            query.origin + (r[NEWEST] + 1) * query.slide - query.size,
        )
        ring = r[NEWEST] % state.tkc.size
        high = min(stop, first_row_at(rows, i, boundary))
        while i < high:
            if state.tkc[ring] == k:
                i = skip_hopeless(rows.keys, i, high, chain.keys[state.lbp[ring]])
            until = min(high, i + BLOCK)
            while i < until:
                key = rows.keys[i]
                if state.tkc[ring] < k or key >= chain.keys[state.lbp[ring]]:
                    position, id_ = position_at(rows, i), id_at(rows, i)
                    if wants(chain, state, k, ring, key, position, id_):
                        if lacks_room(chain, 1):
                            return STATE_FULL, i
                        update_super_topk(chain, state, k, key, position, id_)
                i += 1


@kernel
def advance_in_batches(
    chain: RankedList,
    state: SuperTopk,
    batch: RankBatch,
    query: KernelQuery,
    rows: Rows,
    at: int,
    watermark: int,
    first: int,
    answers: Answers,
) -> tuple[int, int]:
    """The same as `advance`, with batches of rows where they are worth it."""
    n, i, examined = rows.keys.size, at, at
    if not link_again(chain, state, batch):
        return STATE_FULL, i
    while True:
        why, i = advance(chain, state, query, rows, i, examined, watermark, first, answers)
        if why != DONE or i == n:
            return why, i
        begin, i = i, run_batches(chain, state, batch, query, rows, i, first, answers)
        if not link_again(chain, state, batch) or batch.registers[ROOM]:
            return STATE_FULL, i
        # After a row that is not worth a batch, some are processed before the next decision.
        examined = i if i > begin else min(n, i + 64 * BLOCK + chain.registers[LENGTH] // 16)
