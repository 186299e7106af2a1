"""Avro records in memory as an Arrow table: decoded by the kernel, with the types of a stream's columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.connectors.arrow.avro_schema import AvroColumn, AvroProgram
from skyband.data.arrow import from_numpy
from skyband.kernels import avro

__all__ = ["AvroValueError", "Decoded", "decoded", "gathered", "typed", "with_type"]

_DEPTH = 64  # of nested records, arrays and maps


class AvroValueError(Exception):
    """A value of a column cannot be converted. The message is the reason."""


class Decoded:
    """Decoded blocks of records: columns of words. `problems` has the problem of each block (0: none)."""

    def __init__(self, data: Any, program: AvroProgram, counts: Any) -> None:
        self.data, self.program, self.rows = data, program, int(counts.sum())
        shape = (len(program.columns), self.rows)
        self.values, self.sizes = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        self.valid = np.zeros(shape, np.bool_)
        self.problems, self.wrong = np.zeros(counts.size, np.int64), np.zeros(counts.size, np.int64)
        self.counts = counts

    def damaged(self) -> Any:
        """Return whether each record is in a block with a problem; these records have no values."""
        found = np.repeat(self.problems > 0, self.counts)
        self.valid[:, found] = False
        return found

    def column(self, place: int) -> pa.Array:
        """Return a column with the type of the schema."""
        column = self.program.columns[place]
        values, valid = self.values[place], self.valid[place]
        if column.symbols:
            numbers = pa.array(values, mask=~valid)
            return pa.array(column.symbols, pa.string()).take(numbers)
        if column.stored in ("string", "bytes", "fixed"):
            return self._bytes(column, place)
        if column.stored in ("float", "double"):
            found = values.view(np.float64) if column.stored == "double" else _floats(values)
            return pa.array(found, mask=~valid)
        if column.unit < 0:
            found = values * -column.unit
            if np.any((found // -column.unit != values) & valid):
                raise AvroValueError(f"column {column.name!r} contains a time that is out of range")
            values = found
        elif column.unit > 1:
            values = values // column.unit
        found = pa.array(values, mask=~valid)
        if pa.types.is_timestamp(column.kind):
            return found.view(column.kind)
        if pa.types.is_date32(column.kind):
            return found.cast(pa.int32()).view(column.kind)
        return found.cast(column.kind)

    def _bytes(self, column: AvroColumn, place: int) -> pa.Array:
        begins, sizes, valid = self.values[place], self.sizes[place], self.valid[place]
        is_null = from_numpy(np.packbits(valid, bitorder="little"), pa.uint8()).buffers()[1]
        if pa.types.is_decimal(column.kind):
            numbers = np.zeros((self.rows, 16), np.uint8)
            if avro.read_decimals(self.data, begins, sizes, valid, numbers) >= 0:
                raise AvroValueError(f"column {column.name!r} contains a decimal that is out of range")
            found = pa.Array.from_buffers(column.kind, self.rows, [is_null, pa.py_buffer(numbers)])
            try:
                found.validate(full=True)
            except pa.ArrowInvalid as error:
                raise AvroValueError(f"column {column.name!r}: {error}") from None
            return found
        return gathered(self.data, column.kind, begins, sizes, valid)


def gathered(data: Any, kind: pa.DataType, begins: Any, sizes: Any, valid: Any) -> pa.Array:
    """Return texts or bytes that are in `data`; `sizes` of values that are not valid count as zero bytes or more."""
    offsets = np.zeros(begins.size + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    copied = np.empty(int(offsets[-1]), np.uint8)
    avro.gather(data, begins, sizes, valid, offsets, copied)
    is_null = from_numpy(np.packbits(valid, bitorder="little"), pa.uint8()).buffers()[1]
    buffers = [is_null, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(copied)]
    return pa.Array.from_buffers(kind, begins.size, buffers)


def decoded(data: Any, program: AvroProgram, begins: Any, ends: Any, counts: Any) -> Decoded:
    """Decode blocks of `counts` records; `data` is a NumPy array of bytes with less than 2 GB."""
    found = Decoded(data, program, counts)
    avro.decode(
        data,
        begins,
        ends,
        counts,
        program.steps,
        program.branches,
        np.zeros(_DEPTH, np.int64),
        found.values,
        found.sizes,
        found.valid,
        found.problems,
        found.wrong,
    )
    return found


def typed(found: Decoded, schema: pa.Schema, places: Sequence[int | None]) -> pa.Table:
    """Return decoded records with a stream's columns; `places` are the decoded columns, None: nulls."""
    arrays = [
        pa.nulls(found.rows, field.type) if place is None else with_type(found.column(place), field.type)
        for field, place in zip(schema, places, strict=True)
    ]
    return pa.table(arrays, schema=schema) if arrays else pa.table({"": pa.nulls(found.rows)})


def with_type(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values in a type that `is_read_as` allows for them."""
    if values.type == kind:
        return values
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return values.view(kind)  # text is checked by the caller
    return pc.cast(values, kind, safe=False)


def _floats(values: Any) -> Any:
    return values.astype(np.uint32).view(np.float32)
