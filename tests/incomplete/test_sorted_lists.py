"""Sorted lists answer as the definition says, read little of the lists, and go on from a snapshot."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband import streams
from skyband.incomplete.shape import Shape
from skyband.incomplete.sorted_lists import SortedLists
from skyband.kernels import attributes
from skyband.snapshot import decode, encode
from tests.incomplete import brute
from tests.incomplete.brute import Question

CODES = {"sum": attributes.SUM, "avg": attributes.AVG, "min": attributes.MIN, "max": attributes.MAX}


def shape_of(question):
    weights = np.ones(question.d) if question.weights is None else np.array(question.weights)
    return Shape(**{**question._asdict(), "weights": weights, "aggregate": CODES[question.aggregate]})


def push(engine, rows):
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    kinds = (np.int64, np.int64, np.int64, np.float64)
    engine.push(*(np.array(column, kind) for column, kind in zip(columns, kinds, strict=True)))


def answers(question, tuples, *, make=SortedLists, between=lambda engine: engine):
    """What the engine answers at each end: pushed in pieces, changed hands in between."""
    engine, at, found = make(shape_of(question)), 0, []
    for end in brute.ends(question, tuples):
        stop = next((i for i in range(at, len(tuples)) if tuples[i][0] >= end), len(tuples))
        middle = (at + stop) // 2
        push(engine, tuples[at:middle])
        engine = between(engine)
        push(engine, tuples[middle:stop])
        at = stop
        best = engine.answer(end)
        assert engine.items == sum(end - question.size <= row[0] < end for row in tuples)
        found.append(list(zip(*(column.tolist() for column in best), strict=True)))
    return found


def expected(question, tuples):
    return [brute.best(question, tuples, end) for end in brute.ends(question, tuples)]


@st.composite
def questions(draw):
    d = draw(st.integers(1, 4))
    size = draw(st.integers(1, 25))
    aggregate = draw(st.sampled_from(list(CODES)))
    weights = None
    if aggregate == "sum" and draw(st.booleans()):
        weights = tuple(draw(st.lists(st.sampled_from([0.0, 0.1, 1.0, 2.5]), min_size=d, max_size=d)))
    low, high = draw(st.sampled_from([(0.0, 1.0), (-3.0, 2.0), (-5.0, -1.0), (2.0, 4.0)]))
    return Question(
        k=draw(st.sampled_from([1, 2, 3, 5, 40])),
        size=size,
        every=draw(st.integers(1, size)),
        origin=draw(st.integers(-9, 9)),
        d=d,
        weights=weights,
        aggregate=aggregate,
        low=low,
        high=high,
        occurrences=draw(st.sampled_from([1, 1, 2, 4])),
    )


@st.composite
def cases(draw):
    question = draw(questions())
    rng = random.Random(draw(st.integers(0, 2**32)))
    return question, seeded_tuples(question, rng, draw(st.sampled_from([0, 1, 5, 60, 200])))


def seeded_tuples(question, rng, n):
    """Few objects and few values, so that ties and reoccurrences are common; equal positions and gaps as well."""
    position, rows = rng.randint(-30, 30), []
    objects = rng.choice([3, 8, 50])
    for _ in range(n):
        position += rng.choice([0, 0, 1, 1, 1, 3, 40] if rng.random() < 0.1 else [0, 1, 1])
        value = rng.choice([question.low, question.high, (question.low + question.high) / 2, rng.random()])
        value = min(max(value, question.low), question.high)
        rows.append((position, rng.randrange(objects) * 7 - 11, rng.randrange(question.d), value))
    rows.sort(key=lambda row: row[:2])  # tuples of one moment come by object
    return brute.accepted(question, rows)


@given(cases())
def test_as_the_definition_says(case):
    question, tuples = case
    assert answers(question, tuples) == expected(question, tuples)


@given(cases())
def test_whatever_the_size_of_the_view(case):
    question, tuples = case
    for view in (question.k, question.k + 1, 100):
        assert answers(question, tuples, make=lambda s, v=view: SortedLists(s, view=v)) == expected(question, tuples)


@given(cases())
def test_a_restart_at_any_point_changes_nothing(case):
    question, tuples = case

    def restarted(engine):
        again = SortedLists(shape_of(question))
        again.load(decode(encode(engine.state())))
        return again

    assert answers(question, tuples, between=restarted) == expected(question, tuples)


def test_a_state_is_not_changed_by_what_comes_after():
    question = Question(k=2, size=10, every=5)
    rows = [(i, i % 4, i % 2, i / 40) for i in range(40)]
    engine = SortedLists(shape_of(question))
    push(engine, rows[:20])
    saved = engine.state()
    before = encode(saved)
    push(engine, rows[20:])
    engine.answer(40)
    assert encode(saved) == before


@pytest.mark.parametrize("occurrences", [1, 3])
@pytest.mark.parametrize("aggregate", CODES)
def test_windows_of_thousands_of_tuples(aggregate, occurrences):
    tuples = streams.correlated(6_000, seed=8, streams=3, rho=0.6, recent=300, occurrences=occurrences)
    question = Question(k=10, size=2_000, every=500, d=3, aggregate=aggregate, occurrences=occurrences)
    rows = list(zip(range(6_000), *(column.tolist() for column in tuples), strict=True))
    assert answers(question, rows) == expected(question, rows)


class TestTies:
    def test_who_was_seen_last_and_then_the_larger_object(self):
        question = Question(k=4, size=100, every=100)
        rows = [(1, 5, 0, 0.5), (2, 9, 0, 0.5), (3, 7, 0, 0.5), (3, 8, 0, 0.5), (4, 9, 1, 0.0)]
        assert answers(question, rows)[0] == [(9, 0.5, 4), (8, 0.5, 3), (7, 0.5, 3), (5, 0.5, 1)]

    def test_an_unread_object_that_equals_the_threshold_may_win(self):
        # Everyone has the same value: no list says who was seen last.
        question = Question(k=1, size=1_000, every=1_000, d=1)
        rows = [(i, 1_000 - i, 0, 1.0) for i in range(1_000)]
        assert answers(question, rows)[0] == [(1, 1.0, 999)]


class TestReading:
    @staticmethod
    def driven(shape, n, *, power=1.0, view=None):
        tuples = streams.correlated(n, seed=2, streams=shape.d, rho=0.5, recent=2_000)
        engine = SortedLists(shape, view=view)
        for end in range(shape.every, n + 1, shape.every):
            mine = slice(end - shape.every, end)
            values = tuples.values[mine] ** power
            engine.push(np.arange(mine.start, mine.stop), tuples.objects[mine], tuples.streams[mine], values)
            engine.answer(end)
        return engine

    def test_the_lists_are_left_early(self):
        shape = shape_of(Question(k=10, size=20_000, every=2_000, d=2))
        counters = self.driven(shape, 100_000, power=30.0, view=10).metrics()
        assert counters["recomputations"] >= 10
        assert counters["sorted_accesses"] < 0.05 * 20_000 * counters["recomputations"]
        assert counters["random_accesses"] <= counters["sorted_accesses"]

    def test_a_larger_view_spares_readings(self):
        shape = shape_of(Question(k=10, size=1_000, every=10, d=2))
        small, large, huge = (
            self.driven(shape, 20_000, view=view).metrics()["recomputations"] for view in (10, 20, 100)
        )
        assert small > 2 * large > 2 * huge
        assert large < 20_000 // 10 / 10

    def test_the_window_is_all_that_is_held(self):
        engine = self.driven(shape_of(Question(k=5, size=500, every=100, d=3)), 3_000)
        assert engine.items == 500


def check_seeded_cases():
    """A small, seeded set of cases; run by the subprocess below, where nothing is compiled."""
    rng = random.Random(20091102)
    for aggregate in CODES:
        for occurrences in (1, 3):
            question = Question(
                k=3, size=15, every=4, origin=2, d=3, aggregate=aggregate, low=-1.0, occurrences=occurrences
            )
            tuples = seeded_tuples(question, rng, 120)
            assert answers(question, tuples) == expected(question, tuples)


def test_same_answers_without_the_compiler():
    program = "from tests.incomplete.test_sorted_lists import check_seeded_cases; check_seeded_cases()"
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
