"""The newest, oldest and best rows of keys over data frames: whatever the order and the division of rows."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

import skyband as sb
from skyband.aggregate import row_store
from tests.aggregate import cases, oracle

SECOND = 1_000_000
WINDOW = {"size": "10 seconds", "slide": "5 seconds", "key": "player", "value": "points"}


def drawn(seed, rows=60, ids="text"):
    random = Random(seed)
    position, found = 0, []
    for number in random.sample(range(rows), rows):
        position += random.choice([0, 0, 1, 3]) * SECOND
        name = f"game {number:03}" if ids == "text" else None
        found.append(oracle.Row(position, random.choice("abcde"), random.choice([1.0, 2.0, -1.0, 0.0]), None, name))
    return found


def frame(rows):
    return pa.table(
        {
            "ts": pa.array([row.position for row in rows], pa.timestamp("us")),
            "player": [row.key for row in rows],
            "points": [row.value for row in rows],
            "game": pa.array([row.id for row in rows], pa.string()),
            "note": [f"{row.key} {row.value}" for row in rows],
        }
    )


def queries(**more):
    return [
        sb.AggregateTopK(name=f"{kind} {row}", k=2, aggregate=kind, row=row, **WINDOW, **more)
        for kind in cases.ROWS
        for row in (True, False)
    ]


def test_a_group_column_of_another_query_is_a_column_of_the_row():
    rows = frame(drawn("own")).append_column("mode", pa.array([["a", "b", None][number % 3] for number in range(60)]))
    alone, grouped = (
        sb.AggregateTopK(name=name, k=3, aggregate="max", row=True, partition_by=groups, **WINDOW)
        for name, groups in (("whole", []), ("each", ["mode"]))
    )
    often = sb.AggregateTopK(name="often", k=3, aggregate="count", partition_by=["Mode"], **WINDOW)
    plain = sb.AggregateTopK(name="sum", k=3, **WINDOW)
    modes = dict(zip(rows["game"].to_pylist(), rows["mode"].to_pylist(), strict=True))
    monitor = sb.aggregate.Monitor([alone, grouped, often, plain], time="ts", id="game")
    for low in (0, 17, 40):
        monitor.push(rows.slice(low, {0: 17, 17: 23, 40: 20}[low]))
        monitor = sb.aggregate.Monitor.resume(monitor.snapshot())
    monitor.finish()
    found = monitor.answers().to_pylist()
    assert found == sb.replay([alone, grouped, often, plain], rows, time="ts", id="game").to_pylist()
    names = ["window_end", "rank", "key", "score", "game", "mode"]
    mine = [{name: row[name] for name in names} for row in found if row["query"] == "whole"]
    assert mine == sb.replay(alone, rows, time="ts", id="game").select(names).to_pylist()
    assert {row["mode"] for row in mine} == {"a", "b", None}
    assert all(row["mode"] == modes[row["game"]] for row in found if row["query"] in ("whole", "each"))
    assert {row["mode"] for row in found if row["query"] == "often"} == {"a", "b", None}
    assert {row["mode"] for row in found if row["query"] == "sum"} == {None}


def told(table):
    """Answers as the oracle has them."""
    names = ["query", "window_start", "window_end", "rank", "player", "game", "score"]
    columns = [
        table[name if name != "player" else "key"]
        .cast(pa.int64() if pa.types.is_timestamp(table[name].type) else table[name].type)
        .to_pylist()
        for name in names
    ]
    for row in table.to_pylist():
        returned = row["query"].endswith("True")
        assert row["note"] == (f"{row['key']} {row['score']}" if returned else None)
        assert row["player"] == (row["key"] if returned else None)
    return [(row[0], None, *row[1:]) for row in zip(*columns, strict=True)]


@pytest.mark.parametrize("seed", range(30))
def test_frames_in_any_order_return_the_same_rows(seed):
    rows, asked = drawn(seed), queries(order="asc" if seed % 2 else "desc")
    expected = oracle.answers(asked, rows)
    shuffled = Random(seed).sample(rows, len(rows))
    assert told(sb.replay(asked, frame(shuffled), time="ts", id="game")) == expected


@pytest.mark.parametrize("seed", range(20))
def test_a_monitor_asleep_between_frames_returns_the_same_rows(seed, monkeypatch):
    monkeypatch.setattr(row_store, "_FEW", 4)
    rows, asked = drawn(seed), queries()
    monitor = sb.aggregate.Monitor(asked, time="ts", id="game")
    random, low, found = Random(seed), 0, []
    while low < len(rows):
        high = min(len(rows), low + random.randint(1, 20))
        monitor.push(frame(rows[low:high]))
        low = high
        if random.random() < 0.4:
            monitor = sb.aggregate.Monitor.resume(monitor.snapshot())
        found += told(monitor.answers())
    monitor.finish()
    assert found + told(monitor.answers()) == oracle.answers(asked, rows)


def test_unused_rows_are_released(monkeypatch):
    monkeypatch.setattr(row_store, "_FEW", 8)
    query = sb.AggregateTopK(k=1, aggregate="latest", row=True, **WINDOW)
    monitor = sb.aggregate.Monitor(query, time="ts", id="game")
    for second in range(0, 1000, 5):
        rows = [oracle.Row((second + place) * SECOND, "ab"[place % 2], 1.0, None, f"g{place}") for place in range(5)]
        monitor.push(frame(rows))
    assert all(len(shard._rows) <= 32 for shard in monitor._shards)


def test_without_ids_rows_with_the_same_time_are_ordered_by_value():
    rows = [oracle.Row(0, "a", value) for value in (1.0, 3.0, 2.0)]
    for kind, score in (("latest", 3.0), ("first", 1.0), ("max", 3.0), ("min", 1.0)):
        for row in (True, False):
            query = sb.AggregateTopK(k=1, aggregate=kind, row=row, **WINDOW)
            table = sb.replay(query, frame(rows), time="ts")
            assert set(table["score"].to_pylist()) == {score}
            if row:
                assert set(table["points"].to_pylist()) == {score}


def test_equal_rows_without_ids_do_not_depend_on_their_order():
    rows = [oracle.Row(0, "a", 1.0, None, f"game {number}") for number in range(9)]
    query = sb.AggregateTopK(k=1, aggregate="max", row=True, **WINDOW)
    tables = [sb.replay(query, frame(Random(seed).sample(rows, 9)), time="ts") for seed in range(5)]
    assert len({tuple(table["game"].to_pylist()) for table in tables}) == 1


def test_arrays_return_the_id_or_the_number_of_the_row():
    query = sb.AggregateTopK(k=2, size=4, aggregate="max", row=True)
    found = sb.aggregate.replay(query, None, list("abab"), [1.0, 5.0, 3.0, 5.0])
    assert found.column_names[-3:] == ["key", "id", "score"]
    assert found.select(["key", "id"]).to_pylist() == [{"key": "b", "id": 3}, {"key": "a", "id": 2}]
    timed = sb.AggregateTopK(k=2, size="4 seconds", aggregate="latest", row=True)
    monitor = sb.aggregate.Monitor(timed)
    monitor.push([5, 5], ["a", "a"], [1.0, 2.0], ids=[40, 30])
    monitor.push([5], ["a"], [9.0], ids=[35])  # at the same time: the larger id counts, not the later push
    monitor.finish()
    assert monitor.answers().select(["id", "score"]).to_pylist() == [{"id": 40, "score": 1.0}]


def test_ids_are_rejected_before_anything_changes():
    monitor = sb.aggregate.Monitor(sb.AggregateTopK(k=1, size=2, aggregate="latest"))
    monitor.push(None, ["a"], [1.0], ids=[1])
    before = monitor.snapshot()
    for ids, said in ((None, "ids= is missing"), (["x"], "ids must be integers"), ([1, 2], "same length")):
        with pytest.raises(sb.InvalidInputError, match=said):
            monitor.push(None, ["a"], [1.0], ids=ids)
    assert monitor.snapshot() == before
    plain = sb.aggregate.Monitor(sb.AggregateTopK(k=1, size=2))
    plain.push(None, ["a"], [1.0])
    with pytest.raises(sb.InvalidInputError, match="ids= was given, but earlier pushes had none"):
        plain.push(None, ["a"], [1.0], ids=[1])


@pytest.mark.parametrize("name", ["count", "Max", "latest", "last", "pane", "window", "limb_33", "first", "a.b"])
def test_groups_may_have_the_names_of_own_columns(name):
    rows = [row._replace(group=random_group) for row, random_group in zip(drawn(3), "xyz" * 20, strict=True)]
    table = frame(rows).append_column(name, pa.array([row.group for row in rows]))
    by = f"`{name}`" if "." in name else name
    kinds = ("sum", "latest")
    asked = [sb.AggregateTopK(name=kind, k=2, aggregate=kind, partition_by=[by], **WINDOW) for kind in kinds]
    found = sb.replay(asked, table, time="ts", id="game")
    group = next(column for column in found.column_names if column.strip("`") == name)
    moments = [found[column].cast(pa.int64()).to_pylist() for column in ("window_start", "window_end")]
    others = [found[column].to_pylist() for column in ("rank", "key", "score")]
    listed = list(zip(found["query"].to_pylist(), found[group].to_pylist(), *moments, *others, strict=True))
    assert listed == oracle.answers(asked, rows, grouped=True)


def test_explain_names_which_rows_are_kept():
    assert "the row of each max, min, latest, first that can" in sb.Workload(queries()).explain()
    assert "  rows  " not in sb.Workload([query for query in queries() if not query.row]).explain()


def test_sums_have_no_row():
    with pytest.raises(sb.InvalidQueryError, match="row=True, but the score of aggregate='sum' is not"):
        sb.AggregateTopK(k=1, size=3, row=True)
    with pytest.raises(sb.InvalidQueryError, match="row must be True or False"):
        sb.AggregateTopK(k=1, size=3, aggregate="max", row="yes")
