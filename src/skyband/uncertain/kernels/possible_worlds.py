"""Possible worlds without enumeration: the distribution of the number of better tuples per tuple, as a polynomial.

Tuples are sorted best first. A rule that has a better tuple with probability q contributes the factor
``(1 - q) + q x``. The coefficient of ``x**j`` in the product over all other rules is the probability that exactly j
better tuples exist. A tuple without a rule is a separate rule. Only the first `width` coefficients are kept, because
higher ones never contribute to them.

With u = 2**-53, n factors add at most 4nu to the relative error of a coefficient (see `polynomials`), and summing k
coefficients adds ku. q itself is exact to 2u, and a change of q by d changes the distribution by at most d in total.
The total error is below 7nu, so it is below 1e-9 for up to 1.2 million scanned tuples. Each dropped coefficient adds at
most `tiny`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.stream import Floats, Ints
from skyband.uncertain.kernels.polynomials import HIGH, LOW, PAD, copy, grow, lengthen, mass

CLOSE = 1e-13  # probabilities with a smaller relative difference are equal within rounding errors
BLOCK = 8  # tuples computed together
LOOK = 8  # number of blocks after which the scan checks whether it can stop


class Ruled(NamedTuple):
    """Tuples, best first. For all tuples between i and ``following[i]``, the factor of i's rule is ``sums[i]``."""

    probabilities: Floats
    sums: Floats  # sum of the rule's members up to this one
    following: Ints  # the rule's next member, or the number of tuples
    previous: Ints  # the rule's previous member, or -1
    before: Floats  # the sum at the previous member, or 0
    continued: Ints  # for i = 0..n: number of tuples before i that are not the first of their rule


class WorldTree(NamedTuple):
    """Scratch arrays for a depth-first traversal of a tree whose leaves are blocks of tuples."""

    factors: Any  # (depth, width + PAD): polynomial of the current node at this depth
    ends: Any  # (depth, 2): LOW and HIGH of each
    nodes: Any  # (2 depth, 4): stack of nodes: begin, end, other end of the sibling, depth
    chosen: Floats  # the q of factors that are multiplied together
    laws: Any  # (2, BLOCK + 1): polynomial of the better tuples in the same block, x**j at index j
    reached: Floats  # (width): prefix sums of the coefficients
    dots: Any  # (weights, BLOCK + 1): sums of weights times coefficients, with the weights shifted by 0, 1, …


class WorldResults(NamedTuple):
    """Output arrays. Arrays without rows are not filled."""

    ks: Ints  # ascending
    tops: Any  # (n, ks): the probability of being among the k best
    exact: Any  # (n, k): the probability of having exactly rank i
    best: Floats  # per i: the highest probability of having exactly rank i
    who: Ints  # per i: the tuple with this probability
    weights: Any  # (weights, ranks): for weighted sums over ranks
    values: Any  # (n, weights): the sum over ranks of weight times probability


def ruled_for(tuples: int) -> Ruled:
    """Return arrays for `tuples` tuples."""
    sums, before = np.empty(tuples), np.empty(tuples)
    following, previous = np.empty(tuples, np.int64), np.empty(tuples, np.int64)
    return Ruled(np.empty(tuples), sums, following, previous, before, np.empty(tuples + 1, np.int64))


def tree_for(tuples: int, width: int, weights: int = 0) -> WorldTree:
    """Return scratch arrays for `tuples` tuples, `width` coefficients and so many lists of weights."""
    depth = int(tuples).bit_length() + 2
    return WorldTree(
        np.zeros((depth, width + PAD)),
        np.zeros((depth, 2), np.int64),
        np.zeros((2 * depth, 4), np.int64),
        np.zeros(tuples + BLOCK),
        np.zeros((2, BLOCK + 1)),
        np.zeros(width),
        np.zeros((weights, BLOCK + 1)),
    )


@kernel
def settle(probabilities: Floats, rules: Ints, last: Ints, sums: Floats, rest: Floats, ruled: Ruled) -> None:
    """Fill `ruled` for tuples sorted best first. `last` (all -1), `sums` and `rest` (all 0) have one entry per rule."""
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
        # Compensated summation: `rest` has the rounding errors, so the sum is exact to the last bit for any length.
        total = sums[rule]
        whole = total + p
        rest[rule] += (total - whole) + p if total >= p else (p - whole) + total
        sums[rule] = whole
        ruled.sums[i] = min(whole + rest[rule], 1.0)


@inner_kernel
def gather_left(ruled: Ruled, begin: int, half: int, end: int, chosen: Floats) -> int:
    """Write the factors common to all of ``begin..half`` but not to all of ``begin..end``. Return their number.

    They belong to rules with a member before `begin` whose next member is in the right half.
    """
    count = 0
    for i in range(half, end):
        # Branch-free: always write, and increment the count conditionally. A branch would often be mispredicted.
        chosen[count] = ruled.before[i]
        count += (ruled.previous[i] >= 0) & (ruled.previous[i] < begin)
    return count


@inner_kernel
def gather_right(ruled: Ruled, begin: int, half: int, end: int, chosen: Floats) -> int:
    """Write the factors common to all of ``half..end`` but not to all of ``begin..end``. Return their number.

    They belong to tuples in the left half whose rule has no further member before `end`.
    """
    count = 0
    for i in range(begin, half):
        chosen[count] = ruled.sums[i]
        count += ruled.following[i] >= end
    return count


@inner_kernel
def gather_inside(ruled: Ruled, begin: int, end: int, tuple_: int, chosen: Floats) -> int:
    """Write the factors at one tuple of a block whose rule has a later member in the block. Return their number."""
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
    """Fill ``reached[j]`` for j = begin..end with the sum of the coefficients below j."""
    width = row.size - PAD
    low, high = ends[LOW], ends[HIGH]
    total = mass(row, low, min(begin, high))
    reached[begin] = total
    for j in range(begin, end):
        if low <= j < high:
            total += row[width - 1 - j]
        reached[j + 1] = total


@inner_kernel
def weigh(row: Floats, ends: Ints, weights: Any, shifts: int, dots: Any) -> None:
    """Fill ``dots[q, i]`` for i = 0..shifts: the sum of the coefficients, x**j times the weight of rank i + j + 1."""
    width = row.size - PAD
    for q in range(weights.shape[0]):
        mine = weights[q]
        for shift in range(shifts + 1):
            total = 0.0
            for j in range(ends[LOW], min(ends[HIGH], mine.size - shift)):
                total += mine[j + shift] * row[width - 1 - j]
            dots[q, shift] = total


@inner_kernel
def write_tops(
    ruled: Ruled, begin: int, end: int, row: Floats, ends: Ints, tree: WorldTree, found: WorldResults
) -> None:
    """Write top-k probabilities and weighted sums of a block's tuples, given the polynomial common to all of them.

    The polynomial of a tuple is this one times a short one. Only the sum of the first k coefficients of the product is
    needed: for each coefficient of the short polynomial, a prefix sum of the common one, which all tuples share. For
    weighted sums, it is the common one's weighted sum, with the weights shifted by the coefficient's power.
    """
    ks, chosen, reached = found.ks, tree.chosen, tree.reached
    law, longer = tree.laws[0], tree.laws[1]
    if ks.size > 0:
        sum_up(row, ends, max(0, ks[0] - (end - begin)), ks[-1], reached)
    weigh(row, ends, found.weights, end - begin, tree.dots)
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
            # If k better tuples cannot exist, the sum is exactly 1. Rounding must not separate equal tuples.
            total = 1.0
            if ends[HIGH] + degree + more > ks[place]:
                total = 0.0
                for i in range(min(degree + more + 1, ks[place])):
                    total += mine[i] * reached[ks[place] - i]
                total = min(1.0, total)
            found.tops[tuple_, place] = p * total
        for q in range(found.weights.shape[0]):
            value = 0.0
            for i in range(degree + more + 1):
                value += mine[i] * tree.dots[q, i]
            found.values[tuple_, q] = p * value
        if ruled.following[tuple_] >= end:
            lengthen(law, degree, ruled.sums[tuple_])
            degree += 1


@kernel
def write_ranks(
    ruled: Ruled, begin: int, end: int, depth: int, tree: WorldTree, found: WorldResults, tiny: float
) -> None:
    """Write the rank probabilities of a block's tuples, given the polynomial of the factors common to all of them."""
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
def write_block(
    ruled: Ruled, begin: int, end: int, depth: int, tree: WorldTree, found: WorldResults, tiny: float
) -> None:
    """Write all requested probabilities of a block's tuples."""
    if found.ks.size > 0 or found.weights.shape[0] > 0:
        write_tops(ruled, begin, end, tree.factors[depth], tree.ends[depth], tree, found)
    if found.exact.shape[0] > 0 or found.best.size > 0:
        write_ranks(ruled, begin, end, depth, tree, found, tiny)


@inner_kernel
def walk(
    ruled: Ruled, begin: int, end: int, depth: int, tree: WorldTree, found: WorldResults, tiny: float, negligible: float
) -> None:
    """Process tuples none of which continues a rule. Factors are only added, block by block."""
    row, ends = tree.factors[depth], tree.ends[depth]
    for first in range(begin, end, BLOCK):
        after = min(first + BLOCK, end)
        if ends[LOW] >= ends[HIGH]:
            return
        if first > begin and (first - begin) % (LOOK * BLOCK) == 0 and mass(row, ends[LOW], ends[HIGH]) < negligible:
            return
        write_block(ruled, first, after, depth, tree, found, tiny)
        if after < end:
            grow(row, ends, ruled.sums[first:after], after - first, tiny)


@kernel
def scan(ruled: Ruled, tree: WorldTree, found: WorldResults, tiny: float, negligible: float) -> float:
    """Compute the probabilities of all tuples. Return an upper bound for any tuple after them.

    The polynomial of a tuple has one factor per rule, with the rule's sum at the tuple. The scan descends a tree over
    the tuples. A factor that is the same for all tuples of a node is multiplied once, at that node. A rule's factor
    changes only at its members, so each member costs about log n multiplications, and no factor is ever divided out. If
    no rule continues inside a node, factors are only added, and one linear walk is enough. If at least k better tuples
    exist for a node, except with a probability below `negligible`, its results stay 0. So the scan stops early.
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
    # Bound for a later tuple, which is worse than all of these. The factors include its own rule, which does not count.
    grow(factors[0], ends[0], chosen, gather_right(ruled, 0, n, n, chosen), tiny)
    return mass(factors[0], ends[0, LOW], ends[0, HIGH])


@kernel
def scan_by_definition(ruled: Ruled, factors: Floats, found: WorldResults) -> None:
    """Compute the same tuple by tuple in O(n² k), the published method. For tests and comparison."""
    n, width = ruled.probabilities.size, factors.size
    for i in range(n):
        factors[:] = 0.0
        factors[width - 1] = 1.0
        for j in range(i):
            if ruled.following[j] > i:  # j is the last member of its rule before i, and i is of another rule
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
            # With fewer than k better tuples in the input, the sum is 1.
            found.tops[i, place] = ruled.probabilities[i] * (min(total, 1.0) if i >= found.ks[place] else 1.0)
