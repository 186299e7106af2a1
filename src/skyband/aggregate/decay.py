"""Decayed totals: a row counts half after each half-life, and sums of such rows are exact.

A row at t weighs ``2 ** (t / half_life)``, and the factor of a window's end is common to all keys (forward decay). So
sums of rows can be added and subtracted like those of plain values, and the order of keys does not depend on the end.
Time is divided into *epochs* of 32 half-lives. A value is multiplied, and rounded once, by its weight relative to the
end of its epoch. From one epoch to the next, weights grow by 2**32, which is exactly one limb of an exact sum: the
number of the epoch is added to the numbers of the limbs.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import NamedTuple

import numpy as np

from skyband.kernels.stream import Floats, Ints

__all__ = ["Decay", "power_of_two"]

_EPOCH = 32  # half-lives: the bits of a limb
_STEPS = 32  # entries of the table of powers
_LN2 = 0.6931471805599453
_TERMS = (1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0, 1.0)  # of exp, highest power first


def _table() -> Floats:
    with localcontext() as context:
        context.prec = 40
        return np.array([float(Decimal(2) ** (Decimal(step) / _STEPS)) for step in range(_STEPS)])


_POWERS = _table()


def power_of_two(fractions: Floats) -> Floats:
    """Return ``2 ** x`` for x in [0, 1), by additions and multiplications only: the same bits on every machine.

    >>> power_of_two(np.array([0.0, 0.5])).tolist()
    [1.0, 1.4142135623730951]
    """
    steps = np.minimum(np.floor(fractions * _STEPS), _STEPS - 1)
    rest = (fractions - steps / _STEPS) * _LN2
    found = np.full(fractions.shape, _TERMS[0])
    for term in _TERMS[1:]:
        found = found * rest + term
    powers: Floats = _POWERS[steps.astype(np.int64)] * found
    return powers


class Decay(NamedTuple):
    """The weights of rows; positions and the half-life are in microseconds."""

    half_life: int
    mean: bool = False  # whether sums of weighted values are divided by sums of weights: the factor of an end cancels

    @property
    def epoch(self) -> int:
        """The length of an epoch.

        >>> Decay(1_000_000).epoch
        32000000
        """
        return _EPOCH * self.half_life

    def weighted(self, values: Floats, positions: Ints) -> tuple[Floats, Ints]:
        """Return the values, weighted relative to the end of their epochs, and the numbers of the epochs.

        >>> values, epochs = Decay(10).weighted(np.array([8.0, 8.0]), np.array([310, 320]))
        >>> values.tolist(), epochs.tolist()
        ([4.0, 1.862645149230957e-09], [0, 1])
        """
        lives, rest = np.divmod(positions, self.half_life)
        epochs, place = np.divmod(lives, _EPOCH)
        with np.errstate(over="ignore"):
            weighed = values * power_of_two(rest / self.half_life)
        return np.ldexp(weighed, (place - _EPOCH).astype(np.int32)), epochs

    def epoch_of(self, ends: Ints) -> Ints:
        """Return the epoch whose end the totals of windows with these ends are relative to.

        >>> Decay(10).epoch_of(np.array([320, 321])).tolist()
        [0, 1]
        """
        found: Ints = (ends - 1) // self.epoch
        return found

    def as_of(self, totals: Floats, ends: Ints) -> Floats:
        """Return totals relative to the end of an epoch as of the ends of their windows; means as they are.

        >>> Decay(10).as_of(np.array([1.0, 1.0]), np.array([320, 310])).tolist()
        [1.0, 2.0]
        >>> Decay(10, mean=True).as_of(np.array([1.0, 1.0]), np.array([320, 310])).tolist()
        [1.0, 1.0]
        """
        if self.mean:
            return totals
        lives, rest = np.divmod((self.epoch_of(ends) + 1) * self.epoch - ends, self.half_life)
        with np.errstate(over="ignore"):
            found: Floats = np.ldexp(totals * power_of_two(rest / self.half_life), lives.astype(np.int32))
        return found
