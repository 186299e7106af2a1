"""Sketches in shards of keys: bounds hold for any tasks, steps, late rows and restarts."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.aggregate import state_store
from skyband.aggregate.open_sketches import weights_of
from skyband.aggregate.reducer import sum_rows
from tests.aggregate import sketch_cases
from tests.aggregate.cases import Case
from tests.aggregate.oracle import Row
from tests.aggregate.test_shard import Shards, plan_of, task


class SketchShards(Shards):
    def told(self, table):
        for name in ("window_start", "window_end"):
            table = table.set_column(table.column_names.index(name), name, table[name].cast(pa.int64()))
        return [{"group": row.get("g"), **row} for row in table.to_pylist()]


def run(plan, case, random, *, most=20):
    """Answers of the rows in random tasks and steps. The watermark advances, and makes no row late."""
    shards, found, at, watermark = SketchShards(plan, case.key_kind, case.valued), [], 0, None
    while at < len(case.rows):
        begin, tasks = at, []
        for _ in range(random.randint(1, 3)):
            size = random.randint(0, most)
            tasks.append(case.rows[at : at + size])
            at += size
        if begin and random.random() < 0.7:
            watermark = min(row.position for row in case.rows[begin:]) - random.randint(0, 5)
        found += shards.step([rows for rows in tasks if rows], watermark)
    return shards, found + shards.step([], None, end=True)


def one_scan(random, case, grouped):
    first = case.queries[0]
    same = {"aggregate": first.aggregate, "counters": max(query.counters for query in case.queries)}
    partition = ["g"] if grouped else ()
    queries = [sb.AggregateTopK(**{**query.to_dict(), **same, "partition_by": partition}) for query in case.queries]
    return case._replace(queries=queries, grouped=grouped)


@pytest.mark.parametrize("seed", range(60))
def test_bounds_hold_for_any_steps(seed):
    random = Random(seed)
    case = sketch_cases.draw(random, axis="time", most=120)
    case = one_scan(random, case, case.grouped)
    rows = [row._replace(position=row.position + random.choice([0, 0, 3, 9])) for row in case.rows]  # out of order
    case = case._replace(rows=rows)
    in_order = sorted(rows, key=lambda row: row.position)
    _, found = run(plan_of(case.queries, grouped=case.grouped, valued=case.valued), case, random)
    sketch_cases.check(case._replace(rows=in_order), found)


def test_segments_and_changed_queries(monkeypatch):
    monkeypatch.setattr(state_store, "_SEGMENT", 1)
    random = Random(3)
    rows = [Row(position, random.choice(range(30)), 1.0) for position in range(600)]
    fast, slow = (
        sb.AggregateTopK(
            name=name, k=2, size=f"{size} microseconds", slide=f"{slide} microseconds", aggregate="count",
            method="sketch", counters=4,
        )
        for name, size, slide in (("fast", 40, 8), ("slow", 90, 30))
    )  # fmt: skip
    shards, found = SketchShards(plan_of([fast, slow]), pa.int64()), []
    found += shards.step([rows[:95], rows[95:205]], None) + shards.step([], 197)
    shards.plan = plan_of([slow])  # longer panes
    found += shards.step([rows[205:331]], 197) + shards.step([], 320)
    shards.plan = plan_of([slow, fast])
    found += shards.step([rows[331:]], 320) + shards.step([], 590)
    found += shards.step([], None, end=True)
    # The added query answers windows that begin after the newest row; the removed one has answered its last.
    case = Case([slow], rows, pa.int64(), True, False, True)
    sketch_cases.check(case, [row for row in found if row["query"] == "slow"])
    ends = [row["window_end"] for row in found if row["query"] == "fast"]
    case = Case([fast], rows, pa.int64(), True, False, True)
    (_, totals), *_ = sketch_cases.exact_totals(case)
    expected = [end for _, end in totals if end <= 197 or end - 40 >= 331]
    assert sorted(set(ends)) == expected
    for end in expected:
        mine = [row for row in found if row["query"] == "fast" and row["window_end"] == end]
        sketch_cases.check_window(fast, mine, totals[None, end])


def test_shards_hold_no_more_than_their_counters():
    query = sb.AggregateTopK(k=3, size="60 microseconds", slide="1 microsecond", aggregate="count", method="sketch",
                             counters=10)  # fmt: skip
    sizes, states = [], []
    for distinct in (500, 50_000):
        random, shards = np.random.default_rng(1), SketchShards(plan_of([query]), pa.int64())
        for position in range(0, 90, 6):
            keys = random.integers(0, distinct, 480)
            rows = [Row(position + place % 6, int(key), 1.0) for place, key in enumerate(keys)]
            shards.step([rows], position)
        sizes.append(shards.held)
        states.append(max(len(blob) for blob in shards.blobs))
    assert max(sizes) <= 2 * (60 * 10 + 7 * 2 * 10)  # two shards
    assert max(states) <= 2 * min(states)  # numbers of many keys compress less


@pytest.mark.parametrize("weighted", [False, True])
def test_weights_are_rounded_away_from_the_sum(weighted):
    query = sb.AggregateTopK(k=1, size="9 microseconds", aggregate="sum" if weighted else "count", method="sketch")
    values = [1e16, 1.0, 1.0, 0.1, 0.2, 5e-324, 1e16, 2.0, 3.0]
    rows = [Row(1, "a" if place < 6 else "b", value) for place, value in enumerate(values)]
    plan = plan_of([query], valued=weighted)
    tables = [one.rows for one in sum_rows(plan, [task(rows, pa.string(), weighted)]) if one.rows.num_rows]
    found = [weights_of(table, weighted=weighted) for table in tables]
    highs, lows = (np.concatenate(part) for part in zip(*found, strict=True))
    keys = [key for table in tables for key in table["key"].to_pylist()]
    bounds = {key: (low, high) for key, low, high in zip(keys, lows.tolist(), highs.tolist(), strict=True)}
    if not weighted:
        assert bounds == {"a": (6.0, 6.0), "b": (3.0, 3.0)}
        return
    low, high = bounds["a"]
    assert low <= 1e16 + 2 < high <= 1e16 + 8
    low, high = bounds["b"]
    assert low <= 1e16 + 4
    assert int(1e16) + 5 <= high <= 1e16 + 16


def test_negative_values_are_refused_before_they_are_added():
    query = sb.AggregateTopK(k=1, size="9 microseconds", key="k", value="v", aggregate="sum", method="sketch")
    rows = [Row(1, "a", 1.0), Row(1, "b", -2.0)]
    with pytest.raises(sb.InvalidInputError, match=r"value='v' contains -2\.0.*from 0 to 1e\+290"):
        list(sum_rows(plan_of([query]), [task(rows, pa.string(), True)]))


def test_groups_of_a_pane_keep_their_codes_in_its_state():
    query = sb.AggregateTopK(k=1, size="100 microseconds", aggregate="count", method="sketch", counters=1,
                             partition_by=["g"])  # fmt: skip
    rows = [Row(place, place % 7, 1.0, random_group) for place, random_group in enumerate("xyxxzyxzyx" * 9)]
    case = Case([query], rows, pa.int64(), True, True, True)
    _, found = run(plan_of([query], grouped=True), case, Random(1), most=4)
    sketch_cases.check(case, found)
