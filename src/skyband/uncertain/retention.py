"""Which tuples a window can do without: those that no answer of any query would show or feel, now or later.

Every later window that contains a tuple T also contains all tuples that are newer than T. Let N be those of them that
are better than T.

- *k.* A query to which only the first k ranks matter needs T only in worlds where fewer than k of N exist. Chernoff's
  bound limits their probability b. T is then in an answer with a probability of at most b, and without T no
  probability changes by more than b, because ranks up to k change only in worlds where T has one of them. If the bounds
  of all dropped tuples of a window add up to at most `negligible`, answers are the same:

  - ``pk-topk``, ``global-topk`` and ``u-kranks``: k tuples exist almost certainly, so that the k highest ``Pr_k``, and
    the highest probability of each rank, are about 1/n or more for n tuples. No dropped tuple reaches 1e-30.
  - ``pt-k``: no dropped tuple reaches the threshold, and no other one is moved across it.
  - streams, and ``prf`` with weights: sums and values below 1e-100 are not ranked, so the limit is far below it.
  - ``u-topk``: the most probable list can itself have any small probability. Only tuples that are in no list are
    dropped: those with k certain tuples in N, where b is 0.

- *alpha.* For ``prf`` with the weights ``alpha ** i``, the value of T relative to alpha is at most the mean of ``alpha
  ** n``, where n is the number of N that exist: the product over all p in N of ``1 - p (1 - alpha)``, or less if some
  of them exclude each other. The rule of T does not count, which divides by at most alpha. If the result is below
  1e-100, T is not ranked. A worse tuple has the same better tuples, except those of its rule: it is not ranked either,
  with or without T. A better tuple does not depend on T.

- ``expected-rank`` depends on all tuples of a window.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from skyband.uncertain import stream_ranking
from skyband.uncertain.query import UncertainTopK
from skyband.uncertain.ranking_functions import LEAST
from skyband.uncertain.single_pass import NEGLIGIBLE

__all__ = ["Retention", "needed_mean", "needed_sum", "negligible_for", "retention_of"]

_OF_ONE = 1e-20  # share of a single tuple in what is negligible; no window contains so many tuples


class Retention(NamedTuple):
    """What the queries of a window need."""

    k: int  # the last rank that matters to queries with such a rank; 0 if there are none
    negligible: float  # the probability below which they do not need a tuple
    alphas: tuple[float, ...]


def retention_of(queries: Iterable[UncertainTopK]) -> Retention | None:
    """Return what these queries need, None if they need all tuples of the window.

    >>> import skyband as sb
    >>> retention_of([sb.UncertainTopK(k=3, size=9), sb.UncertainTopK(k=2, size=9, semantics="prf", alpha=0.5)])
    Retention(k=3, negligible=1e-30, alphas=(0.5,))
    """
    queries = tuple(queries)
    alphas = sorted({query.alpha for query in queries if query.alpha is not None})
    if any(query.needs_all_tuples for query in queries):
        return None
    ranks = [query for query in queries if query.depth is not None]
    k = max((query.depth or 0 for query in ranks), default=0)
    return Retention(k, min(map(negligible_for, ranks), default=1.0), tuple(alphas))


def negligible_for(query: UncertainTopK) -> float:
    """Return the probability below which tuples in the first ranks change no answer of a query."""
    if query.semantics == "u-topk":
        return 0.0
    if query.threshold is not None:
        return min(NEGLIGIBLE, 1e-20 * query.threshold)
    return stream_ranking.NEGLIGIBLE if query.stream is not None or query.weights is not None else NEGLIGIBLE


@cache
def needed_mean(k: int, negligible: float) -> float | None:
    """Return how large the sum of the probabilities of N must be for any number of tuples to be dropped.

    The bounds of all of them then add up to less than `negligible`, so that those who drop them, such as the tasks of
    a cluster, need not know of each other. None if this is impossible, as for ``u-topk``.

    >>> [round(needed_mean(k, 1e-30)) for k in (1, 10, 100)], needed_mean(10, 0.0)
    ([115, 149, 335], None)
    """
    limit = _OF_ONE * negligible
    if limit <= 0:
        return None
    fewer, low, high = k - 1, float(k), k - 2 * math.log(limit) + 10.0 * k
    while high - low > 1e-9 * high:
        mean = (low + high) / 2
        exponent = fewer - mean + (fewer * math.log(mean / fewer) if fewer else 0.0)
        low, high = (low, mean) if exponent <= math.log(limit) else (mean, high)
    return high


def needed_sum(alpha: float) -> float:
    """Return how large the sum of ``-log(1 - p (1 - alpha))`` must be to rank neither a tuple nor any worse one.

    One alpha is for the tuple's own rule. The other is a margin for rounding.
    """
    return -math.log(LEAST) - 2 * math.log(alpha)
