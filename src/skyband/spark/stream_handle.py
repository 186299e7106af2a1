"""Running a workload: start a stream, follow it, end it, take it up again after a crash."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from time import monotonic, sleep
from typing import Any, Literal

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from skyband.data.columns import position_column
from skyband.errors import InvalidInputError, PipelineError, brief
from skyband.queries import Query
from skyband.queries.workload import Workload
from skyband.sharding.output import Output
from skyband.sharding.plan import ShardPlan
from skyband.spark.checkpoint import Checkpoint
from skyband.spark.checkpoint_lock import Lock
from skyband.spark.control import Control
from skyband.spark.delivery import Sink
from skyband.spark.health import Beat
from skyband.spark.late_limits import LateLimits
from skyband.spark.metrics import StreamProgress, show_progress
from skyband.spark.opened_sinks import OpenedSinks
from skyband.spark.pipeline import Frames, check, checked_output
from skyband.spark.plan import Late, Pipeline, frames_of
from skyband.spark.restored_checkpoint import refuse_newer_files
from skyband.spark.resume_check import refuse_unresumable
from skyband.spark.spark_errors import is_stuck, plain_error, unless_gone

__all__ = ["Handle", "launch", "start"]

Write = Callable[[DataFrame], DataStreamWriter]
BETWEEN_LOOKS = 0.05  # seconds
UNDER_WAY = ("Processing new data", "No new data but cleaning up state")  # what Spark says of a micro-batch
_LOG = logging.getLogger(__name__)


def start(
    df: Frames,
    workload: Query | Iterable[Query] | Workload[Any],
    *,
    write: Write | None = None,
    sinks: Sequence[Sink] | None = None,
    name: str = "answers",
    checkpoint: str,
    time: str,
    id: str | None = None,  # noqa: A002 - the word users have for it
    watermark: str | timedelta | None = None,
    bounded: bool = False,
    algorithm: str = "auto",
    late: Write | Literal["count", "refuse"] = "count",
    output: Literal["answers", "changes"] = "answers",
    shards: int | None = None,
) -> Handle:
    """Answer a workload over a stream, and write the answers where `sinks` or `write` say: one of the two.

    Parameters
    ----------
    df, workload, time, id, watermark, algorithm, output, shards
        As for `answers`.
    write
        Given the answers, returns the writer of them:
        ``lambda out: out.writeStream.format("parquet").option("path", folder)``. Its checkpoint is set here.
    sinks
        Where answers go, in the words of a workload file: ``[sb.sinks.Parquet(path="answers")]``, see `skyband.sinks`.
        This process writes them, a micro-batch at a time, and one that is run again replaces itself. Each says with
        ``output=`` whether it takes answers or changes, and with ``queries=`` of which queries.
    name
        What the stream is called: files of `sinks` begin with it, and ``{stream}`` of a table stands for it.
    checkpoint
        A folder for the stream's state and its control messages. Start again with the same folder to go on where the
        stream stopped or was killed: the sink then holds every answer once. The workload may have changed: removed
        queries stop, added ones are answered from the first window on that begins after all rows seen.
    bounded
        Read all of what there is now, answer every window that holds a row, the trailing ones too, and stop. Nothing is
        final before all is read, so no row is late, whatever the order of files and partitions and whatever the
        watermark; only rows of windows that an earlier run with this checkpoint has answered are. What tasks cannot
        drop waits in the state meanwhile: for an input larger than memory, `answers` of a batch data frame sorts on
        disk. That ends the stream: rows that a later run finds for windows answered so are late. To go on with new
        files day by day, leave `bounded` out and give the writer ``trigger(availableNow=True)``.
    late
        ``"count"`` or ``"refuse"``, as for `answers`; or a function that, given the late rows, returns the writer of
        them: they run as a query of their own.

    Examples
    --------
    >>> handle = start(trades, big, time="ts", watermark="10 seconds", bounded=True,
    ...                write=lambda out: out.writeStream.format("parquet").option("path", "answers"),
    ...                checkpoint="checkpoint")  # doctest: +SKIP
    >>> handle.await_end()  # doctest: +SKIP
    >>> handle.metrics()["windows"]  # doctest: +SKIP
    1440
    """
    if (write is None) == (sinks is None):
        raise InvalidInputError("start() writes where write= or sinks= say; give one of the two.")
    asked, wanted, opened = workload, checked_output(output), None
    if sinks is not None:
        asked, opened = _open(df, workload, sinks, name, checkpoint, wanted)
        write, wanted = opened.write, opened.output
    assert write is not None
    try:
        return launch(
            df,
            asked,
            write=write,
            checkpoint=checkpoint,
            time=time,
            id_=id,
            watermark=watermark,
            bounded=bounded,
            algorithm=algorithm,
            late=late,
            output=wanted,
            shards=shards,
            whole=opened is not None,
            opened=opened,
        )
    except BaseException:
        if opened is not None:
            opened.close()
        raise


def _open(
    df: Frames,
    workload: Query | Iterable[Query] | Workload[Any],
    sinks: Sequence[Sink],
    name: str,
    checkpoint: str,
    output: Output,
) -> tuple[Workload[Any], OpenedSinks]:
    """The sinks of a stream, before it is started."""
    if output != "answers":
        raise InvalidInputError(f"output={output!r} is said by each of the sinks; leave it out here.")
    asked: Workload[Any] = Workload(workload)
    spark = _streaming(df)[0].sparkSession
    opened = OpenedSinks(sinks, asked, spark, name)
    try:
        kept = Checkpoint(spark, checkpoint)
        if kept.read() is None:
            opened.refuse_foreign_files(checkpoint)
        else:
            refuse_newer_files(kept, opened.folders, name)
    except BaseException:
        opened.close()
        raise
    return asked, opened


def _streaming(df: Frames) -> list[DataFrame]:
    frames = list(frames_of(df))
    if not frames or not all(frame.isStreaming for frame in frames):
        raise InvalidInputError(
            "start() runs a stream, and df is none; for a batch DataFrame write answers(df, …), which is complete."
        )
    return frames


def launch(
    df: Frames,
    workload: Query | Iterable[Query] | Workload[Any],
    *,
    write: Write,
    checkpoint: str,
    time: str,
    id_: str | None,
    watermark: str | timedelta | None,
    bounded: bool,
    algorithm: str,
    late: Write | Literal["count", "refuse"],
    output: Output,
    shards: int | None,
    whole: bool = False,
    alone: bool = False,
    dead: tuple[DataFrame, Write] | None = None,
    progress: StreamProgress | None = None,
    limits: LateLimits | None = None,
    before: ShardPlan | None = None,
    locked: bool = False,
    opened: OpenedSinks | None = None,
) -> Handle:
    """What `start` does; answers and changes may be asked for together, and rows with all their columns.

    `alone`: whether the data frame is a stream as its source gives it, without watermarks of its own. Windows are then
    answered in the micro-batch that ends them, not in the next.
    `dead` are malformed records and their writer; they run as a query of their own, from their own place in the source.
    `progress` is that of a run which this one goes on with: its numbers go on, too. `before` is the plan that the state
    was written under. `locked`: whether the caller has locked the checkpoint already.
    `limits` says how many rows may be late. `opened` are sinks that are closed when the stream ends.
    """
    spark = _streaming(df)[0].sparkSession
    kept = Checkpoint(spark, checkpoint)
    about = kept.read()
    mode: Late = "return" if callable(late) else late
    draft = check(
        df,
        workload,
        time=time,
        id_=id_,
        watermark=watermark,
        algorithm=algorithm,
        late=mode,
        output=output,
        shards=shards if shards is not None or about is None else about["shards"],
        whole=whole,
        alone=alone,
        held=bounded,
    )
    if before is not None:
        refuse_unresumable(before, draft.plan)
    lock = Lock(None if locked else kept.lock)
    try:
        lock.take()
        control = Control(spark, kept.control)
        if about is None:
            kept.refuse_unwritable(control.open)
        kept.agree(draft.about, about)
        progress = StreamProgress() if progress is None else progress
        progress.followed = draft.followed
        pipeline = draft.assemble(kept.control)
        beside = [] if dead is None else [(dead[1], dead[0], kept.dead)]
        if callable(late) and pipeline.late is not None:
            beside.append((late, pipeline.late, kept.late))
        handle = Handle(
            pipeline,
            progress,
            kept,
            control,
            write,
            beside,
            limits or LateLimits(),
            bounded=bounded,
            plan=draft.plan,
            lock=lock,
            opened=opened,
        )
        handle._begin()
    except BaseException:
        lock.release()
        raise
    return handle


class Handle:
    """A running stream. Made by `start`."""

    def __init__(
        self,
        pipeline: Pipeline,
        progress: StreamProgress,
        checkpoint: Checkpoint,
        control: Control,
        write: Write,
        beside: Sequence[tuple[Write, DataFrame, str]],
        limits: LateLimits,
        *,
        bounded: bool,
        plan: ShardPlan,
        lock: Lock,
        opened: OpenedSinks | None = None,
    ) -> None:
        self._pipeline = pipeline
        self.plan = plan  # what its state is written under
        self._lock = lock
        self._opened = opened
        self._checkpoint = checkpoint
        self._control = control
        self._write = write
        self._beside = beside  # what else is written of the stream, what it is, and the folder of its state
        self._limits = limits
        self._bounded = bounded
        self._progress = progress
        self._queries: list[StreamingQuery] = []
        self._name: str | None = None  # of the stream
        self._error: BaseException | None = None
        self.failure: BaseException | None = None  # what stopped it, as Spark says it
        self._rows_before = progress.metrics()["rows"]
        self._stopping = False
        self._ended = threading.Event()

    @property
    def is_going_on(self) -> bool:
        """Whether it has not ended yet."""
        return not self._ended.is_set()

    @property
    def has_done_a_batch(self) -> bool:
        """Whether a micro-batch with rows was completed since it was started; one without shows nothing."""
        return bool(self._collected().metrics()["rows"] > self._rows_before)

    @property
    def is_idle(self) -> bool:
        """Whether it waits for rows, or for the time of its next micro-batch."""
        with unless_gone():
            return self.is_going_on and str(self._queries[0].status["message"]).startswith("Waiting for")
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
            ended = self._ended.wait(timeout)
        if ended and self._error is not None:
            raise self._error
        return ended

    def metrics(self) -> dict[str, Any]:
        """Counts since the start of this run: rows, left_out, late, reduced, windows, answers, candidates, bound, …

        `left_out` are rows without a time or a score; `malformed`, of topics and files, what could not be read;
        `reduced` those that tasks dropped before anything was shuffled;
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

    def _begin(self) -> None:
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
            started += [self._start(write, frame, folder) for write, frame, folder in self._beside]
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
