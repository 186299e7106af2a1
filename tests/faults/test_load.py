"""Loads that are larger than usual: 10,000 queries, a million groups, one hot group, a day of disorder. On Spark.

The right answers come from numpy, group by group or window by window, without library code.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.jobs import run

SECOND = 1_000_000
HOUR = 3600 * SECOND

pytestmark = pytest.mark.long


def write(folder, number, ts, groups, scores, ids):
    """A file, older than the next one."""
    folder.mkdir(exist_ok=True)
    columns = {
        "ts": pa.array(ts).cast(pa.timestamp("us", "UTC")),
        "id": pa.array(ids, pa.int64()),
        "g": pa.array(groups, pa.int64()),
        "s": pa.array(scores, pa.float64()),
    }
    pq.write_table(pa.table(columns), folder / f"{number:05}.parquet")


def answered(folder, spark, queries, watermark="0 seconds", mode="once"):
    """Run the file; the answers, and the metrics of the stream."""
    (folder / "work.yaml").write_text(
        "streams:\n"
        f"  rows: {{path: in, format: parquet, time: ts, id: id, watermark: {watermark}, files_per_batch: 1}}\n"
        f"queries:\n{queries}\n"
        "sinks: [{type: parquet, path: out}]\n"
        'engine: {master: "local[2]"}\n'
    )
    running = run(sb.read_workload(folder / "work.yaml"), mode, spark=spark)
    assert running.await_end(600)
    return pq.read_table(folder / "out"), running.metrics()["rows"]


def test_a_million_groups(spark, tmp_path, tally):
    """Each group's best row of an hour; most groups have one row."""
    rng = np.random.default_rng(1)
    count, groups = 1_200_000, 1_000_000
    group = np.concatenate([np.arange(groups), rng.integers(0, groups, count - groups)])
    rng.shuffle(group)
    ts, score = np.sort(rng.integers(0, HOUR, count)), rng.permutation(count).astype(float)
    for number, part in enumerate(np.array_split(np.arange(count), 4)):
        write(tmp_path / "in", number, ts[part], group[part], score[part], part)
    query = "  - {name: each, k: 1, size: 1 hour, by: s, partition_by: [g]}"
    found, _ = answered(tmp_path, spark, query)
    best = np.full(groups, -1.0)
    np.maximum.at(best, group, score)
    assert found.num_rows == groups
    assert np.array_equal(best[found["g"].to_numpy()], found["score"].to_numpy())
    assert pc.count_distinct(found["g"]).as_py() == groups
    tally.fault("load: a million groups")


def test_a_hot_group_among_many(spark, tmp_path):
    """Nine of ten rows are of one group, so one shard has nearly all of the work."""
    rng = np.random.default_rng(2)
    count, groups, k = 400_000, 20_000, 5
    group = np.where(rng.random(count) < 0.9, 0, rng.integers(1, groups, count))
    ts, score = np.sort(rng.integers(0, HOUR, count)), rng.permutation(count).astype(float)
    for number, part in enumerate(np.array_split(np.arange(count), 4)):
        write(tmp_path / "in", number, ts[part], group[part], score[part], part)
    query = f"  - {{name: each, k: {k}, size: 10 minutes, by: s, partition_by: [g]}}"
    found, metrics = answered(tmp_path, spark, query, mode="catch-up", watermark="1 second")
    window, wanted = ts // (600 * SECOND), set()
    order = np.lexsort((-score, group, window))
    rank = np.zeros(count, np.int64)
    key = window[order] * groups + group[order]
    begins = np.flatnonzero(np.diff(key, prepend=-1))
    rank[order] = np.arange(count) - np.repeat(begins, np.diff(np.append(begins, count))) + 1
    last = ts[-1] - SECOND
    chosen = (rank <= k) & ((window + 1) * 600 * SECOND <= last)
    wanted = set(
        zip(window[chosen].tolist(), group[chosen].tolist(), rank[chosen].tolist(), score[chosen].tolist(), strict=True)
    )
    ends = pc.cast(found["window_end"], pa.int64()).to_numpy() // (600 * SECOND) - 1
    mine = list(zip(ends.tolist(), *(found[name].to_pylist() for name in ("g", "rank", "score")), strict=True))
    assert len(mine) == len(set(mine)) == len(wanted)
    assert set(mine) == wanted
    # What is held is the candidates of open windows, not the rows of the hot group.
    assert metrics["state_bytes"] < 100 * groups * k


def test_a_day_of_disorder(spark, tmp_path):
    """Rows of a day in any order, under a watermark that waits for a day: none is late, and few are held."""
    rng = np.random.default_rng(3)
    count, k = 300_000, 10
    ts, score = rng.integers(0, 24 * HOUR, count), rng.permutation(count).astype(float)
    for number, part in enumerate(np.array_split(np.arange(count), 6)):
        write(tmp_path / "in", number, ts[part], np.zeros(len(part)), score[part], part)
    write(tmp_path / "in", 6, [72 * HOUR], [0], [0.0], [count])
    found, metrics = answered(
        tmp_path, spark, f"  - {{name: all, k: {k}, size: 1 hour, slide: 10 minutes, by: s}}", "1 day", "catch-up"
    )
    assert metrics["late"] == 0
    ends = pc.cast(found["window_end"], pa.int64()).to_numpy()
    for end in np.unique(ends):
        inside = np.sort(score[(ts >= end - HOUR) & (ts < end)])[::-1][:k]
        assert np.array_equal(found["score"].to_numpy()[ends == end], inside)
    assert len(np.unique(ends)) >= 24 * 6
    # 144 panes of ten minutes hold at most k rows each; the whole day would be 300,000.
    assert metrics["state_bytes"] < 200 * 150 * k


def test_ten_thousand_queries(spark, tmp_path):
    """They differ in k and in their windows, and share one class."""
    rng = np.random.default_rng(4)
    count, queries = 20_000, 10_000
    ts, score = np.sort(rng.integers(0, HOUR, count)), rng.permutation(count).astype(float)
    write(tmp_path / "in", 0, ts, np.zeros(count), score, np.arange(count))
    kinds = [(1 + number % 7, 600 * (1 + number % 3), 600) for number in range(queries)]
    text = "\n".join(
        f"  - {{name: q{number}, k: {k}, size: {size} seconds, slide: {slide} seconds, by: s}}"
        for number, (k, size, slide) in enumerate(kinds)
    )
    found, _ = answered(tmp_path, spark, text)
    wanted = {}
    for k, size, slide in set(kinds):
        rows = wanted[k, size, slide] = []
        for end in range(slide * SECOND, HOUR + size * SECOND, slide * SECOND):
            inside = np.sort(score[(ts >= end - size * SECOND) & (ts < end)])[::-1][:k]
            rows += [(end, rank, value) for rank, value in enumerate(inside.tolist(), 1)]
    assert found.num_rows == sum(len(wanted[kind]) for kind in kinds)
    ends = pc.cast(found["window_end"], pa.int64()).to_numpy()
    number = np.array([int(name[1:]) for name in found["query"].to_pylist()])
    order = np.lexsort((found["rank"].to_numpy(), ends, number))
    rows = list(
        zip(
            ends[order].tolist(),
            found["rank"].to_numpy()[order].tolist(),
            found["score"].to_numpy()[order].tolist(),
            strict=True,
        )
    )
    begins = np.searchsorted(number[order], np.arange(queries + 1))
    for one, kind in enumerate(kinds):
        assert rows[begins[one] : begins[one + 1]] == wanted[kind], kind
