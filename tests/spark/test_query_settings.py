"""Settings of a streaming query while it starts: its partitions, and how its checkpoint is written."""

from __future__ import annotations

import threading

import pytest

import skyband as sb
from skyband.spark import query_settings, read_files, start, stream_handle, stream_start
from skyband.spark.checkpoint import Checkpoint
from skyband.spark.query_settings import PARTITIONS, checkpoint_settings, partition_settings, while_starting
from tests.spark.frames import read_sink, read_stream, write_files

MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
SECOND = 1_000_000
QUERY = sb.TopK(name="q", k=2, size="20 seconds", slide="5 seconds", by="s")


def batches(first, last):
    """A file for every ten rows, which are half a second apart."""
    rows = [(100 * SECOND + n * SECOND // 2, float(n * 7 % 17), n, "ab"[n % 2]) for n in range(10 * last)]
    return [rows[10 * number : 10 * number + 10] for number in range(first, last)]


def begun(spark, folder, *, direct):
    """The stream as `skyband run` starts it, if its rows come directly from a source; else as `start` does."""
    return stream_start.launch(
        read_stream(spark, folder / "in"),
        QUERY,
        deliver=lambda pipeline: (
            pipeline.answers.writeStream.format("parquet")
            .option("path", str(folder / "out"))
            .trigger(availableNow=True)
        ),
        checkpoint=str(folder / "state"),
        time="ts",
        id_="id",
        watermark="1 second",
        bounded=False,
        algorithm="auto",
        late="count",
        output="answers",
        shards=None,
        sole_watermark=direct,
    )


def run(spark, folder, *, direct):
    handle = begun(spark, folder, direct=direct)
    handle.await_end(300, progress=False)
    return handle


def stores(folder):
    """The state stores of a checkpoint: a folder for each partition."""
    return sorted(int(path.name) for path in (folder / "state" / "state" / "0").iterdir() if path.name.isdecimal())


def answered(folder):
    keys = ("window_end", "rank", "id", "s")
    return sorted(tuple(row[key] for key in keys) for row in read_sink(folder / "out"))


@pytest.mark.long
def test_a_query_has_as_many_partitions_as_shards_if_nothing_else_is_shuffled(spark, tmp_path):
    before = spark.conf.get(PARTITIONS)
    assert int(before) > 1
    for name, direct in (("run", True), ("start", False)):
        (tmp_path / name).mkdir()
        write_files(tmp_path / name / "in", batches(0, 4))
        run(spark, tmp_path / name, direct=direct)
    assert stores(tmp_path / "run") == [0]
    assert stores(tmp_path / "start") == list(range(int(before)))
    # A run answers a window in the micro-batch that ends it, a stream by `start` one micro-batch later.
    assert answered(tmp_path / "run") == answered(tmp_path / "start") != []
    assert spark.conf.get(PARTITIONS) == before


@pytest.mark.long
def test_a_checkpoint_keeps_its_partitions(spark, tmp_path):
    write_files(tmp_path / "in", batches(0, 3))
    run(spark, tmp_path, direct=False)
    first = stores(tmp_path)
    write_files(tmp_path / "in", batches(3, 6), begin=3)
    run(spark, tmp_path, direct=True)
    assert stores(tmp_path) == first != [0]

    whole = tmp_path / "whole"
    whole.mkdir()
    write_files(whole / "in", batches(0, 6))
    run(spark, whole, direct=True)
    assert answered(tmp_path) == answered(whole) != []


def test_partitions_are_never_more_than_the_session_has(spark):
    there = int(spark.conf.get(PARTITIONS))
    assert partition_settings(spark, there) == partition_settings(spark, there + 5) == {}
    assert partition_settings(spark, there - 1) == {PARTITIONS: str(there - 1)}


@pytest.mark.long
def test_packed_answers_pass_one_by_one_if_tasks_read_the_files(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(query_settings, "_TABLES", 1)  # byte, so that each table is unpacked alone
    made = []

    def noted(session, settings):
        made.append(dict(settings))
        return while_starting(session, settings)

    monkeypatch.setattr(stream_handle, "while_starting", noted)
    write_files(tmp_path / "in", batches(0, 3))
    found = []
    for reader in ("auto", "spark"):
        handle = start(
            read_files(str(tmp_path / "in"), format="parquet", reader=reader),
            [QUERY, sb.TopK(name="other", k=2, size="20 seconds", slide="5 seconds", by="-s")],
            time="ts",
            id="id",
            watermark="1 second",
            bounded=True,
            checkpoint=str(tmp_path / reader / "state"),
            write=lambda out, to=reader: out.writeStream.format("parquet").option("path", str(tmp_path / to / "out")),
        )
        assert handle.await_end(300, progress=False)
        found.append(answered(tmp_path / reader))
    assert found[0] == found[1] != []
    assert [settings.get(BATCH_BYTES) for settings in made] == ["1"] * (len(made) // 2) + [None] * (len(made) // 2)


def test_files_of_a_local_checkpoint_are_written_without_new_processes(spark, tmp_path, monkeypatch):
    local = Checkpoint(spark, str(tmp_path / "state"))
    assert local.is_local
    assert checkpoint_settings(spark, local)[MANAGER].endswith(".FileSystemBasedCheckpointFileManager")
    assert Checkpoint(spark, f"file://{tmp_path}/state").is_local
    assert checkpoint_settings(spark, Checkpoint(spark, "hdfs://nowhere/state")) == {}

    spark.conf.set(MANAGER, "of.a.User")
    try:
        assert checkpoint_settings(spark, local) == {}, "the session's own setting stays"
    finally:
        spark.conf.unset(MANAGER)
    with monkeypatch.context() as patched:
        patched.setattr(query_settings, "_BY_FILE_SYSTEM", "org.apache.spark.Missing")
        assert checkpoint_settings(spark, local) == {}, "another version of Spark may not have the class"
    monkeypatch.setattr(query_settings.os, "name", "nt")
    assert checkpoint_settings(spark, local) == {}


def test_settings_are_undone_when_the_query_has_started_or_failed(spark):
    before = spark.conf.get(PARTITIONS)
    with while_starting(spark, {PARTITIONS: "1", MANAGER: "x"}):
        assert (spark.conf.get(PARTITIONS), spark.conf.get(MANAGER)) == ("1", "x")
    with pytest.raises(ZeroDivisionError), while_starting(spark, {PARTITIONS: "1", MANAGER: "x"}):
        raise ZeroDivisionError
    assert (spark.conf.get(PARTITIONS), spark.conf.get(MANAGER, None)) == (before, None)


def test_queries_that_start_at_once_do_not_see_each_others_settings(spark):
    before, seen, inside = spark.conf.get(PARTITIONS), [], threading.Event()

    def second():
        inside.wait(300)
        with while_starting(spark, {}):
            seen.append(spark.conf.get(PARTITIONS))

    other = threading.Thread(target=second)
    other.start()
    with while_starting(spark, {PARTITIONS: "1"}):
        inside.set()
        other.join(0.5)
        assert seen == []
    other.join(300)
    assert seen == [before]


def test_a_stream_by_start_uses_the_settings_too(spark, tmp_path, monkeypatch):
    made = []
    write_files(tmp_path / "in", batches(0, 2))
    monkeypatch.setattr(
        "skyband.spark.stream_handle.while_starting",
        lambda session, settings: made.append(settings) or while_starting(session, settings),
    )
    handle = start(
        read_stream(spark, tmp_path / "in"),
        QUERY,
        write=lambda out: out.writeStream.format("noop").trigger(availableNow=True),
        checkpoint=str(tmp_path / "state"),
        time="ts",
        watermark="1 second",
    )
    handle.await_end(300, progress=False)
    assert [list(settings) for settings in made] == [[MANAGER]]
