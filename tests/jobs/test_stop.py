"""A stream that hangs: stopping the run ends in time, says so, and the next run goes on from what was noted down."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest

import skyband as sb
from skyband.jobs import run
from skyband.sharding.delivery import Wanted
from tests.sharding import cases
from tests.spark.frames import read_lines, write_files
from tests.waiting import process_all

FILE = """
streams:
  hangs: {path: in, format: parquet, time: ts, id: id, watermark: 0 seconds,
          schema: {ts: timestamp, id: long, g: string, s: double}}
  flows: {path: in, format: parquet, time: ts, id: id, watermark: 0 seconds,
          schema: {ts: timestamp, id: long, g: string, s: double}}
queries:
  - {name: one, stream: hangs, k: 3, size: 20 seconds, by: s}
  - {name: two, stream: flows, k: 3, size: 20 seconds, by: s}
sinks: [{type: jsonl, path: out}]
"""


class Hanging:
    """Somebody who is given answers and does not return."""

    def __init__(self):
        self.reached, self.released = threading.Event(), threading.Event()

    def take(self, *_):
        self.reached.set()
        self.released.wait(3000)


@contextmanager
def impatient(spark):
    """Spark waits only a little for streams that are stopped."""
    before = spark.conf.get("spark.sql.streaming.stopTimeout")
    spark.conf.set("spark.sql.streaming.stopTimeout", "5s")
    try:
        yield
    finally:
        spark.conf.set("spark.sql.streaming.stopTimeout", before)


@pytest.mark.long
def test_a_stream_that_hangs_is_not_waited_for(spark, tmp_path):
    rows = [row for row in cases.draw_rows(cases.rng("stopping"), 60, scale=1_000_000) if row[0] is not None]
    write_files(tmp_path / "in", [sorted(rows, key=lambda row: row[0])])
    (tmp_path / "work.yaml").write_text(FILE)
    file, hanging = sb.read_workload(tmp_path / "work.yaml"), Hanging()
    running = run(file, watchers={"hangs": [Wanted(hanging, "answers")]}, spark=spark)
    try:
        assert hanging.reached.wait(300)
        assert running.is_active
        process_all(running.handles["flows"].query)  # so that it can stop at once
        with (
            impatient(spark),
            pytest.raises(sb.PipelineError, match=r"stream 'hangs' did not stop in time; .* No data is lost"),
        ):
            running.stop()
        assert not running.handles["flows"].is_active
    finally:
        hanging.released.set()
        running.handles["hangs"].stop()
    again = run(file, spark=spark)
    try:
        # Its batch may or may not have been noted down when Spark gave up, so both cases must end in the same answers.
        for handle in again.handles.values():
            process_all(handle.query)
    finally:
        again.stop()
    assert answers_in(tmp_path / "out", "one")
    assert answers_in(tmp_path / "out", "one") == answers_in(tmp_path / "out", "two")


def answers_in(folder, query):
    """Window, rank and id of each answer that the files hold, once for each time it was written."""
    return sorted((row["window_end"], row["rank"], row["id"]) for row in read_lines(folder) if row["query"] == query)
