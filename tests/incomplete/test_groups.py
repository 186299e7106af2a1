"""Groups: each has its own ranking, equal to that of its tuples alone, whatever the batches, restarts and shards."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skyband as sb
from skyband.data.group_key import packed_groups, unpacked_groups
from skyband.local.pipeline import Counts, plan_for
from skyband.sharding.projection import ProjectionRequest
from tests.incomplete import oracle
from tests.incomplete.drive import as_tuples, listed, some_question, some_tuples

GROUPS = {"numbers": [3, 1, None, 2], "text": ["b", None, "a", ""], "nan": [float("nan"), 0.0, 1.5, -2.0]}


def by_group(query, asked, columns, groups, *, on_count):
    """The answers of each group by the oracle: (time, group, rank, object, score), in the order of answers."""
    positions, objects, streams, values = columns
    found, known = [], sorted({one for one in groups if one is not None}) + [None] * (None in groups)
    for place, group in enumerate(known):
        rows = np.array([at for at, one in enumerate(groups) if one == group])
        mine = oracle.answers(
            asked,
            as_tuples(
                None if positions is None else positions[rows],
                [objects[at] for at in rows],
                [streams[at] for at in rows],
                values[rows],
            ),
            count_axis=on_count,
        )
        for end, ranked in mine:
            found += [(end, place, rank, group, *row) for rank, row in enumerate(ranked, 1)]
    found.sort(key=lambda row: row[:3])
    return [(end, group, rank, obj, score) for end, _, rank, group, obj, score in found]


def rows_of(table):
    return [(row["time"], row["group"], row["rank"], row["object"], row["score"]) for row in table.to_pylist()]


@pytest.mark.parametrize("method", ["exact", "sorted-lists"])
@pytest.mark.parametrize("axis", ["count", "time"])
@pytest.mark.parametrize("seed", range(16))
def test_each_group_is_answered_as_alone(method, axis, seed):
    rng = np.random.default_rng(seed)
    on_count = axis == "count"
    query, asked = some_question(rng, method=method, count_axis=on_count)
    columns = some_tuples(rng, asked, 200, count_axis=on_count, text=seed % 2 == 1)
    kind = list(GROUPS)[seed % 3]
    groups = [GROUPS[kind][at] for at in rng.integers(0, 4, 200)]
    plain = [None if isinstance(one, float) and np.isnan(one) else one for one in groups]
    expected = by_group(query, asked, columns, plain, on_count=on_count)
    table = sb.incomplete.replay(query, *columns, groups=groups)
    assert table.column_names[:3] == ["query", "group", "time"]
    found = rows_of(table)
    assert sorted(found, key=repr) == sorted(expected, key=repr) if on_count else found == expected


@pytest.mark.parametrize("method", ["exact", "sorted-lists", "approximate"])
@pytest.mark.parametrize("axis", ["count", "time"])
@pytest.mark.parametrize("seed", range(8))
def test_neither_pushes_nor_restarts_change_an_answer(method, axis, seed):
    rng = np.random.default_rng(2000 + seed)
    on_count = axis == "count"
    query, asked = some_question(rng, method=method, count_axis=on_count)
    whole = sb.IncompleteTopK(**{**query.to_dict(), "name": "whole"})
    each = sb.IncompleteTopK(**{**query.to_dict(), "name": "each", "partition_by": "g"})
    positions, objects, streams, values = some_tuples(rng, asked, 300, count_axis=on_count, text=seed % 2 == 1)
    groups = rng.integers(0, 1 + seed, 300).tolist()
    queries = [whole, each]
    expected = sb.incomplete.Monitor(queries, computed=True)
    expected.push(positions, objects, streams, values, groups=groups)
    expected.finish()
    monitor, parts, at = sb.incomplete.Monitor(queries, computed=True), [], 0
    while at < len(objects):
        to = at + int(rng.integers(1, 40))
        moments = None if positions is None else positions[at:to]
        monitor.push(moments, objects[at:to], streams[at:to], values[at:to], groups=groups[at:to])
        at = to
        if rng.random() < 0.5:
            monitor = sb.incomplete.Monitor.resume(monitor.snapshot())
        if rng.random() < 0.5:
            parts.append(monitor.answers())
        if not on_count and rng.random() < 0.3:
            monitor.advance_to(int(positions[min(at, 300) - 1]))
    monitor.finish()
    parts.append(sb.incomplete.Monitor.resume(monitor.snapshot()).answers())
    found = pa.concat_tables(parts, promote_options="permissive").to_pylist()
    wanted = expected.answers().to_pylist()
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))
    alone = sb.incomplete.replay(query, positions, objects, streams, values)
    mine = [row for row in wanted if row["query"] == "whole"]
    assert listed(pa.Table.from_pylist(mine)) == listed(alone)
    assert {row["group"] for row in mine} == {None}


def test_groups_without_tuples_are_removed():
    query = sb.IncompleteTopK(k=2, size="10 microseconds", streams=["a", "b"], partition_by="g")
    monitor = sb.incomplete.Monitor(query, computed=True)
    for begin in range(0, 1500, 500):
        moments = np.arange(begin, begin + 500)
        monitor.push(moments, moments % 7, ["a"] * 500, np.full(500, 0.5), groups=moments)
    assert monitor.metrics()["groups"] < 30
    assert monitor.metrics()["queries"]["topk"]["created"] == 1499  # the newest waits
    early = monitor.answers().num_rows
    assert len(monitor.snapshot()) < 20_000
    monitor.finish()
    assert early + monitor.answers().num_rows == 1500


def test_added_and_removed_queries_have_groups():
    both = {"streams": ["a", "b"], "partition_by": "g", "every": "5 microseconds"}
    first, later = (sb.IncompleteTopK(name=name, k=2, size="10 microseconds", **both) for name in ("first", "later"))
    rng = np.random.default_rng(4)
    moments, objects = np.arange(200), rng.integers(0, 9, 200).tolist()
    streams, values, groups = rng.choice(["a", "b"], 200), rng.random(200), rng.integers(0, 3, 200)
    monitor = sb.incomplete.Monitor(first, computed=True)
    monitor.push(moments[:90], objects[:90], streams[:90], values[:90], groups=groups[:90])
    begin = monitor.add(later)
    monitor.push(moments[90:], objects[90:], streams[90:], values[90:], groups=groups[90:])
    monitor.remove("first")
    monitor.finish()
    table = monitor.answers()
    names = [name for name in table.column_names if name != "query"]
    mine = {name: table.filter(pc.equal(table["query"], name)).select(names) for name in ("first", "later")}
    ends = mine["first"]["time"].to_numpy()
    old = mine["first"].filter(pa.array((ends >= begin) & (ends < 200)))
    new = mine["later"].filter(pc.less(mine["later"]["time"], 200))
    assert new.num_rows > 50
    assert new.to_pylist() == old.slice(0, new.num_rows).to_pylist()


def test_missing_groups_are_reported():
    query = sb.IncompleteTopK(k=2, size=10, streams=["a"], partition_by="g")
    monitor = sb.incomplete.Monitor(query, computed=True)
    with pytest.raises(sb.InvalidInputError, match=r"groups= is missing: query 'topk' has partition_by=\['g'\]"):
        monitor.push(None, [1], ["a"], [0.5])
    with pytest.raises(sb.InvalidInputError, match="must have the same length"):
        monitor.push(None, [1], ["a"], [0.5], groups=[1, 2])


def frame(rng, asked, rows=400):
    positions, objects, streams, values = some_tuples(rng, asked, rows, count_axis=False)
    return pa.table(
        {
            "ts": pa.array((positions + 100) * 1000).cast(pa.timestamp("us", "UTC")),
            "row": pa.array(np.arange(rows)),
            "o": pa.array(objects),
            "s": pa.array(streams),
            "v": pa.array(values),
            "site": pa.array([["east", None, "", "west"][at] for at in rng.integers(0, 4, rows)]),
            "kind": pa.array([[1.5, None, float("nan"), -0.0][at] for at in rng.integers(0, 4, rows)], pa.float32()),
        }
    )


def workload(rng, asked, **more):
    fields = {"every": f"{asked.every} milliseconds", "object": "o", "stream": "s", "value": "v"}
    query, _ = some_question(rng, count_axis=False)
    base = {
        **query.to_dict(),
        "streams": asked.streams,
        "bounds": asked.bounds,
        "weights": asked.weights,
        "aggregate": asked.aggregate,
        "occurrences": asked.occurrences,
        "k": asked.k,
        "size": f"{asked.size} milliseconds",
        "origin": 0,
        **fields,
        **more,
    }
    return [
        sb.IncompleteTopK(**{**base, "name": "all"}),
        sb.IncompleteTopK(**{**base, "name": "site", "partition_by": ["site"]}),
        sb.IncompleteTopK(**{**base, "name": "both", "partition_by": ["Site", "kind"], "where": "v > 0.1 or true"}),
    ]


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 8))])
def test_data_frames_have_groups_of_several_columns(shards, seed):
    rng = np.random.default_rng(100 + seed)
    _, asked = some_question(rng, count_axis=False)
    table = frame(rng, asked)
    queries = workload(rng, asked)
    plan = plan_for(table.schema, ProjectionRequest(sb.Workload(queries), "ts", "row", shards=shards))
    found = pa.concat_tables(plan.bounded([plan.project(table)], Counts()))
    assert found.column_names == ["query", "site", "kind", "time", "rank", "object", "score"]
    whole = sb.replay(queries, table, time="ts", id="row").to_arrow()
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, whole.to_pylist()))
    from skyband.incomplete.brute_force import by_definition

    expected = by_definition(table, sb.Workload(queries), time="ts", id_="row")
    names = {"Site": "site"}
    lines = []
    for row in expected.to_pylist():
        site = row["Site"] if row["query"] == "both" else row["site"]
        lines.append((row["query"], site, row["kind"], row["time"], row["rank"], row["object"], row["score"]))
    mine = [tuple(row.values()) for row in whole.to_pylist()]
    assert sorted(map(repr, mine)) == sorted(map(repr, lines)), names
    by_name = {name: whole.filter(pc.equal(whole["query"], name)) for name in ("all", "site", "both")}
    assert by_name["all"]["site"].null_count == by_name["all"].num_rows
    assert by_name["site"]["kind"].null_count == by_name["site"].num_rows


@pytest.mark.parametrize("seed", range(4))
def test_a_change_feed_compares_groups(seed):
    """Changes applied one after another give the answers, in shards by group."""
    rng = np.random.default_rng(300 + seed)
    _, asked = some_question(rng, count_axis=False)
    asked = asked._replace(aggregate="sum", bounds=(0.0, 1.0), weights=None, occurrences=1)
    table = frame(rng, asked, 200)
    table = table.set_column(4, "v", pa.array(rng.integers(0, 9, 200) / 8))
    queries = workload(rng, asked)[:2]
    request = ProjectionRequest(sb.Workload(queries), "ts", "row", output="both", shards=3)
    plan = plan_for(table.schema, request)
    found = pa.concat_tables(plan.bounded([plan.project(table)], Counts()), promote_options="permissive").to_pylist()
    answers = [row for row in found if row["change"] is None]
    plain = sb.replay(queries, table, time="ts", id="row").to_arrow().to_pylist()
    names = ("query", "site", "time", "rank", "object", "score")
    assert sorted(repr([row[name] for name in names]) for row in answers) == sorted(
        repr([row[name] for name in names]) for row in plain
    )
    held, windows = {}, {}
    for row in plain:
        windows.setdefault((row["query"], row["site"], row["time"]), {})[row["object"]] = row["rank"]
    changes = [row for row in found if row["change"] is not None]
    assert changes
    for key in sorted({(row["query"], row["site"], row["time"]) for row in changes}, key=lambda key: key[2]):
        mine = held.setdefault(key[:2], {})
        for row in changes:
            if (row["query"], row["site"], row["time"]) != key:
                continue
            if row["change"] == "left":
                del mine[row["object"]]
            else:
                mine[row["object"]] = row["rank"]
        assert mine == windows.get(key, {}), key


def test_packed_groups_come_back():
    columns = [
        pa.array(["x", None, "", "y"]),
        pa.array([1, None, -5, 2**62], pa.int64()),
        pa.array([None, 0.5, -0.0, 0.0], pa.float32()),
        pa.array([True, False, None, True]),
        pa.array([0, 1, None, -1], pa.int32()).cast(pa.date32()),
        pa.array(["1.50", None, "-2.25", "0.00"]).cast(pa.decimal128(9, 2)),
        pa.array([b"\x00", b"", None, b"\xff"]),
        pa.array(["p", "q", None, "p"]).dictionary_encode(),
    ]
    found = unpacked_groups(packed_groups(columns), [column.type for column in columns])
    for column, back in zip(columns, found, strict=True):
        assert back.type == column.type
        assert back.to_pylist() == column.to_pylist()
    nothing = unpacked_groups(pa.nulls(2, pa.binary()), [pa.string(), pa.int64()])
    assert [column.to_pylist() for column in nothing] == [[None, None], [None, None]]
