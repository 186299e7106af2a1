"""MTopList's minimum pointers and marks after many new objects, for all views in one pass.

Moving the pointer of each view for each new object costs as many steps as there are views entered: about a hundred per
object with a thousand queries. Instead, new objects can wait while views open and windows end, and be merged into the
list together. Then the pointers and marks of all views are moved once for all of them. Before an answer is read from
the list, the objects that wait are inserted without marks.

Here a *rank* is the number of better objects in the list, and only live views have numbers, from the oldest on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.radix import SortRoom, radix_sort, sort_room
from skyband.kernels.ranked_list import (
    FREE,
    HEAD,
    LENGTH,
    NEXT,
    Int32s,
    RankedList,
    insert,
    is_ahead,
    relink,
)
from skyband.kernels.stream import Floats, Ints, Rows, id_at, position_at
from skyband.topk.kernels.batches import BATCHES, LEFT, WAITING, WAITS, begin, choose
from skyband.topk.kernels.views import BLOCK, LIVE, NEWEST, NONE, OLDEST, UNFILLED, Views, find_floor, find_lowest_bar

FAN = 4  # a node of the counting tree has 1 << FAN children
NEAR = 24  # steps that a pointer walks; a longer way is found with the tree
SHARE = 4  # a batch has a fourth as many objects as there are views and candidates
STRAY = (1 << 31) - 1  # as the first view of an object that belongs to none

# ViewMarks.marks
START = 0
END = 1


class ListBatch(NamedTuple):
    """Scratch space; only its registers are used between batches."""

    keys: Floats  # the new objects that wait
    new_positions: Ints
    ids: Ints
    order: Int32s  # per rank: the slot
    positions: Ints  # per rank
    newer: Int32s  # per rank: new objects that are better
    views: Int32s  # per rank: the newest view that starts at or before the object, NONE if all start after it
    following: Int32s  # per rank: the next one with the same view, NONE after the last
    ranks: Int32s  # per slot
    starts: Ints  # per view
    numbers: Int32s  # per view: its number in the ring
    firsts: Int32s  # per view: the first rank of its chain
    minima: Int32s  # per view: the rank of its minimum
    stack: Int32s  # per view
    table: Int32s  # of equal ranges of positions: the first view that starts in it or later
    tree: Int32s  # objects at or after the start of a view, counted by rank: leaves of 1 << FAN ranks, then their sums
    room: SortRoom
    registers: Ints


def empty_batch(capacity: int, views: int, registers: Ints) -> ListBatch:
    """Return scratch space for a list and a ring of views of these capacities."""
    waiting = capacity // 2
    order, newer, newest, following, ranks = (np.empty(capacity, np.int32) for _ in range(5))
    numbers, firsts, minima, stack = (np.empty(views + 1, np.int32) for _ in range(4))
    return ListBatch(
        keys=np.empty(waiting),
        new_positions=np.empty(waiting, np.int64),
        ids=np.empty(waiting, np.int64),
        order=order,
        positions=np.empty(capacity, np.int64),
        newer=newer,
        views=newest,
        following=following,
        ranks=ranks,
        starts=np.empty(views + 1, np.int64),
        numbers=numbers,
        firsts=firsts,
        minima=minima,
        stack=stack,
        table=np.empty(views + 2, np.int32),
        tree=np.empty(sum(tree_levels(capacity)), np.int32),
        room=sort_room(waiting),
        registers=registers,
    )


def tree_levels(capacity: int) -> list[int]:
    """Number of nodes on each level of the tree, the leaves first."""
    levels = [(capacity >> FAN) + 1]
    while levels[-1] > 1 << FAN:
        levels.append((levels[-1] >> FAN) + 1)
    return levels


@kernel
def begin_batch(chain: RankedList, views: Views, batch: ListBatch, rows: Rows, at: int) -> bool:
    """Begin a batch if it is worth it; return False if that needs more room."""
    held = chain.registers[LENGTH] + views.registers[LIVE]
    count = choose(batch.registers, views, held, held // SHARE, rows, at)
    if count:
        if chain.registers[LENGTH] + count >= chain.keys.size or count > batch.keys.size:
            batch.registers[LEFT] = 0
            return False
        begin(batch.registers, count)
    return True


@kernel
def let_wait(batch: ListBatch, floor: float, rows: Rows, low: int, high: int) -> None:
    """Keep the rows that may belong to a view for the end of the batch."""
    count = batch.registers[WAITING]
    for i in range(low, high):
        if rows.keys[i] >= floor:
            batch.keys[count], batch.new_positions[count], batch.ids[count] = (
                rows.keys[i],
                position_at(rows, i),
                id_at(rows, i),
            )
            count += 1
    batch.registers[WAITING] = count


@kernel
def insert_waiting(chain: RankedList, marks: Int32s, batch: ListBatch) -> None:
    """Insert the objects that wait into the list, without marks."""
    for i in range(batch.registers[WAITING]):
        slot = insert(chain, batch.keys[i], batch.new_positions[i], batch.ids[i])
        marks[slot, START] = NONE
    batch.registers[WAITING] = 0


@kernel
def merge_waiting(chain: RankedList, marks: Int32s, batch: ListBatch) -> int:
    """Number the objects of the list and those that wait, best first; return how many there are."""
    keys, positions, around = chain.keys, chain.positions, chain.around
    count = batch.registers[WAITING]
    radix_sort(batch.keys, batch.new_positions, batch.ids, count, batch.room)
    fresh, rank, slot, free = 0, 0, around[HEAD, NEXT], chain.registers[FREE]
    for i in range(count + 1):
        while slot != HEAD:
            if i < count and not (
                keys[slot] > batch.keys[i]
                or (
                    keys[slot] == batch.keys[i]
                    and is_ahead(chain, slot, batch.keys[i], batch.new_positions[i], batch.ids[i])
                )
            ):
                break
            batch.order[rank], batch.ranks[slot] = slot, rank
            batch.positions[rank], batch.newer[rank] = positions[slot], fresh
            fresh += marks[slot, START] == NONE
            rank += 1
            slot = around[slot, NEXT]
        if i < count:
            keys[free], positions[free], chain.ids[free] = batch.keys[i], batch.new_positions[i], batch.ids[i]
            batch.order[rank], batch.ranks[free] = free, rank
            batch.positions[rank], batch.newer[rank] = positions[free], fresh
            fresh += 1
            rank += 1
            free = around[free, NEXT]
    chain.registers[FREE], batch.registers[WAITING] = free, 0
    return rank


@kernel
def find_views(views: Views, batch: ListBatch, objects: int) -> int:
    """Number the live views, and chain the objects by the newest that starts at or before them; return their number."""
    starts, table, mask, count = batch.starts, batch.table, views.starts.size - 1, 0
    for w in range(views.registers[OLDEST], views.registers[NEWEST] + 1):
        batch.numbers[count], starts[count], batch.firsts[count] = w, views.starts[w & mask], NONE
        count += views.ks[w & mask] > 0
    if count == 0:
        return 0
    shift, low = 0, starts[0]
    while (starts[count - 1] - low) >> shift >= count:
        shift += 1
    last = (starts[count - 1] - low) >> shift
    begun = 0
    for part in range(last + 1):
        while (starts[begun] - low) >> shift < part:
            begun += 1
        table[part] = begun
    table[last + 1] = count
    for rank in range(objects):
        position, v = batch.positions[rank], NONE
        if position >= low:
            part = min(last, (position - low) >> shift)
            v, high = int(table[part]), int(table[part + 1])
            while v < high:
                middle = (v + high) >> 1
                if starts[middle] <= position:
                    v = middle + 1
                else:
                    high = middle
            v -= 1
            batch.following[rank] = batch.firsts[v]
            batch.firsts[v] = rank
        batch.views[rank] = v
    return count


@inner_kernel
def count_object(tree: Int32s, leaves: int, rank: int) -> None:
    """Add an object to the tree, which has so many leaves."""
    node, base, width = rank >> FAN, 0, leaves
    tree[node] += 1
    while width > 1 << FAN:
        base += width
        width = (width >> FAN) + 1
        node >>= FAN
        tree[base + node] += 1


@inner_kernel
def rank_of_kth(batch: ListBatch, leaves: int, start: int, k: int) -> int:
    """The rank of the k-th best object in the tree, which contains all those at or after `start`. There must be one."""
    tree, base, width, level = batch.tree, 0, leaves, 0
    while width > 1 << FAN:
        base += width
        width = (width >> FAN) + 1
        level += 1
    node, left = 0, k
    while True:
        while tree[base + node] < left:
            left -= tree[base + node]
            node += 1
        node <<= FAN
        if level == 0:
            break
        level -= 1
        # The level below begins before this one.
        width = leaves
        for _ in range(level):
            width = (width >> FAN) + 1
        base -= width
    rank = node - 1
    while left:
        rank += 1
        left -= batch.positions[rank] >= start
    return rank


@kernel
def move_pointers(chain: RankedList, minima: Int32s, views: Views, batch: ListBatch, objects: int, count: int) -> None:
    """Find the minimum of every view, the newest first: each contains the objects of the newer ones and its own."""
    mask, tree, leaves = views.starts.size - 1, batch.tree, (objects >> FAN) + 1
    found, worst, unfilled = 0, -1, 0
    size, width = leaves, leaves
    while width > 1 << FAN:
        width = (width >> FAN) + 1
        size += width
    tree[:size] = 0
    for v in range(count - 1, -1, -1):
        rank = int(batch.firsts[v])
        while rank != NONE:
            count_object(tree, leaves, rank)
            found += 1
            worst = max(worst, rank)
            rank = int(batch.following[rank])
        at = batch.numbers[v] & mask
        k, start = views.ks[at], batch.starts[v]
        rank = worst
        if found > k:
            steps = NEAR + 1
            if views.counts[at] == k:
                # The pointer moves up by one object of the view for each new object in front of it.
                rank = int(batch.ranks[minima[at]])
                steps = int(batch.newer[rank])
            if steps > NEAR:
                rank = rank_of_kth(batch, leaves, start, k)
            else:
                while steps:
                    rank -= 1
                    steps -= batch.positions[rank] >= start
        batch.minima[v] = rank
        minima[at] = batch.order[rank]
        views.counts[at] = min(found, k)
        views.bars[at] = chain.keys[batch.order[rank]] if found >= k else -np.inf
        unfilled += found < k
    views.registers[UNFILLED] = unfilled
    for block in range(views.bars.size // BLOCK):
        find_lowest_bar(views.bars, views.lowest_bars, block)
    find_floor(views)


@kernel
def move_marks(chain: RankedList, marks: Int32s, batch: ListBatch, objects: int, count: int) -> None:
    """Find the first and the last view of every object; keep only those that belong to a view in the list."""
    minima, stack, order = batch.minima, batch.stack, batch.order
    reached, depth = 0, 0
    for v in range(count):
        # The first view of an object is the first whose minimum is not in front of it.
        while reached <= minima[v]:
            # Of an object that no view up to its own contains, it is a newer view.
            marks[order[reached], START] = batch.numbers[v] if v <= batch.views[reached] else STRAY
            reached += 1
        # Of the views up to this one, the stack has those whose minimum is behind the minima of all after them.
        while depth and minima[stack[depth - 1]] <= minima[v]:
            depth -= 1
        stack[depth] = v
        depth += 1
        rank = int(batch.firsts[v])
        while rank != NONE:
            # The last view of an object is the last up to this one whose minimum is not in front of it.
            low, high, step = depth - 1, depth, 1
            while low >= 0 and minima[stack[low]] < rank:
                high = low
                low -= step
                step *= 2
            low = max(low, -1)
            while high - low > 1:
                middle = (low + high) >> 1
                if minima[stack[middle]] < rank:
                    high = middle
                else:
                    low = middle
            if low >= 0:
                marks[order[rank], END] = batch.numbers[stack[low]]
            rank = int(batch.following[rank])
    kept, around, free = 0, chain.around, chain.registers[FREE]
    for rank in range(objects):
        slot = order[rank]
        if rank < reached and marks[slot, START] != STRAY:
            order[kept] = slot
            kept += 1
        else:
            around[slot, NEXT] = free
            free = slot
    chain.registers[FREE] = free
    relink(chain, order, kept)


@kernel
def complete(chain: RankedList, marks: Int32s, minima: Int32s, views: Views, batch: ListBatch) -> None:
    """Bring the list, all pointers and all marks up to date, if they wait."""
    r = batch.registers
    r[LEFT] = 0
    if not r[WAITS]:
        return
    r[WAITS] = 0
    r[BATCHES] += 1
    objects = merge_waiting(chain, marks, batch)
    count = find_views(views, batch, objects)
    move_pointers(chain, minima, views, batch, objects, count)
    move_marks(chain, marks, batch, objects, count)
