"""Exact sums: every double as a few whole numbers, which can be added and taken away without a trace.

A finite double is a whole number times a power of two. The axis of those powers is cut into stretches of 32 bits;
*limb* i counts in units of ``2**(32 * i - 1088)``, and 67 of them reach from the smallest double to beyond the largest.
A double touches at most three neighbours, each with less than 2**33. So 2**30 values of a key may stand in one window
before a limb could leave its 64 bits; what has come and gone before does not count, because the numbers wrap around.
"""

from __future__ import annotations

import math

import numpy as np

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.stream import Floats, Ints

BITS = 32
MASK = 2**BITS - 1
LIMBS = 67  # for any double
UNIT = 1088  # limb 0 counts in units of 2**-UNIT
ONES = UNIT // BITS  # the limb that counts in units of 1
_FRACTION = 2**52 - 1
_EXPONENT = 2047
_PART = 27  # bits: both parts of a whole number of 53 bits have squares below 2**54
_LOWEST = -1074  # the exponent of the smallest double


@kernel
def shift_of(bits: int) -> int:
    """By how many bits the whole number in the double `bits` is shifted left, in units of limb 0."""
    return max((bits >> 52) & _EXPONENT, 1) - 1075 + UNIT


@kernel
def whole_of(bits: int) -> int:
    """The whole number in the double `bits`, without its sign."""
    return (bits & _FRACTION) | (0 if (bits >> 52) & _EXPONENT == 0 else _FRACTION + 1)


@kernel
def limb_range(bits: Ints, found: Ints) -> None:
    """Widen the range ``[found[0], found[1])`` of limbs until every finite double of `bits` fits."""
    for i in range(bits.size):
        if (bits[i] >> 52) & _EXPONENT == _EXPONENT:
            continue
        whole, shift = whole_of(bits[i]), shift_of(bits[i])
        if whole == 0:
            continue
        # Trailing zeros need no limb: whole numbers stay above limb `ONES`.
        lowest = shift
        while whole & 255 == 0:
            whole >>= 8
            lowest += 8
        while whole & 1 == 0:
            whole >>= 1
            lowest += 1
        found[0] = min(found[0], lowest // BITS)
        found[1] = max(found[1], (shift + 52) // BITS + 1)


@kernel
def add_double(total: Ints, begin: int, low: int, bits: int) -> None:
    """Add a finite double to the limbs from `low` on that stand in `total` from `begin` on."""
    add_whole(total, begin - low, whole_of(bits), shift_of(bits), bits < 0)


@kernel
def add_square(total: Ints, begin: int, low: int, bits: int) -> None:
    """Add the square of a finite double to the limbs of squares from `low` on that stand from `begin` on."""
    whole, shift = whole_of(bits), 2 * shift_of(bits)
    upper, lower = whole >> _PART, whole & ((1 << _PART) - 1)
    add_whole(total, begin - low, lower * lower, shift, False)
    add_whole(total, begin - low, 2 * upper * lower, shift + _PART, False)
    add_whole(total, begin - low, upper * upper, shift + 2 * _PART, False)


@inner_kernel
def add_whole(total: Ints, begin: int, whole: int, shift: int, negative: bool) -> None:
    """Add a whole number below 2**54, shifted left by `shift` bits; the limb with number 0 would stand at `begin`."""
    at, by = begin + shift // BITS, shift % BITS
    lower, upper = (whole & MASK) << by, (whole >> BITS) << by
    parts = (lower & MASK, (lower >> BITS) + (upper & MASK), upper >> BITS)
    for i in range(3):
        if parts[i]:  # only these are sure to have a place
            total[at + i] += -parts[i] if negative else parts[i]


@kernel
def bit_length(number: int) -> int:
    """How many bits a number in 1..2**53 has."""
    return math.frexp(np.float64(number))[1]


@kernel
def carried(total: Ints, limbs: int) -> bool:
    """Bring the limbs of a total into 32 bits each, without its sign; return whether it is negative.

    `total` has room for two more: what is carried, and 0.
    """
    carry = 0
    for i in range(limbs):
        number = total[i] + carry
        total[i] = number & MASK
        carry = number >> BITS
    total[limbs], total[limbs + 1] = carry & MASK, 0
    negative = carry < 0
    if negative:
        borrow = 1
        for i in range(limbs + 1):
            number = (total[i] ^ MASK) + borrow
            total[i] = number & MASK
            borrow = number >> BITS
    return negative


@kernel
def nearest(total: Ints, limbs: int, lowest: int) -> tuple[int, int]:
    """The whole number and the power of two next to that many limbs of 32 bits; halfway, the even one.

    The whole number has 53 bits, or as many as are left where the power would be below `lowest`; 0 for nothing, and
    2**53 where all 53 were ones. The power counts from limb 0.
    """
    top = limbs - 1
    while top >= 0 and total[top] == 0:
        top -= 1
    if top < 0:
        return 0, 0
    second = total[top - 1] if top >= 1 else 0
    third = total[top - 2] if top >= 2 else 0
    # The 62 highest bits, and whether anything is left below them.
    missing = 62 - bit_length(total[top])
    if missing <= BITS:
        high = (total[top] << missing) | (second >> (BITS - missing))
        rest = (second & ((1 << (BITS - missing)) - 1)) | third
    else:
        high = (((total[top] << BITS) | second) << (missing - BITS)) | (third >> (2 * BITS - missing))
        rest = third & ((1 << (2 * BITS - missing)) - 1)
    for i in range(top - 2):
        rest |= total[i]
    exponent = BITS * top - missing
    drop = max(9, lowest - exponent)
    if drop > 62:
        return 0, 0  # not for sums of doubles, which are whole multiples of the smallest
    whole = high >> drop
    half, below = (high >> (drop - 1)) & 1, high & ((1 << (drop - 1)) - 1)
    if half and (below or rest or whole & 1):
        whole += 1
    return whole, exponent + drop


@kernel
def rounded(total: Ints, limbs: int, low: int) -> float:
    """The double next to a total of that many limbs from `low` on; halfway, the even one. `total` is used up.

    `total` has room for two more. Beyond the largest double it is an infinity.
    """
    negative = carried(total, limbs)
    unit = BITS * low - UNIT
    whole, exponent = nearest(total, limbs + 1, _LOWEST - unit)
    found = math.ldexp(np.float64(whole), exponent + unit)
    return -found if negative else found


@kernel
def sum_exactly(values: Floats, bits: Ints, total: Ints, limbs: int, low: int) -> float:
    """The sum of finite doubles, rounded once."""
    total[:] = 0
    for i in range(values.size):
        add_double(total, 0, low, bits[i])
    return rounded(total, limbs, low)
