"""The top-k keys of a window: rescore changed keys, then select with one pass and a heap."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.aggregate.kernels.deviation import deviation
from skyband.aggregate.kernels.exact_sum import rounded
from skyband.aggregate.kernels.partials import (
    COUNT,
    FIRST_LIMB,
    INFINITE,
    MINUS,
    NONE,
    SCORED,
    AggregateQueries,
    State,
    limbs_of,
)
from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.keys import Keys
from skyband.kernels.select import BLOCK, skip_hopeless
from skyband.kernels.stream import Floats, Ints

# AggregateQueries.whats
SUM = 0
AVG = 1
TALLY = 2
STDDEV = 3
POPULATION = 4  # standard deviation of a population
EXTREME = 5  # and higher codes: the extremes, in their order
# AggregateQueries.operators, in the order of `having.OPERATORS`
AT_LEAST = 0
ABOVE = 1
AT_MOST = 2
BELOW = 3
EQUAL = 4
CODES = {"sum": SUM, "avg": AVG, "count": TALLY, "stddev": STDDEV, "stddev_pop": POPULATION}


class KeyScratch(NamedTuple):
    """Scratch arrays for the selection."""

    sorted: Ints  # per slot: the keys of a window, sorted by group
    heap: Ints  # per slot
    begins: Ints  # per group
    total: Ints  # for rounding: the limbs of a sum, plus two
    squares: Ints  # the limbs of a sum of squares, plus four
    sums: Any  # (groups, width): the additive columns of all keys of a window


@kernel
def follows(keys: Keys, a: int, b: int) -> bool:
    """Return whether the key in slot a is larger than the key in slot b."""
    if keys.prefix[a] != keys.prefix[b]:
        return keys.prefix[a] > keys.prefix[b]
    common = min(keys.lengths[a], keys.lengths[b])
    for i in range(min(8, common), common):
        one, other = keys.letters[keys.begins[a] + i], keys.letters[keys.begins[b] + i]
        if one != other:
            return one > other
    return keys.lengths[a] > keys.lengths[b]


@inner_kernel
def outranks(last: Ints, keys: Keys, scores: Floats, a: int, b: int) -> bool:
    """Return whether key a ranks before key b: higher score, then seen last, then larger key."""
    if scores[a] != scores[b]:
        return scores[a] > scores[b]
    if last[a] != last[b]:
        return last[a] > last[b]
    return follows(keys, a, b)


@inner_kernel
def in_window(added: Ints, left: Ints, first: int, columns: int, to: Ints) -> None:
    """Copy the window totals of `columns` columns, starting with `first`, to `to`."""
    for i in range(columns):
        to[i] = added[first + i] - left[first + i]


@kernel
def total_of(added: Ints, left: Ints, low: int, powers: int, room: Ints) -> float:
    """Return the sum of a key's values in the window, rounded once; NaN if it contains both infinities.

    `added` and `left` are the key's rows. Passing the complete state for every key would cost more than the sum.
    """
    infinite = added[INFINITE] - left[INFINITE]
    if infinite != 0:
        minus = infinite // MINUS
        return np.inf if minus == 0 else -np.inf if infinite == minus * MINUS else np.nan
    limbs = limbs_of(added.size, powers)
    in_window(added, left, FIRST_LIMB, limbs, room)
    return rounded(room, limbs, low)


@kernel
def deviation_of(added: Ints, left: Ints, low: int, powers: int, lost: int, room: Ints, squares: Ints) -> float:
    """Return the standard deviation of a key's window values; NaN without a degree of freedom or with an infinity.

    `lost` is the number of degrees of freedom that are lost: 1 for a sample, 0 for a population.
    """
    count = added[COUNT] - left[COUNT]
    if count <= lost or added[INFINITE] != left[INFINITE]:
        return np.nan
    limbs = limbs_of(added.size, powers)
    in_window(added, left, FIRST_LIMB, limbs, room)
    in_window(added, left, FIRST_LIMB + limbs, 2 * limbs, squares)
    return deviation(room, squares, limbs, low, count, count - lost)


@inner_kernel
def score_of(state: State, query_set: AggregateQueries, track: int, what: int, slot: int, room: KeyScratch) -> float:
    """Return the score of a key."""
    if state.place[track, slot] == NONE:
        return np.nan
    if what >= EXTREME:
        e, g = what - EXTREME, query_set.grows[track]
        if g != NONE:
            return query_set.signs[e] * state.peaks[g, slot, e] + 0.0
        head = state.heads[track, slot, e] & (state.slots.size - 1)
        return query_set.signs[e] * state.extremes[head, e] + 0.0
    added, left = state.added[slot], state.left[track, slot]
    count = np.float64(added[COUNT] - left[COUNT])
    if what == TALLY:
        return count
    if what in (STDDEV, POPULATION):
        lost = 1 if what == STDDEV else 0
        return deviation_of(added, left, query_set.low, query_set.powers, lost, room.total, room.squares)
    total = total_of(added, left, query_set.low, query_set.powers, room.total)
    return total / count if what == AVG else total


@inner_kernel
def holds(score: float, operator: int, bound: float) -> bool:
    """Return whether a score meets a condition; NaN meets none."""
    if operator == AT_LEAST:
        return score >= bound
    if operator == ABOVE:
        return score > bound
    if operator == AT_MOST:
        return score <= bound
    if operator == BELOW:
        return score < bound
    return score == bound if operator == EQUAL else score < bound or score > bound


@kernel
def meets_conditions(
    state: State, query_set: AggregateQueries, track: int, ranking: int, slot: int, room: KeyScratch
) -> bool:
    """Return whether a key meets all conditions of a ranking."""
    for i in range(query_set.conditions_end[ranking - 1] if ranking else 0, query_set.conditions_end[ranking]):
        score = score_of(state, query_set, track, query_set.condition_whats[i], slot, room)
        if not holds(score, query_set.operators[i], query_set.bounds[i]):
            return False
    return True


@kernel
def score_again(state: State, query_set: AggregateQueries, track: int, room: KeyScratch) -> None:
    """Rescore the changed keys of a track's window, for all its rankings."""
    stale = state.stale[track]
    for ranking in range(query_set.whats.size):
        if query_set.tracks_of[ranking] == track:
            direction = query_set.directions[ranking]
            for i in range(stale):
                slot = state.touched[track, i]
                score = score_of(state, query_set, track, query_set.whats[ranking], slot, room)
                state.scores[ranking, slot] = direction * score
            begin = query_set.conditions_end[ranking - 1] if ranking else 0
            if begin < query_set.conditions_end[ranking]:
                for i in range(stale):
                    slot = state.touched[track, i]
                    if not meets_conditions(state, query_set, track, ranking, slot, room):
                        state.scores[ranking, slot] = np.nan
            state.clock[SCORED] += stale
    for i in range(stale):
        state.dirty[track, state.touched[track, i]] = False
    state.stale[track] = 0


@kernel
def sink(last: Ints, keys: Keys, scores: Floats, heap: Ints, size: int, at: int) -> None:
    """Sift the key at heap index `at` down. The worst key is on top."""
    slot = heap[at]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and outranks(last, keys, scores, heap[child], heap[child + 1]):
            child += 1
        if not outranks(last, keys, scores, slot, heap[child]):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = slot


@kernel
def admit(last: Ints, keys: Keys, scores: Floats, heap: Ints, size: int, k: int, slot: int) -> int:
    """Insert a key into the heap of the k best if it qualifies. Return the size of the heap."""
    if size < k:
        heap[size] = slot
        if size + 1 == k:
            for at in range(k // 2 - 1, -1, -1):
                sink(last, keys, scores, heap, k, at)
        return size + 1
    if outranks(last, keys, scores, slot, heap[0]):
        heap[0] = slot
        sink(last, keys, scores, heap, k, 0)
    return size


@kernel
def in_order(last: Ints, keys: Keys, scores: Floats, heap: Ints, size: int, k: int) -> None:
    """Sort the keys of the heap, best first."""
    if size < k:
        for at in range(size // 2 - 1, -1, -1):
            sink(last, keys, scores, heap, size, at)
    for left in range(size - 1, 0, -1):
        heap[0], heap[left] = heap[left], heap[0]
        sink(last, keys, scores, heap, left, 0)


@kernel
def best_of_all(last: Ints, keys: Keys, scores: Floats, heap: Ints, k: int) -> int:
    """Write the k best keys to the heap, best first. Return their number."""
    size, i, floor = 0, 0, -np.inf
    while i < scores.size:
        if size == k:
            # Most keys are worse than the k-th: skip them in blocks.
            i = skip_hopeless(scores, i, scores.size, floor)
        stop = min(i + BLOCK, scores.size)
        for slot in range(i, stop):
            if scores[slot] >= floor:  # False for NaN
                size = admit(last, keys, scores, heap, size, k, slot)
                floor = scores[heap[0]] if size == k else -np.inf
        i = stop
    in_order(last, keys, scores, heap, size, k)
    return size


@kernel
def best_of_group(last: Ints, keys: Keys, scores: Floats, room: KeyScratch, group: int, k: int) -> int:
    """Like `best_of_all`, for the keys of one group, after `sort_by_group`."""
    size = 0
    for i in range(room.begins[group - 1] if group else 0, room.begins[group]):
        size = admit(last, keys, scores, room.heap, size, k, room.sorted[i])
    in_order(last, keys, scores, room.heap, size, k)
    return size


@kernel
def sort_by_group(state: State, keys: Keys, track: int, scores: Floats, room: KeyScratch) -> None:
    """Write the scored keys of a window to ``sorted`` by group. Those of group g end at ``begins[g]``."""
    begins = room.begins
    begins[:] = 0
    for i in range(state.alive[track]):
        slot = state.live[track, i]
        if not np.isnan(scores[slot]):
            begins[keys.groups[slot]] += 1
    found = 0
    for group in range(begins.size):
        found, begins[group] = found + begins[group], found
    for i in range(state.alive[track]):
        slot = state.live[track, i]
        if not np.isnan(scores[slot]):
            room.sorted[begins[keys.groups[slot]]] = slot
            begins[keys.groups[slot]] += 1


@kernel
def sum_by_group(state: State, keys: Keys, track: int, room: KeyScratch) -> None:
    """Write the sums of all keys of a window to ``sums``, by group."""
    sums = room.sums
    sums[:] = 0
    for i in range(state.alive[track]):
        slot = state.live[track, i]
        group = keys.groups[slot] if sums.shape[0] > 1 else 0
        for column in range(sums.shape[1]):
            sums[group, column] += state.added[slot, column] - state.left[track, slot, column]


@kernel
def rounded_sums(rows: Any, nothing: Ints, low: int, powers: int, counted: Any, room: Ints, found: Floats) -> None:
    """Write the sum of each row of additive columns to `found`; its count where `counted` is true.

    `nothing` is a row of zeros.
    """
    for i in range(rows.shape[0]):
        if counted[i]:
            found[i] = rows[i, COUNT]
        else:
            found[i] = total_of(rows[i], nothing, low, powers, room)


@kernel
def count_unrankable(state: State, query_set: AggregateQueries, ranking: int, room: KeyScratch) -> int:
    """Return the number of keys in a window whose score is NaN because of infinite values."""
    track, found = query_set.tracks_of[ranking], 0
    for i in range(state.alive[track]):
        slot = state.live[track, i]
        if np.isnan(state.scores[ranking, slot]) and state.added[slot, INFINITE] != state.left[track, slot, INFINITE]:
            # A key that does not meet a condition has no score either.
            found += np.isnan(score_of(state, query_set, track, query_set.whats[ranking], slot, room))
    return found
