"""SpaceSaving with evictions in bulk: the heaviest keys of a pane, with bounds of their totals, in bounded memory.

A group holds at most ``2 * m`` *counters*. The counter of a key has two numbers: `lows`, the weight since the key
entered, and `highs`, the same plus the group's `offset` at that time. The key's total is between them: a key without
a counter has a total of at most the offset. If a new key finds no counter, the m counters with the largest `highs`
remain, the others are evicted, and the largest evicted `highs` becomes the offset.

This is SpaceSaving (Metwally, Agrawal, El Abbadi 2005), which evicts one counter at a time, with the amortized cost of
a hash table. Relative to the offset it is the algorithm of Misra and Gries with decrements in bulk (Anderson et al.
2017): m + 1 counters are larger than the offset by at least the amount by which it rises, so all rises together are at
most a share of 1 / (m + 1) of the group's weight. So no error is larger than ``weight / (m + 1)``.

Sums are rounded away from the total, so bounds hold for any values. Sums of whole numbers below 2**53 are exact.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.aggregate.kernels.exact_sum import add_whole, carried, rounded, shift_of, whole_of
from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.select import highest
from skyband.kernels.stream import DONE, STATE_FULL, Floats, Ints

NONE = -1
TEXT_FULL = 3  # return code: there is no space for the bytes of a new key

# Summary.clock
USED = 0  # counters that have ever been in use
FREE = 1  # the first free one among them, NONE if there is none; `after` links them
HELD = 2  # counters in use
WRITTEN = 3  # bytes of text written, including those of evicted keys
EVICTED = 4  # counter of evictions
WHOLE = 5  # 1 if all weights are whole numbers, and their sum is below 2**53
CLOCK = 6

_EXACT = 2.0**53
_ULP = 2.0**-52


class Summary(NamedTuple):
    """The counters of all groups of a pane, in one hash table with linear probing."""

    table: Any  # int32: the counter at each place, NONE if it is free; its size is a power of two
    # per counter
    homes: Ints  # hash of the key and the group: its place in the table, modulo the size
    identities: Ints  # the key, if it is a number; the hash of its bytes otherwise
    begins: Ints  # where its bytes begin
    lengths: Ints  # the number of bytes
    groups: Ints
    highs: Floats
    lows: Floats
    lasts: Ints  # the newest position of the key
    after: Ints  # the next counter of the group, or the next free one
    # per group
    heads: Ints  # the first counter, NONE if there is none
    sizes: Ints  # the number of counters
    offsets: Floats
    weights: Floats  # the sum of all weights
    letters: Any  # uint8: the bytes of the keys
    clock: Ints


class Weighted(NamedTuple):
    """Keys with weights, in stream order."""

    homes: Ints
    identities: Ints
    begins: Ints  # in `letters`
    lengths: Ints  # empty if keys are numbers
    letters: Any
    groups: Ints  # empty: all are of group 0
    highs: Floats  # the weight, rounded up; empty: every weight is 1
    lows: Floats  # the weight, rounded down
    positions: Ints  # empty: the position of key i is first_position + i
    first_position: int


@inner_kernel
def sum_up(a: float, b: float) -> float:
    """Return the sum of two numbers that are not negative, rounded up."""
    total = a + b
    back = total - a
    lost = (a - (total - back)) + (b - back)
    return total + total * _ULP if lost > 0 else total


@inner_kernel
def sum_down(a: float, b: float) -> float:
    """Return the sum of two numbers that are not negative, rounded down."""
    total = a + b
    back = total - a
    lost = (a - (total - back)) + (b - back)
    return total - total * _ULP if lost < 0 else total


@inner_kernel
def difference_up(a: float, b: float) -> float:
    """Return ``a - b``, rounded up. Both are not negative, and a is not smaller."""
    rest = a - b
    back = rest - a
    lost = (a - (rest - back)) - (b + back)
    return rest + rest * _ULP if lost > 0 else rest


@inner_kernel
def place_of(summary: Summary, rows: Weighted, i: int, group: int) -> int:
    """Return the place in the table with the counter of key i, or the free place where it belongs."""
    mask = summary.table.size - 1
    at = rows.homes[i] & mask
    while summary.table[at] != NONE:
        e = summary.table[at]
        if summary.identities[e] == rows.identities[i] and summary.groups[e] == group:
            if rows.lengths.size == 0:
                return at
            if summary.lengths[e] == rows.lengths[i]:
                begin, other, n, same = summary.begins[e], rows.begins[i], rows.lengths[i], 0
                while same < n and summary.letters[begin + same] == rows.letters[other + same]:
                    same += 1
                if same == n:
                    return at
        at = (at + 1) & mask
    return at


@kernel
def remove(summary: Summary, e: int) -> None:
    """Remove a counter from the table. Counters behind it move up, so that the search needs no marks."""
    table, mask = summary.table, summary.table.size - 1
    hole = summary.homes[e] & mask
    while table[hole] != e:
        hole = (hole + 1) & mask
    at = (hole + 1) & mask
    while table[at] != NONE:
        if (at - summary.homes[table[at]]) & mask >= (at - hole) & mask:
            table[hole] = table[at]
            hole = at
        at = (at + 1) & mask
    table[hole] = NONE


@kernel
def fill_table(summary: Summary) -> None:
    """Enter all counters into the table."""
    summary.table[:] = NONE
    mask = summary.table.size - 1
    for group in range(summary.heads.size):
        e = summary.heads[group]
        for _ in range(summary.sizes[group]):
            at = summary.homes[e] & mask
            while summary.table[at] != NONE:
                at = (at + 1) & mask
            summary.table[at] = e
            e = summary.after[e]


@kernel
def evict(summary: Summary, group: int, counters: int, room: Floats) -> None:
    """Keep the counters of a group with the largest upper bounds. Of equal ones, the last to enter remain."""
    size = summary.sizes[group]
    if size <= counters:
        return
    e = summary.heads[group]
    for i in range(size):
        room[i] = summary.highs[e]
        e = summary.after[e]
    bound = highest(room, size, counters + 1)
    equal = counters
    for i in range(size):
        equal -= room[i] > bound
    # If most counters are of this group, it is faster to fill the table again than to remove one after another.
    refill = 2 * size > summary.clock[HELD]
    e, behind = summary.heads[group], NONE
    for _ in range(size):
        following = summary.after[e]
        kept = summary.highs[e] > bound
        if not kept and summary.highs[e] == bound and equal > 0:
            equal -= 1
            kept = True
        if kept:
            behind = e
        else:
            if behind == NONE:
                summary.heads[group] = following
            else:
                summary.after[behind] = following
            if not refill:
                remove(summary, e)
            summary.after[e] = summary.clock[FREE]
            summary.clock[FREE] = e
        e = following
    summary.clock[HELD] -= size - counters
    summary.clock[EVICTED] += size - counters
    summary.sizes[group] = counters
    summary.offsets[group] = max(summary.offsets[group], bound)
    if refill:
        fill_table(summary)


@kernel
def take(summary: Summary, rows: Weighted, counters: int, room: Floats, progress: Ints) -> int:
    """Add keys in stream order. Groups hold at most ``2 * counters`` counters."""
    clock = summary.clock
    for i in range(progress[0], rows.homes.size):
        progress[0] = i
        group = rows.groups[i] if rows.groups.size else 0
        high = rows.highs[i] if rows.highs.size else 1.0
        low = rows.lows[i] if rows.highs.size else 1.0
        position = rows.positions[i] if rows.positions.size else rows.first_position + i
        at = place_of(summary, rows, i, group)
        e = summary.table[at]
        if e == NONE:
            if summary.sizes[group] >= 2 * counters:
                evict(summary, group, counters, room)
                at = place_of(summary, rows, i, group)
            e = clock[FREE]
            if e == NONE and clock[USED] == summary.highs.size:
                return STATE_FULL
            if rows.lengths.size and clock[WRITTEN] + rows.lengths[i] > summary.letters.size:
                return TEXT_FULL
            if e == NONE:
                e = clock[USED]
                clock[USED] += 1
            else:
                clock[FREE] = summary.after[e]
            if rows.lengths.size:
                begin, n = clock[WRITTEN], rows.lengths[i]
                for j in range(n):
                    summary.letters[begin + j] = rows.letters[rows.begins[i] + j]
                summary.begins[e], summary.lengths[e] = begin, n
                clock[WRITTEN] += n
            summary.table[at] = e
            summary.homes[e], summary.identities[e], summary.groups[e] = rows.homes[i], rows.identities[i], group
            summary.highs[e], summary.lows[e], summary.lasts[e] = summary.offsets[group], 0.0, position
            summary.after[e] = summary.heads[group]
            summary.heads[group] = e
            summary.sizes[group] += 1
            clock[HELD] += 1
        summary.highs[e] = sum_up(summary.highs[e], high)
        summary.lows[e] = sum_down(summary.lows[e], low)
        summary.lasts[e] = max(summary.lasts[e], position)
        summary.weights[group] = sum_up(summary.weights[group], high)
        if clock[WHOLE] and (high != low or np.floor(high) != high or summary.weights[group] >= _EXACT):
            clock[WHOLE] = 0
    progress[0] = rows.homes.size
    return DONE


@kernel
def in_order(summary: Summary, found: Ints) -> None:
    """Write the counters to `found`: group by group, the last to enter first."""
    n = 0
    for group in range(summary.heads.size):
        e = summary.heads[group]
        for _ in range(summary.sizes[group]):
            found[n] = e
            n += 1
            e = summary.after[e]


@kernel
def excesses(highs: Floats, offsets: Floats, found: Floats) -> None:
    """Write by how much each upper bound exceeds the offset of its group, rounded up."""
    for i in range(highs.size):
        found[i] = difference_up(highs[i], offsets[i])


@kernel
def rounded_weights(sums: Any, low: int, room: Ints, highs: Floats, bits: Ints, lows: Floats) -> None:
    """Write exact sums to `highs`, rounded up, and to `lows`, rounded down. `sums` has limbs, which start with `low`.

    `bits` is the memory of `highs` as integers. `room` has space for four more limbs.
    """
    limbs = sums.shape[1]
    for i in range(sums.shape[0]):
        room[:] = 0
        for j in range(limbs):
            room[j] = sums[i, j]
        found = rounded(room, limbs, low)
        highs[i] = lows[i] = found
        room[:] = 0
        for j in range(limbs):
            room[j] = sums[i, j]
        if found > 0:
            add_whole(room, -low, whole_of(bits[i]), shift_of(bits[i]), True)
        if carried(room, limbs + 2):
            lows[i] = found - found * _ULP
        else:
            for j in range(limbs + 2):
                if room[j] != 0:
                    highs[i] = found + found * _ULP
