"""Calendar, cumulative and landmark windows of keys: monitors and shards against clocks read minute by minute."""

from __future__ import annotations

import random
from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.aggregate import Monitor, open_panes, replay, state_store
from skyband.aggregate.brute_force import by_definition
from skyband.errors import InvalidInputError, InvalidQueryError, UnsupportedError
from tests.aggregate import cases, oracle
from tests.aggregate.test_shard import Shards, of_one_scan, plan_of
from tests.calendar_queries import DAY, HOUR, draw_fields, draw_place, draw_plain, draw_rows
from tests.local_calendar import ticks


def rng(*seeds):
    return random.Random(repr(seeds))


def draw(random_, *, most=80, grouped=None):
    """A case over hours and days, and the windows of its queries by name: sliding ones have none."""
    zone, near = draw_place(random_)
    case = cases.draw(random_, most=0, axis="time", grouped=grouped)
    values = cases.PLAIN + (cases.HARD if random_.random() < 0.3 else []) + cases.INFINITE[: random_.choice([0, 3])]
    keys = cases.KEYS[{pa.int64(): "int", pa.string(): "text", pa.float64(): "float"}[case.key_kind]][0]
    times = [at for at, _, _ in draw_rows(random_, near, random_.randint(1, most))]
    names = random_.sample(range(1000), len(times)) if case.identified else [None] * len(times)
    rows = [
        oracle.Row(
            at,
            None if random_.random() < 0.05 else random_.choice(keys),
            None if random_.random() < 0.05 else random_.choice(values),
            random_.choice(["x", "y", None]) if case.grouped else None,
            name,
        )
        for at, name in zip(times, names, strict=True)
    ]
    queries, listed = [], {}
    for query in case.queries:
        if random_.random() < 0.15:
            fields = {"size": f"{random_.randint(5, 40)} hours", "slide": "5 hours"}
        else:
            plain = random_.random() < 0.4
            fields, windows = draw_plain(random_, near) if plain else draw_fields(random_, zone, near)
            listed[query.name] = windows(times[0], times[-1])
        queries.append(sb.AggregateTopK(**{**query.to_dict(), "origin": None, **fields}))
    return case._replace(queries=queries, rows=rows), listed


def answers(case, listed):
    return oracle.answers(case.queries, case.rows, valued=case.valued, grouped=case.grouped, listed_windows=listed)


@pytest.mark.parametrize("seed", range(80))
def test_answers_are_those_of_the_definitions(seed):
    """For any batches, and if the monitor is resumed from bytes between them."""
    random_ = rng(seed)
    case, listed = draw(random_)
    want = answers(case, listed)
    assert oracle.listed(replay(case.queries, **case.columns(0, len(case.rows)))) == want
    monitor, found = Monitor(case.queries), []
    cuts = sorted(random_.randint(0, len(case.rows)) for _ in range(random_.choice([1, 4, 12])))
    for low, high in zip([0, *cuts], [*cuts, len(case.rows)], strict=True):
        monitor.push(**case.columns(low, high))
        if random_.random() < 0.3:
            found += oracle.listed(monitor.answers())
        if random_.random() < 0.5:
            monitor = Monitor.resume(monitor.snapshot(), case.queries)
    monitor.finish()
    assert found + oracle.listed(monitor.answers()) == want


@pytest.mark.parametrize("seed", range(60))
def test_shards_answer_the_same(seed, monkeypatch):
    """Rows come out of order, and shards are resumed from bytes at every step."""
    random_ = rng("shards", seed)
    monkeypatch.setattr(state_store, "_SEGMENT", 1 if seed % 3 else 1 << 15)
    monkeypatch.setattr(open_panes, "_SEGMENT", 1 if seed % 3 else 1 << 15)
    grouped = random_.random() < 0.4
    case, listed = draw(random_, grouped=grouped)
    case = case._replace(
        rows=[row if row.id is not None else row._replace(id=number) for number, row in enumerate(case.rows)],
        queries=[
            sb.AggregateTopK(**{**query.to_dict(), "partition_by": ["g"] if grouped else ()}) for query in case.queries
        ],
    )
    case = case._replace(queries=of_one_scan(random_, case.queries))
    shards = Shards(plan_of(case.queries, grouped=grouped, valued=case.valued), case.key_kind, case.valued)
    delay, newest, watermark, found = random_.choice([3, 30]) * HOUR, None, None, []
    waiting = sorted(case.rows, key=lambda row: row.position + random_.randint(0, delay))
    while waiting:
        cut = random_.randint(1, 25)
        batch, waiting = waiting[:cut], waiting[cut:]
        half, before = random_.randint(0, len(batch)), watermark
        newest = max([row.position for row in batch] + ([] if newest is None else [newest]))
        watermark = newest - delay
        found += shards.step([batch[:half], batch[half:]], before, next_watermark=watermark if seed % 2 else None)
    found += shards.step([], None, end=True)
    assert found == answers(case, listed)
    assert shards.late == 0


NOON = ticks(datetime(2024, 3, 10, 16))  # in New York; clocks were set forward in the night before


def test_standings_hold_one_total_per_key():
    """Not one per key and pane, however long the stream is; and so does the stored state."""
    query = sb.AggregateTopK(k=2, size=None, slide="1 second", aggregate="max", row=True, others=False)
    monitor, sizes = Monitor(query), []
    for begin in range(0, 40_000, 10_000):
        numbers = np.arange(begin, begin + 10_000)
        monitor.push(numbers * 100_000, numbers % 50, np.sin(numbers))
        monitor.answers()
        sizes.append((monitor.candidates, len(monitor.snapshot())))
    most = 50 + 10  # and the partials of the open pane
    assert all(held <= most for held, _ in sizes)
    assert sizes[-1][1] <= 1.1 * sizes[0][1]
    monitor.finish()
    assert monitor.answers()["score"][0].as_py() == np.sin(np.arange(40_000)).max()


def test_shards_of_growing_windows_write_no_segments():
    fields = {"k": 2, "size": "1 day", "slide": "1 hour", "cumulative": True, "key": "k", "value": "v"}
    plan = plan_of([sb.AggregateTopK(**fields)])
    shards = Shards(plan, pa.int64())
    for hour in range(60):
        shards.step([[oracle.Row(hour * HOUR + place, place % 7, 1.0, id=place) for place in range(20)]], hour * HOUR)
        assert [len(segments) for segments in shards.segments] in ([0, 0], [1, 0], [0, 1], [1, 1])
        assert shards.held <= 14  # the totals, and the partials of the open hour


def test_keys_leave_when_the_next_window_begins():
    query = sb.AggregateTopK(k=9, size="1 day", slide="1 hour", cumulative=True)
    monitor = Monitor(query)
    for day in range(5):
        monitor.push([day * DAY + 1, day * DAY + 2], [2 * day, 2 * day + 1], [1.0, 2.0])
    assert monitor.candidates == 2  # those of the open hour
    monitor.finish()
    assert monitor.answers().num_rows == 5 * 24 * 2


def test_a_standing_cannot_join_a_running_stream():
    monitor = Monitor(sb.AggregateTopK(name="day", k=1, size="1 day"))
    monitor.push([NOON], ["a"], [1.0])
    with pytest.raises(InvalidInputError, match=r"joins a stream whose rows before '2024-03-10T16:00:00\.000001Z'"):
        monitor.add(sb.AggregateTopK(name="ever", k=1, size=None, slide="1 hour"))
    later = sb.AggregateTopK(name="later", k=1, size=None, slide="1 hour", origin="2024-03-11")
    assert monitor.add(later) == NOON // HOUR * HOUR + 9 * HOUR
    today = sb.AggregateTopK(name="today", k=1, size="1 day", slide="8 hours", cumulative=True)
    assert monitor.add(today) == NOON + 16 * HOUR
    monitor.push([NOON + HOUR, NOON + 10 * HOUR], ["b", "b"], [2.0, 3.0])
    monitor.finish()
    found = [row for row in oracle.listed(monitor.answers()) if row[0] != "day"]
    start = NOON + 8 * HOUR
    assert found == [
        *[("later", None, start, start + 3 * HOUR, 1, "b", 3.0)],
        *[("today", None, start, start + 8 * hours * HOUR, 1, "b", 3.0) for hours in (1, 2, 3)],
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"size": None}, "slide is missing"),
        ({"size": 10, "slide": 5, "cumulative": True}, "must be durations"),
        ({"size": "1 hour", "slide": "25 minutes", "cumulative": True}, "must divide size"),
        ({"size": "1 day", "week_start": "monday"}, "needs a time zone"),
        ({"size": "1 day", "zone": "Nowhere/City"}, "is not a time zone"),
    ],
)
def test_fields_that_do_not_fit_are_rejected(fields, message):
    with pytest.raises(InvalidQueryError, match=message):
        sb.AggregateTopK(k=1, **fields)


def test_operations_that_need_one_size_name_the_kind():
    query = sb.AggregateTopK(name="ever", k=1, size=None, slide="1 hour")
    with pytest.raises(UnsupportedError, match="'ever' has landmark windows"):
        _ = query.sliding


@pytest.mark.parametrize(
    "text",
    [
        "TOPK sum(v), 3 BY KEY k OVER ALL EVERY 1 HOUR",
        "TOPK max(v), 3 BY KEY k OVER 1 DAY CUMULATIVE EVERY 1 MINUTE",
        "TOPK count(*), 3 BY KEY k OVER 1 WEEK AT TIME ZONE 'Europe/Paris' WEEK START SUNDAY WITH SHARE",
    ],
)
def test_sql(text):
    query = sb.sql(text)
    assert query.to_sql() == text
    assert sb.AggregateTopK(**query.to_dict()) == query


def test_cumulate_of_flink():
    query = sb.sql(
        """SELECT * FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY total DESC) AS rownum
            FROM (
                SELECT window_start, window_end, k, sum(v) AS total
                FROM TABLE(CUMULATE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '1' DAY))
                GROUP BY window_start, window_end, k
            )
        ) WHERE rownum <= 3"""
    )
    assert query.to_sql() == "TOPK sum(v), 3 BY KEY k OVER 1 DAY CUMULATIVE EVERY 1 MINUTE"


def test_fields_that_are_not_set_are_not_stored():
    assert not {"zone", "week_start", "cumulative"} & set(sb.AggregateTopK(k=1, size="1 day").to_dict())


def test_explain_says_what_growing_windows_keep():
    fields = {"key": "k", "value": "v", "k": 3}
    today = sb.AggregateTopK(name="today", size="1 day", slide="1 minute", cumulative=True, **fields)
    month = sb.AggregateTopK(name="month", size="1 month", slide="1 day", zone="Europe/Paris", **fields)
    alone, both = sb.Workload([today]).explain(), sb.Workload([today, month]).explain()
    assert "Memory: a running total and score per key and query; it grows" in alone
    assert "growing       today: one running total per key, no partials" in both
    assert "partials of at most" in both
    assert "1 day so far, every 1 minute" in alone


@pytest.mark.parametrize("seed", range(4))
def test_data_frames_and_brute_force_agree(seed):
    """Expressions, a filter, groups, others and share; rows that are filtered out move time as well."""
    random_ = rng("frames", seed)
    rows = draw_rows(random_, datetime(2024, 3, 9), 60)
    table = pa.table(
        {
            "at": pa.array([at for at, _, _ in rows], pa.timestamp("us", "UTC")),
            "k": [random_.choice("abcde") for _ in rows],
            "v": [score for _, score, _ in rows],
            "g": [random_.choice("xy") for _ in rows],
        }
    )
    zone, shared = "America/New_York", {"key": "k", "value": "v + 1", "where": "v < 5", "k": 2}
    queries = [
        sb.AggregateTopK(name="day", size="1 day", zone=zone, **shared),
        sb.AggregateTopK(
            name="so far", size="1 day", slide="6 hours", cumulative=True, zone=zone, others=True, **shared
        ),
        sb.AggregateTopK(name="ever", size=None, slide="12 hours", origin="2024-03-01", share=True, **shared),
        sb.AggregateTopK(name="week", size="1 week", slide="1 day", zone=zone, partition_by=["g"], **shared),
    ]
    found = sb.replay(queries, table, time="at")
    want = by_definition(table, sb.Workload(queries), time="at")
    columns = ["query", "g", "window_end", "rank", "key", "score", "share"]

    def sorted_rows(answers):
        return sorted(map(repr, answers.select(columns).to_pylist()))

    assert sorted_rows(found) == sorted_rows(want)
    assert found.num_rows > 40
