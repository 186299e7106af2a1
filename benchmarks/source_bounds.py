"""What a micro-batch over files cannot be faster than: decoding alone, answers that only pass, and an empty stream.

Decoding and passing are Spark's batches, without a stream: no offsets, no state and no watermark. The empty stream has
all of these and none of our code: a source and a stateful processor in Python that pass one number.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from skyband.spark.checkpoint import Checkpoint
from skyband.spark.query_settings import checkpoint_settings, partition_settings, scan_settings, while_starting

__all__ = ["Cost", "cost_of_empty_batches", "cpu_to_decode", "seconds_to_decode", "seconds_to_pass"]

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


def cpu_to_decode(file: str) -> float:
    """Return the seconds of CPU time in which one thread decodes all columns of a Parquet file."""
    with pq.ParquetFile(file, read_dictionary=["symbol"]) as opened:
        began = time.thread_time()
        for _ in opened.iter_batches(1 << 20, use_threads=False):
            pass
        return time.thread_time() - began


class Cost(NamedTuple):
    """What one micro-batch takes: elapsed time, and CPU time of the JVM, its Python processes and this process."""

    seconds: float
    cpu: float


def cost_of_empty_batches(spark: SparkSession, checkpoint: str, batches: int) -> list[Cost]:
    """Return what each micro-batch of a stream takes that reads, stores and returns one number, all in Python."""

    class Numbers(DataSource):
        @classmethod
        def name(cls) -> str:
            return "numbers"

        def schema(self) -> str:
            return "shard long, number timestamp"

        def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
            return _Numbers(batches)

    spark.dataSource.register(Numbers)
    folder = Checkpoint(spark, checkpoint)
    totals = [total_cpu(spark)]

    def take(frame: DataFrame, batch: int) -> None:
        frame.toArrow()
        totals.append(total_cpu(spark))

    with while_starting(
        spark, {**checkpoint_settings(spark, folder), **partition_settings(spark, 1), **scan_settings(sole=True)}
    ):
        numbers = spark.readStream.format("numbers").load().withWatermark("number", "10 seconds")
        grouped: Any = numbers.groupBy("shard")
        stored = grouped.transformWithState(_Stores(), "number long", "Append", "EventTime")
        writer = stored.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint)
        running = writer.trigger(availableNow=True).start()
    running.awaitTermination()
    seconds = [progress["durationMs"]["triggerExecution"] / 1e3 for progress in running.recentProgress]
    cpu = [later - earlier for earlier, later in pairwise(totals)]
    return [Cost(*pair) for pair in zip(seconds, cpu, strict=False)][1:batches]


class _Numbers(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One row in each micro-batch."""

    def __init__(self, batches: int) -> None:
        self._batches = batches

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"batch": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(1)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Do nothing: the number of batches is known."""

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        last = self._batches if isinstance(limit, ReadAllAvailable) else start["batch"] + 1
        return {"batch": min(self._batches, last)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(end["batch"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        at = pa.array([partition.value * 1_000_000]).cast(pa.timestamp("us", "UTC"))
        yield pa.RecordBatch.from_arrays([pa.array([0]), at], names=["shard", "number"])


class _Stores(StatefulProcessor):
    """Stores the number of the batch, and returns it."""

    def init(self, handle: Any) -> None:
        self._value = handle.getValueState("number", "number long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        for _ in rows:
            pass
        saved = self._value.get()
        number = 0 if saved is None else saved[0]
        self._value.update((number + 1,))
        yield Row(number=number)

    def close(self) -> None:
        """Do nothing."""


def total_cpu(spark: Any) -> float:
    """Return the seconds of CPU time that the JVM, its child processes and this process have used."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())
    return own.ru_utime + own.ru_stime + sum(map(_cpu, _with_children(jvm)))


def _with_children(process: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := _fields(int(name))):
            children.setdefault(int(fields[1]), []).append(int(name))
    found = [process]
    for one in found:
        found += children.get(one, [])
    return found


def _cpu(process: int) -> float:
    """The CPU time of a process and of its children that have ended."""
    return sum(map(int, _fields(process)[11:15])) / os.sysconf("SC_CLK_TCK")


def _fields(process: int) -> list[str]:
    """The fields of a process in /proc from its state on; none if it has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


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
