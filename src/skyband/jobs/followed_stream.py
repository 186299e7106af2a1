"""One stream of a local job that follows a folder: new files become micro-batches, and the state is stored after each.

The files of a batch are logged before it runs, and the state is replaced after its answers are written. So a batch that
was interrupted is repeated from the state before it with the same files, and its answers replace the earlier output.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic, time_ns
from typing import Any, ClassVar

import pyarrow as pa

from skyband.connectors.arrow.batches import FileRows, letters
from skyband.connectors.arrow.delta_changes import stored_path
from skyband.connectors.arrow.splits import Split
from skyband.connectors.arrow.tables import FollowedTable, follow_table
from skyband.durations import parse_duration
from skyband.errors import InvalidInputError, SkybandError, UnsupportedError
from skyband.jobs.folder_log import LoggedFile, PlannedBatch
from skyband.jobs.followed_folder import CUT_OFF, FollowedFolder
from skyband.jobs.history import LoggedPast
from skyband.jobs.outputs import Mode
from skyband.jobs.recent_files import RecentFiles, state_of
from skyband.jobs.stored_stream import StoredStream
from skyband.local.micro_batches import BatchResult
from skyband.queries import Query
from skyband.sharding.batch_events import BatchEvent, are_wanted, report
from skyband.spark.late_limits import LateLimits
from skyband.windows import ALWAYS
from skyband.workload_file import WorkloadFile

__all__ = ["CaughtUpStream", "FollowedStream"]

POLL = 0.25  # seconds between two looks at the folder
LONGEST_POLL = 10.0
IDLE_SHARE = 0.01  # of the time that looks may take: a folder with many files is listed less often
_LOG = logging.getLogger("skyband.sources")


class FollowedStream(StoredStream):
    """A stream that reads new files until it is stopped."""

    mode: ClassVar[Mode] = "stream"

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._requests: deque[dict[str, Any]] = deque()
        self._wake, self._finishing = threading.Event(), threading.Event()
        self._last_end: int | None = None
        self._busy = False
        self._ready: list[LoggedFile] = []  # found, and not planned yet
        self._changes: deque[_Change] = deque()
        self._done = -1  # the last complete batch
        self._has_ended = False
        super().__init__(*arguments, **named)
        self._folder = self._followed()
        self._recent = RecentFiles(self.name)
        late = self.file.engine.late
        self._limits = LateLimits(**late) if isinstance(late, dict) else LateLimits()

    def run(self, stop: threading.Event) -> None:
        """Repeat a batch that was interrupted, then process new files until `stop` is set."""
        try:
            self._follow(stop)
        finally:
            self._has_ended = True

    def _follow(self, stop: threading.Event) -> None:
        self._begin(stop)
        while not stop.is_set():
            self._apply_changes()
            began = monotonic()
            files = self._next_files()
            looked = monotonic() - began
            messages = self._take_messages()
            if files or messages:
                self._plan_batch(files, messages, stop)
                self._await_trigger(began, stop)
            elif self._finishing.is_set() and not self._folder.has_unsettled:
                self._plan_batch([], [{"kind": "end"}], stop)
                return
            else:
                self._wake.wait(min(LONGEST_POLL, max(POLL, looked / IDLE_SHARE)))
                self._wake.clear()

    def _followed(self) -> FollowedFolder | FollowedTable:
        if self.stream.of_table is not None:
            return follow_table(self.name, self.stream, self.checkpoint.log, self.rows.reader.schema)
        return FollowedFolder(self.name, self.stream, self.checkpoint.log)

    def wake(self) -> None:
        """Look at the folder and at the requests now."""
        self._wake.set()

    def send(self, message: Mapping[str, Any]) -> None:
        """Process a message with the next micro-batch: the end of the stream, or time that advances."""
        self._requests.append(dict(message))
        self.wake()

    def change(self, file: WorkloadFile, past: Mapping[str, int]) -> None:
        """Continue with the queries of another file after the current micro-batch; called from another thread.

        `past` names the added queries whose past is read, beside the stream, and how much of it. If the change is
        rejected, its error is raised and the stream continues as before.
        """
        other = self.planned(file, past)
        history = other.history(past) if past else None
        if history is not None:
            history.read(self._done, lambda: self._has_ended)
        change = _Change(other, history)
        self._changes.append(change)
        self.wake()
        while not change.settled.wait(POLL):
            if self._has_ended:
                raise UnsupportedError(f"stream {self.name!r} has ended, so its queries were not changed.")
        if change.error is not None:
            raise change.error

    def reported_end(self, query: Query) -> int | None:
        """Return the end of the first window that a query can report; None if only rows determine it."""
        engine = self.engine
        clock = max(shard.clock for shard in engine.shards)
        start = max(shard.since.get(query.name, ALWAYS) for shard in engine.shards)
        if clock == ALWAYS or not query.starts_whole or not hasattr(query.window, "first_end_from"):
            return None
        return max(
            query.window.first_end_from(start) if start > ALWAYS else ALWAYS, query.window.first_end_after(clock)
        )

    def finish(self) -> None:
        """End the stream when the available files are read: every window that contains a row is answered."""
        self._finishing.set()
        self.wake()

    @property
    def is_busy(self) -> bool:
        """Whether a micro-batch is running."""
        return self._busy

    def metrics(self) -> dict[str, Any]:
        """Return the metrics since the start of this run."""
        lag = None
        if self._last_end is not None and self.plan.plan.axis == "time":
            lag = max(0, self.engine.newest - self._last_end) / 1e6
        held = sum(self.engine.held.values())
        return {**super().metrics(), "candidates": held, "state_bytes": self.state_bytes, "emit_lag": lag}

    def _begin(self, stop: threading.Event) -> None:
        """Open the checkpoint, and repeat a batch that was planned but not completed."""
        done, last = self.open_checkpoint(), self.checkpoint.log.last
        self._done = done
        if past := self.missing_past():
            history = self.history(past)
            history.read(done, stop.is_set)
            history.join(self.engine, self.checkpoint.segments)
            self.commit(done)
        if last is not None and last.number > done:
            for file in last.files:
                if not stored_path(file.path).exists():
                    raise InvalidInputError(
                        f"stream {self.name!r}: {file.path!r} was read by batch {last.number}, which was interrupted "
                        "and must be repeated, but the file no longer exists. Restore it, or start over with --fresh."
                    )
            self._run_batch(last, stop, repeated=True)

    def _apply_changes(self) -> None:
        """Apply the changes of queries that have been requested."""
        while self._changes:
            change = self._changes.popleft()
            try:
                self.switch(change.stream, change.history, self._done)
            except SkybandError as error:
                change.error = error
            finally:
                change.settled.set()

    def _next_files(self) -> list[LoggedFile]:
        """Return the files of the next micro-batch, in order."""
        if not self._ready:
            self._ready = self._look()
        most = self.stream.files_per_batch or len(self._ready)
        found, self._ready = self._ready[:most], self._ready[most:]
        return found

    def _look(self) -> list[LoggedFile]:
        return [LoggedFile(*file) for file in self._folder.look()]

    def _take_messages(self) -> list[dict[str, Any]]:
        return [self._requests.popleft() for _ in range(len(self._requests))]

    def _plan_batch(
        self, files: Sequence[LoggedFile], messages: Sequence[dict[str, Any]], stop: threading.Event
    ) -> None:
        last = self.checkpoint.log.last
        is_table = self.stream.of_table is not None  # whose files must not disappear
        kept = tuple(file for file in files if is_table or state_of(Path(file.path)) is not None)
        if kept or messages:
            batch = PlannedBatch(0 if last is None else last.number + 1, kept, tuple(messages))
            self.checkpoint.log.append(batch)
            self._run_batch(batch, stop)

    def _run_batch(self, batch: PlannedBatch, stop: threading.Event, *, repeated: bool = False) -> None:
        """Compute the answers of a batch, write them, then store the state."""
        began, self._busy, read = monotonic(), True, self.read
        try:
            times = [time_ns()]
            malformed: list[pa.Table] = []
            result = self.engine.step(self.tables(self._read(batch.files), malformed, stop), batch.messages)
            times.append(time_ns())
            self.deliver(batch.number, result.answers)
            if self.dead is not None and (malformed or repeated):
                self.dead.take(pa.concat_tables([letters(), *malformed]), batch.number)
            times.append(time_ns())
            self.commit(batch.number)
            times.append(time_ns())
            self._done = batch.number
            self._count(result)
            if are_wanted():
                parts = tuple(zip(("compute", "write", "commit"), times, times[1:], strict=False))
                counts = {"rows": self.read - read, "late": result.counts.late, "windows": result.counts.windows}
                report(BatchEvent(self.name, batch.number, times[0], times[-1], parts, counts))
            self._recent.check()
            for file in batch.files if self.stream.of_table is None else ():
                self._recent.add(Path(file.path), (file.changed, file.size))
        finally:
            self._busy = False
            self.seconds += monotonic() - began
        self._limits.watch(self.metrics(), self.name)

    def _read(self, files: Sequence[LoggedFile]) -> Iterator[FileRows]:
        for file in files:
            try:
                yield from self.rows.read([Split(Path(file.path))])
            except OSError as error:
                raise InvalidInputError(
                    f"stream {self.name!r}: {file.path!r} cannot be read ({error.strerror or error}). The stream "
                    "stopped; its batch is repeated by the next run."
                ) from error

    def _count(self, result: BatchResult) -> None:
        for name, value in vars(result.counts).items():
            setattr(self.counts, name, getattr(self.counts, name) + value)
        if result.last_end is not None:
            self._last_end = max(result.last_end, ALWAYS if self._last_end is None else self._last_end)

    def _await_trigger(self, began: float, stop: threading.Event) -> None:
        """Wait until the next micro-batch is due."""
        if self.file.engine.trigger is not None:
            interval = parse_duration(self.file.engine.trigger, field="trigger") / 1e6
            stop.wait(max(0.0, began + interval - monotonic()))


class _Change:
    """A change of a stream's queries that waits for the end of a micro-batch."""

    def __init__(self, stream: FollowedStream, history: LoggedPast | None) -> None:
        self.stream, self.history = stream, history
        self.error: SkybandError | None = None
        self.settled = threading.Event()


class CaughtUpStream(FollowedStream):
    """A stream that reads what is new since the last run in one micro-batch, and ends."""

    mode: ClassVar[Mode] = "catch-up"

    def run(self, stop: threading.Event) -> None:
        """Repeat a batch that was interrupted, then process all new files. Files that are still written are left."""
        self._begin(stop)
        began = monotonic()
        files = self._look()
        while self._folder.has_unsettled and monotonic() < began + CUT_OFF and not stop.wait(POLL):
            files += self._look()
            files = list({file.path: file for file in files}.values())
        if self._folder.has_unsettled:
            _LOG.warning("stream %r: files that are still written are left for the next run.", self.name)
        if not stop.is_set():
            if self.stream.of_table is None:  # the files of a table are in the order of its versions
                files.sort(key=lambda file: (file.changed, file.path))
            self._plan_batch(files, [], stop)
