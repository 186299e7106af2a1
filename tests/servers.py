"""Servers of the tests' own: on a free port of this machine, in a folder that goes with them, ended by their id."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

PASSWORD = "s3cret-t0 %/@:open"  # needs escaping in a URL, and is in no message by chance


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


class Server:
    """A process that somebody without rights runs, because servers refuse to be run by root."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="skyband-", dir="/tmp"))  # a socket's path must be short
        self.port = free_port()
        self._process = None
        self._as = {}
        if os.geteuid() == 0:
            names = [user.pw_name for user in pwd.getpwall()]
            user = pwd.getpwnam(next(name for name in ("postgres", "nobody", *names) if name in names))
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            os.chown(self.folder, user.pw_uid, user.pw_gid)

    def run(self, *command):
        subprocess.run(list(map(str, command)), check=True, capture_output=True, cwd=self.folder, **self._as)

    def begin(self, *command):
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                list(map(str, command)), cwd=self.folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL, **self._as
            )
        self._await()

    def _await(self):
        deadline = time.monotonic() + 60
        while not self.is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server does not start: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def stop(self, how=signal.SIGINT):
        self._process.send_signal(how)
        self._process.wait(60)

    def remove(self):
        if self._process is not None and self._process.poll() is None:
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
