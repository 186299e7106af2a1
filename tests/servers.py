"""Servers of the tests' own: on a free port of this machine, in a folder that goes with them, ended by their id."""

from __future__ import annotations

import contextlib
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

from tests.waiting import wait_for

PASSWORD = "s3cret-t0 %/@:open"  # needs escaping in a URL, and is in no message by chance


def free_port():
    """A port that stays free while its server restarts: no system gives one below 32768 to who connects somewhere."""
    while True:
        port = random.SystemRandom().randrange(15_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


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
        def is_ready():
            assert self._process.poll() is None, f"the server has ended: {(self.folder / 'log').read_text()[-2000:]}"
            return self.is_ready()

        wait_for(is_ready, pause=0.05)

    @property
    def pid(self):
        """Of the process that runs now."""
        return self._process.pid

    def stop(self, how=signal.SIGINT):
        self._process.send_signal(how)
        self._process.wait(300)

    def remove(self):
        if self._process is not None and self._process.poll() is None:
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
