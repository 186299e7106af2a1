"""Queries that join and leave a running stream, on every engine.

Whatever else happens, each query has the answers of the definition, from the window on that the monitor named when it
joined, up to what was final when it left. Catches a view that is thought to be held and is not, an answer that is lost
or told twice when the workload changes, and a neighbour that is disturbed.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

import skyband as sb
from tests import oracle
from tests.drive import ALGORITHMS, count_query, push_count, push_time, read, time_query, under_each_policy

every_engine = pytest.mark.parametrize("algorithm", ALGORITHMS)


class Story:
    """A random stream with queries that come and go, and what the definition says of it."""

    def __init__(self, seed, algorithm, tied):
        self.tied = tied
        self.draw = random.Random(seed)
        self.timed = self.draw.random() < 0.5
        self.slide = self.draw.randint(1, 6)
        self.made = 0
        self.rows = self._rows()
        first = [self._asked() for _ in range(self.draw.randint(1, 3))]
        self.monitor = sb.Monitor([self._query(*named) for named in first], algorithm)
        self.alive = {name: (asked, None) for name, asked in first}
        self.gone = []
        self.seen = 0
        self.got = []

    def run(self):
        while self.seen < len(self.rows):
            self._push()
            if self.draw.random() < 0.3:
                self.got += read(self.monitor.answers(), "query")
            if self.draw.random() < 0.2:
                self.monitor = sb.Monitor.resume(self.monitor.snapshot())
            if self.seen < len(self.rows):
                self._maybe_change()
        self.monitor.finish()
        self.got += read(self.monitor.answers(), "query")

    def wanted(self):
        found = []
        for name, asked, valid_from, seen in [
            *((name, *told, None) for name, told in self.alive.items()),
            *self.gone,
        ]:
            rows = self.rows[:seen]
            if self.timed:
                answers = oracle.answers(asked, rows, watermark=None if seen is None else rows[-1][0])
            else:
                answers = oracle.count_answers(asked, [row[1:] for row in rows])
            found += [(name, *row) for row in answers if valid_from is None or row[1] >= valid_from]
        return found

    def _rows(self):
        position, rows = self.draw.randint(-20, 20), []
        for i in range(self.draw.choice([5, 30, 80, 150])):
            position += self.draw.randint(0, 2) if self.draw.random() < 0.95 else self.draw.randint(0, 60)
            score = float("nan") if self.draw.random() < 0.05 else float(self.draw.randint(0, 9))
            rows.append((position, score, i))
        return rows

    def _asked(self):
        self.made += 1
        draw = self.draw
        size = draw.randint(1, 25) if draw.random() < 0.5 else self.slide * draw.randint(1, 5)
        slide = self.slide if size % self.slide == 0 and draw.random() < 0.7 else draw.randint(1, size)
        origin = 0 if draw.random() < 0.6 else draw.randint(-5, 5)
        asked = oracle.Asked(draw.choice([1, 2, 3, 6]), size, slide, origin, draw.random() < 0.2, draw.random() < 0.2)
        if self.tied:
            asked = replace(asked, tied=draw.random() < 0.5)
        return f"q{self.made}", asked

    def _query(self, name, asked):
        return (time_query if self.timed else count_query)(asked, name=name)

    def _push(self):
        batch = self.rows[self.seen : self.seen + self.draw.choice([1, 3, 10, 40])]
        if self.timed:
            push_time(self.monitor, batch)
        else:
            push_count(self.monitor, [row[1:] for row in batch])
        self.seen += len(batch)

    def _maybe_change(self):
        if self.draw.random() < 0.3:
            name, asked = self._asked()
            valid_from = self.monitor.add(self._query(name, asked))
            assert self.monitor.valid_from[name] == valid_from
            self.alive[name] = (asked, valid_from)
        if self.draw.random() < 0.2 and len(self.alive) > 1:
            name = self.draw.choice(list(self.alive))
            self.monitor.remove(name)
            self.gone.append((name, *self.alive.pop(name), self.seen))


@under_each_policy
@pytest.mark.parametrize("chunk", range(8))
def test_every_query_is_exact_from_where_it_is_valid(algorithm, tied, chunk):
    for seed in range(40 * chunk, 40 * (chunk + 1)):
        story = Story(seed, algorithm, tied)
        story.run()
        assert sorted(story.got) == sorted(story.wanted()), f"seed {seed}"


@every_engine
def test_removing_the_hungry_query_shrinks_the_candidates_at_once(algorithm):
    monitor = sb.Monitor([sb.TopK(name="many", k=50, size=200), sb.TopK(name="one", k=1, size=200)], algorithm)
    monitor.push(None, [float(score % 101) for score in range(150)])
    before = monitor.candidates
    monitor.remove("many")
    alone = sb.Monitor(sb.TopK(name="one", k=1, size=200), algorithm)
    alone.push(None, [float(score % 101) for score in range(150)])
    assert monitor.candidates < before
    if algorithm not in ("naive", "sma"):  # these hold windows, and hold on to what they were given
        assert monitor.candidates == alone.candidates


@every_engine
def test_a_query_that_shares_its_views_is_valid_at_once(algorithm):
    """Views of "ten" begin at 0, 5, 10, …; "five" has the same starts and asks for fewer objects.

    ```text
    objects      0 . . . . 5 . . . . 10 . 12
    ten          [ - - - - - - - - - )            answered
    ten                    [ - - - - - - - - - 15)   open, holds its best 5
    five                             [ - - - - 15)   open from now on: begins where a view of "ten" begins
    ```
    """
    monitor = sb.Monitor(sb.TopK(name="ten", k=5, size=10, slide=5), algorithm)
    monitor.push(None, [float(score) for score in range(12)])
    assert monitor.add(sb.TopK(name="five", k=5, size=5)) == 15
    assert monitor.add(sb.TopK(name="more", k=6, size=10, slide=5)) == 25  # a sixth object is not held: from 15 on
    assert monitor.add(sb.TopK(name="off", k=1, size=5, origin=1)) == 21  # no view begins at 11: from 16 on


def test_before_the_first_row_a_query_just_joins():
    monitor = sb.Monitor(sb.TopK(name="a", k=1, size=4))
    assert monitor.add(sb.TopK(name="b", k=2, size=2)) is None
    monitor.push(None, [1.0, 2.0])
    assert monitor.answers()["query"].to_pylist() == ["b", "b"]


class TestGroupsStayAsTheyAre:
    """Who answers for each group is settled when a query joins; what its neighbours are does not change it."""

    @every_engine
    def test_when_the_query_that_asked_for_groups_leaves(self, algorithm):
        whole, each = sb.TopK(name="whole", k=1, size=4), sb.TopK(name="each", k=1, size=4, partition_by=["g"])
        monitor = sb.Monitor([whole, each], algorithm)
        monitor.push(None, [1.0, 2.0, 3.0], groups=list("aba"))
        monitor.remove("each")
        monitor = sb.Monitor.resume(monitor.snapshot())
        monitor.push(None, [2.0], groups=["b"])
        assert read(monitor.answers(), "query", "group") == [("whole", None, 0, 4, 1, 2, 3.0)]

    @every_engine
    def test_when_a_query_joins_that_asks_for_groups(self, algorithm):
        monitor = sb.Monitor(sb.TopK(name="all", k=1, size=2), algorithm)
        monitor.push(None, [1.0, 2.0, 3.0], groups=list("aba"))
        monitor.add(sb.TopK(name="each", k=1, size=2, partition_by=["g"]))
        monitor = sb.Monitor.resume(monitor.snapshot())
        monitor.push(None, [1.0, 4.0], groups=["b", "a"])
        found = [row for row in read(monitor.answers(), "query", "group") if row[0] == "all"]
        assert found == [("all", "a", 0, 2, 1, 2, 3.0), ("all", "b", 0, 2, 1, 1, 2.0)]


@every_engine
def test_a_larger_k_reaches_ids_that_wait_for_their_turn(algorithm):
    """Text ids wait while time stands still, no more of them than the largest k: that k is the new workload's."""
    monitor = sb.Monitor(sb.TopK(name="one", k=1, size="4 microseconds"), algorithm)
    monitor.push([1], [5.0], ["a"])
    monitor.add(sb.TopK(name="three", k=3, size="4 microseconds"))
    monitor.push([9, 9, 9, 9], [1.0, 2.0, 3.0, 4.0], ["d", "c", "b", "a"])
    monitor.finish()
    found = read(monitor.answers(), "query")
    assert [row[4:] for row in found if row[0] == "three"] == [("a", 4.0), ("b", 3.0), ("c", 2.0)]


class TestRefused:
    """A change that cannot be made leaves the monitor as it was."""

    def refused(self, change, match, monitor=None):
        monitor = monitor or sb.Monitor([sb.TopK(name="hour", k=1, size=4), sb.TopK(name="day", k=2, size=8)])
        monitor.push(None, [3.0, 1.0])
        before = monitor.snapshot()
        with pytest.raises(sb.SkybandError, match=match):
            change(monitor)
        assert monitor.snapshot() == before

    def test_a_name_that_is_taken(self):
        self.refused(lambda monitor: monitor.add(sb.TopK(name="day", k=1, size=4)), "'day' is used by more than one")

    def test_another_axis(self):
        self.refused(lambda monitor: monitor.add(sb.TopK(name="x", k=1, size="1 hour")), "one axis")

    def test_a_name_nobody_has(self):
        self.refused(lambda monitor: monitor.remove("dya"), "did you mean 'day'")

    def test_the_last_query(self):
        self.refused(
            lambda monitor: monitor.remove("a"),
            "is the last query and cannot be removed",
            sb.Monitor(sb.TopK(name="a", k=1, size=4)),
        )

    def test_groups_that_were_never_told(self):
        grouped = sb.TopK(name="g", k=1, size=4, partition_by=["symbol"])
        self.refused(lambda monitor: monitor.add(grouped), "without groups=")

    def test_what_the_engine_cannot_serve(self):
        long = sb.TopK(name="long", k=1, size=2**40, slide=1)
        monitor = sb.Monitor(sb.TopK(name="a", k=1, size=2), "mintopk")
        self.refused(lambda monitor: monitor.add(long), "panes", monitor)

    def test_after_the_end(self):
        monitor = sb.Monitor(sb.TopK(name="a", k=1, size=4))
        monitor.finish()
        with pytest.raises(sb.InvalidInputError, match="ended"):
            monitor.add(sb.TopK(name="b", k=1, size=4))
