"""Columns as users have them (lists, NumPy, Arrow, pandas, polars) as the arrays that kernels read.

Nothing here changes anything: a column that cannot be taken is refused before the stream has moved.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Set
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import InvalidInputError, brief
from skyband.kernels.stream import Floats, Ints
from skyband.windows import AXIS_LIMIT

__all__ = [
    "Positions",
    "as_arrow",
    "id_column",
    "length",
    "nan_as_null",
    "position_column",
    "refuse_orderless",
    "refuse_other_lengths",
    "score_column",
]

_EXACT = 2**53  # whole numbers up to here are exact as float64
_COARSE = ("Y", "M", "W", "D", "h", "m", "s", "ms")  # units in which 64 bits reach beyond the axis of microseconds


class Positions(NamedTuple):
    """Positions in microseconds, with the Arrow type that window bounds come back in."""

    values: Ints
    valid: Any  # None: all of them; else a boolean array
    kind: pa.DataType | None  # None: there is no value that would tell


def length(column: Any, name: str) -> int:
    """The number of values in a column."""
    try:
        if isinstance(column, str | bytes | Mapping | Set):  # they have a length, but not a value for each row in turn
            raise TypeError
        return operator.index(len(column))
    except TypeError as error:
        raise InvalidInputError(
            f"{name}={brief(column)} is not a column; pass a list, a NumPy or Arrow array, a pandas or polars Series."
        ) from error


def refuse_other_lengths(rows: int, of: str, **columns: Any) -> None:
    """Refuse columns that have not one value for each row; `of` is the column that has `rows` of them."""
    for name, column in columns.items():
        if column is not None and length(column, name) != rows:
            raise InvalidInputError(
                f"{name} has {length(column, name)} values and {of} has {rows}; a row has one of each, so they must be "
                "equally long."
            )


def as_arrow(column: Any, name: str) -> pa.Array:
    """Any column as one Arrow array. NaN and NaT in pandas columns are nulls; nulls alone have no type."""
    length(column, name)
    try:
        array = _one_array(column)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{name} cannot be read as one column of one type, and nothing of them was taken in: {error}"
        ) from error
    return pa.nulls(len(array)) if array.null_count == len(array) else array


def score_column(column: Any, name: str = "scores") -> Floats:
    """Scores, or whatever numbers are called here, as float64, NaN where there is none."""
    if _is_plain(column, "fiu"):
        values = column
    else:
        array = as_arrow(column, name)
        if not _is_number(array.type):
            raise InvalidInputError(
                f"{name} are of type {array.type}; a {name[:-1]} must be a number, or objects cannot be ranked."
            )
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
    """Event times as int64 microseconds."""
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
        raise InvalidInputError(
            f"positions are of type {array.type}; they must be int64 microseconds or timestamps, "
            "or no window can be told from another."
        )
    return _checked_positions(array.fill_null(0).to_numpy(zero_copy_only=False), missing, pa.int64())


def id_column(column: Any) -> Ints | pa.Array:
    """Ids as int64 where they are whole numbers, else as an Arrow array in its own order."""
    if _is_plain(column, "iu") and column.dtype != np.uint64:
        return _kernel_array(column, np.int64)
    array = nan_as_null(as_arrow(column, "ids"))
    if array.null_count:
        raise InvalidInputError(
            f"ids[{int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))}] is null; "
            "ties are broken by id, so every object needs one. Leave ids=None to use row numbers."
        )
    if len(array) == 0:
        return np.empty(0, np.int64)
    if pa.types.is_integer(array.type) and array.type != pa.uint64():
        return _kernel_array(array.to_numpy(zero_copy_only=False), np.int64)
    refuse_orderless(array, "ids", "ties are broken by id")
    return array


def nan_as_null(array: pa.Array) -> pa.Array:
    """The array with nulls for NaN, as pandas columns have it."""
    if not pa.types.is_floating(array.type):
        return array
    return pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)


def refuse_orderless(array: pa.Array, name: str, use: str) -> None:
    """Refuse values that cannot be sorted before the stream has moved, not where they are sorted."""
    try:
        pc.sort_indices(array.slice(0, 0))
    except (pa.ArrowException, NotImplementedError) as error:
        raise InvalidInputError(
            f"{name} are of type {array.type}, which has no order, but {use}; pass text, numbers or times instead."
        ) from error


def _one_array(column: Any) -> pa.Array:
    shape = getattr(column, "shape", (1,))
    if isinstance(shape, tuple) and len(shape) != 1:
        raise ValueError(f"a {type(column).__name__} of shape {shape} is no column; pass one column of it.")
    found = column
    if not isinstance(found, pa.Array | pa.ChunkedArray):
        found = column.to_arrow() if hasattr(column, "to_arrow") else pa.array(column, from_pandas=True)
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks() if found.num_chunks != 1 else found.chunk(0)
    if not isinstance(found, pa.Array):
        raise TypeError(f"a {type(found).__name__} is no column; pass one column of it.")
    if pa.types.is_dictionary(found.type):
        found = found.dictionary_decode()
    kind = _WITHOUT_VIEWS.get(found.type)
    return found if kind is None else found.cast(kind)


# Arrow sorts and picks from these only when they are laid out one after another.
_WITHOUT_VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


def _is_plain(column: Any, kinds: str) -> bool:
    """Whether the column is a NumPy array that kernels may read without a look at single values."""
    return (
        isinstance(column, np.ndarray)
        and not isinstance(column, np.ma.MaskedArray)
        and column.ndim == 1
        and column.dtype.kind in kinds
    )


def _datetimes(column: Any) -> Any:
    """A list of NumPy's times as one array: Arrow takes only some of their units."""
    units = {value.dtype for value in column if value is not None and not np.isnat(value)}
    if len(units) > 1:
        raise InvalidInputError(
            f"positions are of the types {', '.join(sorted(map(str, units)))}; what one of them can hold may not fit "
            "into another, so they must be of one."
        )
    return np.array(column, units.pop() if units else "datetime64[us]")


def _times(times: Any, missing: Any, zone: str | None) -> Positions:
    """Times of any unit as microseconds, rounded down."""
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
        f"positions[{at}]={values[at]} is beyond 2**62 microseconds; "
        "window bounds around it would leave the integer axis."
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
            f"{name}[{worst}]={values[worst]} is a whole number beyond 2**53; as float64 it could tie with its "
            f"neighbour and rank wrongly. Scale the {name}, or convert them to float64 yourself if that is exact "
            "enough."
        )


def _kernel_array(values: Any, dtype: Any) -> Any:
    """Contiguous, of the right type, and writable: kernels are compiled for one kind of array only."""
    values = np.ascontiguousarray(values, dtype)
    return values if values.flags.writeable and values.flags.aligned else values.copy()
