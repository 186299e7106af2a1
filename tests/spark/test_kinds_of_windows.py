"""Sessions, calendar windows and decayed totals of streams on Spark that are restarted after every micro-batch."""

from __future__ import annotations

import random

import pytest

import skyband as sb
from skyband.aggregate.brute_force import by_definition as totals_by_definition
from skyband.topk.brute_force import by_definition
from tests.spark.frames import frame, table
from tests.spark.test_streams import Run
from tests.waiting import process_all

pytestmark = pytest.mark.long

MINUTE = 60_000_000
BEFORE_DST = 1_710_043_200_000_000  # 2024-03-09 23:00 in New York; the next night has one hour less
ROWS = [
    sb.TopK(name="visits", k=2, by="s", partition_by="g", gap="20 minutes", max_length="2 hours"),
    sb.TopK(name="ruled", k=2, by=["s", "odd asc", "id asc"], gap="15 minutes", distinct="id % 5"),
    sb.TopK(name="decayed", k=3, by="s", gap="30 minutes", half_life="10 minutes", partition_by="g"),
    sb.TopK(name="days", k=2, by="s", size="1 day", zone="America/New_York", partition_by="g"),
    sb.TopK(name="so far", k=2, by="s", size="1 day", slide="6 hours", cumulative=True, zone="America/New_York"),
    sb.TopK(name="ever", k=3, by="s", size=None, slide="12 hours"),
]
TOTALS = [
    sb.AggregateTopK(name="hot", k=2, key="id % 7", value="s", size="6 hours", slide="1 hour", half_life="20 minutes"),
    sb.AggregateTopK(name="busy", k=2, key="id % 7", aggregate="count", size="2 hours", half_life="15 minutes"),
    sb.AggregateTopK(
        name="mean", k=3, key="id % 7", value="s", aggregate="avg", size="3 hours", half_life="15 minutes", order="asc"
    ),
    sb.AggregateTopK(name="days", k=2, key="id % 7", value="s", size="1 day", zone="America/New_York"),
]


@pytest.fixture
def run(spark, tmp_path):
    return Run(spark, tmp_path)


def drawn(seed):
    """Rows over three days, out of order by up to an hour, in four batches."""
    draw, at, rows = random.Random(repr(seed)), BEFORE_DST, []
    for number in range(160):
        at += draw.choice([0, 1, 5, 12, 19, 20, 45, 90 if draw.random() < 0.3 else 3]) * MINUTE
        rows.append((at, draw.choice([1.0, 2.0, 3.0, 5.0, None]), number, draw.choice("ab")))
    rows.sort(key=lambda row: row[0] + draw.randrange(60) * MINUTE)
    return [rows[low : low + 40] for low in range(0, 160, 40)]


def restarted(run, queries, batches):
    """Process the batches, each by another run of the stream; then end it."""
    for batch in batches:
        run.add(batch)
        handle = run.start(queries, watermark="1 hour", shards=3)
        process_all(handle.query)
        handle.stop()
    metrics = run.finish(queries, watermark="1 hour", shards=3)
    assert metrics["late"] == 0
    return run.found()


def in_microseconds(moment):
    return round(moment.timestamp() * 1e6)


@pytest.mark.parametrize("seed", [0, 1])
def test_rows_of_sessions_and_calendar_windows(run, seed):
    batches = drawn(seed)
    found = restarted(run, ROWS, batches)
    rows = table([row for batch in batches for row in batch])
    expected = by_definition(rows, sb.Workload(ROWS), time="ts", id_="id").to_pylist()
    wanted = sorted(
        (row["query"], str(row["g"]), in_microseconds(row["window_end"]), row["rank"], row["__id"]) for row in expected
    )
    mine = [query.name for query in ROWS if query.partition_by]
    assert wanted == sorted(
        (
            row["query"],
            str(row["g"] if row["query"] in mine else None),
            in_microseconds(row["window_end"]),
            row["rank"],
            row["id"],
        )
        for row in found
    )
    scores = {(row["query"], row["window_end"], row["rank"], row["__id"]): row["score"] for row in expected}
    for row in found:
        assert row["score"] == pytest.approx(
            scores[row["query"], row["window_end"], row["rank"], row["id"]],
            rel=1e-3 if row["query"] == "decayed" else 0,
        )


@pytest.mark.parametrize("seed", [0, 1])
def test_totals_that_decay(run, spark, seed):
    """And the brute force of `verify` on Spark orders and scores the keys in the same way."""
    from skyband.aggregate.verification import by_brute_force

    batches = drawn(("totals", seed))
    found = restarted(run, TOTALS, batches)
    rows = [row for batch in batches for row in batch]
    workload = sb.Workload(TOTALS)
    expected = totals_by_definition(table(rows), workload, time="ts").to_pylist()

    def listed(answers):
        return sorted((row["query"], in_microseconds(row["window_end"]), row["rank"], row["key"]) for row in answers)

    assert listed(found) == listed(expected)
    scores = {(row["query"], row["window_end"], row["rank"]): row["score"] for row in expected}
    for row in found:
        assert row["score"] == pytest.approx(scores[row["query"], row["window_end"], row["rank"]], rel=1e-3)
    brute = by_brute_force(frame(spark, rows), workload, time="ts", id_="id").toArrow().to_pylist()
    assert listed(brute) == listed(expected)
    assert {(row["query"], row["window_end"], row["rank"]): row["score"] for row in brute} == pytest.approx(scores)
