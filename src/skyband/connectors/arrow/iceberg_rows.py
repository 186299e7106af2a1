"""Rows of the data files of an Iceberg table. Columns are found by their numbers, also in files before a rename."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import copy
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from skyband.connectors.arrow.batches import FileRows
from skyband.connectors.arrow.iceberg_log import column_types, snapshot_columns
from skyband.connectors.arrow.parquet import ParquetFiles
from skyband.connectors.arrow.paths import on_spark
from skyband.connectors.arrow.splits import Split
from skyband.connectors.iceberg_source import IcebergSource
from skyband.errors import InvalidInputError
from skyband.expressions.types import spark_name

__all__ = ["IcebergRows"]

_NUMBER = b"PARQUET:field_id"


class IcebergRows:
    """The rows of an Iceberg table. `declared` are the columns with which the stream has begun, if it has."""

    def __init__(self, name: str, stream: IcebergSource, declared: pa.Schema | None) -> None:
        table, schema = snapshot_columns(name, stream)
        self.schema = column_types(schema) if declared is None else declared
        numbers = {field.name.lower(): int(field.field_id) for field in schema.fields}
        # A column that was dropped or renamed since the stream began: the snapshot that did it stops the stream.
        for old in sorted(table.metadata.schemas, key=lambda one: int(one.schema_id), reverse=True):
            for field in old.fields:
                numbers.setdefault(field.name.lower(), int(field.field_id))
        missing = next((field.name for field in self.schema if field.name.lower() not in numbers), None)
        if missing is not None:
            raise InvalidInputError(
                f"stream {name!r}: {stream.described()} no longer has the column {missing!r}: the table was replaced. "
                "Start over with --fresh."
            )
        columns = {field.name: numbers[field.name.lower()] for field in self.schema}
        self._files: ParquetFiles = _NumberedFiles(name, stream, self.schema, columns, _names(table), _absent(table))

    def narrow(self, wanted: Collection[str], texts: Collection[str]) -> IcebergRows:
        """Return a reader of the `wanted` columns only."""
        found = copy(self)
        read = [name for name in self.schema.names if name in wanted] or self.schema.names[:1]
        found._files = self._files.narrow(read, texts)
        found.schema = found._files.schema
        return found

    def read(self, splits: Iterable[Split]) -> Iterator[FileRows]:
        """Yield the rows of some parts of files in batches."""
        return self._files.read(splits)


class _NumberedFiles(ParquetFiles):
    """Parquet files with numbered columns. `names` has the numbers of columns in files without numbers."""

    def __init__(
        self,
        name: str,
        stream: IcebergSource,
        declared: pa.Schema,
        columns: Mapping[str, int],
        names: Mapping[str, int],
        absent: Mapping[int, str],
    ) -> None:
        super().__init__(name, stream, [], declared, skips_others=True)
        self._columns, self._names, self._absent = dict(columns), dict(names), dict(absent)

    def _columns_in(self, file: Path, opened: pq.ParquetFile) -> dict[str, str | None]:
        by_number = self._numbered(opened)
        found = self._types_in(file, opened, by_number.values())
        matched: dict[str, str | None] = {}
        for field in self.schema:
            number = self._columns[field.name]
            name = matched[field.name] = by_number.get(number)
            if name is None and number in self._absent:
                what = f"{str(file)!r}, which has no column {field.name!r} ({self._absent[number]}),"
                raise on_spark(self._name, what, self._stream)
            if name is not None and not _is_promoted(found.field(name).type, field.type):
                there, here = spark_name(found.field(name).type), spark_name(field.type)
                what = f"column {name!r} of type {there} in {str(file)!r}, which is read as {here},"
                raise on_spark(self._name, what, self._stream)
        return matched

    def _numbered(self, opened: pq.ParquetFile) -> dict[int, str]:
        """Return the name in a file of each column of the stream, by number."""
        fields = opened.schema_arrow
        has_numbers = any(_NUMBER in (field.metadata or {}) for field in fields)
        wanted = {self._columns[name] for name in self.schema.names}
        found = {}
        for field in fields:
            number = int((field.metadata or {}).get(_NUMBER, -1)) if has_numbers else self._names.get(field.name, -1)
            if number in wanted:
                found[number] = field.name
        return found


def _names(table: Any) -> dict[str, int]:
    """Return the numbers of columns by name, for files that Iceberg has not written."""
    mapping = table.metadata.name_mapping()
    if mapping is None:
        return {field.name: int(field.field_id) for field in table.schema().fields}
    return {name: int(one.field_id) for one in mapping.root for name in one.names if one.field_id is not None}


def _absent(table: Any) -> dict[int, str]:
    """Return, by number, the columns whose values are not null where a file lacks them, and where they are."""
    found = {}
    for spec in table.metadata.partition_specs:
        for field in spec.fields:
            if str(field.transform) == "identity":
                found[int(field.source_id)] = "its values are in the names of folders"
    for field in table.schema().fields:
        if field.initial_default is not None:
            found[int(field.field_id)] = "it has a default value"
    return found


def _is_promoted(there: pa.DataType, here: pa.DataType) -> bool:
    """Return whether a type is equal to another one, or was it before a promotion that Iceberg allows.

    >>> _is_promoted(pa.int32(), pa.int64()), _is_promoted(pa.int64(), pa.int32())
    (True, False)
    """
    if there == here:
        return True
    if pa.types.is_decimal(there) and pa.types.is_decimal(here):
        return bool(there.scale == here.scale and there.precision <= here.precision)
    return (there, here) in ((pa.int32(), pa.int64()), (pa.float32(), pa.float64()))
