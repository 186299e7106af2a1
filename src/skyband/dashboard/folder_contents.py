"""The contents of a folder: its validated files, their queries, and the labels of the queries on the page."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from skyband.connectors.table_snapshots import PartitionValues, TableSnapshot
from skyband.dashboard.file_sources import Ident, Source, is_of, labels_of, source_of
from skyband.dashboard.inference import Inferred, axis_of, in_order, is_answers, with_query
from skyband.dashboard.query_info import QueryInfo
from skyband.dashboard.window_spans import coded, moment_column, spelled, start_column
from skyband.dashboard.wire import LARGEST
from skyband.queries.answer_schema import moment_of
from skyband.queries.families import inferred_family
from skyband.windows import IrregularWindows

__all__ = ["Contents", "FileAnswers", "NoAnswersError", "is_partial", "read_answers"]

_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
MOST_SIZES = 8  # window lengths per query and file; with more, the length counts as variable


class NoAnswersError(Exception):
    """A file is readable, but does not contain answers."""


class FileAnswers(NamedTuple):
    """The rows of a file, its queries, and for each row the index of its query."""

    rows: pa.Table
    idents: list[Ident]
    codes: Any


def read_answers(
    path: Path,
    source: Source,
    name: str,
    most: int,
    varying: Collection[str] = (),
    columns: Callable[[list[str]], list[str]] | None = None,
    only: pc.Expression | None = None,
    partition: PartitionValues | None = None,
) -> FileAnswers:
    """Read a file. `name` is the query name of rows without one. Above `most` bytes, read only the last row groups.

    Queries with windows of different lengths are in `varying`; others are distinguished by the length. `columns`
    chooses the columns to read, and `only` the rows. `partition` has columns of a table that the file does not have.
    """
    is_whole = columns is None and only is None
    rows = _rows(path, most, partition) if is_whole else _part(path, columns, only, partition)
    rows = _ranked(rows)
    rows = with_query(rows, name)
    names, queries = coded(rows["query"])
    moment_column(rows)  # raises if it is neither a time nor a number
    if "score" in rows.column_names:
        rows["score"].cast(pa.float64(), safe=False)
    sizes = _sizes(rows, len(names), queries)
    sizes[np.isin(queries, [place for place, one in enumerate(names) if one in varying])] = 0
    family, axis = inferred_family(rows.column_names).name, axis_of(rows)
    lengths, which = np.unique(sizes, return_inverse=True)
    pairs, codes = np.unique(queries * np.int64(max(1, lengths.size)) + which, return_inverse=True)
    idents = [
        Ident(source, names[pair // lengths.size], family, axis, int(lengths[pair % lengths.size]) or None)
        for pair in pairs.tolist()
    ]
    return FileAnswers(rows, idents, codes)


def _names(file: pq.ParquetFile, partition: PartitionValues | None) -> list[str]:
    """Return the columns of a file of answers; raise NoAnswersError if it has no answers."""
    names = list(file.schema_arrow.names)
    if partition is not None:
        names = [*names, *(name for name in partition.values if name not in names)]
    if not is_answers(names):
        raise NoAnswersError("the file must have the column rank, and window_end or time")
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise NoAnswersError(f"duplicate column {twice[0]!r}")
    return names


def _part(
    path: Path,
    columns: Callable[[list[str]], list[str]] | None,
    only: pc.Expression | None,
    partition: PartitionValues | None,
) -> pa.Table:
    """Return some columns and rows of a file."""
    with pq.ParquetFile(path) as file:
        names, stored = _names(file, partition), set(file.schema_arrow.names)
        schema = _without_views(file.schema_arrow)
    wanted = None if columns is None else columns(names)
    read = None if wanted is None else [name for name in wanted if name in stored]
    rows = pq.read_table(path, columns=read, filters=only, partitioning=None, schema=schema)
    return _with_values(rows, partition, wanted)


def is_partial(path: Path, most: int) -> bool:
    """Return whether a file exceeds `most` bytes, so that only a part of it is read."""
    with pq.ParquetFile(path) as file:
        sizes = [int(file.metadata.row_group(place).total_byte_size) for place in range(file.num_row_groups)]
        return sum(sizes) > most


def _with_values(rows: pa.Table, partition: PartitionValues | None, wanted: Collection[str] | None = None) -> pa.Table:
    """Return rows with the `wanted` columns that their file does not have, in the order of the table."""
    if partition is None:
        return rows
    for name, value in partition.values.items():
        if name not in rows.column_names and (wanted is None or name in wanted):
            kind = _VIEWS.get(value.type, value.type)
            rows = rows.append_column(name, pa.repeat(value.cast(kind), rows.num_rows))
    known = [name for name in partition.columns if name in rows.column_names]
    return rows.select([*known, *(name for name in rows.column_names if name not in known)])


def _rows(path: Path, most: int, partition: PartitionValues | None) -> pa.Table:
    """Return the rows of a file, or of its last row groups if it exceeds `most` bytes."""
    with pq.ParquetFile(path) as file:
        _names(file, partition)
        sizes = [file.metadata.row_group(place).total_byte_size for place in range(file.num_row_groups)]
        first, total = len(sizes), 0
        while first > 0 and (first == len(sizes) or total + sizes[first - 1] <= most):
            first -= 1
            total += sizes[first]
        rows = file.read_row_groups(list(range(first, len(sizes)))) if sizes else file.read()
    schema = _without_views(rows.schema)
    return _with_values(rows if schema is None else rows.cast(schema), partition)


def _without_views(schema: pa.Schema) -> pa.Schema | None:
    """Return a schema without the types of text and bytes that Arrow can neither sort nor filter; None if it has none.

    Files of Delta tables have them after rows were deleted.
    """
    if _VIEWS.keys().isdisjoint(schema.types):
        return None
    return pa.schema([field.with_type(_VIEWS.get(field.type, field.type)) for field in schema], schema.metadata)


def _ranked(rows: pa.Table) -> pa.Table:
    """Return the rows that have a rank and a moment, with ranks as integers."""
    kind = rows["rank"].type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise NoAnswersError(f"the column rank must be an integer column, got {kind}")
    ranks = rows["rank"].cast(pa.int64())
    if pc.any(pc.greater(ranks, LARGEST)).as_py():
        raise NoAnswersError(f"rank must be at most {LARGEST:,}")
    rows = rows.set_column(rows.column_names.index("rank"), "rank", ranks)
    moment = rows[moment_of(rows.column_names)]
    if ranks.null_count or moment.null_count:
        rows = rows.filter(pc.and_(pc.is_valid(ranks), pc.is_valid(moment)))
    return rows


def _sizes(rows: pa.Table, count: int, queries: Any) -> Any:
    """Return the window length of each row; 0 if it is unknown or variable."""
    if "window_start" not in rows.column_names or "window_end" not in rows.column_names:
        return np.zeros(rows.num_rows, np.int64)
    sizes = np.maximum(moment_column(rows) - start_column(rows), 0)
    sizes[rows["window_start"].is_null().to_numpy()] = 0
    lengths, which = np.unique(sizes, return_inverse=True)
    if lengths.size > MOST_SIZES:
        pairs = np.unique(queries * np.int64(lengths.size) + which)
        varies = np.bincount(pairs // lengths.size, minlength=count) > MOST_SIZES
        sizes[varies[queries]] = 0
    return sizes


class Contents:
    """The files of a folder and their queries. One thread updates it; others read `queries` and `numbers`.

    `only` is the stream of files whose names do not contain a stream. `known` are the queries of a workload file.
    The files of a `table` are one source, whatever their names, unless they contradict each other.
    """

    def __init__(
        self,
        folder: Path,
        title: str,
        only: str,
        known: Mapping[str, QueryInfo],
        table: TableSnapshot | None = None,
    ) -> None:
        self._folder, self._title, self._only, self._known = folder, title, only, known
        self._table = table
        self.varying = {  # queries with windows of different lengths
            name
            for name, info in known.items()
            if info.query is not None and isinstance(info.query.window, IrregularWindows)
        }
        self._inferred = Inferred()
        self._alone: set[Path] = set()  # files that are separate sources, whatever their names
        self._labels: dict[Ident, str] = {}
        self._lock = threading.Lock()
        self._counted: dict[Path, tuple[str, int]] = {}  # by file: its stream, and its rows
        self.queries: Mapping[str, QueryInfo] = dict(known)  # by label; replaced by a new object on every change

    def source(self, path: Path) -> Source:
        """Return the source of a file."""
        if self._table is not None and path not in self._alone:
            return Source(self._title, "parts")
        return source_of(path, self._folder, self._title, alone=path in self._alone)

    def partition(self, path: Path) -> PartitionValues | None:
        """Return the columns of the table that a file does not have."""
        return None if self._table is None else self._table.partition(path)

    def stream(self, path: Path) -> str:
        """Return the stream of a file, from its name or else the default stream."""
        return self.source(path).stream or self._only

    def has(self, path: Path) -> bool:
        """Return whether answers of a file are loaded."""
        return path in self._counted

    def files(self) -> list[Path]:
        """Return the loaded files."""
        return list(self._counted)

    def is_other(self, found: FileAnswers) -> bool:
        """Return whether a file's answers contradict those of its source."""
        return self._inferred.contradicts(*found)

    def learn(self, path: Path, found: FileAnswers) -> bool:
        """Learn the queries of a file; return whether the label or groups of another file's query changed."""
        known = {ident for ident in found.idents if self._is_known(ident)}
        gone = self._inferred.forget(path)
        learned = self._inferred.read(path, *found, self.stream(path), known)
        with self._lock:
            self._counted[path] = (self.stream(path), found.rows.num_rows)
        return self._publish() if gone or learned else False

    def forget(self, path: Path) -> bool:
        """Remove a file; return whether the label of another file's query changed."""
        with self._lock:
            self._counted.pop(path, None)
        self._alone.discard(path)
        return self._publish() if self._inferred.forget(path) else False

    def separate(self, path: Path) -> bool:
        """Treat a file as its own source; return whether that is a change."""
        if path in self._alone:
            return False
        self._alone.add(path)
        return True

    def refute(self, labels: Collection[str]) -> bool:
        """Note that files of one table contradict the groups of these queries; return whether others are possible.

        A partitioned table has each group in its own files, so that no single file shows that it is a group.
        """
        idents = [ident for ident, label in self._labels.items() if label in labels and not self._is_known(ident)]
        return sum(self._inferred.refute(ident) for ident in idents) > 0  # of all of them

    def is_labelled(self, ident: Ident) -> bool:
        """Return whether a query has a label."""
        return ident in self._labels

    def table(self, found: FileAnswers) -> pa.Table:
        """Return the rows of a file for the history: with query labels, sorted by window."""
        labels = [self._labels[ident] for ident in found.idents]
        rows = found.rows
        named = pa.array(labels, pa.string()).take(pa.array(found.codes))
        rows = rows.set_column(rows.column_names.index("query"), "query", named)
        groups = {label: _columns(rows, self.queries[label]) for label in labels}
        return in_order(rows, labels, np.asarray(found.codes), groups)

    def numbers(self) -> dict[str, dict[str, Any]]:
        """Return the numbers of files, rows and queries by stream."""
        with self._lock:
            counted = list(self._counted.values())
        found: dict[str, dict[str, Any]] = {}
        for stream, rows in counted:
            one = found.setdefault(stream, {"batches": 0, "answers": 0})
            one["batches"] += 1
            one["answers"] += rows
        for info in self.queries.values():
            mine = found.setdefault(info.stream, {"batches": 0, "answers": 0})
            mine["queries"] = mine.get("queries", 0) + 1
        return found

    def _is_known(self, ident: Ident) -> bool:
        return ident.name in self._known and is_of(ident, self._known[ident.name])

    def _publish(self) -> bool:
        """Update `queries` and the labels; return whether the label or groups of a known query changed."""
        inferred = self._inferred.infos
        labels = labels_of(inferred, self._known, {ident: one.window for ident, one in inferred.items()})
        queries: dict[str, QueryInfo] = {}
        shown = {ident.name for ident in labels if self._is_known(ident)}
        queries |= {name: one for name, one in self._known.items() if name not in shown}
        for ident, label in labels.items():
            queries[label] = replace(self._known[ident.name] if self._is_known(ident) else inferred[ident], name=label)
        before, self._labels = self._labels, labels
        changed = any(
            ident in labels and (labels[ident] != label or queries[labels[ident]].groups != self.queries[label].groups)
            for ident, label in before.items()
        )
        self.queries = queries
        return changed


def _columns(rows: pa.Table, info: QueryInfo) -> list[str]:
    found = (spelled(rows, column) for column in info.groups)
    return [column for column in found if column is not None]
