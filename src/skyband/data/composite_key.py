"""Keys of several columns: packed into one column of bytes with the same order, and unpacked for answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.data.key_dictionary import TEXT, key_column, restored
from skyband.data.slot_dictionary import as_order, from_order, letters_of
from skyband.kernels.composite_key import (
    NUMBER,
    add_text_lengths,
    read_numbers,
    read_texts,
    write_numbers,
    write_texts,
)

__all__ = ["packed_keys", "unpacked_keys"]


def packed_keys(columns: Sequence[pa.Array]) -> pa.Array:
    """Return one byte string for each row, null where a column is null. Their order is that of the columns.

    >>> columns = [pa.array(["a", "b", None]), pa.array([-1, 2, 3])]
    >>> [one.to_pylist() for one in unpacked_keys(packed_keys(columns), [one.type for one in columns])]
    [['a', 'b', None], [-1, 2, None]]
    """
    stored = [key_column(column).stored for column in columns]
    rows = len(stored[0])
    missing = np.zeros(rows, bool)
    for column in stored:
        missing |= column.is_null().to_numpy(zero_copy_only=False)
    sizes = np.zeros(rows, np.int64)
    parts: list[Any] = []
    for column in map(_without_null, stored):
        parts.append(letters_of(column) if column.type in TEXT else as_order(column))
        if column.type in TEXT:
            given, begins, lengths = parts[-1]
            add_text_lengths(given, begins, lengths, sizes)
        else:
            sizes += NUMBER
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    at, letters = offsets[:-1].copy(), np.empty(int(offsets[-1]), np.uint8)
    for part in parts:
        if isinstance(part, tuple):
            given, begins, lengths = part
            write_texts(given, begins, lengths, letters, at)
        else:
            write_numbers(part, letters, at)
    valid = None if not missing.any() else pa.array(~missing).buffers()[1]
    buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(letters)]
    found = pa.LargeBinaryArray.from_buffers(pa.large_binary(), rows, buffers)
    return found if offsets[-1] > np.iinfo(np.int32).max else found.cast(pa.binary())


def _without_null(column: pa.Array) -> pa.Array:
    """Return a column with any value for null: the packed key is null there."""
    if pa.types.is_null(column.type):
        return pa.repeat(0, len(column))
    nothing = 0 if column.type not in TEXT else "" if pa.types.is_string(column.type) else b""
    return column.fill_null(pa.scalar(nothing, column.type)) if column.null_count else column


def unpacked_keys(packed: pa.Array, kinds: Sequence[pa.DataType]) -> list[pa.Array]:
    """Return the columns of packed keys, of these types; null where the key is null."""
    rows, missing = len(packed), packed.is_null().to_numpy(zero_copy_only=False)
    there = np.flatnonzero(~missing)
    letters, at, _ = letters_of(packed.drop_null())
    at, source = at.copy(), letters.astype(np.int64)
    places = np.full(rows, -1)
    places[there] = np.arange(there.size)
    columns = []
    for kind in kinds:
        if kind in TEXT:
            to, offsets = np.empty(letters.size, np.uint8), np.zeros(there.size + 1, np.int64)
            read_texts(source, at, to, offsets)
            buffers = [None, pa.py_buffer(offsets), pa.py_buffer(to[: offsets[-1]].copy())]
            wide = pa.large_string() if kind in (pa.string(), pa.large_string()) else pa.large_binary()
            stored = pa.Array.from_buffers(wide, there.size, buffers)
        else:
            numbers = np.empty(there.size, np.int64)
            read_numbers(source, at, numbers)
            stored = from_order(numbers, kind)
        columns.append(restored(stored, kind).take(pa.array(places, mask=missing)))
    return columns
