"""Several queries with arbitrary size, slide, k and origin: every engine answers each as if it were alone.

Engines that share must also hold exactly the union of what the queries need together, after every push. Catches a
view that dies too early or too late, a k that does not shrink, a window that gets lost in a silence.
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb
from skyband.data.answer_log import AnswerLog
from skyband.kernels.stream import Rows
from skyband.topk.algorithms import ENGINES
from tests import oracle
from tests.drive import count_query, held, push_count, push_time, read, time_query, under_each_policy
from tests.streams import asked, count_rows, cut, time_rows

# The engines that promise the minimal set of all queries together and nothing else.
PER_OBJECT = ["mtopband", "mtoplist"]
per_object = pytest.mark.parametrize("algorithm", PER_OBJECT)
minimal_under_each_policy = pytest.mark.parametrize(
    ("algorithm", "tied"), [*((name, False) for name in [*PER_OBJECT, "panes"]), ("panes", True)]
)


@st.composite
def workloads(draw):
    """One to eight queries; now and then all with one slide, so that many windows start or end together."""
    queries = draw(st.lists(asked(), min_size=1, max_size=8))
    if draw(st.booleans()):
        slide = draw(st.integers(1, 6))
        sizes = [slide * draw(st.integers(1, 5)) + draw(st.sampled_from([0, 0, 1])) for _ in queries]
        origin = draw(st.integers(-5, 5))
        queries = [
            replace(query, size=size, slide=slide, origin=origin) for query, size in zip(queries, sizes, strict=True)
        ]
    return queries


def under(tied, data, queries):
    """The queries, some or all of them with ties where `tied` is True."""
    return [replace(query, tied=tied and data.draw(st.booleans(), label="tied")) for query in queries]


def named(queries, kind):
    return [kind(query, name=f"q{place}") for place, query in enumerate(queries)]


def together(each):
    """Answers of each query as one table: by window end, query, rank, and where ranks are shared as they stand."""
    rows = [(f"q{place}", *answer) for place, answers in enumerate(each) for answer in answers]
    return sorted(rows, key=lambda row: (row[2], row[0], row[3]))


def minimal(queries, objects, watermark):
    """What the queries of each direction and policy need, one after another."""
    found = []
    for kind in product((False, True), repeat=2):
        mine = [query for query in queries if (query.ascending, query.tied) == kind]
        found += oracle.minimal_candidates_together(mine, objects, watermark) if mine else []
    return sorted(found)


def run(data, queries, algorithm, batches, push):
    """All answers of a run that restarts and fetches wherever hypothesis likes."""
    monitor, seen = sb.Monitor(queries, algorithm), []
    for batch in batches:
        push(monitor, batch)
        if data.draw(st.booleans(), label="restart"):
            monitor = sb.Monitor.resume(monitor.snapshot())
        if data.draw(st.booleans(), label="fetch"):
            seen += read(monitor.answers(), "query")
    monitor.finish()
    return seen + read(monitor.answers(), "query")


@under_each_policy
@given(data=st.data(), queries=workloads(), rows=time_rows())
def test_time_windows_agree_with_the_definition(algorithm, tied, data, queries, rows):
    queries = under(tied, data, queries)
    found = run(data, named(queries, time_query), algorithm, data.draw(cut(rows)), push_time)
    assert found == together(oracle.answers(query, rows) for query in queries)


@under_each_policy
@given(data=st.data(), queries=workloads(), rows=count_rows())
def test_count_windows_agree_with_the_definition(algorithm, tied, data, queries, rows):
    queries = under(tied, data, queries)
    found = run(data, named(queries, count_query), algorithm, data.draw(cut(rows)), push_count)
    assert found == together(oracle.count_answers(query, rows) for query in queries)


@under_each_policy
@given(data=st.data(), queries=workloads(), rows=time_rows(most=15))
def test_repeated_ids_are_different_objects(algorithm, tied, data, queries, rows):
    queries = under(tied, data, queries)
    rows = [(position, score, id_ % 2) for position, score, id_ in rows for _ in range(2)]
    monitor = sb.Monitor(named(queries, time_query), algorithm)
    push_time(monitor, rows)
    monitor.finish()
    assert read(monitor.answers(), "query") == together(oracle.answers(query, rows) for query in queries)


@minimal_under_each_policy
@given(data=st.data(), queries=workloads(), rows=time_rows(), restart=st.booleans())
def test_exactly_the_minimal_set_is_held_over_time(algorithm, tied, data, queries, rows, restart):
    queries = under(tied, data, queries)
    monitor, upto = sb.Monitor(named(queries, time_query), algorithm), 0
    for batch in data.draw(cut(rows)):
        push_time(monitor, batch)
        upto += len(batch)
        if restart:
            monitor = sb.Monitor.resume(monitor.snapshot())
        if upto:
            assert sorted(held(monitor)) == minimal(queries, rows[:upto], rows[upto - 1][0])
    if rows:
        watermark = rows[-1][0]
        for step in data.draw(st.lists(st.integers(0, 9), max_size=5)):
            watermark += step
            monitor.advance_to(watermark)
            assert sorted(held(monitor)) == minimal(queries, rows, watermark)
            assert monitor.candidates == len(held(monitor))


@minimal_under_each_policy
@given(data=st.data(), queries=workloads(), rows=count_rows())
def test_exactly_the_minimal_set_is_held_over_counts(algorithm, tied, data, queries, rows):
    queries = under(tied, data, queries)
    monitor, upto = sb.Monitor(named(queries, count_query), algorithm), 0
    for batch in data.draw(cut(rows)):
        push_count(monitor, batch)
        upto += len(batch)
        kept = [row for row in rows[:upto] if oracle.is_object((0, *row))]
        objects = [(number, *row) for number, row in enumerate(kept)]
        assert sorted(held(monitor)) == minimal(queries, objects, len(objects))


@per_object
@given(data=st.data(), queries=workloads(), rows=time_rows())
def test_queries_that_join_late_have_no_part_in_older_windows(algorithm, data, queries, rows):
    queries = [oracle.Asked(q.k, q.size, q.slide, q.origin, q.full_only) for q in queries]
    rows = [row for row in rows if oracle.is_object(row)]
    since = [data.draw(st.sampled_from([-(2**62), -20, 3, 40]), label="since") for _ in queries]
    engine, log = ENGINES[algorithm](named(queries, time_query), since), AnswerLog()
    log.begin(-1, range(len(queries)))
    first = rows[0][0] if rows else 0
    for batch in data.draw(cut(rows)):
        positions, keys, ids = (np.array(column) for column in zip(*batch, strict=True)) if batch else ([], [], [])
        arrays = Rows(np.array(keys, float), np.array(positions, np.int64), np.array(ids, np.int64), 0, 0)
        engine.advance(arrays, batch[-1][0] if batch else -(2**60), first, log)
    nothing = Rows(np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64), 0, 0)
    engine.advance(nothing, 10**6, first, log)
    assert engine.candidates == 0
    found = []
    for part in log.take():
        stops = np.cumsum(part.counts)
        for place, end, stop, count in zip(part.queries, part.ends, stops, part.counts, strict=True):
            found.append((int(end), int(place), part.ids[stop - count : stop].tolist()))
    want = {}
    for place, query in enumerate(queries):
        for start, end, _, id_, _ in oracle.answers(query, rows):
            if start >= since[place]:
                want.setdefault((end, place), []).append(id_)
    assert found == [(end, place, want[end, place]) for end, place in sorted(want)]


#   Queries of the paper's example 4.2, all answering at 8 s     0 1 2 3 4 5 6 7 8
#   Q1 size 8 slide 4, Q2 size 6 slide 3, Q3 size 4 slide 2     live starts: 0, 2, 4, 5, 6
EXAMPLE_42 = [
    oracle.Asked(k=2, size=8, slide=4, origin=8),
    oracle.Asked(k=2, size=6, slide=3, origin=8),
    oracle.Asked(k=2, size=4, slide=2, origin=8),
]


@per_object
def test_views_of_the_papers_example_42(algorithm):
    monitor = sb.Monitor(named(EXAMPLE_42, time_query), algorithm)
    push_time(monitor, [(second, float(second * 5 % 7), second) for second in range(8)])
    (engine,) = monitor._executors.engines
    views = engine._meta.views
    live = sorted(int(start) for start, k in zip(views.starts, views.ks, strict=True) if k)
    assert live == [0, 2, 4, 5, 6]
    assert monitor.metrics()["views"] == 5


@per_object
def test_k_shrinks_to_the_largest_still_needed(algorithm):
    # One view a start: the query with k = 50 is answered after 10, then k = 3 until 20, then k = 8 until 30.
    queries = [sb.TopK(name=f"q{k}", k=k, size=size, slide=10) for k, size in [(50, 10), (3, 20), (8, 30)]]
    monitor = sb.Monitor(queries, algorithm)
    monitor.push(None, [float(-i) for i in range(9)])
    assert monitor.candidates == 9
    monitor.push(None, [-9.0])
    assert monitor.candidates == 8
    monitor.push(None, [float(-i) for i in range(10, 20)])
    # The view from 0 on needs 8, those from 10 on have not been answered yet: the last ten are their objects.
    assert monitor.candidates == 8 + 8


@per_object
def test_views_that_die_young_leave_room(algorithm):
    queries = [sb.TopK(name="long", k=1, size=100_000, slide=100_000), sb.TopK(name="short", k=2, size=2, slide=1)]
    monitor, lengths = sb.Monitor(queries, algorithm), []
    for start in range(0, 50_000, 500):
        monitor.push(None, [float(i * 7919 % 1013) for i in range(start, start + 500)])
        monitor.answers()
        lengths.append(len(monitor.snapshot()))
    assert max(lengths[5:]) <= max(lengths[:5]) + 64, "dead views were kept"


@per_object
def test_a_long_silence_costs_nothing(algorithm):
    # One microsecond windows beside a long one: a minute of silence would be sixty million of them.
    queries = [
        sb.TopK(name="short", k=1, size="1 microsecond"),
        sb.TopK(name="long", k=1, size="1 day"),
        sb.TopK(name="between", k=2, size="3 microseconds", slide="1 microsecond"),
    ]
    monitor = sb.Monitor(queries, algorithm)
    for minute in range(50):
        monitor.push([minute * 60_000_000], [float(minute)])
    monitor.finish()
    counts = monitor.answers()["query"].value_counts().to_pylist()
    assert {row["values"]: row["counts"] for row in counts} == {"short": 50, "long": 1, "between": 150}


@per_object
def test_hundreds_of_queries_with_large_k_outgrow_every_first_array(algorithm):
    draw = random.Random(4)
    queries = []
    for _ in range(150):
        size = draw.randint(20, 400)
        queries.append(oracle.Asked(draw.randint(1, 200), size, draw.randint(10, size)))
    rows = [(draw.random(), number) for number in range(1200)]
    asked_for = named(queries, count_query)
    found = sb.replay(asked_for, None, [score for score, _ in rows], algorithm=algorithm)
    want = {(f"q{place}", *row) for place, query in enumerate(queries) for row in oracle.count_answers(query, rows)}
    found = read(found, "query")
    assert len(found) == len(want)
    assert set(found) == want


@per_object
def test_too_many_windows_are_refused_with_a_way_out(algorithm):
    with pytest.raises(sb.SkybandError, match="panes"):
        sb.Monitor(sb.TopK(k=1, size="1 hour", slide="1 microsecond"), algorithm)


def test_references_count_what_the_sets_hold():
    monitor = sb.Monitor([sb.TopK(name="a", k=2, size=4, slide=1), sb.TopK(name="b", k=3, size=4, slide=2)], "mtopband")
    monitor.push(None, [5.0, 9.0, 7.0, 1.0, 4.0])
    # Live starts 2 (k = 3), 3 (k = 2) and 4 (k = 3) hold 3, 2 and 1 objects.
    assert monitor.metrics()["views"] == 3
    assert monitor.metrics()["references"] == 6
