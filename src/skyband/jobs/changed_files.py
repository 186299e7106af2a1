"""Files that change after they were read: Spark reads each file of a folder once, whatever is written to it later."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame

from skyband.paths import has_scheme
from skyband.spark.control import CONTROL_FOLDER

__all__ = ["ReadOnce"]

_LOG = logging.getLogger("skyband.sources")
_MOST = 1000  # files that are looked at again; a file that changes does so soon after it came
_ADVICE = "Write files elsewhere, and move them in when they are complete; copy this one in under another name."


class ReadOnce:
    """Warns of files that are empty when they are read, or change afterwards: their later rows are lost.

    Spark's list of the files of each micro-batch is in the checkpoint. Only files and checkpoints of this machine are
    looked at, after each micro-batch.
    """

    def __init__(self, stream: str, state: str) -> None:
        self._stream = stream
        self._lists = None if has_scheme(state) else Path(state) / "sources"
        self._done: dict[Path, int] = {}  # by source: the list that was read last
        self._read: dict[Path, tuple[int, int]] = {}  # by file: when it was changed last, and its size

    def after(self, take: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
        """The same function; files are looked at when it has taken a micro-batch."""

        def taken(frame: DataFrame, batch: int) -> None:
            take(frame, batch)
            self.look()

        return taken

    def look(self) -> None:
        """Look at the files that were read, and at those that have been read since."""
        for file, before in list(self._read.items()):
            now = _state_of(file)
            if now is not None and now != before:
                del self._read[file]
                _LOG.warning(
                    "stream %r: %s has changed since it was read (from %s to %s bytes); what was written to it since "
                    "is not read. %s",
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
                    "stream %r: %s is empty, and counts as read; rows that are written to it later are not read. %s",
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
            # What an earlier run has read is of no interest.
            first = self._done.get(source, last - 1)
            self._done[source] = last
            for number in sorted(number for number in numbers if number > first):
                yield from _files_in(numbers[number], number)


def _files_in(path: Path, number: int) -> Iterator[Path]:
    """The files of a list that were new in it; every tenth list holds those before it, too."""
    try:
        lines = path.read_text().splitlines()[1:]  # after the version
        entries: list[dict[str, Any]] = [json.loads(line) for line in lines]
    except (OSError, ValueError):
        return  # Spark's own form, which may change
    for entry in entries:
        if entry.get("batchId") == number and CONTROL_FOLDER not in str(entry.get("path")):
            yield Path(unquote(urlsplit(str(entry["path"])).path))


def _state_of(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None  # moved away, as it may be once it was read; or not on this machine
    return found.st_mtime_ns, found.st_size
