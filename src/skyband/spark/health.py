"""Health of a run: checks every few seconds whether the micro-batches of its streams make progress.

A run is unhealthy if a stream has failed, or if one micro-batch has been running for more than ten minutes and for more
than ten times as long as any earlier batch of that stream. A stream that waits for rows or for its next trigger runs no
micro-batch, and is healthy however long it waits. A run is also unhealthy if Spark has not reported the status of its
streams for ten minutes: a driver that cannot reach Spark does not receive batches either.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

from skyband.rate_limited_log import RateLimitedLog

__all__ = ["Beat", "Pulse"]

EVERY = 5.0  # seconds between two checks
PATIENCE = 600.0  # seconds
TIMES = 10  # the longest batch so far
_LOG = logging.getLogger("skyband.run")


class Beat(NamedTuple):
    """The observed status of a stream."""

    batch: Hashable = None  # the last completed batch; changes with progress
    is_busy: bool = False  # a micro-batch is running
    has_failed: bool = False


class _Stream:
    """The history of a stream's status."""

    def __init__(self) -> None:
        self.beat = Beat()
        self.since: float | None = None  # when the running batch was first seen
        self.longest = 0.0  # duration of the longest batch, in seconds

    def see(self, beat: Beat, now: float) -> None:
        continues = beat.is_busy and self.beat.is_busy and beat.batch == self.beat.batch
        if self.since is not None:
            self.longest = max(self.longest, now - self.since) if not continues else self.longest
        self.since = (self.since if continues else now) if beat.is_busy else None
        self.beat = beat


class Pulse:
    """Checks a run in a background thread while it is open. `ailment` returns the problem without calling Spark."""

    def __init__(
        self,
        look: Callable[[], Mapping[str, Beat]],
        *,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look, self._patience, self._clock = look, patience, clock
        self._streams: dict[str, _Stream] = {}
        self._lock = threading.Lock()
        self._looked = clock()
        self._closed = threading.Event()
        self._quiet = RateLimitedLog(_LOG)
        self._thread = threading.Thread(target=self._follow, name="skyband-pulse", daemon=True)

    def __enter__(self) -> Pulse:
        self._looked = self._clock()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join(EVERY)

    def look(self) -> None:
        """Check the status of the streams; errors propagate."""
        found = self._look()  # can take long, so it runs without the lock
        with self._lock:
            self._looked = now = self._clock()
            self._streams = {name: self._streams.get(name) or _Stream() for name in found}
            for name, beat in found.items():
                self._streams[name].see(beat, now)

    def ailment(self, *, named: bool = True) -> str | None:
        """Return the problem in one line; None if the run is healthy. With `named`, includes the stream's name."""
        with self._lock:
            now = self._clock()
            for name, stream in self._streams.items():
                which = f"stream {name!r}" if named else "a stream"
                if stream.beat.has_failed:
                    return f"{which} has failed; see the log of the run for the reason."
                most = max(self._patience, TIMES * stream.longest)
                if stream.since is not None and now - stream.since > most:
                    return (
                        f"{which} makes no progress: one micro-batch has been running for {now - stream.since:.0f} "
                        f"seconds, more than {most:.0f}."
                    )
            if not self._closed.is_set() and now - self._looked > self._patience:
                return f"Spark has not reported the status of the run for {now - self._looked:.0f} seconds."
        return None

    def _follow(self) -> None:
        while not self._closed.wait(EVERY):
            try:
                self.look()
            except Exception as error:  # Spark stops or is unreachable; `ailment` reports it after a while
                _LOG.debug("the status of the streams could not be read: %s", error)
            if (ailment := self.ailment()) is not None:
                self._quiet.warning("%s", ailment)
