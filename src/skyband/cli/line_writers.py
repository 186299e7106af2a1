"""Answers as lines, for people and for machines."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable
from typing import TextIO

import pyarrow as pa

from skyband.cli.terminal import cell, move
from skyband.data.json_lines import json_lines
from skyband.data.wide_timestamps import with_far_times_as_text
from skyband.queries import moment_among

__all__ = ["JsonLines", "PlainLines"]


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
        end, query, score = (cell(shown.pop(name)) for name in (moment_among(shown), "query", "score"))
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
