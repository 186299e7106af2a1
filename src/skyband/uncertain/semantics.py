"""Top-k semantics for uncertain tuples: seven definitions, computed in one pass over a window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.kernels.stream import Floats, Ints
from skyband.uncertain import ranking_functions
from skyband.uncertain import stream_ranking as of_streams
from skyband.uncertain.kernels import most_probable_list, selection
from skyband.uncertain.kernels.possible_worlds import CLOSE, Ruled
from skyband.uncertain.probabilities import tuples_of
from skyband.uncertain.query import checked_meaning
from skyband.uncertain.single_pass import NEGLIGIBLE, Passed, best_first, lowest_first, one_pass, settled
from skyband.uncertain.stream_ranking import Streams, best_streams

__all__ = ["RankedTuples", "SemanticsRequest", "rank", "ranked"]


class SemanticsRequest(NamedTuple):
    """A request for one answer about a window."""

    k: int
    semantics: str
    threshold: float | None = None
    weights: tuple[float, ...] | None = None
    alpha: float | None = None
    of_streams: bool = False  # whether streams are ranked; the result has the tuple that contributes most to each


class RankedTuples(NamedTuple):
    """One answer: the window indices of tuples, by rank."""

    places: Ints
    probabilities: Floats
    expected_ranks: Floats | None = None
    values: Floats | None = None  # of the ranking function


def rank(
    scores: Any,
    probabilities: Any,
    k: int,
    semantics: str = "pk-topk",
    rules: Any = None,
    threshold: float | None = None,
    *,
    weights: Sequence[float] | None = None,
    alpha: float | None = None,
) -> pa.Table:
    """Return the answer of one window, as ``rank, row, score, probability`` (and ``expected_rank`` or ``prf``).

    A tuple exists with its probability. Tuples of the same rule exclude each other, all others are independent.
    ``Pr_k(T)`` is the probability that T exists and fewer than k better tuples exist. Of two tuples with equal scores,
    the later one is better. Of two tuples with equal probabilities, the better one ranks first.

    Parameters
    ----------
    scores, probabilities, rules
        As for `topk_probabilities`. Tuples without a score are ignored.
    k
        Size of the top k, at least 1.
    semantics
        ``"pk-topk"`` and ``"global-topk"``
            The k tuples with the highest ``Pr_k``, which is their `probability`, highest first.
        ``"pt-k"``
            All tuples whose ``Pr_k`` is at least `threshold`, highest first.
        ``"u-kranks"``
            For each i = 1..k the tuple most likely to have exactly rank i, with this probability. A tuple may have
            several ranks.
        ``"u-topk"``
            The list of exactly k tuples that is most likely to be the top k, best first, with this probability. If no
            world has k tuples, the list is as long as the largest world.
        ``"expected-rank"``
            The k tuples with the lowest expected rank, with their own probability. In each world ranks count from 1,
            and a tuple that does not exist in the world ranks after all that do.
        ``"prf"``
            The k tuples with the highest absolute value of the parameterised ranking function ``prf``, with their own
            probability. ``prf`` is the sum over the ranks i of the weight of i times the probability of having exactly
            rank i. Values below 1e-100 times the highest weight are not ranked.
    threshold
        The minimum probability for ``"pt-k"``, in (0, 1].
    weights, alpha
        For ``"prf"``, one of them: the weights of the ranks 1, 2, … (others are 0), or a number in (0, 1], where rank i
        has the weight ``alpha ** i``.

    Examples
    --------
    >>> import skyband as sb
    >>> speeds, chances, pairs = [80, 65, 45, 30, 50, 25], [0.3, 0.4, 0.5, 1.0, 0.8, 0.2], [-1, 1, 1, -1, 2, 2]
    >>> sb.uncertain.rank(speeds, chances, 3, rules=pairs)["score"].to_pylist()
    [50.0, 30.0, 45.0]
    >>> sb.uncertain.rank(speeds, chances, 3, "u-topk", rules=pairs)["score"].to_pylist()
    [50.0, 45.0, 30.0]
    >>> sb.uncertain.rank(speeds, chances, 3, "prf", rules=pairs, alpha=0.5)["score"].to_pylist()
    [50.0, 65.0, 80.0]
    """
    found = tuples_of(scores, probabilities, rules)
    request = SemanticsRequest(*checked_meaning(k, semantics, threshold, weights, alpha))
    answer = ranked(found.scores, found.probabilities, found.rules, [request])[0]
    rows = answer.places if found.rows is None else found.rows[answer.places]
    columns = {
        "rank": np.arange(1, rows.size + 1),
        "row": rows,
        "score": found.scores[answer.places],
        "probability": answer.probabilities,
    }
    if answer.expected_ranks is not None:
        columns["expected_rank"] = answer.expected_ranks
    if answer.values is not None:
        columns["prf"] = answer.values
    return pa.table(columns)


def ranked(
    scores: Floats,
    probabilities: Floats,
    rules: Ints,
    requests: Sequence[SemanticsRequest],
    streams: Streams | None = None,
) -> list[RankedTuples]:
    """Return the answers to all requests about a window. Its tuples are in tie-breaking order, the best last."""
    n = scores.size
    if n == 0:
        return [_nothing(one.semantics) for one in requests]
    chances = [one for one in requests if one.semantics in ("pk-topk", "global-topk", "pt-k")]
    ks = np.unique([min(one.k, n) for one in chances]).astype(np.int64)
    ranks = max((min(one.k, n) for one in requests if one.semantics == "u-kranks"), default=0)
    weighing = [one for one in requests if one.weights is not None]
    passed = None
    if ks.size or ranks or weighing:
        least = [_negligible(one) for one in (*chances, *weighing)] + [NEGLIGIBLE] * (ranks > 0)
        weights = ranking_functions.matrix([one.weights for one in weighing if one.weights is not None], n)
        passed = one_pass(scores, probabilities, rules, ks, ranks=ranks, weights=weights, negligible=min(least))
    window = _SortedWindow(scores, probabilities, rules)
    room = selection.room_for(0 if passed is None else passed.order.size)
    numbers = iter(range(len(weighing)))  # rows of the weights
    return [
        _answer(one, passed, ks, window, streams, room)
        if one.weights is None
        else _weighted(one, next(numbers), passed, probabilities)
        for one in requests
    ]


def _nothing(semantics: str) -> RankedTuples:
    extra = [np.empty(0) if semantics == own else None for own in ("expected-rank", "prf")]
    return RankedTuples(np.empty(0, np.int64), np.empty(0), *extra)


def _negligible(request: SemanticsRequest) -> float:
    """Return the probability below which tuples can be ignored for a request."""
    if request.threshold:
        return request.threshold * (1 - 1e-9)
    # Few tuples may have a value of note: as for streams, even a tiny one is an answer.
    return of_streams.NEGLIGIBLE if request.of_streams or request.weights else NEGLIGIBLE


class _SortedWindow:
    """All tuples of a window, sorted best first on first access."""

    def __init__(self, scores: Floats, probabilities: Floats, rules: Ints) -> None:
        self._window = scores, probabilities, rules
        self._sorted: tuple[Ints, Ints, Ruled] | None = None

    @property
    def best_first(self) -> tuple[Ints, Ints, Ruled]:
        """Window indices, rule codes (a separate one per tuple without a rule), and the sums of rules."""
        if self._sorted is None:
            scores, probabilities, rules = self._window
            order = best_first(scores, scores.size)
            mine = rules[order]
            labels, owners = np.unique(mine, return_inverse=True)
            owners = np.where(mine < 0, labels.size + np.arange(mine.size), owners)
            self._sorted = order, owners, settled(probabilities[order], mine, int(mine.max()) + 1)
        return self._sorted


def _answer(
    request: SemanticsRequest,
    passed: Passed | None,
    ks: Ints,
    window: _SortedWindow,
    streams: Streams | None,
    room: selection.SelectionScratch,
) -> RankedTuples:
    if request.semantics == "u-topk":
        return _most_probable_list(request.k, *window.best_first)
    if request.semantics == "expected-rank":
        return _expected(request.k, *window.best_first)
    if request.alpha is not None:
        order, _, ruled = window.best_first
        rows, values = ranking_functions.geometric(request.k, request.alpha, ruled)
        return RankedTuples(order[rows], ruled.probabilities[rows], None, values)
    assert passed is not None, "computed for requests with probabilities"
    if request.semantics == "u-kranks":
        who, best = passed.who[: request.k], passed.best[: request.k]
        return RankedTuples(passed.order[who[who >= 0]], best[who >= 0])
    column = min(int(np.searchsorted(ks, request.k)), ks.size - 1)
    tops = passed.tops[:, column]
    if request.of_streams:
        assert streams is not None, "checked when tuples are pushed"
        return RankedTuples(*best_streams(request.k, passed.order, tops, streams))
    if request.semantics == "pt-k":
        assert request.threshold is not None, "checked when the query is created"
        rows = np.flatnonzero(tops >= request.threshold * (1 - CLOSE))
        rows = rows[lowest_first(-tops[rows], rows.size)]
    else:
        rows = -room.rows[: selection.choose(passed.tops, column, request.k, CLOSE, room)]
    return RankedTuples(passed.order[rows], tops[rows])


def _weighted(request: SemanticsRequest, number: int, passed: Passed | None, probabilities: Floats) -> RankedTuples:
    assert passed is not None, "computed for requests with weights"
    assert request.weights is not None
    rows, values = ranking_functions.highest(
        request.k, request.weights, *passed.values[:, 2 * number : 2 * number + 2].T
    )
    places = passed.order[rows]
    return RankedTuples(places, probabilities[places], None, values)


def _expected(k: int, order: Ints, owners: Ints, ruled: Ruled) -> RankedTuples:
    """Return the k tuples with the lowest expected rank.

    An existing tuple ranks after its better tuples, a missing one after all existing tuples. With S the sum of all
    probabilities and R that of its rule, the second part is ``(1 - p) (S - R) + (R - p)``: the other tuples of its rule
    can only exist if it does not.
    """
    p = ruled.probabilities
    better = np.cumsum(p) - ruled.sums  # without its own rule
    of_rule = np.bincount(owners, p)[owners]
    ranks = 1 + p * np.maximum(better, 0) + (1 - p) * np.maximum(p.sum() - of_rule, 0) + np.maximum(of_rule - p, 0)
    rows = lowest_first(ranks, k)
    return RankedTuples(order[rows], p[rows], ranks[rows])


def _most_probable_list(k: int, order: Ints, owners: Ints, ruled: Ruled) -> RankedTuples:
    k = min(k, np.unique(owners).size)
    places = int(owners.max()) + 1
    rules = most_probable_list.Rules(np.zeros(places), np.zeros(places), np.zeros(places, np.int64), np.zeros(places))
    most_probable_list.gather(ruled, owners, rules)
    members = np.zeros(k, np.int64)
    company = most_probable_list.Company(np.full(k + 1, -1), np.zeros(k + 1))
    most_probable_list.find_list(ruled, owners, rules, company, k, members)
    members.sort()
    last = members[-1]
    # For each rule that is not in the list, its last member before the end of the list has the sum of the rule.
    others = np.flatnonzero((ruled.following[:last] > last) & ~np.isin(owners[:last], owners[members]))
    chance = float(np.prod(ruled.probabilities[members]) * np.prod(1 - ruled.sums[others]))
    return RankedTuples(order[members], np.full(k, chance))
