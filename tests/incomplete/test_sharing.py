"""Queries that share instances: which ones do, the same answers, and less state."""

from __future__ import annotations

import numpy as np
import pytest

import skyband as sb
from skyband.incomplete.executor import shared
from skyband.streams import correlated

STREAMS = {"streams": [0, 1, 2]}


def asked(rng, number, occurrences, *, on_time=False):
    """Some queries over the same streams; windows that fit together and windows that do not."""
    found = []
    for name in range(number):
        every = int(rng.choice([5, 10, 15, 30, 7]))
        size = every * int(rng.integers(1, 8))
        origin = int(rng.choice([0, 0, 5, 2]))
        if occurrences == 1:
            every, size, origin = 10, 60, 0
        unit = " microseconds" if on_time else ""
        extent = {"size": f"{size}{unit}", "every": f"{every}{unit}"} if on_time else {"size": size, "every": every}
        found.append(
            sb.IncompleteTopK(
                name=f"q{name}", k=int(rng.integers(1, 9)), origin=origin, occurrences=occurrences, **extent, **STREAMS
            )
        )
    return found


def alone(query, positions, tuples):
    return sb.incomplete.replay(query, positions, *tuples).to_pylist()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("occurrences", [1, "once"])
def test_answers_are_those_of_each_query_alone(seed, occurrences):
    rng = np.random.default_rng(seed)
    on_time = seed % 2 == 1
    queries = asked(rng, 6, occurrences, on_time=on_time)
    assert len(shared(queries)) < len(queries)
    tuples = correlated(500, 3, 0.6, seed=seed)
    positions = np.cumsum(rng.integers(0, 3, 500)) if on_time else None
    monitor, found = sb.incomplete.Monitor(queries), []
    for low in range(0, 500, 61):
        part = slice(low, low + 61)
        monitor.push(None if positions is None else positions[part], *(column[part] for column in tuples))
        found += monitor.answers().to_pylist()
        monitor = sb.incomplete.Monitor.resume(monitor.snapshot())
    monitor.finish()
    found += monitor.answers().to_pylist()
    for query in queries:
        assert [row for row in found if row["query"] == query.name] == alone(query, positions, tuples)


def test_a_removed_query_leaves_the_others_as_they_are():
    queries = asked(np.random.default_rng(3), 4, 1)
    tuples = correlated(600, 3, 0.6, seed=1)
    monitor = sb.incomplete.Monitor(queries)
    monitor.push(None, *(column[:300] for column in tuples))
    largest = max(queries, key=lambda query: query.k)
    monitor.remove(largest.name)
    monitor = sb.incomplete.Monitor.resume(monitor.snapshot())
    monitor.push(None, *(column[300:] for column in tuples))
    found = monitor.answers().to_pylist()
    for query in queries:
        mine = [row for row in found if row["query"] == query.name]
        wanted = alone(query, None, tuples)
        assert mine == [row for row in wanted if row["time"] <= (300 if query is largest else 600)]


def test_the_state_of_many_queries_is_that_of_the_largest():
    tuples = correlated(8_000, 3, 0.6, seed=2)
    extents = [(2_000, 100), (1_000, 200), (500, 100), (2_000, 500)]
    queries = [
        sb.IncompleteTopK(name=f"{k} of {size}", k=k, size=size, every=every, occurrences="once", **STREAMS)
        for k, (size, every) in zip((20, 10, 5, 15), extents, strict=True)
    ]
    together = sb.incomplete.Monitor(queries)
    together.push(None, *tuples)
    each = []
    for query in queries:
        monitor = sb.incomplete.Monitor(query)
        monitor.push(None, *tuples)
        each.append((monitor.candidates, len(monitor.snapshot())))
    assert together.candidates == each[0][0]
    assert together.metrics()["queries"]["5 of 500"]["sharing"] == 4
    together.answers()
    assert len(together.snapshot()) < 0.7 * sum(size for _, size in each)


def test_which_queries_share():
    def groups(*different, **same):
        queries = [
            sb.IncompleteTopK(**{"name": f"q{i}", "k": 1, "size": 60, "every": 10, **STREAMS, **same, **one})
            for i, one in enumerate(different)
        ]
        return len(shared(queries))

    assert groups({"k": 1}, {"k": 7}) == 1
    assert groups({"size": 60}, {"size": 30}) == 2  # which tuples exceed the limit depends on the window
    assert groups({"size": 60}, {"size": 30}, occurrences="once") == 1
    assert groups({"size": 60}, {"size": 35}, occurrences="once") == 2  # windows begin at different places
    assert groups({"every": 10}, {"every": 15}, occurrences="once") == 2
    assert groups({"every": 10}, {"every": 20, "origin": 10}, occurrences="once") == 1
    assert groups({"every": 10}, {"every": 20, "origin": 5}, occurrences="once") == 2
    assert groups({"k": 1}, {"k": 2}, method="approximate") == 2
    assert groups({"k": 1}, {"k": 2}, intervals=True) == 2
    assert groups({"bounds": (0, 1)}, {"bounds": (0, 2)}) == 2
