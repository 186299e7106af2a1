"""A bounded input in any order: no row is late, answers are those of the ordered stream, and little is held at once."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.aggregate.reducer import panes_of, sum_rows
from skyband.data.packed_table import unpack_table
from skyband.incomplete.plan import IncompletePlan
from skyband.incomplete.reducer import gather_rows
from skyband.incomplete.shard import merged
from skyband.sharding import bounded_input
from skyband.sharding.rows import positions_of
from skyband.spark import tasks
from skyband.topk.reducer import reduce_rows
from skyband.topk.shard import TopKShard
from skyband.uncertain.plan import UncertainPlan
from skyband.uncertain.reducer import weigh_rows
from tests.aggregate import cases as aggregate_cases
from tests.aggregate import oracle as aggregate_oracle
from tests.aggregate import test_shard as aggregate_shards
from tests.drive import ALGORITHMS
from tests.incomplete import test_shard as incomplete_shards
from tests.incomplete.drive import listed, some_tuples
from tests.sharding import cases
from tests.sharding.pipeline import plan_of, scored
from tests.uncertain import test_shard as uncertain_shards

COLUMNS = ("shard", "rows", "note", "oldest", "taken", "dropped_null")
ENVELOPES = pa.schema([(name, pa.binary() if name in ("rows", "note") else pa.int64()) for name in COLUMNS])


@pytest.fixture(autouse=True)
def small_steps(monkeypatch):
    """Steps and envelopes of a few rows, so that small streams take many."""
    monkeypatch.setattr(bounded_input, "STEP_ROWS", 6)
    monkeypatch.setattr(bounded_input, "SLICE_ROWS", 4)


def at_the_shards(tables, envelopes_of, shards, cut_by):
    """What Spark does between the tasks: all envelopes by shard and oldest row."""
    task = tasks.to_shards(envelopes_of, {number: number for number in range(shards)}, cut_by)
    rows = [row for table in tables for batch in task(table.to_batches()) for row in batch.to_pylist()]
    rows.sort(key=lambda row: (row["shard"], row["oldest"]))
    return [pa.RecordBatch.from_pylist(rows[low : low + 3], ENVELOPES) for low in range(0, len(rows), 3)]


def local(batches, plan, end):
    task = tasks.answer_in_order(plan, {number: number for number in range(plan.units)}, end)
    return [row for batch in task(batches) for row in batch.to_pylist()]


def by_first_end(found):
    return sorted((row for row in found if row["answers"]), key=lambda row: row["first_end"])


@pytest.mark.parametrize("axis", ["time", "count"])
@pytest.mark.parametrize("seed", range(40))
def test_top_k_in_any_order(seed, axis):
    random = cases.rng("bounded", seed, axis)
    posed = [cases.draw_posed(random, f"q{i}", axis=axis) for i in range(random.randint(1, 4))]
    rows = cases.draw_rows(random, random.choice([1, 30, 200]))
    shards = random.choice([1, 3])
    plan = plan_of(
        [one.query(axis) for one in posed],
        algorithm=ALGORITHMS[seed % len(ALGORITHMS)],
        shards=shards,
        may_be_late=False,
    )
    random.shuffle(rows)
    files = [scored(plan, part) for part in cases.draw_cuts(random, rows) if part]
    envelopes = at_the_shards(files, partial(reduce_rows, plan), shards, partial(positions_of, time="ts"))
    found = local(envelopes, plan, "window_end")
    want = {}
    for one in posed:
        want |= cases.wanted(one, rows, axis)
    got = [row for row_ in found if row_["answers"] for row in unpack_table(row_["answers"]).to_pylist()]
    assert cases.answered(got, posed) == want
    assert sum(row["windows"] for row in found) >= len({(name, row[1]) for name, rows in want.items() for row in rows})


@pytest.mark.parametrize("ordered", [True, False])
def test_what_is_held_follows_the_overlap_in_time_not_the_input(ordered, monkeypatch):
    """Count windows keep every row until it is counted: of a long input in order, few are held at once."""
    plan = plan_of([sb.TopK(k=2, size=10, slide=5, by="s")], shards=1, may_be_late=False)
    rows = [(1000 * (number + 1), float(number % 17), number, "a") for number in range(2000)]
    if not ordered:
        rows = [rows[place] for place in np.random.default_rng(1).permutation(2000)]
    files = [scored(plan, rows[low : low + 200]) for low in range(0, 2000, 200)]
    most = []

    def watched(shard, *arguments, step=TopKShard.step, **more):
        answers, tally = step(shard, *arguments, **more)
        most.append(tally.candidates)
        return answers, tally

    monkeypatch.setattr(TopKShard, "step", watched)
    envelopes = at_the_shards(files, partial(reduce_rows, plan), 1, partial(positions_of, time="ts"))
    found = local(envelopes, plan, "window_end")
    assert sum(row["windows"] for row in found) == 400
    assert len(most) > (100 if ordered else 10)
    assert max(most) < (40 if ordered else 400)


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("seed", range(10))
def test_incomplete_streams_in_any_order(shards, seed):
    rng = np.random.default_rng(seed)
    query, plain = incomplete_shards.asked(rng)
    positions, objects, streams, values = some_tuples(rng, plain, 200, count_axis=False, text=seed % 2 == 0)
    positions = (positions + 60) * 1000
    expected = listed(sb.incomplete.replay(query, positions, objects, streams, values))
    plan = IncompletePlan(queries=(query,), shards=shards, refuse_late=False)
    rows = incomplete_shards.rows_of(positions, objects, streams, values, np.arange(200))
    rows = rows.take(pa.array(rng.permutation(200)))
    files = [rows.slice(low, 50) for low in range(0, 200, 50)]
    envelopes = at_the_shards(files, partial(gather_rows, plan), shards, partial(positions_of, time="position"))
    found = local(envelopes, plan, "time")
    parts = [(row["first_end"], unpack_table(row["answers"])) for row in by_first_end(found)]
    complete = list(bounded_input.complete_windows(parts, "time"))
    moments = [set(table["time"].to_pylist()) for table in complete]
    assert sum(map(len, moments)) == len(set().union(*moments))  # a window is in one of the tables
    together = [merged(plan, [table]) for table in complete]
    assert listed(pa.concat_tables(together) if together else None) == expected


@pytest.mark.parametrize("seed", range(8))
def test_uncertain_streams_in_any_order(seed):
    rng = np.random.default_rng(seed)
    columns = uncertain_shards.drawn(seed)
    expected = sb.uncertain.replay(uncertain_shards.QUERIES, *columns).to_pylist()
    plan = UncertainPlan(queries=uncertain_shards.QUERIES, method="greedy", refuse_late=False, may_be_late=False)
    rows = uncertain_shards.rows_of(*columns)
    rows = rows.take(pa.array(rng.permutation(rows.num_rows)))
    files = [rows.slice(low, 40) for low in range(0, rows.num_rows, 40)]
    envelopes = at_the_shards(files, partial(weigh_rows, plan), 1, partial(positions_of, time="position"))
    found = local(envelopes, plan, "time")
    tables = [unpack_table(row["answers"]) for row in found if row["answers"]]
    got = pa.concat_tables(tables, promote_options="permissive").select(list(expected[0])).to_pylist()
    keyed = sorted(got, key=lambda row: (row["time"], row["query"], row["rank"]))
    assert keyed == sorted(expected, key=lambda row: (row["time"], row["query"], row["rank"]))


@pytest.mark.parametrize("seed", range(30))
def test_aggregates_in_any_order(seed):
    random = cases.rng("bounded aggregates", seed)
    grouped = random.random() < 0.4
    case = aggregate_cases.draw(random, axis="time", grouped=grouped, most=120, identified=True)
    queries = [
        sb.AggregateTopK(**{**query.to_dict(), "partition_by": ["g"] if grouped else ()}) for query in case.queries
    ]
    queries = aggregate_shards.of_one_scan(random, queries)
    plan = aggregate_shards.plan_of(queries, grouped=grouped, valued=case.valued)
    rows = list(case.rows)
    random.shuffle(rows)
    parts = [part for part in cases.draw_cuts(random, rows) if part]
    files = [pa.Table.from_batches([aggregate_shards.task(part, case.key_kind, case.valued)]) for part in parts]
    envelopes = at_the_shards(files, partial(sum_rows, plan), plan.units, panes_of)
    assert sum(sum(batch["taken"].to_pylist()) for batch in envelopes) == len(rows)
    found = local(envelopes, plan, "end")
    parts = [(row["first_end"], unpack_table(row["answers"])) for row in by_first_end(found)]
    tables = [aggregate_shards.merged(plan, 0, [table]) for table in bounded_input.complete_windows(parts, "end")]
    got = aggregate_shards.told(plan, pa.concat_tables(tables)) if tables else []
    in_order = sorted((row for row in rows if row.position is not None), key=lambda row: row.position)
    assert got == aggregate_oracle.answers(queries, in_order, valued=case.valued, grouped=grouped)
