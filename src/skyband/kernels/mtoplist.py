"""MTopList's kernel: one integrated list with start and end view marks, and a minimum pointer per view.

Key to the paper's symbols: W_i view i, ``start_w`` and ``end_w`` an object's first and last view, ``min F_P`` a view's minimum
pointer.
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
from skyband.kernels.views import (
    NEWEST_POSITION,
    NONE,
    OLDEST,
    UNFILLED,
    MetaQuery,
    Views,
    boundary,
    call_up_ends,
    close_view,
    find_floor,
    find_lowest_bar,
    is_due,
    k_without,
    open_views,
    pass_query,
    query_due,
    view_due,
    views_to_ask,
)

# Careers.registers
ARRIVALS = 0  # objects listed so far
POINTER_MOVES = 1  # steps that minimum pointers were moved
MARK_MOVES = 2  # steps that marks were moved
REGISTERS = 3

# Extract.registers
LENGTH = 0
LAST = 1  # the slot that was copied last


class Careers(NamedTuple):
    """What MTopList holds beside the list and the views."""

    start_w: Ints  # per slot: the first view whose top k holds the object
    end_w: Ints  # per slot: the last such view; in between there may be others
    arrivals: Ints  # per slot: of objects equal in all else the later is listed first
    minima: Ints  # per view: the slot of the worst object of its top k
    registers: Ints


class Extract(NamedTuple):
    """The front of the list copied to flat arrays, for as long as no object arrives; holds nothing between two calls."""

    keys: Floats
    positions: Ints
    ids: Ints
    picked: Ints  # room to pick views in
    registers: Ints


@kernel
def is_listed_before(chain: SkipList, careers: Careers, a: int, b: int) -> bool:
    """Whether slot `a` stands before slot `b`."""
    if chain.keys[a] != chain.keys[b]:
        return chain.keys[a] > chain.keys[b]
    if chain.positions[a] != chain.positions[b]:
        return chain.positions[a] > chain.positions[b]
    if chain.ids[a] != chain.ids[b]:
        return chain.ids[a] > chain.ids[b]
    return careers.arrivals[a] > careers.arrivals[b]


@kernel
def takes_part(chain: SkipList, careers: Careers, views: Views, slot: int, w: int) -> bool:
    """Whether the object, which is as young as view `w`, is in the view's top k: it is not behind the minimum."""
    at = w & (views.starts.size - 1)
    key, bar = chain.keys[slot], views.bars[at]
    if key != bar:
        return key > bar
    if views.counts[at] < views.ks[at]:
        return True
    minimum = careers.minima[at]
    return views.ks[at] > 0 and (slot == minimum or is_listed_before(chain, careers, slot, minimum))


@kernel
def lose(chain: SkipList, careers: Careers, views: Views, extract: Extract, slot: int, w: int) -> None:
    """The object is no longer in view `w`: its marks close in on what is left, and where nothing is left it leaves the list."""
    start, end = careers.start_w[slot], careers.end_w[slot]
    if start == end:
        if slot == extract.registers[LAST]:
            extract.registers[LAST] = chain.before[slot]
        remove(chain, slot)
    elif w == start:
        start += 1
        while not takes_part(chain, careers, views, slot, start):
            start += 1
        careers.start_w[slot] = start
        careers.registers[MARK_MOVES] += start - w
    elif w == end:
        end -= 1
        while not takes_part(chain, careers, views, slot, end):
            end -= 1
        careers.end_w[slot] = end
        careers.registers[MARK_MOVES] += w - end


@kernel
def next_better(chain: SkipList, careers: Careers, slot: int, start: int) -> int:
    """The next object in front of `slot` that stands at or after `start`; HEAD where there is none."""
    better = chain.before[slot]
    moves = 1
    while better != HEAD and chain.positions[better] < start:
        better = chain.before[better]
        moves += 1
    careers.registers[POINTER_MOVES] += moves
    return int(better)


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
    r, mask, minima = views.registers, views.starts.size - 1, careers.minima
    slot, first, last = HEAD, 0, 0
    for block in range(views.lowest_bars.size):
        if key < views.lowest_bars[block]:
            continue
        for pick in range(views_to_ask(views, block, key, extract.picked)):
            at = extract.picked[pick]
            k, minimum = views.ks[at], minima[at]
            is_full = views.counts[at] == k
            if is_full and key == views.bars[at]:
                # Dead views have k = 0. Of objects equal in all three the later is listed first.
                if k == 0 or beats(
                    chain.keys[minimum], chain.positions[minimum], chain.ids[minimum], key, position, id_
                ):
                    continue
            w = r[OLDEST] + ((at - r[OLDEST]) & mask)
            if slot == HEAD:
                slot = insert(chain, key, position, id_)
                careers.registers[ARRIVALS] += 1
                careers.arrivals[slot] = careers.registers[ARRIVALS]
                first = last = w
            first, last = min(first, w), max(last, w)
            if is_full:
                better = next_better(chain, careers, minimum, views.starts[at])
                minima[at], views.bars[at] = better, chain.keys[better]
                lose(chain, careers, views, extract, minimum, w)
            else:
                if views.counts[at] == 0 or is_listed_before(chain, careers, minimum, slot):
                    minima[at] = slot
                views.counts[at] += 1
                if views.counts[at] == k:
                    views.bars[at] = chain.keys[minima[at]]
                    r[UNFILLED] -= 1
        find_lowest_bar(views, block)
    if slot != HEAD:
        careers.start_w[slot], careers.end_w[slot] = first, last
    find_floor(views)


@kernel
def shrink(chain: SkipList, careers: Careers, views: Views, extract: Extract, w: int, k: int) -> None:
    """View `w` needs only `k` objects from now on: its pointer moves up and the objects passed lose the view."""
    at = w & (views.starts.size - 1)
    was_full = views.counts[at] == views.ks[at]
    views.ks[at] = k
    while views.counts[at] > k:
        worst = careers.minima[at]
        careers.minima[at] = next_better(chain, careers, worst, views.starts[at])
        views.counts[at] -= 1
        lose(chain, careers, views, extract, worst, w)
    if views.counts[at] == k:
        views.bars[at] = chain.keys[careers.minima[at]]
        views.registers[UNFILLED] -= not was_full


@kernel
def retire(chain: SkipList, careers: Careers, views: Views, extract: Extract, w: int) -> None:
    """View `w` is answered for good: all its objects lose it."""
    at = w & (views.starts.size - 1)
    start, count, slot = views.starts[at], views.counts[at], careers.minima[at]
    close_view(views, w)
    for _ in range(count):
        better = next_better(chain, careers, slot, start)
        lose(chain, careers, views, extract, slot, w)
        slot = better


@kernel
def write_answer(chain: SkipList, extract: Extract, start: int, count: int, answers: Answers) -> None:
    """Write the `count` best objects at or after `start`."""
    known, at, i = extract.registers[LENGTH], answers.cursor[ROWS], 0
    stop = at + count
    while at < stop:
        if i == known:
            # Whoever leaves the list while answers are written is in no live view, so that a copy of it does no harm.
            slot = chain.links[0, extract.registers[LAST]]
            extract.keys[i], extract.positions[i], extract.ids[i] = chain.keys[slot], chain.positions[slot], chain.ids[slot]
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
    meta: MetaQuery,
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
            if k == 0:
                retire(chain, careers, views, extract, w)
            elif k < views.ks[at]:
                shrink(chain, careers, views, extract, w, k)
        pass_query(meta)
    return True


@kernel
def advance(
    chain: SkipList,
    careers: Careers,
    meta: MetaQuery,
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
