"""What `auto` stands for: chosen from what is known, looked at again with what is seen, not felt in the answers."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

import skyband as sb
from skyband.streams import decreasing, uniform
from skyband.topk.algorithm_selection import MOST_KEPT, Seen, choose, depends_on_excess, may_switch
from skyband.topk.candidate_estimate import estimated_excess, has_no_trend, sampled_excess
from tests import oracle
from tests.drive import count_query, time_query
from tests.oracle import Asked


def chosen(k, size, slide, **more):
    return choose([sb.TopK(k=k, size=size, slide=slide, **more)]).algorithm


@pytest.mark.parametrize(
    ("k", "size", "slide", "algorithm"),
    [
        (100, 100_000, 100, "sap"),
        (10, 200_000, 1, "sap"),
        (1_000, 1_000_000, 1_000, "sap"),  # about 8,000 candidates
        (100, 1_000_000, 1_000, "panes"),  # about 1,000 candidates
        (100, 100_000, 5_000, "panes"),
        (1_000, 1_000_000, 10_000, "panes"),
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


@pytest.mark.parametrize(
    ("k", "size", "slide", "excess", "algorithm"),
    [
        (100, 50_000, 500, 1_250, "sap"),  # 200 times the excess is the square of the slide
        (100, 50_000, 500, 1_249, "panes"),
        (500, 1_000_000, 1_000, 5_000, "sap"),
        (500, 1_000_000, 1_000, 4_999, "panes"),
        (100, 1_000_000, 1_000, 16_667, "sap"),  # slides of at least three times k: 60 times
        (100, 1_000_000, 1_000, 16_666, "panes"),
        (334, 1_000_000, 1_000, 5_000, "sap"),
        (333, 1_000_000, 1_000, 5_000, "panes"),
        (10, 100_000, 300, 150, "sap"),  # the slide is not a part of the window: 600 times
        (10, 100_000, 300, 149, "panes"),
        (10, 100_001, 300, 150, "panes"),
        (100, 100_000, 100, 0, "panes"),  # scores that rise
        (100, 100_000, 50, 0, "sap"),  # a short slide
        (1_000, 20_000, 100, 19_000, "panes"),  # k is a twentieth of the window
        (1_000, 20_000, 50, 5_000, "sap"),
        (1_000, 20_000, 50, 4_999, "panes"),
        (10, 2 * MOST_KEPT, 100, MOST_KEPT, "panes"),
        # Nearly as many candidates as possible, k for each slide: scores fall.
        (100, 1_000_000, 1_000, 0.9 * (100 * 1_000 - 100), "mintopk"),
        (100, 1_000_000, 1_000, 0.89 * (100 * 1_000 - 100), "sap"),
        (100, 100_000, 800, 12_400, "mintopk"),
        (100, 500_000, 400, 124_900, "sap"),  # slides of fewer than eight times k, and more than a thousand of them
        (100, 400_000, 400, 99_900, "mintopk"),
        (100, 9_900, 99, 9_800, "sap"),  # slides of fewer than k
        (10, 50_000, 1_000, 490, "mintopk"),
        (10, 49_999, 1_000, 490, "panes"),  # fewer than fifty slides
        (5, 10_000, 51, 970, "mintopk"),
        (5, 10_000, 50, 995, "mintopk"),
        (5, 51_000, 50, 5_095, "sap"),  # a short slide, and more than a thousand of them
        (10, 100_000_000, 2_000, 499_990, "mintopk"),  # keeps nothing but candidates
        (1, 100_000_000, 500, 200_000, "panes"),  # too many windows at once
    ],
)
def test_the_rule(k, size, slide, excess, algorithm):
    assert choose([sb.TopK(k=k, size=size, slide=slide)], None, excess).algorithm == algorithm


def test_reasons_name_what_the_choice_depends_on():
    def reason(k, slide, excess=None):
        return choose([sb.TopK(k=k, size=1_000_000, slide=slide)], None, excess).why

    assert "slides are short (10 of 1,000,000 rows)" in reason(10, 10)
    assert "about 7,908" in reason(1_000, 1_000)
    assert "switches to panes" in reason(1_000, 1_000)
    assert "about 20,100" in reason(100, 1_000, 20_000)
    assert "switches" not in reason(100, 1_000, 20_000)
    assert "switches to sap" in reason(100, 1_000)
    assert "switches" not in reason(100, 1_000, 10)
    assert "switches" not in reason(10, 100_000)  # no stream has enough candidates
    assert "fastest while scores fall" in reason(100, 1_000, 99_900)
    assert "switches to mintopk" in reason(10, 10_000)
    assert "switches to mintopk" not in reason(1_000, 1_000)
    assert "switches to mintopk in a long push" in reason(10, 100)
    assert "switches to mintopk in a long push" not in reason(101, 100)
    assert "It keeps more if it switches" in sb.Workload(sb.TopK(k=100, size=1_000_000, slide=1_000)).explain()
    assert "switches" not in sb.Workload(sb.TopK(k=10, size=1_000_000, slide=100_000)).explain()


@pytest.mark.parametrize("size", [3_000, 10_000, 200_000])
@pytest.mark.parametrize("k", [1, 10, 100])
def test_the_estimate_is_close_to_the_skyband(size, k):
    expected = k * np.log(size / k)
    found = estimated_excess(uniform(4 * size, seed=5).score, size, k, np.inf)
    assert 0.5 * expected < found < 1.7 * expected
    falling = decreasing(4 * size).score
    rising = falling[::-1].copy()
    assert estimated_excess(rising, size, k, np.inf) == 0
    assert estimated_excess(falling, size, k, 900.0) == 900
    assert estimated_excess(falling, size, k, np.inf, ascending=True) == 0
    # Three windows, of which one falls.
    mixed = np.concatenate([rising[:size], falling[:size] - 1e9, rising[:size]])
    assert estimated_excess(mixed, size, k, 900.0) == pytest.approx(300)


def test_the_estimate_is_exact_if_all_objects_are_in_the_sample():
    scores = np.random.default_rng(4).integers(0, 50, 500).astype(float)
    later = [sum(scores[j] >= scores[i] for j in range(i + 1, 500)) for i in range(500)]
    assert estimated_excess(scores, 500, 7, np.inf) == sum(beaten < 7 for beaten in later) - 7


def test_the_estimate_of_small_windows():
    scores = np.arange(10.0)
    assert estimated_excess(scores, 1, 1, np.inf) == 0
    assert estimated_excess(scores, 10, 20, np.inf) == 0
    assert sampled_excess(np.empty(0), 0, 3) == 0


def shaped(stream, n):
    falling = decreasing(n).score
    return {"uniform": uniform(n, seed=1).score, "falling": falling, "rising": falling[::-1].copy()}[stream]


@pytest.mark.parametrize(
    ("stream", "k", "slide", "algorithm"),
    [
        ("uniform", 10, 20, "sap"),
        ("uniform", 10, 100, "sap"),
        ("uniform", 10, 125, "panes"),
        ("uniform", 10, 250, "panes"),
        ("uniform", 120, 100, "sap"),
        ("falling", 10, 50, "mintopk"),
        ("falling", 20, 100, "mintopk"),
        ("falling", 10, 100, "mintopk"),
        ("falling", 10, 200, "mintopk"),
        ("falling", 10, 1_000, "panes"),
        ("rising", 10, 100, "panes"),
        ("rising", 10, 20, "sap"),
    ],
)
@pytest.mark.parametrize("axis", ["count", "time"])
@pytest.mark.parametrize("order", ["desc", "asc"])
@pytest.mark.parametrize("push", [1_000, 40_000])
def test_the_stream_decides(stream, k, slide, algorithm, axis, order, push):
    if stream == "uniform" and push == 40_000 and k <= slide <= 200:
        algorithm = "mintopk"  # its batches are faster in a long push without a trend
    scores = shaped(stream, 40_000)
    unit = timedelta(milliseconds=1) if axis == "time" else 1
    query = sb.TopK(k=k, size=10_000 * unit, slide=slide * unit, order=order)
    monitor = sb.Monitor(query)
    for low in range(0, scores.size, push):
        part = scores[low : low + push] * (1 if order == "desc" else -1)
        monitor.push(np.arange(low, low + part.size) * 1_000 if axis == "time" else None, part)
    assert monitor.algorithm == algorithm


def test_a_stream_that_turns_changes_the_engine():
    query = Asked(k=10, size=2_000, slide=100)
    falling = shaped("falling", 10_000)
    scores = np.concatenate([falling[::-1], falling, falling[::-1], falling[::-1], falling[::-1]])
    monitor, used, found = sb.Monitor(count_query(query)), [], []
    for low in range(0, scores.size, 500):
        monitor.push(None, scores[low : low + 500])
        used.append(monitor.algorithm)
        if low % 3_000 == 0:
            monitor = sb.Monitor.resume(monitor.snapshot())
            assert monitor.algorithm == used[-1]
        found += monitor.answers().to_pylist()
    rows = [tuple(row[name] for name in ("window_start", "window_end", "rank", "id", "score")) for row in found]
    assert rows == oracle.count_answers(query, list(zip(scores.tolist(), range(scores.size), strict=True)))
    turns = [name for i, name in enumerate(used) if i == 0 or name != used[i - 1]]
    assert turns == ["sap", "panes", "sap", "panes"]  # random order is expected at first


def test_the_first_push_may_have_any_positions():
    asked = Asked(k=3, size=600, slide=7, origin=5)
    n = 2_000
    position = np.arange(n) * 2 - 3_000
    scores = decreasing(n).score
    monitor = sb.Monitor(time_query(asked))
    monitor.push(position, scores, np.arange(n))
    assert monitor.algorithm == "mintopk"
    monitor.finish()
    found = monitor.answers().to_pylist()
    rows = [tuple(row[name] for name in ("window_start", "window_end", "rank", "id", "score")) for row in found]
    assert rows == oracle.answers(asked, list(zip(position.tolist(), scores.tolist(), range(n), strict=True)))


def test_an_empty_window_is_estimated():
    query = sb.TopK(k=10, size="10 seconds", slide="60 milliseconds")
    monitor = sb.Monitor(query)
    monitor.push(np.arange(30_000) * 1_000, decreasing(30_000).score)
    assert monitor.algorithm == "mintopk"
    monitor.advance_to(10**9)
    for low in range(0, 60_000, 500):
        monitor.push(10**9 + np.arange(low, low + 500) * 1_000, decreasing(60_000).score[low : low + 500])
    assert monitor.answers().num_rows


def test_what_sap_does_not_serve_is_left_to_panes():
    assert chosen(100, 100_000, 100, ties="rank") == "panes"
    assert chosen(100, 100_000, 100, partition_by=["g"]) == "panes"


def several(*queries, **more):
    return [sb.TopK(name=f"q{i}", k=k, size=size, slide=slide, **more) for i, (k, size, slide) in enumerate(queries)]


@pytest.mark.parametrize(
    ("queries", "best"),
    [
        ([(100, 100_000, 100), (10, 500, 1)], "sap-shared"),
        ([(100, 100_000, 101), (10, 500, 1)], "panes"),  # ten times slide times k is more than the window
        ([(101, 100_000, 1), (10, 500, 100)], "panes"),  # the longest slide and the largest k count
        ([(10, 2 * MOST_KEPT, 1), (10, 500, 1)], "panes"),  # too long to be kept whole
        ([(2_000, 100_000 + i, 1) for i in range(501)], "panes"),  # too many lists
    ],
)
def test_many_queries_with_short_slides_share_partitions(queries, best):
    chosen = choose(several(*queries))
    assert chosen.algorithm == sb.Monitor(several(*queries)).algorithm == best
    assert ("best rows of each window size" in chosen.why) == (best == "sap-shared")
    assert choose(several(*queries, ties="rank")).algorithm == "panes"
    assert choose(several(*queries, partition_by=["g"])).algorithm == "panes"


@pytest.mark.parametrize(("push", "rows"), [(20_000, 20_000), (500, 20_000)])
def test_many_queries_over_scores_that_rise_are_left_to_panes(push, rows):
    queries = several((10, 5_000, 5), (20, 2_000, 1))
    for scores, best in ((np.arange(rows) * 1.0, "panes"), (-np.arange(rows) * 1.0, "sap-shared")):
        monitor = sb.Monitor(queries)
        for low in range(0, rows, push):
            monitor.push(None, scores[low : low + push])
        assert monitor.algorithm == best
        monitor.finish()
        assert monitor.answers().equals(sb.replay(queries, None, scores, algorithm="panes"))
    mixed = [queries[0], sb.TopK(name="low", k=20, size=2_000, slide=1, order="asc")]
    monitor = sb.Monitor(mixed)
    monitor.push(None, np.arange(rows) * 1.0)  # rises for one of them
    assert monitor.algorithm == "sap-shared"


def test_many_time_windows_are_chosen_for_when_one_has_been_seen():
    queries = [sb.TopK(name=f"{s}", k=10, size=f"{s} seconds", slide="10 milliseconds") for s in (2, 10)]
    assert "switches to sap-shared" in choose(queries).why
    assert "if it switches to the algorithm sap-shared" in sb.Workload(queries).explain()
    stream, seen = uniform(30_000, seed=1), []
    monitor = sb.Monitor(queries)
    for low in range(0, 30_000, 1_000):
        monitor.push(stream.position[low : low + 1_000], stream.score[low : low + 1_000])
        seen.append(monitor.algorithm)
    assert seen[0] == "panes"
    assert seen[-1] == "sap-shared"
    monitor.finish()
    assert monitor.answers().equals(sb.replay(queries, *stream, algorithm="panes"))


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
    best = "sap" if stream == "ties" else "mintopk"
    assert used[0] == ("panes" if push < 300 else best)
    assert used[-1] == best


def test_long_pushes_without_a_trend_are_left_to_mintopk():
    query = Asked(k=5, size=2_000, slide=20)
    steady, rising = uniform(40_000, seed=4).score, np.arange(40_000) / 40_000
    bursts = np.where(np.arange(40_000) % 10_000 < 3_000, rising + 1, steady)
    pushes = [steady, steady[::-1], steady[:30], rising, steady, bursts, bursts, -rising, *[steady] * 4]
    monitor, used = sb.Monitor(count_query(query)), []
    for part in pushes:
        monitor.push(None, part)
        used.append(monitor.algorithm)
        monitor = sb.Monitor.resume(monitor.snapshot())
    assert used == ["mintopk"] * 2 + ["sap"] * 9 + ["mintopk"]  # after a short push, when the stream has doubled
    monitor.finish()
    assert monitor.answers().equals(sb.replay(count_query(query), None, np.concatenate(pushes), algorithm="panes"))


@pytest.mark.parametrize("rows", [100, 2_047, 2_048, 100_000])
def test_a_trend_in_a_part_of_a_push_is_found(rows):
    steady = uniform(rows, seed=6).score
    assert has_no_trend(steady) == (rows > 2_047)
    assert has_no_trend(np.zeros(rows)) == (rows > 2_047)
    for part in (np.arange(rows // 20), -np.arange(rows // 20)):
        assert not has_no_trend(np.concatenate([steady, part]))


def test_queries_that_come_and_go():
    query = Asked(k=3, size=600, slide=2)
    scores = uniform(3_000, seed=2).score
    monitor = sb.Monitor(count_query(query, name="a"))
    assert monitor.algorithm == "sap"
    monitor.push(None, scores[:1_000])
    monitor.add(count_query(Asked(k=5, size=300, slide=3), name="b"))
    assert monitor.algorithm == "sap-shared"
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


RULES = ({"distinct": "c"}, {"half_life": "1 minute"}, {"then_by": ["c asc"]}, {"distinct": "c", "half_life": "1 hour"})


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("rule", RULES)
def test_rules_beyond_one_score_are_ranked_by_panes_alone(rule, count):
    windows = {"size": "1 hour", "slide": "1 second", "by": "x"}
    for on_spark in (False, True):
        plain = [sb.TopK(name=f"q{n}", k=n + 1, **windows) for n in range(count)]
        ruled = [sb.TopK(name=f"q{n}", k=n + 1, **windows, **rule) for n in range(count)]
        assert may_switch(plain)
        assert not may_switch(ruled)
        page = str(sb.Workload(ruled).explain(on_spark=on_spark))
        assert "switches" not in page
        assert "panes: " in page
        assert "8 to 24 bytes" not in page
        assert all(query.ranking_rule.described() in page.splitlines()[0] for query in ruled)
    counted = [sb.TopK(name=f"q{n}", k=n + 1, size=1_000, slide=1, by="x", distinct="c") for n in range(count)]
    assert choose(counted).algorithm == "panes"
    assert not depends_on_excess(counted, Seen(1_000, 1))
