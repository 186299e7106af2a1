"""What instances can be expected to gain: by hand, by simulation, and by what the engine counts."""

from __future__ import annotations

import numpy as np
import pytest

import skyband as sb
from skyband.incomplete.kernels.prospects import CELLS, LEVELS, LIVES, gains_of, highest_gains, tails_of
from skyband.streams import correlated


def test_values_have_their_probabilities():
    tails, cell = tails_of(np.array([[0.0, 1.0], [0.0, 1.0]]))  # two streams, a coin each
    one = round(1 / cell)
    assert tails[0, :2].tolist() == [1.0, 0.0]
    assert tails[1, [0, 1, one]].tolist() == [1.0, 0.5, 0.5]


def test_one_further_report_is_awaited_while_it_is_worth_the_next_moment():
    """Two streams, a constant rate, even values: what is expected of the next moment only falls, so it decides."""
    edges, rate, price, rise = np.append(0.0, np.geomspace(2, 100, 40)), 0.02, 0.3, 1.5
    rates = np.full((3, 40), rate)
    values = (np.arange(6000) + 0.5) / 6000
    gains = highest_gains(rates, edges, *tails_of(values[None]), rise, price)
    for level in (0, 1):
        for life in (5, 10, 15):
            whole = (life + 0.5) / LIVES * 100
            for age in np.flatnonzero(edges[1:] < whole - 5):
                left = whole - (edges[age] + edges[age + 1]) / 2
                # Lifetimes are counted in cells; a share of values must be enough.
                low, high = (1 - price * 2**level / (rate * (left + by)) for by in (-50 / LIVES, 50 / LIVES))
                cells = 2 * rise / CELLS
                assert max(low, 0) - cells <= gains[level, 1, life, age] <= max(high, 0) + cells


def _simulated(rates, edges, stops, whole, missing, price, rng):
    """The mean worth of an instance with one report, three streams and even values, if it waits until `stops`."""
    size, step, rounds, total = edges[-1], 0.5, 3000, 0.0
    for _ in range(rounds):
        number, age, life, gap, clock = 1, 0.0, whole, missing, 0.0
        while age < life and number < 3:
            at = min(int(np.searchsorted(edges, age, side="right")) - 1, rates.shape[1] - 1)
            if gap > stops[number, min(int(life / size * LIVES), LIVES - 1), at]:
                break
            age, clock = age + step, clock + step
            total -= price * step / size
            if rng.random() < (3 - number) * rates[number, at] * step:
                number, gap, life, age = number + 1, gap - rng.random(), life - age, 0.0
                if gap <= 0:
                    total += (whole - clock) / size
                    break
    return total / rounds


def test_no_other_patience_is_worth_more():
    edges = np.append(0.0, np.geomspace(5, 100, 12))
    rates = np.vstack([np.zeros(12), np.linspace(0.02, 0.001, 12), np.linspace(0.03, 0.0, 12), np.zeros(12)])
    values = (np.arange(6000) + 0.5) / 6000
    best = highest_gains(rates, edges, *tails_of(values[None]), 2.5, 0.12)[0]
    whole, missing, rng = 85.0, 1.1, np.random.default_rng(3)
    found = _simulated(rates, edges, best, whole, missing, 0.12, rng)
    assert found > 0.01
    for other in (best * 0.5, best + 0.7, np.where(best > 0, 3.0, 0.0)):
        assert _simulated(rates, edges, other, whole, missing, 0.12, rng) <= found + 0.006


def test_nothing_is_gained_if_all_streams_have_reported_or_none_follows():
    edges = np.append(0.0, np.geomspace(5, 100, 6))
    rates = np.zeros((3, 6))
    rates[1, :3] = 0.05
    estimates = rates, edges, *tails_of(np.random.default_rng(1).random((2, 50)))
    gains = highest_gains(*estimates, 1.4, 0.01)
    assert not gains[:, 2].any()  # both streams have reported
    assert not gains[:, 1, :, 3:].any()  # no report comes at such an age
    assert (gains[0, 1, 6:, 0] > 0.5).all()
    assert (gains[0] >= highest_gains(*estimates, 1.4, 0.5)[0]).all()  # a higher price, less patience
    for level in range(1, LEVELS):  # serving for half of the time is as twice the price
        np.testing.assert_array_equal(gains[level], highest_gains(*estimates, 1.4, 0.01 * 2**level)[0])
    for rise in (0.0, -1.0, np.inf):  # nothing is known of the answers
        everything = highest_gains(*estimates, rise, 0.01)
        assert (everything[:, 1] == everything.max() / 2).all()
        assert not everything[:, 2].any()


def test_the_tables_agree_without_the_compiler():
    rng = np.random.default_rng(4)
    rates, edges = rng.random((4, 5)) / 50, np.array([0.0, 5.0, 20.0, 50.0, 80.0, 100.0])
    density = rng.dirichlet(np.ones(CELLS))
    plain = getattr(gains_of, "py_func", gains_of)
    np.testing.assert_allclose(gains_of(rates, edges, density, 2.0, 0.02), plain(rates, edges, density, 2.0, 0.02))


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
