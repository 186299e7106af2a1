"""Requests to a running job and its replies: small JSON files in a folder, written atomically.

Write access to the folder allows changing the workload, so only the user has access. Messages are data, never code.
Messages over the size limit are rejected without reading them. Each message ends with a checksum, as a flipped bit can
leave a valid request for another query; messages of programs that write none are still read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from skyband.errors import InvalidInputError, UnsupportedError
from skyband.jobs.checked_lines import checked, checksum_of, sealed
from skyband.paths import has_scheme

if TYPE_CHECKING:
    from skyband.workload_file import WorkloadFile

__all__ = ["LONGEST", "Mailbox", "mailbox_of"]

LONGEST = 64 * 1024  # bytes of a message
POLL = 0.05  # seconds
_VERSION = "mail_version"
_RUN, _REQUEST, _REPLY = "run.json", ".request.json", ".reply.json"


class Mailbox:
    """A folder for requests, which a running job polls, and for its replies.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     box = Mailbox(Path(folder))
    ...     box.open()
    ...     name = box.send({"kind": "list"})
    ...     for request, message in box.requests():
    ...         box.reply(request, {"heard": message["kind"]})
    ...     box.fetch(name)
    {'heard': 'list'}
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self) -> None:
        """Announce the running job, and remove leftovers of an earlier one."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(OSError):
                self.folder.chmod(0o700)
            for left in chain.from_iterable(map(self.folder.glob, (f"*{_REQUEST}", f"*{_REPLY}", ".*.new"))):
                left.unlink(missing_ok=True)
            self._write(_RUN, {"pid": os.getpid()})
        except OSError as error:
            raise InvalidInputError(
                f"cannot write to {str(self.folder)!r}, the folder for `skyband ctl` requests beside the state "
                f"({error.strerror or error}). Free disk space or fix its permissions, or set another checkpoint."
            ) from error

    def close(self) -> None:
        """Withdraw the announcement of the running job."""
        (self.folder / _RUN).unlink(missing_ok=True)

    def is_heard(self) -> bool:
        """Whether a running job reads this mailbox."""
        try:
            pid = int(_opened((self.folder / _RUN).read_bytes())["pid"])
            if pid <= 0:  # would signal a group of processes
                return False
            os.kill(pid, 0)
        except PermissionError:
            return True  # alive, of another user
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return False
        return True

    def send(self, message: dict[str, Any]) -> str:
        """Write a request and return the name of its reply. Requests are processed in the order of their times."""
        name = f"{time.time_ns():020}-{uuid4().hex}"
        size = len(_closed(message))
        if size > LONGEST:
            raise InvalidInputError(
                f"a request to a running job can have at most {LONGEST:,} bytes, got {size:,}. Nothing "
                "was sent. Add the query to the file instead."
            )
        self._write(f"{name}{_REQUEST}", message)
        return name

    def fetch(self, name: str) -> dict[str, Any] | None:
        """Return and remove the reply to a request; None if there is no reply yet."""
        path = self.folder / f"{name}{_REPLY}"
        try:
            found = _opened(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise InvalidInputError(
                f"the reply {str(path)!r} of the running job cannot be read ({error}). The request may have taken "
                "effect: `skyband ctl list` shows the queries."
            ) from error
        path.unlink(missing_ok=True)
        return found

    def ask(self, message: dict[str, Any], timeout: float) -> dict[str, Any] | None:
        """Send a request and wait at most `timeout` seconds for its reply; None without a reply."""
        name = self.send(message)
        until = time.monotonic() + timeout
        while True:
            reply = self.fetch(name)
            if reply is not None:
                return reply
            if time.monotonic() >= until or not self.is_heard():
                (self.folder / f"{name}{_REQUEST}").unlink(missing_ok=True)
                return self.fetch(name)
            time.sleep(POLL)

    def requests(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the waiting requests, oldest first. A file that is not a message yields one of kind `unreadable`."""
        for path in sorted(self.folder.glob(f"*{_REQUEST}")):
            yield path.name.removesuffix(_REQUEST), _message(path)

    def reply(self, name: str, answer: dict[str, Any]) -> None:
        """Write the reply and remove the request, even if the reply cannot be written."""
        try:
            self._write(f"{name}{_REPLY}", answer)
        finally:
            (self.folder / f"{name}{_REQUEST}").unlink(missing_ok=True)

    def _write(self, name: str, content: dict[str, Any]) -> None:
        unfinished = self.folder / f".{uuid4().hex}.new"
        try:
            unfinished.write_bytes(_closed(content))
            unfinished.replace(self.folder / name)
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise


def _closed(message: dict[str, Any]) -> bytes:
    """Return a message with its version and a checksum."""
    return sealed({_VERSION: 2, **message})


def _opened(content: bytes) -> dict[str, Any]:
    """Return the message; raise ValueError if it is damaged. Messages of version 1 have no checksum."""
    message = checked(content)
    if message.pop(_VERSION, 1) != 1 and not checksum_of(content):
        raise ValueError("its checksum is missing: it was damaged")
    return message


def _message(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as stream:
            content = stream.read(LONGEST + 1)
        if len(content) > LONGEST:
            return {"kind": "unreadable", "why": f"it has more than {LONGEST:,} bytes"}
        return _opened(content)
    except (OSError, ValueError, RecursionError) as error:
        return {"kind": "unreadable", "why": str(error)}


def mailbox_of(file: WorkloadFile) -> Mailbox:
    """Mailbox of a file's running job, beside its state."""
    checkpoint = str(file.engine.checkpoint)
    if has_scheme(checkpoint):
        raise UnsupportedError(
            f"the state of {file.path} is in {checkpoint!r}, which is not on this machine, so its running job cannot "
            "be changed. Edit the file and restart it instead."
        )
    return Mailbox(Path(checkpoint) / "mail")
