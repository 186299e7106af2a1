"""Locks on checkpoints and output folders, for one run. They end with the process, also with kill -9."""

from __future__ import annotations

import errno
import json
import logging
import os
import socket
import weakref
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from skyband.errors import InvalidInputError
from skyband.sharding.delivery import Folder, Server

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["Lock", "OutputLocks"]

_LOG = logging.getLogger(__name__)
_TAKEN = (errno.EWOULDBLOCK, errno.EACCES, errno.EAGAIN)
_HELD: weakref.WeakSet[Lock] = weakref.WeakSet()


class Lock:
    """Locks a file for this process, and reports the owner if another process has locked it.

    With None as path nothing is locked: the folder is remote, or the caller has already locked it. `leaves_nothing`:
    the file is removed at the end, and so is its folder if it was created for the file; a killed run leaves the file.

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

    def __init__(self, path: Path | None, *, leaves_nothing: bool = False) -> None:
        self._path, self._leaves_nothing = path, leaves_nothing
        self._created: list[Path] = []  # folders
        self._file: int | None = None

    def take(self) -> None:
        """Acquire the lock; raise InvalidInputError if another run holds it. Does nothing if files cannot be locked."""
        if self._path is None or self._file is not None or fcntl is None:
            return
        while True:
            try:
                self._create_folder(self._path.parent)
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
                raise InvalidInputError(self._refusal(self._path, owner)) from None
            if _is_file(file, self._path):
                break
            os.close(file)  # its owner has removed it in between
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
        if file is None:
            return
        if self._leaves_nothing and self._path is not None:  # while it is locked
            with suppress(OSError):
                self._path.unlink()
                for folder in self._created:
                    folder.rmdir()  # if it is empty
        with suppress(OSError):
            os.close(file)

    def _refusal(self, path: Path, owner: str) -> str:
        return (
            f"checkpoint {str(path.parent)!r} is in use by {owner}, so the stream was not started: two runs would "
            "corrupt the state. Stop that run first, or use another checkpoint."
        )

    def _create_folder(self, folder: Path) -> None:
        if self._leaves_nothing:
            self._created = [one for one in (folder, *folder.parents) if not one.exists()]
        folder.mkdir(parents=True, exist_ok=True)


class _OutputLock(Lock):
    """Locks the files of one stream in an output folder."""

    def __init__(self, folder: Path, stream: str, holds: str) -> None:
        super().__init__(folder / f".{quote(stream, safe=' ')}.lock", leaves_nothing=True)
        self._stream, self._holds = stream, holds

    def _refusal(self, path: Path, owner: str) -> str:
        return (
            f"{str(path.parent)!r} receives {self._holds} of stream {self._stream!r} from {owner}, so this run was not "
            "started: the files of two runs have the same names, and would replace each other. Stop that run first, or "
            "use another path or another name of the stream."
        )


class OutputLocks:
    """Locks the output folders of a stream that are on this machine. Tables and servers have transactions instead.

    >>> OutputLocks("trades").take([])
    """

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._locks: dict[Path, Lock] = {}

    def take(self, folders: Sequence[Folder]) -> None:
        """Lock the folders; raise InvalidInputError if another run writes to one of them."""
        for one in folders:
            path = one.folder.absolute()
            if isinstance(one, Server) or ":/" in str(one.folder) or path in self._locks:
                continue
            lock = _OutputLock(path, self._stream, one.holds)
            try:
                lock.take()
            except InvalidInputError:
                self.release()
                raise
            self._locks[path] = lock

    def release(self) -> None:
        """Release the locks."""
        for lock in self._locks.values():
            lock.release()
        self._locks.clear()


def _is_file(file: int, path: Path) -> bool:
    """Whether an open file is still the one at the path."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


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
