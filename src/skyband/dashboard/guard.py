"""Access control: the Host header, the token, and security headers against other sites."""

from __future__ import annotations

import hmac
import ipaddress
import logging
import re
import socket
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from skyband.dashboard.connections import Connections
from skyband.dashboard.wire import packed
from skyband.rate_limited_log import RateLimitedLog

__all__ = ["Guard", "is_loopback"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_QUIET = RateLimitedLog(logging.getLogger("skyband.dashboard"))
_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_EVENTS = frozenset({"/api/events", "/api/v1/events"})
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
]


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached only from this machine.

    >>> is_loopback("localhost"), is_loopback("127.0.0.2"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return host.lower() in _NAMES or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """Middleware that rejects requests with a foreign Host header, from another site, or without the token.

    Changes always need the token. Reading needs it too if the page listens on a non-loopback address.
    """

    def __init__(
        self, app: App, host: str, token: str, *, control: bool, connections: Connections | None = None
    ) -> None:
        self._app = app
        # Not `or`: without open connections it is empty, and therefore false.
        self._connections = Connections(0) if connections is None else connections
        self._token = token.encode()
        self._control = control
        self._everything = not is_loopback(host)
        self._hosts = _NAMES | {host.lower()}
        self._any_address = host in ("", "0.0.0.0", "::")
        if self._any_address:
            self._hosts |= {socket.gethostname().lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request to the application, or reject it."""
        if scope["type"] != "http":
            return
        rejection = self._rejection(scope)
        with self._connections.request(scope.get("client")) as connection:

            async def guarded(message: Message) -> None:
                if message["type"] == "http.response.start":
                    message["headers"] = [*message.get("headers", []), *_HEADERS]
                if connection is not None:
                    connection.sending = time.monotonic()
                await send(message)
                if connection is not None:
                    connection.sending = None

            try:
                await (self._app(scope, receive, guarded) if rejection is None else _reject(guarded, *rejection))
            except Exception as error:  # the client got a 500; the log is rate-limited
                _QUIET.warning("the server failed to answer %s", scope["path"], error=error)

    def _rejection(self, scope: Scope) -> tuple[int, str] | None:
        headers = {name.lower(): value for name, value in scope["headers"]}
        if not self._is_known(headers.get(b"host", b"").decode("latin-1")):
            # DNS rebinding: a foreign name that resolves to this machine would let its site read this page.
            return 421, "this host name does not belong to this page. Open the address that the job printed."
        if not scope["path"].startswith("/api/"):
            return None
        if headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
            return 403, "requests from other sites are rejected."
        changes = scope["method"] not in ("GET", "HEAD")
        if changes and not self._control:
            return 403, "this page cannot change the workload. Start the job with --allow-control to allow it."
        if (changes or self._everything) and not self._has_token(scope, headers):
            return 403, "the token is missing or wrong. Open the address that the job printed when it started."
        return None

    def _has_token(self, scope: Scope, headers: dict[bytes, bytes]) -> bool:
        given = headers.get(b"x-skyband-token", b"") or headers.get(b"authorization", b"").removeprefix(b"Bearer ")
        if not given and scope["path"] in _EVENTS:  # EventSource cannot send custom headers
            given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0].encode()
        return hmac.compare_digest(given, self._token)

    def _is_known(self, header: str) -> bool:
        host = header.rpartition(":")[0] if re.fullmatch("[0-9]{1,5}", header.rpartition(":")[2]) else header
        host = host.strip("[]").lower().rstrip(".")
        if host in self._hosts:
            return True
        if not self._any_address:
            return False
        try:
            ipaddress.ip_address(host)  # an IP address is not subject to DNS rebinding
        except ValueError:
            return False
        return True


async def _reject(send: Send, status: int, why: str) -> None:
    body = packed({"error": why})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
