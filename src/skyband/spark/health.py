"""Whether a run makes progress, judged by the micro-batches of its streams, which are looked at every few seconds.

A run is unhealthy if a stream has failed, or if one micro-batch has been running for more than ten minutes and for more
than ten times as long as any earlier batch of that stream. A stream that waits for rows or for its next trigger runs no
micro-batch, and is healthy however long it waits. A run is also unhealthy if Spark has not reported the status of its
streams for ten minutes: a driver that cannot reach Spark receives no batches, either.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

from skyband.rate_limited_log import RateLimitedLog

__all__ = ["Beat", "Pulse"]

EVERY = 5.0  # seconds between two looks
PATIENCE = 600.0  # seconds
TIMES = 10  # the longest batch so far
_LOG = logging.getLogger("skyband.run")


class Beat(NamedTuple):
    """How a stream was found."""

    batch: Hashable = None  # that has ended last: another one when it gets on
    is_busy: bool = False  # a micro-batch is under way
    has_failed: bool = False


class _Stream:
    """What is known of a stream."""

    def __init__(self) -> None:
        self.beat = Beat()
        self.since: float | None = None  # when the batch under way was first seen
        self.longest = 0.0  # seconds of a batch

    def see(self, beat: Beat, now: float) -> None:
        goes_on = beat.is_busy and self.beat.is_busy and beat.batch == self.beat.batch
        if self.since is not None:
            self.longest = max(self.longest, now - self.since) if not goes_on else self.longest
        self.since = (self.since if goes_on else now) if beat.is_busy else None
        self.beat = beat


class Pulse:
    """Looks at a run from a thread of its own, while it is open; `ailment` says what is wrong and asks nobody."""

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
        """See how the streams are; raises what stops that."""
        found = self._look()  # may take long, so nothing is locked
        with self._lock:
            self._looked = now = self._clock()
            self._streams = {name: self._streams.get(name) or _Stream() for name in found}
            for name, beat in found.items():
                self._streams[name].see(beat, now)

    def ailment(self, *, named: bool = True) -> str | None:
        """What is wrong, in one line; None: nothing is. With `named`, it says which stream it is about."""
        with self._lock:
            now = self._clock()
            for name, stream in self._streams.items():
                which = f"stream {name!r}" if named else "a stream"
                if stream.beat.has_failed:
                    return f"{which} has failed; the log of the run says why."
                most = max(self._patience, TIMES * stream.longest)
                if stream.since is not None and now - stream.since > most:
                    return (
                        f"{which} does not get on: one micro-batch has been under way for {now - stream.since:.0f} "
                        f"seconds, more than {most:.0f}."
                    )
            if not self._closed.is_set() and now - self._looked > self._patience:
                return f"Spark has told nothing about the run for {now - self._looked:.0f} seconds."
        return None

    def _follow(self) -> None:
        while not self._closed.wait(EVERY):
            try:
                self.look()
            except Exception as error:  # Spark stops, or cannot be reached: that is told once it lasts
                _LOG.debug("the streams could not be looked at: %s", error)
            if (ailment := self.ailment()) is not None:
                self._quiet.warning("%s", ailment)
