"""A workload that is changed while it runs: requests from the mailbox, heard one by one, each with its reply.

A stream whose workload is changed stops for a moment, and goes on from its state.
"""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from skyband.errors import InvalidInputError, InvalidQueryError, SkybandError, UnknownNameError, UnsupportedError
from skyband.jobs.job import Run
from skyband.jobs.journal import Change, Journal, names_of, with_query, without_query
from skyband.jobs.mailbox import mailbox_of
from skyband.queries import Query
from skyband.rate_limited_log import RateLimitedLog
from skyband.workload_file.live_query_limits import known_stream, read_query, refuse_unfit

if TYPE_CHECKING:
    from skyband.workload_file import WorkloadFile

__all__ = ["Attendant", "LiveChanges"]

POLL = 0.2  # seconds
_LOG = logging.getLogger("skyband.control")
_QUIET = RateLimitedLog(_LOG)
TRIAL = 30  # seconds that a reply waits for the first micro-batch with a query
BETWEEN_LOOKS = 0.05  # seconds
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Attendant:
    """Listens for a run until it is closed. What is refused is told and logged, and the run goes on."""

    def __init__(self, run: Run) -> None:
        self._box = mailbox_of(run.file)
        self._run = run
        self._changes = LiveChanges(run, Journal(Path(str(run.file.engine.checkpoint))))
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._attend, name="skyband-mail", daemon=True)

    def __enter__(self) -> Attendant:
        self._box.open()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join(60)
        self._box.close()

    def _attend(self) -> None:
        while not self._closed.wait(POLL):
            try:
                self._listen()
            except Exception as error:  # no descriptor is free, the folder cannot be read: it is looked at again
                _QUIET.warning("the mailbox cannot be read now: %r", error)

    def _listen(self) -> None:
        for name, message in self._box.requests():
            reply = self._heard(message)
            try:
                self._box.reply(name, reply)
            except OSError as error:  # a full disk; who asked will ask again
                _QUIET.warning("could not reply to %s: %s", message.get("kind"), error)
            if self._closed.is_set():
                return

    def _heard(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            reply = self._done(message)
        except SkybandError as error:
            _LOG.warning("refused %.40s: %s", message.get("kind"), error)
            return {"refused": self._run.file.hide(str(error))}
        except Exception as error:
            _LOG.exception("could not do %.40s", message.get("kind"))
            why = self._run.file.hide(f"{type(error).__name__}: {error}")
            return {"refused": f"the run could not do it ({why}); it goes on as it was."}
        _LOG.info("%s: %s", message["kind"], reply.get("done", "told"))
        return reply

    def _done(self, message: dict[str, Any]) -> dict[str, Any]:
        stream = message.get("stream")
        stream = None if stream is None else str(stream)
        match message.get("kind"):
            case "add":
                return {"done": self._changes.add(*read_query(str(message.get("sql", "")), stream))}
            case "drop":
                return {"done": self._changes.drop(str(message.get("name", "")))}
            case "flush":
                return {"done": self._changes.flush(stream)}
            case "advance":
                return {"done": self._changes.advance(str(message.get("to", "")), stream)}
            case "list":
                return {"queries": self._changes.queries(), "metrics": self._run.metrics()}
        why = f": {message['why']}" if "why" in message else ""
        raise UnsupportedError(f"a message of kind {message.get('kind')!r} asks for nothing that a run can do{why}.")


class LiveChanges:
    """Changes a run, one thing after another, and writes down what was changed."""

    def __init__(self, run: Run, journal: Journal) -> None:
        self._run = run
        self._journal = journal

    def add(self, query: Query, stream: str | None) -> str:
        """Ask another query from here on; what is said to who wanted it. Refused, nothing has changed."""
        file = self._run.file
        stream = self._known(stream)
        refuse_unfit(file.workloads, query)
        self._run.refuse_unlisted(stream, query)
        with self._run.changing:  # a micro-batch that fails with it is looked into when the journal knows of it
            self._change(with_query(file, stream, query), Change("try", stream, query))
            valid = self._valid_from(stream, query)
            self._run.guests.joined(stream, query)
        self._refuse_dropped(stream, query)
        return f"added {query.name!r} to stream {stream!r}; {valid}"

    def drop(self, name: str) -> str:
        """Ask a query no longer."""
        file = self._run.file
        for stream, workload in file.workloads.items():
            found = next((query for query in workload if query.name == name), None)
            if found is None:
                continue
            if len(workload) == 1:
                raise InvalidQueryError(
                    f"{name!r} is the last query of stream {stream!r}; a stream that nobody asks about answers "
                    "nothing. Stop the run instead."
                )
            self._change(without_query(file, stream, name), Change("drop", stream, found))
            self._run.guests.left(stream, name)
            return f"dropped {name!r} from stream {stream!r}; no window is answered for it any more"
        raise UnknownNameError.among("query", name, names_of(file))

    def flush(self, stream: str | None) -> str:
        """Answer every window that holds a row."""
        names = [self._known(stream)] if stream is not None else list(self._run.handles)
        for name in names:
            self._run.handles[name].flush(wait=False)
        return f"told {', '.join(names)} to answer every window that holds a row; rows that come later for one are late"

    def advance(self, to: str, stream: str | None) -> str:
        """Move time on without rows."""
        moment = _moment(to)
        names = [self._known(stream)] if stream is not None else list(self._run.handles)
        for name in names:
            self._run.handles[name].advance(moment, wait=False)
        return f"told {', '.join(names)} that it is {moment.isoformat()}; rows from before that are late"

    def queries(self) -> dict[str, list[str]]:
        """What is asked, by stream."""
        return {name: list(map(str, workload)) for name, workload in self._run.file.workloads.items()}

    def _change(self, file: WorkloadFile, change: Change) -> None:
        """Go on with another file, and write down what was changed; what cannot be written down is taken back."""
        before = self._run.file
        self._run.change(change.stream, file)
        try:
            self._journal.append(change)
        except OSError as error:
            self._run.change(change.stream, before)
            raise InvalidInputError(
                f"the change cannot be written down in {str(self._journal.path)!r} ({error.strerror or error}), and "
                "the next run would not know of it; it was taken back."
            ) from error

    def _refuse_dropped(self, stream: str, query: Query) -> None:
        """Wait for the first micro-batch with a query, for a while; refuse the query if it was dropped again.

        When it is done, that is written down before the query is confirmed: a run that is killed then knows of it.
        """
        until = monotonic() + TRIAL
        while monotonic() < until:
            why = self._run.guests.dropped(stream).get(query.name)
            if why is not None:
                raise InvalidQueryError(f"{query.name!r} was dropped from stream {stream!r} again: {why}.")
            handle = self._run.handles[stream]
            self._run.guests.settle(stream, handle)
            if handle.has_done_a_batch or handle.is_idle:
                return
            sleep(BETWEEN_LOOKS)

    def _known(self, stream: str | None) -> str:
        return known_stream(self._run.file.workloads, stream)

    def _valid_from(self, stream: str, query: Query) -> str:
        """From where on the query's answers are whole: what came before was not kept for it."""
        newest = self._run.handles[stream].progress.newest
        if not query.starts_whole:
            return "valid from its next answer"
        if newest is None or query.axis != "time":
            return "valid from the first window that begins after all rows seen so far"
        end = query.window.first_end_from(newest + 1)
        return f"valid from the window that ends at {(_EPOCH + timedelta(microseconds=end)).isoformat()}"


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidQueryError(
            f"{text!r} is no time such as 2024-01-01T09:30:00+00:00; time was not moved on."
        ) from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found
