"""Answers over one data frame: equal to the oracle's and to those of arrays, whatever the order of rows."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from tests.local.random_streams import Case, comparable, numbered, rows_of, shuffled, table_of

SEEDS = range(16)
CASES = 12  # for each seed


@pytest.mark.parametrize("seed", SEEDS)
def test_time_windows_equal_the_oracle(seed):
    rng = numbered(seed)
    for _ in range(CASES):
        case, rows = Case(rng), rows_of(rng)
        found = sb.replay(case.queries, shuffled(rng, table_of(rows)), time="ts", id="id")
        lines = case.read(found)
        assert comparable(lines) == comparable(case.expected(rows)), (case.queries, rows)
        assert case.in_order(lines) == lines


@pytest.mark.parametrize("seed", SEEDS)
def test_count_windows_equal_the_oracle(seed):
    rng = numbered(f"count {seed}")
    for _ in range(CASES):
        case, rows = Case(rng, "count"), rows_of(rng)
        found = sb.replay(case.queries, shuffled(rng, table_of(rows)), time="ts", id="id")
        assert comparable(case.read(found)) == comparable(case.expected(rows)), (case.queries, rows)


@pytest.mark.parametrize("seed", SEEDS)
def test_count_windows_without_a_time_follow_the_order_of_rows(seed):
    rng = numbered(f"order {seed}")
    for _ in range(CASES):
        case, rows = Case(rng, "count"), rows_of(rng)
        rng.shuffle(rows)
        found = sb.replay(case.queries, table_of(rows), id="id")
        placed = [{**row, "ts": place} for place, row in enumerate(rows)]
        assert comparable(case.read(found)) == comparable(case.expected(placed)), (case.queries, rows)
        assert "__row" not in found.column_names


@pytest.mark.parametrize("seed", SEEDS)
def test_frames_equal_arrays(seed):
    rng = numbered(f"arrays {seed}")
    case, rows = Case(rng), [row for row in rows_of(rng, 200) if row["ts"] is not None]
    for place, (asked, _, _, _) in enumerate(case.parts):
        query = case.queries[place]
        plain = sb.TopK(**{**query.to_dict(), "by": "v", "where": None, "partition_by": []})
        table = table_of(rows)
        columns = [table[name].combine_chunks() for name in ("ts", "v", "id")]
        by_arrays = sb.replay(plain, *columns)
        by_frame = sb.replay(plain, shuffled(rng, table), time="ts", id="id")
        names = ["query", "window_start", "window_end", "rank", "id", "score"]
        assert by_frame.select(names).to_pylist() == by_arrays.select(names).to_pylist(), asked


def test_rows_without_an_id_are_ordered_by_a_hash_of_the_row():
    rng = random.Random(5)
    table = pa.table(
        {
            "ts": pa.array([0, 0, 0, 0, 5], pa.timestamp("us")),
            "v": [1.0, 1.0, 1.0, 1.0, 1.0],
            "who": ["a", "b", "c", "d", "e"],
        }
    )
    query = sb.TopK(k=4, size="4 microseconds", by="v")
    found = {tuple(sb.replay(query, shuffled(rng, table), time="ts")["who"].to_pylist()) for _ in range(10)}
    assert len(found) == 1


def test_a_group_of_nulls_is_a_group():
    table = {"ts": pa.array([0, 1, 2], pa.timestamp("us")), "v": [1.0, 2.0, 3.0], "g": ["a", None, None]}
    found = sb.replay(sb.TopK(k=1, size="10 microseconds", by="v", partition_by="g"), table, time="ts")
    assert found.select(["g", "score"]).to_pylist() == [{"g": "a", "score": 1.0}, {"g": None, "score": 3.0}]


def test_columns_named_as_those_of_answers_come_back_under_another_name():
    table = {"ts": pa.array([0], pa.timestamp("us")), "rank": [7], "v": [1.0], "Query": ["x"]}
    found = sb.replay(sb.TopK(k=1, size="1 second", by="v"), table, time="TS")
    assert found.column_names == [
        "query",
        "window_start",
        "window_end",
        "rank",
        "score",
        "ts",
        "row_rank",
        "v",
        "row_Query",
    ]


def test_names_with_spaces_and_dots_come_back_as_they_are():
    table = {"a time": pa.array([0, 1], pa.timestamp("us")), "a.b": [1.0, 2.0], "my group": ["x", "y"]}
    query = sb.TopK(k=1, size="1 second", by="`a.b`", partition_by="`my group`")
    found = sb.replay(query, table, time="a time")
    assert found["a.b"].to_pylist() == [1.0, 2.0]


EMPTY = {"ts": pa.array([], pa.timestamp("us")), "v": pa.array([], pa.float64()), "g": pa.array([], pa.string())}


@pytest.mark.parametrize("size", ["1 second", 5])
def test_an_empty_frame_has_answers_without_rows(size):
    found = sb.replay(sb.TopK(k=1, size=size, by="v", partition_by="g"), EMPTY, time="ts")
    assert found.column_names == ["query", "g", "window_start", "window_end", "rank", "score", "ts", "v"]
    assert len(found) == 0
    found = sb.replay(sb.TopK(k=1, size=5, by="v", partition_by="g"), EMPTY)
    assert "__row" not in found.column_names


def streams():
    return {
        "at": pa.array([0, 10, 20, 20, 40], pa.timestamp("s")),
        "who": ["ann", "bob", "ann", "bob", "cat"],
        "site": ["north", "north", "south", "south", "north"],
        "load": [0.5, 0.9, 0.3, 0.1, 0.2],
        "chance": [0.5, 1.0, 0.25, 0.5, 0.5],
    }


LOADS = sb.IncompleteTopK(k=2, size="1 minute", every="20 seconds", object="who", stream="site", value="load")


def test_a_frame_for_each_stream():
    table = pa.table(streams())
    whole = sb.replay(LOADS, table, time="at")
    sites = table["site"]
    parts = {name: table.filter(pa.compute.equal(sites, name)).drop_columns(["site"]) for name in ("north", "south")}
    query = sb.IncompleteTopK(**{**LOADS.to_dict(), "stream": None, "streams": None})
    for replay in (sb.replay, sb.incomplete.replay):
        assert replay(query, parts, time="at") == whole
    # Columns that no query reads may differ between the frames of streams.
    parts["south"] = parts["south"].append_column("more", pa.array([1, 2]))
    assert sb.replay(query, parts, time="at") == whole


def test_frames_of_streams_that_cannot_be_used():
    query = sb.IncompleteTopK(**{**LOADS.to_dict(), "stream": None})
    frame = pa.table(streams())
    with pytest.raises(sb.InvalidInputError, match=r"time= is missing: rows of 2 data frames are put in one order"):
        sb.replay(query, {"north": frame, "south": frame})
    with pytest.raises(sb.InvalidInputError, match=r"got a data frame and 'south': \[1, 2\]"):
        sb.replay(query, {"north": frame, "south": [1, 2]}, time="at")
    other = frame.set_column(1, "who", pa.array([1, 2, 1, 2, 3]))
    with pytest.raises(sb.InvalidInputError, match=r"stream 'south' has other types .*\(int64, string\).* Cast them"):
        sb.replay(query, {"north": frame, "south": other}, time="at")
    with pytest.raises(sb.InvalidQueryError, match=r"has stream='site', but there is already one data frame per"):
        sb.replay(LOADS, {"north": frame, "south": frame}, time="at")
    with pytest.raises(
        sb.UnsupportedError, match=r"a dict with a data frame for each stream is not supported for TopK"
    ):
        sb.replay(sb.TopK(k=1, size="1 second", by="load"), {"north": frame}, time="at")


@pytest.mark.parametrize("axis", ["time", "count"])
def test_other_families_equal_their_arrays(axis):
    for seed in range(30):
        rng = random.Random(seed)
        rows = 60
        at = np.cumsum([rng.choice([0, 1, 1, 3, 20]) for _ in range(rows)])
        table = pa.table(
            {
                "at": pa.array(at).cast(pa.timestamp("us")),
                "o": [rng.choice("abcde") for _ in range(rows)],
                "s": [rng.choice("xyz") for _ in range(rows)],
                "v": pa.array([rng.choice([0.0, 0.25, 0.5, 1.0, None, float("nan")]) for _ in range(rows)]),
                "p": [rng.choice([0.25, 0.5, 1.0]) for _ in range(rows)],
                "id": pa.array(range(rows)),
            }
        )
        mixed = shuffled(rng, table)
        size, step = (
            (rng.randint(3, 30), 3) if axis == "count" else (f"{rng.randint(3, 30)} microseconds", "3 microseconds")
        )
        column = {name: table[name].combine_chunks() for name in table.column_names}
        at = None if axis == "count" else column["at"]
        loads = sb.IncompleteTopK(
            k=2,
            size=size,
            every=step,
            object="o",
            stream="s",
            value="v",
            occurrences=99,
            bounds=(0, 1),
            streams=["x", "y", "z"],
        )
        by_arrays = sb.incomplete.replay(loads, at, column["o"], column["s"], column["v"])
        assert sb.replay(loads, mixed, time="at", id="id").to_pylist() == by_arrays.to_pylist()
        likely = sb.UncertainTopK(k=2, size=size, every=step, by="v", probability="p")
        by_arrays = sb.uncertain.replay(likely, at, column["v"], column["p"], ids=column["id"])
        assert sb.replay(likely, mixed, time="at", id="id").to_pylist() == by_arrays.to_pylist()
        for aggregate in ("sum", "count", "min", "max", "avg"):
            total = sb.AggregateTopK(k=2, size=size, slide=step, key="o", value="v", aggregate=aggregate)
            by_arrays = sb.aggregate.replay(total, at, column["o"], column["v"])
            assert sb.aggregate.replay(total, mixed, time="at", id="id").to_pylist() == by_arrays.to_pylist()


BIG = sb.TopK(name="big", k=1, size="1 second", by="v")
FRAME = {"ts": pa.array([0, 1], pa.timestamp("us")), "v": [1.0, 2.0], "name": ["a", "b"], "number": [1, 2]}

REJECTED = [
    (BIG, {}, r"time= is missing: query 'big' has windows over event time. Name the column"),
    (BIG, {"time": "tss"}, r"time= column 'tss' does not exist; did you mean 'ts'"),
    (BIG, {"time": "number"}, r"time='number' must be a timestamp column, got type bigint. Convert it first"),
    (BIG, {"time": 7}, r"time must be the name of a column, got 7"),
    (BIG, {"time": "ts", "id": "nam"}, r"id= column 'nam' does not exist; did you mean 'name'"),
    (BIG, {"time": "ts", "scores": [1.0, 2.0]}, r"scores= is for arrays; with a data frame.*Leave scores= out"),
    (BIG, {"time": "ts", "ids": [1, 2]}, r"ids= is for arrays"),
    (BIG, {"time": "ts", "groups": [1, 2]}, r"groups= is for arrays"),
    (sb.TopK(k=1, size="1 second"), {"time": "ts"}, r"has no by=. The score is computed from the row's columns"),
    (sb.TopK(k=1, size="1 second", by="name", half_life="1 hour"), {"time": "ts"}, r"type string; by must be numeric"),
    (sb.TopK(k=1, size="1 second", by="vv"), {"time": "ts"}, r"by='vv' cannot be computed.*did you mean 'v'"),
    (sb.TopK(k=1, size="1 second", by="v", where="v"), {"time": "ts"}, r"where='v' must be Boolean, got type double"),
    (sb.TopK(k=1, size="1 second", by="v +"), {"time": "ts"}, r"by='v \+'"),
    (sb.TopK(k=1, size="1 second", by="v", partition_by="q"), {"time": "ts"}, r"partition_by='q' cannot be computed"),
    (BIG, {"time": "ts", "algorithm": "mintop"}, r"mintop.*did you mean 'mintopk'"),
]


@pytest.mark.parametrize(("query", "named", "message"), REJECTED)
def test_rejected_calls(query, named, message):
    with pytest.raises(sb.SkybandError, match=message):
        sb.replay(query, FRAME, **named)


def test_arrays_take_no_column_names():
    with pytest.raises(sb.InvalidInputError, match=r"time='ts' names a column of a data frame, got \[1, 2\] instead"):
        sb.replay(BIG, [1, 2], [1.0, 2.0], time="ts")
    with pytest.raises(sb.InvalidInputError, match=r"id='ts' names a column of a data frame"):
        sb.replay(BIG, [1, 2], [1.0, 2.0], id="ts")


TWO_FORMS = "=None is not a column. Rows are given in one of two forms: as arrays, .* or as a data frame in place of"


def test_positions_alone_are_rejected_with_both_forms():
    with pytest.raises(sb.InvalidInputError, match=f"scores{TWO_FORMS}"):
        sb.replay(BIG, np.arange(3))
    with pytest.raises(sb.InvalidInputError, match=f"keys{TWO_FORMS}"):
        sb.aggregate.replay(sb.AggregateTopK(k=1, size="1 second", aggregate="count"), np.arange(3))
    with pytest.raises(sb.InvalidInputError, match=f"objects{TWO_FORMS}"):
        sb.incomplete.replay(sb.IncompleteTopK(k=1, size="1 second"), np.arange(3))
    with pytest.raises(sb.InvalidInputError, match=f"probabilities{TWO_FORMS}"):
        sb.uncertain.replay(sb.UncertainTopK(k=1, size="1 second"), np.arange(3), np.arange(3))


def test_expressions_over_arrays_name_the_other_form():
    with pytest.raises(sb.InvalidQueryError, match="or pass a data frame with time= instead of arrays"):
        sb.replay(sb.TopK(k=1, size="1 second", by="price * size"), [1], [1.0])
    with pytest.raises(sb.InvalidQueryError, match="or pass a data frame with time= instead of arrays"):
        sb.replay(sb.TopK(k=1, size="1 second", where="price > 1"), [1], [1.0])
