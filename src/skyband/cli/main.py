"""The command line. Heavy modules are imported only when a command runs, so `--help` is fast."""

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
CODES = """Exit codes: 0 success; 1 verify found a difference; 2 the file, a query or an option is invalid; 3 a stream
failed while it ran; 4 a dependency is missing; 130 stopped with Ctrl-C."""

app = typer.Typer(
    help="Continuous top-k queries over sliding windows: exact, in one pass, with minimal state.",
    epilog=CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: importing rich would double its time
)

File = Annotated[Path, typer.Argument(help="The workload file.", show_default=True)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON to stdout, and nothing else.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print Spark's log to the screen.")]
STARTER = Path("skyband.yaml")
WithPage = Annotated[bool, typer.Option("--page", help="Serve a dashboard of the answers on this machine.")]
PageAt = Annotated[
    str | None, typer.Option("--page-at", help="Like --page, on this port of loopback or at this HOST:PORT.")
]
Open = Annotated[bool, typer.Option("--open", help="Open the dashboard in the browser.")]


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
    data: Annotated[
        Path | None,
        typer.Argument(help="A CSV, JSON, Parquet or Avro file, a folder of them, or a schema (.avsc, .proto)."),
    ] = None,
    file: Annotated[Path, typer.Option(help="Where to write the workload file.")] = STARTER,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a commented workload file for your data.

    If there is no data, the file uses rows that Spark generates.
    """
    from skyband.cli.init import init_file

    typer.echo(init_file(data, file, force=force))


@app.command()
def run(
    file: File = STARTER,
    once: Annotated[
        bool, typer.Option("--once", help="Read the whole input, emit every window and exit. Stores no state.")
    ] = False,
    catch_up: Annotated[
        bool, typer.Option("--catch-up", help="Read the rows added since the last run, store the state and exit.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Discard the stored state and remove the files written with it.")
    ] = False,
    reshard: Annotated[
        bool, typer.Option("--reshard", help="Convert the stored state to another number of shards and partitions.")
    ] = False,
    local: Annotated[
        bool, typer.Option("--local", help="Run in this process, without Spark and Java. Only for files.")
    ] = False,
    spark: Annotated[
        bool, typer.Option("--spark", help="Run on Spark. With --once, small files run without it by default.")
    ] = False,
    seconds: Annotated[float | None, typer.Option(help="Stop after this many seconds.")] = None,
    metrics: Annotated[
        str | None, typer.Option(help="Serve metrics for Prometheus on this port of loopback or at this HOST:PORT.")
    ] = None,
    otlp: Annotated[
        str | None,
        typer.Option(help="Send metrics and traces to this OpenTelemetry collector, such as http://127.0.0.1:4318."),
    ] = None,
    logs: Annotated[str | None, typer.Option(help="Write log lines to stderr, as text or json.")] = None,
    page: WithPage = False,
    page_at: PageAt = None,
    allow_control: Annotated[
        bool,
        typer.Option(
            "--allow-control", help="Allow the dashboard to add and drop queries. Each start has a new token."
        ),
    ] = False,
    open_page: Open = False,
    readers: Annotated[
        int | None, typer.Option(help="Most connections to the dashboard at a time, default 128.", min=4, max=100_000)
    ] = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Run a workload file. Answers go to its sinks."""
    if once and catch_up:
        raise typer.BadParameter("--once and --catch-up cannot be combined.")
    if local and spark:
        raise typer.BadParameter("--local and --spark cannot be combined.")
    for option, given in (("--once", once), ("--fresh", fresh), ("--local", local)):
        if reshard and given:
            raise typer.BadParameter(f"--reshard and {option} cannot be combined.")
    if logs not in (None, "text", "json"):
        raise typer.BadParameter(f"--logs must be text or json, got {logs}.")
    paged = _page_options(page, page_at, open_page, allow_control=allow_control, readers=readers)
    from skyband.cli.run import run_file

    code = run_file(
        file,
        once=once,
        catch_up=catch_up,
        fresh=fresh,
        reshard=reshard,
        as_json=as_json,
        verbose=verbose,
        seconds=seconds,
        metrics=metrics,
        otlp=otlp,
        logs=logs,
        page=paged,
        engine="local" if local else "spark" if spark else None,
    )
    raise typer.Exit(code)


def _page_options(
    page: bool, at: str | None, open_it: bool, *, allow_control: bool = False, readers: int | None = None
) -> PageOptions | None:
    """Options of the dashboard, or None without --page and --page-at."""
    if not page and at is None:
        for option, given in (
            ("--allow-control", allow_control),
            ("--open", open_it),
            ("--readers", readers is not None),
        ):
            if given:
                raise typer.BadParameter(f"{option} requires --page or --page-at.")
        return None
    from skyband.dashboard.server import MOST_CONNECTIONS, check_installed

    check_installed()
    from skyband.cli.dashboard import PageOptions

    return PageOptions(at, allow_control, open_it, MOST_CONNECTIONS if readers is None else readers)


@app.command("page")
def page_of_answers(
    answers: Annotated[Path, typer.Option(help="The folder of the answers of a job: Parquet files, or a table.")],
    workload: Annotated[
        Path | None, typer.Option(help="The workload file of these answers. Adds names, k and plans.")
    ] = None,
    at: Annotated[str | None, typer.Option(help="Serve on this port of loopback or at this HOST:PORT.")] = None,
    open_page: Open = False,
    seconds: Annotated[float | None, typer.Option(help="Stop after this many seconds.")] = None,
) -> None:
    """Show stored answers in a dashboard. Does not need Spark."""
    from skyband.cli.dashboard import page_folder

    page_folder(answers, workload, at, open_it=open_page, seconds=seconds)


@app.command()
def serve(
    file: Annotated[
        Path | None,
        typer.Argument(help="The workload file of the answers, with a parquet, delta or iceberg sink."),
    ] = None,
    answers: Annotated[
        Path | None, typer.Option(help="The folder with the Parquet files, or the table, of the answers.")
    ] = None,
    at: Annotated[str | None, typer.Option(help="Serve on this port of loopback or at this HOST:PORT.")] = None,
    readers: Annotated[int, typer.Option(help="Most connections at a time.", min=4, max=100_000)] = 1000,
    seconds: Annotated[float | None, typer.Option(help="Stop after this many seconds.")] = None,
) -> None:
    """Serve the answers of a run to programs: JSON and Arrow over HTTP. Does not need Spark."""
    from skyband.cli.dashboard import serve_folder

    serve_folder(file, answers, at, readers=readers, seconds=seconds)


@app.command()
def explain(file: File = STARTER, as_json: Json = False) -> None:
    """Validate a file and show its plan, without running it.

    Prints the queries, what they share, the expected state, and each algorithm with the reason for it.
    """
    from skyband.cli.explain import explain_file

    typer.echo(explain_file(file, as_json=as_json))


@app.command()
def verify(
    file: File = STARTER,
    answers: Annotated[
        Path | None, typer.Option("--answers", help="Check the answers that a run has written to this folder.")
    ] = None,
    checksums: Annotated[
        bool,
        typer.Option("--checksums", help="Only compare the files of answers with the checksums in the checkpoint."),
    ] = False,
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="With --answers: allow the newest windows to be missing.")
    ] = False,
    joined: Annotated[
        bool,
        typer.Option(
            "--joined", help="With --answers: allow windows before the first one of each query to be missing."
        ),
    ] = False,
    local: Annotated[
        bool, typer.Option("--local", help="Compare in this process, without Spark and Java. Only for files.")
    ] = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Compare answers with brute force, in Spark SQL or in this process.

    Computes the answers as `run --once` does, or reads those that a run has written. With --checksums, it finds files
    of answers that were damaged or removed since they were written.
    """
    from skyband.cli.verify import verify_file

    given = {"checksums": checksums, "unfinished": unfinished, "joined": joined, "local": local}
    code = verify_file(file, answers=answers, as_json=as_json, verbose=verbose, **given)
    raise typer.Exit(code)


@app.command()
def schema(
    keys: Annotated[bool, typer.Option("--keys", help="Print a table of the keys instead.")] = False,
) -> None:
    """Print the JSON Schema of workload files, or their keys."""
    if keys:
        from skyband.cli.key_tables import print_keys

        print_keys()
        return
    import json

    from skyband.workload_file import schema as published

    typer.echo(json.dumps(published(), indent=2, ensure_ascii=False))


ctl = typer.Typer(help="Change a running job from another terminal.", no_args_is_help=True)
app.add_typer(ctl, name="ctl")
Of = Annotated[Path, typer.Option("--file", "-f", help="The workload file of the running job.", show_default=True)]
Stream = Annotated[str | None, typer.Option(help="The stream, if the file has several.")]


@ctl.command()
def add(
    sql: Annotated[str, typer.Argument(help="The query in SQL: 'name: TOPK price, 10 OVER 1 HOUR EVERY 5 MINUTES'.")],
    file: Of = STARTER,
    stream: Stream = None,
    since: Annotated[
        str | None,
        typer.Option(help="Read the past of files or topics again: windows that begin so long ago are complete."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Add a query to a running job.

    The reply states the first window that is complete. With --since, rows that the stream has read before are read
    again for the query, and its first answer is complete.
    """
    message = {"kind": "add", "sql": sql, "stream": stream} | ({} if since is None else {"since": since})
    _send(file, message, as_json=as_json)


@ctl.command()
def drop(
    name: Annotated[str, typer.Argument(help="The query's name.")], file: Of = STARTER, as_json: Json = False
) -> None:
    """Drop a query from a running job."""
    _send(file, {"kind": "drop", "name": name}, as_json=as_json)


@ctl.command("list")
def list_queries(file: Of = STARTER, as_json: Json = False) -> None:
    """List the running queries by stream."""
    _send(file, {"kind": "list"}, as_json=as_json)


@ctl.command()
def flush(file: Of = STARTER, stream: Stream = None, as_json: Json = False) -> None:
    """Emit every window that contains a row now.

    Rows that arrive later for one of these windows are late.
    """
    _send(file, {"kind": "flush", "stream": stream}, as_json=as_json)


@ctl.command()
def advance(
    to: Annotated[str, typer.Argument(help="A time such as 2024-01-01T09:30:00+00:00.")],
    file: Of = STARTER,
    stream: Stream = None,
    as_json: Json = False,
) -> None:
    """Move event time forward without rows.

    Emits the windows that end by that time. Use it if a source is idle.
    """
    _send(file, {"kind": "advance", "to": to, "stream": stream}, as_json=as_json)


def _send(file: Path, message: dict[str, str | None], *, as_json: bool) -> None:
    from skyband.cli.ctl import send

    send(file, message, as_json=as_json)


@app.command()
def jars() -> None:
    """Download Spark's Kafka connector, once.

    The jars come from the Maven repository and are stored in your cache folder.
    """
    from skyband.cli.jars import fetch
    from skyband.cli.terminal import console

    typer.echo(fetch(console(stderr=True)))


@app.command()
def pack(
    output: Annotated[Path, typer.Argument(help="The archive to write: .tar.gz or .tgz.")] = Path(
        "skyband-environment.tar.gz"
    ),
    extra: Annotated[
        list[str] | None, typer.Option(help="Also pack this extra, such as postgres; can be repeated.")
    ] = None,
    kernels: Annotated[
        str | None,
        typer.Option(help="Compile kernels for x86-64-v3 (default on such machines), native (this processor) or none."),
    ] = None,
) -> None:
    """Pack Skyband and its dependencies for the workers of a Spark cluster.

    The workers need a Python of the same minor version, and nothing else.
    """
    from skyband.cli.pack import pack as packed
    from skyband.cli.terminal import console

    typer.echo(packed(output, console(stderr=True), extras=extra or (), kernels=kernels))


@app.command()
def bench(
    rows: Annotated[int, typer.Option(help="Number of objects in the stream.")] = 1_000_000,
    k: Annotated[int, typer.Option(help="Number of objects in an answer.")] = 10,
    size: Annotated[str, typer.Option(help="Length of a window.")] = "10 minutes",
    slide: Annotated[str, typer.Option(help="Distance between windows.")] = "1 minute",
    algorithm: Annotated[list[str] | None, typer.Option(help="Only this algorithm; can be repeated.")] = None,
    as_json: Json = False,
) -> None:
    """Time the algorithms in process, on a seeded stream."""
    from skyband.cli.bench import bench as timed

    timed(rows=rows, k=k, size=size, slide=slide, only=algorithm or [], as_json=as_json)


@app.command()
def demo(
    in_process: Annotated[bool, typer.Option("--in-process", help="Without Spark: one query at full speed.")] = False,
    local: Annotated[
        bool, typer.Option("--local", help="In this process, without Spark and Java. Default if Java is missing.")
    ] = False,
    seconds: Annotated[float, typer.Option(help="Duration in seconds (in process).")] = 15.0,
    speed: Annotated[float, typer.Option(help="Seconds of event time per second (in process).")] = 60.0,
    k: Annotated[int, typer.Option(help="Number of trades in an answer (in process).")] = 10,
    size: Annotated[str, typer.Option(help="Length of a window (in process).")] = "5 minutes",
    slide: Annotated[str, typer.Option(help="Distance between windows (in process).")] = "30 seconds",
    seed: Annotated[int, typer.Option(help="Seed of the generated stream.")] = 29,
    page: WithPage = False,
    page_at: PageAt = None,
    open_page: Open = False,
) -> None:
    """Show the largest trades of a generated stream, live."""
    paged = _page_options(page, page_at, open_page)
    if in_process and paged is not None:
        raise typer.BadParameter("--page and --page-at are not supported with --in-process.")
    if in_process:
        from skyband.cli.demo import run as run_in_process

        run_in_process(seconds=seconds, speed=speed, k=k, size=size, slide=slide, seed=seed)
    else:
        from skyband.cli.stream_demo import run as run_stream

        raise typer.Exit(run_stream(seed=seed, page=paged, local=local))


@app.command()
def algorithms(as_json: Json = False) -> None:
    """List the algorithms, one per line."""
    from skyband.topk.algorithms import algorithms as known

    every = {"auto": "chosen automatically; skyband explain shows which and why", **known()}
    if as_json:
        import json

        typer.echo(json.dumps(every, indent=2, ensure_ascii=False))
        return
    from skyband.cli.key_tables import print_table

    print_table(every.items())


def main() -> None:
    """Run the command line. A SkybandError is printed without a traceback and becomes an exit code."""
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
    """Exit without cleanup: py4j threads of a dead JVM can hold locks that Python's shutdown would wait for."""
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
