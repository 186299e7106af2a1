"""sap-shared: many partitions, many sizes that cut them, and lists that are read again; against the definition.

The conformance suite runs it on short streams. Here lists have no margin, so that they are read from the partitions
again and again, and streams are long enough for partitions to expire.
"""

from __future__ import annotations

import numpy as np
import pytest

import skyband as sb
from skyband.topk.algorithms import sap_shared
from skyband.topk.kernels import sap_shared as kernels
from tests import oracle
from tests.drive import count_query, push_count, push_time, read, time_query

ORDERS = {
    "random": lambda random, n: random.random(n),
    "falling": lambda random, n: -np.arange(n) * 1.0,
    "rising": lambda random, n: np.arange(n) * 1.0,
    "ties": lambda random, n: random.integers(0, 4, n) * 1.0,
    "waves": lambda random, n: np.sin(np.arange(n) / random.integers(3, 60)),
    "noisy fall": lambda random, n: random.random(n) - 0.02 * np.arange(n),
    "stairs": lambda random, n: -(np.arange(n) // 23) * 1.0,
}


@pytest.fixture(params=[0, 16])
def margin(request, monkeypatch):
    monkeypatch.setattr(sap_shared, "MARGIN", request.param)
    sap_shared._prepared.cache_clear()
    yield request.param
    sap_shared._prepared.cache_clear()


def asked_of(random, count, longest):
    found = []
    for _ in range(count):
        size = int(random.integers(1, longest))
        slide = int(random.integers(1, min(size, 9) + 1))
        found.append(
            oracle.Asked(
                k=int(random.integers(1, random.choice([3, 12, 60]))),
                size=size,
                slide=slide,
                origin=int(random.integers(-5, 5)),
                full_only=bool(random.integers(2)),
            )
        )
    return found


def together(each):
    rows = [(f"q{place}", *answer) for place, answers in enumerate(each) for answer in answers]
    return sorted(rows, key=lambda row: (row[2], row[0], row[3]))


def run(queries, batches, push):
    """All answers of a run that restarts after every second batch."""
    monitor, seen = sb.Monitor(queries, "sap-shared"), []
    for number, batch in enumerate(batches):
        push(monitor, batch)
        seen += read(monitor.answers(), "query")
        if number % 2:
            monitor = sb.Monitor.resume(monitor.snapshot())
    monitor.finish()
    return seen + read(monitor.answers(), "query"), monitor


def cut_at(random, rows):
    places = np.sort(random.integers(0, len(rows) + 1, 3))
    return [rows[low:high] for low, high in zip([0, *places], [*places, len(rows)], strict=True)]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("seed", range(12))
def test_count_windows_agree_with_the_definition(order, seed, margin):
    random = np.random.default_rng([seed, margin, *map(ord, order)])
    n = int(random.integers(150, 400))
    rows = [
        (float(score), int(id_)) for score, id_ in zip(ORDERS[order](random, n), random.integers(0, 50, n), strict=True)
    ]
    queries = asked_of(random, int(random.integers(1, 5)), 150)
    named = [count_query(query, name=f"q{place}") for place, query in enumerate(queries)]
    found, _ = run(named, cut_at(random, rows), push_count)
    assert found == together(oracle.count_answers(query, rows) for query in queries)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("seed", range(12))
def test_time_windows_agree_with_the_definition(order, seed, margin):
    random = np.random.default_rng([seed, margin, *map(ord, order)])
    n = int(random.integers(150, 400))
    steps = random.choice([0, 0, 1, 2], n)
    steps[random.integers(0, n)] = random.choice([0, 100, 1000])  # sometimes everything expires
    scores, ids = ORDERS[order](random, n), random.integers(0, 50, n)
    rows = [(int(at), float(score), int(id_)) for at, score, id_ in zip(np.cumsum(steps), scores, ids, strict=True)]
    queries = asked_of(random, int(random.integers(1, 5)), 120)
    named = [time_query(query, name=f"q{place}") for place, query in enumerate(queries)]
    found, monitor = run(named, cut_at(random, rows), push_time)
    assert found == together(oracle.answers(query, rows) for query in queries)
    assert monitor.candidates == 0


LONG = [(5, 1000, 1), (40, 3000, 7), (200, 2500, 3), (10, 130, 1), (12, 2999, 10)]


def workload():
    return [sb.TopK(name=f"{k} of {size}", k=k, size=size, slide=slide) for k, size, slide in LONG]


@pytest.mark.parametrize("order", ORDERS)
def test_long_windows_agree_with_panes(order):
    scores = ORDERS[order](np.random.default_rng(3), 9_000)
    found, wanted = (sb.replay(workload(), None, scores, algorithm=name) for name in ("sap-shared", "panes"))
    assert found.equals(wanted)


@pytest.mark.parametrize("order", ["random", "falling", "rising", "waves"])
def test_candidates_stay_within_the_bound(order):
    scores = ORDERS[order](np.random.default_rng(3), 9_000)
    monitor = sb.Monitor(workload(), "sap-shared")
    for low in range(0, scores.size, 500):
        monitor.push(None, scores[low : low + 500])
        (engine,) = monitor._executors.engines
        parts, r, depth = engine._sap.parts, engine._sap.registers, engine._plan.depth
        live = np.arange(r[kernels.OLDEST_PART], r[kernels.NEWEST_PART]) % max(1, parts.begins.size)
        formed = [at for at in live if parts.formed[at] != kernels.NOT_FORMED]
        lengths = parts.ends[formed] - parts.begins[formed]
        assert monitor.candidates <= (live.size + 2) * depth + kernels.SPARE + lengths.sum()
        assert (parts.counts[live] <= depth).all()
    metrics = monitor.metrics()
    assert 2_990 <= metrics["window_objects"] <= 3_000
    # Partitions are scanned for M only while scores fall, and once for all sizes that cut them.
    assert metrics["formations"] <= metrics["partitions"]
    assert (metrics["formations"] > 0) == (order in ("falling", "waves"))
    assert (metrics["refills"] > 100) == (order in ("falling", "waves"))


def test_queries_of_one_size_share_a_list():
    queries = [sb.TopK(name=f"{k}", k=k, size=500, slide=slide) for k, slide in ((3, 1), (50, 7), (9, 10))]
    monitor = sb.Monitor(queries, "sap-shared")
    monitor.push(None, -np.arange(2_000.0))
    (engine,) = monitor._executors.engines
    assert engine._sap.tops.counts.size == 1
    alone = sb.Monitor(queries[1], "sap-shared")
    alone.push(None, -np.arange(2_000.0))
    assert monitor.metrics()["formations"] == alone.metrics()["formations"] > 0


def test_a_huge_k_needs_no_memory_of_its_own():
    queries = [sb.TopK(name="all", k=2**31 - 1, size=300, slide=1), sb.TopK(name="few", k=2, size=20, slide=1)]
    scores = np.random.default_rng(1).random(1_000)
    found, wanted = (sb.replay(queries, None, scores, algorithm=name) for name in ("sap-shared", "panes"))
    assert found.equals(wanted)


def test_groups_have_their_own_windows():
    queries = [sb.TopK(name=f"{size}", k=3, size=size, slide=1, partition_by=["g"]) for size in (10, 60)]
    random = np.random.default_rng(2)
    scores, groups = random.random(1_500), random.integers(0, 4, 1_500)
    tables = [sb.replay(queries, None, scores, algorithm=name, groups=groups) for name in ("sap-shared", "panes")]
    assert tables[0].equals(tables[1])
