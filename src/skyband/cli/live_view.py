"""A run on a live screen: the newest answers of its queries, drawn anew until it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
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

__all__ = ["Follower", "await_end"]

POLL, REFRESH = 0.5, 0.25  # seconds
ROWS_AT_THE_END = 10


def await_end(running: Run, enough: Callable[[], bool], seconds: float | None = None, *, every: float = POLL) -> bool:
    """Wait until a run has ended, it is enough, or for so many seconds; return whether it has ended."""
    until = None if seconds is None else monotonic() + seconds
    while not running.await_end(every):
        if enough() or (until is not None and monotonic() >= until):
            return False
    return True


class Follower:
    """Shows the newest answers on a console, live while a run goes on and once more when it has ended."""

    def __init__(self, out: Console, asked: Callable[[], Sequence[Query]], board: Board | None) -> None:
        self._out, self._board, self._asked = out, board, asked

    def follow(self, running: Run, asked: threading.Event, seconds: float | None = None) -> bool:
        """Draw until the run has ended, it is asked to, or for so many seconds; return whether it has ended."""
        with Live(console=self._out, auto_refresh=False, transient=True) as live:

            def draw() -> bool:
                live.update(self._screen(running), refresh=True)
                return asked.is_set()

            return await_end(running, draw, seconds, every=REFRESH)

    @property
    def _queries(self) -> Sequence[Query]:
        """What is asked now; it may change while the run goes on."""
        return self._asked() if self._board is not None else ()

    def tell(self) -> None:
        """Print the newest answers, to stay."""
        newest = self._newest()
        for query in self._queries:
            for part in newest_answer(query, newest[query.name], ROWS_AT_THE_END):
                self._out.print(part)

    def _screen(self, running: Run) -> RenderableType:
        metrics = running.metrics()
        foot = Table.grid()
        if running.mode == "once":  # a bounded input is read whole before its first answer
            done, tasks = (sum(one[name] for one in metrics.values()) for name in ("tasks_done", "tasks"))
            foot.add_row(Text(f"\nreading: {done:,} of {tasks:,} tasks done" if tasks else "\nreading…", "dim"))
            foot.add_row(ProgressBar(total=tasks or None, completed=done, pulse=not tasks, width=60))
        else:
            foot.add_row(state_line(metrics))
        return screen(self._queries, self._newest(), self._out.height, foot)

    def _newest(self) -> dict[str, pa.Table | None]:
        return {} if self._board is None else {query.name: self._board.newest(query.name) for query in self._queries}
