"""What a micro-batch over files cannot be faster than: decoding alone, and answers that only pass to the sink.

These jobs are Spark's batches, without a stream: no offsets, no state and no watermark.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

__all__ = ["seconds_to_decode", "seconds_to_pass"]

SLICE = 1 << 16  # answers per table, as shards send them
ANSWERS = (
    "query string, window_start timestamp, window_end timestamp, rank int, score double, "
    "ts timestamp, trade_id long, symbol string, price double, size long"
)


def seconds_to_decode(spark: SparkSession, file: str, tasks: int) -> float:
    """Return the seconds of a job whose Python tasks decode all columns of a Parquet file, and return no row."""

    class Reader(DataSourceReader):
        def partitions(self) -> list[InputPartition]:
            return [InputPartition(number) for number in range(tasks)]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            with pq.ParquetFile(file, read_dictionary=["symbol"]) as opened:
                for group in range(partition.value, opened.metadata.num_row_groups, tasks):
                    for _ in opened.iter_batches(1 << 20, [group], use_threads=False):
                        pass
            return iter(())

    class Decoded(DataSource):
        @classmethod
        def name(cls) -> str:
            return "decoded"

        def schema(self) -> str:
            return "nothing long"

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader()

    spark.dataSource.register(Decoded)
    return _timed(lambda: spark.read.format("decoded").load().write.format("noop").mode("overwrite").save())


def seconds_to_pass(spark: SparkSession, rows: int, parts: int) -> float:
    """Return the seconds of a job whose Python tasks return so many rows like answers, the same table repeatedly."""
    share = -(-rows // parts)

    def answers(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        numbers = np.arange(min(SLICE, share))
        times, doubles = pa.array(numbers).cast(pa.timestamp("us", "UTC")), pa.array(numbers / 7)
        queries, symbols = (pa.array([f"{name}{n % 1000:04}" for n in numbers.tolist()]) for name in "qS")
        ranks, ids = pa.array(numbers.astype(np.int32)), pa.array(numbers)
        columns = [queries, times, times, ranks, doubles, times, ids, symbols, doubles, ids]
        table = pa.RecordBatch.from_arrays(columns, names=[part.split()[0] for part in ANSWERS.split(", ")])
        for low in range(0, share, SLICE):
            yield table.slice(0, min(SLICE, share - low))

    source = spark.range(parts, numPartitions=parts)
    return _timed(lambda: source.mapInArrow(answers, ANSWERS).write.format("noop").mode("overwrite").save())


def _timed(job: Any) -> float:
    began = time.perf_counter()
    job()
    return time.perf_counter() - began
