"""The stations of top-k queries. A group is in one shard, so answers are not merged."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from skyband.kernels.stream import Ints
from skyband.sharding.pipeline import LocalAnswers, ShardPipeline, in_shape
from skyband.sharding.rows import positions_of
from skyband.topk.combiner import reduce_again
from skyband.topk.plan import TopKPlan
from skyband.topk.reducer import matching_rows, reduce_rows
from skyband.topk.whole_input import answer_table

__all__ = ["PIPELINE"]


def _positions(plan: TopKPlan, table: pa.Table) -> Ints:
    return positions_of(table, plan.time)


def _merge(plan: TopKPlan, answers: LocalAnswers, kinds: pa.Schema) -> Iterator[pa.Table]:
    for _, _, table in answers:
        yield in_shape(table, kinds)


PIPELINE = ShardPipeline(
    reduce_rows,
    _positions,
    _merge,
    end="window_end",
    reduce_again=reduce_again,
    matching=matching_rows,
    whole=answer_table,
    takes_dictionaries=True,
)
