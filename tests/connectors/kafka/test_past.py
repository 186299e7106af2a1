"""Queries that join a stream of topics with their past: the records of its micro-batches are read again."""

from __future__ import annotations

import pytest

import skyband as sb
from skyband.jobs import run
from skyband.jobs.control_server import LiveChanges
from skyband.spark import batch_log
from tests.connectors.kafka.work import SECOND, rows_of, workload
from tests.sharding import cases
from tests.spark.frames import read_answers
from tests.waiting import wait_for

pytestmark = [pytest.mark.long, pytest.mark.kafka]
NEW = cases.Posed("new", cases.Asked(k=4, size=40 * SECOND, slide=5 * SECOND), {"by": "s"})


@pytest.mark.parametrize("forgets", [False, True], ids=["all offsets", "few offsets"])
def test_a_query_brings_the_records_of_earlier_batches(spark, topics, tmp_path, monkeypatch, forgets):
    """Offsets that Spark has removed are in the checkpoint; it may also begin with a later batch."""
    monkeypatch.setattr(batch_log, "KEEP_EVERY", 2)
    rows, topic = [row for row in rows_of(31, 240) if row[0] is not None], topics.name()
    rows.sort(key=lambda row: row[0])
    topics.send_rows(topic, rows[:160])
    file = workload(tmp_path, topics, topic, more="rows_per_batch: 20", sinks="[{type: parquet, path: out}]")
    running = run(file, spark=spark)
    try:
        wait_for(lambda: not running.await_end(0.1) and running.metrics()["rows"]["rows"] >= 160, 300)
        wait_for(lambda: running.handles["rows"].is_idle, 300)
        folder = tmp_path / ".skyband" / "work" / "rows"
        if forgets:
            for number in range(3):
                (folder / "offsets" / str(number)).unlink()
        assert (folder / "skyband" / "offsets.jsonl").exists()
        query = sb.sql("new: TOPK s, 4 OVER 40 SECONDS EVERY 5 SECONDS")
        assert "valid from" in LiveChanges(running).add(query, None, 60 * SECOND)
        topics.send_rows(topic, rows[160:])
        running.finish()
    finally:
        running.stop()
    clock = rows[159][0] // 1000 * 1000
    found = cases.answered(read_answers(tmp_path / "out"), [NEW])["new", "-"]
    wanted = [row for row in cases.wanted(NEW, rows)["new", "-"] if row[1] > clock and row[0] >= clock - 60 * SECOND]
    assert wanted
    assert found == wanted
