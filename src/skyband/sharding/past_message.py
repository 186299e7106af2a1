"""The past of queries that join a stream on Spark, as a message to each shard.

The message contains a shard of the same plan that has processed the same micro-batches, with the rows of the joining
queries (`Shard.take_past`), or of all queries (`Shard.replace`). It reaches the shard with the next micro-batch, so the
state with the past is stored together with the rows of that batch, or not at all. A message that was written for
another workload is ignored: its change was interrupted.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Any

from skyband.sharding.plan import ShardPlan
from skyband.sharding.shard import MemorySegments, Shard, Tally, shard_type
from skyband.snapshot import resuming

__all__ = ["PAST", "newest_past", "past_message", "with_past"]

PAST = "past"
Parts = list[tuple[list[Any], Tally]]


def past_message(shard: Shard, reported_from: Mapping[str, int], attempt: int) -> dict[str, Any]:
    """Return the message with a shard. The queries report windows that start at or after `reported_from`."""
    state = shard.state()  # before its segments, which it writes
    assert isinstance(shard.segments, MemorySegments)
    return {
        "kind": PAST,
        "attempt": attempt,
        "queries": _texts(shard.plan),
        "shards": shard.plan.shards,
        "reported_from": dict(reported_from),
        "state": b64encode(state).decode(),
        "segments": {str(number): b64encode(data).decode() for number, data in shard.segments.items()},
    }


def newest_past(messages: Iterable[Mapping[str, Any]], plan: ShardPlan) -> Mapping[str, Any] | None:
    """Return the newest message that was written for the shards and the queries of a plan.

    Queries may have been dropped since: one that fails on a row is dropped before the micro-batch is repeated.
    """
    now, names = set(_texts(plan)), {query.name for query in plan.queries}
    fitting = (
        one
        for one in messages
        if now.issubset(one["queries"]) and one["shards"] == plan.shards and names.intersection(one["reported_from"])
    )
    return max(fitting, key=lambda one: int(one["attempt"]), default=None)


def with_past(shard: Shard, message: Mapping[str, Any]) -> tuple[Shard, Parts]:
    """Return the shard with what its queries would hold from the start, and the answers of other queries that are due.

    The past can be at a later time than the shard, which was not stepped if nothing arrived for it. All rows before
    that time have arrived, so the shard first answers the windows that end by then.
    """
    kind, plan = shard_type(shard.plan, shard.number), shard.plan
    names = {query.name for query in plan.queries}
    reported_from = {name: int(at) for name, at in message["reported_from"].items() if name in names}
    segments = {int(number): b64decode(data) for number, data in message["segments"].items()}
    with resuming():
        past = kind.resume(plan, shard.number, b64decode(message["state"]), MemorySegments(segments))
    shard.past = frozenset(reported_from)
    shard.begin_queries(None)  # as without a past; replaced below
    parts: Parts = [shard.step([], [], past.clock)] if past.clock > shard.clock else []
    if kind.takes_past:
        shard.take_past(past, reported_from)
        return shard, parts
    if shard.clock > past.clock:  # its answers up to there were emitted
        past.step([], [], shard.clock)
    found = _stored(past, shard.segments)
    found.replace(shard, reported_from)
    return found, parts


def _stored(past: Shard, store: Any) -> Shard:
    """Return a shard whose segments are in a store, in place of what the store contains."""
    state = past.state()
    assert isinstance(past.segments, MemorySegments)
    store.clear()
    for number, data in past.segments.items():
        store.put(number, data)
    return type(past).resume(past.plan, past.number, state, store)


def _texts(plan: ShardPlan) -> list[str]:
    """Return the queries of a plan as text, to compare them with those of a message."""
    return [repr(sorted(fields.items())) for fields in plan.query_fields]
