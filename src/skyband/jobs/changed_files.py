"""Warnings about files that change after they were read. Spark reads each file of a folder once."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from skyband.paths import has_scheme
from skyband.spark.control import CONTROL_FOLDER
from skyband.spark.delivery import Take

__all__ = ["ReadOnce"]

_LOG = logging.getLogger("skyband.sources")
_MOST = 1000  # files that are checked again; most changes happen soon after a file appears
_ADVICE = "Write files to another folder and move them in when they are complete. Copy this file in under another name."


class ReadOnce:
    """Warn about files that are empty when they are read, or change afterwards: their later rows are not read.

    The files of each micro-batch are listed in Spark's checkpoint. The check runs after each micro-batch, and only for
    local files and checkpoints.
    """

    def __init__(self, stream: str, state: str) -> None:
        self._stream = stream
        self._lists = None if has_scheme(state) else Path(state) / "sources"
        self._last_lists: dict[Path, int] = {}  # by source: number of the last list that was read
        self._read: dict[Path, tuple[int, int]] = {}  # by file: time of the last change, and size

    def after(self, take: Take) -> Take:
        """Return the same function, followed by a check of the files."""

        def taken(rows: pa.Table, batch: int) -> None:
            take(rows, batch)
            self.check()

        return taken

    def check(self) -> None:
        """Compare the files read before with their recorded size and time, and record newly read files."""
        for file, before in list(self._read.items()):
            now = _state_of(file)
            if now is not None and now != before:
                del self._read[file]
                _LOG.warning(
                    "stream %r: %s changed after it was read (from %s to %s bytes). Rows written since then are not "
                    "read. %s",
                    self._stream,
                    file,
                    f"{before[1]:,}",
                    f"{now[1]:,}",
                    _ADVICE,
                )
        for file in self._newly_read():
            state = _state_of(file)
            if state is None:
                continue
            if not state[1]:
                _LOG.warning(
                    "stream %r: %s is empty and counts as read. Rows written to it later are not read. %s",
                    self._stream,
                    file,
                    _ADVICE,
                )
            self._read[file] = state
        for file in list(self._read)[: max(0, len(self._read) - _MOST)]:
            del self._read[file]

    def _newly_read(self) -> Iterator[Path]:
        for source in sorted(self._lists.iterdir()) if self._lists is not None and self._lists.is_dir() else ():
            numbers = {int(path.name.partition(".")[0]): path for path in source.iterdir() if path.name[0].isdigit()}
            last = max(numbers, default=-1)
            # Files that an earlier run has read are not checked.
            first = self._last_lists.get(source, last - 1)
            self._last_lists[source] = last
            for number in sorted(number for number in numbers if number > first):
                yield from _files_in(numbers[number], number)


def _files_in(path: Path, number: int) -> Iterator[Path]:
    """Yield the files that are new in a list; every tenth list also repeats the earlier ones."""
    try:
        lines = path.read_text().splitlines()[1:]  # after the version
        entries: list[dict[str, Any]] = [json.loads(line) for line in lines]
    except (OSError, ValueError):
        return  # an internal format of Spark, which may change
    for entry in entries:
        if entry.get("batchId") == number and CONTROL_FOLDER not in str(entry.get("path")):
            yield Path(unquote(urlsplit(str(entry["path"])).path))


def _state_of(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None  # moved or deleted after it was read, or not on this machine
    return found.st_mtime_ns, found.st_size
