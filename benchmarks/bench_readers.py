"""The read API under load: many readers beside a stream in the same process.

python -m benchmarks readers [--quick]

Half of the readers wait for changes (long polling), the others ask for the newest window, a page of windows or the rank
of an entity, each about once a second, over connections that stay open. They are in another process. The server and the
stream are threads of one process, as in `skyband run --page`, so they share the interpreter. CPU shares are exact on a
loaded machine, wall times are not.
"""

from __future__ import annotations

import asyncio
import json
import resource
import statistics
import subprocess
import sys
import threading
import time
from typing import NamedTuple

import numpy as np

import skyband as sb
from benchmarks import report
from skyband.dashboard.board_state import LiveShow
from skyband.dashboard.connections import Address
from skyband.dashboard.query_info import QueryInfo
from skyband.dashboard.server import PageServer

PAGE = report.REPORTS / "readers.md"
READERS = 1000
SECONDS = 20.0
EVERY = 1.0  # seconds between two requests of a reader
BATCH = 20_000  # rows
PAUSE = 0.1  # seconds between two batches of the stream
K = 50
QUERIES = 5
WAITED = 5  # seconds that a request for changes waits
PATHS = (
    "/api/v1/window?query=q0",
    "/api/v1/window?query=q1",
    "/api/v1/windows?query=q2&limit=100",
    "/api/v1/rank?query=q3&id=1",
)


def run(*, quick: bool = False) -> None:
    """Run this benchmark and print the results; write the report unless `quick`."""
    counts = (100,) if quick else (100, READERS)
    seconds = 5.0 if quick else SECONDS
    machine = report.machine()
    rows = []
    alone = _measured(0, seconds)
    for count in counts:
        with_readers = _measured(count, seconds)
        rows.append(_row(count, with_readers, alone))
    columns = (
        "readers", "requests per second", "median", "p99", "errors", "CPU of the server per request",
        "CPU of the stream, against alone", "batches of the stream, against alone",
    )  # fmt: skip
    report.show("readers", "Readers beside a stream", columns, rows, write=not quick, page=PAGE)
    if not quick:
        report.into_page("readers-machine", machine, page=PAGE)


class Measured(NamedTuple):
    """What readers and the stream saw."""

    seconds: float
    answered: int
    waits: list[float]  # seconds of each plain request
    errors: int
    server: float  # CPU seconds of the process without the stream
    stream: float  # CPU seconds of the stream's thread for a batch
    batches: int


def _row(count: int, found: Measured, alone: Measured) -> list[str]:
    waits = sorted(found.waits) or [0.0]
    return [
        f"{count:,}",
        f"{found.answered / found.seconds:,.0f}",
        f"{1000 * statistics.median(waits):.0f} ms",
        f"{1000 * waits[int(0.99 * (len(waits) - 1))]:.0f} ms",
        f"{found.errors:,}",
        f"{1e6 * found.server / max(1, found.answered):.0f} µs",
        f"{found.stream / alone.stream:.2f}×",
        f"{(found.batches / found.seconds) / (alone.batches / alone.seconds):.2f}×",
    ]


def _measured(readers: int, seconds: float) -> Measured:
    """Run the stream for some seconds, with so many readers."""
    show = LiveShow("bench")
    queries = [
        sb.TopK(name=f"q{number}", k=K, size="10 minutes", slide="1 minute", by="x") for number in range(QUERIES)
    ]
    show.history.set_queries({query.name: QueryInfo(query.name, "s", "topk", k=K) for query in queries})
    stream = Stream(show, queries)
    with PageServer(show, Address("127.0.0.1", 0), readers=readers + 50, share=2, raise_limit=True) as server:
        stream.push()  # compiles, and there is a first window
        thread = threading.Thread(target=stream.follow, daemon=True)
        before = time.process_time()
        if readers:
            command = [sys.executable, "-m", "benchmarks.bench_readers", str(server.port), str(readers), str(seconds)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
                thread.start()
                found = json.loads(client.communicate()[0])
        else:
            thread.start()
            time.sleep(seconds)
            found = {"seconds": seconds, "answered": 0, "waits": [], "errors": 0}
        stream.closed.set()
        thread.join()
    busy = time.process_time() - before - stream.busy
    return Measured(**found, server=busy, stream=stream.busy / max(1, stream.batches), batches=stream.batches)


class Stream:
    """Rows that are ranked in a thread, and whose answers go to the dashboard."""

    def __init__(self, show: LiveShow, queries: list[sb.TopK]) -> None:
        self._outlet, self._monitor = show.history.outlet("s"), sb.Monitor(queries)
        self._rng = np.random.default_rng(3)
        self.batches, self.busy, self._next = 0, 0.0, 0
        self.closed = threading.Event()

    def follow(self) -> None:
        """Push batches until the stream is closed."""
        self.batches = 0
        while not self.closed.is_set():
            began = time.thread_time()
            self.push()
            self.busy += time.thread_time() - began
            self.closed.wait(PAUSE)

    def push(self) -> None:
        """Rank a batch of rows: one minute of the stream."""
        self.batches += 1
        begin = self._next
        positions = begin + np.sort(self._rng.integers(0, 60_000_000, BATCH))
        self._next = begin + 60_000_000
        ids = self._rng.integers(0, 2**40, BATCH)
        self._monitor.push(positions.astype("datetime64[us]"), self._rng.random(BATCH), ids)
        rows = self._monitor.answers()
        if rows.num_rows:
            self._outlet.take(self._next, rows)


def main(port: int, readers: int, seconds: float) -> None:
    """Be the readers: ask for some seconds, and print what came as JSON."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = readers + 200
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
    sys.stdout.write(json.dumps(asyncio.run(_all(port, readers, seconds))))


async def _all(port: int, readers: int, seconds: float) -> dict[str, object]:
    found = Found()
    until = time.monotonic() + seconds
    tasks = [_wait_for_changes if number % 2 else _ask for number in range(readers)]
    began = time.monotonic()
    await asyncio.gather(*(task(port, number, until, found) for number, task in enumerate(tasks)))
    return {
        "seconds": time.monotonic() - began,
        "answered": found.answered,
        "waits": found.waits,
        "errors": found.errors,
    }


class Found:
    """What all readers got."""

    def __init__(self) -> None:
        self.answered, self.errors = 0, 0
        self.waits: list[float] = []


async def _ask(port: int, number: int, until: float, found: Found) -> None:
    """Ask for a window about once a second, and again only for what has changed."""
    await asyncio.sleep((number % 100) / 100)
    tag, path = "", PATHS[number % len(PATHS)]
    connection = Connection(port)
    while time.monotonic() < until:
        began = time.monotonic()
        try:
            status, headers, _ = await connection.get(path, tag)
        except (OSError, ValueError, asyncio.IncompleteReadError):
            found.errors += 1
            connection = Connection(port)
            await asyncio.sleep(EVERY)
            continue
        found.waits.append(time.monotonic() - began)
        found.answered += status in (200, 304)
        found.errors += status not in (200, 304)
        tag = headers.get("etag", "")
        await asyncio.sleep(max(0.0, EVERY - (time.monotonic() - began)))


async def _wait_for_changes(port: int, number: int, until: float, found: Found) -> None:
    """Follow one query by long polling."""
    await asyncio.sleep((number % 100) / 100)
    connection, cursor = Connection(port), None
    while time.monotonic() < until:
        wait = min(WAITED, max(1, int(until - time.monotonic())))
        since = "" if cursor is None else f"&since={cursor}&wait={wait}"
        try:
            status, _, body = await connection.get(f"/api/v1/changes?query=q{number % QUERIES}&limit=1000{since}", "")
        except (OSError, ValueError, asyncio.IncompleteReadError):
            found.errors += 1
            connection = Connection(port)
            await asyncio.sleep(EVERY)
            continue
        found.answered += status == 200
        found.errors += status != 200
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
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
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
    if len(sys.argv) == 4 and sys.argv[1].isdigit():
        main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
    else:
        run(quick="--quick" in sys.argv)
