"""Additive columns of a partial: number of values, number of infinities, and exact sums of values and squares.

Limb i of squares counts in units of ``2**(32 * i - 2176)``. Values that fit into the limbs from `low` to `high` have
squares that fit into the limbs from ``2 * low`` to ``2 * high``. So one range of limbs determines the columns of both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from skyband.aggregate.kernels.exact_sum import LIMBS, limb_range
from skyband.aggregate.kernels.partials import FIRST_LIMB
from skyband.kernels.stream import Ints

__all__ = ["Addends", "fitted"]

_LIMB, _SQUARE = "limb_", "square_"  # prefixes of columns in tables of partials, followed by the limb


class Addends(NamedTuple):
    """The additive columns, in order: count, infinities, limbs of the sum, limbs of the sum of squares."""

    powers: int  # 0: count only; 1: also the sum of values; 2: also the sum of squares
    low: int = 0  # the first limb of the sum
    limbs: int = 0

    @classmethod
    def of_width(cls, powers: int, low: int, width: int) -> Addends:
        """Return the addends with `width` columns.

        >>> Addends.of_width(2, 33, 8)
        Addends(powers=2, low=33, limbs=2)
        """
        return cls(powers, low, (width - FIRST_LIMB) // (2 * powers - 1)) if powers else cls(0)

    @property
    def width(self) -> int:
        """Number of columns.

        >>> Addends(0).width, Addends(1, 33, 2).width, Addends(2, 33, 2).width
        (1, 4, 8)
        """
        return FIRST_LIMB + self.limbs * (2 * self.powers - 1) if self.powers else 1

    @property
    def names(self) -> list[str]:
        """Column names in tables of partials.

        >>> Addends(2, 33, 1).names
        ['count', 'infinite', 'limb_33', 'square_66', 'square_67']
        """
        if not self.powers:
            return ["count"]
        limbs = range(self.low, self.low + self.limbs)
        squares = range(2 * limbs.start, 2 * limbs.stop) if self.powers > 1 else ()
        return ["count", "infinite", *(f"{_LIMB}{limb}" for limb in limbs), *(f"{_SQUARE}{limb}" for limb in squares)]

    def named_in(self, names: Iterable[str]) -> Addends:
        """Return the same powers with the limbs of a table that has these columns."""
        limbs = [int(name.removeprefix(_LIMB)) for name in names if name.startswith(_LIMB)]
        return Addends(self.powers, min(limbs), max(limbs) + 1 - min(limbs)) if self.powers and limbs else self

    def holding(self, bits: Ints) -> Addends:
        """Return the addends extended by the limbs that these doubles need."""
        if not self.powers:
            return self
        found = np.array([self.low, self.low + self.limbs] if self.limbs else [LIMBS, 0], np.int64)
        limb_range(bits, found)
        low, high = map(int, found)
        return Addends(self.powers, low, high - low) if high > low else self

    def joined(self, other: Addends) -> Addends:
        """Return the same powers with the limbs of both."""
        if not other.limbs or not self.powers:
            return self
        low, high = other.low, other.low + other.limbs
        if self.limbs:
            low, high = min(low, self.low), max(high, self.low + self.limbs)
        return Addends(self.powers, low, high - low)


def fitted(rows: Any, before: Addends, after: Addends) -> Any:
    """Convert rows from the columns of `before` to those of `after`. New columns are 0.

    Limbs below the first of `after` are dropped; the caller knows that they are 0.
    """
    if before == after:
        return rows
    found = np.zeros((*rows.shape[:-1], after.width), np.int64)
    common = min(FIRST_LIMB, before.width, after.width)
    found[..., :common] = rows[..., :common]
    begin, begin_before = FIRST_LIMB, FIRST_LIMB
    for power in range(1, min(before.powers, after.powers) + 1):
        at, held = begin + power * (before.low - after.low), power * before.limbs
        dropped = max(0, begin - at)
        if after.limbs and held > dropped:
            kept = rows[..., begin_before + dropped : begin_before + held]
            found[..., at + dropped : at + held] = kept
        begin, begin_before = begin + power * after.limbs, begin_before + held
    return found
