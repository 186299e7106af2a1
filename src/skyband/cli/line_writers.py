"""The lines of a run: answers on standard output, and what it says about itself on standard error, for people and for
machines.
"""

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
    """Writes rows as lines, as they come, until nobody reads them any more."""

    def __init__(self, to: TextIO | None = None) -> None:
        self._to = to or sys.stdout
        self._lock = threading.Lock()
        self.nobody_reads = False

    def take(self, batch: int, rows: pa.Table) -> None:
        """Write them."""
        if self.nobody_reads:
            return
        with self._lock:
            try:
                self._to.writelines(self._lines(rows))
                self._to.flush()
            except BrokenPipeError:  # as with: skyband run --json | head
                self.nobody_reads = True
                _let_go_of(self._to)

    def _lines(self, rows: pa.Table) -> Iterable[str]:
        raise NotImplementedError


class JsonLines(_Lines):
    """Every row as a line of JSON."""

    def _lines(self, rows: pa.Table) -> Iterable[str]:
        return json_lines(rows)


class PlainLines(_Lines):
    """Every row as a line of text: when it was final, the query, the rank, the score, the rest."""

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


def _let_go_of(stream: TextIO) -> None:
    """Point it nowhere: Python flushes it once more when it ends, and would complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


class _Text(logging.Formatter):
    """A line for people; what goes on over several lines is indented, so that nobody else's text begins one."""

    def __init__(self, hide: Hide) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")
        self._hide = hide

    def format(self, record: logging.LogRecord) -> str:
        return self._hide(super().format(record)).replace("\n", "\n    ")


class _Json(logging.Formatter):
    """A line of JSON: when, how grave, who says it, and what."""

    def __init__(self, hide: Hide) -> None:
        super().__init__()
        self._hide = hide

    def format(self, record: logging.LogRecord) -> str:
        told = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._hide(record.getMessage()),
        }
        if record.exc_info:
            told["error"] = self._hide(self.formatException(record.exc_info))
        return json.dumps(told, ensure_ascii=False)


def write_logs(*, as_json: bool, hide: Hide = str) -> None:
    """Write what the library logs to standard error, from here on; `hide` takes secrets out of a text."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Json(hide) if as_json else _Text(hide))
    log = logging.getLogger("skyband")
    log.handlers[:] = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False
