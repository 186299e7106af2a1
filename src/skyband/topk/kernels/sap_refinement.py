"""How SAP closes a partition: one scan merges its k best with the candidates and refines them; and the rank test."""

from __future__ import annotations

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.stream import Floats, KernelQuery
from skyband.topk.kernels import savl as stacks
from skyband.topk.kernels.dominance_counts import count_dominators
from skyband.topk.kernels.ring import HEAD, ahead, how_many_ahead, position_of
from skyband.topk.kernels.sap_formation import form_at_once, later_floor
from skyband.topk.kernels.sap_state import (
    AT_ONCE,
    CANDIDATES,
    DELETIONS,
    EVENT,
    FORMED,
    FORMING,
    FRONT,
    FRONT_SIZE,
    LARGEST,
    NEWEST_PART,
    NEWEST_UNIT,
    NEXT_STATE,
    OF_PARTITION,
    OLDEST_PART,
    OPEN_BEGIN,
    OPEN_SIZE,
    OPEN_UNIT,
    PARTITIONED,
    PARTITIONS,
    PLACE,
    RHO,
    SIDE,
    UNIT_PLACE,
    Sap,
    SapPlan,
    cell_end,
    cell_of,
)

QUANTILE = 1.959963984540054  # u of 1 - alpha / 2, alpha = 0.05


@kernel
def count_in_partition(sap: Sap, query: KernelQuery) -> None:
    """For each of the open partition's k best, count the better ones of them that expire no earlier."""
    work, opened, size = sap.work, sap.opened, sap.registers[OPEN_SIZE]
    for i in range(size):
        work.cells[i] = cell_of(query, position_of(sap.ring, opened.numbers[i]))
    count_dominators(work.cells, size, work.order, work.merged, work.dominated)


@kernel
def refine_front(sap: Sap, k: int) -> None:
    """Count the new objects as dominators in the front partition; drop expired objects and those with k dominators."""
    r, front, opened, kept, better = sap.registers, sap.front, sap.opened, 0, 0
    for i in range(r[FRONT_SIZE]):
        key, number = front.keys[i], front.numbers[i]
        if number < sap.ring.span[HEAD]:
            continue
        while better < r[OPEN_SIZE] and ahead(sap.ring, opened.keys[better], opened.numbers[better], key, number):
            better += 1
        if front.dominated[i] + better >= k:
            r[DELETIONS] += 1
            continue
        front.keys[kept], front.numbers[kept], front.dominated[kept] = key, number, front.dominated[i] + better
        kept += 1
    r[FRONT_SIZE] = kept


@kernel
def merge_candidates(sap: Sap, k: int) -> None:
    """Merge the open partition's k best with the candidates, update counters, drop candidates with k dominators."""
    r, opened, work, side = sap.registers, sap.opened, sap.work, sap.registers[SIDE]
    keys, numbers, dominated = (
        sap.candidates.keys[side],
        sap.candidates.numbers[side],
        sap.candidates.dominated[side],
    )
    to_keys, to_numbers, to_dominated = (
        sap.candidates.keys[1 - side],
        sap.candidates.numbers[1 - side],
        sap.candidates.dominated[1 - side],
    )
    old, new, i, j, kept = r[CANDIDATES], r[OPEN_SIZE], 0, 0, 0
    while i < old or j < new:
        if i == old or (j < new and ahead(sap.ring, opened.keys[j], opened.numbers[j], keys[i], numbers[i])):
            to_keys[kept], to_numbers[kept] = opened.keys[j], opened.numbers[j]
            to_dominated[kept] = work.dominated[j]
            j += 1
            kept += 1
        else:
            # j new objects are better, and expire later.
            if dominated[i] + j < k:
                to_keys[kept], to_numbers[kept], to_dominated[kept] = keys[i], numbers[i], dominated[i] + j
                kept += 1
            i += 1
    r[DELETIONS] += old + new - kept
    r[CANDIDATES], r[SIDE] = kept, 1 - side


@kernel
def objects_between(sap: Sap, plan: SapPlan, query: KernelQuery, begin: int, end: int) -> int:
    """Number of objects from number `begin` to `end`, which is a cell's end (time windows: number of kept objects)."""
    if plan.counts and plan.long_cells:
        return cell_end(query, position_of(sap.ring, end - 1)) - position_of(sap.ring, begin)
    return end - begin


@kernel
def close_partition(sap: Sap, plan: SapPlan, query: KernelQuery, end: int) -> None:
    """Close the open partition before number `end`: its k best become candidates. There must be room."""
    r, parts, opened, k = sap.registers, sap.parts, sap.opened, query.k
    mask, size = parts.begins.size - 1, r[OPEN_SIZE]
    count_in_partition(sap, query)
    for part in range(r[OLDEST_PART], r[NEWEST_PART]):
        at = part & mask
        if parts.beyond[at] and parts.rho[at] < k:
            more = how_many_ahead(
                sap.ring, opened.keys, opened.numbers, size, parts.best_keys[at], parts.best_numbers[at]
            )
            parts.rho[at] += more
            if part == r[OLDEST_PART] + r[FRONT] and r[NEXT_STATE] == FORMING:
                # Objects that were open when the scan began were counted provisionally; this count is final.
                r[RHO + OF_PARTITION] = max(r[RHO + OF_PARTITION], parts.rho[at])
    if r[FRONT]:
        refine_front(sap, k)
        if r[FORMED] and parts.rho[r[OLDEST_PART] & mask] >= k:
            r[FORMED] = 0
            stacks.clear(sap.savl, r[PLACE])
            stacks.clear(sap.savl, r[UNIT_PLACE])
    merge_candidates(sap, k)
    at, length = r[NEWEST_PART] & mask, objects_between(sap, plan, query, r[OPEN_BEGIN], end)
    parts.begins[at], parts.ends[at], parts.rho[at] = r[OPEN_BEGIN], end, 0
    parts.best_keys[at], parts.best_numbers[at] = opened.keys[size - 1], opened.numbers[size - 1]
    parts.beyond[at] = 1 if end - r[OPEN_BEGIN] > size else 0
    parts.first_units[at], parts.last_units[at] = r[OPEN_UNIT], r[NEWEST_UNIT] - 1
    parts.meaningful[at] = 0
    if plan.forming == AT_ONCE:
        form_at_once(sap, query, r[NEWEST_PART])
    r[NEWEST_PART] += 1
    r[OPEN_SIZE], r[OPEN_BEGIN] = 0, end
    r[PARTITIONS] += 1
    r[PARTITIONED] += length
    r[LARGEST] = max(r[LARGEST], length)
    r[EVENT] = 0  # the closed partition may be the next one
    if r[NEXT_STATE] == FORMING:
        later_floor(sap, k, parts.ends[(r[OLDEST_PART] + r[FRONT]) & mask], OF_PARTITION)


@kernel
def sample_interval(sap: Sap, plan: SapPlan) -> int:
    """Copy the keys of the best candidates before the open partition to the scratch space; return how many."""
    r, front, candidates, work = sap.registers, sap.front, sap.candidates, sap.work
    keys, i, j, found = candidates.keys[r[SIDE]], 0, 0, 0
    while found < plan.sample:
        while i < r[FRONT_SIZE] and front.numbers[i] < sap.ring.span[HEAD]:
            i += 1
        if i < r[FRONT_SIZE] and (j == r[CANDIDATES] or front.keys[i] > keys[j]):
            work.keys[found] = front.keys[i]
            i += 1
        elif j < r[CANDIDATES]:
            work.keys[found] = keys[j]
            j += 1
        else:
            break
        found += 1
    return found


@kernel
def rank_sum(sap: Sap, size: int, sampled: int) -> float:
    """R_1: the sum of the ranks, counted from the worst, of the open partition's `size` best keys among both samples.

    The scratch space contains the keys of the other sample, followed by these. Equal keys share their mean rank.
    """
    mine, others = sap.work.keys[sampled : sampled + size], sap.work.keys[:sampled]
    i, j, ahead_of, total = 0, 0, 0, 0.0
    while i < size:
        key = max(mine[i], others[j]) if j < sampled else mine[i]
        a, b = 0, 0
        while i + a < size and mine[i + a] == key:
            a += 1
        while j + b < sampled and others[j + b] == key:
            b += 1
        total += a * (ahead_of + 0.5 * (a + b + 1))
        ahead_of += a + b
        i += a
        j += b
    return size * (size + sampled + 1) - total


@kernel
def paired_difference(sap: Sap, keys: Floats, size: int, sampled: int) -> float:
    """The t of the paired test: the mean difference of objects at the same share of both samples, in its deviations.

    The scratch space contains the keys of the other sample, best first, as `keys` is.
    """
    total, squares = 0.0, 0.0
    for i in range(size):
        difference = keys[i] - sap.work.keys[min(sampled - 1, (i + 1) * sampled // size - 1 if sampled >= size else i)]
        total += difference
        squares += difference * difference
    mean = total / size
    variance = max(0.0, squares / size - mean * mean)
    if size < 2 or variance == 0.0:
        return np.inf if mean > 0 else 0.0
    return mean / np.sqrt(variance / (size - 1))


@kernel
def is_too_good(sap: Sap, plan: SapPlan, k: int, keys: Floats, size: int) -> bool:
    """The rank test F > 0: whether these keys, best first, tend to be higher than the best of the interval before."""
    sampled = sample_interval(sap, plan)
    if sampled == 0:
        return False
    if plan.paired:
        return paired_difference(sap, keys, size, sampled) > plan.paired
    for i in range(size):
        sap.work.keys[sampled + i] = keys[i]
    ranks = rank_sum(sap, size, sampled)
    if k <= 10:
        return ranks > plan.most_ranks[size, sampled]
    mean = 0.5 * size * (size + sampled + 1)
    deviation = np.sqrt(size * sampled * (size + sampled + 1) / 12.0)
    return (ranks - mean) / deviation > QUANTILE
