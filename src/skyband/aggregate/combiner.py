"""Add up the partials of several tasks that have the same key and pane."""

from __future__ import annotations

from skyband.aggregate.extreme_rows import PartialLayout, added
from skyband.aggregate.plan import AggregatePlan
from skyband.sharding.envelope import Envelope

__all__ = ["add_partials"]


def add_partials(plan: AggregatePlan, envelope: Envelope) -> Envelope:
    """Return the envelope with one partial for each group, key and pane."""
    scan = envelope.shard // plan.shards
    if not envelope.rows.num_rows or plan.is_ordered(scan):
        return envelope
    return envelope._replace(rows=added(PartialLayout.of(plan, scan), envelope.rows))
