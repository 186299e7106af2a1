"""Redis or Valkey, whichever the machine has."""

from __future__ import annotations

import shutil
import signal
from urllib.parse import quote

import redis

from tests.servers import PASSWORD, Server, free_port


def binary():
    """The server there is, or None."""
    return next(filter(None, map(shutil.which, ("redis-server", "valkey-server"))), None)


class Redis(Server):
    """A server with a password, a port for TLS, and a file it writes everything to."""

    def __init__(self, host="127.0.0.1"):
        super().__init__()
        self.host = host
        self.tls_port = free_port()
        self.certificate = self.folder / "server.crt"
        self.run(
            "openssl", "req", "-new", "-x509", "-days", "2", "-nodes", "-newkey", "rsa:2048", "-subj", "/CN=localhost",
            "-addext", "subjectAltName=IP:127.0.0.1", "-out", self.certificate, "-keyout", self.folder / "server.key",
        )  # fmt: skip
        self.start()

    def start(self):
        settings = {
            "port": self.port,
            "bind": self.host,
            "requirepass": PASSWORD,
            "dir": self.folder,
            "save": "",
            "appendonly": "yes",
            "appendfsync": "no",
            "tls-port": self.tls_port,
            "tls-cert-file": self.certificate,
            "tls-key-file": self.folder / "server.key",
            "tls-ca-cert-file": self.certificate,
            "tls-auth-clients": "no",
        }
        self.begin(binary(), *(part for name, value in settings.items() for part in (f"--{name}", value)))

    def crash(self):
        self.stop(signal.SIGKILL)

    def is_ready(self):
        try:
            with self.connect() as client:
                return client.ping()
        except redis.RedisError:
            return False

    def connect(self):
        return redis.Redis(self.host, port=self.port, password=PASSWORD, decode_responses=True)

    def url(self, password=PASSWORD, *, tls=False):
        secret = f":{quote(password, safe='')}@" if password else ""
        return f"redis{'s' if tls else ''}://{secret}{self.host}:{self.tls_port if tls else self.port}/0"
