"""From a topic to answers, against Spark that reads, parses and counts the same topic, in one session by turns.

Topics have the same trades as JSON and as Avro, on a broker that the benchmark starts on this machine. Each round runs
all jobs over a whole topic. The rate of a job is that of its median micro-batch; the first one of each round is left
out. The CPU time is that of Spark and Python for a whole topic, without the broker; it depends less on other programs.

python -m benchmarks kafka [--quick]
"""

from __future__ import annotations

import importlib
import io
import json
import shutil
import statistics
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import skyband as sb
from benchmarks import report
from benchmarks.bench_spark import mixed, write_files
from benchmarks.report import Ratio
from skyband.jobs import run as run_file
from skyband.spark import session
from skyband.topk.warmup import warm_up

PAGE = report.REPORTS / "kafka.md"
LEAST = 0.7  # of the rate of Spark that reads, parses and counts
QUERIES = 100
SPARK = "Spark: read, parse and count JSON"
COLUMNS = {"ts": "timestamp", "trade_id": "bigint", "symbol": "string", "price": "double", "size": "int"}
FIELDS = [
    {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "trade_id", "type": "long"},
    {"name": "symbol", "type": "string"},
    {"name": "price", "type": "double"},
    {"name": "size", "type": "int"},
]
SCHEMA = {"type": "record", "name": "Trade", "fields": FIELDS}


def run(*, quick: bool = False) -> None:
    """Run this benchmark and print the results; write the report unless `quick`."""
    machine = report.machine()
    rows, batches, rounds = (20_000, 3, 1) if quick else (500_000, 4, 3)
    home = Path(tempfile.mkdtemp(prefix="skyband-bench-"))
    kafka = importlib.import_module("tests.connectors.kafka.broker")
    (home / "broker").mkdir()
    broker = kafka.Broker(home / "broker", kafka.broker_jars())
    try:
        warm_up()
        spark = session(app="skyband bench", master="local[2]", kafka=True)
        try:
            write_files(home / "trades", batches, rows)
            _produce(spark, home, broker.servers)
            found = _rounds(spark, home, broker.servers, rows, batches, rounds)
        finally:
            spark.stop()
    finally:
        broker.stop()
        shutil.rmtree(home, ignore_errors=True)
    report.show(
        "kafka-ratios",
        f"{rows * batches:,} trades, micro-batches of {rows:,}, {rounds} rounds by turns",
        ("what", "target", "measured", "met"),
        [ratio.row() for ratio in _ratios(found, rows)],
        write=not quick,
        page=PAGE,
    )
    if not quick:
        report.into_page("kafka-machine", machine, page=PAGE)


class Job(NamedTuple):
    """What was measured of a job."""

    seconds: list[float]  # of each micro-batch
    cpu: list[float]  # seconds of each round


def _ratios(found: dict[str, Job], rows: int) -> list[Ratio]:
    base, base_cpu = (statistics.median(of_spark) for of_spark in found[SPARK])
    ratios = []
    for name, (seconds, cpu) in found.items():
        middle = statistics.median(seconds)
        spread = f"{report.amount(rows / max(seconds))} to {report.amount(rows / min(seconds))}"
        shown = f"{report.amount(rows / middle)} (of {len(seconds)} batches: {spread})"
        ratios.append(Ratio(f"{name}: rows per second", "", shown, None))
        if name != SPARK:
            target = LEAST if "JSON" in name else None
            share = base / middle
            ratios.append(
                Ratio(
                    f"{name}: rate against that of Spark",
                    "" if target is None else f"at least {target}",
                    f"{share:.2f}",
                    None if target is None else share >= target,
                )
            )
            ratio = statistics.median(cpu) / base_cpu
            ratios.append(Ratio(f"{name}: CPU time against that of Spark", "", f"{ratio:.2f}", None))
    return ratios


def _rounds(spark: SparkSession, home: Path, servers: str, rows: int, batches: int, rounds: int) -> dict[str, Job]:
    """Run all jobs by turns."""
    found: dict[str, Job] = {}
    jobs: dict[str, Callable[[], list[float]]] = {
        SPARK: lambda: _counted(spark, home, servers, rows),
        "JSON, 1 query": lambda: _answered(spark, home, servers, rows, batches, "json", 1),
        f"JSON, {QUERIES} queries": lambda: _answered(spark, home, servers, rows, batches, "json", QUERIES),
        f"Avro, {QUERIES} queries": lambda: _answered(spark, home, servers, rows, batches, "avro", QUERIES),
    }
    for _ in range(rounds):
        for name, job in jobs.items():
            before = _cpu_seconds()
            seconds = job()
            taken = _cpu_seconds() - before
            found.setdefault(name, Job([], [])).seconds.extend(seconds)
            found[name].cpu.append(taken)
            print(f"{name}: {rows / statistics.median(seconds):,.0f} rows/s, {taken:.1f} s of CPU time", flush=True)
    return found


def _cpu_seconds() -> float:
    """CPU time of this process and of those that it has started, without the broker."""
    total = 0.0
    here = psutil.Process()
    for process in [here, *here.children(recursive=True)]:
        with suppress(psutil.Error):
            if "kafka.Kafka" not in process.cmdline():
                times = process.cpu_times()
                total += times.user + times.system
    return total


def _counted(spark: SparkSession, home: Path, servers: str, rows: int) -> list[float]:
    """Spark alone: every column is parsed, and its values are counted."""
    read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", "json")
    read = read.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", rows)
    shape = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    row = read.load().select(sf.from_json(sf.col("value").cast("string"), shape).alias("row"))
    counts = row.select("row.*").agg(*(sf.count(name).alias(name) for name in COLUMNS))
    state = home / "spark"
    shutil.rmtree(state, ignore_errors=True)
    query = (
        counts.writeStream.outputMode("complete")
        .format("noop")
        .option("checkpointLocation", str(state))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return _seconds(query)


def _answered(
    spark: SparkSession, home: Path, servers: str, rows: int, batches: int, kind: str, queries: int
) -> list[float]:
    """Answer a workload file over the topic of a format."""
    stream: dict[str, Any] = {
        "source": "kafka",
        "servers": servers,
        "topic": kind,
        "format": kind,
        "time": "ts",
        "id": "trade_id",
        "rows_per_batch": rows,
    }
    stream |= {"schema": COLUMNS} if kind == "json" else {"schema_file": "trade.avsc"}
    asked = [{key: value for key, value in one.to_dict().items() if value not in (None, [])} for one in mixed(queries)]
    path = home / "work.yaml"
    path.write_text(json.dumps({"streams": {"trades": stream}, "queries": asked, "sinks": [{"type": "memory"}]}))
    shutil.rmtree(home / ".skyband", ignore_errors=True)
    running = run_file(sb.read_workload(path), "stream", spark=spark)  # catch-up reads everything at once
    query = running.handles["trades"].query
    while len(_seconds(query)) + 1 < batches:
        if running.await_end(0.1):
            raise RuntimeError("the stream has ended")
    running.stop()
    return _seconds(query)


def _seconds(query: Any) -> list[float]:
    """Return the seconds of the micro-batches with rows, without the first."""
    progress = [one for one in query.recentProgress if one["numInputRows"]]
    return [one["durationMs"]["triggerExecution"] / 1e3 for one in progress[1:]]


def _produce(spark: SparkSession, home: Path, servers: str) -> None:
    """Write the trades as JSON and as Avro to topics of two partitions, in order of time."""
    (home / "trade.avsc").write_text(json.dumps(SCHEMA))
    trades = spark.read.parquet(str(home / "trades")).coalesce(1).sortWithinPartitions("ts")
    as_json = sf.to_json(sf.struct(*COLUMNS)).alias("value")
    _send(trades.select(as_json, (sf.col("trade_id") % 2).cast("int").alias("partition")), servers, "json")
    schema = fastavro.parse_schema(SCHEMA)
    (home / "avro").mkdir()
    for file in sorted((home / "trades").iterdir()):
        rows = pq.read_table(file, columns=list(COLUMNS)).to_pylist()
        values = []
        for row in rows:
            written = io.BytesIO()
            fastavro.schemaless_writer(written, schema, row)
            values.append(written.getvalue())
        partition = pa.array([row["trade_id"] % 2 for row in rows], pa.int32())
        ids = pa.array([row["trade_id"] for row in rows])
        pq.write_table(pa.table({"value": values, "partition": partition, "n": ids}), home / "avro" / file.name)
    ordered = spark.read.parquet(str(home / "avro")).coalesce(1).sortWithinPartitions("n").drop("n")
    _send(ordered, servers, "avro")


def _send(records: Any, servers: str, topic: str) -> None:
    sent = records.write.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", topic)
    sent.option("kafka.linger.ms", 20).option("kafka.batch.size", 500_000).save()


if __name__ == "__main__":
    run()
