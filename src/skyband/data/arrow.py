"""Arrow tables as bytes, and table columns as single arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["from_bytes", "from_numpy", "kernel_array", "least", "one", "plain_columns", "plain_schema", "to_bytes"]


def to_bytes(table: pa.Table) -> bytes:
    """Return a table as Arrow IPC bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def from_bytes(data: bytes | pa.Buffer) -> pa.Table:
    """Return the table of Arrow IPC bytes, fully validated; raises ArrowInvalid if it is inconsistent."""
    found = pa.ipc.open_stream(data).read_all()
    found.validate(full=True)
    return found


def from_numpy(values: Any, kind: pa.DataType) -> pa.Array:
    """Return an Arrow array on the same memory; `pyarrow.array` would import pandas, which takes a second."""
    return pa.Array.from_buffers(kind, values.size, [None, pa.py_buffer(values)])


class _Writable:
    """Describes the memory of an array to NumPy as writable."""

    def __init__(self, values: Any) -> None:
        self._owner = values
        described = values.__array_interface__
        self.__array_interface__ = {**described, "data": (described["data"][0], False)}


def kernel_array(array: pa.Array) -> Any:
    """Return an array of numbers for kernels, on the same memory if no value is null. It must not be changed.

    NumPy calls Arrow's memory read-only, and numba compiles a kernel again for read-only arrays. So the result is
    marked as writable, although kernels only read their rows.

    >>> kernel_array(pa.array([1, 2])).flags.writeable
    True
    """
    values = array.to_numpy(zero_copy_only=False)
    if values.flags.writeable:
        return values
    return np.asarray(_Writable(values)) if values.size and values.flags.aligned else values.copy()


def plain_columns(table: pa.Table) -> pa.Table:
    """Return a table in which values that are numbers of a dictionary are written out.

    >>> numbered = pa.table({"symbol": pa.array(["A", "B", "A"]).dictionary_encode()})
    >>> plain_columns(numbered).schema.field("symbol").type
    DataType(string)
    """
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            # Not by a cast, which does not support lists, maps and structs.
            parts = [part.dictionary.take(part.indices) for part in table.column(place).chunks]
            table = table.set_column(place, field.name, pa.chunked_array(parts, field.type.value_type))
    return table


def least(column: pa.ChunkedArray) -> int | None:
    """Return the smallest value of a column of integers or times, as an integer; None if there is none.

    >>> least(pa.chunked_array([pa.array([7, 5, 7]).dictionary_encode()]))
    5
    """
    values = one(column)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary.take(pc.unique(values.indices))
    found: int | None = pc.min(values).cast(pa.int64()).as_py()
    return found


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of `plain_columns`."""
    return pa.schema(
        [(field.name, field.type.value_type if pa.types.is_dictionary(field.type) else field.type) for field in schema]
    )


def one(column: pa.ChunkedArray) -> pa.Array:
    """Return a table's column as one array."""
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
