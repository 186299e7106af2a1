"""Groups that share an executor, groups with a lane of their own, and groups that come and never return.

Catches an answer that is lost when a group moves from one to the other, a group that takes over what another has left
behind under the same number, and whatever is still held of groups whose windows have passed.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.data import group_dictionary
from skyband.topk import group_executors
from tests import oracle
from tests.drive import ALGORITHMS, count_query, read, time_query

GOLDEN = Path(__file__).parents[1] / "golden"
LIMITS = [(2048, 512), (4, 2), (0, 0)]  # all groups share; they come and go between; each has a lane


class Story:
    """A random stream of groups, many of which fall silent for good, with queries that come and go."""

    def __init__(self, seed, algorithm):
        self.draw = random.Random(seed)
        self.timed = self.draw.random() < 0.6
        self.ties = algorithm in ("auto", "panes")
        self.all_grouped = self.draw.random() < 0.5
        self.text = self.draw.random() < 0.3
        self.made, self.seen, self.got, self.gone = 0, 0, [], []
        self.rows = self._rows()
        first = [self._asked(i == 0) for i in range(self.draw.randint(1, 3))]
        self.monitor = sb.Monitor([self._query(*named) for named in first], algorithm)
        self.alive = {name: (asked, grouped, None) for name, asked, grouped in first}

    def run(self):
        while self.seen < len(self.rows):
            batch = self.rows[self.seen : self.seen + self.draw.choice([1, 5, 20, 60])]
            self._push(batch)
            self.seen += len(batch)
            if self.draw.random() < 0.3:
                self.got += self._read()
            if self.draw.random() < 0.2:
                self.monitor = sb.Monitor.resume(self.monitor.snapshot())
            if self.seen < len(self.rows):
                self._maybe_change()
        self.monitor.finish()
        self.got += self._read()

    def wanted(self):
        found = []
        for name, asked, grouped, valid, seen in [
            *((name, *told, None) for name, told in self.alive.items()),
            *self.gone,
        ]:
            rows = self.rows[:seen]
            objects = [row for row in rows if oracle.is_object(row[:3])]
            first = objects[0][0] if objects else None
            for group in {row[3] for row in rows} if grouped else {None}:
                mine = [row[:3] for row in rows if not grouped or row[3] == group]
                if self.timed:
                    until = None if seen is None else rows[-1][0]
                    answers = oracle.answers(asked, mine, watermark=until, first=first)
                else:
                    answers = oracle.count_answers(asked, [row[1:] for row in mine])
                since = valid.get(group) if isinstance(valid, dict) else valid
                found += [(name, group, *row) for row in answers if since is None or row[1] >= since]
        return found

    def _rows(self):
        position, rows = self.draw.randint(-20, 20), []
        for i in range(self.draw.choice([10, 60, 150])):
            position += self.draw.randint(0, 2) if self.draw.random() < 0.95 else self.draw.randint(0, 60)
            score = float("nan") if self.draw.random() < 0.05 else float(self.draw.randint(0, 9))
            group = self.draw.choice([f"g{i // 12}", f"g{i // 40}", "always", None])
            rows.append((position, score, i, group))
        return rows

    def _asked(self, grouped):
        self.made += 1
        draw = self.draw
        size = draw.randint(1, 25)
        asked = oracle.Asked(
            draw.choice([1, 2, 3, 6]),
            size,
            draw.randint(1, size),
            draw.choice([0, 0, -3, 4]),
            draw.random() < 0.2,
            draw.random() < 0.3,
        )
        if self.ties:
            asked = replace(asked, tied=draw.random() < 0.3)
        return f"q{self.made}", asked, self.all_grouped or grouped or draw.random() < 0.5

    def _query(self, name, asked, grouped):
        split = {} if self.all_grouped or not grouped else {"partition_by": ["g"]}
        return (time_query if self.timed else count_query)(asked, name=name, **split)

    def _push(self, batch):
        ids = [f"{row[2]:04}" if self.text else row[2] for row in batch]
        self.monitor.push(
            [row[0] for row in batch] if self.timed else None,
            [row[1] for row in batch],
            ids,
            groups=pa.array([row[3] for row in batch], pa.string()),
        )

    def _read(self):
        return [(*row[:5], int(row[5]), row[6]) for row in read(self.monitor.answers(), "query", "group")]

    def _maybe_change(self):
        if self.draw.random() < 0.3:
            name, asked, grouped = self._asked(False)
            valid = self.monitor.add(self._query(name, asked, grouped))
            if not self.timed and grouped:
                assert valid is None
                objects = [row[3] for row in self.rows[: self.seen] if oracle.is_object(row[:3])]
                valid = {group: objects.count(group) + asked.size for group in set(objects)}
            self.alive[name] = (asked, grouped, valid)
        grouped = [name for name, told in self.alive.items() if told[1]]
        if self.draw.random() < 0.2 and len(self.alive) > 1:
            name = self.draw.choice(list(self.alive))
            if grouped != [name]:
                self.monitor.remove(name)
                self.gone.append((name, *self.alive.pop(name), self.seen))


def in_order(rows):
    return sorted(rows, key=str)


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("chunk", [0, *(pytest.param(one, marks=pytest.mark.long) for one in (1, 2, 3))])
def test_stories_of_groups_with_and_without_a_lane(limits, chunk, monkeypatch):
    monkeypatch.setattr(group_executors, "MANY", limits[0])
    monkeypatch.setattr(group_executors, "FEW", limits[1])
    monkeypatch.setattr(group_dictionary, "_FEW", 1)  # forget as soon as anything can be
    for seed in range(50 * chunk, 50 * (chunk + 1)):
        story = Story(seed, "auto")
        story.run()
        assert in_order(story.got) == in_order(story.wanted()), f"seed {seed}"


@pytest.mark.parametrize("algorithm", sorted(set(ALGORITHMS) - {"panes"}))
def test_stories_of_named_algorithms(algorithm, monkeypatch):
    monkeypatch.setattr(group_dictionary, "_FEW", 1)
    for seed in range(60):
        story = Story(seed, algorithm)
        story.run()
        assert in_order(story.got) == in_order(story.wanted()), f"seed {seed}"


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("timed", [True, False])
def test_the_candidates_are_the_minimal_sets_wherever_groups_are(limits, timed, monkeypatch):
    monkeypatch.setattr(group_executors, "MANY", limits[0])
    monkeypatch.setattr(group_executors, "FEW", limits[1])
    draw = random.Random(7)
    asked = oracle.Asked(3, 20, 6)
    query = time_query(asked) if timed else count_query(asked)
    together, alone = sb.Monitor(query), sb.Monitor(query, "mintopk")
    for push in range(40):
        rows = [(4 * push + i // 3, float(draw.randint(0, 50)), draw.choice("abcdef")) for i in range(12)]
        for monitor in (together, alone):
            positions = [row[0] for row in rows] if timed else None
            monitor.push(positions, [row[1] for row in rows], groups=[row[2] for row in rows])
        assert together.candidates == alone.candidates


def ever_new(monitor, pushes, each=50, ids=None, start=0):
    """Push groups that have never been there; time moves by a window and more."""
    for push in range(start, start + pushes):
        rows = np.arange(each)
        monitor.push(
            20 * push + rows * 10 // each,
            (rows * 7 % 11).astype(float),
            None if ids is None else [f"{ids} {push} {row}" for row in rows],
            groups=[f"{push} {row}" for row in rows],
        )
        monitor.answers()


@pytest.mark.parametrize("ids", [None, "text"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_groups_that_never_return_leave_nothing_behind(algorithm, ids, monkeypatch):
    monkeypatch.setattr(group_dictionary, "_FEW", 64)
    monitor = sb.Monitor(sb.TopK(k=2, size="10 microseconds", slide="5 microseconds"), algorithm)
    ever_new(monitor, 3, ids=ids)
    early = len(monitor.snapshot())
    ever_new(monitor, 20, ids=ids, start=3)
    book = monitor._intake.groups
    assert book.codes <= 6 * 50
    assert len(monitor._executors.engines) <= 2 * 50
    assert len(monitor.snapshot()) < 1.3 * early
    assert monitor.metrics()["groups"] <= 2 * 50
    monitor.advance_to(10**6)
    monitor.answers()
    assert monitor.metrics()["groups"] == monitor.candidates == 0
    assert len(monitor.snapshot()) < early


def test_what_groups_share_does_not_grow_with_those_that_never_return():
    monitor = sb.Monitor(sb.TopK(k=2, size="10 microseconds", slide="5 microseconds"))
    ever_new(monitor, 4, each=3_000)
    (pool,) = monitor._executors._pools._pools
    room, known = pool._segments.keys.size, pool.counts.size
    ever_new(monitor, 12, each=3_000, start=4)
    assert pool._segments.keys.size <= 2 * room
    assert pool.counts.size <= 2 * known
    assert monitor._intake.groups.codes <= 6 * 3_000


def test_answers_not_fetched_keep_their_groups(monkeypatch):
    monkeypatch.setattr(group_dictionary, "_FEW", 1)
    monitor = sb.Monitor(sb.TopK(k=1, size="10 microseconds"))
    for push in range(6):
        monitor.push([20 * push, 20 * push + 1], [1.0, 2.0], groups=[f"a{push}", f"b{push}"])
        monitor = sb.Monitor.resume(monitor.snapshot())
    monitor.finish()
    assert monitor.answers()["group"].to_pylist() == [f"{name}{push}" for push in range(6) for name in "ab"]


def test_groups_of_a_count_axis_keep_their_number():
    """A group's windows are about the numbers of its objects, however long it has been silent."""
    monitor = sb.Monitor(sb.TopK(k=1, size=2))
    monitor.push(None, [1.0, 2.0], groups=["a", "a"])
    for push in range(40):
        monitor.push(None, [1.0] * 100, groups=[f"{push} {row}" for row in range(100)])
    monitor = sb.Monitor.resume(monitor.snapshot())
    monitor.answers()
    monitor.push(None, [3.0, 4.0], groups=["a", "a"])
    assert read(monitor.answers(), "group") == [("a", 2, 4, 1, 4003, 4.0)]


@pytest.mark.parametrize("kind", ["time_numbers", "time_text", "count_numbers", "count_text"])
def test_a_snapshot_with_a_lane_for_every_group_is_resumed(kind):
    """Written before groups shared an executor, after a query had joined."""
    draw, position, rows = random.Random(2), 200, []
    for _ in range(40):
        position += draw.randint(0, 2)
        rows.append((position, float(draw.randint(0, 9)), draw.choice(["a", "b", "c", None])))
    monitor = sb.Monitor.resume((GOLDEN / f"grouped_{kind}.snapshot").read_bytes())
    newest = monitor._intake.newest
    positions = None if newest is None else [row[0] - rows[9][0] + newest for row in rows[10:]]
    ids = [f"3{i:03}" for i in range(30)] if kind.endswith("text") else list(range(300, 330))
    monitor.push(
        positions, [row[1] for row in rows[10:]], ids, groups=pa.array([row[2] for row in rows[10:]], pa.string())
    )
    monitor.finish()
    wanted = json.loads((GOLDEN / "grouped_answers.json").read_text(encoding="utf-8"))[kind]
    assert [list(row.values()) for row in monitor.answers().to_pylist()] == wanted
    assert len(monitor._executors.engines) == 0
