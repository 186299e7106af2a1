"""Count windows over frames and in shards: any order of arrival, any batches and restarts give what arrays give."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

import skyband as sb
from skyband.aggregate.brute_force import by_definition
from skyband.local.pipeline import plan_for
from skyband.sharding.projection import ProjectionRequest
from tests.aggregate import oracle, streams
from tests.aggregate.streams import MS, Stream, in_any_order

QUERY = sb.AggregateTopK(name="top", k=2, size=4, slide=2, key="player", value="points", partition_by=["g"])


def counted(rows):
    """Rows in the order in which they are numbered."""
    timed = sorted((row for row in rows if row.position is not None), key=lambda row: (row.position, row.id))
    return [row._replace(position=None) for row in timed]


@pytest.mark.parametrize("seed", range(60))
def test_any_batches_and_restarts_give_the_same(seed):
    random = Random(seed)
    case, queries, rows = streams.drawn(random, axis="count")
    expected = in_any_order(oracle.answers(queries, counted(rows), valued=case.valued))
    delay = random.choice([3, 9]) * MS
    stream = Stream(queries, streams.frame([], case.key_kind).schema, delay=delay, shards=random.choice([1, 3]))
    found = []
    for part in streams.pieces(random, streams.arrived(random, rows, delay)):
        found += streams.told(stream.step(streams.frame(part, case.key_kind)), queries)
        if random.random() < 0.5:
            stream.restart()
    found += streams.told(stream.end(), queries)
    assert in_any_order(found) == expected
    assert sum(counts.late for counts in stream.counts) == 0
    windows = {row[:4] for row in expected}
    assert sum(counts.windows for counts in stream.counts) == len(windows)


@pytest.mark.parametrize("seed", range(30))
def test_frames_in_process(seed):
    random = Random(seed)
    case, queries, rows = streams.drawn(random, axis="count")
    expected = oracle.answers(queries, counted(rows), valued=case.valued)
    table = streams.frame(random.sample(rows, len(rows)), case.key_kind)
    replayed = sb.aggregate.replay(queries, table, time="ts", id="game").to_arrow()
    assert in_any_order(streams.told(replayed, queries)) == in_any_order(expected)
    monitor, found = sb.aggregate.Monitor(queries, time="ts", id="game"), []
    by_time = sorted(rows, key=lambda row: -1 if row.position is None else row.position)
    for part in streams.pieces(random, by_time):
        monitor.push(streams.frame(part, case.key_kind))
        if random.random() < 0.3:
            monitor = sb.aggregate.Monitor.resume(monitor.snapshot())
        if random.random() < 0.3:
            found += streams.told(monitor.answers().to_arrow(), queries)
    monitor.finish()
    found += streams.told(monitor.answers().to_arrow(), queries)
    assert in_any_order(found) == in_any_order(expected)


@pytest.mark.parametrize("seed", range(10))
def test_verify_compares_with_the_definition(seed):
    random = Random(seed)
    case, queries, rows = streams.drawn(random, axis="count")
    queries = [query for query in queries if query.aggregate != "approx_count_distinct"]
    if not queries:
        pytest.skip("verify has no definition of an estimate")
    found = by_definition(streams.frame(rows, case.key_kind), sb.Workload(queries), time="ts", id_="game")
    expected = oracle.answers(queries, counted(rows), valued=case.valued)
    names = ["query", "window_end", "rank", "key", "score"]
    with_rows = any(query.row for query in queries)
    plain = [(row[0], row[3], row[4], row[5], row[6 + with_rows]) for row in expected]
    columns = [[oracle.comparable(value) for value in found[name].to_pylist()] for name in names]
    assert in_any_order(zip(*columns, strict=True)) == in_any_order(plain)


def rows_of(*values, at=None, group="x", first=0):
    """Rows of players a, b, c in turn."""
    return [
        oracle.Row((at or 1 + number) * MS, "abc"[number % 3], value, group, first + number)
        for number, value in enumerate(values)
    ]


def test_frames_without_a_time_are_numbered_by_row():
    table = streams.frame(rows_of(1.0, 2.0, 3.0, 4.0), pa.string()).drop_columns(["ts"])
    query = sb.AggregateTopK(k=1, size=2, key="player", value="points", aggregate="max", row=True)
    found = sb.aggregate.replay(query, table).to_arrow()
    assert found.column_names == [
        "query", "window_start", "window_end", "rank", "key", "score", "player", "points", "game", "g",
    ]  # fmt: skip
    assert found["score"].to_pylist() == [2.0, 4.0]


def test_state_is_bounded_by_the_window_not_by_the_stream():
    query = sb.AggregateTopK(
        name="top", k=2, size=20, slide=5, key="player", value="points", aggregate="max", row=True, partition_by=["g"]
    )
    sizes = []
    stream = Stream([query], streams.frame([], pa.string()).schema)
    for batch in range(60):
        rows = [
            oracle.Row((1 + batch * 100 + place) * MS, f"p{batch}-{place}", float(place % 17), "xy"[place % 2], place)
            for place in range(100)
        ]
        stream.step(streams.frame(rows, pa.string()))
        sizes.append(sum(len(shard.state()) for shard in stream.batches.shards))
    assert max(sizes[30:]) < 1.3 * max(sizes[3:10])
    assert sum(stream.batches.held.values()) < 100


def test_late_rows_are_counted_or_refused():
    schema = streams.frame([], pa.string()).schema
    late = streams.frame(rows_of(7.0, at=1), pa.string())
    stream = Stream([QUERY], schema)
    stream.step(streams.frame(rows_of(1.0, 2.0, at=10), pa.string()))
    stream.step(late)
    assert [counts.late for counts in stream.counts] == [0, 1]
    stream = Stream([QUERY], schema, refuse_late=True)
    stream.step(streams.frame(rows_of(1.0, 2.0, at=10), pa.string()))
    with pytest.raises(sb.InvalidInputError, match="a row at 1000 is behind the watermark 10000"):
        stream.step(late)


def plan_of(queries, shards=2):
    schema = streams.frame([], pa.string()).schema
    return plan_for(schema, ProjectionRequest(sb.Workload(queries), "ts", "game", shards=shards))


def test_queries_can_be_removed_and_not_added():
    other = sb.AggregateTopK(**{**QUERY.to_dict(), "name": "other", "k": 1})
    schema = streams.frame([], pa.string()).schema
    stream = Stream([QUERY, other], schema)
    found = [stream.step(streams.frame(rows_of(1.0, 2.0, 3.0), pa.string()))]
    stream.restart(plan_of([QUERY]))
    found += [stream.step(streams.frame(rows_of(4.0, 5.0, at=10, first=3), pa.string())), stream.end()]
    found = [row for table in found for row in streams.told(table, [QUERY, other]) if row[0] == "top"]
    numbered = counted([*rows_of(1.0, 2.0, 3.0), *rows_of(4.0, 5.0, at=10, first=3)])
    assert found == oracle.answers([QUERY], numbered, grouped=True)
    with pytest.raises(sb.SnapshotError, match=r"query 'other' is not in this checkpoint\. Count windows"):
        stream.restart(plan_of([QUERY, other]))
    with pytest.raises(sb.SnapshotError, match="query 'top' is not in this checkpoint"):
        stream.restart(plan_of([sb.AggregateTopK(**{**QUERY.to_dict(), "value": "points + 1"})]))


def test_a_change_feed_compares_the_windows_of_each_group():
    stream = Stream([QUERY], streams.frame([], pa.string()).schema, output="changes")
    first = [*rows_of(1.0, 2.0, 3.0, 4.0), *rows_of(1.0, 2.0, 3.0, group="y", first=9)]
    second = [*rows_of(5.0, 9.0, at=10, first=20), *rows_of(5.0, at=10, group="y", first=30)]
    found = stream.step(streams.frame(sorted(first, key=lambda row: row.position), pa.string()))
    stream.restart()
    more = pa.concat_tables([stream.step(streams.frame(second, pa.string())), stream.end()])
    changes = {"x": {}, "y": {}}
    for row in [*found.to_pylist(), *more.to_pylist()]:
        changes[row["g"]].setdefault(row["window_end"], set()).add((row["change"], row["key"], row["rank"]))
    assert changes == {
        "x": {
            2: {("entered", "b", 1), ("entered", "a", 2)},
            4: {("moved", "a", 1), ("entered", "c", 2), ("left", "b", None)},
            6: {("entered", "b", 1), ("moved", "a", 2), ("left", "c", None)},
        },
        "y": {
            2: {("entered", "b", 1), ("entered", "a", 2)},
            4: {("moved", "a", 1), ("entered", "c", 2), ("left", "b", None)},
        },
    }
