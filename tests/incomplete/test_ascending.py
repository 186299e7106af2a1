"""Lower scores are better: a missing value counts as the largest, and scores only fall as values arrive."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skyband as sb
from skyband.incomplete.brute_force import by_definition
from skyband.local.pipeline import Counts, plan_for
from skyband.sharding.projection import ProjectionRequest
from tests.incomplete import oracle
from tests.incomplete.drive import as_tuples, listed, some_question, some_tuples


def lowest(rng, *, method="exact", count_axis=True, **more):
    """A query with `order="asc"`, and the same in plain numbers; values of several occurrences are not positive."""
    query, asked = some_question(rng, method=method, count_axis=count_axis)
    bounds = asked.bounds
    if asked.occurrences > 1:
        turned = {stream: (-high, -low) for stream, (low, high) in bounds.items()} if isinstance(bounds, dict) else None
        bounds = turned or (-bounds[1], -bounds[0])
    asked = asked._replace(bounds=bounds, ascending=True)
    return sb.IncompleteTopK(**{**query.to_dict(), "bounds": bounds, "order": "asc", **more}), asked


def equal(found, expected):
    """Compared as numbers: 0.0 is -0.0."""
    assert found == expected
    assert all(str(score) != "-0.0" for _, rows in found for _, score in rows)


@pytest.mark.parametrize("method", ["exact", "sorted-lists"])
@pytest.mark.parametrize("axis", ["count", "time"])
@pytest.mark.parametrize("seed", range(24))
def test_answers_are_those_of_the_oracle(method, axis, seed):
    rng = np.random.default_rng(500 + seed)
    on_count = axis == "count"
    query, asked = lowest(rng, method=method, count_axis=on_count)
    columns = some_tuples(rng, asked, 150, count_axis=on_count, text=seed % 2 == 1)
    expected = oracle.answers(asked, as_tuples(*columns), count_axis=on_count)
    equal(listed(sb.incomplete.replay(query, *columns)), expected)
    found = pa.concat_tables(pushed(query, columns, rng))
    equal(listed(found), expected)


def pushed(query, columns, rng):
    """The answers of a monitor that gets the tuples in pieces, with restarts."""
    positions, objects, streams, values = columns
    monitor, at = sb.incomplete.Monitor(query), 0
    while at < len(objects):
        to = at + int(rng.integers(1, 40))
        moments = None if positions is None else positions[at:to]
        monitor.push(moments, objects[at:to], streams[at:to], values[at:to])
        at = to
        if rng.random() < 0.5:
            monitor = sb.incomplete.Monitor.resume(monitor.snapshot())
        yield monitor.answers()
    monitor.finish()
    yield monitor.answers()


@pytest.mark.parametrize("seed", range(12))
def test_intervals(seed):
    """`best` is the lowest score that an object can reach."""
    rng = np.random.default_rng(700 + seed)
    query, asked = lowest(rng, intervals=True)
    columns = some_tuples(rng, asked, 120)
    kept, _ = oracle.admitted(asked, as_tuples(*columns), count_axis=True)
    for row in sb.incomplete.replay(query, *columns).to_pylist():
        window = [one for one in kept if row["time"] - asked.size <= one.position < row["time"]]
        mine = [one for one in window if one.object == row["object"]]
        assert row["best"] <= row["score"]
        assert row["best"] == pytest.approx(oracle.highest(asked, mine), rel=1e-12, abs=1e-12)
        if asked.occurrences == 1:
            assert row["sure"] == (row["object"] in oracle.sure_ones(asked, window))


@pytest.mark.parametrize("text", ["2 * a + b", "exp(a / 4) + b", "a - 1 / (b + 9)", "greatest(a, b) + power(a + 3, 2)"])
@pytest.mark.parametrize("seed", range(3))
def test_expressions(text, seed):
    """Functions are not rounded correctly, so bounds of scores are corrected: in the other direction here."""
    rng = np.random.default_rng(900 + seed)
    common = {"streams": ["a", "b"], "bounds": (-2, 5), "order": "asc", "aggregate": text, "k": 3}
    objects, streams = rng.integers(0, 20, 400), rng.choice(["a", "b"], 400)
    values = rng.integers(-2, 6, 400) + rng.choice([0.0, 0.125, 0.3], 400) - 0.3
    values = np.clip(values, -2, 5)
    tables = [
        sb.incomplete.replay(
            sb.IncompleteTopK(size=40, every=7, method=method, **common), None, objects, streams, values
        )
        for method in ("exact", "sorted-lists")
    ]
    assert tables[0].to_pylist() == tables[1].to_pylist()
    scores = tables[0]["score"].to_numpy()
    same = tables[0]["time"].to_numpy()[1:] == tables[0]["time"].to_numpy()[:-1]
    assert (np.diff(scores)[same] >= 0).all()
    assert (np.diff(scores)[same] > 0).any()


@pytest.mark.parametrize("method", ["approximate", "expected-scores"])
def test_approximate_methods_rank_as_those_of_negated_values(method):
    rng = np.random.default_rng(3)
    objects, streams, values = rng.integers(0, 300, 3000), rng.choice(["a", "b", "c"], 3000), rng.random(3000)
    common = {"k": 4, "size": 900, "every": 100, "streams": ["a", "b", "c"], "method": method}
    low = sb.IncompleteTopK(aggregate="max", bounds=(0, 1), order="asc", **common)
    high = sb.IncompleteTopK(aggregate="min", bounds=(-1, 0), **common)
    found = sb.incomplete.replay(low, None, objects, streams, values)
    turned = sb.incomplete.replay(high, None, objects, streams, -values)
    names = ["time", "rank", "object", "exact"]
    assert found.select(names).equals(turned.select(names))
    assert found["score"].to_pylist() == pc.negate(turned["score"]).to_pylist()


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_data_frames_in_shards(shards, seed):
    """Beside a query with the other order; answers are merged by the order of each."""
    rng = np.random.default_rng(40 + seed)
    rows = 300
    table = pa.table(
        {
            "ts": pa.array(np.cumsum(rng.integers(0, 4, rows)) * 1000).cast(pa.timestamp("us", "UTC")),
            "row": pa.array(np.arange(rows)),
            "o": pa.array(rng.integers(0, 30, rows)),
            "s": pa.array(rng.choice(["a", "b"], rows)),
            "v": pa.array(rng.integers(-8, 9, rows) / 8),
        }
    )
    common = {"object": "o", "stream": "s", "value": "v", "streams": ["a", "b"], "bounds": (-1, 1), "k": 4}
    common |= {"size": "60 milliseconds", "every": "20 milliseconds"}
    queries = [
        sb.IncompleteTopK(name="low", order="asc", aggregate="min", **common),
        sb.IncompleteTopK(name="high", **common),
        sb.IncompleteTopK(name="sums", order="asc", weights={"a": 2.0}, partition_by="row % 2", **common),
    ]
    plan = plan_for(table.schema, ProjectionRequest(sb.Workload(queries), "ts", "row", shards=shards))
    found = pa.concat_tables(plan.bounded([plan.project(table)], Counts()))
    expected = by_definition(table, sb.Workload(queries), time="ts", id_="row").select(found.column_names)
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist()))
    assert min(found.filter(pc.equal(found["query"], "low"))["score"].to_pylist()) == -1.0


def test_what_is_not_monotone_is_rejected():
    with pytest.raises(sb.InvalidQueryError, match="must not be positive with occurrences=2 and order='asc'"):
        sb.IncompleteTopK(k=1, size=9, bounds=(-1, 2), occurrences=2, order="asc")
    sb.IncompleteTopK(k=1, size=9, bounds=(-1, 0), occurrences=2, order="asc")
    with pytest.raises(sb.InvalidQueryError, match="order must be one of"):
        sb.IncompleteTopK(k=1, size=9, order="up")
    assert "order" not in sb.IncompleteTopK(k=1, size=9).to_dict()


@pytest.mark.parametrize(
    "text",
    [
        "TOPK sum(load) ASC, 5 OBJECT car STREAM s OVER 5 ROWS",
        "SELECT TOP 5 * FROM r [ROWS 5] OBJECT car STREAM s ORDER BY sum(load) ASC",
        "SELECT TOP 5 * FROM r [ROWS 5] OBJECT car STREAM s ORDER BY sum(load)",
    ],
)
def test_sql(text):
    query = sb.IncompleteTopK(k=5, size=5, object="car", stream="s", value="load", order="asc")
    assert sb.sql(text) == query
    assert str(query) == "TOPK sum(load) ASC, 5 OBJECT car STREAM s OVER 5 ROWS"
    assert "a missing value counts as 1, at best as 0" in sb.Workload(query).explain()
    assert "the 5 lowest values of car" in query.headline
