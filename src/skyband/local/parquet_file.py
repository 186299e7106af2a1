"""A Parquet file in place of a data frame: only what the queries need is read, on all cores."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

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
            if group is None:
                found = reader.read(wanted, use_threads=len(wanted) > 1)
            else:
                found = reader.read_row_group(group, wanted, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(error) from None
        plain = as_table(found.drop_columns(numbered))
        return pa.table({name: found[name] if name in numbered else plain[name] for name in wanted})

    def largest_first(self, columns: Iterable[str]) -> list[str]:
        """Return the names of columns by their size in the first row group, the largest first."""
        sizes = dict.fromkeys(columns, 0)
        if self._metadata.num_row_groups:
            group = self._metadata.row_group(0)
            for chunk in map(group.column, range(group.num_columns)):
                name = chunk.path_in_schema.partition(".")[0]
                if name in sizes:
                    sizes[name] += chunk.total_compressed_size
        return sorted(sizes, key=lambda name: (-sizes[name], name))

    def _unreadable(self, error: Exception) -> InvalidInputError:
        why = str(error).partition("\n")[0].rstrip(".")
        return InvalidInputError(f"{str(self._path)!r} cannot be read as Parquet: {why}. Nothing was answered.")


class ParquetRows:
    """The rows of a file. The columns of the first call of `project` are read for all rows.

    The others are read by other threads, row group by row group, while the caller works with the first ones. Row groups
    that are not read yet when it turns out that none of their rows is needed are skipped. The caller reads what it
    needs itself if no other thread has begun to: so all cores are busy, and none has two threads.
    """

    def __init__(self, plan: LocalPlan, file: ParquetFile) -> None:
        self._plan, self._file = plan, file
        self._columns: dict[str, pa.ChunkedArray] = {}  # of all rows
        self._pieces: dict[_Piece, Future[pa.ChunkedArray]] = {}
        self._others = pa.cpu_count() - 1  # threads beside the caller's
        self._pool = ThreadPoolExecutor(max(1, self._others))

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
        needed = self._file.largest_first(self._plan.reads(names))
        if not self._columns:
            self._read_ahead(needed)
            self._columns = {name: self._column(_Piece(name, None)) for name in needed}
        for name in needed:
            if name not in self._columns:
                self._columns[name] = self._rows_of(name, np.arange(self.size))
        return self._plan.project(pa.table({name: self._columns[name] for name in needed}), names)

    def project_rows(self, rows: Ints, names: Sequence[str]) -> pa.Table:
        """Compute columns of the plan for some rows."""
        needed = self._file.largest_first(self._plan.reads(names))
        order = None if (rows[1:] >= rows[:-1]).all() else np.argsort(rows, kind="stable")
        ascending = rows if order is None else rows[order]
        self._skip(ascending)
        found = pa.table({name: self._rows_of(name, ascending) for name in needed})
        if order is not None:
            places = np.empty_like(order)
            places[order] = np.arange(order.size)
            found = found.take(pa.array(places))
        return self._plan.project(found, names)

    def _read_ahead(self, needed: Sequence[str]) -> None:
        """Begin to read all columns in other threads, the `needed` ones first.

        Of these the smallest first, because the caller begins with the largest.
        """
        if self._others:
            rest = self._file.largest_first(self._plan.read.difference(needed))
            pieces = [_Piece(name, None) for name in reversed(needed)]
            pieces += [_Piece(name, group) for name in rest for group in range(self._file.begins.size - 1)]
            for piece in pieces:
                self._pieces[piece] = self._pool.submit(self._read, piece)

    def _read(self, piece: _Piece) -> pa.ChunkedArray:
        return self._file.read([piece.name], self._plan.texts, piece.group)[piece.name]

    def _skip(self, rows: Ints) -> None:
        """Do not begin to read the row groups that have none of these rows."""
        unused = np.diff(np.searchsorted(rows, self._file.begins)) == 0
        for piece, reading in self._pieces.items():
            if piece.group is not None and unused[piece.group]:
                reading.cancel()

    def _column(self, piece: _Piece) -> pa.ChunkedArray:
        """Return a column as soon as it is read; this thread reads it if no other one has begun to."""
        reading = self._pieces.get(piece)
        if reading is None or reading.cancel():
            reading = self._pieces[piece] = Future()
            reading.set_result(self._read(piece))
        return reading.result()

    def _rows_of(self, name: str, rows: Ints) -> pa.ChunkedArray:
        """Return a column of some rows in ascending order; their row groups are read if they are not yet."""
        if name in self._columns:
            return self._columns[name].take(pa.array(rows))
        parts = np.split(rows, np.searchsorted(rows, self._file.begins[1:-1])) if self._file.begins.size > 1 else []
        found = [
            chunk
            for group, part in enumerate(parts)
            if part.size
            for chunk in _taken(self._column(_Piece(name, group)), part - self._file.begins[group]).chunks
        ]
        return pa.chunked_array(found, None if found else self._file.schema.field(name).type)


class _Piece(NamedTuple):
    """What one task reads."""

    name: str  # of the column
    group: int | None  # a row group; None: all


def _taken(column: pa.ChunkedArray, rows: Ints) -> pa.ChunkedArray:
    return column if rows.size == len(column) else column.take(pa.array(rows))
