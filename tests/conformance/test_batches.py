"""Batches of new objects in MTopList and MTopBand: the same answers and candidates as without them.

A batch lasts over many ends and starts of windows. Catches a view that misses new objects, or gets them twice, because
it opened, shrank, was answered or closed within a batch.
"""

from __future__ import annotations

import random

import pytest

import skyband as sb
from skyband.topk.algorithms.shared import SharedEngine
from skyband.topk.kernels.batches import BATCHES
from tests import oracle
from tests.conformance.test_many_queries import named
from tests.drive import count_query, held, push_time, read, time_query

both = pytest.mark.parametrize("algorithm", ["mtoplist", "mtopband"])


@pytest.fixture
def only_batches(monkeypatch):
    monkeypatch.setattr(SharedEngine, "batches_from", 0)


def completed(monitor):
    (engine,) = monitor._executors.engines
    return int(engine._batch.registers[BATCHES])


def drawn(draw, count):
    queries = []
    for _ in range(count):
        size = draw.choice([draw.randint(1, 12), draw.randint(20, 400)])
        queries.append(
            oracle.Asked(draw.choice([1, 2, 7, 60]), size, draw.randint(max(1, size // 8), size), draw.randint(-9, 9))
        )
    return queries


@both
@pytest.mark.parametrize("seed", range(10))
def test_views_open_shrink_and_close_within_batches(algorithm, seed, only_batches):
    draw = random.Random(seed)
    queries = drawn(draw, draw.choice([1, 4, 25]))
    position, rows = draw.randint(-50, 50), []
    for i in range(900):
        position += draw.choice([0, 0, 1, 1, 2, 40 if i % 50 == 0 else 1, 900 if i == 500 else 0])
        trend = {0: 0, 1: i / 20, 2: -i / 20}[seed % 3]
        rows.append((position, float(draw.randint(0, 30)) + trend, i))
    # The oracle is too slow for so many rows; other tests compare panes with it.
    monitor, other = (sb.Monitor(named(queries, time_query), name) for name in (algorithm, "panes"))
    seen, low = [], 0
    while low < len(rows):
        high = low + draw.choice([1, 2, 30, 300])
        for one in (monitor, other):
            push_time(one, rows[low:high])
        assert sorted(held(monitor)) == sorted(held(other))
        if draw.random() < 0.3:
            monitor = sb.Monitor.resume(monitor.snapshot())
        seen += read(monitor.answers(), "query") if draw.random() < 0.5 else []
        low = high
    for one in (monitor, other):
        one.finish()
    assert seen + read(monitor.answers(), "query") == read(other.answers(), "query")


@both
def test_many_views_are_worth_batches_and_few_are_not(algorithm):
    draw = random.Random(1)
    scores = [draw.random() for _ in range(6_000)]
    many = [sb.TopK(name=f"q{i}", k=40, size=900 + i, slide=30 + i, full_only=True) for i in range(60)]
    one = [sb.TopK(name="q", k=40, size=900, slide=300)]
    for queries, is_batched in ((many, True), (one, False)):
        monitor = sb.Monitor(queries, algorithm)
        monitor.push(None, scores)
        assert (completed(monitor) > 0) is is_batched
        for score in scores[:20]:
            before = completed(monitor)
            monitor.push(None, [score])
            assert completed(monitor) == before, "a single row is no batch"
        monitor.finish()
        assert monitor.answers().equals(sb.replay(queries, None, [*scores, *scores[:20]], algorithm="panes"))


@both
def test_sets_and_lists_grow_within_batches(algorithm, only_batches):
    draw = random.Random(4)
    queries = [
        oracle.Asked(draw.randint(1, 200), size := draw.randint(20, 400), draw.randint(10, size)) for _ in range(60)
    ]
    scores = [draw.random() for _ in range(1_500)]
    monitor = sb.Monitor(named(queries, count_query), algorithm)
    for low in (0, 1_000):
        monitor.push(None, scores[low : low + 1_000])
    monitor.finish()
    assert completed(monitor) > 2
    assert monitor.answers().equals(sb.replay(named(queries, count_query), None, scores, algorithm="panes"))
