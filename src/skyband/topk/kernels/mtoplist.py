"""MTopList's kernel: one integrated list of all candidates, and a minimum pointer per view.

Key to the paper's symbols: W_i view i, ``min F_P`` a view's minimum pointer, ``start_mark`` and ``end_mark`` the first
and the last view that an object takes part in.
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
    boundary,
    call_up_ends,
    close_view,
    find_floor,
    find_lowest_bar,
    is_due,
    k_without,
    next_block,
    open_views,
    pass_query,
    query_due,
    view_due,
    views_to_ask,
)

# Extract.registers
LENGTH = 0
LAST = 1  # the slot that was copied last


# Careers.marks
START = 0
END = 1


class Careers(NamedTuple):
    """What MTopList holds beside the list and the views.

    A listed object takes part in a live view from its start mark to its end mark iff it is not behind the view's
    minimum in the list. No view between the marks starts after it. Marks only ever move towards each other.
    """

    marks: Ints  # (capacity, 2), per slot: the numbers of the first and the last view whose top k holds the object
    minima: Ints  # per view: the slot of the worst object of its top k


class Extract(NamedTuple):
    """The front of the list in flat arrays, for as long as no object arrives; holds nothing between two calls."""

    keys: Floats
    positions: Ints
    ids: Ints
    picked: Ints  # room to pick views in
    registers: Ints


@kernel
def next_better(before: Ints, positions: Ints, slot: int, start: int) -> int:
    """The next object in front of `slot` that stands at or after `start`. There must be one."""
    better = before[slot]
    while positions[better] < start:
        better = before[better]
    return int(better)


@kernel
def leave(chain: SkipList, extract: Extract, slot: int) -> None:
    """The object is in no view any more: it leaves the list."""
    if slot == extract.registers[LAST]:
        extract.registers[LAST] = chain.before[slot]
    remove(chain, slot)


@kernel
def takes_part(chain: SkipList, careers: Careers, views: Views, slot: int, at: int) -> bool:
    """Whether the object is in the top k of the view at `at`, which must not start after it (Lemma 6.3)."""
    key, bar = chain.keys[slot], views.bars[at]
    if key != bar:
        return bool(key > bar)
    if views.counts[at] < views.ks[at]:
        return True  # an object whose key is -inf, in a view that wants everybody
    if views.ks[at] == 0:
        return False  # an object whose key is +inf, and a dead view
    minimum = careers.minima[at]
    position, id_ = chain.positions[slot], chain.ids[slot]
    if chain.positions[minimum] != position or chain.ids[minimum] != id_:
        return beats(key, position, id_, chain.keys[minimum], chain.positions[minimum], chain.ids[minimum])
    # Equal in all three: they stand beside each other, and the list tells which comes first.
    near = minimum
    while near != slot and chain.keys[near] == key and chain.positions[near] == position and chain.ids[near] == id_:
        near = chain.before[near]
        if near == HEAD:
            return False
    return near == slot


@kernel
def move_mark(chain: SkipList, careers: Careers, views: Views, slot: int, w: int) -> bool:
    """The object has lost view `w`, its first or last one: that mark moves to the next view that it takes part in.

    False where there is none. Whoever has two marks takes part in the views of both, so that each ends the search for
    the other.
    """
    marks, bars, mask = careers.marks, views.bars, views.starts.size - 1
    if marks[slot, START] == marks[slot, END]:
        return False
    side = END if w == marks[slot, END] else START
    step = 1 - 2 * side
    key = chain.keys[slot]
    w += step
    while key < bars[w & mask] or (key == bars[w & mask] and not takes_part(chain, careers, views, slot, w & mask)):
        w += step
    marks[slot, side] = w
    return True


@kernel
def offer(
    chain: SkipList,
    careers: Careers,
    views: Views,
    extract: Extract,
    key: float,
    position: int,
    id_: int,
) -> None:
    """Put the object into every view that wants it, and into the list if there is one."""
    # A compiled call costs an instruction or two for each field of the tuples that it hands over, and an object may
    # enter a hundred views: so what is done for every view is done here, or by functions that get single arrays.
    bars, starts, minima, marks, picked = views.bars, views.starts, careers.minima, careers.marks, extract.picked
    keys, positions, before = chain.keys, chain.positions, chain.before
    oldest, mask = views.registers[OLDEST], starts.size - 1
    slot, first, last = HEAD, views.registers[NEWEST], oldest
    block = next_block(views.lowest_bars, 0, key)
    while block * BLOCK < bars.size:
        for pick in range(views_to_ask(bars, block, key, picked)):
            at = picked[pick]
            bar, minimum = bars[at], minima[at]
            is_full = bar > -np.inf or views.counts[at] == views.ks[at]
            if (
                is_full
                and key == bar
                and (views.ks[at] == 0 or beats(key, positions[minimum], chain.ids[minimum], key, position, id_))
            ):
                continue  # a dead view, or one that ranks the object behind its minimum
            if slot == HEAD:
                slot = insert(chain, key, position, id_)
            w = oldest + ((at - oldest) & mask)
            first, last = min(first, w), max(last, w)
            if is_full:
                better = next_better(before, positions, minimum, starts[at])
                minima[at], bars[at] = better, keys[better]
                if (w == marks[minimum, START] or w == marks[minimum, END]) and not move_mark(
                    chain, careers, views, minimum, w
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
def take_off(chain: SkipList, careers: Careers, views: Views, extract: Extract, w: int, count: int) -> None:
    """The `count` worst objects of view `w` lose it; its pointer moves up, and nowhere if none is left."""
    at, marks = w & (views.starts.size - 1), careers.marks
    start, slot = views.starts[at], careers.minima[at]
    for left in range(views.counts[at] - 1, views.counts[at] - count - 1, -1):
        better = next_better(chain.before, chain.positions, slot, start) if left else HEAD
        if (w == marks[slot, START] or w == marks[slot, END]) and not move_mark(chain, careers, views, slot, w):
            leave(chain, extract, slot)
        slot = better
    careers.minima[at] = slot
    views.counts[at] -= count


@kernel
def shrink(chain: SkipList, careers: Careers, views: Views, extract: Extract, w: int, k: int) -> None:
    """View `w` needs only `k` objects from now on; with none it is dead."""
    at = w & (views.starts.size - 1)
    was_full = views.counts[at] == views.ks[at]
    views.ks[at] = k
    if views.counts[at] > k:
        take_off(chain, careers, views, extract, w, views.counts[at] - k)
    if views.counts[at] == k:
        views.registers[UNFILLED] -= not was_full
        if k:
            views.bars[at] = chain.keys[careers.minima[at]]
        else:
            close_view(views, w)


@kernel
def write_answer(chain: SkipList, extract: Extract, start: int, count: int, answers: Answers) -> None:
    """Write the `count` best objects at or after `start`."""
    known, at, i = extract.registers[LENGTH], answers.cursor[ROWS], 0
    stop = at + count
    while at < stop:
        if i == known:
            # Whoever leaves the list while answers are written is in no live view, so that a copy of it does no harm.
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
    careers: Careers,
    meta: SharedViews,
    extract: Extract,
    moment: int,
    first: int,
    answers: Answers,
) -> bool:
    """Answer all windows that end at or before `moment`; False where the answers lack room."""
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
                shrink(chain, careers, views, extract, w, k)
        pass_query(meta)
    return True


@kernel
def advance(
    chain: SkipList,
    careers: Careers,
    meta: SharedViews,
    extract: Extract,
    rows: Rows,
    at: int,
    watermark: int,
    first: int,
    answers: Answers,
) -> tuple[int, int]:
    """Take in the rows from `at` on and answer all windows that end at or before the watermark."""
    views, n, i = meta.views, rows.keys.size, at
    while True:
        due = position_at(rows, i) if i < n else watermark
        if not answer_windows(chain, careers, meta, extract, due, first, answers):
            return ANSWERS_FULL, i
        extract.registers[LENGTH], extract.registers[LAST] = 0, HEAD
        if i == n:
            return DONE, n
        if not open_views(meta, due):
            return STATE_FULL, i
        call_up_ends(meta, due)
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
                offer(chain, careers, views, extract, key, position, id_at(rows, i))
            i += 1
