"""Division: quotients and remainders. The divisor is evaluated first, and must not be 0."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.expressions import decimals
from skyband.expressions.arithmetic import number_pair, relaxed
from skyband.expressions.casts import cast
from skyband.expressions.nodes import Data, Node, Value, fail, from_numpy, node, to_numpy
from skyband.expressions.registry import function, mismatch
from skyband.expressions.types import DOUBLE, adjusted, is_integral, is_numeric

__all__: list[str] = []

_ZERO = {"/": "DIVIDE_BY_ZERO", "div": "DIVIDE_BY_ZERO", "%": "REMAINDER_BY_ZERO", "pmod": "REMAINDER_BY_ZERO"}


def _divided(name: str, left: Node, right: Node, *, safe: bool = False) -> Node:
    """`/`, `%`, `div` and `pmod`: the divisor is evaluated first, and must not be 0."""
    if name == "/" and pa.types.is_null(left.type) and is_numeric(right.type):
        left = cast(left, DOUBLE)
    one, two = number_pair(name, left, right)
    if pa.types.is_decimal(one.type):
        if name != "/" or (two.type.precision > 9 and right.type != pa.int32()):
            raise mismatch(
                name, [left, right], "decimals are only divided by ints or decimals of up to 9 digits in process"
            )
        return _decimal_quotient(one, two, safe)
    if name == "div":
        if not is_integral(one.type):
            raise mismatch(name, [left, right], "takes whole numbers")
        one, two = cast(one, pa.int64()), cast(two, pa.int64())
    if name == "/":
        one, two = cast(one, DOUBLE), cast(two, DOUBLE)
    compute = {"/": _quotient, "%": _remainder, "div": _whole_quotient, "pmod": _positive_remainder}[name]
    return node(one.type, relaxed(lambda a, b: _by_non_zero(name, compute, a, b), safe), one, two, order=(1, 0))


def _by_non_zero(name: str, compute: Callable[[Any, Any], Any], left: Data, right: Data) -> Value:
    (one, valid_one), (two, valid_two) = to_numpy(left), to_numpy(right)
    valid = valid_one if valid_two is None else valid_two if valid_one is None else valid_one & valid_two
    zero = two == 0
    if zero.any():
        two = np.where(zero, two.dtype.type(1), two)
        zero = zero if valid is None else zero & valid
    with np.errstate(all="ignore"):
        found = compute(one, two)
    overflow: Any = False
    if name == "div":
        overflow = (one == -(2**63)) & (two == -1)
    value = fail(from_numpy(found, valid, left.type, left, right), zero, _ZERO[name])
    return fail(value.data, overflow, "ARITHMETIC_OVERFLOW") if np.any(overflow) and value.failed is None else value


def _quotient(one: Any, two: Any) -> Any:
    return one / two


def _remainder(one: Any, two: Any) -> Any:
    """The remainder with the sign of the dividend."""
    if two.dtype.kind == "i":
        return np.fmod(one, np.where(two == -1, two.dtype.type(1), two))
    return np.fmod(one, two)


def _whole_quotient(one: Any, two: Any) -> Any:
    found = one // np.where(two == -1, 1, two)
    found = found + ((found < 0) & (found * two != one))  # towards 0
    return np.where(two == -1, -one, found)


def _positive_remainder(one: Any, two: Any) -> Any:
    found = _remainder(one, two)
    with np.errstate(all="ignore"):
        return np.where(found < 0, _remainder(found + two, two), found)


def _decimal_quotient(left: Node, right: Node, safe: bool) -> Node:
    """Divide to 38 digits after the point, rounded, then round to the scale of the result, as Spark does.

    The divisor has at most 32 bits, because Arrow's division by longer decimals is wrong for some values.
    """
    one, two = left.type, right.type
    scale = max(6, one.scale + two.precision + 1)
    kind = adjusted(one.precision - one.scale + two.scale + scale, scale)
    digits = one.precision - one.scale + two.scale + 39
    start = 38 - two.precision
    if digits > 75 or start < one.scale:
        raise mismatch("/", [left, right], "a quotient of so many digits is not supported in process. Use doubles")

    def run(a: Data, b: Data) -> Value:
        zero = to_numpy(pc.fill_null(pc.equal(b, pa.scalar(Decimal(0), two)), False))[0]
        divisor = fail(b, zero, "DIVIDE_BY_ZERO").data
        dividend = pc.cast(a, pa.decimal256(one.precision - one.scale + start, start))
        exact = pc.divide(dividend, pc.cast(divisor, pa.decimal256(two.precision, two.scale)))
        found = decimals.fit(decimals.rounded(exact, 38), kind)
        if not zero.any():
            return found
        zero = zero & to_numpy(pc.is_valid(a))[0]
        marked = fail(found.data, zero, "DIVIDE_BY_ZERO")
        return marked if found.failed is None else Value(marked.data, np.where(zero, marked.failed, found.failed))  # type: ignore[arg-type]

    return node(kind, relaxed(run, safe), left, right, order=(1, 0))


function(
    "arithmetic",
    "/",
    "a / b",
    2,
    "Whole numbers give a double. Decimals are divided by an int, or by a decimal of at most 9 digits.",
)(lambda a, b: _divided("/", a, b))
function("arithmetic", "try_divide", "try_divide(a, b)", 2)(lambda a, b: _divided("/", a, b, safe=True))
function("arithmetic", "% mod", "a % b, mod(a, b)", 2, "Not for decimals.")(lambda a, b: _divided("%", a, b))
function("arithmetic", "try_mod", "try_mod(a, b)", 2, "Not for decimals.")(lambda a, b: _divided("%", a, b, safe=True))
function("arithmetic", "div", "a DIV b", 2, "Not for decimals.")(lambda a, b: _divided("div", a, b))
function("arithmetic", "pmod", "pmod(a, b)", 2, "Not for decimals.")(lambda a, b: _divided("pmod", a, b))
