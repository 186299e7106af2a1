"""A simulated cluster of N tasks, with and without combiners: its answers are those of the definitions."""

from __future__ import annotations

from math import isqrt

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from benchmarks.simulated_cluster import SimulatedCluster

import skyband as sb
from skyband.local.replay import replay_frame
from skyband.queries.workload import Workload
from tests import oracle
from tests.sharding.test_combiner import SECOND, WORKLOADS, draw

TASKS = [20, pytest.param(300, marks=pytest.mark.long), pytest.param(10_000, marks=pytest.mark.long)]
MANY = 1_000  # with more tasks, two queries, and only the last micro-batch has all tasks: each takes milliseconds


def run(queries, tasks, combiners, *, shards=1, rows=6, steps=3):
    """All answers of a stream, its rows, and the counts of its micro-batches, of which the last has all tasks."""
    random = np.random.default_rng(tasks)
    cluster = SimulatedCluster(queries, draw(random, 1, 0, 9).schema, shards=shards, combiners=combiners)
    tables, batches, counted = [], [], []
    for number in range(steps):
        low = (100 + 3 * number) * SECOND
        mine = tasks if number == steps - 1 or tasks <= MANY else MANY // 10
        batch = [draw(random, rows, low, low + 3 * SECOND) for _ in range(mine)]
        found, step = cluster.step(batch, end=number == steps - 1)
        tables += found
        batches += batch
        counted.append(step)
    return pa.concat_tables(tables), pa.concat_tables(batches), counted


@pytest.mark.parametrize("combined", [False, True])
@pytest.mark.parametrize("tasks", TASKS)
def test_top_k_as_the_oracle(tasks, combined):
    query = sb.TopK(name="q", k=5, by="s", size="6 seconds", slide="2 seconds")
    answers, table, counted = run([query], tasks, isqrt(tasks) if combined else 0)
    columns = [table["ts"].cast(pa.int64()), table["s"], table["id"]]
    rows = list(zip(*(column.to_pylist() for column in columns), strict=True))
    asked = oracle.Asked(k=5, size=6 * SECOND, slide=2 * SECOND)
    answers = answers.sort_by([("window_end", "ascending"), ("rank", "ascending")])
    bounds = [answers[name].cast(pa.int64()).to_pylist() for name in ("window_start", "window_end")]
    found = list(zip(*bounds, *(answers[name].to_pylist() for name in ("rank", "id", "score")), strict=True))
    assert found == oracle.answers(asked, rows)
    assert counted[-1].received == (isqrt(tasks) if combined else tasks)
    assert max(step.received for step in counted) == counted[-1].received


@pytest.mark.parametrize("family", WORKLOADS)
@pytest.mark.parametrize("tasks", TASKS)
def test_every_family_as_over_one_table(tasks, family):
    shards = 1 if family == "uncertain" else 2
    queries = WORKLOADS[family][: 2 if tasks > MANY else None]
    answers, table, counted = run(queries, tasks, isqrt(tasks), shards=shards)
    expected = replay_frame(Workload(queries), table, time="ts", id_="id").to_arrow()
    names = expected.column_names
    assert sorted(map(repr, plain(answers.select(names)))) == sorted(map(repr, plain(expected)))
    assert max(step.received for step in counted) <= isqrt(tasks)


def plain(table):
    """Rows without differences of types, with probabilities to twelve digits."""
    for name in table.column_names:
        at = table.column_names.index(name)
        if pa.types.is_floating(table.schema.field(name).type):
            table = table.set_column(at, name, pc.round(table[name], 12))
    return [tuple(row.values()) for row in table.to_pylist()]
