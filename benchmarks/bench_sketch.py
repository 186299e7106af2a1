"""Heavy hitters: exact totals, sketches, and Spark's `approx_top_k`, for 10,000 to 10 million keys.

python -m benchmarks sketch [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import skyband as sb
from benchmarks import report
from benchmarks.bench_spark import at_least, at_most
from benchmarks.report import Ratio
from skyband.spark import session

PAGE = report.REPORTS / "sketch.md"
MINUTE = 60_000_000
SPAN = 75 * MINUTE  # windows of an hour are full for fifteen minutes
KEYS = (10_000, 1_000_000, 10_000_000)
PUSH = 100_000
K, COUNTERS = 20, 999
METHODS = ("exact", "sketch")
MEMORY = 64e6


class Measured(NamedTuple):
    """One run in a process of its own."""

    seconds: float  # CPU time of the thread
    memory: float  # bytes: the peak of the process, less that before the first row
    error: float  # the largest error of a row, as a share of the total of its window
    guaranteed: float  # share of the rows


def drawn(number: int, keys: int, rows: int, total: int) -> tuple[Any, Any]:
    """Positions and keys of a push: a third of the rows has a key by Zipf's law, the others have any key."""
    rng = np.random.default_rng(number)
    positions = (np.arange(number * PUSH, number * PUSH + rows) * (SPAN / total)).astype(np.int64)
    found = rng.integers(0, keys, rows)
    skewed = rng.random(rows) < 1 / 3
    found[skewed] = rng.zipf(1.2, int(skewed.sum())) % keys
    return positions, found


def pushes(keys: int, total: int) -> Iterator[tuple[Any, Any]]:
    for number in range(-(-total // PUSH)):
        yield drawn(number, keys, min(PUSH, total - number * PUSH), total)


def query(method: str) -> sb.AggregateTopK:
    fields: dict[str, Any] = {"k": K, "size": "1 hour", "slide": "1 minute", "aggregate": "count"}
    if method == "sketch":
        fields |= {"method": method, "counters": COUNTERS}
    return sb.AggregateTopK(**fields)


def measure(method: str, keys: int, rows: int) -> Measured:
    """Push a stream and read the answers after each push."""
    for warm in METHODS:  # loads the kernels
        sb.aggregate.replay(query(warm), *drawn(0, 100, 10_000, 10_000))
    before, seconds, answers = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0.0, []
    monitor = sb.aggregate.Monitor(query(method))
    for positions, names in pushes(keys, rows):
        began = time.thread_time()
        monitor.push(positions, names)
        answers.append(monitor.answers())
        seconds += time.thread_time() - began
    memory = 1024.0 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    table = pa.concat_tables(answers)
    full = table.filter(pa.compute.greater(table["window_end"], 60 * MINUTE))
    if method == "exact" or not full.num_rows:
        return Measured(seconds, memory, 0.0, 1.0)
    weight = rows * 60 * MINUTE / SPAN
    return Measured(seconds, memory, pa.compute.max(full["error"]).as_py() / weight,
                    float(np.mean(full["guaranteed"].to_numpy(zero_copy_only=False))))  # fmt: skip


def in_a_process(method: str, keys: int, rows: int) -> Measured:
    command = [sys.executable, "-m", "benchmarks.bench_sketch", method, str(keys), str(rows)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=dict(os.environ))
    found = Measured(**json.loads(done.stdout.splitlines()[-1]))
    print(f"{method}, {keys:,} keys: {rows / found.seconds:,.0f} rows/s, {found.memory / 1e6:.0f} MB", flush=True)
    return found


def of_spark(spark: SparkSession, folder: Path, rows: int, rounds: int) -> list[float]:
    """Seconds of `approx_top_k` over the files: of each minute, so that each row is in one window."""
    df = spark.read.parquet(str(folder))
    best = sf.expr(f"approx_top_k(key, {K}, {2 * COUNTERS})").alias("best")
    times = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        df.groupBy(sf.window("ts", "1 minute")).agg(best).write.format("noop").mode("overwrite").save()
        times.append(time.perf_counter() - began)
    print(f"Spark: {rows / statistics.median(times[1:]):,.0f} rows/s", flush=True)
    return times[1:]  # the first compiles


def sliding_of_spark(spark: SparkSession, folder: Path) -> float:
    """Seconds of `approx_top_k` in windows of an hour every minute: each row is copied into sixty windows."""
    df = spark.read.parquet(str(folder / "0.parquet"))
    best = sf.expr(f"approx_top_k(key, {K}, {2 * COUNTERS})").alias("best")
    began = time.perf_counter()
    df.groupBy(sf.window("ts", "1 hour", "1 minute")).agg(best).write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def write_files(folder: Path, keys: int, rows: int) -> None:
    folder.mkdir(parents=True)
    columns = list(pushes(keys, rows))
    step = max(1, len(columns) // 4)
    for low in range(0, len(columns), step):
        positions, names = (np.concatenate(part) for part in zip(*columns[low : low + step], strict=True))
        table = pa.table({"ts": pa.array(positions).cast(pa.timestamp("us", "UTC")), "key": names})
        pq.write_table(table, folder / f"{low}.parquet")


def run(*, quick: bool = False, rows: int = 20_000_000, rounds: int = 3) -> None:
    """Run this benchmark; `quick` only checks that it runs."""
    rows, rounds = (200_000, 1) if quick else (rows, rounds)
    machine = report.machine()
    local: dict[tuple[str, int], list[Measured]] = {}
    for _ in range(rounds):
        for keys in KEYS:
            for method in METHODS:
                local.setdefault((method, keys), []).append(in_a_process(method, keys, rows))
    home, theirs, sliding = Path(tempfile.mkdtemp(prefix="skyband-bench-")), {}, {}
    spark = session(app="skyband bench", master="local[1]")
    try:
        for keys in KEYS:
            write_files(home / str(keys), keys, rows)
            theirs[keys] = of_spark(spark, home / str(keys), rows, rounds)
            if keys == KEYS[0]:
                count = pq.read_metadata(home / str(keys) / "0.parquet").num_rows
                sliding = {keys: count / sliding_of_spark(spark, home / str(keys))}
    finally:
        spark.stop()
        shutil.rmtree(home, ignore_errors=True)
    _report(local, theirs, sliding[KEYS[0]], rows, machine, write=not quick)


def _report(
    local: dict[tuple[str, int], list[Measured]],
    theirs: dict[int, list[float]],
    sliding: float,
    rows: int,
    machine: str,
    *,
    write: bool,
) -> None:
    lines, rates = [], {}
    for (method, keys), found in local.items():
        seconds = statistics.median(one.seconds for one in found)
        memory = max(one.memory for one in found)
        rates[method, keys] = rows / seconds
        lines.append([
            method, report.short(keys), report.amount(rows / seconds), f"{memory / 1e6:.0f} MB",
            f"{max(one.error for one in found):.1e}", f"{min(one.guaranteed for one in found):.0%}",
        ])  # fmt: skip
    heads = ["method", "keys", "rows per second", "memory", "largest error", "guaranteed rows"]
    report.show("sketch-local", f"Windows of an hour every minute, {rows:,} rows", heads, lines, write=write, page=PAGE)
    lines = [
        ["each minute", report.short(keys), report.amount(rows / statistics.median(found))]
        for keys, found in theirs.items()
    ]
    lines.append(["an hour, every minute", report.short(KEYS[0]), report.amount(sliding)])
    heads = ["windows", "keys", "rows per second"]
    report.show("sketch-spark", "Spark's approx_top_k, one core", heads, lines, write=write, page=PAGE)
    most = KEYS[-1]
    errors = [one.error for (method, _), found in local.items() if method == "sketch" for one in found]
    memory = max(one.memory for keys in KEYS for one in local["sketch", keys])
    faster = rates["sketch", most] / rates["exact", most]
    ratios = [
        at_least("sketch against exact, 10 million keys, rows per second", 3, faster),
        Ratio("memory of the sketch, any number of keys", "at most 64 MB", f"{memory / 1e6:.0f} MB", memory <= MEMORY),
        at_most("largest error against the guarantee, 1 / 1,000 of the window", 1, max(errors) * (COUNTERS + 1)),
        Ratio("sketch, an hour every minute, against approx_top_k of each minute, 10 million keys", "",
              f"{rates['sketch', most] * statistics.median(theirs[most]) / rows:.2f}×", None),
        Ratio("sketch against approx_top_k, both an hour every minute, 10,000 keys", "",
              f"{rates['sketch', KEYS[0]] / sliding:.1f}×", None),
    ]  # fmt: skip
    heads = ["ratio", "target", "measured", "met"]
    report.show("sketch-ratios", "Targets and results", heads, [one.row() for one in ratios], write=write, page=PAGE)
    if write:
        report.into_page("sketch-machine", machine, page=PAGE)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("keys", type=int)
    parser.add_argument("rows", type=int)
    given = parser.parse_args()
    print(json.dumps(measure(given.method, given.keys, given.rows)._asdict()))
