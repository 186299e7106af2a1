"""Sketches in SQL, workload files, data frames, `explain` and `verify`. Without Spark."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.aggregate.bound_checks import agrees
from skyband.jobs import run_local
from skyband.jobs.local_verification import verify_local

FILE = """
streams: {clicks: {path: in, format: parquet, time: ts, watermark: 2 seconds}}
queries:
  - {name: pages, type: aggregate, k: 3, size: 20 seconds, slide: 5 seconds, key: page, aggregate: count,
     method: sketch, counters: 6}
  - {name: bytes, type: aggregate, k: 2, size: 10 seconds, key: page, value: bytes, partition_by: site,
     method: sketch, error: 0.2}
  - {name: exact, type: aggregate, k: 3, size: 20 seconds, key: page, aggregate: count}
sinks: [{type: parquet, path: out}]
"""


@pytest.fixture(scope="module")
def clicks():
    random, rows = np.random.default_rng(4), 3000
    times = np.arange(rows) * 40_000 + random.integers(0, 1_000_000, rows)
    return pa.table(
        {
            "ts": pa.array(times).cast(pa.timestamp("us", "UTC")),
            "page": pa.array([f"page {number}" for number in random.zipf(1.2, rows) % 200]),
            "bytes": pa.array(random.integers(0, 5000, rows) / 7),
            "site": pa.array(random.choice(["x", "y"], rows)).dictionary_encode().cast(pa.string()),
        }
    )


def workload(folder, clicks):
    (folder / "in").mkdir()
    for place in range(3):
        pq.write_table(clicks.slice(1000 * place, 1000), folder / "in" / f"{place}.parquet")
    (folder / "work.yaml").write_text(FILE)
    return sb.read_workload(folder / "work.yaml")


def test_verify_checks_the_bounds(tmp_path, clicks):
    file = workload(tmp_path, clicks)
    assert run_local(file).await_end(600)
    found = verify_local(file, "clicks", answers=tmp_path / "out")
    assert found.agrees, found.difference
    assert found.difference.compared > 100
    assert verify_local(file, "clicks").agrees


@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("score", lambda row: row["score"] - row["error"] - 1),
        ("error", lambda row: row["error"] + 1e7),
        pytest.param("score", lambda row: row["score"] * 20 + 1e7, marks=pytest.mark.long),
        pytest.param("key", lambda row: "page -1", marks=pytest.mark.long),
    ],
)
def test_a_wrong_bound_is_found(tmp_path, clicks, column, change):
    file = workload(tmp_path, clicks)
    assert run_local(file).await_end(600)
    path = next(iter(sorted((tmp_path / "out").rglob("*.parquet"))))
    table = pq.read_table(path)
    rows = table.to_pylist()
    place = next(i for i, row in enumerate(rows) if row["query"] == "pages" and row["rank"] == 1)
    rows[place][column] = change(rows[place])
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    found = verify_local(file, "clicks", answers=tmp_path / "out")
    assert not found.agrees
    assert {row["query"] for row in found.difference.examples} == {"pages"}


def test_a_false_guarantee_is_found():
    query = sb.AggregateTopK(k=1, size=10, aggregate="count", method="sketch", counters=1)
    exact = [{"rank": 1, "key": "a", "score": 4.0}, {"rank": 2, "key": "b", "score": 3.0}]
    answer = {"rank": 1, "key": "b", "score": 5.0, "error": 2.0, "guaranteed": False}
    assert agrees(query, exact, [answer], ["key"])
    assert not agrees(query, exact, [{**answer, "guaranteed": True}], ["key"])
    assert not agrees(query, exact, [{**answer, "score": 3.5, "error": 0.5}], ["key"])  # "a" cannot be missing
    assert not agrees(query, exact, [], ["key"])


def test_frames_and_local_runs_have_the_same_columns(tmp_path, clicks):
    queries = list(workload(tmp_path, clicks).workloads["clicks"])
    found = sb.aggregate.replay(queries, clicks, time="ts")
    assert found.column_names == [
        "query", "site", "window_start", "window_end", "rank", "key", "score", "error", "guaranteed",
    ]  # fmt: skip
    exact = found.filter(pa.compute.equal(found["query"], "exact"))
    assert set(exact["error"].to_pylist()) == {0.0}
    assert set(exact["guaranteed"].to_pylist()) == {True}
    assert found["error"].null_count == 0
    plain = sb.aggregate.replay(queries[2:], clicks, time="ts")
    assert "error" not in plain.column_names


def test_columns_of_exact_queries_may_have_the_names_of_bounds(clicks):
    query = sb.AggregateTopK(k=2, size="10 seconds", key="error", aggregate="count", partition_by="guaranteed")
    renamed = clicks.rename_columns(["ts", "error", "bytes", "guaranteed"])
    assert "guaranteed" in sb.aggregate.replay(query, renamed, time="ts").column_names
    sketch = sb.AggregateTopK(**{**query.to_dict(), "method": "sketch"})
    with pytest.raises(sb.SkybandError, match="guaranteed"):
        sb.aggregate.replay(sketch, renamed, time="ts")


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("TOPK count(*), 5 BY KEY page OVER 30 MINUTES EVERY 5 MINUTES WITH SKETCH", (None, None)),
        ("TOPK sum(b), 5 BY KEY page PARTITION BY s OVER 1 HOUR WITH SKETCH ERROR 0.01", (0.01, None)),
        ("TOPK sum(b), 5 BY KEY page OVER 1 HOUR WITH SKETCH COUNTERS 2000", (None, 2000)),
        ("SELECT k, sum(v) FROM s [RANGE 1 HOUR] GROUP BY k ORDER BY sum(v) DESC LIMIT 3 WITH SKETCH", (None, None)),
    ],
)
def test_sql(text, fields):
    query = sb.sql(text)
    assert (query.method, query.error, query.counters) == ("sketch", *fields)
    assert sb.sql(query.to_sql()) == query
    assert "WITH SKETCH" in str(query)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("TOPK v, 5 OVER 1 HOUR WITH SKETCH", "is not an aggregate"),
        ("TOPK max(v), 5 BY KEY k OVER 1 HOUR WITH SKETCH", "aggregate='max' is not a total"),
        ("TOPK sum(v), 5 BY KEY k OVER 1 HOUR WITH SKETCH ERROR much", "WITH SKETCH ERROR 0.001"),
        ("TOPK sum(v), 5 BY KEY k OVER 1 HOUR WITH SHARE WITH SKETCH", "share=True is not supported"),
        ("TOPK sum(v), 5 BY KEY k OVER 1 HOUR WITH SKETCH WITH SKETCH", "SKETCH"),
    ],
)
def test_sql_that_makes_no_sense_is_refused(text, message):
    with pytest.raises(sb.SkybandError, match=message):
        sb.sql(text)


def test_explain_states_memory_and_error():
    sketch = sb.AggregateTopK(
        name="hot", k=5, size="1 hour", slide="1 minute", key="page", aggregate="count", method="sketch"
    )
    shown = sb.Workload(sketch).explain()
    assert "999 counters per pane, twice as many of open panes, about 24.8 MB" in shown
    assert "at most 0.001 of the total of the window" in shown
    assert "it does not depend on the number of distinct keys" in shown
    exact = sb.AggregateTopK(name="all", k=5, size="1 hour", slide="1 minute", key="page", aggregate="count")
    assert "number of distinct keys, except for queries with a sketch" in sb.Workload([sketch, exact]).explain()
    assert "sketch" not in sb.Workload(exact).explain()


def test_methods_of_other_families_are_refused(tmp_path, clicks):
    workload(tmp_path, clicks)
    (tmp_path / "work.yaml").write_text(FILE.replace("method: sketch, counters: 6", "method: sorted-lists"))
    with pytest.raises(sb.SkybandError, match=r"method: must be one of 'exact'.*got 'sorted-lists'"):
        sb.read_workload(tmp_path / "work.yaml")
