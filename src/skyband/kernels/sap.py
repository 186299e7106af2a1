"""SAP's kernel: answers from candidates, the front partition and the open one; expiry; and what happens when.

The window is cut into partitions, and only the k best of each are candidates. The partition that expires is the front one;
from its M objects are promoted when an answer has need of them. See `sap_state` for what is held, `sap_units` for how
partitions come about, `sap_merging` for how their candidates are refined, `sap_forming` and `savl` for M.
"""

from __future__ import annotations

from skyband.kernels import savl as stacks
from skyband.kernels._jit import kernel
from skyband.kernels.ring import HEAD, TAIL, ahead, append_rows, bring_best_pairs_forward, first_number_at
from skyband.kernels.sap_forming import begin_forming, form_ahead, go_on_forming, open_ahead
from skyband.kernels.sap_state import (
    BAR,
    BARRED,
    CANDIDATES,
    CLOSE_AT,
    DELETIONS,
    ENHANCED,
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
    Plan,
    Sap,
    cell_end,
)
from skyband.kernels.sap_units import (
    close_all,
    close_unit,
    lacks_the_best,
    list_hopeful,
    open_unit,
    order_unit,
    relearn_unit,
)
from skyband.kernels.stream import (
    ANSWERS_FULL,
    DONE,
    ROWS,
    STATE_FULL,
    Answers,
    Asked,
    Ints,
    Rows,
    close_window,
    end_after,
    first_row_at,
    has_room,
    is_reported,
    position_at,
    write_row,
)

LEAST_WASTE = 32  # expired entries of the front partition's list that are put up with
NOBODY = -1


@kernel
def sweep_front(sap: Sap) -> None:
    """Drop what has expired of the front partition's list."""
    r, front, kept = sap.registers, sap.front, 0
    for i in range(r[FRONT_SIZE]):
        if front.numbers[i] >= sap.ring.span[HEAD]:
            front.keys[kept], front.numbers[kept] = front.keys[i], front.numbers[i]
            front.dominated[kept] = front.dominated[i]
            kept += 1
    r[FRONT_SIZE] = kept


@kernel
def best_meaningful(sap: Sap) -> int:
    """The place of the S-AVL that has the best meaningful object of the front partition on top; NOBODY if none has."""
    r, savl = sap.registers, sap.savl
    if not r[FORMED]:
        return NOBODY
    a, b = r[PLACE], r[UNIT_PLACE]
    number_a, number_b = stacks.best_of(sap.ring, savl, a), stacks.best_of(sap.ring, savl, b)
    if number_a < 0:
        return b if number_b >= 0 else NOBODY
    if number_b < 0 or ahead(sap.ring, savl.keys[a, 0], number_a, savl.keys[b, 0], number_b):
        return a
    return b


@kernel
def promote(sap: Sap, place: int) -> None:
    """Move the best meaningful object behind the front partition's candidates: it is worse than all of them."""
    r, front, savl = sap.registers, sap.front, sap.savl
    if r[FRONT_SIZE] == front.keys.size:
        sweep_front(sap)
    at = r[FRONT_SIZE]
    front.keys[at], front.numbers[at], front.dominated[at] = savl.keys[place, 0], savl.numbers[place, 0], 0
    r[FRONT_SIZE] = at + 1
    stacks.pop_best(sap.ring, savl, place)


@kernel
def write_best(sap: Sap, k: int, answers: Answers) -> int:
    """Write the k best of all candidates, promoting what is wanted; return the number of the last (NOBODY: none)."""
    r, ring, front, opened = sap.registers, sap.ring, sap.front, sap.opened
    keys, numbers = sap.candidates.keys[r[SIDE]], sap.candidates.numbers[r[SIDE]]
    head, mask = ring.span[HEAD], ring.keys.size - 1
    i, j, u, f, wasted, last = 0, 0, 0, 0, 0, NOBODY
    place = NOBODY
    asked_savl = False
    for _ in range(k):
        best, source = NOBODY, NOBODY
        key = 0.0
        if i < r[CANDIDATES]:
            key, best, source = keys[i], numbers[i], 0
        if j < r[OPEN_SIZE] and (best < 0 or ahead(ring, opened.keys[j], opened.numbers[j], key, best)):
            key, best, source = opened.keys[j], opened.numbers[j], 1
        if u < r[UNIT_SIZE] and (best < 0 or ahead(ring, opened.unit_keys[u], opened.unit_numbers[u], key, best)):
            key, best, source = opened.unit_keys[u], opened.unit_numbers[u], 2
        while f < r[FRONT_SIZE] and front.numbers[f] < head:
            f += 1
            wasted += 1
        if f < r[FRONT_SIZE]:
            if best < 0 or ahead(ring, front.keys[f], front.numbers[f], key, best):
                key, best, source = front.keys[f], front.numbers[f], 3
        else:
            if not asked_savl:
                place = best_meaningful(sap)
                asked_savl = True
            if place >= 0 and (
                best < 0 or ahead(ring, sap.savl.keys[place, 0], sap.savl.numbers[place, 0], key, best)
            ):
                key, best, source = sap.savl.keys[place, 0], sap.savl.numbers[place, 0], 4
        if source == 0:
            i += 1
        elif source == 1:
            j += 1
        elif source == 2:
            u += 1
        elif source == 3:
            f += 1
        elif source == 4:
            promote(sap, place)
            f = r[FRONT_SIZE]
            asked_savl = False
        else:
            break
        write_row(answers, key, ring.ids[best & mask])
        last = best
    if wasted > LEAST_WASTE + f - wasted:
        sweep_front(sap)
    return last


@kernel
def write_answer(sap: Sap, plan: Plan, k: int, end: int, answers: Answers) -> None:
    """Write the answer of the window that ends at `end`."""
    r = sap.registers
    order_unit(sap)
    if plan.mode != ENHANCED and r[UNIT_SIZE] > k:
        r[DELETIONS] += r[UNIT_SIZE] - k
        r[UNIT_SIZE] = r[UNIT_ORDERED] = k
    if plan.mode != ENHANCED and r[UNIT_SIZE] == k:
        sap.reals[BAR], r[BARRED] = sap.opened.unit_keys[k - 1], 1
    begin = answers.cursor[ROWS]
    last = write_best(sap, k, answers)
    if lacks_the_best(sap, k) and (
        answers.cursor[ROWS] - begin < k or sap.ring.keys[last & (sap.ring.keys.size - 1)] < sap.reals[BAR]
    ):
        # Scores fall: the bar taken over hides objects that belong into this answer.
        answers.cursor[ROWS] = begin
        relearn_unit(sap, plan)
        order_unit(sap)
        write_best(sap, k, answers)
    close_window(answers, 0, end)


@kernel
def reset(sap: Sap) -> None:
    """Everything has expired."""
    r = sap.registers
    sap.ring.span[HEAD] = sap.ring.span[TAIL]
    r[CANDIDATES] = r[FRONT] = r[FRONT_SIZE] = r[FORMED] = r[OPEN_SIZE] = r[UNIT_SIZE] = r[UNIT_ORDERED] = 0
    r[NEXT_STATE] = r[UNIT_STATE] = UNDECIDED
    r[OLDEST_PART], r[OLDEST_UNIT], r[OLDEST_KEPT] = r[NEWEST_PART], r[NEWEST_UNIT], r[NEWEST_KEPT]
    r[OPEN_BEGIN] = r[UNIT_BEGIN] = sap.ring.span[TAIL]
    r[BARRED] = r[TAKEN_OVER] = 0
    for place in range(stacks.PLACES):
        stacks.clear(sap.savl, place)


@kernel
def take_members(sap: Sap, end: int) -> None:
    """Take the candidates before number `end` out, to stand apart as those of the front partition."""
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
def become_front(sap: Sap, plan: Plan, asked: Asked) -> None:
    """The oldest partition has begun to expire: its candidates stand apart, and its M is there, if it needs one."""
    r, parts, part = sap.registers, sap.parts, sap.registers[OLDEST_PART]
    at = part & (parts.begins.size - 1)
    take_members(sap, parts.ends[at])
    r[FRONT], r[FORMED] = 1, 0
    if parts.ends[at] <= sap.ring.span[HEAD]:
        r[NEXT_STATE] = NEEDLESS
    elif r[NEXT_STATE] == UNDECIDED:
        begin_forming(sap, plan, asked, part)
    elif r[NEXT_STATE] != NEEDLESS and parts.rho[at] < asked.k:
        rho = parts.rho[at] + open_ahead(sap, parts.best_keys[at], parts.best_numbers[at])
        if rho >= asked.k:
            r[NEXT_STATE] = NEEDLESS
    elif parts.rho[at] >= asked.k:
        r[NEXT_STATE] = NEEDLESS
    if r[NEXT_STATE] == FORMING:
        r[FRONT] = 0  # it is still the next one to the scan
        go_on_forming(sap, plan, asked, part, 0)
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
    """All of the front partition has expired."""
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
def expire(sap: Sap, plan: Plan, asked: Asked, live_from: int) -> None:
    """Drop all objects that stand before `live_from`, and do the share of the work that comes with it."""
    r, ring, parts = sap.registers, sap.ring, sap.parts
    mask = parts.begins.size - 1
    head = first_number_at(ring, live_from)
    if head == ring.span[HEAD]:
        return
    if head == ring.span[TAIL]:
        reset(sap)
        return
    if head > (r[OPEN_BEGIN] if r[OPEN_SIZE] else r[UNIT_BEGIN]):
        close_all(sap, plan, asked)
    ring.span[HEAD] = head
    if r[FRONT]:
        form_ahead(sap, plan, asked)
        if parts.ends[r[OLDEST_PART] & mask] <= head:
            drop_front(sap)
    while not r[FRONT] and r[OLDEST_PART] < r[NEWEST_PART] and parts.begins[r[OLDEST_PART] & mask] < head:
        become_front(sap, plan, asked)
        if parts.ends[r[OLDEST_PART] & mask] <= head:
            drop_front(sap)
        else:
            form_ahead(sap, plan, asked)


@kernel
def lacks_candidates(sap: Sap, k: int) -> bool:
    """Whether the candidates of the open partition and unit might not fit."""
    r = sap.registers
    unit = min(k, sap.ring.span[TAIL] - r[UNIT_BEGIN])
    return r[CANDIDATES] + r[OPEN_SIZE] + unit > sap.candidates.keys.shape[1]


@kernel
def lacks_parts(sap: Sap) -> bool:
    """Whether two more partitions might not fit."""
    return sap.registers[NEWEST_PART] - sap.registers[OLDEST_PART] + 2 > sap.parts.begins.size


@kernel
def lacks_units(sap: Sap, plan: Plan) -> bool:
    """Whether one more unit might not fit."""
    r = sap.registers
    return plan.mode == ENHANCED and r[NEWEST_UNIT] - r[OLDEST_UNIT] + 1 > sap.units.begins.size


@kernel
def lacks_kept(sap: Sap, plan: Plan) -> bool:
    """Whether the list of one more unit might not fit."""
    r = sap.registers
    unit = min(plan.limit, sap.ring.span[TAIL] - r[UNIT_BEGIN])
    return plan.mode == ENHANCED and r[NEWEST_KEPT] - r[OLDEST_KEPT] + unit > sap.kept.size


@kernel
def rows_until_unit_ends(sap: Sap, asked: Asked, rows: Rows, i: int, stop: int) -> int:
    """The first row from `i` on, `stop` at most, at which the open unit's end has to be thought of."""
    r = sap.registers
    count = sap.ring.span[TAIL] - r[UNIT_BEGIN]
    if count < r[LEAST]:
        return min(stop, i + r[LEAST] - count)
    newest = sap.ring.positions[(sap.ring.span[TAIL] - 1) & (sap.ring.keys.size - 1)]
    return min(stop, first_row_at(rows, i, max(r[CLOSE_AT], cell_end(asked, newest))))


@kernel
def unit_is_complete(sap: Sap, asked: Asked, position: int) -> bool:
    """Whether the open unit ends before an object at `position`."""
    r, ring = sap.registers, sap.ring
    count = ring.span[TAIL] - r[UNIT_BEGIN]
    if count == 0 or count < r[LEAST] or position < r[CLOSE_AT]:
        return False
    return position >= cell_end(asked, ring.positions[(ring.span[TAIL] - 1) & (ring.keys.size - 1)])


@kernel
def advance(
    sap: Sap, plan: Plan, asked: Asked, rows: Rows, at: int, watermark: int, first: int, answers: Answers
) -> tuple[int, int]:
    """Take in the rows from `at` on and answer all windows that end at or before the watermark."""
    r, span, n, i = sap.registers, sap.ring.span, rows.keys.size, at
    while True:
        due = position_at(rows, i) if i < n else watermark
        if lacks_candidates(sap, asked.k) or lacks_parts(sap) or lacks_units(sap, plan) or lacks_kept(sap, plan):
            return STATE_FULL, i
        while span[TAIL] > span[HEAD] and r[NEXT_END] <= due:
            end = r[NEXT_END]
            if is_reported(asked, end, first):
                if not has_room(answers, min(asked.k, span[TAIL] - span[HEAD])):
                    return ANSWERS_FULL, i
                write_answer(sap, plan, asked.k, end, answers)
            r[NEXT_END] = end + asked.slide
            expire(sap, plan, asked, end + asked.slide - asked.size)
        if i == n:
            return DONE, n
        if span[TAIL] == span[HEAD]:
            r[NEXT_END] = end_after(asked, due)
        if unit_is_complete(sap, asked, due):
            if lacks_candidates(sap, asked.k) or lacks_parts(sap) or lacks_units(sap, plan) or lacks_kept(sap, plan):
                return STATE_FULL, i
            close_unit(sap, plan, asked)
        if span[TAIL] == r[UNIT_BEGIN]:
            open_unit(sap, plan, asked, due)
        if span[TAIL] - span[HEAD] == sap.ring.keys.size:
            return STATE_FULL, i
        stop = first_row_at(rows, i, r[NEXT_END])
        stop = rows_until_unit_ends(sap, asked, rows, i, stop)
        stop = min(stop, i + sap.ring.keys.size - (span[TAIL] - span[HEAD]))
        tail = span[TAIL]
        append_rows(sap.ring, rows, i, stop)
        list_hopeful(sap, plan, rows.keys, i, stop, tail)
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
    return count
