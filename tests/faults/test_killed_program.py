"""A program with `start` and a sink of Spark's own, killed twice without warning: every answer is there once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from tests.faults.process import newest
from tests.sharding import cases
from tests.spark import bounded_run
from tests.spark.frames import read_sink, write_files

FILES = 5


def begin(folder):
    """The program in a process group of its own, so that its Java dies with it."""
    with (folder / "log").open("a") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.spark.bounded_run", str(folder)],
            env=bounded_run.environment(),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def kill_when(process, reached, log):
    deadline = time.monotonic() + 180
    while not reached():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_killed_and_taken_up(tmp_path, tally):
    write_files(tmp_path / "in", bounded_run.batches(FILES))
    state, sink, log = tmp_path / "state", tmp_path / "out", tmp_path / "log"
    # In the middle of a batch: it is planned, and not committed.
    process = begin(tmp_path)
    kill_when(
        process, lambda: newest(state / "offsets") >= 1 and newest(state / "commits") < newest(state / "offsets"), log
    )
    first = newest(state / "offsets")
    # When the sink has just taken a batch, which may be before Spark has noted it.
    process = begin(tmp_path)
    kill_when(process, lambda: newest(sink / "_spark_metadata") > first + 1, log)
    assert newest(state / "offsets") < FILES, "it was killed in the middle"
    process = begin(tmp_path)
    assert process.wait(180) == 0, log.read_text()
    tally.fault("kill -9 of the driver", 2)
    tally.check_answers(cases.answered(read_sink(sink), bounded_run.POSED), bounded_run.wanted(FILES))
