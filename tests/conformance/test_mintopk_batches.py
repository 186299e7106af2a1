"""MinTopk's batches: the super-top-k list, its marks, counters and pointers are those of single steps.

`test_mintopk_lemmas.py` checks the lemmas of the paper after single steps. Here, the whole structure after batches is
compared with the structure after the same rows one by one, so the lemmas hold for both.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb
from skyband.topk.algorithms.mintopk import MinTopk
from skyband.topk.kernels.mintopk_batch import ALWAYS, BATCHES, IS_FULL, TAKEN
from tests import oracle
from tests.conformance.test_mintopk_lemmas import SuperTopkList
from tests.drive import count_query, push_count, push_time, read, time_query
from tests.streams import asked, count_rows, cut, time_rows


@pytest.fixture(scope="module", autouse=True)
def _batches():
    """Monitors of this module use batches wherever they are possible."""
    patch = pytest.MonkeyPatch()
    patch.setattr(MinTopk, "always_batches", True)
    yield
    patch.undo()


def batches_of(monitor):
    (engine,) = monitor._executors.engines
    assert engine._batch.registers[TAKEN] == 0, "between two pushes, the list is linked"
    return int(engine._batch.registers[BATCHES])


def structure(monitor):
    """The list with all marks, and the windows with their counters and pointers; none of an empty list."""
    if not any(engine.candidates for engine in monitor._executors.engines):
        return None
    found = SuperTopkList(monitor)
    return found.ids, found.start_w, found.end_w, found.tkc, found.lbp


def single_steps(query):
    """A monitor that has no batches as long as few rows are pushed together."""
    monitor = sb.Monitor(query, "mintopk")
    (engine,) = monitor._executors.engines
    engine.always_batches = False
    engine._batch.registers[ALWAYS] = 0
    return monitor


@given(data=st.data(), query=asked(), rows=time_rows(most=60))
def test_batches_over_time_leave_the_structure_of_single_steps(data, query, rows):
    single, batched = single_steps(time_query(query)), sb.Monitor(time_query(query), "mintopk")
    for part in data.draw(cut(rows)):
        for row in part:
            push_time(single, [row])
        push_time(batched, part)
        assert structure(batched) == structure(single)
        if data.draw(st.booleans()):
            batched = sb.Monitor.resume(batched.snapshot())
    batched.finish()
    assert read(batched.answers()) == oracle.answers(query, rows)


@given(data=st.data(), query=asked(), rows=count_rows(most=60))
def test_batches_over_counts_leave_the_structure_of_single_steps(data, query, rows):
    single, batched = single_steps(count_query(query)), sb.Monitor(count_query(query), "mintopk")
    for part in data.draw(cut(rows)):
        for row in part:
            push_count(single, [row])
        push_count(batched, part)
        assert structure(batched) == structure(single)
    single.finish()
    batched.finish()
    assert read(batched.answers()) == read(single.answers())


STREAMS = {
    "random": lambda draw, n: draw.random(n),
    "ties": lambda draw, n: draw.integers(0, 30, n).astype(float),
    "rising": lambda draw, n: np.arange(n) + 20 * draw.random(n),
    "falling": lambda draw, n: -np.arange(n) + 20 * draw.random(n),
    "infinite": lambda draw, n: np.where(draw.random(n) < 0.1, np.inf, np.where(draw.random(n) < 0.1, -np.inf, 1.0)),
    "wave": lambda draw, n: np.sin(np.arange(n) / 150),
}


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize(("k", "size", "slide"), [(5, 400, 10), (40, 300, 3), (1, 700, 100), (30, 1000, 7)])
def test_long_batches_give_exact_answers_and_the_minimal_set(kind, k, size, slide):
    scores = STREAMS[kind](np.random.default_rng(k), 3_000)
    query = sb.TopK(k=k, size=size, slide=slide)
    batched, single = sb.Monitor(query, "mintopk"), single_steps(query)
    for low in range(0, 3_000, 750):
        batched.push(None, scores[low : low + 750])
        for at in range(low, low + 750):
            single.push(None, scores[at : at + 1])
        assert structure(batched) == structure(single)
    assert batches_of(batched) >= 4
    assert batches_of(single) == 0
    batched.finish()
    assert batched.answers().equals(sb.replay(query, None, scores, algorithm="naive"))


@pytest.mark.parametrize("seed", range(6))
def test_gaps_in_time_and_repeated_positions(seed):
    draw = np.random.default_rng(seed)
    n = 1_500
    times = np.cumsum(np.where(draw.random(n) < 0.01, draw.integers(0, 900, n), draw.integers(0, 3, n)))
    rows = list(zip(times.tolist(), draw.integers(0, 50, n).astype(float).tolist(), range(n), strict=True))
    query = oracle.Asked(k=int(draw.integers(1, 20)), size=int(draw.integers(20, 300)), slide=int(draw.integers(1, 20)))
    batched = sb.Monitor(time_query(query), "mintopk")
    for low in range(0, n, 500):
        push_time(batched, rows[low : low + 500])
    assert batches_of(batched) >= 2
    single = single_steps(time_query(query))
    for row in rows:
        push_time(single, [row])
    assert structure(batched) == structure(single)
    batched.finish()
    assert read(batched.answers()) == oracle.answers(query, rows)


def test_a_batch_ends_when_the_answer_buffers_are_full():
    """4,096 rows at first: an answer every two objects with 50 rows fills them in the middle of a batch."""
    scores = np.random.default_rng(1).random(4_000)
    query = sb.TopK(k=50, size=1_000, slide=2)
    monitor, full = sb.Monitor(query, "mintopk"), []
    (engine,) = monitor._executors.engines
    run = engine._run

    def watched(*arguments):
        found = run(*arguments)
        full.append(int(engine._batch.registers[IS_FULL]))
        return found

    engine._run = watched
    monitor.push(None, scores)
    assert sum(full) >= 2
    monitor.finish()
    assert monitor.answers().equals(sb.replay(query, None, scores, algorithm="naive"))


def test_a_batch_sets_each_pointer_once_instead_of_a_step_for_each_object(monkeypatch):
    """Lemma 4.5 moves a pointer for every window that an object enters; a batch places it once for all of them."""
    scores = np.random.default_rng(2).random(40_000)
    query = sb.TopK(k=100, size=10_000, slide=10)
    moves = {}
    for batches in (False, True):
        monkeypatch.setattr(MinTopk, "always_batches", batches)
        monitor = sb.Monitor(query, "mintopk")
        for low in range(0, 40_000, 8_000 if batches else 200):  # 200 rows are too few for a batch
            monitor.push(None, scores[low : low + (8_000 if batches else 200)])
        moves[batches] = monitor.metrics()["pointer_moves"]
        assert (batches_of(monitor) > 0) == batches
    assert moves[True] < moves[False] / 5


@pytest.mark.parametrize("sign", [1, -1])
def test_trends_that_one_call_does_not_show(monkeypatch, sign):
    """In 500 rows the noise is larger than the trend; in a window of 20,000 the trend is.

    Batches are worth it in both directions: if scores rise, the front is trimmed; and they fall slowly.
    """
    monkeypatch.setattr(MinTopk, "always_batches", False)
    may_batch, found = MinTopk._may_batch, []

    def watched(self, rows, at, left):
        found.append(may_batch(self, rows, at, left))
        return found[-1]

    monkeypatch.setattr(MinTopk, "_may_batch", watched)
    scores = sign * np.arange(60_000) + 1_000 * np.random.default_rng(4).random(60_000)
    query = sb.TopK(k=20, size=20_000, slide=50)
    monitor = sb.Monitor(query, "mintopk")
    for low in range(0, 60_000, 500):
        monitor.push(None, scores[low : low + 500])
    assert np.mean(found) > 0.7
    assert batches_of(monitor) > 50
    monitor.finish()
    assert monitor.answers().equals(sb.replay(query, None, scores))


@pytest.mark.parametrize(
    ("kind", "slide", "worth"),
    [
        ("random", 50, True),
        ("random", 5_000, False),
        ("rising", 50, True),
        ("rising", 1_000, False),
        ("falling", 50, False),
    ],
)
def test_batches_are_used_where_they_are_worth_it(monkeypatch, kind, slide, worth):
    """Not if nearly all objects are rejected, if scores fall, or if they rise and few windows are open."""
    monkeypatch.setattr(MinTopk, "always_batches", False)
    monitor = sb.Monitor(sb.TopK(k=20, size=20_000, slide=slide), "mintopk")
    monitor.push(None, STREAMS[kind](np.random.default_rng(3), 60_000))
    assert (batches_of(monitor) > 0) == worth
