"""Workload files whose answers go to Delta and Iceberg tables: in local runs, on Spark, and in killed processes."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
import time

import pytest

import skyband as sb
from skyband.jobs import run, run_local
from tests.connectors.tables.places import KINDS, rows_in, yaml_of
from tests.connectors.tables.test_table_writers import numbers

FIRST = "at,name,price\n2024-01-01 00:00:00,a,2.5\n2024-01-01 00:00:01,b,3.5\n2024-01-01 00:02:00,c,1\n"
SECOND = "at,name,price\n2024-01-01 00:03:00,d,7\n2024-01-01 00:09:00,e,8\n"


def workload(folder, kinds=KINDS):
    sinks = ", ".join([*map(yaml_of, kinds), "{type: memory}"])
    (folder / "work.yaml").write_text(
        "streams: {s: {path: in, format: csv, time: at, watermark: 0 seconds}}\n"
        "queries: [{name: best, k: 2, size: 1 minute, by: price}, {name: each, k: 1, size: 1 minute, by: price, "
        f"partition_by: [name]}}]\nsinks: [{sinks}]\n"
    )
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / "1.csv").write_text(FIRST)
    return sb.read_workload(folder / "work.yaml")


def found(kind, folder):
    rows = rows_in(kind, folder).to_pylist()
    return sorted((row["query"], row["window_end"].isoformat(), row["rank"], row["name"], row["score"]) for row in rows)


def held(running):
    rows = running.memory("s").to_pylist()
    return sorted((row["query"], row["window_end"].isoformat(), row["rank"], row["name"], row["score"]) for row in rows)


def ended(running):
    assert running.await_end(300)
    return running


def check_runs(folder, go):
    """A run to the end, one that continues after it, one that is rejected, and one that starts over."""
    file = workload(folder)
    first = held(ended(go(file, "catch-up")))
    assert len(first) == 4
    (folder / "in" / "2.csv").write_text(SECOND)
    second = held(ended(go(file, "catch-up")))
    for kind in KINDS:
        assert found(kind, folder) == sorted(first + second)
    with pytest.raises(sb.InvalidInputError, match="belong to a stored state"):
        go(file, "once")
    again = ended(go(file, "catch-up", fresh=True))
    for kind in KINDS:
        assert found(kind, folder) == sorted(held(again)) == sorted(first + second)


def test_local_runs(tmp_path):
    check_runs(tmp_path, run_local)
    (tmp_path / "once").mkdir()
    other = workload(tmp_path / "once")
    for _ in range(2):  # each replaces the answers of the one before
        answers = held(ended(run_local(other, "once")))
    assert found("delta", tmp_path / "once") == found("iceberg", tmp_path / "once") == answers
    with pytest.raises(sb.InvalidInputError, match="from another run, but there is no state"):
        run_local(other, "catch-up")


@pytest.mark.parametrize("sink", [*map(yaml_of, KINDS), "{type: parquet, path: out}", "{type: jsonl, path: out}"])
def test_an_older_checkpoint_over_a_newer_output_is_rejected(tmp_path, sink):
    """Neither loses nor doubles: the output stays as it is, and the newer checkpoint continues."""
    workload(tmp_path)
    text = (tmp_path / "work.yaml").read_text().partition("sinks:")[0]
    (tmp_path / "work.yaml").write_text(f"{text}sinks: [{sink}]\n")
    file = sb.read_workload(tmp_path / "work.yaml")
    ended(run_local(file, "catch-up"))
    shutil.copytree(tmp_path / ".skyband", tmp_path / "older")
    (tmp_path / "in" / "2.csv").write_text(SECOND)
    ended(run_local(file, "catch-up"))
    newer, output = tmp_path / "newer", outputs(tmp_path)
    (tmp_path / ".skyband").rename(newer)
    (tmp_path / "older").rename(tmp_path / ".skyband")
    for _ in range(2):
        with pytest.raises(sb.SnapshotError, match="an older copy of the state"):
            run_local(file, "catch-up")
    assert outputs(tmp_path) == output
    shutil.rmtree(tmp_path / ".skyband")
    newer.rename(tmp_path / ".skyband")
    (tmp_path / "in" / "3.csv").write_text("at,name,price\n2024-01-01 01:00:00,f,9\n2024-01-01 02:00:00,g,9\n")
    ended(run_local(file, "catch-up"))
    assert len(outputs(tmp_path)) > len(output)


def outputs(folder):
    """The files of the outputs."""
    inner = [path for part in ("out", "answers", "db", "db.db") for path in (folder / part).rglob("*.*")]
    return sorted((str(path), path.read_bytes()) for path in inner if path.is_file())


@pytest.mark.long
@pytest.mark.slow
def test_runs_on_spark(spark, tmp_path):
    check_runs(tmp_path, lambda file, mode, **more: run(file, mode, spark=spark, **more))


@pytest.mark.slow
def test_tasks_write_files_and_a_commit_that_is_repeated_adds_them_once(spark, tmp_path, monkeypatch):
    from deltalake import DeltaTable

    from skyband.spark import task_files

    file = workload(tmp_path)
    wanted = held(ended(run_local(file, "catch-up")))
    (tmp_path / "in" / "2.csv").write_text(SECOND)
    wanted += held(ended(run_local(file, "catch-up")))
    (tmp_path / "tasks").mkdir()
    workload(tmp_path / "tasks")
    text = (tmp_path / "tasks" / "work.yaml").read_text().replace(", {type: memory}", "")
    (tmp_path / "tasks" / "work.yaml").write_text(
        re.sub(r"\{type: (delta|iceberg)", r"{writers: tasks, type: \1", text)
    )
    file = sb.read_workload(tmp_path / "tasks" / "work.yaml")
    real = DeltaTable.create_write_transaction

    def commit(*args, **more):
        real(*args, **more)
        raise RuntimeError("the answer was lost")

    monkeypatch.setattr(task_files, "_FEW", 0)  # every task writes a file
    monkeypatch.setattr(DeltaTable, "create_write_transaction", commit)
    with pytest.raises(sb.SkybandError, match="the answer was lost"):
        ended(run(file, "catch-up", spark=spark))
    monkeypatch.setattr(DeltaTable, "create_write_transaction", real)
    ended(run(file, "catch-up", spark=spark))
    monkeypatch.undo()
    (tmp_path / "tasks" / "in" / "2.csv").write_text(SECOND)
    ended(run(file, "catch-up", spark=spark))  # few answers, which the driver process writes
    for kind in KINDS:
        assert found(kind, tmp_path / "tasks") == sorted(wanted)
    text = (tmp_path / "work.yaml").read_text().replace("path: answers", "path: s3://b/x, writers: tasks")
    (tmp_path / "work.yaml").write_text(text)
    with pytest.raises(sb.WorkloadFileError, match="tasks requires a folder that all machines share"):
        sb.read_workload(tmp_path / "work.yaml")


FOLDERS = ("parquet", "csv", "jsonl")


@pytest.mark.long
@pytest.mark.slow
def test_tasks_write_folders_that_verify_and_other_readers_accept(spark, tmp_path, monkeypatch):
    from skyband.connectors import folder_writer
    from skyband.jobs.local_verification import verify_local
    from skyband.jobs.verification import verify
    from skyband.spark import task_files

    file = workload(tmp_path, [])
    wanted = held(ended(run_local(file, "catch-up")))
    (tmp_path / "in" / "2.csv").write_text(SECOND)
    wanted += held(ended(run_local(file, "catch-up")))
    (tmp_path / "tasks").mkdir()
    workload(tmp_path / "tasks", [])
    work = tmp_path / "tasks" / "work.yaml"
    sinks = ", ".join(f"{{type: {kind}, path: {kind}, writers: tasks}}" for kind in FOLDERS)
    work.write_text(work.read_text().replace("{type: memory}", sinks))
    file, real = sb.read_workload(work), folder_writer.publish

    def publish(*args):
        real(*args)
        raise sb.PipelineError("ended after the commit of one sink")

    monkeypatch.setattr(task_files, "_FEW", 0)  # every task writes a file
    monkeypatch.setattr(folder_writer, "publish", publish)
    with pytest.raises(sb.SkybandError, match="after the commit of one sink"):
        ended(run(file, "catch-up", spark=spark))
    monkeypatch.setattr(folder_writer, "publish", real)
    ended(run(file, "catch-up", spark=spark))
    monkeypatch.undo()
    (tmp_path / "tasks" / "in" / "2.csv").write_text(SECOND)
    ended(run(file, "catch-up", spark=spark))  # few answers, which the driver process writes
    for kind in FOLDERS:
        folder = tmp_path / "tasks" / kind
        assert sorted(path.is_dir() for path in folder.iterdir()) == [False, True]
        reader = spark.read.option("recursiveFileLookup", True)
        form = {"parquet": reader.parquet, "csv": reader.option("header", True).csv, "jsonl": reader.json}[kind]
        rows = [(row["query"], row["rank"], row["name"], row["score"]) for row in form(str(folder)).collect()]
        assert sorted((query, int(rank), name, float(score)) for query, rank, name, score in rows) == sorted(
            (query, rank, name, score) for query, _, rank, name, score in wanted
        )
        assert verify(spark, file, "s", answers=folder, unfinished=True).agrees
        assert verify_local(file, "s", answers=folder, unfinished=True).agrees
    ended(run(file, "catch-up", spark=spark, fresh=True))
    for kind in FOLDERS:
        assert len(list((tmp_path / "tasks" / kind).iterdir())) == 1


WRITER = """
import json, sys
from pathlib import Path
from tests.connectors.tables.test_table_writers import answers, ready

kind, folder = sys.argv[1], Path(sys.argv[2])
done = folder / "done"
writer = ready(kind, folder)
for batch in range(int(done.read_text()) if done.exists() else 0, int(sys.argv[3])):
    writer.take(batch, answers(batch))
    done.with_suffix(".new").write_text(str(batch + 1))
    done.with_suffix(".new").rename(done)
"""


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_process_that_is_killed_at_random_loses_and_repeats_nothing(tmp_path, kind):
    rng, kills, batches = random.Random(3), 0, 40
    while True:
        process = subprocess.Popen([sys.executable, "-c", WRITER, kind, str(tmp_path), str(batches)])
        begun = tmp_path / "done"
        before = begun.read_text() if begun.exists() else "0"
        while process.poll() is None and (begun.read_text() if begun.exists() else "0") == before:
            time.sleep(0.01)  # it starts
        try:
            process.wait(rng.uniform(0, 0.15) if kills < 5 else None)
        except subprocess.TimeoutExpired:
            process.kill()
            kills += 1
            process.wait()
            continue
        assert process.returncode == 0
        break
    assert kills >= 3
    assert numbers(kind, tmp_path) == list(range(batches))
