"""Aggregate queries against Spark's own sliding windows, in one run and one session; and in process.

python -m benchmarks aggregate [--quick] [--only local|jobs|own]
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

import skyband as sb
from benchmarks import report
from benchmarks.bench_spark import Batches, Bench, at_least, at_most
from benchmarks.measure import Timing
from benchmarks.report import Ratio
from skyband.spark import answers, session

PAGE = report.REPORTS / "aggregate.md"
SUMMARY = report.REPORTS.parents[1] / "docs" / "explanation" / "performance.md"
START = 1_700_000_000_000_000
KEYS = 100_000
ROWS = 600_000  # of a file
PER_SECOND = 2_000
K = 20
WATERMARK = "10 seconds"
LIMIT = 1500  # seconds for all batches of Spark's own windows
OWN = 3  # batches of Spark's own windows after the first, in which Spark plans and compiles
ROUNDS = 2  # of the jobs with one query and with many, alternately
FULL = 4  # batches after the first hour
FEW_KEYS, MANY_KEYS = 10_000, 1_000_000
LATEST, SHARES = "latest instead of sum", "with shares and the rest"
FEW, MANY = "one query, 10,000 keys", "one query, 1,000,000 keys"
SIZES = ("1 hour", "30 minutes", "20 minutes", "15 minutes", "10 minutes")
AGGREGATES = ("sum", "count", "avg", "max", "min")


def drawn(number: int, rows: int, keys: int = KEYS) -> pa.Table:
    """Rows at a constant rate with skewed keys. Values are multiples of 1/4, so sums of doubles are exact."""
    rng = np.random.default_rng(number)
    ids = np.arange(number * rows, (number + 1) * rows)
    return pa.table(
        {
            "ts": pa.array(START + ids * (1_000_000 // PER_SECOND)).cast(pa.timestamp("us", "UTC")),
            "key": (keys * rng.random(rows) ** 2).astype(np.int64),
            "value": np.round(rng.exponential(400, rows)) / 4,
        }
    )


def write_files(folder: Path, files: int, rows: int) -> None:
    folder.mkdir(parents=True)
    for number in range(files):
        pq.write_table(drawn(number, rows), folder / f"{number:03}.parquet", row_group_size=max(1, rows // 8))


def query(**more: Any) -> sb.AggregateTopK:
    asked = {"name": "busy", "k": K, "size": "1 hour", "slide": "1 minute", "key": "key", "value": "value", **more}
    return sb.AggregateTopK(**asked)


def mixed(n: int) -> list[sb.AggregateTopK]:
    """Queries with five sizes, two slides, five aggregates and different k."""
    return [
        query(
            name=f"q{number}",
            k=K + number,
            size=SIZES[number % 5],
            slide=("1 minute", "5 minutes")[number // 5 % 2],
            aggregate=AGGREGATES[number // 10 % 5],
        )
        for number in range(n)
    ]


def ours(queries: Any) -> Callable[[DataFrame], DataFrame]:
    return lambda df: answers(df, queries, time="ts", watermark=WATERMARK)


def own(df: DataFrame) -> DataFrame:
    """The same with Spark's functions: each row goes into sixty windows, then the best of each window are selected."""
    timed = df.withWatermark("ts", WATERMARK)
    totals = timed.groupBy("key", sf.window("ts", "1 hour", "1 minute")).agg(sf.sum("value").alias("total"))
    return totals.groupBy("window").agg(sf.max_by(sf.struct("key", "total"), "total", K).alias("best"))


def scan(df: DataFrame) -> DataFrame:
    return df.agg(sf.sum("value"), sf.max("key"), sf.max("ts"))


def few_batches(bench: Bench, name: str, make: Callable[[DataFrame], DataFrame], batches: int) -> None:
    """Run the first batch and some more of a job whose batches take minutes; stop it after `LIMIT` seconds.

    If none but the first has finished then, a batch has taken at least as long as the next one until it was stopped.
    """
    checkpoint = bench.home / "checkpoint"
    shutil.rmtree(checkpoint, ignore_errors=True)
    writer = make(bench.stream()).writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    running, began = writer.trigger(availableNow=True).start(), time.perf_counter()
    times: list[float] = []
    while running.isActive and len(times) <= batches and time.perf_counter() - began < LIMIT:
        running.awaitTermination(1)
        progress = [p for p in running.recentProgress if p["numInputRows"] > 0]
        times = [p["durationMs"]["triggerExecution"] / 1e3 for p in progress]
    took = time.perf_counter() - began
    running.stop()
    if running.exception() is not None:
        raise RuntimeError(str(running.exception()))
    first = times[0] if times else took
    bench.found[name] = Batches(bench.rows, times[1 : batches + 1] or [max(first, took - first)], first)
    print(f"{name}: {', '.join(f'{one:.0f} s' for one in times)}; {took:.0f} s in all", flush=True)


def is_the_same(bench: Bench, rows: int) -> bool:
    """Whether both return the same answers for the first rows, including ties."""
    df = bench.spark.createDataFrame(drawn(0, rows))
    totals = df.groupBy("key", sf.window("ts", "1 hour", "1 minute").alias("w"))
    found = totals.agg(sf.sum("value").alias("score"), sf.max("ts").alias("last"))
    order = Window.partitionBy("w").orderBy(sf.desc("score"), sf.desc("last"), sf.desc("key"))
    ranked = found.withColumn("rank", sf.row_number().over(order)).where(f"rank <= {K}")
    expected = ranked.select(sf.col("w.end").alias("window_end"), "rank", "key", "score")
    answered = answers(df, query(), time="ts").select("window_end", "rank", "key", "score")
    by = [("window_end", "ascending"), ("rank", "ascending")]
    one, other = (frame.toArrow().sort_by(by).combine_chunks() for frame in (expected, answered))
    return bool(one.num_rows > 0 and one.to_pylist() == other.to_pylist())


def in_process(queries: list[sb.AggregateTopK], table: pa.Table) -> float:
    """CPU seconds for pushing the rows in batches of 100,000."""
    positions = table["ts"].cast(pa.int64()).to_numpy()
    keys, values = table["key"].to_numpy(), table["value"].to_numpy()
    began = time.thread_time()
    monitor = sb.aggregate.Monitor(queries)
    for low in range(0, positions.size, 100_000):
        mine = slice(low, low + 100_000)
        monitor.push(positions[mine], keys[mine], values[mine])
        monitor.answers()
    return time.thread_time() - began


def run(*, quick: bool = False, only: Sequence[str] = ()) -> None:
    """Run this benchmark, or the parts named in `only`; `quick` only checks that it runs.

    ``local`` is the part in process, ``jobs`` the jobs on Spark without its own windows, and ``own`` adds those.
    """
    if unknown := set(only) - {"local", "jobs", "own"}:
        raise ValueError(f"unknown part {', '.join(sorted(unknown))} of aggregate; parts: local, jobs, own")
    machine = report.machine()
    if not only or "local" in only:
        _report_local(_local(quick=quick), machine, write=not quick)
    if only and set(only) == {"local"}:
        return
    rows, files = (50_000, 3) if quick else (ROWS, 12 + FULL)
    home = Path(tempfile.mkdtemp(prefix="skyband-bench-"))
    spark = session(app="skyband bench", master="local[2]")
    try:
        _run(Bench(spark, home, files, rows, write_files), machine, own_windows=not only or "own" in only, quick=quick)
    finally:
        spark.stop()
        shutil.rmtree(home, ignore_errors=True)


def _run(bench: Bench, machine: str, *, own_windows: bool, quick: bool) -> None:
    began = time.perf_counter()
    same = is_the_same(bench, 10_000 if quick else 30_000)
    print(f"answers equal: {same}", flush=True)
    bench.job("scan and sum", scan, mode="complete")
    full: dict[str, list[float]] = {"one query": [], "50 queries": []}
    for _ in range(1 if quick else ROUNDS):
        for name, queries in zip(full, (query(), mixed(50)), strict=True):
            bench.found.pop(name, None)
            bench.job(name, ours(queries))
            # Windows are full after an hour; from then on, as many rows leave them as enter.
            full[name] += bench.found[name].seconds[-FULL:]
    for name, seconds in full.items():
        bench.found[name] = bench.found[name]._replace(seconds=seconds)
    if own_windows:
        few_batches(bench, "Spark's own windows", own, 1 if quick else OWN)
    _report(bench, machine, same=same, write=not quick)
    print(f"{time.perf_counter() - began:.0f} s")


def _local(*, quick: bool) -> dict[str, tuple[Timing, int]]:
    rows, files, rounds = (50_000, 1, 1) if quick else (ROWS, 6, 3)
    by_keys = {
        keys: pa.concat_tables([drawn(number, rows, keys) for number in range(files)])
        for keys in (FEW_KEYS, KEYS, MANY_KEYS)
    }
    jobs = {
        "one query, in process": (mixed(1), KEYS),
        "50 queries, in process": (mixed(50), KEYS),
        LATEST: ([query(aggregate="latest")], KEYS),
        SHARES: ([query(others=True, share=True)], KEYS),
        FEW: (mixed(1), FEW_KEYS),
        MANY: (mixed(1), MANY_KEYS),
    }
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds + 1):  # alternately, so that other work on the machine affects all of them
        for name, (queries, keys) in jobs.items():
            times[name].append(in_process(queries, by_keys[keys]))
    # The first round compiles.
    return {name: (Timing(times[name][1:]), by_keys[keys].num_rows) for name, (_, keys) in jobs.items()}


def _report_local(local: dict[str, tuple[Timing, int]], machine: str, *, write: bool) -> None:
    heads = ["in process", "rows per second", "CPU s", "median above best"]
    rows = [
        [name, report.amount(count / timing.best), f"{timing.best:.2f}", f"{timing.spread:+.0%}"]
        for name, (timing, count) in local.items()
    ]
    report.show("aggregate-local", "In process, one thread", heads, rows, write=write, page=PAGE)
    took = {name: statistics.median(timing.rounds) for name, (timing, _) in local.items()}
    alone, together = took["one query, in process"], took["50 queries, in process"]
    ratios = [
        Ratio("50 queries against one, in process, time", "", f"{together / alone:.2f}×", None),
        at_least("1,000,000 keys against 10,000, in process, rows per second", 0.3, took[FEW] / took[MANY]),
        at_most("latest against sum, in process, time", 1.1, took[LATEST] / alone),
        Ratio("shares and the rest against none, in process, time", "", f"{took[SHARES] / alone:.2f}×", None),
    ]
    heads, rows = ["ratio", "target", "measured", "met"], [ratio.row() for ratio in ratios]
    report.show("aggregate-local-ratios", "Targets in process", heads, rows, write=write, page=PAGE)
    if write:
        report.into_page("aggregate-local-machine", machine, page=PAGE)
        rate = report.amount(local["one query, in process"][1] / alone)
        report.into_page("aggregate-local-summary", f"One query in process: {rate} rows/s.", page=SUMMARY)


def _report(bench: Bench, machine: str, *, same: bool, write: bool) -> None:
    found = bench.found
    heads = ["job", "rows per second", "best batch, s", "median above best", "batches", "first batch, s"]
    rows = [batches.row(name) for name, batches in found.items()]
    whole = "Spark's own windows" in found
    report.show("aggregate-jobs", "Jobs over files of rows", heads, rows, write=write and whole, page=PAGE)
    median = statistics.median(found["one query"].seconds)
    median_of_many = statistics.median(found["50 queries"].seconds)
    ratios = [
        at_most("50 queries against one, on Spark, time", 1.5, median_of_many / median),
        Ratio("the same answers as Spark's own", "yes", "yes" if same else "no", same),
    ]
    faster = statistics.median(found["Spark's own windows"].seconds) / median if whole else 0.0
    if whole:
        ratios.insert(0, at_least("one query against Spark's own windows", 20, faster))
    heads, rows = ["ratio", "target", "measured", "met"], [ratio.row() for ratio in ratios]
    report.show("aggregate-ratios", "Targets and results", heads, rows, write=write and whole, page=PAGE)
    if write and whole:
        report.into_page("aggregate-machine", machine, page=PAGE)
        lines = [
            "| Keys by totals | Measured | Against |",
            "|---|---|---|",
            f"| one query on Spark | {faster:.0f}× faster | Spark's own sliding-window aggregation |",
            f"| 50 queries on Spark | {median_of_many / median:.2f}× the time of one query | |",
        ]
        report.into_page("aggregate-summary", "\n".join(lines), page=SUMMARY)
