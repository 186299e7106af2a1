"""Rows of Parquet files, with the types that Spark gives to their columns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import copy
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from skyband.connectors.arrow.batches import FileRows, letters
from skyband.connectors.arrow.paths import on_spark
from skyband.connectors.arrow.splits import Split
from skyband.connectors.files import FilesSource
from skyband.data.arrow import plain_columns
from skyband.data.parquet import numbered_texts
from skyband.errors import InvalidInputError
from skyband.expressions.types import spark_name, spark_type
from skyband.local.frames import as_table

__all__ = ["ParquetFiles"]

_ROWS = 1 << 17  # in a batch
_FIXED_ROWS = 1 << 20  # in a batch whose columns have values of fixed width: one array costs less than several
_REBASED = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")  # another calendar before 1900


class ParquetFiles:
    """The rows of Parquet files. Without `declared` columns, the first of the files determines them, as on Spark.

    `narrow` returns a copy that reads only some columns, and some texts as dictionaries.
    """

    def __init__(self, name: str, stream: FilesSource, files: Sequence[Path], declared: pa.Schema | None) -> None:
        self._name = name
        self.schema = self._types(files[0]) if declared is None else declared
        self._texts = frozenset[str]()  # columns that may be dictionaries

    def narrow(self, wanted: Collection[str], texts: Collection[str]) -> ParquetFiles:
        """Return a reader of the `wanted` columns only. Columns of `texts` come as dictionaries where files have them.

        A text that is stored once and numbered costs a fraction of one that is copied into every row.
        """
        found = copy(self)
        found.schema = pa.schema([field for field in self.schema if field.name in wanted])
        found._texts = frozenset(texts)
        return found

    def read(self, splits: Iterable[Split]) -> Iterator[FileRows]:
        """Yield the rows of some parts of files in batches."""
        for file, some in groupby(splits, key=attrgetter("file")):
            with self._opened(file) as first:
                columns = self._matched(file, self._types_in(file, first))
                metadata = first.metadata
                texts = [name for column, name in columns.items() if column in self._texts and name is not None]
                dictionaries = numbered_texts(metadata, texts)
            bounds = [(split.begin, metadata.num_row_groups if split.end is None else split.end) for split in some]
            groups = [group for begin, end in bounds for group in range(begin, min(end, metadata.num_row_groups))]
            read = [name for name in columns.values() if name]
            with self._opened(file, metadata=metadata, read_dictionary=dictionaries) as opened:
                kinds = (opened.schema_arrow.field(name).type for name in read)
                most = _FIXED_ROWS if all(map(_is_fixed, kinds)) else _ROWS
                for group in groups:
                    row = sum(metadata.row_group(before).num_rows for before in range(group))
                    for batch in self._batches(file, opened, group, read, most):
                        rows = pa.Table.from_batches([batch]) if read else _without_columns(batch.num_rows)
                        yield self._checked(file, self._typed(rows, columns, dictionaries), row)
                        row += batch.num_rows

    def _batches(
        self, file: Path, opened: pq.ParquetFile, group: int, columns: list[str], most: int
    ) -> Iterator[pa.RecordBatch]:
        try:
            yield from opened.iter_batches(most, [group], columns, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(file, error) from None

    def _opened(self, file: Path, **how: Any) -> pq.ParquetFile:
        try:
            return pq.ParquetFile(file, coerce_int96_timestamp_unit="us", **how)
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(file, error) from None

    def _unreadable(self, file: Path, error: Exception) -> InvalidInputError:
        why = str(error).partition("\n")[0].rstrip(".")
        return InvalidInputError(
            f"stream {self._name!r}: {str(file)!r} cannot be read as Parquet: {why}. The run stopped before it used "
            "any row of the file."
        )

    def _types(self, file: Path) -> pa.Schema:
        """Return the columns of a file with Spark's types."""
        with self._opened(file) as opened:
            return self._types_in(file, opened)

    def _types_in(self, file: Path, opened: pq.ParquetFile) -> pa.Schema:
        if any(key in (opened.metadata.metadata or {}) for key in _REBASED):
            raise on_spark(self._name, f"{str(file)!r}, which was written with the calendar of Spark 2,")
        fields = []
        for field in opened.schema_arrow:
            kind = spark_type(field.type) if not pa.types.is_binary(field.type) else field.type
            nanoseconds = pa.types.is_timestamp(field.type) and field.type.unit == "ns"
            if kind is None or nanoseconds or pa.types.is_duration(field.type) or pa.types.is_null(field.type):
                raise on_spark(self._name, f"column {field.name!r} of type {field.type} in {str(file)!r}")
            fields.append(pa.field(field.name, pa.timestamp("us", "UTC") if _is_int96(opened, field) else kind))
        return pa.schema(fields)

    def _matched(self, file: Path, found: pa.Schema) -> dict[str, str | None]:
        """Return the column of a file for each column of the stream; None if the file lacks it."""
        by_key = {name.lower(): name for name in found.names}
        if len(by_key) < len(found.names):
            raise on_spark(self._name, f"{str(file)!r}, in which names of columns differ only in case,")
        matched = {field.name: by_key.get(field.name.lower()) for field in self.schema}
        for field in self.schema:
            name = matched[field.name]
            if name is not None and found.field(name).type != field.type:
                there, here = spark_name(found.field(name).type), spark_name(field.type)
                raise on_spark(
                    self._name, f"column {field.name!r} of type {there} in {str(file)!r}, which is read as {here},"
                )
        return matched

    def _typed(self, rows: pa.Table, columns: dict[str, str | None], dictionaries: Collection[str]) -> pa.Table:
        plain = as_table(rows.drop_columns(list(dictionaries)))
        arrays = [
            pa.chunked_array([pa.nulls(rows.num_rows, field.type)])
            if name is None
            else rows[name]
            if name in dictionaries
            else plain[name].cast(field.type)
            for field, name in zip(self.schema, columns.values(), strict=True)
        ]
        return pa.Table.from_arrays(arrays, names=self.schema.names)

    def _checked(self, file: Path, rows: pa.Table, first: int) -> FileRows:
        """Mark rows with invalid UTF-8, which Spark reads and Skyband drops."""
        try:
            rows.validate(full=True)
            return FileRows(rows, rows.num_rows, letters())
        except pa.ArrowInvalid:
            pass
        wrong, reasons = pa.array([False] * rows.num_rows), [""] * rows.num_rows
        rows = plain_columns(rows)
        for field in rows.schema:
            if pa.types.is_string(field.type):
                bad = pa.array([not _is_utf8(value) for value in rows[field.name].cast(pa.binary()).to_pylist()])
                for place in pc.indices_nonzero(pc.and_(bad, pc.invert(wrong))).to_pylist():
                    reasons[place] = f"column {field.name!r} contains invalid UTF-8"
                wrong = pc.or_(wrong, bad)
        places = pc.indices_nonzero(wrong).to_pylist()
        found = letters([reasons[place] for place in places], file, rows=[first + place for place in places])
        return FileRows(rows.filter(pc.invert(wrong)), rows.num_rows, found)


def _is_fixed(kind: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(kind) or pa.types.is_dictionary(kind) or pa.types.is_decimal(kind))


def _without_columns(rows: int) -> pa.Table:
    """Return a table of rows without columns: a file that has none of the stream's."""
    return pa.table({"": pa.nulls(rows)})


def _is_int96(opened: pq.ParquetFile, field: pa.Field) -> bool:
    """Return whether a time is stored as INT96, which Spark reads as an instant."""
    if not pa.types.is_timestamp(field.type):
        return False
    place = next(at for at in range(len(opened.schema)) if opened.schema.column(at).path == field.name)
    return bool(opened.schema.column(place).physical_type == "INT96")


def _is_utf8(value: bytes | None) -> bool:
    try:
        return value is None or value.decode() is not None
    except UnicodeDecodeError:
        return False
