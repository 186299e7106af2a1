"""Probabilities that an uncertain tuple is in the top k, or has exactly rank i."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.data.columns import length, refuse_other_lengths, score_column
from skyband.data.key_dictionary import restored
from skyband.errors import InvalidQueryError
from skyband.kernels.stream import Floats, Ints
from skyband.queries.fields import checked_k
from skyband.uncertain.columns import probability_column, reject_excess, rule_codes
from skyband.uncertain.kernels import possible_worlds
from skyband.uncertain.label_dictionaries import checked_labels
from skyband.uncertain.single_pass import best_first, one_pass, settled
from skyband.uncertain.stream_ranking import by_probability, sums_of

__all__ = ["CompetingTuples", "rank_probabilities", "stream_probabilities", "topk_probabilities", "tuples_of"]


class CompetingTuples(NamedTuple):
    """Tuples with a score, in input order, and their input rows."""

    scores: Floats
    probabilities: Floats
    rules: Ints  # -1: no rule
    rows: Ints | None  # None: all rows


def tuples_of(scores: Any, probabilities: Any, rules: Any) -> CompetingTuples:
    """Return validated columns without the tuples that have no score."""
    keys = score_column(scores)
    refuse_other_lengths(keys.size, "scores", probabilities=probabilities, rules=rules)
    there = ~np.isnan(keys)
    chances = probability_column(probabilities, there)
    codes, names = rule_codes(rules, keys.size)
    rows = None
    if not there.all():
        rows = np.flatnonzero(there)
        keys, chances, codes = keys[rows], chances[rows], codes[rows]
    reject_excess(chances, codes, names)
    return CompetingTuples(keys, chances, codes, rows)


def topk_probabilities(
    scores: Any, probabilities: Any, k: int | Iterable[int], rules: Any = None, *, method: str = "fast"
) -> Any:
    """Return the probability of each tuple to be among the k best existing tuples, in input order.

    A tuple exists with its probability. Tuples of the same rule exclude each other, all others are independent.
    ``Pr_k(T)`` is the probability that T exists and fewer than k better tuples exist. Of two tuples with equal scores,
    the later one is better.

    Parameters
    ----------
    scores
        Numbers, higher is better. Tuples with a null or NaN score are ignored; their result is 0.
    probabilities
        Numbers in (0, 1].
    k
        An integer, or several integers. For several, one pass computes a result with one column per k.
    rules
        A label per tuple, null or -1 for none. The probabilities of a rule must add up to at most 1.
    method
        ``"fast"``, or ``"definition"``: tuple by tuple in O(n² k), for comparison.

    Notes
    -----
    The error is below ``7 n 2**-53`` for n scanned tuples: below 1e-9 for a million tuples. The scan starts with the
    best tuple and stops when k better tuples exist almost certainly: results below 1e-30 are set to 0.

    Examples
    --------
    Measured speeds of cars. The second and third exclude each other, as do the last two:

    >>> import skyband as sb
    >>> chances = [0.3, 0.4, 0.5, 1.0, 0.8, 0.2]
    >>> pairs = [-1, 1, 1, -1, 2, 2]
    >>> sb.uncertain.topk_probabilities([80, 65, 45, 30, 50, 25], chances, 2, pairs).round(3).tolist()
    [0.3, 0.4, 0.38, 0.202, 0.704, 0.014]
    """
    several = isinstance(k, Iterable)
    ks = list(k) if isinstance(k, Iterable) else [k]
    if not ks:
        raise InvalidQueryError("k=[] is empty. Pass at least one k.")
    wanted, columns = np.unique(np.array([checked_k(one) for one in ks], np.int64), return_inverse=True)
    found = tuples_of(scores, probabilities, rules)
    out = np.zeros((length(scores, "scores"), len(ks)))
    if method == "definition":
        order, tops = _by_definition(found, wanted)
    elif method == "fast":
        passed = one_pass(found.scores, found.probabilities, found.rules, _fitting(wanted, found.scores.size))
        order, tops = passed.order, passed.tops
    else:
        raise InvalidQueryError(f"method={method!r} must be 'fast' or 'definition'.")
    out[order if found.rows is None else found.rows[order]] = tops[:, columns]
    return out if several else out[:, 0]


def rank_probabilities(scores: Any, probabilities: Any, k: int, rules: Any = None) -> Any:
    """Return the probability of each tuple to be exactly the i-th best existing tuple, one column per i = 1..k.

    >>> import skyband as sb
    >>> sb.uncertain.rank_probabilities([5.0, 4.0, 3.0], [0.5, 1.0, 0.5], 3).tolist()
    [[0.5, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.25, 0.25]]
    """
    k = checked_k(k)
    found = tuples_of(scores, probabilities, rules)
    out = np.zeros((length(scores, "scores"), k))
    wanted = _fitting(np.array([k]), found.scores.size)
    passed = one_pass(found.scores, found.probabilities, found.rules, wanted, exact=True)
    rows = passed.order if found.rows is None else found.rows[passed.order]
    out[rows, : passed.exact.shape[1]] = passed.exact
    return out


def stream_probabilities(scores: Any, probabilities: Any, streams: Any, k: int, rules: Any = None) -> dict[Any, float]:
    """Return the expected number of tuples in the top k per stream: the sum of ``Pr_k`` over the stream's tuples.

    The highest sum comes first; ties are broken by the stream seen last. The first k streams with a positive sum are
    the answer of a query with `stream`. If the tuples of a stream exclude each other, its sum is the probability that
    the stream has a tuple in the top k.

    >>> import skyband as sb
    >>> sb.uncertain.stream_probabilities([5.0, 4.0, 3.0], [0.25, 1.0, 0.5], ["a", "b", "a"], 1)
    {'b': 0.75, 'a': 0.25}
    """
    tops = topk_probabilities(scores, probabilities, k, rules)
    refuse_other_lengths(tops.size, "scores", streams=streams)
    found = checked_labels(streams)
    encoded = found.stored.dictionary_encode()
    codes, names = encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary
    sums = sums_of(codes, tops, len(names))
    lasts = np.empty(len(names), np.int64)
    lasts[codes] = np.arange(tops.size)
    order = by_probability(sums, lasts, lambda: names, len(names))
    labels = restored(names, found.kind or pa.int64()).take(pa.array(order))
    return dict(zip(labels.to_pylist(), sums[order].tolist(), strict=True))


def _fitting(ks: Ints, tuples: int) -> Ints:
    """Limit each k to the number of tuples, because an answer cannot contain more."""
    return np.minimum(ks, max(1, tuples))


def _by_definition(found: CompetingTuples, ks: Ints) -> tuple[Ints, Any]:
    order = best_first(found.scores, found.scores.size)
    rules = found.rules[order]
    ruled = settled(found.probabilities[order], rules, int(rules.max()) + 1 if rules.size else 0)
    out = possible_worlds.WorldResults(
        ks, np.zeros((order.size, ks.size)), np.zeros((0, 1)), np.zeros(0), np.zeros(0, np.int64), *np.zeros((2, 0, 0))
    )
    possible_worlds.scan_by_definition(ruled, np.zeros(int(ks[-1]) + 1), out)
    return order, out.tops
