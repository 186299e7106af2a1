"""Data frames of any library as Arrow tables, with the types that Spark has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.answers import Answers
from skyband.data.arrow import from_numpy, one
from skyband.errors import InvalidInputError, brief, type_name

__all__ = ["as_table", "frames_by_name", "is_frame", "refuse_missing_arrays"]


def is_frame(value: Any) -> bool:
    """Return whether `value` is a data frame: a table with named columns.

    >>> is_frame(pa.table({"price": [1.0]})), is_frame([1.0])
    (True, False)
    """
    if isinstance(value, pa.Table | pa.RecordBatch | pa.RecordBatchReader | Mapping | Answers):
        return True
    if isinstance(value, pa.Array | pa.ChunkedArray | pa.Scalar):
        return False
    # By the type, not by the value: a lazy frame would have to find out about its columns.
    kind = type(value)
    return _is_pandas(value) or (hasattr(kind, "columns") and (hasattr(kind, "__arrow_c_stream__") or _is_lazy(value)))


def frames_by_name(value: Any) -> dict[str, Any] | None:
    """Return the data frames of several streams by the stream's name; None if `value` is one data frame.

    >>> frames_by_name({"north": {"v": [1.0]}}) is None, frames_by_name({"v": [1.0]}) is None
    (False, True)
    """
    if not isinstance(value, Mapping) or not value or not any(map(is_frame, value.values())):
        return None
    for name, frame in value.items():
        if not is_frame(frame):
            raise InvalidInputError(
                f"a dict must contain either columns or data frames, got a data frame and {name!r}: {brief(frame)}. "
                "Pass one data frame for each stream, or one dict of columns."
            )
    return dict(value)


def refuse_missing_arrays(positions: Any, **columns: Any) -> None:
    """Reject arrays without a column that the family needs, and a data frame in place of arrays."""
    if is_frame(positions):
        raise InvalidInputError(
            f"push() got a data frame ({type_name(positions)}), but this monitor was created without time=, so it "
            "takes arrays. Create it with the name of the time column, for example Monitor(queries, time='ts'). This "
            "push was rejected."
        )
    for name, column in columns.items():
        if column is None:
            raise InvalidInputError(
                f"{name}=None is not a column. Rows are given in one of two forms: as arrays, with {name}= beside the "
                "positions, or as a data frame in place of the positions, with time= naming its time column. Nothing "
                "was read."
            )


def as_table(frame: Any) -> pa.Table:
    """Return a data frame as an Arrow table: Arrow, pandas, polars, DuckDB, or a mapping of names to columns.

    >>> as_table({"price": [1.0, 2.0]}).column_names
    ['price']
    """
    try:
        found = frame if isinstance(frame, pa.Table) else _converted(frame)
        return _with_spark_types(found)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"the data frame ({type_name(frame)}) cannot be converted to Arrow: {error}. Nothing was read from it."
        ) from error


def _converted(frame: Any) -> pa.Table:
    if isinstance(frame, Answers):
        return frame.to_arrow()
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if isinstance(frame, pa.RecordBatchReader):
        return frame.read_all()
    if isinstance(frame, Mapping):
        return pa.table(dict(frame))
    if _is_pandas(frame):
        return pa.Table.from_pandas(frame, preserve_index=False)
    return pa.table(frame.collect() if _is_lazy(frame) else frame)


def _is_lazy(value: Any) -> bool:
    """Return whether `value` is a polars LazyFrame."""
    return hasattr(type(value), "collect") and hasattr(type(value), "collect_schema")


def _is_pandas(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "iloc") and hasattr(value, "columns")


def _with_spark_types(table: pa.Table) -> pa.Table:
    """Return the table with types that Spark has: plain text for categories, signed integers, microseconds in UTC."""
    table = table.replace_schema_metadata(None)
    for place, field in enumerate(table.schema):
        column = table.column(place)
        if pa.types.is_dictionary(field.type):
            column = _decoded(column)
        if pa.types.is_timestamp(column.type):
            column = _microseconds(column)
        elif (kind := _WIDER.get(column.type)) is not None:
            column = column.cast(kind)
        if column.type != field.type:
            table = table.set_column(place, field.name, column)
    return table


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values of a dictionary-encoded column."""
    kind = column.type.value_type
    kind = _WIDER.get(kind, kind)  # Arrow casts no dictionary of string views
    parts = [chunk.dictionary.cast(kind).take(chunk.indices) for chunk in column.chunks]
    return pa.chunked_array(parts, kind)


_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}


def _microseconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times in microseconds, rounded down; instants in UTC."""
    wanted = pa.timestamp("us", None if column.type.tz is None else "UTC")
    if column.type.unit != "ns":
        return column.cast(wanted)
    array = one(column)
    whole = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False) // 1000
    found = from_numpy(np.ascontiguousarray(whole), wanted)
    if array.null_count:
        found = pc.if_else(array.is_valid(), found, pa.scalar(None, wanted))
    return pa.chunked_array([found])
