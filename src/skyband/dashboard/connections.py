"""The listening address of a server inside a job, and limits on its connections.

A client that opens connections and sends nothing takes descriptors away from the process. So the number of connections
is limited, far below the limit of descriptors, and the server closes those beyond it at once. A connection must send a
complete request within ten seconds, and read the response within a minute. If the process has no descriptor left, the
server accepts and closes new connections with a reserved descriptor, and serves again once descriptors are free.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from skyband.errors import InvalidInputError
from skyband.rate_limited_log import RateLimitedLog

__all__ = ["USUAL_PORT", "Address", "Connections", "Listening", "address_of", "bound", "most_connections"]

USUAL_PORT = 8765
FIRST = 10.0  # seconds until a request must be complete, from the connect or from the previous response
SLOWEST = 60.0  # seconds that a client may block a write
FEWEST = 4
BACKLOG = 1024  # connections that the system holds until they are accepted; it may allow fewer
PAUSE = 0.05  # seconds to wait if the reserved descriptor does not help
_OUT_OF = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: application/json\r\n"
    b'Content-Length: 34\r\n\r\n{"error":"too many connections."}\n'
)
_QUIET = RateLimitedLog(logging.getLogger("skyband.dashboard"))
Peer = tuple[str, int]


class Address(NamedTuple):
    """A host and a port. Port 0 selects any free port."""

    host: str
    port: int | None  # None: the default port, or any free port if it is taken

    @property
    def is_any(self) -> bool:
        """Whether it stands for all addresses of this machine."""
        return self.host in ("0.0.0.0", "::")

    @property
    def text(self) -> str:
        """The host as written in a URL."""
        return f"[{self.host}]" if ":" in self.host else self.host


def address_of(text: str | None, option: str, usual: int = USUAL_PORT) -> Address:
    """Parse a port or an address.

    >>> address_of("9000", "--page-at"), address_of("[::1]:0", "--page-at").host
    (Address(host='127.0.0.1', port=9000), '::1')
    """
    if text is None:
        return Address("127.0.0.1", None)
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    if not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65535 or (":" in host and not text.startswith("[")):
        raise InvalidInputError(
            f"{option} must be a port such as {usual} or an address such as 127.0.0.1:{usual}, got {text!r}. "
            "Nothing was started."
        )
    return Address(host or "127.0.0.1", int(port))


def bound(address: Address, option: str) -> socket.socket:
    """Return a listening socket. Without a port, use the default port, or any free port if it is taken."""
    ports = [USUAL_PORT, 0] if address.port is None else [address.port]
    for port in ports:
        try:
            family = socket.getaddrinfo(address.host, port, type=socket.SOCK_STREAM)[0][0]
            return socket.create_server((address.host, port), family=family, backlog=BACKLOG)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and port != ports[-1]:
                continue
            raise InvalidInputError(
                f"{option}: cannot listen on {address.text}:{port} ({error.strerror or error}). Nothing was started. "
                "Choose another port, or an address of this machine."
            ) from error
    raise AssertionError("one of the ports was tried last")


def most_connections(most: int, share: int, *, raise_limit: bool = False) -> int:
    """Return the limit of connections: `most`, or 1/`share` of the process's descriptor limit if that is less.

    `raise_limit` first raises the soft limit of this process, as far as its hard limit allows: many systems start
    processes with 1,024 descriptors. A process that serves and does nothing else can do so.

    >>> 4 <= most_connections(128, share=8) <= 128
    True
    """
    try:
        import resource  # noqa: PLC0415 - not available on Windows
    except ImportError:
        return most
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most * share
    if raise_limit and soft < wanted and soft != resource.RLIM_INFINITY:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, allowed), hard))
            soft = max(soft, allowed)
    return most if soft == resource.RLIM_INFINITY else max(FEWEST, min(most, soft // share))


class _Open:
    """An open connection and its timers."""

    def __init__(self, socket_: socket.socket) -> None:
        self.socket = socket_
        self.since = time.monotonic()  # start of the idle time
        self.requests = 0  # requests in progress
        self.sending: float | None = None  # start of the current write

    def is_late(self, now: float) -> bool:
        """Return whether the connection exceeded its idle time or its write time."""
        if self.sending is not None and now - self.sending > SLOWEST:
            return True
        return not self.requests and now - self.since > FIRST


class Connections:
    """The open connections of a server. Thread-safe."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._open: dict[Peer, _Open] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        with self._lock:
            self._drop_closed()
            return len(self._open)

    def admit(self, found: socket.socket, peer: Any) -> bool:
        """Register a connection; return False if the limit is reached."""
        with self._lock:
            if len(self._open) >= self.most:
                self._drop_closed()
            if len(self._open) >= self.most:
                return False
            self._open[_key(peer)] = _Open(found)
            return True

    @contextmanager
    def request(self, peer: Any) -> Iterator[_Open | None]:
        """Suspend the idle timer of a client's connection while the server answers its request."""
        with self._lock:
            found = None if peer is None else self._open.get(_key(peer))
            if found is not None:
                found.requests += 1
        try:
            yield found
        finally:
            if found is not None:
                with self._lock:
                    found.requests -= 1
                    found.since, found.sending = time.monotonic(), None

    def sweep(self) -> None:
        """Close the connections that exceeded their time. Call it about once a second."""
        now = time.monotonic()
        with self._lock:
            self._drop_closed()
            late = [one.socket for one in self._open.values() if one.is_late(now)]
        for one in late:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)  # the thread that serves it then closes it

    def _drop_closed(self) -> None:
        for peer in [peer for peer, one in self._open.items() if one.socket.fileno() == -1]:
            del self._open[peer]


class Listening(socket.socket):
    """A listening socket that accepts connections only up to the limit."""

    def __init__(self, listening: socket.socket, connections: Connections) -> None:
        super().__init__(fileno=listening.detach())
        self._connections = connections
        self._reserve: int | None = _reserved()

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept the next connection. If it exceeds a limit, close it and raise BlockingIOError."""
        try:
            found, peer = super().accept()
        except OSError as error:
            if error.errno not in _OUT_OF:
                raise
            _QUIET.warning("rejected a connection: %s", error.strerror)
            self._reject_next()
            raise BlockingIOError(errno.EAGAIN, "no file descriptor left") from error
        if self._connections.admit(found, peer):
            return found, peer
        _QUIET.warning("rejected a connection: the limit of %d open connections is reached", self._connections.most)
        with found, suppress(OSError):
            found.setblocking(False)
            found.send(_FULL)
        raise BlockingIOError(errno.EAGAIN, "too many connections")

    def close(self) -> None:
        """Stop listening."""
        self._give_up_reserve()
        super().close()

    def _reject_next(self) -> None:
        """Close the first waiting connection. Otherwise the event loop would retry it without pause."""
        self._give_up_reserve()
        try:
            super().accept()[0].close()
        except OSError:
            time.sleep(PAUSE)
        self._reserve = _reserved()

    def _give_up_reserve(self) -> None:
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None


def _reserved() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return None


def _key(peer: Any) -> Peer:
    return str(peer[0]), int(peer[1])
