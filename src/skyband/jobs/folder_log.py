"""The log of a followed folder: the files and messages of each micro-batch, written before the batch runs.

A batch that was interrupted is repeated with the same files, so that its answers replace the same output. A file is
known by its path, and is read once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from skyband.errors import InvalidInputError, SnapshotError
from skyband.jobs.checked_lines import checked, checksum_of, sealed
from skyband.snapshot import StateFormat, unchanged

__all__ = ["FolderLog", "LoggedFile", "PlannedBatch", "read_batches"]

LINE = StateFormat("log of files", [unchanged])  # lines of version 1 have no checksum
_UNCHECKED = 1  # the last version without checksums


class LoggedFile(NamedTuple):
    """A file when it was planned."""

    path: str
    changed: int  # time of its last change, in nanoseconds; of a table: the version or snapshot that added it
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

    def __init__(self, path: Path, *, is_new: bool = False) -> None:
        """`is_new`: the log of an earlier run is ignored, because it will be removed before the first batch."""
        self.path = path
        self.last: PlannedBatch | None = None
        self.versions: tuple[int, int] | None = None  # of a table: those of the first and of the last file
        self._seen: set[str] = set()
        self._size = 0  # of the complete lines, in bytes
        self._check = ""  # the checksum of the last line
        for batch, size, self._check in () if is_new else _lines(path):
            self._take(batch)
            self._size += size

    def __contains__(self, file: str) -> bool:
        return file in self._seen

    def append(self, batch: PlannedBatch) -> None:
        """Write a batch durably. A line that an earlier crash cut off is replaced."""
        values = {"batch": batch.number, "files": batch.files, "messages": batch.messages}
        line = sealed(LINE.stamped(values), self._check) + b"\n"
        check = checksum_of(line[:-1])
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
        self._size, self._check = size, check
        self._take(batch)

    def _take(self, batch: PlannedBatch) -> None:
        self.last = batch
        self._seen.update(file.path for file in batch.files)
        if batch.files:
            first, _ = self.versions or (batch.files[0].changed, 0)
            self.versions = first, batch.files[-1].changed


def read_batches(path: Path) -> Iterator[PlannedBatch]:
    """Yield the batches of a log, also while a stream appends to it."""
    return (batch for batch, _, _ in _lines(path))


def _lines(path: Path) -> Iterator[tuple[PlannedBatch, int, str]]:
    """Yield the batches, and the sizes and checksums of their lines.

    The last line is ignored if it has no line break: its batch never began.
    """
    try:
        lines = open(path, "rb")  # noqa: SIM115 - closed below; a missing file has no batches
    except FileNotFoundError:
        return
    except OSError as error:
        raise SnapshotError(
            f"{str(path)!r} cannot be read ({error.strerror or error}), so the files that were read are "
            "unknown. Restore the checkpoint from a backup, or start over with --fresh."
        ) from error
    check = ""
    with lines:
        for number, line in enumerate(lines):
            if not line.endswith(b"\n"):
                return
            batch = _parsed(path, number, line, check)
            check = checksum_of(line[:-1])
            yield batch, len(line), check


def _parsed(path: Path, number: int, line: bytes, check: str) -> PlannedBatch:
    """Return the batch in a line; `check` is the checksum of the line before."""
    try:
        raw = checked(line[:-1], check)
        values = LINE.migrated(raw)
        if raw.get("version", _UNCHECKED) > _UNCHECKED and not checksum_of(line[:-1]):
            raise ValueError("its checksum is missing")
        files: Sequence[Any] = values["files"]
        found = PlannedBatch(
            int(values["batch"]),
            tuple(LoggedFile(str(name), int(changed), int(size)) for name, changed, size in files),
            tuple(values["messages"]),
        )
        if found.number != number:
            raise ValueError(f"batch {found.number} is in the place of batch {number}")
    except SnapshotError as error:
        raise SnapshotError(f"{path}:{number + 1} cannot be read: {error}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SnapshotError(
            f"{path}:{number + 1} is not a line of the log ({error}), so the files that were read are "
            "unknown. Restore the checkpoint from a backup, or start over with --fresh."
        ) from error
    return found
