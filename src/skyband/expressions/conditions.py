"""Functions that choose between values: CASE, IF, coalesce, nullif, greatest, least."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.expressions.casts import cast, literal_null
from skyband.expressions.logic import compare, equal
from skyband.expressions.nodes import Evaluation, Failed, Node, Value, merged, to_numpy
from skyband.expressions.registry import common, function, mismatch
from skyband.expressions.types import is_fractional

__all__: list[str] = []


@function("choice", "case", "CASE WHEN a THEN b … [ELSE c] END, CASE a WHEN b THEN c … END", (2, 1000))
def _case(*parts: Node) -> Node:
    pairs = len(parts) // 2
    default = parts[-1] if len(parts) % 2 else literal_null(pa.null())
    conditions = [_condition(parts[2 * at]) for at in range(pairs)]
    *results, default = common("case", [*(parts[2 * at + 1] for at in range(pairs)), default])

    def run(rows: Evaluation) -> Value:
        found = rows.value(default)
        for condition, result in zip(reversed(conditions), reversed(results), strict=True):
            found = _choose(rows.value(condition), rows.value(result), found)
        return found

    return Node(default.type, run)


def _condition(arg: Node) -> Node:
    if arg.type != pa.bool_():
        raise mismatch("case", [arg], "a condition must be of type boolean")
    return arg


def _choose(condition: Value, one: Value, other: Value) -> Value:
    """Only the chosen side of a row can fail."""
    chosen = pc.fill_null(condition.data, False)
    data = pc.if_else(chosen, one.data, other.data)
    if condition.failed is None and one.failed is None and other.failed is None:
        return Value(data)
    zero = np.zeros(1, np.uint8)
    taken = to_numpy(chosen)[0]
    failed: Failed = np.where(
        taken, zero if one.failed is None else one.failed, zero if other.failed is None else other.failed
    )
    if condition.failed is not None:
        failed = np.where(condition.failed, condition.failed, failed)  # type: ignore[arg-type]
    return Value(data, failed)


@function("choice", "if", "if(a, b, c)", 3)
def _if(condition: Node, one: Node, other: Node) -> Node:
    return _case(cast(condition, pa.bool_()) if pa.types.is_null(condition.type) else condition, one, other)


@function("choice", "nvl ifnull", "nvl(a, b), ifnull(a, b)", 2)
@function("choice", "coalesce", "coalesce(a, b, …)", (1, 1000))
def _coalesce(*args: Node) -> Node:
    parts = common("coalesce", args)

    def run(rows: Evaluation) -> Value:
        found = rows.value(parts[-1])
        for part in reversed(parts[:-1]):
            value = rows.value(part)
            found = _choose(Value(pc.is_valid(value.data), value.failed), value, found)
        return found

    return Node(parts[0].type, run)


@function("choice", "nvl2", "nvl2(a, b, c)", 3)
def _nvl2(arg: Node, one: Node, other: Node) -> Node:
    return _case(Node(pa.bool_(), lambda rows: _valid(rows.value(arg))), one, other)


def _valid(value: Value) -> Value:
    return Value(pc.is_valid(value.data), value.failed)


@function("choice", "nullif", "nullif(a, b)", 2)
def _nullif(left: Node, right: Node) -> Node:
    return _case(equal(left, right), literal_null(left.type), left)


@function("choice", "nanvl", "nanvl(a, b)", 2)
def _nanvl(left: Node, right: Node) -> Node:
    one, two = common("nanvl", [left, right])
    if not is_fractional(one.type) or not is_fractional(left.type) or not is_fractional(right.type):
        raise mismatch("nanvl", [left, right], "takes floats or doubles in process")

    def run(rows: Evaluation) -> Value:
        value = rows.value(one)
        return _choose(Value(pc.is_nan(value.data), value.failed), rows.value(two), value)

    return Node(one.type, run)


def _extreme(name: str, better: str, args: Sequence[Node]) -> Node:
    parts = common(name, args)
    if pa.types.is_null(parts[0].type):
        raise mismatch(name, args, "takes values with a type")

    def run(rows: Evaluation) -> Value:
        values = [rows.value(part) for part in parts]
        found = values[0].data
        for value in values[1:]:
            wins = pc.fill_null(compare(better, value.data, found), False)
            wins = pc.and_(pc.is_valid(value.data), pc.or_(wins, pc.is_null(found)))
            found = pc.if_else(wins, value.data, found)
        failures = [Value(pa.scalar(True), value.failed) for value in values]  # each argument is always evaluated
        return merged(failures, Value(found))

    return Node(parts[0].type, run)


@function("choice", "greatest", "greatest(a, b, …)", (2, 1000))
def _greatest(*args: Node) -> Node:
    return _extreme("greatest", ">", args)


@function("choice", "least", "least(a, b, …)", (2, 1000))
def _least(*args: Node) -> Node:
    return _extreme("least", "<", args)
