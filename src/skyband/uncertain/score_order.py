"""The order of keys that were computed: what rounding may have told apart is equal."""

from __future__ import annotations

import numpy as np

from skyband.kernels.stream import Floats, Ints
from skyband.uncertain.kernels.possible_worlds import CLOSE

__all__ = ["lowest_first"]


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
