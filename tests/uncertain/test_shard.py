"""Uncertain streams in a pipeline: whatever the batches and the restarts, answers are those of one monitor."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.uncertain.plan import UncertainPlan
from skyband.uncertain.reducer import ID, TIME, columns_of, weigh_rows
from skyband.uncertain.shard import UncertainShard

SHARED = {"by": "s", "probability": "p", "rule": "r", "size": "40 milliseconds"}
QUERIES = (
    sb.UncertainTopK(name="often", k=2, every="4 milliseconds", **SHARED),
    sb.UncertainTopK(name="deep", k=4, every="10 milliseconds", semantics="pt-k", threshold=0.02, **SHARED),
    sb.UncertainTopK(name="ranks", k=3, every="20 milliseconds", semantics="u-kranks", **SHARED),
)
WEIGHED = (
    *QUERIES[:2],
    sb.UncertainTopK(name="weighed", k=3, every="20 milliseconds", semantics="prf", weights=[1, 0.5, 0.25], **SHARED),
    sb.UncertainTopK(name="falling", k=3, every="20 milliseconds", semantics="prf", alpha=0.75, **SHARED),
)


def rows_of(positions, scores, chances, rules, ids):
    names = columns_of(0)
    return pa.table(
        {
            TIME: pa.array(positions).cast(pa.timestamp("us", "UTC")),
            ID: pa.array(ids),
            names[0]: pa.array(scores, pa.float64()),
            names[1]: pa.array(chances, pa.float64()),
            names[2]: pa.array(rules, pa.string()),
        }
    )


def drawn(seed, n=150):
    rng = np.random.default_rng(seed)
    positions = np.cumsum(rng.integers(0, 4, n)) * 1000 + 5000
    rules = [f"r{number}" if number < 8 else None for number in rng.integers(0, 16, n)]
    return positions, rng.integers(0, 20, n).astype(float), rng.integers(1, 6, n) / 100, rules, np.arange(n)


def run(plan, batches, restarts=False):
    shard = UncertainShard(plan, 0)
    tables, late = [], 0
    steps = [(list(weigh_rows(plan, rows.to_batches(max_chunksize=9))), watermark) for rows, watermark in batches]
    for envelopes, watermark in [*steps, ([], None)]:
        last = watermark is None and not envelopes
        found = shard.step([one.rows for one in envelopes], [one.note for one in envelopes], watermark, end=last)
        tables += found[0]
        late += found[1].late
        if restarts:
            shard = UncertainShard.resume(plan, 0, shard.state())
    return pa.concat_tables(tables, promote_options="permissive"), late


@pytest.mark.parametrize("seed", range(8))
def test_as_one_monitor_over_the_ordered_stream(seed):
    rng = np.random.default_rng(seed)
    positions, scores, chances, rules, ids = drawn(seed)
    expected = sb.uncertain.replay(QUERIES, positions, scores, chances, rules, ids).to_pylist()
    arrival = np.argsort(positions + rng.integers(0, 9_000, positions.size), kind="stable")
    rows = rows_of(positions, scores, chances, rules, ids).take(pa.array(arrival))
    batches, watermark = [], None
    for low in range(0, positions.size, 31):
        batches.append((rows.slice(low, 31), watermark))
        watermark = max(0, int(positions[arrival[: low + 31]].max()) - 9_000) // 1000 * 1000
    found, late = run(
        UncertainPlan(queries=QUERIES, method="greedy", refuse_late=False), batches, restarts=seed % 2 == 0
    )
    assert late == 0
    assert [round_(row) for row in found.to_pylist()] == [round_(row) for row in expected]


@pytest.mark.parametrize("queries", [WEIGHED[:3], WEIGHED])
def test_ranking_functions_in_a_pipeline(queries):
    """With certain tuples, so that the reducer drops some; not if a query has weights for all ranks, for so few."""
    positions, scores, chances, rules, ids = drawn(3, n=300)
    positions = positions[0] + (positions - positions[0]) // 8000 * 1000
    chances = np.where([rule is None for rule in rules], 1.0, chances)
    expected = sb.uncertain.replay(queries, positions, scores, chances, rules, ids).to_pylist()
    rows = rows_of(positions, scores, chances, rules, ids)
    plan = UncertainPlan(queries=queries, method="auto", refuse_late=False)
    batches = [(rows.slice(low, 31), None) for low in range(0, positions.size, 31)]
    found, _ = run(plan, batches, restarts=True)
    assert [round_(row) for row in found.to_pylist()] == [round_(row) for row in expected]
    sent = sum(one.rows.num_rows for one in weigh_rows(plan, rows.to_batches()))
    assert (sent < positions.size) == (len(queries) == 3)


def round_(row):
    prf = {"prf": row["prf"] and round(row["prf"], 12)} if "prf" in row else {}
    return {**row, **prf, "probability": round(row["probability"], 12)}


def test_what_exists_in_no_world_is_refused():
    plan = UncertainPlan(queries=QUERIES, method="greedy", refuse_late=False)
    for chance in (0.0, 1.5, None):
        rows = rows_of([1_000], [5.0], [chance], [None], [1])
        with pytest.raises(sb.InvalidInputError, match=r"probability='.*' must be in \(0, 1\], got"):
            list(weigh_rows(plan, rows.to_batches()))


def test_rows_without_score_or_time_are_left_out():
    plan = UncertainPlan(queries=QUERIES, method="greedy", refuse_late=False)
    rows = rows_of([1_000, 2_000, None, 4_000], [5.0, float("nan"), 1.0, None], [0.5] * 4, [None] * 4, [1, 2, 3, 4])
    (found,) = weigh_rows(plan, rows.to_batches())
    assert (found.taken, found.dropped_null, found.rows.num_rows) == (4, 2, 1)


def test_queries_come_and_go_at_a_restart():
    positions, scores, chances, rules, ids = drawn(3)
    plan = UncertainPlan(queries=(QUERIES[0], QUERIES[2]), method="greedy", refuse_late=False)
    shard = UncertainShard(plan, 0)
    half = 75
    first = list(weigh_rows(plan, rows_of(positions, scores, chances, rules, ids).slice(0, half).to_batches()))
    shard.step([one.rows for one in first], [one.note for one in first], int(positions[half]) // 1000 * 1000)
    fewer = sb.UncertainTopK(name="few", k=1, every="8 milliseconds", **SHARED)
    after = UncertainPlan(queries=(QUERIES[2], fewer), method="greedy", refuse_late=False)
    again = UncertainShard.resume(after, 0, shard.state())
    rest = list(weigh_rows(after, rows_of(positions, scores, chances, rules, ids).slice(half).to_batches()))
    out, _ = again.step([one.rows for one in rest], [one.note for one in rest], None)
    end, _ = again.step([], [], None, end=True)
    told = pa.concat_tables([*out, *end], promote_options="permissive")
    assert set(told["query"].to_pylist()) == {"ranks", "few"}
    times = sorted(set(told.filter(pa.compute.equal(told["query"], "few"))["time"].to_pylist()))
    assert max(np.diff(times)) <= 8_000
