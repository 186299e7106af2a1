"""Windows with more keys than a query allows are rejected, however rows are divided; others are answered as without."""

from __future__ import annotations

import math
from random import Random

import pyarrow as pa
import pytest

import skyband as sb
from skyband.local.pipeline import plan_for
from skyband.sharding.projection import ProjectionRequest
from tests.aggregate.test_deletes import EXPRESSIONS, SECOND, drawn, frame
from tests.aggregate.test_unknown_deletes import arrays, valued


def most_keys(query, rows, pane):
    """The most keys with a value in the rows of a window up to the end of a pane, by the definition."""
    most = 0
    accepted = [row for row in rows if row.position is not None and row.key is not None and (row.delete or valued(row))]
    for low in {row.position // pane * pane for row in accepted}:
        start = -math.inf
        if query.size is not None:
            start = (low // query.sliding.slide + 1) * query.sliding.slide - query.sliding.size
        newest = {}
        for row in sorted(accepted, key=lambda row: (row.position, row.id)):
            if start <= row.position < low + pane:
                newest[row.key, row.group if query.partition_by else None] = not row.delete
        most = max(most, sum(newest.values()))
    return most


def case(seed):
    random = Random(seed)
    rows = drawn(random, grouped=True)
    slide = random.randint(1, 9)
    size = random.choice([None, slide * random.randint(1, 4)])
    deletes = random.random() < 0.5
    if not deletes:
        rows = [row._replace(delete=False) for row in rows]
    query = sb.AggregateTopK(
        k=3,
        size=None if size is None else f"{size} seconds",
        slide=f"{slide} seconds",
        partition_by=random.choice([(), ("g",)]),
        aggregate="latest" if deletes else random.choice(["sum", "latest", "median"]),
        **EXPRESSIONS if deletes else {"key": "player", "value": "points"},
    )
    return random, rows, query, most_keys(query, rows, slide * SECOND)


@pytest.mark.parametrize("seed", range(40))
def test_frames_in_any_batches_with_restarts(seed):
    random, rows, query, most = case(seed)
    if not most:
        pytest.skip("no row counts")
    expected = sb.replay(query, frame(rows, ids=True), time="ts", id="game").to_arrow()
    exact = sb.AggregateTopK(**{**query.to_dict(), "max_keys": most})
    assert sb.replay(exact, frame(rows, ids=True), time="ts", id="game").to_arrow().equals(expected)
    monitor, low = sb.aggregate.Monitor(exact, time="ts", id="game"), 0
    while low < len(rows):
        high = min(len(rows), low + random.randint(1, 25))
        monitor.push(frame(rows[low:high], ids=True))
        low = high
        if random.random() < 0.3:
            monitor = sb.aggregate.Monitor.resume(monitor.snapshot())
    monitor.finish()
    assert monitor.answers().to_arrow().equals(expected)
    if most > 1:
        less = sb.AggregateTopK(**{**query.to_dict(), "max_keys": most - 1})
        with pytest.raises(sb.InvalidInputError, match=f"max_keys={most - 1}, but its window that ends at"):
            sb.replay(less, frame(rows, ids=True), time="ts", id="game")


@pytest.mark.parametrize("seed", range(40))
def test_arrays_in_any_pieces_with_restarts(seed):
    random, rows, query, most = case(repr(("arrays", seed)))
    if not most:
        pytest.skip("no row counts")

    def answered(limit):
        monitor, low, found = sb.aggregate.Monitor(
            sb.AggregateTopK(**{**query.to_dict(), "max_keys": limit}), computed=True
        ), 0, []  # fmt: skip
        while low < len(rows):
            high = min(len(rows), low + random.randint(1, 25))
            columns = arrays(rows[low:high])
            if query.delete is None:
                del columns["deletes"]
            if query.partition_by:
                columns["groups"] = pa.array([row.group for row in rows[low:high]], pa.string())
            monitor.push(**columns)
            low = high
            if random.random() < 0.3:
                monitor = sb.aggregate.Monitor.resume(monitor.snapshot())
            found += monitor.answers().to_pylist()
        monitor.finish()
        return sorted(found + monitor.answers().to_pylist(), key=repr)

    assert answered(most) == answered(None)
    if most > 1:
        with pytest.raises(sb.InvalidInputError, match=f"max_keys={most - 1}, but its window that ends at"):
            answered(most - 1)


@pytest.mark.parametrize("windows", [{"size": 4, "slide": 2}, {"gap": "10 seconds"}], ids=["count", "gap"])
def test_a_rejected_push_of_arrays_changes_nothing(windows):
    timed = "gap" in windows
    query = sb.AggregateTopK(name="few", k=2, max_keys=2, **windows)
    monitor, plain = sb.aggregate.Monitor(query), sb.aggregate.Monitor(query)

    def push_keys(to, first, *names):
        to.push(
            [(first + place) * SECOND for place in range(len(names))] if timed else None,
            list(names),
            [1.0] * len(names),
        )

    for both in (monitor, plain):
        push_keys(both, 0, "ann", "bob", "ann")
    with pytest.raises(
        sb.InvalidInputError, match=r"query 'few' has max_keys=2, but its window that ends at .* has 3 keys"
    ):
        push_keys(monitor, 3, "cid", "bob", "ann", "bob", *(["ann"] * 2000))
    for both in (monitor, plain):
        push_keys(both, 3, "bob", "ann", "bob")
        both.finish()
    assert monitor.answers().to_pylist() == plain.answers().to_pylist() != []
    assert monitor.metrics() == plain.metrics()


@pytest.mark.parametrize("windows", [{"size": 4, "slide": 2}, {"gap": "10 seconds"}], ids=["count", "gap"])
def test_frames_of_count_and_session_windows(windows):
    query = sb.AggregateTopK(name="few", k=2, max_keys=2, key="player", value="points", **windows)
    monitor = sb.aggregate.Monitor(query, time="ts")
    push(monitor, 1, "ann", "bob")
    with pytest.raises(sb.InvalidInputError, match="query 'few' has max_keys=2"):
        monitor.push({"ts": pa.array([2 * SECOND, 3 * SECOND, 4 * SECOND, 60 * SECOND], pa.timestamp("us")),
                      "player": ["cid", "ann", "dan", "ann"], "points": [1.0] * 4})  # fmt: skip
    push(monitor, 2, "bob", "ann")
    monitor.finish()
    assert {row["key"] for row in monitor.answers().to_pylist()} == {"ann", "bob"}


def push(monitor, second, *names):
    at = pa.array([second * SECOND] * len(names), pa.timestamp("us"))
    monitor.push({"ts": at, "player": list(names), "points": [float(len(name)) for name in names]})


def test_a_rejected_push_changes_nothing():
    fields = {"k": 2, "size": None, "slide": "5 seconds", "key": "player", "value": "points"}
    queries = [sb.AggregateTopK(name="all", **fields), sb.AggregateTopK(name="few", max_keys=2, **fields)]
    queries.append(sb.AggregateTopK(name="other", **{**fields, "key": "player || '!'"}))
    monitor, plain = (sb.aggregate.Monitor(queries[:size], time="ts") for size in (3, 1))
    for both in (monitor, plain):
        push(both, 1, "ann", "bob", "ann")
    push(monitor, 6, "bob")  # ends the first pane
    with pytest.raises(
        sb.InvalidInputError, match=r"query 'few' has max_keys=2, but .* has 3 keys or more\. No answer"
    ):
        monitor.push({"ts": pa.array([7 * SECOND, 20 * SECOND], pa.timestamp("us")), "player": ["cid", "bob"],
                      "points": [9.0, 1.0]})  # fmt: skip
    before = monitor.metrics()
    push(monitor, 12, "ann")
    push(plain, 6, "bob")
    push(plain, 12, "ann")
    monitor.finish()
    plain.finish()
    assert before["rows"] == 4
    found = monitor.answers().to_pylist()
    assert [row for row in found if row["query"] == "all"] == plain.answers().to_pylist()
    assert {row["query"] for row in found} == {"all", "few", "other"}


def test_a_larger_limit_continues_from_a_stored_state():
    fields = {"name": "q", "k": 2, "size": None, "slide": "5 seconds", "key": "player", "value": "points"}
    table = pa.table(
        {
            "ts": pa.array([], pa.timestamp("us")),
            "player": pa.array([], pa.string()),
            "points": pa.array([], pa.float64()),
        }
    )
    before, after, less = (
        plan_for(table.schema, ProjectionRequest(sb.Workload(sb.AggregateTopK(**fields, max_keys=limit)), "ts", None))
        for limit in (2, 3, 1)
    )
    shard = before.shard(0)

    def step(plan, shard, second, *names):
        rows = pa.table({"ts": pa.array([second * SECOND] * len(names), pa.timestamp("us")), "player": list(names),
                         "points": [1.0] * len(names)})  # fmt: skip
        arrived = [one for one in plan.envelopes([plan.project(rows)], plan.counts()) if one.shard == shard.number]
        found, _ = shard.step([one.rows for one in arrived], [one.note for one in arrived], second * SECOND)
        return [row for table in found for row in table.to_pylist()]

    step(before, shard, 1, "ann", "bob")
    step(before, shard, 6, "ann")
    blob = shard.state()
    shard = type(shard).resume(after.plan, 0, blob, shard.segments)
    step(after, shard, 7, "cid")
    assert {row["score"] for row in step(after, shard, 11, "ann")} == {2.0, 1.0}
    shard = type(shard).resume(less.plan, 0, shard.state(), shard.segments)
    with pytest.raises(sb.InvalidInputError, match="max_keys=1"):
        step(less, shard, 20, "ann")


def test_explain_names_the_limit():
    query = sb.AggregateTopK(name="all", k=1, size=None, slide="1 day", key="user", aggregate="count", max_keys=5000)
    assert "keys in a window and shard: all 5,000; more stop the stream" in sb.Workload(query).explain()


def test_sql():
    short = "TOPK count(*), 5 BY KEY user OVER ALL EVERY 1 DAY WITH MAX KEYS 5000"
    query = sb.AggregateTopK(k=5, size=None, slide="1 day", key="user", aggregate="count", max_keys=5000)
    assert (str(query), sb.sql(short), sb.sql(short).max_keys) == (short, query, 5000)
    cql = "SELECT user FROM log [RANGE 1 HOUR] GROUP BY user ORDER BY count(*) DESC LIMIT 5 WITH MAX KEYS 7"
    assert sb.sql(cql).max_keys == 7
    with pytest.raises(sb.InvalidSQLError, match="the number of keys after WITH MAX KEYS"):
        sb.sql("TOPK count(*), 5 BY KEY user OVER 1 DAY WITH MAX KEYS many")
    with pytest.raises(sb.InvalidSQLError, match="max_keys must be between 1 and"):
        sb.sql("TOPK count(*), 5 BY KEY user OVER 1 DAY WITH MAX KEYS 0")


def test_what_is_refused():
    with pytest.raises(sb.InvalidQueryError, match="max_keys must be between 1 and"):
        sb.AggregateTopK(k=1, size=3, max_keys=0)
