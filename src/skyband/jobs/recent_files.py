"""Warnings about files that change after they were read. Each file of a folder is read once."""

from __future__ import annotations

import logging
from pathlib import Path

__all__ = ["RecentFiles", "state_of"]

_LOG = logging.getLogger("skyband.sources")
_MOST = 1000  # files that are checked again; most changes happen soon after a file appears
_ADVICE = "Write files to another folder and move them in when they are complete. Copy this file in under another name."


class RecentFiles:
    """Warns about files that are empty when they are read, or change afterwards: their later rows are not read."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._read: dict[Path, tuple[int, int]] = {}  # by file: time of the last change, and size

    def check(self) -> None:
        """Compare the files read before with their recorded size and time."""
        for file, before in list(self._read.items()):
            now = state_of(file)
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

    def add(self, file: Path, state: tuple[int, int] | None = None) -> None:
        """Record a file that was read, with its state when it was read; by default its current state."""
        state = state_of(file) if state is None else state
        if state is None:
            return
        if not state[1]:
            _LOG.warning(
                "stream %r: %s is empty and counts as read. Rows written to it later are not read. %s",
                self._stream,
                file,
                _ADVICE,
            )
        self._read[file] = state
        if len(self._read) > _MOST:
            del self._read[next(iter(self._read))]


def state_of(file: Path) -> tuple[int, int] | None:
    """Return the time of a file's last change in nanoseconds, and its size in bytes; None if there is no file."""
    try:
        found = file.stat()
    except OSError:
        return None  # moved or deleted after it was read, or not on this machine
    return found.st_mtime_ns, found.st_size
