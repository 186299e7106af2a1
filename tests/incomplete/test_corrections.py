"""Scores of objects that late tuples correct: the newest answers are always those of the tuples so far."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.local.micro_batches import MicroBatches
from skyband.local.pipeline import plan_for
from skyband.sharding.emission import Emission
from skyband.sharding.projection import ProjectionRequest
from tests.sharding.test_reported_answers import SCHEMA, SECOND, draw_queries, draw_rows, table_of


class Stream:
    def __init__(self, queries, delay, lateness, shards):
        request = ProjectionRequest(
            sb.Workload(queries), "ts", "id", shards=shards, delay=delay, emission=Emission(lateness=lateness)
        )
        self.plan, self.delay = plan_for(SCHEMA, request), delay
        self.engine, self.counts = MicroBatches(self.plan, "ts", delay), []

    def step(self, rows, messages=()):
        result = self.engine.step([table_of(rows)], messages)
        self.counts.append(result.counts)
        return result.answers

    def restart(self):
        names = self.plan.unit_names
        stored = {names[shard.number]: (shard.state(), shard.segments) for shard in self.engine.shards}
        before = self.engine
        self.engine = MicroBatches(
            self.plan, "ts", self.delay, watermark=before.watermark, newest=before.newest, stored=stored
        )


def by_window(table):
    found = {}
    for row in table.to_pylist():
        values = {name: value for name, value in row.items() if name != "revision"}
        found.setdefault((row["query"], row["time"]), []).append(tuple(values.items()))
    return found


def replayed(queries, rows):
    """All answers over the rows, by a monitor in this process, which the oracle checks elsewhere."""
    return by_window(sb.incomplete.replay(queries, table_of(sorted(rows)), time="ts", id="id"))


@pytest.mark.parametrize("seed", range(40))
def test_after_each_batch_all_answers_are_those_of_the_rows_so_far(seed):
    random = Random(f"late tuples {seed}")
    queries = draw_queries(random, "incomplete")
    if seed % 4 == 1:
        queries = [sb.IncompleteTopK(**{**query.to_dict(), "method": "sorted-lists"}) for query in queries]
    if seed % 4 == 2:
        queries = [sb.IncompleteTopK(**{**query.to_dict(), "method": "approximate"}) for query in queries]
    delay, lateness = random.choice([0, 3, 9]) * SECOND, random.choice([2, 10, 1000]) * SECOND
    shards = 1 if seed % 4 == 2 else random.choice([1, 2, 3])
    rows = sorted(draw_rows(random, 60), key=lambda row: row[0] + random.randint(0, 25) * SECOND)
    stream, patient = (Stream(queries, *times, shards) for times in ((delay, lateness), (delay + lateness, 0)))
    newest, revisions, accepted, corrected, last = {}, {}, [], 0, {}

    def take(table):
        numbers = table["revision"].to_numpy()
        for revision in np.unique(numbers):
            for window, answer in by_window(table.filter(pa.array(numbers == revision))).items():
                assert revision > revisions.get(window, -1)
                assert newest.get(window) != answer
                newest[window], revisions[window] = answer, revision

    while rows:
        cut = random.randint(1, 12)
        batch, rows = rows[:cut], rows[cut:]
        watermark = stream.engine.watermark
        accepted += [row for row in batch if watermark is None or row[0] >= watermark - lateness]
        take(stream.step(batch))
        last |= by_window(patient.step(batch))
        clock = stream.engine.shards[0].clock
        if seed % 4 != 2 and accepted:  # estimates depend on the batches
            moments = {name: query.window for query in queries for name in [query.name]}
            assert moments
            due = {
                window: answer
                for window, answer in replayed(queries, accepted).items()
                if int(pa.scalar(window[1], pa.timestamp("us", "UTC")).value) <= clock
            }
            assert newest == due
        if random.random() < 0.4:
            stream.restart()
    take(stream.step([], [{"kind": "end"}]))
    last |= by_window(patient.step([], [{"kind": "end"}]))
    assert newest == last
    corrected = sum(revision > 0 for revision in revisions.values())
    used = sum(counts.late_used for counts in stream.counts)
    assert used or not corrected
    assert sum(counts.late for counts in stream.counts) == sum(counts.late for counts in patient.counts)
