"""Messages to a running workload, and its replies: small files of JSON in a folder, each of them whole or not there.

Whoever can write to the folder can change the workload, so it is the user's alone. What is in it is data, never code,
and what is too long is refused unread.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from skyband.errors import InvalidInputError, UnsupportedError
from skyband.paths import has_scheme

if TYPE_CHECKING:
    from skyband.workload_file import WorkloadFile

__all__ = ["LONGEST", "Mailbox", "mailbox_of"]

LONGEST = 64 * 1024  # bytes of a message
POLL = 0.05  # seconds
_RUN, _REQUEST, _REPLY = "run.json", ".request.json", ".reply.json"


class Mailbox:
    """A folder that a run looks into, and others put requests into.

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
        """Begin to listen; what an earlier run left behind is removed."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(OSError):
                self.folder.chmod(0o700)
            for left in chain.from_iterable(map(self.folder.glob, (f"*{_REQUEST}", f"*{_REPLY}", ".*.new"))):
                left.unlink(missing_ok=True)
            self._write(_RUN, {"pid": os.getpid()})
        except OSError as error:
            raise InvalidInputError(
                f"{str(self.folder)!r}, where a run is told of changes, cannot be written ({error.strerror or error}); "
                "it lies beside the run's state, which must be written, too. Make room, or give another checkpoint."
            ) from error

    def close(self) -> None:
        """Listen no longer."""
        (self.folder / _RUN).unlink(missing_ok=True)

    def is_heard(self) -> bool:
        """Whether a run listens."""
        try:
            pid = int(json.loads((self.folder / _RUN).read_text(encoding="utf-8"))["pid"])
            os.kill(pid, 0)
        except PermissionError:
            return True  # it is somebody else's, and alive
        except (OSError, ValueError, KeyError, TypeError):
            return False
        return True

    def send(self, message: dict[str, Any]) -> str:
        """Put a request into the box; the name it is answered under. Requests are heard in the order of their times."""
        name = f"{time.time_ns():020}-{uuid4().hex}"
        text = json.dumps(message)
        if len(text.encode()) > LONGEST:
            raise InvalidInputError(
                f"the message has {len(text.encode()):,} bytes, and a running workload takes at most {LONGEST:,}; "
                "nothing was sent. Put such a query into the file."
            )
        self._write(f"{name}{_REQUEST}", message)
        return name

    def fetch(self, name: str) -> dict[str, Any] | None:
        """The reply to a request, once; None while there is none."""
        path = self.folder / f"{name}{_REPLY}"
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        path.unlink(missing_ok=True)
        return found

    def ask(self, message: dict[str, Any], timeout: float) -> dict[str, Any] | None:
        """Send a request and wait for its reply, at most `timeout` seconds; None if there was none."""
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
        """The requests that wait, oldest first; what is no message comes as one of kind `unreadable`."""
        for path in sorted(self.folder.glob(f"*{_REQUEST}")):
            yield path.name.removesuffix(_REQUEST), _message(path)

    def reply(self, name: str, answer: dict[str, Any]) -> None:
        """Answer a request; it does not wait any longer, even if the answer cannot be written."""
        try:
            self._write(f"{name}{_REPLY}", answer)
        finally:
            (self.folder / f"{name}{_REQUEST}").unlink(missing_ok=True)

    def _write(self, name: str, content: dict[str, Any]) -> None:
        unfinished = self.folder / f".{uuid4().hex}.new"
        try:
            unfinished.write_text(json.dumps(content), encoding="utf-8")
            unfinished.replace(self.folder / name)
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise


def _message(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as stream:
            content = stream.read(LONGEST + 1)
        if len(content) > LONGEST:
            return {"kind": "unreadable", "why": f"it has more than {LONGEST:,} bytes"}
        found = json.loads(content)
    except (OSError, ValueError, RecursionError) as error:
        return {"kind": "unreadable", "why": str(error)}
    return found if isinstance(found, dict) else {"kind": "unreadable", "why": "it is no mapping"}


def mailbox_of(file: WorkloadFile) -> Mailbox:
    """The mailbox of a file's run, beside its state."""
    checkpoint = str(file.engine.checkpoint)
    if has_scheme(checkpoint):
        raise UnsupportedError(
            f"the state of {file.path} is in {checkpoint!r}, not on this machine, and so its run cannot be reached "
            "from here; to change the workload, edit the file and run it again."
        )
    return Mailbox(Path(checkpoint) / "mail")
