"""The base class of server sinks: an address, client options, and retries while the server is unavailable."""

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
    """A sink that writes to a server, which may be unavailable or reject connections."""

    schemes: ClassVar[tuple[str, ...]] = ()  # prefixes of its addresses

    url: Text | None = Field(
        default=None,
        repr=False,  # may contain a password from the environment
        description="The address of the server. A password in it must come from the environment.",
    )
    options: dict[str, Scalar] = Field(default={}, repr=False, description="Options of the client.")
    retry: Gap | None = Field(
        default=None,
        description="How long to retry while the server is unavailable, before the stream stops. Default: 60 seconds.",
        examples=["5 minutes"],
    )

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """Check the scheme of the address."""
        url = raw.get("url")
        if isinstance(url, str) and url.strip() and not url.startswith(cls.schemes):
            yield (
                "url",
                f"{shown_address(url)!r} is not an address of a {cls.kind()} server; write {cls.schemes[0]}host…",
            )

    def settled(self, folder: Path) -> Self:
        """Return a copy with absolute paths of certificates."""
        return self.model_copy(update={"options": _with_absolute_files(self.options, folder)})

    @property
    def patience(self) -> float:
        """How many seconds to retry while the server is unavailable."""
        return seconds(self.retry or _PATIENCE)

    @property
    def address(self) -> str:
        """The address, for explain output; without secrets."""
        return f" at {shown_address(self.url)}" if self.url else ""


def seconds(text: str) -> float:
    """Convert a duration to seconds.

    >>> seconds("2 minutes")
    120.0
    """
    return parse_duration(text, field="duration") / 1e6


def _with_absolute_files(options: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Resolve certificate and key paths in the options against the workload file's folder.

    >>> _with_absolute_files({"sslmode": "verify-full", "sslrootcert": "ca.pem"}, Path("/work"))
    {'sslmode': 'verify-full', 'sslrootcert': '/work/ca.pem'}
    """
    return {
        # "system" is libpq's value for the system's trusted certificates
        name: absolute(value, folder) if name in _FILES and isinstance(value, str) and value != "system" else value
        for name, value in options.items()
    }


class GivenUpError(Exception):
    """All retries failed; the message is the reason of the last attempt."""


class Patience:
    """Retries an operation for a limited time.

    Parameters
    ----------
    seconds
        How long to retry after the first failure.
    where
        The target of the operation, for messages.

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
        """Return the result of `work`. `reason` returns why an error is transient, or None to raise it unchanged."""
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
                        _LOG.warning("%s: %s; retrying for %g seconds", self._where, why, self.seconds)
                if now >= until or self._ended.wait(min(pause, until - now)):
                    raise GivenUpError(why) from None
            pause = min(pause * 2, _LONGEST)

    def end(self) -> None:
        """Stop retrying after the current attempt."""
        self._ended.set()
