"""Tables of answers as bytes that are as short as their repetitions allow.

Many columns of a table of answers are dictionaries with the same numbers: the values of a row, or the bounds of a
window. The numbers are written once for all columns that share them. Answers pass between processes, where each byte is
copied several times.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from skyband.data.arrow import from_bytes, one, plain_columns, to_bytes

__all__ = ["pack_table", "packed_parts", "unpack_parts", "unpack_table"]

_COLUMNS = b"skyband:columns"  # schema metadata of packed tables: [place, field or -1, name] of each column


def pack_table(table: pa.Table) -> bytes:
    """Return a table as Arrow IPC bytes; numbers that several dictionaries share are written once.

    >>> numbers = pa.array([0, 1, 0, 0], pa.int16())
    >>> bids, asks = (pa.DictionaryArray.from_arrays(numbers, prices) for prices in ([5, 6], [7, 8]))
    >>> pa.ipc.open_stream(pack_table(pa.table({"bid": bids, "ask": asks}))).schema.names
    ['0']
    """
    shared: dict[Any, list[int]] = {}
    for place, column in enumerate(table.columns):
        shared.setdefault(_numbers_of(column) or place, []).append(place)
    if len(shared) == table.num_columns:
        return to_bytes(table)
    columns: list[pa.Array] = []
    homes: list[tuple[int, int, str]] = [(0, 0, "")] * table.num_columns
    for places in shared.values():
        for field, place in enumerate(places):
            homes[place] = (len(columns), field if len(places) > 1 else -1, table.field(place).name)
        alike = [one(table.column(place)) for place in places]
        columns.append(alike[0] if len(alike) == 1 else _joined(alike))
    names = [str(place) for place in range(len(columns))]
    schema = pa.schema(
        [pa.field(name, column.type) for name, column in zip(names, columns, strict=True)],
        metadata={_COLUMNS: json.dumps(homes, separators=(",", ":"))},
    )
    return to_bytes(pa.Table.from_arrays(columns, schema=schema))


def unpack_table(data: bytes) -> pa.Table:
    """Return the table of `pack_table`, with all values written out."""
    return next(unpack_parts(data))


def unpack_parts(data: bytes, most: int | None = None) -> Iterator[pa.Table]:
    """Yield the table of `pack_table` in parts of at most `most` rows, with all values written out.

    Bytes of `to_bytes`, which earlier versions stored, are a table as well.

    >>> [part.num_rows for part in unpack_parts(to_bytes(pa.table({"a": [1, 2, 3]})), most=2)]
    [2, 1]
    """
    for part in packed_parts(data, most):
        yield part()


def packed_parts(data: bytes | pa.Buffer, most: int | None = None) -> Iterator[Callable[[], pa.Table]]:
    """Yield functions that return the parts of `unpack_parts`. They are independent, so threads can call them.

    >>> [part().num_rows for part in packed_parts(to_bytes(pa.table({"a": [1, 2, 3]})), most=2)]
    [2, 1]
    """
    whole = from_bytes(data)
    homes = (whole.schema.metadata or {}).get(_COLUMNS)
    written_out = plain_columns if homes is None else partial(_written_out, homes=json.loads(homes))
    size = max(1, whole.num_rows if most is None else most)
    for low in range(0, max(1, whole.num_rows), size):
        yield partial(written_out, whole.slice(low, size))


def _written_out(packed: pa.Table, homes: list[tuple[int, int, str]]) -> pa.Table:
    columns = [one(column) for column in packed.columns]
    found = {}
    for place, field, name in homes:
        column = columns[place]
        if pa.types.is_dictionary(column.type):
            values = column.dictionary
            found[name] = (values if field < 0 else values.field(field)).take(column.indices)
        else:
            found[name] = column
    return pa.table(found)


def _numbers_of(column: pa.ChunkedArray) -> tuple[int, int, str] | None:
    """Return what identifies the memory of a dictionary's numbers; None if the column has no such numbers."""
    if not pa.types.is_dictionary(column.type) or column.num_chunks != 1 or not len(column):
        return None
    numbers = column.chunk(0).indices
    return None if numbers.null_count else (numbers.buffers()[1].address, numbers.offset, str(numbers.type))


def _joined(alike: list[pa.DictionaryArray]) -> pa.DictionaryArray:
    """Return one dictionary of structs for dictionaries with the same numbers."""
    fields = [pa.field(str(place), column.dictionary.type) for place, column in enumerate(alike)]
    values = pa.StructArray.from_arrays([column.dictionary for column in alike], fields=fields)
    return pa.DictionaryArray.from_arrays(alike[0].indices, values)
