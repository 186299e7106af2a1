"""Changes of a running job: requests from the mailbox, processed one after another, each with a reply.

A stream whose workload changes is restarted from its state.
"""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Protocol, cast

from skyband.durations import parse_past
from skyband.errors import InvalidInputError, InvalidQueryError, SkybandError, UnknownNameError, UnsupportedError
from skyband.jobs.journal import Change, Journal, names_of, with_query, without_query
from skyband.jobs.mailbox import mailbox_of
from skyband.queries import Query
from skyband.rate_limited_log import RateLimitedLog
from skyband.workload_file.live_query_limits import known_stream, read_query, refuse_unfit

if TYPE_CHECKING:
    from skyband.jobs.job import Run
    from skyband.jobs.local_job import LocalRun
    from skyband.jobs.spark_history import SparkPast
    from skyband.workload_file import WorkloadFile

__all__ = ["Changes", "ControlServer", "LiveChanges", "place_of", "read_moment"]

POLL = 0.2  # seconds
_LOG = logging.getLogger("skyband.control")
_QUIET = RateLimitedLog(_LOG)
TRIAL = 30  # seconds that a reply waits for the first micro-batch with a new query
TRIAL_POLL = 0.05  # seconds
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Changes(Protocol):
    """The changes that a running job supports. Each returns the reply, or raises a SkybandError."""

    def add(self, query: Query, stream: str | None, since: int | None = None) -> str:
        """Add a query to a stream; with `since`, windows that begin so many microseconds before now are complete."""

    def drop(self, name: str) -> str:
        """Drop a query."""

    def flush(self, stream: str | None) -> str:
        """Emit every window that contains a row."""

    def advance(self, to: str, stream: str | None) -> str:
        """Move event time forward without rows."""

    def queries(self) -> dict[str, list[str]]:
        """Return the running queries by stream."""


class ControlServer:
    """Processes requests to a running job until it is closed. Rejected requests are logged and leave it unchanged."""

    def __init__(self, run: Run | LocalRun, changes: Changes | None = None) -> None:
        self._box = mailbox_of(run.file)
        self._run = run
        self._changes: Changes = LiveChanges(cast("Run", run)) if changes is None else changes
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="skyband-mail", daemon=True)

    def __enter__(self) -> ControlServer:
        self._box.open()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join(60)
        self._box.close()

    def _serve(self) -> None:
        while not self._closed.wait(POLL):
            try:
                self._process_requests()
            except Exception as error:  # no free file descriptor, or the folder cannot be read: retry
                _QUIET.warning("cannot read the mailbox, retrying: %r", error)

    def _process_requests(self) -> None:
        for name, message in self._box.requests():
            reply = self._reply_to(message)
            try:
                self._box.reply(name, reply)
            except OSError as error:  # a full disk; the client can ask again
                _QUIET.warning("cannot write the reply to %s: %s", message.get("kind"), error)
            if self._closed.is_set():
                return

    def _reply_to(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            reply = self._apply(message)
        except SkybandError as error:
            _LOG.warning("rejected %.40s: %s", message.get("kind"), error)
            return {"refused": self._run.file.hide(str(error))}
        except Exception as error:
            _LOG.exception("%.40s failed", message.get("kind"))
            why = self._run.file.hide(f"{type(error).__name__}: {error}")
            return {"refused": f"the request failed ({why})."}
        _LOG.info("%s: %s", message["kind"], reply.get("done", "replied"))
        return reply

    def _apply(self, message: dict[str, Any]) -> dict[str, Any]:
        stream = message.get("stream")
        stream = None if stream is None else str(stream)
        match message.get("kind"):
            case "add":
                since = message.get("since")
                past = None if since is None else parse_past(str(since))
                return {"done": self._changes.add(*read_query(str(message.get("sql", "")), stream), past)}
            case "drop":
                return {"done": self._changes.drop(str(message.get("name", "")))}
            case "flush":
                return {"done": self._changes.flush(stream)}
            case "advance":
                return {"done": self._changes.advance(str(message.get("to", "")), stream)}
            case "list":
                return {"queries": self._changes.queries(), "metrics": self._run.metrics()}
        why = f": {message['why']}" if "why" in message else ""
        raise UnsupportedError(f"a message of kind {message.get('kind')!r} is not supported{why}.")


class LiveChanges:
    """Applies changes to a running job and records them in the journal."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._journal = Journal(Path(str(run.file.engine.checkpoint)))

    def add(self, query: Query, stream: str | None, since: int | None = None) -> str:
        """Add a query to a stream and return the reply. If the query is rejected, nothing changes."""
        file = self._run.file
        stream = self._known(stream)
        refuse_unfit(file.workloads, query, has_past=since is not None)
        self._run.refuse_unlisted(stream, query)
        file = with_query(file, stream, query)
        past = None if since is None else self._run.past(stream, file, {query.name: since})
        with self._run.changing:  # a failing micro-batch is examined after the journal contains the query
            if past is not None:  # while it was read, a query may have been dropped
                file = with_query(self._run.file, stream, query)
            self._change(file, Change("try", stream, query), past)
            valid = self._valid_from(stream, query, past)
            self._run.live_queries.joined(stream, query)
        self._refuse_dropped(stream, query)
        return f"added {query.name!r} to stream {stream!r}; {valid}"

    def drop(self, name: str) -> str:
        """Drop a query and return the reply."""
        stream, found = place_of(self._run.file, name)
        self._change(without_query(self._run.file, stream, name), Change("drop", stream, found))
        self._run.live_queries.left(stream, name)
        return f"dropped {name!r} from stream {stream!r}; no more windows are emitted for it"

    def flush(self, stream: str | None) -> str:
        """Emit every window that contains a row."""
        names = [self._known(stream)] if stream is not None else list(self._run.handles)
        for name in names:
            self._run.handles[name].flush(wait=False)
        return f"flushing {', '.join(names)}: every window with a row is emitted; later rows for these windows are late"

    def advance(self, to: str, stream: str | None) -> str:
        """Move event time forward without rows."""
        moment = read_moment(to)
        names = [self._known(stream)] if stream is not None else list(self._run.handles)
        for name in names:
            self._run.handles[name].advance(moment, wait=False)
        return f"advancing {', '.join(names)} to {moment.isoformat()}; earlier rows that arrive from now on are late"

    def queries(self) -> dict[str, list[str]]:
        """The running queries by stream."""
        return {name: list(map(str, workload)) for name, workload in self._run.file.workloads.items()}

    def _change(self, file: WorkloadFile, change: Change, past: SparkPast | None = None) -> None:
        """Apply a change and append it to the journal; undo it if the journal cannot be written."""
        before = self._run.file
        self._run.change(change.stream, file, past)
        try:
            self._journal.append(change)
        except OSError as error:
            self._run.change(change.stream, before)
            raise InvalidInputError(
                f"cannot write the change to {str(self._journal.path)!r} ({error.strerror or error}), so it would be "
                "lost at the next start. The change was undone."
            ) from error

    def _refuse_dropped(self, stream: str, query: Query) -> None:
        """Wait up to TRIAL seconds for the first micro-batch with a query; raise if the query was dropped.

        A completed micro-batch is recorded in the journal before the query is confirmed, so it survives a kill.
        """
        until = monotonic() + TRIAL
        while monotonic() < until:
            why = self._run.live_queries.dropped(stream).get(query.name)
            if why is not None:
                raise InvalidQueryError(f"{query.name!r} was added to stream {stream!r} and dropped again: {why}.")
            handle = self._run.handles[stream]
            self._run.live_queries.settle(stream, handle)
            if handle.has_done_a_batch or handle.is_idle:
                return
            sleep(TRIAL_POLL)

    def _known(self, stream: str | None) -> str:
        return known_stream(self._run.file.workloads, stream)

    def _valid_from(self, stream: str, query: Query, past: SparkPast | None) -> str:
        """First complete window of a new query. Without its past, rows from before it was added are not retained."""
        if past is not None:
            end = past.first_end(query)
            if end is None:
                return "valid from its first answer"
            return f"valid from the window that ends at {(_EPOCH + timedelta(microseconds=end)).isoformat()}"
        newest = self._run.handles[stream].progress.newest
        if not query.starts_whole:
            return "valid from its next answer"
        if newest is None or query.axis != "time":
            return "valid from the first window that starts after all rows read so far"
        end = query.window.first_end_from(newest + 1)
        return f"valid from the window that ends at {(_EPOCH + timedelta(microseconds=end)).isoformat()}"


def place_of(file: WorkloadFile, name: str) -> tuple[str, Query]:
    """Return a query that can be dropped, and its stream."""
    for stream, workload in file.workloads.items():
        found = next((query for query in workload if query.name == name), None)
        if found is not None and len(workload) == 1:
            raise InvalidQueryError(
                f"{name!r} is the last query of stream {stream!r}, and a stream needs at least one. Stop the job "
                "instead."
            )
        if found is not None:
            return stream, found
    raise UnknownNameError.among("query", name, names_of(file))


def read_moment(text: str) -> datetime:
    """Return the time in a request."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidQueryError(
            f"the time must look like 2024-01-01T09:30:00+00:00, got {text!r}. Event time was not changed."
        ) from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found
