"""The pane executor's kernel: any number of queries over one candidate set, processed in blocks of arrivals.

Objects move through three stores, from young to old. The *open pane* receives objects as they arrive (`open_pane`). At
a window end it is sorted into the *block*. When the block has grown, one sweep merges it into the *standing* candidates
(`candidates`). An answer is read from block and standing candidates together (`answer_moment`) when it is due
(`moments`). Of a pane with many objects only its k-skyband is sorted (`keep_band`): one backward pass against a heap of
the k best seen in that pass.
"""

from __future__ import annotations

from skyband.kernels._jit import kernel
from skyband.kernels.order import beats
from skyband.kernels.stream import (
    ANSWERS_FULL,
    DONE,
    ROWS,
    STATE_FULL,
    Answers,
    Ints,
    Queries,
    Rows,
    Ties,
    close_window,
    first_row_at,
    has_room,
    position_at,
)
from skyband.topk.kernels.candidates import (
    ANSWERED,
    BLOCK,
    BLOCK_SIDE,
    LEAST_BLOCK,
    NEWEST,
    NO_PANE,
    PANE_END,
    SIDE,
    STANDING,
    CandidateStore,
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
from skyband.topk.kernels.listed import start_for
from skyband.topk.kernels.moments import Moments, next_moment, pass_moment, reset
from skyband.topk.kernels.open_pane import SIZE, OpenPane, select_rows, take_all


@kernel
def write_answer(store: CandidateStore, work: PanesScratch, k: int, start: int, answers: Answers) -> None:
    """Write the k best objects at or after `start`."""
    r = store.registers
    side, block, in_block = r[SIDE], r[BLOCK_SIDE], r[BLOCK]
    keys, positions, ids = store.keys[side], store.positions[side], store.ids[side]
    block_keys, block_positions, block_ids = (
        store.block_keys[block],
        store.block_positions[block],
        store.block_ids[block],
    )
    picked, to_keys, to_ids = work.picked, answers.keys, answers.ids
    found, i = 0, 0
    while i < r[STANDING] and found < k:
        picked[found] = i
        found += positions[i] >= start
        i += 1
    at = answers.cursor[ROWS]
    stop = at + k
    mine, j = 0, 0
    while at < stop:
        while j < in_block and block_positions[j] < start:
            j += 1
        if j == in_block:
            break
        # Write all standing candidates that beat the block's best remaining object, then that object.
        key, position, id_ = block_keys[j], block_positions[j], block_ids[j]
        while at < stop and mine < found:
            i = picked[mine]
            if not beats(keys[i], positions[i], ids[i], key, position, id_):
                break
            to_keys[at], to_ids[at] = keys[i], ids[i]
            at += 1
            mine += 1
        if at < stop:
            to_keys[at], to_ids[at] = key, id_
            at += 1
            j += 1
    for rest in range(mine, min(found, mine + stop - at)):
        to_keys[at], to_ids[at] = keys[picked[rest]], ids[picked[rest]]
        at += 1
    answers.cursor[ROWS] = at


@kernel
def write_tied_answer(store: CandidateStore, k: int, start: int, answers: Answers) -> bool:
    """Write the k best objects at or after `start` and all that equal the k-th; without room, write none."""
    r = store.registers
    side, block, standing, in_block = r[SIDE], r[BLOCK_SIDE], r[STANDING], r[BLOCK]
    keys, positions, ids = store.keys[side], store.positions[side], store.ids[side]
    block_keys, block_positions, block_ids = (
        store.block_keys[block],
        store.block_positions[block],
        store.block_ids[block],
    )
    to_keys, to_ids = answers.keys, answers.ids
    at = answers.cursor[ROWS]
    stop = at + k
    i, j = 0, 0
    while True:
        while i < standing and positions[i] < start:
            i += 1
        while j < in_block and block_positions[j] < start:
            j += 1
        if i == standing and j == in_block:
            break
        older = j == in_block or (
            i < standing and beats(keys[i], positions[i], ids[i], block_keys[j], block_positions[j], block_ids[j])
        )
        key = keys[i] if older else block_keys[j]
        if at >= stop and key < to_keys[stop - 1]:
            break
        # The number of ties is not known in advance, and reserving room for all held objects would be too much.
        if at == to_keys.size:
            return False
        to_keys[at] = key
        to_ids[at] = ids[i] if older else block_ids[j]
        at += 1
        i += older
        j += not older
    answers.cursor[ROWS] = at
    return True


@kernel
def write_window(
    store: CandidateStore, plan: PanesPlan, work: PanesScratch, k: int, start: int, answers: Answers
) -> bool:
    """Write the rows of the window that begins at `start`; return False if there is no room."""
    if plan.ties is not None:
        return has_room(answers, 0) and write_tied_answer(store, k, start, answers)
    if not has_room(answers, min(k, store.registers[STANDING] + store.registers[BLOCK])):
        return False
    write_answer(store, work, k, start, answers)
    return True


@kernel
def answer_moment(
    store: CandidateStore,
    queries: Queries,
    moments: Moments,
    plan: PanesPlan,
    work: PanesScratch,
    first: int,
    answers: Answers,
) -> bool:
    """Answer the queries that are due first; return False if there is no room, and continue there in the next call."""
    r, lattice = store.registers, moments.heap[0]
    end = moments.due[lattice]
    while moments.begins[lattice] + r[ANSWERED] < moments.begins[lattice + 1]:
        query = moments.members[moments.begins[lattice] + r[ANSWERED]]
        start = start_for(queries, plan.listed, query, end)
        reported = not queries.full_only[query] or start >= first
        if reported and queries.since[query] <= start <= r[NEWEST]:
            if not write_window(store, plan, work, queries.ks[query], start, answers):
                return False
            close_window(answers, query, end)
        r[ANSWERED] += 1
    r[ANSWERED] = 0
    return True


@kernel
def worse(pane: OpenPane, a: int, b: int) -> bool:
    """Whether the pane's object `a` ranks after `b`."""
    return beats(pane.keys[b], pane.positions[b], pane.ids[b], pane.keys[a], pane.positions[a], pane.ids[a])


@kernel
def push_or_replace(pane: OpenPane, heap: Ints, size: int, k: int, place: int) -> int:
    """Add `place` to the heap of the k best, worst at the root; return its size. A full heap drops its root."""
    if size < k:
        at = size
        while at > 0 and worse(pane, place, heap[(at - 1) // 2]):
            heap[at] = heap[(at - 1) // 2]
            at = (at - 1) // 2
        heap[at] = place
        return size + 1
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and worse(pane, heap[child + 1], heap[child]):
            child += 1
        if not worse(pane, heap[child], place):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = place
    return size


@kernel
def keep_band(pane: OpenPane, k: int, ties: Ties, heap: Ints) -> None:
    """Keep the k-skyband of an open pane in stream order: objects that fewer than k later objects beat."""
    # Scan backwards against the k best seen so far: an object that beats the worst of them is beaten by fewer than k
    # later objects. With ties, an object equal to the worst is kept as well, but the k best then do not change.
    n = pane.registers[SIZE]
    keys, positions, ids = pane.keys, pane.positions, pane.ids
    size, to = 0, n
    for i in range(n - 1, -1, -1):
        tie = False
        if size == k:
            worst = heap[0]
            tie = ties is not None and keys[i] == keys[worst]
            if not tie and not beats(keys[i], positions[i], ids[i], keys[worst], positions[worst], ids[worst]):
                continue
        # Move kept objects to the back as they are found, so that the heap can refer to them by index.
        to -= 1
        keys[to], positions[to], ids[to] = keys[i], positions[i], ids[i]
        if not tie:
            size = push_or_replace(pane, heap, size, k, to)
    for i in range(to, n):
        keys[i - to], positions[i - to], ids[i - to] = keys[i], positions[i], ids[i]
    pane.registers[SIZE] = n - to


@kernel
def full_capacity(k: int) -> int:
    """Capacity from which the open pane is cut down instead of enlarged."""
    return 4 * k + 1024


@kernel
def take_raw(pane: OpenPane, plan: PanesPlan, work: PanesScratch, rows: Rows, low: int, high: int) -> int:
    """Add rows ``[low, high)``, between which no window ends, without selection; return the first row not added."""
    i = take_all(pane, rows, low, high)
    while i < high and pane.keys.size >= full_capacity(plan.k):
        keep_band(pane, plan.k, plan.ties, work.heap)
        crowded = 4 * pane.registers[SIZE] > 3 * pane.keys.size
        i = take_all(pane, rows, i, high)
        if crowded:
            break  # falling scores: no later object beats them, so another pass would not help
    return i


@kernel
def take_pane(
    store: CandidateStore, pane: OpenPane, plan: PanesPlan, work: PanesScratch, rows: Rows, low: int, high: int
) -> tuple[int, int]:
    """Add rows ``[low, high)``, between which no window ends, or their first pane; return a status and the next row.

    A long pane is cut to its k best while it arrives; short panes are added without selection, several at a time.
    """
    r, position = store.registers, position_at(rows, low)
    same = position < r[PANE_END]
    if cuts_panes(plan) and (same or high - low > 2 * plan.k):
        end = r[PANE_END] if same else next_start(plan, position)
        high = min(high, first_row_at(rows, low, end))
        if same or high - low > 2 * plan.k:
            if not same and pane.registers[SIZE]:
                if not has_space(store, pane):
                    return STATE_FULL, low
                close_pane(store, pane, plan, work, position)
            r[PANE_END] = end
            taken = select_rows(pane, rows, low, high, plan.k, plan.ties)
            return (DONE if taken == high else STATE_FULL), taken
    if r[PANE_END] != NO_PANE:
        if not has_space(store, pane):
            return STATE_FULL, low
        close_pane(store, pane, plan, work, position)
    taken = take_raw(pane, plan, work, rows, low, high)
    return (DONE if taken == high else STATE_FULL), taken


@kernel
def advance(
    store: CandidateStore,
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
    """Process the rows from index `at` on and answer all windows that end at or before the watermark."""
    r, n, i = store.registers, rows.keys.size, at
    while True:
        due = position_at(rows, i) if i < n else watermark
        while held_count(store, pane) > 0 and next_moment(moments) <= due:
            end = next_moment(moments)
            if not has_space(store, pane):
                return STATE_FULL, i
            if pane.registers[SIZE]:
                close_pane(store, pane, plan, work, end - 1)
            if not answer_moment(store, queries, moments, plan, work, first, answers):
                return ANSWERS_FULL, i
            pass_moment(moments, plan.listed, r[NEWEST], due)
            if next_moment(moments) > end:
                if k_at_age(plan, end - r[NEWEST]) == 0:
                    r[STANDING] = r[BLOCK] = 0
                elif r[BLOCK] >= max(LEAST_BLOCK, r[STANDING] // 4):
                    sweep(store, plan, work, end)
        if i == n:
            return DONE, n
        if held_count(store, pane) == 0:
            reset(moments, plan.listed, due)
        why, taken = take_pane(store, pane, plan, work, rows, i, first_row_at(rows, i, next_moment(moments)))
        if taken > i:
            r[NEWEST] = position_at(rows, taken - 1)
        i = taken
        if why != DONE:
            return why, i
