"""Where something is served: HOST:PORT as people write it, and a socket for it before anything else is begun."""

from __future__ import annotations

import errno
import re
import socket
from typing import NamedTuple

from skyband.errors import InvalidInputError

__all__ = ["USUAL_PORT", "Address", "address_of", "bound"]

USUAL_PORT = 8765


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
