"""Provisional answers of monitors: the open windows of the rows so far, by the definitions of every family."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from tests import oracle
from tests.aggregate import cases
from tests.aggregate import oracle as aggregate_oracle
from tests.drive import time_query
from tests.incomplete import drive as incomplete_drive
from tests.incomplete import oracle as incomplete_oracle
from tests.test_monitor_base import MODULES, S, families, monitor_of, push
from tests.uncertain import drive as uncertain_drive


def first_end(window, newest):
    """The first end of a sliding window after a position."""
    return window.origin + ((newest - window.origin) // window.slide + 1) * window.slide


def provisional(monitor):
    """The rows of open windows, without the column that says so."""
    table = monitor.so_far()
    names = list(table.column_names)
    moment = "window_end" if "window_end" in names else "time"
    assert names.index("final") == names.index(moment) + 1
    assert not any(table["final"].to_pylist())
    return table.drop_columns("final").to_pylist()


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_rows_of_open_windows(seed, named):
    """Ids of texts wait for the end of their moment, and are in the answers so far nevertheless."""
    draw = random.Random(seed)
    asked = [
        oracle.Asked(
            draw.randint(1, 3),
            size := draw.randint(1, 30),
            draw.randint(1, size),
            draw.randint(-5, 5),
            draw.random() < 0.3,
            draw.random() < 0.5,
            tied=draw.random() < 0.3,
        )
        for _ in range(draw.randint(1, 3))
    ]
    queries = [time_query(one, name=f"q{place}") for place, one in enumerate(asked)]
    monitor, plain, at, rows = sb.Monitor(queries), sb.Monitor(queries), draw.randint(-9, 9), []
    for number in range(40):
        at += draw.choice([0, 0, 1, 2, 3, 9, 40])
        score = draw.choice([1.0, 2.0, 3.0, float("inf"), float("nan")])
        rows.append((at, score, f"i{draw.randrange(10**6):06}" if named else number * 7919 % 10007))
        for one in (monitor, plain):
            one.push([at], [score], [rows[-1][2]])
        expected = []
        for query, one in zip(queries, asked, strict=True):
            end = first_end(query.window, at)
            found = [answer for answer in oracle.answers(one, rows) if answer[1] == end]
            expected += [(query.name, *answer) for answer in found]
        mine = [
            tuple(row[name] for name in ("query", "window_start", "window_end", "rank", "id", "score"))
            for row in provisional(monitor)
        ]
        assert sorted(mine) == sorted(expected)
    assert monitor.answers() == plain.answers()


@pytest.mark.parametrize("seed", range(25))
def test_totals_of_open_windows(seed):
    case = cases.draw(random.Random(repr(("so far", seed))), most=25, axis="time")
    monitor, plain = sb.aggregate.Monitor(case.queries), sb.aggregate.Monitor(case.queries)
    for at in range(len(case.rows)):
        for one in (monitor, plain):
            one.push(**case.columns(at, at + 1))
        positions = [row.position for row in case.rows[: at + 1] if row.position is not None]
        if not positions:
            continue
        numbered = [row if row.id is not None else row._replace(id=place) for place, row in enumerate(case.rows)]
        found = aggregate_oracle.answers(case.queries, numbered[: at + 1], valued=case.valued, grouped=case.grouped)
        ends = {query.name: first_end(query.window, max(positions)) for query in case.queries}
        expected = [row for row in found if row[3] == ends[row[0]]]
        assert aggregate_oracle.listed(monitor.so_far().drop_columns("final")) == expected
    assert monitor.answers() == plain.answers()


@pytest.mark.parametrize("method", ["exact", "sorted-lists"])
@pytest.mark.parametrize("seed", range(12))
def test_objects_of_open_windows(seed, method):
    rng = np.random.default_rng(seed)
    query, asked = incomplete_drive.some_question(rng, method=method, count_axis=False)
    positions, *columns = incomplete_drive.some_tuples(rng, asked, 30, count_axis=False, text=seed % 2 == 1)
    monitor, plain = sb.incomplete.Monitor(query), sb.incomplete.Monitor(query)
    for at in range(0, 30, 3):
        parts = [positions[at : at + 3], *(column[at : at + 3] for column in columns)]
        for one in (monitor, plain):
            one.push(*parts)
        tuples = incomplete_drive.as_tuples(positions[: at + 3], *(column[: at + 3] for column in columns))
        end = first_end(query.window, int(positions[: at + 3][-1]))
        expected = [(time, found) for time, found in incomplete_oracle.answers(asked, tuples) if time == end]
        assert incomplete_drive.listed(monitor.so_far()) == expected
    assert monitor.answers() == plain.answers()


@pytest.mark.parametrize("seed", range(15))
def test_tuples_at_the_next_moment_of_the_plan(seed):
    """Every query is answered once, no later than its `every` after the newest tuple, as all worlds say."""
    draw = random.Random(seed)
    size = draw.choice([3, 8, 20])
    rows = uncertain_drive.random_stream(draw, 25, size)
    queries = [
        uncertain_drive.timed(uncertain_drive.random_query(draw, f"q{place}", size))
        for place in range(draw.randint(1, 3))
    ]
    monitor, plain = sb.uncertain.Monitor(queries), sb.uncertain.Monitor(queries)
    for at in range(0, len(rows), 5):
        for one in (monitor, plain):
            uncertain_drive.push(one, rows[at : at + 5])
        newest = rows[: at + 5][-1].position
        found = uncertain_drive.answers_of(monitor.so_far())
        assert len({name for name, _ in found}) == len(found)
        for query in queries:
            times = [time for name, time in found if name == query.name]
            moment = times[0] if times else None
            assert moment is None or newest < moment <= newest + query.window.slide
            if moment is None:  # the answer is empty at all moments that the plan can choose, or no tuple is left
                assert query.semantics == "pt-k"
                continue
            mine = uncertain_drive.window(rows[: at + 5], moment - size, moment)
            uncertain_drive.check_answer(query, mine, found[query.name, moment])
    assert monitor.answers() == plain.answers()


@families
def test_it_changes_nothing_and_ends_with_the_stream(family):
    monitor, other = monitor_of(family, "a", "b"), monitor_of(family, "a", "b")
    assert monitor.so_far().num_rows == 0
    for one in (monitor, other):
        push(one, family, 1, 4, 7)
    found = monitor.so_far()
    assert found.num_rows
    assert not any(found["final"].to_pylist())
    assert found == monitor.so_far()
    push(monitor, family, 8, 9, 25)
    push(other, family, 8, 9, 25)
    assert {row["final"] for row in monitor.so_far().to_pylist()} == {False}
    assert monitor.answers() == other.answers()
    for one in (monitor, other):
        one.finish()
    assert monitor.so_far().num_rows == 0
    assert monitor.answers() == other.answers()


@families
def test_count_windows_are_refused(family):
    monitor = MODULES[family].Monitor(
        monitor_of(family, "a")
        .queries[0]
        .__class__(
            **{**monitor_of(family, "a").queries[0].to_dict(), "size": 5, "slide": 5}
            if family in ("topk", "aggregate")
            else {**monitor_of(family, "a").queries[0].to_dict(), "size": 5, "every": 5}
        )
    )
    with pytest.raises(sb.UnsupportedError, match=r"so_far\(\) is not supported for query 'a' with count windows"):
        monitor.so_far()


FRAMES = {
    "topk": lambda: sb.TopK(name="a", k=2, size="10 seconds", slide="5 seconds", by="x", partition_by=["g"]),
    "aggregate": lambda: sb.AggregateTopK(name="a", k=2, size="10 seconds", slide="5 seconds", key="g", value="x"),
    "incomplete": lambda: sb.IncompleteTopK(
        name="a", k=2, size="10 seconds", object="g", stream="s", value="x", streams=["p", "q"], bounds=(0, 9)
    ),
    "uncertain": lambda: sb.UncertainTopK(name="a", k=2, size="10 seconds", every="5 seconds", by="x", probability="p"),
}


@families
def test_frames_have_the_answers_of_a_stream_that_ends_here(family):
    """The windows that end next are those of a finished stream, and the monitor continues."""
    draw = random.Random(3)
    query = FRAMES[family]()
    monitor, frames, times = MODULES[family].Monitor(query, time="at"), [], 0
    for _ in range(6):
        rows = []
        for _ in range(draw.randint(1, 5)):
            times += draw.choice([0, 1, 1, 3])
            rows.append((times, float(draw.randint(1, 9)), draw.choice("ab"), draw.choice("pq"), 0.5))
        frame = pa.table(
            {
                "at": pa.array([row[0] * S for row in rows], pa.timestamp("us")),
                **{name: [row[place] for row in rows] for place, name in enumerate(["x", "g", "s", "p"], 1)},
            }
        )
        monitor.push(frame)
        frames.append(frame)
        found = monitor.so_far()
        whole = MODULES[family].Monitor(query, time="at")
        for one in frames:
            whole.push(one)
        whole.answers()
        whole.finish()
        rest = whole.answers().to_pylist()
        moment = query.moment
        first = min(row[moment] for row in rest)
        assert found.drop_columns("final").to_pylist() == [row for row in rest if row[moment] == first]
    monitor.finish()
    whole = MODULES[family].replay(query, pa.concat_tables(frames), time="at")
    assert monitor.answers() == whole


def test_windows_that_grow_and_sessions():
    hour = 3600 * S
    grows = sb.TopK(name="today", k=1, size="1 day", slide="1 hour", cumulative=True, zone="UTC")
    ever = sb.AggregateTopK(name="ever", k=1, size=None, slide="1 day")
    visits = sb.TopK(name="visits", k=1, gap="30 minutes", partition_by=["user"])
    monitor = sb.Monitor(grows)
    monitor.push([hour // 2, 5 * hour], [3.0, 2.0])
    (row,) = monitor.so_far().to_pylist()
    assert (row["window_start"], row["window_end"], row["score"]) == (0, 6 * hour, 3.0)
    monitor = sb.aggregate.Monitor(ever)
    monitor.push([hour, 50 * hour], ["k", "k"], [3.0, 2.0])
    (row,) = monitor.so_far().to_pylist()
    assert (row["window_start"], row["window_end"], row["score"]) == (0, 72 * hour, 5.0)
    monitor = sb.Monitor(visits)
    monitor.push([0, 60 * S, 70 * S, 40 * 60 * S], [3.0, 2.0, 1.0, 4.0], groups=["x", "y", "x", "y"])
    rows = [tuple(row[n] for n in ("group", "window_start", "window_end", "score")) for row in provisional(monitor)]
    assert rows == [("y", 40 * 60 * S, 70 * 60 * S, 4.0)]
    assert monitor.answers()["group"].to_pylist() == ["y", "x"]
