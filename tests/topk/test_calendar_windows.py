"""Calendar, cumulative and landmark windows: engines, monitors and shards against clocks read minute by minute."""

from __future__ import annotations

import pickle
import random
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest

import skyband as sb
from skyband.errors import InvalidInputError, InvalidQueryError, UnsupportedError
from skyband.topk.query import topk_from
from tests import oracle
from tests.calendar_queries import DAY, HOUR, draw_place, draw_query, draw_rows
from tests.drive import WITH_LISTS, push_time, read
from tests.local_calendar import ticks
from tests.sharding import cases
from tests.sharding.pipeline import Pipeline, plan_of


def rng(*seeds):
    return random.Random(repr(seeds))


def batches(random_, rows):
    cuts = sorted(random_.randint(0, len(rows)) for _ in range(random_.choice([0, 1, 4, 12])))
    return [rows[low:high] for low, high in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


def draw_workload(random_, zone, near, rows):
    drawn = [draw_query(random_, zone, near) for _ in range(random_.randint(1, 3))]
    queries = [sb.TopK(name=f"q{place}", **fields) for place, (fields, _) in enumerate(drawn)]
    return queries, [asked(rows[0][0], rows[-1][0]) for _, asked in drawn]


def by_query(tables, queries):
    found = {query.name: [] for query in queries}
    for table in tables:
        for name, *row in read(table, "query"):
            found[name].append(tuple(row))
    return found


@pytest.mark.parametrize("algorithm", [*WITH_LISTS, "auto"])
@pytest.mark.parametrize("seed", range(60))
def test_answers_are_those_of_the_definitions(seed, algorithm):
    """Also with other batches, and with a monitor that is resumed from bytes between them."""
    random_ = rng(seed)
    zone, near = draw_place(random_)
    rows = draw_rows(random_, near, random_.choice([1, 20, 80]))
    queries, asked = draw_workload(random_, zone, near, rows)
    want = {query.name: oracle.answers(one, rows) for query, one in zip(queries, asked, strict=True)}
    monitor, tables = sb.Monitor(queries, algorithm), []
    for batch in batches(random_, rows):
        push_time(monitor, batch)
        if random_.random() < 0.3:
            tables.append(monitor.answers())
        if random_.random() < 0.4:
            monitor = sb.Monitor.resume(monitor.snapshot(), queries)
    monitor.finish()
    assert by_query([*tables, monitor.answers()], queries) == want
    whole = sb.replay(queries, *np.array(rows, object).T.tolist(), algorithm=algorithm)
    assert by_query([whole], queries) == want


@pytest.mark.parametrize("algorithm", WITH_LISTS)
@pytest.mark.parametrize("seed", range(25))
def test_each_group_has_its_own_answers(seed, algorithm):
    random_ = rng("groups", seed)
    zone, near = draw_place(random_)
    rows = draw_rows(random_, near, 100)
    groups = [random_.choice("abc") for _ in rows]
    queries, asked = draw_workload(random_, zone, near, rows)
    monitor, at, found = sb.Monitor(queries, algorithm), 0, {}
    for batch in batches(random_, rows):
        monitor.push(*np.array(batch, object).reshape(-1, 3).T.tolist(), groups=groups[at : at + len(batch)])
        at += len(batch)
        if random_.random() < 0.4:
            monitor = sb.Monitor.resume(monitor.snapshot())
    monitor.finish()
    for name, group, *row in read(monitor.answers(), "query", "group"):
        found.setdefault((name, group), []).append(tuple(row))
    want = {}
    for query, one in zip(queries, asked, strict=True):
        for group in sorted(set(groups)):
            mine = [row for row, its in zip(rows, groups, strict=True) if its == group]
            if answers := oracle.answers(one, mine, first=rows[0][0]):
                want[query.name, group] = answers
    assert found == want


@pytest.mark.parametrize("seed", range(40))
def test_shards_answer_the_same(seed):
    """Rows are late or not, and shards are resumed from bytes at every batch."""
    random_ = rng("shards", seed)
    zone, near = draw_place(random_)
    rows = [(*row, random_.choice("ab")) for row in draw_rows(random_, near, random_.choice([5, 60]))]
    delay, may_be_late = random_.choice([0, 2 * HOUR]), random_.random() < 0.7
    arriving = cases.disordered(random_, rows, delay * (2 if may_be_late else 1))
    drawn = [(*draw_query(random_, zone, near), random_.choice(cases.KINDS)) for _ in range(random_.randint(1, 3))]
    queries = [sb.TopK(name=f"q{place}", **fields, **kind) for place, (fields, _, kind) in enumerate(drawn)]
    plan = plan_of(
        queries, algorithm=random_.choice(WITH_LISTS), shards=random_.choice([1, 3]), may_be_late=may_be_late
    )
    pipeline = Pipeline(plan, delay=delay + 1000, foresees=seed % 2 == 1)
    accepted = []
    for batch in cases.draw_cuts(random_, arriving):
        watermark = pipeline.watermark
        accepted += [row for row in batch if watermark is None or row[0] >= watermark]
        pipeline.batch(cases.draw_tasks(random_, batch))
    pipeline.batch([], end=True)
    newest = max(row[0] for row in rows)
    posed = [
        cases.Posed(query.name, asked(rows[0][0], newest), kind)
        for query, (_, asked, kind) in zip(queries, drawn, strict=True)
    ]
    want = {}
    for one in posed:
        want |= cases.wanted(one, accepted)
    assert cases.answered(pipeline.found, posed) == want


def test_many_groups():
    """More candidates than the segments of the groups have room for at first."""
    random_ = rng("many")
    low = ticks(datetime(2024, 3, 10))
    rows = [
        (low + number * HOUR // 100, float(random_.randint(0, 99)), number, str(number % 700)) for number in range(4000)
    ]
    fields = {"k": 2, "size": "1 day", "slide": "6 hours", "cumulative": True, "zone": "America/New_York", "by": "s"}
    query = sb.TopK(partition_by=["g"], **fields)
    pipeline = Pipeline(plan_of([query], shards=1), delay=1000)
    for begin in range(0, len(rows), 1000):
        pipeline.batch([rows[begin : begin + 1000]])
    pipeline.batch([], end=True)
    posed = cases.Posed("topk", None, {"by": "s", "partition_by": ["g"]})
    found = cases.answered(pipeline.found, [posed])
    table = sb.replay(query, *np.array(rows, object)[:, :3].T.tolist(), groups=[row[3] for row in rows])
    want = {}
    for group, *row in read(table, "group"):
        want.setdefault(("topk", group), []).append(tuple(row))
    assert found == want
    for group in ("0", "699"):
        mine = [row[:3] for row in rows if row[3] == group]
        assert want["topk", group] == read(sb.replay(sb.TopK(**fields), *np.array(mine, object).T.tolist(), "naive"))


@pytest.mark.parametrize("day", [datetime(2024, 3, 10), datetime(2024, 11, 3)])
def test_a_day_in_new_york_has_23_or_25_hours(day):
    query = sb.TopK(k=1, size="1 day", zone="America/New_York")
    low = ticks(day) - DAY
    table = sb.replay(query, [low + hour * HOUR for hour in range(72)], range(72))
    lengths = {end - start for start, end, *_ in read(table)}
    assert lengths == {24 * HOUR, (23 if day.month == 3 else 25) * HOUR}
    local = [datetime.fromtimestamp(end / 1e6, UTC) for _, end, *_ in read(table)]
    assert {at.hour for at in local} == {4, 5}


def test_a_long_silence_needs_no_list_of_all_windows():
    query = sb.TopK(k=1, size="1 day", slide="1 second", cumulative=True, zone="Asia/Tokyo")
    years = 30 * 365 * DAY
    table = sb.replay(query, [years, 2 * years], [1.0, 2.0])
    assert table.num_rows < 2 * 86_400
    assert set(table["id"].to_pylist()) == {0, 1}


def test_windows_since_a_landmark_keep_k_rows():
    query = sb.TopK(k=3, size=None, slide="1 hour", origin="2024-01-01")
    monitor = sb.Monitor(query)
    scores = np.random.default_rng(5).random(5000)
    monitor.push(ticks(datetime(2024, 1, 1)) + np.arange(5000) * (HOUR // 100), scores)
    assert monitor.candidates == 3
    monitor.finish()
    table = monitor.answers()
    assert table["window_end"].unique().to_pylist() == [
        ticks(datetime(2024, 1, 1)) + hour * HOUR for hour in range(1, 51)
    ]
    assert table["score"].to_pylist()[-3:] == sorted(scores)[:-4:-1]


def test_a_landmark_query_cannot_join_after_its_start():
    monitor = sb.Monitor(sb.TopK(name="day", k=1, size="1 day"))
    monitor.push([5 * DAY], [1.0])
    with pytest.raises(InvalidInputError, match=r"'ever' has everything since 1970-01-01.*Set origin="):
        monitor.add(sb.TopK(name="ever", k=1, size=None, slide="1 day"))
    assert monitor.add(sb.TopK(name="later", k=1, size=None, slide="1 day", origin=6 * DAY)) == 7 * DAY


def test_a_query_that_joins_answers_from_the_next_day():
    monitor = sb.Monitor(sb.TopK(name="day", k=1, size="1 day"))
    monitor.push([5 * DAY + HOUR], [1.0])
    so_far = sb.TopK(name="so far", k=1, size="1 day", slide="1 hour", cumulative=True, zone="Etc/GMT-2")
    assert monitor.add(so_far) == 6 * DAY - HOUR


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"size": "1 day", "zone": "Mars/Olympus"}, "zone='Mars/Olympus' is not a time zone"),
        ({"size": "1 day", "zone": 7}, "zone must be the name of a time zone"),
        ({"size": "6 hours", "zone": "UTC"}, "size='6 hours' must be whole days"),
        ({"size": "1 day", "slide": "1 hour", "zone": "UTC"}, "cumulative=True"),
        ({"size": "1 day", "slide": "7 hours", "zone": "UTC", "cumulative": True}, "divide a day of 24 hours"),
        ({"size": "1 month", "slide": "1 week", "zone": "UTC", "cumulative": True}, "must divide size='1 month'"),
        ({"size": "30 days", "slide": "1 month", "zone": "UTC"}, "must not be longer than size='30 days'"),
        ({"size": "1 month", "zone": "UTC", "origin": "2024-01-31"}, "first 28 days"),
        ({"size": "1 day", "zone": "UTC", "origin": 2**61}, "too far from 1970"),
        ({"size": "1 day", "zone": "UTC", "origin": pd.Timestamp(1500, unit="ns")}, "whole number of microseconds"),
        ({"size": "1 day", "zone": "UTC", "origin": "noon"}, "must be an ISO date or time"),
        ({"size": "1 month"}, "a month has no fixed length. Use days, or add zone="),
        ({"size": "1 day", "slide": "1 hour", "week_start": "monday"}, "needs a time zone"),
        ({"size": "1 day", "zone": "UTC", "week_start": "monday"}, "applies to windows of weeks"),
        ({"size": "1 week", "zone": "UTC", "week_start": "someday"}, "week_start must be one of"),
        ({"size": "1 week", "zone": "UTC", "week_start": "sunday", "origin": 0}, "Give one of them"),
        ({"size": "1 hour", "slide": "7 minutes", "cumulative": True}, "must divide size='1 hour'"),
        ({"size": "1 hour", "cumulative": True}, "slide is missing"),
        ({"size": None}, "slide is missing"),
        ({"size": None, "slide": "1 hour", "cumulative": True}, "not allowed with size=None"),
        ({"size": 100, "slide": 10, "cumulative": True}, "not for counts of rows"),
        ({"size": None, "slide": 10}, "not for counts of rows"),
        ({"size": "1 day", "slide": "1 hour", "cumulative": "yes"}, "cumulative must be True or False"),
        ({"size": "0 days", "zone": "UTC"}, "at least 1 day"),
    ],
)
def test_refused(fields, message):
    with pytest.raises(InvalidQueryError) as caught:
        sb.TopK(k=1, **fields)
    assert message in str(caught.value)


def test_a_query_travels():
    query = sb.TopK(k=2, size="1 week", slide="1 day", zone="Asia/Tokyo", week_start="Sunday", cumulative=True)
    assert pickle.loads(pickle.dumps(query)) == topk_from(query.to_dict()) == query
    assert repr(query) == (
        "TopK(name='topk', k=2, size='1 week', slide='1 day', zone='Asia/Tokyo', week_start='sunday', cumulative=True)"
    )
    assert query != sb.TopK(k=2, size="1 week", slide="1 day", zone="Asia/Tokyo", cumulative=True)
    assert list(sb.TopK(k=2, size="1 day").to_dict())[-1] == "ties"


@pytest.mark.parametrize("fields", [{"zone": "UTC"}, {"cumulative": True, "slide": "1 hour"}])
def test_the_papers_algorithms_refuse_them(fields):
    with pytest.raises(UnsupportedError, match=r"(calendar|cumulative) windows.*mintopk.*algorithm='panes' or 'naive'"):
        sb.Monitor(sb.TopK(k=1, size="1 day", **fields), "mintopk")


def test_windows_far_from_today():
    query = sb.TopK(k=1, size="1 year", zone="America/New_York")
    near = [-(2**55), 0, 2**55]
    found = read(sb.replay(query, near, [1.0, 2.0, 3.0]))
    assert [start <= at < end for at, (start, end, *_) in zip(near, found, strict=True)] == [True] * 3
    assert all(
        timedelta(days=364) < timedelta(microseconds=end - start) < timedelta(days=367) for start, end, *_ in found
    )
