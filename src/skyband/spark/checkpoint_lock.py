"""A lock on a folder that only one process may use at a time. The system releases it when its process ends, however."""

from __future__ import annotations

import errno
import json
import logging
import os
import socket
import weakref
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from skyband.errors import InvalidInputError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["Lock"]

_LOG = logging.getLogger(__name__)
_TAKEN = (errno.EWOULDBLOCK, errno.EACCES, errno.EAGAIN)
_HELD: weakref.WeakSet[Lock] = weakref.WeakSet()


class Lock:
    """Takes a file for this process, and says who has it if another does.

    None for the path: nothing is locked, because the folder is not on this machine or the caller has locked it.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     lock = Lock(Path(folder) / "lock")
    ...     lock.take()
    ...     try:
    ...         Lock(Path(folder) / "lock").take()
    ...     except InvalidInputError as error:
    ...         print(str(error).partition(" process ")[0].partition(" is")[2])
    ...     lock.release()
    ...     Lock(Path(folder) / "lock").take()
     in use by
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: int | None = None

    def take(self) -> None:
        """Take it; InvalidInputError if another run has it. Where files cannot be locked, nothing happens."""
        if self._path is None or self._file is not None or fcntl is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:  # who cannot write here is told by whoever writes next
            _LOG.info("%s cannot be locked: %s", self._path, error)
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = _owner(file)
            os.close(file)
            if error.errno not in _TAKEN:
                _LOG.info("%s cannot be locked: %s", self._path, error)
                return
            raise InvalidInputError(
                f"checkpoint {str(self._path.parent)!r} is in use by {owner}; two runs would spoil each other's state, "
                "so nothing was started. Stop that run first, or give another checkpoint."
            ) from None
        self._file = file
        _HELD.add(self)
        since = datetime.now(UTC).isoformat(timespec="seconds")
        with suppress(OSError):  # the lock holds without it
            os.truncate(file, 0)
            os.pwrite(file, json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since}).encode(), 0)

    def __del__(self) -> None:
        self.release()

    def release(self) -> None:
        """Let others have it."""
        file, self._file = self._file, None
        _HELD.discard(self)
        if file is not None:
            with suppress(OSError):
                os.close(file)


def _owner(file: int) -> str:
    """Who wrote into the file that it has the lock."""
    try:
        found = json.loads(os.pread(file, 4096, 0))
        return f"process {int(found['pid'])} on {found['host']!s:.255} since {found['since']!s:.64}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def _let_go_in_child() -> None:
    """A forked process must not keep the lock of one that has ended."""
    for lock in list(_HELD):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)
