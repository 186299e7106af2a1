"""Rows of the Parquet files of a table. Values of partition columns are in the names of folders."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from copy import copy
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import pyarrow as pa

from skyband.connectors.arrow.batches import FileRows
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
        stored = [field for field in self.schema if field.name not in partitions]
        self._files = ParquetFiles(name, stream, [], pa.schema(stored), skips_others=True)

    def narrow(self, wanted: Collection[str], texts: Collection[str]) -> DeltaRows:
        """Return a reader of the `wanted` columns only."""
        found = copy(self)
        found.schema = pa.schema([field for field in self.schema if field.name in wanted])
        read = [name for name in self._files.schema.names if name in wanted] or self._files.schema.names[:1]
        found._files = self._files.narrow(read, texts)
        return found

    def read(self, splits: Iterable[Split]) -> Iterator[FileRows]:
        """Yield the rows of some parts of files in batches."""
        if not self._partitions:
            yield from self._files.read(splits)
            return
        for file, some in groupby(splits, key=attrgetter("file")):
            values = partition_of(file, self._root)
            for batch in self._files.read(some):
                yield batch._replace(rows=self._with(batch.rows, file, values))

    def _with(self, rows: pa.Table, file: Path, values: dict[str, str | None]) -> pa.Table:
        arrays = []
        for field in self.schema:
            if field.name not in self._partitions:
                arrays.append(rows[field.name])
                continue
            value = pa.array([values.get(field.name)], pa.string()).cast(field.type)
            arrays.append(pa.chunked_array([pa.repeat(value[0], rows.num_rows)], field.type))
        return pa.Table.from_arrays(arrays, names=self.schema.names)


def _is_plain(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date32(kind)
    )
