"""The fixed cost of a micro-batch on Spark: batches of one row, against Spark's own count in windows.

python -m benchmarks batch [--quick]
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import skyband as sb
from benchmarks import report
from benchmarks.bench_spark import PAGE, START, WATERMARK, at_most, query
from benchmarks.report import Ratio
from skyband.spark import answers, read_files, session
from skyband.spark.checkpoint import Checkpoint
from skyband.spark.delivery import collecting
from skyband.spark.query_settings import checkpoint_settings, partition_settings, while_starting
from skyband.spark.stream_start import launch
from skyband.topk.warmup import warm_up

PHASES = ("queryPlanning", "addBatch", "walCommit", "commitOffsets", "latestOffset")
FIRST = 5  # batches of a job that are not counted: Spark plans and compiles, workers load kernels
OWN, OWN_SAME = "Spark's count in windows", "Spark's count in windows, settings of `skyband run`"
OURS = "top-k over files, as `skyband run` starts it"

Job = Callable[[], StreamingQuery]


class Bench:
    """Files of one row, a session, and jobs over them that take turns."""

    def __init__(self, spark: SparkSession, home: Path, files: int) -> None:
        self.spark, self.home = spark, home
        self.found: dict[str, list[dict[str, int]]] = {}
        folder = home / "rows"
        folder.mkdir()
        for number in range(files):
            table = pa.table(
                {
                    "ts": pa.array([START + 1000 * number]).cast(pa.timestamp("us", "UTC")),
                    "trade_id": [number],
                    "symbol": ["S0001"],
                    "price": [10.0 + number],
                    "size": [100],
                }
            )
            pq.write_table(table, folder / f"{number:04}.parquet")
            os.utime(folder / f"{number:04}.parquet", (10**9 + number, 10**9 + number))  # Spark reads older files first
        self.schema = spark.read.parquet(str(folder)).schema

    def stream(self) -> DataFrame:
        reader = self.spark.readStream.schema(self.schema).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.home / "rows"))

    def checkpoint(self) -> str:
        """Return a new folder for the state of a job; Spark may still write to those of earlier jobs."""
        return tempfile.mkdtemp(prefix="checkpoint-", dir=self.home)

    def measure(self, name: str, job: Job, *, counted: bool) -> None:
        """Run a job over all files; keep the milliseconds of the phases of each batch, if it is counted."""
        running = job()
        running.awaitTermination()
        if running.exception() is not None:
            raise RuntimeError(str(running.exception()))
        times = [dict(p["durationMs"]) for p in running.recentProgress if p["numInputRows"] > 0][FIRST:]
        if counted:
            self.found.setdefault(name, []).extend(times)
        print(f"{name}: {statistics.median(t['triggerExecution'] for t in times):.0f} ms", flush=True)

    def own(self) -> StreamingQuery:
        """Start Spark's own count of rows in windows."""
        return self._own(self.checkpoint()).start()

    def own_with_settings(self) -> StreamingQuery:
        """Start the same with the settings that Skyband makes for its queries."""
        folder = self.checkpoint()
        writer, settings = self._own(folder), checkpoint_settings(self.spark, Checkpoint(self.spark, folder))
        with while_starting(self.spark, {**settings, **partition_settings(self.spark, 1)}):
            return writer.start()

    def _own(self, checkpoint: str) -> DataStreamWriter:
        counts = self.stream().withWatermark("ts", WATERMARK).groupBy(sf.window("ts", "600 seconds")).count()
        return _noop(counts).option("checkpointLocation", checkpoint)

    def plain(self) -> StreamingQuery:
        """Start `answers` with a writer of Spark."""
        out = answers(self.stream(), query(), time="ts", id="trade_id", watermark=WATERMARK)
        return _noop(out).option("checkpointLocation", self.checkpoint()).start()

    def run(self, *queries: Any, by_tasks: bool = True) -> Job:
        """Return the job as `skyband run` starts it: with control messages, and answers collected by this process.

        Tasks read the files. Without `by_tasks`, Spark reads them, as it reads topics.
        """

        def start() -> StreamingQuery:
            files = read_files(str(self.home / "rows"), format="parquet", files_per_batch=1)
            return launch(
                files if by_tasks else self.stream(),
                queries,
                deliver=lambda pipeline: collecting(pipeline, _discard).trigger(availableNow=True),
                checkpoint=self.checkpoint(),
                time="ts",
                id_="trade_id" if isinstance(queries[0], sb.TopK) else None,
                watermark=WATERMARK,
                bounded=False,
                algorithm="auto",
                late="count",
                output="answers",
                shards=None,
                sole_watermark=True,
            ).query

        return start


def _noop(out: DataFrame) -> DataStreamWriter:
    return out.writeStream.format("noop").trigger(availableNow=True)


def _discard(rows: pa.Table, batch: int) -> None:
    """Do nothing: no sink is measured."""


def run(*, quick: bool = False) -> None:
    """Run this benchmark; `quick` only checks that it runs."""
    files, rounds = (FIRST + 2, 1) if quick else (FIRST + 15, 3)
    home = Path(tempfile.mkdtemp(prefix="skyband-bench-"))
    machine = report.machine()
    warm_up()
    spark = session(app="skyband bench", master="local[2]")
    try:
        _run(Bench(spark, home, files), rounds, machine, quick=quick)
    finally:
        spark.stop()
        shutil.rmtree(home, ignore_errors=True)


def _run(bench: Bench, rounds: int, machine: str, *, quick: bool) -> None:
    began = time.perf_counter()
    total = sb.AggregateTopK(name="total", k=10, size="600 seconds", slide="10 seconds", key="symbol", value="size")
    jobs: dict[str, Job] = {
        OWN: bench.own,
        OURS: bench.run(query()),
        OWN_SAME: bench.own_with_settings,
        "top-k over rows that Spark reads": bench.run(query(), by_tasks=False),
        "top-k by groups, as `skyband run` starts it": bench.run(query(partition_by=["symbol"])),
        "top-k, `answers` and a writer of Spark": bench.plain,
        "aggregate, as `skyband run` starts it": bench.run(total),
    }
    for number in range(rounds):
        for name, job in jobs.items():
            bench.measure(name, job, counted=quick or number > 0)  # the first round warms up the JVM
    _report(bench.found, machine, write=not quick)
    print(f"{time.perf_counter() - began:.0f} s")


def _report(found: dict[str, list[dict[str, int]]], machine: str, *, write: bool) -> None:
    heads = ["job", "median, ms", "best, ms", *(f"{phase}, ms" for phase in PHASES), "batches"]
    rows = [
        [name, f"{_median(times):.0f}", str(min(one["triggerExecution"] for one in times))]
        + [f"{_median(times, phase):.0f}" for phase in PHASES]
        + [str(len(times))]
        for name, times in found.items()
    ]
    report.show("spark-batch", "Micro-batches of one row", heads, rows, write=write, page=PAGE)
    ours, own, same = (_median(found[name]) for name in (OURS, OWN, OWN_SAME))
    ratios = [
        at_most("a batch of `skyband run` against Spark's count in windows", 1.5, ours / own),
        Ratio("the same, if Spark's count has the settings of `skyband run`", "", f"{ours / same:.2f}×", None),
    ]
    heads = ["ratio", "target", "measured", "met"]
    table = [ratio.row() for ratio in ratios]
    report.show("spark-batch-ratios", "Targets and results", heads, table, write=write, page=PAGE)
    if write:
        report.into_page("spark-batch-machine", machine, page=PAGE)


def _median(times: list[dict[str, int]], phase: str = "triggerExecution") -> float:
    return statistics.median(one.get(phase, 0) for one in times)
