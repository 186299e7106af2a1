"""Why the published approximation is imprecise if few objects are shared: its patience, not its estimates."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.workloads import Reports

from benchmarks import incomplete_causes as causes
from benchmarks import workloads
from skyband.incomplete import executor
from skyband.incomplete.approximate import ExpectedAggregation
from skyband.incomplete.engine import IncompleteShape
from skyband.incomplete.kernels.attributes import SUM, aggregate_of
from skyband.incomplete.measures import precision
from skyband.streams import correlated


def test_exact_probabilities_are_those_of_the_window():
    shape = IncompleteShape(10, 500, 10, 0, 3, aggregate_of(SUM, np.ones(3)), np.zeros(3), np.ones(3), 1)
    engine, tuples = causes.Counted(shape), correlated(1_280, 3, 0.6, seed=6)
    engine.advance(np.arange(1_280), *tuples, tuples.objects, None)
    start = 1_280 - 500
    found = engine._chances(np.arange(8), start)
    streams_of = {}
    for object_, stream in zip(tuples.objects[start:].tolist(), tuples.streams[start:].tolist(), strict=True):
        streams_of.setdefault(object_, set()).add(stream)
    both = [streams for streams in streams_of.values() if {0, 1} <= streams]
    assert found[0b011, 2] == pytest.approx(np.mean([2 in streams for streams in both]))
    assert found[0b011, :2].tolist() == [1.0, 1.0]
    # The sketches of the published method estimate the same numbers.
    assert engine._seen.chances(start)[0b001, 1] == pytest.approx(found[0b001, 1], abs=0.15)


def test_patience_by_hand():
    """k = 1 and hardly any followers: an object waits for the next one with a higher value."""
    n = 4_000
    values = np.tile([0.5, 0.1, 0.9, 0.1], n // 4)
    alone = Reports(np.arange(n), np.zeros(n, np.int64), values, (0, 1))
    assert causes._chance(alone, 50) == 0.0
    # 0.5 and 0.1 wait for 0.9, one or two tuples; 0.9 waits for the whole window.
    for place, late in ((89, 1.0), (90, 0.0)):  # the value of those that come again, ten tuples later: 0.1, 0.9
        objects = np.arange(n)
        objects[place + 10 :: 400] = objects[place::400][: objects[place + 10 :: 400].size]
        found = causes.waiting(alone._replace(objects=objects), samples=n, size=50, k=1)
        assert found.delay == 10.0
        assert found.patience <= 2.0
        assert found.too_late == late


def test_a_higher_bound_waits_longer_and_fewer_reports_come_too_late():
    reports = workloads.correlated(8_000, causes.D, 0.2, 301)
    once, twice, four = (causes.waiting(reports, factor, 300) for factor in (1.0, 2.0, 4.0))
    assert once.patience < 0.7 * once.delay  # it is over before the next report
    assert once.patience < twice.patience < four.patience
    assert once.too_late > 0.45
    assert once.too_late > twice.too_late + 0.1 > four.too_late + 0.2


def test_the_delay_does_not_depend_on_the_correlation_but_the_patience_does():
    few, many = (causes.waiting(workloads.correlated(8_000, causes.D, rho, 301), 1.0, 300) for rho in (0.2, 0.7))
    assert few.delay == pytest.approx(many.delay, rel=0.25)
    assert many.patience > 2.5 * few.patience
    assert few.too_late > 2 * many.too_late


def test_the_precision_follows_the_patience_and_not_the_estimates():
    """Exact probabilities hardly help; longer patience does."""
    looks = 12
    reports = workloads.correlated((3 + looks) * causes.W, causes.D, 0.2, 301)
    exact, _ = causes.answers(reports, "exact", looks)
    published = precision(exact, causes.answers(reports, "expected-scores", looks)[0])
    found = {}
    for factor in (1.0, 4.0):
        with causes.exchanged(factor):
            found[factor] = precision(exact, causes.answers(reports, "expected-scores", looks)[0])
    assert executor.ExpectedAggregation is ExpectedAggregation
    assert published < 0.8
    assert found[1.0] == pytest.approx(published, abs=0.08)
    assert found[4.0] > published + 0.15
