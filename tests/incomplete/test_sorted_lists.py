"""Sorted lists answer as the definition says, read little of the lists, and go on from a snapshot."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband import streams
from skyband.incomplete.engine import IncompleteShape
from skyband.incomplete.kernels import attributes
from skyband.incomplete.kernels.attributes import aggregate_of
from skyband.incomplete.sorted_lists import SortedLists
from skyband.snapshot import decode, encode
from tests.incomplete import oracle
from tests.incomplete.oracle import Asked, limits
from tests.programs import without_compiler

CODES = {"sum": attributes.SUM, "avg": attributes.AVG, "min": attributes.MIN, "max": attributes.MAX}
KINDS = (np.int64, np.int64, np.int64, np.float64)


def shape_of(asked):
    d = len(asked.streams)
    weights = np.array([(asked.weights or {}).get(stream, 1.0) for stream in asked.streams])
    code = CODES[asked.aggregate]
    lows, highs = np.array([limits(asked, stream) for stream in asked.streams]).T.copy()
    return IncompleteShape(
        asked.k,
        asked.size,
        asked.every,
        asked.origin,
        d,
        aggregate_of(code, weights),
        lows,
        highs,
        occurrences=asked.occurrences,
    )


def advance(engine, rows, clock=None):
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    arrays = [np.array(column, kind) for column, kind in zip(columns, KINDS, strict=True)]
    return engine.advance(*arrays, arrays[1], clock)


def rows_of(answers):
    """The windows of some answers as the oracle has them."""
    stops = np.cumsum(answers.counts)
    both = list(zip(answers.objects.tolist(), answers.scores.tolist(), strict=True))
    return [
        (end, both[stop - count : stop])
        for end, count, stop in zip(answers.ends.tolist(), answers.counts.tolist(), stops.tolist(), strict=True)
    ]


def answers(asked, tuples, *, cuts=(), make=SortedLists, between=lambda engine: engine):
    """What the engine answers: pushed in pieces, changed hands in between."""
    engine, found = make(shape_of(asked)), []
    for low, high in itertools.pairwise([0, *cuts, len(tuples)]):
        found += rows_of(advance(engine, tuples[low:high]))
        engine = between(engine)
    if tuples:
        found += rows_of(advance(engine, [], clock=tuples[-1][0] + asked.size + asked.every))
        assert engine.items == engine.objects_in_use().size == 0
    return found


@st.composite
def cases(draw):
    d = draw(st.integers(1, 4))
    size = draw(st.integers(1, 25))
    aggregate = draw(st.sampled_from(list(CODES)))
    weights = None
    if aggregate == "sum" and draw(st.booleans()):
        weights = dict(enumerate(draw(st.lists(st.sampled_from([0.0, 0.1, 1.0, 2.5]), min_size=d, max_size=d))))
    asked = Asked(
        k=draw(st.sampled_from([1, 2, 3, 5, 40])),
        size=size,
        every=draw(st.integers(1, size)),
        streams=tuple(range(d)),
        origin=draw(st.integers(-9, 9)),
        aggregate=aggregate,
        weights=weights,
        bounds=draw(st.sampled_from([(0.0, 1.0), (-3.0, 2.0), (-5.0, -1.0), (2.0, 4.0)])),
        occurrences=draw(st.sampled_from([1, 1, 2, 4])),
    )
    rng = random.Random(draw(st.integers(0, 2**32)))
    tuples = seeded_tuples(asked, rng, draw(st.sampled_from([0, 1, 5, 60, 200])))
    return asked, tuples, sorted(rng.choices(range(len(tuples) + 1), k=rng.randint(0, 5)))


def seeded_tuples(asked, rng, n):
    """Few objects and few values, so that ties and reoccurrences are common; equal positions and gaps as well."""
    low, high = asked.bounds
    position, rows = rng.randint(-30, 30), []
    objects = rng.choice([3, 8, 50])
    for _ in range(n):
        position += rng.choice([0, 0, 1, 1, 1, 3, 40] if rng.random() < 0.1 else [0, 1, 1])
        value = rng.choice([low, high, (low + high) / 2, low + (high - low) * rng.random()])
        rows.append((position, rng.randrange(objects) * 7 - 11, rng.randrange(len(asked.streams)), value))
    rows.sort(key=lambda row: row[:2])  # of one position by object: who is seen last is then the larger one
    return [tuple(row) for row in oracle.admitted(asked, rows, count_axis=False)[0]]


@given(cases())
def test_as_the_definition_says(case):
    asked, tuples, cuts = case
    assert answers(asked, tuples, cuts=cuts) == oracle.answers(asked, tuples)


@given(cases())
def test_whatever_the_size_of_the_view(case):
    asked, tuples, _ = case
    for view in (asked.k, asked.k + 1, 100):
        found = answers(asked, tuples, make=lambda shape, view=view: SortedLists(shape, view=view))
        assert found == oracle.answers(asked, tuples)


@given(cases())
def test_a_restart_at_any_point_changes_nothing(case):
    asked, tuples, cuts = case

    def restarted(engine):
        resumed = SortedLists(shape_of(asked))
        resumed.load(decode(encode(engine.state())))
        return resumed

    assert answers(asked, tuples, cuts=cuts, between=restarted) == oracle.answers(asked, tuples)


def test_a_state_is_not_changed_by_what_comes_after():
    rows = [(i, i % 4, i % 2, i / 40) for i in range(40)]
    engine = SortedLists(shape_of(Asked(k=2, size=10, every=5, streams=(0, 1))))
    advance(engine, rows[:20])
    saved = engine.state()
    before = encode(saved)
    advance(engine, rows[20:], clock=40)
    assert encode(saved) == before


@pytest.mark.parametrize("occurrences", [1, 3])
@pytest.mark.parametrize("aggregate", CODES)
def test_windows_of_thousands_of_tuples(aggregate, occurrences):
    tuples = streams.correlated(6_000, 3, seed=8, rho=0.6, recent=300, occurrences=occurrences)
    asked = Asked(k=10, size=2_000, every=500, streams=(0, 1, 2), aggregate=aggregate, occurrences=occurrences)
    rows = list(zip(range(6_000), *(column.tolist() for column in tuples), strict=True))
    assert answers(asked, rows) == oracle.answers(asked, rows)


class TestTies:
    def test_who_was_seen_last(self):
        rows = [(1, 5, 0, 0.5), (2, 9, 0, 0.5), (3, 7, 0, 0.5), (3, 8, 0, 0.5), (4, 9, 1, 0.0)]
        best = advance(SortedLists(shape_of(Asked(k=4, size=100, every=100, streams=(0, 1)))), rows, clock=100)
        assert rows_of(best) == [(100, [(9, 0.5), (8, 0.5), (7, 0.5), (5, 0.5)])]
        assert best.lasts.tolist() == [4, 3, 3, 1]

    def test_an_unread_object_that_equals_the_threshold_may_win(self):
        # Everyone has the same value: no list says who was seen last.
        asked = Asked(k=1, size=1_000, every=1_000, streams=(0,))
        rows = [(i, 1_000 - i, 0, 1.0) for i in range(1_000)]
        assert answers(asked, rows)[0] == (1_000, [(1, 1.0)])


class TestReading:
    @staticmethod
    def driven(asked, n, *, power=1.0, view=None):
        tuples = streams.correlated(n, seed=2, streams=len(asked.streams), rho=0.5, recent=2_000)
        engine = SortedLists(shape_of(asked), view=view)
        engine.advance(np.arange(n), tuples.objects, tuples.streams, tuples.values**power, tuples.objects, None)
        return engine

    def test_the_lists_are_left_early(self):
        asked = Asked(k=10, size=20_000, every=2_000, streams=(0, 1))
        metrics = self.driven(asked, 100_000, power=30.0, view=10).metrics()
        assert metrics["recomputations"] >= 10
        assert metrics["sorted_accesses"] < 0.05 * 20_000 * metrics["recomputations"]
        assert metrics["random_accesses"] <= metrics["sorted_accesses"]

    def test_a_larger_view_spares_readings(self):
        asked = Asked(k=10, size=1_000, every=10, streams=(0, 1))
        small, large, huge = (
            self.driven(asked, 20_000, view=view).metrics()["recomputations"] for view in (10, 20, 100)
        )
        assert small > 2 * large > 2 * huge
        assert large < 20_000 // 10 / 10

    def test_the_window_is_all_that_is_held(self):
        assert self.driven(Asked(k=5, size=500, every=100, streams=(0, 1, 2)), 3_000).items == 500


def check_seeded_cases():
    """A small, seeded set of cases; run by the subprocess below, where nothing is compiled."""
    rng = random.Random(20091102)
    for aggregate in CODES:
        for occurrences in (1, 3):
            asked = Asked(
                k=3, size=15, every=4, streams=(0, 1, 2), origin=2, aggregate=aggregate, bounds=(-1.0, 1.0),
                occurrences=occurrences,
            )  # fmt: skip
            tuples = seeded_tuples(asked, rng, 120)
            assert answers(asked, tuples) == oracle.answers(asked, tuples)


def test_same_answers_without_the_compiler():
    without_compiler("from tests.incomplete.test_sorted_lists import check_seeded_cases; check_seeded_cases()")
