"""A warning that may come many times a second, logged once in a while, with how often it came."""

from __future__ import annotations

import logging
import threading
import time

__all__ = ["RateLimitedLog"]


class RateLimitedLog:
    """Logs the first warning, then at most one every `seconds`; safe to be used from several threads.

    >>> quiet = RateLimitedLog(logging.getLogger("skyband.example"))
    >>> quiet.warning("no descriptor is free"), quiet.warning("no descriptor is free")
    (True, False)
    """

    def __init__(self, log: logging.Logger, seconds: float = 60.0) -> None:
        self._log, self._seconds = log, seconds
        self._lock = threading.Lock()
        self._next = float("-inf")
        self._withheld = 0

    def warning(self, message: str, *values: object, error: BaseException | None = None) -> bool:
        """Log it, with where an `error` came from, unless another was logged lately; return whether it was."""
        with self._lock:
            now = time.monotonic()
            if now < self._next:
                self._withheld += 1
                return False
            withheld, self._withheld = self._withheld, 0
            self._next = now + self._seconds
        more = f" (and {withheld:,} such warnings since the last)" if withheld else ""
        self._log.warning(message + more, *values, exc_info=error)
        return True
