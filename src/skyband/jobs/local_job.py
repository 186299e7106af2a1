"""Jobs in this process, without Spark and Java: a workload file over files on this machine."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from skyband.errors import InvalidInputError, PipelineError, SkybandError, UnsupportedError
from skyband.jobs.engine_choice import refuse_unsupported_file
from skyband.jobs.followed_stream import CaughtUpStream, FollowedStream
from skyband.jobs.journal import Journal, changed
from skyband.jobs.local_stream import BoundedStream, LocalStream, StoppedError
from skyband.jobs.local_tables import with_local_tables
from skyband.jobs.outputs import Mode, memory_of
from skyband.paths import has_scheme
from skyband.queries import Query
from skyband.sharding.delivery import Wanted
from skyband.spark.checkpoint_lock import Lock, OutputLocks
from skyband.spark.health import Beat
from skyband.workload_file import WorkloadFile

__all__ = ["LocalRun", "run_local"]

_STREAMS: dict[Mode, type[LocalStream]] = {
    "once": BoundedStream,
    "stream": FollowedStream,
    "catch-up": CaughtUpStream,
}


def run_local(
    file: WorkloadFile,
    mode: Mode = "once",
    *,
    fresh: bool = False,
    watchers: Mapping[str, Sequence[Wanted]] | None = None,
) -> LocalRun:
    """Run a workload file over files on this machine, without Spark.

    The answers equal those of `run`, row for row. A file that needs Spark is rejected. Rows that can still appear in an
    answer are held in memory, and so are the answers of a micro-batch.

    Parameters
    ----------
    file
        From `skyband.read_workload`. Its streams must be files on this machine.
    mode
        ``"once"``: read the whole input, emit every window and end. ``"stream"``: follow the folders until stopped;
        the state is stored in the file's checkpoint, and the next run resumes from it. ``"catch-up"``: read what is
        new since the last run, store the state and end.
    fresh
        Discard the stored state of earlier runs, and remove the files that were written with it.
    watchers
        By stream: additional receivers of its answers, beside the file's sinks.

    Examples
    --------
    >>> import skyband as sb
    >>> from skyband.jobs import run_local
    >>> running = run_local(sb.read_workload("skyband.yaml"))  # doctest: +SKIP
    >>> running.await_end()  # doctest: +SKIP
    """
    if mode not in _STREAMS:
        raise InvalidInputError(f"mode must be 'stream', 'once' or 'catch-up', got {mode!r}.")
    file = with_local_tables(file)
    refuse_unsupported_file(file)
    checkpoint = str(file.engine.checkpoint)
    if has_scheme(checkpoint):
        raise UnsupportedError(
            f"checkpoint {checkpoint!r} is not on this machine, so its state cannot be checked without Spark. Run the "
            "file without --local."
        )
    lock = Lock(Path(checkpoint) / "lock", leaves_nothing=mode == "once" and not fresh)
    lock.take()
    running = None
    try:
        journal = Journal(Path(checkpoint))
        if mode != "once" and not fresh:
            file = changed(file, journal.read())
        running = LocalRun(file, mode, lock)
        for name in file.workloads:
            running._add(name, fresh=fresh, watchers=(watchers or {}).get(name, ()))
        if fresh:
            journal.clear()
        running._begin()
    except BaseException:
        lock.release() if running is None else running._clean_up()
        raise
    return running


class LocalRun:
    """A workload file that runs in this process. Created by `run_local`; its methods are those of `Run`."""

    def __init__(self, file: WorkloadFile, mode: Mode, lock: Lock) -> None:
        self.file, self.mode = file, mode
        self._lock = lock
        self._output_locks: list[OutputLocks] = []
        self._streams: dict[str, LocalStream] = {}
        self._stopping, self._ended = threading.Event(), threading.Event()
        self._active: set[str] = set()  # streams that are processed
        self._error: BaseException | None = None

    def await_end(self, timeout: float | None = None) -> bool:
        """Wait until all streams have ended, at most `timeout` seconds; return whether they have.

        If a stream fails, the others are stopped and its error is raised.
        """
        ended = self._ended.wait(timeout)
        if ended and self._error is not None:
            shown = self.file.hide(str(self._error))
            raise self._error if shown == str(self._error) else type(self._error)(shown)
        return ended

    @property
    def is_active(self) -> bool:
        """Whether a stream has not ended yet."""
        return not self._ended.is_set()

    def metrics(self) -> dict[str, dict[str, Any]]:
        """Metrics by stream, as of `Run.metrics`."""
        return {name: stream.metrics() for name, stream in self._streams.items()}

    def beats(self) -> dict[str, Beat]:
        """Progress by stream."""
        return {
            name: Beat((stream.batches, stream.read), name in self._active and stream.is_busy, self._error is not None)
            for name, stream in self._streams.items()
        }

    def memory(self, stream: str, output: Literal["answers", "changes"] | None = None) -> pa.Table | None:
        """Rows that a stream's sinks of type memory have received; None before the first answers."""
        return memory_of(stream, self._streams[stream].outputs.memories if stream in self._streams else {}, output)

    def send(self, message: Mapping[str, Any], streams: Sequence[str] | None = None) -> None:
        """Pass a message to streams that follow folders: the end of the stream, or time that advances."""
        for name in self._streams if streams is None else streams:
            stream = self._streams[name]
            if isinstance(stream, FollowedStream):
                stream.send(message)

    def change(self, stream: str, file: WorkloadFile, past: Mapping[str, int]) -> None:
        """Continue a stream with the queries of another file; `past`: the new ones whose past is read."""
        found = self._streams[stream]
        assert isinstance(found, FollowedStream)  # others have no control server
        found.change(file, past)
        self.file = file

    def reported_end(self, stream: str, query: Query) -> int | None:
        """Return the end of the first window that a query can report; None if that is not known."""
        found = self._streams[stream]
        assert isinstance(found, FollowedStream)
        return found.reported_end(query)

    def finish(self) -> None:
        """End the streams: read the available files, emit every window that contains a row, and stop."""
        for stream in self._streams.values():
            if isinstance(stream, FollowedStream):
                stream.finish()
        self.await_end()

    def stop(self) -> None:
        """Stop. A micro-batch that is running is repeated by the next run; with mode ``"once"``, nothing is written."""
        self._stopping.set()
        for stream in self._streams.values():
            if isinstance(stream, FollowedStream):
                stream.wake()
            for server in stream.outputs.servers:
                server.stop_waiting()
        self._ended.wait(60)

    def _add(self, name: str, *, fresh: bool, watchers: Sequence[Wanted]) -> None:
        self._output_locks.append(locks := OutputLocks(name))
        self._streams[name] = _STREAMS[self.mode](self.file, name, watchers, locks, fresh=fresh)

    def _begin(self) -> None:
        for stream in self._streams.values():  # all of them are valid: only now is anything changed
            stream.open_outputs()
        threading.Thread(target=self._run, name="skyband-local", daemon=True).start()

    def _run(self) -> None:
        """Process the streams: one after another if they end, else each in its own thread."""
        try:
            if self.mode == "once":
                for name in self._streams:
                    self._process(name)
            else:
                threads = [
                    threading.Thread(target=self._process, args=(name,), name=f"skyband-{name}", daemon=True)
                    for name in self._streams
                ]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
        finally:
            self._clean_up()
            self._ended.set()

    def _process(self, name: str) -> None:
        if self._stopping.is_set():
            return
        self._active.add(name)
        try:
            self._streams[name].run(self._stopping)
        except StoppedError:
            pass
        except SkybandError as error:
            self._fail(error)
        except BaseException as error:
            found = PipelineError(f"stream {name!r} failed: {type(error).__name__}: {error}")
            found.__cause__ = error
            self._fail(found)
        finally:
            self._active.discard(name)

    def _fail(self, error: BaseException) -> None:
        """Keep the first error, and stop the other streams."""
        self._error = self._error or error
        self._stopping.set()
        for stream in self._streams.values():
            if isinstance(stream, FollowedStream):
                stream.wake()

    def _clean_up(self) -> None:
        for stream in self._streams.values():
            for server in stream.outputs.servers:
                with suppress(Exception):
                    server.close()
        for locks in self._output_locks:
            locks.release()
        self._lock.release()
