"""Arithmetic: the operators and their try_ forms, abs, and remainders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.expressions import decimals
from skyband.expressions.casts import cast
from skyband.expressions.intervals import shifted
from skyband.expressions.nodes import Data, Node, Value, fail, from_numpy, node, to_numpy
from skyband.expressions.registry import common, function, mismatch
from skyband.expressions.types import DOUBLE, STRING, adjusted, decimal_for, is_fractional, is_integral, is_numeric

__all__ = ["number_pair", "relaxed"]

_PLAIN = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
_CHECKED = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}


def number_pair(name: str, left: Node, right: Node) -> tuple[Node, Node]:
    """Return the operands as two integers of one type, two floats of one type, or two decimals."""
    for one, other in ((left, right), (right, left)):
        fits = is_numeric(one.type) or pa.types.is_null(one.type) or (one.type == STRING and is_numeric(other.type))
        if not fits:
            raise mismatch(name, [left, right], "takes two numbers")
    if pa.types.is_null(left.type) and pa.types.is_null(right.type):
        return cast(left, DOUBLE), cast(right, DOUBLE)
    kinds = [left.type, right.type]
    if any(map(pa.types.is_decimal, kinds)) and not any(is_fractional(kind) or kind == STRING for kind in kinds):
        if any(map(pa.types.is_null, kinds)):
            left, right = common(name, [left, right])
        return _as_decimal(left), _as_decimal(right)
    left, right = common(name, [left, right])
    return left, right


def _as_decimal(arg: Node) -> Node:
    return cast(arg, decimal_for(arg.type, arg.literal if arg.is_literal and is_integral(arg.type) else None))


def _binary(name: str, left: Node, right: Node, *, safe: bool = False) -> Node:
    if not safe and name in ("+", "-"):
        moved = shifted(name, left, right)
        if moved is not None:
            return moved
    one, two = number_pair(name, left, right)
    if pa.types.is_decimal(one.type):
        return _decimal(name, one, two, safe)
    if is_fractional(one.type):
        return node(one.type, _PLAIN[name], one, two)
    return node(one.type, relaxed(lambda a, b: _checked(name, a, b), safe), one, two)


def relaxed(compute: Callable[..., Any], safe: bool) -> Callable[..., Any]:
    """Return null instead of failing, if `safe`."""
    if not safe:
        return compute
    return lambda *data: Value(found.data) if isinstance(found := compute(*data), Value) else found


def _checked(name: str, left: Data, right: Data) -> Value:
    """Compute with integers; rows that overflow fail."""
    try:
        return Value(_CHECKED[name](left, right))
    except pa.ArrowInvalid:
        pass
    kind = left.type
    small = kind.bit_width < 32
    if kind.bit_width < 64:
        found = _PLAIN[name](pc.cast(left, pa.int64()), pc.cast(right, pa.int64()))
        numbers, valid = to_numpy(found)
        limits = np.iinfo(kind.to_pandas_dtype())
        bad = (numbers < limits.min) | (numbers > limits.max)
        data = from_numpy(np.where(bad, 0, numbers), valid, kind, left, right)
        return fail(data, bad, "BINARY_ARITHMETIC_OVERFLOW" if small else "ARITHMETIC_OVERFLOW")
    wrapped = _PLAIN[name](left, right)
    one, two, seen = (pc.cast(side, pa.decimal256(19, 0)) for side in (left, right, wrapped))
    bad = to_numpy(pc.fill_null(pc.not_equal(_PLAIN[name](one, two), seen), False))[0]
    return fail(wrapped, bad, "ARITHMETIC_OVERFLOW")


def _decimal(name: str, left: Node, right: Node, safe: bool) -> Node:
    one, two = left.type, right.type
    if name == "*":
        precision, scale = one.precision + two.precision + 1, one.scale + two.scale
    else:
        scale = max(one.scale, two.scale)
        precision = max(one.precision - one.scale, two.precision - two.scale) + scale + 1
    kind = adjusted(precision, scale)
    if precision <= 38:
        return node(kind, lambda a, b: pc.cast(_PLAIN[name](a, b), kind), left, right)
    if name == "*":
        if precision > 76:
            raise mismatch(name, [left, right], "a product of so many digits is not supported in process")
        return node(kind, relaxed(lambda a, b: _product(a, b, kind), safe), left, right)

    def run(a: Data, b: Data) -> Value:
        sides = (pc.cast(side, pa.decimal256(precision, scale)) for side in (a, b))
        return decimals.fit(_PLAIN[name](*sides), kind)

    return node(kind, relaxed(run, safe), left, right)


def _product(left: Data, right: Data, kind: pa.DataType) -> Value:
    """Multiply decimals whose product has more than 38 digits: Spark rounds it to 38 digits, and then to the scale."""
    one, two = (pc.cast(side, pa.decimal256(side.type.precision, side.type.scale)) for side in (left, right))
    exact = decimals.wide(pc.multiply(one, two))
    scale = exact.type.scale
    rounded = exact
    for dropped in range(1, scale - kind.scale + 1):
        long = decimals.exceeds(exact, 38 - scale + dropped - 1)
        if not long.any():
            break
        shorter = decimals.wide(decimals.rounded(exact, scale - dropped), scale)
        rounded = pc.if_else(pa.array(np.broadcast_to(long, _length(rounded))), shorter, rounded)
    if isinstance(exact, pa.Scalar) and not isinstance(rounded, pa.Scalar):
        rounded = rounded[0]
    return decimals.fit(rounded, kind)


def _length(data: Data) -> int:
    return 1 if isinstance(data, pa.Scalar) else len(data)


for _sign, _word in (("+", "add"), ("-", "subtract"), ("*", "multiply")):
    function("arithmetic", _sign, f"a {_sign} b", 2)(lambda a, b, sign=_sign: _binary(sign, a, b))
    function("arithmetic", f"try_{_word}", f"try_{_word}(a, b)", 2)(
        lambda a, b, sign=_sign: _binary(sign, a, b, safe=True)
    )


@function("arithmetic", "negative", "-a", 1)
def _negative(arg: Node) -> Node:
    if not is_numeric(arg.type):
        raise mismatch("-", [arg], "takes a number")

    def run(data: Data) -> Data:
        if not is_integral(arg.type):
            return pc.negate(data)
        low = np.iinfo(arg.type.to_pandas_dtype()).min
        try:
            return pc.negate_checked(data)
        except pa.ArrowInvalid:
            return fail(pc.negate(data), to_numpy(pc.fill_null(pc.equal(data, low), False))[0], "ARITHMETIC_OVERFLOW")

    return node(arg.type, run, arg)


@function("arithmetic", "positive", "+a", 1)
def _positive(arg: Node) -> Node:
    if not is_numeric(arg.type):
        raise mismatch("+", [arg], "takes a number")
    return node(arg.type, lambda data: data, arg)


@function("arithmetic", "abs", "abs(a)", 1)
def _absolute(arg: Node) -> Node:
    if not is_numeric(arg.type):
        raise mismatch("abs", [arg], "takes a number")

    def run(data: Data) -> Data:
        try:
            return pc.abs_checked(data)
        except pa.ArrowInvalid:
            low = np.iinfo(arg.type.to_pandas_dtype()).min
            return fail(pc.abs(data), to_numpy(pc.fill_null(pc.equal(data, low), False))[0], "ARITHMETIC_OVERFLOW")

    return node(arg.type, run, arg)
