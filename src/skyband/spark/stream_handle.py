"""Handles of background runs: wait for a stream, stop it, read its metrics."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from skyband.data.columns import position_column
from skyband.display import html_page, html_table
from skyband.errors import InvalidInputError, NeedsSparkError, PipelineError, SkybandError, brief
from skyband.sharding.plan import ShardPlan
from skyband.spark.checkpoint import Checkpoint
from skyband.spark.checkpoint_damage import with_damaged_file
from skyband.spark.checkpoint_lock import Lock
from skyband.spark.control import Control
from skyband.spark.health import Beat
from skyband.spark.late_limits import LateLimits
from skyband.spark.metrics import StreamProgress, show_progress
from skyband.spark.outbox import Outbox
from skyband.spark.plan import Pipeline
from skyband.spark.query_settings import checkpoint_settings, while_starting
from skyband.spark.spark_errors import is_slow_worker, is_stuck, plain_error, unless_gone
from skyband.spark.wide_rows import cut_settings, is_wide

if TYPE_CHECKING:
    from skyband.spark.stream_start import OpenedSinks

__all__ = ["Deliver", "Handle", "RunHandle", "Write"]

Write = Callable[[DataFrame], DataStreamWriter]
Deliver = Callable[[Pipeline], DataStreamWriter]  # of answers
BySpark = Callable[[SkybandError], Pipeline]  # plans a stream again, for Spark to read its rows
POLL_INTERVAL = 0.05  # seconds
START_ATTEMPTS = 4
START_PAUSE = 10.0  # seconds; the late process ends meanwhile
# Spark's status messages of a running micro-batch.
RUNNING_STATUSES = ("Processing new data", "No new data but cleaning up state")
_LOG = logging.getLogger(__name__)


class RunHandle:
    """A background run: its status, its error and its metrics."""

    def __init__(self, progress: StreamProgress) -> None:
        self._progress = progress
        self._error: BaseException | None = None
        self._stopping = threading.Event()
        self._ended = threading.Event()

    @property
    def is_active(self) -> bool:
        """Whether the run has not ended."""
        return not self._ended.is_set()

    def await_end(self, timeout: float | None = None, *, progress: bool | None = None) -> bool:
        """Wait at most `timeout` seconds for the run to end; return whether it has. Raises the error that ended it."""
        ended = self._ended.wait(timeout)
        if ended and self._error is not None:
            raise self._error
        return ended

    def metrics(self) -> dict[str, Any]:
        """Return the current metrics, by name."""
        return self._progress.metrics()

    def __repr__(self) -> str:
        found = self.metrics()
        counts = ", ".join(f"{name}={found[name]}" for name in ("batches", "rows", "late", "windows", "answers"))
        return f"<{type(self).__name__} {self._status()}: {counts}>"

    def _repr_html_(self) -> str:
        found = self.metrics()
        return html_page(f"Stream: {self._status()}", html_table(("metric", "value"), found.items(), len(found)))

    def _status(self) -> str:
        if self.is_active:
            return "running"
        return "ended" if self._error is None else f"stopped by an error: {self._error}"


class Handle(RunHandle):
    """A running stream, returned by `start`."""

    def __init__(
        self,
        pipeline: Pipeline,
        progress: StreamProgress,
        checkpoint: Checkpoint,
        control: Control,
        deliver: Deliver,
        side_outputs: Sequence[tuple[Write, DataFrame | None, str]],
        limits: LateLimits,
        *,
        bounded: bool,
        plan: ShardPlan,
        lock: Lock,
        settings: Mapping[str, str],
        scan_settings: Mapping[str, str],
        opened: OpenedSinks | None = None,
        outbox: Outbox | None = None,
        by_spark: BySpark | None = None,
        cut_rows: Callable[[], Pipeline] | None = None,
    ) -> None:
        super().__init__(progress)
        self._by_spark = by_spark
        self._cut_rows = cut_rows  # plans the stream again, with batches limited by bytes
        self._pipeline = pipeline
        self.plan = plan  # the plan of the stored state
        self._lock = lock
        self._opened = opened
        self._outbox = outbox  # passes answers to sinks over Spark Connect
        self._checkpoint = checkpoint
        self._control = control
        self._deliver = deliver
        self._side_outputs = side_outputs  # further outputs: writer, data frame (None: late rows), folder of the state
        self._limits = limits
        self._settings = settings  # of the query for answers, in addition to those of its checkpoint
        self._scan_settings = scan_settings  # in addition, while tasks read the files
        self._bounded = bounded
        self._queries: list[StreamingQuery] = []
        self._name: str | None = None  # the name of the stream
        self.failure: BaseException | None = None  # the original error from Spark
        self._rows_before = progress.metrics()["rows"]

    @property
    def has_done_a_batch(self) -> bool:
        """Whether a micro-batch with rows has completed since the start; empty micro-batches do not count."""
        return bool(self._collected().metrics()["rows"] > self._rows_before)

    @property
    def is_idle(self) -> bool:
        """Whether the stream waits for rows or for its next trigger."""
        with unless_gone():
            return self.is_active and str(self._queries[0].status["message"]).startswith("Waiting for")
        return False

    @property
    def progress(self) -> StreamProgress:
        """The collected progress."""
        return self._collected()

    @property
    def query(self) -> StreamingQuery:
        """Spark's handle of the query that writes the answers."""
        return self._queries[0]

    def await_end(self, timeout: float | None = None, *, progress: bool | None = None) -> bool:
        """Wait at most `timeout` seconds for the stream to end; return whether it has ended.

        A bounded stream ends by itself. With `progress`, or on a terminal, a progress line is displayed. Raises the
        error that stopped the stream.
        """
        with show_progress(self._collected, wanted=progress):
            self._ended.wait(timeout)
        return super().await_end(0)

    def metrics(self) -> dict[str, Any]:
        """Return metrics since the start of this run: rows, dropped_null, late, pruned, windows, answers, …

        `reader` is present for files: whether tasks (``arrow``) or Spark's reader read them, and why.
        `dropped_null` counts rows without a time or a score; `malformed` counts unreadable records of topics and files;
        `pruned` counts rows that tasks dropped before the shuffle. `candidates` is the current number of candidates,
        `bound` the maximum size of the candidate set of one group. `emit_lag` is the event time between the end of the
        newest answered window and the newest row, in seconds.
        """
        return self._collected().metrics()

    def beats(self) -> list[Beat]:
        """Return the status of the query for answers and of further outputs: last batch, and whether one is running.

        Spark's trigger is also active while it looks for rows, so this reads the status message instead.
        """
        if self._ended.is_set():
            return [Beat(has_failed=self._error is not None)]
        return [
            Beat((str(query.runId), _last_batch(query)), query.isActive and query.status["message"] in RUNNING_STATUSES)
            for query in list(self._queries)
        ]

    def flush(self, *, wait: bool = True) -> None:
        """Answer every window that currently contains a row. Rows that arrive later for such a window are late.

        Without `wait`, return at once; the next micro-batch answers the windows. Waiting for a stream with continuous
        input may never end.
        """
        if self._ended.is_set():
            return
        self._control.end()
        if wait:
            self._process_all()

    def advance(self, to: datetime | int, *, wait: bool = True) -> None:
        """Advance time without rows: answer windows that end at or before `to`. For sources that become idle."""
        if self._ended.is_set():
            return
        position = position_column([to]).values[0]
        self._control.advance(int(position))
        if wait:
            self._process_all()

    def finish(self) -> None:
        """Process available input, answer every window that contains a row, and stop. Raises errors of the stream."""
        if not self._ended.is_set():
            self._process_all()
        self.flush()
        self.stop()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Stop at the next safe point; `start` with the same checkpoint resumes.

        Raises PipelineError if the stream does not stop within the session's `spark.sql.streaming.stopTimeout`.
        """
        self._stopping.set()
        if self._opened is not None:
            self._opened.stop_waiting()
        for query in self._queries:
            _stop(query)
        self._ended.wait(60)

    def await_batch(self, timeout: float) -> None:
        """Wait at most `timeout` seconds until the current micro-batch, if any, has ended."""
        query, until = self._queries[0], monotonic() + timeout
        before = _last_batch(query)
        while query.isActive and query.status["isTriggerActive"] and _last_batch(query) == before:
            if monotonic() >= until:
                return
            sleep(POLL_INTERVAL)

    def begin(self) -> None:
        """Start the Spark queries. Called by `start`."""
        self._queries = self._start_queries()
        self._name = self._queries[0].name
        threading.Thread(target=self._follow, name="skyband-stream", daemon=True).start()

    def _follow(self) -> None:
        """Wait for the queries. A bounded stream is then ended with a message and run once more."""
        try:
            self._await_all_queries()
            if self._bounded and not self._stopping.is_set():
                self._control.end()
                self._queries = self._start_queries()
                self._await_all_queries()
        except Exception as error:
            self._error, self.failure = with_damaged_file(self._checkpoint, error, plain_error(error)), error
            for query in self._queries:
                with suppress(PipelineError):  # only the first error is reported
                    _stop(query)
        finally:
            self._collected()
            self._lock.release()
            if self._opened is not None:
                self._opened.close()
            self._ended.set()

    def _await_all_queries(self) -> None:
        """Wait for the queries, and start them again where that helps. The failed micro-batch is repeated.

        If tasks meet files that only Spark can read, Spark reads the rest, with the same files: both ways of reading
        use the same log of files. If rows are wide, their batches are limited by bytes. If a busy machine was too slow
        for Spark's ten seconds to start a Python process, the queries start again a few times before the next
        micro-batch completes.
        """
        attempts, batches = START_ATTEMPTS, -1
        while True:
            try:
                self._await_queries()
                return
            except Exception as error:
                plain = plain_error(error)
                if self._stopping.is_set():
                    raise
                if (done := self._collected().metrics()["batches"]) != batches:
                    attempts, batches = START_ATTEMPTS, done
                if self._by_spark is not None and isinstance(plain, NeedsSparkError):
                    self._pipeline, self._by_spark = self._by_spark(plain), None
                elif self._cut_rows is not None and is_wide(error):
                    _LOG.info("rows are wide; restarting with batches that are limited by bytes")
                    self._pipeline, self._cut_rows = self._cut_rows(), None
                    self._settings = {**self._settings, **cut_settings()}
                elif is_slow_worker(error) and attempts > 1:
                    attempts -= 1
                    _LOG.warning("a Python process did not start within the ten seconds that Spark waits; restarting")
                    if self._stopping.wait(START_PAUSE):
                        return
                else:
                    raise
            self._restart()

    def _restart(self) -> None:
        for query in self._queries:
            _stop(query)
        if not self._stopping.is_set():
            self._queries = self._start_queries()
        if self._stopping.is_set():  # meanwhile
            for query in self._queries:
                _stop(query)

    def _start_queries(self) -> list[StreamingQuery]:
        settings = self._settings if self._by_spark is None else {**self._settings, **self._scan_settings}
        limits = {name: settings[name] for name in cut_settings() if name in self._settings}
        started = [self._start(self._deliver(self._pipeline), self._checkpoint.folder, settings)]
        try:
            for write, frame, folder in self._side_outputs:
                rows = self._pipeline.late if frame is None else frame
                if rows is not None:
                    started.append(self._start(write(rows), folder, limits))
        except Exception:
            started[0].stop()
            raise
        return started

    def _start(self, writer: DataStreamWriter, folder: str, settings: Mapping[str, str]) -> StreamingQuery:
        if not hasattr(writer, "start"):
            raise InvalidInputError(
                f"write must return a writer, such as lambda out: out.writeStream.…, but returned {brief(writer)}."
            )
        writer = writer.option("checkpointLocation", folder)
        if self._bounded:
            writer = writer.trigger(availableNow=True)
        spark = self._pipeline.answers.sparkSession
        try:
            with while_starting(spark, {**checkpoint_settings(spark, self._checkpoint), **settings}):
                return _started(writer)
        except Exception as error:
            plain = with_damaged_file(self._checkpoint, error, plain_error(error))
            if plain is error:
                raise
            raise plain from error

    def _await_queries(self) -> None:
        running = list(self._queries)
        while running:
            running = [query for query in running if not query.awaitTermination(1)]
            self._deliver_stored()
            self._limits.watch(self._collected().metrics(), self._name)

    def _process_all(self) -> None:
        """Wait until the available input is processed.

        Spark's method may return at the end of a trigger that looked for rows before they arrived. The second call
        returns at the end of a later trigger.
        """
        calls = 0
        while calls < 2:
            queries = self._queries
            try:
                for query in queries:
                    _process_available(query)
                calls += 1
            except PySparkException as error:
                if not is_slow_worker(error):
                    raise
                calls = 0
                while self._queries is queries and not self._ended.wait(POLL_INTERVAL):  # it starts again
                    pass
                if self._error is not None:
                    raise self._error from error
                if self._ended.is_set():
                    break
        self._deliver_stored()
        self._collected()

    def _deliver_stored(self) -> None:
        if self._outbox is not None:
            self._outbox.deliver()

    def _collected(self) -> StreamProgress:
        if self._queries:
            with unless_gone():
                self._progress.take(self._queries[0])
        return self._progress


def _started(writer: DataStreamWriter) -> StreamingQuery:
    """Start a query. A server of Spark Connect first starts a process for foreachBatch, and waits ten seconds for it.

    On a busy machine that is too short; nothing has been started then.
    """
    for _ in range(START_ATTEMPTS - 1):
        try:
            return writer.start()
        except PySparkException as error:
            if not is_slow_worker(error):
                raise
            _LOG.info("%s", error)
            sleep(START_PAUSE)
    return writer.start()


def _process_available(query: StreamingQuery) -> None:
    """Wait until a query has processed the available input. Raises the error of a query that failed."""
    if query.isActive:
        query.processAllAvailable()
    elif (error := query.exception()) is not None:
        raise error


def _stop(query: StreamingQuery) -> None:
    """Stop a query; do nothing if the JVM has ended."""
    with unless_gone():
        try:
            query.stop()
        except Exception as error:
            if not is_stuck(error):
                raise
            _LOG.info("%s", error)  # contains the details of the stream
            named = "the stream" if query.name is None else f"stream {query.name!r}"
            raise PipelineError(
                f"{named} did not stop in time; it ends when Spark stops. No data is lost; run it again."
            ) from error


def _last_batch(query: StreamingQuery) -> int | None:
    """Return the number of the last completed micro-batch."""
    report = query.lastProgress
    return None if report is None else int(report["batchId"])
