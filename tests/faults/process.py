"""`skyband run` as a process of its own, and what can be done to it."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.faults import work
from tests.spark.bounded_run import environment

_LOG = logging.getLogger(__name__)
SLOW = "(Python worker failed to connect back)"
STOPPING = 180  # seconds; however long it hangs, it is ended sooner
CUT_OFF = "did not stop in time"
PATIENCE = 300  # seconds; a machine that does other things besides may need them


class Driver:
    """A run of a workload file that can be killed and started again; its log grows with each."""

    def __init__(self, file, *options, **variables):
        self._file, self._options, self._variables = file, options, variables
        self.log = file.with_suffix(".log")
        self.process = None
        self.lost_java = False  # whether it was Java alone that was killed last

    def set(self, name, value):
        """Set an environment variable of the next start."""
        self._variables[name] = value

    def with_options(self, *options):
        """Another process of the same run, with other options."""
        return Driver(self._file, *options, **self._variables)

    def start(self):
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "skyband.cli", "run", str(self._file), *self._options],
                env={**environment(), "TMPDIR": str(self._file.parent), **self._variables},
                stdout=log,
                stderr=log,
                start_new_session=True,  # so that all that it starts is known by its session
            )

    def kill(self, victim="everything"):
        """`everything` at once, the `driver` in Python, or the `java` below it; nothing of it lives on."""
        self.lost_java = False
        if victim == "everything":
            for pid in self.members():
                _kill(pid)
        elif victim == "driver":
            _kill(self.process.pid)
        else:  # where there is none yet, the driver
            java = self.java()
            self.lost_java = java is not None
            _kill(java or self.process.pid)
        code = self.ended()
        self.wait_until(lambda: not self.members(), "all that it started ends with it")
        return code

    def ended(self, seconds=PATIENCE):
        """Wait for its end; the exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it goes on for ever\n{self.told()}") from None

    def stop(self):
        """Have it end as a service is ended."""
        self.process.terminate()
        code = self.ended(STOPPING)
        if CUT_OFF in self.told():  # on a machine that is busy; nothing may be lost by it
            _LOG.warning("a stream was cut off\n%s", self.told())
        return code

    def end(self):
        """Whatever has happened, nothing is left."""
        for pid in self.members():
            _kill(pid)
        if self.process is not None:
            self.process.wait()

    def is_alive(self):
        return self.process.poll() is None

    def wait_until(self, true, why, seconds=PATIENCE, alive=False):
        """Wait; with `alive` the run must not end meanwhile."""
        until = time.monotonic() + seconds
        while not true():
            if alive and not self.is_alive():
                # Spark gives a worker ten seconds to start, and on a machine that is busy that may not be enough.
                assert SLOW in self.told().rpartition("the stream stopped")[2], f"it ended before {why}\n{self.told()}"
                self.start()
            assert time.monotonic() < until, f"{why}: not within {seconds} seconds\n{self.told()}"
            time.sleep(0.02)

    def await_answers(self, folder, wanted, sink="out", *, alive=True):
        """Wait until the last window of every query is written; with `alive` the run must not end meanwhile."""
        last, read = {}, -1
        for row in wanted:
            last[row[0]] = max(row[2], last.get(row[0], 0))

        def are_there():
            nonlocal read
            before, read = read, work.files_in(folder, sink)
            if read == before:
                return False  # nothing new since they were last read
            found = [rows for rows in work.found_in(folder, sink).values() if rows]
            return bool(found) and all({(row[0], row[2]) for row in rows} >= set(last.items()) for rows in found)

        self.wait_until(are_there, "the last windows are answered", 2 * PATIENCE, alive=alive)

    def members(self):
        """All processes of its session that have not ended."""
        if self.process is None:
            return []
        return [pid for pid, session, state in _processes() if session == self.process.pid and state != "Z"]

    def java(self):
        """The process that runs Spark, if there is one."""
        for pid in self.members():
            try:
                if Path(f"/proc/{pid}/exe").resolve().name == "java":
                    return pid
            except OSError:
                continue
        return None

    def told(self):
        """The end of what it has said."""
        return "\n".join(self.log.read_text().splitlines()[-40:])


def newest(folder):
    """The largest number among the files of a folder of Spark's: a micro-batch."""
    return max((int(path.name) for path in folder.glob("[0-9]*") if path.name.isdigit()), default=-1)


def _processes():
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        yield int(entry.name), int(fields[3]), fields[0]


def _kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
