"""Casts between types, as Spark does them in ANSI mode."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.expressions import cast_strings, decimals
from skyband.expressions.failures import InvalidExpressionError, code
from skyband.expressions.nodes import Data, Node, Value, fail, from_numpy, merged, node, to_numpy
from skyband.expressions.types import (
    DATE,
    DOUBLE,
    NTZ,
    STRING,
    TIMESTAMP,
    is_datetime,
    is_fractional,
    is_integral,
    spark_name,
)

__all__ = ["DAY", "cast", "literal_null", "narrow"]

DAY = 86_400_000_000  # microseconds
_SECOND = 1_000_000


def cast(arg: Node, kind: pa.DataType, *, safe: bool = False) -> Node:
    """Return the node cast to another type; where that is not possible, rows fail, or are null if `safe`."""
    if arg.type == kind:
        return arg
    if pa.types.is_null(arg.type):
        return literal_null(kind)
    compute = _kernel(arg, kind)
    if compute is None:
        raise InvalidExpressionError.types(
            f"a cast to {spark_name(kind)}", spark_name(arg.type), "this cast is not supported in process"
        )
    return node(kind, _without_failures(compute) if safe else compute, arg)


def literal_null(kind: pa.DataType) -> Node:
    """Return a null of this type."""
    return Node(kind, lambda rows: Value(pa.scalar(None, kind)), is_literal=True)


def _without_failures(compute: Callable[[Data], Any]) -> Callable[[Data], Any]:
    unsupported = code("SKYBAND_UNSUPPORTED_VALUE")

    def run(data: Data) -> Value:
        found = compute(data)
        if not isinstance(found, Value) or found.failed is None:
            return found if isinstance(found, Value) else Value(found)
        left = np.where(found.failed == unsupported, found.failed, 0).astype(np.uint8)
        return Value(found.data, left if left.any() else None)

    return run


def _kernel(arg: Node, kind: pa.DataType) -> Callable[[Data], Any] | None:
    source = arg.type
    if STRING in (source, kind):
        return cast_strings.parser(kind) if source == STRING else cast_strings.writer(source)
    if is_datetime(source):
        return _from_datetime(source, kind)
    if pa.types.is_boolean(source):
        return _from_boolean(kind)
    if pa.types.is_decimal(source):
        return _from_decimal(source, kind)
    if is_integral(source):
        return _from_integer(source, kind)
    return _from_float(source, kind) if is_fractional(source) else None


def _to_boolean(source: pa.DataType) -> Callable[[Data], Any]:
    zero = pa.scalar(Decimal(0) if pa.types.is_decimal(source) else 0, source)
    return lambda data: pc.not_equal(data, zero)


def _from_decimal(source: pa.DataType, kind: pa.DataType) -> Callable[[Data], Any] | None:
    if pa.types.is_boolean(kind):
        return _to_boolean(source)
    if pa.types.is_decimal(kind):
        return lambda data: decimals.fit(data, kind)
    if is_integral(kind):
        return lambda data: _decimal_to_integer(data, kind)
    return decimals.to_double if kind == DOUBLE else None


def _decimal_to_integer(data: Data, kind: pa.DataType) -> Value:
    found = narrow(decimals.to_integer(data), kind, "CAST_OVERFLOW")
    unsure = decimals.rounds_as_double(data) if kind != pa.int64() else np.zeros(1, np.bool_)
    return merged([fail(found.data, unsure, "SKYBAND_UNSUPPORTED_VALUE")], found) if unsure.any() else found


def _from_integer(source: pa.DataType, kind: pa.DataType) -> Callable[[Data], Any] | None:
    if pa.types.is_boolean(kind):
        return _to_boolean(source)
    if pa.types.is_decimal(kind):
        return lambda data: _integer_to_decimal(data, kind)
    if kind == DOUBLE or (kind == pa.float32() and source.bit_width < 32):  # Spark may skip a cast that rounds to float
        return lambda data: pc.cast(data, kind, safe=False)
    if is_integral(kind):
        return lambda data: narrow(Value(data), kind, "CAST_OVERFLOW")
    return _seconds if kind == TIMESTAMP else None


def _from_float(source: pa.DataType, kind: pa.DataType) -> Callable[[Data], Any] | None:
    if pa.types.is_boolean(kind):
        return _to_boolean(source)
    if is_fractional(kind):
        return lambda data: pc.cast(data, kind, safe=False)
    return (lambda data: _truncate(data, kind)) if is_integral(kind) else None


def _from_boolean(kind: pa.DataType) -> Callable[[Data], Any] | None:
    if is_integral(kind) or is_fractional(kind):
        return lambda data: pc.cast(pc.cast(data, pa.int8()), kind)
    return (lambda data: _integer_to_decimal(pc.cast(data, pa.int8()), kind)) if pa.types.is_decimal(kind) else None


def _integer_to_decimal(data: Data, kind: pa.DataType) -> Value:
    return decimals.fit(pc.cast(pc.cast(data, pa.int64()), pa.decimal128(19, 0)), kind)


def narrow(value: Value, kind: pa.DataType, condition: str) -> Value:
    """Cast integers to an integral type; values that do not fit fail with `condition`."""
    try:
        return Value(pc.cast(value.data, kind), value.failed)
    except pa.ArrowInvalid:
        pass
    numbers, valid = to_numpy(value.data)
    limits = np.iinfo(kind.to_pandas_dtype())
    bad = (numbers < limits.min) | (numbers > limits.max)
    found = fail(from_numpy(np.where(bad, 0, numbers), valid, kind, value.data), bad, condition)
    return merged([value], found)


def _truncate(data: Data, kind: pa.DataType) -> Value:
    """Cast floats to integers. Spark lets 2**63 pass as the largest bigint."""
    numbers, valid = to_numpy(pc.cast(data, pa.float64()))
    limits = np.iinfo(kind.to_pandas_dtype())
    with np.errstate(invalid="ignore"):
        bad = ~((np.floor(numbers) <= limits.max) & (np.ceil(numbers) >= limits.min))
        whole = np.where(bad, 0, numbers).astype(np.int64)
    if kind == pa.int64():
        whole = np.where(numbers == 2.0**63, limits.max, whole)
    return fail(from_numpy(whole, valid, kind, data), bad if valid is None else bad & valid, "CAST_OVERFLOW")


def _seconds(data: Data) -> Data:
    """Cast seconds to timestamps. Beyond the range of timestamps, Spark takes the nearest one."""
    numbers, valid = to_numpy(pc.cast(data, pa.int64()))
    limit = (2**63 - 1) // _SECOND
    micros = np.clip(numbers, -limit, limit) * _SECOND
    micros = np.where(numbers > limit, 2**63 - 1, np.where(numbers < -limit, -(2**63), micros))
    return from_numpy(micros, valid, TIMESTAMP, data)


def _from_datetime(source: pa.DataType, kind: pa.DataType) -> Callable[[Data], Any] | None:
    if source == DATE and kind in (TIMESTAMP, NTZ):
        return lambda data: _midnight(data, kind)
    if kind == DATE:
        return lambda data: _map(data, DATE, lambda micros: (micros // DAY).astype(np.int32))
    if is_datetime(kind):
        return lambda data: _map(data, kind, lambda micros: micros)
    if source == TIMESTAMP and is_integral(kind):
        return lambda data: narrow(
            Value(_map(data, pa.int64(), lambda micros: micros // _SECOND)), kind, "CAST_OVERFLOW"
        )
    if source == TIMESTAMP and kind == DOUBLE:
        return lambda data: _map(data, DOUBLE, lambda micros: micros / 1e6)
    return None


def _map(data: Data, kind: pa.DataType, compute: Callable[[Any], Any]) -> Data:
    numbers, valid = to_numpy(data)
    return from_numpy(compute(numbers), valid, kind, data)


def _midnight(data: Data, kind: pa.DataType) -> Value:
    days, valid = to_numpy(data)
    days = days.astype(np.int64)
    bad = np.abs(days) > (2**63 - 1) // DAY
    found = from_numpy(np.where(bad, 0, days) * DAY, valid, kind, data)
    return fail(found, bad, "SKYBAND_UNSUPPORTED_VALUE")
