"""Who watches a run: a live screen, lines for people, lines for machines."""

from __future__ import annotations

import sys
import threading
from typing import TextIO

import pyarrow as pa

from skyband.commands.screen import cell, move
from skyband.lines import json_lines

__all__ = ["JsonLines", "PlainLines"]


class JsonLines:
    """Writes every row as a line of JSON, as it comes."""

    def __init__(self, to: TextIO | None = None) -> None:
        self._to = to or sys.stdout
        self._lock = threading.Lock()

    def take(self, batch: int, rows: pa.Table) -> None:
        """Write them."""
        with self._lock:
            self._to.writelines(json_lines(rows))
            self._to.flush()


class PlainLines:
    """Writes every row as a line of text, as it comes: the window's end, the query, the rank, the score, the rest."""

    def __init__(self, to: TextIO | None = None) -> None:
        self._to = to or sys.stdout
        self._lock = threading.Lock()

    def take(self, batch: int, rows: pa.Table) -> None:
        """Write them."""
        with self._lock:
            self._to.writelines(map(self._line, rows.to_pylist()))
            self._to.flush()

    @staticmethod
    def _line(row: dict[str, object]) -> str:
        shown = dict(row)
        end, query, score = (cell(shown.pop(name)) for name in ("window_end", "query", "score"))
        shown.pop("window_start")
        change, old_rank, rank = shown.pop("change", None), shown.pop("old_rank", None), shown.pop("rank")
        moved = "" if change is None else f"{move(str(change), _int(rank), _int(old_rank)).plain:<4} "
        rest = "  ".join(f"{name}={cell(value)}" for name, value in shown.items() if value is not None)
        return f"{end}  {query}  {moved}{cell(rank):>3}  {score}  {rest}\n"


def _int(value: object) -> int | None:
    return value if isinstance(value, int) else None
