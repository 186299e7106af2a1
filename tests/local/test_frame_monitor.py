"""Frames that are pushed one after another have the answers of one frame; a rejected push changes nothing."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest

import skyband as sb
from tests.local.random_streams import Case, comparable, numbered, rows_of, shuffled, table_of

SEEDS = range(16)
CASES = 6  # for each seed


def cut(rng, table):
    """Consecutive parts of a table, each with its rows in any order. Rows without a time may be anywhere."""
    low = 0
    while low < table.num_rows:
        rows = rng.choice([0, 1, 1, 2, 5, 9, 30])
        yield shuffled(rng, table.slice(low, rows))
        low += rows


def pushed(rng, monitor, parts):
    """All answers of a monitor that is stored, resumed and read at random."""
    found = []
    for part in parts:
        monitor.push(part)
        if rng.random() < 0.3:
            found.append(monitor.answers())
        if rng.random() < 0.3:
            monitor = type(monitor).resume(monitor.snapshot())
        if rng.random() < 0.1 and (time := newest(monitor)) is not None:
            monitor.advance_to(time)
    monitor.finish()
    found.append(monitor.answers())
    return [part.to_arrow() for part in found if len(part)]


def newest(monitor):
    at, kind = monitor._intake.newest, monitor._intake.position_kind
    return None if at is None or monitor._intake.axis == "count" else pa.scalar(at).cast(kind).as_py()


@pytest.mark.parametrize("axis", ["time", "count"])
@pytest.mark.parametrize("seed", SEEDS)
def test_pushes_equal_one_frame(seed, axis):
    rng = numbered(f"pushes {axis} {seed}")
    for _ in range(CASES):
        case, rows = Case(rng, axis), rows_of(rng, 60)
        table = table_of(rows)
        named = {"time": "ts", "id": rng.choice(["id", None])}
        whole = sb.replay(case.queries, table, **named)
        found = pushed(rng, sb.Monitor(case.queries, **named), cut(rng, table))
        if axis == "count":
            lines = [line for part in found for line in case.read(part)]
            assert comparable(lines) == comparable(case.read(whole)), (case.queries, rows)
        elif found or len(whole):
            assert pa.concat_tables(found).equals(whole.to_arrow()), (case.queries, rows)


def family_rows(rng, rows=80):
    at, times = 0, []
    for _ in range(rows):
        at += rng.choice([0, 1, 1, 3, 20])
        times.append(at)
    return pa.table(
        {
            "ts": pa.array(times).cast(pa.timestamp("us", "UTC")),
            "o": [rng.choice("abcde") for _ in range(rows)],
            "s": [rng.choice("xyz") for _ in range(rows)],
            "v": pa.array([rng.choice([0.0, 0.25, 0.5, 1.0, None]) for _ in range(rows)], pa.float64()),
            "p": [rng.choice([0.25, 0.5, 1.0]) for _ in range(rows)],
            "id": pa.array(range(rows)),
        }
    )


STEP = "3 microseconds"
FAMILIES = {
    "aggregate": [
        sb.AggregateTopK(name="a", k=2, size="9 microseconds", slide=STEP, key="o", value="v", partition_by="s"),
        sb.AggregateTopK(
            name="b", k=3, size="30 microseconds", slide=STEP, key="s", aggregate="count", where="v > 0.1"
        ),
    ],
    "incomplete": [
        sb.IncompleteTopK(
            name="a",
            k=2,
            size="9 microseconds",
            every=STEP,
            object="o",
            stream="s",
            value="v",
            streams=list("xyz"),
            occurrences=50,
        ),
    ],
    "uncertain": [
        sb.UncertainTopK(name="a", k=2, size="9 microseconds", every=STEP, by="v", probability="p"),
        sb.UncertainTopK(name="b", k=1, size="12 microseconds", every=STEP, by="-v", probability="p", where="o <> 'a'"),
    ],
}
MONITORS = {"aggregate": sb.aggregate.Monitor, "incomplete": sb.incomplete.Monitor, "uncertain": sb.uncertain.Monitor}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_pushes_of_other_families_equal_one_frame(seed, family):
    rng = numbered(f"{family} {seed}")
    table = family_rows(rng)
    named = {"time": "ts"} if family == "aggregate" else {"time": "ts", "id": rng.choice(["id", None])}
    whole = sb.replay(FAMILIES[family], table, **named)
    monitor = MONITORS[family](FAMILIES[family], **named)
    assert isinstance(monitor, MONITORS[family])
    found = pa.concat_tables(pushed(rng, monitor, cut(rng, table)))
    assert found.equals(whole.to_arrow())


@pytest.mark.parametrize("seed", SEEDS)
def test_queries_that_are_added_and_removed(seed):
    rng = numbered(f"changes {seed}")
    for _ in range(CASES):
        case, rows = Case(rng), [row for row in rows_of(rng, 60) if row["ts"] is not None]
        later = Case(rng)
        joining = sb.TopK(**{**later.queries[0].to_dict(), "name": "later"})
        monitor = sb.Monitor(case.queries, time="ts", id="id")
        half = rng.randint(0, len(rows))
        if half:
            monitor.push(table_of(rows[:half]))
        begins = monitor.add(joining)
        monitor = sb.Monitor.resume(monitor.snapshot())
        assert monitor.valid_from["later"] == begins
        # A row of the time of the newest one may still follow.
        monitor.push(table_of(rows[half:]))
        monitor.finish()
        found = monitor.answers()
        # Where its objects begin is known from the start on, or if a query of full windows has the same ones.
        noted = any(query.full_only and query.scan_key() == joining.scan_key() for query in case.queries)
        whole = joining if begins is None or noted else sb.TopK(**{**joining.to_dict(), "full_only": False})
        alone = sb.replay(whole, table_of(rows), time="ts", id="id").to_pylist()
        mine = found.filter(pa.compute.equal(found["query"], "later")).to_pylist()
        # Groups may be in another order beside those of other queries.
        shown = ["window_start", "window_end", *joining.groups, "rank", "score", "id"]
        after = [line for line in alone if begins is None or line["window_end"] >= begins]
        mine, after = ([tuple(line[name] for name in shown) for line in lines] for lines in (mine, after))
        assert comparable(mine) == comparable(after)
        others = found.filter(pa.compute.not_equal(found["query"], "later"))
        assert comparable(case.read(others)) == comparable(case.expected(rows))


def test_a_removed_query_keeps_its_answers():
    a, b = (sb.TopK(name=name, k=1, size="5 microseconds", by=by) for name, by in (("a", "v"), ("b", "-v")))
    monitor = sb.Monitor([a, b], time="ts")
    monitor.push({"ts": pa.array([0, 7], pa.timestamp("us")), "v": [1.0, 2.0]})
    monitor.remove("a")
    monitor.finish()
    assert monitor.answers()["query"].to_pylist() == ["a", "b", "b"]
    with pytest.raises(sb.InvalidInputError, match=r"the stream was ended by finish\(\)"):
        monitor.push({"ts": pa.array([9], pa.timestamp("us")), "v": [1.0]})


def test_answers_before_the_first_push_have_the_columns_of_every_answer():
    monitor = sb.Monitor(BIG, time="ts")
    assert monitor.answers().column_names == ["query", "window_start", "window_end", "rank", "score"]
    assert len(monitor.answers()) == 0
    monitor = sb.Monitor.resume(monitor.snapshot())
    monitor.push(FRAME)
    monitor.finish()
    assert monitor.answers()["score"].to_pylist() == [2.0]


def test_time_that_advances_before_the_first_push():
    monitor = sb.Monitor(BIG, time="ts")
    monitor.advance_to(5)
    with pytest.raises(sb.InvalidInputError, match="got a row at 1 after 5"):
        monitor.push(FRAME)
    monitor.push({**FRAME, "ts": pa.array([5, 6], pa.timestamp("us"))})


def test_time_advances_to_an_instant_of_any_zone():
    monitor = sb.Monitor(sb.TopK(k=1, size="1 hour", by="v"), time="ts")
    monitor.push({"ts": pa.array([0], pa.timestamp("us", "UTC")), "v": [1.0]})
    monitor.advance_to(datetime(1970, 1, 1, 0, 59, tzinfo=timezone(timedelta(hours=-5))))
    assert len(monitor.answers()) == 1
    with pytest.raises(sb.InvalidInputError, match="position must not be before the newest position"):
        monitor.advance_to(datetime(1970, 1, 1, 5, 58, tzinfo=UTC))


def test_metrics_count_rows_and_windows():
    monitor = sb.Monitor(sb.TopK(k=1, size="1 microsecond", by="v", where="v < 9"), time="ts")
    monitor.push({"ts": pa.array([0, 1, None, 3], pa.timestamp("us")), "v": [1.0, None, 3.0, 10.0]})
    monitor.finish()
    found = monitor.metrics()
    assert {name: found[name] for name in ("rows", "dropped_null", "windows", "late")} == {
        "rows": 4,
        "dropped_null": 1,  # the filter has removed the row without a score
        "windows": 1,
        "late": 0,
    }
    assert monitor.algorithm in sb.algorithms()


@pytest.mark.parametrize("family", FAMILIES)
def test_windows_are_counted_in_every_family(family):
    monitor = MONITORS[family](FAMILIES[family], time="ts")
    monitor.push(family_rows(random.Random(3)))
    monitor.finish()
    found = monitor.answers()
    assert monitor.metrics()["windows"] == found["rank"].to_pylist().count(1)


BIG = sb.TopK(name="big", k=1, size="10 microseconds", by="v")
FRAME = {"ts": pa.array([1, 2], pa.timestamp("us")), "v": [1.0, 2.0], "name": ["a", "b"]}
NEXT = {"ts": pa.array([3, 14], pa.timestamp("us")), "v": [5.0, 4.0], "name": ["c", "d"]}

REJECTED = [
    ({**NEXT, "more": [1, 2]}, (), r"has the new columns \['more'\]; the first one had .*This push was rejected"),
    ({"ts": NEXT["ts"], "v": NEXT["v"]}, (), r"lacks \['name'\]; the first one had \['ts', 'v', 'name'\]"),
    (
        {**NEXT, "v": [1, 2]},
        (),
        r"column 'v' changed type from double to int64; this push was rejected. Cast the column",
    ),
    ({**NEXT, "ts": pa.array([3, 4], pa.timestamp("us", "UTC"))}, (), r"column 'ts' changed type"),
    ({**NEXT, "ts": pa.array([3, 1], pa.timestamp("us"))}, (), r"must not decrease .*, got a row at 1 after 2"),
    (
        [3, 14],
        (),
        r"created with time='ts', so push\(\) takes one data frame and nothing else. Create a monitor without",
    ),
    (NEXT, ([1.0, 2.0],), r"takes one data frame and nothing else"),
    ({"ts": [1, 2], "v": [1.0]}, (), r"cannot be converted to Arrow"),
    (pa.Table.from_arrays([NEXT["ts"]] * 4, names=["ts", "v", "name", "ts"]), (), r"more than one column named 'ts'"),
    ({"north": NEXT, "south": NEXT}, (), r"push\(\) takes one data frame, got a dict of 2 data frames. Add a column"),
]


@pytest.mark.parametrize(("frame", "rest", "message"), REJECTED)
def test_a_rejected_push_changes_nothing(frame, rest, message):
    monitor = sb.Monitor(BIG, time="ts")
    monitor.push(FRAME)
    before, counts = monitor.snapshot(), monitor.metrics()
    with pytest.raises(sb.InvalidInputError, match=message):
        monitor.push(frame, *rest)
    assert monitor.snapshot() == before
    assert monitor.metrics() == counts
    monitor.push(NEXT)
    monitor.finish()
    assert monitor.answers()["score"].to_pylist() == [5.0, 4.0]


def test_a_first_push_that_is_rejected_does_not_fix_the_columns():
    monitor = sb.Monitor(sb.TopK(k=1, size="10 microseconds", by="cast(v as double)"), time="ts")
    with pytest.raises(sb.SkybandError, match="failed at row 0"):
        monitor.push({"ts": pa.array([8], pa.timestamp("us")), "v": ["x"], "more": [1]})
    monitor.push({"ts": pa.array([1], pa.timestamp("us")), "v": ["7"]})
    monitor.finish()
    assert monitor.answers()["score"].to_pylist() == [7.0]


def test_a_column_of_nulls_has_the_type_of_earlier_ones():
    monitor = sb.Monitor(BIG, time="ts")
    monitor.push(FRAME)
    monitor.push({**NEXT, "name": [None, None]})
    # As in any order of columns.
    monitor.push({"name": ["e"], "v": [9.0], "ts": pa.array([20], pa.timestamp("us"))})
    monitor.finish()
    assert monitor.answers()["name"].to_pylist() == [None, None, "e"]


def test_probabilities_of_a_rule_above_one_change_nothing():
    query = sb.UncertainTopK(k=1, size="10 microseconds", by="v", probability="p", rule="r")
    first = {"ts": pa.array([1], pa.timestamp("us")), "v": [1.0], "p": [0.75], "r": ["x"]}
    after = {"ts": pa.array([2, 5], pa.timestamp("us")), "v": [2.0, 3.0], "p": [0.5, 0.5], "r": ["x", None]}
    monitor = sb.uncertain.Monitor(query, time="ts")
    monitor.push(first)
    before, counts = monitor.snapshot(), monitor.metrics()
    with pytest.raises(sb.InvalidInputError, match="add up to"):
        monitor.push(after)
    assert (monitor.snapshot(), monitor.metrics()) == (before, counts)
    monitor.push({**after, "r": ["y", None]})
    monitor.finish()
    assert monitor.answers()["score"].to_pylist() == [3.0]


def test_values_outside_the_bounds_change_nothing():
    monitor = sb.incomplete.Monitor(FAMILIES["incomplete"], time="ts")
    table = family_rows(random.Random(1), 10)
    monitor.push(table.slice(0, 5))
    before = monitor.snapshot()
    with pytest.raises(sb.InvalidInputError, match=r"a value of 7.0 is outside bounds=.*Widen bounds="):
        monitor.push(table.slice(5).set_column(3, "v", pa.array([7.0] * 5)))
    assert monitor.snapshot() == before


MISSING_TIME = [
    (sb.Monitor, BIG),
    (sb.aggregate.Monitor, sb.AggregateTopK(k=1, size="1 second", key="name", value="v")),
    (sb.incomplete.Monitor, sb.IncompleteTopK(k=1, size="1 second", streams=["x"])),
    (sb.uncertain.Monitor, sb.UncertainTopK(k=1, size="1 second", by="v", probability="v")),
]


@pytest.mark.parametrize(("kind", "query"), MISSING_TIME)
def test_a_frame_needs_a_monitor_with_a_time(kind, query):
    with pytest.raises(
        sb.InvalidInputError, match=r"got a data frame \(dict\), but this monitor was created without time="
    ):
        kind(query).push(FRAME)
    with pytest.raises(sb.InvalidInputError, match=r"id='name' names a column of data frames, but time= is missing"):
        kind(query, id="name")
    with pytest.raises(sb.InvalidInputError, match=r"=None is not a column. Rows are given in one of two forms"):
        kind(query).push([1])


def test_arguments_that_frames_do_not_have():
    with pytest.raises(sb.UnsupportedError, match=r"algorithm='mintopk' is not supported for AggregateTopK"):
        sb.aggregate.Monitor(FAMILIES["aggregate"], algorithm="mintopk", time="ts")
    with pytest.raises(sb.UnsupportedError, match=r"epsilon=0.1 is not supported by a monitor with time='ts'"):
        sb.uncertain.Monitor(FAMILIES["uncertain"], epsilon=0.1, time="ts")
    with pytest.raises(sb.InvalidQueryError, match="plan must be one of"):
        sb.uncertain.Monitor(FAMILIES["uncertain"], plan="greed", time="ts")
    with pytest.raises(sb.InvalidQueryError, match="has no streams="):
        sb.incomplete.Monitor(sb.IncompleteTopK(k=1, size="1 second", object="o", stream="s", value="v"), time="ts")
    with pytest.raises(sb.UnsupportedError, match=r"skyband\.Monitor supports TopK queries"):
        sb.Monitor(FAMILIES["aggregate"], time="ts")


def test_the_plan_of_uncertain_queries():
    query = FAMILIES["uncertain"][0]
    monitor = sb.uncertain.Monitor(query, plan="none", time="ts")
    assert (monitor.plan.method, monitor.next_time) == ("none", None)
    monitor.push(family_rows(random.Random(2)))
    assert monitor.plan.method == "none"
    assert isinstance(monitor.next_time, int)
    assert sb.uncertain.Monitor.resume(monitor.snapshot()).plan.method == "none"
    both = sb.uncertain.Monitor(FAMILIES["uncertain"], time="ts")
    both.push(family_rows(random.Random(2)))
    with pytest.raises(sb.UnsupportedError, match="the queries have 2 different expressions"):
        _ = both.plan


def test_count_windows_cannot_be_added_where_rows_were_not_counted():
    query = sb.IncompleteTopK(name="a", k=1, size=5, every=5, object="o", stream="s", value="v", streams=list("xyz"))
    monitor = sb.incomplete.Monitor(query, time="ts")
    monitor.push(family_rows(random.Random(2)))
    with pytest.raises(sb.UnsupportedError, match=r"add\('b'\) after the first push is not supported"):
        monitor.add(sb.IncompleteTopK(**{**query.to_dict(), "name": "b", "k": 2}))


def test_aggregate_queries_with_other_keys_that_are_added_and_removed():
    """Each key has its own shards: those of other queries keep their rows, whatever their place in the workload."""
    rng = random.Random(5)
    parts = [
        pa.table(
            {
                "ts": pa.array([1_000_000 * (40 * part + row) for row in range(40)]).cast(pa.timestamp("us", "UTC")),
                "a": [rng.choice("xyz") for _ in range(40)],
                "b": [rng.choice("pq") for _ in range(40)],
            }
        )
        for part in range(3)
    ]
    first, second = (
        sb.AggregateTopK(name=key, k=2, size="30 seconds", slide="7 seconds", key=key, aggregate="count")
        for key in "ab"
    )
    whole = {
        query.name: sb.aggregate.replay(query, pa.concat_tables(parts), time="ts").to_arrow()
        for query in (first, second)
    }
    monitor = sb.aggregate.Monitor([first], time="ts")
    monitor.push(parts[0])
    valid_from = monitor.add(second)
    monitor = type(monitor).resume(monitor.snapshot())
    monitor.push(parts[1])
    before = monitor.answers().to_arrow()
    monitor.remove("a")
    monitor.push(parts[2])
    monitor.finish()
    after = monitor.answers().to_arrow()
    found = {name: [] for name in "ab"}
    for row in (*before.to_pylist(), *after.to_pylist()):
        found[row["query"]].append(row)
    assert found["a"] == whole["a"].to_pylist()[: len(found["a"])]
    assert found["b"] == [row for row in whole["b"].to_pylist() if row["window_start"] >= found["b"][0]["window_start"]]
    assert found["b"][0]["window_start"] > parts[0]["ts"][-1].as_py()
    assert valid_from is not None
    assert len(found["a"]) > 15


def test_lists_maps_and_structs_in_many_answers():
    columns = {
        "at": pa.array(range(60), pa.timestamp("s")),
        "id": range(60),
        "x": [float(number % 7) for number in range(60)],
        "several": [[number, None] for number in range(60)],
        "named": pa.array([[("a", number)] for number in range(60)], pa.map_(pa.string(), pa.int64())),
        "nested": [{"deep": {"number": number}} for number in range(60)],
    }
    monitor = sb.Monitor(sb.TopK(k=3, size="30 seconds", slide="1 second", by="x"), time="at", id="id")
    monitor.push(pa.table(columns))
    monitor.finish()
    found = monitor.answers().to_pylist()
    assert len(found) > 3 * 60, "rows are in many answers"
    for row in found:
        number = row["id"]
        assert (row["several"], row["named"], row["nested"]) == (
            [number, None],
            [("a", number)],
            {"deep": {"number": number}},
        )
