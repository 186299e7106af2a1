"""Possible worlds without listing them: how many better tuples exist beside each tuple, as a polynomial.

Tuples come best first. A rule with a probability q of having a better tuple is the factor ``(1 - q) + q x``; the
coefficient of ``x**j`` in the product over all other rules is the probability that exactly j better tuples exist. A
tuple without a rule is a rule of its own. Only the first `width` coefficients are kept, the higher ones never come back
into them.

With u = 2**-53, n factors add at most 4nu to the relative error of a coefficient (see `polynomials`), adding up k
coefficients ku. What remains is q itself, which is exact to 2u: moving q by d moves the law of the number of better
tuples by at most d in total. Together an error below 7nu, so that 1e-9 holds for up to 1.2 million tuples that count.
Coefficients below `tiny` are dropped, and each costs at most that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.stream import Floats, Ints
from skyband.uncertain.kernels.polynomials import HIGH, LOW, PAD, copy, grow, lengthen, mass

CLOSE = 1e-13  # probabilities that differ by less, relatively, are equal: nothing computed tells them apart
BLOCK = 8  # tuples that are told of together
LOOK = 8  # blocks after which it is worth a look whether anything is left to find


class Ruled(NamedTuple):
    """Tuples best first. Tuple i stands for its rule, as ``sums[i]``, for all tuples between i and ``following[i]``."""

    probabilities: Floats
    sums: Floats  # of the rule's members up to and with this one
    following: Ints  # the rule's next member, or the number of tuples
    previous: Ints  # the rule's member before this one, or -1
    before: Floats  # the sum at that one, or 0
    continued: Ints  # how many of the tuples before i continue a rule, for i = 0..n


class WorldTree(NamedTuple):
    """Room for walking down a tree whose leaves are blocks of tuples."""

    factors: Any  # (depth, width + PAD): the polynomial of the node at this depth that is being looked at
    ends: Any  # (depth, 2): LOW and HIGH of each
    nodes: Any  # (2 depth, 4): begin, end, the other end of the node beside it, depth; waiting to be looked at
    chosen: Floats  # the q of factors that are multiplied in together
    laws: Any  # (2, BLOCK + 1): of the better tuples of the same block, x**j at j
    reached: Floats  # (width): the sums of a polynomial's first coefficients


class WorldResults(NamedTuple):
    """What is asked for; arrays without rows are not filled."""

    ks: Ints  # ascending
    tops: Any  # (n, ks): the probability of being among the k best
    exact: Any  # (n, k): of being exactly the i-th
    best: Floats  # per i: the highest probability of being exactly the i-th
    who: Ints  # per i: the tuple that has it


def ruled_for(tuples: int) -> Ruled:
    """Room for so many tuples."""
    sums, before = np.empty(tuples), np.empty(tuples)
    following, previous = np.empty(tuples, np.int64), np.empty(tuples, np.int64)
    return Ruled(np.empty(tuples), sums, following, previous, before, np.empty(tuples + 1, np.int64))


def tree_for(tuples: int, width: int) -> WorldTree:
    """Room for so many tuples and coefficients."""
    depth = int(tuples).bit_length() + 2
    return WorldTree(
        np.zeros((depth, width + PAD)),
        np.zeros((depth, 2), np.int64),
        np.zeros((2 * depth, 4), np.int64),
        np.zeros(tuples + BLOCK),
        np.zeros((2, BLOCK + 1)),
        np.zeros(width),
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
        ruled.previous[i] = -1
        ruled.before[i] = 0.0
        ruled.continued[i + 1] = ruled.continued[i]
        if rule < 0:
            ruled.sums[i] = p
            continue
        if last[rule] >= 0:
            ruled.following[last[rule]] = i
            ruled.previous[i] = last[rule]
            ruled.before[i] = ruled.sums[last[rule]]
            ruled.continued[i + 1] += 1
        last[rule] = i
        # What the sum loses by rounding is kept beside it, so that it is exact to the last bit whatever its length.
        total = sums[rule]
        whole = total + p
        rest[rule] += (total - whole) + p if total >= p else (p - whole) + total
        sums[rule] = whole
        ruled.sums[i] = min(whole + rest[rule], 1.0)


@inner_kernel
def gather_left(ruled: Ruled, begin: int, half: int, end: int, chosen: Floats) -> int:
    """The factors that hold for all of ``begin..half`` but not for all of ``begin..end``: how many.

    These are of rules that go on in the right half, from a member before both.
    """
    count = 0
    for i in range(half, end):
        # Written in any case, counted if it is so: the chip would guess wrongly every second time.
        chosen[count] = ruled.before[i]
        count += (ruled.previous[i] >= 0) & (ruled.previous[i] < begin)
    return count


@inner_kernel
def gather_right(ruled: Ruled, begin: int, half: int, end: int, chosen: Floats) -> int:
    """The factors that hold for all of ``half..end`` but not for all of ``begin..end``: how many.

    These are of the tuples in the left half whose rule does not go on before the end.
    """
    count = 0
    for i in range(begin, half):
        chosen[count] = ruled.sums[i]
        count += ruled.following[i] >= end
    return count


@inner_kernel
def gather_inside(ruled: Ruled, begin: int, end: int, tuple_: int, chosen: Floats) -> int:
    """The factors that hold for one tuple of a block, for some but not for all tuples after it: how many."""
    count = 0
    for i in range(begin, tuple_):
        chosen[count] = ruled.sums[i]
        count += (ruled.following[i] > tuple_) & (ruled.following[i] < end)
    for i in range(tuple_ + 1, end):
        chosen[count] = ruled.before[i]
        count += (ruled.previous[i] >= 0) & (ruled.previous[i] < begin)
    return count


@inner_kernel
def sum_up(row: Floats, ends: Ints, begin: int, end: int, reached: Floats) -> None:
    """Fill ``reached[j]`` for j = begin..end: the sum of the coefficients below j."""
    width = row.size - PAD
    low, high = ends[LOW], ends[HIGH]
    total = mass(row, low, min(begin, high))
    reached[begin] = total
    for j in range(begin, end):
        if low <= j < high:
            total += row[width - 1 - j]
        reached[j + 1] = total


@inner_kernel
def tell_tops(
    ruled: Ruled, begin: int, end: int, row: Floats, ends: Ints, tree: WorldTree, found: WorldResults
) -> None:
    """Write down the top-k probabilities of a block's tuples, given the factors that hold for all of them.

    A tuple's own polynomial is this one times a short one, and of the product only the sum of the first k coefficients
    is needed: for each coefficient of the short one a sum of the first ones of the other, which all tuples share.
    """
    ks, chosen, reached = found.ks, tree.chosen, tree.reached
    law, longer = tree.laws[0], tree.laws[1]
    sum_up(row, ends, max(0, ks[0] - (end - begin)), ks[-1], reached)
    law[0] = 1.0
    degree = 0
    for tuple_ in range(begin, end):
        more = gather_inside(ruled, begin, end, tuple_, chosen)
        mine = law
        if more > 0:
            mine = longer
            for i in range(degree + 1):
                longer[i] = law[i]
            for i in range(more):
                lengthen(longer, degree + i, chosen[i])
        p = ruled.probabilities[tuple_]
        for place in range(ks.size):
            # There may never be k better ones: the sum is 1, and rounding must not tell this tuple from its like.
            total = 1.0
            if ends[HIGH] + degree + more > ks[place]:
                total = 0.0
                for i in range(min(degree + more + 1, ks[place])):
                    total += mine[i] * reached[ks[place] - i]
                total = min(1.0, total)
            found.tops[tuple_, place] = p * total
        if ruled.following[tuple_] >= end:
            lengthen(law, degree, ruled.sums[tuple_])
            degree += 1


@kernel
def tell_ranks(
    ruled: Ruled, begin: int, end: int, depth: int, tree: WorldTree, found: WorldResults, tiny: float
) -> None:
    """Write down how likely a block's tuples are to be exactly the i-th, given the factors that all of them have."""
    row, ends = tree.factors[depth + 1], tree.ends[depth + 1]
    width = row.size - PAD
    for tuple_ in range(begin, end):
        copy(tree.factors[depth], tree.ends[depth], row, ends)
        grow(row, ends, tree.chosen, gather_inside(ruled, begin, end, tuple_, tree.chosen), tiny)
        grow(row, ends, tree.chosen, gather_right(ruled, begin, tuple_, end, tree.chosen), tiny)
        p = ruled.probabilities[tuple_]
        if found.exact.shape[0] > 0:
            for j in range(ends[LOW], min(ends[HIGH], found.exact.shape[1])):
                found.exact[tuple_, j] = p * row[width - 1 - j]
        for j in range(ends[LOW], min(ends[HIGH], found.best.size)):
            mine = p * row[width - 1 - j]
            if mine > found.best[j] * (1.0 + CLOSE):
                found.best[j] = mine
                found.who[j] = tuple_


@inner_kernel
def tell(ruled: Ruled, begin: int, end: int, depth: int, tree: WorldTree, found: WorldResults, tiny: float) -> None:
    """Write down what is asked for of a block's tuples."""
    if found.ks.size > 0:
        tell_tops(ruled, begin, end, tree.factors[depth], tree.ends[depth], tree, found)
    if found.exact.shape[0] > 0 or found.best.size > 0:
        tell_ranks(ruled, begin, end, depth, tree, found, tiny)


@inner_kernel
def walk(
    ruled: Ruled, begin: int, end: int, depth: int, tree: WorldTree, found: WorldResults, tiny: float, negligible: float
) -> None:
    """Tell of tuples none of which continues a rule: factors only join, block by block."""
    row, ends = tree.factors[depth], tree.ends[depth]
    for first in range(begin, end, BLOCK):
        after = min(first + BLOCK, end)
        if ends[LOW] >= ends[HIGH]:
            return
        if first > begin and (first - begin) % (LOOK * BLOCK) == 0 and mass(row, ends[LOW], ends[HIGH]) < negligible:
            return
        tell(ruled, first, after, depth, tree, found, tiny)
        if after < end:
            grow(row, ends, ruled.sums[first:after], after - first, tiny)


@kernel
def scan(ruled: Ruled, tree: WorldTree, found: WorldResults, tiny: float, negligible: float) -> float:
    """Tell the probabilities of all tuples; return a bound on those of any tuple that would come after them.

    A tuple's polynomial has one factor for each rule, as it stands at the tuple. Going down a tree over the tuples, a
    factor that is the same for all tuples of a node is multiplied in at that node, once; a rule's factor changes at its
    members only, so that each member costs about log n multiplications, and nothing is ever taken out again. Where no
    rule goes on inside a node, factors only join, and one walk along the tuples does. A node whose better tuples are
    `k` already, but for a chance below `negligible`, is left at 0: the scan ends by itself.
    """
    n = ruled.probabilities.size
    factors, ends, nodes, chosen = tree.factors, tree.ends, tree.nodes, tree.chosen
    factors[0, :] = 0.0
    factors[0, factors.shape[1] - PAD - 1] = 1.0
    ends[0, LOW], ends[0, HIGH] = 0, 1
    nodes[0, 0], nodes[0, 1], nodes[0, 2], nodes[0, 3] = 0, n, n, 1
    waiting = 1 if n > 0 else 0
    while waiting > 0:
        waiting -= 1
        begin, end, other, depth = nodes[waiting, 0], nodes[waiting, 1], nodes[waiting, 2], nodes[waiting, 3]
        row, reach = factors[depth], ends[depth]
        copy(factors[depth - 1], ends[depth - 1], row, reach)
        if other < begin:
            count = gather_right(ruled, other, begin, end, chosen)
        else:
            count = gather_left(ruled, begin, end, other, chosen)
        grow(row, reach, chosen, count, tiny)
        if reach[LOW] >= reach[HIGH] or mass(row, reach[LOW], reach[HIGH]) < negligible:
            continue
        if end - begin <= BLOCK or ruled.continued[end] == ruled.continued[begin]:
            walk(ruled, begin, end, depth, tree, found, tiny, negligible)
            continue
        half = begin + (end - begin + 2 * BLOCK - 1) // (2 * BLOCK) * BLOCK
        nodes[waiting, 0], nodes[waiting, 1], nodes[waiting, 2], nodes[waiting, 3] = half, end, begin, depth + 1
        waiting += 1
        nodes[waiting, 0], nodes[waiting, 1], nodes[waiting, 2], nodes[waiting, 3] = begin, half, end, depth + 1
        waiting += 1
    # A tuple after all these is better than none of them; its own rule, which does not count, is one of the factors.
    grow(factors[0], ends[0], chosen, gather_right(ruled, 0, n, n, chosen), tiny)
    return mass(factors[0], ends[0, LOW], ends[0, HIGH])


@kernel
def scan_by_definition(ruled: Ruled, factors: Floats, found: WorldResults) -> None:
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
        total, done = 0.0, 0
        for place in range(found.ks.size):
            for j in range(done, found.ks[place]):
                total += factors[width - 1 - j]
            done = found.ks[place]
            # There may never be k better ones: the sum is 1.
            found.tops[i, place] = ruled.probabilities[i] * (min(total, 1.0) if i >= found.ks[place] else 1.0)
