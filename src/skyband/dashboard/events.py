"""Server-sent events: each browser receives only the changes since its last event.

Nothing is queued. Each listener records what it has sent. When the browser can receive more, the listener sends the
newest state. A slow browser skips the states in between, and never delays the job.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from hashlib import blake2b
from typing import Any

from starlette.responses import StreamingResponse

from skyband.dashboard.board_state import Show, state_of
from skyband.dashboard.boards import board, summaries
from skyband.dashboard.engine_view import EngineView
from skyband.dashboard.wire import packed

__all__ = ["MOST_LISTENERS", "EventStream", "Listener", "Notifier", "listen"]

MOST_LISTENERS = 64
MOST_OFTEN = 0.1  # seconds between two messages about answers
ENGINE = 1.0
HEARTBEAT = 10.0


class Notifier:
    """Wakes all listeners of the server's event loop from any thread. It has at most `most` listeners."""

    def __init__(self, most: int = MOST_LISTENERS) -> None:
        self.most = most
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: set[asyncio.Event] = set()
        self.closed = False
        self.wakes = 0  # number of times that listeners were woken

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Set the event loop in which the listeners run."""
        self._loop = loop

    def notify(self) -> None:
        """Wake all listeners. The pipeline calls this, so it must return quickly."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            try:
                loop.call_soon_threadsafe(self._wake)
            except RuntimeError:  # closed since the check above
                return

    def close(self) -> None:
        """Stop all listeners."""
        self.closed = True
        self.notify()

    def join(self) -> asyncio.Event | None:
        """Return an event that `notify` sets; None if the limit is reached. The caller must `leave` at the end."""
        if len(self._waiting) >= self.most:
            return None
        event = asyncio.Event()
        self._waiting.add(event)
        return event

    def leave(self, event: asyncio.Event) -> None:
        """Stop setting this event."""
        self._waiting.discard(event)

    @property
    def listeners(self) -> int:
        """The number of listeners."""
        return len(self._waiting)

    def _wake(self) -> None:
        self.wakes += 1
        for event in self._waiting:
            event.set()


class EventStream(StreamingResponse):
    """A server-sent event stream. It frees its place when it ends, even if it never started."""

    def __init__(self, notifier: Notifier, place: asyncio.Event, events: AsyncIterator[bytes]) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._notifier, self._place = notifier, place

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send the events."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._notifier.leave(self._place)


class Listener:
    """The state that one browser has received, and the events it needs next."""

    def __init__(self, show: Show, engine: EngineView, watched: Sequence[tuple[str, str | None]]) -> None:
        self._show, self._engine = show, engine
        self._watched = list(watched)
        self._boards: dict[tuple[str, str | None], tuple[int, bytes]] = {}  # number and digest of the window last sent
        self._version = self._settled = 0  # of the history: last sent, and current
        self._queries_version = show.version
        self._ended = False
        self._count = 0

    def news(self) -> bytes:
        """Return the changes since the last call as events; empty if there are none."""
        return self.boards() + self.rest()

    def boards(self) -> bytes:
        """Return the events to send first: changes of the list of queries and of the watched boards."""
        found = []
        self._settled = self._show.refresh()
        if self._show.version != self._queries_version:
            self._queries_version = self._show.version
            found.append(self._event("state", state_of(self._show)))
        if self._settled != self._version:
            found += [self._event("board", newest) for watched in self._watched if (newest := self._newest(*watched))]
        return b"".join(found)

    def rest(self) -> bytes:
        """Return the summaries of all changed queries. Call it after `boards`."""
        found = []
        if self._settled != self._version:
            queries, names = self._show.queries(), self._show.history.changed_since(self._version)
            changed = summaries(self._show.history, [name for name in names if name in queries])
            self._version = self._settled
            if changed:
                found.append(self._event("summary", changed))
        if self._show.ended and not self._ended:
            self._ended = True
            found.append(self._event("end", {}))
        return b"".join(found)

    def _newest(self, name: str, group: str | None) -> dict[str, Any] | None:
        """Return the newest board if it differs from the one last sent."""
        history, watched = self._show.history, (name, group)
        found = history.find(name, group)
        number, sent = self._boards.get(watched, (-1, b""))
        if found is None or found.window.number == number:
            return None
        newest = board(history, name, group)
        if newest is None:
            return None
        # A retried micro-batch creates new windows with the same content; only the comparison with the previous
        # window may differ.
        marks = newest.get("final"), newest.get("revision")
        rows = [(row["id"], row["score"]) for row in newest["rows"]]
        content = packed([newest["group"], newest["moment"], *marks, rows])
        digest = blake2b(content, digest_size=16).digest()
        self._boards[watched] = (found.window.number, digest)
        return None if digest == sent else newest

    def engine(self) -> bytes:
        """Return the current metrics as an event."""
        return self._event("engine", self._engine.now())

    def _event(self, name: str, content: Any) -> bytes:
        self._count += 1
        return b"id: %d\nevent: %s\ndata: %s\n\n" % (self._count, name.encode(), packed(content))


async def listen(notifier: Notifier, event: asyncio.Event, listener: Listener) -> AsyncIterator[bytes]:
    """Yield events for one browser until it disconnects or the server stops. The notifier sets `event`."""
    loop = asyncio.get_running_loop()
    sent_at = engine_at = float("-inf")
    yield b"retry: 1000\n\n"
    while not notifier.closed:
        event.clear()
        if found := await asyncio.to_thread(listener.boards):
            yield found
            sent_at = loop.time()
        found = await asyncio.to_thread(listener.rest)
        if loop.time() - engine_at >= ENGINE:
            engine_at = loop.time()
            found += listener.engine()
        if not found and loop.time() - sent_at >= HEARTBEAT:
            found = b": heartbeat\n\n"
        if found:
            yield found
            sent_at = loop.time()
        try:
            async with asyncio.timeout(max(0.05, engine_at + ENGINE - loop.time())):
                await event.wait()
        except TimeoutError:
            continue
        if (left := sent_at + MOST_OFTEN - loop.time()) > 0:
            await asyncio.sleep(left)
    found = listener.news()
    if found:
        yield found
