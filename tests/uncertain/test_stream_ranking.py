"""Ranking whole streams: every answer against the list of all worlds, whatever is dropped, cut, resumed or added."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import date
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.uncertain.stream_ranking import Streams, best_streams
from tests.uncertain import oracle
from tests.uncertain.drive import (
    check_answer,
    check_restarts,
    check_times,
    counts,
    cut,
    own_number,
    random_query,
    random_stream,
    run,
    timed,
    window,
)
from tests.uncertain.test_monitor import few_at_once

LABELS = {"text": ["north", "northern lights", "northern lighthouse", "south"], "number": [-1, 0, 7, 2**40]}


def best_of(query, mine):
    """The answer of a query that ranks streams, in exact fractions: [(stream, sum, id, score)]."""
    found = oracle.tuples([r.score for r in mine], [Fraction(r.probability) for r in mine], [r.rule for r in mine])
    tops, place = oracle.tops(found, query.k), {i: at for at, i in enumerate(oracle.best_first(found))}
    sums, last, foremost = defaultdict(Fraction), {}, {}
    for i, row in enumerate(mine):
        sums[row.stream] += tops[i]
        last[row.stream] = row.position
        best = foremost.setdefault(row.stream, i)
        if (tops[i], -place[i]) > (tops[best], -place[best]):
            foremost[row.stream] = i
    ranking = sorted((one for one in sums if sums[one] > 0), key=lambda one: (sums[one], last[one], one), reverse=True)
    return [(one, sums[one], mine[foremost[one]].id, mine[foremost[one]].score) for one in ranking[: query.k]]


def check(query, mine, answer):
    if query.stream is None:
        assert all(row["stream"] is None for row in answer)
        told = [(row["id"], row["score"], row["probability"], own_number(row)) for row in answer]
        check_answer(query, mine, told)
        return
    truth = best_of(query, mine)
    assert [(row["stream"], row["id"], row["score"]) for row in answer] == [(one[0], *one[2:]) for one in truth]
    assert [row["probability"] for row in answer] == pytest.approx([float(one[1]) for one in truth], abs=1e-12)


def by_query_and_time(table):
    found = defaultdict(list)
    for row in table.to_pylist():
        found[row["query"], row["time"]].append(row)
        assert row["rank"] == len(found[row["query"], row["time"]])
    return found


def case(seed, *, count_axis=False):
    draw = random.Random(seed)
    size = draw.choice([3, 6, 8])
    labels = LABELS[draw.choice(["text", "number"])]
    rows = random_stream(draw, draw.choice([5, 40]), size, count_axis=count_axis, streams=labels)
    rows = rows if count_axis else few_at_once(rows, size)
    ranking = sb.UncertainTopK(
        name="sites", k=draw.randint(1, 4), size=size, every=draw.randint(1, size), stream="site",
        semantics=draw.choice(["pk-topk", "global-topk"]),
    )  # fmt: skip
    others = [random_query(draw, f"q{i}", size) for i in range(draw.randint(0, 2))]
    queries = [ranking, *others]
    draw.shuffle(queries)
    return draw, size, [query if count_axis else timed(query) for query in queries], rows


@pytest.mark.parametrize("plan", ["none", "dp", "greedy"])
@pytest.mark.parametrize("seed", range(30))
def test_time_windows_agree_with_all_worlds(seed, plan):
    """Beside queries that rank tuples, from the same passes."""
    draw, size, queries, rows = case(seed)
    found = by_query_and_time(run(queries, cut(draw, rows), plan=plan))
    for query in queries:
        mine = {time: answer for (name, time), answer in found.items() if name == query.name}
        for time, answer in mine.items():
            check(query, window(rows, time - size, time), answer)
        if query.stream is not None:
            check_times(query, rows, list(mine), rows[-1].position + size)


@pytest.mark.parametrize("seed", range(20))
def test_count_windows_agree_with_all_worlds(seed):
    draw, size, queries, rows = case(seed, count_axis=True)
    for (name, time), answer in by_query_and_time(run(queries, cut(draw, rows))).items():
        query = next(query for query in queries if query.name == name)
        check(query, window(rows, time - size, time, count_axis=True), answer)


@pytest.mark.parametrize("seed", range(15))
def test_neither_cuts_nor_restarts_change_anything(seed):
    draw, _, queries, rows = case(seed)
    check_restarts(draw, queries, rows)


def test_the_same_as_for_one_window():
    rng = np.random.default_rng(8)
    n, k = 400, 6
    scores, chances, labels = rng.random(n).round(1), np.maximum(rng.random(n), 0.01), rng.integers(0, 20, n)
    table = sb.uncertain.replay(sb.UncertainTopK(k=k, size=n, stream="s"), None, scores, chances, streams=labels)
    whole = sb.uncertain.stream_probabilities(scores, chances, labels, k)
    assert table["stream"].to_pylist() == list(whole)[:k]
    assert table["probability"].to_pylist() == pytest.approx(list(whole.values())[:k], rel=1e-12)
    assert table.schema.field("stream").type == pa.int64()


def test_streams_of_equal_sums():
    """The stream seen last comes first, then the larger label: also where labels are alike for long."""
    query = sb.UncertainTopK(k=4, size="10 microseconds", stream="s")
    names = ["b", "a long name, 1", "a long name, 2", "a long name"]
    table = sb.uncertain.replay(query, [0, 1, 1, 1], [9.0, 5.0, 5.0, 5.0], [0.5] * 4, ids=[9, 8, 7, 6], streams=names)
    assert table["stream"].to_pylist() == ["a long name, 2", "a long name, 1", "a long name", "b"]
    again = sb.uncertain.stream_probabilities([1.0, 1.0, 1.0], [0.25] * 3, ["x", "z", "y"], 3)
    assert list(again) == ["y", "z", "x"]


def test_labels_come_back_as_they_came():
    query = sb.UncertainTopK(k=1, size=2, stream="s")
    for labels in ([date(2024, 5, 1), date(2024, 5, 2)], [0.5, -0.0], [True, False], ["x", "é"], [-1, 3]):
        table = sb.uncertain.replay(query, None, [1.0, 2.0], [1.0, 1.0], streams=labels)
        assert table["stream"].to_pylist() == labels[1:]
    assert sb.uncertain.stream_probabilities([1.0], [0.5], [date(2024, 5, 1)], 1) == {date(2024, 5, 1): 0.5}
    empty = sb.uncertain.replay(query, None, [], [], streams=[])
    assert empty.column_names == ["query", "time", "rank", "id", "score", "probability", "stream"]


def test_a_stream_of_poor_tuples_is_an_answer_as_long_as_it_has_a_chance():
    """Fewer streams than k: the poorest is told with a chance that no tuple's answer would need to know."""
    n = 300
    scores = np.append(np.arange(n, 0, -1.0), 0.0)
    labels = np.append(np.arange(n) % 2, 2)
    table = sb.uncertain.replay(
        sb.UncertainTopK(k=3, size=n + 1, stream="s"), None, scores, np.full(n + 1, 0.5), streams=labels
    )
    fewer = sum(Fraction(a) for a in (1, n, n * (n - 1) // 2)) / 2**n / 2
    assert table["stream"].to_pylist() == [0, 1, 2]
    assert table["probability"][2].as_py() == pytest.approx(float(fewer), rel=1e-9)


def crowd(seed, n, sure):
    rng = np.random.default_rng(seed)
    chances = np.where(rng.random(n) < sure, 1.0, np.maximum(rng.random(n).round(2), 0.01))
    return rng.integers(0, 200, n).astype(float), chances, rng.integers(0, 60, n)


@pytest.mark.parametrize("sure", [0.3, 1.0])
def test_hopeless_tuples_are_dropped_without_a_trace(sure):
    """Whatever is dropped, a stream is known to have been seen when its last tuple came."""
    query = sb.UncertainTopK(name="sites", k=5, size="4000 microseconds", every="500 microseconds", stream="s")
    scores, chances, labels = crowd(3, 12_000, sure)
    positions = np.arange(12_000) // 3 * 3
    monitor = sb.uncertain.Monitor(query)
    ranks = sb.UncertainTopK(name="all", k=1, size="4000 microseconds", semantics="expected-rank")
    whole = sb.uncertain.Monitor([query, ranks])
    for low in range(0, 12_000, 250):
        mine = slice(low, low + 250)
        for one in (monitor, whole):
            one.push(positions[mine], scores[mine], chances[mine], streams=labels[mine])
    assert monitor.metrics()["dropped"] > 5000
    assert whole.metrics()["dropped"] == 0
    same(monitor.answers(), whole.answers(), 1e-12)


def same(found, truth, error):
    truth = [row for row in truth.select(found.column_names).to_pylist() if row["stream"] is not None]
    for one, other in zip(found.to_pylist(), truth, strict=True):
        assert one["probability"] == pytest.approx(other["probability"], abs=error)
        assert {**one, "probability": 0} == {**other, "probability": 0}


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_on_dropped_tuples_holds_for_sums(seed):
    """In exact fractions: without some tuples no sum changes by more than these tuples' chances."""
    draw = random.Random(seed)
    n, k = 9, draw.randint(1, 3)
    found = oracle.tuples(
        [draw.random() for _ in range(n)],
        [Fraction(draw.randint(1, 8), 8) if i % 3 else Fraction(1, 4) for i in range(n)],
        [draw.choice([None, "a"]) if i % 3 == 0 else None for i in range(n)],
    )
    labels = [draw.randint(0, 2) for _ in range(n)]
    dropped = set(draw.sample(range(n), draw.randint(1, 4)))
    tops = oracle.tops(found, k)
    rest = [i for i in range(n) if i not in dropped]
    fewer = dict(zip(rest, oracle.tops([found[i] for i in rest], k), strict=True))
    bound = sum(tops[i] for i in dropped)
    for label in set(labels):
        mine = [i for i in range(n) if labels[i] == label]
        assert abs(sum(tops[i] for i in mine) - sum(fewer.get(i, 0) for i in mine)) <= bound


def test_a_small_error_holds_for_sums_too():
    query = sb.UncertainTopK(k=10, size=20_000, every=2500, stream="s")
    rng = np.random.default_rng(5)
    scores, chances, labels = rng.random(60_000), np.maximum(rng.random(60_000), 1e-3), rng.integers(0, 50, 60_000)
    whole = sb.UncertainTopK(name="all", k=1, size=20_000, semantics="expected-rank")
    exact, rough = sb.uncertain.Monitor([query, whole]), sb.uncertain.Monitor(query, epsilon=1e-6)
    for low in range(0, 60_000, 500):
        mine = slice(low, low + 500)
        for one in (exact, rough):
            one.push(None, scores[mine], chances[mine], streams=labels[mine])
    assert rough.candidates < 5000
    assert 0 < rough.metrics()["error_bound"] <= 1e-6
    same(rough.answers(), exact.answers(), 1e-6)


def test_many_streams_are_forgotten():
    monitor = sb.uncertain.Monitor(sb.UncertainTopK(k=2, size=500, every=100, stream="s"))
    rng = np.random.default_rng(1)
    for i in range(100):
        monitor.push(
            None, rng.random(400), np.full(400, 0.5), streams=[f"stream {200 * i + j // 2}" for j in range(400)]
        )
    assert monitor._streams._book.slots < 5000
    again = sb.uncertain.Monitor.resume(monitor.snapshot())
    for one in (monitor, again):
        one.push(None, [5.0] * 100, [0.5] * 100, streams=["new"] * 100)
    assert monitor.answers() == again.answers()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, "streams=None, but a query ranks streams"),
        (["a", None], "stream must not be null, got null at row 1.* this batch was rejected"),
        (["a", "b", "c"], "must have the same length, got 3 streams and 2 scores"),
        ([1, 2], "streams changed type from string to int64"),
        ([[1], [2]], "streams must be numbers, text, bytes, dates or times, got type list"),
    ],
)
def test_what_is_refused_changes_nothing(labels, message):
    query = sb.UncertainTopK(k=2, size="10 microseconds", every="2 microseconds", stream="s")
    monitor, other = sb.uncertain.Monitor(query), sb.uncertain.Monitor(query)
    for one in (monitor, other):
        one.push([0, 3], [5.0, None], [0.6, 0.5], streams=["a", None])  # what is no tuple has no stream either
    with pytest.raises(sb.InvalidInputError, match=message):
        monitor.push([3, 4], [1.0, 2.0], [0.5, 0.5], streams=labels)
    assert counts(monitor) == counts(other)
    for one in (monitor, other):
        one.push([4, 9], [1.0, 2.0], [0.4, 1.0], streams=["b", "a"])
        one.finish()
    assert monitor.answers() == other.answers()


def test_a_query_that_ranks_streams_joins_and_leaves():
    tuples = sb.UncertainTopK(name="tuples", k=1, size=4, every=2)
    sites = sb.UncertainTopK(name="sites", k=1, size=4, every=2, stream="s")
    monitor = sb.uncertain.Monitor(tuples)
    monitor.push(None, [1.0, 2.0], [0.5, 0.5])
    assert "stream" not in monitor.answers().column_names
    with pytest.raises(sb.UnsupportedError, match=r"tuples up to position 1 have no stream.* after position 5"):
        monitor.add(sites)
    monitor.push(None, [1.0] * 3, [0.5] * 3, streams=["a", "b", "b"])
    with pytest.raises(sb.UnsupportedError, match="have no stream"):
        monitor.add(sites)
    monitor.push(None, [1.0], [0.5], streams=["b"])
    monitor.add(sites)
    found = monitor.answers()
    assert found["stream"].to_pylist() == [None, None, "b"]  # at 4, at 6, and at 6 when it joined
    assert found["probability"][2].as_py() == pytest.approx(0.5 + 0.25 + 0.125)
    monitor.remove("sites")
    monitor.push(None, [7.0, 8.0], [0.5, 1.0])  # nobody asks any more
    assert monitor.answers()["stream"].to_pylist() == [None]


def test_tuples_may_tell_their_streams_before_anybody_asks():
    monitor = sb.uncertain.Monitor(sb.UncertainTopK(name="tuples", k=1, size=4))
    monitor.push(None, [1.0, 2.0], [0.5, 0.5], streams=["a", "b"])
    monitor.add(sb.UncertainTopK(name="sites", k=1, size=4, stream="s"))
    assert monitor.answers()["stream"].to_pylist()[-1] == "b"


@pytest.mark.parametrize("semantics", ["pt-k", "u-kranks", "u-topk", "expected-rank"])
def test_only_sums_of_probabilities_rank_streams(semantics):
    threshold = 0.5 if semantics == "pt-k" else None
    with pytest.raises(
        sb.InvalidQueryError, match=f"semantics='{semantics}' is not supported with stream='s': streams are ranked"
    ):
        sb.UncertainTopK(k=1, size=4, stream="s", semantics=semantics, threshold=threshold)


def test_the_foremost_of_nearly_equal_tuples_is_the_better():
    chances = np.array([0.25, 0.25 * (1 + 1e-15), 0.25])
    streams = Streams(np.array([0, 0, 1]), np.array([1, 2, 3]), pa.array)
    places, sums = best_streams(5, np.arange(3), chances, streams)
    assert places.tolist() == [0, 2]
    assert sums.tolist() == pytest.approx([0.5, 0.25])
