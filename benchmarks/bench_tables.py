"""Answers into PostgreSQL: COPY and upsert against single inserts, files to a table end to end, and how soon it shows.

It starts a server of its own, as the tests do, and takes it away again.

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
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

import skyband as sb
from benchmarks import report
from benchmarks.bench_spark import mixed, write_files
from benchmarks.report import Ratio
from skyband.sharding.warming import warm_up
from skyband.spark import run as run_file
from skyband.spark import session, start
from skyband.spark.places import with_places
from skyband.spark.postgres import PostgresSink
from skyband.spark.sinks import Wanted, write_to

PAGE = report.ROOT / "docs" / "performance-tables.md"
ROWS_A_SECOND = 200_000
SOON = 2  # trigger intervals
TRIGGER = 3  # seconds
QUERIES = 100


def run(*, quick: bool = False) -> None:
    """Measure, print, and unless it is quick write the page."""
    machine = report.machine()
    home = Path(tempfile.mkdtemp(prefix="skyband-bench-"))
    server = importlib.import_module("tests.postgres.server").Postgres(fsync="on", shared_buffers="512MB")
    try:
        ratios = [*_inserts(server, 2_000 if quick else 100_000)]
        warm_up()
        spark = session(app="skyband bench", master="local[2]")
        try:
            ratios += _end_to_end(spark, server, home, *((3, 50_000) if quick else (7, 1_000_000)))
            ratios += _how_soon(spark, server, home, 20 if quick else 60)
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
    """The same answers in one transaction a batch: by the sink, and row by row as one writes it first."""
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
    sink = PostgresSink(table, {f"q{one}": () for one in range(QUERIES)}, url=server.url())
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
    sink = PostgresSink(table, groups, url=server.url())
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


def _file(home: Path, stream: dict[str, Any], queries: list[sb.TopK], sink: dict[str, Any]) -> sb.WorkloadFile:
    path = home / "work.yaml"
    told = [{key: value for key, value in query.to_dict().items() if value not in (None, [])} for query in queries]
    path.write_text(json.dumps({"streams": {"trades": stream}, "queries": told, "sinks": [sink]}))  # JSON is YAML
    shutil.rmtree(home / ".skyband", ignore_errors=True)
    return sb.read_workload(path)


def _end_to_end(spark: SparkSession, server: Any, home: Path, files: int, rows: int) -> list[Ratio]:
    """Parquet files, a hundred queries, a table; and the same with nothing but memory behind it."""
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
    what = f"rows of input a second, files to a table, {QUERIES} queries"
    return [
        Ratio(what, f"at least {ROWS_A_SECOND:,}", report.amount(rate), rate >= ROWS_A_SECOND),
        Ratio("the same with a sink of type memory", "", report.amount(bare), None),
        Ratio(f"rows of answers that the table took of {files * rows:,} rows of input", "", f"{written:,}", None),
    ]


def _how_soon(spark: SparkSession, server: Any, home: Path, seconds: int) -> list[Ratio]:
    """A window a second over rows that are made up now: how long after its end can its answer be read?"""
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
    """How late each window was seen, and how long a batch takes."""
    query = sb.TopK(name="now", k=10, size="10 seconds", slide="1 second", by="value % 1009")
    table = f"lags_{trigger}"
    sink = PostgresSink(table, {"now": ()}, url=server.url())
    take = write_to([Wanted(sink, "answers")], sb.Workload([query]), "answers")

    def write(out: DataFrame) -> DataStreamWriter:
        writer = out.writeStream.foreachBatch(take)
        return writer if trigger is None else writer.trigger(processingTime=f"{trigger} seconds")

    rows = spark.readStream.format("rate").option("rowsPerSecond", 1000).load()
    handle = start(rows, query, write=write, checkpoint=str(home), time="timestamp", watermark="0 seconds")
    lags: dict[float, float] = {}
    ends = sql.SQL("SELECT DISTINCT extract(epoch FROM window_end)::float8 FROM {}").format(sql.Identifier(table))
    try:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            began = time.monotonic()
            while not lags or time.monotonic() < began + seconds:
                for (end,) in connection.execute(ends).fetchall() if sink.is_prepared else ():
                    began = began if lags else time.monotonic()
                    lags.setdefault(end, time.time() - end)
                time.sleep(0.02)
    finally:
        handle.stop()
        sink.close()
    progress = handle.query.recentProgress[5:]
    batch = statistics.median(one["durationMs"]["triggerExecution"] / 1e3 for one in progress)
    return list(lags.values())[10:], batch  # the first batches start workers


@contextmanager
def _environment(server: Any) -> Iterator[None]:
    """The server's address where the workload file looks for it."""
    os.environ["BENCH_URL"] = server.url()
    try:
        yield
    finally:
        del os.environ["BENCH_URL"]


if __name__ == "__main__":
    run(quick="--quick" in sys.argv)
