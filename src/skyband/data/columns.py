"""Convert input columns (lists, NumPy, Arrow, pandas, polars) to the arrays that kernels read.

A column that is not valid is rejected here, before the state changes.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Set
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import one
from skyband.errors import InvalidInputError, brief
from skyband.kernels.stream import Floats, Ints
from skyband.windows import AXIS_LIMIT

__all__ = [
    "Positions",
    "as_arrow",
    "flag_column",
    "id_column",
    "length",
    "nan_as_null",
    "position_column",
    "refuse_orderless",
    "refuse_other_lengths",
    "score_column",
]

_EXACT = 2**53  # integers up to here are exact as float64
_COARSE = ("Y", "M", "W", "D", "h", "m", "s", "ms")  # units whose 64-bit range exceeds that of microseconds


class Positions(NamedTuple):
    """Positions in microseconds, and the Arrow type of window bounds in answers."""

    values: Ints
    valid: Any  # None: all are valid; else a boolean array
    kind: pa.DataType | None  # None: unknown, because all values are null


def length(column: Any, name: str) -> int:
    """Return the number of values in a column."""
    try:
        if isinstance(column, str | bytes | Mapping | Set):  # they have a length, but are not columns
            raise TypeError
        return operator.index(len(column))
    except TypeError as error:
        raise InvalidInputError(
            f"{name}={brief(column)} is not a column. Pass a list, a NumPy or Arrow array, or a pandas or polars "
            "Series."
        ) from error


def refuse_other_lengths(rows: int, of: str, **columns: Any) -> None:
    """Raise if a column does not have `rows` values; `of` is the name of the column that has."""
    for name, column in columns.items():
        if column is not None and length(column, name) != rows:
            raise InvalidInputError(
                f"{name} and {of} must have the same length, got {length(column, name)} {name} and {rows} {of}."
            )


def as_arrow(column: Any, name: str) -> pa.Array:
    """Return any column as one Arrow array. NaN and NaT in pandas are nulls; a column of nulls has type null."""
    length(column, name)
    try:
        array = _one_array(column)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{name} cannot be converted to a column of one type; this push was rejected: {error}"
        ) from error
    return pa.nulls(len(array)) if array.null_count == len(array) else array


def flag_column(column: Any, name: str) -> Any:
    """Return Booleans as an array; null is False.

    >>> flag_column([True, None, False], "deletes").tolist()
    [True, False, False]
    """
    found = as_arrow(column, name)
    if pa.types.is_null(found.type):
        return np.zeros(len(found), bool)
    if not pa.types.is_boolean(found.type):
        raise InvalidInputError(f"{name} must be Boolean, got type {found.type}. This push was rejected.")
    return found.fill_null(False).to_numpy(zero_copy_only=False)


def score_column(column: Any, name: str = "scores") -> Floats:
    """Return scores (or other numbers called `name`) as float64, NaN for nulls."""
    if _is_plain(column, "fiu"):
        values = column
    else:
        array = as_arrow(column, name)
        if not _is_number(array.type):
            raise InvalidInputError(f"{name} must be numbers, got type {array.type}.")
        if pa.types.is_decimal(array.type) or pa.types.is_null(array.type) or pa.types.is_float16(array.type):
            array = array.cast(pa.float64())
        if array.null_count and pa.types.is_integer(array.type):
            _refuse_inexact(array.fill_null(0).to_numpy(zero_copy_only=False), name)
            array = array.cast(pa.float64(), safe=False)
        values = array.to_numpy(zero_copy_only=False)
    if values.dtype.kind in "iu":
        _refuse_inexact(values, name)
    scores: Floats = _kernel_array(values, np.float64)
    return scores


def position_column(column: Any) -> Positions:
    """Return event times as int64 microseconds."""
    if _is_plain(column, "iu"):
        return _checked_positions(column, None, pa.int64())
    if isinstance(column, list | tuple) and all(value is None or isinstance(value, np.datetime64) for value in column):
        column = _datetimes(column)
    if isinstance(column, np.ndarray) and column.dtype.kind == "M" and column.ndim == 1:
        missing = np.isnat(np.ma.getdata(column)) | np.ma.getmaskarray(column)
        return _times(np.ma.getdata(column), missing, None)
    array = as_arrow(column, "positions")
    missing = array.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_null(array.type):
        return Positions(np.zeros(len(array), np.int64), ~missing if missing.any() else None, None)
    if pa.types.is_date(array.type) or pa.types.is_timestamp(array.type):
        zone = array.type.tz if pa.types.is_timestamp(array.type) else None
        return _times(array.to_numpy(zero_copy_only=False), missing, zone)
    if not pa.types.is_integer(array.type):
        raise InvalidInputError(f"positions must be int64 microseconds or timestamps, got type {array.type}.")
    return _checked_positions(array.fill_null(0).to_numpy(zero_copy_only=False), missing, pa.int64())


def id_column(column: Any) -> Ints | pa.Array:
    """Return integer ids as int64, other ids as an Arrow array in the given order."""
    if _is_plain(column, "iu") and column.dtype != np.uint64:
        return _kernel_array(column, np.int64)
    array = nan_as_null(as_arrow(column, "ids"))
    if array.null_count:
        raise InvalidInputError(
            f"ids must not be null, got null at ids[{int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))}]. "
            "Ties are broken by id. Pass ids=None to use row numbers."
        )
    if len(array) == 0:
        return np.empty(0, np.int64)
    if pa.types.is_integer(array.type) and array.type != pa.uint64():
        return _kernel_array(array.to_numpy(zero_copy_only=False), np.int64)
    refuse_orderless(array, "ids", "ties are broken by id")
    return array


def nan_as_null(array: pa.Array) -> pa.Array:
    """Return the array with nulls for NaN, as in pandas columns."""
    if not pa.types.is_floating(array.type):
        return array
    return pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)


def refuse_orderless(array: pa.Array, name: str, use: str) -> None:
    """Raise if values cannot be sorted, before the state changes."""
    try:
        pc.sort_indices(array.slice(0, 0))
    except (pa.ArrowException, NotImplementedError) as error:
        raise InvalidInputError(
            f"{name} must be sortable, because {use}, but type {array.type} is not. Pass text, numbers or times "
            "instead."
        ) from error


def _one_array(column: Any) -> pa.Array:
    shape = getattr(column, "shape", (1,))
    if isinstance(shape, tuple) and len(shape) != 1:
        raise ValueError(f"a {type(column).__name__} of shape {shape} is not a column. Pass one column of it.")
    found = column
    if not isinstance(found, pa.Array | pa.ChunkedArray):
        found = column.to_arrow() if hasattr(column, "to_arrow") else pa.array(column, from_pandas=True)
    if isinstance(found, pa.ChunkedArray):
        found = _of_one_type(found)
    if not isinstance(found, pa.Array):
        raise TypeError(f"a {type(found).__name__} is not a column. Pass one column of it.")
    if pa.types.is_dictionary(found.type):
        found = found.dictionary_decode()
    kind = _WITHOUT_VIEWS.get(found.type)
    return found if kind is None else found.cast(kind)


def _of_one_type(column: pa.ChunkedArray) -> pa.Array:
    """Return one array of the column's type: dictionaries of ids and groups have one type for all pushes."""
    found = one(column)
    if found.type != column.type:
        raise InvalidInputError(
            f"a column of type {column.type} can have 2 GB of text in one push, got {column.nbytes:,} bytes. "
            f"Push fewer rows at a time, or always pass the column as {found.type}."
        )
    return found


# Arrow cannot sort or take from view types.
_WITHOUT_VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


def _is_plain(column: Any, kinds: str) -> bool:
    """Whether the column is a NumPy array of these dtype kinds, which needs no conversion by Arrow."""
    return (
        isinstance(column, np.ndarray)
        and not isinstance(column, np.ma.MaskedArray)
        and column.ndim == 1
        and column.dtype.kind in kinds
    )


def _datetimes(column: Any) -> Any:
    """Return a list of NumPy times as one array, because Arrow supports only some of their units."""
    units = {value.dtype for value in column if value is not None and not np.isnat(value)}
    if len(units) > 1:
        raise InvalidInputError(
            f"positions must be of one type, got {', '.join(sorted(map(str, units)))}. Convert them to one type."
        )
    return np.array(column, units.pop() if units else "datetime64[us]")


def _times(times: Any, missing: Any, zone: str | None) -> Positions:
    """Return times of any unit as microseconds, rounded down."""
    if np.datetime_data(times.dtype)[0] in _COARSE:
        low, high = (np.datetime64(edge, "us").astype(times.dtype) for edge in (-AXIS_LIMIT, AXIS_LIMIT))
        far = ~missing & ((times < low) | (times > high))
        if far.any():
            _refuse_far_one(times, int(np.argmax(far)))
    values = times.astype("datetime64[us]").view(np.int64)
    if missing.any():
        values = np.where(missing, 0, values)
    return _checked_positions(values, missing, None if missing.all() else pa.timestamp("us", zone))


def _checked_positions(values: Any, missing: Any, kind: pa.DataType | None) -> Positions:
    if values.size and (int(values.min()) <= -AXIS_LIMIT or int(values.max()) >= AXIS_LIMIT):
        _refuse_far_one(values, int(np.argmax(np.abs(values.astype(np.float64)))))
    valid = None if missing is None or not missing.any() else ~missing
    return Positions(_kernel_array(values, np.int64), valid, kind)


def _refuse_far_one(values: Any, at: int) -> None:
    raise InvalidInputError(
        f"positions must be below 2**62 microseconds, got positions[{at}]={values[at]}. "
        "Window bounds around it would overflow 64-bit integers."
    )


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)
    )


def _refuse_inexact(values: Any, name: str) -> None:
    if values.dtype.itemsize < 8 or values.size == 0:
        return
    worst = int(np.argmax(np.abs(values.astype(np.float64))))
    if abs(int(values[worst])) > _EXACT:
        raise InvalidInputError(
            f"integer {name} must not exceed 2**53, got {name}[{worst}]={values[worst]}. As float64 it would be "
            f"rounded and could be ranked wrongly. Scale the {name}, or convert them to float64 if that is exact "
            "enough."
        )


def _kernel_array(values: Any, dtype: Any) -> Any:
    """Return a contiguous, writable array of the given dtype, the only kind that kernels are compiled for."""
    values = np.ascontiguousarray(values, dtype)
    return values if values.flags.writeable and values.flags.aligned else values.copy()
