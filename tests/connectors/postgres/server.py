"""PostgreSQL as the machine has it."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path
from urllib.parse import quote

import psycopg

from tests.servers import PASSWORD, Server


def binaries():
    """The folder of the newest server there is, or None."""
    known = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    on_path = shutil.which("initdb")
    there = [*known, *([Path(on_path).parent] if on_path else [])]
    return next((path for path in there if (path / "initdb").exists()), None)


class Postgres(Server):
    """A cluster with an owner, `boss`, passwords for everybody, and TLS for who wants it."""

    def __init__(self, host="127.0.0.1", **settings):
        super().__init__()
        self.host = host
        self._settings = settings
        self._bin = binaries()
        secret = self.folder / "secret"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self.data = self.folder / "data"
        self.run(
            self._bin / "initdb", "-D", self.data, "-U", "boss", "--auth=scram-sha-256", f"--pwfile={secret}",
            "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions",
        )  # fmt: skip
        with (self.data / "pg_hba.conf").open("a") as file:
            file.write("host all all samenet scram-sha-256\n")
        self._certify()
        self.start()

    def _certify(self):
        """A certificate that signs itself, for 127.0.0.1."""
        self.certificate = self.data / "server.crt"
        self.run(
            "openssl", "req", "-new", "-x509", "-days", "2", "-nodes", "-newkey", "rsa:2048", "-subj", "/CN=localhost",
            "-addext", "subjectAltName=IP:127.0.0.1", "-out", self.certificate, "-keyout", self.data / "server.key",
        )  # fmt: skip
        (self.data / "server.key").chmod(0o600)

    def start(self):
        settings = {
            "listen_addresses": self.host,
            "port": self.port,
            "unix_socket_directories": self.folder,
            "fsync": "off",
            "ssl": "on",
            "shared_buffers": "64MB",
            "max_connections": 30,
            **self._settings,
        }
        self.begin(self._bin / "postgres", "-D", self.data, *(f"--{name}={value}" for name, value in settings.items()))

    def crash(self):
        """End at once, as if the power had gone: the next start recovers."""
        self.stop(signal.SIGQUIT)

    def is_ready(self):
        try:
            with self.connect():
                return True
        except psycopg.OperationalError:
            return False

    def connect(self, database="postgres", **more):
        return psycopg.connect(self.url(database=database), autocommit=True, **more)

    def url(self, user="boss", password=PASSWORD, database="postgres"):
        secret = f":{quote(password, safe='')}" if password else ""
        return f"postgresql://{user}{secret}@{self.host}:{self.port}/{database}"

    def execute(self, statement, values=None, database="postgres"):
        with self.connect(database) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else None


def version():
    return subprocess.run([binaries() / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
