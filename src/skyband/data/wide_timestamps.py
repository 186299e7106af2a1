"""Timestamps outside the years 1 to 9999, which Arrow supports and Python does not."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["far_times_as_text", "values_of", "with_far_times_as_text"]

_FIRST, _END = np.datetime64("0001-01-01", "D"), np.datetime64("10000-01-01", "D")
_PARTS = re.compile(r"(-?\d+)(-.*?)(\.\d+)?$")


def values_of(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return the values of a column; text for values that Python cannot represent.

    >>> values_of(pa.array([1_699_972_963_200_000_000, 0], pa.timestamp("us", "UTC")))[0]
    '+55840-01-01T00:00:00Z'
    """
    try:
        return list(column.to_pylist())
    except (ArithmeticError, ValueError):
        return [_value(scalar) for scalar in column]


def far_times_as_text(column: pa.ChunkedArray, *, bc: bool = False) -> pa.ChunkedArray:
    """Return the column unchanged, or as text if it contains a year that Arrow would write wrongly.

    As in ISO 8601, years after 9999 have a sign, and the years before year 1 are 0, -1, …. With `bc`, they are written
    as 55840 and 0006 BC.

    >>> times = pa.chunked_array([pa.array([1_699_972_963_200_000_000, 0, None], pa.timestamp("us", "UTC"))])
    >>> far_times_as_text(times).to_pylist()
    ['+55840-01-01 00:00:00.000000Z', '1970-01-01 00:00:00.000000Z', None]
    """
    kind = column.type
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)) or not _is_far(column):
        return column
    zone = "Z" if pa.types.is_timestamp(kind) and kind.tz is not None else ""
    texts = [
        None if number is None else _spelled(number, kind, bc=bc).replace("T", " ") + zone
        for number in column.cast(_integer(kind)).to_pylist()
    ]
    if bc:  # the zone precedes BC
        texts = [text and re.sub(r" BC(Z?)$", r"\1 BC", text) for text in texts]
    return pa.chunked_array([pa.array(texts, pa.string())])


def with_far_times_as_text(table: pa.Table) -> pa.Table:
    """Return the table with columns as text if they contain a time that Python cannot represent.

    >>> with_far_times_as_text(pa.table({"at": pa.array([1_699_972_963_200_000_000], pa.timestamp("us"))})).to_pylist()
    [{'at': '+55840-01-01 00:00:00.000000'}]
    """
    for place, name in enumerate(table.column_names):
        column = table.column(place)
        if (text := far_times_as_text(column)) is not column:
            table = table.set_column(place, name, text)
    return table


def _is_far(column: pa.ChunkedArray) -> bool:
    ends = pc.min_max(column.cast(_integer(column.type))).as_py()
    bounds = [_moment(ends[name], column.type) for name in ("min", "max") if ends[name] is not None]
    return any(not _FIRST <= bound < _END for bound in bounds)


def _value(scalar: pa.Scalar) -> Any:
    """Return a scalar as a Python value; nested values that Python cannot represent become text."""
    kind = scalar.type
    try:
        return scalar.as_py()
    except (ArithmeticError, ValueError):
        if pa.types.is_struct(kind):
            return {field.name: _value(scalar[place]) for place, field in enumerate(kind)}
        if pa.types.is_map(kind):
            return [(_value(pair["key"]), _value(pair["value"])) for pair in scalar.values]
        if pa.types.is_nested(kind):
            return [_value(item) for item in scalar.values]
        return _text(scalar)


def _text(scalar: pa.Scalar) -> str:
    kind = scalar.type
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        return str(scalar.cast(pa.string()))
    whole = re.sub(r"\.0+$", "", _spelled(scalar.value, kind))
    return whole + ("Z" if pa.types.is_timestamp(kind) and kind.tz is not None else "")


def _spelled(number: int, kind: pa.DataType, *, bc: bool = False) -> str:
    found = _PARTS.match(str(np.datetime_as_string(_moment(number, kind))))
    assert found is not None
    year, rest = int(found[1]), found[2]
    rest = rest.partition("T")[0] if pa.types.is_date(kind) else rest + (found[3] or "")
    if bc:
        return f"{year:04}{rest}" if year > 0 else f"{1 - year:04}{rest} BC"
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}{rest}"


def _moment(number: int, kind: pa.DataType) -> np.datetime64[Any]:
    unit: Any = ("D" if kind == pa.date32() else "ms") if pa.types.is_date(kind) else kind.unit
    return np.datetime64(number, unit)


def _integer(kind: pa.DataType) -> pa.DataType:
    return pa.int32() if kind == pa.date32() else pa.int64()
