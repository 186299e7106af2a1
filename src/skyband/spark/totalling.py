"""Shards of keys as Spark sees them: one value for the totals, a map of parcels, and one timer.

The driver loads this module, too, to ask what state there is: nothing heavy is imported for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

__all__ = ["OUTPUT", "TotalsProcessor"]

OUTPUT = "answers binary, unit long, late long, unrankable long, candidates long, bytes long, newest long"
_OUTPUT_ROW = Row(*(part.split()[0] for part in OUTPUT.split(", ")))


class TotalsProcessor(StatefulProcessor):
    """Hands a shard its partials and the watermark, and stores its totals before anything leaves."""

    def __init__(self, plan: Any, keys: Mapping[int, int]) -> None:
        self._plan = plan
        self._units = {key: unit for unit, key in keys.items()}

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the shard's state. Spark calls it once a task."""
        self._handle = handle
        self._totals = handle.getValueState("totals", "blob binary")
        self._parcels = handle.getMapState("parcels", "number long", "data binary")

    def handleInputRows(self, key: Any, rows: Iterable[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Take in the partials of a micro-batch."""
        yield from self._step(key, rows, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Time has moved on without rows."""
        yield from self._step(key, (), timerValues)

    def _step(self, key: Any, rows: Iterable[Row], timer: Any) -> Iterator[Row]:
        from skyband.spark.totals_step import step  # noqa: PLC0415 - compiled code, and only workers need it

        saved = self._totals.get()
        unit = self._units[key[0]]
        done = step(
            self._plan,
            unit,
            None if saved is None else bytes(saved[0]),
            rows,
            timer.getCurrentWatermarkInMs(),
            _Parcels(self._parcels),
        )
        self._totals.update((done.blob,))
        self._set_timer(done.next_timer)
        worked = done.worked
        yield _OUTPUT_ROW(None, unit, worked.late, worked.unrankable, worked.partials, len(done.blob), worked.newest)
        for answers in done.answers:
            yield _OUTPUT_ROW(answers, unit, 0, 0, worked.partials, len(done.blob), worked.newest)

    def _set_timer(self, at: int | None) -> None:
        for timer in list(self._handle.listTimers()):
            if timer != at:
                self._handle.deleteTimer(timer)
        if at is not None:
            self._handle.registerTimer(at)

    def close(self) -> None:
        """Nothing is open."""


class _Parcels:
    """Parcels in Spark's map state."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def get(self, number: int) -> bytes:
        return bytes(self._state.getValue((number,))[0])

    def put(self, number: int, data: bytes) -> None:
        self._state.updateValue((number,), (data,))

    def remove(self, number: int) -> None:
        self._state.removeKey((number,))
