"""A checkpoint continues with another number of shards and partitions, and every answer is the oracle's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from skyband.errors import SnapshotError, UnsupportedError
from skyband.spark import start
from skyband.spark.query_settings import PARTITIONS
from skyband.spark.versions import checkpoint_manager
from tests import golden_checkpoints
from tests.oracle import Asked
from tests.sharding import cases
from tests.spark import bounded_run
from tests.spark.frames import read_sink, read_stream, write_files
from tests.waiting import process_all, wait_for

SECOND = bounded_run.SECOND
COUNTED = [
    cases.Posed("last", Asked(k=3, size=9, slide=4), {"by": "s"}),
    cases.Posed("each", Asked(k=2, size=6, slide=2), {"by": "s", "partition_by": ["g"]}),
]


def batches():
    rows = cases.draw_rows(cases.rng("resharding"), 160, scale=SECOND)
    return [rows[40 * number : 40 * (number + 1)] for number in range(4)]


def wanted(posed, axis="time"):
    found = {}
    for one in posed:
        found |= cases.wanted(one, [row for batch in batches() for row in batch], axis)
    return found


def begun(spark, folder, shards, *, posed=bounded_run.POSED, axis="time", **more):
    return start(
        read_stream(spark, folder / "in"),
        [one.query(axis) for one in posed],
        time="ts",
        id="id",
        watermark="0 seconds",
        shards=shards,
        write=lambda out: out.writeStream.format("parquet").option("path", str(folder / "out")),
        checkpoint=str(folder / "state"),
        **more,
    )


def stopped_half_way(spark, folder, shards, **more):
    write_files(folder / "in", batches()[:2])
    handle = begun(spark, folder, shards, **more)
    process_all(handle.query)
    handle.stop()
    write_files(folder / "in", batches()[2:], begin=2)


@contextmanager
def partitions(spark, number):
    before = spark.conf.get(PARTITIONS)
    spark.conf.set(PARTITIONS, number)
    try:
        yield
    finally:
        spark.conf.set(PARTITIONS, before)


def stored_partitions(folder):
    return sorted(int(path.name) for path in (folder / "state" / "state" / "0").glob("[0-9]*"))


def assert_complete(folder, posed=bounded_run.POSED, axis="time"):
    assert cases.answered(read_sink(folder / "out"), posed) == wanted(posed, axis)


@pytest.mark.parametrize(("before", "after", "posed", "axis"), [
    (2, 5, bounded_run.POSED, "time"),
    pytest.param(3, 1, COUNTED, "count", marks=pytest.mark.long),
])  # fmt: skip
def test_another_number_of_shards_gives_the_same_answers(spark, tmp_path, before, after, posed, axis):
    stopped_half_way(spark, tmp_path, before, posed=posed, axis=axis)
    with pytest.raises(SnapshotError, match=rf"shards={before} .* shards={after}\. .*reshard=True \(skyband run"):
        begun(spark, tmp_path, after, posed=posed, axis=axis)
    handle = begun(spark, tmp_path, after, posed=posed, axis=axis, reshard=True)
    handle.finish()
    assert_complete(tmp_path, posed, axis)
    begun(spark, tmp_path, after, posed=posed, axis=axis).stop()  # the new number is stored
    with pytest.raises(SnapshotError, match="reshard=True"):
        begun(spark, tmp_path, before, posed=posed, axis=axis)


@pytest.mark.long
def test_another_number_of_partitions(spark, tmp_path):
    """Without `reshard` the checkpoint keeps its partitions, and the answers are right either way."""
    if checkpoint_manager(spark) is None:
        pytest.skip("this version of Spark cannot change the partitions of a checkpoint")
    with partitions(spark, 2):
        stopped_half_way(spark, tmp_path, 4)
    assert stored_partitions(tmp_path) == [0, 1]
    with partitions(spark, 3):
        handle = begun(spark, tmp_path, 4)
        process_all(handle.query)
        handle.stop()
        assert stored_partitions(tmp_path) == [0, 1]
        begun(spark, tmp_path, 4, reshard=True).finish()
    assert stored_partitions(tmp_path) == [0, 1, 2]
    assert_complete(tmp_path)


class KilledError(Exception):
    """Stands for the end of the process."""


def killed(*_, **__):
    raise KilledError


@pytest.mark.long
@pytest.mark.parametrize("goes_on_with", [2, 5])
def test_killed_between_the_messages_and_the_description(spark, tmp_path, monkeypatch, goes_on_with):
    stopped_half_way(spark, tmp_path, 2)
    with monkeypatch.context() as patched:
        patched.setattr("skyband.spark.checkpoint.Checkpoint.revise", killed)
        with pytest.raises(KilledError):
            begun(spark, tmp_path, 5, reshard=True)
    begun(spark, tmp_path, goes_on_with, reshard=True).finish()
    assert_complete(tmp_path)


@pytest.mark.long
def test_killed_before_the_first_micro_batch(spark, tmp_path, monkeypatch):
    stopped_half_way(spark, tmp_path, 2)
    with monkeypatch.context() as patched:
        patched.setattr("skyband.spark.stream_handle.Handle.begin", killed)
        with pytest.raises(KilledError):
            begun(spark, tmp_path, 5, reshard=True)
    with pytest.raises(SnapshotError, match="the change to shards=5 was not completed"):
        begun(spark, tmp_path, 3, reshard=True)
    with pytest.raises(SnapshotError, match="shards=5"):
        begun(spark, tmp_path, 2)
    begun(spark, tmp_path, 5).finish()
    assert_complete(tmp_path)


@pytest.mark.long
def test_an_incomplete_micro_batch_is_completed_first(spark, tmp_path):
    stopped_half_way(spark, tmp_path, 2)
    os.remove(max((tmp_path / "state" / "commits").glob("[0-9]*"), key=lambda path: int(path.name)))
    with pytest.raises(SnapshotError, match=r"incomplete micro-batch, number \d+, .* once with shards=2"):
        begun(spark, tmp_path, 5, reshard=True)
    handle = begun(spark, tmp_path, 2)
    process_all(handle.query)
    handle.stop()
    begun(spark, tmp_path, 5, reshard=True).finish()
    assert_complete(tmp_path)


@pytest.mark.parametrize(("family", "why"), [
    ("aggregate", "from shards=2 to shards=3 is not supported for AggregateTopK queries: a shard stores sums of its"),
    ("incomplete", "from shards=2 to shards=3 is not supported for IncompleteTopK queries: a shard stores the bounds"),
    ("uncertain", "shards=3 is not supported for query .often.: the probability of a rank depends on"),
])  # fmt: skip
def test_families_whose_state_cannot_be_moved_are_rejected(spark, tmp_path, family, why):
    golden_checkpoints.unpack(golden_checkpoints.FOLDER / f"{family}.tar.gz", tmp_path)
    write_files(tmp_path / "in", golden_checkpoints.batches())
    state = tmp_path / "state"
    before = {path: path.read_bytes() for path in state.rglob("*") if path.is_file()}
    with pytest.raises(UnsupportedError, match=why):
        start(
            read_stream(spark, tmp_path / "in"),
            golden_checkpoints.WORKLOADS[family],
            time="ts",
            id="id",
            watermark="3 seconds",
            shards=3,
            write=lambda out: out.writeStream.format("noop"),
            checkpoint=str(state),
            reshard=True,
        )
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.long
@pytest.mark.faults
def test_killed_while_the_state_is_converted(spark, tmp_path, tally):
    """A process that converts the state is killed as soon as it has written something; another one continues."""
    stopped_half_way(spark, tmp_path, 2)
    control = tmp_path / "state" / "skyband" / "control"
    before = set(control.rglob("*"))
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.test_resharding", str(tmp_path)],
            env=bounded_run.environment(),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        wait_for(lambda: set(control.rglob("*")) - before or process.poll() is not None, 600, pause=0.001)
        assert process.poll() is None, (tmp_path / "log").read_text()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    tally.fault("kill -9 while the state is converted")
    begun(spark, tmp_path, 5, reshard=True).finish()
    tally.check_answers(cases.answered(read_sink(tmp_path / "out"), bounded_run.POSED), wanted(bounded_run.POSED))


if __name__ == "__main__":
    from skyband.spark import session

    begun(session(master="local[2]", memory="1g"), Path(sys.argv[1]), 5, reshard=True).finish()
