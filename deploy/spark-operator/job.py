"""The largest trades of the last ten minutes, from a folder of Parquet files to a folder of Parquet files."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

import skyband as sb
from skyband.spark import configure, start


def main(source: str, sink: str, state: str, once: bool = False) -> None:
    """Run until stopped; with `once`, until all current files are answered."""
    spark = configure(SparkSession.builder.appName("largest trades")).getOrCreate()
    columns = "ts timestamp, trade_id long, symbol string, price double, shares long"
    largest = sb.TopK(name="largest", k=10, size="10 minutes", slide="1 minute", by="price * shares")
    handle = start(
        spark.readStream.schema(columns).parquet(source),
        largest,
        time="ts",
        id="trade_id",
        watermark="10 seconds",
        write=lambda out: out.writeStream.format("parquet").option("path", sink),
        checkpoint=state,
        bounded=once,
    )
    handle.await_end()


if __name__ == "__main__":
    main(*sys.argv[1:4], once="--once" in sys.argv)
