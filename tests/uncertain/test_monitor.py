"""Uncertain streams: every answer against the list of all worlds, never late, however the stream is cut."""

from __future__ import annotations

import random
from datetime import datetime
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.uncertain.kernels.pruning import bound_probabilities, sum_newer_better
from tests.uncertain import oracle
from tests.uncertain.drive import (
    answers_of,
    check_answer,
    check_restarts,
    check_times,
    counts,
    cut,
    push,
    random_query,
    random_stream,
    run,
    timed,
    window,
)

METHODS = ("none", "in", "inco", "dp", "greedy", "auto")


def case(seed, **options):
    draw = random.Random(seed)
    size = draw.choice([3, 6, 8])
    queries = [random_query(draw, f"q{i}", size) for i in range(draw.randint(1, 4))]
    return draw, size, queries, random_stream(draw, draw.choice([1, 5, 40]), size, **options)


def few_at_once(rows, size, most=9):
    """The rows without those that would make a window too full for listing its worlds."""
    kept = []
    for row in rows:
        if sum(other.position > row.position - size for other in kept) < most:
            kept.append(row)
    return kept


@pytest.mark.parametrize("plan", METHODS)
@pytest.mark.parametrize("seed", range(30))
def test_time_windows_agree_with_all_worlds(seed, plan):
    draw, size, queries, rows = case(seed, text_ids=seed % 3 == 0)
    rows = few_at_once(rows, size)
    queries = [timed(query) for query in queries]
    found = answers_of(run(queries, cut(draw, rows), plan=plan))
    for query in queries:
        mine = {time: answer for (name, time), answer in found.items() if name == query.name}
        for time, answer in mine.items():
            check_answer(query, window(rows, time - size, time), answer)
        if query.semantics not in ("pt-k", "prf"):  # whose answers may be empty
            check_times(query, rows, list(mine), rows[-1].position + size)


@pytest.mark.parametrize("seed", range(30))
def test_count_windows_agree_with_all_worlds(seed):
    draw, size, queries, rows = case(seed, count_axis=True)
    found = answers_of(run(queries, cut(draw, rows)))
    for query in queries:
        mine = {time: answer for (name, time), answer in found.items() if name == query.name}
        for time, answer in mine.items():
            check_answer(query, window(rows, time - size, time, count_axis=True), answer)
        if query.semantics not in ("pt-k", "prf"):
            check_times(query, rows, list(mine), len(rows))


@pytest.mark.parametrize("seed", range(20))
def test_neither_cuts_nor_restarts_change_anything(seed):
    draw, _, queries, rows = case(seed, text_ids=seed % 2 == 0)
    queries = [timed(query) for query in queries]
    monitor = check_restarts(draw, queries, rows)
    with pytest.raises(sb.InvalidInputError, match=r"was ended by finish\(\)"):
        push(monitor, rows)


def test_times_are_those_of_the_plan():
    queries = [
        sb.UncertainTopK(name=name, k=k, size="20 minutes", every=f"{every} minutes")
        for name, every, k in [("q1", 2, 3), ("q3", 3, 4), ("q5", 5, 5)]
    ]
    minute = 60_000_000
    table = sb.uncertain.replay(queries, [7 * minute + 30, 16 * minute], [1.0, 2.0], [0.5, 0.5])
    times = {name: [] for name in ("q1", "q3", "q5")}
    for row in table.to_pylist():
        if not times[row["query"]] or times[row["query"]][-1] != row["time"] // minute:
            times[row["query"]].append(row["time"] // minute)
    assert times["q1"] == times["q3"] == list(range(9, 37, 2))  # from minute 7 on, until minute 16 has left
    assert times["q5"] == list(range(11, 37, 4))


def test_a_silent_stream_is_passed_over_at_once():
    year = 365 * 86_400_000_000
    monitor = sb.uncertain.Monitor(sb.UncertainTopK(k=1, size="10 seconds", every="1 second"))
    monitor.push([0, 50 * year], [1.0, 2.0], [0.5, 0.5])
    monitor.advance_to(100 * year)
    assert monitor.metrics()["runs"] == 20
    assert monitor.candidates == 0


def test_timestamps_and_labels_come_back_as_they_came():
    query = sb.UncertainTopK(k=1, size="10 minutes", semantics="expected-rank")
    times = pa.array([datetime(2024, 5, 1, 12, 3), datetime(2024, 5, 1, 12, 4)], pa.timestamp("ms"))
    table = sb.uncertain.replay(query, times, [5, 7], [0.25, 1], ids=["slow", "fast"])
    assert table.schema.field("time").type == pa.timestamp("us")
    assert table.to_pylist() == [
        {
            "query": "topk",
            "time": datetime(2024, 5, 1, 12, 10),
            "rank": 1,
            "id": "fast",
            "score": 7.0,
            "probability": 1.0,
            "expected_rank": 1.0,
        }
    ]
    empty = sb.uncertain.replay(query, times[:0], [], [], ids=[])
    assert empty.column_names == table.column_names


def test_rows_without_a_score_are_no_tuples():
    monitor = sb.uncertain.Monitor(sb.UncertainTopK(k=2, size=3, every=1))
    monitor.push(None, [5.0, None, float("nan"), 4.0], [0.5, None, 7.0, 1.0], ids=[1, 2, 3, 4])
    found = monitor.metrics()
    assert (found["rows"], found["dropped_null"], found["tuples"], found["runs"]) == (4, 2, 2, 2)
    assert monitor.answers()["id"].to_pylist() == [1, 4, 1]
    late = sb.uncertain.Monitor(sb.UncertainTopK(k=2, size="3 microseconds", every="1 microsecond"))
    late.push([1, None, 9], [5.0, 5.0, None], [0.5, None, 0.5])
    assert late.answers()["time"].to_pylist() == [2, 3, 4]  # time moves on without a tuple


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([3], [1.0], [0.0]), r"probability must be in \(0, 1\], got 0\.0 at row 0"),
        (([3], [1.0], [1.5]), r"probability must be in \(0, 1\], got 1\.5 at row 0"),
        (([3], [1.0], [None]), r"probability must be in \(0, 1\], got null at row 0"),
        (([2], [1.0], [0.5]), r"must not decrease, got positions\[0\]=2"),
        (([3, 3], [1.0, 1.0], [0.5]), "must have the same length, got 1 probabilities and 2 scores"),
        (([3], [1.0], [0.5], ["a", "b"]), "must have the same length, got 2 rules and 1 scores"),
        (([3], [1.0], [0.5], [7]), "rules changed type from string to int64"),
        (([3], [1.0], [0.5], ["a"], ["x"]), "ids changed type from int64 to string"),
        (
            ([4, 5, 5], [1.0, 1.0, 1.0], [0.3, 0.1, 0.2], ["a", "b", "a"]),
            r"rule 'a' add up to 1\.1 in the window \[-4, 6\)",
        ),
        (([4, 4], [1.0, 1.0], [0.6, 0.6], ["new", "new"]), r"rule 'new' add up to 1\.2 in the window \[-5, 5\)"),
    ],
)
def test_what_is_refused_changes_nothing(columns, message):
    monitor = sb.uncertain.Monitor(sb.UncertainTopK(k=2, size="10 microseconds", every="2 microseconds"))
    monitor.push([0, 3], [5.0, 6.0], [0.6, 0.5], ["a", None])
    before = monitor.snapshot()
    with pytest.raises(sb.InvalidInputError, match=message):
        monitor.push(*columns)
    assert counts(monitor) == counts(sb.uncertain.Monitor.resume(before))
    monitor.push([4, 9], [1.0, 2.0], [0.4, 1.0], ["a", "b"])  # the rule is full now
    other = sb.uncertain.Monitor.resume(before)
    other.push([4, 9], [1.0, 2.0], [0.4, 1.0], ["a", "b"])
    monitor.finish()
    other.finish()
    assert monitor.answers() == other.answers()


def test_a_rule_is_free_again_when_its_tuples_have_left():
    monitor = sb.uncertain.Monitor(sb.UncertainTopK(k=1, size="10 microseconds"))
    for position in range(0, 1000, 5):
        monitor.push([position], [1.0], [0.5], ["sensor"])  # two at a time, never more than 1
    monitor.push([999], [1.0], [1e-10], ["sensor"])  # rounding is forgiven
    with pytest.raises(sb.InvalidInputError, match=r"rule 'sensor' add up to 1\.1\d* in the window \[990, 1000\)"):
        monitor.push([999], [1.0], [0.1], ["sensor"])


def test_the_window_of_a_full_rule_is_shown_as_time():
    monitor = sb.uncertain.Monitor(sb.UncertainTopK(k=1, size="10 minutes"))
    times = np.array(["2024-05-01T12:00", "2024-05-01T12:03"], "datetime64[s]")
    message = r"rule 7 add up to 1\.5 in the window \[2024-05-01 11:53:00\.000001, 2024-05-01 12:03:00\.000001\)"
    with pytest.raises(sb.InvalidInputError, match=message):
        monitor.push(times, [1.0, 2.0], [0.5, 1.0], [7, 7])
    assert monitor.metrics()["rows"] == 0


def test_the_window_of_a_full_rule_begins_with_the_first_tuple_where_tuples_are_numbered():
    monitor = sb.uncertain.Monitor(sb.UncertainTopK(k=1, size=3))
    with pytest.raises(sb.InvalidInputError, match=r"rule 'a' add up to 1\.1 in the window \[0, 2\)"):
        monitor.push(None, [1.0, 2.0], [0.5, 0.6], ["a", "a"])


def test_labels_of_rules_that_cannot_be_compared():
    with pytest.raises(
        sb.InvalidInputError, match=r"rules must be numbers, text, bytes, dates or times, got type list<"
    ):
        sb.uncertain.Monitor(sb.UncertainTopK(k=1, size=3)).push(None, [1.0], [0.5], [[1]])


def test_many_rules_are_forgotten():
    monitor = sb.uncertain.Monitor(sb.UncertainTopK(k=2, size=500, every=100))
    rng = np.random.default_rng(1)
    for i in range(100):
        labels = np.repeat(np.arange(200), 2) + 200 * i
        monitor.push(None, rng.random(400), np.full(400, 0.5), labels)
    assert monitor.metrics()["remembered"] == 500
    assert monitor.candidates == 500
    assert monitor._rules._book.slots < 5000


def changing(draw, queries, rows, size):
    """A run in which queries come and go: its answers, all queries, and from when to when each was there."""
    monitor, tables = sb.uncertain.Monitor(queries), []
    everyone = {query.name: query for query in queries}
    since, until = dict.fromkeys(everyone, rows[0].position), {}
    for number, batch in enumerate(cut(draw, rows)):
        push(monitor, batch)
        extra = timed(random_query(draw, f"extra{number}", size))
        if extra.semantics != "pt-k" and draw.random() < 0.6:
            monitor.add(extra)
            everyone[extra.name], since[extra.name] = extra, batch[-1].position
        if draw.random() < 0.3 and len(monitor.queries) > 1:
            name = draw.choice(monitor.queries).name
            monitor.remove(name)
            until[name] = batch[-1].position
        if draw.random() < 0.3:
            monitor = sb.uncertain.Monitor.resume(monitor.snapshot())
        tables.append(monitor.answers())
    monitor.finish()
    found = {}
    for table in [*tables, monitor.answers()]:
        found |= answers_of(table)
    return found, [(query, since[name], until.get(name)) for name, query in everyone.items()]


@pytest.mark.parametrize("seed", range(30))
def test_queries_come_and_go(seed):
    """Every query is in time while it is there, though the plan was remade."""
    draw, size, queries, rows = case(seed)
    rows = few_at_once(rows, size)
    queries = [timed(query) for query in queries if query.semantics != "pt-k"]
    queries = queries or [sb.UncertainTopK(k=2, size=f"{size} microseconds")]
    found, lives = changing(draw, queries, rows, size)
    for query, since, until in lives:
        mine = {time: answer for (name, time), answer in found.items() if name == query.name}
        for time, answer in mine.items():
            check_answer(query, window(rows, time - size, time), answer)
        check_times(query, rows, list(mine), rows[-1].position + size if until is None else until, since)


def test_changes_that_cannot_be():
    monitor = sb.uncertain.Monitor(sb.UncertainTopK(name="a", k=1, size=10))
    with pytest.raises(sb.UnknownNameError, match="query 'b' does not exist"):
        monitor.remove("b")
    with pytest.raises(sb.InvalidQueryError, match="'a' is the last query and cannot be removed"):
        monitor.remove("a")
    with pytest.raises(sb.InvalidQueryError, match="used by more than one"):
        monitor.add(sb.UncertainTopK(name="a", k=2, size=10))
    with pytest.raises(sb.InvalidQueryError, match="different sizes"):
        monitor.add(sb.UncertainTopK(name="b", k=2, size=20))
    with pytest.raises(sb.UnsupportedError, match="supports UncertainTopK queries, got query"):
        sb.uncertain.Monitor(sb.TopK(k=1, size=10))
    with pytest.raises(sb.InvalidQueryError, match="where='x > 1', but rows given as arrays cannot be filtered"):
        sb.uncertain.Monitor(sb.UncertainTopK(k=1, size=10, where="x > 1"))
    with pytest.raises(sb.InvalidQueryError, match="have different sizes"):
        sb.uncertain.Monitor(
            [
                sb.UncertainTopK(name=name, k=1, size=size, by=name, probability="p")
                for name, size in [("a", 10), ("b", 20)]
            ]
        )
    for epsilon in (-0.1, 1, "0", True, float("nan")):
        with pytest.raises(sb.InvalidQueryError, match="epsilon="):
            sb.uncertain.Monitor(sb.UncertainTopK(k=1, size=10), epsilon=epsilon)
    with pytest.raises(sb.InvalidQueryError, match=r"plan must be one of .*, got 'best'"):
        sb.uncertain.Monitor(sb.UncertainTopK(k=1, size=10), plan="best")


def test_foreign_snapshots_are_refused():
    monitor = sb.uncertain.Monitor(sb.UncertainTopK(k=1, size=10))
    with pytest.raises(sb.SnapshotError, match=r"but queries=.* was given; nothing was resumed"):
        sb.uncertain.Monitor.resume(monitor.snapshot(), sb.UncertainTopK(k=2, size=10))
    with pytest.raises(sb.SnapshotError, match=r"not by skyband\.uncertain\.Monitor"):
        sb.uncertain.Monitor.resume(sb.aggregate.Monitor(sb.AggregateTopK(k=1, size=10)).snapshot())


def stream_of(seed, n, sure):
    rng = np.random.default_rng(seed)
    chances = np.where(rng.random(n) < sure, 1.0, np.maximum(rng.random(n), 1e-3))
    labels = np.where((rng.random(n) < 0.2) & (chances < 1), rng.integers(0, n, n), -1)
    return rng.random(n), np.where(labels >= 0, np.minimum(chances, 0.1), chances), labels


MEANINGS = ("pk-topk", "pt-k", "u-kranks", "u-topk")


@pytest.mark.parametrize("sure", [0.3, 1.0])
def test_hopeless_tuples_are_dropped_without_a_trace(sure):
    queries = [
        sb.UncertainTopK(
            name=meaning, k=5, size=4000, every=500, semantics=meaning, threshold=0.2 if meaning == "pt-k" else None
        )
        for meaning in MEANINGS
    ]
    scores, chances, labels = stream_of(3, 20_000, sure)
    monitor = sb.uncertain.Monitor(queries)
    whole = sb.uncertain.Monitor([*queries, sb.UncertainTopK(name="all", k=1, size=4000, semantics="expected-rank")])
    for low in range(0, 20_000, 250):
        mine = slice(low, low + 250)
        monitor.push(None, scores[mine], chances[mine], labels[mine])
        whole.push(None, scores[mine], chances[mine], labels[mine])
    found = monitor.metrics()
    assert found["dropped"] > 10_000
    assert found["error_bound"] == 0  # because of u-topk
    assert found["candidates"] < 2500
    assert whole.metrics()["dropped"] == 0
    assert whole.metrics()["candidates"] == 4000
    same(monitor.answers(), whole.answers(), MEANINGS, 1e-12)


def same(found, truth, names, error):
    truth = truth.select(found.column_names).to_pylist()
    truth = [row for row in truth if row["query"] in names]
    for one, other in zip(found.to_pylist(), truth, strict=True):
        assert one["probability"] == pytest.approx(other["probability"], abs=error)
        assert {**one, "probability": 0} == {**other, "probability": 0}


COMPACT = [
    ({}, 1800),
    ({"semantics": "global-topk", "k": 2}, 2000),
    ({"semantics": "pt-k", "threshold": 0.2}, 1800),
    ({"semantics": "pt-k", "threshold": 1e-40}, 2800),
    ({"semantics": "u-kranks"}, 1800),
    ({"semantics": "prf", "weights": [1, 0.5, 0, 0.25]}, 4800),
    ({"semantics": "prf", "weights": [1, -0.5]}, 4800),
    ({"semantics": "prf", "alpha": 0.25}, 3300),
    ({"semantics": "prf", "alpha": 0.25, "k": 8000, "every": 4000}, 3300),  # all that have a value to be ranked by
    ({"semantics": "prf", "weights": [1, 0.5], "k": 8000, "every": 4000}, 4800),
    ({"stream": "s"}, 4800),
]


@pytest.mark.parametrize(("more", "most"), COMPACT)
def test_compact_sets_have_the_same_answers(more, most):
    """With uncertain tuples only, and rules: the state against that of a monitor that holds the window."""
    query = sb.UncertainTopK(**{"k": 5, "size": 8000, "every": 500, **more})
    whole = sb.UncertainTopK(name="all", k=1, size=8000, semantics="expected-rank")
    scores, chances, labels = stream_of(7, 24_000, 0)
    streams = np.random.default_rng(8).integers(0, 30, 24_000).tolist() if query.stream else None
    monitors = [sb.uncertain.Monitor(query), sb.uncertain.Monitor([query, whole])]
    for low in range(0, 24_000, 250):
        mine = slice(low, low + 250)
        for one in monitors:
            one.push(
                None, scores[mine], chances[mine], labels[mine], streams=None if streams is None else streams[mine]
            )
    found, truth = (one.answers().to_pylist() for one in monitors)
    truth = [{name: row[name] for name in found[0]} for row in truth if row["query"] == "topk"]
    numbers = [name for name in ("probability", "prf") if name in found[0]]
    for one, other in zip(found, truth, strict=True):
        assert [one[name] for name in numbers] == pytest.approx([other[name] for name in numbers], rel=1e-11)
        assert {**one, **dict.fromkeys(numbers)} == {**other, **dict.fromkeys(numbers)}
    assert len(found) > 90
    assert monitors[1].candidates == 8000
    assert monitors[0].candidates < most
    assert monitors[0].metrics()["error_bound"] <= 1e-30
    assert len(monitors[0].snapshot()) < 0.7 * len(monitors[1].snapshot())


def test_lists_may_contain_what_is_unlikely():
    """The likeliest list of many is unlikely itself: nothing is dropped, and it cannot be added where something was."""
    lists = sb.UncertainTopK(name="lists", k=5, size=4000, every=500, semantics="u-topk")
    scores, chances, labels = stream_of(7, 9000, 0)
    monitor = sb.uncertain.Monitor(lists)
    monitor.push(None, scores, chances, labels)
    assert (monitor.candidates, monitor.metrics()["dropped"]) == (4000, 0)
    monitor = sb.uncertain.Monitor(sb.UncertainTopK(name="tops", k=5, size=4000, every=500))
    monitor.push(None, scores, chances, labels)
    assert monitor.metrics()["dropped"] > 0
    with pytest.raises(
        sb.UnsupportedError, match="in no answer of the other queries, but could be in one of its lists"
    ):
        monitor.add(lists)
    monitor.add(sb.UncertainTopK(name="same", k=5, size=4000))


@pytest.mark.parametrize("alpha", [0.001, 0.3, 0.9])
def test_the_bound_on_values_holds(alpha):
    """The value of a tuple, and of all worse ones, in any window to come, in exact fractions."""
    draw = random.Random(6)
    n = 10
    for _ in range(20):
        scores = [draw.random() for _ in range(n)]
        chances = [draw.choice([0.25, 0.5, 1.0]) for _ in range(n)]
        rules = [draw.randrange(3) if p == 0.25 else -1 for p in chances]
        places = np.empty(n, np.int64)
        places[np.argsort(-np.array(scores))] = np.arange(n)
        sums = np.empty(n)
        sum_newer_better(places, -np.log1p((alpha - 1) * np.array(chances)), np.zeros(n + 1), sums)
        for i in range(n):
            start = draw.randint(0, i)
            window = oracle.tuples(scores[start:], [Fraction(p) for p in chances[start:]], rules[start:])
            values = {row: value for row, _, value in oracle.prf(window, n, lambda rank: Fraction(alpha) ** rank)}
            worse = [start + row for row in values if scores[start + row] <= scores[i]]
            for row in worse:
                assert float(values[row - start]) <= np.exp(-sums[i]) * (1 + 1e-12)


def test_a_small_error_lets_go_of_much_more():
    query = sb.UncertainTopK(k=10, size=20_000, every=1000)
    scores, chances, labels = stream_of(5, 60_000, 0)
    whole = sb.UncertainTopK(name="all", k=1, size=20_000, semantics="expected-rank")
    exact, rough = sb.uncertain.Monitor([query, whole]), sb.uncertain.Monitor(query, epsilon=1e-6)
    for low in range(0, 60_000, 500):
        mine = slice(low, low + 500)
        exact.push(None, scores[mine], chances[mine], labels[mine])
        rough.push(None, scores[mine], chances[mine], labels[mine])
    assert exact.candidates == 20_000
    assert rough.candidates < 1500
    assert 0 < rough.metrics()["error_bound"] <= 1e-6
    same(rough.answers(), exact.answers(), ["topk"], 1e-6)
    again = sb.uncertain.Monitor.resume(rough.snapshot())
    assert counts(again) == counts(rough)


@pytest.mark.parametrize("surest", [0.8, 1.0])
def test_the_bound_on_dropped_tuples_holds(surest):
    """The chance of a dropped tuple to be among the k best of any window to come, in exact fractions."""
    draw = random.Random(4)
    n, k = 60, 2
    scores = [draw.random() for _ in range(n)]
    chances = [draw.choice([0.5, 0.9, 0.9, surest]) if i % 3 else 0.25 for i in range(n)]
    rules = [draw.randrange(5) if p == 0.25 and draw.random() < 0.3 else -1 for p in chances]
    order = sorted(range(n), key=lambda i: scores[i], reverse=True)
    places = np.empty(n, np.int64)
    places[order] = np.arange(n)
    bounds = np.empty(n)
    bound_probabilities(
        places, np.array(chances), np.array(rules), k, 1e-3, np.zeros(n + 1, np.int64), np.zeros(n + 1), bounds
    )
    assert (bounds == 0).any() == (surest == 1)
    assert surest == 1 or ((bounds > 0) & (bounds <= 1e-3)).any()
    for i in np.flatnonzero(bounds <= 1):
        newer = oracle.tuples(scores[i:], [Fraction(p) for p in chances[i:]], rules[i:])
        assert oracle.tops_by_counting(newer, k)[0] <= bounds[i]


def test_a_query_that_needs_what_was_dropped_is_refused_until_it_has_left():
    monitor = sb.uncertain.Monitor(sb.UncertainTopK(name="one", k=1, size=2000, every=100))
    monitor.push(None, np.arange(3000.0), np.ones(3000))
    assert monitor.metrics()["dropped"] > 0
    for query in (
        sb.UncertainTopK(name="more", k=2, size=2000),
        sb.UncertainTopK(name="more", k=1, size=2000, semantics="expected-rank"),
        sb.UncertainTopK(name="more", k=1, size=2000, semantics="prf", weights=[1, 1]),
        sb.UncertainTopK(name="more", k=1, size=2000, semantics="prf", alpha=0.5),
    ):
        with pytest.raises(sb.UnsupportedError, match="were dropped because they are in no answer for k=1"):
            monitor.add(query)
    monitor.add(sb.UncertainTopK(name="same", k=1, size=2000))
    assert [query.name for query in monitor.queries] == ["one", "same"]


def test_a_wide_stream_of_pushes_of_one():
    query = sb.UncertainTopK(k=1, size=50, every=7)
    rng = np.random.default_rng(0)
    scores, chances = rng.random(3000), np.maximum(rng.random(3000), 0.01)
    monitor = sb.uncertain.Monitor(query)
    for score, chance in zip(scores, chances, strict=True):
        monitor.push(None, [score], [chance])
    assert monitor.answers() == sb.uncertain.replay(query, None, scores, chances)
    assert monitor.candidates == 50


def test_throughput_and_latency(monkeypatch):
    """By a clock of its own: every run takes 15 seconds, so a query that is due every 10 is late by 5 each time."""
    ticks = iter(range(0, 10_000, 15))
    monkeypatch.setattr("skyband.uncertain.monitor.perf_counter", lambda: float(next(ticks)))
    often = sb.UncertainTopK(name="often", k=1, size="1 minute", every="10 seconds")
    rare = sb.UncertainTopK(name="rare", k=1, size="1 minute", every="40 seconds")
    monitor = sb.uncertain.Monitor([often, rare], plan="none")
    assert {monitor.metrics()[name] for name in ("seconds", "throughput", "latency")} == {0.0}
    monitor.push([0, 41_000_000], [1.0, 2.0], [0.5, 0.5])
    found = monitor.metrics()
    assert (found["runs"], found["seconds"], found["throughput"]) == (5, 75.0, 1 / 15)
    # `often` is done at 25, 40, 55 and 70 s, or 85 s if `rare`, answered once, comes first at 40 s.
    assert found["latency"] in ((5 + 5 + 5) / 2, (5 + 5 + 20) / 2)
    again = sb.uncertain.Monitor.resume(monitor.snapshot())
    assert (again.metrics()["runs"], again.metrics()["seconds"], again.metrics()["latency"]) == (5, 0.0, 0.0)
    counted = sb.uncertain.Monitor(sb.UncertainTopK(k=1, size=2))
    counted.push(None, [1.0] * 9, [0.5] * 9)
    assert (counted.metrics()["throughput"], counted.metrics()["latency"]) == (1 / 15, 0.0)
