"""How SAP takes in objects: the list of the open unit, where a unit ends, and what becomes of it then.

A unit is the least that a partition is made of. With equal partitions a unit is a partition; with dynamic ones a unit
joins the open partition unless the rank test says that their k best tend to be too good. The enhanced form takes the
bar of the open unit over from earlier ones (TBUI's tau) and keeps a list L of every unit that may be a k-unit.
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
        r[ANSWERED] = 0  # the list no longer tells what is new in it
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
    """The open unit's list is at its limit: keep the best, and raise the bar to the worst of them."""
    r, opened = sap.registers, sap.opened
    if 2 * r[UNIT_ORDERED] >= r[UNIT_SIZE]:
        order_unit(sap)
        r[UNIT_ORDERED] = plan.keep
    else:
        bring_best_pairs_forward(sap.ring, opened.unit_keys, opened.unit_numbers, r[UNIT_SIZE], plan.keep)
        r[UNIT_ORDERED] = 0
    r[DELETIONS] += r[UNIT_SIZE] - plan.keep
    r[UNIT_SIZE] = plan.keep
    r[ANSWERED] = 0  # the list no longer tells what is new in it
    sap.reals[BAR], r[BARRED] = opened.unit_keys[plan.keep - 1], 1


@inner_kernel
def list_until_full(
    opened: Opened, r: Ints, reals: Floats, limit: int, keys: Floats, low: int, high: int, number: int
) -> int:
    """List what reaches the bar of ``keys[low:high]`` until the list is at its limit; return where that is."""
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
def list_hopeful(sap: Sap, plan: SapPlan, keys: Floats, low: int, high: int, number: int) -> None:
    """Bring into the open unit's list what reaches the bar of ``keys[low:high]``; `number` is that of ``keys[low]``."""
    begin = low
    while low < high:
        low = list_until_full(sap.opened, sap.registers, sap.reals, plan.limit, keys, low, high, number + low - begin)
        if sap.registers[UNIT_SIZE] == plan.limit:
            cut_unit(sap, plan)


@kernel
def relearn_unit(sap: Sap, plan: SapPlan) -> None:
    """The bar that was taken over is too high: list the open unit anew, from the window."""
    r, ring = sap.registers, sap.ring
    r[UNIT_SIZE] = r[UNIT_ORDERED] = r[BARRED] = r[TAKEN_OVER] = r[ANSWERED] = 0
    r[FELL] = 1
    r[RELEARNED] += 1
    number, mask = r[UNIT_BEGIN], ring.keys.size - 1
    while number < ring.span[TAIL]:
        slot = number & mask
        length = min(ring.span[TAIL] - number, ring.keys.size - slot)
        list_hopeful(sap, plan, ring.keys, slot, slot + length, number)
        number += length


@inner_kernel
def lacks_the_best(sap: Sap, k: int) -> bool:
    """Whether the open unit has some of its k best outside its list."""
    r = sap.registers
    return bool(r[TAKEN_OVER]) and r[UNIT_SIZE] < k and r[UNIT_SIZE] < sap.ring.span[TAIL] - r[UNIT_BEGIN]


@kernel
def objects_a_window(sap: Sap, plan: SapPlan, query: KernelQuery) -> int:
    """How many objects a window has: settled for count windows, seen so far for time windows."""
    return query.size if plan.counts else max(1, sap.ring.span[TAIL] - sap.ring.span[HEAD])


@kernel
def open_unit(sap: Sap, plan: SapPlan, query: KernelQuery, position: int) -> None:
    """A unit begins with an object at `position`: decide how long it is to be.

    m* = ceil(sqrt(n / max(s, k))) units make a window, n and s being numbers of objects. Where a slide has k objects,
    that is a stretch of the axis, in whole slides; otherwise it is a number of objects.
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
def note_unit(sap: Sap, plan: SapPlan, query: KernelQuery, end: int) -> None:
    """TBUI: the open unit, its list in order, is complete. Keep the list; see whether the unit before is a k-unit."""
    r, units, opened, k = sap.registers, sap.units, sap.opened, query.k
    mask, kept_mask, size = units.begins.size - 1, sap.kept.size - 1, r[UNIT_SIZE]
    at, before = r[NEWEST_UNIT] & mask, (r[NEWEST_UNIT] - 1) & mask
    best = min(k, size)
    if r[OPEN_SIZE] and not units.complete[before] and size >= k and opened.unit_keys[k - 1] >= units.floors[before]:
        # Theorem 2: k objects of this unit dominate all of the one before that are not in its list. It was the last
        # one listed, so that its list makes room for this one.
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
    """The bar of the next unit: tau lives on while scores do not fall; after a fall it is learnt anew."""
    r = sap.registers
    if plan.mode != ENHANCED or r[FELL]:
        r[BARRED] = r[TAKEN_OVER] = 0
    elif not r[TAKEN_OVER]:
        r[BARRED] = r[TAKEN_OVER] = 1 if r[UNIT_SIZE] >= plan.keep else 0
        if r[BARRED]:
            sap.reals[BAR] = sap.opened.unit_keys[plan.keep - 1]
    r[FELL] = 0


@kernel
def take_unit(sap: Sap, best: int) -> None:
    """The open unit becomes the open partition."""
    r, opened = sap.registers, sap.opened
    for i in range(best):
        opened.keys[i], opened.numbers[i] = opened.unit_keys[i], opened.unit_numbers[i]
    r[OPEN_SIZE], r[OPEN_BEGIN] = best, r[UNIT_BEGIN]


@kernel
def join_unit(sap: Sap, plan: SapPlan, query: KernelQuery, end: int, best: int) -> bool:
    """Let the open unit join the open partition, if that is a proper one then; whether it was."""
    r, opened, work, k = sap.registers, sap.opened, sap.work, query.k
    objects = objects_a_window(sap, plan, query)
    if objects_between(sap, plan, query, r[OPEN_BEGIN], end) * (1.0 + plan.eta) > objects:
        return False
    # Merged at the end of the work space: the test uses the beginning.
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
    """The open unit is complete. There must be room for two more partitions and one more unit."""
    r, end = sap.registers, sap.ring.span[TAIL]
    if lacks_the_best(sap, query.k):
        relearn_unit(sap, plan)
    order_unit(sap)
    best, unit = min(query.k, r[UNIT_SIZE]), r[NEWEST_UNIT]
    if plan.mode == ENHANCED:
        note_unit(sap, plan, query, end)
    r[UNITS] += 1
    if plan.mode == EQUAL:
        take_unit(sap, best)
        close_partition(sap, plan, query, end)
    elif r[OPEN_SIZE] == 0:
        take_unit(sap, best)
        r[OPEN_UNIT] = unit
    elif not join_unit(sap, plan, query, end, best):
        # The unit is the first of the next partition; it is no part of the one that is closed.
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
    """Close the open unit and the open partition, because the window's start has come to it."""
    r = sap.registers
    if r[UNIT_BEGIN] < sap.ring.span[TAIL]:
        close_unit(sap, plan, query)
    if r[OPEN_SIZE]:
        close_partition(sap, plan, query, sap.ring.span[TAIL])
