"""`skyband demo`: three queries over a seeded stream of trades in files, on Spark or in this process."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from skyband.cli.live_view import Follower, await_end
from skyband.cli.signals import INTERRUPTED, StopSignals
from skyband.cli.spark_session import spark_for
from skyband.cli.terminal import console
from skyband.queries.workload import Workload
from skyband.streams import OPENING, Trades, trades
from skyband.workload_file import EngineSection, WorkloadFile, read_workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skyband.cli.dashboard import Page, PageOptions
    from skyband.jobs.job import Run
    from skyband.jobs.local_job import LocalRun
    from skyband.sharding.delivery import Wanted

__all__ = ["run"]

FILES = 6
MINUTES = 6  # of the stream in each file
MOST_CHECKS = 400
# The JVM of the demo lives for less than a minute: it spends no time on code that would run faster later.
SHORT_LIVED: dict[str, bool | int | float | str] = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
}
WRONG = 1
WORKLOAD = """\
streams:
  trades: {path: trades, format: parquet, time: ts, id: trade_id, watermark: 5 seconds, files_per_batch: 1}
queries:
  - {name: largest trades, sql: "TOPK price * size, 10 OVER 10 MINUTES EVERY 1 MINUTE"}
  - {name: largest in shares, sql: "TOPK size, 5 OVER 5 MINUTES EVERY 30 SECONDS"}
  - {name: by symbol, sql: "TOPK price * size, 3 BY symbol OVER 15 MINUTES EVERY 3 MINUTES"}
sinks: [{type: memory}]
"""


def run(*, seed: int, page: PageOptions | None = None, local: bool = False) -> int:
    """Write the stream to files, read them one after another, and show the answers.

    `local`: without Spark, which is also how it runs if Spark cannot. Returns the exit code: 0 if no trade is missing
    and every checked answer is equal to a full sort of its window.
    """
    out = console()
    local = local or _is_only_local(out)
    with TemporaryDirectory(prefix="skyband-demo-") as folder, ThreadPoolExecutor(1) as meanwhile:
        file = _write_workload(Path(folder))
        served = None if page is None else _page(file, page)
        writing = meanwhile.submit(_write_stream, seed, Path(folder))  # while Spark starts
        try:
            opened = nullcontext() if local else spark_for(out, "skyband demo", EngineSection(settings=SHORT_LIVED))
            with StopSignals() as signals, opened as spark, served or nullcontext():
                right = show(out, file, writing.result(), spark, signals, served)
                if served is not None:
                    served.serve_ended(out, signals.requested)
        except KeyboardInterrupt:
            out.print("\nstopped", style="dim")
            return INTERRUPTED
    return 0 if right else WRONG


def _is_only_local(out: Console) -> bool:
    """Return whether Spark cannot run on this machine; print it."""
    from skyband.jobs.engine_choice import why_no_spark  # noqa: PLC0415 - loads compiled code

    missing = why_no_spark()
    if missing is not None:
        out.print(f"runs in this process, without Spark: {missing}", soft_wrap=True)
    return missing is not None


def _page(file: WorkloadFile, options: PageOptions) -> Page:
    from skyband.cli.dashboard import Page  # noqa: PLC0415 - an optional dependency

    return Page(file, options, changeable=False)


def show(
    out: Console,
    file: WorkloadFile,
    stream: Trades,
    spark: SparkSession | None,
    signals: StopSignals,
    page: Page | None = None,
) -> bool:
    """Run the file, live on a terminal; return whether no trade is missing and no answer is wrong."""
    from skyband.connectors.memory import Board  # noqa: PLC0415
    from skyband.sharding.delivery import Wanted  # noqa: PLC0415

    workload, board, began = file.workloads["trades"], Board(), monotonic()
    watchers = [Wanted(board, "both"), *([page.watcher("trades")] if page else [])]
    running = _begun(file, {"trades": watchers}, spark)
    signals.defer()
    threading.Thread(target=_finish, args=(running,), daemon=True).start()
    if page is not None:
        page.begin(running)
        page.announce(out)
    follower = Follower(out, lambda: workload.queries, board)
    ended = (
        follower.follow(running, signals.requested) if out.is_terminal else await_end(running, signals.requested.is_set)
    )
    if not ended:
        running.stop()
        raise KeyboardInterrupt
    follower.print_newest()
    metrics = running.metrics()["trades"]
    good, looked_at = _check(running.memory("trades"), workload, stream)
    missing = stream.position.size - metrics["rows"] + metrics["late"]
    summary = Text.assemble(
        "\n",
        (f"{metrics['rows']:,} trades, {metrics['windows']:,} windows", "bold"),
        f" in {monotonic() - began:.1f} s, including startup; {metrics['pruned']:,} trades pruned before ranking; ",
        (f"{good} of {looked_at} answers", "bold green" if good == looked_at else "bold red"),
        " checked are equal to a full sort of their window.",
        (f" {missing:,} trades are in no answer." if missing else "", "bold red"),
    )
    out.print(Padding(summary, (0, 1)))
    return good == looked_at > 0 and not missing


def _begun(file: WorkloadFile, watchers: dict[str, list[Wanted]], spark: SparkSession | None) -> Run | LocalRun:
    from skyband import jobs  # noqa: PLC0415 - loading Spark or compiled code takes time

    if spark is None:
        from skyband.topk.compile_ahead import compile_in_two_processes  # noqa: PLC0415 - as above

        compile_in_two_processes()
        return jobs.run_local(file, "stream", watchers=watchers)
    return jobs.run(file, "stream", watchers=watchers, spark=spark)


def _finish(running: Run | LocalRun) -> None:
    """End the stream when all files are read. `await_end` raises its errors."""
    with suppress(Exception):
        running.finish()


def _stream(seed: int) -> Trades:
    stream = trades(FILES * MINUTES * 60 * 420, seed)
    whole = np.searchsorted(stream.position, OPENING + FILES * MINUTES * 60_000_000)
    return Trades._make(column[:whole] for column in stream)


def _write_workload(home: Path) -> WorkloadFile:
    """Write the workload file, beside an empty folder for the stream."""
    (home / "trades").mkdir()
    (home / "demo.yaml").write_text(WORKLOAD, encoding="utf-8")
    return read_workload(home / "demo.yaml")


def _write_stream(seed: int, home: Path) -> Trades:
    """Write the stream as files."""
    stream = _stream(seed)
    table = pa.table(
        {
            "ts": pa.array(stream.position).cast(pa.timestamp("us", "UTC")),
            "trade_id": stream.trade_id,
            "symbol": pa.array(stream.symbol.tolist()),
            "price": stream.price,
            "size": stream.size,
        }
    )
    ends = OPENING + np.arange(1, FILES + 1) * MINUTES * 60_000_000
    low = 0
    for number, high in enumerate(np.searchsorted(stream.position, ends)):
        path = home / "trades" / f"{number:03}.parquet"
        pq.write_table(table.slice(low, high - low), path)
        os.utime(path, (number, number))  # a stream of files is read in the order of their times
        low = int(high)
    return stream


def _check(table: pa.Table | None, workload: Workload, stream: Trades) -> tuple[int, int]:
    """Return how many answers equal a full sort of their window, and how many were checked."""
    if table is None:
        return 0, 0
    found: dict[tuple[str, Any, Any], list[tuple[int, int]]] = {}
    columns = (table[name].to_pylist() for name in ("query", "symbol", "window_end", "rank", "trade_id"))
    for name, symbol, end, rank, id_ in zip(*columns, strict=True):
        group = symbol if workload[name].partition_by else None
        found.setdefault((name, group, end), []).append((rank, id_))
    keys = sorted(found, key=str)
    picked = keys[:: 1 + len(keys) // MOST_CHECKS]
    good = 0
    for name, group, end in picked:
        query = workload[name]
        stop = int(end.timestamp()) * 1_000_000
        low, high = np.searchsorted(stream.position, [stop - query.sliding.size, stop])
        rows = np.arange(low, high)
        if group is not None:
            rows = rows[stream.symbol[rows] == group]
        score = (stream.size if query.by == "size" else stream.score)[rows]
        order = np.lexsort((stream.trade_id[rows], stream.position[rows], score))[::-1][: query.k]
        good += [id_ for _, id_ in sorted(found[name, group, end])] == stream.trade_id[rows[order]].tolist()
    return good, len(picked)
