"""Windows that are read from the files of a folder when someone asks for them, because the history is full."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from operator import index
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from skyband.dashboard.folder_contents import Contents, FileAnswers, read_answers
from skyband.dashboard.history import StoredWindow
from skyband.dashboard.window_spans import Segment, WindowSlice, WindowSpan, cut
from skyband.queries.answer_schema import moment_of

__all__ = ["FolderArchive"]

ANY = 1 << 62  # bytes: no limit
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Files = Callable[[], Mapping[Path, Any]]


class _Indexed(NamedTuple):
    """The windows of a file: by query and group, the moments, starts and numbers of rows."""

    seen: Any  # the status of the file
    queries: object  # the queries with which it was read
    windows: dict[tuple[str, str], Any]


class _Lines(NamedTuple):
    """The newest moments of groups, by query and key of the group."""

    of: object  # the files and the state of the index
    newest: dict[str, dict[str, int]]


class FolderArchive:
    """The windows of all files of a folder, also those that the history does not hold. Thread-safe.

    A file is indexed when it is first needed: its columns of queries, groups and moments are read once. `files` returns
    the files with their status; `unread` those of which the history has only a part, or nothing; `is_needed` whether
    any of their windows may be missing in the history, and `has_lost_lines` whether all windows of a group may be, also
    of files that were read.
    """

    def __init__(
        self,
        contents: Contents,
        files: Files,
        unread: Callable[[], Collection[Path]],
        is_needed: Callable[[], bool],
        has_lost_lines: Callable[[], bool] = lambda: False,
    ) -> None:
        self._contents, self._files, self._unread, self._is_needed = contents, files, unread, is_needed
        self._has_lost_lines = has_lost_lines
        self._built = 0  # changes of the index
        self._lines = _Lines(None, {})
        self._index: dict[Path, _Indexed] = {}
        self._newest: dict[Path, tuple[Any, int | None]] = {}  # by file: its status, and its newest moment if known
        self._lock = threading.Lock()

    def windows(self, name: str, key: str) -> list[StoredWindow]:
        """Return all windows of a query and group, by moment; nothing if the history has them all."""
        if not self._is_needed():
            return []
        parts = [found[name, key] for found in self._indexed().values() if (name, key) in found]
        if not parts:
            return []
        rows = np.concatenate(parts)
        moments, first, which = np.unique(rows[:, 0], return_index=True, return_inverse=True)
        counts = np.bincount(which, rows[:, 2]).astype(np.int64)
        starts = rows[first, 1]
        return [
            StoredWindow(moment, None if start == _NO_START else start, count)
            for moment, start, count in zip(moments.tolist(), starts.tolist(), counts.tolist(), strict=True)
        ]

    def lines(self, name: str) -> Mapping[str, int]:
        """Return the newest moment of each group that the history may not hold, by its key."""
        unread = self._unread()
        if not unread and not self._has_lost_lines():
            return {}
        index = self._indexed(None if self._has_lost_lines() else unread)
        with self._lock:
            of = (self._built, frozenset(index))
            if self._lines.of != of:
                newest: dict[str, dict[str, int]] = {}
                for found in index.values():
                    for (query, key), rows in found.items():
                        held, moment = newest.setdefault(query, {}), int(rows[:, 0].max())
                        held[key] = max(held.get(key, moment), moment)
                self._lines = _Lines(of, newest)
            return self._lines.newest.get(name, {})

    def spans(self, name: str, key: str, moments: Sequence[int]) -> dict[int, WindowSpan]:
        """Read the windows of some moments, each file once. A window whose file changes meanwhile is skipped."""
        parts: dict[int, list[tuple[pa.Table, WindowSlice]]] = {}
        for path, found in self._indexed().items():
            known = found.get((name, key))
            mine = [] if known is None else sorted(set(known[:, 0].tolist()).intersection(moments))
            rows = self._read(path, mine) if mine else None
            if rows is None:
                continue
            for one in cut(rows, self._info):
                if (one.query, one.key) == (name, key) and one.moment in mine:
                    # A copy, so that the rows of other windows and groups are freed with the table.
                    copied = rows.take(pa.array(range(one.begin, one.stop)))
                    parts.setdefault(one.moment, []).append((copied, one))
        return {moment: _span(pieces) for moment, pieces in parts.items()}

    def may_have_unread(self, moment: int) -> bool:
        """Return whether files that were not read completely may have windows at or after a moment.

        Only the statistics at the end of the files are read.
        """
        with self._lock:
            files, unread = self._files(), self._unread()
            for path in [path for path in self._newest if path not in unread]:
                del self._newest[path]
            for path in unread:
                seen, held = files.get(path), self._newest.get(path)
                if held is None or held[0] != seen:
                    held = self._newest[path] = seen, _newest_moment(path)
                if held[1] is None or held[1] >= moment:
                    return True
            return False

    def _indexed(self, only: Iterable[Path] | None = None) -> dict[Path, dict[tuple[str, str], Any]]:
        """Return the index of all files, or of `only` these. Files that changed since are indexed again."""
        with self._lock:
            files, queries = self._files(), self._contents.queries
            for path in [path for path in self._index if path not in files]:
                del self._index[path]
                self._built += 1
            wanted = files if only is None else {path: files[path] for path in only if path in files}
            for path, seen in wanted.items():
                held = self._index.get(path)
                if held is None or held.seen != seen or held.queries is not queries:
                    rows = self._read(path, None)
                    self._index[path] = _Indexed(seen, queries, {} if rows is None else _windows(rows, self._info))
                    self._built += 1
            return {path: self._index[path].windows for path in wanted}

    def _read(self, path: Path, moments: Sequence[int] | None) -> pa.Table | None:
        """Read a file: the rows of some moments, or the columns of the index; None if it cannot be read."""
        contents = self._contents
        try:
            columns = None if moments is not None else self._columns
            found = read_answers(
                path,
                contents.source(path),
                contents.stream(path),
                ANY,
                contents.varying,
                columns,
                _only(path, moments),
                contents.partition(path),
            )
            return contents.table(_labelled(found, contents))
        except Exception:  # the file was removed or replaced; the folder reports what is wrong with it
            return None

    def _columns(self, names: list[str]) -> list[str]:
        """Return the columns that the index needs."""
        groups = {column.lower() for info in self._contents.queries.values() for column in info.groups}
        wanted = {"query", "rank", "window_start", moment_of(names)}
        return [name for name in names if name in wanted or name.lower() in groups]

    def _info(self, name: str) -> Any:
        return self._contents.queries[name]


_NO_START = np.iinfo(np.int64).min


def _windows(rows: pa.Table, info: Any) -> dict[tuple[str, str], Any]:
    found: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
    for one in cut(rows, info):
        start = _NO_START if one.start is None else one.start
        found.setdefault((one.query, one.key), []).append((one.moment, start, one.stop - one.begin))
    return {key: np.array(values, np.int64) for key, values in found.items()}


def _span(pieces: Sequence[tuple[pa.Table, WindowSlice]]) -> WindowSpan:
    """Return one window, of rows of several files."""
    whole, part = pieces[0][0], pieces[0][1]
    if len(pieces) > 1:
        whole = pa.concat_tables([rows for rows, _ in pieces], promote_options="permissive").sort_by("rank")
    segment = Segment(("archive", part.query, part.key, part.moment), whole.combine_chunks())
    return WindowSpan(segment, part._replace(begin=0, stop=whole.num_rows))


def _newest_moment(path: Path) -> int | None:
    """Return the newest moment of a file by its statistics; None if they do not have it."""
    try:
        with pq.ParquetFile(path) as file:
            names, groups = file.schema_arrow.names, file.metadata.num_row_groups
            place = file.schema_arrow.get_field_index(moment_of(names))
            if file.metadata.num_columns != len(names):
                return None  # nested columns: the columns of the file have other numbers
            columns = [file.metadata.row_group(group).column(place) for group in range(groups)]
            return max(_as_moment(column.statistics.max) for column in columns)
    except Exception:  # no statistics, a type without any, or a file that was removed or replaced
        return None


def _as_moment(value: date | int) -> int:
    """Return a value of statistics as a moment; raise TypeError if it is neither a time nor an integer."""
    if isinstance(value, datetime):
        return (value.replace(tzinfo=value.tzinfo or UTC) - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return (value - _EPOCH.date()) // timedelta(microseconds=1)
    return index(value)


def _labelled(found: FileAnswers, contents: Contents) -> FileAnswers:
    """Return the rows whose queries have a label: those of files that were never read may have none."""
    known = np.array([contents.is_labelled(ident) for ident in found.idents], bool)
    if known.all():
        return found
    kept = known[found.codes]
    codes = (np.cumsum(known) - 1)[found.codes[kept]]
    return FileAnswers(
        found.rows.filter(pa.array(kept)), [one for one in found.idents if contents.is_labelled(one)], codes
    )


def _only(path: Path, moments: Sequence[int] | None) -> Any:
    """Return the filter of some moments, in order; None for all."""
    if moments is None:
        return None
    schema = pq.read_schema(path)
    column = moment_of(schema.names)
    kind = schema.field(column).type
    if pa.types.is_timestamp(kind):
        values = pa.array(moments, pa.timestamp("us", kind.tz)).cast(kind)
    elif pa.types.is_integer(kind):
        values = pa.array(moments, kind)
    else:
        return None  # a date, or a type that needs conversion: the rows are selected afterwards
    field = pc.field(column)
    if len(moments) == 1:
        return field == values[0]
    # Row groups are chosen by the bounds, which their statistics have.
    return (field >= values[0]) & (field <= values[-1]) & field.isin(values)
