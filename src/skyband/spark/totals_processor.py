"""Shards of keys as Spark sees them: one value for the totals, a map of parcels, and one timer.

The driver loads this module, too, to ask what state there is: nothing heavy is imported for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from skyband.spark.timers import Sleeper

__all__ = ["OUTPUT", "TotalsProcessor"]

OUTPUT = "answers binary, unit long, late long, unrankable long, candidates long, bytes long, newest long"
_OUTPUT_ROW = Row(*(part.split()[0] for part in OUTPUT.split(", ")))


class TotalsProcessor(Sleeper):
    """Hands a shard its partials and the watermark, and stores its totals before anything leaves."""

    def __init__(self, plan: Any, keys: Mapping[int, int], delay: int | None = None, *, held: bool = False) -> None:
        super().__init__(held=held)
        self._plan = plan
        self._delay = delay  # of the watermark, where the rows alone tell where it will stand next
        self._units = {key: unit for unit, key in keys.items()}

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the shard's totals and its parcels."""
        super().init(handle)
        self._totals = handle.getValueState("totals", "blob binary")
        self._parcels = handle.getMapState("parcels", "number long", "data binary")

    def woken(self, key: Any, rows: Iterable[Row], watermark: int) -> Iterator[Row]:
        """Let the shard do a step, and store it."""
        from skyband.spark.totals_step import step  # noqa: PLC0415 - compiled code, and only workers need it

        saved = self._totals.get()
        unit = self._units[key]
        blob = None if saved is None else bytes(saved[0])
        done = step(self._plan, unit, blob, rows, watermark, self._delay, _Parcels(self._parcels), held=self.held)
        self._totals.update((done.blob,))
        self.sleep_until(done.next_timer)
        worked = done.worked
        yield _OUTPUT_ROW(None, unit, worked.late, worked.unrankable, worked.partials, len(done.blob), worked.newest)
        for answers in done.answers:
            yield _OUTPUT_ROW(answers, unit, 0, 0, worked.partials, len(done.blob), worked.newest)


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
