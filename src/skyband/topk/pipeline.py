"""The stations of top-k queries. A group is in one shard, so answers are not merged."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from skyband.kernels.stream import Ints
from skyband.sharding.pipeline import LocalAnswers, ShardPipeline, in_shape
from skyband.sharding.rows import positions_of
from skyband.topk.plan import TopKPlan
from skyband.topk.reducer import reduce_rows
from skyband.topk.whole_input import answer_table

__all__ = ["PIPELINE"]


def _positions(plan: TopKPlan, table: pa.Table) -> Ints:
    return positions_of(table, plan.time)


def _merge(plan: TopKPlan, answers: LocalAnswers, kinds: pa.Schema) -> Iterator[pa.Table]:
    for _, _, table in answers:
        yield in_shape(table, kinds)


def _matching(plan: TopKPlan, rows: pa.Table) -> pa.Table:
    """Drop rows that every filter removes. On Spark, `topk.spark` does the same before rows reach the tasks."""
    if not all(scan.where for scan in plan.scans):
        return rows
    return rows.filter(reduce(pc.or_, [rows[name].is_valid() for name in plan.scores]))


PIPELINE = ShardPipeline(
    reduce_rows,
    _positions,
    _merge,
    end="window_end",
    matching=_matching,
    whole=answer_table,
    takes_dictionaries=True,
)
