"""The streams are what their pages say: seeded, in order, and with the ties and bursts that make trouble."""

from __future__ import annotations

import numpy as np
import pytest

import skyband as sb
from skyband import streams

SEEDED = {
    "trades": streams.trades,
    "uniform": streams.uniform,
    "trend": streams.trend,
    "uneven": streams.uneven,
}
ALL = {**SEEDED, "decreasing": lambda n, seed: streams.decreasing(n)}


@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
class TestEveryStream:
    def test_same_arguments_same_stream(self, make):
        for first, again in zip(make(500, 3), make(500, 3), strict=True):
            np.testing.assert_array_equal(first, again)

    def test_positions_never_go_backwards(self, make):
        position = make(5_000, 3).position
        assert position.dtype == np.int64
        assert (np.diff(position) >= 0).all()

    def test_columns_have_one_entry_an_object(self, make):
        for n in (0, 1, 257):
            assert {column.size for column in make(n, 3)} == {n}

    def test_scores_are_finite_floats(self, make):
        score = make(1_000, 3).score
        assert score.dtype == np.float64
        assert np.isfinite(score).all()

    @pytest.mark.parametrize("n", [-1, 2.5, "many", True])
    def test_a_length_that_is_none_is_refused(self, make, n):
        with pytest.raises(sb.InvalidInputError, match="n="):
            make(n, 3)


@pytest.mark.parametrize("make", SEEDED.values(), ids=SEEDED)
class TestSeeded:
    def test_another_seed_is_another_stream(self, make):
        assert not np.array_equal(make(500, 3).score, make(500, 4).score)

    def test_a_longer_stream_begins_with_the_shorter(self, make):
        for short, long in zip(make(700, 3), make(7_000, 3), strict=True):
            np.testing.assert_array_equal(short, long[:700])

    def test_a_negative_seed_is_refused(self, make):
        with pytest.raises(sb.InvalidInputError, match="seed=-1"):
            make(5, -1)


class TestTrades:
    trades = streams.trades(100_000, seed=5)

    def test_about_four_hundred_a_second(self):
        seconds = (self.trades.position[-1] - self.trades.position[0]) / 1e6
        assert 320 < self.trades.position.size / seconds < 480

    def test_whole_milliseconds_with_ties(self):
        assert (self.trades.position % 1000 == 0).all()
        assert 0.1 < (np.diff(self.trades.position) == 0).mean() < 0.4

    def test_bursts(self):
        per_second = np.bincount((self.trades.position - self.trades.position[0]) // 1_000_000)
        assert per_second.max() > 2 * per_second.mean()

    def test_few_symbols_make_most_trades(self):
        counts = np.sort(np.unique(self.trades.symbol, return_counts=True)[1])[::-1]
        assert counts.size == 60
        assert counts[:12].sum() > counts[12:].sum()

    def test_score_is_price_times_size(self):
        np.testing.assert_array_equal(self.trades.score, self.trades.price * self.trades.size)
        assert self.trades.size.min() >= 1
        assert self.trades.price.min() > 0

    def test_heavy_tail(self):
        assert self.trades.score.max() > 100 * np.median(self.trades.score)

    def test_start(self):
        assert streams.trades(10, seed=1, start=-5_000_000).position[0] >= -5_000_000


def test_decreasing_is_the_worst_case_for_candidates():
    monitor = sb.Monitor(sb.TopK(k=2, size=100, slide=10), "mintopk")
    monitor.push(None, streams.decreasing(95).score)
    assert monitor.candidates == 2 * 10


def test_bad_parameters_are_refused():
    with pytest.raises(sb.InvalidInputError, match="period=0"):
        streams.trend(5, seed=1, period=0)
    with pytest.raises(sb.InvalidInputError, match="per_second=0"):
        streams.uneven(5, seed=1, per_second=0)
    with pytest.raises(sb.InvalidInputError, match="gap=-1"):
        streams.uniform(5, seed=1, gap=-1)
