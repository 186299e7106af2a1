"""`skyband run`: the streams of a workload file, watched until they end or somebody stops them."""

from __future__ import annotations

import json
import shlex
import sys
import threading
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from skyband.commands.screen import console, query_title, screen, spoken, state_line, window_table
from skyband.commands.spark_start import said, spark_for
from skyband.commands.watching import JsonLines, PlainLines
from skyband.workfile import WorkloadFile, read_workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skyband.spark.runs import Mode, Run
    from skyband.spark.sinks import Board, Wanted

__all__ = ["run_file"]

REFRESH = 0.25
ROWS_AT_THE_END = 10
INTERRUPTED = 130


def run_file(
    path: Path, *, once: bool, catch_up: bool, fresh: bool, as_json: bool, verbose: bool, seconds: float | None = None
) -> int:
    """Run the file and return the exit code."""
    file = read_workload(path)
    talk = console(stderr=True)  # what is said about the run; answers go to stdout
    mode: Mode = "once" if once else "catch-up" if catch_up else "stream"
    engine = file.engine
    with spark_for(
        talk,
        f"skyband {path.stem}",
        master=engine.master,
        memory=engine.memory,
        settings=dict(engine.settings),
        verbose=verbose,
    ) as spark:
        watched = _Watched(file, mode, as_json=as_json)
        return watched.run(spark, talk, fresh=fresh, seconds=seconds, command=f"skyband run {shlex.quote(str(path))}")


class _Watched:
    """A run and who watches it."""

    def __init__(self, file: WorkloadFile, mode: Mode, *, as_json: bool) -> None:
        self._file, self._mode, self._as_json = file, mode, as_json
        self._out = console()
        self._board: Board | None = None
        self._total: int | None = None  # rows of a bounded input, once they have been counted
        self._began = monotonic()

    def run(self, spark: SparkSession, talk: Console, *, fresh: bool, seconds: float | None, command: str) -> int:
        from skyband.spark import run  # noqa: PLC0415 - loading Spark takes seconds

        with said(talk, "reading the streams' columns…"):
            watchers = {name: self._watchers() for name in self._file.workloads}
            running = run(self._file, self._mode, fresh=fresh, watchers=watchers, spark=spark)
        try:
            if self._mode == "once" and self._is_live():
                threading.Thread(target=self._count, args=(spark,), daemon=True).start()
            ended = self._watch(running, seconds)
            if not ended:
                running.stop()
        except KeyboardInterrupt:
            running.stop()
            self._tell_the_end(talk, running)
            talk.print(self._how_to_go_on(command))
            return INTERRUPTED
        self._tell_the_end(talk, running)
        if not ended:
            talk.print(self._how_to_go_on(command))
        return 0

    def _watchers(self) -> list[Wanted]:
        from skyband.spark.sinks import Board, Wanted  # noqa: PLC0415

        terminals = [sink for sink in self._file.sinks if sink.type == "terminal"]
        if self._as_json:
            lines = JsonLines()
            return [Wanted(lines, sink.output, sink.queries) for sink in terminals] or [Wanted(lines, "answers")]
        found = []
        for sink in terminals:
            if sink.output == "changes":
                found.append(Wanted(PlainLines(), "changes", sink.queries))
            elif self._is_terminal() or self._mode == "once":
                self._board = self._board or Board()
                found.append(Wanted(self._board, "both", sink.queries))
            else:
                found.append(Wanted(PlainLines(), "answers", sink.queries))
        return found

    def _watch(self, running: Run, seconds: float | None) -> bool:
        """Wait for the end, or for so many seconds; return whether the run has ended."""
        until = None if seconds is None else monotonic() + seconds
        if not self._is_live():
            return running.await_end(seconds)
        with Live(console=self._out, auto_refresh=False, transient=True) as live:
            while not running.await_end(REFRESH):
                live.update(self._screen(running), refresh=True)
                if until is not None and monotonic() >= until:
                    return False
        return True

    def _screen(self, running: Run) -> Any:
        metrics = running.metrics()
        foot = Table.grid()
        foot.add_row(state_line(metrics))
        if self._mode == "once":
            rows = sum(one["rows"] for one in metrics.values())
            foot.add_row(ProgressBar(total=self._total, completed=rows, pulse=self._total is None, width=60))
        queries = self._shown()
        newest = {query.name: self._board.newest(query.name) for query in queries} if self._board else {}
        return screen(queries if self._board else [], newest, self._out.height, foot)

    def _shown(self) -> list[Any]:
        """The queries that some terminal sink is about."""
        sinks = [sink for sink in self._file.sinks if sink.type == "terminal" and sink.output == "answers"]
        return [
            query
            for workload in self._file.workloads.values()
            for query in workload
            if any(sink.queries is None or query.name in sink.queries for sink in sinks)
        ]

    def _tell_the_end(self, talk: Console, running: Run) -> None:
        """The newest answers and the numbers, or for machines the numbers alone."""
        metrics = running.metrics()
        if self._as_json:
            sys.stderr.write(json.dumps({"mode": self._mode, "streams": metrics}) + "\n")
            return
        if self._board is not None:
            for query in self._shown():
                rows = self._board.newest(query.name)
                self._out.print(query_title(query, rows))
                self._out.print(
                    Text("  no window has ended yet", "dim italic")
                    if rows is None
                    else window_table(query, rows, ROWS_AT_THE_END)
                )
        talk.print(self._summary(metrics))

    def _summary(self, metrics: dict[str, dict[str, Any]]) -> Text:
        lines = ["\n"]
        for name, one in metrics.items():
            notes = "".join(f"; {one[what]:,} {spoken(what)}" for what in ("late", "left_out") if one[what])
            lines.append(
                f"{name}: {one['rows']:,} rows, {one['windows']:,} windows, {one['answers']:,} rows of answers{notes}; "
                f"{one['candidates']:,} rows held at the end\n"
            )
        folders = [f"{sink.path} ({sink.type})" for sink in self._file.sinks if sink.path is not None]
        if folders:
            lines.append(f"written to {', '.join(folders)}\n")
        lines.append(f"{monotonic() - self._began:.1f} s")
        return Text("".join(lines), "dim")

    def _how_to_go_on(self, command: str) -> str:
        if self._mode == "once":
            return f"Stopped before the end; nothing is kept. Begin again with: {command} --once"
        more = " --catch-up" if self._mode == "catch-up" else ""
        where = self._file.engine.checkpoint
        return f"Stopped; the state is kept in {where}. Go on with: {command}{more}"

    def _count(self, spark: SparkSession) -> None:
        """How many rows there are to read, so that the bar knows where it ends."""
        from skyband.spark.sources import open_batch  # noqa: PLC0415

        total = 0
        for name in self._file.workloads:
            total += open_batch(spark, name, self._file.streams[name]).count()
        self._total = total

    def _is_terminal(self) -> bool:
        return self._out.is_terminal and not self._as_json

    def _is_live(self) -> bool:
        """Whether there is a screen to draw on, and nobody else writes lines to it."""
        lines = any(sink.type == "terminal" and sink.output == "changes" for sink in self._file.sinks)
        return self._is_terminal() and not lines
