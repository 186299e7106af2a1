"""Rows of the Parquet files of a table. Values of partition columns are in the names of folders."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from copy import copy
from itertools import groupby
from operator import attrgetter

import pyarrow as pa

from skyband.connectors.arrow.batches import FileRows
from skyband.connectors.arrow.delta_changes import (
    CHANGE_COLUMNS,
    CHANGE_TYPE,
    ChangedFile,
    change_columns,
    changed_file,
    stored_path,
)
from skyband.connectors.arrow.delta_log import partition_of, table_columns
from skyband.connectors.arrow.parquet import ParquetFiles
from skyband.connectors.arrow.splits import Split
from skyband.connectors.delta_source import DeltaSource
from skyband.errors import InvalidInputError
from skyband.expressions.types import spark_name

__all__ = ["DeltaRows"]


class DeltaRows:
    """The rows of a Delta table. `declared` are the columns with which the stream has begun, if it has."""

    def __init__(self, name: str, stream: DeltaSource, declared: pa.Schema | None) -> None:
        columns, partitions = table_columns(name, stream)
        self.schema = columns if declared is None else declared
        self._root, self._partitions = stream.path, partitions
        for field in self.schema:
            if field.name in partitions and not _is_plain(field.type):
                raise InvalidInputError(
                    f"stream {name!r}: Delta table {stream.path!r} is partitioned by {field.name!r} of type "
                    f"{spark_name(field.type)}; text, integers, booleans and dates are supported."
                )
        self._has_changes = stream.has_changes
        added = set(CHANGE_COLUMNS.names) - {CHANGE_TYPE} if stream.has_changes else set[str]()
        stored = [field for field in self.schema if field.name not in partitions and field.name not in added]
        self._files = ParquetFiles(name, stream, [], pa.schema(stored), skips_others=True)

    def narrow(self, wanted: Collection[str], texts: Collection[str]) -> DeltaRows:
        """Return a reader of the `wanted` columns only."""
        found = copy(self)
        found.schema = pa.schema([field for field in self.schema if field.name in wanted])
        needed = {*wanted, CHANGE_TYPE} if self._has_changes else wanted
        read = [name for name in self._files.schema.names if name in needed] or self._files.schema.names[:1]
        found._files = self._files.narrow(read, texts)
        return found

    def read(self, splits: Iterable[Split]) -> Iterator[FileRows]:
        """Yield the rows of some parts of files in batches."""
        if not self._partitions and not self._has_changes:
            yield from self._files.read(splits)
            return
        for file, some in groupby(splits, key=attrgetter("file")):
            stored = stored_path(file) if self._has_changes else file
            values = partition_of(stored, self._root)
            for batch in self._files.read(split._replace(file=stored) for split in some):
                rows = self._with(batch.rows, values, changed_file(file) if self._has_changes else None)
                yield batch._replace(rows=rows)

    def _with(self, rows: pa.Table, values: dict[str, str | None], change: ChangedFile | None) -> pa.Table:
        """Return rows with the columns that files do not have: partitions, and what the changes are."""
        added = {} if change is None else change_columns(change, _plain(rows[CHANGE_TYPE]))
        arrays = []
        for field in self.schema:
            if field.name in added:
                arrays.append(added[field.name])
                continue
            if field.name not in self._partitions:
                arrays.append(rows[field.name])
                continue
            value = pa.array([values.get(field.name)], pa.string()).cast(field.type)
            arrays.append(pa.chunked_array([pa.repeat(value[0], rows.num_rows)], field.type))
        return pa.Table.from_arrays(arrays, names=self.schema.names)


def _plain(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return texts that are not a dictionary."""
    return texts.cast(pa.string())


def _is_plain(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date32(kind)
    )
