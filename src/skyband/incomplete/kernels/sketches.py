"""Sketches over a sliding window: the number of distinct objects (FM) and the repetition of objects (AMS).

FM: an object sets bit l of one of m bitmaps with probability 2**-(l+1). A bit is stored as the position at which it was
last set, so it counts for a window iff that position is inside. The number of distinct objects is estimated from the
number of zero bits per level: each bit is 0 with probability exp(-n q) for q = 2**-(l+1) / m. The maximum-likelihood
estimate of n uses all levels. Unlike the usual estimate, a mean of the highest bits, it needs no correction for small
numbers of objects.

The streams share one hash, so the bits of a union of streams are those set in any of them.
``Pr(j | I) = |∩ I and j| / |∩ I|`` is computed from the counts of unions by inclusion and exclusion.

AMS: every object adds its sign, +1 or -1, to one counter of each row. The expected sum of the squared counters of a row
is the self-join size F2 (the sum of the squared counts of the objects). Each pane of the window has separate counters.
"""

from __future__ import annotations

import math

import numpy as np

from skyband.kernels._jit import allocating_kernel, kernel
from skyband.kernels.stream import Floats, Ints

NEVER = np.iinfo(np.int64).min  # position of a bit that was never set
ROW_BITS = 16  # bits of a hash per row of AMS counters: the highest is the sign, the others select the counter
_STEPS = 100  # maximum Newton steps
_FAR = 50.0  # exponents above are treated as infinite


@kernel
def set_bits(cells: Ints, streams: Ints, hashes: Ints, positions: Ints) -> None:
    """Record every object of a batch in the bitmaps of its stream. `cells` is (streams, levels, bitmaps)."""
    levels, bitmaps = cells.shape[1], cells.shape[2]
    shift = 0
    while 1 << shift < bitmaps:
        shift += 1
    for i in range(hashes.size):
        bits = hashes[i]
        bitmap = bits & (bitmaps - 1)
        bits >>= shift
        level = 0
        while level < levels - 1 and not (bits >> level) & 1:
            level += 1
        cells[streams[i], level, bitmap] = max(cells[streams[i], level, bitmap], positions[i])


@kernel
def likely_count(zeros: Ints, bitmaps: int) -> float:
    """Return the maximum-likelihood number of distinct objects for the number of zeros per level."""
    set_ = 0.0
    guess = 0.0
    chance = 1.0 / bitmaps
    for level in range(zeros.size):
        set_ += bitmaps - zeros[level]
        if level < zeros.size - 1:
            chance *= 0.5  # the last level has the probability of all higher levels together
        if 2 * zeros[level] <= bitmaps:
            guess = -math.log(max(zeros[level], 0.5) / bitmaps) / chance
    if set_ == 0.0:
        return 0.0
    # Newton's method on the derivative of the likelihood. It is convex, and positive at the number of bits set, so from
    # there no step goes beyond the root. The guess, from the highest level with half of its bits set, is much closer.
    count = max(guess, set_)
    for _ in range(_STEPS):
        value = 0.0
        slope = 0.0
        chance = 1.0 / bitmaps
        for level in range(zeros.size):
            if level < zeros.size - 1:
                chance *= 0.5
            value -= chance * zeros[level]
            if zeros[level] < bitmaps and count * chance < _FAR:
                grown = math.expm1(count * chance)
                ones = bitmaps - zeros[level]
                value += chance * ones / grown
                slope -= chance * chance * ones * (grown + 1.0) / (grown * grown)
        if slope == 0.0:  # every bit is set: the sketch is saturated
            break
        better = max(count - value / slope, set_)
        step = abs(better - count)
        count = better
        if step <= 1e-4 * count:  # convergence is quadratic: the next step would be negligible
            break
    return count


@kernel
def likely_error(count: float, levels: int, bitmaps: int) -> float:
    """Return the standard error of `likely_count` for `count` objects.

    The variance is the inverse Fisher information minus `count`, the variance of the Poisson model.
    """
    information = 0.0
    chance = 1.0 / bitmaps
    for level in range(levels):
        if level < levels - 1:
            chance *= 0.5
        information += bitmaps * chance * chance / math.expm1(min(max(count, 1e-9) * chance, _FAR))
    return math.sqrt(max(0.0, 1.0 / information - count))


@allocating_kernel
def union_counts(cells: Ints, start: int) -> Floats:
    """Return the estimated number of distinct objects since `start` per union of streams, by bit mask."""
    d, levels, bitmaps = cells.shape
    full = (1 << d) - 1
    # Number of bits of a level set in exactly these streams; after summing over subsets, in a subset of these streams.
    within = np.zeros((levels, full + 1), np.int64)
    for level in range(levels):
        for bitmap in range(bitmaps):
            where = 0
            for stream in range(d):
                if cells[stream, level, bitmap] >= start:
                    where |= 1 << stream
            within[level, where] += 1
        for stream in range(d):
            for mask in range(full + 1):
                if mask >> stream & 1:
                    within[level, mask] += within[level, mask ^ (1 << stream)]
    counts = np.zeros(full + 1)
    zeros = np.zeros(levels, np.int64)
    for mask in range(1, full + 1):
        for level in range(levels):
            zeros[level] = within[level, full ^ mask]
        counts[mask] = likely_count(zeros, bitmaps)
    return counts


@allocating_kernel
def intersection_counts(unions: Floats, d: int) -> Floats:
    """Return the estimated number of objects common to each set of streams, at most that of its subsets.

    Entry 0 is the number of all objects.
    """
    full = (1 << d) - 1
    common = np.zeros(full + 1)
    for mask in range(1, full + 1):
        common[mask] = unions[mask] if _odd(mask) else -unions[mask]
    for stream in range(d):
        for mask in range(full + 1):
            if mask >> stream & 1:
                common[mask] += common[mask ^ (1 << stream)]
    common[0] = unions[full]
    for mask in range(1, full + 1):
        for stream in range(d):
            if mask >> stream & 1:
                common[mask] = min(common[mask], common[mask ^ (1 << stream)])
        common[mask] = max(common[mask], 0.0)
    return common


@allocating_kernel
def conditional_chances(unions: Floats, common: Floats, d: int, levels: int, bitmaps: int) -> Floats:
    """Return, per mask and stream, the probability that an object seen in the mask's streams is also in the stream.

    The shape is (2**d, d). If the number of objects common to a mask is below its standard error, the mask without one
    stream is used instead: the one with the most objects, because its estimate is the most reliable.
    """
    full = (1 << d) - 1
    chances = np.ones((full + 1, d))
    for mask in range(full + 1):
        fewer = -1
        if mask and common[mask] <= likely_error(unions[mask], levels, bitmaps):
            for stream in range(d):
                less = mask ^ (1 << stream)
                if mask >> stream & 1 and (fewer < 0 or common[less] > common[fewer]):
                    fewer = less
        for stream in range(d):
            if mask >> stream & 1:
                continue
            if fewer >= 0:
                chances[mask, stream] = chances[fewer, stream]
            elif common[mask] > 0.0:
                chances[mask, stream] = min(1.0, common[mask | 1 << stream] / common[mask])
            else:
                chances[mask, stream] = 0.0
    return chances


@allocating_kernel
def pair_chances(cells: Ints, starts: Ints) -> Floats:
    """Return, per start, the probability that an object of one stream is in another one, averaged over all pairs."""
    d, levels, bitmaps = cells.shape
    chances = np.zeros(starts.size)
    zeros = np.zeros(levels, np.int64)
    for place in range(starts.size):
        single = 0.0
        common = 0.0
        for first in range(d):
            for second in range(first, d):
                zeros[:] = 0
                for level in range(levels):
                    for bitmap in range(bitmaps):
                        newest = max(cells[first, level, bitmap], cells[second, level, bitmap])
                        zeros[level] += newest < starts[place]
                count = likely_count(zeros, bitmaps)
                if first == second:
                    single += count
                common -= count
        # The intersection of a pair is the sum of both counts minus their union; each stream is in d - 1 pairs.
        common += d * single
        if single > 0.0 and d > 1:
            chances[place] = min(1.0, max(0.0, 2.0 * common / ((d - 1) * single)))
    return chances


@kernel
def _odd(mask: int) -> bool:
    odd = False
    while mask:
        odd = not odd
        mask &= mask - 1
    return odd


@kernel
def add_signs(
    counters: Ints, tuples: Ints, panes: Ints, pane: int, streams: Ints, hashes: Ints, positions: Ints
) -> None:
    """Record every tuple of a batch in the counters (place, stream, row, width) of its pane.

    A pane reuses the place of an older pane. Tuples of panes that were overwritten are ignored.
    """
    places, _, rows, width = counters.shape
    for i in range(hashes.size):
        number = positions[i] // pane
        place = number % places
        if number < panes[place]:
            continue
        if number > panes[place]:
            panes[place] = number
            counters[place] = 0
            tuples[place] = 0
        stream = streams[i]
        tuples[place, stream] += 1
        bits = hashes[i]
        for row in range(rows):
            sign = 1 if (bits >> (ROW_BITS - 1)) & 1 else -1
            counters[place, stream, row, bits & (width - 1)] += sign
            bits >>= ROW_BITS


@allocating_kernel
def self_joins(counters: Ints, tuples: Ints, panes: Ints, first: int) -> tuple[Floats, Floats]:
    """Return the estimated self-join size and the number of tuples per stream, over the panes from `first` on."""
    places, d, rows, width = counters.shape
    sizes = np.zeros(d)
    counts = np.zeros(d)
    per_row = np.zeros(rows)
    for stream in range(d):
        for place in range(places):
            if panes[place] >= first:
                counts[stream] += tuples[place, stream]
        for row in range(rows):
            total = 0.0
            for at in range(width):
                summed = 0
                for place in range(places):
                    if panes[place] >= first:
                        summed += counters[place, stream, row, at]
                total += float(summed) * float(summed)
            per_row[row] = total
        sizes[stream] = np.median(per_row)
    return sizes, counts


def mixed(codes: Ints) -> Ints:
    """Hash each code with the finalizer of splitmix64.

    This is plain NumPy, where unsigned arrays wrap around silently, whether kernels are compiled or not.
    """
    x = codes.astype(np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (x ^ (x >> np.uint64(31))).view(np.int64)
