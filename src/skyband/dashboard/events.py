"""What is sent to a browser that listens: only what has changed since it was last told, however slowly it reads.

Nothing is queued. Each listener knows what it has been told; when it can take more, it is told what is newest. One that
is slow skips what came between, and nobody waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from hashlib import blake2b
from typing import Any

from skyband.dashboard.board_state import Show, state_of
from skyband.dashboard.boards import board, summaries
from skyband.dashboard.engine_view import EngineView
from skyband.dashboard.wire import packed

__all__ = ["MOST_LISTENERS", "Bell", "Listener", "listen"]

MOST_LISTENERS = 64
MOST_OFTEN = 0.1  # seconds between two messages about answers
ENGINE = 1.0
HEARTBEAT = 10.0


class Bell:
    """Rung by any thread, heard by all listeners of the server's loop, of which there are `most` at most."""

    def __init__(self, most: int = MOST_LISTENERS) -> None:
        self.most = most
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: set[asyncio.Event] = set()
        self.closed = False

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """From here on, `loop` is where listeners live."""
        self._loop = loop

    def ring(self) -> None:
        """Wake all listeners; called by the pipeline, so it must not take long."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            try:
                loop.call_soon_threadsafe(self._wake)
            except RuntimeError:  # it was closed just now
                return

    def close(self) -> None:
        """Let all listeners go."""
        self.closed = True
        self.ring()

    def join(self) -> asyncio.Event | None:
        """An event that is set when the bell rings; None where enough listen already. Whoever joined must leave."""
        if len(self._waiting) >= self.most:
            return None
        event = asyncio.Event()
        self._waiting.add(event)
        return event

    def leave(self, event: asyncio.Event) -> None:
        """Do not set it any more."""
        self._waiting.discard(event)

    @property
    def listeners(self) -> int:
        """How many listen."""
        return len(self._waiting)

    def _wake(self) -> None:
        for event in self._waiting:
            event.set()


class Listener:
    """What one browser has been told, and what is new for it."""

    def __init__(self, show: Show, engine: EngineView, watched: Sequence[tuple[str, str | None]]) -> None:
        self._show, self._engine = show, engine
        self._watched = list(watched)
        self._boards: dict[tuple[str, str | None], tuple[int, bytes]] = {}  # the window that was told, and how
        self._version = self._settled = 0  # of the history: what was told, and what there is
        self._asked = show.version
        self._ended = False
        self._count = 0

    def news(self) -> bytes:
        """What has changed since the last call, as events; empty if nothing has."""
        return self.boards() + self.rest()

    def boards(self) -> bytes:
        """What is looked at most closely, and so told first: which queries there are, and the watched boards."""
        found = []
        self._settled = self._show.refresh()
        if self._show.version != self._asked:
            self._asked = self._show.version
            found.append(self._event("state", state_of(self._show)))
        if self._settled != self._version:
            found += [self._event("board", newest) for watched in self._watched if (newest := self._newest(*watched))]
        return b"".join(found)

    def rest(self) -> bytes:
        """Of all queries that have changed, a few numbers; to be called after `boards`."""
        found = []
        if self._settled != self._version:
            asked, names = self._show.asked(), self._show.history.changed_since(self._version)
            changed = summaries(self._show.history, [name for name in names if name in asked])
            self._version = self._settled
            if changed:
                found.append(self._event("summary", changed))
        if self._show.ended and not self._ended:
            self._ended = True
            found.append(self._event("end", {}))
        return b"".join(found)

    def _newest(self, name: str, group: str | None) -> dict[str, Any] | None:
        """The newest board, if it is another than was told."""
        history, watched = self._show.history, (name, group)
        found = history.find(name, group)
        number, told = self._boards.get(watched, (-1, b""))
        if found is None or found.window.number == number:
            return None
        newest = board(history, name, group)
        if newest is None:
            return None
        # Of a batch that was run again the windows are others and say the same, but for what they are compared with.
        says = packed([newest["group"], newest["moment"], [(row["id"], row["score"]) for row in newest["rows"]]])
        digest = blake2b(says, digest_size=16).digest()
        self._boards[watched] = (found.window.number, digest)
        return None if digest == told else newest

    def engine(self) -> bytes:
        """How the streams are doing, as an event."""
        return self._event("engine", self._engine.now())

    def _event(self, name: str, content: Any) -> bytes:
        self._count += 1
        return b"id: %d\nevent: %s\ndata: %s\n\n" % (self._count, name.encode(), packed(content))


async def listen(bell: Bell, event: asyncio.Event, listener: Listener) -> AsyncIterator[bytes]:
    """Events for one browser, until it goes or the server does; `event` is set when the bell rings."""
    loop = asyncio.get_running_loop()
    spoken = engine_at = float("-inf")
    yield b"retry: 1000\n\n"
    while not bell.closed:
        event.clear()
        if found := await asyncio.to_thread(listener.boards):
            yield found
            spoken = loop.time()
        found = await asyncio.to_thread(listener.rest)
        if loop.time() - engine_at >= ENGINE:
            engine_at = loop.time()
            found += listener.engine()
        if not found and loop.time() - spoken >= HEARTBEAT:
            found = b": still here\n\n"
        if found:
            yield found
            spoken = loop.time()
        try:
            async with asyncio.timeout(max(0.05, engine_at + ENGINE - loop.time())):
                await event.wait()
        except TimeoutError:
            continue
        if (left := spoken + MOST_OFTEN - loop.time()) > 0:
            await asyncio.sleep(left)
    found = listener.news()
    if found:
        yield found
