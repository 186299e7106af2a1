"""A cost model of a micro-batch: what each station does, as a sum of counts times measured constants."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np


class Line(NamedTuple):
    """Seconds of a station as a sum of counts times constants."""

    names: tuple[str, ...]
    constants: tuple[float, ...]
    error: float  # median of the relative errors over the fitted points

    def seconds(self, **counts: float) -> float:
        """Return the predicted seconds; `fixed` is counted once."""
        values = {"fixed": 1.0, **counts}
        return sum(values[name] * constant for name, constant in zip(self.names, self.constants, strict=True))

    def text(self) -> str:
        terms = zip(self.names, self.constants, strict=True)
        return ", ".join(f"{1e6 * constant:,.3g} µs {_UNIT.get(name, f'per {name}')}" for name, constant in terms)


_UNIT = {"fixed": "fixed"}


def fitted(
    names: Sequence[str],
    points: Sequence[dict[str, float]],
    seconds: Sequence[float],
    known: Sequence[float] | None = None,
) -> Line:
    """Fit constants that are not negative, with equal weight for equal relative errors.

    `known` are seconds of each point that other constants explain. A constant that would be negative is left out, and
    the others are fitted again.

    >>> line = fitted(["fixed", "row"], [{"row": 1}, {"row": 3}], [2.5, 4.5], known=[0.5, 0.5])
    >>> [round(constant, 9) for constant in line.constants]
    [1.0, 1.0]
    """
    wanted = np.maximum(np.array(seconds), 1e-6)
    counts = np.array([[{"fixed": 1.0, **point}[name] for name in names] for point in points]) / wanted[:, None]
    rest = np.ones(len(wanted)) if known is None else 1 - np.array(known) / wanted
    active = list(range(len(names)))
    while True:
        found = np.linalg.lstsq(counts[:, active], rest, rcond=None)[0]
        if (found >= 0).all():
            break
        active.remove(active[int(np.argmin(found))])
    constants = np.zeros(len(names))
    constants[active] = found
    error = float(np.median(np.abs(counts @ constants - rest)))
    return Line(tuple(names), tuple(map(float, constants)), error)


def kept_rows(rows: float, k: int) -> float:
    """Expected number of rows that fewer than k later ones beat, if scores are in random order.

    The j-th row from the end is kept with the probability ``min(1, k / j)``.

    >>> kept_rows(5, 10), round(kept_rows(1000, 10), 1)
    (5, 55.6)
    """
    if rows <= k:
        return rows
    return k * (1 + _harmonic(rows) - _harmonic(k))


def _harmonic(n: float) -> float:
    return math.log(n) + 0.5772156649 + 1 / (2 * n)


def distinct_keys(rows: float, keys: float) -> float:
    """Expected number of different keys among so many rows, if all keys are equally frequent."""
    return keys * -math.expm1(-rows / keys)


def limit(seconds_at: Callable[[float], float], budget: float, most: float = 1e12) -> float:
    """Return the largest rate at which a station takes at most `budget` seconds; infinity beyond `most`."""
    if seconds_at(most) <= budget:
        return math.inf
    low, high = 1.0, most
    if seconds_at(low) > budget:
        return 0.0
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if seconds_at(middle) <= budget else (low, middle)
    return low
