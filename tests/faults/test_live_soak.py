"""Queries that are added and dropped again and again: memory stays as it is, and every answer is there once.

In `make test-long` for a hundred changes; with SKYBAND_FAULTS_MINUTES for so many minutes (`make faults`).
"""

from __future__ import annotations

import gc
import time

import numpy as np
import psutil
import pytest

import skyband as sb
from skyband.jobs import run_local
from skyband.jobs.local_changes import LocalChanges
from tests.faults.length import MINUTES
from tests.sharding import cases
from tests.sharding.cases import Asked, Posed
from tests.spark.frames import read_answers, write_files
from tests.waiting import wait_for

pytestmark = pytest.mark.long

SECOND = 1_000_000
CHANGES = 120
EACH = 40  # rows of a file
FILE = """
streams:
  rows: {path: in, format: parquet, time: ts, id: id, watermark: 0 seconds,
         schema: {ts: timestamp, id: long, g: string, s: double}}
queries:
  - {name: all, k: 3, size: 20 seconds, slide: 5 seconds, by: s}
sinks: [{type: parquet, path: out}]
"""
ALL = Posed("all", Asked(k=3, size=20 * SECOND, slide=5 * SECOND), {"by": "s"})
OTHERS = [
    Posed("same", Asked(k=5, size=10 * SECOND, slide=5 * SECOND), {"by": "s"}),
    Posed("low", Asked(k=2, size=30 * SECOND, slide=10 * SECOND), {"by": "-s"}),
    Posed("each", Asked(k=1, size=20 * SECOND, slide=10 * SECOND), {"by": "s", "partition_by": ["g"]}),
    Posed("full", Asked(k=4, size=15 * SECOND, slide=5 * SECOND, full_only=True), {"by": "s"}),
]


class Episode:
    """A query from the moment it was added until it was dropped."""

    def __init__(self, posed, newest, since):
        self.posed, self.begins, self.since, self.ends = posed, newest, since, None

    def contains(self, start, end):
        oldest = self.begins - self.since if self.since else self.begins + 1
        return start >= oldest and self.begins < end <= self.ends


class Live:
    """A run in this process that follows a folder, and the rows and changes so far."""

    def __init__(self, folder):
        self.folder, self.rows, self.files, self.newest = folder, [], 0, SECOND
        self.open, self.episodes = {}, []
        (folder / "work.yaml").write_text(FILE)
        self.run = run_local(sb.read_workload(folder / "work.yaml"), "stream")
        self.changes = LocalChanges(self.run)

    def feed(self, random):
        steps = [random.choice([0, 10, 200, 1000]) * 1000 for _ in range(EACH)]
        part = [
            (self.newest + int(at), float(random.randint(0, 9)), len(self.rows) + number, random.choice("abc"))
            for number, at in enumerate(np.cumsum(steps))
        ]
        self.rows += part
        write_files(self.folder / "in", [part], begin=self.files)
        self.files, self.newest = self.files + 1, part[-1][0]
        wait_for(lambda: self.run.metrics()["rows"]["rows"] == len(self.rows), 300)
        assert self.run.is_active

    def change(self, random):
        posed = random.choice(OTHERS)
        if posed.name in self.open:
            self.changes.drop(posed.name)
            self.open.pop(posed.name).ends = self.newest
            return
        since = random.choice([None, None, 20 * SECOND, 60 * SECOND])
        self.changes.add(posed.query(), None, since)
        self.open[posed.name] = episode = Episode(posed, self.newest, since)
        self.episodes.append(episode)

    def finish(self):
        for episode in self.open.values():
            episode.ends = self.newest
        self.run.stop()


def test_queries_that_come_and_go_leave_nothing(tmp_path, tally):
    random, began = cases.rng("live soak"), time.monotonic()
    (tmp_path / "in").mkdir()
    live, samples, changes = Live(tmp_path), [], 0
    while time.monotonic() < began + 60 * MINUTES if MINUTES else changes < CHANGES:
        live.feed(random)
        live.change(random)
        changes += 1
        gc.collect()
        state = live.run.metrics()["rows"]["state_bytes"]
        samples.append((psutil.Process().memory_info().rss, state))
    live.finish()
    found = cases.answered(read_answers(tmp_path / "out"), [ALL, *OTHERS])
    assert found["all", "-"] == [row for row in cases.wanted(ALL, live.rows)["all", "-"] if row[1] <= live.newest]
    for posed in OTHERS:
        mine = [episode for episode in live.episodes if episode.posed is posed]
        want = {}
        for key, answers in cases.wanted(posed, live.rows).items():
            inside = [row for row in answers for one in mine if one.contains(*row[:2])]
            want |= {key: inside} if inside else {}
        assert {key: rows for key, rows in found.items() if key[0] == posed.name} == want
        assert len(want) > 0
    tally.note(f"{changes} changes of queries, {len(live.rows):,} rows")
    (rss, state), (rss_later, state_later) = middle_and_end(samples)
    assert state_later < 1.2 * state + 5e4, (state, state_later)
    assert rss_later < 1.1 * rss + 24e6, (rss, rss_later)


def middle_and_end(samples):
    third = len(samples) // 3
    return np.mean(samples[third : 2 * third], axis=0), np.mean(samples[2 * third :], axis=0)
