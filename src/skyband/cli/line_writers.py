"""Line output of a job: answers on stdout and log lines on stderr, as text or JSON."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TextIO

import pyarrow as pa

from skyband.cli.terminal import cell, move
from skyband.data.json_lines import json_lines
from skyband.data.wide_timestamps import with_far_times_as_text
from skyband.queries.answer_schema import moment_of

__all__ = ["JsonLines", "PlainLines", "write_logs"]
Hide = Callable[[str], str]


class _Lines:
    """Write rows as lines until the reader closes the pipe."""

    def __init__(self, to: TextIO | None = None) -> None:
        self._to = to or sys.stdout
        self._lock = threading.Lock()
        self.reader_gone = False

    def take(self, batch: int, rows: pa.Table) -> None:
        """Write a batch of rows."""
        if self.reader_gone:
            return
        with self._lock:
            try:
                self._to.writelines(self._lines(rows))
                self._to.flush()
            except BrokenPipeError:  # as with: skyband run --json | head
                self.reader_gone = True
                _redirect_to_null(self._to)

    def _lines(self, rows: pa.Table) -> Iterable[str]:
        raise NotImplementedError


class JsonLines(_Lines):
    """Write each row as a line of JSON."""

    def _lines(self, rows: pa.Table) -> Iterable[str]:
        return json_lines(rows)


class PlainLines(_Lines):
    """Write each row as a line of text: window end or time, query, rank, score, other columns."""

    def _lines(self, rows: pa.Table) -> Iterable[str]:
        return map(self._line, with_far_times_as_text(rows).to_pylist())

    @staticmethod
    def _line(row: dict[str, object]) -> str:
        shown = dict(row)
        moment = moment_of(shown)
        end, query, score = (cell(shown.pop(name)) for name in (moment, "query", "score"))
        shown.pop("window_start", None)
        change, old_rank, rank = shown.pop("change", None), shown.pop("old_rank", None), shown.pop("rank")
        moved = "" if change is None else f"{move(str(change), _int(rank), _int(old_rank)).plain:<4} "
        rest = "  ".join(f"{name}={cell(value)}" for name, value in shown.items() if value is not None)
        return f"{end}  {query}  {moved}{cell(rank):>3}  {score}  {rest}\n"


def _int(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _redirect_to_null(stream: TextIO) -> None:
    """Redirect to /dev/null, because Python flushes the stream at exit and would report the closed pipe."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


class _Text(logging.Formatter):
    """Text lines. Continuation lines are indented, so that text from data cannot look like a log line."""

    def __init__(self, hide: Hide) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")
        self._hide = hide

    def format(self, record: logging.LogRecord) -> str:
        return self._hide(super().format(record)).replace("\n", "\n    ")


class _Json(logging.Formatter):
    """JSON lines: time, level, logger, message."""

    def __init__(self, hide: Hide) -> None:
        super().__init__()
        self._hide = hide

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._hide(record.getMessage()),
        }
        if record.exc_info:
            entry["error"] = self._hide(self.formatException(record.exc_info))
        return json.dumps(entry, ensure_ascii=False)


def write_logs(*, as_json: bool, hide: Hide = str) -> None:
    """Write the library's log to stderr; `hide` removes secrets from a text."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Json(hide) if as_json else _Text(hide))
    log = logging.getLogger("skyband")
    log.handlers[:] = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False
