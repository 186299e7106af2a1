"""The rows of a stream of files as Arrow tables: with computed columns, and with the event time as a timestamp."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.connectors.arrow.avro import AvroFiles
from skyband.connectors.arrow.batches import FileReader, FileRows, NarrowReader, declared_types
from skyband.connectors.arrow.csv import CsvFiles
from skyband.connectors.arrow.json_lines import JsonFiles
from skyband.connectors.arrow.parquet import ParquetFiles
from skyband.connectors.arrow.paths import data_files, listed_files, on_spark, refuse_options
from skyband.connectors.arrow.splits import Split
from skyband.connectors.arrow.tables import open_table
from skyband.connectors.arrow.time_patterns import parse_times
from skyband.connectors.files import FilesSource
from skyband.data.arrow import one
from skyband.errors import InvalidInputError, SkybandError, UnknownNameError
from skyband.expressions import compile_expression
from skyband.expressions.types import is_numeric, spark_name

__all__ = ["LocalRows", "open_files"]

_TIMESTAMP = pa.timestamp("us", "UTC")
_SINCE_1970 = {"seconds": 1, "milliseconds": 1_000, "microseconds": 1_000_000}  # units in a second
_FIRST, _END = -62_135_596_800, 253_402_300_800  # seconds since 1970: the years 1 to 9999
_Step = Callable[[pa.Table], pa.Table]


def open_files(name: str, stream: FilesSource, files: Sequence[Path], declared: pa.Schema | None = None) -> FileReader:
    """Return the reader of a stream's files. Reads what determines the columns: headers, footers or all values.

    `declared` are the columns, if they are known; else those that the stream declares, if it does.
    """
    if stream.of_table is not None:
        return open_table(name, stream, declared)
    refuse_options(name, stream)
    readers: dict[str | None, Callable[..., FileReader]] = {
        "parquet": ParquetFiles,
        "csv": CsvFiles,
        "json": JsonFiles,
        "avro": AvroFiles,
    }
    if stream.format not in readers:
        raise on_spark(name, f"format {stream.format!r}", stream)
    return readers[stream.format](name, stream, files, declared_types(name, stream) if declared is None else declared)


class LocalRows:
    """The rows of a stream's files, with computed columns and the event time. `reader` reads the files' columns.

    `known` are the columns of the files if they are known from an earlier run. Then there may be no files.
    """

    def __init__(
        self, name: str, stream: FilesSource, reader: FileReader | None = None, *, known: pa.Schema | None = None
    ) -> None:
        self._name, self.stream = name, stream
        self._files = list[Path]()
        if reader is None:
            self._files = data_files(name, stream) if known is None else listed_files(name, stream)
            reader = open_files(name, stream, self._files, known if stream.schema is None else None)
        self.reader = reader
        self._steps: list[_Step] = []
        self._inputs: list[tuple[str, tuple[str, ...]]] = []  # by step: the column it sets, and those it reads
        self._schema = self.reader.schema
        for column, text in stream.columns.items():
            self._compute(column, text)
        self._add_time()

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows, with Spark's types."""
        return self._schema

    def narrow(self, wanted: Collection[str], checked: Collection[str], texts: Collection[str]) -> LocalRows:
        """Return rows with the `wanted` columns only, if the files' format allows to read some columns.

        Columns of files that are `checked` are read in addition. `texts` are columns that may be dictionaries.
        """
        if not isinstance(self.reader, NarrowReader):
            return self  # all cells of a line are parsed, to find malformed ones
        needed, computed = set(wanted), set[str]()
        for column, inputs in reversed(self._inputs):
            if column in needed:
                needed.update(inputs)
                computed.update((column, *inputs))
        kept = [field.name for field in self.reader.schema if field.name in needed or field.name in checked]
        stream = self.stream.model_copy(
            update={"columns": {column: text for column, text in self.stream.columns.items() if column in needed}}
        )
        return LocalRows(self._name, stream, self.reader.narrow(kept, set(texts) - computed))

    def read(self, splits: Iterable[Split] | None = None) -> Iterator[FileRows]:
        """Yield the rows of all files, or of some parts of them, in batches."""
        for batch in self.reader.read(map(Split, self._files) if splits is None else splits):
            rows = batch.rows
            for step in self._steps:
                rows = step(rows)
            yield batch._replace(rows=rows)

    def _compute(self, column: str, text: str) -> None:
        """Add a computed column, or replace the column of that name."""
        try:
            found = compile_expression(text, self._schema)
        except SkybandError as error:
            raise InvalidInputError(f"stream {self._name!r}: columns.{column}: {text!r}: {error}") from error
        self._set(column, found.type, found.evaluate, found.columns)

    def _set(self, column: str, kind: pa.DataType, compute: Callable[[pa.Table], Any], inputs: tuple[str, ...]) -> None:
        place = next((at for at, name in enumerate(self._schema.names) if name.lower() == column.lower()), None)
        field = pa.field(column, kind)
        self._inputs.append((column, inputs if place is None else (*inputs, self._schema.names[place])))
        if place is None:
            self._schema = self._schema.append(field)
            self._steps.append(lambda rows: rows.append_column(field, compute(rows)))
        else:
            before = self._schema.names[place]
            self._schema = self._schema.set(place, field)
            self._steps.append(lambda rows: rows.set_column(rows.schema.get_field_index(before), field, compute(rows)))

    def _add_time(self) -> None:
        wanted = self.stream.time
        name = next((name for name in self._schema.names if name.lower() == wanted.lower()), None)
        if name is None:
            raise UnknownNameError.among(f"stream {self._name!r}: time column", wanted, self._schema.names)
        self.time = name  # the column with the event time, as the rows spell it
        kind, pattern = self._schema.field(name).type, self.stream.time_format
        if pattern in _SINCE_1970:
            self._set(name, _TIMESTAMP, self._since_1970(name, kind, pattern), (name,))
            return
        if not pa.types.is_timestamp(kind):
            self._set(name, _TIMESTAMP, self._as_time(name, kind, pattern), (name,))
            kind = _TIMESTAMP
        first, end = (pa.scalar(bound * 1_000_000, pa.int64()).cast(kind) for bound in (_FIRST, _END))

        def in_range(rows: pa.Table) -> Any:
            times = one(rows[name])
            ends = pc.min_max(times)
            if not ends["min"].is_valid or (ends["min"].value >= first.value and ends["max"].value < end.value):
                return times
            inside = pc.and_(pc.greater_equal(times, first), pc.less(times, end))
            return pc.if_else(inside, times, pa.scalar(None, kind))

        self._set(name, kind, in_range, (name,))

    def _since_1970(self, name: str, kind: pa.DataType, unit: str) -> Callable[[pa.Table], Any]:
        """Return the conversion of numbers since 1970; null outside of the years 1 to 9999."""
        if not is_numeric(kind) and not pa.types.is_string(kind):
            raise InvalidInputError(
                f"stream {self._name!r}: time_format {unit!r} requires a number, but time column {name!r} has type "
                f"{spark_name(kind)}. Remove time_format."
            )
        each, number = _SINCE_1970[unit], "double" if unit == "seconds" else "bigint"
        quoted = "`" + name.replace("`", "``") + "`"
        found = compile_expression(f"try_cast({quoted} AS {number})", self._schema)

        def compute(rows: pa.Table) -> Any:
            values = found.evaluate(rows)
            inside = pc.and_(pc.greater_equal(values, _FIRST * each), pc.less(values, _END * each))
            inside = pc.fill_null(inside, False)
            kept = pc.if_else(inside, values, pa.scalar(0, found.type)).to_numpy(zero_copy_only=False)
            micros = (kept * (1_000_000 // each if number == "bigint" else 1e6)).astype(np.int64)  # rounded to zero
            return pc.if_else(inside, pa.array(micros).cast(_TIMESTAMP), pa.scalar(None, _TIMESTAMP))

        return compute

    def _as_time(self, name: str, kind: pa.DataType, pattern: str | None) -> Callable[[pa.Table], Any]:
        quoted = "`" + name.replace("`", "``") + "`"
        if pa.types.is_date32(kind):
            return compile_expression(f"CAST({quoted} AS timestamp)", self._schema).evaluate
        if not pa.types.is_string(kind):
            raise InvalidInputError(
                f"stream {self._name!r}: time column {name!r} must be a timestamp, got {spark_name(kind)}. Set "
                "time_format to the unit of the numbers: seconds, milliseconds or microseconds."
                if pattern is None
                else f"stream {self._name!r}: the pattern time_format {pattern!r} requires text, but time column "
                f"{name!r} has type {spark_name(kind)}. Remove time_format, or set it to seconds, milliseconds or "
                "microseconds."
            )
        if pattern is None:
            return compile_expression(f"try_cast({quoted} AS timestamp)", self._schema).evaluate
        parse = parse_times(pattern)
        if parse is None:
            raise on_spark(self._name, f"time_format {pattern!r}", self.stream)
        return lambda rows: parse(one(rows[name]))
