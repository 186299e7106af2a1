"""The stations of queries over incomplete streams: tuples, shards of objects, and a merge."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa

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
    yield from compared(plan, plan.queries, (), complete_windows(local, "time"), partial(_ranked, plan), kinds)


def _ranked(plan: IncompletePlan, table: pa.Table, kinds: pa.Schema) -> pa.Table:
    return in_shape(merged(plan, [table]), kinds)


PIPELINE = ShardPipeline(gather_rows, _positions, _merge)
