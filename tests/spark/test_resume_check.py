"""Whether a state can be resumed under another workload: told beforehand as the shard tells it."""

from __future__ import annotations

import pytest

import skyband as sb
from skyband.incomplete.plan import IncompletePlan
from skyband.spark.checkpoint import refuse_unresumable
from skyband.uncertain.plan import UncertainPlan
from tests.sharding import pipeline

TOLD = {"object": "o", "stream": "st", "value": "v", "streams": ["a"]}
UNSURE = {"by": "s", "probability": "p"}


def ranked(*queries):
    return pipeline.plan_of(queries)


def gathered(*queries):
    return IncompletePlan(queries=queries, shards=1, refuse_late=False)


def weighed(*queries):
    return UncertainPlan(queries=queries, method="greedy", refuse_late=False, may_be_late=True)


@pytest.mark.parametrize(
    ("plan", "old", "new"),
    [
        (ranked, sb.TopK(name="old", k=1, size=5, by="s"), sb.TopK(name="new", k=1, size=5, by="s")),
        (
            gathered,
            sb.IncompleteTopK(name="old", k=1, size=5, **TOLD),
            sb.IncompleteTopK(name="new", k=1, size=5, **TOLD),
        ),
        (
            weighed,
            sb.UncertainTopK(name="old", k=1, size=5, every=5, **UNSURE),
            sb.UncertainTopK(name="new", k=1, size=5, every=5, **{**UNSURE, "by": "t"}),
        ),
    ],
)
def test_count_windows_take_no_more_queries(plan, old, new):
    refuse_unresumable(plan(old), plan(old))
    refuse_unresumable(plan(old, new), plan(old))  # but one may leave
    with pytest.raises(sb.SnapshotError, match="'new' is not in this checkpoint"):
        refuse_unresumable(plan(old), plan(old, new))


@pytest.mark.parametrize(
    ("plan", "old", "new"),
    [
        (
            ranked,
            sb.TopK(name="old", k=1, size="5 seconds", by="s"),
            sb.TopK(name="new", k=1, size="5 seconds", by="-s", partition_by=["g"]),
        ),
        (
            gathered,
            sb.IncompleteTopK(name="old", k=1, size="5 seconds", **TOLD),
            sb.IncompleteTopK(name="new", k=2, size="5 seconds", **TOLD),
        ),
        (
            weighed,
            sb.UncertainTopK(name="old", k=1, size="5 seconds", every="1 second", **UNSURE),
            sb.UncertainTopK(name="new", k=1, size="5 seconds", every="2 seconds", **UNSURE),
        ),
    ],
)
def test_time_windows_do(plan, old, new):
    refuse_unresumable(plan(old), plan(old, new))
    refuse_unresumable(plan(old, new), plan(new))
