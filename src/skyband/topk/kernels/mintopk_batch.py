"""MinTopk's super-top-k list after many new objects: one merge by rank and one pass over windows and objects.

Positioning every object in the list when it arrives takes longer than all of SMA if every object becomes a candidate.
Instead, the new objects of several slides wait, and only the *front* of the list is kept up to date: all objects that
can be in a window that ends during the batch. At the end of the batch, the new objects are sorted and merged with the
list. Then one pass over the windows, oldest first, and the objects, best first, finds what the paper's UpdateSuperTopk
maintains step by step: the pointer and the counter of every window, the start mark of every object, and which objects
belong to no predicted top-k.

Between the batches of one call, the list is in flat arrays by rank; at the end of the call it is linked again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.order import beats
from skyband.kernels.radix import SortRoom, radix_sort, sort_room
from skyband.kernels.ranked_list import FREE, HEAD, NEXT, Int32s, RankedList, relink
from skyband.kernels.ranked_list import LENGTH as LISTED
from skyband.kernels.select import BLOCK, highest, skip_hopeless
from skyband.kernels.stream import (
    ROWS,
    Answers,
    Floats,
    Ints,
    KernelQuery,
    Rows,
    close_window,
    first_row_at,
    has_room,
    id_at,
    is_reported,
    position_at,
)

MOST = 1 << 16  # rows of a batch, at most
USUAL = 1 << 11  # rows of a batch if there are few candidates
ENOUGH = 8  # the last window that ends in a batch should begin so many times k objects before the batch
SAMPLED = 256  # rows of a batch that are examined before it
FEWEST_HOT = 64  # objects by which the front can always grow before it is trimmed; and by no more while keys rise
MANY_WINDOWS = 30  # that are open: single steps of rising keys take longer than batches, since each moves all pointers
SPARSE = 64  # slides with more than so many times k objects: nearly all are rejected by one comparison, without a batch

# RankBatch.registers
LENGTH = 0  # objects in the flat list
SIDE = 1  # the half that contains it
TAKEN = 2  # 1: the list is in the flat arrays, and the linked list is out of date
ROOM = 3  # rows of a batch for which the arrays are too small; 0: none
ALWAYS = 4  # 1: batches whenever they are possible, for tests
BATCHES = 5  # how many were completed
IS_FULL = 6  # 1: the batch ended because the answer buffers are full
RISES = 7  # 1: many keys of the batch are at or above the bar of the front
REGISTERS = 8


class RankBatch(NamedTuple):
    """Scratch space. The super-top-k list by rank, in one of two halves: a merge writes the other."""

    keys: Floats  # (2, capacity)
    positions: Ints
    ids: Ints
    ends: Ints  # end_w
    starts: Ints  # (capacity): start_w, of the half written last
    slots: Int32s  # (capacity): the slot of each rank once the list is linked
    leaving: Int32s  # per window from the oldest on: objects of its predicted top-k that end with it
    front_keys: Floats  # (capacity)
    front_positions: Ints
    front_ids: Ints
    front_ends: Ints
    new_keys: Floats  # (rows of a batch): the new objects that may belong to a window
    new_positions: Ints
    new_ids: Ints
    sample: Floats  # their keys, for the k-th highest
    room: SortRoom
    registers: Ints


def empty_rank_batch(capacity: int, rows: int, windows: int, registers: Ints) -> RankBatch:
    """Return scratch space for lists of this capacity and batches of so many rows."""
    positions, ids, ends = (np.empty((2, capacity), np.int64) for _ in range(3))
    starts, front_positions, front_ids, front_ends = (np.empty(capacity, np.int64) for _ in range(4))
    return RankBatch(
        keys=np.empty((2, capacity)),
        positions=positions,
        ids=ids,
        ends=ends,
        starts=starts,
        slots=np.arange(1, capacity + 1, dtype=np.int32),
        leaving=np.empty(windows, np.int32),
        front_keys=np.empty(capacity),
        front_positions=front_positions,
        front_ids=front_ids,
        front_ends=front_ends,
        new_keys=np.empty(rows),
        new_positions=np.empty(rows, np.int64),
        new_ids=np.empty(rows, np.int64),
        sample=np.empty(rows),
        room=sort_room(rows),
        registers=registers,
    )


@kernel
def take_list(chain: RankedList, marks: Int32s, base: int, batch: RankBatch) -> None:
    """Copy the linked list into the flat arrays; `marks` has start and end marks, counted from `base`."""
    rank, slot = 0, chain.around[HEAD, NEXT]
    while slot != HEAD:
        batch.keys[0, rank], batch.positions[0, rank], batch.ids[0, rank] = (
            chain.keys[slot],
            chain.positions[slot],
            chain.ids[slot],
        )
        batch.ends[0, rank] = marks[slot, 1] + base
        rank += 1
        slot = chain.around[slot, NEXT]
    batch.registers[LENGTH], batch.registers[SIDE], batch.registers[TAKEN] = rank, 0, 1


@kernel
def put_list(chain: RankedList, marks: Int32s, base: int, batch: RankBatch) -> None:
    """Link the list again, with every object in the slot after its rank; there must be room."""
    count, side = batch.registers[LENGTH], batch.registers[SIDE]
    for rank in range(count):
        chain.keys[rank + 1] = batch.keys[side, rank]
        chain.positions[rank + 1] = batch.positions[side, rank]
        chain.ids[rank + 1] = batch.ids[side, rank]
        marks[rank + 1, 0], marks[rank + 1, 1] = batch.starts[rank] - base, batch.ends[side, rank] - base
    relink(chain, batch.slots, count)
    capacity = chain.keys.size
    for slot in range(count + 1, capacity):
        chain.around[slot, NEXT] = slot + 1 if slot + 1 < capacity else HEAD
    chain.registers[FREE] = count + 1 if count + 1 < capacity else HEAD
    batch.registers[TAKEN] = 0


@kernel
def bar_of(chain: RankedList, batch: RankBatch, slot: int) -> float:
    """Return the key of the object that a pointer refers to, wherever the list is."""
    r = batch.registers
    return batch.keys[r[SIDE], slot - 1] if r[TAKEN] else chain.keys[slot]


@kernel
def newest_full(tkc: Int32s, k: int, oldest: int, newest: int) -> int:
    """Return the newest window with k objects; these are the oldest windows. The one before the oldest if none has."""
    low, high = oldest - 1, newest
    while low < high:
        middle = (low + high + 1) >> 1
        if tkc[middle % tkc.size] == k:
            low = middle
        else:
            high = middle - 1
    return low


@kernel
def trend(rows: Rows, low: int, high: int, front_bar: float, bar: float, share: float) -> int:
    """Return 1 if the keys of these rows rise, -1 if they fall, else 0.

    If they rise, many are at or above `front_bar`, and would be inserted into the front. If they fall, far fewer than
    the given share are at or above `bar`; single steps insert them at the end of the list, and are faster.
    """
    hot, found = 0, 0
    for i in range(SAMPLED):
        key = rows.keys[low + (high - low) * i // SAMPLED]
        hot += key >= front_bar
        found += key >= bar
    if 4 * hot > SAMPLED:
        return 1
    return -1 if 4 * found < share * SAMPLED else 0


@inner_kernel
def cost_of_merge(held: int, windows: float) -> float:
    """Return what a merge takes: about the same for each candidate, and a quarter of it for each open window."""
    return held + windows / 4


@inner_kernel
def cost_of_single(k: int, slides: float, held: int, windows: float) -> float:
    """Return what single steps take for an object, in units of what a merge takes for each; it is so many slides."""
    return min(1.0, k * slides) * (6.0 + min(held * slides, windows) / 5)


@kernel
def last_row(
    chain: RankedList,
    batch: RankBatch,
    tkc: Int32s,
    lbp: Int32s,
    oldest: int,
    newest: int,
    query: KernelQuery,
    rows: Rows,
    at: int,
) -> tuple[int, float]:
    """Return the row before which a batch from row `at` on ends, `at` if it is not worth it, and the bar of its front.

    All windows that end during the batch must be full: their worst objects decide which new ones can be in them.
    """
    r, k, windows, left = batch.registers, query.k, tkc.size, rows.keys.size - at
    held = r[LENGTH] if r[TAKEN] else chain.registers[LISTED]
    opened = float(newest - oldest + 1)
    work = cost_of_merge(held, opened)
    wanted = min(max(2 * int(work), USUAL), MOST)
    if 2 * left < 3 * wanted:
        wanted = left  # the last rows of a call do not make a separate batch
    here = position_at(rows, at)
    span = position_at(rows, at + wanted - 1) - here + 1
    slides = float(span) / (float(query.slide) * wanted)  # that a new object is
    single = cost_of_single(k, slides, held, opened)
    if not r[ALWAYS] and (k * slides * SPARSE < 1.0 or single * wanted < work):
        return at, 0.0
    latest = full = newest_full(tkc, k, oldest, newest)
    if not r[ALWAYS]:
        # The last window that ends must contain some times k objects already, or else most new ones can be in it.
        objects = int(ENOUGH * k * span) // wanted
        full = min(full, (here - objects + query.size - query.origin) // query.slide)
    if full < oldest:
        return at, 0.0
    stop = min(at + wanted, first_row_at(rows, at, query.origin + (full + 1) * query.slide))
    if stop == at or (not r[ALWAYS] and single * (stop - at) < work):
        return at, 0.0
    # Only windows that end before the last row matter.
    full = min(full, max(oldest, (position_at(rows, stop - 1) - query.origin) // query.slide))
    front_bar = bar_of(chain, batch, lbp[full % windows])
    if not r[ALWAYS]:
        begin = query.origin + latest * query.slide - query.size
        share = min(1.0, k * span / (max(1.0, float(here - begin)) * wanted))
        found = trend(rows, at, stop, front_bar, bar_of(chain, batch, lbp[latest % windows]), share)
        if found < 0 or (found > 0 and newest - oldest + 1 < MANY_WINDOWS):
            return at, 0.0
        r[RISES] = found
    return stop, front_bar


@kernel
def lacks_space(chain: RankedList, batch: RankBatch, rows: int) -> bool:
    """Whether the arrays are too small for a batch of so many rows."""
    r = batch.registers
    held = r[LENGTH] if r[TAKEN] else chain.registers[LISTED]
    return held + rows > batch.starts.size or rows > batch.new_keys.size


@kernel
def extract_front(batch: RankBatch, bar: float) -> int:
    """Copy the objects with a key of at least `bar`; return their number."""
    side, rank = batch.registers[SIDE], 0
    while rank < batch.registers[LENGTH] and batch.keys[side, rank] >= bar:
        batch.front_keys[rank], batch.front_positions[rank], batch.front_ids[rank], batch.front_ends[rank] = (
            batch.keys[side, rank],
            batch.positions[side, rank],
            batch.ids[side, rank],
            batch.ends[side, rank],
        )
        rank += 1
    return rank


@kernel
def insert_into_front(batch: RankBatch, size: int, key: float, position: int, id_: int, end: int) -> None:
    """Insert an object into the front, which has `size` objects."""
    keys, positions, ids, ends = batch.front_keys, batch.front_positions, batch.front_ids, batch.front_ends
    low, high = 0, size
    while low < high:
        middle = (low + high) >> 1
        if beats(keys[middle], positions[middle], ids[middle], key, position, id_):
            low = middle + 1
        else:
            high = middle
    for i in range(size, low, -1):
        keys[i] = keys[i - 1]
    for i in range(size, low, -1):
        positions[i] = positions[i - 1]
    for i in range(size, low, -1):
        ids[i] = ids[i - 1]
    for i in range(size, low, -1):
        ends[i] = ends[i - 1]
    keys[low], positions[low], ids[low], ends[low] = key, position, id_, end


@kernel
def purge_front(batch: RankBatch, size: int, window: int) -> int:
    """Remove the objects that end with this window or an older one; return how many are left."""
    keys, positions, ids, ends = batch.front_keys, batch.front_positions, batch.front_ids, batch.front_ends
    leaving, mine = 0, ends[:size]
    for i in range(mine.size):  # no branch: compiles to vector instructions
        leaving += mine[i] <= window
    if leaving == 0:
        return size
    kept = 0
    for i in range(size):
        if ends[i] > window:
            keys[kept], positions[kept], ids[kept], ends[kept] = keys[i], positions[i], ids[i], ends[i]
            kept += 1
    return kept


@kernel
def trim_front(batch: RankBatch, size: int, k: int) -> int:
    """Remove the objects that are worse than k others which end no earlier; return how many are left.

    They are in no answer. `batch.sample` has a heap with the k latest ends of the better objects, the earliest first.
    """
    if k > batch.sample.size:
        return size
    keys, positions, ids, ends = batch.front_keys, batch.front_positions, batch.front_ids, batch.front_ends
    latest, held, kept = batch.sample, 0, 0
    for i in range(size):
        end = float(ends[i])
        if held == k and latest[0] >= end:
            continue
        if held < k:
            place = held
            held += 1
            while place > 0 and latest[(place - 1) >> 1] > end:
                latest[place] = latest[(place - 1) >> 1]
                place = (place - 1) >> 1
        else:
            place = 0
            while 2 * place + 1 < k:
                child = 2 * place + 1
                if child + 1 < k and latest[child + 1] < latest[child]:
                    child += 1
                if latest[child] >= end:
                    break
                latest[place] = latest[child]
                place = child
        latest[place] = end
        keys[kept], positions[kept], ids[kept], ends[kept] = keys[i], positions[i], ids[i], ends[i]
        kept += 1
    return kept


@kernel
def write_front(batch: RankBatch, k: int, end: int, answers: Answers) -> None:
    """Write the first k objects of the front, which are the answer of the oldest window."""
    at = answers.cursor[ROWS]
    keys, ids = answers.keys[at : at + k], answers.ids[at : at + k]
    for i in range(keys.size):
        keys[i] = batch.front_keys[i]
    for i in range(ids.size):
        ids[i] = batch.front_ids[i]
    answers.cursor[ROWS] = at + k
    close_window(answers, 0, end)


@kernel
def select_new(batch: RankBatch, rows: Rows, low: int, high: int, k: int) -> int:
    """Copy the rows that are not worse than k later ones, which are in all of their windows; return their number."""
    floor, sampled, count, stop = -np.inf, 0, 0, high
    while stop > low:
        begin = max(low, stop - BLOCK)
        part, hopeful = rows.keys[begin:stop], 0
        for i in range(part.size):
            hopeful += part[i] >= floor
        if hopeful:
            for i in range(stop - 1, begin - 1, -1):
                key = rows.keys[i]
                if key >= floor:
                    batch.new_keys[count], batch.new_positions[count], batch.new_ids[count] = (
                        key,
                        position_at(rows, i),
                        id_at(rows, i),
                    )
                    batch.sample[sampled] = key
                    count += 1
                    sampled += 1
            if sampled >= 2 * k:
                floor, sampled = highest(batch.sample, sampled, k), k
        stop = begin
    return count


@kernel
def merge(batch: RankBatch, tkc: Int32s, lbp: Int32s, oldest: int, newest: int, query: KernelQuery, count: int) -> None:
    """Merge the list with `count` sorted new objects, and set the pointers, counters and marks of the open windows.

    The pointer of the oldest window is at the k-th object. From one window to the next, those in front of the pointer
    that end with the first leave, and the pointer moves down by as many objects that do not: these are K_new of Lemma
    4.1, and their start mark is the next window. An object that ends before the window that the pointer has reached is
    in no predicted top-k.
    """
    r, k, windows = batch.registers, query.k, tkc.size
    length, side = r[LENGTH], r[SIDE]
    old_keys, old_positions, old_ids, old_ends = (
        batch.keys[side],
        batch.positions[side],
        batch.ids[side],
        batch.ends[side],
    )
    keys, positions, ids, ends = (
        batch.keys[1 - side],
        batch.positions[1 - side],
        batch.ids[1 - side],
        batch.ends[1 - side],
    )
    new_keys, new_positions, new_ids = batch.new_keys, batch.new_positions, batch.new_ids
    starts, leaving = batch.starts, batch.leaving
    for w in range(newest - oldest + 1):
        leaving[w] = 0
    i, j, rank, w, ring, missing = 0, 0, 0, oldest, oldest % windows, k
    while w <= newest and (i < length or j < count):
        if j < count and (
            i == length
            or old_keys[i] < new_keys[j]
            or (
                old_keys[i] == new_keys[j]
                and not beats(old_keys[i], old_positions[i], old_ids[i], new_keys[j], new_positions[j], new_ids[j])
            )
        ):
            end = (new_positions[j] + query.size - query.origin) // query.slide
            if end >= w:
                keys[rank], positions[rank], ids[rank] = new_keys[j], new_positions[j], new_ids[j]
            j += 1
        else:
            end = old_ends[i]
            if end >= w:
                keys[rank], positions[rank], ids[rank] = old_keys[i], old_positions[i], old_ids[i]
            i += 1
        if end < w:
            continue
        starts[rank], ends[rank] = w, end
        rank += 1
        leaving[end - oldest] += 1
        missing -= 1
        while missing == 0 and w <= newest:
            tkc[ring], lbp[ring] = k, rank  # the slot after the object's rank
            missing = leaving[w - oldest]
            w += 1
            ring += 1
            if ring == windows:
                ring = 0
    # The newest windows are not full.
    last, inside = rank, k - missing
    while w <= newest:
        while last > 0 and ends[last - 1] < w:
            last -= 1
        tkc[ring], lbp[ring] = inside, last
        inside -= leaving[w - oldest]
        w += 1
        ring += 1
        if ring == windows:
            ring = 0
    r[LENGTH], r[SIDE] = rank, 1 - side
    r[BATCHES] += 1


@kernel
def answer_windows(
    batch: RankBatch,
    query: KernelQuery,
    rows: Rows,
    low: int,
    stop: int,
    oldest: int,
    bar: float,
    first: int,
    answers: Answers,
) -> tuple[int, int]:
    """Answer the windows that end while rows ``[low, stop)`` arrive; return the row reached and the oldest window then.

    `bar` is the worst key of the last of these windows: a new object below it cannot be in any of them.
    """
    i, size = low, extract_front(batch, bar)
    growth = FEWEST_HOT if batch.registers[RISES] else max(FEWEST_HOT, (stop - low) // 4)
    most = min(batch.front_keys.size, size + growth)
    batch.registers[IS_FULL] = 0
    while i < stop:
        due = position_at(rows, i)
        while query.origin + oldest * query.slide <= due:
            end = query.origin + oldest * query.slide
            if is_reported(query, end, first):
                if not has_room(answers, query.k):
                    batch.registers[IS_FULL] = 1
                    return i, oldest
                write_front(batch, query.k, end, answers)
            size = purge_front(batch, size, oldest)
            oldest += 1
        boundary = first_row_at(rows, i, query.origin + oldest * query.slide)
        until = min(stop, boundary)
        while i < until:
            i = skip_hopeless(rows.keys, i, until, bar)
            block = min(until, i + BLOCK)
            while i < block:
                if rows.keys[i] >= bar:
                    if size == most:
                        size = trim_front(batch, size, query.k)
                        if size > most - growth // 2:
                            return i, oldest
                    position = position_at(rows, i)
                    last = (position + query.size - query.origin) // query.slide
                    insert_into_front(batch, size, rows.keys[i], position, id_at(rows, i), last)
                    size += 1
                i += 1
    return i, oldest


@kernel
def process_batch(
    batch: RankBatch,
    tkc: Int32s,
    lbp: Int32s,
    query: KernelQuery,
    rows: Rows,
    low: int,
    stop: int,
    oldest: int,
    newest: int,
    bar: float,
    first: int,
    answers: Answers,
) -> tuple[int, int, int]:
    """Process rows from `low` on, at most up to `stop`; return the row reached, the oldest and the newest window."""
    at, oldest = answer_windows(batch, query, rows, low, stop, oldest, bar, first, answers)
    if at > low:
        newest = (position_at(rows, at - 1) + query.size - query.origin) // query.slide
    count = select_new(batch, rows, low, at, query.k)
    radix_sort(batch.new_keys, batch.new_positions, batch.new_ids, count, batch.room)
    merge(batch, tkc, lbp, oldest, newest, query, count)
    return at, oldest, newest
