"""Files that tasks read and reduce, against Spark's own scans of the same files, in one run and one session.

python -m benchmarks source [--quick]

All numbers are medians over micro-batches, without the first of each job. Jobs take turns, so that a busy machine slows
all of them.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from benchmarks import report
from benchmarks.bench_spark import WATERMARK, at_least, mixed, query, scan, scan_all, windowed, write_files
from skyband.spark import read_files, session, start
from skyband.topk.warmup import warm_up

PAGE = report.REPORTS / "source.md"
ROUNDS = 2


class Files:
    """Files of so many rows, one a micro-batch, and the times of jobs over them."""

    def __init__(self, spark: SparkSession, home: Path, files: int, rows: int) -> None:
        self.spark, self.rows = spark, rows
        self.folder, self._checkpoint = home / f"trades-{rows}", home / "checkpoint"
        self.seconds: dict[str, list[float]] = {}
        write_files(self.folder, files, rows)
        self._schema = spark.read.parquet(str(self.folder)).schema

    def rate(self, name: str) -> float:
        """Rows per second of the median micro-batch."""
        return self.rows / statistics.median(self.seconds[name])

    def ratio(self, name: str, other: str) -> float:
        return self.rate(name) / self.rate(other)

    def by_spark(
        self, name: str, make: Callable[[DataFrame], DataFrame], mode: str = "complete", most: int | None = None
    ) -> None:
        """Run a job of Spark, for a limited number of batches."""
        shutil.rmtree(self._checkpoint, ignore_errors=True)
        stream = self.spark.readStream.schema(self._schema).option("maxFilesPerTrigger", 1).parquet(str(self.folder))
        writer = make(stream).writeStream.outputMode(mode).format("noop")
        found = writer.option("checkpointLocation", str(self._checkpoint)).trigger(availableNow=True).start()
        while found.isActive:
            if most is not None and len(_times(found.recentProgress)) > most:
                found.stop()
            found.awaitTermination(1)
        if found.exception() is not None:
            raise RuntimeError(str(found.exception()))
        self._note(name, found.recentProgress)

    def by_tasks(self, name: str, queries: Any) -> None:
        """Run queries over files that tasks read."""
        shutil.rmtree(self._checkpoint, ignore_errors=True)
        handle = start(
            read_files(str(self.folder), format="parquet", files_per_batch=1),
            queries,
            time="ts",
            id="trade_id",
            watermark=WATERMARK,
            checkpoint=str(self._checkpoint),
            write=lambda out: out.writeStream.format("noop").trigger(availableNow=True),
        )
        handle.await_end(progress=False)
        assert handle.metrics()["reader"] == "arrow", handle.metrics()["reader"]
        self._note(name, handle.query.recentProgress)

    def _note(self, name: str, progress: Any) -> None:
        times = _times(progress)
        self.seconds.setdefault(name, []).extend(times[1:])
        print(f"{name}, {self.rows:,} rows: {self.rate(name):,.0f} rows/s; {times}", flush=True)

    def table(self) -> list[list[str]]:
        return [
            [f"{name}, {self.rows:,} rows", report.amount(self.rate(name)), f"{statistics.median(seconds):.2f}",
             f"{min(seconds):.2f}", str(len(seconds))]
            for name, seconds in self.seconds.items()
        ]  # fmt: skip


def _times(progress: Any) -> list[float]:
    """Seconds of each micro-batch that took a file."""
    return [
        one["durationMs"]["triggerExecution"] / 1e3
        for one in progress
        if one["sources"][0]["startOffset"] != one["sources"][0]["endOffset"]
    ]


def run(*, quick: bool = False) -> None:
    """Run this benchmark; `quick` only checks that it runs."""
    home = Path(tempfile.mkdtemp(prefix="skyband-bench-"))
    machine = report.machine()
    warm_up()
    spark = session(app="skyband bench", master="local[2]")
    began = time.perf_counter()
    try:
        large, small = ((3, 40_000), (3, 20_000)) if quick else ((4, 4_000_000), (5, 1_000_000))
        ratios = _measure(Files(spark, home, *large), Files(spark, home, *small), machine, quick=quick)
        heads = ["ratio", "target", "measured", "met"]
        report.show("source-ratios", "Targets and results", heads, ratios, write=not quick, page=PAGE)
    finally:
        spark.stop()
        shutil.rmtree(home, ignore_errors=True)
    print(f"{time.perf_counter() - began:.0f} s")


def _measure(large: Files, small: Files, machine: str, *, quick: bool) -> list[list[str]]:
    one, many, more = "one query, slide 10 seconds", "100 queries", "1000 queries"
    groups, tumbling = "5,000 groups", "one query, slide 600 seconds"
    two, five, own = "scan and sum of two columns", "scan of five columns", "max_by, slide 600 seconds"
    for _ in range(1 if quick else ROUNDS):
        large.by_spark(two, scan)
        large.by_spark(five, scan_all)
        large.by_tasks(one, query())
        large.by_tasks(many, mixed(100))
        large.by_tasks(more, mixed(1000))
        large.by_tasks(groups, query("10 minutes", size="1 hour", k=10, partition_by=["symbol"]))
        large.by_tasks(tumbling, query("600 seconds"))
        large.by_spark(own, windowed("600 seconds"), "append", most=None if quick else 2)
        small.by_spark(five, scan_all)
        small.by_tasks(one, query())
    heads = ["job", "rows per second", "median batch, s", "best batch, s", "batches"]
    report.show("source-jobs", "Jobs over files", heads, [*large.table(), *small.table()], write=not quick, page=PAGE)
    if not quick:
        report.into_page("source-machine", machine, page=PAGE)
    ratios = [
        at_least("one query against a scan of five columns, 4M rows a batch", 2, large.ratio(one, five)),
        at_least("one query against scan and sum of two columns, 4M rows a batch", 1, large.ratio(one, two)),
        at_least("one query against a scan of five columns, 1M rows a batch", 1, small.ratio(one, five)),
        at_least("100 queries against one", 0.9, large.ratio(many, one)),
        at_least("1000 queries against one", 0.5, large.ratio(more, one)),
        at_least("slide = size against Spark's max_by", 1.5, large.ratio(tumbling, own)),
        at_least("5,000 groups against a scan of five columns", 0.5, large.ratio(groups, five)),
    ]
    return [ratio.row() for ratio in ratios]
