"""Where Spark's Python workers come from: a process with one thread that has loaded what they run."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from skyband.spark import worker_daemon


def looked(batches):
    """What a worker says of itself; of the process that it was forked from, by its command."""
    for _ in batches:
        with open(f"/proc/{os.getppid()}/cmdline") as file:
            parent = file.read()
        yield pa.RecordBatch.from_pydict(
            {
                "parent": [parent.replace("\0", " ")],
                "threads": [len(os.listdir(f"/proc/{os.getppid()}/task"))],
                "frozen": [gc.get_freeze_count()],
                "kernels": ["numba" in sys.modules and "skyband.topk.shard" in sys.modules],
            }
        )


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="the system does not tell of threads")
def test_workers_are_forked_from_what_is_loaded(spark):
    found = spark.range(1).mapInArrow(looked, "parent string, threads long, frozen long, kernels boolean").toArrow()
    worker = found.to_pylist()[0]
    assert "-m skyband.spark.worker_daemon pyspark.worker" in worker["parent"]
    assert worker["threads"] == 1, "a fork copies no other, nor what it has locked"
    assert worker["kernels"]
    assert worker["frozen"] > 100_000, "who looks for garbage passes over what was loaded"


def test_with_more_threads_it_is_sparks_own(monkeypatch):
    ran = []
    monkeypatch.setattr(sys, "argv", ["daemon", "pyspark.worker"])
    monkeypatch.setattr(worker_daemon, "threads", lambda: 2)
    monkeypatch.setattr(worker_daemon.daemon, "manager", lambda: pytest.fail("nothing may be forked from here"))
    monkeypatch.setattr(os, "execv", lambda program, arguments: ran.append((program, arguments)) or sys.exit())
    with pytest.raises(SystemExit):
        worker_daemon.main()
    assert ran == [(sys.executable, [sys.executable, "-m", "pyspark.daemon", "pyspark.worker"])]


def test_workers_for_planning_load_nothing(monkeypatch):
    began = []
    monkeypatch.setattr(sys, "argv", ["daemon", "pyspark.sql.worker.plan_data_source_read"])
    monkeypatch.setattr(worker_daemon, "threads", lambda: pytest.fail("nothing was loaded"))
    monkeypatch.setattr(worker_daemon.daemon, "manager", lambda: began.append(gc.get_freeze_count()))
    worker_daemon.main()
    assert began == [gc.get_freeze_count()]
