"""SAP's kernel: answers, expiry, and the order of events.

The window is cut into partitions, and only the k best of each are candidates. The partition that is expiring is the
front partition; objects of its M are promoted when an answer needs them. See `sap_state` for the state, `sap_units` for
how partitions are formed, `sap_refinement` for how their candidates are refined, `sap_formation` and `savl` for M.
"""

from __future__ import annotations

import numpy as np

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.select import BLOCK, highest, skip_hopeless
from skyband.kernels.stream import (
    ANSWERS_FULL,
    DONE,
    ROWS,
    STATE_FULL,
    Answers,
    Ints,
    KernelQuery,
    Rows,
    close_window,
    end_after,
    first_row_at,
    has_room,
    is_reported,
    position_at,
)
from skyband.topk.kernels import savl as stacks
from skyband.topk.kernels.ring import (
    HEAD,
    TAIL,
    Ring,
    ahead,
    append_rows,
    bring_best_pairs_forward,
    first_number_back_to,
    first_number_from,
    id_of,
    loosen,
    position_of,
    settle_columns,
    sort_pairs,
)
from skyband.topk.kernels.sap_formation import begin_forming, continue_forming, form_ahead, open_ahead
from skyband.topk.kernels.sap_state import (
    ANSWER_OLDEST,
    ANSWER_SEEN,
    ANSWER_UNIT,
    ANSWERED,
    BAR,
    BARRED,
    CANDIDATES,
    CELL_BAR,
    CELL_BEGIN,
    CELL_SIZE,
    CLOSE_AT,
    DELETIONS,
    ENHANCED,
    EVENT,
    FORMATIONS,
    FORMED,
    FORMING,
    FRONT,
    FRONT_SIZE,
    FRONT_UNIT,
    LEAST,
    NEEDLESS,
    NEWEST_KEPT,
    NEWEST_PART,
    NEWEST_UNIT,
    NEXT_END,
    NEXT_STATE,
    OLDEST_KEPT,
    OLDEST_PART,
    OLDEST_UNIT,
    OPEN_BEGIN,
    OPEN_SIZE,
    PLACE,
    READY,
    SIDE,
    SKIPPED,
    TAKEN_OVER,
    UNDECIDED,
    UNIT_BEGIN,
    UNIT_ORDERED,
    UNIT_PLACE,
    UNIT_SIZE,
    UNIT_STATE,
    Front,
    Sap,
    SapPlan,
    cell_begin,
    cell_end,
)
from skyband.topk.kernels.sap_units import (
    close_all,
    close_unit,
    cut_unit,
    lacks_the_best,
    list_keys,
    open_unit,
    order_unit,
    rebuild_unit_list,
)
from skyband.topk.kernels.savl import Savl

LEAST_WASTE = 32  # expired entries that the front partition's list may contain before it is compacted
SHARE = 64  # objects that expire before the next share of incremental work, if slides are shorter
CHUNK = 2048  # rows that are stored and compared with the bar at a time, so that they stay in the L1 cache
LONG_CELL = 8  # a cell with at least this many times k objects gets its own bar
NO_OBJECT = -1


@kernel
def sweep_front(ring: Ring, front: Front, r: Ints) -> None:
    """Remove expired entries from the front partition's list."""
    kept = 0
    for i in range(r[FRONT_SIZE]):
        if front.numbers[i] >= ring.span[HEAD]:
            front.keys[kept], front.numbers[kept] = front.keys[i], front.numbers[i]
            front.dominated[kept] = front.dominated[i]
            kept += 1
    r[FRONT_SIZE] = kept


@inner_kernel
def best_meaningful(ring: Ring, savl: Savl, r: Ints) -> int:
    """Place of the S-AVL whose top is the best meaningful object of the front partition; NO_OBJECT if there is none."""
    a, b = r[PLACE], r[UNIT_PLACE]
    stacks_a, stacks_b = savl.registers[stacks.STACKS + a], savl.registers[stacks.STACKS + b]
    if stacks_b == 0 and stacks_a > 0 and savl.numbers[a, 0] >= ring.span[HEAD]:
        return a
    number_a, number_b = stacks.best_of(ring, savl, a), stacks.best_of(ring, savl, b)
    if number_a < 0:
        return b if number_b >= 0 else NO_OBJECT
    if number_b < 0 or ahead(ring, savl.keys[a, 0], number_a, savl.keys[b, 0], number_b):
        return a
    return b


@inner_kernel
def promote(ring: Ring, savl: Savl, front: Front, r: Ints, place: int) -> None:
    """Append the best meaningful object to the front partition's candidates: it is worse than all of them."""
    if r[FRONT_SIZE] == front.keys.size:
        sweep_front(ring, front, r)
    at = r[FRONT_SIZE]
    front.keys[at], front.numbers[at], front.dominated[at] = savl.keys[place, 0], savl.numbers[place, 0], 0
    r[FRONT_SIZE] = at + 1
    stacks.pop_best(ring, savl, place)


@inner_kernel
def find_best(sap: Sap, k: int) -> None:
    """Rebuild R, the k best of all candidates; promote objects of M as needed. The open unit's list must be sorted."""
    r, ring, front, opened, result = sap.registers, sap.ring, sap.front, sap.opened, sap.result
    keys, numbers = sap.candidates.keys[r[SIDE]], sap.candidates.numbers[r[SIDE]]
    head = ring.span[HEAD]
    candidates, in_open, in_unit = r[CANDIDATES], r[OPEN_SIZE], r[UNIT_SIZE]
    # For each of the four lists: the index reached, and its best remaining entry.
    i, j, u, f, wasted, size, place = 0, 0, 0, 0, 0, 0, NO_OBJECT
    key_i, number_i = (keys[0], numbers[0]) if candidates > 0 else (-np.inf, NO_OBJECT)
    key_j, number_j = (opened.keys[0], opened.numbers[0]) if in_open > 0 else (-np.inf, NO_OBJECT)
    key_u, number_u = (opened.unit_keys[0], opened.unit_numbers[0]) if in_unit > 0 else (-np.inf, NO_OBJECT)
    key_f, number_f, moved, oldest = -np.inf, NO_OBJECT, True, ring.span[TAIL]
    while size < k:
        if moved:
            while f < r[FRONT_SIZE] and front.numbers[f] < head:
                f += 1
                wasted += 1
            if f < r[FRONT_SIZE]:
                key_f, number_f = front.keys[f], front.numbers[f]
            else:
                place = best_meaningful(ring, sap.savl, r) if r[FORMED] else NO_OBJECT
                key_f, number_f = -np.inf, NO_OBJECT
                if place >= 0:
                    key_f, number_f = sap.savl.keys[place, 0], sap.savl.numbers[place, 0]
            moved = False
        key, best, source = key_i, number_i, 0
        if key_j > key or (key_j == key and (best < 0 or (number_j >= 0 and ahead(ring, key_j, number_j, key, best)))):
            key, best, source = key_j, number_j, 1
        if key_u > key or (key_u == key and (best < 0 or (number_u >= 0 and ahead(ring, key_u, number_u, key, best)))):
            key, best, source = key_u, number_u, 2
        if key_f > key or (key_f == key and (best < 0 or (number_f >= 0 and ahead(ring, key_f, number_f, key, best)))):
            key, best, source = key_f, number_f, 3
        if best < 0:
            break
        if source == 0:
            i += 1
            key_i, number_i = (keys[i], numbers[i]) if i < candidates else (-np.inf, NO_OBJECT)
        elif source == 1:
            j += 1
            key_j, number_j = (opened.keys[j], opened.numbers[j]) if j < in_open else (-np.inf, NO_OBJECT)
        elif source == 2:
            u += 1
            key_u, number_u = (opened.unit_keys[u], opened.unit_numbers[u]) if u < in_unit else (-np.inf, NO_OBJECT)
        elif f < r[FRONT_SIZE]:
            f += 1
            moved = True
        else:
            promote(sap.ring, sap.savl, front, r, place)
            f = r[FRONT_SIZE]
            moved = True
        result.keys[size], result.numbers[size], result.ids[size] = key, best, id_of(ring, best)
        oldest = min(oldest, best)
        size += 1
    if wasted > LEAST_WASTE + f - wasted:
        sweep_front(ring, front, r)
    r[ANSWERED], r[ANSWER_OLDEST] = size, oldest


@inner_kernel
def can_update(sap: Sap, k: int) -> bool:
    """Whether the next answer can be updated from the last: none of its rows has expired, all new ones are listed."""
    r = sap.registers
    if r[ANSWERED] < k or r[ANSWER_OLDEST] < sap.ring.span[HEAD] or r[ANSWER_UNIT] != r[UNIT_BEGIN]:
        return False
    return not r[TAKEN_OVER] or sap.result.keys[k - 1] >= sap.reals[BAR]


@inner_kernel
def update_best(sap: Sap, k: int) -> None:
    """Merge the objects that arrived since the last answer into R."""
    r, ring, result, opened, work, late = sap.registers, sap.ring, sap.result, sap.opened, sap.work, 0
    for i in range(r[ANSWER_SEEN], r[UNIT_SIZE]):
        key, number = opened.unit_keys[i], opened.unit_numbers[i]
        if ahead(ring, key, number, result.keys[k - 1], result.numbers[k - 1]):
            work.keys[late], work.numbers[late] = key, number
            late += 1
    if late == 0:
        return
    sort_pairs(ring, work.keys, work.numbers, 0, late, work.waiting)
    # Count how many new objects enter and how many others stay, then fill R from the last index to the first.
    i, j = 0, 0
    while i + j < k:
        if j < late and ahead(ring, work.keys[j], work.numbers[j], result.keys[i], result.numbers[i]):
            j += 1
        else:
            i += 1
    i -= 1
    j -= 1
    at = k - 1
    while j >= 0:
        if i >= 0 and ahead(ring, work.keys[j], work.numbers[j], result.keys[i], result.numbers[i]):
            result.keys[at], result.numbers[at], result.ids[at] = result.keys[i], result.numbers[i], result.ids[i]
            i -= 1
        else:
            result.keys[at], result.numbers[at] = work.keys[j], work.numbers[j]
            result.ids[at] = id_of(ring, work.numbers[j])
            j -= 1
        at -= 1


@inner_kernel
def write_answer(sap: Sap, plan: SapPlan, k: int, end: int, answers: Answers) -> None:
    """Write the answer of the window that ends at `end`."""
    r, result = sap.registers, sap.result
    if can_update(sap, k):
        if r[ANSWER_SEEN] < r[UNIT_SIZE]:
            update_best(sap, k)
    else:
        if r[UNIT_ORDERED] < r[UNIT_SIZE]:
            order_unit(sap)
        if plan.mode != ENHANCED and r[UNIT_SIZE] >= k:
            r[DELETIONS] += r[UNIT_SIZE] - k
            r[UNIT_SIZE] = r[UNIT_ORDERED] = k
            sap.reals[BAR], r[BARRED] = sap.opened.unit_keys[k - 1], 1
        elif plan.mode == ENHANCED and r[UNIT_SIZE] > plan.plenty:
            cut_unit(sap, plan)  # scores rise; the list is sorted, so it can be cut before it reaches its limit
        find_best(sap, k)
        if lacks_the_best(sap, k) and (r[ANSWERED] < k or result.keys[k - 1] < sap.reals[BAR]):
            # Scores fall: the inherited bar hides objects that belong to this answer.
            rebuild_unit_list(sap, plan)
            order_unit(sap)
            find_best(sap, k)
    r[ANSWER_UNIT], r[ANSWER_SEEN] = r[UNIT_BEGIN], r[UNIT_SIZE]
    begin, size = answers.cursor[ROWS], r[ANSWERED]
    keys, ids = answers.keys[begin : begin + size], answers.ids[begin : begin + size]
    for i in range(size):
        keys[i], ids[i] = result.keys[i], result.ids[i]
    answers.cursor[ROWS] = begin + size
    close_window(answers, 0, end)


@kernel
def reset(sap: Sap) -> None:
    """Reset the state after everything has expired."""
    r = sap.registers
    sap.ring.span[HEAD] = sap.ring.span[TAIL]
    r[CANDIDATES] = r[FRONT] = r[FRONT_SIZE] = r[FORMED] = r[OPEN_SIZE] = r[UNIT_SIZE] = r[UNIT_ORDERED] = 0
    r[NEXT_STATE] = r[UNIT_STATE] = UNDECIDED
    r[OLDEST_PART], r[OLDEST_UNIT], r[OLDEST_KEPT] = r[NEWEST_PART], r[NEWEST_UNIT], r[NEWEST_KEPT]
    r[OPEN_BEGIN] = r[UNIT_BEGIN] = sap.ring.span[TAIL]
    r[BARRED] = r[TAKEN_OVER] = r[CELL_SIZE] = r[ANSWERED] = 0
    for place in range(stacks.PLACES):
        stacks.clear(sap.savl, place)


@kernel
def take_members(sap: Sap, end: int) -> None:
    """Move the candidates before number `end` to the front partition's list."""
    r, front, kept, taken = sap.registers, sap.front, 0, 0
    side = r[SIDE]
    keys, numbers = sap.candidates.keys[side], sap.candidates.numbers[side]
    dominated = sap.candidates.dominated[side]
    for i in range(r[CANDIDATES]):
        if numbers[i] >= end:
            keys[kept], numbers[kept], dominated[kept] = keys[i], numbers[i], dominated[i]
            kept += 1
        elif numbers[i] >= sap.ring.span[HEAD]:
            front.keys[taken], front.numbers[taken], front.dominated[taken] = keys[i], numbers[i], dominated[i]
            taken += 1
    r[CANDIDATES], r[FRONT_SIZE] = kept, taken


@kernel
def become_front(sap: Sap, plan: SapPlan, query: KernelQuery) -> None:
    """Make the oldest partition, which has begun to expire, the front partition: set up its list and, if needed, M."""
    r, parts, part = sap.registers, sap.parts, sap.registers[OLDEST_PART]
    at = part & (parts.begins.size - 1)
    take_members(sap, parts.ends[at])
    r[FRONT], r[FORMED] = 1, 0
    if parts.ends[at] <= sap.ring.span[HEAD]:
        r[NEXT_STATE] = NEEDLESS
    elif r[NEXT_STATE] == UNDECIDED:
        begin_forming(sap, plan, query, part)
    elif r[NEXT_STATE] != NEEDLESS and parts.rho[at] < query.k:
        rho = parts.rho[at] + open_ahead(sap, parts.best_keys[at], parts.best_numbers[at])
        if rho >= query.k:
            r[NEXT_STATE] = NEEDLESS
    elif parts.rho[at] >= query.k:
        r[NEXT_STATE] = NEEDLESS
    if r[NEXT_STATE] == FORMING:
        r[FRONT] = 0  # the scan must still treat it as the next partition
        continue_forming(sap, plan, query, part, 0)
        r[FRONT] = 1
    stacks.clear(sap.savl, r[PLACE])
    stacks.clear(sap.savl, 2)
    stacks.clear(sap.savl, 3)
    if r[NEXT_STATE] == READY:
        r[PLACE] = 1 - r[PLACE]
        r[FORMED] = 1
        r[FORMATIONS] += 1
    else:
        stacks.clear(sap.savl, 1 - r[PLACE])
        r[SKIPPED] += 1
    r[NEXT_STATE] = r[UNIT_STATE] = UNDECIDED
    r[FRONT_UNIT] = parts.first_units[at]


@kernel
def drop_front(sap: Sap) -> None:
    """Drop the front partition after all of it has expired."""
    r, parts, units = sap.registers, sap.parts, sap.units
    at = r[OLDEST_PART] & (parts.begins.size - 1)
    r[OLDEST_UNIT] = parts.last_units[at] + 1
    if r[OLDEST_UNIT] < r[NEWEST_UNIT]:
        r[OLDEST_KEPT] = units.lists[r[OLDEST_UNIT] & (units.begins.size - 1)]
    else:
        r[OLDEST_KEPT] = r[NEWEST_KEPT]
    r[OLDEST_PART] += 1
    r[FRONT] = r[FRONT_SIZE] = r[FORMED] = 0
    stacks.clear(sap.savl, r[PLACE])
    stacks.clear(sap.savl, r[UNIT_PLACE])


@kernel
def plan_event(sap: Sap, plan: SapPlan) -> None:
    """Compute up to which number the window's start can move before any other work is due."""
    r, parts, units = sap.registers, sap.parts, sap.units
    if r[FRONT]:
        at = r[OLDEST_PART] & (parts.begins.size - 1)
        event = parts.ends[at]
        if r[NEXT_STATE] == FORMING:
            event = min(event, sap.ring.span[HEAD] + SHARE)
        if plan.mode == ENHANCED and r[FORMED] and r[FRONT_UNIT] < parts.last_units[at]:
            event = min(event, units.begins[(r[FRONT_UNIT] + 1) & (units.begins.size - 1)] + 1)
            if r[UNIT_STATE] == FORMING:
                event = min(event, sap.ring.span[HEAD] + SHARE)
        r[EVENT] = event
    elif r[OLDEST_PART] < r[NEWEST_PART]:
        r[EVENT] = parts.begins[r[OLDEST_PART] & (parts.begins.size - 1)] + 1
    else:
        r[EVENT] = (r[OPEN_BEGIN] if r[OPEN_SIZE] else r[UNIT_BEGIN]) + 1


@kernel
def expire(sap: Sap, plan: SapPlan, query: KernelQuery, head: int) -> None:
    """Drop all objects before number `head`, and do the share of incremental work that is due."""
    r, ring, parts = sap.registers, sap.ring, sap.parts
    mask = parts.begins.size - 1
    if head == ring.span[TAIL]:
        reset(sap)
        return
    if head > (r[OPEN_BEGIN] if r[OPEN_SIZE] else r[UNIT_BEGIN]):
        close_all(sap, plan, query)
    ring.span[HEAD] = head
    if r[FRONT]:
        form_ahead(sap, plan, query)
        if parts.ends[r[OLDEST_PART] & mask] <= head:
            drop_front(sap)
    while not r[FRONT] and r[OLDEST_PART] < r[NEWEST_PART] and parts.begins[r[OLDEST_PART] & mask] < head:
        become_front(sap, plan, query)
        if parts.ends[r[OLDEST_PART] & mask] <= head:
            drop_front(sap)
        else:
            form_ahead(sap, plan, query)
    plan_event(sap, plan)


@inner_kernel
def lacks_candidates(sap: Sap, k: int) -> bool:
    """Whether there may be no room for the candidates of the open partition and unit."""
    r = sap.registers
    unit = min(k, sap.ring.span[TAIL] - r[UNIT_BEGIN])
    return r[CANDIDATES] + r[OPEN_SIZE] + unit > sap.candidates.keys.shape[1]


@inner_kernel
def lacks_parts(sap: Sap) -> bool:
    """Whether there may be no room for two more partitions."""
    return sap.registers[NEWEST_PART] - sap.registers[OLDEST_PART] + 2 > sap.parts.begins.size


@inner_kernel
def lacks_units(sap: Sap, plan: SapPlan) -> bool:
    """Whether there may be no room for one more unit."""
    r = sap.registers
    return plan.mode == ENHANCED and r[NEWEST_UNIT] - r[OLDEST_UNIT] + 1 > sap.units.begins.size


@inner_kernel
def lacks_kept(sap: Sap, plan: SapPlan) -> bool:
    """Whether there may be no room for the list of one more unit."""
    r = sap.registers
    unit = min(plan.limit, sap.ring.span[TAIL] - r[UNIT_BEGIN])
    return plan.mode == ENHANCED and r[NEWEST_KEPT] - r[OLDEST_KEPT] + unit > sap.kept.size


@inner_kernel
def lacks_anything(sap: Sap, plan: SapPlan, k: int) -> bool:
    """Whether there may be no room to close the open partition and unit."""
    return lacks_candidates(sap, k) or lacks_parts(sap) or lacks_units(sap, plan) or lacks_kept(sap, plan)


@inner_kernel
def quiet_rows(sap: Sap, query: KernelQuery, rows: Rows, i: int) -> int:
    """The first row from `i` on at which the open unit may end, or before which room runs out."""
    r, span = sap.registers, sap.ring.span
    stop = min(rows.keys.size, i + sap.ring.keys.size - (span[TAIL] - span[HEAD]))
    count = span[TAIL] - r[UNIT_BEGIN]
    if count < r[LEAST]:
        return min(stop, i + r[LEAST] - count)
    boundary = max(r[CLOSE_AT], cell_end(query, position_of(sap.ring, span[TAIL] - 1)))
    return min(stop, first_row_at(rows, i, boundary))


@inner_kernel
def unit_is_complete(sap: Sap, query: KernelQuery, position: int) -> bool:
    """Whether the open unit ends before an object at `position`."""
    r, ring = sap.registers, sap.ring
    count = ring.span[TAIL] - r[UNIT_BEGIN]
    if count == 0 or count < r[LEAST] or position < r[CLOSE_AT]:
        return False
    return position >= cell_end(query, position_of(ring, ring.span[TAIL] - 1))


@kernel
def kept_of_cell(sap: Sap, query: KernelQuery, position: int) -> int:
    """Number of objects kept of the newest cell, which contains `position`."""
    r, ring = sap.registers, sap.ring
    begin = first_number_back_to(ring, ring.span[HEAD], ring.span[TAIL], cell_begin(query, position))
    if begin != r[CELL_BEGIN]:
        r[CELL_BEGIN], r[CELL_SIZE] = begin, 0
    return ring.span[TAIL] - begin


@kernel
def set_cell_bar(sap: Sap, k: int) -> None:
    """Set the newest cell's bar to the k-th best key of its newest objects: no answer contains an object below it."""
    r, ring, work = sap.registers, sap.ring, sap.work
    tail, mask = ring.span[TAIL], ring.keys.size - 1
    # The newest of them have passed an earlier bar, so a few are enough for a good new one.
    size = min(tail - r[CELL_BEGIN], 5 * k if r[CELL_SIZE] else LONG_CELL * k)
    for i in range(size):
        work.keys[i] = ring.keys[(tail - 1 - i) & mask]
    bar = highest(work.keys, size, k)
    sap.reals[CELL_BAR] = max(bar, sap.reals[CELL_BAR]) if r[CELL_SIZE] else bar
    r[CELL_SIZE] = tail - r[CELL_BEGIN]


@kernel
def take_rows_of_cell(sap: Sap, plan: SapPlan, query: KernelQuery, rows: Rows, i: int, stop: int) -> int:
    """Process the rows of the newest cell up to `stop`, keep only those that reach its bar; return the next row."""
    r, ring, k = sap.registers, sap.ring, query.k
    if r[CELL_SIZE] == 0 or ring.span[TAIL] - r[CELL_BEGIN] >= r[CELL_SIZE] + 4 * k:
        set_cell_bar(sap, k)
    loosen(ring)
    bar = sap.reals[CELL_BAR]
    most = min(ring.span[HEAD] + ring.keys.size, r[CELL_BEGIN] + r[CELL_SIZE] + 4 * k)
    while i < stop:
        i = skip_hopeless(rows.keys, i, stop, bar)
        until = min(stop, i + BLOCK)
        while i < until:
            if rows.keys[i] >= bar:
                if ring.span[TAIL] == most:
                    return i
                number = ring.span[TAIL]
                append_rows(ring, rows, i, i + 1)
                if not r[BARRED] or rows.keys[i] >= sap.reals[BAR]:
                    list_keys(sap, plan, rows.keys, i, i + 1, number)
            i += 1
    return i


@kernel
def advance(
    sap: Sap, plan: SapPlan, query: KernelQuery, rows: Rows, at: int, watermark: int, first: int, answers: Answers
) -> tuple[int, int]:
    """Process the rows from index `at` on and answer all windows that end at or before the watermark."""
    r, ring, span, n, i = sap.registers, sap.ring, sap.ring.span, rows.keys.size, at
    while True:
        due = position_at(rows, i) if i < n else watermark
        if lacks_anything(sap, plan, query.k):
            return STATE_FULL, i
        while span[TAIL] > span[HEAD] and r[NEXT_END] <= due:
            end = r[NEXT_END]
            if is_reported(query, end, first):
                if not has_room(answers, min(query.k, span[TAIL] - span[HEAD])):
                    return ANSWERS_FULL, i
                write_answer(sap, plan, query.k, end, answers)
            r[NEXT_END] = end + query.slide
            head = first_number_from(ring, ring.span[HEAD], end + query.slide - query.size)
            if head < r[EVENT] and head < span[TAIL]:
                span[HEAD] = head
            elif head > span[HEAD]:
                expire(sap, plan, query, head)
        if i == n and not plan.counts:
            return DONE, n
        # Count windows: the watermark is the next object's position, so a complete unit can be closed now.
        if unit_is_complete(sap, query, due):
            if lacks_anything(sap, plan, query.k):
                return STATE_FULL, i
            close_unit(sap, plan, query)
        if i == n:
            return DONE, n
        if span[TAIL] == span[HEAD]:
            r[NEXT_END] = end_after(query, due)
        settle_columns(ring, rows, i)
        if span[TAIL] == r[UNIT_BEGIN]:
            open_unit(sap, plan, query, due)
        if span[TAIL] - span[HEAD] == ring.keys.size:
            return STATE_FULL, i
        quiet = quiet_rows(sap, query, rows, i)
        if plan.long_cells:
            kept = kept_of_cell(sap, query, due)
            if kept >= LONG_CELL * query.k:
                stop = first_row_at(rows, i, min(r[NEXT_END], cell_end(query, due)))
                i = take_rows_of_cell(sap, plan, query, rows, i, stop)
                continue
            quiet = min(quiet, i + LONG_CELL * query.k - kept)
        while i < quiet:
            due = position_at(rows, i)
            if r[NEXT_END] <= due:
                end = r[NEXT_END]
                head = first_number_from(ring, ring.span[HEAD], end + query.slide - query.size)
                if head >= r[EVENT] or head >= span[TAIL] or is_reported(query, end, first):
                    break
                span[HEAD], r[NEXT_END] = head, end + query.slide
                continue
            stop = min(quiet, i + CHUNK)
            if r[NEXT_END] <= position_at(rows, stop - 1):
                stop = first_row_at(rows, i, r[NEXT_END])
            tail = span[TAIL]
            append_rows(ring, rows, i, stop)
            if stop - i > 1 or not r[BARRED] or rows.keys[i] >= sap.reals[BAR]:
                list_keys(sap, plan, rows.keys, i, stop, tail)
            i = stop


@kernel
def held_numbers(sap: Sap, k: int, found: Ints) -> int:
    """Write the numbers of all objects of C and M to `found`, and return how many there are."""
    r, head, count = sap.registers, sap.ring.span[HEAD], 0
    for i in range(r[CANDIDATES]):
        if sap.candidates.numbers[r[SIDE], i] >= head:
            found[count] = sap.candidates.numbers[r[SIDE], i]
            count += 1
    for i in range(r[FRONT_SIZE]):
        if sap.front.numbers[i] >= head:
            found[count] = sap.front.numbers[i]
            count += 1
    for i in range(r[OPEN_SIZE]):
        found[count] = sap.opened.numbers[i]
        count += 1
    size, best, work = r[UNIT_SIZE], min(k, r[UNIT_SIZE]), sap.work
    for i in range(size):
        work.keys[i], work.numbers[i] = sap.opened.unit_keys[i], sap.opened.unit_numbers[i]
    bring_best_pairs_forward(sap.ring, work.keys, work.numbers, size, best)
    for i in range(best):
        found[count] = work.numbers[i]
        count += 1
    for place in range(stacks.PLACES):
        count = stacks.numbers_of(sap.ring, sap.savl, place, found, count)
    parts = sap.parts
    for part in range(r[OLDEST_PART] + r[FRONT], r[NEWEST_PART]):
        number = parts.meaningful[part & (parts.begins.size - 1)] - 1
        while number >= 0:
            found[count] = number
            count += 1
            number = sap.ring.below[number & (sap.ring.keys.size - 1)]
    return count
