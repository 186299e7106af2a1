"""SAP for many queries: one partition sequence, and the best objects of each window size.

The stream is cut into partitions, and of each the ``depth`` best are candidates (P^k, with the largest depth of all
queries). Every window size has its own start, so several partitions can be cut by a start at once. What such a
partition needs beyond its candidates, M, is formed when a window of any size needs it, and is then read by all of them:
an S-AVL would serve one start only, because its tops are removed. Each window size has a list of the best objects of
its newest window with a margin beyond k (`Tops`). New objects enter it, expired ones leave it, and it is read again
from the partitions only if it has fewer than k objects left. All queries with this size answer from its beginning.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.select import BLOCK, skip_hopeless
from skyband.kernels.stream import (
    ANSWERS_FULL,
    DONE,
    ROWS,
    STATE_FULL,
    Answers,
    Floats,
    Ints,
    Queries,
    Rows,
    close_window,
    first_row_at,
    has_room,
    position_at,
)
from skyband.topk.kernels.moments import Moments, next_moment, pass_moment
from skyband.topk.kernels.moments import reset as reset_moments
from skyband.topk.kernels.ring import (
    HEAD,
    TAIL,
    Ring,
    after_last_hopeful,
    ahead,
    append_rows,
    bring_best_pairs_forward,
    first_number_from,
    how_many_ahead,
    id_of,
    position_of,
    settle_columns,
    sort_pairs,
)

# SharedSap.registers
OLDEST_PART = 0  # partitions are numbered
NEWEST_PART = 1  # one after the newest closed partition
OPEN_BEGIN = 2  # the number of the first object of the open partition
OPEN_SIZE = 3  # entries of its list
OPEN_LENGTH = 4  # number of objects at which it is closed
NEWEST = 5  # the position of the newest object
ANSWERED = 6  # how many of the queries that are due together have been answered
LACKS = 7  # what has no room: one of the codes below …
NEEDS = 8  # … and how much it needs
EMPTY = 9  # 1: no object can be in an unanswered window
RECENT_FROM = 10  # the recent objects: those that arrived between the last two window ends, by number
RECENT_TO = 11
RECENT_SIZE = 12  # how many of them are in the sorted list of recent objects, or NOT_FORMED
# Counts
PARTITIONS = 13
FORMATIONS = 14  # of M
REFILLS = 15  # lists read again from the partitions
INSERTIONS = 16  # objects that entered the list of a window size
REGISTERS = 17

# SharedSap.reals
OPEN_BAR = 0  # the open partition's list contains all of its objects at or above this key that can be candidates
REALS = 1

# What has no room
RING = 1
OPEN = 2
PARTS = 3
TOPS = 4
SCRATCH = 5

FEW = 16  # new entries are located by binary search if the list has this many times more entries
SPARE = 64  # entries by which an unsorted list exceeds twice the wanted number before it is cut
LEAST_LENGTH = 8  # of a partition
NOT_FORMED = -1
NOTHING = 2**62


class SharedSapPlan(NamedTuple):
    """Parameters derived from the queries; window sizes are numbered from the longest on."""

    sizes: Ints  # per window size, descending
    ks: Ints  # per window size: the largest k of its queries
    most: Ints  # per window size: maximum length of its list
    depths: Ints  # per window size: the longest list of this size and all longer ones
    of_query: Ints  # per query: the number of its window size
    depth: int  # the longest list
    width: int  # of a row that has room for it


class SharedParts(NamedTuple):
    """The closed partitions in a ring whose capacity is a power of two, each with its best objects, best first."""

    keys: Floats  # (capacity, width)
    numbers: Ints
    dominated: Ints  # number of candidates of later partitions that are better
    counts: Ints
    begins: Ints  # numbers of objects
    ends: Ints
    sealed: Ints  # 1: no answer can contain an object of the partition that is not in its list
    formed: Ints  # number of objects of M, or NOT_FORMED; their numbers are in `Ring.below` from its begin on


class Tops(NamedTuple):
    """Per window size: the best objects of its newest window, best first, as an interval of a row."""

    keys: Floats  # (window sizes, width)
    numbers: Ints
    ids: Ints
    begins: Ints
    counts: Ints
    oldest: Ints  # lower bound of its numbers
    complete: Ints  # 1: it contains the whole window
    bar_keys: Floats  # else it contains all objects of the window that are not worse than this one
    bar_numbers: Ints
    heads: Ints  # the number of the first object of the window
    seen: Ints  # objects before this number have been compared with the list
    parts: Ints  # the partition that contains the window's start
    cursors: Ints  # objects of its M before this index have expired


class SharedScratch(NamedTuple):
    """Scratch space; not used between two steps."""

    keys: Floats
    numbers: Ints
    recent_keys: Floats
    recent_numbers: Ints
    band_keys: Floats
    band_numbers: Ints
    waiting: Ints


class SharedSap(NamedTuple):
    """The complete state."""

    ring: Ring
    parts: SharedParts
    open_keys: Floats  # the open partition's list
    open_numbers: Ints
    tops: Tops
    work: SharedScratch
    reals: Floats
    registers: Ints


@inner_kernel
def longest_list(most: int) -> int:
    """Length at which an unsorted list is cut to its `most` best."""
    return 2 * most + SPARE


@inner_kernel
def add_entry(
    ring: Ring, keys: Floats, numbers: Ints, size: int, most: int, bar: float, key: float, number: int
) -> tuple[int, float]:
    """Add an entry to an unsorted list; a long list is cut to its `most` best. Return its length and its bar."""
    keys[size], numbers[size] = key, number
    size += 1
    if size == longest_list(most):
        bring_best_pairs_forward(ring, keys, numbers, size, most)
        size, bar = most, keys[most - 1]
    return size, bar


@kernel
def add_range(
    ring: Ring, keys: Floats, numbers: Ints, size: int, most: int, bar: float, low: int, high: int
) -> tuple[int, float]:
    """Add all objects ``[low, high)`` whose key is at or above the bar; return the list's length and bar."""
    mask = ring.keys.size - 1
    while low < high:
        slot = low & mask
        stop = min(slot + high - low, ring.keys.size)
        shift, i = low - slot, slot
        while i < stop:
            i = skip_hopeless(ring.keys, i, stop, bar)
            until = min(stop, i + BLOCK)
            while i < until:
                if ring.keys[i] >= bar:
                    size, bar = add_entry(ring, keys, numbers, size, most, bar, ring.keys[i], i + shift)
                i += 1
        low = stop + shift
    return size, bar


@kernel
def depth_at(plan: SharedSapPlan, age: int) -> int:
    """The longest list of the window sizes of at least `age`; 0 if there is none."""
    low, high = 0, plan.sizes.size
    while low < high:
        middle = (low + high) // 2
        if plan.sizes[middle] >= age:
            low = middle + 1
        else:
            high = middle
    return plan.depths[low - 1] if low else 0


@kernel
def refine(sap: SharedSap, plan: SharedSapPlan, now: int) -> None:
    """Count the newest partition's candidates as dominators of older ones, and drop those with too many.

    Windows that end at `now` or later are unanswered. Of a list that is cut, no object after the cut is needed: as many
    later objects are better as the longest list that can contain it has entries.
    """
    r, ring, parts = sap.registers, sap.ring, sap.parts
    mask = parts.begins.size - 1
    newest = (r[NEWEST_PART] - 1) & mask
    new_keys, new_numbers, new = parts.keys[newest], parts.numbers[newest], parts.counts[newest]
    for part in range(r[OLDEST_PART], r[NEWEST_PART] - 1):
        at = part & mask
        count = parts.counts[at]
        if count == 0:
            continue
        keys, numbers, dominated = parts.keys[at], parts.numbers[at], parts.dominated[at]
        if ahead(ring, keys[count - 1], numbers[count - 1], new_keys[0], new_numbers[0]):
            continue
        depth = depth_at(plan, now - position_of(ring, parts.ends[at] - 1))
        for i in range(count):
            dominated[i] += how_many_ahead(ring, new_keys, new_numbers, new, keys[i], numbers[i])
            if dominated[i] >= depth:
                parts.counts[at], parts.sealed[at] = i, 1
                break


@kernel
def close_partition(sap: SharedSap, plan: SharedSapPlan, now: int) -> bool:
    """Close the open partition and begin the next one; return False if there is no room."""
    r, ring, parts = sap.registers, sap.ring, sap.parts
    begin, end = r[OPEN_BEGIN], ring.span[TAIL]
    count = min(plan.depth, r[OPEN_SIZE])
    if r[NEWEST_PART] - r[OLDEST_PART] == parts.begins.size or count > parts.keys.shape[1]:
        r[LACKS], r[NEEDS] = PARTS, count
        return False
    if end - begin > sap.work.band_keys.size:
        r[LACKS], r[NEEDS] = SCRATCH, end - begin
        return False
    bring_best_pairs_forward(ring, sap.open_keys, sap.open_numbers, r[OPEN_SIZE], count)
    sort_pairs(ring, sap.open_keys, sap.open_numbers, 0, count, sap.work.waiting)
    at = r[NEWEST_PART] & (parts.begins.size - 1)
    for i in range(count):
        parts.keys[at, i], parts.numbers[at, i], parts.dominated[at, i] = sap.open_keys[i], sap.open_numbers[i], 0
    parts.counts[at], parts.begins[at], parts.ends[at] = count, begin, end
    parts.sealed[at], parts.formed[at] = int(count == end - begin), NOT_FORMED
    r[NEWEST_PART] += 1
    r[PARTITIONS] += 1
    refine(sap, plan, now)
    open_partition(sap, plan)
    return True


@kernel
def open_partition(sap: SharedSap, plan: SharedSapPlan) -> None:
    """Begin a partition; its length balances the lists of all partitions against the scan of one."""
    r, ring = sap.registers, sap.ring
    held = ring.span[TAIL] - ring.span[HEAD]
    length = int(sqrt(float(held) * float(plan.depth)))
    r[OPEN_LENGTH] = max(LEAST_LENGTH, min(max(length, 2 * plan.depth), held // 2))
    r[OPEN_BEGIN], r[OPEN_SIZE] = ring.span[TAIL], 0
    sap.reals[OPEN_BAR] = -np.inf


@kernel
def form(sap: SharedSap, plan: SharedSapPlan, part: int) -> None:
    """Form M of a partition, best first: all of its objects that an answer can contain and its list does not.

    One scan from its newest object to its oldest keeps an object if fewer than about twice `depth` of the objects
    scanned before, which expire later, are better.
    """
    ring, parts, work = sap.ring, sap.parts, sap.work
    at = part & (parts.begins.size - 1)
    begin, end, count, mask = parts.begins[at], parts.ends[at], parts.counts[at], ring.keys.size - 1
    last_key, last_number = parts.keys[at, count - 1], parts.numbers[at, count - 1]
    size, bar, number, to = 0, -np.inf, end, end - begin
    while True:
        number = after_last_hopeful(ring, begin, number, bar) - 1
        if number < begin:
            break
        key = ring.keys[number & mask]
        size, bar = add_entry(ring, work.keys, work.numbers, size, plan.depth, bar, key, number)
        if number != last_number and not ahead(ring, key, number, last_key, last_number):
            to -= 1
            work.band_keys[to], work.band_numbers[to] = key, number
    sort_pairs(ring, work.band_keys, work.band_numbers, to, end - begin, work.waiting)
    for i in range(to, end - begin):
        ring.below[(begin + i - to) & mask] = work.band_numbers[i]
    parts.formed[at] = end - begin - to
    sap.registers[FORMATIONS] += 1


@kernel
def add_formed(sap: SharedSap, c: int, size: int, most: int, bar: float) -> tuple[int, float]:
    """Add the objects of M of the partition that contains the window's start; return the list's length and bar."""
    ring, parts, tops, work = sap.ring, sap.parts, sap.tops, sap.work
    at, mask, head = tops.parts[c] & (parts.begins.size - 1), ring.keys.size - 1, tops.heads[c]
    begin, i = parts.begins[at], tops.cursors[c]
    while i < parts.formed[at] and ring.below[(begin + i) & mask] < head:
        i += 1
    tops.cursors[c] = i
    for j in range(i, parts.formed[at]):
        number = ring.below[(begin + j) & mask]
        if number >= head:
            key = ring.keys[number & mask]
            if key < bar:
                break
            size, bar = add_entry(ring, work.keys, work.numbers, size, most, bar, key, number)
    return size, bar


@kernel
def refill(sap: SharedSap, plan: SharedSapPlan, c: int) -> None:
    """Read the list of a window size again from the partitions."""
    r, ring, parts, tops, work = sap.registers, sap.ring, sap.parts, sap.tops, sap.work
    head, tail, most = tops.heads[c], ring.span[TAIL], plan.most[c]
    keys, numbers, size, bar, mask = work.keys, work.numbers, 0, -np.inf, parts.begins.size - 1
    if head >= r[OPEN_BEGIN]:
        size, bar = add_range(ring, keys, numbers, size, most, bar, head, tail)
    else:
        part = max(tops.parts[c], r[OLDEST_PART])
        while parts.ends[part & mask] <= head:
            part += 1
        if part != tops.parts[c]:
            tops.parts[c], tops.cursors[c] = part, 0
        first = part & mask
        for i in range(parts.counts[first]):
            if parts.numbers[first, i] >= head:
                size, bar = add_entry(
                    ring, keys, numbers, size, most, bar, parts.keys[first, i], parts.numbers[first, i]
                )
        for other in range(part + 1, r[NEWEST_PART]):
            at = other & mask
            for i in range(min(most, parts.counts[at])):
                if parts.keys[at, i] < bar:
                    break
                size, bar = add_entry(ring, keys, numbers, size, most, bar, parts.keys[at, i], parts.numbers[at, i])
        for i in range(r[OPEN_SIZE]):
            if sap.open_keys[i] >= bar:
                size, bar = add_entry(ring, keys, numbers, size, most, bar, sap.open_keys[i], sap.open_numbers[i])
        if not parts.sealed[first]:
            if size >= most:
                bring_best_pairs_forward(ring, keys, numbers, size, most)
                size, bar = most, keys[most - 1]
            last = parts.counts[first] - 1
            if size < most or ahead(
                ring, parts.keys[first, last], parts.numbers[first, last], keys[most - 1], numbers[most - 1]
            ):
                # rho < k: objects beyond the partition's list can be among the best of this window.
                if parts.formed[first] == NOT_FORMED:
                    # The scan uses the same arrays, so the collected entries wait in the list's own row.
                    for i in range(size):
                        tops.keys[c, i], tops.numbers[c, i] = keys[i], numbers[i]
                    form(sap, plan, part)
                    for i in range(size):
                        keys[i], numbers[i] = tops.keys[c, i], tops.numbers[c, i]
                size, bar = add_formed(sap, c, size, most, bar)
    best = min(size, most)
    bring_best_pairs_forward(ring, keys, numbers, size, best)
    sort_pairs(ring, keys, numbers, 0, best, work.waiting)
    begin, oldest = (tops.keys.shape[1] - best) // 2, NOTHING
    for i in range(best):
        tops.keys[c, begin + i], tops.numbers[c, begin + i] = keys[i], numbers[i]
        tops.ids[c, begin + i] = id_of(ring, numbers[i])
        oldest = min(oldest, numbers[i])
    tops.begins[c], tops.counts[c], tops.oldest[c], tops.seen[c] = begin, best, oldest, tail
    tops.complete[c] = int(best < most)
    if best == most:
        tops.bar_keys[c], tops.bar_numbers[c] = keys[best - 1], numbers[best - 1]
    r[REFILLS] += 1


@inner_kernel
def move_entries(keys: Floats, numbers: Ints, ids: Ints, low: int, high: int, to: int) -> None:
    """Move the entries ``[low, high)`` of a row so that they begin at `to`."""
    if to < low:
        for i in range(high - low):
            keys[to + i], numbers[to + i], ids[to + i] = keys[low + i], numbers[low + i], ids[low + i]
    else:
        for i in range(high - low - 1, -1, -1):
            keys[to + i], numbers[to + i], ids[to + i] = keys[low + i], numbers[low + i], ids[low + i]


@kernel
def insert(sap: SharedSap, most: int, c: int, key: float, number: int) -> None:
    """Insert an object into the list of a window size; a full list drops its last entry."""
    ring, tops = sap.ring, sap.tops
    begin, count, width = tops.begins[c], tops.counts[c], tops.keys.shape[1]
    place = how_many_ahead(ring, tops.keys[c, begin:], tops.numbers[c, begin:], count, key, number)
    if count == most:
        tops.complete[c] = 0
        if place < count:
            count -= 1
    if place < most:
        left = 2 * place < count
        if (left and begin == 0) or (not left and begin + count == width):
            middle = (width - count) // 2
            move_entries(tops.keys[c], tops.numbers[c], tops.ids[c], begin, begin + count, middle)
            begin = middle
        if left:
            move_entries(tops.keys[c], tops.numbers[c], tops.ids[c], begin, begin + place, begin - 1)
            begin -= 1
        else:
            move_entries(tops.keys[c], tops.numbers[c], tops.ids[c], begin + place, begin + count, begin + place + 1)
        at = begin + place
        tops.keys[c, at], tops.numbers[c, at], tops.ids[c, at] = key, number, id_of(ring, number)
        tops.oldest[c] = min(tops.oldest[c], number)
        count += 1
        sap.registers[INSERTIONS] += 1
    tops.begins[c], tops.counts[c] = begin, count
    if not tops.complete[c] and count == most:
        tops.bar_keys[c], tops.bar_numbers[c] = tops.keys[c, begin + count - 1], tops.numbers[c, begin + count - 1]


@inner_kernel
def lowest(numbers: Ints) -> int:
    """The lowest of the numbers; NOTHING if there is none."""
    found = NOTHING
    for number in numbers:
        found = min(found, number)
    return found


@kernel
def drop_expired(tops: Tops, c: int, head: int) -> None:
    """Remove the expired objects from the list of a window size."""
    numbers, begin, stop = tops.numbers[c], tops.begins[c], tops.begins[c] + tops.counts[c]
    while begin < stop and numbers[begin] < head:
        begin += 1
    oldest = lowest(numbers[begin:stop])
    if oldest < head:
        keys, ids, kept, i = tops.keys[c], tops.ids[c], begin, begin
        while i < stop:
            j = i
            while j < stop and numbers[j] >= head:
                j += 1
            if kept < i < j:
                move_entries(keys, numbers, ids, i, j, kept)
            kept += j - i
            i = j
            while i < stop and numbers[i] < head:
                i += 1
        stop = kept
        oldest = lowest(numbers[begin:stop])
    tops.begins[c], tops.counts[c], tops.oldest[c] = begin, stop - begin, oldest


@kernel
def merge_in_front(sap: SharedSap, new_keys: Floats, new_numbers: Ints, c: int, late: int) -> None:
    """Merge `late` new entries, best first, by moving the better entries of the list to the left."""
    ring, tops = sap.ring, sap.tops
    keys, numbers, ids = tops.keys[c], tops.numbers[c], tops.ids[c]
    begin, count, width = tops.begins[c], tops.counts[c], tops.keys.shape[1]
    if begin < late:
        move_entries(keys, numbers, ids, begin, begin + count, width - count)
        begin = width - count
    at = begin
    for j in range(late):
        key, number, low = new_keys[j], new_numbers[j], at
        at += how_many_ahead(ring, keys[at:], numbers[at:], begin + count - at, key, number)
        move_entries(keys, numbers, ids, low, at, low + j - late)
        to = at + j - late
        keys[to], numbers[to], ids[to] = key, number, id_of(ring, number)
    tops.begins[c], tops.counts[c] = begin - late, count + late


@kernel
def merge_behind(sap: SharedSap, new_keys: Floats, new_numbers: Ints, most: int, c: int, late: int) -> None:
    """Merge `late` new entries, best first, by moving the worse entries of the list to the right; keep `most`."""
    ring, tops = sap.ring, sap.tops
    keys, numbers, ids = tops.keys[c], tops.numbers[c], tops.ids[c]
    begin, count, width = tops.begins[c], tops.counts[c], tops.keys.shape[1]
    total = min(most, count + late)
    if begin + total > width:
        middle = (width - total) // 2
        move_entries(keys, numbers, ids, begin, begin + count, middle)
        begin = middle
    keys, numbers, ids = keys[begin:], numbers[begin:], ids[begin:]
    # From the last entry to the first, so that no entry is overwritten before it is moved.
    stop, few = count, FEW * late < count
    for j in range(late - 1, -1, -1):
        key, number, place = new_keys[j], new_numbers[j], stop
        if few:
            place = how_many_ahead(ring, keys, numbers, stop, key, number)
        else:
            while place > 0 and ahead(ring, key, number, keys[place - 1], numbers[place - 1]):
                place -= 1
        move_entries(keys, numbers, ids, place, max(place, min(stop, most - j - 1)), place + j + 1)
        stop, at = place, place + j
        if at < most:
            keys[at], numbers[at], ids[at] = key, number, id_of(ring, number)
    tops.begins[c], tops.counts[c] = begin, total


@kernel
def merge_new(sap: SharedSap, new_keys: Floats, new_numbers: Ints, most: int, c: int, late: int) -> None:
    """Merge `late` new entries, best first, into the list of a window size, and drop what exceeds its length."""
    ring, tops = sap.ring, sap.tops
    begin, count, width = tops.begins[c], tops.counts[c], tops.keys.shape[1]
    middle = begin + count // 2
    if (
        count + late <= width
        and count > 1
        and ahead(ring, new_keys[late - 1], new_numbers[late - 1], tops.keys[c, middle], tops.numbers[c, middle])
    ):
        merge_in_front(sap, new_keys, new_numbers, c, late)
    else:
        merge_behind(sap, new_keys, new_numbers, most, c, late)
    if count + late > most:
        tops.complete[c] = 0
    total, begin = min(most, count + late), tops.begins[c]
    tops.counts[c] = total
    for j in range(late):
        tops.oldest[c] = min(tops.oldest[c], new_numbers[j])
    sap.registers[INSERTIONS] += late
    if not tops.complete[c] and total == most:
        tops.bar_keys[c], tops.bar_numbers[c] = tops.keys[c, begin + total - 1], tops.numbers[c, begin + total - 1]


@kernel
def sort_recent(sap: SharedSap, plan: SharedSapPlan) -> None:
    """Sort the recent objects that can be in any list, once for all window sizes."""
    r, ring, tops, work, bar = sap.registers, sap.ring, sap.tops, sap.work, np.inf
    for c in range(tops.complete.size):
        bar = min(bar, -np.inf if tops.complete[c] else tops.bar_keys[c])
    keys, numbers = work.recent_keys, work.recent_numbers
    size, bar = add_range(ring, keys, numbers, 0, plan.depth, bar, r[RECENT_FROM], r[RECENT_TO])
    best = min(size, plan.depth)
    bring_best_pairs_forward(ring, keys, numbers, size, best)
    sort_pairs(ring, keys, numbers, 0, best, work.waiting)
    r[RECENT_SIZE] = best


@kernel
def take_recent(sap: SharedSap, plan: SharedSapPlan, c: int) -> None:
    """Merge the recent objects that belong to the list of a window size into it."""
    r, ring, tops, most, late = sap.registers, sap.ring, sap.tops, plan.most[c], 0
    if r[RECENT_SIZE] == NOT_FORMED:
        sort_recent(sap, plan)
    keys, numbers, size = sap.work.recent_keys, sap.work.recent_numbers, min(most, r[RECENT_SIZE])
    if tops.complete[c]:
        late = size
        if tops.counts[c] + r[RECENT_TO] - r[RECENT_FROM] > most:
            tops.complete[c] = 0
    else:
        while late < size and ahead(ring, keys[late], numbers[late], tops.bar_keys[c], tops.bar_numbers[c]):
            late += 1
    if late:
        merge_new(sap, keys, numbers, most, c, late)


@kernel
def take_new(sap: SharedSap, plan: SharedSapPlan, c: int, low: int) -> None:
    """Merge the objects from number `low` on that belong to the list of a window size into it."""
    ring, tops, work, most, late = sap.ring, sap.tops, sap.work, plan.most[c], 0
    bar = -np.inf if tops.complete[c] else tops.bar_keys[c]
    size, bar = add_range(ring, work.keys, work.numbers, 0, most, bar, low, ring.span[TAIL])
    if size > most:
        bring_best_pairs_forward(ring, work.keys, work.numbers, size, most)
        size = most
    for i in range(size):
        key, number = work.keys[i], work.numbers[i]
        if tops.complete[c] or ahead(ring, key, number, tops.bar_keys[c], tops.bar_numbers[c]):
            work.keys[late], work.numbers[late] = key, number
            late += 1
    if tops.counts[c] + ring.span[TAIL] - low > most:
        tops.complete[c] = 0  # if it was, all new objects belong to the list, and some find no room
    if late:
        sort_pairs(ring, work.keys, work.numbers, 0, late, work.waiting)
        merge_new(sap, work.keys, work.numbers, most, c, late)


@inner_kernel
def width_for(most: int, objects: int) -> int:
    """Width of a row for a list of at most `most` entries of a window with this many objects."""
    longest = min(most, objects)
    return longest + longest // 4 + 16


@inner_kernel
def update_list(sap: SharedSap, plan: SharedSapPlan, c: int, start: int) -> bool:
    """Make the list of a window size that of the window from `start` on; return False if there is no room."""
    ring, tops = sap.ring, sap.tops
    tail = ring.span[TAIL]
    head = first_number_from(ring, max(tops.heads[c], ring.span[HEAD]), start)
    if tops.keys.shape[1] < plan.width and width_for(plan.most[c], tail - head) > tops.keys.shape[1]:
        sap.registers[LACKS], sap.registers[NEEDS] = TOPS, width_for(plan.most[c], tail - head)
        return False
    tops.heads[c] = head
    if tops.oldest[c] < head:
        drop_expired(tops, c, head)
    low = max(tops.seen[c], head)
    if tops.complete[c] and tail - low > longest_list(plan.most[c]):
        refill(sap, plan, c)
        return True
    if tail - low == 1:
        key = ring.keys[low & (ring.keys.size - 1)]
        if tops.complete[c] or (
            key >= tops.bar_keys[c] and ahead(ring, key, low, tops.bar_keys[c], tops.bar_numbers[c])
        ):
            insert(sap, plan.most[c], c, key, low)
    elif low == sap.registers[RECENT_FROM] and low < tail:
        take_recent(sap, plan, c)
    elif low < tail:
        take_new(sap, plan, c, low)
    tops.seen[c] = tail
    if tops.counts[c] < plan.ks[c] and not tops.complete[c]:
        refill(sap, plan, c)
    return True


@inner_kernel
def answer_moment(
    sap: SharedSap, plan: SharedSapPlan, queries: Queries, moments: Moments, first: int, answers: Answers
) -> int:
    """Answer the queries that are due first; return a status. The next call continues where this one stopped."""
    r, tops, lattice = sap.registers, sap.tops, moments.heap[0]
    end = moments.due[lattice]
    if r[RECENT_TO] < sap.ring.span[TAIL]:
        r[RECENT_FROM], r[RECENT_TO], r[RECENT_SIZE] = r[RECENT_TO], sap.ring.span[TAIL], NOT_FORMED
    for at in range(moments.begins[lattice] + r[ANSWERED], moments.begins[lattice + 1]):
        query = moments.members[at]
        start = end - queries.sizes[query]
        reported = not queries.full_only[query] or start >= first
        if reported and queries.since[query] <= start <= r[NEWEST]:
            c = plan.of_query[query]
            if not update_list(sap, plan, c, start):
                r[ANSWERED] = at - moments.begins[lattice]
                return STATE_FULL
            begin, rows = tops.begins[c], min(queries.ks[query], tops.counts[c])
            if not has_room(answers, rows):
                r[ANSWERED] = at - moments.begins[lattice]
                return ANSWERS_FULL
            to = answers.cursor[ROWS]
            keys, ids = answers.keys[to : to + rows], answers.ids[to : to + rows]
            from_keys, from_ids = tops.keys[c, begin : begin + rows], tops.ids[c, begin : begin + rows]
            for i in range(rows):
                keys[i], ids[i] = from_keys[i], from_ids[i]
            answers.cursor[ROWS] = to + rows
            close_window(answers, query, end)
    r[ANSWERED] = 0
    return DONE


@kernel
def forget_all(sap: SharedSap, plan: SharedSapPlan) -> None:
    """Reset the state after everything has expired."""
    r, tops, tail = sap.registers, sap.tops, sap.ring.span[TAIL]
    sap.ring.span[HEAD] = tail
    r[OLDEST_PART] = r[NEWEST_PART]
    r[EMPTY] = 1
    r[RECENT_FROM], r[RECENT_TO], r[RECENT_SIZE] = tail, tail, NOT_FORMED
    open_partition(sap, plan)
    for c in range(tops.counts.size):
        tops.counts[c], tops.complete[c], tops.oldest[c] = 0, 1, NOTHING
        tops.heads[c] = tops.seen[c] = tail


@inner_kernel
def expire(sap: SharedSap, plan: SharedSapPlan, end: int) -> None:
    """Drop partitions that no window ending at `end` or later contains."""
    r, ring, parts = sap.registers, sap.ring, sap.parts
    start = end - plan.sizes[0]
    if r[NEWEST] < start:
        forget_all(sap, plan)
        return
    while r[OLDEST_PART] < r[NEWEST_PART]:
        part_end = parts.ends[r[OLDEST_PART] & (parts.begins.size - 1)]
        if position_of(ring, part_end - 1) >= start:
            break
        ring.span[HEAD] = part_end
        r[OLDEST_PART] += 1


@inner_kernel
def take_rows(
    sap: SharedSap, plan: SharedSapPlan, moments: Moments, rows: Rows, low: int, high: int
) -> tuple[int, int]:
    """Add rows ``[low, high)``, between which no window ends; return a status and the first row not added."""
    r, ring, span, i = sap.registers, sap.ring, sap.ring.span, low
    settle_columns(ring, rows, low)
    while i < high:
        if span[TAIL] - r[OPEN_BEGIN] >= r[OPEN_LENGTH] and not close_partition(sap, plan, next_moment(moments)):
            return STATE_FULL, i
        stop = min(high, i + r[OPEN_BEGIN] + r[OPEN_LENGTH] - span[TAIL])
        room = span[HEAD] + ring.keys.size - span[TAIL]
        if room == 0:
            r[LACKS] = RING
            return STATE_FULL, i
        stop = min(stop, i + room)
        if sap.open_keys.size < longest_list(plan.depth):
            room = sap.open_keys.size - r[OPEN_SIZE]
            if room == 0:
                r[LACKS] = OPEN
                return STATE_FULL, i
            stop = min(stop, i + room)
        tail = span[TAIL]
        append_rows(ring, rows, i, stop)
        if stop - i > 1 or rows.keys[i] >= sap.reals[OPEN_BAR]:
            r[OPEN_SIZE], sap.reals[OPEN_BAR] = add_range(
                ring,
                sap.open_keys,
                sap.open_numbers,
                r[OPEN_SIZE],
                plan.depth,
                sap.reals[OPEN_BAR],
                tail,
                tail + stop - i,
            )
        r[NEWEST] = position_at(rows, stop - 1)
        r[EMPTY] = 0
        i = stop
    return DONE, i


@kernel
def advance(
    sap: SharedSap,
    plan: SharedSapPlan,
    queries: Queries,
    moments: Moments,
    rows: Rows,
    at: int,
    watermark: int,
    first: int,
    answers: Answers,
) -> tuple[int, int]:
    """Process the rows from index `at` on and answer all windows that end at or before the watermark."""
    r, n, i = sap.registers, rows.keys.size, at
    while True:
        due = position_at(rows, i) if i < n else watermark
        while not r[EMPTY] and next_moment(moments) <= due:
            end = next_moment(moments)
            status = answer_moment(sap, plan, queries, moments, first, answers)
            if status != DONE:
                return status, i
            pass_moment(moments, None, r[NEWEST], due)
            if next_moment(moments) > end:
                expire(sap, plan, next_moment(moments))
        if i == n:
            return DONE, n
        if r[EMPTY]:
            reset_moments(moments, None, due)
        status, i = take_rows(sap, plan, moments, rows, i, first_row_at(rows, i, next_moment(moments)))
        if status != DONE:
            return status, i
