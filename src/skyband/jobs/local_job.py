"""Jobs in this process, without Spark and Java: a workload file over files on this machine."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from skyband.errors import PipelineError, SkybandError, UnsupportedError
from skyband.jobs.journal import Journal
from skyband.jobs.local_stream import LocalStream, StoppedError, refuse_unsupported_file
from skyband.jobs.outputs import Mode, memory_of
from skyband.paths import has_scheme
from skyband.sharding.delivery import Wanted
from skyband.spark.checkpoint_lock import Lock
from skyband.spark.health import Beat
from skyband.workload_file import WorkloadFile

__all__ = ["LocalRun", "run_local"]


def run_local(
    file: WorkloadFile, *, fresh: bool = False, watchers: Mapping[str, Sequence[Wanted]] | None = None
) -> LocalRun:
    """Read the whole input of a workload file, emit every window and end, without Spark.

    The answers equal those of `run` with mode ``"once"``, row for row. A file that needs Spark is rejected. Rows that
    can still appear in an answer and all answers are held in memory.

    Parameters
    ----------
    file
        From `skyband.read_workload`. Its streams must be files on this machine.
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
    refuse_unsupported_file(file)
    checkpoint = str(file.engine.checkpoint)
    if has_scheme(checkpoint):
        raise UnsupportedError(
            f"checkpoint {checkpoint!r} is not on this machine, so its state cannot be checked without Spark. Run the "
            "file without --local."
        )
    lock = Lock(Path(checkpoint) / "lock" if fresh else None)
    lock.take()
    running = None
    try:
        if fresh:
            Journal(Path(checkpoint)).clear()
        running = LocalRun(file, lock)
        for name in file.workloads:
            running._add(name, fresh=fresh, watchers=(watchers or {}).get(name, ()))
        running._begin()
    except BaseException:
        lock.release() if running is None else running._clean_up()
        raise
    return running


class LocalRun:
    """A workload file that runs in this process. Created by `run_local`; its methods are those of `Run`."""

    mode: Mode = "once"

    def __init__(self, file: WorkloadFile, lock: Lock) -> None:
        self.file = file
        self._lock = lock
        self._streams: dict[str, LocalStream] = {}
        self._stopping, self._ended = threading.Event(), threading.Event()
        self._current: str | None = None  # the stream that is processed
        self._error: BaseException | None = None

    def await_end(self, timeout: float | None = None) -> bool:
        """Wait until all streams have ended, at most `timeout` seconds; return whether they have.

        The error of a stream that failed is raised.
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
            name: Beat(stream.metrics()["rows"], self.is_active and name == self._current, self._error is not None)
            for name, stream in self._streams.items()
        }

    def memory(self, stream: str, output: Literal["answers", "changes"] | None = None) -> pa.Table | None:
        """Rows that a stream's sinks of type memory have received; None before the first answers."""
        return memory_of(stream, self._streams[stream].outputs.memories if stream in self._streams else {}, output)

    def stop(self) -> None:
        """Stop after the current batch of rows. Answers that are not written yet are discarded."""
        self._stopping.set()
        for stream in self._streams.values():
            for server in stream.outputs.servers:
                server.stop_waiting()
        self._ended.wait(60)

    def _add(self, name: str, *, fresh: bool, watchers: Sequence[Wanted]) -> None:
        self._streams[name] = LocalStream(self.file, name, watchers, fresh=fresh)

    def _begin(self) -> None:
        threading.Thread(target=self._run, name="skyband-local", daemon=True).start()

    def _run(self) -> None:
        try:
            for name, stream in self._streams.items():
                self._current = name
                stream.run(self._stopping)
        except StoppedError:
            pass
        except SkybandError as error:
            self._error = error
        except Exception as error:
            self._error = PipelineError(f"stream {self._current!r} failed: {type(error).__name__}: {error}")
            self._error.__cause__ = error
        finally:
            self._clean_up()
            self._ended.set()

    def _clean_up(self) -> None:
        for stream in self._streams.values():
            for server in stream.outputs.servers:
                with suppress(Exception):
                    server.close()
        self._lock.release()
