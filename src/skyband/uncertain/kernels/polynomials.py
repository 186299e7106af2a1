"""Products of factors ``(1 - q) + q x``: the distribution of the number of existing tuples, as a polynomial.

A row contains the first `width` coefficients, from the highest power to the lowest: x**j is at index width - 1 - j, so
a multiplication is one pass that only reads ahead. `PAD` zeros follow x**0, so that a pass can continue to a multiple
of eight. Higher powers are dropped, because they never contribute to lower ones.

Coefficients are in [0, 1] and are never divided or subtracted from, so errors are never magnified. Four factors are
multiplied at once: first their product, with at most 11 roundings, then the row, with 4 more. With u = 2**-53, n
factors add at most 4nu to the relative error of a coefficient.
"""

from __future__ import annotations

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.stream import Floats, Ints

# Only the coefficients ends[LOW] <= j < ends[HIGH] of a row may be nonzero. PAD entries below LOW are 0.
LOW = 0
HIGH = 1

PAD = 16


@kernel
def copy(row: Floats, ends: Ints, into: Floats, into_ends: Ints) -> None:
    """Copy the polynomial `row` to `into`."""
    width = row.size - PAD
    low, high = ends[LOW], ends[HIGH]
    mine, other = row[width - high : width - low + PAD], into[width - high : width - low + PAD]
    for i in range(mine.size):
        other[i] = mine[i]
    into_ends[LOW], into_ends[HIGH] = low, high


@inner_kernel
def grow_by_four(row: Floats, ends: Ints, a: float, b: float, c: float, d: float, tiny: float) -> None:
    """Multiply by four factors, and drop coefficients below `tiny` at both ends. A factor with q = 0 has no effect."""
    width = row.size - PAD
    low, high = ends[LOW], ends[HIGH]
    no_a, no_b, no_c, no_d = 1.0 - a, 1.0 - b, 1.0 - c, 1.0 - d
    left_0, left_1, left_2 = no_a * no_b, no_a * b + a * no_b, a * b
    right_0, right_1, right_2 = no_c * no_d, no_c * d + c * no_d, c * d
    by_0 = left_0 * right_0
    by_1 = left_0 * right_1 + left_1 * right_0
    by_2 = left_0 * right_2 + left_1 * right_1 + left_2 * right_0
    by_3 = left_1 * right_2 + left_2 * right_1
    by_4 = left_2 * right_2
    first = max(0, width - high - 4)
    for place in range(first, width - high):
        row[place] = 0.0
    # Round the length up to a multiple of eight for SIMD; the padding is zero.
    count = (width - low - first + 7) // 8 * 8
    part = row[first : first + count + 4]
    for i in range(count):
        part[i] = (by_0 * part[i] + by_1 * part[i + 1]) + (by_2 * part[i + 2] + by_3 * part[i + 3]) + by_4 * part[i + 4]
    high = width - first
    while low < high and row[width - 1 - low] < tiny:
        row[width - 1 - low] = 0.0
        low += 1
    while low < high and row[width - high] < tiny:
        high -= 1
    ends[LOW], ends[HIGH] = low, high


@kernel
def grow(row: Floats, ends: Ints, qs: Floats, count: int, tiny: float) -> None:
    """Multiply by the factors of the first `count` entries of `qs`. Drop coefficients below `tiny` at both ends."""
    for at in range(0, count, 4):
        if ends[LOW] >= ends[HIGH]:
            return
        b = qs[at + 1] if at + 1 < count else 0.0
        c = qs[at + 2] if at + 2 < count else 0.0
        d = qs[at + 3] if at + 3 < count else 0.0
        grow_by_four(row, ends, qs[at], b, c, d, tiny)


@kernel
def mass(row: Floats, low: int, high: int) -> float:
    """Return the sum of the coefficients from ``x**low`` to before ``x**high``, with eight accumulators for SIMD."""
    width = row.size - PAD
    if low >= high:
        return 0.0
    part = row[width - high : width - low]
    size = part.size
    a, b, c, d, e, f, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(0, size - 7, 8):
        a += part[i]
        b += part[i + 1]
        c += part[i + 2]
        d += part[i + 3]
        e += part[i + 4]
        f += part[i + 5]
        g += part[i + 6]
        h += part[i + 7]
    for i in range(size // 8 * 8, size):
        a += part[i]
    return ((a + b) + (c + d)) + ((e + f) + (g + h))


@inner_kernel
def lengthen(law: Floats, degree: int, q: float) -> None:
    """Multiply a short polynomial of degree `degree`, with x**j at index j, by one factor."""
    stay = 1.0 - q
    law[degree + 1] = law[degree] * q
    for j in range(degree, 0, -1):
        law[j] = law[j] * stay + law[j - 1] * q
    law[0] *= stay
