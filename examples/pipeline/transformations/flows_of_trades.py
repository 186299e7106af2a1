"""Two flows: the largest trades as a streaming table, and a materialized view of all current trades.

Spark analyzes no data frame inside the function of a flow. `answers` validates columns and expressions, so it is called
before, and the function returns its result.
"""

from __future__ import annotations

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

import skyband as sb
from skyband.spark import answers

spark = SparkSession.active()
trades = str(Path(__file__).parents[1] / "trades")
columns = "ts timestamp, trade_id long, symbol string, price double, shares long"
largest = sb.TopK(name="largest", k=3, size="1 minute", slide="20 seconds", by="price * shares")

arriving = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).parquet(trades)
of_stream = answers(arriving, largest, time="ts", id="trade_id", watermark="5 seconds", shards=2)
of_all = answers(spark.read.schema(columns).parquet(trades), largest, time="ts", id="trade_id")


@dp.table(comment="Windows that the watermark has passed; each run adds those that have become final.")
def largest_trades() -> DataFrame:
    return of_stream


@dp.materialized_view(comment="All windows of all trades so far, including open ones; each run computes it again.")
def largest_trades_so_far() -> DataFrame:
    return of_all
