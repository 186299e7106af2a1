"""Runs for the browser to look at: in this process, on any free port, a window at a time."""

from __future__ import annotations

from skyband.dashboard.board_state import LiveShow
from skyband.dashboard.connections import Address
from skyband.dashboard.control import RunControl
from skyband.dashboard.server import PageServer
from tests.dashboard.serve import Pretended


class Served:
    """A show and its server, which can be ended and begun again at the same address."""

    def __init__(self, show, port: int = 0) -> None:
        self.show = show
        self._server = PageServer(show, Address("127.0.0.1", port))
        self.port = self._server.port

    @property
    def url(self) -> str:
        return self._server.url

    def __enter__(self):
        self._server.__enter__()
        return self

    def __exit__(self, *given):
        self._server.__exit__(*given)


class Seeded:
    """A pretended run that can be changed from the page."""

    def __init__(self, home, *, windows: int, many: int = 1000, seed: int = 29) -> None:
        self.run = Pretended(home, many=many, seed=seed)
        self.show = LiveShow("seeded", control=RunControl(self.run.box, lambda: self.run.file, timeout=300))
        self.show.begin(lambda: self.run.file, self.run.numbers)
        self.give(windows)
        self._served = Served(self.show)

    @property
    def url(self) -> str:
        return self._served.url

    def give(self, windows: int = 1) -> None:
        self.run.give(self.show.history, windows)

    def __enter__(self):
        self.run.__enter__()
        self._served.__enter__()
        return self

    def __exit__(self, *given):
        self._served.__exit__(*given)
        self.run.__exit__(*given)
