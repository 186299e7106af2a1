"""Warnings about files that change after they were read. Spark reads each file of a folder once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from skyband.jobs.recent_files import RecentFiles
from skyband.paths import has_scheme
from skyband.spark.control import CONTROL_FOLDER
from skyband.spark.delivery import Take

__all__ = ["ReadOnce"]


class ReadOnce:
    """Warns about files as `RecentFiles` does.

    The files of each micro-batch are listed in Spark's checkpoint. The check runs after each micro-batch, and only for
    local files and checkpoints.
    """

    def __init__(self, stream: str, state: str) -> None:
        self._recent = RecentFiles(stream)
        self._lists = None if has_scheme(state) else Path(state) / "sources"
        self._last_lists: dict[Path, int] = {}  # by source: number of the last list that was read

    def after(self, take: Take) -> Take:
        """Return the same function, followed by a check of the files."""

        def taken(rows: pa.Table, batch: int) -> None:
            take(rows, batch)
            self.check()

        return taken

    def check(self) -> None:
        """Compare the files read before with their recorded size and time, and record newly read files."""
        self._recent.check()
        for file in self._newly_read():
            self._recent.add(file)

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
