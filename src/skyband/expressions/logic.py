"""Comparisons, and AND, OR and NOT with three truth values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.expressions.casts import cast
from skyband.expressions.failures import InvalidExpressionError
from skyband.expressions.nodes import Data, Evaluation, Node, Value, node, to_numpy
from skyband.expressions.registry import common, function, mismatch
from skyband.expressions.types import is_fractional, is_integral

__all__ = ["compare", "conjunction", "equal"]

_COMPARE = {"=": pc.equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}
_BOOLEAN = pa.bool_()


def _is_nan(data: Data) -> Data | None:
    """Return which values are NaN, or None if none is."""
    if isinstance(data, pa.Scalar):
        value = data.as_py()
        return pa.scalar(True) if value is not None and math.isnan(value) else None
    found = pc.is_nan(data)
    return found if pc.any(found).as_py() else None


def compare(name: str, left: Data, right: Data) -> Data:
    """Compare values of one type; NaN equals itself and is greater than any other number."""
    if pa.types.is_boolean(left.type) and name != "=":
        left, right = (pc.cast(side, pa.int8()) for side in (left, right))
    if not is_fractional(left.type):
        return _COMPARE[name](left, right)
    if name in ("<", "<="):
        return compare({"<": ">", "<=": ">="}[name], right, left)
    one, two = _is_nan(left), _is_nan(right)
    found = _COMPARE[name](left, right)
    if name == "=":
        return found if one is None or two is None else pc.or_kleene(found, pc.and_kleene(one, two))
    if name == ">":
        if one is None:
            return found
        return pc.or_kleene(found, one if two is None else pc.and_kleene(one, pc.invert(two)))
    return found if one is None else pc.or_kleene(found, one)


def _full(data: Data, left: Data, right: Data) -> Data:
    """Null where an operand is null: or_kleene may have decided without it."""
    if not data.type.equals(_BOOLEAN):
        return data
    nulls = [side for side in (left, right) if not isinstance(side, pa.Scalar) and side.null_count]
    for side in nulls:
        data = pc.if_else(pc.is_valid(side), data, pa.scalar(None, _BOOLEAN))
    if any(isinstance(side, pa.Scalar) and not side.is_valid for side in (left, right)):
        data = pc.if_else(pa.scalar(False), data, pa.scalar(None, _BOOLEAN))
    return data


def _comparison(name: str, left: Node, right: Node) -> Node:
    one, two = _comparable(name, left, right)
    return node(_BOOLEAN, lambda a, b: _full(compare(name, a, b), a, b), one, two)


def _comparable(name: str, left: Node, right: Node) -> list[Node]:
    if name != "=" and (_is_beyond(left, right) or _is_beyond(right, left)):
        raise mismatch(name, [left, right], "whole numbers are not compared with literals beyond bigint in process")
    if pa.types.is_null(left.type) and pa.types.is_null(right.type):
        raise mismatch(name, [left, right], "two nulls without a type cannot be compared in process")
    try:
        return common(name, [left, right])
    except InvalidExpressionError:
        raise mismatch(name, [left, right], "values of these types cannot be compared in process") from None


def _is_beyond(one: Node, other: Node) -> bool:
    """Whether Spark replaces the comparison of a whole number with a large literal by true or false, for nulls too."""
    large = pa.types.is_decimal(other.type) and other.is_literal and other.literal is not None
    return is_integral(one.type) and large and not -(2**63) <= other.literal < 2**63


def equal(left: Node, right: Node) -> Node:
    """Return the node of ``left = right``."""
    return _comparison("=", left, right)


for _name in _COMPARE:
    function("comparison", _name, f"a {_name} b", 2, "Also `a == b`." if _name == "=" else "")(
        lambda a, b, name=_name: _comparison(name, a, b)
    )


@function("comparison", "<>", "a <> b, a != b", 2)
def _different(left: Node, right: Node) -> Node:
    return node(_BOOLEAN, pc.invert, equal(left, right))


@function(
    "comparison",
    "<=> equal_null",
    "a <=> b, a IS [NOT] DISTINCT FROM b, equal_null(a, b)",
    2,
    "Also `a IS [NOT] TRUE` and `FALSE`.",
)
def _null_safe_equal(left: Node, right: Node) -> Node:
    one, two = _comparable("<=>", left, right)

    def run(rows: Evaluation) -> Value:
        left, right = rows.value(one), rows.value(two)
        nulls = [pc.is_null(side.data) for side in (left, right)]
        same = pc.fill_null(_full(compare("=", left.data, right.data), left.data, right.data), False)
        return Value(pc.or_(same, pc.and_(*nulls)), _either(left, right))

    return Node(_BOOLEAN, run)


def _either(left: Value, right: Value) -> Any:
    if left.failed is None or right.failed is None:
        return right.failed if left.failed is None else left.failed
    return np.where(left.failed, left.failed, right.failed)


@function("comparison", "between", "a [NOT] BETWEEN low AND high", 3)
def _between(value: Node, low: Node, high: Node) -> Node:
    return conjunction(_comparison(">=", value, low), _comparison("<=", value, high))


@function("comparison", "in", "a [NOT] IN (b, c, …)", (2, 1000))
def _in(value: Node, *options: Node) -> Node:
    value, *options = common("in", [value, *options])  # type: ignore[assignment]
    if pa.types.is_null(value.type):
        raise mismatch("in", [value], "nulls without a type cannot be compared in process")
    if all(option.is_literal and option.literal is not None for option in options) and not is_fractional(value.type):
        known = pa.array([option.literal for option in options], value.type)
        null = pa.scalar(None, _BOOLEAN)
        return node(_BOOLEAN, lambda data: pc.if_else(pc.is_valid(data), pc.is_in(data, known), null), value)
    found = None
    for option in options:
        same = _comparison("=", value, option)
        found = same if found is None else _disjunction(found, same)
    assert found is not None
    return found


def _truth(name: str, left: Node, right: Node) -> None:
    for side in (left, right):
        if side.type != _BOOLEAN and not pa.types.is_null(side.type):
            raise mismatch(name, [left, right], "takes conditions of type boolean")


def conjunction(left: Node, right: Node) -> Node:
    """Return the node of ``left AND right``; the right side does not fail where the left one is false."""
    return _shortcut(left, right, pc.and_kleene, False)


def _disjunction(left: Node, right: Node) -> Node:
    return _shortcut(left, right, pc.or_kleene, True)


def _shortcut(left: Node, right: Node, compute: Any, decided: bool) -> Node:
    def run(rows: Evaluation) -> Value:
        one, two = rows.value(left), rows.value(right)
        failed = two.failed
        if failed is not None:
            known = to_numpy(pc.fill_null(pc.equal(one.data, decided), False))[0]
            failed = np.where(known, 0, failed).astype(np.uint8)
        return Value(compute(one.data, two.data), _either(Value(None, one.failed), Value(None, failed)))

    return Node(_BOOLEAN, run)


def _typed(name: str, left: Node, right: Node) -> list[Node]:
    _truth(name, left, right)
    return [cast(left, _BOOLEAN), cast(right, _BOOLEAN)]


@function("logic", "and", "a AND b", 2)
def _and(left: Node, right: Node) -> Node:
    return conjunction(*_typed("and", left, right))


@function("logic", "or", "a OR b", 2)
def _or(left: Node, right: Node) -> Node:
    return _disjunction(*_typed("or", left, right))


@function("logic", "not", "NOT a, !a", 1)
def _not(arg: Node) -> Node:
    one, _ = _typed("not", arg, arg)
    return node(_BOOLEAN, pc.invert, one)


def _test(arg: Node, compute: Any) -> Node:
    def run(rows: Evaluation) -> Value:
        value = rows.value(arg)
        return Value(compute(value.data), value.failed)

    return Node(_BOOLEAN, run)


@function("logic", "isnull", "a IS NULL, isnull(a)", 1, "Also `a IS UNKNOWN`.")
def _is_null(arg: Node) -> Node:
    return _test(arg, pc.is_null)


@function("logic", "isnotnull", "a IS NOT NULL, isnotnull(a)", 1)
def _is_not_null(arg: Node) -> Node:
    return _test(arg, pc.is_valid)


@function("logic", "isnan", "isnan(a)", 1, "For floats and doubles.")
def _isnan(arg: Node) -> Node:
    if not is_fractional(arg.type):
        raise mismatch("isnan", [arg], "takes a float or a double in process")
    return _test(arg, lambda data: pc.fill_null(pc.is_nan(data), False))
