"""Whether the state of one workload can be resumed under another, found out before the first is stopped."""

from __future__ import annotations

from typing import Any

from skyband.aggregate import reducer
from skyband.aggregate.shard import Memory, TotalsShard
from skyband.incomplete.plan import GatheringPlan
from skyband.incomplete.shard import Gathering
from skyband.topk.plan import Plan
from skyband.topk.shard import Shard
from skyband.uncertain.plan import WeighingPlan
from skyband.uncertain.shard import Weighing

__all__ = ["AnyPlan", "refuse_unresumable"]

AnyPlan = Plan | GatheringPlan | WeighingPlan | reducer.Plan
_SHARDS: dict[type, Any] = {Plan: Shard, GatheringPlan: Gathering, WeighingPlan: Weighing}


def refuse_unresumable(before: AnyPlan, after: AnyPlan) -> None:
    """Refuse a plan that a shard would refuse when it loads what it stored under the plan `before`.

    A shard that has seen the stream, and holds nothing, is stored and resumed: so the checks are those of the shard.
    """
    if isinstance(before, reducer.Plan) and isinstance(after, reducer.Plan):
        for unit in range(0, before.units, before.shards):
            parcels = Memory()
            totals = TotalsShard(before, unit, parcels)
            totals.newest = 0
            TotalsShard.resume(after, unit, totals.state(), parcels)
        return
    kind = _SHARDS[type(before)]
    shard = kind(before, 0)
    shard.newest = 0
    kind.resume(after, 0, shard.state())
