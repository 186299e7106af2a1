"""A lock on a checkpoint folder for one process. The operating system releases it when the process ends."""

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
    """Locks a file for this process, and reports the owner if another process has locked it.

    With None as path nothing is locked: the folder is remote, or the caller has already locked it.

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
        """Acquire the lock; raise InvalidInputError if another run holds it. Does nothing if files cannot be locked."""
        if self._path is None or self._file is not None or fcntl is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:  # the next write to the folder reports the problem
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
                f"checkpoint {str(self._path.parent)!r} is in use by {owner}, so the stream was not started: two runs "
                "would corrupt the state. Stop that run first, or use another checkpoint."
            ) from None
        self._file = file
        _HELD.add(self)
        since = datetime.now(UTC).isoformat(timespec="seconds")
        with suppress(OSError):  # the lock is valid without the owner's details
            os.truncate(file, 0)
            os.pwrite(file, json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since}).encode(), 0)

    def __del__(self) -> None:
        self.release()

    def release(self) -> None:
        """Release the lock."""
        file, self._file = self._file, None
        _HELD.discard(self)
        if file is not None:
            with suppress(OSError):
                os.close(file)


def _owner(file: int) -> str:
    """Return the owner of the lock, from the content of the file."""
    try:
        found = json.loads(os.pread(file, 4096, 0))
        return f"process {int(found['pid'])} on {found['host']!s:.255} since {found['since']!s:.64}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def _release_in_child() -> None:
    """Release inherited locks in a forked process, so that they end with the parent."""
    for lock in list(_HELD):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_in_child)
