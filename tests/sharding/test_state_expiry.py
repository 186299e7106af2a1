"""Shards over groups, keys, objects and rules that never return: their state goes with the windows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.incomplete.plan import IncompletePlan
from skyband.incomplete.reducer import gather_rows
from skyband.incomplete.shard import IncompleteShard
from skyband.uncertain.plan import UncertainPlan
from skyband.uncertain.reducer import weigh_rows
from skyband.uncertain.shard import UncertainShard
from tests.aggregate import oracle as aggregates
from tests.aggregate import test_shard as aggregate_shards
from tests.incomplete import test_shard as incomplete_shards
from tests.sharding import pipeline
from tests.uncertain import test_shard as uncertain_shards

EACH = 200  # rows of a batch
BATCHES = 24
MILLISECOND = 1000
ROWS = np.arange(EACH)


def positions(batch):
    """A window and more from one batch to the next, in microseconds."""
    return (20 * batch + ROWS * 10 // EACH) * MILLISECOND


def fresh(batch):
    return [f"{batch} {row}" for row in ROWS.tolist()]


def ranked():
    query = sb.TopK(k=2, size="10 milliseconds", slide="5 milliseconds", by="s", partition_by=["g"])
    flow = pipeline.Pipeline(pipeline.plan_of([query]))
    for batch in range(BATCHES):
        rows = zip(positions(batch).tolist(), (ROWS * 1.0).tolist(), ROWS.tolist(), fresh(batch), strict=True)
        flow.batch([list(rows)])
        yield sum(map(len, flow.states.values()))


def summed():
    query = sb.AggregateTopK(
        k=2, size="10 milliseconds", slide="5 milliseconds", key="key", value="value", partition_by=["g"]
    )
    shards = aggregate_shards.Shards(aggregate_shards.plan_of([query], grouped=True), pa.string())
    for batch in range(BATCHES):
        rows = [
            aggregates.Row(int(at), key, 1.0, group)
            for at, key, group in zip(positions(batch), fresh(batch), fresh(batch), strict=True)
        ]
        shards.step([rows], 20 * batch * MILLISECOND)
        yield sum(map(len, shards.blobs)) + sum(len(part) for segments in shards.segments for part in segments.values())


def gathered():
    query = sb.IncompleteTopK(
        k=2, size="10 milliseconds", every="5 milliseconds", streams=["a", "b"], **incomplete_shards.SHARED
    )
    plan = IncompletePlan(queries=(query,), shards=1, refuse_late=False)
    shard = IncompleteShard(plan, 0)
    for batch in range(BATCHES):
        rows = incomplete_shards.rows_of(positions(batch), fresh(batch), ["a", "b"] * (EACH // 2), ROWS / EACH, ROWS)
        found = list(gather_rows(plan, rows.to_batches()))
        shard.step([one.rows for one in found], [one.note for one in found], 20 * batch * MILLISECOND)
        shard = IncompleteShard.resume(plan, 0, shard.state())
        yield len(shard.state())


def weighed():
    plan = UncertainPlan(queries=uncertain_shards.QUERIES, method="greedy", refuse_late=False)
    shard = UncertainShard(plan, 0)
    for batch in range(BATCHES):
        rows = uncertain_shards.rows_of(positions(batch), ROWS * 1.0, np.full(EACH, 0.4), fresh(batch), ROWS)
        found = list(weigh_rows(plan, rows.to_batches()))
        shard.step([one.rows for one in found], [one.note for one in found], 20 * batch * MILLISECOND)
        shard = UncertainShard.resume(plan, 0, shard.state())
        yield len(shard.state())


@pytest.mark.parametrize("family", [ranked, summed, gathered, weighed])
def test_state_does_not_grow_with_what_never_returns(family):
    sizes = list(family())
    assert max(sizes[BATCHES // 2 :]) < 1.1 * max(sizes[: BATCHES // 2])
