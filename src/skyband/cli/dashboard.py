"""The dashboard of a running job, and `skyband page`: the dashboard of stored answers."""

from __future__ import annotations

import os
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console

from skyband.cli.signals import StopSignals
from skyband.cli.terminal import console
from skyband.connectors.delta import DeltaSink
from skyband.connectors.files import ParquetSink
from skyband.connectors.iceberg import IcebergSink
from skyband.connectors.table_snapshots import IcebergSnapshot, TableSnapshot
from skyband.dashboard.board_state import LiveShow
from skyband.dashboard.connections import address_of
from skyband.dashboard.control import RunControl
from skyband.dashboard.folder import FolderShow
from skyband.dashboard.server import MOST_CONNECTIONS, PageServer, check_installed
from skyband.errors import InvalidInputError
from skyband.jobs.mailbox import mailbox_of
from skyband.workload_file import WorkloadFile, read_workload

if TYPE_CHECKING:
    from skyband.jobs.job import Run
    from skyband.jobs.local_job import LocalRun
    from skyband.sharding.delivery import Wanted
    from skyband.spark.health import Pulse

__all__ = ["Page", "PageOptions", "page_folder", "serve_folder"]

BEHIND_RUNS = 10  # added to the niceness of a process that only serves


class PageOptions(NamedTuple):
    """Dashboard options of `skyband run`."""

    at: str | None = None  # HOST:PORT or a port; None: the default port of loopback
    allow_control: bool = False
    open: bool = False
    readers: int = MOST_CONNECTIONS


class Page:
    """The dashboard of a job in this process; serves while the context is open.

    The constructor binds the port. Create it before the job, so that a port in use stops the command early.
    """

    def __init__(self, file: WorkloadFile, options: PageOptions, *, changeable: bool) -> None:
        if options.allow_control and not changeable:
            raise InvalidInputError(
                "--allow-control cannot be combined with --once or --catch-up: only a continuous run can be changed. "
                "Remove one of the options; nothing was started."
            )
        self._running: Run | LocalRun | None = None
        self._first = file
        self._open = options.open
        control = RunControl(mailbox_of(file), lambda: self._file) if options.allow_control else None
        self._show = LiveShow(file.path.stem, control=control)
        self._server = PageServer(self._show, address_of(options.at, "--page-at"), readers=options.readers)

    @property
    def url(self) -> str:
        """Address of the dashboard, with the token if one is required."""
        return self._server.url

    @property
    def listeners(self) -> int:
        """Number of connected browsers."""
        return self._server.listeners

    def watcher(self, stream: str) -> Wanted:
        """Return the receiver of a stream's answers."""
        from skyband.sharding.delivery import Wanted  # noqa: PLC0415

        return Wanted(self._show.history.outlet(stream), "answers")

    def begin(self, running: Run | LocalRun, pulse: Pulse | None = None) -> None:
        """Connect the dashboard to a started job and its health checks."""
        self._running = running
        # Reading this page requires no token, so health messages must not contain names of streams.
        ailment = (lambda: None) if pulse is None else partial(pulse.ailment, named=False)
        self._show.begin(lambda: self._file, running.metrics, ailment)

    def __enter__(self) -> Page:
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._show.end()
        self._server.__exit__()

    def announce(self, talk: Console) -> None:
        """Print the address, and open it in a browser if `--open` is set."""
        talk.print(f"dashboard at {self.url}", soft_wrap=True)
        if self._open:
            open_browser(self.url)

    def serve_ended(self, talk: Console, stop: threading.Event) -> None:
        """Serve the answers of the ended job until a stop is requested."""
        self._show.end()
        _serve(talk, f"the run has ended; dashboard at {self.url} until Ctrl-C", stop)

    @property
    def _file(self) -> WorkloadFile:
        return self._first if self._running is None else self._running.file


def page_folder(answers: Path, workload: Path | None, at: str | None, *, open_it: bool, seconds: float | None) -> None:
    """Serve the dashboard of a folder's answers until a stop is requested, or for `seconds`."""
    check_installed()
    _give_way()
    file = None if workload is None else read_workload(workload)
    with _folder_server(answers, file, at, MOST_CONNECTIONS) as (server, stop):
        if open_it:
            open_browser(server.url)
        _serve(console(stderr=True), f"dashboard of {answers} at {server.url} until Ctrl-C", stop, seconds)


def serve_folder(
    workload: Path | None, answers: Path | None, at: str | None, *, readers: int, seconds: float | None
) -> None:
    """Serve the read API of a folder's answers until a stop is requested, or for `seconds`."""
    check_installed()
    _give_way()
    file = None if workload is None else read_workload(workload)
    folder, table = (answers, None) if answers is not None else _only_place(file)
    with _folder_server(folder, file, at, readers, read_first=True, table=table) as (server, stop):
        base, _, token = server.url.partition("#")
        with_token = f" (with the header Authorization: Bearer {token.removeprefix('token=')})" if token else ""
        _serve(
            console(stderr=True), f"answers of {folder} at {base}api/v1/queries{with_token} until Ctrl-C", stop, seconds
        )


def _give_way() -> None:
    """Lower the priority of this process: a run on the same machine goes first when the cores are busy."""
    if hasattr(os, "nice"):  # not on Windows
        os.nice(BEHIND_RUNS)


def _only_place(file: WorkloadFile | None) -> tuple[Path, TableSnapshot | None]:
    """Return the folder of the answers of a workload file, and their table if a catalog knows it."""
    folders: dict[Path, None] = {}
    tables: dict[str, IcebergSink] = {}
    for sink in () if file is None else file.sinks:
        for stream in () if file is None else file.streams:
            if sink.output == "answers" and isinstance(sink, ParquetSink | DeltaSink):
                folders[Path(sink.path.replace("{stream}", stream))] = None
            elif sink.output == "answers" and isinstance(sink, IcebergSink):
                tables[sink.table.replace("{stream}", stream)] = sink
    if len(folders) + len(tables) == 1:
        for name, sink in tables.items():
            table = IcebergSnapshot(name, sink.catalog_name or "default", sink.properties)
            return table.folder, table
        return next(iter(folders)), None
    count = len(folders) + len(tables)
    found = "no workload file" if file is None else f"{count} folders and tables in the sinks of {file.path}"
    raise InvalidInputError(
        f"serve needs the folder of the answers, got {found}. Give a workload file with one parquet, delta or iceberg "
        "sink, or --answers DIR. Nothing was started."
    )


@contextmanager
def _folder_server(
    folder: Path,
    file: WorkloadFile | None,
    at: str | None,
    readers: int,
    *,
    read_first: bool = False,
    table: TableSnapshot | None = None,
) -> Iterator[tuple[PageServer, threading.Event]]:
    """Serve a folder of answers in this process, which has no other use for its descriptors."""
    with (
        StopSignals() as signals,
        FolderShow(folder, file, table=table) as show,
        PageServer(show, address_of(at, "--at"), "--at", readers, share=2, raise_limit=True) as server,
    ):
        signals.defer()
        if read_first:
            show.scan()  # programs expect the first response to be complete
        yield server, signals.requested


def _serve(talk: Console, message: str, stop: threading.Event, seconds: float | None = None) -> None:
    """Print the message and wait for a stop request, or for `seconds`."""
    talk.print(message, soft_wrap=True)
    if stop.wait(seconds):
        talk.print("stopped")


def open_browser(url: str) -> None:
    """Open the address in a thread, because a text browser would block the caller."""
    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
