"""`ties="rank"`: all objects with the score of the k-th, and equal scores share a rank."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.incomplete.brute_force import by_definition
from skyband.local.pipeline import Counts, plan_for
from skyband.sharding.projection import ProjectionRequest
from tests.incomplete import oracle
from tests.incomplete.drive import as_tuples, some_question, some_tuples


def tied(rng, *, method="exact", count_axis=True, **more):
    query, asked = some_question(rng, method=method, count_axis=count_axis)
    asked = asked._replace(k=int(rng.integers(1, 4)), ties=True)
    return sb.IncompleteTopK(**{**query.to_dict(), "k": asked.k, "ties": "rank", **more}), asked


def coarse(rng, asked, n, *, count_axis=True):
    """Tuples with few distinct values, and so with many equal scores."""
    positions, objects, streams, values = some_tuples(rng, asked, n, count_axis=count_axis)
    low, high = np.array([oracle.limits(asked, stream) for stream in streams]).reshape(-1, 2).T
    return positions, objects, streams, np.where(values < (low + high) / 2, low, high)


def by_time(table):
    found = {}
    for row in table.to_pylist():
        found.setdefault(row["time"], []).append((row["object"], row["score"], row["rank"]))
    return list(found.items())


def with_ranks(answers, sign=1.0):
    return [
        (end, [(obj, score, 1 + sum(sign * other > sign * score for _, other in rows)) for obj, score in rows])
        for end, rows in answers
    ]


@pytest.mark.parametrize("method", ["exact", "sorted-lists"])
@pytest.mark.parametrize("axis", ["count", "time"])
@pytest.mark.parametrize("seed", range(24))
def test_answers_are_those_of_the_oracle(method, axis, seed):
    rng = np.random.default_rng(1500 + seed)
    on_count = axis == "count"
    query, asked = tied(rng, method=method, count_axis=on_count)
    columns = coarse(rng, asked, 200, count_axis=on_count)
    expected = with_ranks(oracle.answers(asked, as_tuples(*columns), count_axis=on_count))
    assert by_time(sb.incomplete.replay(query, *columns)) == expected
    positions, objects, streams, values = columns
    monitor, parts = sb.incomplete.Monitor(query), []
    for low in range(0, 200, 33):
        mine = slice(low, low + 33)
        moments = None if on_count else positions[mine]
        monitor.push(moments, objects[mine], streams[mine], values[mine])
        monitor = sb.incomplete.Monitor.resume(monitor.snapshot())
        parts.append(monitor.answers())
    monitor.finish()
    assert by_time(pa.concat_tables([*parts, monitor.answers()])) == expected


@pytest.mark.parametrize("seed", range(12))
def test_an_object_is_sure_if_few_can_get_a_higher_score(seed):
    rng = np.random.default_rng(1700 + seed)
    query, asked = tied(rng, intervals=True, occurrences=1)
    asked = asked._replace(occurrences=1)
    columns = coarse(rng, asked, 120)
    kept, _ = oracle.admitted(asked, as_tuples(*columns), count_axis=True)
    for row in sb.incomplete.replay(query, *columns).to_pylist():
        window = [one for one in kept if row["time"] - asked.size <= one.position < row["time"]]
        assert row["sure"] == (row["object"] in oracle.sure_ones(asked, window))


def test_more_ties_than_a_buffer_has_rows():
    query = sb.IncompleteTopK(k=2, size=40_000, streams=["a"], bounds=(0, 1), ties="rank")
    table = sb.incomplete.replay(query, None, np.arange(40_000), ["a"] * 40_000, np.full(40_000, 0.5))
    assert table.num_rows == 40_000
    assert set(table["rank"].to_pylist()) == {1}
    assert table["object"].to_pylist()[:2] == [39_999, 39_998]


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_data_frames_in_shards(shards, seed):
    """Also with the other order and with groups, beside a query that breaks ties."""
    rng = np.random.default_rng(60 + seed)
    rows = 400
    table = pa.table(
        {
            "ts": pa.array(np.cumsum(rng.integers(0, 4, rows)) * 1000).cast(pa.timestamp("us", "UTC")),
            "row": pa.array(np.arange(rows)),
            "o": pa.array(rng.integers(0, 40, rows)),
            "s": pa.array(rng.choice(["a", "b"], rows)),
            "v": pa.array(rng.integers(-1, 2, rows).astype(float)),
        }
    )
    common = {"object": "o", "stream": "s", "value": "v", "streams": ["a", "b"], "bounds": (-1, 1), "k": 3}
    common |= {"size": "60 milliseconds", "every": "20 milliseconds", "ties": "rank"}
    queries = [
        sb.IncompleteTopK(name="high", **common),
        sb.IncompleteTopK(name="low", order="asc", **common),
        sb.IncompleteTopK(name="each", aggregate="max", partition_by="row % 2", **common),
        sb.IncompleteTopK(**{**common, "name": "broken", "ties": "row_number"}),
    ]
    plan = plan_for(table.schema, ProjectionRequest(sb.Workload(queries), "ts", "row", shards=shards))
    found = pa.concat_tables(plan.bounded([plan.project(table)], Counts()))
    expected = by_definition(table, sb.Workload(queries), time="ts", id_="row").select(found.column_names)
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist()))
    assert found.num_rows > 4 * 3 * len(set(found["time"].to_pylist()))


def test_what_is_rejected():
    for method in ("approximate", "expected-scores"):
        with pytest.raises(sb.InvalidQueryError, match="may drop objects with the score of the k-th"):
            sb.IncompleteTopK(k=1, size=9, method=method, ties="rank")
    text = "TOPK sum(load) ASC, 5 WITH TIES OBJECT car STREAM s OVER 5 ROWS"
    query = sb.IncompleteTopK(k=5, size=5, object="car", stream="s", value="load", order="asc", ties="rank")
    assert sb.sql(text) == query
    assert str(query) == text
    assert "all objects with the k-th score are included" in sb.Workload(query).explain()
    assert sb.IncompleteTopK(**query.to_dict()) == query


@pytest.mark.parametrize("groups", [[], ["site"]])
@pytest.mark.parametrize("output", ["answers", "both", "changes"])
def test_a_window_is_counted_once(groups, output):
    """However many objects share its first rank: with arrays, frames, and shards whose answers are merged."""
    query = sb.IncompleteTopK(
        k=2, size="4 seconds", every="2 seconds", object="who", stream="s", streams=["a", "b"], value="v",
        bounds=(0, 1), occurrences=9, ties="rank", partition_by=groups,
    )  # fmt: skip
    at = pa.array(np.arange(30) * 500_000, pa.timestamp("us", "UTC"))
    rows = pa.table({
        "at": at, "who": pa.array([f"o{place % 7}" for place in range(30)]), "s": ["a", "b"] * 15,
        "v": np.ones(30), "site": pa.array(["x", None, "y"] * 10),
    })  # fmt: skip
    found = sb.replay(query, rows, time="at").to_pylist()
    windows = {(row["time"], row.get("site")) for row in found}
    assert len(windows) < sum(row["rank"] == 1 for row in found)
    plan = plan_for(rows.schema, ProjectionRequest(sb.Workload([query]), "at", None, shards=2, output=output))
    counts = Counts()
    list(plan.bounded([plan.project(rows)], counts))
    assert counts.windows == len(windows)
    if output == "answers":
        monitor = sb.incomplete.Monitor(query, time="at")
        for low in range(0, 30, 7):
            monitor.push(rows.slice(low, 7))
        monitor.finish()
        assert monitor.metrics()["windows"] == len(windows)
