"""Waiting for a server that is gone for a while: again and again, ever more slowly, and not for ever."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

__all__ = ["GivenUpError", "Patience"]

_LOG = logging.getLogger(__name__)
_FIRST, _LONGEST = 0.1, 5.0  # seconds between two attempts
T = TypeVar("T")


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
