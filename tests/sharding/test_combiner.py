"""Combiners between tasks and shards: the same answers, counts and restarts, and fewer envelopes and rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.simulated_cluster import SimulatedCluster

import skyband as sb
from skyband.aggregate.reducer import AggregateNote
from skyband.sharding import combiner
from skyband.sharding.combiner import combine_envelopes, joined
from skyband.sharding.envelope import Envelope, Histogram, Note
from skyband.topk.combiner import reduce_again
from skyband.topk.reducer import TopKNote
from skyband.uncertain.reducer import UncertainNote
from skyband.windows import ALWAYS
from tests.sharding import cases
from tests.sharding.pipeline import Pipeline, plan_of

SECOND = 1_000_000
WINDOWS = {"size": "8 seconds", "slide": "2 seconds"}
UNSURE = {"by": "s", "probability": "p", "size": "8 seconds", "every": "2 seconds"}
WORKLOADS = {
    "topk": [
        sb.TopK(name="all", k=3, by="s", **WINDOWS),
        sb.TopK(name="low", k=2, by="s", order="asc", full_only=True, size="6 seconds", slide="3 seconds"),
        sb.TopK(name="each", k=2, by="s", partition_by=["g"], **WINDOWS),
        sb.TopK(name="some", k=2, by="-s", where="id % 3 = 0", full_only=True, **WINDOWS),
    ],
    "aggregate": [
        sb.AggregateTopK(name="sum", k=3, key="g", value="s", **WINDOWS),
        sb.AggregateTopK(name="min", k=3, key="g", value="s", aggregate="min", full_only=True, **WINDOWS),
        sb.AggregateTopK(
            name="each", k=1, key="cast(id % 5 as string)", aggregate="count", partition_by=["g"], **WINDOWS
        ),
    ],
    "incomplete": [
        sb.IncompleteTopK(
            name="i", k=2, object="id % 5", stream="g", value="s", streams=["0", "1", "2"], bounds=(0, 99),
            occurrences=999, size="8 seconds", every="2 seconds",
        )
    ],
    "uncertain": [
        sb.UncertainTopK(name="sure", k=2, **UNSURE),
        sb.UncertainTopK(name="deep", k=3, semantics="pt-k", threshold=0.1, **UNSURE),
    ],
}  # fmt: skip


def draw(random, rows, low, high):
    """Rows of one task; scores often tie, and the sums of some tasks need other limbs than those of others."""
    positions = np.sort(random.integers(low, high, rows))
    return pa.table(
        {
            "ts": pa.array(positions).cast(pa.timestamp("us", "UTC")),
            "id": random.integers(0, 2**40, rows),
            "g": pa.array(random.integers(0, 3, rows).astype(str)),
            "s": random.integers(0, 50, rows) * random.choice([1.0, 2.0**-40]),
            "p": np.where(random.random(rows) < 0.6, 1.0, random.random(rows) * 0.9 + 0.05),
        }
    )


def run(family, combiners, *, tasks=12, rows=12, steps=7, may_be_late=True, shards=None):
    random = np.random.default_rng(7)
    shards = shards or (1 if family == "uncertain" else 2)
    cluster = SimulatedCluster(
        WORKLOADS[family], draw(random, 1, 0, 9).schema, shards=shards, combiners=combiners, may_be_late=may_be_late
    )
    answers, counted = [], []
    for number in range(steps):
        low = (100 + number) * SECOND
        # Half of the tasks have rows of the seconds before, some of which are late.
        behind = 4 * SECOND if may_be_late else 0
        batch = [draw(random, rows, low - behind * (task % 2), low + SECOND) for task in range(tasks)]
        tables, step = cluster.step(batch, end=number == steps - 1)
        answers += [row for table in tables for row in table.to_pylist()]
        counted.append(step)
    return sorted(answers, key=repr), counted


@pytest.mark.parametrize("may_be_late", [True, False])
@pytest.mark.parametrize("family", WORKLOADS)
def test_answers_and_late_rows_are_the_same(family, may_be_late):
    plain, before = run(family, 0, may_be_late=may_be_late)
    assert plain
    if may_be_late:
        assert sum(step.late for step in before) > 0
    for combiners in (3,):
        found, after = run(family, combiners, may_be_late=may_be_late)
        assert found == plain
        assert [step.late for step in after] == [step.late for step in before]


@pytest.mark.parametrize("family", WORKLOADS)
def test_a_shard_receives_few_envelopes_and_rows(family):
    _, before = run(family, 0, tasks=24)
    _, after = run(family, 4, tasks=24)
    for plain, combined in zip(before, after, strict=True):
        assert combined.sent == plain.sent
        assert plain.received >= 24
        assert combined.received <= 4
        assert combined.received_bytes < plain.received_bytes
    if family != "incomplete":  # its tuples are only put together
        assert sum(step.received_rows for step in after) < 0.7 * sum(step.received_rows for step in before)


@pytest.mark.parametrize("seed", range(40))
def test_any_workload_over_any_tasks_as_the_oracle(seed):
    random = cases.rng("combined", seed)
    scale = random.choice([1, 1000])
    posed = [cases.draw_posed(random, f"q{i}", scale=scale, ties=seed % 2 == 1) for i in range(random.randint(1, 4))]
    rows = cases.draw_rows(random, random.choice([5, 40, 90]), scale=scale)
    delay = 30 * scale
    pipeline = CombinedPipeline(
        plan_of([one.query() for one in posed], shards=random.choice([1, 3])),
        delay,
        combiners=random.choice([1, 2]),
        foresees=random.random() < 0.5,
    )
    batches = cases.draw_cuts(random, cases.disordered(random, rows, delay))
    for number, batch in enumerate(batches):
        pipeline.batch([batch[at::5] for at in range(5)], end=number == len(batches) - 1)
    want = {key: found for one in posed for key, found in cases.wanted(one, rows).items()}
    assert pipeline.late == 0
    assert cases.answered(pipeline.found, posed) == want


class CombinedPipeline(Pipeline):
    """A pipeline whose tasks are combined. Its state is stored and resumed in every batch."""

    def __init__(self, plan, delay, *, combiners, foresees):
        super().__init__(plan, delay, foresees=foresees, tells_tasks=combiners % 2 == 0)
        self.combiners = combiners

    def reduced(self, tasks, timely):
        found = list(super().reduced(tasks, timely))
        for number in range(self.combiners):
            yield from combine_envelopes(self.plan, reduce_again, found[number :: self.combiners])


def test_late_rows_displace_no_row_of_another_task():
    """The better row of the first task is late when the shard knows the watermark; the other one is the answer."""
    query = sb.TopK(name="q", k=1, by="s", size="10 seconds")
    schema = draw(np.random.default_rng(0), 1, 0, 9).schema

    def task(position, score):
        columns = [[position], [1], ["0"], [score], [1.0]]
        arrays = [pa.array(values, pa.int64() if at == 0 else schema[at].type) for at, values in enumerate(columns)]
        return pa.table([arrays[0].cast(schema[0].type), *arrays[1:]], names=schema.names)

    cluster = SimulatedCluster([query], schema, combiners=1)
    cluster.step([task(15 * SECOND, 1.0)])
    cluster.step([task(14 * SECOND, 99.0), task(16 * SECOND, 7.0)])
    (table,), step = cluster.step([task(21 * SECOND, 0.0)])
    assert step.late == 0
    assert table["s"].to_pylist() == [7.0]


def test_large_envelopes_are_not_joined_without_limit(monkeypatch):
    monkeypatch.setattr(combiner, "CHUNK_ROWS", 10)
    tables = [pa.table({"n": list(range(at, at + 4))}) for at in range(0, 40, 4)]
    envelopes = [Envelope(0, table, Note(at, at), 4, 0, 0) for at, table in enumerate(tables)]
    found = list(combine_envelopes(None, None, envelopes))
    assert [one.rows.num_rows for one in found] == [12, 12, 12, 4]
    assert [row for one in found for row in one.rows["n"].to_pylist()] == list(range(40))
    assert sum(one.taken for one in found) == 40
    half = list(combine_envelopes(None, lambda _, one: one._replace(rows=one.rows.slice(0, 2)), envelopes))
    assert len(half) == 1, "what is dropped makes space"
    assert half[0].note == Note(9, 0)


def test_notes_are_joined():
    histograms = [Histogram.of(np.array(rows)) for rows in ([1000, 1500, 9000], [500, 9999])]
    notes = [
        TopKNote(9, 3, histograms[0], {"a": np.array([1, 5])}),
        TopKNote(7, 2, None, {}),
        TopKNote(ALWAYS, 4, histograms[1], {"a": np.array([3, 5]), "b": np.array([2])}),
    ]
    together = TopKNote.joined(notes)
    assert (together.newest, together.oldest) == (9, 2)
    assert [together.histogram.before(at) for at in (0, 1000, 2000, 9000, 10_000)] == [0, 1, 3, 3, 5]
    assert {name: at.tolist() for name, at in together.firsts.items()} == {"a": [1, 3, 5], "b": [2]}
    panes = [
        AggregateNote(1, 1, pane_ends=np.array([10, 20]), pane_firsts=np.array([4, 13])),
        AggregateNote(2, 1),
        AggregateNote(3, 1, pane_ends=np.array([20, 30]), pane_firsts=np.array([11, 25])),
    ]
    found = AggregateNote.joined(panes)
    assert (found.pane_ends.tolist(), found.pane_firsts.tolist()) == ([10, 20, 30], [4, 11, 25])
    cut = UncertainNote.joined(
        [UncertainNote(1, 1, newest_cut=(4, 9)), UncertainNote(2, 1), UncertainNote(3, 1, None, (7, 8))]
    )
    assert tuple(cut.newest_cut) == (7, 9)
    assert Note.joined([Note(1, 5), Note(2, 4)]) == Note(2, 4)


def test_joined_envelopes_keep_a_table_if_none_has_rows():
    empty = Envelope(1, pa.table({"n": pa.array([], pa.int64())}), Note(1, 1), 1, 2, 3)
    both = joined([empty, empty._replace(rows=pa.table({}))])
    assert both.rows.schema == empty.rows.schema
    assert (both.shard, both.taken, both.dropped_null, both.pruned) == (1, 2, 4, 6)
