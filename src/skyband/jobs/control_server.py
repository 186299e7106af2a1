"""Who listens while a workload runs: requests from the mailbox, heard one by one, each with its reply."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

from skyband.errors import SkybandError, UnsupportedError
from skyband.jobs.job import Run
from skyband.jobs.journal import Journal
from skyband.jobs.live_changes import LiveChanges
from skyband.jobs.mail_address import mailbox_of
from skyband.rate_limited_log import RateLimitedLog
from skyband.workload_file.live_query_limits import read_query

__all__ = ["Attendant"]

POLL = 0.2  # seconds
_LOG = logging.getLogger("skyband.control")
_QUIET = RateLimitedLog(_LOG)


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
