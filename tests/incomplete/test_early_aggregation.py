"""Early aggregation holds what Theorem 1 says, no more and no less, and its counters say what the paper claims."""

from __future__ import annotations

import numpy as np
import pytest

import skyband as sb
from skyband.incomplete.early_aggregation import EarlyAggregation
from skyband.incomplete.executor import shape_of
from tests.incomplete import oracle
from tests.incomplete.drive import some_question, some_tuples

NO_HASHES = np.empty(0, np.int64)


def columns_of(asked, kept):
    names = {name: place for place, name in enumerate(asked.streams)}
    return (
        np.array([one.position for one in kept], np.int64),
        np.array([one.object for one in kept], np.int64),
        np.array([names[one.stream] for one in kept], np.int64),
        np.array([one.value for one in kept]),
    )


def held(engine, asked, index):
    """The instances that live in window `index` or later, as the oracle names them."""
    found = engine.intervals()
    epochs = (found["last_ends"] - asked.origin) // asked.every
    rows = zip(found["objects"], epochs, found["current"], found["best"], strict=True)
    return sorted((int(o), int(e), float(c), float(b)) for o, e, c, b in rows if e >= index)


def stepwise(seed, every):
    """An engine after each few tuples of a random stream, with the tuples so far and the next window's number."""
    rng = np.random.default_rng(seed)
    query, asked = some_question(rng, every=every)
    kept, _ = oracle.admitted(
        asked, [(0, o, s, v) for o, s, v in zip(*some_tuples(rng, asked, 120)[1:], strict=True)], count_axis=True
    )
    engine = EarlyAggregation(shape_of(query, query.streams))
    columns = columns_of(asked, kept)
    at = 0
    while at < len(kept):
        to = min(len(kept), at + int(rng.integers(1, 15)))
        engine.advance(*(column[at:to] for column in columns), NO_HASHES, None)
        at = to
        yield engine, asked, kept[:at], (at - 1 - asked.origin) // asked.every + 1


@pytest.mark.parametrize("seed", range(40))
def test_what_is_held_is_necessary_and_sufficient(seed):
    for engine, asked, kept, index in stepwise(seed, every=1):
        expected = oracle.dominance_set(asked, kept, index)
        assert [row[:3] for row in held(engine, asked, index)] == sorted(row[:3] for row in expected)
        best = {row[:2]: row[3] for row in expected}
        assert all(b == pytest.approx(best[o, e], rel=1e-12) for o, e, _, b in held(engine, asked, index))


@pytest.mark.parametrize("seed", range(40))
def test_what_leaves_together_counts_as_one_moment(seed):
    """With answers few and far between, no instance of the set is missing, and no two leave at the same time."""
    for engine, asked, kept, index in stepwise(seed, every=None):
        mine = {row[:2] for row in held(engine, asked, index)}
        assert {row[:2] for row in oracle.dominance_set(asked, kept, index)} <= mine
        assert engine.items <= len(kept)


@pytest.mark.parametrize("seed", range(20))
def test_dominators_are_counted_by_distinct_objects(seed):
    for engine, asked, kept, index in stepwise(seed, every=1):
        everything = oracle.instances(asked, kept, index)
        found = engine.intervals()
        epochs = (found["last_ends"] - asked.origin) // asked.every
        for obj, epoch, best, count in zip(found["objects"], epochs, found["best"], found["dominators"], strict=True):
            if epoch >= index:
                beaten_by = {o for o, until, has, _ in everything if o != obj and until >= epoch and has > best}
                assert count == len(beaten_by) < asked.k


def test_the_set_grows_with_the_window_and_never_beyond_its_tuples():
    """Lemma 1: where much is unknown, what must be kept is a share of the window."""
    from skyband.streams import correlated

    objects, streams, values = correlated(12_000, seed=3, streams=3, rho=0.5)
    shares = []
    for size in (500, 1000, 2000, 4000):
        query = sb.IncompleteTopK(k=10, size=size, every=50, streams=[0, 1, 2])
        monitor = sb.incomplete.Monitor(query)
        monitor.push(None, objects, streams, values)
        assert monitor.candidates <= size + 50
        shares.append(monitor.candidates / size)
    assert min(shares) > 0.3 * max(shares)
    assert min(shares) > 0.2


def sure_and_missed(seed):
    """How many answers are flagged as sure, and how many more are; none is flagged that is not."""
    rng = np.random.default_rng(seed)
    query, asked = some_question(rng)
    query = sb.IncompleteTopK(**{**query.to_dict(), "intervals": True})
    columns = some_tuples(rng, asked, 150)
    kept, _ = oracle.admitted(asked, [(0, *row) for row in zip(*columns[1:], strict=True)], count_axis=True)
    answers = sb.incomplete.replay(query, *columns).to_pylist()
    told = {row["time"] for row in answers}
    missed = said = 0
    for end in told:
        window = [one for one in kept if end - asked.size <= one.position < end]
        mine = [row for row in answers if row["time"] == end]
        sure = oracle.sure_ones(asked, window)
        assert {row["object"] for row in mine if row["sure"]} <= sure
        missed += len(sure) - sum(row["sure"] for row in mine)
        said += sum(row["sure"] for row in mine)
        for row in mine:
            reach = oracle.highest(asked, [one for one in window if one.object == row["object"]])
            assert row["best"] >= reach - 1e-12
    return said, missed


@pytest.mark.parametrize("seed", range(30))
def test_who_is_sure_cannot_be_passed(seed):
    sure_and_missed(seed)


def test_most_who_are_sure_are_flagged():
    """What was forgotten of beaten objects may hide a few."""
    said, missed = np.sum([sure_and_missed(seed) for seed in range(30)], axis=0)
    assert 20 * missed <= said


def test_a_lone_object_is_sure():
    query = sb.IncompleteTopK(k=1, size=4, every=2, streams=["a", "b"], intervals=True)
    table = sb.incomplete.replay(query, None, ["x", "x", "y", "y"], ["a", "b", "a", "b"], [1.0, 0.5, 0.25, 0.5])
    assert table["sure"].to_pylist() == [True, True]
    assert table["best"].to_pylist() == [1.5, 1.5]


def test_nothing_is_counted_twice_by_an_object_with_several_instances():
    # Object 1 has two instances, both far above object 0: it is one dominator, not two.
    query = sb.IncompleteTopK(k=2, size=10, every=1, streams=["a", "b"])
    engine = EarlyAggregation(shape_of(query, query.streams))
    positions, objects = np.arange(4), np.array([0, 0, 1, 1])
    engine.advance(positions, objects, np.array([0, 1, 0, 1]), np.array([0.1, 0.1, 0.9, 0.9]), NO_HASHES, None)
    found = engine.intervals()
    assert found["dominators"][found["objects"] == 0].tolist() == [1, 1]
    assert found["dominators"][found["objects"] == 1].tolist() == [0, 0]
