"""Handles of what runs in the background: follow a stream, end it, ask how far it has come."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from skyband.data.columns import position_column
from skyband.errors import InvalidInputError, PipelineError, brief
from skyband.sharding.plan import ShardPlan
from skyband.spark.checkpoint import Checkpoint
from skyband.spark.checkpoint_lock import Lock
from skyband.spark.control import Control
from skyband.spark.health import Beat
from skyband.spark.late_limits import LateLimits
from skyband.spark.metrics import StreamProgress, show_progress
from skyband.spark.plan import Pipeline
from skyband.spark.spark_errors import is_stuck, plain_error, unless_gone

if TYPE_CHECKING:
    from skyband.spark.stream_start import OpenedSinks

__all__ = ["Handle", "RunHandle", "Write"]

Write = Callable[[DataFrame], DataStreamWriter]
BETWEEN_LOOKS = 0.05  # seconds
UNDER_WAY = ("Processing new data", "No new data but cleaning up state")  # what Spark says of a micro-batch
_LOG = logging.getLogger(__name__)


class RunHandle:
    """A run in the background: whether it has ended, what stopped it, and what it has counted."""

    def __init__(self, progress: StreamProgress) -> None:
        self._progress = progress
        self._error: BaseException | None = None
        self._stopping = False
        self._ended = threading.Event()

    @property
    def is_active(self) -> bool:
        """Whether it has not ended yet."""
        return not self._ended.is_set()

    def await_end(self, timeout: float | None = None, *, progress: bool | None = None) -> bool:
        """Wait until the run has ended, at most `timeout` seconds; return whether it has. What stops it is raised."""
        ended = self._ended.wait(timeout)
        if ended and self._error is not None:
            raise self._error
        return ended

    def metrics(self) -> dict[str, Any]:
        """The counts so far, by name."""
        return self._progress.metrics()


class Handle(RunHandle):
    """A running stream. Made by `start`."""

    def __init__(
        self,
        pipeline: Pipeline,
        progress: StreamProgress,
        checkpoint: Checkpoint,
        control: Control,
        write: Write,
        side_outputs: Sequence[tuple[Write, DataFrame, str]],
        limits: LateLimits,
        *,
        bounded: bool,
        plan: ShardPlan,
        lock: Lock,
        opened: OpenedSinks | None = None,
    ) -> None:
        super().__init__(progress)
        self._pipeline = pipeline
        self.plan = plan  # what its state is written under
        self._lock = lock
        self._opened = opened
        self._checkpoint = checkpoint
        self._control = control
        self._write = write
        self._side_outputs = side_outputs  # what else is written of the stream, what it is, and the folder of its state
        self._limits = limits
        self._bounded = bounded
        self._queries: list[StreamingQuery] = []
        self._name: str | None = None  # of the stream
        self.failure: BaseException | None = None  # what stopped it, as Spark says it
        self._rows_before = progress.metrics()["rows"]

    @property
    def has_done_a_batch(self) -> bool:
        """Whether a micro-batch with rows was completed since it was started; one without shows nothing."""
        return bool(self._collected().metrics()["rows"] > self._rows_before)

    @property
    def is_idle(self) -> bool:
        """Whether it waits for rows, or for the time of its next micro-batch."""
        with unless_gone():
            return self.is_active and str(self._queries[0].status["message"]).startswith("Waiting for")
        return False

    @property
    def progress(self) -> StreamProgress:
        """What has been counted."""
        return self._collected()

    @property
    def query(self) -> StreamingQuery:
        """Spark's own handle of the stream that writes the answers."""
        return self._queries[0]

    def await_end(self, timeout: float | None = None, *, progress: bool | None = None) -> bool:
        """Wait until the stream has ended, at most `timeout` seconds; return whether it has.

        A bounded stream ends by itself. With `progress`, or on a terminal, a line tells how far it has come. What stops
        the stream is raised here.
        """
        with show_progress(self._collected, wanted=progress):
            self._ended.wait(timeout)
        return super().await_end(0)

    def metrics(self) -> dict[str, Any]:
        """Counts since the start of this run: rows, dropped_null, late, pruned, windows, answers, candidates, bound, …

        `dropped_null` are rows without a time or a score; `malformed`, of topics and files, what could not be read;
        `pruned` those that tasks dropped before anything was shuffled;
        `candidates` the rows held now, `bound` what the candidate set of one group can never exceed; `emit_lag` how
        far, in seconds of event time, the newest window answered lags behind the newest row.
        """
        return self._collected().metrics()

    def beats(self) -> list[Beat]:
        """Of the stream, and of what is written beside it: the last batch, and whether a micro-batch is running.

        Spark calls a trigger active also while it looks for rows, so this reads the status message instead.
        """
        if self._ended.is_set():
            return [Beat(has_failed=self._error is not None)]
        return [
            Beat((str(query.runId), _last_batch(query)), query.isActive and query.status["message"] in UNDER_WAY)
            for query in list(self._queries)
        ]

    def flush(self, *, wait: bool = True) -> None:
        """Answer every window that holds a row now. Rows that come later for such a window will be late.

        Without `wait` the next micro-batch does so; a stream that never falls silent has no moment to wait for.
        """
        if self._ended.is_set():
            return
        self._control.end()
        if wait:
            self._process_all()

    def advance(self, to: datetime | int, *, wait: bool = True) -> None:
        """Move time on without rows: windows that end at or before `to` are answered. For sources that fall silent."""
        if self._ended.is_set():
            return
        position = position_column([to]).values[0]
        self._control.advance(int(position))
        if wait:
            self._process_all()

    def finish(self) -> None:
        """Read what is there, answer every window that holds a row, and stop. What stops it before is raised."""
        if not self._ended.is_set():
            self._process_all()
        self.flush()
        self.stop()

    def stop(self) -> None:
        """Stop at the next safe moment; `start` with the same checkpoint goes on.

        Raises PipelineError if there is none within the session's `spark.sql.streaming.stopTimeout`.
        """
        self._stopping = True
        if self._opened is not None:
            self._opened.stop_waiting()
        for query in self._queries:
            _stop(query)
        self._ended.wait(60)

    def await_batch(self, timeout: float) -> None:
        """Wait until no micro-batch is under way, or the one that is has ended, at most `timeout` seconds."""
        query, until = self._queries[0], monotonic() + timeout
        before = _last_batch(query)
        while query.isActive and query.status["isTriggerActive"] and _last_batch(query) == before:
            if monotonic() >= until:
                return
            sleep(BETWEEN_LOOKS)

    def begin(self) -> None:
        """Start its queries. `start` has done so."""
        self._queries = self._start_queries()
        self._name = self._queries[0].name
        threading.Thread(target=self._follow, name="skyband-stream", daemon=True).start()

    def _follow(self) -> None:
        """Wait for the queries; of a bounded stream, end it and let it run once more."""
        try:
            self._await_queries()
            if self._bounded and not self._stopping:
                self._control.end()
                self._queries = self._start_queries()
                self._await_queries()
        except Exception as error:
            self._error, self.failure = plain_error(error), error
            for query in self._queries:
                with suppress(PipelineError):  # what came first is told
                    _stop(query)
        finally:
            self._collected()
            self._lock.release()
            if self._opened is not None:
                self._opened.close()
            self._ended.set()

    def _start_queries(self) -> list[StreamingQuery]:
        started = [self._start(self._write, self._pipeline.answers, self._checkpoint.folder)]
        try:
            started += [self._start(write, frame, folder) for write, frame, folder in self._side_outputs]
        except Exception:
            started[0].stop()
            raise
        return started

    def _start(self, write: Write, frame: DataFrame, folder: str) -> StreamingQuery:
        writer = write(frame)
        if not hasattr(writer, "start"):
            raise InvalidInputError(
                f"write= returned {brief(writer)}; it must return the writer: lambda out: out.writeStream.…"
            )
        writer = writer.option("checkpointLocation", folder)
        if self._bounded:
            writer = writer.trigger(availableNow=True)
        try:
            return writer.start()
        except PySparkException as error:
            raise plain_error(error) from error

    def _await_queries(self) -> None:
        running = list(self._queries)
        while running:
            running = [query for query in running if not query.awaitTermination(1)]
            self._limits.watch(self._collected().metrics(), self._name)

    def _process_all(self) -> None:
        """Wait until what is there now is processed.

        Spark's method may return at the end of a trigger that looked for rows before they were there. The second call
        returns at the end of a later one.
        """
        for query in [*self._queries, *self._queries]:
            if query.isActive:
                query.processAllAvailable()
        self._collected()

    def _collected(self) -> StreamProgress:
        if self._queries:
            with unless_gone():
                self._progress.take(self._queries[0])
        return self._progress


def _stop(query: StreamingQuery) -> None:
    """Stop a query; where Java has ended, it has, too."""
    with unless_gone():
        try:
            query.stop()
        except Exception as error:
            if not is_stuck(error):
                raise
            _LOG.info("%s", error)  # it says what the stream was about
            named = "the stream" if query.name is None else f"stream {query.name!r}"
            raise PipelineError(
                f"{named} did not stop in time and ends when Spark stops. Nothing is lost: run it again."
            ) from error


def _last_batch(query: StreamingQuery) -> int | None:
    """The number of the micro-batch that has ended last."""
    report = query.lastProgress
    return None if report is None else int(report["batchId"])
