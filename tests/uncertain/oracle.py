"""What uncertain answers mean, spelled out world by world in exact fractions; shares no code."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import product
from typing import NamedTuple


class Tuple(NamedTuple):
    score: float
    probability: Fraction
    rule: object = None  # None: none


def tuples(scores, probabilities, rules=None):
    """Tuples in the order of the input; of equal scores the later one is the better."""
    rules = rules if rules is not None else [None] * len(scores)
    return [
        Tuple(score, Fraction(p), None if rule == -1 else rule)
        for score, p, rule in zip(scores, probabilities, rules, strict=True)
    ]


def best_first(found):
    return sorted(range(len(found)), key=lambda i: (found[i].score, i), reverse=True)


def worlds(found):
    """All possible worlds: (its tuples best first, its probability)."""
    groups = defaultdict(list)
    for i, one in enumerate(found):
        groups[("rule", one.rule) if one.rule is not None else ("alone", i)].append(i)
    choices = []
    for members in groups.values():
        rest = 1 - sum(found[i].probability for i in members)
        choices.append([(i, found[i].probability) for i in members] + ([(None, rest)] if rest > 0 else []))
    place = {i: at for at, i in enumerate(best_first(found))}
    for choice in product(*choices):
        weight = Fraction(1)
        for _, p in choice:
            weight *= p
        yield sorted((i for i, _ in choice if i is not None), key=place.get), weight


def tops(found, k):
    """Pr_k of each tuple, by listing the worlds."""
    sums = [Fraction(0)] * len(found)
    for world, weight in worlds(found):
        for i in world[:k]:
            sums[i] += weight
    return sums


def exact_ranks(found, k):
    """The probability of each tuple to be exactly the i-th, by listing the worlds."""
    sums = [[Fraction(0)] * k for _ in found]
    for world, weight in worlds(found):
        for rank, i in enumerate(world[:k]):
            sums[i][rank] += weight
    return sums


def tops_by_counting(found, k):
    """Pr_k by counting better tuples rule by rule, in exact fractions: for inputs with too many worlds to list."""
    result = [Fraction(0)] * len(found)
    order = best_first(found)
    sums = {}
    for i in order:
        key = ("rule", found[i].rule) if found[i].rule is not None else ("alone", i)
        law = [Fraction(1)] + [Fraction(0)] * (k - 1)
        for other, q in sums.items():
            if other != key:
                law = [law[j] * (1 - q) + (law[j - 1] * q if j else 0) for j in range(k)]
        result[i] = found[i].probability * sum(law)
        sums[key] = sums.get(key, 0) + found[i].probability
    return result


# -- semantics: each returns rows (tuple, probability), expected ranks (tuple, own probability, expected rank) --


def by_probability(found, chances):
    place = {i: at for at, i in enumerate(best_first(found))}
    return sorted((i for i in range(len(found)) if chances[i] > 0), key=lambda i: (-chances[i], place[i]))


def pk_topk(found, k):
    chances = tops(found, k)
    return [(i, chances[i]) for i in by_probability(found, chances)[:k]]


def pt_k(found, k, threshold):
    chances = tops(found, k)
    return [(i, chances[i]) for i in by_probability(found, chances) if chances[i] >= threshold]


def u_kranks(found, k):
    chances = exact_ranks(found, k)
    rows = []
    for rank in range(k):
        best = max(best_first(found), key=lambda i: chances[i][rank])
        if chances[best][rank] > 0:
            rows.append((best, chances[best][rank]))
    return rows


def u_topk_lists(found, k):
    """Every list that is a world's top k, of the longest kind there is, with its probability."""
    everything = list(worlds(found))
    length = min(k, max(len(world) for world, _ in everything))
    sums = defaultdict(Fraction)
    for world, weight in everything:
        if len(world) >= length:
            sums[tuple(world[:length])] += weight
    return dict(sums)


def prf(found, k, weight):
    """By the absolute value of the parameterised ranking function; `weight` returns the weight of a rank."""
    values = [Fraction(0)] * len(found)
    for world, chance in worlds(found):
        for rank, i in enumerate(world, 1):
            values[i] += weight(rank) * chance
    place = {i: at for at, i in enumerate(best_first(found))}
    order = sorted((i for i in range(len(found)) if values[i]), key=lambda i: (-abs(values[i]), place[i]))
    return [(i, found[i].probability, values[i]) for i in order[:k]]


def expected_ranks(found):
    """Ranks count from 1; a tuple that a world lacks stands after all that it has."""
    sums = [Fraction(0)] * len(found)
    for world, weight in worlds(found):
        for i in range(len(found)):
            sums[i] += weight * (world.index(i) + 1 if i in world else len(world) + 1)
    return sums


def expected_rank(found, k):
    ranks = expected_ranks(found)
    place = {i: at for at, i in enumerate(best_first(found))}
    order = sorted(range(len(found)), key=lambda i: (ranks[i], place[i]))
    return [(i, found[i].probability, ranks[i]) for i in order[:k]]
