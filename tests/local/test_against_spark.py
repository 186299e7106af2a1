"""In process and on Spark, answers over the same rows are equal, row for row."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import skyband as sb

SITES = ["east", "north", "south", "west"]
WORKLOADS = {
    "topk": [
        sb.TopK(
            name="groups", k=3, size="10 minutes", slide="1 minute", by="price * size", where="site <> 'east'",
            partition_by=["site", "kind"],
        ),
        sb.TopK(name="all", k=5, size="5 minutes", slide="1 minute", by="size", ties="rank"),
        sb.TopK(name="low", k=2, size="5 minutes", slide="2 minutes", by="price", order="asc", full_only=True),
    ],
    "topk by count": [sb.TopK(name="rows", k=3, size=50, slide=20, by="price * size", partition_by="site")],
    "aggregate": [
        sb.AggregateTopK(
            name="sums", k=2, size="10 minutes", slide="1 minute", key="site", value="price * size", partition_by="kind"
        ),
        sb.AggregateTopK(name="rows", k=2, size="10 minutes", slide="2 minutes", key="site", aggregate="count"),
    ],
    "incomplete": [
        sb.IncompleteTopK(
            name="loads", k=3, size="10 minutes", every="5 minutes", object="size", stream="site",
            value="least(price / 100, 1)", streams=SITES, occurrences=1000,
        ),
        sb.IncompleteTopK(
            name="kinds", k=2, size="10 minutes", every="5 minutes", object="size", stream="site",
            value="least(price / 100, 1)", streams=SITES, occurrences=1000, partition_by=["kind", "row % 2"],
            intervals=True,
        ),
    ],
    "uncertain": [
        sb.UncertainTopK(
            name="likely", k=3, size="10 minutes", every="5 minutes", by="price * size", probability="chance"
        ),
        sb.UncertainTopK(
            name="rare", k=2, size="5 minutes", every="5 minutes", by="size", probability="chance", where="kind = 1"
        ),
        sb.UncertainTopK(
            name="sites", k=2, size="10 minutes", every="5 minutes", by="price * size", probability="chance",
            partition_by=["site", "kind"],
        ),
    ],
}  # fmt: skip


def rows(count=1500):
    rng, at, times = random.Random(7), 1_700_000_000_000_000, []
    for _ in range(count):
        at += rng.choice([0, 0, 400_000, 1_000_000, 5_000_000])
        times.append(at)
    return pa.table(
        {
            "ts": pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC")),
            "row": pa.array(rng.sample(range(10 * count), count), pa.int64()),
            "site": pa.array([rng.choice([*SITES, None]) for _ in range(count)]),
            "kind": pa.array([rng.choice([1, 2, None]) for _ in range(count)], pa.int32()),
            "price": pa.array([rng.choice([None, float("nan"), 0.5, 1.0, 2.5, 80.0, 120.0]) for _ in range(count)]),
            "size": pa.array([rng.choice([None, 1, 2, 3, 10]) for _ in range(count)], pa.int64()),
            "chance": pa.array([rng.choice([0.25, 0.5, 1.0]) for _ in range(count)]),
        }
    )


def lines(table, names):
    """Rows as text, sorted: NaN equals NaN, and times are microseconds."""
    columns = []
    for name in names:
        column = table[name]
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        columns.append(pc.cast(column, pa.float64()).to_pylist() if name == "rank" else column.to_pylist())
    return sorted(map(repr, zip(*columns, strict=True)))


@pytest.mark.parametrize("name", WORKLOADS)
def test_answers_equal_those_of_spark(spark, tmp_path, name):
    from skyband.spark import answers

    table = rows()
    pq.write_table(table, tmp_path / "rows.parquet")
    df = spark.read.parquet(str(tmp_path / "rows.parquet"))
    for id_ in ("row", None):
        theirs = answers(df, sb.Workload(WORKLOADS[name]), time="ts", id=id_).toArrow()
        ours = sb.replay(WORKLOADS[name], table, time="ts", id=id_)
        assert ours.column_names == theirs.column_names
        assert len(ours) > 20
        assert lines(ours.to_arrow(), ours.column_names) == lines(theirs, theirs.column_names)
