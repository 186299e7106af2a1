"""The dashboard: throughput of the pipeline with and without a connected browser, and the delay of an answer.

python -m benchmarks page [--quick]
"""

from __future__ import annotations

import http.client
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.parse import quote

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import skyband as sb
from benchmarks import report
from benchmarks.measure import best_of
from benchmarks.report import Ratio
from skyband import streams
from skyband.cli.dashboard import Page, PageOptions
from skyband.dashboard.board_state import LiveShow
from skyband.dashboard.connections import Address
from skyband.dashboard.history import History
from skyband.dashboard.query_info import QueryInfo
from skyband.dashboard.server import PageServer
from skyband.jobs import run as run_file
from skyband.spark import session
from skyband.topk.warmup import warm_up
from skyband.workload_file import WorkloadFile

PAGE = report.REPORTS / "page.md"
RATE = 0.95  # of that without a page
SOON = 300  # milliseconds from written to received; rendering in the browser is not measured
MINUTE = 60_000_000
QUERIES = (
    *(f'{{sql: "q{k}: TOPK price * size, {k} OVER 10 MINUTES EVERY 10 SECONDS"}}' for k in (10, 20, 50, 100)),
    '{sql: "each: TOPK price * size, 5 BY symbol OVER 10 MINUTES EVERY 30 SECONDS"}',
)
READER = """
import http.client, sys
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
connection.request("GET", "/api/events?watch=" + sys.argv[2])
response = connection.getresponse()
while response.read1(65536):
    pass
"""


def run(*, quick: bool = False) -> None:
    """Run this benchmark and print the results; write the report unless `quick`."""
    machine = report.machine()
    ratios = [_way(1_000, 20 if quick else 200)]
    taking = [_taking(queries, k) for queries, k in ((100, 10), (1_000, 10), (1_000, 100), (10, 1_000))]
    with TemporaryDirectory(prefix="skyband-bench-") as folder:
        warm_up()
        spark = session(app="skyband bench", master="local[2]")
        try:
            ratios = [_rate(spark, Path(folder), *((2, 4, 50_000) if quick else (5, 8, 150_000))), *ratios]
        finally:
            spark.stop()
    report.show(
        "page-ratios",
        "The page: promised and measured",
        ("what", "target", "measured", "met"),
        [ratio.row() for ratio in ratios],
        write=not quick,
        page=PAGE,
    )
    report.show(
        "page-taking",
        "What taking a micro-batch costs",
        ("queries", "k", "rows", "take", "cut into windows"),
        taking,
        write=not quick,
        page=PAGE,
    )
    if not quick:
        report.into_page("page-machine", machine, page=PAGE)


def _rate(spark: SparkSession, home: Path, rounds: int, files: int, rows: int) -> Ratio:
    """Rows per second and CPU time of the same bounded run, alternating without and with a dashboard."""
    file = _written(home, files, rows)
    found: dict[bool, list[_Spent]] = {False: [], True: []}
    _once(spark, file, watched=False)  # Spark's first run compiles
    for number in range(rounds):
        for watched in (False, True) if number % 2 else (True, False):
            found[watched].append(_once(spark, file, watched=watched))
    clock = {watched: statistics.median(one.seconds for one in spent) for watched, spent in found.items()}
    busy = {watched: statistics.median(one.busy for one in spent) for watched, spent in found.items()}
    spread = max(max(one.seconds for one in spent) / min(one.seconds for one in spent) for spent in found.values()) - 1
    count, ratio, work = files * rows, clock[False] / clock[True], busy[False] / busy[True]
    what = f"{count:,} trades, {len(QUERIES)} queries, median of {rounds}"
    return Ratio(
        f"the rate with the page open, {what}",
        f"at least {RATE}× without",
        f"{ratio:.2f}× ({count / clock[True]:,.0f} against {count / clock[False]:,.0f} rows/s; rounds differ by up to "
        f"{spread:.0%}); by the processor's time of driver, Java and workers {work:.2f}× ({busy[True]:.1f} s against "
        f"{busy[False]:.1f} s)",
        ratio >= RATE,
    )


class _Spent(NamedTuple):
    """Wall time and CPU time of a run, in seconds."""

    seconds: float
    busy: float


def _once(spark: SparkSession, file: WorkloadFile, *, watched: bool) -> _Spent:
    """A bounded run, with or without a dashboard that a client reads."""
    if not watched:
        began, before = time.perf_counter(), _busy()
        run_file(file, "once", spark=spark).await_end()
        return _Spent(time.perf_counter() - began, _busy() - before)
    page = Page(file, PageOptions(at="0"), changeable=False)
    with page, _reader(page, [["q10", None], ["each", None]]) as reader:
        began, before = time.perf_counter(), _busy(without=reader)
        running = run_file(file, "once", watchers={"trades": [page.watcher("trades")]}, spark=spark)
        page.begin(running)
        running.await_end()
        return _Spent(time.perf_counter() - began, _busy(without=reader) - before)


def _busy(without: int = 0) -> float:
    """CPU time of this process, Java and its workers, without the reader."""
    total = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        if process.pid != without:
            with suppress(psutil.NoSuchProcess):
                spent = process.cpu_times()
                total += spent.user + spent.system
    return total


@contextmanager
def _reader(page: Page, watch: list[list[object]]) -> Iterator[int]:
    """A client process on this machine that reads all events while the block runs."""
    port = page.url.rsplit(":", 1)[1].strip("/")
    reader = subprocess.Popen([sys.executable, "-c", READER, port, quote(json.dumps(watch))], stderr=subprocess.DEVNULL)
    try:
        while not page.listeners:
            time.sleep(0.05)
        yield reader.pid
    finally:
        reader.kill()
        reader.wait()


def _written(home: Path, files: int, rows: int) -> WorkloadFile:
    trades = streams.trades(files * rows, seed=1)
    (home / "trades").mkdir()
    for number in range(files):
        part = slice(number * rows, (number + 1) * rows)
        table = {
            "ts": pa.array(trades.position[part]).cast(pa.timestamp("us", "UTC")),
            "trade_id": trades.trade_id[part],
            "symbol": pa.array(trades.symbol[part].tolist()),
            "price": trades.price[part],
            "size": trades.size[part],
        }
        pq.write_table(pa.table(table), home / "trades" / f"{number:03}.parquet")
    stream = "{path: trades, format: parquet, time: ts, id: trade_id, watermark: 5 seconds, files_per_batch: 1}"
    queries = "\n".join(f"  - {query}" for query in QUERIES)
    (home / "work.yaml").write_text(f"streams:\n  trades: {stream}\nqueries:\n{queries}\nsinks: [{{type: memory}}]\n")
    return sb.read_workload(home / "work.yaml")


def _way(queries: int, windows: int) -> Ratio:
    """From `take` until a client has read the event with the board, in milliseconds."""
    show = LiveShow("bench")
    names = [f"q{number}" for number in range(queries)]
    show.history.set_queries({name: QueryInfo(name, "s", "topk") for name in names})
    written: dict[int, float] = {}
    seen: dict[int, float] = {}
    arrived = threading.Event()
    with PageServer(show, Address("127.0.0.1", 0)) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        connection.request("GET", f"/api/events?watch={quote(json.dumps([['q0', None]]))}")
        response = connection.getresponse()

        def read() -> None:
            for line in response:
                if line.startswith(b'data: {"query":"q0"'):
                    moment = json.loads(line[6:])["rows"][0]["id"]
                    seen[moment] = time.perf_counter()
                    arrived.set()

        threading.Thread(target=read, daemon=True).start()
        for number in range(windows):
            arrived.clear()
            rows = _answers(names, 10, number)
            written[number] = time.perf_counter()
            show.history.outlet("s").take(number, rows)
            arrived.wait(30)
            time.sleep(0.2)  # five windows a second
        show.end()
    times = sorted(1000 * (seen[number] - at) for number, at in written.items() if number in seen)
    return Ratio(
        f"from written to the event with the board, {queries:,} queries, k 10, {windows} windows, 5 a second",
        f"under {SOON} ms on screen",
        f"median {statistics.median(times):.0f} ms, 99% under {times[int(0.99 * (len(times) - 1))]:.0f} ms",
        times[int(0.99 * (len(times) - 1))] < SOON,
    )


def _taking(queries: int, k: int) -> list[str]:
    """CPU time of one micro-batch: in the caller, and in the dashboard's thread."""
    names = [f"q{number}" for number in range(queries)]
    history = History()
    history.set_queries({name: QueryInfo(name, "s", "topk") for name in names})
    outlet, tables = history.outlet("s"), [_answers(names, k, number) for number in range(8)]
    given = iter(range(10_000))

    def take() -> None:
        number = next(given)
        outlet.take(number, tables[number % 8])

    taken = best_of(take, 8)
    history.settle()

    def both() -> None:
        take()
        history.settle()

    cut = best_of(both, 8)
    return [
        f"{queries:,}",
        f"{k:,}",
        f"{queries * k:,}",
        f"{taken.best * 1e6:.0f} µs",
        f"{(cut.best - taken.best) * 1e3:.1f} ms",
    ]


def _answers(names: list[str], k: int, number: int) -> pa.Table:
    """One window of each query; the first id is the window's number."""
    count = len(names)
    ids = np.tile(np.arange(k) + number, count)
    ends = pa.array(np.full(count * k, (number + 1) * MINUTE)).cast(pa.timestamp("us", "UTC"))
    return pa.table(
        {
            "query": pa.array(names).take(pa.array(np.repeat(np.arange(count), k))),
            "window_start": ends,
            "window_end": ends,
            "rank": pa.array(np.tile(np.arange(1, k + 1), count), pa.int32()),
            "score": np.tile(np.arange(k, 0, -1.0), count),
            "id": ids,
        }
    )


if __name__ == "__main__":
    run(quick="--quick" in sys.argv)
