"""What `auto` stands for: chosen from what is known, looked at again with what is seen, not felt in the answers."""

from __future__ import annotations

import numpy as np
import pytest

import skyband as sb
from skyband.streams import decreasing, uniform
from skyband.topk.algorithm_selection import MOST_KEPT, Seen, choose
from tests import oracle
from tests.drive import count_query, time_query
from tests.oracle import Asked


def chosen(k, size, slide, **more):
    return choose([sb.TopK(k=k, size=size, slide=slide, **more)]).algorithm


@pytest.mark.parametrize(
    ("k", "size", "slide", "algorithm"),
    [
        (100, 100_000, 100, "sap"),
        (10, 1_000_000, 1, "sap"),
        (100, 100_000, 5_000, "panes"),  # few slides in a window
        (10_000, 100_000, 10, "panes"),  # many of its objects in an answer
        (1, 10, 1, "panes"),
        (10, 2 * MOST_KEPT, 1, "panes"),  # too long to be kept whole
    ],
)
def test_count_windows_are_chosen_for_at_once(k, size, slide, algorithm):
    query = sb.TopK(k=k, size=size, slide=slide)
    assert choose([query]).algorithm == algorithm
    assert sb.Monitor(query).algorithm == algorithm
    assert f"algorithm     {algorithm}: " in sb.Workload(query).explain()


def test_what_sap_does_not_serve_is_left_to_panes():
    assert chosen(100, 100_000, 100, ties="rank") == "panes"
    assert chosen(100, 100_000, 100, partition_by=["g"]) == "panes"
    two = [sb.TopK(name=name, k=100, size=100_000, slide=100) for name in "ab"]
    assert choose(two).algorithm == "panes"


def test_time_windows_are_chosen_for_when_one_has_been_seen():
    query = sb.TopK(k=10, size="10 seconds", slide="10 milliseconds")
    assert choose([query]).algorithm == "panes"
    assert choose([query], Seen(10_000, 10)).algorithm == "sap"
    stream = uniform(30_000, seed=1)
    monitor = sb.Monitor(query)
    monitor.push(stream.position[:9_000], stream.score[:9_000])
    assert monitor.algorithm == "panes"
    monitor.push(stream.position[9_000:], stream.score[9_000:])
    assert monitor.algorithm == "sap"
    sparse = sb.Monitor(sb.TopK(k=10, size="10 seconds", slide="5 seconds"))
    sparse.push(*stream)
    assert sparse.algorithm == "panes"


@pytest.mark.parametrize("stream", ["ties", "falling"])
@pytest.mark.parametrize("push", [7, 100, 1_000])
def test_answers_and_restarts_do_not_feel_it(stream, push):
    asked = Asked(k=3, size=600, slide=7, origin=5)
    n = 2_000
    position = np.arange(n) * 2
    scores = np.random.default_rng(3).integers(0, 9, n).astype(float) if stream == "ties" else decreasing(n).score
    ids = np.arange(n) * 7919 % 10007
    monitor, found, used = sb.Monitor(time_query(asked)), [], []
    for low in range(0, n, push):
        monitor.push(position[low : low + push], scores[low : low + push], ids[low : low + push])
        used.append(monitor.algorithm)
        if low % 3 == 0:
            monitor = sb.Monitor.resume(monitor.snapshot())
            assert monitor.algorithm == used[-1]
        found += monitor.answers().to_pylist()
    monitor.finish()
    found += monitor.answers().to_pylist()
    rows = [tuple(row[name] for name in ("window_start", "window_end", "rank", "id", "score")) for row in found]
    assert rows == oracle.answers(asked, list(zip(position.tolist(), scores.tolist(), ids.tolist(), strict=True)))
    assert used[0] == ("panes" if push < 300 else "sap")
    assert used[-1] == "sap"


def test_queries_that_come_and_go():
    query = Asked(k=3, size=600, slide=2)
    scores = uniform(3_000, seed=2).score
    monitor = sb.Monitor(count_query(query, name="a"))
    assert monitor.algorithm == "sap"
    monitor.push(None, scores[:1_000])
    monitor.add(count_query(Asked(k=5, size=300, slide=3), name="b"))
    assert monitor.algorithm == "panes"
    monitor.push(None, scores[1_000:2_000])
    monitor.remove("b")
    assert monitor.algorithm == "sap"
    monitor.push(None, scores[2_000:])
    table = monitor.answers()
    mine = [row for row in table.to_pylist() if row["query"] == "a"]
    rows = [tuple(row[name] for name in ("window_start", "window_end", "rank", "id", "score")) for row in mine]
    assert rows == oracle.count_answers(query, list(zip(scores.tolist(), range(3_000), strict=True)))


def test_ids_of_other_types_and_groups_go_to_panes():
    query = sb.TopK(k=3, size=1_000, slide=1)
    named = sb.Monitor(query)
    assert named.algorithm == "sap"
    named.push(None, [1.0, 2.0], ["x", "y"])
    assert named.algorithm == "panes"
    grouped = sb.Monitor(query)
    grouped.push(None, [1.0, 2.0], groups=["x", "y"])
    assert grouped.algorithm == "panes"


def test_an_algorithm_that_is_named_stays():
    monitor = sb.Monitor(sb.TopK(k=3, size="1 second", slide="1 millisecond"), algorithm="mintopk")
    stream = uniform(5_000, seed=1)
    monitor.push(*stream)
    assert monitor.algorithm == "mintopk"
    assert sb.Monitor.resume(monitor.snapshot()).algorithm == "mintopk"
