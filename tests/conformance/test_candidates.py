"""What each engine holds after every push, against the brute-force minimal candidate set.

Catches an engine that is right but keeps too much, and one that drops an object too early and is right by luck.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb
from tests import oracle
from tests.drive import ALGORITHMS, count_query, held, push_count, push_time, time_query, under_each_policy
from tests.streams import asked, count_rows, cut, time_rows

every_engine = pytest.mark.parametrize("algorithm", ALGORITHMS)

EXACT = {"mintopk", "pretopk", "panes"}  # the minimal set and nothing else; all others promise a superset
SCANNING = {
    name for name in ALGORITHMS if name.startswith("sap")
}  # keep the window to scan it, and say apart how many are candidates


def check_held(algorithm, monitor, query, objects, watermark):
    minimal = oracle.minimal_candidates(query, objects, watermark)
    found, kept = held(monitor), sum(engine.object_count for engine in monitor._executors.engines)
    assert len(found) == len(set(found)) == kept, "an object is held twice, or miscounted"
    if algorithm in SCANNING:
        assert monitor.candidates <= kept
        assert monitor.metrics()["window_objects"] == kept
    else:
        assert monitor.candidates == kept
    found = set(found)
    assert minimal <= found, "an object that can still be in an answer was dropped"
    if algorithm in EXACT:
        assert found == minimal
    # Whatever an engine promises, what no window can hold any more has to go.
    oldest = min(oracle.ends_between(query, watermark, watermark + query.slide)) - query.size
    assert found <= {id_ for position, _, id_ in objects if position >= oldest}


@under_each_policy
@given(data=st.data(), query=asked(), rows=time_rows())
def test_held_objects_over_time(algorithm, tied, data, query, rows):
    query = replace(query, tied=tied)
    monitor, upto = sb.Monitor(time_query(query), algorithm), 0
    for batch in data.draw(cut(rows)):
        push_time(monitor, batch)
        upto += len(batch)
        if upto:
            objects = [row for row in rows[:upto] if oracle.is_object(row)]
            check_held(algorithm, monitor, query, objects, rows[upto - 1][0])
    monitor.finish()
    assert monitor.candidates == 0


@under_each_policy
@given(data=st.data(), query=asked(), rows=count_rows())
def test_held_objects_over_counts(algorithm, tied, data, query, rows):
    query = replace(query, tied=tied)
    monitor, upto = sb.Monitor(count_query(query), algorithm), 0
    for batch in data.draw(cut(rows)):
        push_count(monitor, batch)
        upto += len(batch)
        kept = [row for row in rows[:upto] if oracle.is_object((0, *row))]
        objects = [(number, score, id_) for number, (score, id_) in enumerate(kept)]
        check_held(algorithm, monitor, query, objects, len(objects))


@under_each_policy
@given(query=asked(), rows=time_rows(most=20), steps=st.lists(st.integers(0, 9), max_size=5))
def test_held_objects_while_only_time_moves(algorithm, tied, query, rows, steps):
    query = replace(query, tied=tied)
    monitor = sb.Monitor(time_query(query), algorithm)
    push_time(monitor, rows)
    objects = [row for row in rows if oracle.is_object(row)]
    watermark = rows[-1][0] if rows else 0
    for step in steps:
        watermark += step
        monitor.advance_to(watermark)
        check_held(algorithm, monitor, query, objects, watermark)


@every_engine
def test_memory_stays_bounded_on_a_long_stream(algorithm):
    monitor = sb.Monitor(sb.TopK(k=3, size=50, slide=10), algorithm)
    most, lengths = 0, []
    for start in range(0, 20_000, 400):
        monitor.push(None, [float((i * 7919) % 1013) for i in range(start, start + 400)])
        monitor.answers()
        most = max(most, monitor.candidates)
        lengths.append(len(monitor.snapshot()))
    assert most <= 50
    assert max(lengths[10:]) <= max(lengths[:10]) + 64, "arrays kept growing"
