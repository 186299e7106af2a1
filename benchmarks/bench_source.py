"""Files that tasks read and reduce, against Spark's own scans of the same files, in one run and one session.

python -m benchmarks source [--quick]

All numbers are medians over micro-batches, without the first of each job. Jobs take turns, so that a busy machine slows
all of them. Queries run as `skyband run` starts them: this process receives all answers as Arrow tables, for its sinks.
Some also run by `start` with a writer of Spark, which turns each answer into a row of the JVM. Bounds are measured
beside them: a micro-batch of one row, decoding alone, answers that only pass to a sink of Spark, and micro-batches of a
stream that has Spark's operators but none of our code.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import skyband as sb
from benchmarks import report
from benchmarks.bench_spark import WATERMARK, at_least, mixed, query, scan, scan_all, windowed, write_files
from benchmarks.report import Ratio
from benchmarks.source_bounds import Cost, cost_of_empty_batches, cpu_to_decode, seconds_to_decode, seconds_to_pass
from skyband.spark import read_files, session, start
from skyband.spark.delivery import collecting
from skyband.spark.inputs import RowInput
from skyband.spark.stream_handle import Handle
from skyband.spark.stream_start import launch
from skyband.topk.warmup import warm_up

PAGE = report.REPORTS / "source.md"
ROUNDS, EMPTY = 2, 12  # of all jobs, and micro-batches of the empty stream in each
CORES = 2


class Files:
    """Files of so many rows, one a micro-batch, and the times of jobs over them."""

    def __init__(self, spark: SparkSession, home: Path, files: int, rows: int) -> None:
        self.spark, self.rows = spark, rows
        self.folder, self._checkpoint = home / f"trades-{rows}", home / "checkpoint"
        self.files, self.seconds = files, dict[str, list[float]]()
        self.answers: dict[str, int] = {}  # rows of answers in a micro-batch, by job
        write_files(self.folder, files, rows)
        self._schema = spark.read.parquet(str(self.folder)).schema

    def rate(self, name: str) -> float:
        """Rows per second of the median micro-batch."""
        return self.rows / self.median(name)

    def ratio(self, name: str, other: str) -> float:
        return self.rate(name) / self.rate(other)

    def by_spark(
        self,
        name: str,
        make: Callable[[DataFrame], DataFrame],
        mode: str = "complete",
        most: int | None = None,
        *,
        at_once: bool = False,
    ) -> None:
        """Run a job of Spark, for a limited number of batches; `at_once`: one batch takes all files."""
        shutil.rmtree(self._checkpoint, ignore_errors=True)
        limit = self.files if at_once else 1
        reader = self.spark.readStream.schema(self._schema).option("maxFilesPerTrigger", limit)
        stream = reader.parquet(str(self.folder))
        writer = make(stream).writeStream.outputMode(mode).format("noop")
        found = writer.option("checkpointLocation", str(self._checkpoint)).trigger(availableNow=True).start()
        while found.isActive:
            if most is not None and len(_times(found.recentProgress)) > most:
                found.stop()
            found.awaitTermination(1)
        if found.exception() is not None:
            raise RuntimeError(str(found.exception()))
        self._note(name, found.recentProgress, at_once=at_once)

    def by_run(self, name: str, *queries: sb.TopK, at_once: bool = False) -> None:
        """Run queries over files that tasks read, as `skyband run` does; `at_once`: one batch takes all files."""
        counted = [0]

        def take(rows: pa.Table, batch: int) -> None:
            counted[0] += rows.num_rows

        shutil.rmtree(self._checkpoint, ignore_errors=True)
        handle = launch(
            self._input(at_once=at_once),
            queries,
            deliver=lambda pipeline: collecting(pipeline, take).trigger(availableNow=True),
            checkpoint=str(self._checkpoint),
            time="ts",
            id_="trade_id",
            watermark=WATERMARK,
            bounded=False,
            algorithm="auto",
            late="count",
            output="answers",
            shards=None,
            sole_watermark=True,
        )
        self._finish(name, handle, at_once=at_once)
        assert counted[0] == handle.metrics()["answers"]

    def by_writer(self, name: str, *queries: sb.TopK) -> None:
        """Run the same by `start`, with a writer of Spark."""
        shutil.rmtree(self._checkpoint, ignore_errors=True)
        handle = start(
            self._input(at_once=False),
            queries,
            time="ts",
            id="trade_id",
            watermark=WATERMARK,
            checkpoint=str(self._checkpoint),
            write=lambda out: out.writeStream.format("noop").trigger(availableNow=True),
        )
        self._finish(name, handle, at_once=False)

    def _input(self, *, at_once: bool) -> RowInput:
        return read_files(str(self.folder), format="parquet", files_per_batch=None if at_once else 1)

    def _finish(self, name: str, handle: Handle, *, at_once: bool) -> None:
        handle.await_end(progress=False)
        assert handle.metrics()["reader"] == "arrow", handle.metrics()["reader"]
        self.answers[name] = handle.metrics()["answers"] // len(_times(handle.query.recentProgress))
        self._note(name, handle.query.recentProgress, at_once=at_once)

    def empty(self, batches: int) -> list[Cost]:
        """Run the stream without our code."""
        shutil.rmtree(self._checkpoint, ignore_errors=True)
        found = cost_of_empty_batches(self.spark, str(self._checkpoint), batches)
        print(f"an empty stream: {[round(cost.seconds, 3) for cost in found]}", flush=True)
        return found

    def by_bound(self, name: str, job: Callable[[], float], times: int = 4) -> None:
        """Run a job without a stream several times; the first is not counted."""
        self.seconds.setdefault(name, []).extend([job() for _ in range(times)][1:])
        print(f"{name}, {self.rows:,} rows: {self.median(name):.2f} s", flush=True)

    def median(self, name: str) -> float:
        """Seconds of the median micro-batch."""
        return statistics.median(self.seconds[name])

    def _note(self, name: str, progress: Any, *, at_once: bool) -> None:
        """Add the seconds for the rows of one file, without those of the first batch if there are several."""
        times = _times(progress)
        self.seconds.setdefault(name, []).extend([times[0] / self.files] if at_once else times[1:])
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
    spark = session(app="skyband bench", master=f"local[{CORES}]")
    began = time.perf_counter()
    try:
        sizes = ((3, 40_000), (3, 20_000), (4, 1)) if quick else ((4, 4_000_000), (5, 1_000_000), (12, 1))
        large, small, least = (Files(spark, home, *size) for size in sizes)
        ratios = _measure(large, small, least, machine, quick=quick)
        heads = ["ratio", "target", "measured", "met"]
        report.show("source-ratios", "Targets and results", heads, ratios, write=not quick, page=PAGE)
    finally:
        spark.stop()
        shutil.rmtree(home, ignore_errors=True)
    print(f"{time.perf_counter() - began:.0f} s")


def _measure(large: Files, small: Files, least: Files, machine: str, *, quick: bool) -> list[list[str]]:
    one, many, more = "one query, slide 10 seconds", "100 queries", "1000 queries"
    groups, tumbling = "5,000 groups", "one query, slide 600 seconds"
    one_by_writer, more_by_writer = f"{one}, by a writer of Spark", f"{more}, by a writer of Spark"
    two, five, own = "scan and sum of two columns", "scan of five columns", "max_by, slide 600 seconds"
    backlog, five_at_once = "one query, all files in one batch", "scan of five columns, all files in one batch"
    decode, passed, passed_by_two = "decoding alone, 2 tasks", "answers that only pass", "the same by 2 tasks"
    spark, first = large.spark, str(sorted(large.folder.iterdir())[0])
    empty = list[Cost]()
    for _ in range(1 if quick else ROUNDS):
        large.by_spark(two, scan)
        large.by_spark(five, scan_all)
        large.by_run(one, query())
        large.by_run(many, *mixed(100))
        large.by_run(more, *mixed(1000))
        large.by_run(groups, query("10 minutes", size="1 hour", k=10, partition_by=["symbol"]))
        large.by_run(tumbling, query("600 seconds"))
        large.by_writer(one_by_writer, query())
        large.by_writer(more_by_writer, *mixed(1000))
        for _ in range(2):
            large.by_run(backlog, query(), at_once=True)
            large.by_spark(five_at_once, scan_all, at_once=True)
        large.by_spark(own, windowed("600 seconds"), "append", most=None if quick else 2)
        small.by_spark(five, scan_all)
        small.by_run(one, query())
        least.by_run(one, query())
        empty += large.empty(EMPTY)
        large.by_bound(decode, lambda: seconds_to_decode(spark, first, 2))
        large.by_bound(passed, lambda: seconds_to_pass(spark, large.answers[more], 1))
        large.by_bound(passed_by_two, lambda: seconds_to_pass(spark, large.answers[more], 2))
    heads = ["job", "rows per second", "median batch, s", "best batch, s", "batches"]
    report.show(
        "source-jobs",
        "Jobs over files",
        heads,
        [*large.table(), *small.table(), *least.table()],
        write=not quick,
        page=PAGE,
    )
    if not quick:
        report.into_page("source-machine", machine, page=PAGE)
    bound = least.median(one) + large.median(decode)
    without_us, cpu = statistics.median(cost.seconds for cost in empty), statistics.median(cost.cpu for cost in empty)
    decoding = min(cpu_to_decode(first) for _ in range(5))
    in_turn, together = without_us + decoding / CORES, max(without_us, (cpu + decoding) / CORES)
    ratios = [
        at_least("one query against a scan of five columns, 4M rows a batch", 2, large.ratio(one, five)),
        at_least("one query against scan and sum of two columns, 4M rows a batch", 1, large.ratio(one, two)),
        at_least("one query against a scan of five columns, 1M rows a batch", 1, small.ratio(one, five)),
        at_least("100 queries against one", 0.9, large.ratio(many, one)),
        at_least("1000 queries against one", 0.5, large.ratio(more, one)),
        at_least("slide = size against Spark's max_by", 1.5, large.ratio(tumbling, own)),
        at_least("5,000 groups against a scan of five columns", 0.5, large.ratio(groups, five)),
        _bound("one query against a scan of five columns, all files in one batch", large.ratio(backlog, five_at_once)),
        _bound("one query against a scan of five columns, by a writer of Spark", large.ratio(one_by_writer, five)),
        _bound("1000 queries against one, by a writer of Spark", large.ratio(more_by_writer, one_by_writer)),
        _bound("bound of the first: a batch of one row, then decoding alone", large.median(five) / bound),
        _bound("bound of the second", large.median(two) / bound),
        _bound(
            "the same without our code: an empty stream's batch, then decoding on all cores",
            large.median(two) / in_turn,
        ),
        _bound(
            "the same if nothing waits: CPU time of both, spread evenly over all cores", large.median(two) / together
        ),
        Ratio("an empty stream's batch, and its CPU time", "", f"{without_us:.2f} s, {cpu:.2f} s", None),
        Ratio("decoding a file of 4M rows, one thread", "", f"{decoding:.2f} s", None),
        _bound(
            f"bound of the last: one query's batch by a writer, then {large.answers[more]:,} answers that only pass",
            large.median(one_by_writer) / (large.median(one_by_writer) + large.median(passed)),
        ),
    ]
    return [ratio.row() for ratio in ratios]


def _bound(name: str, value: float) -> Ratio:
    return Ratio(name, "", f"{value:.2f}×", None)
