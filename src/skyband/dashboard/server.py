"""The web server of the page. It runs in a separate thread with its own event loop, so the job never waits for it."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from importlib.util import find_spec

from skyband.dashboard.board_state import Show
from skyband.dashboard.connections import Address, Connections, Listening, bound, most_connections
from skyband.errors import InvalidInputError, MissingDependencyError
from skyband.rate_limited_log import RateLimitedLog

__all__ = ["MOST_CONNECTIONS", "PageServer", "check_installed", "token_of"]

LOOK = 1.0  # minimum seconds between two samples of the metrics
MOST_BUSY = 30  # the pause after a sample, as a multiple of the time the sample took
MOST_CONNECTIONS = 128  # or a share of the process's descriptor limit, if that is less
TOKEN = "SKYBAND_TOKEN"
SHORTEST = 16  # characters of a token
SWEEP = 1.0  # seconds between two checks for idle connections
_LOG = logging.getLogger("skyband.dashboard")
_QUIET = RateLimitedLog(_LOG)


def check_installed() -> None:
    """Raise MissingDependencyError if the packages of the extra `page` are not installed."""
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise MissingDependencyError(
            f"the page needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed. "
            "Install with: pip install 'skyband[page]'"
        )


def token_of(environ: Mapping[str, str]) -> str:
    """Return the token from the environment, so that programs can know it; else a new one.

    >>> token_of({"SKYBAND_TOKEN": "a" * 20}) == "a" * 20, len(token_of({}))
    (True, 32)
    """
    given = environ.get(TOKEN)
    if given is None:
        return secrets.token_urlsafe(24)
    if not re.fullmatch(rf"[!-~]{{{SHORTEST},}}", given):
        raise InvalidInputError(
            f"{TOKEN} must have at least {SHORTEST} printable characters without spaces, got {len(given)} characters. "
            "Nothing was started."
        )
    return given


class PageServer:
    """Serves a show until it is closed.

    The constructor binds the address, so a port that is in use is reported before the job starts. `__enter__` starts
    to answer requests.
    """

    def __init__(
        self,
        show: Show,
        address: Address,
        option: str = "--page-at",
        readers: int = MOST_CONNECTIONS,
        *,
        share: int = 8,
        raise_limit: bool = False,
    ) -> None:
        check_installed()
        import uvicorn  # noqa: PLC0415 - an optional dependency

        from skyband.dashboard.app import app_of  # noqa: PLC0415
        from skyband.dashboard.engine_view import EngineView  # noqa: PLC0415
        from skyband.dashboard.events import MOST_LISTENERS, Notifier  # noqa: PLC0415
        from skyband.dashboard.guard import Guard, is_loopback  # noqa: PLC0415

        self._show = show
        self._connections = Connections(most_connections(readers, share=share, raise_limit=raise_limit))
        self._socket = Listening(bound(address, option), self._connections)
        self.port = int(self._socket.getsockname()[1])
        self.token = token_of(os.environ)
        # At most half of the connections are event streams, so that some remain for other requests.
        self._engine, self._notifier = (
            EngineView(show),
            Notifier(min(max(MOST_LISTENERS, readers // 2), self._connections.most // 2)),
        )
        guarded = Guard(
            app_of(show, self._engine, self._notifier),
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
            log_level="error",  # malformed requests of clients are not logged
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
        """The number of browsers that receive events."""
        return self._notifier.listeners

    def __enter__(self) -> PageServer:
        self._show.history.subscribe(self._notifier.notify)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._notifier.close()
        self._server.should_exit = True
        self._thread.join(10)
        self._socket.close()

    def _run(self) -> None:
        while not self._closed.is_set() and self._socket.fileno() != -1:
            try:
                with asyncio.Runner() as runner:
                    runner.get_loop()  # creates the loop, which may fail, before the coroutine exists
                    runner.run(self._serve())
            except Exception as error:  # for example, no descriptor is free for an event loop
                _QUIET.warning("cannot serve the page (%r); retrying. The job continues", error)
                self._server = self._make()
                self._closed.wait(LOOK)

    async def _serve(self) -> None:
        self._notifier.begin(asyncio.get_running_loop())
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
        """Sample the metrics and process pending answers, even if no browser is connected."""
        while True:
            began = time.perf_counter()
            try:
                await asyncio.to_thread(self._engine.look)
                await asyncio.to_thread(self._show.refresh)
            except Exception as error:  # no metrics while a stream restarts or Spark stops
                _LOG.debug("no metrics: %s", error)
            # Reading Spark's progress is slow, so the pause grows with the time it takes.
            await asyncio.sleep(max(LOOK, MOST_BUSY * (time.perf_counter() - began)))
