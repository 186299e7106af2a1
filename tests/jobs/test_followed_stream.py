"""Local streams that follow folders: the answers of the definitions, once each, whatever stops and kills the run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.connectors.folder_writer import FolderWriter
from skyband.jobs import followed_stream, run_local
from skyband.jobs.folder_log import FolderLog
from skyband.jobs.local_state import FolderSegments, LocalCheckpoint
from skyband.local import micro_batches
from tests.jobs.test_followed_against_spark import FAMILIES, STREAM, tables, write
from tests.jobs.test_job import POSED, QUERIES, rows_of, wanted, whole
from tests.sharding import cases
from tests.spark.frames import read_answers, table, write_files
from tests.waiting import wait_for

FILES = "streams: {rows: {path: in, format: parquet, time: ts, id: id, watermark: 0 seconds%s}}\n"
SINKS = "sinks: [{type: parquet, path: out}, {type: memory}]\n"


def workload(folder, text):
    (folder / "work.yaml").write_text(text)
    return sb.read_workload(folder / "work.yaml")


def file_of(folder, more="", queries=QUERIES, sinks=SINKS):
    return workload(folder, FILES % more + queries + sinks)


def finished(file, mode="stream", **more):
    running = run_local(file, mode, **more)
    if mode == "stream":
        running.finish()
    assert running.await_end(300)
    return running


def parts_of(rows, random):
    """Consecutive parts of rows in the order of time."""
    cuts = sorted(random.sample(range(1, len(rows)), random.choice([1, 3, 6])))
    return [rows[low:high] for low, high in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


@pytest.mark.parametrize("seed", range(12))
def test_the_definitions_whatever_the_files_and_restarts(tmp_path, seed):
    random = cases.rng("followed", seed)
    rows = sorted((row for row in rows_of(seed)), key=lambda row: row[0])
    file = file_of(tmp_path, random.choice(["", ", files_per_batch: 1", ", files_per_batch: 2"]))
    parts = parts_of(rows, random)
    written = 0
    while written < len(parts):
        some = random.randint(1, len(parts) - written)
        write_files(tmp_path / "in", parts[written : written + some], begin=written)
        written += some
        finished(file, "catch-up")
    running = finished(file)
    assert whole(read_answers(tmp_path / "out")) == wanted(rows)
    assert running.metrics()["rows"]["late"] == 0


def test_files_that_arrive_while_it_runs(tmp_path):
    rows = rows_of(3)
    file = file_of(tmp_path)
    write_files(tmp_path / "in", [rows[:40]])
    running = run_local(file, "stream")
    wait_for(lambda: running.metrics()["rows"]["rows"] == 40)
    write_files(tmp_path / "in", [rows[40:80]], begin=1)
    wait_for(lambda: running.metrics()["rows"]["batches"] == 2)
    seen = running.memory("rows").num_rows
    assert seen > 0
    running.stop()
    assert not running.is_active
    write_files(tmp_path / "in", [rows[80:]], begin=2)
    last = finished(file)
    assert whole(read_answers(tmp_path / "out")) == wanted(rows)
    metrics = last.metrics()["rows"]
    assert metrics["rows"] == 40
    assert metrics["candidates"] == 0
    assert metrics["state_bytes"] > 100
    assert metrics["emit_lag"] is not None


@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_that_is_processed_in_many_steps(tmp_path, family, monkeypatch):
    write(tmp_path / "in", tables(7))
    found = []
    for rows in (micro_batches.STEP_ROWS, 1):
        monkeypatch.setattr(micro_batches, "STEP_ROWS", rows)
        text = f"{STREAM}queries:{FAMILIES[family]}sinks: [{{type: memory}}]\nengine: {{checkpoint: '{rows}'}}\n"
        running = finished(workload(tmp_path, text))
        found.append((sorted(map(repr, running.memory("s").to_pylist())), running.metrics()["s"]["late"]))
    assert found[0] == found[1]
    assert found[0][1] > 0


class Crash(BaseException):
    """The process ends here."""


def crashing(monkeypatch, at):
    """Crash at the n-th durable operation, half of the time before it and half of the time after it."""
    counted = [0]
    places = [(LocalCheckpoint, "commit"), (FolderLog, "append"), (FolderWriter, "take"), (FolderSegments, "put")]
    for kind, name in places:
        whole = getattr(kind, name)

        def wrapped(self, *arguments, whole=whole):
            counted[0] += 1
            now = counted[0] == at
            if now and at % 2:
                raise Crash
            result = whole(self, *arguments)
            if now:
                raise Crash
            return result

        monkeypatch.setattr(kind, name, wrapped)


@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=() if name == "topk" else pytest.mark.long) for name in FAMILIES]
)
def test_a_crash_at_any_operation(tmp_path, family, monkeypatch):
    write(tmp_path / "in", tables(5))
    text = f"{STREAM}queries:{FAMILIES[family]}sinks: [{{type: parquet, path: out}}]\n"
    file = workload(tmp_path, text)
    finished(file)
    expected = {path.name: pq.read_table(path) for path in (tmp_path / "out").iterdir()}
    assert len(expected) > 3
    crashes = 0
    for at in range(1, 30):
        shutil.rmtree(tmp_path / "out")
        shutil.rmtree(tmp_path / ".skyband")
        crashing(monkeypatch, at)
        try:
            run_local(file, "stream").finish()
        except sb.PipelineError as error:
            crashes += "Crash" in str(error)
        monkeypatch.undo()
        again = finished(file)
        assert again.metrics()["s"]["rows"] <= 240
        found = {path.name: pq.read_table(path) for path in (tmp_path / "out").glob("*.parquet")}
        same = found.keys() == expected.keys() and all(found[name].equals(expected[name]) for name in found)
        assert same or _ended_twice(found, expected), (at, sorted(found), sorted(expected))
    assert crashes > 15


def _ended_twice(found, expected):
    """The stream was ended once more by the second run, which then has no more rows to answer."""
    rows = {row for part in found.values() for row in map(repr, part.to_pylist())}
    return rows == {row for part in expected.values() for row in map(repr, part.to_pylist())} and sum(
        map(len, found.values())
    ) == sum(map(len, expected.values()))


KILLED = """
import sys
import skyband as sb
from skyband.jobs import run_local
running = run_local(sb.read_workload(sys.argv[1]), "stream")
print("running", flush=True)
running.await_end()
"""


def test_a_run_that_is_killed_again_and_again(tmp_path):
    rows = rows_of(9, 400)
    parts = [rows[low : low + 10] for low in range(0, 400, 10)]
    file = file_of(tmp_path, ", files_per_batch: 1")
    (tmp_path / "in").mkdir()
    random = cases.rng("kills")
    done = 0
    for _ in range(6):
        some = random.randint(3, 7)
        write_files(tmp_path / "in", parts[done : done + some], begin=done)
        done = min(len(parts), done + some)
        with subprocess.Popen([sys.executable, "-c", KILLED, str(file.path)], stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            time.sleep(random.random() * 0.4)
            process.send_signal(signal.SIGKILL)
    write_files(tmp_path / "in", parts[done:], begin=done)
    finished(file)
    assert whole(read_answers(tmp_path / "out")) == wanted(rows)


def test_an_interrupted_batch_whose_file_is_gone(tmp_path, monkeypatch):
    rows = rows_of(2)
    write_files(tmp_path / "in", [rows[:60], rows[60:]])
    file = file_of(tmp_path)
    crashing(monkeypatch, 3)  # before the answers of the first batch are written
    with pytest.raises(sb.PipelineError, match="Crash"):
        run_local(file, "catch-up").await_end(300)
    monkeypatch.undo()
    (tmp_path / "in" / "000.parquet").rename(tmp_path / "kept.parquet")
    with pytest.raises(sb.InvalidInputError, match=r"000\.parquet.* must be repeated, but the file no longer exists"):
        finished(file)
    (tmp_path / "kept.parquet").rename(tmp_path / "in" / "000.parquet")
    finished(file)
    assert whole(read_answers(tmp_path / "out")) == wanted(rows)


def test_files_that_were_read_can_be_deleted(tmp_path):
    rows = rows_of(4)
    write_files(tmp_path / "in", [rows[:60]])
    file = file_of(tmp_path)
    finished(file, "catch-up")
    (tmp_path / "in" / "000.parquet").unlink()
    finished(file, "catch-up")  # the columns are known
    write_files(tmp_path / "in", [rows[60:]], begin=1)
    finished(file)
    assert whole(read_answers(tmp_path / "out")) == wanted(rows)


def test_a_corrupt_file_stops_the_stream_and_can_be_replaced(tmp_path):
    rows = rows_of(5)
    write_files(tmp_path / "in", [rows[:60]])
    file = file_of(tmp_path)
    finished(file, "catch-up")
    bad = tmp_path / "in" / "001.parquet"
    bad.write_bytes(b"PAR1 no Parquet PAR1")
    os.utime(bad, (1_000_000_001, 1_000_000_001))
    for _ in range(2):
        with pytest.raises(sb.InvalidInputError, match=r"001\.parquet' cannot be read as Parquet"):
            finished(file)
    write_files(tmp_path / "in", [rows[60:]], begin=1)
    finished(file)
    assert whole(read_answers(tmp_path / "out")) == wanted(rows)


def test_files_with_other_columns(tmp_path):
    rows = rows_of(6)
    file = file_of(tmp_path)
    write_files(tmp_path / "in", [rows[:40]])
    finished(file, "catch-up")
    part = table(rows[40:80])
    pq.write_table(
        part.drop_columns(["odd"]).append_column("more", pa.array(range(40))), tmp_path / "in" / "001.parquet"
    )
    os.utime(tmp_path / "in" / "001.parquet", (1_000_000_001, 1_000_000_001))
    running = finished(file, "catch-up")  # a missing column is null, as on Spark
    assert running.metrics()["rows"]["rows"] == 40
    changed = table(rows[80:]).set_column(3, "s", table(rows[80:])["s"].cast(pa.float32()))
    pq.write_table(changed, tmp_path / "in" / "002.parquet")
    with pytest.raises(sb.UnsupportedError, match="column 's' of type float"):
        finished(file, "catch-up")


def test_a_workload_that_does_not_fit_the_state(tmp_path):
    write_files(tmp_path / "in", [rows_of(1)])
    finished(file_of(tmp_path), "catch-up")
    counted = "queries: [{name: all, k: 3, size: 10, slide: 5, by: s}]\n"
    with pytest.raises(sb.SnapshotError, match="written with axis='time' and cannot be resumed with axis='count'"):
        run_local(file_of(tmp_path, queries=counted), "catch-up")
    aggregate = "queries: [{name: all, type: aggregate, k: 3, size: 10 seconds, key: g, aggregate: count}]\n"
    with pytest.raises(sb.SnapshotError, match="written with family='topk'"):
        run_local(file_of(tmp_path, queries=aggregate), "catch-up")
    finished(file_of(tmp_path, queries=aggregate), "catch-up", fresh=True)


def test_aggregate_queries_that_are_added_and_dropped(tmp_path):
    """A query with another key begins after all rows seen; others continue."""
    first, second = tables(12)[:2], tables(12)[2:]
    busy = "  - {name: busy, type: aggregate, k: 2, size: 60 seconds, slide: 20 seconds, key: g, value: v}\n"
    often = "  - {name: often, type: aggregate, k: 2, size: 40 seconds, slide: 20 seconds, key: r, aggregate: count}\n"

    def caught_up(name, queries):
        text = f"{STREAM}queries:\n{queries}sinks: [{{type: memory}}]\nengine: {{checkpoint: {name}}}\n"
        found = finished(workload(tmp_path, text), "catch-up").memory("s")
        return [] if found is None else found.to_pylist()

    write(tmp_path / "in", first)
    alone = {"busy": caught_up("c1", busy), "often": caught_up("c2", often)}
    found = caught_up("c3", busy)
    write(tmp_path / "in", second[:1], begin=2)
    alone = {"busy": alone["busy"] + caught_up("c1", busy), "often": alone["often"] + caught_up("c2", often)}
    found += caught_up("c3", often + busy)
    write(tmp_path / "in", second[1:], begin=3)
    alone["often"] += caught_up("c2", often)
    found += caught_up("c3", often)
    newest = max(row for part in first for row in part["at"].to_pylist() if row is not None)
    of = {name: [row for row in found if row["query"] == name] for name in ("busy", "often")}
    assert of["busy"] == alone["busy"]
    assert of["often"] == [row for row in alone["often"] if row["window_start"] > newest]
    assert len(of["busy"]) > 10
    assert len(of["often"]) > 4


def test_flush_and_time_that_advances(tmp_path):
    rows = rows_of(8)
    write_files(tmp_path / "in", [rows])
    file = file_of(tmp_path)
    running = run_local(file, "stream")
    wait_for(lambda: running.metrics()["rows"]["rows"] == len(rows))
    windows = running.metrics()["rows"]["windows"]
    far = max(row[0] for row in rows) + 10_000_000
    running.send({"kind": "advance", "at": far // 1000 * 1000})
    wait_for(lambda: running.metrics()["rows"]["batches"] == 2)
    advanced = running.metrics()["rows"]["windows"]
    assert advanced > windows
    running.send({"kind": "end"})
    wait_for(lambda: running.metrics()["rows"]["batches"] == 3)
    assert running.metrics()["rows"]["windows"] > advanced
    running.stop()
    assert whole(read_answers(tmp_path / "out")) == wanted(rows)


def test_two_runs_and_an_older_state(tmp_path):
    rows = rows_of(1)
    write_files(tmp_path / "in", [rows[:60]])
    file = file_of(tmp_path)
    running = run_local(file, "stream")
    with pytest.raises(sb.InvalidInputError, match="is in use by process"):
        run_local(file, "catch-up")
    running.finish()
    shutil.copytree(tmp_path / ".skyband", tmp_path / "copy")
    write_files(tmp_path / "in", [rows[60:]], begin=1)
    finished(file)
    shutil.rmtree(tmp_path / ".skyband")
    (tmp_path / "copy").rename(tmp_path / ".skyband")
    with pytest.raises(sb.SnapshotError, match="it is an older copy of the state"):
        run_local(file, "catch-up")
    shutil.rmtree(tmp_path / ".skyband")
    with pytest.raises(sb.InvalidInputError, match="there is no state to resume from"):
        run_local(file, "catch-up")
    with pytest.raises(sb.InvalidInputError, match="mode must be"):
        run_local(file, "twice")


def test_a_bounded_run_beside_a_stored_state(tmp_path):
    write_files(tmp_path / "in", [rows_of(1)])
    file = file_of(tmp_path)
    finished(file, "catch-up")
    with pytest.raises(sb.InvalidInputError, match="belong to a stored state"):
        run_local(file, "once")


def test_several_streams_and_one_that_fails(tmp_path):
    rows = rows_of(1)
    write_files(tmp_path / "in", [rows])
    write_files(tmp_path / "other", [rows])
    (tmp_path / "other" / "001.parquet").write_bytes(b"PAR1 no Parquet PAR1")
    os.utime(tmp_path / "other" / "001.parquet", (1_000_000_001, 1_000_000_001))
    text = FILES % "" + "  other: {path: other, format: parquet, time: ts, watermark: 0 seconds, files_per_batch: 1}\n"
    text = text.replace("streams: {rows:", "streams:\n  rows:").replace("}}\n", "}\n", 1)
    queries = QUERIES.replace("name: all,", "name: all, stream: rows,").replace(
        "name: each,", "name: each, stream: other,"
    )
    running = run_local(workload(tmp_path, text + queries + SINKS), "stream")
    with pytest.raises(sb.InvalidInputError, match=r"001\.parquet"):
        running.await_end(300)
    assert not running.is_active
    assert running.beats()["other"].has_failed


def test_an_idle_folder_costs_little(tmp_path):
    write_files(tmp_path / "in", [rows_of(1)])
    for number in range(2000):
        (tmp_path / "in" / f"_{number}").touch()
    running = run_local(file_of(tmp_path), "stream")
    wait_for(lambda: running.metrics()["rows"]["batches"] == 1)
    time.sleep(0.5)
    began, cpu = time.monotonic(), time.process_time()
    time.sleep(3)
    share = (time.process_time() - cpu) / (time.monotonic() - began)
    running.stop()
    assert share < 0.1  # the looks take at most a hundredth; the rest is noise


def test_a_file_that_changes_after_it_was_read_is_reported(tmp_path, caplog):
    (tmp_path / "in").mkdir()
    text = (
        "streams: {rows: {path: in, format: csv, time: at, watermark: 0 seconds}}\n"
        "queries: [{name: q, k: 1, size: 1 minute, by: v}]\nsinks: [{type: memory}]\n"
    )
    (tmp_path / "in" / "a.csv").write_text("at,v\n2024-01-01,1\n")
    os.utime(tmp_path / "in" / "a.csv", (5, 5))
    file = workload(tmp_path, text)
    running = run_local(file, "stream")
    wait_for(lambda: running.metrics()["rows"]["batches"] == 1)
    with (tmp_path / "in" / "a.csv").open("a") as more:
        more.write("2024-01-02,2\n")
    (tmp_path / "in" / "b.csv").write_text("at,v\n2024-01-03,3\n")
    running.finish()
    assert "changed after it was read" in caplog.text
    assert running.metrics()["rows"]["rows"] == 2


def test_the_trigger_is_the_time_between_batches(tmp_path):
    rows = rows_of(1)
    write_files(tmp_path / "in", [rows[:40], rows[40:80], rows[80:]])
    file = workload(
        tmp_path, FILES % ", files_per_batch: 1" + QUERIES + SINKS + "engine: {trigger: 400 milliseconds}\n"
    )
    began = time.monotonic()
    finished(file)
    assert time.monotonic() - began > 1.2
    assert POSED
    assert followed_stream.POLL < 1
    assert Path(file.checkpoint_of("rows")).exists()
