"""The command line. Nothing heavy is imported before a command runs, so that help comes at once."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from skyband import __version__
from skyband.errors import SkybandError

__all__ = ["main"]

app = typer.Typer(
    help="Continuous top-k queries over sliding windows: exact, in one pass, with minimal state.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: loading rich for it would double the time it takes
)


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
def demo(
    in_process: Annotated[bool, typer.Option("--in-process", help="Without Spark: one query at full speed.")] = False,
    seconds: Annotated[float, typer.Option(help="How long to watch, in seconds (in process).")] = 15.0,
    speed: Annotated[float, typer.Option(help="Seconds of the stream in a second of yours (in process).")] = 60.0,
    k: Annotated[int, typer.Option(help="How many trades an answer ranks (in process).")] = 10,
    size: Annotated[str, typer.Option(help="How far back a window reaches (in process).")] = "5 minutes",
    slide: Annotated[str, typer.Option(help="How often there is a new window (in process).")] = "30 seconds",
    seed: Annotated[int, typer.Option(help="Another seed, another stream.")] = 29,
) -> None:
    """Watch the largest trades of sliding windows, live: on Spark, or in process."""
    if in_process:
        from skyband.demo import run

        run(seconds=seconds, speed=speed, k=k, size=size, slide=slide, seed=seed)
    else:
        from skyband.spark_demo import run as run_on_spark

        run_on_spark(seed=seed)


@app.command()
def algorithms() -> None:
    """List the algorithms by name, with a line each."""
    from rich.console import Console
    from rich.table import Table

    from skyband.catalogue import algorithms as known

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold cyan", no_wrap=True)
    table.add_column()
    table.add_row("auto", "chosen for you; Workload.explain() says which and why")
    for name, summary in known().items():
        table.add_row(name, summary)
    console = Console()
    if not console.is_terminal:
        console.width = 160  # a line each, for who reads them by program
    console.print(table)


def main() -> None:
    """Run the command line: an error of ours is one line and exit code 2, Ctrl-C is exit code 130."""
    try:
        app()
    except SkybandError as error:
        typer.secho(f"skyband: {error}", fg="red", bold=True, err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
