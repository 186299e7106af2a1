"""The stations of queries over uncertain streams. There is one shard, so answers are not merged."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import one
from skyband.data.group_key import with_group_columns
from skyband.kernels.stream import Ints
from skyband.sharding.pipeline import LocalAnswers, ShardPipeline, in_shape
from skyband.sharding.reported_answers import compared
from skyband.sharding.rows import positions_of
from skyband.uncertain.combiner import reduce_again
from skyband.uncertain.plan import UncertainPlan
from skyband.uncertain.reducer import weigh_rows

__all__ = ["PIPELINE"]


def _positions(plan: UncertainPlan, table: pa.Table) -> Ints:
    return positions_of(table, "position")


def _merge(plan: UncertainPlan, answers: LocalAnswers, kinds: pa.Schema) -> Iterator[pa.Table]:
    def shaped(table: pa.Table, kinds: pa.Schema) -> pa.Table:
        return in_shape(_with_groups(plan, table, kinds) if plan.group_columns else table, kinds)

    yield from compared(plan, plan.queries, plan.group_columns, (table for _, _, table in answers), shaped, kinds)


def _with_groups(plan: UncertainPlan, table: pa.Table, kinds: pa.Schema) -> pa.Table:
    names = one(table["query"])
    scans = []
    for together, groups in zip(plan.classes, plan.groups, strict=True):
        mine = pc.is_in(names, pa.array([query.name for query in together], names.type))
        scans.append((groups, np.flatnonzero(mine.to_numpy(zero_copy_only=False))))
    return with_group_columns(table, kinds, scans, plan.group_columns)


PIPELINE = ShardPipeline(weigh_rows, _positions, _merge, reduce_again=reduce_again)
