"""One pass over the tuples of a window, best first, that computes all probabilities that queries need."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.kernels.stream import Floats, Ints
from skyband.uncertain.kernels import possible_worlds
from skyband.uncertain.kernels.possible_worlds import CLOSE

__all__ = ["NEGLIGIBLE", "Passed", "best_first", "lowest_first", "one_pass", "settled"]

# The scan stops at tuples with a smaller probability of being in the top k. For fewer than 1e29 scanned tuples, k of
# them have a higher probability, because the top-k probabilities add up to k.
NEGLIGIBLE = 1e-30
_LEAST = 1e-200  # smaller limits are too close to the smallest double
_TINY = 1e-40  # coefficients below this times the limit are dropped


class Passed(NamedTuple):
    """Scanned tuples, best first, and their probabilities. Those of all other tuples are negligible."""

    order: Ints
    tops: Any  # (rows, ks)
    exact: Any  # (rows, k), or no rows
    best: Floats  # per i: the highest probability of having rank i
    who: Ints  # per i: row of `order` with this probability, -1 if no tuple can have rank i
    values: Any  # (rows, weights): weighted sums over ranks


def best_first(scores: Floats, most: int) -> Ints:
    """Return the indices of the `most` best tuples and of all ties with the last, best first. Later tuples win ties."""
    n = scores.size
    if most >= n:
        found: Ints = np.argsort(-scores)
    else:
        least = np.partition(scores, n - most)[n - most]
        chosen = np.flatnonzero(scores >= least)
        found = chosen[np.argsort(-scores[chosen])]
    # A stable sort takes several times as long, so ties are sorted afterwards.
    keys = scores[found]
    differ = keys[1:] != keys[:-1]
    if not differ.all():
        runs = np.concatenate([[0], np.cumsum(differ)])
        found = found[np.lexsort([-found, runs])]
    return found


def settled(probabilities: Floats, rules: Ints, places: int) -> possible_worlds.Ruled:
    """Return tuples, best first, with the sums of their rules. `rules` are -1 or below `places`."""
    ruled = possible_worlds.ruled_for(probabilities.size)
    last, sums, rest = np.full(places, -1), np.zeros(places), np.zeros(places)
    possible_worlds.settle(probabilities, rules, last, sums, rest, ruled)
    return ruled


def one_pass(
    scores: Floats,
    probabilities: Floats,
    rules: Ints,
    ks: Ints,
    *,
    ranks: int = 0,
    exact: bool = False,
    weights: Any = None,
    negligible: float = NEGLIGIBLE,
) -> Passed:
    """Return the top-k probabilities for the ascending `ks`, and the most likely tuple for the first `ranks` ranks.

    Each row of `weights` has a weight per rank, for the weighted sums of each tuple's rank probabilities.

    A guess determines how many tuples are sorted. The bound on the remaining tuples is checked afterwards. If the guess
    was too low, more tuples are sorted.
    """
    n, weights = scores.size, np.zeros((0, 0)) if weights is None else weights
    k = max(int(ks[-1]) if ks.size else 1, ranks, weights.shape[1])
    negligible = max(negligible, _LEAST)
    places = int(rules.max()) + 1 if n else 0
    most = _guess(probabilities, k, negligible)
    while True:
        order = best_first(scores, most)
        ruled = settled(probabilities[order], rules[order], places)
        found = possible_worlds.WorldResults(
            ks,
            np.zeros((order.size, ks.size)),
            np.zeros((order.size if exact else 0, k)),
            np.zeros(ranks),
            np.full(ranks, -1),
            weights,
            np.zeros((order.size, weights.shape[0])),
        )
        width = min(k, order.size) + 1
        after = possible_worlds.scan(
            ruled, possible_worlds.tree_for(order.size, width, weights.shape[0]), found, negligible * _TINY, negligible
        )
        if order.size == n or after < negligible:
            return Passed(order, *found[1:5], found.values)
        most *= 8


def _guess(probabilities: Floats, k: int, negligible: float) -> int:
    """Estimate the number of tuples after which k better tuples exist almost certainly."""
    if probabilities.size == 0:
        return 1
    far = -np.log(negligible)
    needed = k + far + np.sqrt(far**2 + 2 * far * k)  # expected number of existing tuples, by Chernoff's bound
    guess = 64 + 1.3 * needed / max(float(probabilities.mean()), 1e-12)
    return probabilities.size if 3 * guess > probabilities.size else int(guess)


def lowest_first(keys: Floats, most: int) -> Ints:
    """Return the indices of the lowest keys. Keys within the rounding error are equal; ties keep the input order."""
    rows = np.arange(keys.size)
    if keys.size > 4 * most:
        edge = np.partition(keys, most - 1)[most - 1]
        rows = np.flatnonzero(keys <= edge + 1e-12 * abs(edge))
    order = np.argsort(keys[rows], kind="stable")
    sorted_keys = keys[rows][order]
    differ = np.diff(sorted_keys) > CLOSE * np.abs(sorted_keys[1:])
    if not differ.all():
        order = order[np.lexsort([order, np.concatenate([[0], np.cumsum(differ)])])]
    found: Ints = rows[order[:most]]
    return found
