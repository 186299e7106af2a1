"""Every engine's answers are the oracle's, whatever the batches; catches any wrong rank, window or tie."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb
from tests import oracle
from tests.drive import (
    ALGORITHMS,
    count_query,
    push_count,
    push_time,
    read,
    run,
    time_columns,
    time_query,
    under_each_policy,
)
from tests.streams import asked, count_rows, cut, time_rows

every_engine = pytest.mark.parametrize("algorithm", ALGORITHMS)

SORTED = {
    "falling": lambda i: -i,
    "rising": lambda i: i,
    "equal": lambda i: 0,
    "sawtooth": lambda i: i % 17,
    "stairs down": lambda i: -(i // 9),
    "stairs up": lambda i: i // 9,
}


@under_each_policy
@given(data=st.data(), query=asked(), rows=time_rows())
def test_time_windows_agree_with_the_definition(algorithm, tied, data, query, rows):
    query = replace(query, tied=tied)
    batches = data.draw(cut(rows))
    assert run(time_query(query), algorithm, batches, push_time) == oracle.answers(query, rows)


@under_each_policy
@given(data=st.data(), query=asked(), rows=count_rows())
def test_count_windows_agree_with_the_definition(algorithm, tied, data, query, rows):
    query = replace(query, tied=tied)
    batches = data.draw(cut(rows))
    assert run(count_query(query), algorithm, batches, push_count) == oracle.count_answers(query, rows)


@under_each_policy
@given(query=asked(), rows=time_rows(most=25))
def test_row_by_row_equals_all_at_once(algorithm, tied, query, rows):
    query = replace(query, tied=tied)
    one_by_one = run(time_query(query), algorithm, [[row] for row in rows], push_time)
    assert one_by_one == run(time_query(query), algorithm, [rows], push_time)


@under_each_policy
@given(query=asked(), rows=time_rows(most=25), seed=st.integers(0, 1000))
def test_order_among_equal_positions_does_not_matter(algorithm, tied, query, rows, seed):
    query = replace(query, tied=tied)
    shuffled, shuffle = [], random.Random(seed).shuffle
    for _, equal in groupby(rows, key=lambda row: row[0]):
        together = list(equal)
        shuffle(together)
        shuffled += together
    assert run(time_query(query), algorithm, [shuffled], push_time) == oracle.answers(query, rows)


@under_each_policy
@given(query=asked(), rows=time_rows(most=25))
def test_each_window_leaves_when_the_watermark_reaches_its_end(algorithm, tied, query, rows):
    query = replace(query, tied=tied)
    monitor, seen = sb.Monitor(time_query(query), algorithm), []
    for upto, row in enumerate(rows, 1):
        push_time(monitor, [row])
        seen += read(monitor.answers())
        assert seen == oracle.answers(query, rows[:upto], watermark=row[0])


@under_each_policy
@given(query=asked(), rows=time_rows(most=15))
def test_repeated_ids_are_different_objects(algorithm, tied, query, rows):
    query = replace(query, tied=tied)
    rows = [(position, score, id_ % 2) for position, score, id_ in rows for _ in range(2)]
    assert run(time_query(query), algorithm, [rows], push_time) == oracle.answers(query, rows)


@under_each_policy
def test_an_object_equal_to_a_listed_one_enters_a_later_window_only(algorithm, tied):
    #  position   0   1
    #             2   4      objects; at 0 they are equal, at 1 there are two pairs of equals
    rows = [(0, 0.0, 1)] * 2 + [(1, 0.0, 0)] * 2 + [(1, -1.0, 1)] * 2
    query = oracle.Asked(k=5, size=2, slide=1, tied=tied)
    assert run(time_query(query), algorithm, [rows], push_time) == oracle.answers(query, rows)


@under_each_policy
def test_answers_outgrow_every_first_buffer(algorithm, tied):
    rows = [((i * 7919) % 1009 / 7, i) for i in range(3000)]
    query = oracle.Asked(k=90, size=300, slide=20, tied=tied)
    assert run(count_query(query), algorithm, [rows], push_count) == oracle.count_answers(query, rows)


@every_engine
def test_one_answer_larger_than_any_buffer(algorithm):
    n = 30_000
    query = sb.TopK(k=20_000, size=n, slide=n)
    table = sb.replay(query, None, [float(i * 7919 % n) for i in range(n)], algorithm=algorithm)
    assert table["score"].to_pylist() == [float(score) for score in range(n - 1, n - 20_001, -1)]


@under_each_policy
@pytest.mark.parametrize("order", SORTED)
def test_sorted_streams(algorithm, tied, order):
    score = SORTED[order]
    rows = [(i // 3, float(score(i)), i) for i in range(400)]
    query = oracle.Asked(k=7, size=30, slide=7, origin=-3, tied=tied)
    assert run(time_query(query), algorithm, [rows], push_time) == oracle.answers(query, rows)


@under_each_policy
def test_several_queries_together_equal_each_alone(algorithm, tied):
    rows = [(i // 2, float(i * 31 % 11), i) for i in range(120)]
    alone = [
        oracle.Asked(k=3, size=20, slide=6),
        oracle.Asked(k=1, size=9, slide=9, origin=4, ascending=True),
        oracle.Asked(k=8, size=20, slide=6, full_only=True, tied=tied),
        oracle.Asked(k=2, size=7, slide=3, origin=-5, ascending=True, tied=tied),
    ]
    queries = [time_query(query, name=f"q{place}") for place, query in enumerate(alone)]
    together = sb.replay(queries, *time_columns(rows), algorithm=algorithm)
    want = [(f"q{place}", *answer) for place, query in enumerate(alone) for answer in oracle.answers(query, rows)]
    assert read(together, "query") == sorted(want, key=lambda row: (row[2], row[0], row[3]))
