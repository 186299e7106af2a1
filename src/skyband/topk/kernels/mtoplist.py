"""MTopList's kernel: one integrated list of all candidates, and a minimum pointer per view.

The paper's symbols: W_i view i, ``min F_P`` a view's minimum pointer, ``start_mark`` and ``end_mark`` the first and the
last view whose top k contains an object.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.order import beats
from skyband.kernels.skiplist import FREE, HEAD, SkipList, insert, remove
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
    has_room,
    id_at,
    position_at,
)
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

# Extract.registers
LENGTH = 0
LAST = 1  # the slot that was copied last


# ViewMarks.marks
START = 0
END = 1


class ViewMarks(NamedTuple):
    """MTopList's state in addition to the list and the views.

    A listed object belongs to a live view from its start mark to its end mark iff it is not behind the view's minimum
    in the list. No view between the marks starts after the object. Marks only move towards each other.
    """

    marks: Ints  # (capacity, 2), per slot: the numbers of the first and the last view whose top k contains the object
    minima: Ints  # per view: the slot of the worst object of its top k


class Extract(NamedTuple):
    """The front of the list copied to flat arrays while no object arrives; not used between calls."""

    keys: Floats
    positions: Ints
    ids: Ints
    picked: Ints  # scratch space for selecting views
    registers: Ints


@kernel
def next_better(before: Ints, positions: Ints, slot: int, start: int) -> int:
    """The next better object than `slot` that is at or after `start`. There must be one."""
    better = before[slot]
    while positions[better] < start:
        better = before[better]
    return int(better)


@kernel
def leave(chain: SkipList, extract: Extract, slot: int) -> None:
    """Remove an object that belongs to no view from the list."""
    if slot == extract.registers[LAST]:
        extract.registers[LAST] = chain.before[slot]
    remove(chain, slot)


@kernel
def is_member(chain: SkipList, view_marks: ViewMarks, views: Views, slot: int, at: int) -> bool:
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
        near = chain.before[near]
        if near == HEAD:
            return False
    return near == slot


@kernel
def move_mark(chain: SkipList, view_marks: ViewMarks, views: Views, slot: int, w: int) -> bool:
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


@kernel
def offer(
    chain: SkipList,
    view_marks: ViewMarks,
    views: Views,
    extract: Extract,
    key: float,
    position: int,
    id_: int,
) -> None:
    """Add the object to every view whose top k it enters, and to the list if there is one."""
    # A compiled call costs one or two instructions for each field of the tuples passed to it, and an object may enter a
    # hundred views. Therefore the work for every view is inlined here, or done by functions that take single arrays.
    bars, starts, minima, marks, picked = views.bars, views.starts, view_marks.minima, view_marks.marks, extract.picked
    keys, positions, before = chain.keys, chain.positions, chain.before
    oldest, mask = views.registers[OLDEST], starts.size - 1
    slot, first, last = HEAD, views.registers[NEWEST], oldest
    block = next_block(views.lowest_bars, 0, key)
    while block * BLOCK < bars.size:
        for pick in range(accepting_views(bars, block, key, picked)):
            at = picked[pick]
            bar, minimum = bars[at], minima[at]
            is_full = bar > -np.inf or views.counts[at] == views.ks[at]
            if (
                is_full
                and key == bar
                and (views.ks[at] == 0 or beats(key, positions[minimum], chain.ids[minimum], key, position, id_))
            ):
                continue  # the view is closed, or it ranks the object behind its minimum
            if slot == HEAD:
                slot = insert(chain, key, position, id_)
            w = oldest + ((at - oldest) & mask)
            first, last = min(first, w), max(last, w)
            if is_full:
                better = next_better(before, positions, minimum, starts[at])
                minima[at], bars[at] = better, keys[better]
                if (w == marks[minimum, START] or w == marks[minimum, END]) and not move_mark(
                    chain, view_marks, views, minimum, w
                ):
                    leave(chain, extract, minimum)
                continue
            if views.counts[at] == 0 or beats(
                keys[minimum], positions[minimum], chain.ids[minimum], key, position, id_
            ):
                minima[at] = slot
            views.counts[at] += 1
            if views.counts[at] == views.ks[at]:
                bars[at] = keys[minima[at]]
                views.registers[UNFILLED] -= 1
        find_lowest_bar(bars, views.lowest_bars, block)
        block = next_block(views.lowest_bars, block + 1, key)
    if slot != HEAD:
        marks[slot, START], marks[slot, END] = first, last
    find_floor(views)


@kernel
def take_off(chain: SkipList, view_marks: ViewMarks, views: Views, extract: Extract, w: int, count: int) -> None:
    """Remove the `count` worst objects of view `w` from it and move its pointer up; an empty view has no pointer."""
    at, marks = w & (views.starts.size - 1), view_marks.marks
    start, slot = views.starts[at], view_marks.minima[at]
    for left in range(views.counts[at] - 1, views.counts[at] - count - 1, -1):
        better = next_better(chain.before, chain.positions, slot, start) if left else HEAD
        if (w == marks[slot, START] or w == marks[slot, END]) and not move_mark(chain, view_marks, views, slot, w):
            leave(chain, extract, slot)
        slot = better
    view_marks.minima[at] = slot
    views.counts[at] -= count


@kernel
def shrink(chain: SkipList, view_marks: ViewMarks, views: Views, extract: Extract, w: int, k: int) -> None:
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
def write_answer(chain: SkipList, extract: Extract, start: int, count: int, answers: Answers) -> None:
    """Write the `count` best objects at or after `start`."""
    known, at, i = extract.registers[LENGTH], answers.cursor[ROWS], 0
    stop = at + count
    while at < stop:
        if i == known:
            # An object that leaves the list while answers are written is in no live view, so its copy is harmless.
            slot = chain.links[0, extract.registers[LAST]]
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
    answers.cursor[ROWS] = stop


@kernel
def answer_windows(
    chain: SkipList,
    view_marks: ViewMarks,
    meta: SharedViews,
    extract: Extract,
    moment: int,
    first: int,
    answers: Answers,
) -> bool:
    """Answer all windows that end at or before `moment`; return False if the answers lack room."""
    views, queries = meta.views, meta.plan.queries
    while is_due(meta, moment):
        query = query_due(meta)
        w = view_due(meta, query)
        if w != NONE:
            at = w & (views.starts.size - 1)
            start = views.starts[at]
            if not queries.full_only[query] or start >= first:
                count = min(queries.ks[query], views.counts[at])
                if not has_room(answers, count):
                    return False
                write_answer(chain, extract, start, count, answers)
                close_window(answers, query, start + queries.sizes[query])
            k = k_without(meta, w, query)
            if k < views.ks[at]:
                shrink(chain, view_marks, views, extract, w, k)
        pass_query(meta)
    return True


@kernel
def advance(
    chain: SkipList,
    view_marks: ViewMarks,
    meta: SharedViews,
    extract: Extract,
    rows: Rows,
    at: int,
    watermark: int,
    first: int,
    answers: Answers,
) -> tuple[int, int]:
    """Process the rows from index `at` on and answer all windows that end at or before the watermark."""
    views, n, i = meta.views, rows.keys.size, at
    while True:
        due = position_at(rows, i) if i < n else watermark
        if not answer_windows(chain, view_marks, meta, extract, due, first, answers):
            return ANSWERS_FULL, i
        extract.registers[LENGTH], extract.registers[LAST] = 0, HEAD
        if i == n:
            return DONE, n
        if not open_views(meta, due):
            return STATE_FULL, i
        schedule_ends(meta, due)
        stretch = boundary(meta)
        position = due
        while i < n:
            position = position_at(rows, i)
            if position >= stretch:
                break
            views.registers[NEWEST_POSITION] = position
            key = rows.keys[i]
            if key >= views.floor[0]:
                if chain.registers[FREE] == 0:
                    return STATE_FULL, i
                offer(chain, view_marks, views, extract, key, position, id_at(rows, i))
            i += 1
