"""`skyband run`: run the streams of a workload file until they end or are stopped."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from skyband.cli.line_writers import JsonLines, PlainLines, write_logs
from skyband.cli.live_view import Follower, await_end
from skyband.cli.signals import INTERRUPTED, StopSignals
from skyband.cli.spark_session import progress, spark_for
from skyband.cli.terminal import COUNTED, console, dropped_queries, dropped_rows
from skyband.errors import MissingDependencyError, PipelineError, SkybandError, UnsupportedError
from skyband.paths import has_scheme
from skyband.queries import Query
from skyband.queries.families import Family, family_of
from skyband.spark.health import Pulse
from skyband.workload_file import WorkloadFile, read_workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skyband.cli.dashboard import Page, PageOptions
    from skyband.connectors.memory import Board
    from skyband.jobs.engine_choice import Engine
    from skyband.jobs.job import Run
    from skyband.jobs.local_job import LocalRun
    from skyband.jobs.outputs import Mode
    from skyband.sharding.delivery import Wanted

__all__ = ["run_file"]

Begin = Callable[[Mapping[str, "Sequence[Wanted]"]], "Run | LocalRun"]  # starts a job with receivers by stream


def run_file(
    path: Path,
    *,
    once: bool,
    catch_up: bool,
    fresh: bool,
    as_json: bool,
    verbose: bool,
    seconds: float | None = None,
    metrics: str | None = None,
    otlp: str | None = None,
    logs: str | None = None,
    page: PageOptions | None = None,
    engine: Engine | None = None,
    reshard: bool = False,
) -> int:
    """Run the file and return the exit code. `engine` is None to choose it: with `once` by the input, else Spark."""
    file = read_workload(path)
    if logs is not None:
        write_logs(as_json=logs == "json", hide=file.hide)
    talk = console(stderr=True)  # progress and summary; answers go to stdout
    mode: Mode = "once" if once else "catch-up" if catch_up else "stream"
    command = f"skyband run {shlex.quote(str(path))}"
    if engine == "local" and page is not None and page.allow_control:
        raise UnsupportedError(
            "--allow-control is not supported with --local: the dashboard changes only queries of runs on Spark. "
            "Remove one of the options, and change queries with `skyband ctl`; nothing was started."
        )

    chosen = engine or _chosen(file, mode, talk, fresh=fresh)
    with StopSignals() as signals:

        def shown() -> _ShownJob:
            served = None if page is None else _page(file, page, mode)
            return _ShownJob(file, mode, signals, as_json=as_json, metrics=metrics, otlp=otlp, page=served)

        job = shown()
        if chosen == "local":
            try:
                return job.run(_local_job(file, mode, fresh), talk, seconds=seconds, command=f"{command} --local")
            except SkybandError as error:
                if engine is not None or job.has_answers:
                    raise
                _announce_spark(error, talk)
            job = shown() if job.has_begun else job
        try:
            settings = file.engine
            with spark_for(talk, f"skyband {path.stem}", settings, verbose=verbose, kafka=file.needs_kafka) as spark:
                begin = _spark_job(file, mode, spark, fresh=fresh, reshard=reshard)
                return job.run(begin, talk, seconds=seconds, command=command)
        except SkybandError:
            raise
        except Exception as error:
            raise _plain_error(error) from error


def _chosen(file: WorkloadFile, mode: Mode, talk: Console, *, fresh: bool) -> Engine:
    """Choose the engine of a run, and print the choice."""
    from skyband.jobs.engine_choice import choose_engine, remote_of, why_no_spark, why_not_local  # noqa: PLC0415 - as below
    from skyband.jobs.local_state import refuse_local_state  # noqa: PLC0415

    for name in file.workloads if mode != "once" and not fresh else ():
        refuse_local_state(file.checkpoint_of(name))  # before Spark starts
    if mode == "once":
        choice = choose_engine(file)
        talk.print(str(choice), soft_wrap=True)
        return choice.engine
    missing = why_no_spark() if remote_of(file) is None else None  # a server has its own Java
    if missing is not None and why_not_local(file) is None:
        raise MissingDependencyError(
            f"{missing}, so the file cannot run on Spark. It can run without Spark: add --local, which follows its "
            "folders in this process."
        )
    return "spark"


def _announce_spark(error: SkybandError, talk: Console) -> None:
    """Print that a run continues on Spark, because its input or an expression needs Spark. Nothing was written yet.

    Other errors are raised.
    """
    from skyband.jobs.engine_choice import needs_spark, why_no_spark, without_advice  # noqa: PLC0415 - as above

    if not needs_spark(error):
        raise error
    if (missing := why_no_spark()) is not None:
        raise MissingDependencyError(f"{without_advice(error)}. Spark may support it, but {missing}.") from error
    talk.print(f"runs on Spark: {without_advice(error)}", soft_wrap=True)


def _spark_job(file: WorkloadFile, mode: Mode, spark: SparkSession, *, fresh: bool, reshard: bool) -> Begin:
    from skyband.jobs import run  # noqa: PLC0415 - loading Spark takes seconds

    return lambda watchers: run(file, mode, fresh=fresh, reshard=reshard, watchers=watchers, spark=spark)


def _local_job(file: WorkloadFile, mode: Mode, fresh: bool) -> Begin:
    from skyband.jobs import run_local  # noqa: PLC0415 - loads compiled code
    from skyband.topk.compile_ahead import compile_in_two_processes  # noqa: PLC0415

    if any(family_of(workload).supports("algorithm") for workload in file.workloads.values()):
        compile_in_two_processes()
    return lambda watchers: run_local(file, mode, fresh=fresh, watchers=watchers)


def _plain_error(error: Exception) -> BaseException:
    """Convert an error of Spark at startup to a SkybandError; return other errors unchanged."""
    from skyband.spark.spark_errors import plain_error  # noqa: PLC0415 - loading Spark takes seconds

    return plain_error(error)


def _page(file: WorkloadFile, options: PageOptions, mode: Mode) -> Page:
    from skyband.cli.dashboard import Page  # noqa: PLC0415 - an optional dependency

    return Page(file, options, changeable=mode == "stream")


def _refuse_unusable(metrics: dict[str, dict[str, Any]]) -> None:
    """Raise an error for a stream that has rows, and none with a time and a score: its answers are not those meant."""
    for name, one in metrics.items():
        if one["rows"] and one.get("dropped_null") == one["rows"]:
            raise PipelineError(
                f"stream {name!r}: none of its {one['rows']:,} rows has a time and a score, so there are no answers. "
                "Check that time and by are the right columns and that their values can be read as times and numbers."
            )


class _ShownJob:
    """A job with its outputs: live view or lines, metrics endpoint, dashboard."""

    def __init__(
        self,
        file: WorkloadFile,
        mode: Mode,
        signals: StopSignals,
        *,
        as_json: bool,
        metrics: str | None,
        otlp: str | None = None,
        page: Page | None,
    ) -> None:
        self._file, self._mode, self._as_json, self._page = file, mode, as_json, page
        self._signals = signals
        self._running: Run | LocalRun | None = None
        self._pulse = Pulse(lambda: {} if self._running is None else self._running.beats())
        self._metrics_server = None
        if metrics is not None:
            from skyband.cli.prometheus import MetricsServer  # noqa: PLC0415 - comes with skyband[spark]

            self._metrics_server = MetricsServer(metrics, self._metrics, self._pulse.ailment)
        self._telemetry = None
        if otlp is not None:
            from skyband.cli.otlp import Telemetry  # noqa: PLC0415 - comes with skyband[otel]

            self._telemetry = Telemetry(otlp, self._metrics)
        self._out = console()
        self._board: Board | None = None
        self._lines: list[JsonLines | PlainLines] = []
        self._began = monotonic()

    @property
    def has_begun(self) -> bool:
        """Whether the job has begun, so that its ports are in use or closed again."""
        return self._running is not None

    @property
    def has_answers(self) -> bool:
        """Whether sinks have received answers."""
        return any(one["batches"] for one in self._metrics().values())

    def run(self, begin: Begin, talk: Console, *, seconds: float | None, command: str) -> int:
        """Begin the job, show it until it ends or is stopped, and return the exit code."""
        with progress(talk, "reading the columns of the streams…"):
            watchers = {
                name: [*self._watchers(family_of(workload)), *([self._page.watcher(name)] if self._page else [])]
                for name, workload in self._file.workloads.items()
            }
            running = begin(watchers)
        self._signals.defer()
        self._running = running
        if self._page is not None:
            self._page.begin(running, self._pulse)
            self._page.announce(talk)
        follower = Follower(self._out, lambda: self._shown(running.file), self._board, self._file.labels)
        try:
            with (
                self._control_server(running),
                self._health_checks(),
                self._metrics_server or nullcontext(),
                self._telemetry or nullcontext(),
                self._page or nullcontext(),
            ):
                if self._is_live():
                    ended = follower.follow(running, self._signals.requested, seconds)
                else:
                    ended = await_end(
                        running, lambda: self._signals.requested.is_set() or self._readers_gone(), seconds
                    )
                if ended and self._page is not None and seconds is None:
                    self._page.serve_ended(talk, self._signals.requested)
        except SkybandError as error:
            raise PipelineError(str(error)) from error  # exit code 3: it was valid and failed while it ran
        if not ended:
            self._stop(running, talk)
        if self._as_json:
            sys.stderr.write(json.dumps({"mode": self._mode, "streams": running.metrics()}) + "\n")
        else:
            follower.print_newest()
            talk.print(self._summary(running.metrics()), soft_wrap=True)
        if not ended and not self._readers_gone():
            talk.print(self._how_to_resume(command), soft_wrap=True)  # unwrapped, so that it can be copied
        if ended and self._mode == "once":
            _refuse_unusable(running.metrics())
        return INTERRUPTED if self._signals.requested.is_set() and not ended else 0

    @staticmethod
    def _stop(running: Run | LocalRun, talk: Console) -> None:
        try:
            running.stop()
        except PipelineError as error:  # stopping Spark stops it anyway
            talk.print(str(error), soft_wrap=True)

    def _metrics(self) -> dict[str, dict[str, Any]]:
        return {} if self._running is None else self._running.metrics()

    def _health_checks(self) -> AbstractContextManager[object]:
        """Health checks, if the metrics endpoint or the dashboard shows them."""
        return nullcontext() if self._metrics_server is None and self._page is None else self._pulse

    def _control_server(self, running: Run | LocalRun) -> AbstractContextManager[object]:
        """The server for `skyband ctl`, if the job is a stream with a local checkpoint."""
        if self._mode != "stream" or has_scheme(self._file.engine.checkpoint):
            return nullcontext()
        from skyband.jobs.control_server import ControlServer  # noqa: PLC0415 - few modes need it
        from skyband.jobs.local_changes import LocalChanges  # noqa: PLC0415
        from skyband.jobs.local_job import LocalRun  # noqa: PLC0415

        return ControlServer(running, LocalChanges(running) if isinstance(running, LocalRun) else None)

    def _watchers(self, family: Family) -> list[Wanted]:
        from skyband.connectors.memory import Board  # noqa: PLC0415
        from skyband.connectors.row_identity import groups_of  # noqa: PLC0415
        from skyband.sharding.delivery import Wanted  # noqa: PLC0415

        terminals = [sink for sink in self._file.sinks if sink.type == "terminal"]
        if self._as_json:
            lines = JsonLines()
            self._lines.append(lines)
            return [Wanted(lines, sink.output, sink.queries) for sink in terminals] or [Wanted(lines, "answers")]
        found = []
        queries = [query for workload in self._file.workloads.values() for query in workload]
        for sink in terminals:
            if sink.output == "changes":
                found.append(Wanted(self._plain(), "changes", sink.queries))
            elif self._is_terminal() or self._mode == "once":
                self._board = self._board or Board(last_full=self._mode == "once", groups=groups_of(queries))
                found.append(Wanted(self._board, "both", sink.queries))
            else:
                found.append(Wanted(self._plain(), "answers", sink.queries))
        return found

    def _readers_gone(self) -> bool:
        """Whether stdout is a closed pipe."""
        return bool(self._lines) and all(lines.reader_gone for lines in self._lines)

    def _plain(self) -> PlainLines:
        self._lines.append(lines := PlainLines())
        return lines

    @staticmethod
    def _shown(file: WorkloadFile) -> list[Query]:
        """Queries with answers on the terminal."""
        sinks = [sink for sink in file.sinks if sink.type == "terminal" and sink.output == "answers"]
        return [
            query
            for workload in file.workloads.values()
            for query in workload
            if any(sink.queries is None or query.name in sink.queries for sink in sinks)
        ]

    def _summary(self, metrics: dict[str, dict[str, Any]]) -> Text:
        summary = Text("\n", "dim")
        for name, one in metrics.items():
            summary.append(
                f"{name}: {one['rows']:,} rows read, {one['windows']:,} windows emitted, {one['answers']:,} answer "
                f"rows; {one['candidates']:,} rows held at the end\n"
            )
            for what in COUNTED:  # one line per reason for dropped rows
                if one.get(what):
                    style = "bold red" if what == "late" else "yellow"
                    summary.append(f"  {dropped_rows(what, one[what], one['rows'])}\n", style)
        for line in dropped_queries(metrics):
            summary.append(f"{line}\n", "bold red")
        folders = [f"{sink.place} ({sink.type})" for sink in self._file.sinks if sink.place]
        if folders:
            summary.append(f"written to {', '.join(folders)}\n")
        summary.append(f"{monotonic() - self._began:.1f} s")
        return summary

    def _how_to_resume(self, command: str) -> str:
        if self._mode == "once":
            return f"Stopped before the end; no state is stored. Start again with: {command} --once"
        more = " --catch-up" if self._mode == "catch-up" else ""
        where = self._file.engine.checkpoint
        return f"Stopped; the state is stored in {where}. Resume with: {command}{more}"

    def _is_terminal(self) -> bool:
        return self._out.is_terminal and not self._as_json

    def _is_live(self) -> bool:
        """Whether to draw the live view: stdout is a terminal, and no sink prints lines to it."""
        lines = any(sink.type == "terminal" and sink.output == "changes" for sink in self._file.sinks)
        return self._is_terminal() and not lines
