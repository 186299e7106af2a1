"""Answers over one table in memory: the same as the oracle's and as those of reducers and shards."""

from __future__ import annotations

import math
import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.local.pipeline import Counts, plan_for
from skyband.local.replay import in_order
from skyband.queries.workload import Workload
from skyband.sharding import rows
from skyband.sharding.projection import ProjectionRequest
from skyband.topk import group_windows, whole_input
from tests.drive import time_query
from tests.oracle import Asked, answers

SCORES = [0.0, 1.0, 1.0, 2.0, 3.0, 4.0, -0.0, math.inf, -math.inf, math.nan, None]


def by_shards(queries, table, **named):
    """The answers of the stations that streams pass."""
    plan = plan_for(table.schema, ProjectionRequest(Workload(queries), "ts", "id", **named))
    return in_order(plan, list(plan.bounded([plan.project(table)], Counts())))


def rows_of(rng, groups, most=60, steps=(0, 0, 1, 1, 2, 5, 40)):
    """A table in order of time, with groups and scores that often tie."""
    at = np.cumsum([rng.choice(steps) for _ in range(rng.randint(0, most))], dtype=np.int64)
    ids = rng.sample(range(-5000, 5000), at.size)
    return pa.table(
        {
            "ts": pa.array(at).cast(pa.timestamp("us")),
            "id": pa.array(ids, pa.int64()),
            "v": pa.array([rng.choice(SCORES) for _ in range(at.size)], pa.float64()),
            "g": groups.take(pa.array([rng.randrange(len(groups)) for _ in range(at.size)], pa.int64())),
            "note": pa.array([f"row {one}" for one in ids], pa.string()),
        }
    )


def asked_of(rng):
    size = rng.randint(1, 30)
    return Asked(
        k=rng.choice([1, 2, 3, 7]),
        size=size,
        slide=rng.randint(1, size),
        origin=rng.randint(-30, 30),
        full_only=rng.random() < 0.3,
        ascending=rng.random() < 0.4,
    )


def shuffled(rng, table):
    order = list(range(table.num_rows))
    rng.shuffle(order)
    return table.take(pa.array(order, pa.int64()))


@pytest.fixture(params=["lists", "panes", "threads"])
def way(request, monkeypatch):
    """Candidate lists per group; the pane executor for all groups; lists in several threads, and short slices.

    With threads, ids are read only for rows that share group, time and score.
    """
    if request.param == "panes":
        monkeypatch.setattr(group_windows, "MOST_CANDIDATES", 0)
    if request.param == "threads":
        monkeypatch.setattr(group_windows, "MANY_ROWS", 0)
        monkeypatch.setattr(whole_input, "SLICE", 7)
        monkeypatch.setattr(rows, "FEW", 0)
    return request.param


def expected(asked, table):
    kept = [row for row in table.to_pylist() if row["v"] is not None and not math.isnan(row["v"])]
    at = {}
    for row, ts in zip(table.to_pylist(), table["ts"].cast(pa.int64()).to_pylist(), strict=True):
        at[row["id"]] = ts
    first = min((at[row["id"]] for row in kept), default=None)
    found = []
    for group in {row["g"] for row in kept}:
        mine = [(at[row["id"]], row["v"], row["id"]) for row in kept if row["g"] == group]
        found += [(group, *line) for line in answers(asked, mine, first=first)]
    return found


TEXTS = pa.array(["a", "b", "", "ü", None, "long text"])


@pytest.mark.parametrize("seed", range(20))
def test_groups_equal_the_oracle(seed, way):
    rng = random.Random(seed)
    for _ in range(12):
        asked, table = asked_of(rng), rows_of(rng, TEXTS)
        query = time_query(asked, name="q", by="v", partition_by=["g"])
        found = sb.replay(query, shuffled(rng, table), time="ts", id="id").to_arrow()
        bounds = [found[name].cast(pa.int64()).to_pylist() for name in ("window_start", "window_end")]
        columns = [found["g"].to_pylist(), *bounds, *(found[name].to_pylist() for name in ("rank", "id", "score"))]
        lines = list(zip(*columns, strict=True))
        key = lambda line: (line[2], line[0] is None, line[0] or "", line[3])  # noqa: E731
        assert lines == sorted(expected(asked, table), key=key), (asked, table.to_pylist())
        assert found["note"].to_pylist() == [f"row {one}" for one in found["id"].to_pylist()]


KINDS = {
    "integers": pa.array([3, -1, None, 2**62], pa.int64()),
    "numbers": pa.array([1.5, math.inf, None, math.nan, -2.0], pa.float64()),
    "short numbers": pa.array([1.5, math.nan, -2.0], pa.float32()),
    "times": pa.array([0, 10**15, None], pa.timestamp("us", "UTC")),
    "days": pa.array([0, -5, None], pa.date32()),
    "decimals": pa.array([Decimal("1.10"), Decimal("-3.00"), None], pa.decimal128(10, 2)),
    "flags": pa.array([True, False, None]),
    "one": pa.array(["only"]),
    "nothing else": pa.array([None], pa.string()),
    "many": pa.array([f"{number:03}" for number in range(900)]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_groups_of_any_type_equal_those_of_shards(kind, way):
    rng = random.Random(kind)
    for _ in range(6):
        queries = [time_query(asked_of(rng), name=f"q{one}", by="v", partition_by=["g"]) for one in range(2)]
        queries = queries if rng.random() < 0.3 else queries[:1]
        table = rows_of(rng, KINDS[kind], most=120)
        found = sb.replay(queries, table, time="ts", id="id").to_arrow()
        assert repr(found.to_pylist()) == repr(by_shards(queries, table).to_pylist())  # NaN does not equal itself


LAYOUTS = {
    "chunked": lambda table: pa.concat_tables([table.slice(0, 7), table.slice(7, 0), table.slice(7)]),
    "dictionary": lambda table: table.set_column(3, "g", table["g"].dictionary_encode()),
    "large_string": lambda table: table.set_column(3, "g", table["g"].cast(pa.large_string())),
    "string_view": lambda table: table.set_column(3, "g", table["g"].cast(pa.string_view())),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_layout_of_columns_does_not_matter(layout, way):
    rng = random.Random(layout)
    for _ in range(6):
        query, table = time_query(asked_of(rng), name="q", by="v", partition_by=["g"]), rows_of(rng, TEXTS)
        if table.num_rows < 8:
            continue
        found = sb.replay(query, LAYOUTS[layout](table), time="ts", id="id")
        assert found.to_pylist() == sb.replay(query, table, time="ts", id="id").to_pylist()


def test_zeros_of_both_signs_are_one_group(way):
    table = pa.table(
        {
            "ts": pa.array([0, 1, 2, 3], pa.timestamp("us")),
            "id": [1, 2, 3, 4],
            "v": [1.0, 2.0, 3.0, 4.0],
            "g": [0.0, -0.0, 0.0, -1.0],
            "h": ["b", "b", "b", "a"],
        }
    )
    query = sb.TopK(k=5, size="10 microseconds", by="v", partition_by=["g", "h"])
    found = sb.replay(query, table, time="ts", id="id")
    assert found.select(["rank", "id", "h"]).to_pylist() == [
        {"rank": 1, "id": 4, "h": "a"},
        {"rank": 1, "id": 3, "h": "b"},
        {"rank": 2, "id": 2, "h": "b"},
        {"rank": 3, "id": 1, "h": "b"},
    ]


def test_workloads_with_several_scans_equal_shards(way):
    rng = random.Random(11)
    for _ in range(20):
        table = rows_of(rng, TEXTS, most=80)
        table = table.append_column(
            "h", pa.array([rng.choice([1, 2, None]) for _ in range(table.num_rows)], pa.int32())
        )
        groups = rng.sample([["g", "h"], ["h", "g"], ["g"], ["h"], []], 3)
        queries = [
            time_query(asked_of(rng), name=f"q{place}", by=rng.choice(["v", "-v"]), where="id > -4000", partition_by=by)
            for place, by in enumerate(groups)
        ]
        found = sb.replay(queries, shuffled(rng, table), time="ts", id="id").to_arrow()
        assert found.to_pylist() == by_shards(queries, table).to_pylist()


@pytest.mark.parametrize("slide", [1, pytest.param(7, marks=pytest.mark.long), 50])
def test_many_rows_of_many_groups_equal_shards(slide, way):
    """Panes with many more rows than k, a group in each row, groups that appear late, and falling scores."""
    rng = np.random.default_rng(slide)
    n = 4_000 if slide > 1 else 1_000  # windows of one row take long
    late = np.arange(n) // 500
    for groups in (rng.integers(0, 3, n), np.arange(n), late, rng.integers(0, 200, n)):
        for scores in (rng.integers(0, 40, n).astype(float), -np.arange(n, dtype=float), np.arange(n, dtype=float)):
            table = pa.table(
                {
                    "ts": pa.array(np.sort(rng.integers(0, 3_000, n))).cast(pa.timestamp("us")),
                    "id": rng.permutation(n),
                    "v": scores,
                    "g": groups,
                }
            )
            query = sb.TopK(k=3, size="50 microseconds", slide=f"{slide} microseconds", by="v", partition_by="g")
            assert sb.replay(query, table, time="ts", id="id").to_arrow().equals(by_shards(query, table))


def test_streams_with_few_rows_for_their_length(way):
    table = pa.table(
        {
            "ts": pa.array([0, 10**12, 10**15], pa.timestamp("us")),
            "id": [1, 2, 3],
            "v": [1.0, 2.0, 3.0],
            "g": ["a", "b", "a"],
        }
    )
    query = sb.TopK(k=1, size="2 microseconds", slide="1 microsecond", by="v", partition_by="g")
    assert sb.replay(query, table, time="ts", id="id")["id"].to_pylist() == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("algorithm", ["auto", "panes", "mintopk", "naive", "sap"])
def test_every_algorithm_answers_alike(algorithm):
    rng = random.Random(3)
    table = rows_of(rng, TEXTS, most=200)
    query = sb.TopK(k=2, size="20 microseconds", slide="3 microseconds", by="v", partition_by="g")
    found = sb.replay(query, table, time="ts", id="id", algorithm=algorithm).to_arrow()
    assert found.equals(by_shards(query, table))


def test_ids_are_read_only_for_rows_with_equal_times(monkeypatch):
    read = []
    monkeypatch.setattr(
        "skyband.local.arrow_source.row_hash",
        lambda table, names=None: read.append(table.num_rows) or np.arange(table.num_rows),
    )
    table = {"ts": pa.array([0, 1, 1, 2], pa.timestamp("us")), "v": [1.0, 2.0, 2.0, 4.0], "g": ["a", "a", "a", "b"]}
    sb.replay(sb.TopK(k=1, size="9 microseconds", by="v", partition_by="g"), table, time="ts")
    assert read == [0, 2], "a look at the types, then the two rows of one time"
