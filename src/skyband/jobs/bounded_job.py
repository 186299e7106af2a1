"""A bounded input, answered as a whole: all of it is read before a window is final, so that no row is late."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
from pyspark import SparkContext, StorageLevel
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as sf

from skyband.spark.metrics import StreamProgress
from skyband.spark.plan import Observed, StreamInfo
from skyband.spark.spark_errors import plain_error, unless_gone
from skyband.spark.stream_handle import RunHandle

__all__ = ["BoundedRun", "Delivery"]

PART_ROWS = 500_000  # rows of answers that are brought to this process at a time


class Delivery(NamedTuple):
    """Where the rows of a bounded input come from, and where its answers go."""

    read: Observation | None  # counts the source's rows, and those that are malformed
    begin: Callable[[], None]  # called once all answers are there, before the first is delivered
    take: Callable[[int, pa.Table], int]  # called with answers by time, in numbered parts; returns how many there were


class BoundedRun(RunHandle):
    """Reads, answers, delivers and ends, in a thread of its own."""

    def __init__(self, stream_info: StreamInfo, moment: str, delivery: Delivery) -> None:
        super().__init__(StreamProgress(stream_info))
        self._moment = moment  # the column that says when an answer was final
        self._delivery = delivery
        self._group = f"skyband-{uuid4().hex}"
        self._context: SparkContext | None = None

    def begin(self, answers: DataFrame, counted: Observed) -> None:
        """Start; `answers` are those of the draft, `counted` while they are computed."""
        self._context = answers.sparkSession.sparkContext
        threading.Thread(target=self._run, args=(answers, counted), name="skyband-bounded", daemon=True).start()

    def metrics(self) -> dict[str, Any]:
        """The numbers by name; those about rows are there at the end."""
        done, tasks = self._tasks()
        return {**super().metrics(), "tasks": tasks, "tasks_done": done}

    def stop(self) -> None:
        """End it now; answers that were not delivered are not kept."""
        self._stopping = True
        if self._context is not None:
            with unless_gone():
                self._context.cancelJobGroup(self._group)
        self._ended.wait(60)

    def _run(self, answers: DataFrame, counted: Observed) -> None:
        began = monotonic()
        try:
            assert self._context is not None
            self._context.setJobGroup(self._group, "skyband: a bounded input", interruptOnCancel=True)
            kept = answers.persist(StorageLevel.DISK_ONLY)
            try:
                rows = kept.count()
                self._count(counted)
                self._delivery.begin()
                for number, part in enumerate(self._parts(kept, rows)):
                    self._progress.count(batches=1, answers=self._delivery.take(number, part))
            finally:
                with unless_gone():
                    kept.unpersist()
        except Exception as error:
            if not self._stopping:
                self._error = plain_error(error)
        finally:
            self._progress.count(milliseconds=int(1000 * (monotonic() - began)))
            self._ended.set()

    def _count(self, counted: Observed) -> None:
        """Take down what was counted on the way; a part of the pipeline that saw no row counts nothing."""
        read, shards, answered = counted.read.get, counted.shards.get, counted.answered.get
        source = {} if self._delivery.read is None else self._delivery.read.get
        self._progress.count(
            rows=source.get("rows", read.get("taken")) or 0,
            malformed=source.get("malformed"),
            dropped_null=read.get("dropped_null"),
            pruned=read.get("pruned"),
            windows=answered.get("windows"),
            over_limit=shards.get("over_limit"),
            unrankable=shards.get("unrankable"),
        )

    def _parts(self, answers: DataFrame, rows: int) -> Iterator[pa.Table]:
        """The answers by time, as much at a time as fits here; a window is in one part."""
        parts = -(-rows // PART_ROWS)
        if parts <= 1:
            yield answers.toArrow()
            return
        by_time = answers.repartitionByRange(parts, self._moment).persist(StorageLevel.DISK_ONLY)
        try:
            for number in range(parts):
                yield by_time.where(sf.spark_partition_id() == number).toArrow()
        finally:
            with unless_gone():
                by_time.unpersist()

    def _tasks(self) -> tuple[int, int]:
        """How many of Spark's tasks are done, of how many that are known so far."""
        if self._context is None or self._ended.is_set():
            return 0, 0
        done = tasks = 0
        with unless_gone():
            tracker = self._context.statusTracker()
            for job in tracker.getJobIdsForGroup(self._group):
                for stage in getattr(tracker.getJobInfo(job), "stageIds", ()):
                    info = tracker.getStageInfo(stage)
                    if info is not None:
                        done, tasks = done + info.numCompletedTasks, tasks + info.numTasks
        return done, tasks
