"""Decimals: rounding into a type, and the exact numbers behind them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.expressions.nodes import Data, Value, fail, to_numpy

__all__ = ["exceeds", "fit", "to_double", "to_integer", "unscaled", "wide"]

_COMPACT = 18  # digits of a decimal that fits into 64 bits
_EXACT = 2**53  # whole numbers up to here are exact as doubles


def wide(data: Data, scale: int | None = None) -> Data:
    """Return the decimals with 76 digits, so that computing with them cannot overflow."""
    return pc.cast(data, pa.decimal256(76, data.type.scale if scale is None else scale))


def fit(data: Data, kind: pa.DataType, mode: str = "half_towards_infinity") -> Value:
    """Round decimals to the scale of `kind`; values with too many digits fail.

    >>> fit(pa.array([Decimal("2.45")]), pa.decimal128(3, 1)).data[0].as_py()
    Decimal('2.5')
    """
    if data.type.scale > kind.scale:
        data = wide(pc.round(wide(data), kind.scale, mode), kind.scale)
    try:
        return Value(pc.cast(data, kind))
    except pa.ArrowInvalid:
        pass
    data = wide(data, kind.scale)
    bad = exceeds(data, kind.precision - kind.scale)
    kept = pc.if_else(pa.array(bad), pa.scalar(None, data.type), _array(data))
    return fail(pc.cast(kept[0] if isinstance(data, pa.Scalar) else kept, kind), bad, "NUMERIC_VALUE_OUT_OF_RANGE")


def exceeds(data: Data, digits: int) -> Any:
    """Return a mask of the values with more than `digits` digits before the point."""
    limit = pa.scalar(Decimal(10) ** digits, data.type)
    found, valid = to_numpy(pc.greater_equal(pc.abs(data), limit))
    return found if valid is None else found & valid


def unscaled(data: Data) -> Any:
    """Return decimals of at most 18 digits as whole numbers, without their scale. Values at null places vary."""
    data = _array(data)
    halves = np.frombuffer(data.buffers()[1], np.int64)
    return halves[2 * data.offset : 2 * (data.offset + len(data)) : 2]


def to_double(data: Data, *, stored: bool) -> Data:
    """Return decimals as doubles.

    Spark divides a stored decimal of at most 18 digits as an integer by a power of ten; it rounds others correctly.
    Both give the same double below 2**53.
    """
    kind, rows = data.type, _array(data)
    nearest: Any = pc.cast(pc.cast(rows, pa.string()), pa.float64()) if kind.precision > 15 else None
    if kind.precision <= _COMPACT:
        whole = unscaled(rows)
        quotient = pa.array(whole / 10.0**kind.scale)
        if nearest is not None and not stored:
            quotient = pc.if_else(pa.array(np.abs(whole) < _EXACT), quotient, nearest)
        nearest = pc.if_else(pc.is_valid(rows), quotient, pa.scalar(None, pa.float64()))
    return nearest[0] if isinstance(data, pa.Scalar) else nearest


def to_integer(data: Data) -> Value:
    """Return decimals as bigint, without the digits after the point; values that do not fit fail."""
    if data.type.scale:
        data = pc.trunc(wide(data) if data.type.scale == data.type.precision else data)
    try:
        return Value(pc.cast(data, pa.int64()))
    except pa.ArrowInvalid:
        pass
    data = wide(data)
    low, high = (pa.scalar(Decimal(limit), data.type) for limit in (-(2**63), 2**63 - 1))
    inside, _ = to_numpy(pc.fill_null(pc.and_(pc.greater_equal(data, low), pc.less_equal(data, high)), True))
    kept = pc.if_else(pa.array(inside), _array(data), pa.scalar(None, data.type))
    return fail(pc.cast(kept[0] if isinstance(data, pa.Scalar) else kept, pa.int64()), ~inside, "CAST_OVERFLOW")


def _array(data: Data) -> Any:
    return pa.repeat(data, 1) if isinstance(data, pa.Scalar) else data
