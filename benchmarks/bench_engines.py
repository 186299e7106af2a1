"""Whole runs of `skyband run --once`, in this process and on Spark, over files of several sizes.

python -m benchmarks engines [--quick]
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from benchmarks import report

PAGE = report.REPORTS / "front.md"
COMMAND = (sys.executable, "-m", "skyband.cli", "run", "work.yaml", "--once")
SIZES = (1_000_000, 4_000_000, 16_000_000)
FILES, ROUNDS = 4, 3
SCHEMA = {
    "parquet": "",
    "csv": ", schema: {ts: timestamp, trade_id: bigint, symbol: string, price: double, size: bigint}",
}
WORKLOAD = """
queries:
  - {name: largest, k: 100, size: 10 minutes, slide: 10 seconds, by: price * size}
  - {name: by symbol, k: 10, size: 10 minutes, slide: 1 minute, by: price * size, partition_by: [symbol]}
sinks: [{type: parquet, path: out}]
"""


def run(*, quick: bool = False) -> None:
    """Run this benchmark and print the results; write the report unless `quick`."""
    rows = []
    for kind in SCHEMA:
        for count in SIZES[:1] if quick else SIZES:
            with TemporaryDirectory() as folder:
                size = _write(Path(folder), kind, count)
                local, spark = _timed(Path(folder), 1 if quick else ROUNDS)
            row = (kind, f"{count:,}", f"{size / 1e6:,.0f} MB", f"{local:.1f} s", f"{spark:.1f} s")
            rows.append((*row, f"{spark / local:.1f}x"))
    report.show(
        "front-engines",
        "`skyband run --once`: seconds in this process and on Spark, with start-up",
        ("format", "rows", "size", "in this process", "on Spark", "Spark / this process"),
        rows,
        write=not quick,
        page=PAGE,
    )


def _timed(folder: Path, rounds: int) -> tuple[float, float]:
    """Return the median seconds of both engines, in alternating runs."""
    found: dict[str, list[float]] = {"--local": [], "--spark": []}
    for _ in range(rounds):
        for engine, seconds in found.items():
            began = perf_counter()
            subprocess.run([*COMMAND, engine], cwd=folder, capture_output=True, check=True)
            seconds.append(perf_counter() - began)
    return median(found["--local"]), median(found["--spark"])


def _write(folder: Path, kind: str, count: int) -> int:
    """Write the stream as files with the workload file beside them; return their size in bytes."""
    (folder / "in").mkdir()
    stream = f"streams: {{trades: {{path: in, format: {kind}, time: ts, id: trade_id{SCHEMA[kind]}}}}}"
    (folder / "work.yaml").write_text(stream + WORKLOAD)
    table = _rows(count)
    for number in range(FILES):
        part = table.slice(number * count // FILES, count // FILES)
        path = folder / "in" / f"{number}.{kind}"
        if kind == "parquet":
            pq.write_table(part, path)
        else:
            pcsv.write_csv(part.set_column(0, "ts", pc.strftime(part["ts"], "%Y-%m-%dT%H:%M:%SZ")), path)
    return sum(path.stat().st_size for path in (folder / "in").iterdir())


def _rows(count: int) -> pa.Table:
    """Return a thousand trades a second, in the order of time."""
    random = np.random.default_rng(1)
    at = np.sort(random.integers(0, count * 1000, count)) + 1_700_000_000_000_000
    return pa.table(
        {
            "ts": pa.array(at).cast(pa.timestamp("us", "UTC")),
            "trade_id": np.arange(count),
            "symbol": pa.array(np.array(["AA", "BB", "CC", "DD"])[random.integers(0, 4, count)]),
            "price": np.round(random.random(count) * 100, 2),
            "size": random.integers(1, 10_000, count),
        }
    )
