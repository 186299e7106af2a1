"""A monitor that is stopped and resumed goes on as if nothing had happened: at any push, with answers unfetched."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb
from tests import oracle
from tests.drive import ALGORITHMS, count_query, held, push_count, push_time, read, time_query, under_each_policy
from tests.streams import asked, count_rows, cut, time_rows

every_engine = pytest.mark.parametrize("algorithm", ALGORITHMS)


def run_with_restarts(data, query, algorithm, batches, push):
    """The answers of a run that restarts, and fetches, wherever hypothesis likes."""
    monitor, seen = sb.Monitor(query, algorithm), []
    for batch in batches:
        push(monitor, batch)
        if data.draw(st.booleans(), label="restart"):
            monitor = sb.Monitor.resume(monitor.snapshot())
        if data.draw(st.booleans(), label="fetch"):
            seen += read(monitor.answers())
    if data.draw(st.booleans(), label="restart before the end"):
        monitor = sb.Monitor.resume(monitor.snapshot(), query)
    monitor.finish()
    if data.draw(st.booleans(), label="restart after the end"):
        monitor = sb.Monitor.resume(monitor.snapshot())
    return seen + read(monitor.answers())


@under_each_policy
@given(data=st.data(), query=asked(), rows=time_rows())
def test_restarts_change_no_answer_over_time(algorithm, tied, data, query, rows):
    query = replace(query, tied=tied)
    batches = data.draw(cut(rows))
    assert run_with_restarts(data, time_query(query), algorithm, batches, push_time) == oracle.answers(query, rows)


@under_each_policy
@given(data=st.data(), query=asked(), rows=count_rows())
def test_restarts_change_no_answer_over_counts(algorithm, tied, data, query, rows):
    query = replace(query, tied=tied)
    batches = data.draw(cut(rows))
    found = run_with_restarts(data, count_query(query), algorithm, batches, push_count)
    assert found == oracle.count_answers(query, rows)


@under_each_policy
@given(query=asked(), rows=time_rows(most=20))
def test_a_resumed_monitor_is_the_same_monitor(algorithm, tied, query, rows):
    query = replace(query, tied=tied)
    monitor = sb.Monitor(time_query(query), algorithm)
    for row in rows:
        push_time(monitor, [row])
        again = sb.Monitor.resume(monitor.snapshot())
        assert again.snapshot() == monitor.snapshot()
        assert again.metrics() == monitor.metrics()
        assert sorted(held(again)) == sorted(held(monitor))


@every_engine
def test_a_snapshot_is_not_changed_by_what_comes_after(algorithm):
    monitor = sb.Monitor(sb.TopK(k=2, size=6, slide=4), algorithm)
    monitor.push(None, [5.0, 3.0, 8.0, 1.0, 9.0])
    blob, parts = monitor.snapshot(), [engine.state() for engine in monitor._executors.engines]
    monitor.push(None, [float(score) for score in range(40)])
    assert sb.Monitor.resume(blob).snapshot() == blob
    again = sb.Monitor(sb.TopK(k=2, size=6, slide=4), algorithm)
    again.push(None, [5.0, 3.0, 8.0, 1.0, 9.0])
    for engine, part, twin in zip(monitor._executors.engines, parts, again._executors.engines, strict=True):
        engine.load(part)
        assert sorted(map(int, engine.objects().ids)) == sorted(map(int, twin.objects().ids))
