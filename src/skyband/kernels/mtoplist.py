"""MTopList's kernel: one integrated list of all candidates, and a minimum pointer per view.

Key to the paper's symbols: W_i view i, ``min F_P`` a view's minimum pointer. Where the paper marks an object's first
and last view, to know when it has none left, this counts the views that it is in.
"""

from __future__ import annotations

from typing import NamedTuple

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
    BLOCK,
    NEWEST_POSITION,
    NONE,
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


class Careers(NamedTuple):
    """What MTopList holds beside the list and the views.

    A listed object is in the top k of a live view iff it stands at or after the view's start on the axis and not behind
    the view's minimum in the list.
    """

    places: Ints  # per slot: the number of views whose top k holds the object
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
    slot, entered = HEAD, 0
    block = next_block(views.lowest_bars, 0, key)
    while block * BLOCK < views.bars.size:
        for pick in range(views_to_ask(views.bars, block, key, extract.picked)):
            at = extract.picked[pick]
            k, minimum = views.ks[at], careers.minima[at]
            is_full = views.counts[at] == k
            if (
                is_full
                and key == views.bars[at]
                and (
                    k == 0
                    or beats(chain.keys[minimum], chain.positions[minimum], chain.ids[minimum], key, position, id_)
                )
            ):
                continue  # a dead view, or one that ranks the object behind its minimum
            if slot == HEAD:
                slot = insert(chain, key, position, id_)
            entered += 1
            if is_full:
                better = next_better(chain.before, chain.positions, minimum, views.starts[at])
                careers.minima[at], views.bars[at] = better, chain.keys[better]
                careers.places[minimum] -= 1
                if careers.places[minimum] == 0:
                    leave(chain, extract, minimum)
                continue
            if views.counts[at] == 0 or beats(
                chain.keys[minimum], chain.positions[minimum], chain.ids[minimum], key, position, id_
            ):
                careers.minima[at] = slot
            views.counts[at] += 1
            if views.counts[at] == k:
                views.bars[at] = chain.keys[careers.minima[at]]
                views.registers[UNFILLED] -= 1
        find_lowest_bar(views.bars, views.lowest_bars, block)
        block = next_block(views.lowest_bars, block + 1, key)
    if slot != HEAD:
        careers.places[slot] = entered
    find_floor(views)


@kernel
def take_off(chain: SkipList, careers: Careers, views: Views, extract: Extract, at: int, count: int) -> None:
    """The `count` worst objects of the view at `at` lose it; its pointer moves up, and nowhere if none is left."""
    start, slot = views.starts[at], careers.minima[at]
    for left in range(views.counts[at] - 1, views.counts[at] - count - 1, -1):
        better = next_better(chain.before, chain.positions, slot, start) if left else HEAD
        careers.places[slot] -= 1
        if careers.places[slot] == 0:
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
        take_off(chain, careers, views, extract, at, views.counts[at] - k)
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
            if k < views.ks[at]:
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
