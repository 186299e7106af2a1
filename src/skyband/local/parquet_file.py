"""A Parquet file in place of a data frame: only what the queries need is read, on all cores."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from skyband.data.parquet import numbered_texts
from skyband.errors import InvalidInputError
from skyband.local.frames import as_table

__all__ = ["ParquetFile", "is_path"]


def is_path(value: Any) -> bool:
    """Return whether `value` is a path, not a data frame or an array.

    >>> is_path("trades.parquet"), is_path([1.0])
    (True, False)
    """
    return isinstance(value, str | os.PathLike)


class ParquetFile:
    """A file whose columns are known before its rows are read."""

    def __init__(self, path: Any) -> None:
        self._path = Path(path)
        if self._path.suffix.lower() not in (".parquet", ".parq", ".pq"):
            raise InvalidInputError(
                f"a path must be of a Parquet file, got {str(path)!r}. Read other formats into a data frame, for "
                "example with pyarrow.csv.read_csv, or run `skyband run --local` over them."
            )
        try:
            self._metadata = pq.read_metadata(self._path)
            self.schema = as_table(self._metadata.schema.to_arrow_schema().empty_table()).schema
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(error) from None

    def read(self, columns: Collection[str] | None = None, texts: Collection[str] = ()) -> pa.Table:
        """Return the rows, with some of the columns. `texts` are columns that may come as dictionaries."""
        wanted = [name for name in self.schema.names if columns is None or name in columns]
        numbered = numbered_texts(self._metadata, [name for name in wanted if name in texts])
        try:
            found = pq.read_table(self._path, columns=wanted, read_dictionary=numbered, partitioning=None)
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(error) from None
        plain = as_table(found.drop_columns(numbered))
        return pa.table({name: found[name] if name in numbered else plain[name] for name in wanted})

    def _unreadable(self, error: Exception) -> InvalidInputError:
        why = str(error).partition("\n")[0].rstrip(".")
        return InvalidInputError(f"{str(self._path)!r} cannot be read as Parquet: {why}. Nothing was answered.")
