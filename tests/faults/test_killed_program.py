"""A program with `start` and a sink of Spark's own, killed without warning: every answer is there once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

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
    deadline = time.monotonic() + 600
    while not reached():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def await_batch(process, folder):
    """In the middle of a batch: it is planned, and not committed."""
    state = folder / "state"
    kill_when(
        process,
        lambda: newest(state / "offsets") >= 1 and newest(state / "commits") < newest(state / "offsets"),
        folder / "log",
    )


def await_written(process, folder):
    """When the sink has just taken a batch, which may be before Spark has noted it."""
    first = max(newest(folder / "state" / "offsets"), 0)
    kill_when(process, lambda: newest(folder / "out" / "_spark_metadata") > first + 1, folder / "log")


@pytest.mark.long
def test_killed_and_taken_up(tmp_path, tally):
    write_files(tmp_path / "in", bounded_run.batches(FILES))
    for blow in (await_batch, await_written):
        blow(begin(tmp_path), tmp_path)
        tally.fault("kill -9 of the driver")
    assert newest(tmp_path / "state" / "offsets") < FILES, "it was killed in the middle"
    process = begin(tmp_path)
    assert process.wait(600) == 0, (tmp_path / "log").read_text()
    tally.check_answers(cases.answered(read_sink(tmp_path / "out"), bounded_run.POSED), bounded_run.wanted(FILES))
