"""Scores of keys that depend on each of their values: distinct counts and quantiles.

Partials are those of *items*: an item is a value of a key, or a hash of it, and has a slot as keys have elsewhere. So
panes, tracks and stored state are the same, with items instead of keys. Here, the items that changed since the last
answer update the keys that they belong to.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from skyband.aggregate.kernels.exact_sum import UNIT, shift_of, whole_of
from skyband.aggregate.kernels.key_scores import TALLY, holds
from skyband.aggregate.kernels.partials import COUNT, NONE, SCORED, AggregateQueries, State
from skyband.aggregate.kernels.registers import estimate
from skyband.kernels._jit import kernel
from skyband.kernels.stream import Floats, Ints

# AggregateQueries.whats; codes below the last one are further quantiles
DISTINCT = -1
ESTIMATE = -2
QUANTILE = -3  # - the index of its fraction

_INFINITE = 0x7FF0000000000000
_REST = 2**63 - 1


class Items(NamedTuple):
    """What is known of the keys of items, and of the items in each window. All of it follows from a `State`."""

    # per item
    owners: Ints  # the slot of its key
    order: Ints  # the number that it is, as an integer in the same order; or a register and its value
    # per track and item
    held: Any  # (tracks, items): its count in the window when it was seen last
    before: Any  # (tracks, items): the item before it in the list of its key, NONE for the first
    after: Any
    # per track and key
    heads: Any  # (tracks, keys): the first item in the window, NONE if there is none
    rows: Any  # (tracks, keys): the number of rows in the window
    distinct: Any  # (tracks, keys): the number of items in the window
    dirty: Any  # (tracks, keys) bool: whether the key must be scored again
    # per key
    last: Ints  # its newest position
    touched: Ints  # scratch: the keys that must be scored again
    # per ranking and key
    scores: Any
    # scratch
    numbers: Ints  # the items of one key, sorted
    counts: Ints  # how often they occur
    registers: Ints  # for estimates
    fractions: Floats  # of quantiles


@kernel
def score_keys(state: State, query_set: AggregateQueries, track: int, items: Items) -> None:
    """Rescore the keys of a track's window whose items changed, for all its rankings."""
    keys = 0
    for i in range(state.stale[track]):
        item = state.touched[track, i]
        state.dirty[track, item] = 0
        key = items.owners[item]
        _update(state, items, track, item, key)
        if not items.dirty[track, key]:
            items.dirty[track, key] = True
            items.touched[keys] = key
            keys += 1
    state.stale[track] = 0
    for i in range(keys):
        key = items.touched[i]
        items.dirty[track, key] = False
        for ranking in range(query_set.whats.size):
            if query_set.tracks_of[ranking] == track:
                found = score_of_key(items, track, query_set.whats[ranking], key)
                begin = query_set.conditions_end[ranking - 1] if ranking else 0
                for c in range(begin, query_set.conditions_end[ranking]):
                    score = score_of_key(items, track, query_set.condition_whats[c], key)
                    if not holds(score, query_set.operators[c], query_set.bounds[c]):
                        found = np.nan
                items.scores[ranking, key] = query_set.directions[ranking] * found
                state.clock[SCORED] += 1


@kernel
def _update(state: State, items: Items, track: int, item: int, key: int) -> None:
    """Update a key by the change of one of its items, and the list of its items in the window."""
    now = 0
    if state.place[track, item] != NONE:
        now = state.added[item, COUNT] - state.left[track, item, COUNT]
        items.last[key] = max(items.last[key], state.last[item])
    was = items.held[track, item]
    items.held[track, item] = now
    items.rows[track, key] += now - was
    if now and not was:
        items.distinct[track, key] += 1
        head = items.heads[track, key]
        items.before[track, item], items.after[track, item] = NONE, head
        if head != NONE:
            items.before[track, head] = item
        items.heads[track, key] = item
    elif was and not now:
        items.distinct[track, key] -= 1
        before, after = items.before[track, item], items.after[track, item]
        if before == NONE:
            items.heads[track, key] = after
        else:
            items.after[track, before] = after
        if after != NONE:
            items.before[track, after] = before


@kernel
def score_of_key(items: Items, track: int, what: int, key: int) -> float:
    """Return the score of a key; NaN if it has no row in the window."""
    if items.rows[track, key] == 0:
        return np.nan
    if what == TALLY:
        return np.float64(items.rows[track, key])
    if what == DISTINCT:
        return np.float64(items.distinct[track, key])
    size, item = 0, items.heads[track, key]
    while item != NONE:
        items.numbers[size], items.counts[size] = items.order[item], items.held[track, item]
        size += 1
        item = items.after[track, item]
    if what == ESTIMATE:
        return estimate(items.numbers, size, items.registers)
    place = items.fractions[QUANTILE - what] * np.float64(items.rows[track, key] - 1)
    lower = math.floor(place)
    low, high = select(items.numbers, items.counts, size, int(lower))
    # As Spark's `percentile`: both factors are positive, or the values are equal.
    if low == high or place == lower:
        return double_of(low)
    return (lower + 1 - place) * double_of(low) + (place - lower) * double_of(high)


@kernel
def select(numbers: Ints, counts: Ints, size: int, rank: int) -> tuple[int, int]:
    """Return the values of ranks `rank` and ``rank + 1``, from 0, among distinct numbers with counts.

    The arrays are reordered. The second value is the first if there is no further one.
    """
    begin, end, skipped = 0, size, 0  # the value is in numbers[begin:end], after `skipped` smaller ones
    following, has_following = 0, False  # the smallest number beyond the range
    while True:
        # A fixed choice among three, so that sorted numbers do not take quadratic time.
        a, b, c = numbers[begin], numbers[(begin + end) // 2], numbers[end - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j, below, at = begin, end - 1, 0, 0
        while i <= j:
            if numbers[i] < pivot:
                below += counts[i]
                i += 1
            else:
                numbers[i], numbers[j] = numbers[j], numbers[i]
                counts[i], counts[j] = counts[j], counts[i]
                if numbers[j] == pivot:
                    at = counts[j]
                j -= 1
        # Now numbers[begin:i] are below the pivot, and numbers[i:end] are the others.
        if rank < skipped + below:
            end, following, has_following = i, pivot, True
            continue
        if rank < skipped + below + at:
            break
        # Remove the pivot itself: move it to the front of the upper part.
        for p in range(i, end):
            if numbers[p] == pivot:
                numbers[i], numbers[p] = numbers[p], numbers[i]
                counts[i], counts[p] = counts[p], counts[i]
                break
        begin, skipped = i + 1, skipped + below + at
    if rank + 1 < skipped + below + at:
        return pivot, pivot
    for p in range(i, end):
        if numbers[p] > pivot and (not has_following or numbers[p] < following):
            following, has_following = numbers[p], True
    return pivot, following if has_following else pivot


@kernel
def double_of(order: int) -> float:
    """Return the double whose order among doubles is this integer, see `slot_dictionary.as_order`."""
    bits = order ^ ((order >> 63) & _REST)
    if bits & _REST >= _INFINITE:
        return -np.inf if bits < 0 else np.inf
    found = math.ldexp(np.float64(whole_of(bits)), shift_of(bits) - UNIT)
    return -found if bits < 0 else found


@kernel
def sort_keys_by_group(groups: Ints, ranked: Floats, begins: Ints, found: Ints) -> None:
    """Write the scored keys to `found` by group. Those of group g end at ``begins[g]``."""
    begins[:] = 0
    for key in range(ranked.size):
        if not np.isnan(ranked[key]):
            begins[groups[key]] += 1
    total = 0
    for group in range(begins.size):
        total, begins[group] = total + begins[group], total
    for key in range(ranked.size):
        if not np.isnan(ranked[key]):
            found[begins[groups[key]]] = key
            begins[groups[key]] += 1
