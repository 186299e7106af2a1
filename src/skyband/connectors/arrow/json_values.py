"""JSON objects in the values of records as columns, as far as every parser reads them in the same way.

Spark's parser reads the others, so that the meaning of a value does not depend on who reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from skyband.connectors.arrow.avro_values import gathered
from skyband.data.arrow import from_numpy, kernel_array
from skyband.kernels import json_rows

__all__ = ["JsonReader", "UsualRows"]

_TYPES: dict[str, tuple[pa.DataType, int]] = {
    "tinyint": (pa.int8(), json_rows.INTEGER),
    "smallint": (pa.int16(), json_rows.INTEGER),
    "int": (pa.int32(), json_rows.INTEGER),
    "bigint": (pa.int64(), json_rows.INTEGER),
    "double": (pa.float64(), json_rows.DOUBLE),
    "boolean": (pa.bool_(), json_rows.BOOL),
    "string": (pa.string(), json_rows.TEXT),
    "timestamp": (pa.timestamp("us", "UTC"), json_rows.TIME),
    "timestamp_ntz": (pa.timestamp("us"), json_rows.LOCAL_TIME),
    "date": (pa.date32(), json_rows.DATE),
}
_MOST_COLUMNS = 62  # the kernel has one bit for each
_POWERS = np.array([float(10**power) for power in range(23)])


class UsualRows(NamedTuple):
    """Rows of values: the columns, and which values were read. The columns of others are null."""

    columns: list[pa.Array]
    done: pa.Array


class JsonReader(NamedTuple):
    """Reads usual objects; it is sent to tasks.

    >>> reader = JsonReader.of({"id": "bigint", "price": "double"}, in_utc=True, largest=100)
    >>> rows = reader.read(pa.array([b'{"id": 7, "price": 2.5}', b'{"id": "7"}']))
    >>> rows.done.to_pylist(), [column.to_pylist() for column in rows.columns]
    ([True, False], [[7, None], [2.5, None]])
    """

    names: tuple[str, ...]
    types: tuple[str, ...]
    in_utc: bool  # whether a time without an offset is in UTC
    largest: int  # bytes of a value

    @classmethod
    def of(cls, columns: Mapping[str, str], *, in_utc: bool, largest: int) -> JsonReader | None:
        """Return the reader of columns with types of Spark, by their shortest names; None if a type has none here."""
        if len(columns) > _MOST_COLUMNS or not set(columns.values()) <= _TYPES.keys():
            return None
        return cls(tuple(columns), tuple(columns.values()), in_utc, largest)

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return pa.schema([(name, _TYPES[kind][0]) for name, kind in zip(self.names, self.types, strict=True)])

    def read(self, values: pa.Array) -> UsualRows:
        """Read the usual objects among values."""
        values = values.cast(pa.binary()) if values.type != pa.binary() else values
        count, columns = len(values), len(self.names)
        offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + count + 1]
        begins, ends = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
        begins = np.where(ends - begins > self.largest, ends, begins)  # as if it were empty, which is not usual
        if values.null_count:
            begins = np.where(kernel_array(values.is_valid()), begins, ends)
        names = [name.encode() for name in self.names]
        starts = np.cumsum([0, *map(len, names)])
        kinds = [_TYPES[kind] for kind in self.types]
        most = [2 ** (kind.bit_width - 1) - 1 if number == json_rows.INTEGER else 0 for kind, number in kinds]
        words, sizes = np.zeros((columns, count), np.int64), np.zeros((columns, count), np.int64)
        state, done = np.zeros((columns, count), np.uint8), np.zeros(count, np.bool_)
        data = _bytes(values.buffers()[2])
        json_rows.read_rows(
            data,
            begins,
            ends,
            np.frombuffer(b"".join(names) or b"\0", np.uint8),
            starts,
            np.array([number for _, number in kinds], np.int64),
            np.array(most, np.int64),
            _POWERS,
            self.in_utc,
            words,
            words.view(np.float64),
            sizes,
            state,
            done,
        )
        found = [
            _column(data, kind, number, words[place], sizes[place], state[place])
            for place, (kind, number) in enumerate(kinds)
        ]
        return UsualRows(found, pa.array(done))


def _column(
    data: np.ndarray, kind: pa.DataType, number: int, words: np.ndarray, sizes: np.ndarray, state: np.ndarray
) -> pa.Array:
    valid = state > 0
    if number == json_rows.TEXT:
        return gathered(data, kind, words, np.where(valid, sizes, 0), valid)
    if number == json_rows.DOUBLE:
        numbers = words.view(np.float64)
        rounded = np.flatnonzero(state == json_rows.ROUNDED)
        if rounded.size:
            texts = gathered(data, pa.string(), words[rounded], sizes[rounded], np.ones(rounded.size, np.bool_))
            numbers[rounded] = kernel_array(texts.cast(pa.float64()))
        return _masked(numbers, kind, valid)
    if number == json_rows.BOOL:
        return pa.array(words.astype(np.bool_), mask=~valid)
    return _masked(words.astype(np.dtype(f"int{kind.bit_width}")), kind, valid)


def _masked(values: np.ndarray, kind: pa.DataType, valid: np.ndarray) -> pa.Array:
    nulls = None if valid.all() else from_numpy(np.packbits(valid, bitorder="little"), pa.uint8()).buffers()[1]
    return pa.Array.from_buffers(kind, values.size, [nulls, pa.py_buffer(values)])


def _bytes(buffer: pa.Buffer | None) -> np.ndarray:
    if buffer is None or not buffer.size:
        return np.zeros(1, np.uint8)
    return np.frombuffer(buffer, np.uint8)
