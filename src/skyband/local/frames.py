"""Data frames of any library as Arrow tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from skyband.errors import InvalidInputError, type_name

__all__ = ["as_table", "is_frame"]


def is_frame(value: Any) -> bool:
    """Return whether `value` is a data frame: a table with named columns.

    >>> is_frame(pa.table({"price": [1.0]})), is_frame([1.0])
    (True, False)
    """
    if isinstance(value, pa.Table | pa.RecordBatch | pa.RecordBatchReader | Mapping):
        return True
    if isinstance(value, pa.Array | pa.ChunkedArray | pa.Scalar) or not hasattr(value, "columns"):
        return False
    return hasattr(value, "__arrow_c_stream__") or hasattr(value, "collect") or _is_pandas(value)


def as_table(frame: Any) -> pa.Table:
    """Return a data frame as an Arrow table: Arrow, pandas, polars, DuckDB, or a mapping of names to columns.

    >>> as_table({"price": [1.0, 2.0]}).column_names
    ['price']
    """
    if isinstance(frame, pa.Table):
        return frame
    try:
        found = _converted(frame)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"the data frame ({type_name(frame)}) cannot be converted to Arrow: {error}. Nothing was read from it."
        ) from error
    return _without_dictionaries(found)


def _converted(frame: Any) -> pa.Table:
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if isinstance(frame, pa.RecordBatchReader):
        return frame.read_all()
    if isinstance(frame, Mapping):
        return pa.table(dict(frame))
    if _is_pandas(frame):
        return pa.Table.from_pandas(frame, preserve_index=False)
    if hasattr(frame, "collect") and not hasattr(frame, "__arrow_c_stream__"):
        frame = frame.collect()  # a polars LazyFrame
    return pa.table(frame)


def _is_pandas(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "dtypes") and hasattr(value, "iloc")


def _without_dictionaries(table: pa.Table) -> pa.Table:
    """Return the table with plain values: categories of pandas and polars are text to a query."""
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            plain = table.column(place).cast(field.type.value_type)
            table = table.set_column(place, field.name, plain)
    return table
