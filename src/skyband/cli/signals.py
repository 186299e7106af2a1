"""Being asked to end, by Ctrl-C or by whoever manages services."""

from __future__ import annotations

import os
import signal
import threading
from time import monotonic
from types import FrameType
from typing import Any, Self

__all__ = ["INTERRUPTED", "Ending"]

INTERRUPTED = 130
TWICE = 1.0  # seconds within which two signals are one request: a terminal and a wrapper may both pass it on
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Ending:
    """While the block runs, who asks it to end is heard; who asks again ends the process at once.

    Until `heed` the block is interrupted, as any Python is. From then on the request is only noted, in `asked`, and
    the block ends itself: an exception in the middle of a call to Java would leave its reply unread, and the next call,
    the one that stops the stream, would take it for its own.

    >>> with Ending() as ending:
    ...     ending.heed()
    ...     signal.raise_signal(signal.SIGINT)
    ...     ending.asked.is_set()
    True
    """

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._first: float | None = None  # when it was asked first
        self._heeded = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._hear) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def heed(self) -> None:
        """From now on the block looks at `asked` itself."""
        self._heeded = True
        for number in _SIGNALS:
            signal.signal(number, self._hear)  # Spark has put a handler of its own, one that calls Java, in its place

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        now = monotonic()
        if self._first is not None:
            if now - self._first > TWICE:
                os._exit(INTERRUPTED)  # Java ends with it; what was begun is done again by the next run
            return
        self._first = now
        self.asked.set()
        if not self._heeded:
            raise KeyboardInterrupt
