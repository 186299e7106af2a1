"""The number of shards changes between micro-batches, at random, and all answers and changes stay the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyband.errors import SnapshotError
from skyband.topk.resharding import resharded
from skyband.topk.shard import TopKShard
from tests.sharding import cases
from tests.sharding.pipeline import Pipeline, plan_of


def move(pipeline, shards):
    """Convert the stored states of a pipeline to another number of shards."""
    before, after = pipeline.plan, replace(pipeline.plan, shards=shards)
    found = resharded([TopKShard.resume(before, number, blob) for number, blob in pipeline.states.items()], after)
    pipeline.plan, pipeline.states = after, {shard.number: shard.state() for shard in found}


def run(plan, batches, numbers=()):
    pipeline = Pipeline(plan)
    for place, batch in enumerate(batches):
        if numbers and place and pipeline.states:
            move(pipeline, numbers[place % len(numbers)])
        pipeline.batch([batch])
    pipeline.batch([], end=True)
    return pipeline


@pytest.mark.parametrize("output", ["answers", "both"])
@pytest.mark.parametrize("axis", ["time", "count"])
@pytest.mark.parametrize("seed", range(30))
def test_the_number_of_shards_changes_no_answer(seed, axis, output):
    random = cases.rng("moved", seed, axis)
    posed = [cases.draw_posed(random, f"q{number}", axis=axis) for number in range(random.randint(1, 4))]
    batches = cases.draw_cuts(random, cases.draw_rows(random, random.choice([20, 100])))
    plan = replace(plan_of([one.query(axis) for one in posed], shards=random.randint(1, 4)), output=output)
    found = run(plan, batches, [random.randint(1, 6) for _ in range(3)])
    wanted = run(plan, batches)
    assert sorted(map(repr, found.found)) == sorted(map(repr, wanted.found))
    assert found.late == wanted.late
    plain = {}
    for one in posed:
        plain |= cases.wanted(one, [row for batch in batches for row in batch], axis)
    assert cases.answered([row for row in found.found if row.get("change") is None], posed) == plain


def test_queries_cannot_change_together_with_the_shards():
    posed = [cases.draw_posed(cases.rng("both", number), f"q{number}") for number in range(2)]
    pipeline = run(plan_of([posed[0].query()]), [cases.draw_rows(cases.rng("rows"), 20)])
    pipeline.plan = plan_of([one.query() for one in posed])
    with pytest.raises(SnapshotError, match="query 'q1' is not in this checkpoint"):
        move(pipeline, 2)
