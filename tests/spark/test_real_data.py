"""A real stream, with its ties in time and its noise, on Spark and in process."""

from __future__ import annotations

import os
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.spark import answers, start
from tests.conformance.test_real_data import columns, opening
from tests.sharding.cases import micros
from tests.spark.frames import collected

ROWS, FILES = 30_000, 3
LARGEST = sb.TopK(name="largest", k=10, size="1 minute", slide="10 seconds", by="price * size")
SMALL = sb.TopK(name="small", k=5, size="30 seconds", slide="7 seconds", by="price * size", order="asc", full_only=True)


@pytest.fixture(scope="module")
def trades():
    ts, price, size, id_, symbol = columns("trades_us_equity_20131008_09", "price", "size", "trade_id", "symbol")
    begin = opening(ts)
    rows = slice(begin, begin + ROWS)
    at = pa.array(ts[rows]).cast(pa.timestamp("us", "UTC"))
    return pa.table({"ts": at, "trade_id": id_[rows], "price": price[rows], "size": size[rows], "symbol": symbol[rows]})


@pytest.fixture(scope="module")
def want(trades):
    """The answers in process."""
    ts = trades["ts"].cast(pa.int64()).to_numpy()
    scores = trades["price"].to_numpy() * trades["size"].to_numpy()
    computed = [replace(query, by=None) for query in (LARGEST, SMALL)]
    return plain(sb.replay(computed, ts, scores, trades["trade_id"].to_numpy()).to_pylist(), "id")


def plain(rows, id_):
    fields = ("query", "window_start", "window_end", "rank", id_, "score")
    return sorted(tuple(micros(row[name]) for name in fields) for row in rows)


def test_batch(spark, trades, want):
    out = answers(spark.createDataFrame(trades).repartition(4), [LARGEST, SMALL], time="ts", id="trade_id")
    assert plain(collected(out), "trade_id") == want


def test_groups(spark, trades):
    asked = sb.TopK(
        name="of symbol", k=3, size="1 minute", slide="20 seconds", by="price * size", partition_by=["symbol"]
    )
    out = collected(answers(spark.createDataFrame(trades), asked, time="ts", id="trade_id"))
    ts, scores = trades["ts"].cast(pa.int64()).to_numpy(), trades["price"].to_numpy() * trades["size"].to_numpy()
    computed, ids = replace(asked, by=None), trades["trade_id"].to_numpy()
    found = sb.replay(computed, ts, scores, ids, groups=trades["symbol"].to_numpy()).to_pylist()
    assert {row["symbol"] for row in out} == {"AIG", "BAC", "IBM", "SPY"}
    assert sorted((row["symbol"], *one) for row in out for one in plain([row], "trade_id")) == sorted(
        (row["group"], *one) for row in found for one in plain([row], "id")
    )


@pytest.mark.long
def test_bounded_stream(spark, trades, want, tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(FILES):
        part = trades.slice(number * ROWS // FILES, ROWS // FILES)
        pq.write_table(part, tmp_path / "in" / f"{number}.parquet")
        os.utime(tmp_path / "in" / f"{number}.parquet", (10**9 + number, 10**9 + number))  # the order they are read in
    schema = spark.read.parquet(str(tmp_path / "in")).schema
    handle = start(
        spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in")),
        [LARGEST, SMALL],
        time="ts",
        id="trade_id",
        watermark="1 minute",
        write=lambda out: out.writeStream.format("parquet").option("path", str(tmp_path / "out")),
        checkpoint=str(tmp_path / "state"),
        bounded=True,
    )
    assert handle.await_end(300, progress=False)
    assert plain(collected(spark.read.parquet(str(tmp_path / "out"))), "trade_id") == want
    metrics = handle.metrics()
    assert (metrics["rows"], metrics["late"]) == (ROWS, 0)
    assert metrics["pruned"] > ROWS / 2, "most rows never leave their task"
