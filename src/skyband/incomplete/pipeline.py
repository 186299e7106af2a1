"""The stations of queries over incomplete streams: tuples, shards of objects, and a merge."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from skyband.data.arrow import one
from skyband.data.group_key import with_group_columns
from skyband.incomplete.plan import IncompletePlan
from skyband.incomplete.reducer import gather_rows
from skyband.incomplete.shard import merged
from skyband.kernels.stream import Ints
from skyband.sharding.bounded_input import complete_windows
from skyband.sharding.pipeline import LocalAnswers, ShardPipeline, in_shape
from skyband.sharding.reported_answers import compared
from skyband.sharding.rows import positions_of

__all__ = ["PIPELINE"]


def _positions(plan: IncompletePlan, table: pa.Table) -> Ints:
    return positions_of(table, "position")


def _merge(plan: IncompletePlan, answers: LocalAnswers, kinds: pa.Schema) -> Iterator[pa.Table]:
    local = ((first, table) for _, first, table in answers)
    groups = plan.group_columns
    yield from compared(plan, plan.queries, groups, complete_windows(local, "time"), partial(_ranked, plan), kinds)


def _ranked(plan: IncompletePlan, table: pa.Table, kinds: pa.Schema) -> pa.Table:
    found = merged(plan, [table])
    if plan.group_columns:
        places = one(found["place"]).to_numpy()
        scans = [
            (groups, np.flatnonzero(np.isin(places, scan.places)))
            for scan, groups in zip(plan.scans, plan.groups, strict=True)
        ]
        found = with_group_columns(found, kinds, scans, plan.group_columns)
    return in_shape(found, kinds)


PIPELINE = ShardPipeline(gather_rows, _positions, _merge)
