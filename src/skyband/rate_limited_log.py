"""Rate limit for warnings that may occur many times a second."""

from __future__ import annotations

import logging
import threading
import time

__all__ = ["RateLimitedLog"]


class RateLimitedLog:
    """Log the first warning, then at most one every `seconds`. Thread-safe.

    >>> quiet = RateLimitedLog(logging.getLogger("skyband.example"))
    >>> quiet.warning("no descriptor is free"), quiet.warning("no descriptor is free")
    (True, False)
    """

    def __init__(self, log: logging.Logger, seconds: float = 60.0) -> None:
        self._log, self._seconds = log, seconds
        self._lock = threading.Lock()
        self._next = float("-inf")
        self._suppressed = 0

    def warning(self, message: str, *values: object, error: BaseException | None = None) -> bool:
        """Log the warning, with the traceback of `error`, unless the limit is reached; return whether it was logged."""
        with self._lock:
            now = time.monotonic()
            if now < self._next:
                self._suppressed += 1
                return False
            suppressed, self._suppressed = self._suppressed, 0
            self._next = now + self._seconds
        more = f" (and {suppressed:,} such warnings since the last one)" if suppressed else ""
        self._log.warning(message + more, *values, exc_info=error)
        return True
