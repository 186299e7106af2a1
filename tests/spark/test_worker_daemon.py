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


def test_what_a_task_loads_is_collected_once(monkeypatch):
    visible, frozen = [], []
    monkeypatch.setattr(worker_daemon.gc, "collect", lambda: 3)
    monkeypatch.setattr(worker_daemon.gc, "get_objects", lambda: visible)
    monkeypatch.setattr(worker_daemon.gc, "freeze", lambda: (frozen.append(len(visible)), visible.clear()))
    collector = worker_daemon.Collector()
    visible += range(worker_daemon.MANY)
    assert (collector.collect(), frozen) == (3, []), "a task that loads nothing leaves what it has to the collector"
    visible += range(10)
    assert (collector.collect(), frozen) == (3, [worker_daemon.MANY + 10])
    assert (collector.collect(), len(frozen)) == (3, 1)
    for _ in range(2 * worker_daemon.MOST_FREEZES):
        visible += range(2 * worker_daemon.MANY)
        collector.collect()
    assert len(frozen) == worker_daemon.MOST_FREEZES, "what becomes garbage later is bounded"


def test_a_task_after_loading_leaves_few_objects(spark):
    def loads(batches):
        kept = getattr(gc, "kept", None)
        if kept is None:  # as loading compiled code does
            gc.kept = [[number] for number in range(3 * worker_daemon.MANY)]
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"visible": [len(gc.get_objects())], "later": [kept is not None]})

    seen = []
    for _ in range(20):
        seen += spark.range(1).coalesce(1).mapInArrow(loads, "visible long, later boolean").toArrow().to_pylist()
        if seen[-1]["later"]:
            break
    assert seen[-1]["later"], "no worker ran two tasks"
    assert seen[-1]["visible"] < worker_daemon.MANY
