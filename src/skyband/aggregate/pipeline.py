"""The stations of aggregate queries: partials, totals in shards of keys, and a merge for each scan."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import groupby
from operator import itemgetter

import pyarrow as pa

from skyband.aggregate.combiner import add_partials
from skyband.aggregate.ordered_rows import POSITION
from skyband.aggregate.ordered_shard import in_answer_order
from skyband.aggregate.plan import AggregatePlan
from skyband.aggregate.reducer import panes_of, sum_rows
from skyband.aggregate.shard import merged
from skyband.kernels.stream import Ints
from skyband.sharding.bounded_input import complete_windows
from skyband.sharding.pipeline import LocalAnswers, ShardPipeline
from skyband.sharding.reported_answers import compared
from skyband.sharding.rows import positions_of

__all__ = ["PIPELINE"]


def _positions(plan: AggregatePlan, table: pa.Table) -> Ints:
    return panes_of(table) if "pane" in table.column_names else positions_of(table, POSITION)


def _merge(plan: AggregatePlan, answers: LocalAnswers, kinds: pa.Schema) -> Iterator[pa.Table]:
    """Merge the answers of all shards, by scan. Those of one scan must come one after another."""
    found = ((unit // plan.shards, first, table) for unit, first, table in answers)
    for scan, tables in groupby(found, key=itemgetter(0)):
        complete = complete_windows(((first, table) for _, first, table in tables), "end")
        queries = [plan.queries[place] for place in plan.scans[scan].places]
        yield from compared(plan, queries, plan.groups[scan], complete, partial(_ranked, plan, scan), kinds)


def _ranked(plan: AggregatePlan, scan: int, table: pa.Table, kinds: pa.Schema) -> pa.Table:
    merge = in_answer_order if plan.is_ordered(scan) else merged
    return merge(plan, scan, [table]).cast(kinds)


PIPELINE = ShardPipeline(sum_rows, _positions, _merge, end="end", reduce_again=add_partials)
