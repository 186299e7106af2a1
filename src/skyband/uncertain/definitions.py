"""The semantics of uncertain queries in plain Python: criteria of all tuples of a window, and the best answer by them.

The number of better tuples that exist is a sum of independent variables, one for each rule and each tuple without one.
Its distribution is computed again for each tuple, without the tuple's own rule. The most probable list is found for
each possible last member: of the rules before it, those whose best member is most likely, compared to none of them.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from skyband.uncertain.query import UncertainTopK

__all__ = ["TOLERANCE", "Criteria", "UncertainTuple", "close", "criteria", "definition", "is_right"]

TOLERANCE = 1e-9  # relative error of probabilities that is accepted
_NOTHING = 1e-25  # a smaller criterion may be absent from an answer


class UncertainTuple(NamedTuple):
    """A tuple of a window."""

    at: int
    id: Any
    score: float
    probability: float
    rule: Any  # None: it excludes no other tuple
    stream: Any


class Criteria(NamedTuple):
    """What the tuples of a window are ranked by, in their order; higher is better."""

    query: UncertainTopK
    tuples: Sequence[UncertainTuple]
    values: Any  # per tuple; of exact ranks a row for each tuple
    sizes: Any  # per tuple: what errors of `values` are relative to
    streams: dict[Any, float]  # if streams are ranked: the sum of each
    list: tuple[list[int], float]  # for u-topk: the most probable list and its probability

    def numbers(self, i: int, place: int, stream: Any) -> tuple[float, float | None, float | None, Any, float]:
        """Return probability, expected rank, ranking function and stream of a row, and the size of its errors."""
        kind, own = self.query.semantics, self.tuples[i].probability
        if kind == "expected-rank":
            return own, -float(self.values[i]), None, None, float(self.sizes[i])
        if kind == "prf":
            return own, None, float(self.values[i]), None, float(self.sizes[i])
        if kind == "u-kranks":
            return float(self.values[i][place]), None, None, None, float(self.values[i][place])
        if kind == "u-topk":
            return self.list[1], None, None, None, self.list[1]
        if self.streams:
            return self.streams.get(stream, 0.0), None, None, stream, self.streams.get(stream, 0.0)
        return float(self.values[i]), None, None, None, float(self.values[i])


def close(a: float, b: float, size: float | None = None) -> bool:
    """Return whether two numbers are equal up to the tolerance.

    >>> close(0.25, 0.25 + 1e-12), close(0.25, 0.2501)
    (True, False)
    """
    return abs(a - b) <= TOLERANCE * max(abs(a), abs(b), size or 0.0) + _NOTHING


def criteria(tuples: Sequence[UncertainTuple], query: UncertainTopK) -> Criteria:
    """Compute the criterion of a query for all tuples of a window, of which later ones are better at equal scores."""
    kind, nothing = query.semantics, Criteria(query, tuples, np.zeros(0), np.zeros(0), {}, ([], 0.0))
    if not tuples:
        return nothing
    if kind == "u-topk":
        return nothing._replace(list=_most_probable_list(tuples, query.k))
    if kind == "expected-rank" or query.alpha is not None:
        values = (
            -np.array(_expected_ranks(tuples)) if query.alpha is None else np.array(_geometric(tuples, query.alpha))
        )
        return nothing._replace(values=values, sizes=np.abs(values))
    depth = min(len(tuples), len(query.weights) if query.weights is not None else query.k)
    exact = _rank_probabilities(tuples, depth)
    if kind == "u-kranks":
        return nothing._replace(values=exact, sizes=exact)
    weights = np.array(query.weights[:depth]) if query.weights is not None else np.ones(depth)
    found = nothing._replace(values=exact @ weights, sizes=exact @ np.abs(weights))
    if query.stream is None:
        return found
    sums: dict[Any, float] = defaultdict(float)
    for one, value in zip(tuples, found.values.tolist(), strict=True):
        sums[one.stream] += value
    return found._replace(streams=dict(sums))


def definition(tuples: Sequence[UncertainTuple], query: UncertainTopK, found: Criteria) -> list[tuple[Any, ...]]:
    """Return the answer by the definition: places of tuples, and the numbers of their rows."""
    if not tuples:
        return []
    order = _best_first(tuples)
    if query.semantics == "u-topk":
        chosen: list[tuple[int, Any]] = [(i, None) for i in found.list[0]]
    elif query.semantics == "u-kranks":
        ranks = range(found.values.shape[1])
        best = [max(order, key=lambda i: found.values[i][rank]) for rank in ranks]
        chosen = [(i, None) for rank, i in enumerate(best) if found.values[i][rank] > _NOTHING]
    elif found.streams:
        names = sorted(
            (name for name in found.streams if found.streams[name] > _NOTHING), key=found.streams.__getitem__
        )
        of_stream = [
            max((i for i in order if tuples[i].stream == name), key=found.values.__getitem__) for name in names
        ]
        chosen = list(zip(of_stream, names, strict=True))[::-1][: query.k]
    else:
        values = np.abs(found.values) if query.semantics == "prf" else found.values
        least = -math.inf if query.semantics == "expected-rank" else max(_NOTHING, query.threshold or 0.0)
        chosen = [(i, None) for i in sorted(order, key=lambda i: -values[i]) if values[i] >= least]
        chosen = chosen if query.semantics == "pt-k" else chosen[: query.k]
    return [(i, *found.numbers(i, place, name)[:4]) for place, (i, name) in enumerate(chosen)]


def is_right(
    tuples: Sequence[UncertainTuple],
    query: UncertainTopK,
    found: Criteria,
    chosen: Sequence[Any],
    streams: Sequence[Any],
) -> bool:
    """Return whether the chosen tuples are an answer, of which no other one is better by more than the tolerance."""
    if query.semantics == "u-topk":
        in_order = [i for i in _best_first(tuples) if i in set(chosen)] == list(chosen)
        return in_order and len(chosen) == len(found.list[0]) and close(_chance(tuples, chosen), found.list[1])
    if query.semantics == "u-kranks":
        best = found.values.max(axis=0)
        enough = len(chosen) <= best.size and bool(np.all(best[len(chosen) :] <= 2 * _NOTHING))
        return enough and all(close(found.values[i][rank], best[rank]) for rank, i in enumerate(chosen))
    if found.streams:
        mine = [max(v for one, v in zip(tuples, found.values, strict=True) if one.stream == name) for name in streams]
        foremost = all(close(found.values[i], most) for i, most in zip(chosen, mine, strict=True))
        sums = found.streams
        return foremost and _is_best(
            list(sums.values()), list(sums.values()), [list(sums).index(s) for s in streams], query
        )
    values = np.abs(found.values) if query.semantics == "prf" else found.values
    return _is_best(values, found.sizes, chosen, query)


def _is_best(values: Any, sizes: Any, chosen: Sequence[int], query: UncertainTopK) -> bool:
    """Return whether the chosen ones are in order, and no other one should be there instead or besides."""
    margins = [TOLERANCE * abs(size) + _NOTHING for size in sizes]
    rest = [i for i in range(len(values)) if i not in set(chosen)]
    if len(set(chosen)) < len(chosen) or any(
        values[a] + margins[a] < values[b] - margins[b] for a, b in itertools.pairwise(chosen)
    ):
        return False
    if query.semantics == "pt-k":
        least = query.threshold or 0.0
        return all(values[i] + margins[i] >= least for i in chosen) and all(
            values[i] - margins[i] < least for i in rest
        )
    if len(chosen) < query.k:  # nothing may be left
        all_tiny = all(values[i] <= 2 * _NOTHING + margins[i] for i in rest)
        return not rest or (query.semantics != "expected-rank" and all_tiny)
    last = chosen[-1]
    return len(chosen) == query.k and all(values[i] - margins[i] <= values[last] + margins[last] for i in rest)


def _best_first(tuples: Sequence[UncertainTuple]) -> list[int]:
    return sorted(range(len(tuples)), key=lambda i: (tuples[i].score, i), reverse=True)


def _rank_probabilities(tuples: Sequence[UncertainTuple], depth: int) -> Any:
    """Return the probability of each tuple to have each of the first ranks."""
    found, free, sums = np.zeros((len(tuples), depth)), np.zeros(depth), dict[Any, float]()
    free[0] = 1.0
    for i in _best_first(tuples):
        one = tuples[i]
        law = free
        for rule, chance in sums.items():
            law = law if rule == one.rule else _added(law, chance)
        found[i] = one.probability * law
        if one.rule is None:
            free = _added(free, one.probability)
        else:
            sums[one.rule] = min(1.0, sums.get(one.rule, 0.0) + one.probability)
    return found


def _added(law: Any, chance: float) -> Any:
    """Return the distribution of a number after an event with this probability may add one."""
    found = law * (1.0 - chance)
    found[1:] += law[:-1] * chance
    return found


def _expected_ranks(tuples: Sequence[UncertainTuple]) -> list[float]:
    place = {i: at for at, i in enumerate(_best_first(tuples))}
    found = []
    for i, one in enumerate(tuples):
        others = [(j, other) for j, other in enumerate(tuples) if j != i]
        free = [(j, other.probability) for j, other in others if other.rule is None or other.rule != one.rule]
        bound = [other.probability for j, other in others if other.rule is not None and other.rule == one.rule]
        better = math.fsum(p for j, p in free if place[j] < place[i])
        found.append(
            1 + one.probability * better + (1 - one.probability) * math.fsum(p for _, p in free) + math.fsum(bound)
        )
    return found


def _geometric(tuples: Sequence[UncertainTuple], alpha: float) -> list[float]:
    """Return the ranking function with the weights ``alpha ** i``: the mean over the numbers of better tuples."""
    found, free, sums = [0.0] * len(tuples), 0.0, dict[Any, float]()
    for i in _best_first(tuples):
        one = tuples[i]
        logs = free + math.fsum(_log(chance, alpha) for rule, chance in sums.items() if rule != one.rule)
        found[i] = one.probability * alpha * math.exp(logs)
        if one.rule is None:
            free += _log(one.probability, alpha)
        else:
            sums[one.rule] = min(1.0, sums.get(one.rule, 0.0) + one.probability)
    return found


def _log(chance: float, alpha: float) -> float:
    return math.log1p(-chance * (1 - alpha))


def _most_probable_list(tuples: Sequence[UncertainTuple], k: int) -> tuple[list[int], float]:
    order = _best_first(tuples)
    rules = {i: ("rule", tuples[i].rule) if tuples[i].rule is not None else ("alone", i) for i in order}
    length = min(k, len(set(rules.values())))
    best: tuple[list[int], float] = ([], -math.inf)
    for place, last in enumerate(order):
        before: dict[Any, list[int]] = defaultdict(list)
        for i in order[:place]:
            if rules[i] != rules[last]:
                before[rules[i]].append(i)
        if len(before) < length - 1:
            continue
        members = {rule: max(mine, key=lambda i: tuples[i].probability) for rule, mine in before.items()}
        none = {rule: _none_of(tuples, mine) for rule, mine in before.items()}
        ratio = {rule: tuples[i].probability / none[rule] if none[rule] else math.inf for rule, i in members.items()}
        chosen = sorted(members, key=ratio.__getitem__, reverse=True)[: length - 1]
        listed = sorted([*(members[rule] for rule in chosen), last], key=order.index)
        found = (listed, _chance(tuples, listed))
        best = max(best, found, key=lambda one: one[1])
    return best


def _none_of(tuples: Sequence[UncertainTuple], places: Sequence[int]) -> float:
    left = 1.0 - math.fsum(tuples[i].probability for i in places)
    return left if left > 1e-12 else 0.0


def _chance(tuples: Sequence[UncertainTuple], listed: Sequence[int]) -> float:
    """Return the probability that exactly these tuples, which are in order, are the best that exist."""
    order = _best_first(tuples)
    mine = {("rule", tuples[i].rule) if tuples[i].rule is not None else ("alone", i) for i in listed}
    others: dict[Any, list[int]] = defaultdict(list)
    for i in order[: order.index(listed[-1])]:
        rule = ("rule", tuples[i].rule) if tuples[i].rule is not None else ("alone", i)
        if rule not in mine:
            others[rule].append(i)
    if len(mine) < len(listed):
        return 0.0
    chances = [tuples[i].probability for i in listed] + [_none_of(tuples, places) for places in others.values()]
    return math.prod(chances)
