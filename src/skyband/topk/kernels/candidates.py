"""The pane executor's candidates: a block of young candidates, and the standing candidates it is merged into.

Both are sorted best first. A sweep merges them and drops objects that too many younger objects beat. It may keep more
objects than necessary, because it knows an object's age but not where views begin; `kernels.minimal` computes the exact
set on request. With ties, an object beats only objects with a lower key.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.order import beats
from skyband.kernels.radix import SortRoom, radix_sort, sort_bits
from skyband.kernels.stream import Floats, Ints, Ties
from skyband.topk.kernels.listed import Lists, has_cuts, last_cut, next_cut
from skyband.topk.kernels.open_pane import CUT_AT, SELECTED, SIZE, OpenPane, estimate_bar

# CandidateStore.registers
STANDING = 0  # number of standing candidates
BLOCK = 1  # number of objects in the block
SIDE = 2  # which half of the standing arrays is in use; a sweep writes to the other half
BLOCK_SIDE = 3
NEWEST = 4  # the position of the newest object processed
SWEEPS = 5  # how many times a block was merged into the standing candidates
PANE_END = 6  # end of the open pane if it is being cut to its k best; else NO_PANE: it may contain several panes
ANSWERED = 7  # how many of the queries that are due together have been answered
REGISTERS = 8

NO_PANE = -(2**62)

LEAST_BLOCK = 256  # a block with fewer objects is not swept
AGES = 512  # steps of the table of k by age


class CandidateStore(NamedTuple):
    """Standing candidates and block, both sorted best first, each stored in two halves of which one is in use."""

    keys: Floats  # (2, capacity)
    positions: Ints
    ids: Ints
    dominated: Ints  # better objects that arrived at the same position or later
    block_keys: Floats
    block_positions: Ints
    block_ids: Ints
    registers: Ints


class PanesPlan(NamedTuple):
    """Parameters that the executor derives from the queries."""

    k: int  # the largest of the workload
    k_by_age: Ints  # the largest k of the queries whose windows reach back this far; ages in steps of 2**age_shift
    age_shift: int
    lattices: Ints  # (n, 2): the distinct (slide, start) lattices of view starts; empty: too many to cut panes by
    ties: Ties
    listed: Lists


class PanesScratch(NamedTuple):
    """Scratch space; not used between calls."""

    sort: SortRoom
    ranks: Ints  # (block capacity): of the block's objects, by position
    tree: Ints  # counts of objects by rank, as a Fenwick tree
    heap: Ints  # (open pane's capacity)
    picked: Ints  # (standing capacity): candidates of the window being answered


@kernel
def held_count(store: CandidateStore, pane: OpenPane) -> int:
    """Number of objects in the open pane, the block and the standing candidates."""
    return store.registers[STANDING] + store.registers[BLOCK] + pane.registers[SIZE]


@inner_kernel
def cuts_panes(plan: PanesPlan) -> bool:
    """Whether the view starts are known; there may be too many to list."""
    return plan.lattices.shape[0] > 0 or has_cuts(plan.listed)


@kernel
def youngest_view(plan: PanesPlan, position: int) -> int:
    """Start of the youngest view that contains `position`; the position itself if there are too many views to list."""
    if not cuts_panes(plan):
        return position
    begin = last_cut(plan.listed, position)
    for i in range(plan.lattices.shape[0]):
        slide, start = plan.lattices[i, 0], plan.lattices[i, 1]
        begin = max(begin, start + (position - start) // slide * slide)
    return begin


@kernel
def next_start(plan: PanesPlan, position: int) -> int:
    """Start of the next view after `position`."""
    begin = next_cut(plan.listed, position)
    for i in range(plan.lattices.shape[0]):
        slide, start = plan.lattices[i, 0], plan.lattices[i, 1]
        begin = min(begin, start + ((position - start) // slide + 1) * slide)
    return begin


@kernel
def k_at_age(plan: PanesPlan, age: int) -> int:
    """The largest k of the queries whose windows can contain an object of this age; 0 if it has expired for all."""
    step = age >> plan.age_shift
    return plan.k_by_age[step] if step < AGES else 0


@kernel
def sweep_view(
    store: CandidateStore, plan: PanesPlan, keys: Floats, positions: Ints, ids: Ints, new: int, now: int, counted: int
) -> None:
    """Merge sorted objects that share their youngest view into the standing candidates, and drop dominated objects.

    An object is dropped if it is beaten too often for its age. Windows that end after `now` are still unanswered. With
    `counted` 0 the new objects may belong to several views, and their counts start at 0.

    Both objects of each pair are loaded and one is selected without a branch: the outcome is random, so a branch would
    be mispredicted half of the time.
    """
    r = store.registers
    old, side = r[STANDING], r[SIDE]
    old_keys, old_positions = store.keys[side], store.positions[side]
    old_ids, dominated = store.ids[side], store.dominated[side]
    to_keys, to_positions = store.keys[1 - side], store.positions[1 - side]
    to_ids, to_dominated = store.ids[1 - side], store.dominated[1 - side]
    i, j, kept = 0, 0, 0
    above, last = 0, np.nan  # with ties: new objects above the last key; equal keys reuse the count
    while i < old and j < new:
        key, position, id_ = keys[j], positions[j], ids[j]
        old_key, old_position, old_id = old_keys[i], old_positions[i], old_ids[i]
        older = old_key > key
        if old_key == key:
            older = beats(old_key, old_position, old_id, key, position, id_)
        if plan.ties is None:
            above = j
        else:
            higher = old_key if older else key
            above = above if higher == last else j
            last = higher
        better = dominated[i] + above if older else counted * above
        chosen = old_position if older else position
        to_keys[kept] = old_key if older else key
        to_positions[kept] = chosen
        to_ids[kept] = old_id if older else id_
        to_dominated[kept] = better
        kept += better < k_at_age(plan, now - chosen)
        i += older
        j += not older
    for rest in range(i, old):
        above = new if plan.ties is None or old_keys[rest] != last else above
        better = dominated[rest] + above
        to_keys[kept], to_positions[kept], to_ids[kept] = old_keys[rest], old_positions[rest], old_ids[rest]
        to_dominated[kept] = better
        kept += better < k_at_age(plan, now - old_positions[rest])
    for rest in range(j, new):
        if plan.ties is None:
            above = rest
        else:
            above = above if keys[rest] == last else rest
            last = keys[rest]
        to_keys[kept], to_positions[kept], to_ids[kept] = keys[rest], positions[rest], ids[rest]
        to_dominated[kept] = counted * above
        kept += counted * above < k_at_age(plan, now - positions[rest])
    r[STANDING], r[SIDE] = kept, 1 - side
    r[SWEEPS] += 1


@kernel
def shares_one_view(plan: PanesPlan, positions: Ints, n: int) -> bool:
    """Whether the youngest view is the same for all objects at these positions."""
    if not cuts_panes(plan) or n == 0:
        return False
    first, last = positions[0], positions[0]
    for i in range(1, n):
        first, last = min(first, positions[i]), max(last, positions[i])
    return next_start(plan, first) > last


@kernel
def rank_block(store: CandidateStore, plan: PanesPlan, work: PanesScratch, n: int) -> None:
    """Number the block's objects by their youngest view, starting at 1 for the youngest view."""
    positions = store.block_positions[store.registers[BLOCK_SIDE]]
    bits, places = work.sort.bits, work.sort.places
    for i in range(n):
        bits[0, i] = np.uint64(store.registers[NEWEST] - youngest_view(plan, positions[i]))
        places[0, i] = i
    side = sort_bits(work.sort, n)
    rank = 1
    for i in range(n):
        if i and bits[side, i] != bits[side, i - 1]:
            rank += 1
        work.ranks[places[side, i]] = rank


@kernel
def count_better(work: PanesScratch, at: int) -> int:
    """Number of the block's objects counted so far that belong to the view of object `at` or to a younger view."""
    found, node = 0, work.ranks[at]
    while node > 0:
        found += work.tree[node]
        node -= node & -node
    return found


@kernel
def count_in(work: PanesScratch, low: int, high: int, n: int) -> None:
    """Count the block's objects at indexes ``[low, high)``."""
    for at in range(low, high):
        node = work.ranks[at]
        while node <= n:
            work.tree[node] += 1
            node += node & -node


@kernel
def sweep(store: CandidateStore, plan: PanesPlan, work: PanesScratch, now: int) -> None:
    """Merge the block into the standing candidates and drop objects beaten too often for their age at `now`."""
    r = store.registers
    new, old, side, block = r[BLOCK], r[STANDING], r[SIDE], r[BLOCK_SIDE]
    block_keys, block_positions, block_ids = (
        store.block_keys[block],
        store.block_positions[block],
        store.block_ids[block],
    )
    r[BLOCK] = 0
    together = shares_one_view(plan, block_positions, new)
    if together or old + new <= plan.k:
        # Of at most k objects none is beaten by k others, so counting can wait.
        sweep_view(store, plan, block_keys, block_positions, block_ids, new, now, int(together))
        return
    rank_block(store, plan, work, new)
    work.tree[: new + 1] = 0
    keys, positions, ids, dominated = store.keys[side], store.positions[side], store.ids[side], store.dominated[side]
    to_keys, to_positions = store.keys[1 - side], store.positions[1 - side]
    to_ids, to_dominated = store.ids[1 - side], store.dominated[1 - side]
    i, j, kept = 0, 0, 0
    above, last = 0, np.nan  # number of the block's objects above the last key, or, without ties, above the last object
    while i < old or j < new:
        older = j == new or (
            i < old and beats(keys[i], positions[i], ids[i], block_keys[j], block_positions[j], block_ids[j])
        )
        key = keys[i] if older else block_keys[j]
        if plan.ties is None or key != last:
            count_in(work, above, j, new)
            above, last = j, key
        if older:
            better = dominated[i] + above
            to_keys[kept], to_positions[kept], to_ids[kept] = keys[i], positions[i], ids[i]
            to_dominated[kept] = better
            kept += better < k_at_age(plan, now - positions[i])
            i += 1
        else:
            better = count_better(work, j)
            to_keys[kept], to_positions[kept], to_ids[kept] = block_keys[j], block_positions[j], block_ids[j]
            to_dominated[kept] = better
            kept += better < k_at_age(plan, now - block_positions[j])
            j += 1
    r[STANDING], r[SIDE] = kept, 1 - side
    r[SWEEPS] += 1


@kernel
def sort_pane(store: CandidateStore, pane: OpenPane, plan: PanesPlan, work: PanesScratch) -> int:
    """Sort the open pane, cut it to its k best if it is a single pane, and return how many objects remain."""
    new = pane.registers[SIZE]
    radix_sort(pane.keys, pane.positions, pane.ids, new, work.sort)
    if store.registers[PANE_END] != NO_PANE:
        # Up to 2k are held; sorting them is cheaper than selecting k of them first.
        held_here, new = new, min(new, plan.k)
        estimate_bar(pane, held_here, plan.k)
        if plan.ties is not None:
            while new < held_here and pane.keys[new] == pane.keys[plan.k - 1]:
                new += 1
        store.registers[PANE_END] = NO_PANE
    pane.registers[SIZE] = pane.registers[SELECTED] = pane.registers[CUT_AT] = 0
    return new


@kernel
def close_pane(store: CandidateStore, pane: OpenPane, plan: PanesPlan, work: PanesScratch, now: int) -> None:
    """Sort the open pane into the block, or, if it is long, merge it directly into the standing candidates.

    Windows that end after `now` are still unanswered.
    """
    r = store.registers
    new = sort_pane(store, pane, plan, work)
    long = min(plan.k, LEAST_BLOCK)
    if plan.ties is not None:
        long = max(long, r[STANDING] // 16)  # with ties there may be many more than k standing candidates for each view
    if r[BLOCK] == 0 and new >= long and shares_one_view(plan, pane.positions, new):
        sweep_view(store, plan, pane.keys, pane.positions, pane.ids, new, now, 1)
        return
    side = r[BLOCK_SIDE]
    keys, positions, ids = store.block_keys[side], store.block_positions[side], store.block_ids[side]
    to_keys, to_positions = store.block_keys[1 - side], store.block_positions[1 - side]
    to_ids = store.block_ids[1 - side]
    i, j = 0, 0
    old = r[BLOCK]
    for at in range(old + new):
        if j == new or (i < old and beats(keys[i], positions[i], ids[i], pane.keys[j], pane.positions[j], pane.ids[j])):
            to_keys[at], to_positions[at], to_ids[at] = keys[i], positions[i], ids[i]
            i += 1
        else:
            to_keys[at], to_positions[at], to_ids[at] = pane.keys[j], pane.positions[j], pane.ids[j]
            j += 1
    r[BLOCK], r[BLOCK_SIDE] = old + new, 1 - side


@kernel
def has_space(store: CandidateStore, pane: OpenPane) -> bool:
    """Whether there is room to close the open pane and then merge the block."""
    r = store.registers
    return (
        r[BLOCK] + pane.registers[SIZE] <= store.block_keys.shape[1]
        and r[STANDING] + r[BLOCK] + pane.registers[SIZE] < store.keys.shape[1]
    )
