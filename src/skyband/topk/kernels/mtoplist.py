"""MTopList's kernel: one integrated list of all candidates, and a minimum pointer per view.

The paper's symbols: W_i view i, ``min F_P`` a view's minimum pointer, ``start_mark`` and ``end_mark`` the first and the
last view whose top k contains an object.
"""

from __future__ import annotations

from typing import NamedTuple

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.order import beats
from skyband.kernels.ranked_list import (
    BEFORE,
    HEAD,
    NEXT,
    Int32s,
    RankedList,
    insert,
    lacks_room,
    remove,
)
from skyband.kernels.ranked_list import LENGTH as OBJECTS
from skyband.kernels.select import insertion_sort
from skyband.kernels.stream import (
    ANSWERS_FULL,
    DONE,
    ROWS,
    STATE_FULL,
    Answers,
    Floats,
    Ints,
    Rows,
    close_window,
    first_row_at,
    has_room,
    id_at,
    position_at,
)
from skyband.topk.kernels.batches import LEFT, WAITS
from skyband.topk.kernels.mtoplist_batch import END, START, ListBatch, begin_batch, complete, insert_waiting, let_wait
from skyband.topk.kernels.views import (
    BLOCK,
    NEWEST,
    NEWEST_POSITION,
    NONE,
    OLDEST,
    UNFILLED,
    SharedViews,
    Views,
    accepting_views,
    boundary,
    close_view,
    find_floor,
    find_lowest_bar,
    is_due,
    k_without,
    next_block,
    open_views,
    pass_query,
    query_due,
    schedule_ends,
    view_due,
)

TOGETHER = 64  # most objects that are offered together

# Extract.registers
LENGTH = 0
LAST = 1  # the slot that was copied last


class ViewMarks(NamedTuple):
    """MTopList's state in addition to the list and the views.

    A listed object belongs to a live view from its start mark to its end mark iff it is not behind the view's minimum
    in the list. No view between the marks starts after the object. Marks only move towards each other.
    """

    marks: Int32s  # (capacity, 2), per slot: the first and the last view whose top k contains the object
    minima: Int32s  # per view: the slot of the worst object of its top k


class Extract(NamedTuple):
    """The front of the list copied to flat arrays while no object arrives; not used between calls."""

    keys: Floats
    positions: Ints
    ids: Ints
    picked: Ints  # scratch space for selecting views
    registers: Ints


class NewObjects(NamedTuple):
    """New objects that are offered together, best first; not used between calls."""

    keys: Floats
    positions: Ints
    ids: Ints
    slots: Ints
    first: Ints  # the first view that contains the best objects up to this one, and not the next one
    last: Ints  # the last such view


@inner_kernel
def next_better(around: Int32s, positions: Ints, slot: int, start: int) -> int:
    """The next better object than `slot` that is at or after `start`. There must be one."""
    better = around[slot, BEFORE]
    while positions[better] < start:
        better = around[better, BEFORE]
    return int(better)


@inner_kernel
def leave(chain: RankedList, extract: Extract, slot: int) -> None:
    """Remove an object that belongs to no view from the list."""
    if slot == extract.registers[LAST]:
        extract.registers[LAST] = chain.around[slot, BEFORE]
    remove(chain, slot)


@kernel
def is_member(chain: RankedList, view_marks: ViewMarks, views: Views, slot: int, at: int) -> bool:
    """Whether the object is in the top k of the view at `at`, which must not start after it (Lemma 6.3)."""
    key, bar = chain.keys[slot], views.bars[at]
    if key != bar:
        return bool(key > bar)
    if views.counts[at] < views.ks[at]:
        return True  # the object's key is -inf, and the view has fewer than k objects
    if views.ks[at] == 0:
        return False  # the object's key is +inf, and the view is closed
    minimum = view_marks.minima[at]
    position, id_ = chain.positions[slot], chain.ids[slot]
    if chain.positions[minimum] != position or chain.ids[minimum] != id_:
        return beats(key, position, id_, chain.keys[minimum], chain.positions[minimum], chain.ids[minimum])
    # Equal in all three: they are adjacent, and the list defines which one is first.
    near = minimum
    while near != slot and chain.keys[near] == key and chain.positions[near] == position and chain.ids[near] == id_:
        near = chain.around[near, BEFORE]
        if near == HEAD:
            return False
    return near == slot


@inner_kernel
def move_mark(chain: RankedList, view_marks: ViewMarks, views: Views, slot: int, w: int) -> bool:
    """Remove view `w`, the object's first or last one, by moving that mark to the next view that contains the object.

    Return False if there is no such view. An object with two different marks belongs to both views, so each mark ends
    the search from the other.
    """
    marks, bars, mask = view_marks.marks, views.bars, views.starts.size - 1
    if marks[slot, START] == marks[slot, END]:
        return False
    side = END if w == marks[slot, END] else START
    step = 1 - 2 * side
    key = chain.keys[slot]
    w += step
    while key < bars[w & mask] or (key == bars[w & mask] and not is_member(chain, view_marks, views, slot, w & mask)):
        w += step
    marks[slot, side] = w
    return True


@inner_kernel
def ranked_before(some: NewObjects, count: int, key: float, position: int, id_: int) -> int:
    """Number of new objects, which are sorted best first, that are not worse than the given one."""
    found = 0
    for i in range(count):  # no branch on a key: compiles to vector instructions
        found += some.keys[i] > key
    while (
        found < count
        and some.keys[found] == key
        and not beats(key, position, id_, key, some.positions[found], some.ids[found])
    ):
        found += 1
    return found


@inner_kernel
def update_view(
    chain: RankedList, view_marks: ViewMarks, views: Views, extract: Extract, some: NewObjects, count: int, w: int
) -> int:
    """Add the new objects to the top k of view `w` as far as they belong to it; return how many do.

    Its pointer moves up by one object of the view for each new object, less the free places that it had.
    """
    # A compiled call costs one or two instructions for each field of the tuples passed to it. Therefore the steps of
    # the pointer are inlined here, or done by functions that take single arrays.
    positions, around, marks = chain.positions, chain.around, view_marks.marks
    at = w & (views.starts.size - 1)
    k, held, start, slot = views.ks[at], views.counts[at], views.starts[at], view_marks.minima[at]
    if k == 0:
        return 0
    steps = entered = count
    if held == k:
        steps = entered = ranked_before(some, count, chain.keys[slot], positions[slot], chain.ids[slot])
        if steps == 0:
            return 0
    else:
        last = some.slots[count - 1]
        if held == 0 or beats(
            chain.keys[slot], positions[slot], chain.ids[slot], chain.keys[last], positions[last], chain.ids[last]
        ):
            slot = last
        steps = max(0, held + count - k)
        views.counts[at] = min(k, held + count)
        views.registers[UNFILLED] -= held + count >= k
    for _ in range(steps):
        better = around[slot, BEFORE]
        while positions[better] < start:
            better = around[better, BEFORE]
        if marks[slot, START] == NONE:
            entered -= 1  # a new object, which has no marks yet
        elif (w == marks[slot, START] or w == marks[slot, END]) and not move_mark(chain, view_marks, views, slot, w):
            leave(chain, extract, slot)
        slot = better
    view_marks.minima[at] = slot
    if held + count >= k:
        views.bars[at] = chain.keys[slot]
    return entered


@kernel
def offer(
    chain: RankedList, view_marks: ViewMarks, views: Views, extract: Extract, some: NewObjects, count: int
) -> None:
    """Add `count` new objects, which all arrived between two events, to the list and to the views.

    The pointer of a view moves once for all of them. Views can be updated in any order: a mark that moves to a view
    which is not up to date moves on when that view is updated.
    """
    insertion_sort(some.keys, some.positions, some.ids, 0, count)
    oldest, mask, marks = views.registers[OLDEST], views.starts.size - 1, view_marks.marks
    for i in range(count - 1, -1, -1):  # an object equal to others in all three is inserted before them
        slot = insert(chain, some.keys[i], some.positions[i], some.ids[i])
        some.slots[i] = slot
        marks[slot, START] = marks[slot, END] = NONE
        # The views that contain the first i + 1 new objects, but not the next one.
        some.first[i], some.last[i] = views.registers[NEWEST] + 1, oldest - 1
    best, picked = some.keys[0], extract.picked
    block = next_block(views.lowest_bars, 0, best)
    while block * BLOCK < views.bars.size:
        for pick in range(accepting_views(views.bars, block, best, picked)):
            w = oldest + ((picked[pick] - oldest) & mask)
            entered = update_view(chain, view_marks, views, extract, some, count, w) - 1
            if entered >= 0:
                some.first[entered] = min(some.first[entered], w)
                some.last[entered] = max(some.last[entered], w)
        find_lowest_bar(views.bars, views.lowest_bars, block)
        block = next_block(views.lowest_bars, block + 1, best)
    first, last = views.registers[NEWEST] + 1, oldest - 1
    for i in range(count - 1, -1, -1):
        first, last = min(first, some.first[i]), max(last, some.last[i])
        if first > last:
            leave(chain, extract, some.slots[i])
        else:
            marks[some.slots[i], START], marks[some.slots[i], END] = first, last
    find_floor(views)


@kernel
def take_off(chain: RankedList, view_marks: ViewMarks, views: Views, extract: Extract, w: int, count: int) -> None:
    """Remove the `count` worst objects of view `w` from it and move its pointer up; an empty view has no pointer."""
    at, marks = w & (views.starts.size - 1), view_marks.marks
    start, slot = views.starts[at], view_marks.minima[at]
    for left in range(views.counts[at] - 1, views.counts[at] - count - 1, -1):
        better = next_better(chain.around, chain.positions, slot, start) if left else HEAD
        if (w == marks[slot, START] or w == marks[slot, END]) and not move_mark(chain, view_marks, views, slot, w):
            leave(chain, extract, slot)
        slot = better
    view_marks.minima[at] = slot
    views.counts[at] -= count


@kernel
def shrink(chain: RankedList, view_marks: ViewMarks, views: Views, extract: Extract, w: int, k: int) -> None:
    """Reduce view `w` to `k` objects; with k = 0 it is closed."""
    at = w & (views.starts.size - 1)
    was_full = views.counts[at] == views.ks[at]
    views.ks[at] = k
    if views.counts[at] > k:
        take_off(chain, view_marks, views, extract, w, views.counts[at] - k)
    if views.counts[at] == k:
        views.registers[UNFILLED] -= not was_full
        if k:
            views.bars[at] = chain.keys[view_marks.minima[at]]
        else:
            close_view(views, w)


@kernel
def write_answer(chain: RankedList, extract: Extract, start: int, count: int, answers: Answers) -> None:
    """Write the `count` best objects at or after `start`, or all if there are fewer."""
    known, at, i = extract.registers[LENGTH], answers.cursor[ROWS], 0
    stop = at + count
    while at < stop:
        if i == known:
            # An object that leaves the list while answers are written is in no live view, so its copy is harmless.
            slot = chain.around[extract.registers[LAST], NEXT]
            if slot == HEAD:
                break
            extract.keys[i], extract.positions[i], extract.ids[i] = (
                chain.keys[slot],
                chain.positions[slot],
                chain.ids[slot],
            )
            extract.registers[LAST] = slot
            known += 1
        answers.keys[at], answers.ids[at] = extract.keys[i], extract.ids[i]
        at += extract.positions[i] >= start
        i += 1
    extract.registers[LENGTH] = known
    answers.cursor[ROWS] = at


@kernel
def answer_windows(
    chain: RankedList,
    view_marks: ViewMarks,
    meta: SharedViews,
    extract: Extract,
    batch: ListBatch,
    moment: int,
    first: int,
    answers: Answers,
) -> bool:
    """Answer all windows that end at or before `moment`; return False if the answers lack room."""
    views, queries, waits = meta.views, meta.plan.queries, batch.registers[WAITS]
    while is_due(meta, moment):
        query = query_due(meta)
        w = view_due(meta, query)
        if w != NONE:
            at = w & (views.starts.size - 1)
            start = views.starts[at]
            if not queries.full_only[query] or start >= first:
                held = views.counts[at]
                if waits:
                    # In a batch, a view may have more objects than are counted.
                    insert_waiting(chain, view_marks.marks, batch)
                    held = chain.registers[OBJECTS]
                count = min(queries.ks[query], held)
                if not has_room(answers, count):
                    return False
                write_answer(chain, extract, start, count, answers)
                close_window(answers, query, start + queries.sizes[query])
            k = k_without(meta, w, query)
            if k < views.ks[at]:
                if not waits:
                    shrink(chain, view_marks, views, extract, w, k)
                else:
                    views.ks[at] = k
                    if k == 0:
                        close_view(views, w)
        pass_query(meta)
    return True


@kernel
def advance(
    chain: RankedList,
    view_marks: ViewMarks,
    meta: SharedViews,
    extract: Extract,
    some: NewObjects,
    batch: ListBatch,
    rows: Rows,
    at: int,
    watermark: int,
    first: int,
    answers: Answers,
) -> tuple[int, int]:
    """Process the rows from index `at` on and answer all windows that end at or before the watermark."""
    views, n, i, marks, minima = meta.views, rows.keys.size, at, view_marks.marks, view_marks.minima
    while True:
        due = position_at(rows, i) if i < n else watermark
        is_answered = answer_windows(chain, view_marks, meta, extract, batch, due, first, answers)
        extract.registers[LENGTH], extract.registers[LAST] = 0, HEAD
        if not is_answered or i == n:
            complete(chain, marks, minima, views, batch)
            return DONE if is_answered else ANSWERS_FULL, i
        if not open_views(meta, due):
            complete(chain, marks, minima, views, batch)
            return STATE_FULL, i
        schedule_ends(meta, due)
        stretch = boundary(meta)
        while i < n and position_at(rows, i) < stretch:
            if batch.registers[LEFT] == 0:
                complete(chain, marks, minima, views, batch)
                if not begin_batch(chain, views, batch, rows, i):
                    return STATE_FULL, i
            low, stop = i, first_row_at(rows, i, stretch)
            if stop - i > batch.registers[LEFT]:
                stop = i + batch.registers[LEFT]
            if batch.registers[WAITS]:
                let_wait(batch, views.floor[0], rows, i, stop)
                i = stop
            while i < stop:
                # Collect objects that may enter some view, up to the next event.
                count, before = 0, i
                while i < stop and count < some.keys.size:
                    if rows.keys[i] >= views.floor[0]:
                        if lacks_room(chain, count + 1):
                            break
                        some.keys[count], some.positions[count] = rows.keys[i], position_at(rows, i)
                        some.ids[count] = id_at(rows, i)
                        count += 1
                    i += 1
                if count:
                    views.registers[NEWEST_POSITION] = position_at(rows, i - 1)
                    offer(chain, view_marks, views, extract, some, count)
                elif i == before:
                    return STATE_FULL, i
            views.registers[NEWEST_POSITION] = position_at(rows, stop - 1)
            batch.registers[LEFT] -= stop - low
