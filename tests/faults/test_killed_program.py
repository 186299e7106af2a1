"""A program with `start` and a sink of Spark's own, killed without warning: every answer is there once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from tests.faults.process import newest
from tests.sharding import cases
from tests.spark import bounded_run
from tests.spark.frames import read_sink, write_files
from tests.waiting import wait_for

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
    """Kill it when it has come so far, unless it has ended by itself."""
    wait_for(lambda: reached() or process.poll() is not None, 600, pause=0.01)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() in (0, -signal.SIGKILL), log.read_text()


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
    # On a busy machine the moment may be missed; then all is right, and it is tried again.
    found = (is_killed_in_the_middle(tmp_path / name, tally) for name in "abc")
    assert any(found), "it was never killed in the middle"


def is_killed_in_the_middle(folder, tally):
    folder.mkdir()
    write_files(folder / "in", bounded_run.batches(FILES))
    for blow in (await_batch, await_written):
        blow(begin(folder), folder)
        tally.fault("kill -9 of the driver")
    in_the_middle = newest(folder / "state" / "offsets") < FILES
    process = begin(folder)
    assert process.wait(600) == 0, (folder / "log").read_text()
    tally.check_answers(cases.answered(read_sink(folder / "out"), bounded_run.POSED), bounded_run.wanted(FILES))
    return in_the_middle
