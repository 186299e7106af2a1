"""New windows for many waiting readers: those that wait at the same cursor share one response.

A notification wakes all readers at once. If each of them read the changes in a thread and wrote them as JSON, a
thousand readers would do the same work a thousand times, and the stream beside them would wait for the interpreter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool

from skyband.dashboard.events import Notifier
from skyband.dashboard.response_cache import Content, Entry
from skyband.dashboard.wire import packed

__all__ = ["Found", "SharedChanges"]

Position = tuple[str, int, str | None]  # a cursor, a limit and the name of a query


class Found(NamedTuple):
    """The changes after a position: whether there are some, the next cursor, and the response."""

    has_changes: bool
    cursor: str
    entry: Entry


class SharedChanges:
    """Reads the changes after a position once for each notification."""

    def __init__(self, notifier: Notifier, read: Callable[[str, int, str | None], dict[str, Any]]) -> None:
        self._notifier, self._read = notifier, read
        self._now: tuple[object, int] = (None, -1)  # the event loop, and its notifications
        self._reads: dict[Position, asyncio.Future[Found]] = {}

    async def since(self, position: Position) -> Found:
        """Return the changes after a position, as of the last notification or later.

        A reader clears its event before it calls this, so that a later notification wakes it again.
        """
        now = (asyncio.get_running_loop(), self._notifier.wakes)
        if self._now != now:  # earlier reads may lack what the notification is about
            self._now, self._reads = now, {}
        read = self._reads.get(position)
        if read is None:
            read = self._reads[position] = asyncio.ensure_future(run_in_threadpool(self._found, position))
            read.add_done_callback(partial(self._drop_failed, self._reads, position))
        return await asyncio.shield(read)  # a reader that disconnects must not cancel the read of the others

    @staticmethod
    def _drop_failed(reads: dict[Position, Any], position: Position, read: asyncio.Future[Found]) -> None:
        """Drop a read that failed, so that the next reader tries again. Its error is known to its readers."""
        if read.cancelled() or read.exception() is not None:
            reads.pop(position, None)

    def _found(self, position: Position) -> Found:
        content = self._read(*position)
        return Found(bool(content["changes"]), content["cursor"], Entry(Content(packed(content))))
