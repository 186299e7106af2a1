"""Protobuf messages in memory as Arrow columns: decoded by the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.connectors.arrow.avro_values import gathered
from skyband.connectors.arrow.proto_program import ProtoColumn, ProtoProgram
from skyband.data.arrow import from_numpy
from skyband.kernels import protobuf as kernel

__all__ = ["DecodedMessages"]

_DEPTH = 64  # of groups that are skipped
_FIRST, _LAST = -62_135_596_800, 253_402_300_799  # seconds since 1970: the years 1 to 9999


class DecodedMessages:
    """Decoded messages: columns of words. `problems` has the number of the problem of each message (0: none)."""

    def __init__(self, data: Any, begins: Any, ends: Any, program: ProtoProgram) -> None:
        self._data, self._program, self.rows = data, program, begins.size
        shape = (program.places, self.rows)
        self._values, self._sizes = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        self._valid = np.zeros(shape, np.bool_)
        self.problems = np.zeros(self.rows, np.int64)
        kernel.decode_messages(
            data,
            begins,
            ends,
            program.fields,
            program.tables,
            program.symbols,
            np.zeros((_DEPTH, 2), np.int64),
            self._values,
            self._sizes,
            self._valid,
            program.oneofs,
            self.problems,
        )
        for column in program.columns:
            if column.stored == "time":
                seconds, parts = self._values[column.place], self._values[column.place + 1]
                far = (seconds < _FIRST) | (seconds > _LAST) | (parts < 0) | (parts > 999_999_999)
                self.problems[far & self._valid[column.place] & (self.problems == 0)] = kernel.OUT_OF_RANGE
        is_damaged = self.problems > 0
        if is_damaged.any():
            self._valid[:, is_damaged] = False
            self._sizes[:, is_damaged] = 0

    def column(self, place: int) -> pa.Array:
        """Return a column with the type of the schema; fields that are absent have their default, or are null."""
        column = self._program.columns[place]
        found = self._stored(column)
        return found if column.default is None else pc.fill_null(found, pa.scalar(column.default, found.type))

    def _stored(self, column: ProtoColumn) -> pa.Array:
        words, valid = self._values[column.place], self._valid[column.place]
        if not column.has_presence:
            valid = self.problems == 0
        if column.stored in ("string", "bytes"):
            return gathered(self._data, column.kind, words, self._sizes[column.place], valid)
        if column.stored == "enum":
            return self._names(column, words, valid)
        if column.stored == "time":
            words = words * 1_000_000 + self._values[column.place + 1] // 1000
            return pa.array(words, mask=~valid).view(column.kind)
        if column.stored == "unsigned":
            numbers = np.zeros((self.rows, 2), np.int64)
            numbers[:, 0] = words
            is_null = from_numpy(np.packbits(valid, bitorder="little"), pa.uint8()).buffers()[1]
            return pa.Array.from_buffers(column.kind, self.rows, [is_null, pa.py_buffer(numbers)])
        if column.stored in ("float", "double"):
            floats = words.view(np.float64) if column.stored == "double" else words.astype(np.uint32).view(np.float32)
            return pa.array(floats, mask=~valid)
        return pa.array(words, mask=~valid).cast(column.kind)

    def _names(self, column: ProtoColumn, words: Any, valid: Any) -> pa.Array:
        """Return the names of enum values; the number itself if it has no name."""
        numbers, places = np.unique(words, return_inverse=True)
        names = [column.symbols.get(int(number), str(number)) for number in numbers]
        return pa.array(names, pa.string()).take(pa.array(places, mask=~valid))
