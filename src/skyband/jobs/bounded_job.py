"""Jobs over a bounded input: all rows are read before a window is emitted, so no row is late."""

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

from skyband.errors import NeedsSparkError, SkybandError
from skyband.spark.metrics import StreamProgress
from skyband.spark.plan import Observed, StreamInfo
from skyband.spark.spark_errors import plain_error, unless_gone
from skyband.spark.stream_handle import RunHandle
from skyband.spark.versions import is_remote

__all__ = ["BoundedRun", "Delivery", "Planned"]

PART_ROWS = 500_000  # answer rows collected to this process at a time


class Planned(NamedTuple):
    """The answers of a bounded job before they are computed, and the counters of their computation."""

    answers: DataFrame
    counted: Observed
    read: Observation  # counts the source's rows and the malformed ones
    stream_info: StreamInfo


BySpark = Callable[[SkybandError], Planned]  # plans the job again, for Spark to read its rows


class Delivery(NamedTuple):
    """The output of a bounded job."""

    begin: Callable[[], None]  # called when all answers are computed, before the first is delivered
    take: Callable[[int, pa.Table], int]  # called with numbered parts of the answers, by time; returns the answer rows


class BoundedRun(RunHandle):
    """Reads the input, computes and delivers all answers in a separate thread, and ends."""

    def __init__(self, stream_info: StreamInfo, moment: str, delivery: Delivery) -> None:
        super().__init__(StreamProgress(stream_info))
        self._moment = moment  # the time column of the answers
        self._delivery = delivery
        self._group = f"skyband-{uuid4().hex}"
        self._spark: Any = None
        self._context: SparkContext | None = None  # None over Spark Connect, which has tags instead of job groups

    def begin(self, planned: Planned, by_spark: BySpark | None = None) -> None:
        """Start the job. If tasks meet files that only Spark can read, `by_spark` plans it again."""
        self._spark = planned.answers.sparkSession
        self._context = None if is_remote(self._spark) else self._spark.sparkContext
        threading.Thread(target=self._run, args=(planned, by_spark), name="skyband-bounded", daemon=True).start()

    def metrics(self) -> dict[str, Any]:
        """Metrics by name. Counters of rows are filled at the end."""
        done, tasks = self._tasks()
        return {**super().metrics(), "tasks": tasks, "tasks_done": done}

    def stop(self) -> None:
        """Cancel the job. Answers that are not delivered yet are discarded."""
        self._stopping.set()
        with unless_gone():
            if self._context is not None:
                self._context.cancelJobGroup(self._group)
            elif self._spark is not None:
                self._spark.interruptTag(self._group)
        self._ended.wait(60)

    def _run(self, planned: Planned, by_spark: BySpark | None) -> None:
        began = monotonic()
        try:
            if self._context is None:
                self._spark.addTag(self._group)
            else:
                self._context.setJobGroup(self._group, "skyband: a bounded input", interruptOnCancel=True)
            try:
                self._compute(planned)
            except Exception as error:
                plain = plain_error(error)
                if by_spark is None or not isinstance(plain, NeedsSparkError) or self._stopping.is_set():
                    raise
                planned = by_spark(plain)
                self._progress.stream_info = planned.stream_info
                self._compute(planned)
        except Exception as error:
            if not self._stopping.is_set():
                self._error = plain_error(error)
        finally:
            self._progress.count(milliseconds=int(1000 * (monotonic() - began)))
            self._ended.set()

    def _compute(self, planned: Planned) -> None:
        """Compute all answers, then deliver them."""
        kept = planned.answers.persist(StorageLevel.DISK_ONLY)
        try:
            rows = kept.count()
            self._count(planned)
            self._delivery.begin()
            for number, part in enumerate(self._parts(kept, rows)):
                self._progress.count(batches=1, answers=self._delivery.take(number, part))
        finally:
            with unless_gone():
                kept.unpersist()

    def _count(self, planned: Planned) -> None:
        """Add the pipeline's counters to the metrics. A part of the pipeline without rows has no counters."""
        counted, source = planned.counted, planned.read.get
        read, shards, answered = counted.read.get, counted.shards.get, counted.answered.get
        self._progress.count(
            rows=source.get("rows", read.get("taken")) or 0,
            malformed=source.get("malformed"),
            unreadable=source.get("unreadable"),
            dropped_null=read.get("dropped_null"),
            pruned=read.get("pruned"),
            windows=answered.get("windows"),
            over_limit=shards.get("over_limit"),
            unrankable=shards.get("unrankable"),
            unknown_deletes=shards.get("unknown_deletes"),
        )

    def _parts(self, answers: DataFrame, rows: int) -> Iterator[pa.Table]:
        """Yield the answers by time, in parts of about PART_ROWS rows; a window is never split."""
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
        """Number of completed Spark tasks, and of all tasks known so far."""
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
