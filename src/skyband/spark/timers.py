"""How Spark wakes a shard: when envelopes come for it, and when its one timer fires. The driver loads this, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

__all__ = ["Sleeper"]


class Sleeper(StatefulProcessor):
    """A processor whose shards have one timer each, at the next moment when something becomes final.

    `held`: whether the watermark makes nothing final. Then only a message does, such as that the stream has ended.
    """

    handle: StatefulProcessorHandle

    def __init__(self, *, held: bool = False) -> None:
        self.held = held

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the shard's state. Spark calls it once a task."""
        self.handle = handle

    def woken(self, key: Any, rows: Iterable[Row], watermark: int) -> Iterator[Row]:
        """Take in envelopes, and move time to the watermark (in milliseconds)."""
        raise NotImplementedError

    def handleInputRows(self, key: Any, rows: Iterable[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Take in the envelopes of a micro-batch."""
        yield from self.woken(key[0], rows, timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Time has moved on without rows."""
        yield from self.woken(key[0], (), timerValues.getCurrentWatermarkInMs())

    def sleep_until(self, at: int | None) -> None:
        """Set the timer, in milliseconds; None: only envelopes wake the shard."""
        at = None if self.held else at
        for timer in list(self.handle.listTimers()):
            if timer != at:
                self.handle.deleteTimer(timer)
        if at is not None:
            self.handle.registerTimer(at)

    def close(self) -> None:
        """Nothing is open."""
