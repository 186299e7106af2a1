"""Rows behind the watermark, as a separate data frame."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from skyband.data.arrow import to_bytes
from skyband.kernels.stream import Ints
from skyband.sharding.envelope import MILLISECOND, Envelope, Note, rows_of
from skyband.sharding.row_source import plain
from skyband.sharding.rows import positions_of
from skyband.spark import tasks
from skyband.spark.control import control_envelopes
from skyband.spark.plan import Request, spelled
from skyband.spark.versions import processed
from skyband.windows import ALWAYS, NEVER

__all__ = ["LateSource", "late_source"]


def is_behind(positions: Ints, clock: int) -> Any:
    """Return which positions are behind the clock."""
    return positions < clock


class LateSource(NamedTuple):
    """The rows of which the late ones are returned to the user."""

    rows: DataFrame  # a stream has a watermark
    time: str
    is_late: Callable[[Ints, int], Any] = is_behind  # of positions, at a clock; serialized for tasks

    def late(self, keys: dict[int, int], control: str | None, *, final_at_end: bool) -> DataFrame:
        """Return the late rows; a bounded input has none."""
        if not self.rows.isStreaming:
            return self.rows.limit(0)
        return _late_rows(self, keys, control, final_at_end=final_at_end)


def late_source(request: Request, df: DataFrame, delay: int | None) -> LateSource | None:
    """Return the rows of `df` if late ones are requested, with a watermark of `delay` milliseconds if it has none."""
    if request.late != "return":
        return None
    time = spelled(df, request.time)
    return LateSource(df if delay is None else df.withWatermark(time, f"{delay} milliseconds"), time)


def _late_rows(source: LateSource, keys: dict[int, int], control: str | None, *, final_at_end: bool) -> DataFrame:
    """Return all rows that are late when they arrive, unchanged.

    `final_at_end`: the watermark makes no window final; only rows behind a message of an earlier run are late.
    Only stateful operators know the watermark, so whole rows are sent to one, packed by batch.
    """
    df = source.rows
    names, df = df.columns, df.toDF(*map(plain, df.columns))
    time = plain(source.time)
    whole = df.mapInArrow(_pack_all(time, keys), tasks.ENVELOPES)
    if control is not None:
        whole = whole.union(control_envelopes(df.sparkSession, control, keys.values()))
    processor = _LateProcessor(time, source.is_late, final_at_end=final_at_end)
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
    """Emits late rows; its state is only the current time."""

    def __init__(self, time: str, is_late: Callable[[Ints, int], Any], *, final_at_end: bool) -> None:
        self._time = time
        self._is_late = is_late
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
            table = rows_of(bytes(row.rows))
            late = table.filter(pa.array(self._is_late(positions_of(table, self._time), clock)))
            if late.num_rows:
                yield Row(answers=to_bytes(late))
        if moved > saved:
            self._clock.update((moved,))

    def close(self) -> None:
        """Do nothing: there are no resources to release."""
