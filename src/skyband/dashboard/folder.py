"""Answers in a folder of Parquet files, followed while files are added, removed or replaced.

One thread reads the folder and publishes each change atomically. Files that cannot be shown are skipped. In the folder
of a table, the log of the table says which files count; all changes of a version are published at once.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from skyband.connectors.table_snapshots import TableSnapshot, snapshot_of
from skyband.dashboard.archive import FolderArchive
from skyband.dashboard.folder_contents import Contents, FileAnswers, is_partial, read_answers
from skyband.dashboard.history import MOST_BYTES, History
from skyband.dashboard.query_info import QueryInfo, query_infos
from skyband.errors import InvalidInputError
from skyband.rate_limited_log import RateLimitedLog

if TYPE_CHECKING:
    from skyband.dashboard.control import RunControl
    from skyband.queries.workload import Workload
    from skyband.workload_file import WorkloadFile

__all__ = ["FolderShow"]

POLL = 0.25  # seconds
POLL_TABLE = 1.0  # seconds; each time, the log or the catalog is read
ROUNDS = 3  # full re-reads per scan; if the folder still changes, the next scan continues
Item = tuple[str, str, pa.Table | None]  # the key, the stream and the rows of a file; None: it has none any more
_LOG = logging.getLogger("skyband.dashboard")
_QUIET = RateLimitedLog(_LOG)


class _Seen(NamedTuple):
    """The status of a file when it was read."""

    changed: int
    size: int
    inode: int


class FolderShow:
    """The answers in a folder, from any writer. As a context manager, it follows the folder.

    `table` is the table in the folder; by default, it is recognized.
    """

    live = False
    ended = False
    control: RunControl | None = None

    def __init__(
        self,
        folder: Path,
        file: WorkloadFile | None = None,
        *,
        history: History | None = None,
        table: TableSnapshot | None = None,
    ) -> None:
        if not folder.is_dir():
            raise InvalidInputError(
                "the answers must be in a folder of Parquet files, or of a Delta or Iceberg table, got "
                f"{str(folder)!r}. Run the file first, whose sink creates the folder, or correct --answers. Nothing "
                "was started."
            )
        self._table = snapshot_of(folder) if table is None else table
        if self._table is not None:
            folder = self._table.folder
            self._table.files()  # what cannot be read is reported before anything is served
        self.title = folder.resolve().name or str(folder)
        self.history = history or History()
        self.version = 0
        self._folder, self._file = folder, file
        self._most = MOST_BYTES
        known = {} if file is None else query_infos(file)
        only = next(iter(file.workloads)) if file is not None and len(file.workloads) == 1 else self.title
        self._contents = Contents(folder, self.title, only, known, self._table)
        self.history.set_queries(known)
        self._seen: dict[Path, _Seen] = {}
        self._failed: dict[Path, str] = {}  # by file: the last error, to log it once
        self._partial: set[Path] = set()  # files of which the history has only a part, or nothing
        self.history.archive = FolderArchive(
            self._contents,
            lambda: dict(self._seen),
            lambda: set(self._partial),
            self._is_incomplete,
            lambda: self.history.has_lost_lines,
        )
        self._changes: list[Item] | None = None  # of a version of the table, until all of them are known
        self._unsettled = False  # whether files must be read again, because labels or groups of queries changed
        self._shape: tuple[int, Mapping[str, QueryInfo]] = (0, {})
        self._scanning, self._lock = threading.Lock(), threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="skyband-folder", daemon=True)

    def __enter__(self) -> FolderShow:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join(10)

    def scan(self) -> int:
        """Read the changes in the folder once; return the number of files read or removed."""
        with self._scanning:
            there = dict(self._files() if self._table is None else self._files_of(self._table))
            gone = [path for path in self._seen if path not in there]
            fresh = [path for path, seen in there.items() if self._seen.get(path) != seen]
            worth = self._newest(fresh, there)
            self._changes = None if self._table is None else []
            self._seen = dict(there)
            for path in gone:
                self._failed.pop(path, None)
                self._partial.discard(path)
                self._forget(path)
            for path in set(fresh).difference(worth):
                self._partial.add(path)
                self._forget(path)
            for path in worth:
                self._read(path)
            changes, self._changes = self._changes or [], None
            if changes and not self._unsettled:
                self.history.put_all(changes, self._contents.queries)
                changes = []
            for _ in range(ROUNDS):
                if self._unsettled:
                    self._reload(there, changes)
                self.history.settle()
                contested, queries = self.history.contested()
                if self._table is not None and self._contents.refute(queries):
                    self._unsettled = True
                elif contested:
                    self._separate([path for path in self._seen if str(path) in contested])
                if not self._unsettled:
                    break
            return len(gone) + len(worth)

    def refresh(self) -> int:
        """Process the answers that were read; return the version of the history."""
        with self._lock:
            version = self.history.settle()
            shape = (self.history.shape, self._contents.queries)
            if shape[0] != self._shape[0] or shape[1] is not self._shape[1]:
                self._shape = shape
                self.version += 1
            return version

    def queries(self) -> Mapping[str, QueryInfo]:
        """The queries that have answers, and those of the workload file."""
        return self._contents.queries

    def workloads(self) -> Mapping[str, Workload[Any]]:
        """The workloads of the workload file, if there is one."""
        return {} if self._file is None else self._file.workloads

    def algorithm(self, stream: str) -> str:
        """The algorithm set in the workload file, else "auto"."""
        return "auto" if self._file is None else self._file.algorithm_of(stream)

    def numbers(self) -> Mapping[str, Mapping[str, Any]]:
        """The metrics that answers provide: the numbers of files, rows and queries by stream."""
        return self._contents.numbers()

    def problem(self) -> str | None:
        """The reason why the folder is no longer followed; None if it is."""
        started, ended = self._thread.ident is not None, self._closed.is_set()
        return (
            None if not started or ended or self._thread.is_alive() else "the thread that reads the folder has stopped"
        )

    def _follow(self) -> None:
        while not self._closed.is_set():
            try:
                self.scan()
            except Exception as error:
                _QUIET.warning("cannot read the folder %s (%r); retrying", self._folder, error)
            self._closed.wait(POLL if self._table is None else POLL_TABLE)

    def _files_of(self, table: TableSnapshot) -> Iterator[tuple[Path, _Seen]]:
        """Yield the files of the newest version of the table. They never change."""
        for path in table.files():
            if (held := self._seen.get(path)) is not None:
                yield path, held
                continue
            try:
                found = path.stat()
            except OSError as error:
                self._skip(path, error)
                continue  # a later version may have removed it
            yield path, _Seen(found.st_mtime_ns, found.st_size, found.st_ino)

    def _files(self) -> Iterator[tuple[Path, _Seen]]:
        """Yield the Parquet files below the folder, except hidden ones, which are still being written."""
        for at, folders, names in os.walk(self._folder):
            folders[:] = [name for name in folders if not name.startswith((".", "_"))]
            for name in names:
                if name.endswith(".parquet") and not name.startswith((".", "_")):
                    path = Path(at, name)
                    try:
                        found = path.stat()
                    except OSError:
                        continue  # removed in the meantime
                    if stat.S_ISREG(found.st_mode):  # opening a pipe would block
                        yield path, _Seen(found.st_mtime_ns, found.st_size, found.st_ino)

    def _newest(self, paths: list[Path], there: Mapping[Path, _Seen]) -> list[Path]:
        """Return the newest of these files that fit into the history, oldest first."""
        ordered = sorted(paths, key=lambda path: (there[path].changed, path.name))
        total = 0
        for place in range(len(ordered) - 1, -1, -1):
            total += there[ordered[place]].size
            if total > self._most and place < len(ordered) - 1:
                return ordered[place + 1 :]
        return ordered

    def _read(self, path: Path) -> None:
        """Read a file and add it to the history, unless labels or groups changed and all files must be read again."""
        found = self._answers(path)
        if found is not None and not self._unsettled and (item := self._item(path, found)):
            self._publish(item)

    def _publish(self, item: Item) -> None:
        """Pass answers to the history; those of a table together with the other changes of the version."""
        if self._changes is None:
            self.history.put_all([item], self._contents.queries)
            return
        self._changes.append(item)
        held = [place for place, (_, _, rows) in enumerate(self._changes) if rows is not None]
        if len(held) > 1 and sum(rows.nbytes for _, _, rows in self._changes if rows is not None) > self._most:
            key, stream, _ = self._changes[held[0]]  # the oldest; the archive reads it
            self._changes[held[0]] = key, stream, None
            self._partial.add(Path(key))

    def _answers(self, path: Path) -> FileAnswers | None:
        """Read a file's answers and learn its queries; return None if the file cannot be shown."""
        try:
            found = self._found(path)
            if self._contents.is_other(found) and self._contents.separate(path):
                found = self._found(path)
            self._unsettled |= self._contents.learn(path, found)
        except Exception as error:
            self._skip(path, error)
            return None
        self._failed.pop(path, None)
        return found

    def _found(self, path: Path) -> FileAnswers:
        contents = self._contents
        source, stream, partition = contents.source(path), contents.stream(path), contents.partition(path)
        found = read_answers(path, source, stream, self._most, contents.varying, partition=partition)
        if is_partial(path, self._most):
            self._partial.add(path)
        else:
            self._partial.discard(path)
        return found

    def _is_incomplete(self) -> bool:
        """Return whether the files have windows that the history does not hold."""
        return bool(self._partial) or self.history.has_dropped

    def _item(self, path: Path, found: FileAnswers) -> Item | None:
        """Return a file's entry for the history; None if its rows cannot be sorted."""
        try:
            return str(path), self._contents.stream(path), self._contents.table(found)
        except Exception as error:
            self._skip(path, error)
            return None

    def _skip(self, path: Path, error: Exception) -> None:
        """Skip a file and log the reason once. The other files are still shown."""
        if isinstance(error, OSError) and error.errno is not None:
            self._seen.pop(path, None)  # removed, or cannot be opened now: the next scan retries
        why = str(error) or type(error).__name__
        if self._failed.get(path) != why:
            _LOG.warning("skipped %s: %s", path, why)
        self._failed[path] = why
        self._forget(path)

    def _reload(self, there: Mapping[Path, _Seen], changes: Iterable[Item]) -> None:
        """Read all files again and replace them in the history at once, with the corrected labels and groups.

        `changes` are those of the version of the table that are not in the history yet.
        """
        self._unsettled = False
        held = sorted(self._contents.files(), key=lambda path: (there[path].changed if path in there else 0, path.name))
        read, total = [], 0
        for path in reversed(held):  # newest first, up to the size limit
            found = self._answers(path) if total <= self._most else None
            if found is not None:
                total += found.rows.nbytes
                read.append((path, found))
        items: dict[str, Item] = {key: (key, stream, None) for key, stream, _ in changes}
        items |= {str(path): (str(path), self._contents.stream(path), None) for path in held}
        for path, found in reversed(read):
            if item := self._item(path, found):
                del items[str(path)]
                items[str(path)] = item
        self.history.put_all(items.values(), self._contents.queries)

    def _separate(self, paths: list[Path]) -> None:
        """Treat each file as its own source, because the files have different rows for the same window."""
        for path in paths:
            self._unsettled |= self._contents.separate(path)

    def _forget(self, path: Path) -> None:
        if self._contents.has(path):
            self._publish((str(path), self._contents.stream(path), None))
            self._unsettled |= self._contents.forget(path)
