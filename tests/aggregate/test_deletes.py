"""Rows that delete their key: the newest row of a key in the window decides, however rows are divided and ordered."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.aggregate.brute_force import by_definition
from tests.aggregate import oracle

SECOND = 1_000_000


def drawn(random, *, count=False, grouped=False, ids=True):
    """Random rows, a third of them deletes: with ties, gaps, and values that are missing or infinite."""
    position, rows = 0, []
    names = random.sample(range(200), 200)
    for _ in range(random.randint(0, 70)):
        position += random.choice([0, 0, 1, 1, 3, 20 if random.random() < 0.1 else 0])
        deleted = random.random() < 0.35
        values = [1.0, 2.0, -1.0, 0.0, -0.0, np.inf, -np.inf, np.nan, None]
        rows.append(
            oracle.Row(
                None if count or random.random() < 0.03 else position * SECOND,
                random.choice([*"abcd", None]),
                random.choice(values),
                random.choice(["x", "y", None]) if grouped else None,
                names[len(rows)] if ids else None,
                deleted,
            )
        )
    return rows


def queries(random, *, count=False, grouped=False, **more):
    found = []
    for number in range(random.randint(1, 4)):
        size = random.randint(1, 20)
        slide = random.randint(1, size)
        found.append(
            sb.AggregateTopK(
                name=f"q{number}",
                k=random.choice([1, 2, 100]),
                size=size if count else f"{size} seconds",
                slide=slide if count else f"{slide} seconds",
                aggregate="latest",
                row=random.random() < 0.5,
                order=random.choice(["desc", "asc"]),
                having=random.choice([None, "score > 0", "latest(value) <> 1"]),
                full_only=random.random() < 0.3,
                partition_by=["g"] if grouped and random.random() < 0.5 else (),
                **more,
            )
        )
    return found


def columns(rows, *, count, grouped, ids):
    return {
        "positions": None if count else pa.array([row.position for row in rows], pa.int64()),
        "keys": pa.array([row.key for row in rows], pa.string()),
        "values": pa.array([row.value for row in rows], pa.float64()),
        "ids": pa.array([row.id for row in rows], pa.int64()) if ids else None,
        "groups": pa.array([row.group for row in rows], pa.string()) if grouped else None,
        "deletes": pa.array([row.delete for row in rows], pa.bool_()),
    }


@pytest.mark.parametrize("seed", range(40))
def test_arrays_in_any_batches_agree_with_the_definition(seed):
    random = Random(seed)
    given = {"count": random.random() < 0.3, "grouped": random.random() < 0.4}
    ids = random.random() < 0.5
    rows, asked = drawn(random, **given, ids=ids), queries(random, **given)
    expected = oracle.answers(asked, rows, grouped=given["grouped"])
    monitor, low, found = sb.aggregate.Monitor(asked), 0, []
    while low < len(rows):
        high = min(len(rows), low + random.randint(1, 25))
        monitor.push(**columns(rows[low:high], **given, ids=ids))
        low = high
        if random.random() < 0.4:
            monitor = sb.aggregate.Monitor.resume(monitor.snapshot())
        found += oracle.listed(monitor.answers())
    monitor.finish()
    found += oracle.listed(monitor.answers())
    assert sorted(found, key=repr) == sorted(expected, key=repr)  # groups of count windows end at different rows


def frame(rows, *, ids):
    return pa.table(
        {
            "ts": pa.array([row.position for row in rows], pa.timestamp("us")),
            "player": pa.array([row.key for row in rows], pa.string()),
            "points": pa.array([row.value for row in rows], pa.float64()),
            "g": pa.array([row.group for row in rows], pa.string()),
            "op": ["d" if row.delete else ["u", None][number % 2] for number, row in enumerate(rows)],
            **({"game": pa.array([row.id for row in rows], pa.int64())} if ids else {}),
        }
    )


def told(table):
    """Answers as the oracle has them, without the columns of rows."""
    names = ["query", "g", "window_start", "window_end", "rank", "key", "score"]
    table = table.cast(
        pa.schema([(item.name, pa.int64()) if pa.types.is_timestamp(item.type) else item for item in table.schema])
    )
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


EXPRESSIONS = {"key": "player", "value": "points", "delete": "op = 'd'"}


def grouped_queries(random):
    asked = queries(random, grouped=True, **EXPRESSIONS)
    for query in asked:
        object.__setattr__(query, "partition_by", ("g",))
    return [sb.AggregateTopK(**{**query.to_dict(), "row": False}) for query in asked]


@pytest.mark.parametrize("seed", range(30))
def test_frames_in_any_order_agree_with_the_definition(seed):
    random = Random(seed)
    rows, asked = drawn(random, grouped=True), grouped_queries(random)
    rows = [row for row in rows if row.position is not None]
    expected = oracle.answers(asked, rows, grouped=True)
    shuffled = random.sample(rows, len(rows))
    if rows:
        assert told(sb.replay(asked, frame(shuffled, ids=True), time="ts", id="game")) == expected


@pytest.mark.parametrize("seed", range(15))
def test_without_ids_a_delete_follows_the_values_of_its_time(seed):
    random = Random(seed)
    rows = [row for row in drawn(random, grouped=True) if row.position is not None]
    asked = grouped_queries(random)

    def place(row):
        value = row.value if row.value is not None and row.value == row.value else 0.0
        return row.position, row.delete, value

    in_order = [row._replace(id=number) for number, row in enumerate(sorted(rows, key=place))]
    shuffled = random.sample(rows, len(rows))
    monitor, low, found = sb.aggregate.Monitor(asked, time="ts"), 0, []
    by_time = sorted(shuffled, key=lambda row: row.position)
    while low < len(rows):
        high = min(len(rows), low + random.randint(1, 20))
        monitor.push(frame(by_time[low:high], ids=False))
        low = high
        if random.random() < 0.4:
            monitor = sb.aggregate.Monitor.resume(monitor.snapshot())
        found += told(monitor.answers())
    monitor.finish()
    assert found + (told(monitor.answers()) if rows else []) == oracle.answers(asked, in_order, grouped=True)


@pytest.mark.parametrize("seed", range(10))
def test_verify_compares_with_the_definition(seed):
    random = Random(seed)
    rows = [row for row in drawn(random, grouped=True) if row.position is not None]
    asked = grouped_queries(random)
    found = by_definition(frame(rows, ids=True), sb.Workload(asked), time="ts", id_="game")
    names = ["query", "g", "window_end", "rank", "key", "score"]
    found = found.set_column(2, "window_end", found["window_end"].cast(pa.int64())) if rows else found
    expected = [(name, group, *rest) for name, group, _, *rest in oracle.answers(asked, rows, grouped=True)]
    columns = [found[name].to_pylist() for name in names]
    assert sorted(zip(*columns, strict=True), key=repr) == sorted(expected, key=repr)


def test_a_deleted_key_returns_with_its_next_value():
    query = sb.AggregateTopK(k=5, size="10 seconds", slide="1 second", aggregate="latest")
    ts, keys = [0, 1, 2, 3], ["ann", "bob", "ann", "ann"]
    found = sb.aggregate.replay(
        query, [at * SECOND for at in ts], keys, [5.0, 1.0, None, 7.0], deletes=[False, False, True, False]
    )
    by_end = {}
    for row in found.to_pylist():
        by_end.setdefault(row["window_end"] // SECOND, {})[row["key"]] = row["score"]
    assert [by_end[end] for end in (1, 2, 3, 4)] == [{"ann": 5}, {"ann": 5, "bob": 1}, {"bob": 1}, {"ann": 7, "bob": 1}]


def test_the_newest_row_inside_the_window_decides():
    # The delete at second 4 is in no window that ends at second 4, and leaves with second 14.
    query = sb.AggregateTopK(k=5, size="10 seconds", slide="2 seconds", aggregate="latest", **EXPRESSIONS)
    rows = [oracle.Row(0, "a", 3.0), oracle.Row(4 * SECOND, "a", None, delete=True), oracle.Row(13 * SECOND, "b", 1.0)]
    found = sb.replay(query, frame(rows, ids=False), time="ts")
    ends = {(row["key"], row["window_end"].second) for row in found.to_pylist()}
    assert {end for key, end in ends if key == "a"} == {2, 4}


def test_a_filter_is_applied_before_a_delete():
    query = sb.AggregateTopK(k=5, size="10 seconds", aggregate="latest", where="points is null", **EXPRESSIONS)
    rows = [oracle.Row(0, "a", 3.0), oracle.Row(1, "a", None, delete=True)]
    assert not sb.replay(query, frame(rows, ids=False), time="ts").num_rows


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"aggregate": "sum"}, "no row can delete it"),
        ({"having": "count(*) > 1"}, "having has a condition on count"),
        ({"delete": " "}, "delete"),
    ],
)
def test_queries_that_deletes_have_no_meaning_for_are_rejected(fields, said):
    with pytest.raises(sb.InvalidQueryError, match=said):
        sb.AggregateTopK(**{"k": 1, "size": "1 hour", "aggregate": "latest", "delete": "gone", **fields})


def test_pushes_with_wrong_deletes_change_nothing():
    monitor = sb.aggregate.Monitor(sb.AggregateTopK(k=1, size=2, aggregate="latest", delete="gone"))
    before = monitor.snapshot()
    for deletes, said in ((None, "deletes= is missing"), ([1], "must be Boolean"), ([True, False], "same length")):
        with pytest.raises(sb.InvalidInputError, match=said):
            monitor.push(None, ["a"], [1.0], deletes=deletes)
    assert monitor.snapshot() == before
    plain = sb.aggregate.Monitor(sb.AggregateTopK(k=1, size=2, aggregate="max"))
    with pytest.raises(sb.InvalidInputError, match="uses the max of a key"):
        plain.push(None, ["a"], [1.0], deletes=[True])
    with pytest.raises(sb.InvalidQueryError, match="delete=\"op = 'd'\""):
        sb.aggregate.Monitor(sb.AggregateTopK(k=1, size=2, aggregate="latest", delete="op = 'd'"))


def test_a_delete_must_be_boolean():
    query = sb.AggregateTopK(k=1, size="1 hour", aggregate="latest", key="player", value="points", delete="points")
    with pytest.raises(sb.InvalidQueryError, match="delete='points' must be Boolean"):
        sb.replay(query, frame([oracle.Row(0, "a", 3.0)], ids=False), time="ts")
