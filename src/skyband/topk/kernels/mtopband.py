"""MTopBand's kernel: a separate predicted top-k set for every live view, with references into one pool of objects."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.order import beats
from skyband.kernels.stream import (
    ANSWERS_FULL,
    DONE,
    STATE_FULL,
    Answers,
    Ints,
    Rows,
    close_window,
    has_room,
    id_at,
    position_at,
    write_row,
)
from skyband.topk.kernels.pretopk import FREE, NO_SLOT, OBJECTS, Pool, is_better, release
from skyband.topk.kernels.views import (
    BLOCK,
    NEWEST_POSITION,
    NONE,
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

# Bands.registers
TOP = 0  # start of the references that have never been used
RESUME_AT = 1  # index of the view at which an offer ran out of room, NONE if none did
RESUME_SLOT = 2  # the object that was being offered
REFERENCES = 3  # in all sets together
REGISTERS = 4

SMALLEST = 8  # references in a set's first segment; a set that outgrows its segment moves to one of twice the length
CLASSES = 32


class Bands(NamedTuple):
    """The sets. Each is a segment of `references`: a heap of slots with the worst object at the root."""

    references: NDArray[np.int32]
    begins: Ints  # per view: where its segment begins
    classes: Ints  # per view: its segment has SMALLEST << class entries; NONE: it has no segment
    ordered: Ints  # per view: 1 if the set is sorted, worst first
    free: Ints  # per class: the first free segment, which links to the next; NONE if there is none
    registers: Ints


@inner_kernel
def sift_up(pool: Pool, references: NDArray[np.int32], begin: int, at: int, slot: int) -> None:
    """Insert `slot` into the heap from the free index `at`, moving it up past better objects."""
    while at > 0:
        parent = (at - 1) >> 1
        if not is_better(pool, references[begin + parent], slot):
            break
        references[begin + at] = references[begin + parent]
        at = parent
    references[begin + at] = slot


@inner_kernel
def sift_down(pool: Pool, references: NDArray[np.int32], begin: int, size: int, slot: int) -> None:
    """Insert `slot` into the heap from the free root, moving it down past worse objects."""
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and is_better(pool, references[begin + child], references[begin + child + 1]):
            child += 1
        if not is_better(pool, slot, references[begin + child]):
            break
        references[begin + at] = references[begin + child]
        at = child
    references[begin + at] = slot


@kernel
def free_stretch(bands: Bands, at: int) -> None:
    """Free the segment of the view at `at`."""
    size_class = bands.classes[at]
    if size_class != NONE:
        bands.references[bands.begins[at]] = bands.free[size_class]
        bands.free[size_class] = bands.begins[at]
        bands.classes[at] = NONE


@kernel
def give_longer_stretch(bands: Bands, at: int, count: int) -> bool:
    """Move the set of the view at `at` to a segment of twice the length; return False if there is no room."""
    size_class = bands.classes[at] + 1
    begin = bands.free[size_class]
    if begin != NONE:
        bands.free[size_class] = bands.references[begin]
    else:
        begin = bands.registers[TOP]
        if begin + (SMALLEST << size_class) > bands.references.size:
            return False
        bands.registers[TOP] = begin + (SMALLEST << size_class)
    for i in range(count):
        bands.references[begin + i] = bands.references[bands.begins[at] + i]
    free_stretch(bands, at)
    bands.begins[at], bands.classes[at] = begin, size_class
    return True


@inner_kernel
def enter(pool: Pool, bands: Bands, views: Views, at: int, slot: int) -> bool:
    """Add the object to the set of the view at `at`, where it belongs; return False if there is no room."""
    references, count = bands.references, views.counts[at]
    if count < views.ks[at]:
        full = 0 if bands.classes[at] == NONE else SMALLEST << bands.classes[at]
        if count == full and not give_longer_stretch(bands, at, count):
            return False
        sift_up(pool, references, bands.begins[at], count, slot)
        views.counts[at] = count + 1
        bands.registers[REFERENCES] += 1
        views.registers[UNFILLED] -= count + 1 == views.ks[at]
    else:
        release(pool, references[bands.begins[at]])
        sift_down(pool, references, bands.begins[at], count, slot)
    if views.counts[at] == views.ks[at]:
        views.bars[at] = pool.keys[references[bands.begins[at]]]
    bands.ordered[at] = 0
    pool.references[slot] += 1
    return True


@kernel
def offer(pool: Pool, bands: Bands, views: Views, picked: Ints, key: float, position: int, id_: int) -> bool:
    """Add the object to every set it belongs to, and to the pool if there is one; return False if there is no room.

    In that case the object is in the views before RESUME_AT, and must be offered again.
    """
    r = bands.registers
    resume, slot = r[RESUME_AT], r[RESUME_SLOT]
    if resume == NONE:
        slot = NO_SLOT
    r[RESUME_AT] = NONE
    block = next_block(views.lowest_bars, 0, key)
    while block * BLOCK < views.bars.size:
        for pick in range(accepting_views(views.bars, block, key, picked)):
            at = picked[pick]
            if at < resume or views.ks[at] == 0:
                continue
            if views.counts[at] == views.ks[at] and key == views.bars[at]:
                worst = bands.references[bands.begins[at]]
                if not beats(key, position, id_, pool.keys[worst], pool.positions[worst], pool.ids[worst]):
                    continue
            if slot == NO_SLOT:
                slot = pool.registers[FREE]
                pool.registers[FREE] = -2 - pool.references[slot]
                pool.registers[OBJECTS] += 1
                pool.keys[slot], pool.positions[slot], pool.ids[slot] = key, position, id_
                pool.references[slot] = 0
            if not enter(pool, bands, views, at, slot):
                r[RESUME_AT], r[RESUME_SLOT] = at, slot
                return False
        find_lowest_bar(views.bars, views.lowest_bars, block)
        block = next_block(views.lowest_bars, block + 1, key)
    find_floor(views)
    return True


@kernel
def shrink(pool: Pool, bands: Bands, views: Views, w: int, k: int) -> None:
    """Reduce view `w` to `k` objects; with k = 0 it is closed."""
    at = w & (views.starts.size - 1)
    references, begin, count = bands.references, bands.begins[at], views.counts[at]
    was_full = count == views.ks[at]
    if k == 0 or bands.ordered[at]:
        drop = max(0, count - k)
        for i in range(drop):
            release(pool, references[begin + i])
        for i in range(drop, count):
            references[begin + i - drop] = references[begin + i]
        count -= drop
    else:
        while count > k:
            release(pool, references[begin])
            count -= 1
            sift_down(pool, references, begin, count, references[begin + count])
    bands.registers[REFERENCES] -= views.counts[at] - count
    views.ks[at], views.counts[at] = k, count
    if count == k:
        views.registers[UNFILLED] -= not was_full
        if k:
            views.bars[at] = pool.keys[references[begin]]
        else:
            free_stretch(bands, at)
            close_view(views, w)


@kernel
def write_answer(pool: Pool, bands: Bands, at: int, size: int, count: int, answers: Answers) -> None:
    """Write the `count` best of the `size` objects of the view at `at`. Its set is sorted afterwards."""
    references, begin = bands.references, bands.begins[at]
    if not bands.ordered[at]:
        for last in range(size - 1, 0, -1):
            slot = references[begin + last]
            references[begin + last] = references[begin]
            sift_down(pool, references, begin, last, slot)
        # The set is sorted best first now; reversed, it is a valid heap.
        for i in range(size // 2):
            a, b = begin + i, begin + size - 1 - i
            references[a], references[b] = references[b], references[a]
        bands.ordered[at] = 1
    for i in range(size - 1, size - 1 - count, -1):
        write_row(answers, pool.keys[references[begin + i]], pool.ids[references[begin + i]])


@kernel
def answer_windows(pool: Pool, bands: Bands, meta: SharedViews, moment: int, first: int, answers: Answers) -> bool:
    """Answer all windows that end at or before `moment`; return False if the answers lack room."""
    views, queries = meta.views, meta.plan.queries
    while is_due(meta, moment):
        query = query_due(meta)
        w = view_due(meta, query)
        if w != NONE:
            at = w & (views.starts.size - 1)
            start, size = views.starts[at], views.counts[at]
            if not queries.full_only[query] or start >= first:
                count = min(queries.ks[query], size)
                if not has_room(answers, count):
                    return False
                write_answer(pool, bands, at, size, count, answers)
                close_window(answers, query, start + queries.sizes[query])
            k = k_without(meta, w, query)
            if k < views.ks[at]:
                shrink(pool, bands, views, w, k)
        pass_query(meta)
    return True


@kernel
def advance(
    pool: Pool,
    bands: Bands,
    meta: SharedViews,
    picked: Ints,
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
        if not answer_windows(pool, bands, meta, due, first, answers):
            return ANSWERS_FULL, i
        if i == n:
            return DONE, n
        if not open_views(meta, due):
            return STATE_FULL, i
        schedule_ends(meta, due)
        stretch = boundary(meta)
        while i < n:
            position = position_at(rows, i)
            if position >= stretch:
                break
            views.registers[NEWEST_POSITION] = position
            key = rows.keys[i]
            if key >= views.floor[0]:
                if pool.registers[FREE] == NO_SLOT and bands.registers[RESUME_AT] == NONE:
                    return STATE_FULL, i
                if not offer(pool, bands, views, picked, key, position, id_at(rows, i)):
                    return STATE_FULL, i
            i += 1
