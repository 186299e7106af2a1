"""A server that runs beside something more important: its address, and connections, few and none that only waits.

A client that opens connections and sends nothing takes descriptors away from the process. So the number of connections
is limited, far below the limit of descriptors, and the server closes those beyond it at once. A connection must send a
whole request within ten seconds, and read what it is sent within a minute. If the process has no descriptor left, the
server closes connections with one that it keeps in reserve, and serves again as soon as descriptors are free.
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
FIRST = 10.0  # seconds until a request is whole, from the start or from the reply before
SLOWEST = 60.0  # seconds that a client may take nothing of what it is sent
FEWEST = 4
PAUSE = 0.05  # seconds, where not even the reserve helps
_OUT_OF = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 21\r\n\r\ntoo many connections\n"
_QUIET = RateLimitedLog(logging.getLogger("skyband.dashboard"))
Peer = tuple[str, int]


class Address(NamedTuple):
    """A host and a port; 0 is any that is free."""

    host: str
    port: int | None  # None: the usual one, or any that is free

    @property
    def is_any(self) -> bool:
        """Whether it is all addresses of this machine."""
        return self.host in ("0.0.0.0", "::")

    @property
    def text(self) -> str:
        """The host as a URL has it."""
        return f"[{self.host}]" if ":" in self.host else self.host


def address_of(text: str | None, option: str, usual: int = USUAL_PORT) -> Address:
    """Read an address.

    >>> address_of("9000", "--page-at"), address_of("[::1]:0", "--page-at").host
    (Address(host='127.0.0.1', port=9000), '::1')
    """
    if text is None:
        return Address("127.0.0.1", None)
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    if not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65535 or (":" in host and not text.startswith("[")):
        raise InvalidInputError(
            f"{option} {text!r} is no port such as {usual}, nor an address such as 127.0.0.1:{usual}; "
            "nothing was started."
        )
    return Address(host or "127.0.0.1", int(port))


def bound(address: Address, option: str) -> socket.socket:
    """A socket that listens there. Where nobody named a port it is the usual one, or another if that is taken."""
    ports = [USUAL_PORT, 0] if address.port is None else [address.port]
    for port in ports:
        try:
            family = socket.getaddrinfo(address.host, port, type=socket.SOCK_STREAM)[0][0]
            return socket.create_server((address.host, port), family=family, backlog=128)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and port != ports[-1]:
                continue
            raise InvalidInputError(
                f"{option} {address.text}:{port}: the page cannot be served there ({error.strerror or error}), so "
                "nothing was started. Give another port, or a host of this machine."
            ) from error
    raise AssertionError("one of the ports was tried last")


def most_connections(most: int, share: int) -> int:
    """How many connections a server may have: `most`, or this share of the descriptors that the process may have.

    >>> 4 <= most_connections(128, share=8) <= 128
    True
    """
    try:
        import resource  # noqa: PLC0415 - there is none on Windows
    except ImportError:
        return most
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if soft == resource.RLIM_INFINITY else max(FEWEST, min(most, soft // share))


class _Open:
    """A connection, and what it is doing."""

    def __init__(self, socket_: socket.socket) -> None:
        self.socket = socket_
        self.since = time.monotonic()  # it has asked for nothing
        self.requests = 0  # that are being answered
        self.sending: float | None = None  # since when it is to take something

    def is_late(self, now: float) -> bool:
        """Whether it only waits."""
        if self.sending is not None and now - self.sending > SLOWEST:
            return True
        return not self.requests and now - self.since > FIRST


class Connections:
    """The open connections of a server; used by any of its threads."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._open: dict[Peer, _Open] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        with self._lock:
            self._drop_closed()
            return len(self._open)

    def admit(self, found: socket.socket, peer: Any) -> bool:
        """Whether there is room for one more; if so, it is counted."""
        with self._lock:
            if len(self._open) >= self.most:
                self._drop_closed()
            if len(self._open) >= self.most:
                return False
            self._open[_key(peer)] = _Open(found)
            return True

    @contextmanager
    def request(self, peer: Any) -> Iterator[_Open | None]:
        """While a request of a client is being answered, it may take its time."""
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
        """Close those that only wait; to be called about once a second."""
        now = time.monotonic()
        with self._lock:
            self._drop_closed()
            late = [one.socket for one in self._open.values() if one.is_late(now)]
        for one in late:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)  # whoever serves it notices, and closes it

    def _drop_closed(self) -> None:
        for peer in [peer for peer, one in self._open.items() if one.socket.fileno() == -1]:
            del self._open[peer]


class Listening(socket.socket):
    """A listening socket that lets in only as many as there is room for."""

    def __init__(self, listening: socket.socket, connections: Connections) -> None:
        super().__init__(fileno=listening.detach())
        self._connections = connections
        self._reserve: int | None = _reserved()

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection; where it cannot be let in, it is closed, and there is none for now."""
        try:
            found, peer = super().accept()
        except OSError as error:
            if error.errno not in _OUT_OF:
                raise
            _QUIET.warning("a connection was turned away: %s", error.strerror)
            self._turn_away()
            raise BlockingIOError(errno.EAGAIN, "no descriptor is left") from error
        if self._connections.admit(found, peer):
            return found, peer
        _QUIET.warning("a connection was turned away: %d are open, and there may be no more", self._connections.most)
        with found, suppress(OSError):
            found.setblocking(False)
            found.send(_FULL)
        raise BlockingIOError(errno.EAGAIN, "too many connections")

    def close(self) -> None:
        """Listen no longer."""
        self._give_up_reserve()
        super().close()

    def _turn_away(self) -> None:
        """Close the connection that waits first: it would be asked for again and again otherwise."""
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
