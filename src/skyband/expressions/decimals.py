"""Decimals: rounding into a type, and the exact numbers behind them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.expressions.nodes import Data, Value, fail, to_numpy

__all__ = ["cut", "exceeds", "fit", "rounded", "rounds_as_double", "to_double", "to_integer", "whole", "wide"]

_SHORT = 15  # digits of a decimal that a double can hold


def wide(data: Data, scale: int | None = None) -> Data:
    """Return the decimals with 76 digits, so that computing with them cannot overflow."""
    return pc.cast(data, pa.decimal256(76, data.type.scale if scale is None else scale))


def cut(data: Data, scale: int) -> Data:
    """Drop digits after the point, down to `scale` of them.

    At most nine digits are dropped at a time: Arrow divides decimals by powers of ten, and its division by numbers of
    more than 32 bits is wrong for some values, such as 4294967295.99999999999999999.

    >>> cut(pa.array([Decimal("4294967295.99999999999999999")]), 0)[0].as_py()
    Decimal('4294967295')
    """
    data = wide(data)
    while data.type.scale > scale:
        kind = pa.decimal256(76, max(scale, data.type.scale - 9))
        data = pc.cast(data, options=pc.CastOptions(target_type=kind, allow_decimal_truncate=True))
    return data


def rounded(data: Data, scale: int, *, even: bool = False) -> Data:
    """Round to `scale` digits after the point; halves go away from 0, or to the even neighbour."""
    if data.type.scale <= scale:
        return wide(data)
    near = cut(data, scale + 1)  # the next digit decides, unless halves go to the even neighbour
    found = cut(pc.round(near, scale, "half_towards_infinity"), scale)
    if not even:
        return found
    exact = pc.equal(wide(near, data.type.scale), wide(data))
    return pc.if_else(exact, cut(pc.round(near, scale, "half_to_even"), scale), found)


def whole(data: Data, *, up: bool) -> Data:
    """Return the next whole number at or above each value, or at or below."""
    found = cut(data, 0)
    compare, move = (pc.greater, pc.add) if up else (pc.less, pc.subtract)
    beyond = compare(wide(data), wide(found, data.type.scale))
    narrow, one = pc.cast(found, pa.decimal256(75, 0)), pa.scalar(Decimal(1), pa.decimal256(75, 0))
    return pc.if_else(beyond, move(narrow, one), found)


def fit(data: Data, kind: pa.DataType, *, even: bool = False) -> Value:
    """Round decimals to the scale of `kind`; values with too many digits fail.

    >>> fit(pa.array([Decimal("2.45")]), pa.decimal128(3, 1)).data[0].as_py()
    Decimal('2.5')
    """
    if data.type.scale > kind.scale:
        data = rounded(data, kind.scale, even=even)
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


def _unscaled(data: Data) -> Any:
    """Return decimals of at most 18 digits as whole numbers, without their scale. Values at null places vary."""
    data = _array(data)
    halves = np.frombuffer(data.buffers()[1], np.int64)
    return halves[2 * data.offset : 2 * (data.offset + len(data)) : 2]


def to_double(data: Data) -> Data:
    """Return the doubles nearest to decimals."""
    rows = _array(data)
    if data.type.precision <= _SHORT:
        found = pc.if_else(
            pc.is_valid(rows), pa.array(_unscaled(rows) / 10.0**data.type.scale), pa.scalar(None, pa.float64())
        )
    else:
        found = pc.cast(pc.cast(rows, pa.string()), pa.float64())
    return found[0] if isinstance(data, pa.Scalar) else found


def to_integer(data: Data) -> Value:
    """Return decimals as bigint, without the digits after the point; values that do not fit fail."""
    data = cut(data, 0)
    try:
        return Value(pc.cast(data, pa.int64()))
    except pa.ArrowInvalid:
        pass
    low, high = (pa.scalar(Decimal(limit), data.type) for limit in (-(2**63), 2**63 - 1))
    inside, _ = to_numpy(pc.fill_null(pc.and_(pc.greater_equal(data, low), pc.less_equal(data, high)), True))
    kept = pc.if_else(pa.array(inside), _array(data), pa.scalar(None, data.type))
    return fail(pc.cast(kept[0] if isinstance(data, pa.Scalar) else kept, pa.int64()), ~inside, "CAST_OVERFLOW")


def rounds_as_double(data: Data) -> Any:
    """Return a mask of values whose whole part changes when they become doubles, such as 9.99999999999999999.

    Spark casts a decimal to int through a double or not, depending on how the decimal was computed.
    """
    if data.type.precision <= _SHORT:
        return np.zeros(1, np.bool_)
    exact, valid = to_numpy(to_double(cut(data, 0)))
    near = np.trunc(to_numpy(to_double(data))[0])
    return (exact != near) if valid is None else (exact != near) & valid


def _array(data: Data) -> Any:
    return pa.repeat(data, 1) if isinstance(data, pa.Scalar) else data
