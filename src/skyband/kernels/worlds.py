"""Possible worlds without listing them: how many better tuples exist beside each tuple, as a polynomial.

Tuples come best first. A rule with a probability q of having a better tuple is the factor ``(1 - q) + q x``; the
coefficient of ``x**j`` in the product over all other rules is the probability that exactly j better tuples exist. A
tuple without a rule is a rule of its own. Only the first `width` coefficients are kept, the higher ones never come back
into them.

Nothing is ever divided or subtracted from a coefficient, so that no error is ever magnified. Every coefficient is a sum
of products of numbers in 0..1, computed from left to right: with u = 2**-53 one factor adds at most 3u to its relative
error, n factors 3nu. What remains is 1 - q, whose relative error may be large where q is close to 1; but q itself is
exact to 2u, and moving q by d moves the law of the number of better tuples by at most d in total. Together an error
below 5nu, so that 1e-9 holds for up to 1.8 million tuples that count. Coefficients below `tiny` are dropped, and each
costs at most that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.stream import Floats, Ints

# Span.ends: of a polynomial, the coefficients low <= j < high may differ from 0. They are stored from the highest power
# to the lowest, x**j at width - 1 - j, so that a factor is multiplied in by one pass that only looks ahead.
LOW = 0
HIGH = 1

CLOSE = 1e-13  # probabilities that differ by less, relatively, are equal: nothing computed tells them apart
LOOK = 8  # nodes that span so many tuples are worth a look whether anything is left to find


class Ruled(NamedTuple):
    """Tuples best first. Tuple i stands for its rule, as ``sums[i]``, for all tuples between i and ``following[i]``."""

    probabilities: Floats
    sums: Floats  # of the rule's members up to and with this one
    following: Ints  # the rule's next member, or the number of tuples
    continued: Ints  # how many of the tuples before i continue a rule, for i = 0..n


class Tree(NamedTuple):
    """Room for walking down a tree whose leaves are the tuples."""

    factors: Any  # (depth, width): the polynomial of the node at this depth that is being looked at
    ends: Ints  # (2 * depth): LOW and HIGH of each
    nodes: Ints  # (4 * 2 depth): begin, end, depth, first of the parent's list; waiting to be looked at
    lists: Ints  # tuples whose rule is not the same for the whole node, one list after another
    begins: Ints  # (depth + 1): where the list of each depth begins


class Found(NamedTuple):
    """What is asked for; arrays without rows are not filled."""

    ks: Ints  # ascending
    tops: Any  # (n, ks): the probability of being among the k best
    exact: Any  # (n, k): of being exactly the i-th
    best: Floats  # per i: the highest probability of being exactly the i-th
    who: Ints  # per i: the tuple that has it


def tree_for(tuples: int, width: int) -> Tree:
    """Room for so many tuples and coefficients."""
    depth = int(tuples).bit_length() + 2
    return Tree(
        np.zeros((depth, width)),
        np.zeros(2 * depth, np.int64),
        np.zeros(8 * depth, np.int64),
        np.zeros(4 * tuples + 64, np.int64),
        np.zeros(depth + 1, np.int64),
    )


@kernel
def settle(probabilities: Floats, rules: Ints, last: Ints, sums: Floats, rest: Floats, ruled: Ruled) -> None:
    """Fill `ruled` for tuples best first. `last` (all -1), `sums` and `rest` (all 0) have a place for every rule."""
    n = probabilities.size
    ruled.continued[0] = 0
    for i in range(n):
        rule, p = rules[i], probabilities[i]
        ruled.probabilities[i] = p
        ruled.following[i] = n
        ruled.continued[i + 1] = ruled.continued[i]
        if rule < 0:
            ruled.sums[i] = p
            continue
        if last[rule] >= 0:
            ruled.following[last[rule]] = i
            ruled.continued[i + 1] += 1
        last[rule] = i
        # What the sum loses by rounding is kept beside it, so that it is exact to the last bit whatever its length.
        total = sums[rule]
        whole = total + p
        rest[rule] += (total - whole) + p if total >= p else (p - whole) + total
        sums[rule] = whole
        ruled.sums[i] = min(whole + rest[rule], 1.0)


@inner_kernel
def grow(factors: Floats, ends: Ints, q: float, tiny: float) -> None:
    """Multiply a polynomial by ``(1 - q) + q x``, and drop coefficients below `tiny` at both ends."""
    width = factors.size
    low, high = ends[LOW], ends[HIGH]
    if low >= high:
        return
    stay = 1.0 - q
    part = factors[width - high : width - low]
    size = part.size
    top = part[0] * q
    for i in range(size - 1):
        part[i] = part[i] * stay + part[i + 1] * q
    part[size - 1] *= stay
    if high < width and top >= tiny:
        factors[width - 1 - high] = top
        high += 1
    while low < high and factors[width - 1 - low] < tiny:
        low += 1
    while low < high and factors[width - high] < tiny:
        high -= 1
    ends[LOW], ends[HIGH] = low, high


@kernel
def mass(factors: Floats, low: int, high: int) -> float:
    """The sum of the coefficients of ``x**low`` up to and without ``x**high``; four at a time, as the chip can."""
    width = factors.size
    if low >= high:
        return 0.0
    part = factors[width - high : width - low]
    size = part.size
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for i in range(size // 4):
        a += part[4 * i]
        b += part[4 * i + 1]
        c += part[4 * i + 2]
        d += part[4 * i + 3]
    for i in range(size // 4 * 4, size):
        a += part[i]
    return (a + b) + (c + d)


@kernel
def tell(tuple_: int, p: float, factors: Floats, low: int, high: int, found: Found) -> None:
    """Write down what the polynomial of its better tuples says of a tuple."""
    width = factors.size
    total, done = 0.0, low
    for place in range(found.tops.shape[1]):
        k = found.ks[place]
        if high <= k:
            # There are never k better ones: the sum is 1, and rounding must not make this tuple differ from its like.
            total = 1.0 if low < high else 0.0
        elif k > done:
            total = min(1.0, total + mass(factors, done, k))
            done = k
        found.tops[tuple_, place] = p * total
    if found.exact.shape[0] > 0:
        for j in range(low, min(high, found.exact.shape[1])):
            found.exact[tuple_, j] = p * factors[width - 1 - j]
    for j in range(low, min(high, found.best.size)):
        mine = p * factors[width - 1 - j]
        if mine > found.best[j] * (1.0 + CLOSE):
            found.best[j] = mine
            found.who[j] = tuple_


@kernel
def scan(ruled: Ruled, tree: Tree, found: Found, tiny: float, negligible: float) -> float:
    """Tell the probabilities of all tuples; return a bound on those of any tuple that would come after them.

    A tuple's polynomial has one factor for each rule, as it stands at the tuple. Going down a tree over the tuples, a
    factor that is the same for all tuples of a node is multiplied in at that node, once; a rule's factor changes at its
    members only, so that each member costs about log n multiplications, and nothing is ever taken out again. Where no
    rule goes on inside a node, factors only join, and one walk along the tuples does. A node whose better tuples are
    `k` already, but for a chance below `negligible`, is left at 0: the scan ends by itself.
    """
    n = ruled.probabilities.size
    factors, ends, nodes, lists, begins = tree
    width = factors.shape[1]
    factors[0, :] = 0.0
    factors[0, width - 1] = 1.0
    ends[LOW], ends[HIGH] = 0, 1
    for i in range(n):
        lists[i] = i
    begins[0], begins[1] = 0, n
    nodes[0], nodes[1], nodes[2] = 0, n, 1
    waiting = 1 if n > 0 else 0
    while waiting > 0:
        waiting -= 1
        begin, end, depth = nodes[3 * waiting], nodes[3 * waiting + 1], nodes[3 * waiting + 2]
        mine, reach = factors[depth], ends[2 * depth : 2 * depth + 2]
        reach[LOW], reach[HIGH] = ends[2 * depth - 2], ends[2 * depth - 1]
        for j in range(width - reach[HIGH], width - reach[LOW]):
            mine[j] = factors[depth - 1, j]
        at = begins[depth]
        for place in range(begins[depth - 1], begins[depth]):
            i = lists[place]
            until = ruled.following[i]
            covers = (i < begin) & (until >= end)
            # Written in any case, counted if it is so: the chip would guess wrongly every second time.
            lists[at] = i
            at += (not covers) & (i < end - 1) & (until > begin)
            if covers:
                grow(mine, reach, ruled.sums[i], tiny)
                if reach[LOW] >= reach[HIGH]:
                    break
        begins[depth + 1] = at
        if reach[LOW] >= reach[HIGH]:
            continue
        if end - begin >= LOOK and mass(mine, reach[LOW], reach[HIGH]) < negligible:
            continue
        if end - begin == 1:
            tell(begin, ruled.probabilities[begin], mine, reach[LOW], reach[HIGH], found)
        elif ruled.continued[end] == ruled.continued[begin]:
            for i in range(begin, end):
                tell(i, ruled.probabilities[i], mine, reach[LOW], reach[HIGH], found)
                grow(mine, reach, ruled.sums[i], tiny)
                if reach[LOW] >= reach[HIGH]:
                    break
                if (i & 63) == 63 and mass(mine, reach[LOW], reach[HIGH]) < negligible:
                    break
        else:
            half = (begin + end) // 2
            nodes[3 * waiting], nodes[3 * waiting + 1], nodes[3 * waiting + 2] = half, end, depth + 1
            waiting += 1
            nodes[3 * waiting], nodes[3 * waiting + 1], nodes[3 * waiting + 2] = begin, half, depth + 1
            waiting += 1
    # A tuple after all these is better than none of them; its own rule, which does not count, is one of the factors.
    for i in range(n):
        if ruled.following[i] == n:
            grow(factors[0], ends[:2], ruled.sums[i], tiny)
            if ends[LOW] >= ends[HIGH]:
                return 0.0
    return mass(factors[0], ends[LOW], ends[HIGH])


@kernel
def scan_by_definition(ruled: Ruled, factors: Floats, found: Found) -> None:
    """The same tuple by tuple, O(n² k): the published method, for tests and for comparison."""
    n, width = ruled.probabilities.size, factors.size
    for i in range(n):
        factors[:] = 0.0
        factors[width - 1] = 1.0
        for j in range(i):
            if ruled.following[j] > i:  # the last of its rule before i, and the rule is not i's own
                q = ruled.sums[j]
                stay = 1.0 - q
                for place in range(width - 1):
                    factors[place] = factors[place] * stay + factors[place + 1] * q
                factors[width - 1] *= stay
        tell(i, ruled.probabilities[i], factors, 0, min(width, i + 1), found)
