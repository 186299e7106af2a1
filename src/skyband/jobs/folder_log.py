"""The log of a followed folder: the files and messages of each micro-batch, written before the batch runs.

A batch that was interrupted is repeated with the same files, so that its answers replace the same output. A file is
known by its path, and is read once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from skyband.errors import InvalidInputError, SnapshotError
from skyband.snapshot import StateFormat

__all__ = ["FolderLog", "LoggedFile", "PlannedBatch"]

LINE = StateFormat("log of files", [])


class LoggedFile(NamedTuple):
    """A file when it was planned."""

    path: str
    changed: int  # time of its last change, in nanoseconds
    size: int  # in bytes


class PlannedBatch(NamedTuple):
    """The input of a micro-batch."""

    number: int
    files: tuple[LoggedFile, ...]
    messages: tuple[dict[str, Any], ...] = ()  # such as the end of the stream


class FolderLog:
    """An append-only file with one line for each micro-batch.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     FolderLog(Path(folder) / "log").append(PlannedBatch(0, (LoggedFile("/in/1.csv", 7, 120),)))
    ...     log = FolderLog(Path(folder) / "log")
    ...     log.last.number, "/in/1.csv" in log, "/in/2.csv" in log
    (0, True, False)
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last: PlannedBatch | None = None
        self._seen: set[str] = set()
        self._size = 0  # of the complete lines, in bytes
        for batch in self._read():
            self._take(batch)

    def __contains__(self, file: str) -> bool:
        return file in self._seen

    def append(self, batch: PlannedBatch) -> None:
        """Write a batch durably. A line that an earlier crash cut off is replaced."""
        values = {"batch": batch.number, "files": batch.files, "messages": batch.messages}
        line = json.dumps(LINE.stamped(values), separators=(",", ":")).encode() + b"\n"
        try:
            with open(self.path, "ab", buffering=0) as file:
                file.truncate(self._size)
                while line:
                    line = line[file.write(line) :]
                os.fsync(file.fileno())
                size = file.tell()
        except OSError as error:
            raise InvalidInputError(
                f"the state cannot be written to {str(self.path)!r} ({error.strerror or error}). The stream stopped; "
                "no answers are lost. Make the folder writable and run it again."
            ) from error
        self._size = size
        self._take(batch)

    def _take(self, batch: PlannedBatch) -> None:
        self.last = batch
        self._seen.update(file.path for file in batch.files)

    def _read(self) -> Iterator[PlannedBatch]:
        """Yield the batches. The last line is ignored if it has no line break: its batch never began."""
        try:
            lines = open(self.path, "rb")  # noqa: SIM115 - closed below; a missing file has no batches
        except FileNotFoundError:
            return
        with lines:
            for number, line in enumerate(lines):
                if not line.endswith(b"\n"):
                    return
                yield self._parsed(number, line)
                self._size += len(line)

    def _parsed(self, number: int, line: bytes) -> PlannedBatch:
        try:
            values = LINE.migrated(json.loads(line))
            files: Sequence[Any] = values["files"]
            found = PlannedBatch(
                int(values["batch"]),
                tuple(LoggedFile(str(path), int(changed), int(size)) for path, changed, size in files),
                tuple(values["messages"]),
            )
            if found.number != number:
                raise ValueError(f"batch {found.number} is in the place of batch {number}")
        except SnapshotError as error:
            raise SnapshotError(f"{self.path}:{number + 1} cannot be read: {error}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise SnapshotError(
                f"{self.path}:{number + 1} is not a line of the log ({error}), so the files that were read are "
                "unknown. Restore the checkpoint from a backup, or start over with --fresh."
            ) from error
        return found
