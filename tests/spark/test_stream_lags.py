"""How far streams lag behind each other, from what Spark reports after each micro-batch."""

from __future__ import annotations

from skyband.spark.metrics import StreamProgress
from skyband.spark.plan import StreamInfo

SECOND = 1_000_000


def report(batch, **newest):
    return {
        "runId": "r",
        "batchId": batch,
        "observedMetrics": {"skyband_out": {"windows": 1}, "skyband_streams": newest},
        "durationMs": {},
        "sources": [],
    }


def test_lags_are_told_from_the_newest_row_of_all():
    progress = StreamProgress(StreamInfo("exact", "time", None, False, ("north", "south")))
    assert "lags" not in progress.metrics()
    progress.add(report(0, newest_0=50 * SECOND, newest_1=None))
    assert progress.metrics()["lags"] == {"north": 0.0}
    progress.add(report(1, newest_0=60 * SECOND, newest_1=45 * SECOND))
    progress.add(report(2, newest_0=58 * SECOND, newest_1=47 * SECOND))  # late rows do not turn time back
    assert progress.metrics()["lags"] == {"north": 0.0, "south": 13.0}


def test_other_families_have_none():
    progress = StreamProgress(StreamInfo("panes", "time", 10, False))
    progress.add(report(0, newest_0=1))
    assert "lags" not in progress.metrics()
