"""One pass over the tuples of a window, best first: all probabilities that queries ask for, as far as they count."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.kernels.stream import Floats, Ints
from skyband.uncertain.kernels import possible_worlds
from skyband.uncertain.kernels.possible_worlds import CLOSE

__all__ = ["NEGLIGIBLE", "Passed", "best_first", "lowest_first", "one_pass", "settled"]

# The scan ends where tuples have a smaller chance than this of being among the k best. While fewer than 1e29 tuples are
# scanned, k of them have a higher one: the k best share a mass of k between them.
NEGLIGIBLE = 1e-30
_LEAST = 1e-200  # below this, numbers get too close to the smallest there are
_TINY = 1e-40  # times what is negligible: coefficients that are dropped


class Passed(NamedTuple):
    """Rows of `order`, best first, and their probabilities; all other tuples have none worth telling."""

    order: Ints
    tops: Any  # (rows, ks)
    exact: Any  # (rows, k), or no rows
    best: Floats  # per i
    who: Ints  # per i: a row of `order`, -1 where nobody can be the i-th


def best_first(scores: Floats, most: int) -> Ints:
    """Where the `most` best tuples and all that tie with the last of them are, best first; later ones are better."""
    n = scores.size
    if most >= n:
        found: Ints = np.argsort(-scores)
    else:
        least = np.partition(scores, n - most)[n - most]
        chosen = np.flatnonzero(scores >= least)
        found = chosen[np.argsort(-scores[chosen])]
    # A stable sort takes several times as long; ties, where there are some, are put in order afterwards.
    keys = scores[found]
    differ = keys[1:] != keys[:-1]
    if not differ.all():
        runs = np.concatenate([[0], np.cumsum(differ)])
        found = found[np.lexsort([-found, runs])]
    return found


def settled(probabilities: Floats, rules: Ints, places: int) -> possible_worlds.Ruled:
    """Tuples best first with what their rules have come to; `rules` are -1 or below `places`."""
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
    negligible: float = NEGLIGIBLE,
) -> Passed:
    """What the ascending `ks` ask for, and for the first `ranks` ranks who is likeliest to have them.

    The bound on what comes later is checked, not assumed: a guess says how many tuples to sort, and if it was too low,
    more are sorted.
    """
    n, k = scores.size, max(int(ks[-1]) if ks.size else 1, ranks)
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
        )
        width = min(k, order.size) + 1
        after = possible_worlds.scan(
            ruled, possible_worlds.tree_for(order.size, width), found, negligible * _TINY, negligible
        )
        if order.size == n or after < negligible:
            return Passed(order, *found[1:])
        most *= 8


def _guess(probabilities: Floats, k: int, negligible: float) -> int:
    """How many tuples it takes, at these probabilities, until k better ones are all but certain."""
    if probabilities.size == 0:
        return 1
    far = -np.log(negligible)
    needed = k + far + np.sqrt(far**2 + 2 * far * k)  # expected, by Chernoff's bound
    guess = 64 + 1.3 * needed / max(float(probabilities.mean()), 1e-12)
    return probabilities.size if 3 * guess > probabilities.size else int(guess)


def lowest_first(keys: Floats, most: int) -> Ints:
    """The places of the lowest keys; keys that rounding may have told apart are equal, and the first comes first."""
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
