"""How SAP processes new objects: the list of the open unit, where a unit ends, and how units form partitions.

A unit is the smallest part of a partition. With equal partitions a unit is a partition. With dynamic partitions a unit
joins the open partition unless the rank test says that their k best tend to be too good. The enhanced mode inherits the
bar of the open unit from earlier units (TBUI's tau) and keeps a list L of every unit that may be a k-unit.
"""

from __future__ import annotations

import numpy as np

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.select import BLOCK, skip_hopeless
from skyband.kernels.stream import Floats, Ints, KernelQuery
from skyband.topk.kernels.ring import HEAD, TAIL, ahead, bring_best_pairs_forward, bring_in_order, sort_numbers
from skyband.topk.kernels.sap_refinement import close_partition, is_too_good, objects_between
from skyband.topk.kernels.sap_state import (
    ANSWERED,
    BAR,
    BARRED,
    CLOSE_AT,
    DELETIONS,
    DYNAMIC,
    ENHANCED,
    EQUAL,
    FELL,
    INSERTIONS,
    K_UNIT,
    LEAST,
    NEWEST_KEPT,
    NEWEST_UNIT,
    NON_K_UNIT,
    OPEN_BEGIN,
    OPEN_SIZE,
    OPEN_UNIT,
    RELEARNED,
    TAKEN_OVER,
    UNIT_BEGIN,
    UNIT_ORDERED,
    UNIT_SIZE,
    UNITS,
    UNSEEN,
    Opened,
    Sap,
    SapPlan,
    cell_end,
)


@kernel
def order_unit(sap: Sap) -> None:
    """Sort the open unit's list best first."""
    r, opened, work = sap.registers, sap.opened, sap.work
    if r[UNIT_ORDERED] < r[UNIT_SIZE]:
        r[ANSWERED] = 0  # the list no longer shows which entries are new
    bring_in_order(
        sap.ring,
        opened.unit_keys,
        opened.unit_numbers,
        r[UNIT_ORDERED],
        r[UNIT_SIZE],
        work.keys,
        work.numbers,
        work.waiting,
    )
    r[UNIT_ORDERED] = r[UNIT_SIZE]


@kernel
def cut_unit(sap: Sap, plan: SapPlan) -> None:
    """Cut the open unit's list, which is at its limit: keep the best, and raise the bar to the worst of them."""
    r, opened = sap.registers, sap.opened
    if 2 * r[UNIT_ORDERED] >= r[UNIT_SIZE]:
        order_unit(sap)
        r[UNIT_ORDERED] = plan.keep
    else:
        bring_best_pairs_forward(sap.ring, opened.unit_keys, opened.unit_numbers, r[UNIT_SIZE], plan.keep)
        r[UNIT_ORDERED] = 0
    r[DELETIONS] += r[UNIT_SIZE] - plan.keep
    r[UNIT_SIZE] = plan.keep
    r[ANSWERED] = 0  # the list no longer shows which entries are new
    sap.reals[BAR], r[BARRED] = opened.unit_keys[plan.keep - 1], 1


@inner_kernel
def list_until_full(
    opened: Opened, r: Ints, reals: Floats, limit: int, keys: Floats, low: int, high: int, number: int
) -> int:
    """List the keys of ``keys[low:high]`` that reach the bar until the list is full; return the next index."""
    begin = low
    while low < high:
        if r[BARRED]:
            low = skip_hopeless(keys, low, high, reals[BAR])
        until = min(high, low + BLOCK)
        while low < until:
            if not r[BARRED] or keys[low] >= reals[BAR]:
                size = r[UNIT_SIZE]
                opened.unit_keys[size], opened.unit_numbers[size] = keys[low], number + low - begin
                r[UNIT_SIZE] = size + 1
                r[INSERTIONS] += 1
                if size + 1 == limit:
                    return low + 1
            low += 1
    return high


@inner_kernel
def list_keys(sap: Sap, plan: SapPlan, keys: Floats, low: int, high: int, number: int) -> None:
    """Add those of ``keys[low:high]`` that reach the bar to the open unit's list; ``keys[low]`` has number `number`."""
    begin = low
    while low < high:
        low = list_until_full(sap.opened, sap.registers, sap.reals, plan.limit, keys, low, high, number + low - begin)
        if sap.registers[UNIT_SIZE] == plan.limit:
            cut_unit(sap, plan)


@kernel
def rebuild_unit_list(sap: Sap, plan: SapPlan) -> None:
    """Rebuild the open unit's list from the window, because the inherited bar is too high."""
    r, ring = sap.registers, sap.ring
    r[UNIT_SIZE] = r[UNIT_ORDERED] = r[BARRED] = r[TAKEN_OVER] = r[ANSWERED] = 0
    r[FELL] = 1
    r[RELEARNED] += 1
    number, mask = r[UNIT_BEGIN], ring.keys.size - 1
    while number < ring.span[TAIL]:
        slot = number & mask
        length = min(ring.span[TAIL] - number, ring.keys.size - slot)
        list_keys(sap, plan, ring.keys, slot, slot + length, number)
        number += length


@inner_kernel
def lacks_the_best(sap: Sap, k: int) -> bool:
    """Whether some of the open unit's k best are missing from its list."""
    r = sap.registers
    return bool(r[TAKEN_OVER]) and r[UNIT_SIZE] < k and r[UNIT_SIZE] < sap.ring.span[TAIL] - r[UNIT_BEGIN]


@kernel
def objects_a_window(sap: Sap, plan: SapPlan, query: KernelQuery) -> int:
    """Number of objects per window: fixed for count windows, the current number for time windows."""
    return query.size if plan.counts else max(1, sap.ring.span[TAIL] - sap.ring.span[HEAD])


@kernel
def open_unit(sap: Sap, plan: SapPlan, query: KernelQuery, position: int) -> None:
    """Open a unit with an object at `position`, and choose its length.

    A window has m* = ceil(sqrt(n / max(s, k))) units, where n and s are numbers of objects. If a slide contains k
    objects, the length is a range of the axis, in whole slides; otherwise it is a number of objects.
    """
    r, k = sap.registers, query.k
    objects = objects_a_window(sap, plan, query)
    slides = query.size / query.slide
    units: int = max(1, int(np.ceil(np.sqrt(min(slides, objects / k)))))
    if plan.units:
        units = plan.units
    if objects >= k * slides:
        cells = query.size // units // query.slide
        if query.size <= 2 * query.slide * units:
            cells = 1
        r[CLOSE_AT], r[LEAST] = cell_end(query, position) + (max(1, cells) - 1) * query.slide, k
        return
    least = objects // units
    if plan.counts:
        least = least // query.slide * query.slide
    r[CLOSE_AT], r[LEAST] = cell_end(query, position), max(k, least)


@kernel
def store_unit(sap: Sap, plan: SapPlan, query: KernelQuery, end: int) -> None:
    """TBUI: store the sorted list of the completed open unit, and check whether the unit before it is a k-unit."""
    r, units, opened, k = sap.registers, sap.units, sap.opened, query.k
    mask, kept_mask, size = units.begins.size - 1, sap.kept.size - 1, r[UNIT_SIZE]
    at, before = r[NEWEST_UNIT] & mask, (r[NEWEST_UNIT] - 1) & mask
    best = min(k, size)
    if r[OPEN_SIZE] and not units.complete[before] and size >= k and opened.unit_keys[k - 1] >= units.floors[before]:
        # Theorem 2: k objects of this unit dominate all objects of the unit before that are not in its list. That
        # unit's list is the last one stored, so this unit's list replaces it.
        units.kinds[before] = NON_K_UNIT
        r[NEWEST_KEPT] = units.lists[before]
        units.lengths[before] = 0
    units.begins[at], units.ends[at], units.kinds[at], units.fates[at] = r[UNIT_BEGIN], end, K_UNIT, UNSEEN
    units.tops[at] = opened.unit_keys[0]
    units.best_keys[at], units.best_numbers[at] = opened.unit_keys[best - 1], opened.unit_numbers[best - 1]
    units.floors[at] = opened.unit_keys[size - 1]
    units.complete[at] = 1 if size == end - r[UNIT_BEGIN] else 0
    units.lists[at], units.lengths[at] = r[NEWEST_KEPT], size
    work = sap.work
    for i in range(size):
        work.order[i] = opened.unit_numbers[i]
    sort_numbers(work.order, size, work.waiting)
    for i in range(size):
        sap.kept[(r[NEWEST_KEPT] + i) & kept_mask] = work.order[i]
    r[NEWEST_KEPT] += size
    r[NEWEST_UNIT] += 1


@kernel
def next_bar(sap: Sap, plan: SapPlan) -> None:
    """Set the bar of the next unit.

    TBUI: inherit tau while scores do not fall; after a fall, start without a bar. Dynamic partitions without TBUI: if
    the unit joins the open partition, only objects that reach the k-th best of the partition so far are among its k
    best. If it begins a partition instead, its list is rebuilt.
    """
    r = sap.registers
    if plan.mode == DYNAMIC and plan.keep <= r[OPEN_SIZE]:
        r[BARRED] = r[TAKEN_OVER] = 1
        sap.reals[BAR] = sap.opened.keys[plan.keep - 1]
    elif plan.mode != ENHANCED or r[FELL]:
        r[BARRED] = r[TAKEN_OVER] = 0
    elif not r[TAKEN_OVER]:
        r[BARRED] = r[TAKEN_OVER] = 1 if r[UNIT_SIZE] >= plan.keep else 0
        if r[BARRED]:
            sap.reals[BAR] = sap.opened.unit_keys[plan.keep - 1]
    r[FELL] = 0


@kernel
def take_unit(sap: Sap, best: int) -> None:
    """Make the open unit the open partition."""
    r, opened = sap.registers, sap.opened
    for i in range(best):
        opened.keys[i], opened.numbers[i] = opened.unit_keys[i], opened.unit_numbers[i]
    r[OPEN_SIZE], r[OPEN_BEGIN] = best, r[UNIT_BEGIN]


@kernel
def join_unit(sap: Sap, plan: SapPlan, query: KernelQuery, end: int, best: int) -> bool:
    """Add the open unit to the open partition if the result is a valid partition; return whether it was added."""
    r, opened, work, k = sap.registers, sap.opened, sap.work, query.k
    objects = objects_a_window(sap, plan, query)
    if objects_between(sap, plan, query, r[OPEN_BEGIN], end) * (1.0 + plan.eta) > objects:
        return False
    # Merge at the end of the scratch space, because the test uses the beginning.
    most = min(k, r[OPEN_SIZE] + best)
    keys, numbers = work.keys[work.keys.size - most :], work.numbers[work.keys.size - most :]
    i, j, size = 0, 0, 0
    while size < most:
        if j == best or (
            i < r[OPEN_SIZE]
            and ahead(sap.ring, opened.keys[i], opened.numbers[i], opened.unit_keys[j], opened.unit_numbers[j])
        ):
            keys[size], numbers[size] = opened.keys[i], opened.numbers[i]
            i += 1
        else:
            keys[size], numbers[size] = opened.unit_keys[j], opened.unit_numbers[j]
            j += 1
        size += 1
    if is_too_good(sap, plan, k, keys, size):
        return False
    for i in range(size):
        opened.keys[i], opened.numbers[i] = keys[i], numbers[i]
    r[OPEN_SIZE] = size
    return True


@kernel
def close_unit(sap: Sap, plan: SapPlan, query: KernelQuery) -> None:
    """Close the open unit, which is complete. There must be room for two more partitions and one more unit."""
    r, end = sap.registers, sap.ring.span[TAIL]
    if plan.mode == ENHANCED and lacks_the_best(sap, query.k):
        rebuild_unit_list(sap, plan)
    order_unit(sap)
    best, unit = min(query.k, r[UNIT_SIZE]), r[NEWEST_UNIT]
    if plan.mode == ENHANCED:
        store_unit(sap, plan, query, end)
    r[UNITS] += 1
    if plan.mode == EQUAL:
        take_unit(sap, best)
        close_partition(sap, plan, query, end)
    elif r[OPEN_SIZE] == 0:
        take_unit(sap, best)
        r[OPEN_UNIT] = unit
    elif not join_unit(sap, plan, query, end, best):
        # The unit is the first of the next partition and not part of the one that is closed.
        if lacks_the_best(sap, query.k):
            rebuild_unit_list(sap, plan)
            order_unit(sap)
            best = min(query.k, r[UNIT_SIZE])
        r[NEWEST_UNIT] = unit
        close_partition(sap, plan, query, r[UNIT_BEGIN])
        r[NEWEST_UNIT] = unit + (1 if plan.mode == ENHANCED else 0)
        take_unit(sap, best)
        r[OPEN_UNIT] = unit
    next_bar(sap, plan)
    r[UNIT_SIZE] = r[UNIT_ORDERED] = 0
    r[UNIT_BEGIN] = end


@kernel
def close_all(sap: Sap, plan: SapPlan, query: KernelQuery) -> None:
    """Close the open unit and the open partition, because the window's start has reached them."""
    r = sap.registers
    if r[UNIT_BEGIN] < sap.ring.span[TAIL]:
        close_unit(sap, plan, query)
    if r[OPEN_SIZE]:
        close_partition(sap, plan, query, sap.ring.span[TAIL])
        if plan.mode == DYNAMIC:
            r[BARRED] = r[TAKEN_OVER] = 0  # the bar was that of the partition
