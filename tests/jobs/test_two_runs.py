"""Two runs at once: the second one is rejected with the owner's name, and a killed run blocks nobody."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pyarrow as pa
import pytest

import skyband as sb
from skyband.connectors.files import JsonlSink
from skyband.jobs import run_local
from skyband.sharding.delivery import Wanted
from tests.spark.frames import read_lines, write_files

FILE = """
streams: {rows: {path: in, format: parquet, time: ts, id: id, watermark: 0 seconds}}
queries: [{name: all, k: 3, size: 2 seconds, by: s}]
sinks: [{type: jsonl, path: out}]
"""
HOLDING = """
import sys, time
import skyband as sb
from skyband.jobs import run_local
running = run_local(sb.read_workload(sys.argv[1]), "stream")
while not running.metrics()["rows"]["rows"]:
    time.sleep(0.05)
print("running", flush=True)
time.sleep(600)
"""


class Held:
    """A receiver of answers that waits, so that the run does not end."""

    def __init__(self):
        self.reached, self.go = threading.Event(), threading.Event()

    def take(self, batch: int, rows: pa.Table) -> None:
        self.reached.set()
        assert self.go.wait(300)


@pytest.fixture
def folder(tmp_path):
    write_files(tmp_path / "in", [[(number * 1_000_000, float(number), number, "a") for number in range(20)]])
    (tmp_path / "one.yaml").write_text(FILE)
    (tmp_path / "two.yaml").write_text(FILE + "engine: {checkpoint: other}\n")
    return tmp_path


def file(folder, name="one.yaml"):
    return sb.read_workload(folder / name)


def refused(folder, name, mode, **more):
    with pytest.raises(sb.InvalidInputError) as caught:
        run_local(file(folder, name), mode, **more)
    return str(caught.value)


@pytest.mark.parametrize("mode", ["once", "catch-up", "stream"])
def test_a_second_run_is_rejected(folder, mode):
    held = Held()
    first = run_local(file(folder), mode, watchers={"rows": [Wanted(held, "answers")]})
    assert held.reached.wait(300)
    owner = f"process {os.getpid()} on "
    for again in ("once", "catch-up", "stream"):
        said = refused(folder, "one.yaml", again)
        assert f"is in use by {owner}" in said
        said = refused(folder, "two.yaml", again)
        assert f"{str(folder / 'out')!r} receives answers of stream 'rows' from {owner}" in said
        assert "another path or another name of the stream" in said
    assert "is in use by" in refused(folder, "one.yaml", "once", fresh=True)
    held.go.set()
    first.finish() if mode == "stream" else first.await_end(300)
    first.stop()
    assert not list(folder.rglob(".*.lock"))
    assert read_lines(folder / "out")


def test_a_run_that_is_rejected_leaves_nothing(folder):
    (folder / "bad.yaml").write_text(FILE.replace("by: s", "by: nope"))
    with pytest.raises(sb.SkybandError):
        run_local(file(folder, "bad.yaml"), "once")
    assert not (folder / "out").exists()
    assert not (folder / ".skyband").exists()
    done = run_local(file(folder), "once")
    done.await_end(300)
    assert not (folder / ".skyband").exists()
    assert sorted(path.suffix for path in (folder / "out").iterdir()) == [".jsonl"]


def test_other_streams_and_other_folders_are_not_locked(folder):
    (folder / "third.yaml").write_text(FILE.replace("rows:", "others:") + "engine: {checkpoint: third}\n")
    held = Held()
    first = run_local(file(folder), "once", watchers={"rows": [Wanted(held, "answers")]})
    assert held.reached.wait(300)
    other = run_local(file(folder, "third.yaml"), "once")
    assert other.await_end(300)
    held.go.set()
    assert first.await_end(300)
    assert {path.name.partition("-")[0] for path in (folder / "out").iterdir()} == {"rows", "others"}


@pytest.mark.long
def test_a_killed_run_blocks_nobody(folder):
    command = [sys.executable, "-c", HOLDING, str(folder / "one.yaml")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "running\n"
        assert f"process {holder.pid} on" in refused(folder, "one.yaml", "catch-up")
        assert f"receives answers of stream 'rows' from process {holder.pid} on" in refused(
            folder, "two.yaml", "catch-up"
        )
        holder.send_signal(signal.SIGKILL)
    assert [path.name for path in (folder / "out").glob(".*.lock")] == [".rows.lock"]
    again = run_local(file(folder), "catch-up")
    assert again.await_end(300)
    assert not list((folder / "out").glob(".*.lock"))


@pytest.mark.long
def test_two_runs_on_spark(spark, folder):
    """Of workload files, and of `start` with sinks."""
    from skyband.jobs import run
    from skyband.spark import start
    from tests.spark.frames import read_stream

    first = run(file(folder), spark=spark)
    try:
        with pytest.raises(sb.InvalidInputError, match="receives answers of stream 'rows' from process"):
            run(file(folder, "two.yaml"), "once", spark=spark)
        with pytest.raises(sb.InvalidInputError, match="is in use by process"):
            run(file(folder), "once", spark=spark)
        with pytest.raises(sb.InvalidInputError, match="receives answers of stream 'rows' from process"):
            start(
                read_stream(spark, folder / "in"),
                sb.TopK(name="q", k=2, size="2 seconds", by="s"),
                sinks=[JsonlSink(path=str(folder / "out"))],
                name="rows",
                checkpoint=str(folder / "third"),
                time="ts",
                watermark="0 seconds",
            )
    finally:
        first.stop()
    assert not list((folder / "out").glob(".*.lock"))
    done = run(file(folder), "once", spark=spark, fresh=True)
    assert done.await_end(300)
    assert not list(folder.rglob(".*.lock"))
