"""Data frames of any library as Arrow tables, with the types that Spark has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import from_numpy, one
from skyband.errors import InvalidInputError, type_name

__all__ = ["as_table", "is_frame"]


def is_frame(value: Any) -> bool:
    """Return whether `value` is a data frame: a table with named columns.

    >>> is_frame(pa.table({"price": [1.0]})), is_frame([1.0])
    (True, False)
    """
    if isinstance(value, pa.Table | pa.RecordBatch | pa.RecordBatchReader | Mapping):
        return True
    if isinstance(value, pa.Array | pa.ChunkedArray | pa.Scalar):
        return False
    # By the type, not by the value: a lazy frame would have to find out about its columns.
    kind = type(value)
    return _is_pandas(value) or (hasattr(kind, "columns") and (hasattr(kind, "__arrow_c_stream__") or _is_lazy(value)))


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
    return type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "dtypes") and hasattr(value, "iloc")


def _with_spark_types(table: pa.Table) -> pa.Table:
    """Return the table with types that Spark has: plain text for categories, signed integers, microseconds in UTC."""
    table = table.replace_schema_metadata(None)
    for place, field in enumerate(table.schema):
        column = table.column(place)
        if pa.types.is_dictionary(field.type):
            column = column.cast(field.type.value_type)
        if pa.types.is_timestamp(column.type):
            column = _microseconds(column)
        elif (kind := _WIDER.get(column.type)) is not None:
            column = column.cast(kind)
        if column.type != field.type:
            table = table.set_column(place, field.name, column)
    return table


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
