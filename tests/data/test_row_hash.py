"""The hash of a row: Spark's xxhash64, for every type that it supports."""

from __future__ import annotations

import decimal
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.data.row_hash import row_hash


def every_type(rows=400):
    rng = random.Random(1)

    def column(draw, kind):
        return pa.array([None if rng.random() < 0.1 else draw() for _ in range(rows)], pa.int64()).cast(kind)

    def drawn(draw, kind):
        return pa.array([None if rng.random() < 0.1 else draw() for _ in range(rows)], kind, from_pandas=False)

    def text():
        return "".join(chr(rng.randint(32, 1000)) for _ in range(rng.randint(0, 80)))

    numbers = [0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf"), -2.25]
    return pa.table(
        {
            "flag": drawn(lambda: rng.random() < 0.5, pa.bool_()),
            "i8": drawn(lambda: rng.randint(-128, 127), pa.int8()),
            "i16": drawn(lambda: rng.randint(-(2**15), 2**15 - 1), pa.int16()),
            "i32": drawn(lambda: rng.randint(-(2**31), 2**31 - 1), pa.int32()),
            "i64": drawn(lambda: rng.randint(-(2**63), 2**63 - 1), pa.int64()),
            "f32": drawn(lambda: rng.choice(numbers), pa.float32()),
            "f64": drawn(lambda: rng.choice(numbers), pa.float64()),
            "text": drawn(text, pa.string()),
            "bytes": drawn(lambda: text().encode(), pa.binary()),
            "day": drawn(lambda: rng.randint(-30000, 30000), pa.int32()).cast(pa.date32()),
            "instant": column(lambda: rng.randint(-(10**15), 10**15), pa.timestamp("us", "UTC")),
            "local": column(lambda: rng.randint(-(10**15), 10**15), pa.timestamp("us")),
            "price": drawn(lambda: decimal.Decimal(rng.randint(-(10**9), 10**9)).scaleb(-2), pa.decimal128(12, 2)),
        }
    )


def test_it_equals_that_of_spark(spark, tmp_path):
    from pyspark.sql import functions as sf

    table = every_type()
    pq.write_table(table, tmp_path / "rows.parquet")
    rows = spark.read.parquet(str(tmp_path / "rows.parquet"))
    hashed = [sf.xxhash64(name).alias(name) for name in rows.columns]
    found = rows.select(*hashed, sf.xxhash64(*rows.columns).alias("all")).toPandas()
    for name in table.column_names:
        assert (row_hash(table.select([name])) == found[name].to_numpy()).all(), name
    assert (row_hash(table) == found["all"].to_numpy()).all()


def test_slices_and_chunks_have_the_hashes_of_the_table():
    table = every_type(60)
    whole = row_hash(table)
    assert (row_hash(table.slice(7, 20)) == whole[7:27]).all()
    assert (row_hash(pa.concat_tables([table.slice(0, 9), table.slice(9)])) == whole).all()
    assert row_hash(table.slice(0, 0)).size == 0


def test_nulls_and_encodings_do_not_matter():
    table = pa.table({"a": ["x", None, "y"], "b": [1, 2, 3]})
    encoded = table.set_column(0, "a", table["a"].dictionary_encode())
    assert (row_hash(encoded) == row_hash(table)).all()
    assert (row_hash(table.append_column("c", pa.nulls(3))) == row_hash(table)).all()
    assert (row_hash(table, ["b"]) == row_hash(table.select(["b"]))).all()
    assert np.unique(row_hash(table)).size == 3


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.struct([("x", pa.int64())]), pa.decimal128(30, 2)])
def test_types_without_a_hash_are_rejected_unless_there_is_an_id(kind):
    table = pa.table({"ts": pa.array([0], pa.timestamp("us")), "v": [1.0], "id": [1], "other": pa.nulls(1, kind)})
    query = sb.TopK(k=1, size="1 second", by="v")
    with pytest.raises(sb.UnsupportedError, match=r"column 'other' is of type .* Name a column with id="):
        sb.replay(query, table, time="ts")
    assert len(sb.replay(query, table, time="ts", id="id")) == 1
