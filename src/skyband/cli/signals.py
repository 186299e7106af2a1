"""Stop requests: SIGINT (Ctrl-C) and SIGTERM."""

from __future__ import annotations

import os
import signal
import threading
from time import monotonic
from types import FrameType
from typing import Any, Self

__all__ = ["INTERRUPTED", "StopSignals"]

INTERRUPTED = 130
TWICE = 1.0  # seconds within which two signals count as one: a terminal and a wrapper can both forward it
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Handle SIGINT and SIGTERM while the block runs; a second signal exits the process at once.

    Before `defer` is called, a signal raises KeyboardInterrupt. Afterwards it only sets `requested`, and the block must
    check it: an exception in the middle of a call to Java would leave the reply unread, and the next call, the one
    that stops the stream, would read that reply as its own.

    >>> with StopSignals() as signals:
    ...     signals.defer()
    ...     signal.raise_signal(signal.SIGINT)
    ...     signals.requested.is_set()
    True
    """

    def __init__(self) -> None:
        self.requested = threading.Event()
        self._first: float | None = None  # time of the first signal
        self._deferred = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def defer(self) -> None:
        """Set `requested` on a signal from now on, instead of raising KeyboardInterrupt."""
        self._deferred = True
        for number in _SIGNALS:
            signal.signal(number, self._handle)  # Spark has replaced it with a handler that calls Java

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        now = monotonic()
        if self._first is not None:
            if now - self._first > TWICE:
                os._exit(INTERRUPTED)  # Java exits too; the next run repeats the open micro-batch
            return
        self._first = now
        self.requested.set()
        if not self._deferred:
            raise KeyboardInterrupt
