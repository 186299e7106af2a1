"""The page of a run, and `skyband page`: the same for answers that somebody else wrote."""

from __future__ import annotations

import threading
import webbrowser
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console

from skyband.cli.signals import Ending
from skyband.cli.terminal import console
from skyband.dashboard.board_state import LiveShow
from skyband.dashboard.connections import address_of
from skyband.dashboard.control import RunControl
from skyband.dashboard.folder import FolderShow
from skyband.dashboard.server import PageServer, check_installed
from skyband.errors import InvalidInputError
from skyband.jobs.mailbox import mailbox_of
from skyband.workload_file import WorkloadFile, read_workload

if TYPE_CHECKING:
    from skyband.jobs.job import Run
    from skyband.spark.delivery import Wanted
    from skyband.spark.health import Pulse

__all__ = ["Page", "PageOptions", "page_folder"]


class PageOptions(NamedTuple):
    """What was said on the command line about the page of a run."""

    at: str | None = None  # HOST:PORT or a port; None: loopback, the usual port
    allow_control: bool = False
    open: bool = False


class Page:
    """The page of a run in this process, a context that serves it.

    Made before the run, so that a port that is in use stops everything; served from `__enter__` on.
    """

    def __init__(self, file: WorkloadFile, options: PageOptions, *, changeable: bool) -> None:
        if options.allow_control and not changeable:
            raise InvalidInputError(
                "--allow-control: only a run that goes on as a stream can be changed, and --once and --catch-up end by "
                "themselves; nothing was started. Leave one of them out."
            )
        self._running: Run | None = None
        self._first = file
        self._open = options.open
        control = RunControl(mailbox_of(file), lambda: self._file) if options.allow_control else None
        self._show = LiveShow(file.path.stem, control=control)
        self._server = PageServer(self._show, address_of(options.at, "--page-at"))

    @property
    def url(self) -> str:
        """Where it is, with the token where one is needed."""
        return self._server.url

    @property
    def listeners(self) -> int:
        """How many browsers listen."""
        return self._server.listeners

    def watcher(self, stream: str) -> Wanted:
        """What is to be given the answers of a stream."""
        from skyband.spark.delivery import Wanted  # noqa: PLC0415 - loading Spark takes seconds

        return Wanted(self._show.history.outlet(stream), "answers")

    def begin(self, running: Run, pulse: Pulse | None = None) -> None:
        """The run has started: this is it, and how it is."""
        self._running = running
        # Names of streams are nobody's business where reading takes a token, and this page takes none.
        ailment = (lambda: None) if pulse is None else partial(pulse.ailment, named=False)
        self._show.begin(lambda: self._file, running.metrics, ailment)

    def __enter__(self) -> Page:
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._show.end()
        self._server.__exit__()

    def tell(self, talk: Console) -> None:
        """Say where it is; open it, if that was asked for."""
        talk.print(f"the page is at {self.url}", soft_wrap=True)
        if self._open:
            open_browser(self.url)

    def stay(self, talk: Console, asked: threading.Event) -> None:
        """The run has ended; show what it answered until somebody stops it."""
        self._show.end()
        _stay(talk, f"the run has ended; the page stays at {self.url} until Ctrl-C", asked)

    @property
    def _file(self) -> WorkloadFile:
        return self._first if self._running is None else self._running.file


def page_folder(answers: Path, workload: Path | None, at: str | None, *, open_it: bool, seconds: float | None) -> None:
    """Show the answers in a folder until somebody stops it."""
    check_installed()
    file = None if workload is None else read_workload(workload)
    talk = console(stderr=True)
    with (
        Ending() as ending,
        FolderShow(answers, file) as show,
        PageServer(show, address_of(at, "--at"), "--at") as server,
    ):
        ending.heed()
        if open_it:
            open_browser(server.url)
        _stay(talk, f"the page of {answers} is at {server.url} until Ctrl-C", ending.asked, seconds)


def _stay(talk: Console, message: str, asked: threading.Event, seconds: float | None = None) -> None:
    """Say so, and wait until somebody asks for the end, or for so many seconds."""
    talk.print(message, soft_wrap=True)
    if asked.wait(seconds):
        talk.print("stopped")


def open_browser(url: str) -> None:
    """Open the address; some browsers run in the terminal and keep who calls them, so nobody waits."""
    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
