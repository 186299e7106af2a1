"""Reports of micro-batches are each added up once, and Spark is not asked for all of them when one is enough."""

from __future__ import annotations

import pytest

from skyband.spark.metrics import StreamProgress


def report(batch, run="a", rows=10, at=None):
    """What Spark says of a micro-batch; with `rows=None`, that it has none to do."""
    seen = None if rows is None else {"skyband_in": {"taken": rows}}
    return {
        "runId": run, "batchId": batch, "timestamp": str(batch if at is None else at), "observedMetrics": seen,
        "durationMs": {"triggerExecution": 5}, "sources": [],
    }  # fmt: skip


class Query:
    """A query of Spark's that has reported this; counts how often it was asked for everything."""

    def __init__(self):
        self.reports, self.asked = [], 0

    @property
    def lastProgress(self):  # noqa: N802
        return self.reports[-1] if self.reports else None

    @property
    def recentProgress(self):  # noqa: N802
        self.asked += 1
        return self.reports[-100:]


@pytest.fixture
def query():
    return Query()


def counted(progress):
    found = progress.metrics()
    return found["batches"], found["rows"]


def test_every_batch_is_asked_for_once(query):
    progress = StreamProgress()
    progress.take(query)
    assert (counted(progress), query.asked) == ((0, 0), 0)
    for batch in range(5):
        query.reports.append(report(batch))
        for _ in range(3):
            progress.take(query)
        assert counted(progress) == (batch + 1, 10 * (batch + 1))
    assert query.asked == 1, "only the first time nothing was known before"


def test_what_was_missed_is_made_up_for(query):
    progress = StreamProgress()
    query.reports = [report(batch) for batch in range(3)]
    progress.take(query)
    query.reports += [report(3), report(4), report(5, rows=None)]  # two batches, and then nothing to do
    progress.take(query)
    assert counted(progress) == (5, 50)
    query.reports += [report(5, rows=None, at="later"), report(5, at="later still")]
    progress.take(query)
    assert counted(progress) == (6, 60)


def test_a_stream_that_is_taken_up_again_counts_on(query):
    progress = StreamProgress()
    query.reports = [report(0), report(1)]
    progress.take(query)
    query.reports = [report(1, run="b"), report(2, run="b")]
    progress.take(query)
    query.reports.append(report(3, run="b"))
    progress.take(query)
    assert counted(progress) == (5, 50)
    assert query.asked == 2
