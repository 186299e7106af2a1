"""Answers to PostgreSQL: COPY and upsert against single inserts, files and Kafka to a table, and the delay.

It starts its own servers, as the tests do, and stops them at the end.

python -m benchmarks tables [--quick]
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
from psycopg import sql
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import skyband as sb
from benchmarks import report
from benchmarks.bench_spark import mixed, write_files
from benchmarks.report import Ratio
from skyband.connectors.postgres_writer import PostgresWriter
from skyband.connectors.row_identity import with_places
from skyband.jobs import run as run_file
from skyband.jobs.control_server import ControlServer
from skyband.jobs.mailbox import mailbox_of
from skyband.spark import session
from skyband.topk.warmup import warm_up

PAGE = report.REPORTS / "tables.md"
ROWS_A_SECOND = 200_000
SOON = 2  # trigger intervals
TRIGGER = 3  # seconds
QUERIES = 100


def run(*, quick: bool = False) -> None:
    """Run this benchmark and print the results; write the report unless `quick`."""
    machine = report.machine()
    home = Path(tempfile.mkdtemp(prefix="skyband-bench-"))
    server = importlib.import_module("tests.connectors.postgres.server").Postgres(fsync="on", shared_buffers="512MB")
    try:
        ratios = [*_inserts(server, 2_000 if quick else 100_000)]
        warm_up()
        spark = session(app="skyband bench", master="local[2]", kafka=True)
        try:
            ratios += _end_to_end(spark, server, home, *((3, 50_000) if quick else (7, 1_000_000)))
            ratios += _from_kafka(spark, server, home, 50_000 if quick else 1_000_000)
            ratios += _how_soon(spark, server, home, 20 if quick else 45)
            ratios += _how_soon_changed(spark, home / "changes", 1 if quick else 7)
        finally:
            spark.stop()
    finally:
        server.remove()
        shutil.rmtree(home, ignore_errors=True)
    report.show(
        "tables-ratios",
        "Answers into PostgreSQL: promised and measured",
        ("what", "target", "measured", "met"),
        [ratio.row() for ratio in ratios],
        write=not quick,
        page=PAGE,
    )
    if not quick:
        report.into_page("tables-machine", machine, page=PAGE)


def _inserts(server: Any, rows: int) -> list[Ratio]:
    """The same answers in one transaction per batch: by the sink, and with one insert per row."""
    batches = [_answers(rows // 5, number) for number in range(5)]
    ways: dict[str, Callable[[], float]] = {
        "COPY and upsert": lambda: _by_sink(server, "copied", batches),
        "the same again": lambda: _by_sink(server, "copied", batches),
        "an INSERT a row": lambda: _row_by_row(server, "single", batches[:1] if rows > 10_000 else batches, many=False),
        "executemany": lambda: _row_by_row(server, "many", batches, many=True),
    }
    found = {name: way() for name, way in ways.items()}
    ratio = found["COPY and upsert"] / found["an INSERT a row"]
    return [
        Ratio(f"answers into a table, batches of {rows // 5:,} rows", "", _each(found["COPY and upsert"]), None),
        Ratio("the same batches again, as after a crash", "", _each(found["the same again"]), None),
        Ratio("a statement for each row, one transaction a batch", "", _each(found["an INSERT a row"]), None),
        Ratio("the driver's executemany, one transaction a batch", "", _each(found["executemany"]), None),
        Ratio("COPY and upsert against a statement for each row", "at least 5×", f"{ratio:.1f}×", ratio >= 5),
        Ratio("against executemany", "", f"{found['COPY and upsert'] / found['executemany']:.1f}×", None),
    ]


def _each(rate: float) -> str:
    return f"{report.amount(rate)} rows/s"


def _answers(rows: int, batch: int) -> pa.Table:
    """A hundred queries, ten ranks, one window after another."""
    number = np.arange(rows)
    rng = np.random.default_rng(batch)
    window = number // (QUERIES * 10) + batch * rows
    return pa.table(
        {
            "query": pa.array([f"q{one}" for one in range(QUERIES)]).take(pa.array(number // 10 % QUERIES)),
            "window_start": pa.array(window * 10_000_000).cast(pa.timestamp("us", "UTC")),
            "window_end": pa.array((window + 60) * 10_000_000).cast(pa.timestamp("us", "UTC")),
            "rank": pa.array(number % 10 + 1, pa.int32()),
            "score": rng.lognormal(3, 1, rows),
            "ts": pa.array(window * 10_000_000 + number).cast(pa.timestamp("us", "UTC")),
            "trade_id": number,
            "symbol": pa.array([f"S{one:04}" for one in range(5000)]).take(pa.array(rng.integers(0, 5000, rows))),
            "price": rng.lognormal(3, 1, rows).round(2),
            "size": rng.integers(1, 1000, rows),
        }
    )


def _by_sink(server: Any, table: str, batches: list[pa.Table]) -> float:
    sink = PostgresWriter(table, {f"q{one}": () for one in range(QUERIES)}, url=server.url())
    sink.prepare(batches[0])
    seconds = []
    for number, batch in enumerate(batches):
        began = time.perf_counter()
        sink.take(number, batch)
        seconds.append(time.perf_counter() - began)
    sink.close()
    return float(batches[0].num_rows / statistics.median(seconds))


def _row_by_row(server: Any, table: str, batches: list[pa.Table], *, many: bool) -> float:
    groups: dict[str, tuple[str, ...]] = {f"q{one}": () for one in range(QUERIES)}
    sink = PostgresWriter(table, groups, url=server.url())
    sink.prepare(batches[0])
    sink.close()
    names = with_places(batches[0], groups).column_names
    key = ("query", "window_end", "answer_group", "answer_place")
    statement = sql.SQL("INSERT INTO {} ({}) VALUES ({}) ON CONFLICT ({}) DO UPDATE SET {}").format(
        sql.Identifier(table),
        sql.SQL(", ").join(map(sql.Identifier, names)),
        sql.SQL(", ").join(sql.Placeholder() for _ in names),
        sql.SQL(", ").join(map(sql.Identifier, key)),
        sql.SQL(", ").join(
            sql.SQL("{} = EXCLUDED.{}").format(sql.Identifier(name), sql.Identifier(name))
            for name in names
            if name not in key
        ),
    )
    seconds = []
    with psycopg.connect(server.url(), autocommit=True) as connection:
        for batch in batches:
            began = time.perf_counter()
            rows = [tuple(row.values()) for row in with_places(batch, groups).to_pylist()]
            with connection.transaction(), connection.cursor() as cursor:
                if many:
                    cursor.executemany(statement, rows)
                else:
                    for row in rows:
                        cursor.execute(statement, row)
            seconds.append(time.perf_counter() - began)
    return float(batches[0].num_rows / statistics.median(seconds))


def _file(
    home: Path,
    stream: dict[str, Any],
    queries: list[sb.TopK],
    sink: dict[str, Any],
    engine: dict[str, Any] | None = None,
) -> sb.WorkloadFile:
    path = home / "work.yaml"
    told = [{key: value for key, value in query.to_dict().items() if value not in (None, [])} for query in queries]
    whole = {"streams": {"trades": stream}, "queries": told, "sinks": [sink], "engine": engine or {}}
    path.write_text(json.dumps(whole))  # JSON is YAML
    shutil.rmtree(home / ".skyband", ignore_errors=True)
    return sb.read_workload(path)


def _end_to_end(spark: SparkSession, server: Any, home: Path, files: int, rows: int) -> list[Ratio]:
    """Parquet files, a hundred queries, a table; and the same with a memory sink."""
    write_files(home / "trades", files, rows)
    stream = {"path": "trades", "format": "parquet", "time": "ts", "id": "trade_id", "files_per_batch": 1}
    sinks = {
        "nothing": {"type": "memory"},
        "a table": {"type": "postgres", "table": "answers", "url": "${BENCH_URL}"},
    }
    found, written = {}, 0
    for name, sink in {"warm": sinks["nothing"], **sinks}.items():
        with _environment(server):
            running = run_file(_file(home, stream, mixed(QUERIES), sink), "catch-up", spark=spark)
        running.await_end()
        progress = running.handles["trades"].query.recentProgress
        seconds = [one["durationMs"]["triggerExecution"] / 1e3 for one in progress if one["numInputRows"]]
        found[name] = rows / statistics.median(seconds[1:])
        written = running.metrics()["trades"]["answers"]
    rate, bare = found["a table"], found["nothing"]
    what = f"rows of input per second, files to a table, {QUERIES} queries"
    return [
        Ratio(what, f"at least {ROWS_A_SECOND:,}", report.amount(rate), rate >= ROWS_A_SECOND),
        Ratio("the same with a sink of type memory", "", report.amount(bare), None),
        Ratio(f"rows of answers that the table took of {files * rows:,} rows of input", "", f"{written:,}", None),
    ]


def _from_kafka(spark: SparkSession, server: Any, home: Path, rows: int) -> list[Ratio]:
    """A topic of JSON, a hundred queries, a table, all on this machine, including the broker."""
    kafka = importlib.import_module("tests.connectors.kafka.broker")
    (home / "broker").mkdir()
    broker = kafka.Broker(home / "broker", kafka.broker_jars())
    try:
        _produce(spark, home / "trades", broker.servers)
        stream = {
            "source": "kafka",
            "servers": broker.servers,
            "topic": "trades",
            "format": "json",
            "schema": {
                "ts": "timestamp",
                "trade_id": "bigint",
                "symbol": "string",
                "price": "double",
                "size": "int",
            },
            "time": "ts",
            "id": "trade_id",
            "rows_per_batch": rows,
        }
        sink = {"type": "postgres", "table": "from_kafka", "url": "${BENCH_URL}"}
        with _environment(server):
            running = run_file(_file(home, stream, mixed(QUERIES), sink), "catch-up", spark=spark)
        running.await_end()
        progress = running.handles["trades"].query.recentProgress
        seconds = [one["durationMs"]["triggerExecution"] / 1e3 for one in progress if one["numInputRows"] > rows / 2]
        told = running.metrics()["trades"]
    finally:
        broker.stop()
    rate = rows / statistics.median(seconds[1:])
    spread = f"{report.amount(rows / max(seconds[1:]))} to {report.amount(rows / min(seconds[1:]))}"
    return [
        Ratio(
            f"rows of input per second, Kafka to a table, {QUERIES} queries",
            f"at least {ROWS_A_SECOND:,}",
            f"{report.amount(rate)} (of {len(seconds) - 1} batches: {spread})",
            rate >= ROWS_A_SECOND,
        ),
        Ratio(
            f"rows of answers that the table took of {told['rows']:,} rows of input", "", f"{told['answers']:,}", None
        ),
    ]


def _produce(spark: SparkSession, files: Path, servers: str) -> None:
    """The trades as JSON in a topic of two partitions, both in order of time."""
    trades = spark.read.parquet(str(files)).coalesce(1).sortWithinPartitions("ts")
    value = sf.to_json(sf.struct("ts", "trade_id", "symbol", "price", "size")).alias("value")
    sent = trades.select(value, (sf.col("trade_id") % 2).cast("int").alias("partition")).write.format("kafka")
    sent = sent.option("kafka.bootstrap.servers", servers).option("topic", "trades")
    sent.option("kafka.linger.ms", 20).option("kafka.batch.size", 500_000).save()


def _how_soon(spark: SparkSession, server: Any, home: Path, seconds: int) -> list[Ratio]:
    """One window per second over generated rows: the time from the end of a window until its answer can be read."""
    found = []
    for trigger in (None, TRIGGER):
        lags, batch = _lags(spark, server, home / f"lags-{trigger}", trigger, seconds)
        lag, worst = statistics.median(lags), max(lags)
        interval = batch if trigger is None else trigger
        what = "as fast as batches go" if trigger is None else f"a batch every {trigger} s"
        found += [
            Ratio(
                f"from a window's end until its answer can be read, {what}: median of {len(lags)}",
                "" if trigger is None else f"at most {SOON} trigger intervals",
                f"{lag:.2f} s, {lag / interval:.1f} intervals; a batch takes {batch:.2f} s",
                None if trigger is None else lag <= SOON * interval,
            ),
            Ratio("the slowest of them", "", f"{worst:.2f} s, {worst / interval:.1f} intervals", None),
        ]
    return found


def _lags(spark: SparkSession, server: Any, home: Path, trigger: int | None, seconds: int) -> tuple[list[float], float]:
    """Delay of each window, and the time of a batch."""
    home.mkdir()
    query = sb.TopK(name="now", k=10, size="10 seconds", slide="1 second", by="value % 1009")
    stream = {"source": "rate", "rows_per_second": 1000, "watermark": "0 seconds"}
    table = f"lags_{trigger}"
    sink = {"type": "postgres", "table": table, "url": "${BENCH_URL}"}
    engine = {} if trigger is None else {"trigger": f"{trigger} seconds"}
    with _environment(server):
        running = run_file(_file(home, stream, [query], sink, engine), "stream", spark=spark)
    lags: dict[float, float] = {}
    ends = sql.SQL("SELECT DISTINCT extract(epoch FROM window_end)::float8 FROM {}").format(sql.Identifier(table))
    try:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            began = time.monotonic()
            while not lags or time.monotonic() < began + seconds:
                for (end,) in connection.execute(ends).fetchall():
                    began = began if lags else time.monotonic()
                    lags.setdefault(end, time.time() - end)
                time.sleep(0.02)
    finally:
        running.stop()
    progress = running.handles["trades"].query.recentProgress[5:]
    batch = statistics.median(one["durationMs"]["triggerExecution"] / 1e3 for one in progress if one["numInputRows"])
    return list(lags.values())[10:], batch  # the first batches start workers


def _how_soon_changed(spark: SparkSession, home: Path, times: int) -> list[Ratio]:
    """Time until a query that is added to a running job is confirmed, and until it ranks new rows."""
    home.mkdir()
    query = sb.TopK(name="now", k=10, size="10 seconds", slide="1 second", by="value % 1009")
    stream = {"source": "rate", "rows_per_second": 1000, "watermark": "0 seconds"}
    file = _file(home, stream, [query], {"type": "memory"}, {"trigger": f"{TRIGGER} seconds"})
    running = run_file(file, "stream", spark=spark)
    replied, taken = [], []
    try:
        with ControlServer(running):
            box = mailbox_of(file)
            for number in range(times):
                _await_batches(running, 2)
                time.sleep(TRIGGER * number / times)  # spread between two triggers
                began = time.monotonic()
                told = box.ask({"kind": "add", "sql": f"more{number}: TOPK value % 997, 5 OVER 10 SECONDS"}, 120)
                if told is None or "done" not in told:
                    raise RuntimeError(f"the query was not added: {told}")
                replied.append(time.monotonic() - began)
                _await_batches(running, 1)
                taken.append(time.monotonic() - began)
    finally:
        running.stop()
    worst = max(taken)
    return [
        Ratio(f"from skyband ctl add to its reply, a batch every {TRIGGER} s: median", "", _seconds(replied), None),
        Ratio(
            "until the first micro-batch with the new query is done: median",
            f"at most {SOON} trigger intervals",
            _seconds(taken),
            statistics.median(taken) <= SOON * TRIGGER,
        ),
        Ratio(f"the slowest of {times}", "", f"{worst:.2f} s, {worst / TRIGGER:.1f} intervals", None),
    ]


def _seconds(found: list[float]) -> str:
    middle = statistics.median(found)
    return f"{middle:.2f} s, {middle / TRIGGER:.1f} intervals"


def _await_batches(running: Any, count: int) -> None:
    before = running.metrics()["trades"]["batches"]
    while running.metrics()["trades"]["batches"] < before + count:
        if running.await_end(0.02):
            raise RuntimeError("the stream has ended")


@contextmanager
def _environment(server: Any) -> Iterator[None]:
    """Set the environment variables with the server's address for the workload file."""
    os.environ["BENCH_URL"] = server.url()
    try:
        yield
    finally:
        del os.environ["BENCH_URL"]


if __name__ == "__main__":
    run(quick="--quick" in sys.argv)
