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
    first_row_at,
    has_room,
    id_at,
    position_at,
    write_row,
)
from skyband.topk.kernels.batches import BATCHES, LACKS, LEFT, WAITING, WAITS, begin, choose
from skyband.topk.kernels.pretopk import FREE, NO_SLOT, OBJECTS, Pool, is_better, release
from skyband.topk.kernels.views import (
    BLOCK,
    LIVE,
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

# Bands.registers
TOP = 0  # start of the references that have never been used
RESUME_AT = 1  # index of the view at which an offer ran out of room, NONE if none did
RESUME_SLOT = 2  # the object that was being offered
REFERENCES = 3  # in all sets together
REGISTERS = 4

SMALLEST = 8  # references in a set's first segment; a set that outgrows its segment moves to one of twice the length
CLASSES = 32
SHARE = 2  # a batch has half as many objects as there are views and candidates
RUN = 8  # objects that are sorted by insertion


class Bands(NamedTuple):
    """The sets. Each is a segment of `references`: a heap of slots with the worst object at the root."""

    references: NDArray[np.int32]
    begins: Ints  # per view: where its segment begins
    classes: Ints  # per view: its segment has SMALLEST << class entries; NONE: it has no segment
    ordered: Ints  # per view: 1 if the set is sorted, worst first
    free: Ints  # per class: the first free segment, which links to the next; NONE if there is none
    registers: Ints


class BandBatch(NamedTuple):
    """The new objects of a batch; only its registers are used between calls.

    Each is in the pool, with one reference more than there are sets that contain it, and without a set to begin with.
    """

    slots: NDArray[np.int32]  # in order of arrival
    best: NDArray[np.int32]  # some of them, best first
    spare: NDArray[np.int32]
    seen: Ints  # per view: how many it was already offered
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
def sort_slots(pool: Pool, slots: NDArray[np.int32], spare: NDArray[np.int32], count: int) -> None:
    """Sort slots best first: short runs by insertion, which are then merged."""
    for low in range(0, count, RUN):
        for i in range(low + 1, min(low + RUN, count)):
            slot, j = slots[i], i
            while j > low and is_better(pool, slot, slots[j - 1]):
                slots[j] = slots[j - 1]
                j -= 1
            slots[j] = slot
    width = RUN
    while width < count:
        for low in range(0, count, 2 * width):
            middle, high = min(low + width, count), min(low + 2 * width, count)
            a, b = low, middle
            for at in range(low, high):
                if a < middle and (b == high or not is_better(pool, slots[b], slots[a])):
                    spare[at] = slots[a]
                    a += 1
                else:
                    spare[at] = slots[b]
                    b += 1
        for at in range(count):
            slots[at] = spare[at]
        width *= 2


@kernel
def sort_set(pool: Pool, bands: Bands, at: int, size: int) -> None:
    """Sort the set of the view at `at`, worst first, which is a valid heap."""
    references, begin = bands.references, bands.begins[at]
    if not bands.ordered[at]:
        for last in range(size - 1, 0, -1):
            slot = references[begin + last]
            references[begin + last] = references[begin]
            sift_down(pool, references, begin, last, slot)
        for i in range(size // 2):
            a, b = begin + i, begin + size - 1 - i
            references[a], references[b] = references[b], references[a]
        bands.ordered[at] = 1


@kernel
def merge_best(pool: Pool, bands: Bands, views: Views, at: int, best: NDArray[np.int32], count: int) -> bool:
    """Add those of the new objects, sorted best first, that belong to the set of the view; False: no room.

    All of them must be at or after the view's start.
    """
    references, size, k = bands.references, views.counts[at], views.ks[at]
    begin, free = bands.begins[at], views.ks[at] - views.counts[at]
    if free <= 0 and (count == 0 or not is_better(pool, best[0], references[begin])):
        return True
    sort_set(pool, bands, at, size)
    # Of the union, new object i belongs to the k best iff it is better than the (i + 1)-th worst of a full set.
    entered = 0
    while entered < min(count, k) and (
        entered < free or is_better(pool, best[entered], references[begin + entered - free])
    ):
        entered += 1
    dropped = max(0, entered - free)
    rest = size + entered - dropped
    full = 0 if bands.classes[at] == NONE else SMALLEST << bands.classes[at]
    while rest > full:
        if not give_longer_stretch(bands, at, size):
            return False
        full = SMALLEST << bands.classes[at]
    begin = bands.begins[at]
    for i in range(dropped):
        release(pool, references[begin + i])
    if rest > size:
        for i in range(size - 1, dropped - 1, -1):
            references[begin + i + rest - size] = references[begin + i]
    # Merge forward, worst first: what is read is not in front of what is written.
    read, high = begin + dropped + rest - size, begin + rest
    write = begin
    for new in range(entered - 1, -1, -1):
        slot = best[new]
        pool.references[slot] += 1
        if high - read > 8 * (new + 1):
            low, above = read, high
            while low < above:
                middle = (low + above) >> 1
                if is_better(pool, slot, references[middle]):
                    low = middle + 1
                else:
                    above = middle
            while read < low:
                references[write] = references[read]
                read += 1
                write += 1
        else:
            while read < high and is_better(pool, slot, references[read]):
                references[write] = references[read]
                read += 1
                write += 1
        references[write] = slot
        write += 1
    views.counts[at] = rest
    bands.registers[REFERENCES] += rest - size
    if rest == k:
        views.bars[at] = pool.keys[references[begin]]
    return True


@kernel
def catch_up(pool: Pool, bands: Bands, views: Views, batch: BandBatch, at: int) -> bool:
    """Offer the new objects that a view has not been offered yet to it alone; return False if there is no room."""
    start, bar, found = views.starts[at], views.bars[at], 0
    waiting = batch.registers[WAITING]
    for i in range(batch.seen[at], waiting):
        slot = batch.slots[i]
        if pool.keys[slot] >= bar and pool.positions[slot] >= start:
            batch.best[found] = slot
            found += 1
    sort_slots(pool, batch.best, batch.spare, found)
    if not merge_best(pool, bands, views, at, batch.best, found):
        batch.registers[LACKS] = 1
        return False
    batch.seen[at] = waiting
    return True


@kernel
def begin_batch(pool: Pool, views: Views, batch: BandBatch, rows: Rows, at: int) -> bool:
    """Begin a batch if it is worth it; return False if that needs more room."""
    held = pool.registers[OBJECTS] + views.registers[LIVE]
    count = choose(batch.registers, views, held, held // SHARE, rows, at)
    if count:
        if pool.registers[OBJECTS] + count > pool.keys.size or count > batch.slots.size:
            batch.registers[LEFT] = 0
            return False
        begin(batch.registers, count)
        batch.seen[:] = 0
    return True


@kernel
def let_wait(pool: Pool, batch: BandBatch, floor: float, rows: Rows, low: int, high: int) -> None:
    """Keep the rows that may belong to a view for the end of the batch."""
    waiting = batch.registers[WAITING]
    for i in range(low, high):
        if rows.keys[i] >= floor:
            slot = pool.registers[FREE]
            pool.registers[FREE] = -2 - pool.references[slot]
            pool.registers[OBJECTS] += 1
            pool.keys[slot], pool.positions[slot], pool.ids[slot] = rows.keys[i], position_at(rows, i), id_at(rows, i)
            pool.references[slot] = 1
            batch.slots[waiting] = slot
            waiting += 1
    batch.registers[WAITING] = waiting


@kernel
def complete(pool: Pool, bands: Bands, views: Views, batch: BandBatch) -> bool:
    """Bring all sets up to date, if they wait; return False if there is no room. Then call it again."""
    r = batch.registers
    if not r[WAITS]:
        r[LEFT] = 0
        return True
    waiting, best, mask = r[WAITING], batch.best, views.starts.size - 1
    # Views that were brought up to date before are offered only the rest.
    for w in range(views.registers[OLDEST], views.registers[NEWEST] + 1):
        at = w & mask
        if views.ks[at] and batch.seen[at] and not catch_up(pool, bands, views, batch, at):
            return False
    for i in range(waiting):
        best[i] = batch.slots[i]
    sort_slots(pool, best, batch.spare, waiting)
    newest = waiting
    for w in range(views.registers[NEWEST], views.registers[OLDEST] - 1, -1):
        at = w & mask
        if views.ks[at] == 0 or batch.seen[at] == waiting:
            continue
        start, count = views.starts[at], waiting
        # Views that opened in this batch were not offered its first objects.
        mine = best
        while newest and pool.positions[batch.slots[newest - 1]] >= start:
            newest -= 1
        if newest:
            mine, count = batch.spare, 0
            for i in range(waiting):
                if pool.positions[best[i]] >= start:
                    mine[count] = best[i]
                    count += 1
                    if count == views.ks[at]:
                        break
        if not merge_best(pool, bands, views, at, mine, count):
            r[LACKS] = 1
            return False
        batch.seen[at] = waiting
    unfilled = 0
    for w in range(views.registers[OLDEST], views.registers[NEWEST] + 1):
        unfilled += views.counts[w & mask] < views.ks[w & mask]
    views.registers[UNFILLED] = unfilled
    for block in range(views.bars.size // BLOCK):
        find_lowest_bar(views.bars, views.lowest_bars, block)
    find_floor(views)
    for i in range(waiting):
        release(pool, batch.slots[i])
    r[WAITS] = r[WAITING] = r[LEFT] = 0
    r[BATCHES] += 1
    return True


@kernel
def write_answer(pool: Pool, bands: Bands, at: int, size: int, count: int, answers: Answers) -> None:
    """Write the `count` best of the `size` objects of the view at `at`. Its set is sorted afterwards."""
    sort_set(pool, bands, at, size)
    references, begin = bands.references, bands.begins[at]
    for i in range(size - 1, size - 1 - count, -1):
        write_row(answers, pool.keys[references[begin + i]], pool.ids[references[begin + i]])


@kernel
def answer_windows(
    pool: Pool, bands: Bands, meta: SharedViews, batch: BandBatch, moment: int, first: int, answers: Answers
) -> int:
    """Answer all windows that end at or before `moment`; return DONE, or what lacks room."""
    views, queries, waits = meta.views, meta.plan.queries, batch.registers[WAITS]
    while is_due(meta, moment):
        query = query_due(meta)
        w = view_due(meta, query)
        if w != NONE:
            at = w & (views.starts.size - 1)
            start = views.starts[at]
            if not queries.full_only[query] or start >= first:
                if waits and not catch_up(pool, bands, views, batch, at):
                    return STATE_FULL
                count = min(queries.ks[query], views.counts[at])
                if not has_room(answers, count):
                    return ANSWERS_FULL
                write_answer(pool, bands, at, views.counts[at], count, answers)
                close_window(answers, query, start + queries.sizes[query])
            k = k_without(meta, w, query)
            if k < views.ks[at]:
                shrink(pool, bands, views, w, k)
                if k == 0:
                    batch.seen[at] = 0  # another view may open in its place
        pass_query(meta)
    return DONE


@kernel
def advance(
    pool: Pool,
    bands: Bands,
    meta: SharedViews,
    picked: Ints,
    batch: BandBatch,
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
        why = answer_windows(pool, bands, meta, batch, due, first, answers)
        if why != DONE:
            return why, i
        if i == n:
            return DONE if complete(pool, bands, views, batch) else STATE_FULL, i
        if not open_views(meta, due):
            # The views move to other places, so the batch ends here.
            complete(pool, bands, views, batch)
            return STATE_FULL, i
        schedule_ends(meta, due)
        stretch = boundary(meta)
        while i < n and position_at(rows, i) < stretch:
            if batch.registers[LEFT] == 0 and not (
                complete(pool, bands, views, batch) and begin_batch(pool, views, batch, rows, i)
            ):
                return STATE_FULL, i
            low, stop = i, first_row_at(rows, i, stretch)
            if stop - i > batch.registers[LEFT]:
                stop = i + batch.registers[LEFT]
            if batch.registers[WAITS]:
                let_wait(pool, batch, views.floor[0], rows, i, stop)
                i = stop
            while i < stop:
                key = rows.keys[i]
                if key >= views.floor[0]:
                    if pool.registers[FREE] == NO_SLOT and bands.registers[RESUME_AT] == NONE:
                        return STATE_FULL, i
                    if not offer(pool, bands, views, picked, key, position_at(rows, i), id_at(rows, i)):
                        return STATE_FULL, i
                i += 1
            views.registers[NEWEST_POSITION] = position_at(rows, stop - 1)
            batch.registers[LEFT] -= stop - low
