"""Answers in a folder of Parquet files: read as they are, and followed while files come, go or are replaced."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from skyband.errors import InvalidInputError
from skyband.page.asked import Asked, asked_of
from skyband.page.history import MOST_BYTES, History
from skyband.page.inferring import Inferred, in_order, is_answers, with_query

if TYPE_CHECKING:
    from skyband.page.control import Control
    from skyband.workfile import WorkloadFile
    from skyband.workload import Workload

__all__ = ["FolderShow"]

POLL = 0.25  # seconds
_OF_A_SINK = re.compile(r"(.+)-\d{8}\.parquet")
_LOG = logging.getLogger("skyband.page")


class _Seen(NamedTuple):
    """A file as it was when it was read."""

    changed: int
    size: int
    inode: int


class FolderShow:
    """The answers in a folder, whoever wrote them; a context that follows the folder while it is open."""

    live = False
    ended = False
    control: Control | None = None

    def __init__(self, folder: Path, file: WorkloadFile | None = None, *, history: History | None = None) -> None:
        if not folder.is_dir():
            raise InvalidInputError(
                f"--answers {str(folder)!r} is no folder; the page shows the Parquet files in one, such as the path of "
                "a sink of type parquet."
            )
        self.title = folder.resolve().name or str(folder)
        self.history = history or History()
        self.version = 0
        self._folder, self._file = folder, file
        self._most = MOST_BYTES
        self._seen: dict[Path, _Seen] = {}
        self._inferred = Inferred()
        self._known: dict[str, Asked] = {}
        if file is not None:
            self._known = asked_of(file.workloads, {name: stream.id for name, stream in file.streams.items()})
            self.history.ask(self._known)
        self._answered: dict[str, dict[str, int]] = {}  # by stream: files and rows
        self._counted: dict[Path, tuple[str, int]] = {}
        self._shape: dict[str, list[str]] = {}
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
        """Read what is new in the folder, once; how many files were read or had gone."""
        with self._scanning:
            there = dict(self._files())
            gone = [path for path in self._seen if path not in there]
            for path in gone:
                self._forget(path)
            fresh = [path for path, seen in there.items() if self._seen.get(path) != seen]
            worth = self._newest(fresh, there)
            for path in fresh:
                self._seen[path] = there[path]
            again = False
            for path in worth:
                again |= self._read(path)
            if again:  # groups turned out to be others: all windows are cut anew
                for path in sorted(self._counted, key=lambda path: (there[path].changed, path.name)):
                    self._read(path)
            return len(gone) + len(worth)

    def refresh(self) -> int:
        """Take in what was read."""
        with self._lock:
            version = self.history.settle()
            shape = {**self.history.shape(), "": list(self.asked())}
            if shape != self._shape:
                self._shape = shape
                self.version += 1
            return version

    def asked(self) -> Mapping[str, Asked]:
        """The queries that have answered, and those of the workload file."""
        return {**self._known, **self._inferred.asked}

    def workloads(self) -> Mapping[str, Workload[Any]]:
        """The workloads of the file, if one was given."""
        return {} if self._file is None else self._file.workloads

    def algorithm(self, stream: str) -> str:
        """What the file says, if one was given."""
        return "auto" if self._file is None else self._file.algorithm_of(stream)

    def numbers(self) -> Mapping[str, Mapping[str, Any]]:
        """What can be told by answers alone: files, rows and queries of each stream."""
        found: dict[str, dict[str, Any]] = {}
        for stream, rows in list(self._counted.values()):
            one = found.setdefault(stream, {"batches": 0, "answers": 0})
            one["batches"] += 1
            one["answers"] += rows
        for asked in self.asked().values():
            mine = found.setdefault(asked.stream, {"batches": 0, "answers": 0})
            mine["queries"] = mine.get("queries", 0) + 1
        return found

    def _follow(self) -> None:
        while not self._closed.is_set():
            try:
                self.scan()
            except Exception:
                _LOG.exception("the folder %s could not be read; it is tried again", self._folder)
            self._closed.wait(POLL)

    def _files(self) -> Iterator[tuple[Path, _Seen]]:
        """The Parquet files below the folder; hidden ones are being written."""
        for at, folders, names in os.walk(self._folder):
            folders[:] = [name for name in folders if not name.startswith((".", "_"))]
            for name in names:
                if name.endswith(".parquet") and not name.startswith((".", "_")):
                    path = Path(at, name)
                    try:
                        stat = path.stat()
                    except OSError:
                        continue  # it went away meanwhile
                    yield path, _Seen(stat.st_mtime_ns, stat.st_size, stat.st_ino)

    def _newest(self, paths: list[Path], there: Mapping[Path, _Seen]) -> list[Path]:
        """Of these files the newest that fit into the history, oldest first: others would go again at once."""
        ordered = sorted(paths, key=lambda path: (there[path].changed, path.name))
        total = 0
        for place in range(len(ordered) - 1, -1, -1):
            total += there[ordered[place]].size
            if total > self._most and place < len(ordered) - 1:
                return ordered[place + 1 :]
        return ordered

    def _read(self, path: Path) -> bool:
        """Read a file into the history; return whether what was thought of its queries has changed."""
        try:
            rows = _rows(path, self._most)
        except (OSError, pa.ArrowException) as error:
            _LOG.warning("%s was passed over: %s", path, error)
            return False
        if rows is None:
            _LOG.warning("%s was passed over: answers have a column rank, and window_end or time", path)
            return False
        stream = self._stream(path)
        rows = with_query(rows, stream)
        changed = self._inferred.read(rows, stream, self._known)
        self.history.ask(self._inferred.asked)
        groups = {name: self._group_columns(rows, one) for name, one in self.asked().items() if one.groups}
        self._counted[path] = (stream, rows.num_rows)
        self.history.put(str(path), stream, in_order(rows, groups))
        return changed

    def _forget(self, path: Path) -> None:
        del self._seen[path]
        self._counted.pop(path, None)
        self.history.put(str(path), self._stream(path), None)

    @staticmethod
    def _group_columns(rows: pa.Table, asked: Asked) -> list[str]:
        spelled = {name.lower(): name for name in rows.column_names}
        return [spelled[column.lower()] for column in asked.groups if column.lower() in spelled]

    def _stream(self, path: Path) -> str:
        """The stream that a file's answers are of, told by its name or by the only stream there is."""
        found = _OF_A_SINK.fullmatch(path.name)
        if found is not None:
            return found[1]
        return next(iter(self._file.workloads)) if self._file and len(self._file.workloads) == 1 else self.title


def _rows(path: Path, most: int) -> pa.Table | None:
    """The rows of a file, or of its last row groups where it is very long; None if they are no answers."""
    with pq.ParquetFile(path) as file:
        if not is_answers(file.schema_arrow.names):
            return None
        sizes = [file.metadata.row_group(place).total_byte_size for place in range(file.num_row_groups)]
        first, total = len(sizes), 0
        while first > 0 and (first == len(sizes) or total + sizes[first - 1] <= most):
            first -= 1
            total += sizes[first]
        return file.read_row_groups(list(range(first, len(sizes)))) if sizes else file.read()
