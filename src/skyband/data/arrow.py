"""Arrow tables as bytes, and table columns as single arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "from_bytes",
    "from_numpy",
    "kernel_array",
    "least",
    "one",
    "plain_columns",
    "plain_schema",
    "taken",
    "to_bytes",
    "with_wide_offsets",
]


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
    """Return a table's column as one array.

    Offsets of text, bytes and lists have 32 bits, so one array holds 2 GB. A column with more gets 64-bit offsets.
    """
    if column.num_chunks == 1:
        return column.chunk(0)
    try:
        return _combined(column)
    except pa.ArrowInvalid:
        kind = with_wide_offsets(column.type)
        if kind == column.type:
            raise
        return _combined(column.cast(kind))


def taken(table: pa.Table, rows: Any) -> pa.Table:
    """Return some rows of a table, in the order of their indices `rows`, with the table's types if they fit.

    `Table.take` first copies each column of several chunks into one array. This copies only the rows that it returns.
    """
    if max((column.num_chunks for column in table.columns), default=1) < 2:
        return table.take(pa.array(rows))
    order = np.argsort(rows, kind="stable")
    places = np.empty(order.size, np.int64)
    places[order] = np.arange(order.size)
    columns = [_taken(column, rows[order], pa.array(places)) for column in table.columns]
    return pa.table(columns, names=table.column_names)


def with_wide_offsets(kind: pa.DataType) -> pa.DataType:
    """Return a type with 64-bit offsets in place of 32-bit ones, also in lists and structs.

    >>> with_wide_offsets(pa.list_(pa.string()))
    LargeListType(large_list<item: large_string>)
    """
    if kind in _WIDE_OFFSETS:
        return _WIDE_OFFSETS[kind]
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(with_wide_offsets(field.type)) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(with_wide_offsets(kind.value_type)))
    return kind


_WIDE_OFFSETS = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def _combined(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()


def _taken(column: pa.ChunkedArray, rows: Any, places: pa.Array) -> pa.Array:
    """Return the values of ascending rows, in the order of `places`."""
    ends = np.cumsum([len(chunk) for chunk in column.chunks])
    cuts = np.searchsorted(rows, np.concatenate([[0], ends])) if ends.size else np.zeros(1, np.int64)
    parts = [
        chunk.take(pa.array(rows[low:high] - (end - len(chunk))))
        for chunk, end, low, high in zip(column.chunks, ends, cuts[:-1], cuts[1:], strict=True)
        if low < high
    ]
    return one(pa.chunked_array(parts, column.type)).take(places)
