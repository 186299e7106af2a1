"""A standalone cluster whose workers have only Python: exact answers, lost workers, executors that come and go."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from skyband.cli.pack import pack
from tests.sharding import cases
from tests.spark import bounded_run, cluster_run
from tests.spark.cluster import PATIENCE, Cluster
from tests.spark.frames import read_sink, write_files
from tests.waiting import wait_for

FILES = 4
SHARDS = 3  # neither the number of cores nor a multiple of it
PROGRAM = Path(cluster_run.__file__)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    archive = folder / "environment.tar.gz"
    pack(archive, Console(stderr=True), kernels="native", compression=1)
    found = Cluster(folder, archive)
    try:
        found.add_workers("first", "second")
        yield found
    finally:
        found.stop()


def submitted(cluster, folder, files=FILES, **settings):
    """Submit the program with the first files; it waits for the others."""
    write_files(folder / "in", cluster_run.batches(FILES)[:files])
    given = {"spark.sql.shuffle.partitions": 2, **settings}
    return cluster.submit(PROGRAM, folder, SHARDS, FILES, settings=given, log=folder / "log")


def assert_complete(process, folder, tally):
    assert process.wait(PATIENCE) == 0, (folder / "log").read_text()[-8000:]
    tally.check_answers(cases.answered(read_sink(folder / "out"), bounded_run.POSED), cluster_run.wanted(FILES))


def compiled(cluster):
    """What executors have compiled: their user's cache had nothing."""
    return list((cluster.home / ".cache" / "skyband" / "kernels").glob("*.nbc"))


@pytest.mark.long
def test_a_cluster_gives_exact_answers(tmp_path, tally):
    """Master, worker and driver are processes. The workers' Python is that of this process, so nothing is packed."""
    (tmp_path / "cluster").mkdir()
    cluster = Cluster(tmp_path / "cluster")
    try:
        cluster.add_workers("only")
        process = submitted(cluster, tmp_path, **{"spark.cores.max": 1})
        try:
            assert_complete(process, tmp_path, tally)
        finally:
            cluster.end(process)
    finally:
        cluster.stop()


@pytest.mark.release
def test_workers_with_nothing_but_python_give_exact_answers(cluster, tmp_path, tally):
    """Most rows are of one group, tasks run twice if they are slow, and there are more shards than cores."""
    speculation = {"speculation": "true", "speculation.multiplier": 1.01, "speculation.quantile": 0.1}
    process = submitted(cluster, tmp_path, **{f"spark.{name}": value for name, value in speculation.items()})
    try:
        assert_complete(process, tmp_path, tally)
    finally:
        cluster.end(process)
    assert not compiled(cluster), "the archive has all kernels"
    assert "loaded the kernels in 2 tasks; 0 kernels were compiled" in (tmp_path / "log").read_text()


@pytest.mark.release
@pytest.mark.faults
def test_a_worker_is_killed_and_replaced(cluster, tmp_path, tally):
    process = submitted(cluster, tmp_path, 2)
    commits = tmp_path / "state" / "commits"
    try:
        wait_for(lambda: (commits / "0").exists() or process.poll() is not None, PATIENCE, pause=0.02)
        victim = next(name for name, found in cluster.executors().items() if found)
        cluster.kill_worker(victim)
        tally.fault("kill -9 of a worker with its executors")
        cluster.add_workers("third")
        write_files(tmp_path / "in", cluster_run.batches(FILES)[2:], begin=2)
        assert_complete(process, tmp_path, tally)
    finally:
        cluster.end(process)
    assert "Asked to launch executor" in cluster.log("third")


@pytest.mark.release
def test_executors_are_added_and_removed(cluster, tmp_path, tally):
    """Executors leave while the stream waits for the next file, and come back with it."""
    settings = {
        "enabled": "true",
        "shuffleTracking.enabled": "true",
        "shuffleTracking.timeout": "1s",
        "executorIdleTimeout": "1s",
        "cachedExecutorIdleTimeout": "1s",
        "schedulerBacklogTimeout": "1s",
        "initialExecutors": 2,
        "minExecutors": 0,
        "maxExecutors": 2,
    }
    process = submitted(
        cluster, tmp_path, 2, **{f"spark.dynamicAllocation.{name}": value for name, value in settings.items()}
    )
    running = lambda: sum(map(len, cluster.executors().values()))  # noqa: E731
    try:
        wait_for(lambda: (tmp_path / "state" / "commits" / "1").exists() or process.poll() is not None, PATIENCE)
        wait_for(lambda: not running() or process.poll() is not None, PATIENCE)
        assert process.poll() is None, (tmp_path / "log").read_text()[-8000:]
        write_files(tmp_path / "in", cluster_run.batches(FILES)[2:], begin=2)
        wait_for(lambda: running() or process.poll() is not None, PATIENCE)
        assert_complete(process, tmp_path, tally)
    finally:
        cluster.end(process)
