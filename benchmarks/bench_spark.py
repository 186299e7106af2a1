"""The pipeline on Spark against Spark's own means, in one run and one session: rows per second, ratios, state.

python -m benchmarks spark [--quick]
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import skyband as sb
from benchmarks import report
from benchmarks.report import Ratio
from skyband.spark import answers, session
from skyband.topk.warmup import warm_up

PAGE = report.REPORTS / "spark.md"
PER_SECOND = 400
START = 1_700_000_000_000_000
GROUPS = 5_000
WATERMARK = "10 seconds"


class Batches(NamedTuple):
    """The micro-batches of one job, without the first."""

    rows: int  # in a batch
    seconds: list[float]
    first: float

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def per_second(self) -> float:
        return self.rows / self.best

    def row(self, name: str) -> list[str]:
        spread = f"{statistics.median(self.seconds) / self.best - 1:+.0%}"
        return [
            name,
            report.amount(self.per_second),
            f"{self.best:.2f}",
            spread,
            str(len(self.seconds)),
            f"{self.first:.1f}",
        ]


class Bench:
    """Files, a session, and jobs over them."""

    def __init__(
        self,
        spark: SparkSession,
        home: Path,
        files: int,
        rows: int,
        write: Callable[[Path, int, int], None] | None = None,
    ) -> None:
        self.spark, self.home, self.rows = spark, home, rows
        self.found: dict[str, Batches] = {}
        (write or write_files)(home / "trades", files, rows)
        self.schema = spark.read.parquet(str(home / "trades")).schema

    def stream(self) -> DataFrame:
        return (
            self.spark.readStream.schema(self.schema).option("maxFilesPerTrigger", 1).parquet(str(self.home / "trades"))
        )

    def job(
        self, name: str, make: Callable[[DataFrame], DataFrame], *, mode: str = "append", most: int | None = None
    ) -> None:
        """Run a job over the files, for a limited number of batches, and store the time of each."""
        checkpoint = self.home / "checkpoint"
        shutil.rmtree(checkpoint, ignore_errors=True)
        writer = (
            make(self.stream())
            .writeStream.outputMode(mode)
            .format("noop")
            .option("checkpointLocation", str(checkpoint))
        )
        query = writer.trigger(availableNow=True).start()
        while query.isActive:
            if most is not None and sum(p["numInputRows"] > 0 for p in query.recentProgress) > most:
                query.stop()
            query.awaitTermination(1)
        if query.exception() is not None:
            raise RuntimeError(str(query.exception()))
        times = [p["durationMs"]["triggerExecution"] / 1e3 for p in query.recentProgress if p["numInputRows"] > 0]
        before = self.found.get(name)
        found = Batches(self.rows, times[1:], times[0])
        if before is not None:
            found = Batches(self.rows, before.seconds + found.seconds, before.first)
        self.found[name] = found
        print(f"{name}: {found.per_second:,.0f} rows/s, first batch {found.first:.1f} s", flush=True)


def write_files(folder: Path, files: int, rows: int) -> None:
    """Trades at a constant rate; Spark reads the row groups of a file in parallel."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(7)
    names = np.array([f"S{number:04}" for number in range(GROUPS)])
    for number in range(files):
        ids = np.arange(number * rows, (number + 1) * rows)
        table = pa.table(
            {
                "ts": pa.array(START + ids * (1_000_000 // PER_SECOND)).cast(pa.timestamp("us", "UTC")),
                "trade_id": ids,
                "symbol": pa.array(names).take(pa.array(rng.integers(0, GROUPS, rows))),
                "price": rng.lognormal(3, 1, rows).round(2),
                "size": rng.integers(1, 1000, rows),
            }
        )
        pq.write_table(table, folder / f"{number:03}.parquet", row_group_size=max(1, rows // 8))


def query(slide: str = "10 seconds", **more: Any) -> sb.TopK:
    return sb.TopK(**{"name": "big", "k": 100, "size": "600 seconds", "slide": slide, "by": "price * size", **more})


def mixed(n: int) -> list[sb.TopK]:
    """Queries of many sizes, slides and ks: sizes 1 to 20 minutes, slides of 10 to 100 % of them, k up to 100."""
    rng = np.random.default_rng(n)
    found = []
    for number in range(n):
        size = int(rng.integers(6, 121)) * 10
        slide = max(60, int(size * rng.uniform(0.1, 1.0)) // 10 * 10)
        found.append(
            query(f"{min(slide, size)} seconds", name=f"q{number}", k=int(rng.integers(1, 101)), size=f"{size} seconds")
        )
    return found


def ours(queries: Any, **more: Any) -> Callable[[DataFrame], DataFrame]:
    return lambda df: answers(df, queries, time="ts", id="trade_id", watermark=WATERMARK, **more)


def scan(df: DataFrame) -> DataFrame:
    return df.agg(sf.sum("price"), sf.sum("size"))


def scan_all(df: DataFrame) -> DataFrame:
    return df.agg(sf.sum("price"), sf.sum("size"), sf.sum("trade_id"), sf.max("ts"), sf.max("symbol"))


def windowed(slide: str) -> Callable[[DataFrame], DataFrame]:
    """The same with Spark's functions: every row goes into size / slide windows."""

    def make(df: DataFrame) -> DataFrame:
        scored = df.withWatermark("ts", WATERMARK).withColumn("score", sf.expr("price * size"))
        kept = sf.struct("ts", "trade_id", "symbol", "price", "size", "score")
        return scored.groupBy(sf.window("ts", "600 seconds", slide)).agg(_best(kept))

    return make


def by_hand(slide: str) -> Callable[[DataFrame], DataFrame]:
    """An expert's implementation: the best of each pane, then the best of each window's panes."""

    def make(df: DataFrame) -> DataFrame:
        scored = df.withWatermark("ts", WATERMARK).withColumn("score", sf.expr("price * size"))
        kept = sf.struct("ts", "trade_id", "symbol", "price", "size", "score")
        panes = scored.groupBy(sf.window("ts", slide).alias("pane")).agg(_best(kept))
        rows = panes.select(sf.window_time("pane").alias("at"), sf.explode("best").alias("row"))
        return rows.groupBy(sf.window("at", "600 seconds", slide)).agg(
            sf.expr("max_by(row, row.score, 100)").alias("best")
        )

    return make


def _best(kept: Any) -> Any:
    return sf.max_by(kept, "score", 100).alias("best")


def state_rows(bench: Bench, rows: int) -> list[list[str]]:
    """Bytes of state for one query over windows of very different length."""
    folder = bench.home / "sparse"
    folder.mkdir()
    rng = np.random.default_rng(3)
    ids = np.arange(rows)
    hours = 30
    table = pa.table(
        {
            "ts": pa.array(START + ids * (hours * 3_600_000_000 // rows)).cast(pa.timestamp("us", "UTC")),
            "trade_id": ids,
            "price": rng.lognormal(3, 1, rows),
        }
    )
    for number in range(3):
        pq.write_table(table.slice(number * rows // 3, rows // 3), folder / f"{number}.parquet")
    found = []
    for size, slide, seconds in (
        ("1 minute", "6 seconds", 60),
        ("1 hour", "6 minutes", 3600),
        ("24 hours", "144 minutes", 86_400),
    ):
        df = bench.spark.readStream.schema(bench.spark.read.parquet(str(folder)).schema).option("maxFilesPerTrigger", 1)
        out = answers(
            df.parquet(str(folder)),
            sb.TopK(k=100, size=size, slide=slide, by="price"),
            time="ts",
            id="trade_id",
            watermark="1 second",
        )
        checkpoint = bench.home / "checkpoint"
        shutil.rmtree(checkpoint, ignore_errors=True)
        running = (
            out.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        )
        done = running.start()
        done.awaitTermination()
        # The last batch has no rows: the watermark has reached all rows, and no row waits for it.
        seen = done.recentProgress[-1]["observedMetrics"].get("skyband_out")
        held = [seen[name] for name in seen.asDict() if name.startswith("candidates_") and seen[name] is not None]
        size_of = [seen[name] for name in seen.asDict() if name.startswith("bytes_") and seen[name] is not None]
        in_window = int(rows * seconds / (hours * 3600))
        found.append(
            [size, f"{in_window:,}", f"{sum(held):,}", f"{sum(size_of):,}", f"{sum(size_of) / max(1, sum(held)):,.0f}"]
        )
    return found


def run(*, quick: bool = False) -> None:
    """Run this benchmark; `quick` only checks that it runs."""
    rows, files = (50_000, 3) if quick else (1_000_000, 6)
    home = Path(tempfile.mkdtemp(prefix="skyband-bench-"))
    machine = report.machine()
    warm_up()
    spark = session(app="skyband bench", master="local[2]")
    try:
        _run(Bench(spark, home, files, rows), machine, quick=quick)
    finally:
        spark.stop()
        shutil.rmtree(home, ignore_errors=True)


def _run(bench: Bench, machine: str, *, quick: bool) -> None:
    began = time.perf_counter()
    slides = ("600 seconds", "60 seconds", "10 seconds", "1 second")
    bench.job("scan and sum", scan, mode="complete")
    for slide in slides:
        bench.job(f"one query, slide {slide}", ours(query(slide)))
    bench.job("scan and sum", scan, mode="complete")
    bench.job("scan of all columns", scan_all, mode="complete")
    bench.job("100 mixed queries", ours(mixed(100)))
    bench.job("1000 mixed queries", ours(mixed(1000)))
    bench.job("one query, slide 10 seconds", ours(query()))
    bench.job("one query, late=refuse", ours(query(), late="refuse"))
    grouped = query("10 minutes", size="1 hour", k=10, partition_by=["symbol"])
    bench.job("5,000 groups", ours(grouped))
    bench.job("scan and sum", scan, mode="complete")
    bench.job("by hand, slide 10 seconds", by_hand("10 seconds"), most=None if quick else 4)
    for slide, most in (("600 seconds", 3), ("60 seconds", 2), ("10 seconds", 1)):
        bench.job(f"max_by in windows, slide {slide}", windowed(slide), most=most)
    state = state_rows(bench, 100_000 if quick else 3_000_000)
    _report(bench, state, machine, write=not quick)
    print(f"{time.perf_counter() - began:.0f} s")


def _report(bench: Bench, state: list[list[str]], machine: str, *, write: bool) -> None:
    found = bench.found
    heads = ["job", "rows per second", "best batch, s", "median above best", "batches", "first batch, s"]
    rows = [batches.row(name) for name, batches in found.items()]
    report.show("spark-jobs", "Jobs over files of a million rows", heads, rows, write=write, page=PAGE)
    one, scan_ = found["one query, slide 10 seconds"], found["scan and sum"]
    first, last = found["one query, slide 600 seconds"], found["one query, slide 1 second"]
    own, hand = found["max_by in windows, slide 10 seconds"], found["by hand, slide 10 seconds"]
    many, more = found["100 mixed queries"], found["1000 mixed queries"]
    ratios = [
        at_least("one query against Spark's own windows, slide 10 s", 20, own.best / one.best),
        at_most("slide 1 s against slide 600 s, time", 2, last.best / first.best),
        at_least("one query against max_by by hand, slide 10 s", 2, hand.best / one.best),
        at_least("100 queries against 100 jobs by hand", 30, 100 * hand.best / many.best),
        at_least("one query against scan and sum, rows per second", 0.35, scan_.best / one.best),
        Ratio(
            "one query against a scan of all columns", "", f"{found['scan of all columns'].best / one.best:.2f}×", None
        ),
        at_most("100 queries against one, time", 2, many.best / one.best),
        at_most("1000 queries against one, time", 4, more.best / one.best),
        at_least("5,000 groups against scan and sum", 0.2, scan_.best / found["5,000 groups"].best),
    ]
    heads = ["ratio", "target", "measured", "met"]
    report.show("spark-ratios", "Targets and results", heads, [ratio.row() for ratio in ratios], write=write, page=PAGE)
    heads = ["window", "rows in it", "candidates held", "bytes of state", "bytes a candidate"]
    report.show("spark-state", "State of one query, k 100", heads, state, write=write, page=PAGE)
    if write:
        report.into_page("spark-machine", machine, page=PAGE)


def at_least(what: str, target: float, measured: float) -> Ratio:
    return Ratio(what, f"at least {target:g}×", f"{measured:.2f}×", measured >= target)


def at_most(what: str, target: float, measured: float) -> Ratio:
    return Ratio(what, f"at most {target:g}×", f"{measured:.2f}×", measured <= target)
