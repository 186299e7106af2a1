"""Large answers to Parquet files, Delta and PostgreSQL: the rate against the sink that discards them, and memory.

Every minute has an answer of three rows for each of 100,000 groups, and each file of the input has one minute. Each
sink is measured in a separate process with its own session, by tasks and by the driver process.

python -m benchmarks sinks [--quick]
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Literal

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

import skyband as sb
from benchmarks import report
from benchmarks.report import Ratio
from skyband.connectors.folder_writer import FolderWriter
from skyband.spark import read_files, session, start

PAGE = report.REPORTS / "sinks.md"
RANKS = 3
ROWS = 5  # of each group in a minute
LEAST = 0.6  # of the rate of the sink that discards answers
FLAT = 1.15  # largest memory of the later half of the minutes against the earlier half
HOWS = ("tasks", "driver")
SINKS = ("noop", "parquet", "delta", "postgres")


def run(*, quick: bool = False) -> None:
    """Run this benchmark and print the results; write the report unless `quick`."""
    machine = report.machine()
    groups, minutes = (500, 4) if quick else (100_000, 20)
    home = Path(tempfile.mkdtemp(prefix="skyband-bench-"))
    server = importlib.import_module("tests.connectors.postgres.server").Postgres(fsync="on", shared_buffers="512MB")
    try:
        for minute in range(minutes):
            write_minute(home / "in", minute, groups)
        ways = [("noop", "tasks"), *((kind, how) for kind in SINKS[1:] for how in HOWS[: 1 if quick else 2])]
        found = {way: _measured(*way, home, server.url()) for way in ways}
    finally:
        server.remove()
        shutil.rmtree(home, ignore_errors=True)
    expected = groups * RANKS * minutes
    report.show(
        "sinks-ratios",
        f"{groups:,} groups, {RANKS} rows each, every minute for {minutes} minutes",
        ("what", "target", "measured", "met"),
        [ratio.row() for ratio in _ratios(found, expected)],
        write=not quick,
        page=PAGE,
    )
    if not quick:
        report.into_page("sinks-machine", machine, page=PAGE)


def _ratios(found: dict[tuple[str, str], dict[str, Any]], expected: int) -> list[Ratio]:
    base = found["noop", "tasks"]
    ratios = [Ratio("rows of answers per second, discarded", "", report.amount(base["rate"]), None)]
    for (kind, how), one in found.items():
        if kind == "noop":
            continue
        of, by_tasks = f"{kind}, written by {how}", how == "tasks"
        share, growth = one["rate"] / base["rate"], one["late"] / one["early"]
        ratios += [
            Ratio(f"{of}: rate against discarded answers", f"at least {LEAST}" if by_tasks else "", f"{share:.2f}",
                  share >= LEAST if by_tasks else None),
            Ratio(f"{of}: memory of the driver process, later against earlier", f"at most {FLAT}" if by_tasks else "",
                  f"{growth:.2f} ({report.bytes_text(one['late'])})", growth <= FLAT if by_tasks else None),
            Ratio(f"{of}: rows in the output", f"{expected:,}", f"{one['written']:,}", one["written"] == expected),
        ]  # fmt: skip
    return ratios


def write_minute(folder: Path, minute: int, groups: int) -> None:
    """Write one minute of the input: some rows of each group, in any order."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(minute)
    number = groups * ROWS
    ts = minute * 60_000_000 + np.sort(rng.integers(0, 60_000_000, number))
    rows = pa.table(
        {
            "ts": pa.array(ts).cast(pa.timestamp("us", "UTC")),
            "id": np.arange(number) + minute * number,
            "g": rng.permutation(np.repeat(np.arange(groups), ROWS)),
            "price": rng.lognormal(3, 1, number).round(4),
        }
    )
    path = folder / f"{minute:04}.parquet"
    pq.write_table(rows, path)
    os.utime(path, (minute, minute))  # read in this order


def _measured(kind: str, how: str, home: Path, url: str) -> dict[str, Any]:
    """Measure a sink in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.bench_sinks", kind, how, str(home)]
    done = subprocess.run(command, env={**os.environ, "BENCH_URL": url}, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _child(kind: str, how: Literal["driver", "tasks"], home: Path) -> dict[str, Any]:
    place = home / f"{kind}-{how}"
    sinks: dict[str, Any] = {
        "parquet": lambda: sb.sinks.Parquet(path=str(place), writers=how),
        "delta": lambda: sb.sinks.Delta(path=str(place), writers=how),
        "postgres": lambda: sb.sinks.Postgres(url=os.environ["BENCH_URL"], table=f"answers_{how}", writers=how),
    }
    to = {"sinks": [sinks[kind]()]} if kind in sinks else {"write": lambda out: out.writeStream.format("noop")}
    best = sb.TopK(name="best", k=RANKS, size="1 minute", by="price", partition_by=["g"])
    spark = session(app="skyband bench", master="local[2]")
    try:
        files = read_files(str(home / "in" / "*.parquet"), files_per_batch=1, spark=spark)
        with _Memory() as memory:
            handle = start(files, best, time="ts", id="id", watermark="0 seconds", checkpoint=f"{place}-state", **to)
            handle.finish()
        progress = [one for one in handle.query.recentProgress if one["numInputRows"]]
        seconds = [one["durationMs"]["triggerExecution"] / 1e3 for one in progress[2:]]  # the first ones compile
        answers = int(handle.metrics()["answers"])
    finally:
        spark.stop()
    rate = answers / len(progress) / statistics.median(seconds)
    return {"rate": rate, "written": _written(kind, how, place), **memory.halves()}


def _written(kind: str, how: str, place: Path) -> int:
    """Count the rows of an output, as other programs read it."""
    if kind == "parquet":
        return sum(pq.read_metadata(file).num_rows for file in FolderWriter(str(place), "answers", kind).parts())
    if kind == "delta":
        return int(DeltaTable(place).count())
    if kind == "postgres":
        with psycopg.connect(os.environ["BENCH_URL"]) as connection:
            row = connection.execute(f"SELECT count(*) FROM answers_{how}".encode()).fetchone()
            return 0 if row is None else int(row[0])
    return 0


class _Memory:
    """Samples the memory of this process while a block runs."""

    def __init__(self) -> None:
        self._samples: list[int] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        while not self._ended.wait(0.2):
            self._samples.append(int(Path("/proc/self/statm").read_text().split()[1]) * page)

    def halves(self) -> dict[str, int]:
        """Return the largest memory of the earlier and of the later half, without the time in which Spark starts."""
        from_here = len(self._samples) // 5
        middle = (from_here + len(self._samples)) // 2
        return {"early": max(self._samples[from_here:middle]), "late": max(self._samples[middle:])}


if __name__ == "__main__":
    print(json.dumps(_child(sys.argv[1], "tasks" if sys.argv[2] == "tasks" else "driver", Path(sys.argv[3]))))
