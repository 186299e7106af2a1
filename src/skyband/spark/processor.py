"""Shards as Spark sees them: one value and one timer each. Translates and stores; decides nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from skyband.algorithms.base import ALWAYS
from skyband.arrow import from_bytes, to_bytes
from skyband.sharding.envelope import MILLISECOND, Note
from skyband.sharding.plan import Plan
from skyband.sharding.shard import Shard, Tally

__all__ = ["OUTPUT", "ShardProcessor"]

STATE = "blob binary"
OUTPUT = (
    "answers binary, shard int, late long, windows long, answered long, candidates long, bytes long, "
    "newest long, last_end long"
)
_OUTPUT_ROW = Row(*(part.split()[0] for part in OUTPUT.split(", ")))


class ShardProcessor(StatefulProcessor):
    """Hands a shard its envelopes and the watermark, and stores it as bytes before anything leaves."""

    def __init__(self, plan: Plan, keys: Mapping[int, int]) -> None:
        self._plan = plan
        self._numbers = {key: number for number, key in keys.items()}

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the shard's one value. Spark calls it once a task."""
        self._handle = handle
        self._saved = handle.getValueState("shard", STATE)

    def handleInputRows(self, key: Any, rows: Iterable[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Take in the envelopes of a micro-batch."""
        tables, notes, controls = [], [], []
        for row in rows:
            if row.control is not None:
                controls.append(json.loads(row.control))
                continue
            tables.append(from_bytes(bytes(row.rows)))
            notes.append(Note.from_bytes(bytes(row.note)))
        yield from self._step(key, tables, notes, controls, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Time has moved on without rows."""
        yield from self._step(key, [], [], [], timerValues)

    def _step(self, key: Any, tables: list[pa.Table], notes: list[Note], controls: Any, timer: Any) -> Iterator[Row]:
        number = self._numbers[key[0]]
        saved = self._saved.get()
        shard = Shard(self._plan, number) if saved is None else Shard.resume(self._plan, number, bytes(saved[0]))
        # Spark's watermark stands at 0 until it has seen a row.
        watermark = timer.getCurrentWatermarkInMs() * MILLISECOND or None
        answers, tally = shard.step(tables, notes, watermark)
        parts = [(answers, tally)]
        parts += [shard.step([], [], told.get("at", watermark), end=told["kind"] == "end") for told in controls]
        blob = shard.state()
        self._saved.update((blob,))
        self._set_timer(shard.next_end)
        held = parts[-1][1].candidates
        for answers, tally in parts:
            yield from _rows(answers, tally._replace(candidates=held), number, len(blob))

    def _set_timer(self, position: int | None) -> None:
        at = None if position is None else max(1, -(-position // MILLISECOND))
        for timer in list(self._handle.listTimers()):
            if timer != at:
                self._handle.deleteTimer(timer)
        if at is not None:
            self._handle.registerTimer(at)

    def close(self) -> None:
        """Nothing is open."""


def _rows(answers: list[pa.Table], tally: Tally, number: int, size: int) -> Iterator[Row]:
    newest = None if tally.newest == ALWAYS else tally.newest
    last_end = None if tally.last_end == ALWAYS else tally.last_end
    counts = (tally.late, tally.windows, tally.answers)
    for data in (None, *map(to_bytes, answers)):
        yield _OUTPUT_ROW(data, number, *counts, tally.candidates, size, newest, last_end)
        counts = (0, 0, 0)  # they are told once
