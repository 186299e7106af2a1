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
        with pytest.raises(sb.InvalidInputError, match="n must be an integer of at least 0, got "):
            make(n, 3)


@pytest.mark.parametrize("make", SEEDED.values(), ids=SEEDED)
class TestSeeded:
    def test_another_seed_is_another_stream(self, make):
        assert not np.array_equal(make(500, 3).score, make(500, 4).score)

    def test_a_longer_stream_begins_with_the_shorter(self, make):
        for short, long in zip(make(700, 3), make(7_000, 3), strict=True):
            np.testing.assert_array_equal(short, long[:700])

    def test_a_negative_seed_is_refused(self, make):
        with pytest.raises(sb.InvalidInputError, match="seed must be an integer of at least 0, got -1"):
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


class TestCorrelated:
    def test_same_arguments_same_stream_and_a_longer_one_begins_with_it(self):
        for short, long in zip(streams.correlated(700, seed=3), streams.correlated(7_000, seed=3), strict=True):
            np.testing.assert_array_equal(short, long[:700])
        assert not np.array_equal(streams.correlated(700, seed=4).objects, streams.correlated(700, seed=3).objects)

    def test_columns_have_one_entry_a_tuple(self):
        for n in (0, 1, 257):
            assert [(column.size, column.dtype) for column in streams.correlated(n)] == [
                (n, np.int64),
                (n, np.int64),
                (n, np.float64),
            ]

    @pytest.mark.parametrize("occurrences", [1, 3])
    def test_no_stream_reports_an_object_too_often(self, occurrences):
        some = streams.correlated(20_000, 3, seed=3, rho=0.9, occurrences=occurrences)
        assert np.unique(some.objects * 3 + some.streams, return_counts=True)[1].max() == occurrences

    def test_the_more_rho_the_more_is_known(self):
        known = [
            1 - np.unique(streams.correlated(50_000, 4, rho, seed=3).objects).size / 50_000
            for rho in (0.0, 0.1, 0.3, 0.6, 0.9)
        ]
        assert known[0] == 0
        assert 0.08 < known[1] < 0.1
        assert known == sorted(known)
        assert 0.45 < known[-1] < 0.9

    def test_two_streams_share_as_the_odds_say(self):
        # An object stays for `recent` tuples of the stream that has it; each may pick it with chance rho / recent.
        some = streams.correlated(200_000, 2, 0.5, seed=3)
        twice = 1 - np.exp(-0.5)
        assert abs(1 - np.unique(some.objects).size / 200_000 - twice / (1 + twice)) < 0.01

    @pytest.mark.parametrize("occurrences", [1, 2])
    def test_known_objects_are_recent_ones_of_another_stream(self, occurrences):
        some = streams.correlated(3_000, 3, seed=3, rho=0.7, recent=20, occurrences=occurrences)
        seen, last = set(), [[], [], []]
        for object_, stream in zip(some.objects.tolist(), some.streams.tolist(), strict=True):
            others = {known for other in range(3) if other != stream for known in last[other][-20:]}
            assert object_ in others or object_ not in seen
            seen.add(object_)
            last[stream].append(object_)

    def test_streams_are_drawn_evenly_and_values_too(self):
        some = streams.correlated(50_000, 5, seed=3)
        assert (np.abs(np.bincount(some.streams) - 10_000) < 400).all()
        assert some.values.min() >= 0
        assert some.values.max() < 1
        assert abs(some.values.mean() - 0.5) < 0.01

    def test_one_stream_has_nothing_to_share(self):
        assert streams.correlated(100, streams=1, rho=1.0).objects.tolist() == list(range(100))

    @pytest.mark.parametrize(
        "wrong", [{"n": -1}, {"streams": 0}, {"rho": 1.5}, {"rho": float("nan")}, {"recent": 0}, {"occurrences": 0}]
    )
    def test_bad_parameters_are_refused(self, wrong):
        with pytest.raises(sb.InvalidInputError, match=next(iter(wrong))):
            streams.correlated(**{"n": 10, **wrong})


def test_decreasing_is_the_worst_case_for_candidates():
    monitor = sb.Monitor(sb.TopK(k=2, size=100, slide=10), "mintopk")
    monitor.push(None, streams.decreasing(95).score)
    assert monitor.candidates == 2 * 10


def test_bad_parameters_are_refused():
    with pytest.raises(sb.InvalidInputError, match="period must be an integer of at least 1, got 0"):
        streams.trend(5, seed=1, period=0)
    with pytest.raises(sb.InvalidInputError, match="per_second must be greater than 0, got 0"):
        streams.uneven(5, seed=1, per_second=0)
    with pytest.raises(sb.InvalidInputError, match="gap must be an integer of at least 0, got -1"):
        streams.uniform(5, seed=1, gap=-1)
