"""Exact sums of doubles as integer limbs. Values can be added and subtracted without error.

A finite double is an integer times a power of two. The range of exponents is divided into segments of 32 bits: *limb* i
counts in units of ``2**(32 * i - 1088)``. 67 limbs cover all doubles. A double affects at most three adjacent limbs,
each by less than 2**33. So a window may contain 2**30 values of a key before a limb could exceed 64 bits. Values that
have left the window do not matter, because integers wrap around.
"""

from __future__ import annotations

import math

import numpy as np

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.stream import Floats, Ints

BITS = 32
MASK = 2**BITS - 1
LIMBS = 67  # enough for any double
UNIT = 1088  # limb 0 counts in units of 2**-UNIT
ONES = UNIT // BITS  # the limb that counts in units of 1
_FRACTION = 2**52 - 1
_EXPONENT = 2047
_PART = 27  # bits: both parts of a 53-bit integer have squares below 2**54
SAFE_LOW, SAFE_HIGH = 4, 64  # integers of 64 bits are neither subnormal nor infinite in units of these limbs
HALF_HIGH = 2**39
_LOWEST = -1074  # the exponent of the smallest double


@kernel
def shift_of(bits: int) -> int:
    """Return the left shift, in bits from limb 0, of the integer mantissa of the double `bits`."""
    return max((bits >> 52) & _EXPONENT, 1) - 1075 + UNIT


@kernel
def whole_of(bits: int) -> int:
    """Return the integer mantissa of the double `bits`, without its sign."""
    return (bits & _FRACTION) | (0 if (bits >> 52) & _EXPONENT == 0 else _FRACTION + 1)


@kernel
def limb_range(bits: Ints, found: Ints) -> None:
    """Widen the range ``[found[0], found[1])`` of limbs so that every finite double of `bits` fits."""
    for i in range(bits.size):
        if (bits[i] >> 52) & _EXPONENT == _EXPONENT:
            continue
        whole, shift = whole_of(bits[i]), shift_of(bits[i])
        if whole == 0:
            continue
        # Trailing zeros need no limb: integers use no limb below `ONES`.
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
    """Add a finite double to the limbs in ``total[begin:]``, which start with limb `low`."""
    add_whole(total, begin - low, whole_of(bits), shift_of(bits), bits < 0)


@kernel
def add_square(total: Ints, begin: int, low: int, bits: int) -> None:
    """Add the square of a finite double to the limbs of squares in ``total[begin:]``, which start with limb `low`."""
    whole, shift = whole_of(bits), 2 * shift_of(bits)
    upper, lower = whole >> _PART, whole & ((1 << _PART) - 1)
    add_whole(total, begin - low, lower * lower, shift, False)
    add_whole(total, begin - low, 2 * upper * lower, shift + _PART, False)
    add_whole(total, begin - low, upper * upper, shift + 2 * _PART, False)


@inner_kernel
def add_whole(total: Ints, begin: int, whole: int, shift: int, negative: bool) -> None:
    """Add an integer below 2**54, shifted left by `shift` bits. `begin` is the index of limb 0 in `total`."""
    at, by = begin + shift // BITS, shift % BITS
    lower, upper = (whole & MASK) << by, (whole >> BITS) << by
    parts = (lower & MASK, (lower >> BITS) + (upper & MASK), upper >> BITS)
    for i in range(3):
        if parts[i]:  # limbs of zero parts may be out of range
            total[at + i] += -parts[i] if negative else parts[i]


@kernel
def bit_length(number: int) -> int:
    """Return the number of bits of an integer between 1 and 2**53."""
    return math.frexp(np.float64(number))[1]


@kernel
def carried(total: Ints, limbs: int) -> bool:
    """Normalize a total to its absolute value with 32 bits per limb. Return whether it was negative.

    `total` must have space for two more limbs: the carry, and 0.
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
    """Round `limbs` limbs of 32 bits to a mantissa and an exponent, half to even.

    The mantissa has 53 bits, or fewer if the exponent would be below `lowest`. It is 0 for a total of 0, and 2**53 if
    53 one-bits were rounded up. The exponent is relative to limb 0.
    """
    top = limbs - 1
    while top >= 0 and total[top] == 0:
        top -= 1
    if top < 0:
        return 0, 0
    second = total[top - 1] if top >= 1 else 0
    third = total[top - 2] if top >= 2 else 0
    # `high` has the 62 highest bits, `rest` is nonzero if any lower bit is set.
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
        return 0, 0  # not reached for sums of doubles, which are multiples of the smallest double
    whole = high >> drop
    half, below = (high >> (drop - 1)) & 1, high & ((1 << (drop - 1)) - 1)
    if half and (below or rest or whole & 1):
        whole += 1
    return whole, exponent + drop


@inner_kernel
def scale_of(low: int) -> float:
    """Return the unit of limb `low`, 0 if a product of it and an integer may be subnormal or infinite."""
    return math.ldexp(1.0, BITS * low - UNIT) if SAFE_LOW <= low <= SAFE_HIGH else 0.0


@kernel
def rounded(total: Ints, limbs: int, low: int) -> float:
    """Round a total of `limbs` limbs, starting with limb `low`, to the nearest double, half to even.

    `total` is overwritten and must have space for two more limbs. Totals above the largest double become infinity.
    """
    if low < SAFE_LOW:
        return rounded_subnormal(total, limbs, low)
    carry = 0
    for i in range(limbs):
        number = total[i] + carry
        carry = number >> BITS
        total[i] = number & MASK
    # `whole` has the highest bits, up to the limb `at`, in two's complement.
    whole, at = carry, limbs
    while at > 0 and whole == (whole << BITS) >> BITS:
        at -= 1
        whole = (whole << BITS) | total[at]
    unit = BITS * (low + at) - UNIT
    if at == 0:
        return math.ldexp(np.float64(whole), unit)  # all bits
    # `whole` has more than 31 bits and not all of the number. With 55 bits or more, the lowest one can stand for all
    # bits below: a number that is not halfway between two doubles remains on its side.
    at -= 1
    shift, bound = 24, HALF_HIGH
    while shift and (whole >= bound or whole < -bound):
        shift, bound = shift - 8, bound << 8
    whole = (whole << shift) | (total[at] >> (BITS - shift))
    rest = total[at] & (MASK >> shift)
    for i in range(at):
        rest |= total[i]
    return math.ldexp(np.float64(whole | (rest != 0)), unit - shift)


@kernel
def rounded_subnormal(total: Ints, limbs: int, low: int) -> float:
    """Round a total that may be subnormal, which has fewer bits."""
    negative = carried(total, limbs)
    unit = BITS * low - UNIT
    whole, exponent = nearest(total, limbs + 1, _LOWEST - unit)
    found = math.ldexp(np.float64(whole), exponent + unit)
    return -found if negative else found


@kernel
def sum_exactly(values: Floats, bits: Ints, total: Ints, limbs: int, low: int) -> float:
    """Return the sum of finite doubles, rounded once."""
    total[:] = 0
    for i in range(values.size):
        add_double(total, 0, low, bits[i])
    return rounded(total, limbs, low)
