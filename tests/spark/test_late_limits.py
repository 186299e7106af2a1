"""Late rows are reported while a stream runs, and stop it where they are more than it may have."""

from __future__ import annotations

import logging

import pytest

import skyband as sb
from skyband.jobs import run
from skyband.spark.late_limits import LateLimits
from tests.spark.frames import write_files

FILE = """
streams: {rows: {path: in, format: parquet, time: ts, id: id, watermark: 0 seconds, files_per_batch: 1}}
queries: [{name: all, k: 3, size: 2 seconds, by: s}]
sinks: [{type: memory}]
engine: {late: {warn: 1%, fail: 30%}}
"""


def test_a_warning_is_logged_above_the_share_and_again_when_late_rows_have_doubled(caplog):
    limits = LateLimits(warn=0.01)
    with caplog.at_level(logging.WARNING, "skyband.late"):
        for rows, late in ((1000, 10), (1000, 11), (1000, 12), (1000, 21), (1000, 22)):
            limits.watch({"rows": rows, "late": late}, "trades")
    assert [record.args[1] for record in caplog.records] == ["11 of 1,000 rows (1.10%)", "22 of 1,000 rows (2.20%)"]
    assert caplog.messages[0].startswith(
        "stream 'trades': 11 of 1,000 rows (1.10%) were behind the watermark and dropped"
    )


def test_more_late_rows_than_allowed_raise():
    limits = LateLimits(fail=0.05)
    limits.watch({"rows": 100, "late": 5}, None)
    with pytest.raises(sb.PipelineError, match=r"the stream stopped: 6 of 100 rows \(6.00%\).*late.fail=5.00%"):
        limits.watch({"rows": 100, "late": 6}, None)


def test_a_share_is_between_nothing_and_all():
    with pytest.raises(
        sb.InvalidInputError, match=r"late\.fail must be a share of the rows between 0 and 1, such as 0\.05, got 5"
    ):
        LateLimits(fail=5)


@pytest.mark.long
def test_a_stream_with_too_many_late_rows_stops(spark, tmp_path, caplog):
    second = 1_000_000
    rows = [(number * second, 1.0, number, "a") for number in range(1, 21)]
    write_files(tmp_path / "in", [rows[10:], rows[:9]])
    (tmp_path / "work.yaml").write_text(FILE)
    running = run(sb.read_workload(tmp_path / "work.yaml"), spark=spark)
    with (
        caplog.at_level(logging.WARNING, "skyband.late"),
        pytest.raises(sb.PipelineError, match=r"stream 'rows' stopped: 9 of 19 rows \(47.37%\) were behind"),
    ):
        running.await_end(300)
