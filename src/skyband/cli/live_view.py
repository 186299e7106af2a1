"""Live view of a running job on the terminal: the newest answers of its queries."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING

import pyarrow as pa
from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from skyband.cli.terminal import newest_answer, screen, state_line
from skyband.queries import Query

if TYPE_CHECKING:
    from skyband.connectors.memory import Board
    from skyband.jobs.job import Run
    from skyband.jobs.local_job import LocalRun

__all__ = ["Follower", "await_end"]

POLL, REFRESH = 0.5, 0.25  # seconds
ROWS_AT_THE_END = 10


def await_end(
    running: Run | LocalRun, enough: Callable[[], bool], seconds: float | None = None, *, every: float = POLL
) -> bool:
    """Wait until the job has ended, `enough()` is true, or `seconds` have passed; return whether it has ended."""
    until = None if seconds is None else monotonic() + seconds
    while not running.await_end(every):
        if enough() or (until is not None and monotonic() >= until):
            return False
    return True


class Follower:
    """Show the newest answers on a console, live while a job runs and once more at its end."""

    def __init__(
        self,
        out: Console,
        queries: Callable[[], Sequence[Query]],
        board: Board | None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self._out, self._board, self._current_queries = out, board, queries
        self._labels = labels or {}  # by query: the column that names its rows

    def follow(self, running: Run | LocalRun, stop: threading.Event, seconds: float | None = None) -> bool:
        """Draw until the job has ended, a stop is requested, or `seconds` have passed; return whether it has ended."""
        with Live(console=self._out, auto_refresh=False, transient=True) as live:

            def draw() -> bool:
                live.update(self._screen(running), refresh=True)
                return stop.is_set()

            return await_end(running, draw, seconds, every=REFRESH)

    @property
    def _queries(self) -> Sequence[Query]:
        """The current queries; they can change while the job runs."""
        return self._current_queries() if self._board is not None else ()

    def print_newest(self) -> None:
        """Print the newest answers, and before them the last full window of a bounded input."""
        newest = self._newest()
        for query in self._queries:
            label = self._labels.get(query.name)
            full = None if self._board is None or query.axis != "time" else self._board.last_full(query.name)
            if full is not None:
                for part in newest_answer(query, full, ROWS_AT_THE_END, "last full window ends", label):
                    self._out.print(part)
            when = None if full is None else "the input ends in the newest window, until"
            for part in newest_answer(query, newest[query.name], ROWS_AT_THE_END, when, label):
                self._out.print(part)

    def _screen(self, running: Run | LocalRun) -> RenderableType:
        metrics = running.metrics()
        foot = Table.grid()
        if running.mode == "once":  # a bounded input is read completely before the first answer
            done, tasks = (sum(one[name] for one in metrics.values()) for name in ("tasks_done", "tasks"))
            foot.add_row(Text(f"\nreading: {done:,} of {tasks:,} tasks done" if tasks else "\nreading…", "dim"))
            foot.add_row(ProgressBar(total=tasks or None, completed=done, pulse=not tasks, width=60))
        else:
            foot.add_row(state_line(metrics))
        return screen(self._queries, self._newest(), self._out.height, foot, self._labels)

    def _newest(self) -> dict[str, pa.Table | None]:
        return {} if self._board is None else {query.name: self._board.newest(query.name) for query in self._queries}
