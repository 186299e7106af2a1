"""S3 on this machine: S3Proxy over a folder, in a process of its own."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess

from pyarrow.fs import S3FileSystem

from skyband import java
from skyband.spark.ivy import Module
from tests.downloads import fetched
from tests.servers import free_port
from tests.waiting import wait_for

S3PROXY = Module.parse("org.gaul:s3proxy:4.1.0")
SHA256 = "a4d025969aaf796616ed4b1e2491d87d455ce84bb28cb9db086b2e6aaa68b48d"
USER, PASSWORD = "local", "correct horse"
PROPERTIES = """
s3proxy.authorization=aws-v2-or-v4
s3proxy.endpoint=http://{host}:{port}
s3proxy.identity={user}
s3proxy.credential={password}
s3proxy.read-only-blobstore={read_only}
jclouds.provider=filesystem-nio2
jclouds.filesystem.basedir={folder}/objects
"""


def jar():
    """The server's jar; NotFetchedError where it cannot be had."""
    return fetched(S3PROXY, "jar-with-dependencies", SHA256)


class S3:
    """A server in a process of its own; its objects outlive a restart."""

    def __init__(self, folder, *, read_only=False, host="127.0.0.1", variables=None):
        self.host, self.port, self.folder, self._process = host, free_port(), folder, None
        self._variables = variables or {}
        self._settings = folder / f"{self.port}.properties"
        (folder / "objects").mkdir(exist_ok=True)
        values = {
            "host": host,
            "port": self.port,
            "user": USER,
            "password": PASSWORD,
            "read_only": str(read_only).lower(),
        }
        self._settings.write_text(PROPERTIES.format(**values, folder=folder))
        self.start()

    def start(self):
        command = [java.check().path, "-Xmx256m", "-XX:+UseSerialGC", "-jar", jar(), "--properties", self._settings]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                list(map(str, command)),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **self._variables},
            )
        wait_for(self._is_ready)

    @property
    def pid(self):
        """Of the process that runs now."""
        return self._process.pid

    def _is_ready(self):
        assert self._process.poll() is None, f"it has ended: {(self.folder / 'server.log').read_text()[-2000:]}"
        with contextlib.suppress(OSError), socket.create_connection((self.host, self.port), 1):
            return True
        return False

    def kill(self):
        """End it by its process id, as a power cut would."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(60)

    def make_bucket(self, name):
        S3FileSystem(**self.options(), allow_bucket_creation=True).create_dir(name)

    def options(self):
        """Of Arrow's file system."""
        return {
            "access_key": USER,
            "secret_key": PASSWORD,
            "endpoint_override": f"{self.host}:{self.port}",
            "scheme": "http",
            "region": "us-east-1",
        }
