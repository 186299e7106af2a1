"""A Parquet file in place of a data frame: only what the queries need is read, on all cores."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from skyband.data.parquet import numbered_texts
from skyband.errors import InvalidInputError
from skyband.kernels.stream import Ints
from skyband.local.frames import as_table
from skyband.local.pipeline import LocalPlan

__all__ = ["ParquetFile", "ParquetRows", "is_path"]


def is_path(value: Any) -> bool:
    """Return whether `value` is a path, not a data frame or an array.

    >>> is_path("trades.parquet"), is_path([1.0])
    (True, False)
    """
    return isinstance(value, str | os.PathLike)


class ParquetFile:
    """A file whose columns are known before its rows are read; a context manager that closes it."""

    def __init__(self, path: Any) -> None:
        self._path = Path(path)
        if self._path.suffix.lower() not in (".parquet", ".parq", ".pq"):
            raise InvalidInputError(
                f"a path must be of a Parquet file, got {str(path)!r}. Read other formats into a data frame, for "
                "example with pyarrow.csv.read_csv, or run `skyband run --local` over them."
            )
        try:
            # Opened once, so that all columns are of one file, even if another one takes its name.
            self._file = pa.OSFile(str(self._path))
            self._metadata = pq.read_metadata(self._file)
            self.schema = as_table(self._metadata.schema.to_arrow_schema().empty_table()).schema
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(error) from None
        groups = (self._metadata.row_group(at).num_rows for at in range(self._metadata.num_row_groups))
        self.begins = np.array([0, *accumulate(groups)], np.int64)  # of row groups, and the number of rows

    def __enter__(self) -> ParquetFile:
        return self

    def __exit__(self, *failure: object) -> None:
        self._file.close()

    def read(
        self, columns: Collection[str] | None = None, texts: Collection[str] = (), group: int | None = None
    ) -> pa.Table:
        """Return the rows, of one row group or of all, with some of the columns.

        `texts` are columns that may come as dictionaries. May be called in several threads, for a group in each.
        """
        wanted = [name for name in self.schema.names if columns is None or name in columns]
        numbered = numbered_texts(self._metadata, [name for name in wanted if name in texts])
        try:
            reader = pq.ParquetFile(self._file, metadata=self._metadata, read_dictionary=numbered)
            found = reader.read(wanted) if group is None else reader.read_row_group(group, wanted, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(error) from None
        plain = as_table(found.drop_columns(numbered))
        return pa.table({name: found[name] if name in numbered else plain[name] for name in wanted})

    def _unreadable(self, error: Exception) -> InvalidInputError:
        why = str(error).partition("\n")[0].rstrip(".")
        return InvalidInputError(f"{str(self._path)!r} cannot be read as Parquet: {why}. Nothing was answered.")


class ParquetRows:
    """The rows of a file. The columns of the first call of `project` are read for all rows.

    The others are read by other threads, row group by row group, while the caller works with the first ones. Row groups
    that are not read yet when it turns out that none of their rows is needed are skipped.
    """

    def __init__(self, plan: LocalPlan, file: ParquetFile) -> None:
        self._plan, self._file = plan, file
        self._columns: dict[str, pa.ChunkedArray] = {}  # of all rows
        self._pieces: dict[tuple[int, str], Future[pa.ChunkedArray]] = {}  # by row group and column
        self._pool = ThreadPoolExecutor(pa.cpu_count())

    def __enter__(self) -> ParquetRows:
        return self

    def __exit__(self, *failure: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    @property
    def size(self) -> int:
        """Number of rows."""
        return int(self._file.begins[-1])

    def project(self, names: Sequence[str]) -> pa.Table:
        """Compute columns of the plan for all rows."""
        needed = sorted(self._plan.reads(names))
        if not self._columns:
            found = self._file.read(needed, self._plan.texts)
            self._columns = dict(zip(found.column_names, found.columns, strict=True))
            self._read_ahead()
        for name in needed:
            if name not in self._columns:
                self._columns[name] = self._rows_of(name, np.arange(self.size))
        return self._plan.project(pa.table({name: self._columns[name] for name in needed}), names)

    def project_rows(self, rows: Ints, names: Sequence[str]) -> pa.Table:
        """Compute columns of the plan for some rows."""
        needed = sorted(self._plan.reads(names))
        order = None if (rows[1:] >= rows[:-1]).all() else np.argsort(rows, kind="stable")
        ascending = rows if order is None else rows[order]
        self._skip(ascending)
        found = pa.table({name: self._rows_of(name, ascending) for name in needed})
        if order is not None:
            places = np.empty_like(order)
            places[order] = np.arange(order.size)
            found = found.take(pa.array(places))
        return self._plan.project(found, names)

    def _read_ahead(self) -> None:
        """Begin to read the other columns, if there is a core that the caller does not use."""
        if pa.cpu_count() > 1:
            for group in range(self._file.begins.size - 1):
                for name in self._plan.read - self._columns.keys():
                    self._piece(group, name)

    def _skip(self, rows: Ints) -> None:
        """Do not begin to read the row groups that have none of these rows."""
        unused = np.diff(np.searchsorted(rows, self._file.begins)) == 0
        for (group, _), piece in self._pieces.items():
            if unused[group]:
                piece.cancel()

    def _piece(self, group: int, name: str) -> Future[pa.ChunkedArray]:
        known = self._pieces.get((group, name))
        if known is None or known.cancelled():
            known = self._pool.submit(lambda: self._file.read([name], self._plan.texts, group)[name])
            self._pieces[group, name] = known
        return known

    def _rows_of(self, name: str, rows: Ints) -> pa.ChunkedArray:
        """Return a column of some rows in ascending order; their row groups are read if they are not yet."""
        if name in self._columns:
            return self._columns[name].take(pa.array(rows))
        parts = np.split(rows, np.searchsorted(rows, self._file.begins[1:-1])) if self._file.begins.size > 1 else []
        wanted = [(group, part) for group, part in enumerate(parts) if part.size]
        pieces = [self._piece(group, name) for group, _ in wanted]
        found = [
            chunk
            for (group, part), piece in zip(wanted, pieces, strict=True)
            for chunk in _taken(piece.result(), part - self._file.begins[group]).chunks
        ]
        return pa.chunked_array(found, None if found else self._file.schema.field(name).type)


def _taken(column: pa.ChunkedArray, rows: Ints) -> pa.ChunkedArray:
    return column if rows.size == len(column) else column.take(pa.array(rows))
