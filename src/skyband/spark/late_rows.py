"""Rows behind the watermark, as a separate data frame."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from skyband.data.arrow import from_bytes, to_bytes
from skyband.sharding.envelope import MILLISECOND, Envelope, Note
from skyband.sharding.row_source import plain
from skyband.sharding.rows import positions_of
from skyband.spark import tasks
from skyband.spark.control import control_envelopes
from skyband.spark.versions import processed
from skyband.windows import ALWAYS, NEVER

__all__ = ["late_rows"]


def late_rows(df: DataFrame, time: str, keys: dict[int, int], control: str | None, *, final_at_end: bool) -> DataFrame:
    """Return all rows of `df` that are behind the watermark when they arrive, unchanged.

    `final_at_end`: the watermark makes no window final; only rows behind a message of an earlier run are late.
    Only stateful operators know the watermark, so whole rows are sent to one, packed by batch.
    """
    names, df = df.columns, df.toDF(*map(plain, df.columns))
    time = plain(time)
    whole = df.mapInArrow(_pack_all(time, keys), tasks.ENVELOPES)
    if control is not None:
        whole = whole.union(control_envelopes(df.sparkSession, control, keys.values()))
    processor = _LateProcessor(time, final_at_end=final_at_end)
    packed = processed(whole, processor, "answers binary")
    return packed.mapInArrow(tasks.unpack(), df.schema).toDF(*names)


def _pack_all(time: str, keys: Mapping[int, int]) -> tasks.Task:
    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            table = pa.Table.from_batches([batch])
            table = table.filter(pc.is_valid(table[time]))
            envelope = Envelope(number % len(keys), table, Note(ALWAYS, NEVER), batch.num_rows, 0, 0)
            yield tasks.pack(envelope, keys)

    return task


class _LateProcessor(StatefulProcessor):
    """Emits rows behind the watermark; its state is only the current time."""

    def __init__(self, time: str, *, final_at_end: bool) -> None:
        self._time = time
        self._final_at_end = final_at_end

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._clock = handle.getValueState("clock", "at long")

    def handleInputRows(self, key: Any, rows: Iterable[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        found = self._clock.get()
        saved = ALWAYS if found is None else found[0]
        watermark = 0 if self._final_at_end else timerValues.getCurrentWatermarkInMs()
        clock = max(saved, watermark * MILLISECOND or ALWAYS)
        moved = clock
        for row in rows:
            if row.control is not None:
                message = json.loads(row.control)
                moved = max(moved, message.get("at", clock))
                continue
            table = from_bytes(bytes(row.rows))
            late = table.filter(pa.array(positions_of(table, self._time) < clock))
            if late.num_rows:
                yield Row(answers=to_bytes(late))
        if moved > saved:
            self._clock.update((moved,))

    def close(self) -> None:
        """Do nothing: there are no resources to release."""
