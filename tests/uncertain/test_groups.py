"""Groups of uncertain tuples: each is answered from its own tuples, at moments that all groups share."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skyband as sb
from skyband.local.pipeline import Counts, plan_for
from skyband.sharding.projection import ProjectionRequest
from skyband.uncertain.brute_force import by_moments
from skyband.uncertain.plan import PaneCut
from skyband.uncertain.reducer import possible_answers, separated
from tests.uncertain.drive import answers_of, check_answer, check_times, cut, random_query, random_stream, timed, window
from tests.uncertain.test_monitor import few_at_once

NAMES = ["b", None, "a", ""]


def case(seed, *, count_axis=False):
    draw = random.Random(seed)
    size = draw.choice([3, 6, 8])
    queries = [random_query(draw, f"q{i}", size) for i in range(draw.randint(1, 3))]
    rows = []
    for group in NAMES:
        mine = random_stream(draw, draw.choice([1, 5, 25]), size, count_axis=count_axis, text_ids=seed % 3 == 0)
        mine = mine if count_axis else few_at_once(mine, size)
        rows += [(group, row) for row in mine]
    if count_axis:
        left = {group: [row for at, row in rows if at == group] for group in NAMES}
        rows = []
        while any(left.values()):
            group = draw.choice([group for group, mine in left.items() if mine])
            rows.append((group, left[group].pop(0)))
    else:
        rows.sort(key=lambda pair: pair[1].position)
        queries = [timed(query) for query in queries]
    return draw, size, queries, rows


def push(monitor, rows):
    columns = [[getattr(row, name) for _, row in rows] for name in ("score", "probability", "rule", "id")]
    positions = [row.position for _, row in rows] if monitor.queries[0].axis == "time" else None
    monitor.push(positions, *columns, groups=pa.array([group for group, _ in rows], pa.string()))


def by_group(table):
    found = {}
    for group in NAMES:
        mine = pc.is_null(table["group"]) if group is None else pc.equal(table["group"], group)
        found[group] = table.filter(pc.fill_null(mine, False)).drop_columns(["group"])
    return found


@pytest.mark.parametrize("axis", ["count", "time"])
@pytest.mark.parametrize("seed", range(20))
def test_each_group_agrees_with_all_worlds(axis, seed):
    """Also in pieces, with restarts; no answer comes later than `every` after the one before it."""
    on_count = axis == "count"
    draw, size, queries, rows = case(seed, count_axis=on_count)
    monitor, parts = sb.uncertain.Monitor(queries), []
    for batch in cut(draw, rows):
        push(monitor, batch)
        if draw.random() < 0.4:
            monitor = sb.uncertain.Monitor.resume(monitor.snapshot())
        if draw.random() < 0.4:
            parts.append(monitor.answers())
    monitor.finish()
    parts.append(monitor.answers())
    table = pa.concat_tables(parts, promote_options="permissive")
    whole = sb.uncertain.Monitor(queries)
    push(whole, rows)
    whole.finish()
    expected = whole.answers()
    assert sorted(map(repr, table.to_pylist())) == sorted(map(repr, expected.to_pylist()))
    for group, mine in by_group(expected).items():
        tuples = [row for at, row in rows if at == group]
        found = answers_of(mine)
        for query in queries:
            answers = {time: answer for (name, time), answer in found.items() if name == query.name}
            for time, answer in answers.items():
                check_answer(query, window(tuples, time - size, time, count_axis=on_count), answer)
            if query.semantics not in ("pt-k", "prf"):  # whose answers may be empty
                last = len(tuples) if on_count else tuples[-1].position + size
                check_times(query, tuples, list(answers), last)


def test_all_groups_have_the_same_moments():
    """They are multiples of the plan's cycle, whatever the first tuple."""
    queries = [
        sb.UncertainTopK(name=name, k=k, size="20 microseconds", every=f"{every} microseconds", partition_by="g")
        for name, every, k in [("q1", 2, 3), ("q3", 3, 4), ("q5", 5, 5)]
    ]
    rng = np.random.default_rng(1)
    positions = np.cumsum(rng.integers(0, 3, 300))
    columns = (rng.integers(0, 9, 300).astype(float), rng.integers(1, 9, 300) / 8)
    groups = rng.integers(0, 4, 300)

    def moments(table):
        return {(row["query"], row["group"], row["time"]) for row in table.to_pylist()}

    whole = sb.uncertain.Monitor(queries, computed=True)
    whole.push(positions, *columns, groups=groups)
    whole.finish()
    found = moments(whole.answers())
    for group in range(4):
        mine = groups == group
        alone = sb.uncertain.Monitor(queries, computed=True)
        alone.push(positions[mine], *(column[mine] for column in columns), groups=groups[mine])
        alone.finish()
        assert moments(alone.answers()) == {one for one in found if one[1] == group}


def test_rules_exclude_tuples_of_their_group_only():
    query = sb.UncertainTopK(k=2, size="10 microseconds", partition_by="g")
    monitor = sb.uncertain.Monitor(query, computed=True)
    monitor.push([1, 1], [5.0, 4.0], [0.75, 0.75], ["r", "r"], groups=["a", "b"])
    before = monitor.snapshot()
    with pytest.raises(sb.InvalidInputError, match=r"the probabilities of rule 'r' add up to 1\.25 in the window"):
        monitor.push([2, 2, 2], [9.0, 9.0, 1.0], [0.125, 0.5, 0.5], ["r", "r", None], groups=["b", "a", "c"])
    assert monitor.snapshot() == before
    monitor.push([2, 2], [9.0, 9.0], [0.25, 0.25], ["r", "r"], groups=["b", "a"])
    monitor.finish()
    assert len(monitor.answers()) == 4


def test_groups_without_tuples_are_removed():
    query = sb.UncertainTopK(k=2, size="10 microseconds", every="5 microseconds", partition_by="g")
    monitor = sb.uncertain.Monitor(query, computed=True)
    early = 0
    for begin in range(0, 900, 300):
        moments = np.arange(begin, begin + 300)
        monitor.push(moments, moments / 7, np.full(300, 0.5), groups=moments)
        early += len(monitor.answers())
    assert monitor.metrics()["groups"] < 30
    assert len(monitor.snapshot()) < 60_000
    monitor.finish()
    assert early + len(monitor.answers()) == 1800


def test_queries_come_and_go_with_groups():
    rng = np.random.default_rng(8)
    positions = np.cumsum(rng.integers(0, 3, 240))
    scores, chances = rng.integers(0, 9, 240).astype(float), rng.integers(1, 9, 240) / 8
    groups = rng.integers(0, 3, 240)
    common = {"size": "20 microseconds", "partition_by": "g"}
    first = sb.UncertainTopK(name="first", k=2, every="4 microseconds", **common)
    later = sb.UncertainTopK(name="later", k=2, every="6 microseconds", **common)
    monitor = sb.uncertain.Monitor(first, computed=True)

    def part(low, high):
        monitor.push(positions[low:high], scores[low:high], chances[low:high], groups=groups[low:high])

    part(0, 100)
    monitor.add(later)
    part(100, 200)
    monitor.remove("first")
    part(200, 240)
    monitor.finish()
    table = monitor.answers()
    for row in table.to_pylist():
        assert row["query"] == "first" or row["time"] >= positions[99]
    found = defaultdict(list)
    for row in table.to_pylist():
        found[row["query"], row["group"], row["time"]].append((row["id"], row["score"], row["probability"]))
    for (_, group, time), answer in found.items():
        inside = (groups == group) & (positions >= time - 20) & (positions < time)
        expected = sb.uncertain.rank(scores[inside], chances[inside], 2).to_pylist()
        rows = np.flatnonzero(inside)
        if time == positions[99]:
            continue  # rows of this moment arrive later
        assert [(int(rows[one["row"]]), one["score"]) for one in expected] == [one[:2] for one in answer]
    count = sb.UncertainTopK(k=1, size=5, partition_by="g")
    monitor = sb.uncertain.Monitor(count, computed=True)
    monitor.push(None, [1.0], [0.5], groups=["a"])
    with pytest.raises(sb.UnsupportedError, match="count windows with groups after the first push"):
        monitor.add(sb.UncertainTopK(name="more", k=1, size=5, partition_by="g"))


def test_queries_of_a_monitor_have_the_same_groups():
    queries = [sb.UncertainTopK(name=name, k=1, size=5, partition_by=by) for name, by in (("a", "g"), ("b", ()))]
    with pytest.raises(sb.InvalidQueryError, match=r"have different groups \(\['g'\] and \[\]\)"):
        sb.uncertain.Monitor(queries, computed=True)


FRAME = {"by": "s", "probability": "p", "size": "40 milliseconds"}
QUERIES = [
    sb.UncertainTopK(name="all", k=2, every="4 milliseconds", rule="r", **FRAME),
    sb.UncertainTopK(name="site", k=2, every="4 milliseconds", rule="r", partition_by="site", **FRAME),
    sb.UncertainTopK(name="often", k=3, every="6 milliseconds", rule="r", partition_by="site", **FRAME),
    sb.UncertainTopK(name="both", k=1, every="5 milliseconds", partition_by=["Site", "kind"], order="asc", **FRAME),
    sb.UncertainTopK(name="streams", k=2, every="8 milliseconds", partition_by="kind", stream="o", **FRAME),
]


def frame(seed, rows=300, sure=False):
    rng = np.random.default_rng(seed)
    chances = np.where(rng.random(rows) < 0.7, 1.0, 0.5) if sure else rng.integers(1, 6, rows) / 100
    rules = [f"r{number}" if number < 8 and not sure else None for number in rng.integers(0, 16, rows)]
    return pa.table(
        {
            "ts": pa.array(np.cumsum(rng.integers(0, 4, rows)) * (30 if sure else 1000) + 5000).cast(
                pa.timestamp("us", "UTC")
            ),
            "row": pa.array(np.arange(rows)),
            "s": pa.array(rng.integers(0, 20, rows).astype(float)),
            "p": pa.array(chances),
            "r": pa.array(rules, pa.string()),
            "o": pa.array(rng.choice(["x", "y", "z"], rows)),
            "site": pa.array([["east", None, "", "west"][at] for at in rng.integers(0, 4, rows)]),
            "kind": pa.array([[1, None, 7][at] for at in rng.integers(0, 3, rows)], pa.int32()),
        }
    )


@pytest.mark.parametrize("sure", [False, True])
@pytest.mark.parametrize("seed", [0, pytest.param(3, marks=pytest.mark.long), pytest.param(4, marks=pytest.mark.long)])
def test_data_frames_have_groups(seed, sure):
    """Certain tuples too, of which the reducer drops those that no answer of their group can contain."""
    table = frame(seed, sure=sure)
    found = sb.replay(QUERIES, table, time="ts", id="row").to_arrow()
    assert found.column_names[:4] == ["query", "site", "kind", "time"]
    names = [name for name in found.column_names if name != "site"]
    as_defined = found.append_column("Site", found["site"])
    expected, _ = by_moments(table, sb.Workload(QUERIES), time="ts", id_="row", found=as_defined)
    lines = defaultdict(list)
    for row in expected.to_pylist():
        row["site"] = row.pop("Site") if row["query"] == "both" else (row.pop("Site"), row["site"])[1]
        lines["expected"].append(repr([row["site"], *(row[name] for name in names)]))
    for row in found.to_pylist():
        lines["found"].append(repr([row["site"], *(row[name] for name in names)]))
    assert sorted(lines["found"]) == sorted(lines["expected"])
    for query in ("site", "both"):
        mine = found.filter(pc.equal(found["query"], query))
        assert set(mine["site"].to_pylist()) == {"east", None, "", "west"}
    counts = Counts()
    plan = plan_for(table.schema, ProjectionRequest(sb.Workload(QUERIES[1:]), "ts", "row"))
    list(plan.envelopes([plan.project(table)], counts))
    assert (counts.pruned > 0) == sure


@pytest.mark.parametrize("seed", [1, pytest.param(3, marks=pytest.mark.long), pytest.param(4, marks=pytest.mark.long)])
def test_shards_by_group_answer_as_one(seed):
    table = frame(seed, sure=seed % 2 == 1)
    tables = {}
    for shards in (1, 3):
        for output in ("answers", "both"):
            request = ProjectionRequest(sb.Workload(QUERIES[1:]), "ts", "row", shards=shards, output=output)
            plan = plan_for(table.schema, request)
            found = pa.concat_tables(plan.bounded([plan.project(table)], Counts()), promote_options="permissive")
            tables[shards, output] = sorted(map(repr, found.to_pylist()))
    assert tables[1, "answers"] == tables[3, "answers"]
    assert tables[1, "both"] == tables[3, "both"]


@pytest.mark.parametrize("seed", range(6))
def test_separated_tuples_are_dropped_by_their_group(seed):
    rng = np.random.default_rng(seed)
    positions, groups = rng.integers(0, 60, 300), rng.integers(0, 3, 300)
    scores, chances = rng.integers(0, 9, 300).astype(float), np.where(rng.random(300) < 0.8, 1.0, 0.5)
    ruled = rng.random(300) < 0.1
    queries = (sb.UncertainTopK(k=2, size="40 microseconds", every="20 microseconds", partition_by="g"),)
    at, unit = separated(positions, 20, pa.array(groups))
    found = possible_answers(PaneCut(unit, queries), at, scores, chances, ruled)
    expected = np.ones(300, bool)
    for group in range(3):
        mine = groups == group
        expected[mine] = possible_answers(
            PaneCut(20, queries), positions[mine], scores[mine], chances[mine], ruled[mine]
        )
    assert 0 < expected.sum() < 300
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("family", ["incomplete", "uncertain"])
def test_monitors_of_data_frames_have_groups(family):
    """In pieces, with a restart; open windows are answered for each group."""
    table = frame(5)
    if family == "uncertain":
        queries, kind = QUERIES, sb.uncertain.Monitor
    else:
        common = {"object": "o", "stream": "r", "value": "p", "streams": [f"r{i}" for i in range(8)], "k": 2}
        common |= {"size": "40 milliseconds", "every": "8 milliseconds", "where": "r is not null"}
        queries = [
            sb.IncompleteTopK(name="all", **common),
            sb.IncompleteTopK(name="each", partition_by=["site", "kind"], **common),
        ]
        kind = sb.incomplete.Monitor
    monitor, parts = kind(queries, time="ts", id="row"), []
    for low in range(0, 300, 80):
        monitor.push(table.slice(low, 80))
        monitor = kind.resume(monitor.snapshot())
        parts.append(monitor.answers().to_arrow())
    early = monitor.so_far().to_arrow()
    assert set(early["final"].to_pylist()) == {False}
    assert len(set(zip(early["query"].to_pylist(), early["site"].to_pylist(), strict=True))) > 4
    monitor.finish()
    parts.append(monitor.answers().to_arrow())
    found = pa.concat_tables([part for part in parts if part.num_rows], promote_options="permissive")
    whole = sb.replay(queries, table, time="ts", id="row").to_arrow()
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, whole.to_pylist()))
