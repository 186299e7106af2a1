"""Distribute the state of top-k shards over another number of shards.

A shard stores rows, and its other state belongs to groups or to the whole stream. So every row, count and newest answer
moves to the shard where its group is under the new number.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from skyband.errors import SnapshotError
from skyband.sharding.rows import group_rows, scores_of, shard_of_groups
from skyband.topk.plan import TopKPlan
from skyband.topk.reducer import homes_of, part_of
from skyband.topk.shard import TopKShard
from skyband.topk.shard_answers import joined
from skyband.windows import ALWAYS, NEVER

__all__ = ["resharded"]


def resharded(shards: Sequence[TopKShard], plan: TopKPlan) -> list[TopKShard]:
    """Return the shards of `plan` with the state of `shards`, which have the same queries."""
    clock = max(shard.clock for shard in shards)
    found = [TopKShard(plan, number) for number in range(plan.shards)]
    for shard in shards:
        _advance(shard, clock)
        for target in found:
            target.clock = clock
            target.newest = max(target.newest, shard.newest)
            target.reached = max(target.reached, shard.reached)
            target.settled = max(target.settled, shard.settled)
            target.corrections = max(target.corrections, shard.corrections)
            target.since |= {name: max(at, target.since.get(name, ALWAYS)) for name, at in shard.since.items()}
            target.session_starts |= shard.session_starts
            for scan, first in shard.firsts.items():
                target.firsts[scan] = min(first, target.firsts.get(scan, NEVER))
        _move_rows(shard, found, plan)
        _move_counts(shard, found, plan)
    return found


def _advance(shard: TopKShard, clock: int) -> None:
    """Advance a shard that had nothing to do since the clock of another one."""
    if shard.joining:
        raise SnapshotError(
            f"query {shard.joining[0]!r} is not in this checkpoint. Queries and the number of shards cannot change in "
            "the same start; nothing was changed. Change the number of shards with the stored queries first."
        )
    answers = shard.step([], [], clock)[0] if clock > shard.clock else []
    if answers:
        raise SnapshotError(
            f"shard {shard.number} has answers that it has not emitted, so its state cannot be moved; nothing was "
            "changed. Start the stream with the stored number of shards, stop it, and try again."
        )


def _move_rows(shard: TopKShard, found: Sequence[TopKShard], plan: TopKPlan) -> None:
    rows = shard.rows
    if rows is None or not rows.num_rows:
        return
    homes = homes_of(plan, rows)
    scored = [~np.isnan(scores_of(rows, name)) for name in plan.scores]
    windows = shard.shown
    scan_of = np.empty(len(plan.queries), np.int64)
    for number, scan in enumerate(plan.scans):
        scan_of[list(scan.places)] = number
    firsts = windows.rows[np.cumsum(windows.counts) - windows.counts]
    window_homes = np.array([homes[scan_of[query]][row] for query, row in zip(windows.queries, firsts, strict=True)])
    for number, target in enumerate(found):
        kept = np.logical_or.reduce([mine & (home == number) for mine, home in zip(scored, homes, strict=True)])
        if not kept.any():
            continue
        shown = windows.chosen(np.flatnonzero(window_homes == number)).moved(kept)
        before = 0 if target.rows is None else target.rows.num_rows
        part = part_of(plan, rows, homes, np.flatnonzero(kept), number)
        target.rows = part if target.rows is None else pa.concat_tables([target.rows, part], promote_options="default")
        target.shown = joined([target.shown, shown._replace(rows=shown.rows + before)])


def _move_counts(shard: TopKShard, found: Sequence[TopKShard], plan: TopKPlan) -> None:
    """Move the numbers of objects of each group, for count windows."""
    if shard.numbering is None:
        return
    for number, (scan, columns) in enumerate(zip(plan.scans, plan.groups, strict=True)):
        counts = shard.numbering.counts(number)
        if counts is None or not (columns or scan.home(shard.plan.shards) == shard.number):
            continue  # only one shard counts for a scan without groups
        grouping = group_rows(counts, columns)
        homes = (
            shard_of_groups(counts, columns, grouping, plan.shards)[grouping.codes]
            if columns
            else np.full(counts.num_rows, scan.home(plan.shards))
        )
        for place, target in enumerate(found):
            if target.numbering is not None and (homes == place).any():
                target.numbering.add_counts(number, counts.filter(pa.array(homes == place)))
