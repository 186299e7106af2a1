"""The stations of queries over uncertain streams. There is one shard, so answers are not merged."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

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
    yield from compared(plan, plan.queries, (), (table for _, _, table in answers), in_shape, kinds)


PIPELINE = ShardPipeline(weigh_rows, _positions, _merge, reduce_again=reduce_again)
