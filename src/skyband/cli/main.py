"""The command line. Nothing heavy is imported before a command runs, so that help comes at once."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from skyband import __version__
from skyband.errors import MissingDependencyError, PipelineError, SkybandError

if TYPE_CHECKING:
    from skyband.cli.dashboard import PageOptions

__all__ = ["main"]

DIFFERENT, WRONG, FAILED, MISSING, INTERRUPTED = 1, 2, 3, 4, 130
CODES = """Exit codes: 0 all went well; 1 verify found a difference; 2 something in the file, a query or an option is
wrong; 3 a stream failed while it ran; 4 something is not installed; 130 stopped with Ctrl-C."""

app = typer.Typer(
    help="Continuous top-k queries over sliding windows: exact, in one pass, with minimal state.",
    epilog=CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: loading rich for it would double the time it takes
)

File = Annotated[Path, typer.Argument(help="The workload file.", show_default=True)]
Json = Annotated[bool, typer.Option("--json", help="For machines: JSON on stdout, nothing else there.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Let Spark write its log to the screen.")]
STARTER = Path("skyband.yaml")
WithPage = Annotated[bool, typer.Option("--page", help="Show the answers in a browser, on a page of this machine.")]
PageAt = Annotated[
    str | None, typer.Option("--page-at", help="The same, on this port of loopback or at this HOST:PORT.")
]
Open = Annotated[bool, typer.Option("--open", help="Open the page in the browser.")]


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"skyband {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Continuous top-k queries over sliding windows: exact, in one pass, with minimal state."""


@app.command()
def init(
    data: Annotated[Path | None, typer.Argument(help="A CSV, JSON or Parquet file, or a folder of them.")] = None,
    file: Annotated[Path, typer.Option(help="Where to write the workload file.")] = STARTER,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
) -> None:
    """Write a first workload file, with comments, for your data (or for made-up rows)."""
    from skyband.cli.init import begin

    typer.echo(begin(data, file, force=force))


@app.command()
def run(
    file: File = STARTER,
    once: Annotated[
        bool, typer.Option("--once", help="The input is bounded: answer every window of it, and end. Keeps no state.")
    ] = False,
    catch_up: Annotated[
        bool, typer.Option("--catch-up", help="Read what is new since the last run, keep the state, and end.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Forget the kept state and remove the files written with it.")
    ] = False,
    seconds: Annotated[float | None, typer.Option(help="Stop after so many seconds.")] = None,
    metrics: Annotated[
        str | None, typer.Option(help="Show the numbers to Prometheus, on this port of loopback or at this address.")
    ] = None,
    logs: Annotated[
        str | None, typer.Option(help="Say what is done on standard error: text or json, a line each.")
    ] = None,
    page: WithPage = False,
    page_at: PageAt = None,
    allow_control: Annotated[
        bool,
        typer.Option("--allow-control", help="Let the page add and drop queries, by a token made anew each start."),
    ] = False,
    open_page: Open = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Run a workload file: answers go to its sinks, live to this terminal if it says so."""
    if once and catch_up:
        raise typer.BadParameter("--once and --catch-up exclude each other.")
    if logs not in (None, "text", "json"):
        raise typer.BadParameter(f"--logs {logs} must be text or json.")
    paged = _page_options(page, page_at, open_page, allow_control=allow_control)
    from skyband.cli.run import run_file

    code = run_file(
        file,
        once=once,
        catch_up=catch_up,
        fresh=fresh,
        as_json=as_json,
        verbose=verbose,
        seconds=seconds,
        metrics=metrics,
        logs=logs,
        page=paged,
    )
    raise typer.Exit(code)


def _page_options(page: bool, at: str | None, open_it: bool, *, allow_control: bool = False) -> PageOptions | None:
    """What was said about the page; None: nobody wants one."""
    if not page and at is None:
        for option, given in (("--allow-control", allow_control), ("--open", open_it)):
            if given:
                raise typer.BadParameter(f"{option} is about the page, and there is none; add --page.")
        return None
    from skyband.dashboard.server import check_installed

    check_installed()
    from skyband.cli.dashboard import PageOptions

    return PageOptions(at, allow_control, open_it)


@app.command("page")
def page_of_answers(
    answers: Annotated[Path, typer.Option(help="A folder of Parquet files with answers, finished or growing.")],
    workload: Annotated[Path | None, typer.Option(help="The workload file they are of: names, k, plans.")] = None,
    at: Annotated[str | None, typer.Option(help="Serve it on this port of loopback or at this HOST:PORT.")] = None,
    open_page: Open = False,
    seconds: Annotated[float | None, typer.Option(help="Stop after so many seconds.")] = None,
) -> None:
    """Show answers that were written to files, on a page in the browser. Needs no Spark."""
    from skyband.cli.dashboard import page_folder

    page_folder(answers, workload, at, open_it=open_page, seconds=seconds)


@app.command()
def explain(file: File = STARTER, as_json: Json = False) -> None:
    """Say what a workload file means: what is shared, what is held, which algorithm and why. Runs nothing."""
    from skyband.cli.explain import explain_file

    typer.echo(explain_file(file, as_json=as_json))


@app.command()
def verify(
    file: File = STARTER,
    answers: Annotated[
        Path | None, typer.Option("--answers", help="Check the answers that a run of the file has written here.")
    ] = None,
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="With --answers: the newest windows need not be answered yet.")
    ] = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Check what `run --once` answers, or what a run has written, against brute force over all rows in Spark SQL."""
    from skyband.cli.verify import verify_file

    raise typer.Exit(verify_file(file, answers=answers, unfinished=unfinished, as_json=as_json, verbose=verbose))


@app.command()
def schema(
    keys: Annotated[bool, typer.Option("--keys", help="As a table to read, instead of JSON Schema.")] = False,
) -> None:
    """Print the JSON Schema of workload files, for editors and checks; or a table of their keys."""
    if keys:
        from skyband.cli.key_tables import print_keys

        print_keys()
        return
    import json

    from skyband.workload_file import schema as published

    typer.echo(json.dumps(published(), indent=2, ensure_ascii=False))


ctl = typer.Typer(help="Change a workload that runs, from another terminal.", no_args_is_help=True)
app.add_typer(ctl, name="ctl")
Of = Annotated[Path, typer.Option("--file", "-f", help="The workload file that runs.", show_default=True)]
Stream = Annotated[str | None, typer.Option(help="The stream it is about, where the file has several.")]


@ctl.command()
def add(
    sql: Annotated[str, typer.Argument(help="The query in SQL: 'name: TOPK price, 10 OVER 1 HOUR EVERY 5 MINUTES'.")],
    file: Of = STARTER,
    stream: Stream = None,
    as_json: Json = False,
) -> None:
    """Add a query to a stream that runs; says from which window on its answers are whole."""
    _tell(file, {"kind": "add", "sql": sql, "stream": stream}, as_json=as_json)


@ctl.command()
def drop(
    name: Annotated[str, typer.Argument(help="The query's name.")], file: Of = STARTER, as_json: Json = False
) -> None:
    """Drop a query from a stream that runs."""
    _tell(file, {"kind": "drop", "name": name}, as_json=as_json)


@ctl.command("list")
def list_queries(file: Of = STARTER, as_json: Json = False) -> None:
    """List the queries that run, stream by stream."""
    _tell(file, {"kind": "list"}, as_json=as_json)


@ctl.command()
def flush(file: Of = STARTER, stream: Stream = None, as_json: Json = False) -> None:
    """Answer every window that holds a row, now; rows that come later for one are late."""
    _tell(file, {"kind": "flush", "stream": stream}, as_json=as_json)


@ctl.command()
def advance(
    to: Annotated[str, typer.Argument(help="A time such as 2024-01-01T09:30:00+00:00.")],
    file: Of = STARTER,
    stream: Stream = None,
    as_json: Json = False,
) -> None:
    """Move time on without rows, for a source that has fallen silent: what ends before then is answered."""
    _tell(file, {"kind": "advance", "to": to, "stream": stream}, as_json=as_json)


def _tell(file: Path, message: dict[str, str | None], *, as_json: bool) -> None:
    from skyband.cli.ctl import tell

    tell(file, message, as_json=as_json)


@app.command()
def jars() -> None:
    """Fetch what Spark needs to read and write Kafka, once: a few jars from Maven's registry, into your cache."""
    from skyband.cli.jars import fetch
    from skyband.cli.terminal import console

    typer.echo(fetch(console(stderr=True)))


@app.command()
def bench(
    rows: Annotated[int, typer.Option(help="How many objects the stream has.")] = 1_000_000,
    k: Annotated[int, typer.Option(help="How many objects an answer ranks.")] = 10,
    size: Annotated[str, typer.Option(help="How far back a window reaches.")] = "10 minutes",
    slide: Annotated[str, typer.Option(help="How often there is a new window.")] = "1 minute",
    algorithm: Annotated[list[str] | None, typer.Option(help="Only this one; may be given several times.")] = None,
    as_json: Json = False,
) -> None:
    """Time the algorithms on this machine, in process, on a stream that is the same everywhere."""
    from skyband.cli.bench import bench as timed

    timed(rows=rows, k=k, size=size, slide=slide, only=algorithm or [], as_json=as_json)


@app.command()
def demo(
    in_process: Annotated[bool, typer.Option("--in-process", help="Without Spark: one query at full speed.")] = False,
    seconds: Annotated[float, typer.Option(help="How long to watch, in seconds (in process).")] = 15.0,
    speed: Annotated[float, typer.Option(help="Seconds of the stream in a second of yours (in process).")] = 60.0,
    k: Annotated[int, typer.Option(help="How many trades an answer ranks (in process).")] = 10,
    size: Annotated[str, typer.Option(help="How far back a window reaches (in process).")] = "5 minutes",
    slide: Annotated[str, typer.Option(help="How often there is a new window (in process).")] = "30 seconds",
    seed: Annotated[int, typer.Option(help="Another seed, another stream.")] = 29,
    page: WithPage = False,
    page_at: PageAt = None,
    open_page: Open = False,
) -> None:
    """Watch the largest trades of sliding windows, live: on Spark, or in process."""
    paged = _page_options(page, page_at, open_page)
    if in_process and paged is not None:
        raise typer.BadParameter("--page shows the demo on Spark; --in-process draws on the terminal only.")
    if in_process:
        from skyband.cli.demo import run as run_in_process

        run_in_process(seconds=seconds, speed=speed, k=k, size=size, slide=slide, seed=seed)
    else:
        from skyband.cli.spark_demo import run as run_on_spark

        raise typer.Exit(run_on_spark(seed=seed, page=paged))


@app.command()
def algorithms(as_json: Json = False) -> None:
    """List the algorithms by name, with a line each."""
    from skyband.topk.algorithms import algorithms as known

    every = {"auto": "chosen for you; skyband explain says which and why", **known()}
    if as_json:
        import json

        typer.echo(json.dumps(every, indent=2, ensure_ascii=False))
        return
    from skyband.cli.key_tables import print_table

    print_table(every.items())


def main() -> None:
    """Run the command line: an error of ours is one line (or the problems of a file, a line each) and an exit code."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except SkybandError as error:
        typer.secho(f"skyband: {error}", fg="red", bold=True, err=True)
        code = _code_of(error)
        if code == FAILED:
            _leave(code)
        sys.exit(code)


def _leave(code: int) -> NoReturn:
    """End at once: threads of the bridge to a Java that is gone may hold what Python, tidying up, would wait for."""
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _code_of(error: SkybandError) -> int:
    if isinstance(error, MissingDependencyError):
        return MISSING
    return FAILED if isinstance(error, PipelineError) else WRONG


if __name__ == "__main__":
    main()
