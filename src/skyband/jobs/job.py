"""A workload file, running: a stream for each of its streams, from its source to its sinks."""

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

from skyband.connectors.sources import open_stream
from skyband.errors import InvalidInputError, PipelineError, SkybandError, UnsupportedError
from skyband.jobs.bounded_job import BoundedRun
from skyband.jobs.expression_guard import refuse_unlisted
from skyband.jobs.job_stream import JobStream, Mode, Prepare
from skyband.jobs.journal import Journal, changed, names_of
from skyband.jobs.live_queries import Guests, failure_of
from skyband.paths import has_scheme
from skyband.queries import Query
from skyband.queries.workload import Workload
from skyband.spark.checkpoint_lock import Lock
from skyband.spark.delivery import (
    Server,
    Wanted,
    ask_servers,
    open_servers,
    output_of,
)
from skyband.spark.health import Beat
from skyband.spark.sessions import session
from skyband.spark.stream_handle import Handle
from skyband.workload_file import WorkloadFile

__all__ = ["Mode", "Run", "run"]

PATIENCE = 60  # seconds that a change waits for the micro-batch under way


def run(
    file: WorkloadFile,
    mode: Mode = "stream",
    *,
    fresh: bool = False,
    watchers: Mapping[str, Sequence[Wanted]] | None = None,
    spark: SparkSession | None = None,
) -> Run:
    """Start all streams of a workload file.

    Parameters
    ----------
    file
        From `skyband.read_workload`.
    mode
        ``"stream"``: run until stopped; the state is kept in the file's checkpoint, and the next run goes on from
        there. ``"once"``: the input is bounded; read all of what is there now, answer every window of it, and end. No
        row is late, whatever the order of files and partitions. No state is kept, and answers of an earlier such run
        are replaced once all new ones are there. ``"catch-up"``: read what is new since the last run, answer what the
        watermark makes final, keep the state and end: for a job that is run every so often. All that is new is read
        before the watermark moves, so only rows behind the watermark of an earlier run are late.
    fresh
        Forget the kept state, and remove the files that were written with it.
    watchers
        By stream: who else is given its answers, beside the file's sinks. A sink of type terminal is not served here:
        who has a terminal watches.
    spark
        A session to use; by default one is made as the file's engine section says.

    Examples
    --------
    >>> import skyband as sb
    >>> from skyband.jobs import run
    >>> running = run(sb.read_workload("skyband.yaml"), "once")  # doctest: +SKIP
    >>> running.await_end()  # doctest: +SKIP
    >>> running.memory("trades")  # where the file has a sink of type memory  # doctest: +SKIP
    """
    if mode not in ("stream", "once", "catch-up"):
        raise InvalidInputError(f"mode={mode!r} must be 'stream', 'once' or 'catch-up'.")
    for name in file.workloads if mode != "stream" else ():
        if not file.streams[name].is_bounded:
            raise InvalidInputError(
                f"stream {name!r} is of source {file.streams[name].source!r}, which never ends; "
                f"mode={mode!r} (--{mode}) is for files and topics. Run it as a stream."
            )
    engine = file.engine
    found = spark or session(
        app=f"skyband {file.path.stem}",
        master=engine.master,
        memory=engine.memory,
        settings=dict(engine.settings),
        kafka=file.needs_kafka,
    )
    if not isinstance(found, SparkSession) or type(found).__module__.startswith("pyspark.sql.connect"):
        raise UnsupportedError(
            "a workload file is run by the process that holds its sinks, and this session is one of Spark Connect, "
            "which would run them elsewhere; take a session of its own, or write with skyband.spark.start()."
        )
    lock = Lock(_lock_of(str(engine.checkpoint)) if mode != "once" or fresh else None)
    lock.take()
    running = None
    try:
        journal = Journal(Path(str(engine.checkpoint)))
        if fresh:
            journal.clear()
        guests = Guests(journal, names_of(file))
        asked = file if mode == "once" else changed(file, guests.read())
        running = Run(asked, mode, found, guests, lock)
        for name in running.file.workloads:
            running._add(name, fresh=fresh, watchers=(watchers or {}).get(name, ()))
    except BaseException:
        with suppress(PipelineError):
            lock.release() if running is None else running.stop()
        raise
    return running


class Run:
    """A workload file that runs. Made by `run`."""

    def __init__(self, file: WorkloadFile, mode: Mode, spark: SparkSession, guests: Guests, lock: Lock) -> None:
        self.file = file  # with what was changed while it ran
        self.guests = guests  # the queries that joined while it ran
        self._lock = lock  # on the checkpoint, until it ends
        self.mode = mode
        self._spark = spark
        self.handles: dict[str, Handle] = {}  # of streams that are followed
        self._bounded: dict[str, BoundedRun] = {}  # of those that are answered once
        self._streams: dict[str, JobStream] = {}
        self._changes: dict[str, int] = {}
        self.changing = threading.RLock()  # while a stream stops to go on with another workload, it has not ended
        self._stopped = False

    def await_end(self, timeout: float | None = None) -> bool:
        """Wait until all streams have ended, at most `timeout` seconds; return whether they have.

        What stops a stream is raised here, when the others have been stopped too.
        """
        until = None if timeout is None else monotonic() + timeout
        while True:
            with self.changing:
                going_on = [name for name in self._all if not self._has_ended(name, 0)]
            if not going_on:
                self._clean_up()
                return True
            left = 0.2 if until is None else min(0.2, until - monotonic())
            if left <= 0:
                return False
            self._has_ended(going_on[0], left)

    @property
    def is_active(self) -> bool:
        """Whether a stream has not ended yet; one that a change stops for a moment has not."""
        with self.changing:
            return any(one.is_active for one in self._all.values())

    def metrics(self) -> dict[str, dict[str, Any]]:
        """The numbers of each stream, by name: see `Handle.metrics`, and how many queries and changes of them."""
        return {
            name: {
                **handle.metrics(),
                "queries": len(self.file.workloads[name]),
                "changes": self._changes.get(name, 0),
                **self.guests.metrics(name),
            }
            for name, handle in self._all.items()
        }

    def beats(self) -> dict[str, Beat]:
        """The progress of each stream, by its name, and of what is written beside its answers, such as dead letters."""
        return {
            name if place == 0 else f"{name}, output {place + 1}": beat
            for name, handle in list(self.handles.items())
            for place, beat in enumerate(handle.beats())
        }

    def memory(self, stream: str, output: Literal["answers", "changes"] | None = None) -> pa.Table | None:
        """What sinks of type memory were given of a stream; None before its first answers.

        `output` need only be said where there are sinks of both kinds.
        """
        memories = self._streams[stream].memories if stream in self._streams else {}
        known = list(memories)
        wanted = known[0] if output is None and len(known) == 1 else output
        if wanted not in known:
            has = f"has no sink of type memory{f' for {output}' if output else ''}; its answers are not kept here"
            both = "has sinks of type memory for answers and for changes; say which with output="
            raise InvalidInputError(f"stream {stream!r} {both if known and output is None else has}.")
        tables = [memory.table() for memory in memories[wanted]]
        there = [table for table in tables if table is not None]
        return pa.concat_tables(there) if there else None

    def change(self, stream: str, file: WorkloadFile) -> None:
        """Go on with another workload of a stream, from the state there is; refused, all goes on as it was.

        The micro-batch under way is waited for: however often the workload is changed, the stream gets on.
        """
        with self.changing:
            before, handle, wanted = self.file, self.handles[stream], self._streams[stream].wanted

            def prepare(out: DataFrame) -> None:
                handle.await_batch(PATIENCE)
                handle.stop()
                ask_servers(wanted, file.workloads[stream])
                open_servers(wanted, file.workloads[stream], output_of(wanted), out)

            def prepare_again(out: DataFrame) -> None:
                ask_servers(wanted, before.workloads[stream])
                with suppress(SkybandError):  # it fitted before; whoever writes next tells if it does not any more
                    open_servers(wanted, before.workloads[stream], output_of(wanted), out)

            self.file = file
            try:
                self._launch(stream, prepare, handle)
            except Exception:
                self.file = before
                if not handle.is_active:
                    self._launch(stream, prepare_again, handle)
                raise
            self._changes[stream] = self._changes.get(stream, 0) + 1

    def finish(self) -> None:
        """End streams that are followed: read what is there, answer every window that holds a row, and stop."""
        for handle in self.handles.values():
            handle.finish()

    def stop(self) -> None:
        """Stop all streams at the next safe moment; raises PipelineError if one does not (see `Handle.stop`)."""
        self._stopped = True
        for server in self._servers:
            server.stop_waiting()
        stuck = None
        for handle in self._all.values():
            try:
                handle.stop()
            except PipelineError as error:  # the others are stopped all the same
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
        """Whether a stream has ended; one that failed stops the others."""
        handle = self._all[name]
        if isinstance(handle, Handle):
            self.guests.settle(name, handle)
        try:
            return handle.await_end(timeout, progress=False)
        except Exception as error:
            if isinstance(handle, Handle) and self._goes_on_without_guests(name, handle):
                return False
            with suppress(PipelineError):  # what came first is told
                self.stop()
            if isinstance(error, SkybandError) and str(error) != (shown := self.file.hide(str(error))):
                raise type(error)(shown) from None
            raise

    def refuse_unlisted(self, stream: str, query: Query) -> None:
        """Refuse a query from outside that does more than compute values from the columns of a stream."""
        refuse_unlisted(open_stream(self._spark, stream, self.file.streams[stream]), query)

    def _goes_on_without_guests(self, stream: str, handle: Handle) -> bool:
        """Whether a stream that failed goes on, without queries that joined while it ran and made it fail."""
        with self.changing:
            if self.handles[stream] is not handle:
                return True  # it was replaced meanwhile
            if handle.failure is None or self._stopped:
                return False
            dropped = self.guests.drop_culprits(self.file, stream, handle, partial(self._tried, stream))
            left = [query for query in self.file.workloads[stream] if query.name not in dropped]
            if not dropped or not left:
                return False
            self.change(stream, _only(self.file, stream, left))
            return True

    def _tried(self, stream: str, queries: Sequence[Query], *, run: bool = True) -> BaseException | None:
        """Why the stream's next micro-batch fails with these queries; None where it does not. Nothing is kept of it."""
        file = _only(self.file, stream, [query for query in self.file.workloads[stream] if query in queries])
        return failure_of(lambda write: self._streams[stream].start(file, write), run=run)

    def _launch_with_guests(self, name: str, prepare: Prepare) -> None:
        """Start a stream; without queries that joined while it ran before, if it cannot be started with them."""
        try:
            self._launch(name, prepare)
        except SkybandError:
            if name in self.handles:
                raise
            dropped = self.guests.drop_unsound(self.file, name, partial(self._tried, name, run=False))
            left = [query for query in self.file.workloads[name] if query.name not in dropped]
            if not dropped or not left:
                raise
            self.file = _only(self.file, name, left)
            self._launch(name, prepare)

    def _launch(self, name: str, prepare: Prepare, before: Handle | None = None) -> None:
        self.handles[name] = self._streams[name].launch(prepare, before)

    def _add(self, name: str, *, fresh: bool, watchers: Sequence[Wanted]) -> None:
        self._streams[name] = stream = JobStream(self._spark, self.mode, name, lambda: self.file)
        stream.open_sinks(watchers)
        prepare = stream.make_room(fresh=fresh)
        if self.mode == "once":
            self._bounded[name] = stream.answer_once(prepare)
        else:
            self._launch_with_guests(name, prepare)

    def _clean_up(self) -> None:
        for server in self._servers:
            server.close()
        self._lock.release()


def _only(file: WorkloadFile, stream: str, queries: Sequence[Query]) -> WorkloadFile:
    """The file with these queries of a stream only."""
    return replace(file, workloads={**file.workloads, stream: Workload(queries)})


def _lock_of(checkpoint: str) -> Path | None:
    """The file that says a checkpoint is in use, where it is on this machine."""
    return None if has_scheme(checkpoint) else Path(checkpoint) / "lock"
