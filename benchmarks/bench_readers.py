"""The read API under load: many readers of `skyband serve`, beside a run that writes the answers they read.

python -m benchmarks readers [--quick]

The run is `skyband run FILE --local` over files of generated trades, with a Parquet sink; the server is `skyband serve`
over the folder of the sink. Half of the readers wait for changes (long polling), the others ask for the newest
window, a page of windows or the rank of an entity, each about once a second, over connections that stay open. Run,
server and readers are three processes. Rounds without server and readers alternate with rounds with them.

A round is measured from the first file of answers to the last. Real readers are on other machines; these are on this
one, so their process only gets the time of the cores that run and server leave (the idle policy of the scheduler).
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TextIO

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import report
from benchmarks.report import Ratio
from skyband import streams

PAGE = report.REPORTS / "readers.md"
READERS = 1000
LOSS = 0.05  # of the time of the run
ROUNDS = 5
FILES, ROWS = 16, 500_000
EVERY = 1.0  # seconds between two requests of a reader
QUERIES = 20
WAITED = 5  # seconds that a request for changes waits
PATHS = (
    "/api/v1/window?query=q0",
    "/api/v1/window?query=q1",
    "/api/v1/windows?query=q2&limit=100",
    "/api/v1/rank?query=q3&id=1",
)
SKYBAND = (sys.executable, "-m", "skyband.cli")


def run(*, quick: bool = False) -> None:
    """Run this benchmark and print the results; write the report unless `quick`."""
    machine = report.machine()
    counts = (100,) if quick else (100, READERS)
    rounds, files = (1, 3) if quick else (ROUNDS, FILES)
    found: dict[int, list[Round]] = {count: [] for count in (0, *counts)}
    with TemporaryDirectory(prefix="skyband-bench-") as folder:
        home = Path(folder)
        _write_trades(home / "trades", files)
        _round(home, "warm-up", 0)  # compiles, and reads the files into the page cache
        for number in range(rounds):
            for count in found if number % 2 else reversed(found):
                found[count].append(_round(home, f"{number}-{count}", count))
    rows = [_row(count, found[count], found[0]) for count in counts]
    columns = (
        "readers", "requests per second", "median", "99% under", "errors", "cursor too old (410)",
        "CPU of the server per request", "memory of the server",
        "time of the run, against alone", "CPU of the run, against alone",
    )  # fmt: skip
    report.show("readers", "Readers beside a run", columns, rows, write=not quick, page=PAGE)
    most = counts[-1]
    ratios = []
    for what, values in (
        ("time", {count: [one.seconds for one in found[count]] for count in (0, most)}),
        ("CPU time", {count: [one.busy for one in found[count]] for count in (0, most)}),
    ):
        loss = statistics.median(values[most]) / statistics.median(values[0]) - 1
        spread = max(values[0]) / min(values[0]) - 1
        ratios.append(Ratio(
            f"{what} that a run over {(files - 1) * ROWS:,} rows needs more with {most:,} readers, medians of {rounds}",
            f"at most {LOSS:.0%}",
            f"{loss:.1%} ({statistics.median(values[0]):.1f} s alone; these rounds differ by up to {spread:.0%})",
            loss <= LOSS,
        ))  # fmt: skip
    heads = ("what", "target", "measured", "met")
    report.show(
        "readers-ratios", "Targets and results", heads, [one.row() for one in ratios], write=not quick, page=PAGE
    )
    if not quick:
        report.into_page("readers-machine", machine, page=PAGE)


class Round(NamedTuple):
    """What readers, server and run took, from the first answers to the end of the run."""

    seconds: float
    busy: float  # CPU seconds of the run
    server: float = 0.0  # CPU seconds of the server
    memory: int = 0  # bytes of the server
    asked: float = 0.0  # seconds during which the readers asked
    answered: int = 0
    errors: int = 0
    late: int = 0  # responses 410: the cursor is older than what the server remembers
    waits: tuple[float, ...] = ()  # seconds of each plain request


def _row(count: int, found: list[Round], alone: list[Round]) -> list[str]:
    waits = sorted(wait for one in found for wait in one.waits) or [0.0]
    answered = sum(one.answered for one in found)
    return [
        f"{count:,}",
        f"{answered / sum(one.asked for one in found):,.0f}",
        f"{1000 * statistics.median(waits):.0f} ms",
        f"{1000 * waits[int(0.99 * (len(waits) - 1))]:.0f} ms",
        f"{sum(one.errors for one in found):,}",
        f"{sum(one.late for one in found):,}",
        f"{1e6 * sum(one.server for one in found) / max(1, answered):.0f} µs",
        report.bytes_text(max(one.memory for one in found)),
        f"{_median(one.seconds for one in found) / _median(one.seconds for one in alone):.2f}×",
        f"{_median(one.busy for one in found) / _median(one.busy for one in alone):.2f}×",
    ]


def _median(values: Iterator[float]) -> float:
    return statistics.median(values)


def _write_trades(folder: Path, files: int) -> None:
    """Write the same trades again and again, each time later."""
    folder.mkdir()
    trades = streams.trades(ROWS, seed=1)
    length = int(trades.position[-1] - trades.position[0]) + 1
    for number in range(files):
        table = {
            "ts": pa.array(trades.position + number * length).cast(pa.timestamp("us", "UTC")),
            "trade_id": trades.trade_id + number * ROWS,
            "symbol": pa.array(trades.symbol.tolist()),
            "price": trades.price,
            "size": trades.size,
        }
        pq.write_table(pa.table(table), folder / f"{number:03}.parquet")


def _round(home: Path, name: str, readers: int) -> Round:
    """Run the workload once, with so many readers and their server, or alone."""
    folder = home / name
    answers = folder / "answers"
    answers.mkdir(parents=True)
    file = folder / "work.yaml"
    stream = f"{{path: {home / 'trades'}, format: parquet, time: ts, id: trade_id, files_per_batch: 1}}"
    # Filters that nearly all rows pass: these queries share no work, so the run needs long for few rows.
    queries = [
        f'  - {{sql: "q{number}: TOPK price * size, 50 WHERE size > {number / 1000} OVER 10 MINUTES EVERY 10 SECONDS"}}'
        for number in range(QUERIES)
    ]
    text = [
        "streams:", f"  trades: {stream}", f"engine: {{checkpoint: {folder / 'state'}}}", "queries:", *queries,
        f"sinks: [{{type: parquet, path: {answers}}}]", "",
    ]  # fmt: skip
    file.write_text("\n".join(text), encoding="utf-8")
    with _serving(file, readers) as (server, client):
        with subprocess.Popen(
            [*SKYBAND, "run", str(file), "--local"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            running = psutil.Process(process.pid)
            _wait_for(process, answers, 1)
            began, before = time.perf_counter(), _cpu(running)
            served = 0.0 if server is None else _cpu(server)
            if client is not None and client.stdin is not None:
                client.stdin.write("start\n")
                client.stdin.flush()
            _wait_for(process, answers, len(list((home / "trades").iterdir())))
            seconds, busy = time.perf_counter() - began, _cpu(running) - before
            process.terminate()
        if client is None or server is None:
            return Round(seconds, busy)
        served = _cpu(server) - served
        found = json.loads(client.communicate()[0])  # ends its input, and so the readers
        return Round(seconds, busy, served, server.memory_info().rss, **{**found, "waits": tuple(found["waits"])})


def _wait_for(process: subprocess.Popen[bytes], answers: Path, files: int) -> None:
    """Wait until there are so many files of answers. The run writes one for each file that it reads."""
    while sum(1 for _ in answers.rglob("[!._]*.parquet")) < files:
        if process.poll() is not None:
            raise RuntimeError(f"skyband run ended with exit code {process.returncode} before it wrote {files} files.")
        time.sleep(0.01)


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@contextmanager
def _serving(file: Path, readers: int) -> Iterator[tuple[psutil.Process | None, subprocess.Popen[str] | None]]:
    """Serve the answers of a workload file, with readers that wait for a line to start."""
    if not readers:
        yield None, None
        return
    command = [*SKYBAND, "serve", str(file), "--at", "0", "--readers", str(readers + 50)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            found = None
            while found is None:
                line = "" if server.stderr is None else server.stderr.readline()
                if not line:
                    raise RuntimeError(f"{' '.join(command)} ended before it served.")
                found = re.search(r"http://[^:]+:(\d+)", line)
            asking = [sys.executable, "-m", "benchmarks.bench_readers", found[1], str(readers)]
            with subprocess.Popen(asking, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
                try:
                    yield psutil.Process(server.pid), client
                finally:
                    client.kill()
        finally:
            server.terminate()


def main(port: int, readers: int) -> None:
    """Be the readers: ask from the first line of the input to its end, and print what came as JSON."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = readers + 200
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
    if hasattr(os, "sched_setscheduler"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    sys.stdin.readline()
    sys.stdout.write(json.dumps(asyncio.run(_all(port, readers))))


async def _all(port: int, readers: int) -> dict[str, object]:
    found = Found()
    threading.Thread(target=found.end_with, args=(sys.stdin,), daemon=True).start()
    tasks = [_wait_for_changes if number % 2 else _ask for number in range(readers)]
    began = time.monotonic()
    running = [asyncio.create_task(task(port, number, found)) for number, task in enumerate(tasks)]
    while not found.ended.is_set():
        await asyncio.sleep(0.05)
    seconds = time.monotonic() - began
    for one in running:
        one.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    return {
        "asked": seconds,
        "answered": found.answered,
        "errors": found.errors,
        "late": found.late,
        "waits": found.waits,
    }


class Found:
    """What all readers got."""

    def __init__(self) -> None:
        self.answered, self.errors, self.late = 0, 0, 0
        self.waits: list[float] = []
        self.ended = threading.Event()

    def note(self, status: int, wait: float | None = None, *, first: bool) -> None:
        """Count a response, with the time that a plain request took. Until the server has read answers, it has none."""
        if status in (200, 304):
            self.answered += 1
            if wait is not None:
                self.waits.append(wait)
        elif status == 410:
            self.late += 1
        elif status != 404 or not first:
            self.errors += 1

    def end_with(self, source: TextIO) -> None:
        """Wait for the end of the input."""
        source.read()
        self.ended.set()


async def _ask(port: int, number: int, found: Found) -> None:
    """Ask for a window about once a second, and again only for what has changed."""
    await asyncio.sleep((number % 100) / 100)
    tag, path = "", PATHS[number % len(PATHS)]
    connection = Connection(port)
    while not found.ended.is_set():
        began = time.monotonic()
        try:
            status, headers, _ = await connection.get(path, tag)
        except (OSError, ValueError, asyncio.IncompleteReadError):
            found.errors += 1
            connection = Connection(port)
            await asyncio.sleep(EVERY)
            continue
        found.note(status, time.monotonic() - began, first=not tag)
        tag = headers.get("etag", "")
        await asyncio.sleep(max(0.0, EVERY - (time.monotonic() - began)))


async def _wait_for_changes(port: int, number: int, found: Found) -> None:
    """Follow one query by long polling."""
    await asyncio.sleep((number % 100) / 100)
    connection, cursor = Connection(port), None
    while not found.ended.is_set():
        since = "" if cursor is None else f"&since={cursor}&wait={WAITED}"
        try:
            status, _, body = await connection.get(f"/api/v1/changes?query=q{number % QUERIES}&limit=1000{since}", "")
        except (OSError, ValueError, asyncio.IncompleteReadError):
            found.errors += 1
            connection = Connection(port)
            await asyncio.sleep(EVERY)
            continue
        found.note(status, first=cursor is None)
        cursor = json.loads(body)["cursor"] if status == 200 else None
        if status != 200:
            await asyncio.sleep(EVERY)


class Connection:
    """A connection that stays open, for one request after another."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def get(self, path: str, tag: str) -> tuple[int, dict[str, str], bytes]:
        """Return the status, headers and body of a response."""
        if self._streams is not None:
            try:
                return await self._get(self._streams, path, tag)
            except (ConnectionError, asyncio.IncompleteReadError) as error:
                if getattr(error, "partial", b""):
                    raise
                self._streams = None  # the server has closed the connection meanwhile, as nobody used it
        self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        return await self._get(self._streams, path, tag)

    async def _get(
        self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], path: str, tag: str
    ) -> tuple[int, dict[str, str], bytes]:
        reader, writer = streams
        known = f"If-None-Match: {tag}\r\n" if tag else ""
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{known}\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
        length = int(headers.get("content-length", "0"))
        body = await reader.readexactly(length) if length else b""
        if headers.get("connection") == "close":
            writer.close()
            self._streams = None
        return int(head[0].split(" ")[1]), headers, body


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1].isdigit():
        main(int(sys.argv[1]), int(sys.argv[2]))
    else:
        run(quick="--quick" in sys.argv)
