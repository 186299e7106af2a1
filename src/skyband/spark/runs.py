"""A workload file, running: a stream for each of its streams, from its source to its sinks."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from time import monotonic
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from skyband.duration import parse_duration
from skyband.errors import InvalidInputError, PipelineError, SkybandError, UnsupportedError
from skyband.sharding.plan import Output
from skyband.spark.checkpoint import Checkpoint
from skyband.spark.dead_letters import bury_in, dead_places
from skyband.spark.running import Handle, launch
from skyband.spark.servers import Server, ask_servers, open_servers, server_for, servers_among
from skyband.spark.sessions import session
from skyband.spark.sinks import FileSink, Folder, Memory, Wanted, output_of, write_to
from skyband.spark.sources import dead_letters_of, files_of, open_stream
from skyband.spark.topic_sink import TopicSink
from skyband.workfile import Sink, WorkloadFile
from skyband.workfile.admitting import blamed
from skyband.workfile.journal import Change, Journal, changed, guests, names_of, without_query
from skyband.workfile.paths import has_scheme

__all__ = ["Mode", "Run", "run"]

Mode = Literal["stream", "once", "catch-up"]
PATIENCE = 60  # seconds that a change waits for the micro-batch under way
_LOG = logging.getLogger("skyband.control")
BATCHES = 20  # that an input of many files is read in when it is read once: something moves on the screen


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
        there. ``"once"``: the input is bounded; answer every window of what is there now, and end. Nothing is kept, and
        files of an earlier such run are replaced. ``"catch-up"``: read what is new since the last run, answer what the
        watermark makes final, keep the state and end: for a job that is run every so often.
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
    >>> from skyband.spark import run
    >>> running = run(sb.read_workload("skyband.yaml"), "once")  # doctest: +SKIP
    >>> running.await_end()  # doctest: +SKIP
    >>> running.memory("trades")  # where the file has a sink of type memory  # doctest: +SKIP
    """
    if mode not in ("stream", "once", "catch-up"):
        raise InvalidInputError(f"mode={mode!r} must be 'stream', 'once' or 'catch-up'.")
    for name in file.workloads if mode != "stream" else ():
        if file.streams[name].source not in ("files", "kafka"):
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
    journal = Journal(Path(str(engine.checkpoint)))
    if fresh:
        journal.clear()
    running = Run(changed(file, journal.read()) if mode != "once" else file, mode, found, journal, names_of(file))
    try:
        for name in running.file.workloads:
            running._add(name, fresh=fresh, watchers=(watchers or {}).get(name, ()))
    except BaseException:
        with suppress(PipelineError):
            running.stop()
        raise
    return running


class Run:
    """A workload file that runs. Made by `run`."""

    def __init__(
        self, file: WorkloadFile, mode: Mode, spark: SparkSession, journal: Journal, own: Collection[str]
    ) -> None:
        self.file = file  # with what was changed while it ran
        self._journal, self._own = journal, own  # the changes, and the queries that the file itself has
        self.mode = mode
        self._spark = spark
        self.handles: dict[str, Handle] = {}
        self._wanted: dict[str, list[Wanted]] = {}  # by stream: who is given its answers
        self._states: dict[str, str] = {}
        self._changes: dict[str, int] = {}
        self._changing = threading.RLock()  # while a stream stops to go on with another workload, it has not ended
        self._memories: dict[tuple[str, Output], list[Memory]] = {}  # by stream and output, one for each sink
        self._scratch: list[str] = []
        self._servers: list[Server] = []

    def await_end(self, timeout: float | None = None) -> bool:
        """Wait until all streams have ended, at most `timeout` seconds; return whether they have.

        What stops a stream is raised here, when the others have been stopped too.
        """
        until = None if timeout is None else monotonic() + timeout
        while True:
            with self._changing:
                going_on = [name for name in self.handles if not self._has_ended(name, 0)]
            if not going_on:
                self._clean_up()
                return True
            left = 0.2 if until is None else min(0.2, until - monotonic())
            if left <= 0:
                return False
            self._has_ended(going_on[0], left)

    def metrics(self) -> dict[str, dict[str, Any]]:
        """The numbers of each stream, by name: see `Handle.metrics`, and how many queries and changes of them."""
        return {
            name: {
                **handle.metrics(),
                "queries": len(self.file.workloads[name]),
                "changes": self._changes.get(name, 0),
            }
            for name, handle in self.handles.items()
        }

    def memory(self, stream: str, output: Literal["answers", "changes"] | None = None) -> pa.Table | None:
        """What sinks of type memory were given of a stream; None before its first answers.

        `output` need only be said where there are sinks of both kinds.
        """
        known = [kind for name, kind in self._memories if name == stream]
        wanted = known[0] if output is None and len(known) == 1 else output
        if wanted not in known:
            has = f"has no sink of type memory{f' for {output}' if output else ''}; its answers are not kept here"
            both = "has sinks of type memory for answers and for changes; say which with output="
            raise InvalidInputError(f"stream {stream!r} {both if known and output is None else has}.")
        tables = [memory.table() for memory in self._memories[stream, wanted]]
        there = [table for table in tables if table is not None]
        return pa.concat_tables(there) if there else None

    def change(self, stream: str, file: WorkloadFile) -> None:
        """Go on with another workload of a stream, from the state there is; refused, all goes on as it was.

        The micro-batch under way is waited for: however often the workload is changed, the stream gets on.
        """
        with self._changing:
            before, handle = self.file, self.handles[stream]

            def prepare(_: DataFrame) -> None:
                handle.await_batch(PATIENCE)
                handle.stop()
                ask_servers(self._wanted[stream], self.file.workloads[stream])

            self.file = file
            try:
                self._launch(stream, prepare, handle)
            except Exception:
                self.file = before
                if not handle.is_going_on:
                    self._launch(stream, prepare, handle)
                raise
            self._changes[stream] = self._changes.get(stream, 0) + 1

    def stop(self) -> None:
        """Stop all streams at the next safe moment; raises PipelineError if one does not (see `Handle.stop`)."""
        for server in self._servers:
            server.stop_waiting()
        stuck = None
        for handle in self.handles.values():
            try:
                handle.stop()
            except PipelineError as error:  # the others are stopped all the same
                stuck = error
        self._clean_up()
        if stuck is not None:
            raise stuck

    def _has_ended(self, name: str, timeout: float) -> bool:
        """Whether a stream has ended; one that failed stops the others."""
        handle = self.handles[name]
        try:
            return handle.await_end(timeout, progress=False)
        except Exception as error:
            if self._goes_on_without_a_guest(name, handle):
                return False
            with suppress(PipelineError):  # what came first is told
                self.stop()
            if isinstance(error, SkybandError) and str(error) != (shown := self.file.hide(str(error))):
                raise type(error)(shown) from None
            raise

    def _goes_on_without_a_guest(self, stream: str, handle: Handle) -> bool:
        """Whether a stream that failed goes on: without the query at fault, if it was added while the stream ran.

        Only some row shows that an expression cannot be computed for it. Who added it must not have stopped the others.
        """
        with self._changing:
            if self.handles[stream] is not handle:
                return True  # it was replaced meanwhile
            if handle.uncomputable is None or self.mode == "once":
                return False
            query = blamed(guests(self.file, self._journal.read(), stream, self._own), handle.uncomputable)
            if query is None:
                return False
            _LOG.warning(
                "dropped %r from stream %r, which goes on without it: %s cannot be computed for some row",
                query.name,
                stream,
                self.file.hide(handle.uncomputable),
            )
            self._journal.append(Change("drop", stream, query))
            self.change(stream, without_query(self.file, stream, query.name))
            return True

    def _add(self, name: str, *, fresh: bool, watchers: Sequence[Wanted]) -> None:
        file = self.file
        self._wanted[name] = wanted = [*self._outlets(name), *watchers]
        kept = Checkpoint(self._spark, file.checkpoint_of(name))
        places = (*(one.outlet for one in wanted), *dead_places(name, file.streams[name]))
        folders = [place for place in places if isinstance(place, Folder)]
        for server in servers_among(wanted):
            server.reach()  # before anything is forgotten
        if fresh:
            _forget(file.checkpoint_of(name), folders)
        has_state = kept.read() is not None
        _refuse_foreign_files(folders, name, has_state=has_state, mode=self.mode)
        self._states[name] = file.checkpoint_of(name)
        if self.mode == "once":
            self._states[name] = mkdtemp(prefix="skyband-once-")
            self._scratch.append(self._states[name])

        def prepare(out: DataFrame) -> None:
            anew, output = fresh or self.mode == "once", output_of(wanted) if wanted else "answers"
            open_servers(wanted, file.workloads[name], output, out, replace=anew, keep=has_state)
            for folder in folders if self.mode == "once" else ():
                folder.clear()

        self._launch(name, prepare)

    def _launch(self, name: str, prepare: Callable[[DataFrame], None], before: Handle | None = None) -> None:
        """Start a stream; `prepare` is called with its answers once the queries have been found sound.

        `before` is what ran until now; only its numbers go on.
        """
        file, stream, engine = self.file, self.file.streams[name], self.file.engine
        wanted, dead, unprepared = self._wanted[name], dead_places(name, stream), [prepare]
        output = output_of(wanted) if wanted else "answers"
        take = write_to(wanted, file.workloads[name], output)
        some_files = max(1, len(files_of(stream)) // BATCHES) if self.mode == "once" else None

        def write(out: DataFrame) -> DataStreamWriter:
            if unprepared:  # a bounded stream is started twice
                unprepared.pop()(out)
            return self._triggered(out.writeStream.foreachBatch(take).queryName(name))

        def bury(letters: DataFrame) -> DataStreamWriter:
            return self._triggered(letters.writeStream.foreachBatch(bury_in(dead)).queryName(f"{name}, dead letters"))

        self.handles[name] = launch(
            open_stream(self._spark, name, stream, files_per_batch=some_files),
            file.workloads[name],
            write=write,
            checkpoint=self._states[name],
            time=stream.time or "timestamp",
            id_=stream.id,
            watermark=stream.watermark,
            bounded=self.mode == "once",
            algorithm=file.algorithm_of(name),
            late=engine.late,
            output=output,
            shards=file.shards_of(name),
            whole=True,
            alone=True,
            dead=(dead_letters_of(self._spark, name, stream), bury) if dead else None,
            progress=None if before is None else before.progress,
        )

    def _triggered(self, writer: DataStreamWriter) -> DataStreamWriter:
        trigger = self.file.engine.trigger
        if self.mode == "catch-up":
            return writer.trigger(availableNow=True)
        if self.mode == "stream" and trigger is not None:
            return writer.trigger(processingTime=f"{parse_duration(trigger, field='trigger') // 1000} milliseconds")
        return writer

    def _outlets(self, stream: str) -> list[Wanted]:
        found = []
        for sink in self.file.sinks:
            if sink.type != "terminal" and _serves(sink, self.file, stream):
                if sink.type == "memory":
                    outlet: Any = Memory()
                    self._memories.setdefault((stream, sink.output), []).append(outlet)
                elif sink.type == "kafka":
                    outlet = TopicSink(self._spark, sink, lambda: self.file.workloads[stream])
                elif sink.type in ("postgres", "redis"):
                    outlet = server_for(sink, stream, self.file.workloads[stream])
                    self._servers.append(outlet)
                else:
                    outlet = FileSink(str(sink.path), stream, sink.type)
                found.append(Wanted(outlet, sink.output, sink.queries))
        return found

    def _clean_up(self) -> None:
        for folder in self._scratch:
            shutil.rmtree(folder, ignore_errors=True)
        self._scratch = []
        for server in self._servers:
            server.close()


def _serves(sink: Sink, file: WorkloadFile, stream: str) -> bool:
    return sink.queries is None or any(query.name in sink.queries for query in file.workloads[stream])


def _refuse_foreign_files(folders: Sequence[Folder], stream: str, *, has_state: bool, mode: Mode) -> None:
    """Files are numbered by micro-batch: those of another run would be mixed with this one's, or replaced by them."""
    for folder in folders:
        if not folder.files():
            continue
        where = f"{str(folder.folder)!r} holds {folder.holds} of stream {stream!r}"
        if mode == "once" and has_state:
            raise InvalidInputError(
                f"{where} that belong to a run whose state is kept; answering once would replace them. Give another "
                "path, go on with that run, or begin anew with --fresh (fresh=True), which removes both."
            )
        if mode != "once" and not has_state:
            raise InvalidInputError(
                f"{where} from another run, and there is no state to go on from; new files would be mixed with them. "
                "Give another path, or begin anew with --fresh (fresh=True), which removes them."
            )


def _forget(checkpoint: str, folders: Sequence[Folder]) -> None:
    if has_scheme(checkpoint):
        raise InvalidInputError(
            f"the state in {checkpoint!r} is not on this machine and was not removed; remove it with the tools of that "
            "place, and run without --fresh (fresh=True)."
        )
    with suppress(FileNotFoundError):
        shutil.rmtree(checkpoint)
    for folder in folders:
        folder.clear()
