"""Columns as users have them (lists, NumPy, Arrow, pandas, polars) as the arrays that kernels read.

Nothing here changes anything: a column that cannot be taken is refused before the stream has moved.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import InvalidInputError
from skyband.kernels.stream import Floats, Ints
from skyband.windows import AXIS_LIMIT

__all__ = ["Positions", "as_arrow", "id_column", "length", "position_column", "score_column"]

_EXACT = 2**53  # whole numbers up to here are exact as float64


class Positions(NamedTuple):
    """Positions in microseconds, with the Arrow type that window bounds come back in."""

    values: Ints
    valid: Any  # None: all of them; else a boolean array
    kind: pa.DataType


def length(column: Any, name: str) -> int:
    """The number of values in a column."""
    try:
        return operator.index(len(column))
    except TypeError as error:
        raise InvalidInputError(
            f"{name}={column!r} is not a column; pass a list, a NumPy or Arrow array, a pandas or polars Series."
        ) from error


def as_arrow(column: Any, name: str) -> pa.Array:
    """Any column as one Arrow array; NaN and NaT in pandas columns are nulls."""
    length(column, name)
    if isinstance(column, pa.Array):
        return column
    try:
        if isinstance(column, pa.ChunkedArray):
            return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        if hasattr(column, "to_arrow"):
            return as_arrow(column.to_arrow(), name)
        found = pa.array(column, from_pandas=True)
        return as_arrow(found, name)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidInputError(f"{name} cannot be read as one column of one type: {error}") from error


def score_column(column: Any) -> Floats:
    """Scores as float64, NaN where there is none."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "fiu" and column.ndim == 1:
        values = column
    else:
        array = _decoded(as_arrow(column, "scores"))
        if not _is_number(array.type):
            raise InvalidInputError(
                f"scores are of type {array.type}; a score must be a number, or objects cannot be ranked."
            )
        if pa.types.is_decimal(array.type) or pa.types.is_null(array.type) or pa.types.is_float16(array.type):
            array = array.cast(pa.float64())
        if array.null_count and pa.types.is_integer(array.type):
            _refuse_inexact(array.drop_null().to_numpy(zero_copy_only=False))
            array = array.cast(pa.float64(), safe=False)
        values = array.to_numpy(zero_copy_only=False)
    if values.dtype.kind in "iu":
        _refuse_inexact(values)
    return _kernel_array(values, np.float64)


def position_column(column: Any) -> Positions:
    """Event times as int64 microseconds."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "iu" and column.ndim == 1:
        _refuse_far(column)
        return Positions(_kernel_array(column, np.int64), None, pa.int64())
    if isinstance(column, np.ndarray) and column.dtype.kind == "M" and column.ndim == 1:
        missing = np.isnat(column)
        values = column.astype("datetime64[us]").view(np.int64)
        return _checked_positions(values, ~missing if missing.any() else None, pa.timestamp("us"))
    array = _decoded(as_arrow(column, "positions"))
    if pa.types.is_null(array.type):
        array = array.cast(pa.int64())
    if pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("us"))
    if pa.types.is_timestamp(array.type):
        kind = pa.timestamp("us", array.type.tz)
        array = pc.floor_temporal(array, unit="microsecond").cast(kind, safe=False).view(pa.int64())
    elif pa.types.is_integer(array.type):
        kind = pa.int64()
    else:
        raise InvalidInputError(
            f"positions are of type {array.type}; they must be int64 microseconds or timestamps, "
            "or no window can be told from another."
        )
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    values = pc.fill_null(array, 0).to_numpy(zero_copy_only=False)
    return _checked_positions(values, valid, kind)


def id_column(column: Any) -> Ints | pa.Array:
    """Ids as int64 where they are whole numbers, else as an Arrow array in its own order."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "iu" and column.dtype != np.uint64 and column.ndim == 1:
        return _kernel_array(column, np.int64)
    array = _decoded(as_arrow(column, "ids"))
    if array.null_count:
        raise InvalidInputError(
            f"ids[{int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))}] is null; "
            "ties are broken by id, so every object needs one. Leave ids=None to use row numbers."
        )
    if pa.types.is_integer(array.type) and array.type != pa.uint64():
        return _kernel_array(array.to_numpy(zero_copy_only=False), np.int64)
    if pa.types.is_null(array.type) or pa.types.is_nested(array.type):
        raise InvalidInputError(f"ids are of type {array.type}, which has no order; ties are broken by id.")
    return array


def _checked_positions(values: Any, valid: Any, kind: pa.DataType) -> Positions:
    _refuse_far(values if valid is None else values[valid])
    return Positions(_kernel_array(values, np.int64), valid, kind)


def _decoded(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)
    )


def _refuse_inexact(values: Any) -> None:
    if values.dtype.itemsize < 8 or values.size == 0:
        return
    worst = int(np.argmax(np.abs(values.astype(np.float64))))
    if abs(int(values[worst])) > _EXACT:
        raise InvalidInputError(
            f"scores[{worst}]={values[worst]} is a whole number beyond 2**53; as float64 it could tie with its neighbour "
            "and rank wrongly. Scale the scores, or convert them to float64 yourself if that is exact enough."
        )


def _refuse_far(values: Any) -> None:
    if values.size and not (-AXIS_LIMIT < int(values.min()) and int(values.max()) < AXIS_LIMIT):
        worst = int(np.argmax(np.abs(values.astype(np.float64))))
        raise InvalidInputError(
            f"positions[{worst}]={values[worst]} is beyond 2**62; window bounds around it would leave the integer axis."
        )


def _kernel_array(values: Any, dtype: Any) -> Any:
    """Contiguous, of the right type, and writable: kernels are compiled for one kind of array only."""
    values = np.ascontiguousarray(values, dtype)
    return values if values.flags.writeable and values.flags.aligned else values.copy()
