"""The server of the page: in a thread with a loop of its own, so that what it shows never waits for it."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import threading
import time
from contextlib import suppress
from functools import partial
from importlib.util import find_spec

from skyband.dashboard.board_state import Show
from skyband.dashboard.connections import Address, Connections, Listening, bound, most_connections
from skyband.errors import MissingDependencyError
from skyband.rate_limited_log import RateLimitedLog

__all__ = ["PageServer", "check_installed"]

LOOK = 1.0  # seconds between two looks at the numbers, at least
MOST_BUSY = 30  # times as long as a look takes there is none
MOST_CONNECTIONS = 128  # or an eighth of the descriptors that the process may have, where that is less
SWEEP = 1.0  # seconds between two looks for connections that only wait
_LOG = logging.getLogger("skyband.dashboard")
_QUIET = RateLimitedLog(_LOG)


def check_installed() -> None:
    """Say what is missing, and how to get it, before anything is begun."""
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise MissingDependencyError(
            f"the page needs {' and '.join(missing)}, and {'it is' if len(missing) == 1 else 'they are'} not "
            "installed; install them with: pip install 'skyband[page]'"
        )


class PageServer:
    """Serves a show until it is closed.

    The address is taken when this is made, so that a port that is in use stops what would have begun; requests are
    answered from `__enter__` on.
    """

    def __init__(self, show: Show, address: Address, option: str = "--page-at") -> None:
        check_installed()
        import uvicorn  # noqa: PLC0415 - an extra, loaded by who asks for a page

        from skyband.dashboard.app import app_of  # noqa: PLC0415
        from skyband.dashboard.engine_view import EngineView  # noqa: PLC0415
        from skyband.dashboard.events import MOST_LISTENERS, Bell  # noqa: PLC0415
        from skyband.dashboard.guard import Guard, is_loopback  # noqa: PLC0415

        self._show = show
        self._connections = Connections(most_connections(MOST_CONNECTIONS, share=8))
        self._socket = Listening(bound(address, option), self._connections)
        self.port = int(self._socket.getsockname()[1])
        self.token = secrets.token_urlsafe(24)
        # Half of the connections at most are such that stay: there must be some left to ask for a board with.
        self._engine, self._bell = EngineView(show), Bell(min(MOST_LISTENERS, self._connections.most // 2))
        guarded = Guard(
            app_of(show, self._engine, self._bell),
            address.host,
            self.token,
            control=show.control is not None,
            connections=self._connections,
        )
        config = uvicorn.Config(
            guarded,
            http="h11",
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            log_level="error",  # what strangers send is theirs to know
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
        )
        self._make = partial(uvicorn.Server, config)
        self._server = self._make()
        self._closed = threading.Event()
        needs_token = show.control is not None or not is_loopback(address.host)
        shown = socket.gethostname() if address.is_any else address.text
        self.url = f"http://{shown}:{self.port}/" + (f"#token={self.token}" if needs_token else "")
        self._thread = threading.Thread(target=self._run, name="skyband-page", daemon=True)

    @property
    def listeners(self) -> int:
        """How many browsers listen."""
        return self._bell.listeners

    def __enter__(self) -> PageServer:
        self._show.history.tell(self._bell.ring)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._bell.close()
        self._server.should_exit = True
        self._thread.join(10)
        self._socket.close()

    def _run(self) -> None:
        while not self._closed.is_set() and self._socket.fileno() != -1:
            try:
                with asyncio.Runner() as runner:
                    runner.get_loop()  # the first to fail, before there is anything to be awaited
                    runner.run(self._serve())
            except Exception as error:  # no descriptor is free for a loop, say
                _QUIET.warning("the page cannot be served now (%r); it is tried again, and the run goes on", error)
                self._server = self._make()
                self._closed.wait(LOOK)

    async def _serve(self) -> None:
        self._bell.begin(asyncio.get_running_loop())
        tasks = [asyncio.create_task(self._look()), asyncio.create_task(self._sweep())]
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _sweep(self) -> None:
        while True:
            self._connections.sweep()
            await asyncio.sleep(SWEEP)

    async def _look(self) -> None:
        """Look at the numbers, and cut into windows what has come, whether or not somebody watches."""
        while True:
            began = time.perf_counter()
            try:
                await asyncio.to_thread(self._engine.look)
                await asyncio.to_thread(self._show.refresh)
            except Exception as error:  # between two streams, or when Spark is stopping, there are no numbers
                _LOG.debug("no numbers: %s", error)
            # Spark takes a while to tell what it did; the page must not keep it busy with telling.
            await asyncio.sleep(max(LOOK, MOST_BUSY * (time.perf_counter() - began)))
