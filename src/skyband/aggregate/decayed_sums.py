"""Sum rows that decay: weighted values, and for a mean their weights, which have columns of squares.

Both sums are stored with one range of limbs. Limb i of the weights has the column of limb 2i of squares, which are not
needed. So stored totals have the same form as those of standard deviations, and move by epochs in the same way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.aggregate.addends import Addends
from skyband.aggregate.decay import Decay
from skyband.aggregate.kernels.partials import FIRST_LIMB
from skyband.aggregate.kernels.sums import sum_up
from skyband.kernels.stream import Floats, Ints

__all__ = ["add_decayed", "decayed_sums", "limbs_needed"]


def limbs_needed(decay: Decay, weighted: Floats, positions: Ints) -> Addends:
    """Return the addends that hold weighted values of one epoch, and the weights if they are summed as well."""
    found = Addends(2 if decay.mean else 1).holding(weighted.view(np.int64))
    return found.holding(_weights(decay, positions).view(np.int64)) if decay.mean else found


def add_decayed(
    decay: Decay, codes: Ints, positions: Ints, weighted: Floats, addends: Addends, adds: Any, lasts: Ints
) -> None:
    """Add rows of one epoch, with weighted values, to the rows of `adds` with their codes.

    `addends` are relative to the epoch.
    """
    none = np.empty((lasts.size, 0))
    bits = weighted.view(np.int64)
    sum_up(codes, positions, weighted, bits, addends.low, 1, np.empty(0), adds, lasts, none)
    if not decay.mean:
        return
    weights = _weights(decay, positions)
    beside, bits = np.zeros((lasts.size, FIRST_LIMB + addends.limbs), np.int64), weights.view(np.int64)
    sum_up(codes, positions, weights, bits, addends.low, 1, np.empty(0), beside, lasts, none)
    adds[:, FIRST_LIMB + addends.limbs :: 2] += beside[:, FIRST_LIMB:]


def decayed_sums(decay: Decay, codes: Ints, positions: Ints, values: Floats, lasts: Ints) -> tuple[Addends, Any]:
    """Return the sums of weighted rows by code, and the limbs that they have; update the newest positions."""
    weighted, epochs = decay.weighted(values, positions)
    order = np.argsort(epochs, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(epochs[order])) + 1)
    addends = Addends(2 if decay.mean else 1)
    for part in parts:
        found = limbs_needed(decay, weighted[part], positions[part])
        addends = addends.joined(found._replace(low=found.low + int(epochs[part[0]])) if found.limbs else found)
    adds = np.zeros((lasts.size, addends.width), np.int64)
    for part in parts:
        if part.size:
            mine = addends._replace(low=addends.low - int(epochs[part[0]]))
            add_decayed(decay, codes[part], positions[part], weighted[part], mine, adds, lasts)
    return addends, adds


def _weights(decay: Decay, positions: Ints) -> Floats:
    """Return the weights of rows relative to the ends of their epochs."""
    return decay.weighted(np.ones(positions.size), positions)[0]
