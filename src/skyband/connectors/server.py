"""What sinks that are servers have in common: an address, options of the client, and how long one that is gone is
waited for.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar, Self, TypeVar

from pydantic import Field

from skyband.connectors.secrets import shown_address
from skyband.connectors.section import Wrong
from skyband.connectors.sink import SinkModel
from skyband.connectors.values import Gap, Scalar, Text
from skyband.durations import parse_duration
from skyband.paths import absolute

__all__ = ["GivenUpError", "Patience", "ServerSink", "seconds"]

_PATIENCE = "60 seconds"
_FILES = {
    *("sslrootcert", "sslcert", "sslkey", "sslcrl", "sslcrldir", "passfile"),  # libpq's
    *("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile"),  # redis-py's
}
_LOG = logging.getLogger(__name__)
_FIRST, _LONGEST = 0.1, 5.0  # seconds between two attempts
T = TypeVar("T")


class ServerSink(SinkModel):
    """A sink somewhere else, which may refuse, or be gone for a while."""

    schemes: ClassVar[tuple[str, ...]] = ()  # what its addresses begin with

    url: Text | None = Field(
        default=None,
        repr=False,  # a password may have come into it from the environment
        description="Where the server is. A password in it must come from the environment.",
    )
    options: dict[str, Scalar] = Field(default={}, repr=False, description="Options of the client.")
    retry: Gap | None = Field(
        default=None,
        description="How long a server that is gone is waited for before the stream stops. Default 60 seconds.",
        examples=["5 minutes"],
    )

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """The address is one of such a server."""
        url = raw.get("url")
        if isinstance(url, str) and url.strip() and not url.startswith(cls.schemes):
            yield "url", f"{shown_address(url)!r} is no address of a {cls.kind()} server; write {cls.schemes[0]}host…"

    def settled(self, folder: Path) -> Self:
        """With the paths of certificates made absolute."""
        return self.model_copy(update={"options": _with_absolute_files(self.options, folder)})

    @property
    def patience(self) -> float:
        """For how many seconds a server that is gone is waited for."""
        return seconds(self.retry or _PATIENCE)

    @property
    def address(self) -> str:
        """The address, as a page on the file says it."""
        return f" at {shown_address(self.url)}" if self.url else ""


def seconds(text: str) -> float:
    """The seconds of a duration.

    >>> seconds("2 minutes")
    120.0
    """
    return parse_duration(text, field="duration") / 1e6


def _with_absolute_files(options: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The options with paths of certificates and the like, which are relative to the workload file's folder.

    >>> _with_absolute_files({"sslmode": "verify-full", "sslrootcert": "ca.pem"}, Path("/work"))
    {'sslmode': 'verify-full', 'sslrootcert': '/work/ca.pem'}
    """
    return {
        # libpq's word for the certificates that the system trusts
        name: absolute(value, folder) if name in _FILES and isinstance(value, str) and value != "system" else value
        for name, value in options.items()
    }


class GivenUpError(Exception):
    """The time is over; the message is that of the last attempt."""


class Patience:
    """Makes attempts for a bounded time.

    Parameters
    ----------
    seconds
        How long after the first failure new attempts are made.
    where
        What is waited for, as messages name it.

    Examples
    --------
    >>> left = [OSError("not yet"), OSError("not yet"), None]
    >>> def work():
    ...     problem = left.pop(0)
    ...     if problem:
    ...         raise problem
    ...     return "done"
    >>> Patience(10, "the server").attempt(work, lambda error: str(error))
    'done'
    """

    def __init__(self, seconds: float, where: str) -> None:
        self.seconds = seconds
        self._where = where
        self._ended = threading.Event()

    def attempt(self, work: Callable[[], T], reason: Callable[[Exception], str | None]) -> T:
        """What `work` returns, at last. `reason` says why an error may pass, or None: then it is raised as it is."""
        until, pause = None, _FIRST
        while True:
            try:
                return work()
            except Exception as error:
                why = reason(error)
                if why is None:
                    raise
                now = monotonic()
                if until is None:
                    until = now + self.seconds
                    if self.seconds:
                        _LOG.warning("%s: %s; trying again for %g seconds", self._where, why, self.seconds)
                if now >= until or self._ended.wait(min(pause, until - now)):
                    raise GivenUpError(why) from None
            pause = min(pause * 2, _LONGEST)

    def end(self) -> None:
        """Make no attempt after the present one: somebody wants to stop."""
        self._ended.set()
