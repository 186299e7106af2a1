"""Shards as Spark sees them: one value and one timer each. Stores and asks; what is done is in `stepping`.

The driver loads this module, too, to ask what state there is: nothing heavy is imported for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from skyband.incomplete.plan import GatheringPlan
from skyband.spark.timers import Sleeper
from skyband.topk.plan import Plan
from skyband.uncertain.plan import WeighingPlan

__all__ = ["OUTPUT", "ShardProcessor"]

STATE = "blob binary"
OUTPUT = (
    "answers binary, shard int, late long, windows long, answered long, candidates long, bytes long, "
    "newest long, last_end long, too_often long"
)
_OUTPUT_ROW = Row(*(part.split()[0] for part in OUTPUT.split(", ")))


class ShardProcessor(Sleeper):
    """Hands a shard its envelopes and the watermark, and stores it as bytes before anything leaves."""

    def __init__(
        self,
        plan: Plan | GatheringPlan | WeighingPlan,
        keys: Mapping[int, int],
        delay: int | None = None,
        *,
        held: bool = False,
    ) -> None:
        super().__init__(held=held)
        self._plan = plan
        self._delay = delay  # of the watermark, where the rows alone tell where it will stand next
        self._numbers = {key: number for number, key in keys.items()}

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the shard's one value."""
        super().init(handle)
        self._saved = handle.getValueState("shard", STATE)

    def woken(self, key: Any, rows: Iterable[Row], watermark: int) -> Iterator[Row]:
        """Let the shard do a step, and store it."""
        from skyband.spark.step import step  # noqa: PLC0415 - compiled code, and only workers need it

        saved = self._saved.get()
        blob = None if saved is None else bytes(saved[0])
        done = step(self._plan, self._numbers[key], blob, rows, watermark, self._delay, held=self.held)
        self._saved.update((done.blob,))
        self.sleep_until(done.next_timer)
        for values in done.out:
            yield _OUTPUT_ROW(*values)
