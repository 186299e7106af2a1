"""Running jobs of workload files: one Spark stream per stream of the file, from its source to its sinks."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from skyband.connectors.dead_letters import dead_places
from skyband.connectors.sources import open_stream
from skyband.errors import InvalidInputError, PipelineError, SkybandError, UnsupportedError
from skyband.jobs.bounded_job import BoundedRun
from skyband.jobs.expression_guard import refuse_unlisted
from skyband.jobs.job_stream import JobStream, Mode, Prepare
from skyband.jobs.journal import Journal, changed, names_of
from skyband.jobs.live_queries import LiveQueries, failure_of
from skyband.jobs.outputs import memory_of
from skyband.jobs.spark_history import SparkPast
from skyband.paths import has_scheme
from skyband.queries import Query
from skyband.queries.workload import Workload
from skyband.sharding.delivery import Server, Wanted, ask_servers, output_of
from skyband.spark.checkpoint_lock import Lock
from skyband.spark.delivery import check_answers, open_servers
from skyband.spark.health import Beat
from skyband.spark.sessions import session
from skyband.spark.stream_handle import Handle
from skyband.spark.versions import is_remote
from skyband.workload_file import WorkloadFile

__all__ = ["Mode", "Run", "run"]

CHANGE_TIMEOUT = 60  # seconds that a change waits for the current micro-batch


def run(
    file: WorkloadFile,
    mode: Mode = "stream",
    *,
    fresh: bool = False,
    reshard: bool = False,
    watchers: Mapping[str, Sequence[Wanted]] | None = None,
    spark: SparkSession | None = None,
) -> Run:
    """Start all streams of a workload file.

    Parameters
    ----------
    file
        From `skyband.read_workload`.
    mode
        ``"stream"``: run until stopped. The state is stored in the file's checkpoint, and the next run resumes from
        it. ``"once"``: read the whole input, emit every window and end. No row is late, whatever the order of files
        and partitions. No state is stored. Answers of an earlier such run are replaced when all new ones are computed.
        ``"catch-up"``: read what is new since the last run, emit the windows that the watermark has closed, store the
        state and end; for scheduled jobs. Everything new is read before the watermark moves, so only rows behind the
        watermark of an earlier run are late.
    fresh
        Discard the stored state, and remove the files that were written with it.
    reshard
        Convert the stored state to the number of shards in the file, and to the partitions of the session; see
        `skyband.spark.start`.
    watchers
        By stream: additional receivers of its answers, beside the file's sinks. Sinks of type terminal are not opened
        here; the command line adds a receiver for them.
    spark
        The session to use, also of Spark Connect. Default: a new session with the settings of the file's engine
        section; with `spark.remote` among them, a session of Spark Connect.

    Examples
    --------
    >>> import skyband as sb
    >>> from skyband.jobs import run
    >>> running = run(sb.read_workload("skyband.yaml"), "once")  # doctest: +SKIP
    >>> running.await_end()  # doctest: +SKIP
    >>> running.memory("trades")  # if the file has a sink of type memory  # doctest: +SKIP
    """
    if mode not in ("stream", "once", "catch-up"):
        raise InvalidInputError(f"mode must be 'stream', 'once' or 'catch-up', got {mode!r}.")
    for name in file.workloads if mode != "stream" else ():
        if not file.streams[name].is_bounded:
            raise InvalidInputError(
                f"stream {name!r} has source {file.streams[name].source!r}, which never ends. mode={mode!r} "
                f"(--{mode}) supports only files and Kafka topics. Run it as a stream."
            )
    engine = file.engine
    found = spark or session(
        app=f"skyband {file.path.stem}",
        master=engine.master,
        memory=engine.memory,
        settings=dict(engine.settings),
        kafka=file.needs_kafka,
    )
    if is_remote(found):
        _refuse_over_connect(file, fresh=fresh)
    if file.since and mode != "once" and is_remote(found):
        raise UnsupportedError(
            f"since of query {next(iter(file.since))!r} is not supported over Spark Connect, because what the stream "
            "has read is on the server. Remove since: a new query is then answered from the first window that starts "
            "after all rows read so far."
        )
    lock = Lock(_lock_of(str(engine.checkpoint)), leaves_nothing=mode == "once" and not fresh)
    lock.take()
    running = None
    try:
        journal = Journal(Path(str(engine.checkpoint)))
        live_queries = LiveQueries(journal, names_of(file))
        current = file if mode == "once" or fresh else changed(file, live_queries.read())
        running = Run(current, mode, found, live_queries, lock)
        own = names_of(file)
        for name in running.file.workloads:
            running._add(name, fresh=fresh, reshard=reshard, watchers=(watchers or {}).get(name, ()), own=own)
        if fresh:
            journal.clear()
        running._begin()
    except BaseException:
        with suppress(PipelineError):
            lock.release() if running is None else running.stop()
        raise
    return running


class Run:
    """A running workload file. Created by `run`."""

    def __init__(
        self, file: WorkloadFile, mode: Mode, spark: SparkSession, live_queries: LiveQueries, lock: Lock
    ) -> None:
        self.file = file  # including the changes of the running job
        self.live_queries = live_queries  # added while the job ran
        self._lock = lock  # on the checkpoint
        self.mode = mode
        self._spark = spark
        self.handles: dict[str, Handle] = {}  # modes stream and catch-up
        self._bounded: dict[str, BoundedRun] = {}  # mode once
        self._streams: dict[str, JobStream] = {}
        self._changes: dict[str, int] = {}
        self.changing = threading.RLock()  # held while a change restarts a stream, which does not count as its end
        self._stopped = False

    def await_end(self, timeout: float | None = None) -> bool:
        """Wait until all streams have ended, at most `timeout` seconds; return whether they have.

        If a stream fails, the others are stopped and its error is raised.
        """
        until = None if timeout is None else monotonic() + timeout
        while True:
            with self.changing:
                active = [name for name in self._all if not self._has_ended(name, 0)]
            if not active:
                self._clean_up()
                return True
            left = 0.2 if until is None else min(0.2, until - monotonic())
            if left <= 0:
                return False
            self._has_ended(active[0], left)

    @property
    def is_active(self) -> bool:
        """Whether a stream has not ended yet. A stream that a change restarts counts as active."""
        with self.changing:
            return any(one.is_active for one in self._all.values())

    def metrics(self) -> dict[str, dict[str, Any]]:
        """Metrics by stream: those of `Handle.metrics`, and the numbers of queries, changes and dropped queries."""
        return {
            name: {
                **handle.metrics(),
                "queries": len(self.file.workloads[name]),
                "changes": self._changes.get(name, 0),
                **self.live_queries.metrics(name),
            }
            for name, handle in self._all.items()
        }

    def beats(self) -> dict[str, Beat]:
        """Progress by stream, and by its other outputs, such as dead letters."""
        return {
            name if place == 0 else f"{name}, output {place + 1}": beat
            for name, handle in list(self.handles.items())
            for place, beat in enumerate(handle.beats())
        }

    def memory(self, stream: str, output: Literal["answers", "changes"] | None = None) -> pa.Table | None:
        """Rows that a stream's sinks of type memory have received; None before the first answers.

        `output` is required only if the file has memory sinks for answers and for changes.
        """
        memories = self._streams[stream].memories if stream in self._streams else {}
        return memory_of(stream, memories, output)

    def past(self, stream: str, file: WorkloadFile, past: Mapping[str, int]) -> SparkPast:
        """Read the past of queries that a changed file adds, beside the stream; to be passed to `change`."""
        found = self._streams[stream].past(file, past)
        found.read(lambda: self._stopped)
        return found

    def change(self, stream: str, file: WorkloadFile, past: SparkPast | None = None) -> None:
        """Restart a stream with another workload, from its state. If this fails, the old workload continues.

        The current micro-batch is completed first, so frequent changes do not stall the stream. `past` is that of added
        queries; what the stream has read since is read when it is stopped.
        """
        with self.changing:
            before, handle, wanted = self.file, self.handles[stream], self._streams[stream].wanted

            def prepare(out: DataFrame) -> None:
                handle.await_batch(CHANGE_TIMEOUT)
                handle.stop()
                ask_servers(wanted, file.workloads[stream])
                check_answers(wanted, file.workloads[stream], output_of(wanted), out)
                open_servers(wanted, file.workloads[stream], output_of(wanted), out)
                if past is not None:
                    past.read(lambda: self._stopped)
                    self._streams[stream].send_past(past)

            def prepare_again(out: DataFrame) -> None:
                ask_servers(wanted, before.workloads[stream])
                with suppress(SkybandError):  # it worked before; the next write reports it otherwise
                    open_servers(wanted, before.workloads[stream], output_of(wanted), out)

            self.file = file
            if past is not None:
                self._streams[stream].added_past.update(past.reported_from)
            try:
                self._launch(stream, prepare, handle)
            except Exception:
                self.file = before
                if not handle.is_active:
                    self._launch(stream, prepare_again, handle)
                raise
            self._changes[stream] = self._changes.get(stream, 0) + 1

    def finish(self) -> None:
        """End the streams: read the available rows, emit every window that contains a row, and stop.

        If a stream fails, the others are stopped and its error is raised.
        """
        for handle in self.handles.values():
            try:
                handle.finish()
            except Exception as error:
                raise self._failed(error) from None

    def stop(self) -> None:
        """Stop all streams at the next safe point. Raises PipelineError if one does not stop (see `Handle.stop`)."""
        self._stopped = True
        for server in self._servers:
            server.stop_waiting()
        stuck = None
        for handle in self._all.values():
            try:
                handle.stop()
            except PipelineError as error:  # still stop the others
                stuck = error
        self._clean_up()
        if stuck is not None:
            raise stuck

    @property
    def _servers(self) -> list[Server]:
        return [server for stream in self._streams.values() for server in stream.servers]

    @property
    def _all(self) -> dict[str, Handle | BoundedRun]:
        return {**self.handles, **self._bounded}

    def _has_ended(self, name: str, timeout: float) -> bool:
        """Whether a stream has ended. If it failed, the others are stopped."""
        handle = self._all[name]
        if isinstance(handle, Handle):
            self.live_queries.settle(name, handle)
        try:
            return handle.await_end(timeout, progress=False)
        except Exception as error:
            if isinstance(handle, Handle) and self._restarted_without_culprits(name, handle):
                return False
            raise self._failed(error) from None

    def _failed(self, error: Exception) -> Exception:
        """Stop all streams and release the checkpoint after an error; return the error without secrets."""
        with suppress(PipelineError):  # the first error is raised
            self.stop()
        if isinstance(error, SkybandError) and str(error) != (shown := self.file.hide(str(error))):
            return type(error)(shown)
        return error

    def refuse_unlisted(self, stream: str, query: Query) -> None:
        """Reject a query of a client that does more than compute values from the columns of a stream."""
        if is_remote(self._spark):
            raise UnsupportedError(
                f"query {query.name!r} cannot be added to a job over Spark Connect, because its expressions cannot be "
                "checked there. Add it to the file and restart the job."
            )
        refuse_unlisted(open_stream(self._spark, stream, self.file.streams[stream]), query)

    def _restarted_without_culprits(self, stream: str, handle: Handle) -> bool:
        """Restart a failed stream without the added queries that made it fail; return whether it was restarted."""
        with self.changing:
            if self.handles[stream] is not handle:
                return True  # already restarted
            if handle.failure is None or self._stopped:
                return False
            dropped = self.live_queries.drop_culprits(self.file, stream, handle, partial(self._failure_with, stream))
            left = [query for query in self.file.workloads[stream] if query.name not in dropped]
            if not dropped or not left:
                return False
            self.change(stream, _only(self.file, stream, left))
            return True

    def _failure_with(self, stream: str, queries: Sequence[Query], *, run: bool = True) -> BaseException | None:
        """Error of the stream's next micro-batch with these queries, or None. The trial stores nothing."""
        file = _only(self.file, stream, [query for query in self.file.workloads[stream] if query in queries])
        return failure_of(lambda deliver: self._streams[stream].start(file, deliver), run=run)

    def _launch_first(self, name: str, prepare: Prepare) -> None:
        """Start a stream, without queries added in earlier runs if it cannot start with them."""
        try:
            self._launch(name, prepare)
        except SkybandError:
            if name in self.handles:
                raise
            dropped = self.live_queries.drop_unsound(self.file, name, partial(self._failure_with, name, run=False))
            left = [query for query in self.file.workloads[name] if query.name not in dropped]
            if not dropped or not left:
                raise
            self.file = _only(self.file, name, left)
            self._launch(name, prepare)

    def _launch(self, name: str, prepare: Prepare, before: Handle | None = None) -> None:
        self.handles[name] = self._streams[name].launch(prepare, before)

    def _add(self, name: str, *, fresh: bool, reshard: bool, watchers: Sequence[Wanted], own: Sequence[str]) -> None:
        self._streams[name] = stream = JobStream(self._spark, self.mode, name, lambda: self.file, reshard=reshard)
        stream.added_past.update(name for name in names_of(self.file) if name not in own)
        stream.open_sinks(watchers)
        stream.check_outputs(fresh=fresh)

    def _begin(self) -> None:
        """Start the streams. All of them were checked: only now is anything removed."""
        for stream in self._streams.values():
            stream.discard()
        for name, stream in self._streams.items():
            if self.mode == "once":
                self._bounded[name] = stream.run_once(stream.prepare)
            else:
                self._launch_first(name, stream.prepare)

    def _clean_up(self) -> None:
        for server in self._servers:
            server.close()
        for stream in self._streams.values():
            stream.locks.release()
        self._lock.release()


def _only(file: WorkloadFile, stream: str, queries: Sequence[Query]) -> WorkloadFile:
    """The file, with only these queries of a stream."""
    return replace(file, workloads={**file.workloads, stream: Workload(queries)})


def _refuse_over_connect(file: WorkloadFile, *, fresh: bool) -> None:
    """Reject what needs the driver's process or its files, before anything is started."""
    for name in file.workloads:
        if dead_places(name, file.streams[name]):
            raise UnsupportedError(
                f"dead letters of stream {name!r} are not supported over Spark Connect: the driver writes them. Remove "
                "them from the file, so that malformed rows are only counted, or use a session without Spark Connect."
            )
    if fresh:
        raise UnsupportedError(
            "--fresh (fresh=True) is not supported over Spark Connect, because the state is on the server. Remove the "
            f"checkpoint {str(file.engine.checkpoint)!r} there, or use another one."
        )


def _lock_of(checkpoint: str) -> Path | None:
    """Lock file of a local checkpoint, else None."""
    return None if has_scheme(checkpoint) else Path(checkpoint) / "lock"
