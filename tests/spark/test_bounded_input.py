"""A bounded input is answered whole: whatever the order and the times of its files, no row is late or missing."""

from __future__ import annotations

import csv
import os

import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.jobs import run
from skyband.jobs.verification import verify
from skyband.spark import start
from tests.sharding import cases
from tests.spark.frames import SCHEMA, read_answers, read_sink, table, write_files

POSED = [
    cases.Posed("all", cases.Asked(k=3, size=20_000_000, slide=5_000_000), {"by": "s"}),
    cases.Posed("full", cases.Asked(k=2, size=30_000_000, slide=11_000_000, full_only=True), {"by": "-s"}),
    cases.Posed("each", cases.Asked(k=2, size=30_000_000, slide=30_000_000), {"by": "s", "partition_by": ["g"]}),
]
FILE = """
streams: {rows: {path: in, format: parquet, time: ts, id: id, watermark: 0 seconds, files_per_batch: 1}}
queries:
  - {name: all, k: 3, size: 20 seconds, slide: 5 seconds, by: s}
  - {name: full, k: 2, size: 30 seconds, slide: 11 seconds, by: -s, full_only: true}
  - {name: each, sql: "TOPK s, 2 BY g OVER 30 SECONDS"}
sinks: [{type: %s, path: out}]
"""


def backwards(folder, count=150, files=6):
    """Rows in files whose times run against the time in their rows."""
    rows = cases.draw_rows(cases.rng("backwards"), count, scale=1_000_000)
    step = count // files
    write_files(folder, [rows[low : low + step] for low in range(0, count, step)][::-1])
    return rows


def wanted(rows, posed=POSED):
    return {key: found for one in posed for key, found in cases.wanted(one, rows).items()}


def workload(folder, kind="parquet"):
    (folder / "work.yaml").write_text(FILE % kind)
    return sb.read_workload(folder / "work.yaml")


def finished(file, spark, mode="once"):
    running = run(file, mode, spark=spark)
    assert running.await_end(300)
    return running.metrics()["rows"]


def test_hourly_files_whose_times_run_backwards(spark, tmp_path):
    """As after a copy or an unpacking: the newest hour has the oldest file."""
    (tmp_path / "in").mkdir()
    for hour in range(3):
        path = tmp_path / "in" / f"hour-{hour}.csv"
        with path.open("w", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(["at", "name", "price"])
            lines.writerows([f"2024-01-01 {hour:02}:{m:02}:00", "x", 100 * hour + m] for m in range(60))
        os.utime(path, (1_700_000_000 - hour, 1_700_000_000 - hour))
    (tmp_path / "work.yaml").write_text(
        "streams: {trades: {path: in, format: csv, time: at}}\n"
        "queries: [{name: best, k: 2, size: 1 hour, by: price}]\n"
        "sinks: [{type: parquet, path: out}]\n"
    )
    running = run(sb.read_workload(tmp_path / "work.yaml"), "once", spark=spark)
    assert running.await_end(300)
    found = [(row["window_end"].hour, row["rank"], row["score"]) for row in read_answers(tmp_path / "out")]
    assert found == [(1, 1, 59.0), (1, 2, 58.0), (2, 1, 159.0), (2, 2, 158.0), (3, 1, 259.0), (3, 2, 258.0)]
    metrics = running.metrics()["trades"]
    assert (metrics["rows"], metrics["late"], metrics["windows"], metrics["answers"]) == (180, 0, 3, 6)


def test_a_file_run_once(spark, tmp_path, monkeypatch):
    rows = backwards(tmp_path / "in")
    monkeypatch.setattr("skyband.jobs.bounded_job.PART_ROWS", 40)  # answers are delivered in several parts
    metrics = finished(workload(tmp_path), spark)
    found = read_answers(tmp_path / "out")
    assert cases.answered(found, POSED) == wanted(rows)
    ends = [row["window_end"] for row in found]
    assert ends == sorted(ends), "answers are delivered by time"
    assert len(list((tmp_path / "out").glob("*.parquet"))) > 1
    ranked = sum(row[1] is not None for row in rows)
    assert (metrics["rows"], metrics["late"], metrics["dropped_null"]) == (150, 0, 150 - ranked)
    assert metrics["answers"] == len(found)
    assert metrics["windows"] == len({(row["query"], row["g"] if row["query"] == "each" else 0, row["window_end"])
                                      for row in found})  # fmt: skip


@pytest.mark.parametrize("axis", ["time", pytest.param("count", marks=pytest.mark.long)])
def test_a_stream_started_as_bounded(spark, tmp_path, axis):
    """One file a micro-batch, against the order of time, and a watermark that would make most rows late."""
    rows = backwards(tmp_path / "in", 60, 3)
    counted = [cases.Posed("last", cases.Asked(k=2, size=7, slide=3), {"by": "s", "partition_by": ["g"]})]
    posed = POSED if axis == "time" else counted
    late = []

    def write_late(frame):
        return frame.writeStream.foreachBatch(lambda some, _: late.extend(some.toArrow().to_pylist()))

    handle = start(
        spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in")),
        [one.query(axis) for one in posed],
        time="ts",
        id="id",
        watermark="0 seconds",
        bounded=True,
        late=write_late if axis == "time" else "count",
        write=lambda out: out.writeStream.format("parquet").option("path", str(tmp_path / "out")),
        checkpoint=str(tmp_path / "state"),
    )
    assert handle.await_end(300, progress=False)
    want = {key: found for one in posed for key, found in cases.wanted(one, rows, axis).items()}
    assert cases.answered(read_sink(tmp_path / "out"), posed) == want
    assert (handle.metrics()["rows"], handle.metrics()["late"], late) == (60, 0, [])


@pytest.mark.long
def test_catching_up_reads_all_that_is_new_before_time_moves(spark, tmp_path):
    """Only rows behind the watermark of an earlier run are late, and they are counted."""
    rows = backwards(tmp_path / "in", 60, 3)
    file = workload(tmp_path)
    metrics = finished(file, spark, "catch-up")
    assert (metrics["rows"], metrics["late"]) == (60, 0)
    end = rows[-1][0] + 500_000_000
    write_files(tmp_path / "in", [[(end, 1.0, 1, "a")], [rows[0]]], 20)
    metrics = finished(file, spark, "catch-up")
    found = cases.answered(read_answers(tmp_path / "out"), POSED)
    want = wanted([*rows, (end, 1.0, 1, "a")])
    assert found == {key: [one for one in ones if one[1] <= end] for key, ones in want.items()}
    assert (metrics["rows"], metrics["late"]) == (2, int(rows[0][1] is not None))


@pytest.mark.parametrize(
    "kind", ["parquet", *(pytest.param(name, marks=pytest.mark.long) for name in ("csv", "jsonl"))]
)
def test_answers_that_a_run_has_written_are_verified(spark, tmp_path, kind):
    backwards(tmp_path / "in", 60, 3)
    file = workload(tmp_path, kind)
    finished(file, spark)
    found = verify(spark, file, "rows", answers=tmp_path / "out")
    assert found.agrees, found.difference
    assert found.difference.compared > 50
    assert found.rows == 60


def test_an_answer_that_is_missing_wrong_or_doubled_is_found(spark, tmp_path):
    file, path, answers = answered(spark, tmp_path)
    # The first one is missing, the second is double.
    pq.write_table(answers.take([*range(1, answers.num_rows), 1]), path)
    found = verify(spark, file, "rows", answers=tmp_path / "out")
    assert (found.difference.missing, found.difference.unexpected, found.agrees) == (1, 1, False)


@pytest.mark.long
def test_answers_of_a_stream_that_was_stopped_are_missing_unless_that_is_expected(spark, tmp_path):
    file, path, answers = answered(spark, tmp_path)
    last = max(answers["window_end"].to_pylist())
    trailing = [end == last for end in answers["window_end"].to_pylist()]
    pq.write_table(answers.filter([not one for one in trailing]), path)
    found = verify(spark, file, "rows", answers=tmp_path / "out")
    assert (found.difference.missing, found.difference.unexpected, found.agrees) == (sum(trailing), 0, False)
    found = verify(spark, file, "rows", answers=tmp_path / "out", unfinished=True)
    assert found.agrees
    assert found.not_final >= sum(trailing)


def answered(spark, folder):
    """A file that has run, where its answers are, and the answers."""
    backwards(folder / "in", 60, 3)
    file = workload(folder)
    finished(file, spark)
    path = next((folder / "out").glob("*.parquet"))
    return file, path, pq.read_table(path)


@pytest.mark.long
def test_a_run_whose_files_are_gone(spark, tmp_path):
    backwards(tmp_path / "in", 60, 3)
    file = workload(tmp_path)
    finished(file, spark)
    next((tmp_path / "out").glob("*.parquet")).unlink()
    found = verify(spark, file, "rows", answers=tmp_path / "out")
    assert found.difference.missing == found.difference.compared > 0


@pytest.mark.long
def test_verifying_counts_every_row_of_the_input(spark, tmp_path):
    """Rows that a watermark would have made late are compared like all others, and what runs is what `run` runs."""
    rows = backwards(tmp_path / "in", 60, 3)
    found = verify(spark, workload(tmp_path), "rows")
    assert found.agrees, found.difference
    assert found.difference.compared == sum(map(len, wanted(rows).values()))
    assert found.rows == 60
    assert table(rows).num_rows == 60
