"""The rows of a stored state, under the plan that resumes it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from skyband.data.arrow import one
from skyband.errors import SnapshotError
from skyband.sharding.plan import without_copies
from skyband.topk.numbering import number_column
from skyband.topk.plan import TopKPlan

__all__ = ["rearranged", "refuse_other_rows"]


def refuse_other_rows(plan: TopKPlan, saved: dict[str, Any]) -> None:
    """Raise SnapshotError if the rows of a stored state do not fit the plan."""
    for what, old, new in (
        ("columns", without_copies(saved["columns"]), without_copies(plan.columns)),
        ("time", saved["time"], plan.time),
        ("id", saved["id"], plan.id),
        ("shards", saved["shards"], plan.shards),
    ):
        if old != new:
            raise SnapshotError(
                f"the checkpoint was written with {what}={old!r}, but the stream was started with {what}={new!r}, so "
                f"the stored rows do not fit. Use {what}={old!r}, or start with a new checkpoint."
            )


def rearranged(rows: pa.Table, plan: TopKPlan, old_scores: dict[str, str]) -> pa.Table:
    """Return the rows with the score columns of the plan's scans; for a new scan they are null."""
    scores = {
        new: one(rows[old_scores[scan.identity]]) if scan.identity in old_scores else pa.nulls(len(rows), pa.float64())
        for scan, new in zip(plan.scans, plan.scores, strict=True)
    }
    numbers = {number_column(scan) for scan in plan.scans} if plan.axis == "count" else set()
    known = {*plan.columns, *plan.group_columns, *plan.extra_columns, plan.time, plan.id, *numbers}
    rest = rows.select([name for name in rows.column_names if name in known])
    for name in dict.fromkeys([*plan.group_columns, *plan.extra_columns]):
        if name not in rest.column_names:  # only new scans are grouped by it, and none of these rows belongs to them
            rest = rest.append_column(name, pa.nulls(len(rows)))
    for name, column in scores.items():
        rest = rest.append_column(name, column)
    return rest
