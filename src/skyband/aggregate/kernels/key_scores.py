"""The scores of the keys of a window: those of changed keys are computed again before an answer."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.aggregate.kernels.decayed_mean import decayed_mean
from skyband.aggregate.kernels.deviation import deviation
from skyband.aggregate.kernels.exact_sum import BITS, MASK, rounded, scale_of
from skyband.aggregate.kernels.partials import (
    AHEAD,
    COUNT,
    EVERYTHING,
    EXTREME_CHANGED,
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
from skyband.kernels._prefetch import prefetch
from skyband.kernels.stream import Floats, Ints

# AggregateQueries.whats
SUM = 0
AVG = 1
TALLY = 2
STDDEV = 3
POPULATION = 4  # standard deviation of a population
DECAYED = 5  # mean of rows that decay
EXTREME = 6  # and higher codes: the extremes, in their order
# AggregateQueries.operators, in the order of `having.OPERATORS`
AT_LEAST = 0
ABOVE = 1
AT_MOST = 2
BELOW = 3
EQUAL = 4
FEW_CHANGES = 16  # fewer than one changed key in as many slots are not sorted
BLOCK = 256  # keys that are scored together
CODES = {
    "sum": SUM,
    "avg": AVG,
    "count": TALLY,
    "stddev": STDDEV,
    "stddev_pop": POPULATION,
    "decayed_avg": DECAYED,
}


class KeyScratch(NamedTuple):
    """Scratch arrays, for the selection and for sorting."""

    sorted: Ints  # per slot: the keys of a window, sorted by group; or rows, sorted by slot
    heap: Ints  # per slot
    begins: Ints  # per group
    total: Ints  # for rounding: the limbs of a sum, plus two
    squares: Ints  # the limbs of a sum of squares, plus four
    buckets: Ints  # for sorting rows
    sums: Any  # (groups, width): the additive columns of all keys of a window


@inner_kernel
def in_window(added: Ints, left: Ints, first: int, columns: int, to: Ints) -> None:
    """Copy the window totals of `columns` columns, starting with `first`, to `to`."""
    for i in range(columns):
        to[i] = added[first + i] - left[first + i]


@inner_kernel
def infinity_of(infinite: int) -> float:
    """Return the sum of a number of infinities, which is not 0; NaN if both are among them."""
    minus = infinite // MINUS
    return np.inf if minus == 0 else -np.inf if infinite == minus * MINUS else np.nan


@inner_kernel
def total_of(added: Ints, left: Ints, low: int, scale: float, powers: int, room: Ints) -> float:
    """Return the sum of a key's values in the window, rounded once; NaN if it contains both infinities.

    `added` and `left` are the key's rows. `scale` is `scale_of(low)`.
    """
    infinite = added[INFINITE] - left[INFINITE]
    if infinite != 0:
        return infinity_of(infinite)
    limbs = limbs_of(added.size, powers)
    if limbs == 2 and scale:  # most sums fit into one integer, which the processor rounds
        lower = added[FIRST_LIMB] - left[FIRST_LIMB]
        upper = added[FIRST_LIMB + 1] - left[FIRST_LIMB + 1] + (lower >> BITS)
        if upper == (upper << BITS) >> BITS:
            return scale * np.float64((upper << BITS) | (lower & MASK))
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


@kernel
def decayed_mean_of(added: Ints, left: Ints, powers: int, room: Ints, weights: Ints) -> float:
    """Return the mean of a key's rows in the window, weighted by their decay; NaN if it contains both infinities."""
    infinite = added[INFINITE] - left[INFINITE]
    if infinite != 0:
        return infinity_of(infinite)
    limbs = limbs_of(added.size, powers)
    in_window(added, left, FIRST_LIMB, limbs, room)
    for i in range(limbs):  # limb i has the column of limb 2i of squares
        column = FIRST_LIMB + limbs + 2 * i
        weights[i] = added[column] - left[column]
    return decayed_mean(room, weights, limbs)


@inner_kernel
def score_of(
    state: State, query_set: AggregateQueries, track: int, what: int, slot: int, room: KeyScratch, scale: float
) -> float:
    """Return the score of a key. `scale` is that of the lowest limb."""
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
    if what == DECAYED:
        total = decayed_mean_of(added, left, query_set.powers, room.total, room.squares)
    else:
        total = total_of(added, left, query_set.low, scale, query_set.powers, room.total)
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


@inner_kernel
def meets_conditions(
    state: State, query_set: AggregateQueries, track: int, ranking: int, slot: int, room: KeyScratch, scale: float
) -> bool:
    """Return whether a key meets all conditions of a ranking."""
    for i in range(query_set.conditions_end[ranking - 1] if ranking else 0, query_set.conditions_end[ranking]):
        score = score_of(state, query_set, track, query_set.condition_whats[i], slot, room, scale)
        if not holds(score, query_set.operators[i], query_set.bounds[i]):
            return False
    return True


@kernel
def sort_touched(state: State, track: int) -> None:
    """Sort the changed keys of a track by slot if they are many: then their totals are read in the order of memory."""
    stale, dirty, touched = state.stale[track], state.dirty[track], state.touched[track]
    if stale * FEW_CHANGES < dirty.size:
        return
    found, slot = 0, 0
    while found < stale:
        touched[found] = slot
        found += dirty[slot] != 0
        slot += 1


@kernel
def score_again(state: State, query_set: AggregateQueries, track: int, room: KeyScratch) -> None:
    """Rescore the changed keys of a track's window, for all its rankings.

    A ranking by an extreme skips keys whose extreme is still the same partial.
    """
    stale, scale = state.stale[track], scale_of(query_set.low)
    sort_touched(state, track)
    for begin in range(0, stale, BLOCK):  # all rankings of some keys, whose totals are in the cache by then
        end = min(begin + BLOCK, stale)
        for ranking in range(query_set.whats.size):
            if query_set.tracks_of[ranking] != track:
                continue
            what, direction = query_set.whats[ranking], query_set.directions[ranking]
            first = query_set.conditions_end[ranking - 1] if ranking else 0
            has_conditions = first < query_set.conditions_end[ranking]
            needed = EVERYTHING if what < EXTREME or has_conditions else EXTREME_CHANGED << (what - EXTREME)
            for i in range(begin, end):
                later = state.touched[track, min(i + AHEAD, stale - 1)]
                prefetch(state.added, later)
                prefetch(state.left[track], later)
                slot = state.touched[track, i]
                if state.dirty[track, slot] & needed:
                    score = direction * score_of(state, query_set, track, what, slot, room, scale)
                    if has_conditions and not meets_conditions(state, query_set, track, ranking, slot, room, scale):
                        score = np.nan
                    state.scores[ranking, slot] = score
            state.clock[SCORED] += end - begin
        for i in range(begin, end):
            state.dirty[track, state.touched[track, i]] = 0
    state.stale[track] = 0


@kernel
def count_unrankable(state: State, query_set: AggregateQueries, ranking: int, room: KeyScratch) -> int:
    """Return the number of keys in a window whose score is NaN because of infinite values."""
    track, found, scale = query_set.tracks_of[ranking], 0, scale_of(query_set.low)
    for i in range(state.alive[track]):
        slot = state.live[track, i]
        if np.isnan(state.scores[ranking, slot]) and state.added[slot, INFINITE] != state.left[track, slot, INFINITE]:
            # A key that does not meet a condition has no score either.
            found += np.isnan(score_of(state, query_set, track, query_set.whats[ranking], slot, room, scale))
    return found


@kernel
def rounded_sums(rows: Any, nothing: Ints, low: int, powers: int, counted: Any, room: Ints, found: Floats) -> None:
    """Write the sum of each row of additive columns to `found`; its count where `counted` is true.

    `nothing` is a row of zeros.
    """
    scale = scale_of(low)
    for i in range(rows.shape[0]):
        if counted[i]:
            found[i] = rows[i, COUNT]
        else:
            found[i] = total_of(rows[i], nothing, low, scale, powers, room)
