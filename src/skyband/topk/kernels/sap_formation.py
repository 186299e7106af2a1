"""How SAP forms M: it builds the S-AVL of a partition (or of a unit) by a scan from the newest object to the oldest.

An object outside the k best of its partition can be in an answer only if fewer than k better ones expire no earlier.
Two bounds prune: F_theta, the k-th best key of later objects (global), and the tops of k - rho stacks (local). The k
best of the partition that are not earlier than an object dominate it as well. The scan ends when it has passed so many
of them that no older object can be meaningful.
"""

from __future__ import annotations

import numpy as np

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.select import BLOCK, skip_hopeless
from skyband.kernels.stream import KernelQuery
from skyband.topk.kernels import savl as stacks
from skyband.topk.kernels.dominance_counts import count_dominators
from skyband.topk.kernels.ring import (
    HEAD,
    after_last_hopeful,
    ahead,
    bring_best_pairs_forward,
    first_number_back_to,
    how_many_ahead,
    position_of,
    sort_pairs,
)
from skyband.topk.kernels.sap_state import (
    AT,
    AT_ONCE,
    BEST_KEY,
    BEST_NUMBER,
    CANDIDATES,
    ENHANCED,
    FLOOR,
    FORM_UNIT,
    FORMED,
    FORMING,
    FRONT,
    FRONT_UNIT,
    HAS_FLOOR,
    INSERTIONS,
    K_UNIT,
    LISTED,
    NEEDLESS,
    NEWEST_PART,
    NEXT_STATE,
    OF_PARTITION,
    OF_UNIT,
    OLDEST_PART,
    OPEN_SIZE,
    PASSED,
    PASSED_OVER,
    PLACE,
    READY,
    RHO,
    SCANNED,
    SIDE,
    UNDECIDED,
    UNIT_PLACE,
    UNIT_SIZE,
    UNIT_STATE,
    UNITS_LISTED,
    UNITS_SCANNED,
    UNITS_SKIPPED,
    WITH_STACKS,
    Sap,
    SapPlan,
    cell_begin,
    cell_of,
)

SPARE = 32  # a cell's survivors are cut when there are twice as many as needed plus this many


@kernel
def later_floor(sap: Sap, k: int, end: int, making: int) -> None:
    """Compute F_theta, the k-th best key among the candidates from number `end` on."""
    r, candidates, opened = sap.registers, sap.candidates, sap.opened
    keys, numbers = candidates.keys[r[SIDE]], candidates.numbers[r[SIDE]]
    i, j, found, key = 0, 0, 0, -np.inf
    while found < k:
        while i < r[CANDIDATES] and numbers[i] < end:
            i += 1
        if i < r[CANDIDATES] and (j == r[OPEN_SIZE] or keys[i] >= opened.keys[j]):
            key = keys[i]
            i += 1
        elif j < r[OPEN_SIZE]:
            key = opened.keys[j]
            j += 1
        else:
            break
        found += 1
    sap.reals[FLOOR + making] = key if found == k else -np.inf
    r[HAS_FLOOR + making] = 1 if found == k else 0


@kernel
def open_ahead(sap: Sap, key: float, number: int) -> int:
    """Number of objects in the open partition's lists that rank before the object."""
    r, opened = sap.registers, sap.opened
    count = how_many_ahead(sap.ring, opened.keys, opened.numbers, r[OPEN_SIZE], key, number)
    for i in range(r[UNIT_SIZE]):
        count += opened.unit_keys[i] >= key  # objects of the open unit are newer
    return count


@inner_kernel
def stacks_left(sap: Sap, k: int, making: int) -> int:
    """Number of objects of the scanned range itself that are needed to dominate another one."""
    return k - sap.registers[RHO + making] - sap.registers[PASSED + making]


@kernel
def push_cell(sap: Sap, k: int, making: int, place: int, size: int, passed: int) -> None:
    """Push the survivors of a cell, which are in the scratch space, into the S-AVL, best first (appendix C)."""
    r, work = sap.registers, sap.work
    r[PASSED + making] += passed
    left = stacks_left(sap, k, making)
    if left <= 0:
        return
    sort_pairs(sap.ring, work.keys, work.numbers, 0, size, work.waiting)
    near = 0
    for i in range(min(size, left)):
        near = stacks.push(sap.ring, sap.savl, place, left, work.keys[i], work.numbers[i], near, work.waiting)
        if near < 0:
            break
        r[INSERTIONS] += 1


@kernel
def scan(
    sap: Sap,
    query: KernelQuery,
    making: int,
    place: int,
    low: int,
    until: int,
    listed: int,
    list_low: int,
    list_high: int,
    list_key: float,
    list_number: int,
) -> int:
    """Scan the objects from AT down to `low`, or to the first whole cell below `until`; return where the scan stopped.

    With `listed` the scan visits only the objects at ``[list_low, list_high)`` of L that are not worse than the given
    one.
    """
    r, ring, work, k = sap.registers, sap.ring, sap.work, query.k
    mask, kept_mask = ring.keys.size - 1, sap.kept.size - 1
    global_floor = sap.reals[FLOOR + making]
    best_key, best_number = sap.reals[BEST_KEY + making], r[BEST_NUMBER + making]
    left = stacks_left(sap, k, making)
    floor = max(global_floor, stacks.floor_of(sap.savl, place, left))
    number, entry = r[AT + making], list_high
    while left > 0:
        # Find the newest object that reaches the floor, and process its whole cell.
        if listed:
            while entry > list_low and ring.keys[sap.kept[(entry - 1) & kept_mask] & mask] < floor:
                entry -= 1
            number = sap.kept[(entry - 1) & kept_mask] if entry > list_low else low - 1
        else:
            number = after_last_hopeful(ring, low, number, floor) - 1
        if number < low:
            return low
        if number < until:
            return number + 1
        begin = cell_begin(query, position_of(ring, number))
        cell_low = first_number_back_to(ring, low, number, begin)
        size, passed = 0, 0
        at, stop = cell_low, number + 1
        if listed:
            at = stop = entry
            while at > list_low and sap.kept[(at - 1) & kept_mask] >= cell_low:
                at -= 1
            entry = at
        # Scan the cell from oldest to newest: in streams that need an M, the best objects tend to come first.
        while at < stop:
            if listed:
                number = sap.kept[at & kept_mask]
                if ahead(ring, list_key, list_number, ring.keys[number & mask], number):
                    at += 1
                    continue
            else:
                if stop - at > BLOCK and ring.keys[at & mask] < floor:
                    slot = at & mask
                    length = min(stop - at, ring.keys.size - slot)
                    at += skip_hopeless(ring.keys, slot, slot + length, floor) - slot
                    if at == stop:
                        break
                number = at
            at += 1
            key = ring.keys[number & mask]
            if key < floor or (r[HAS_FLOOR + making] and key <= global_floor):
                continue  # an object equal to F_theta is older, so it ranks lower
            if not ahead(ring, best_key, best_number, key, number):
                passed += 1
                continue
            work.keys[size], work.numbers[size] = key, number
            size += 1
            if size == 2 * left + SPARE:
                bring_best_pairs_forward(ring, work.keys, work.numbers, size, left)
                size = left
                floor = max(floor, work.keys[left - 1])
        push_cell(sap, k, making, place, size, passed)
        left = stacks_left(sap, k, making)
        floor = max(global_floor, stacks.floor_of(sap.savl, place, left))
        number = cell_low
    return low


@kernel
def scan_list(sap: Sap, query: KernelQuery, making: int, place: int, low: int, unit: int, only_best: int) -> None:
    """Scan the list of a unit: all of it, or its k best."""
    units = sap.units
    at = unit & (units.begins.size - 1)
    begin, length = units.lists[at], units.lengths[at]
    key = units.best_keys[at] if only_best else -np.inf
    number = units.best_numbers[at] if only_best else -1
    scan(sap, query, making, place, max(low, units.begins[at]), 0, 1, begin, begin + length, key, number)
    units.fates[at] = LISTED
    sap.registers[UNITS_LISTED] += 1


@kernel
def list_is_enough(sap: Sap, making: int, unit: int) -> bool:
    """Whether the unit's list contains all its meaningful objects: all unlisted objects are below F_theta."""
    at = unit & (sap.units.begins.size - 1)
    if sap.units.complete[at]:
        return True
    return bool(sap.registers[HAS_FLOOR + making]) and sap.units.floors[at] <= sap.reals[FLOOR + making]


@kernel
def scan_unit(sap: Sap, query: KernelQuery, place: int, low: int, until: int, unit: int, first: int) -> int:
    """Run UBSA's first phase for one unit of the partition; return where the scan stopped."""
    r, units = sap.registers, sap.units
    at = unit & (units.begins.size - 1)
    low = max(low, units.begins[at])
    if units.kinds[at] == K_UNIT:
        # The second phase handles all but the k best; the unit that expires first has no second phase.
        if unit != first or list_is_enough(sap, OF_PARTITION, unit):
            scan_list(sap, query, OF_PARTITION, place, low, unit, 1 if unit != first else 0)
            return low
    elif r[AT + OF_PARTITION] == units.ends[at]:
        floor = stacks.floor_of(sap.savl, place, stacks_left(sap, query.k, OF_PARTITION))
        top, global_floor = units.tops[at], sap.reals[FLOOR + OF_PARTITION]
        # The tops of the stacks and the objects behind F_theta are later than this unit, so an equal key ranks lower.
        if (r[HAS_FLOOR + OF_PARTITION] and top <= global_floor) or (floor > -np.inf and top <= floor):
            units.fates[at] = PASSED_OVER
            r[UNITS_SKIPPED] += 1
            return low
    if r[AT + OF_PARTITION] == units.ends[at]:
        units.fates[at] = SCANNED
        r[UNITS_SCANNED] += 1
    return scan(sap, query, OF_PARTITION, place, low, until, 0, 0, 0, 0.0, 0)


@kernel
def begin_forming(sap: Sap, plan: SapPlan, query: KernelQuery, part: int) -> None:
    """Decide whether a partition needs an M, and set up the scan if it does."""
    r, parts = sap.registers, sap.parts
    at = part & (parts.begins.size - 1)
    key, number = parts.best_keys[at], parts.best_numbers[at]
    rho = parts.rho[at]
    if parts.beyond[at] and rho < query.k:
        rho += open_ahead(sap, key, number)
    if not parts.beyond[at] or rho >= query.k:
        r[NEXT_STATE] = NEEDLESS
        return
    r[NEXT_STATE] = FORMING
    r[AT + OF_PARTITION], r[PASSED + OF_PARTITION], r[RHO + OF_PARTITION] = parts.ends[at], 0, rho
    sap.reals[BEST_KEY + OF_PARTITION], r[BEST_NUMBER + OF_PARTITION] = key, number
    r[FORM_UNIT] = parts.last_units[at]
    later_floor(sap, query.k, parts.ends[at], OF_PARTITION)
    stacks.clear(sap.savl, 1 - r[PLACE])


@kernel
def sorted_chain(sap: Sap, query: KernelQuery, low: int, high: int, key: float, number: int, rho: int) -> int:
    """Find the meaningful objects among those with numbers from `low` to `high` without an S-AVL: sort, and count.

    They are those worse than the given one, the k-th best, with fewer than ``k - rho`` better ones that expire no
    earlier. Return the number of the best of them, from which they are linked best first; -1 if there is none.
    """
    ring, work = sap.ring, sap.work
    mask, size, first, last = ring.keys.size - 1, high - low, -1, -1
    for i in range(size):
        work.keys[i], work.numbers[i] = ring.keys[(low + i) & mask], low + i
    sort_pairs(ring, work.keys, work.numbers, 0, size, work.waiting)
    for i in range(size):
        work.cells[i] = cell_of(query, position_of(ring, work.numbers[i]))
    count_dominators(work.cells, size, work.order, work.merged, work.dominated)
    for i in range(size):
        if work.dominated[i] + rho >= query.k or not ahead(ring, key, number, work.keys[i], work.numbers[i]):
            continue
        if last < 0:
            first = work.numbers[i]
        else:
            ring.below[last & mask] = work.numbers[i]
        last = work.numbers[i]
        sap.registers[INSERTIONS] += 1
    if last >= 0:
        ring.below[last & mask] = -1
    return first


@kernel
def form_at_once(sap: Sap, query: KernelQuery, part: int) -> None:
    """Find the meaningful objects of a partition that was just closed, before any later object is known."""
    r, parts = sap.registers, sap.parts
    at = part & (parts.begins.size - 1)
    parts.meaningful[at] = 0
    if parts.beyond[at]:
        # Its objects may occupy ring slots of expired objects of the front partition.
        stacks.unlink_expired(sap.ring, sap.savl, r[PLACE])
        parts.meaningful[at] = 1 + sorted_chain(
            sap, query, parts.begins[at], parts.ends[at], parts.best_keys[at], parts.best_numbers[at], 0
        )


@kernel
def take_sorted(sap: Sap, plan: SapPlan, query: KernelQuery, part: int) -> None:
    """Set up the M of a partition that begins to expire as a sorted list."""
    r, parts = sap.registers, sap.parts
    at, place = part & (parts.begins.size - 1), 1 - r[PLACE]
    if plan.forming == AT_ONCE:
        first = parts.meaningful[at] - 1
        parts.meaningful[at] = 0
    else:
        low = max(parts.begins[at], sap.ring.span[HEAD])
        first = sorted_chain(
            sap, query, low, parts.ends[at], parts.best_keys[at], parts.best_numbers[at], r[RHO + OF_PARTITION]
        )
    stacks.take_chain(sap.ring, sap.savl, place, first)
    r[NEXT_STATE] = READY


@kernel
def continue_forming(sap: Sap, plan: SapPlan, query: KernelQuery, part: int, until: int) -> None:
    """Continue the scan of the partition down to `until`, and sort the tops when the scan is complete."""
    r, parts, units = sap.registers, sap.parts, sap.units
    at = part & (parts.begins.size - 1)
    place = 1 - r[PLACE]
    if r[RHO + OF_PARTITION] >= query.k:
        stacks.clear(sap.savl, place)
        r[NEXT_STATE] = NEEDLESS
        return
    if r[FRONT] and parts.ends[at] - sap.ring.keys.size > parts.begins[r[OLDEST_PART] & (parts.begins.size - 1)]:
        # Objects of this partition occupy ring slots of expired objects of the front partition.
        stacks.drop_expired(sap.ring, sap.savl, r[PLACE], sap.work.waiting)
        stacks.drop_expired(sap.ring, sap.savl, r[UNIT_PLACE], sap.work.waiting)
    if plan.forming != WITH_STACKS:
        take_sorted(sap, plan, query, part)
        return
    low = max(parts.begins[at], sap.ring.span[HEAD])
    while r[AT + OF_PARTITION] > max(low, until) and stacks_left(sap, query.k, OF_PARTITION) > 0:
        if plan.mode != ENHANCED:
            r[AT + OF_PARTITION] = scan(sap, query, OF_PARTITION, place, low, until, 0, 0, 0, 0.0, 0)
            continue
        unit, first = r[FORM_UNIT], parts.first_units[at]
        r[AT + OF_PARTITION] = scan_unit(sap, query, place, low, until, unit, first)
        if r[AT + OF_PARTITION] <= units.begins[unit & (units.begins.size - 1)]:
            r[FORM_UNIT] -= 1
    if r[AT + OF_PARTITION] <= low or stacks_left(sap, query.k, OF_PARTITION) <= 0:
        stacks.order_tops(sap.ring, sap.savl, place, sap.work.waiting)
        r[NEXT_STATE] = READY


@kernel
def begin_unit(sap: Sap, query: KernelQuery, unit: int) -> None:
    """Decide whether a k-unit of the front partition needs its own S-AVL, and set up the scan if it does."""
    r, units, candidates = sap.registers, sap.units, sap.candidates
    at = unit & (units.begins.size - 1)
    place = 5 - r[UNIT_PLACE]
    stacks.clear(sap.savl, place)
    r[UNIT_STATE] = NEEDLESS
    if units.kinds[at] != K_UNIT or units.ends[at] - units.begins[at] <= query.k:
        return
    key, number = units.best_keys[at], units.best_numbers[at]
    rho = how_many_ahead(
        sap.ring, candidates.keys[r[SIDE]], candidates.numbers[r[SIDE]], r[CANDIDATES], key, number
    ) + how_many_ahead(sap.ring, sap.opened.keys, sap.opened.numbers, r[OPEN_SIZE], key, number)
    if rho >= query.k:
        r[UNITS_SKIPPED] += 1
        return
    r[UNIT_STATE] = FORMING
    r[AT + OF_UNIT], r[PASSED + OF_UNIT], r[RHO + OF_UNIT] = units.ends[at], 0, rho
    sap.reals[BEST_KEY + OF_UNIT], r[BEST_NUMBER + OF_UNIT] = key, number
    later_floor(sap, query.k, units.ends[at], OF_UNIT)


@kernel
def continue_unit(sap: Sap, query: KernelQuery, unit: int, until: int) -> None:
    """Run UBSA's second phase: scan the rest of a k-unit, down to `until`."""
    r, units = sap.registers, sap.units
    at = unit & (units.begins.size - 1)
    place, low = 5 - r[UNIT_PLACE], max(units.begins[at], sap.ring.span[HEAD])
    if r[AT + OF_UNIT] == units.ends[at]:
        if list_is_enough(sap, OF_UNIT, unit):
            scan_list(sap, query, OF_UNIT, place, low, unit, 0)
            r[AT + OF_UNIT] = low
        else:
            units.fates[at] = SCANNED
            r[UNITS_SCANNED] += 1
    if r[AT + OF_UNIT] > max(low, until):
        r[AT + OF_UNIT] = scan(sap, query, OF_UNIT, place, low, until, 0, 0, 0, 0.0, 0)
    if r[AT + OF_UNIT] <= low:
        stacks.order_tops(sap.ring, sap.savl, place, sap.work.waiting)
        r[UNIT_STATE] = READY


@kernel
def move_through_units(sap: Sap, query: KernelQuery) -> None:
    """Build the S-AVL of the k-unit that expires next, after the window's start has moved in the front partition.

    While one unit expires, the S-AVL of the next is built incrementally.
    """
    r, units, parts, head = sap.registers, sap.units, sap.parts, sap.ring.span[HEAD]
    last = parts.last_units[r[OLDEST_PART] & (parts.begins.size - 1)]
    mask = units.begins.size - 1
    while r[FRONT_UNIT] < last and units.begins[(r[FRONT_UNIT] + 1) & mask] < head:
        unit = r[FRONT_UNIT] + 1
        if units.ends[unit & mask] > head:
            if r[UNIT_STATE] == UNDECIDED:
                begin_unit(sap, query, unit)
            if r[UNIT_STATE] == FORMING:
                continue_unit(sap, query, unit, 0)
        stacks.clear(sap.savl, r[UNIT_PLACE])
        if r[UNIT_STATE] == READY:
            r[UNIT_PLACE] = 5 - r[UNIT_PLACE]
        r[FRONT_UNIT], r[UNIT_STATE] = unit, UNDECIDED
    unit = r[FRONT_UNIT] + 1
    if unit > last:
        return
    if r[UNIT_STATE] == UNDECIDED:
        begin_unit(sap, query, unit)
    if r[UNIT_STATE] == FORMING:
        begin, end = units.begins[(unit - 1) & mask], units.ends[(unit - 1) & mask]
        length = units.ends[unit & mask] - units.begins[unit & mask]
        until = units.ends[unit & mask] - (min(head, end) - begin) * length // (end - begin)
        if until < r[AT + OF_UNIT]:
            continue_unit(sap, query, unit, until)


@kernel
def form_ahead(sap: Sap, plan: SapPlan, query: KernelQuery) -> None:
    """Do the next partition's share of the work after the window's start has moved in the front partition."""
    r, parts = sap.registers, sap.parts
    mask = parts.begins.size - 1
    front, part = r[OLDEST_PART] & mask, r[OLDEST_PART] + 1
    if part < r[NEWEST_PART] and plan.forming == WITH_STACKS:
        if r[NEXT_STATE] == UNDECIDED:
            begin_forming(sap, plan, query, part)
        if r[NEXT_STATE] == FORMING:
            begin, end = parts.begins[front], parts.ends[front]
            length = parts.ends[part & mask] - parts.begins[part & mask]
            until = parts.ends[part & mask] - (min(sap.ring.span[HEAD], end) - begin) * length // (end - begin)
            if until < r[AT + OF_PARTITION]:
                continue_forming(sap, plan, query, part, until)
    if plan.mode == ENHANCED and r[FORMED]:
        move_through_units(sap, query)
