"""Rows of Parquet files, with the types that Spark gives to their columns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import copy
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from skyband.connectors.arrow.batches import FileRows
from skyband.connectors.arrow.paths import on_spark
from skyband.connectors.arrow.splits import Split
from skyband.connectors.arrow.texts import checked_texts
from skyband.connectors.arrow.unreadable import UnreadableError, UnreadableFiles, is_readable, reading
from skyband.connectors.files import FilesSource
from skyband.data.parquet import numbered_texts
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

    def __init__(
        self,
        name: str,
        stream: FilesSource,
        files: Sequence[Path],
        declared: pa.Schema | None,
        *,
        skips_others: bool = False,
    ) -> None:
        """`skips_others`: columns that are not declared can have any type."""
        self._skips_others = skips_others
        self._name, self._stream, self._unreadable = name, stream, UnreadableFiles(name, stream)
        self.schema = self._types_of(files) if declared is None else declared
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
            parts = list(some)
            try:
                with reading(), _opened(file) as first:
                    columns = self._columns_in(file, first)
                    metadata = first.metadata
                    texts = [name for column, name in columns.items() if column in self._texts and name is not None]
                    dictionaries = numbered_texts(metadata, texts)
            except UnreadableError as error:
                yield from (self._unreadable.skipped(self.schema, file, error, _described(part)) for part in parts)
                continue
            bounds = [(split.begin, metadata.num_row_groups if split.end is None else split.end) for split in parts]
            groups = [group for begin, end in bounds for group in range(begin, min(end, metadata.num_row_groups))]
            read = [name for name in columns.values() if name]
            with (
                self._unreadable.stopping(file),
                _opened(file, metadata=metadata, read_dictionary=dictionaries) as opened,
            ):
                kinds = (opened.schema_arrow.field(name).type for name in read)
                most = _FIXED_ROWS if all(map(_is_fixed, kinds)) else _ROWS
                for group in groups:
                    size = metadata.row_group(group).num_rows
                    row = sum(metadata.row_group(before).num_rows for before in range(group))
                    batches: Iterable[pa.RecordBatch] = _batches(opened, group, read, most, size)
                    if self._unreadable.are_skipped:
                        try:
                            batches = list(batches)  # before its first row is used
                        except UnreadableError as error:
                            what = f"row group {group} (rows {row} to {row + size - 1})"
                            yield self._unreadable.skipped(self.schema, file, error, what, row)
                            continue
                    for batch in batches:
                        rows = pa.Table.from_batches([batch]) if read else _without_columns(batch.num_rows)
                        numbers = range(row, row + batch.num_rows)
                        yield checked_texts(file, self._typed(rows, columns, dictionaries), numbers)
                        row += batch.num_rows

    def _types_of(self, files: Sequence[Path]) -> pa.Schema:
        """Return the columns of the first file that can be read, with Spark's types."""
        first = files[0]
        if self._unreadable.are_skipped:
            first = next((file for file in files if is_readable(file, "parquet")), first)
        with self._unreadable.stopping(first), _opened(first) as opened:
            return self._types_in(first, opened)

    def _columns_in(self, file: Path, opened: pq.ParquetFile) -> dict[str, str | None]:
        """Return the column of a file for each column of the stream; None if the file lacks it."""
        return self._matched(file, self._types_in(file, opened))

    def _types_in(self, file: Path, opened: pq.ParquetFile, only: Collection[str] | None = None) -> pa.Schema:
        """Return the columns of a file with Spark's types; of all its columns, or `only` of these."""
        if any(key in (opened.metadata.metadata or {}) for key in _REBASED):
            raise on_spark(self._name, f"{str(file)!r}, which was written with the calendar of Spark 2,", self._stream)
        fields = []
        known = {name.lower() for name in self.schema.names} if self._skips_others else None
        for field in opened.schema_arrow:
            if field.name not in only if only is not None else known is not None and field.name.lower() not in known:
                continue
            kind = spark_type(field.type) if not pa.types.is_binary(field.type) else field.type
            nanoseconds = pa.types.is_timestamp(field.type) and field.type.unit == "ns"
            if kind is None or nanoseconds or pa.types.is_duration(field.type) or pa.types.is_null(field.type):
                raise on_spark(self._name, f"column {field.name!r} of type {field.type} in {str(file)!r}", self._stream)
            fields.append(pa.field(field.name, pa.timestamp("us", "UTC") if _is_int96(opened, field) else kind))
        return pa.schema(fields)

    def _matched(self, file: Path, found: pa.Schema) -> dict[str, str | None]:
        by_key = {name.lower(): name for name in found.names}
        if len(by_key) < len(found.names):
            raise on_spark(self._name, f"{str(file)!r}, in which names of columns differ only in case,", self._stream)
        matched = {field.name: by_key.get(field.name.lower()) for field in self.schema}
        for field in self.schema:
            name = matched[field.name]
            if name is not None and found.field(name).type != field.type:
                there, here = spark_name(found.field(name).type), spark_name(field.type)
                raise on_spark(
                    self._name,
                    f"column {field.name!r} of type {there} in {str(file)!r}, which is read as {here},",
                    self._stream,
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


def _opened(file: Path, **how: Any) -> pq.ParquetFile:
    return pq.ParquetFile(file, coerce_int96_timestamp_unit="us", **how)


def _batches(opened: pq.ParquetFile, group: int, columns: list[str], most: int, size: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a row group; raise UnreadableError if it is damaged."""
    read = 0
    with reading():
        for batch in opened.iter_batches(most, [group], columns, use_threads=False):
            read += batch.num_rows
            yield batch
    if read != size:
        raise UnreadableError(f"row group {group} has {read} of {size} rows")


def _described(split: Split) -> str:
    return "the file" if split.end is None else f"row groups {split.begin} to {split.end - 1}"


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
