"""Queries over a Parquet file in process, against hand-written SQL in DuckDB and DataFusion where they are installed.

python -m benchmarks frames [--quick]

The SQL ranks each pane first and copies only its k best rows into the windows that contain them, which is the fastest
form known to us. It returns times, scores and ids only; Skyband also returns the other columns of each row. All engines
read the same file in every round and must return the same ids.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import skyband as sb

ROWS, ROUNDS, SYMBOLS = 2_000_000, 5, 1_000
DAY = 23_400  # seconds of a trading day


class Case(NamedTuple):
    """A query, and what its SQL has in place of its numbers."""

    title: str
    query: sb.TopK
    slide: int  # seconds
    group: str  # what SQL partitions by, beside panes and windows


CASES = [
    Case(
        "k 100, 600 s every 10 s",
        sb.TopK(k=100, size="600 seconds", slide="10 seconds", by="price * size"),
        10,
        "",
    ),
    Case(
        f"k 3 of each of {SYMBOLS:,} symbols, 600 s every 60 s",
        sb.TopK(k=3, size="600 seconds", slide="60 seconds", by="price * size", partition_by="symbol"),
        60,
        "symbol, ",
    ),
]

PANES = """
WITH scored AS (
  SELECT {group} ts, trade_id, price * size AS score, {micros} // {slide}000000 AS pane FROM {source}
), best AS (
  SELECT * FROM (
    SELECT *, row_number() OVER (PARTITION BY {group} pane ORDER BY score DESC, ts DESC, trade_id DESC) AS place
    FROM scored
  ) WHERE place <= {k}
), copied AS (
  SELECT {group} ts, trade_id, score, pane + copy AS ending FROM best, (SELECT {series} AS copy)
)
SELECT * FROM (
  SELECT *, row_number() OVER (PARTITION BY {group} ending ORDER BY score DESC, ts DESC, trade_id DESC) AS place
  FROM copied
) WHERE place <= {k}
"""


def write_trades(path: Path, rows: int) -> None:
    """Write seeded trades in order of time."""
    rng = np.random.default_rng(1)
    at = np.sort(rng.integers(0, DAY * 1_000_000, rows)) + 1_700_000_000_000_000
    names = pa.array([f"S{number:04}" for number in range(SYMBOLS)])
    table = pa.table(
        {
            "ts": pa.array(at).cast(pa.timestamp("us")),
            "trade_id": np.arange(rows),
            "symbol": names.take(pa.array(rng.integers(0, SYMBOLS, rows))),
            "price": rng.uniform(1, 100, rows).round(2),
            "size": rng.integers(1, 1_000, rows),
            "exchange": pa.array(["D", "N", "Q", "P"]).take(pa.array(rng.integers(0, 4, rows))),
        }
    )
    pq.write_table(table, path)


def by_skyband(path: Path, case: Case) -> pa.Table:
    return sb.replay(case.query, pq.read_table(path), time="ts", id="trade_id").to_arrow()


def by_duckdb(path: Path, case: Case) -> pa.Table:
    numbers = f"unnest(range(1, {600 // case.slide + 1}))"
    text = _sql(case, source=f"'{path}'", micros="epoch_us(ts)", series=numbers)
    return import_module("duckdb").connect().sql(text).to_arrow_table()


def by_datafusion(path: Path, case: Case) -> pa.Table:
    context = import_module("datafusion").SessionContext()
    context.register_parquet("trades", str(path))
    numbers = f"unnest(range(1, {600 // case.slide + 1}))"
    text = _sql(case, source="trades", micros="CAST(ts AS BIGINT)", series=numbers).replace("//", "/")
    return pa.Table.from_batches(context.sql(text).collect())


def _sql(case: Case, **names: str) -> str:
    return PANES.format(group=case.group, slide=case.slide, k=case.query.k, **names)


RIVALS: dict[str, Callable[[Path, Case], pa.Table]] = {"duckdb": by_duckdb, "datafusion": by_datafusion}


def run(*, quick: bool = False) -> None:
    rows, rounds = (200_000, 1) if quick else (ROWS, ROUNDS)
    engines: dict[str, Callable[[Path, Case], pa.Table]] = {"skyband": by_skyband}
    for name, engine in RIVALS.items():
        try:
            import_module(name)
        except ImportError:
            print(f"{name} is not installed and is skipped; `pip install {name}` adds it.")
        else:
            engines[name] = engine
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trades.parquet"
        write_trades(path, rows)
        for case in CASES:
            print(f"\n{case.title}: {rows:,} rows of a Parquet file, median of {rounds}")
            _compare(case, path, engines, rounds)


def _compare(case: Case, path: Path, engines: dict[str, Any], rounds: int) -> None:
    times: dict[str, list[float]] = {name: [] for name in engines}
    found = {}
    for name, engine in engines.items():
        table = engine(path, case)  # compiles, and warms the file cache
        found[name] = (table.num_rows, int(table["trade_id"].to_numpy().sum()))
    if len(set(found.values())) > 1:
        raise SystemExit(f"the engines have different answers: {found}")
    for _ in range(rounds):
        for name, engine in engines.items():
            begin = time.perf_counter()
            engine(path, case)
            times[name].append(time.perf_counter() - begin)
    own = statistics.median(times["skyband"])
    for name, measured in times.items():
        middle = statistics.median(measured)
        print(f"  {name:12} {middle:8.3f} s   {middle / own:6.2f} x   {found[name][0]:,} answer rows")
