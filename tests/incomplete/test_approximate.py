"""The approximate method: what it judges by, how much it keeps, and how good its answers are."""

from __future__ import annotations

import numpy as np
import pytest

import skyband as sb
from skyband.incomplete import precision
from skyband.incomplete.approximate import ExpectedAggregation, share_that_came, still_to_come
from skyband.incomplete.engine import IncompleteShape
from skyband.incomplete.kernels.attributes import SUM, aggregate_of
from skyband.streams import correlated


def held_and_answered(method, tuples, streams, k=10, size=1000):
    """The mean number of items after two windows, and all answers since."""
    query = sb.IncompleteTopK(k=k, size=size, every=10, streams=list(range(streams)), method=method)
    monitor = sb.incomplete.Monitor(query)
    items = []
    for low in range(0, tuples.values.size, 50):
        monitor.push(None, *(column[low : low + 50] for column in tuples))
        if low >= 2 * size:
            items.append(monitor.candidates)
        else:
            monitor.answers()
    return float(np.mean(items)), monitor


@pytest.mark.parametrize(("streams", "rho", "least"), [(2, 0.1, 0.85), (2, 0.5, 0.85), (2, 0.9, 0.85), (3, 0.5, 0.88)])
def test_few_items_and_most_of_the_answers(streams, rho, least):
    tuples = correlated(5000, streams, rho, seed=11)
    many, exact = held_and_answered("exact", tuples, streams)
    few, likely = held_and_answered("approximate", tuples, streams)
    assert few < 0.35 * many
    assert precision(exact.answers(), likely.answers()) > least


@pytest.mark.parametrize(("streams", "rho", "most", "least"), [(2, 0.5, 0.45, 0.95), (3, 0.5, 0.35, 0.85)])
def test_the_published_form_keeps_less_than_half(streams, rho, most, least):
    tuples = correlated(5000, streams, rho, seed=11)
    many, exact = held_and_answered("exact", tuples, streams)
    few, expected = held_and_answered("expected-scores", tuples, streams)
    assert few < most * many
    assert precision(exact.answers(), expected.answers()) > least


def test_the_published_best_score_is_probability_times_bound():
    """Every instance, after an update of the estimates, compared with the formula of section 4."""
    highs = np.array([1.0, 4.0, 2.0])
    shape = IncompleteShape(10, 500, 10, 0, 3, aggregate_of(SUM, np.ones(3)), np.zeros(3), highs, 1)
    engine = ExpectedAggregation(shape)
    tuples = correlated(1280, 3, 0.6, seed=6)
    engine.advance(
        np.arange(1280), tuples.objects, tuples.streams, tuples.values * highs[tuples.streams], tuples.objects, None
    )
    assert engine._tuples == 1280 == engine._next - engine._least  # the estimates have just been updated
    chances = engine._seen.chances(1280 - 500)
    held = engine._early._instances
    found = engine._early.intervals()
    partly = 0
    for place, one in enumerate(engine._early._slots()):
        known = held.counts[held.oldest[held.owners[one]]] > 0
        missing = chances[int(known @ [1, 2, 4])] * highs * ~known
        expected = float(held.values[one].sum() + missing.sum())
        partly += missing.sum() > 0
        assert found["best"][place] == pytest.approx(max(expected, found["current"][place]))
    assert partly > 20


@pytest.mark.parametrize("method", ["approximate", "expected-scores"])
@pytest.mark.parametrize("streams", [2, 4, 6])
def test_a_score_is_never_too_high(method, streams):
    """It may be too low: the tuples of dropped instances are missing."""
    tuples = correlated(3000, streams, 0.6, seed=9)
    query = sb.IncompleteTopK(k=20, size=600, every=50, streams=list(range(streams)), method=method)
    everyone = sb.IncompleteTopK(**{**query.to_dict(), "method": "exact", "k": 600})
    true = {
        (row["time"], row["object"]): row["score"] for row in sb.incomplete.replay(everyone, None, *tuples).to_pylist()
    }
    rows = sb.incomplete.replay(query, None, *tuples).to_pylist()
    off = [true[row["time"], row["object"]] - row["score"] for row in rows]
    assert min(off) >= 0
    assert np.mean(np.array(off) > 0) < 0.15


def test_a_late_comer_is_worth_waiting_for_while_late_comers_come():
    """Chances follow what streams do: where nobody comes again, unfinished objects are let go at once."""
    alone, _ = held_and_answered("approximate", correlated(5000, 2, 0.0, seed=4), 2)
    often, _ = held_and_answered("approximate", correlated(5000, 2, 0.3, seed=4), 2)
    assert alone < often


def test_memory_of_the_sketches_is_as_stated():
    query = sb.IncompleteTopK(k=1, size=10_000, every=100, streams=[0, 1, 2], method="approximate")
    monitor = sb.incomplete.Monitor(query)
    before = monitor.metrics()["queries"]["topk"]["sketch_bytes"]
    monitor.push(None, *correlated(20_000, 3, 0.5, seed=2))
    assert monitor.metrics()["queries"]["topk"]["sketch_bytes"] == before == 3 * 128 * 20 * 8


def test_what_is_still_to_come():
    # Half of those that share an object came before: of the rest, a third comes later.
    seen = np.array([[0.5, 0.5]])
    assert still_to_come(seen, np.array([0.0]))[0] == pytest.approx(np.array([[1 / 3, 1 / 3]]))
    # All that come have come: nothing is left.
    assert still_to_come(seen, np.array([0.0, 1.0]))[1].tolist() == [[0.0, 0.0]]
    later = still_to_come(seen, np.array([0.0, 0.5, 0.9]))[:, 0, 0]
    assert (np.diff(later) < 0).all()


def test_the_share_that_came_is_read_off_the_spans():
    """Followers that come evenly within 100: the chance over a span is known, and leads back to them."""
    spans = np.array([25, 50, 100, 200, 400])

    def both_within(span):  # in the mean over moments t of the span: followed since, or ahead before
        t = np.linspace(0, span, 10_001)
        return float(np.mean(np.minimum(t, 100) / 100 + np.minimum(span - t, 100) / 100) * 0.3)

    share = share_that_came(spans, np.array([both_within(span) for span in spans]))
    assert share[0] == 0.0
    assert (np.diff(share) >= -1e-9).all()
    assert share[1] == pytest.approx(0.125, abs=0.01)  # by 25, in the mean of what lies before
    assert share[-1] == pytest.approx(1.0, abs=0.01)
    assert share_that_came(spans, np.zeros(5)).tolist() == [0.0] * 5


def test_more_streams_than_a_table_can_tell():
    tuples = correlated(3000, 14, 0.5, seed=5)
    query = sb.IncompleteTopK(k=5, size=500, every=50, streams=list(range(14)), method="approximate")
    exact = sb.IncompleteTopK(**{**query.to_dict(), "method": "exact"})
    found = [sb.incomplete.replay(one, None, *tuples) for one in (exact, query)]
    assert 0.3 < precision(*found) <= 1.0


def test_too_many_streams_for_a_set_of_bits():
    query = sb.IncompleteTopK(k=1, size=10, streams=list(range(63)), method="approximate")
    with pytest.raises(sb.UnsupportedError, match="63 streams"):
        sb.incomplete.Monitor(query)


@pytest.mark.parametrize("seed", range(3))
def test_objects_that_come_again(seed):
    """Values of several occurrences add up; how many are to be expected follows from the streams themselves."""
    tuples = correlated(4000, 3, 0.5, occurrences=3, seed=seed)
    query = sb.IncompleteTopK(k=10, size=600, every=20, streams=[0, 1, 2], occurrences=3, method="approximate")
    exact = sb.IncompleteTopK(**{**query.to_dict(), "method": "exact"})
    found = [sb.incomplete.replay(one, None, *tuples) for one in (exact, query)]
    assert precision(*found) > 0.6


@pytest.mark.parametrize("method", ["approximate", "expected-scores"])
def test_k_above_the_number_of_objects(method):
    """Nothing can be dropped while there are fewer objects than k; time is not quadratic, and answers are complete."""
    tuples = correlated(30_000, 3, 0.5, seed=5)
    query = sb.IncompleteTopK(k=10**6, size=40_000, every=10_000, streams=[0, 1, 2], method=method)
    exact = sb.IncompleteTopK(**{**query.to_dict(), "method": "exact"})
    found, wanted = (sb.incomplete.replay(one, None, *tuples) for one in (query, exact))
    assert found.drop_columns("exact").equals(wanted)
    assert all(found["exact"].to_pylist())
    monitor = sb.incomplete.Monitor(query)
    monitor.push(None, *tuples)
    assert monitor.metrics()["queries"]["topk"]["touched"] == 0  # no dominators are counted


def test_the_number_of_objects_rises_above_k_and_falls_below():
    """Dominators that were not counted while there were few objects are counted later."""
    tuples = correlated(6_000, 2, 0.5, seed=5)
    at = np.concatenate([np.arange(3000), 3000 + np.arange(3000) * 40])  # then fewer than k in a window
    at = np.concatenate([at, at[-1] + 1 + np.arange(6000)])
    shifts = (10**6, 0, 0)
    objects, streams, values = (np.append(column, column + shift) for column, shift in zip(tuples, shifts, strict=True))
    query = sb.IncompleteTopK(k=60, size="1ms", every="100us", streams=[0, 1], method="approximate")
    exact = sb.IncompleteTopK(**{**query.to_dict(), "method": "exact"})
    monitors = [sb.incomplete.Monitor(one) for one in (exact, query)]
    for monitor in monitors:
        monitor.push(at, objects, streams, values)
    assert monitors[1].candidates < monitors[0].candidates
    assert sb.incomplete.precision(*(monitor.answers() for monitor in monitors)) > 0.9
