"""The same case over Spark Connect, and on a cluster that loses an executor on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sharding import cases
from tests.spark import bounded_run
from tests.spark.frames import read_sink, write_files
from tests.waiting import wait_for

FILES = 3
PATIENCE = 600


def begin(folder, master, **environ):
    write_files(folder / "in", bounded_run.batches(FILES))
    with (folder / "log").open("w") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.spark.bounded_run", str(folder), master],
            env={**bounded_run.environment(), **environ},
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=folder,
        )


def end(process):
    """The whole process group: a cluster's executors too."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def executors(process):
    """The executors' process ids, among the processes of the program's session."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
            session = int((entry / "stat").read_text().rpartition(")")[2].split()[3])
        except (OSError, ProcessLookupError):
            continue
        if session == process.pid and b"CoarseGrainedExecutorBackend" in command and b"java" in command.split(b"\0")[0]:
            found.append(int(entry.name))
    return sorted(found)


def assert_complete(folder, tally):
    tally.check_answers(cases.answered(read_sink(folder / "out"), bounded_run.POSED), bounded_run.wanted(FILES))


@pytest.mark.long
def test_spark_connect(tmp_path, tally):
    process = begin(tmp_path, "remote", SPARK_TESTING="1")
    try:
        assert process.wait(PATIENCE) == 0, (tmp_path / "log").read_text()
    finally:
        end(process)
    assert_complete(tmp_path, tally)


def loses_an_executor(folder, tally):
    """Kill an executor when the first micro-batch is done; whether it was not the last, too."""
    folder.mkdir()
    process = begin(folder, "local-cluster[2,1,1024]")
    commits = folder / "state" / "commits"
    try:
        wait_for(lambda: (commits / "0").exists() or process.poll() is not None, PATIENCE, pause=0.02)
        for executor in executors(process)[:1]:
            os.kill(executor, signal.SIGKILL)
            tally.fault("kill -9 of an executor")
        in_the_middle = process.poll() is None and not (commits / str(FILES - 1)).exists()
        assert process.wait(PATIENCE) == 0, (folder / "log").read_text()
    finally:
        end(process)
    assert_complete(folder, tally)
    return in_the_middle


@pytest.mark.long
@pytest.mark.faults
def test_a_cluster_that_loses_an_executor(tmp_path, tally):
    # On a busy machine the moment may be missed; then all is right, and it is tried again.
    assert any(loses_an_executor(tmp_path / name, tally) for name in "abc"), "it was never killed in the middle"
