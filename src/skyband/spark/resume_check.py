"""Whether the state of one workload can be resumed under another, found out before the first is stopped."""

from __future__ import annotations

from skyband.sharding.plan import ShardPlan

__all__ = ["refuse_unresumable"]


def refuse_unresumable(before: ShardPlan, after: ShardPlan) -> None:
    """Refuse a plan that a shard would refuse when it loads what it stored under the plan `before`.

    A shard that has seen the stream, and holds nothing, is stored and resumed: so the checks are those of the shard.
    """
    from skyband.sharding.shard import shard_type  # noqa: PLC0415 - loads compiled code, and few runs need it

    kind = shard_type(before)
    for number in range(0, before.units, before.shards):  # one of each scan
        shard = kind(before, number)
        shard.newest = 0
        kind.resume(after, number, shard.state(), shard.segments)
