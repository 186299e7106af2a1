"""Tables as sources on Spark: tasks read and reduce them; a stream resumes after the last file it has read."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from deltalake import DeltaTable, write_deltalake

import skyband as sb
from skyband.jobs import run
from tests.connectors.tables import iceberg_tables
from tests.connectors.tables.test_delta_source import STREAM as DELTA
from tests.connectors.tables.test_delta_source import in_time
from tests.faults.process import Driver
from tests.jobs.test_job import QUERIES, finished, wanted, whole
from tests.spark.frames import read_answers, table

pytestmark = [pytest.mark.long, pytest.mark.slow]
SINKS = "sinks: [{type: parquet, path: out}]\n"
KINDS = ("delta", "iceberg")


class Lake:
    """A table of one kind: what writes to it, and the stream that reads it."""

    def __init__(self, kind, folder):
        self.kind, self.folder = kind, folder
        if kind == "iceberg":
            iceberg_tables.created(folder)
        else:
            write_deltalake(folder / "lake", table([]))

    def append(self, rows):
        if self.kind == "iceberg":
            iceberg_tables.append(self.folder, rows, files=2)
        else:
            write_deltalake(self.folder / "lake", table(rows), mode="append")

    def compact(self):
        if self.kind == "iceberg":
            iceberg_tables.compact(self.folder)
        else:
            DeltaTable(self.folder / "lake").optimize.compact()

    def delete(self):
        if self.kind == "iceberg":
            iceberg_tables.opened(self.folder).delete("odd = true")
        else:
            DeltaTable(self.folder / "lake").delete("odd = true")

    def workload(self, more="", engine=""):
        stream = iceberg_tables.STREAM if self.kind == "iceberg" else DELTA
        (self.folder / "work.yaml").write_text(stream % more + QUERIES + SINKS + engine)
        return sb.read_workload(self.folder / "work.yaml")

    def answers(self):
        return whole(read_answers(self.folder / "out"))


@pytest.fixture(params=KINDS)
def lake(tmp_path, request):
    return Lake(request.param, tmp_path)


def test_micro_batches_and_restarts(lake, spark):
    """Appends, compactions, several runs, a snapshot that is read in several micro-batches, and a changed row."""
    rows = in_time(41)
    file = lake.workload(", files_per_batch: 1")
    finished(file, spark, "catch-up")  # nothing yet
    lake.append(rows[:50])
    running = finished(file, spark, "catch-up")
    assert running.metrics()["rows"]["reader"] == "arrow"
    lake.append(rows[50:90])
    lake.compact()
    lake.append(rows[90:])
    finished(file, spark, "catch-up")
    lake.compact()
    running = run(lake.workload(), "stream", spark=spark)
    running.finish()
    assert running.await_end(300)
    assert lake.answers() == wanted(rows)


def test_a_bounded_run_and_a_change(lake, spark):
    rows = in_time(42)
    lake.append(rows[:100])
    lake.append(rows[100:])
    finished(lake.workload(), spark, "catch-up")
    lake.delete()
    with pytest.raises(sb.SkybandError, match=r"deletes, updates or overwrites rows.* changed_rows: skip"):
        finished(lake.workload(), spark, "catch-up")
    finished(lake.workload(", changed_rows: skip"), spark, "catch-up")
    file = lake.workload()
    finished(file, spark, "once", fresh=True)
    assert lake.answers() == wanted([row for row in rows if not row[2] % 2])


def test_what_a_session_elsewhere_says(lake, spark, monkeypatch):
    lake.append(in_time(43))
    monkeypatch.setattr("skyband.connectors.read_files.is_remote", lambda spark: True)
    with pytest.raises(sb.UnsupportedError, match=r"Spark Connect session.* is not supported for .*--local"):
        finished(lake.workload(), spark, "catch-up")


@pytest.mark.parametrize("options", [("--local",), ()], ids=["local", "spark"])
def test_killed_at_random(lake, options, tally):
    """`skyband run` is killed with signal 9 while a table grows, and started again."""
    rows, draw = in_time(44), random.Random(44)
    lake.append(rows[:10])
    lake.workload(", files_per_batch: 1", "engine: {master: 'local[2]', memory: 768m}\n")
    driver, left, kills = Driver(lake.folder / "work.yaml", *options), rows[10:], 3
    try:
        while left:
            size = max(1, len(rows) // 12)
            driver.start()
            for _ in range(draw.randrange(2, 5)):
                lake.append(left[:size])
                left = left[size:]
                if draw.random() < 0.3:
                    lake.compact()
                if not left:
                    break
            if kills:
                kills -= 1
                before = len(list((lake.folder / "out").glob("*"))) if (lake.folder / "out").exists() else 0
                driver.wait_until(
                    lambda before=before: len(list((lake.folder / "out").glob("*"))) > before or not driver.is_alive(),
                    "it writes",
                )
                tally.fault("kill -9 of a run that reads a table")
                driver.kill()
            elif left:
                driver.stop()
    finally:
        with suppress(Exception):
            driver.end()
    file = lake.workload()
    if options:
        from tests.connectors.tables.test_delta_source import finished as finished_locally

        finished_locally(file, "stream")
    else:
        running = run(file, "stream")
        running.finish()
        assert running.await_end(300)
    tally.check_answers(lake.answers(), wanted(rows))
