"""What instances can be expected to gain: by hand, by simulation, and by what the engine counts."""

from __future__ import annotations

import numpy as np
import pytest

import skyband as sb
from skyband.incomplete.kernels.prospects import gains_of, reach_of, sums_of
from skyband.streams import correlated


def test_sums_of_values_have_their_probabilities():
    contributions = np.array([[0.0, 1.0], [0.0, 1.0]])  # two streams, a coin each
    tails, cell = sums_of(contributions)
    one = round(1 / cell)
    assert tails[0, :2].tolist() == [1.0, 0.0]
    assert tails[1, [0, 1, one]].tolist() == [1.0, 0.5, 0.5]
    assert tails[2, [0, 1, one, one + 1, 2 * one]].tolist() == pytest.approx([1.0, 0.75, 0.75, 0.25, 0.25])


def test_the_number_of_further_reports_agrees_with_a_simulation():
    edges = np.append(0.0, np.geomspace(5, 100, 12))
    rates = np.vstack([np.zeros(12), np.linspace(0.02, 0.001, 12), np.linspace(0.01, 0.0, 12), np.zeros(12)])
    reach, _ = reach_of(rates, edges)
    rng = np.random.default_rng(3)
    life, start = 8, 2
    left = (edges[life] + edges[life + 1]) / 2
    worth = np.zeros(4)
    rounds = 4000
    for _ in range(rounds):
        number, more, age, clock = 1, 0, (edges[start] + edges[start + 1]) / 2, 0.0
        while clock < left and number < 3 and age < 100:
            rate = (3 - number) * rates[number, np.searchsorted(edges, age, side="right") - 1]
            age, clock = age + 0.25, clock + 0.25
            if rng.random() < rate * 0.25:
                number, more, age, rest = number + 1, more + 1, 0.0, left - clock
        worth[more] += (left if more == 0 else rest) / 100
    assert reach[1, start, life] == pytest.approx(worth / rounds, abs=0.02)


def test_nothing_is_gained_if_all_streams_have_reported_or_none_follows():
    edges = np.append(0.0, np.geomspace(5, 100, 6))
    rates = np.zeros((3, 6))
    rates[1, :3] = 0.05
    reach, held = reach_of(rates, edges)
    tails, cell = sums_of(np.random.default_rng(1).random((2, 50)))
    gains = gains_of(reach, held, tails, cell, 0.01)
    assert not gains[2].any()  # both streams have reported
    assert not gains[1, 3:].any()  # no report comes at such an age
    assert (gains[1, 0, 2:] > 0.5).all()
    assert (gains[1, 0] >= gains_of(reach, held, tails, cell, 0.5)[1, 0]).all()  # a higher price, less patience


def test_rates_are_those_of_the_streams():
    """Objects are picked from the last 20 of the other stream: none is reported again much later."""
    query = sb.IncompleteTopK(k=10, size=400, every=50, streams=[0, 1], method="approximate")
    monitor = sb.incomplete.Monitor(query)
    monitor.push(None, *correlated(6000, 2, 0.6, recent=20, seed=7))
    engine = monitor._executors[0].engine
    soon = engine._edges[:-1] < 30
    late = engine._edges[:-1] > 120
    # A stream has every second tuple, and picks one of 20 objects with probability 0.6.
    assert engine._rates[1, soon].mean() == pytest.approx(0.6 / 2 / 20, rel=0.4)
    assert engine._rates[1, late].max() < 0.1 * engine._rates[1, soon].mean()


@pytest.mark.parametrize("different", [{"aggregate": "avg"}, {"weights": {0: 3.0, 1: 0.5}}, {"bounds": (-1, 2)}])
def test_means_weights_and_bounds(different):
    tuples = correlated(5000, 3, 0.5, seed=3)
    query = sb.IncompleteTopK(k=10, size=800, every=40, streams=[0, 1, 2], method="approximate", **different)
    exact = sb.IncompleteTopK(**{**query.to_dict(), "method": "exact"})
    monitors = [sb.incomplete.Monitor(one) for one in (exact, query)]
    for monitor in monitors:
        monitor.push(None, *tuples)
    assert monitors[1].candidates < 0.4 * monitors[0].candidates
    assert sb.incomplete.precision(*(monitor.answers() for monitor in monitors)) > 0.85
