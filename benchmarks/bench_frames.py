"""Queries over a Parquet file in process, against hand-written panes in other engines, where they are installed.

python -m benchmarks frames [--quick]

All engines read the file in every round, use all cores, and must have the same rows in every window. The SQL ranks each
pane first, and copies only its k best rows into the windows that contain them. Engines with a function for the n best
values run both forms, and the faster one counts. They return group, window, time, score and id; Skyband also returns
the other columns of each row, and its answers are sorted. The first call of each form is in a process of its own, which
is ended after 15 s. The last lines are the time that pyarrow needs to decode the columns, as fast as it can: below it,
no call can be that reads them with pyarrow.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import skyband as sb
from benchmarks import report

PAGE = report.REPORTS / "frames.md"
ROWS, ROUNDS, SYMBOLS = 2_000_000, 5, 1_000
MOST_COPIES = 30_000_000  # rows: polars would need more than 10 GB for more
DAY = 23_400  # seconds of a trading day
SIZE = 600  # seconds
SLOW = 2.0  # seconds: an engine that takes longer is timed once
LIMIT = 15.0  # seconds: an engine that takes longer is ended


class Case(NamedTuple):
    """A query, and what its SQL has in place of its numbers."""

    title: str
    query: sb.TopK
    slide: int  # seconds
    group: str  # what SQL partitions by, beside panes and windows
    target: float  # times the fastest other engine


def _case(title: str, k: int, slide: int, target: float, symbol: str | None = None) -> Case:
    query = sb.TopK(
        k=k,
        size=f"{SIZE} seconds",
        slide=f"{slide} seconds",
        by="price * size",
        partition_by=[symbol] if symbol else [],
    )
    return Case(title, query, slide, f"{symbol}, " if symbol else "", target)


CASES = [
    _case("one query, k 100, 600 s every 10 s", 100, 10, 5.0),
    _case(f"{SYMBOLS:,} groups, k 3, 600 s every 10 s", 3, 10, 10.0, "symbol"),
    _case(f"{SYMBOLS:,} groups, k 3, 600 s every 60 s", 3, 60, 10.0, "symbol"),
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
  SELECT {group} ts, trade_id, score, pane + copy AS ending FROM best, (SELECT unnest(range(1, {panes} + 1)) AS copy)
)
SELECT * FROM (
  SELECT *, row_number() OVER (PARTITION BY {group} ending ORDER BY score DESC, ts DESC, trade_id DESC) AS place
  FROM copied
) WHERE place <= {k}
"""

DUCKDB_TOP = """
WITH best AS (
  SELECT {group} epoch_us(ts) // {slide}000000 AS pane, max(row(price * size, ts, trade_id), {k}) AS top
  FROM {source} GROUP BY {group} pane
), copied AS (
  SELECT {group} pane + copy AS ending, unnest(top) AS one FROM best, (SELECT unnest(range(1, {panes} + 1)) AS copy)
), tops AS (
  SELECT {group} ending, max(one, {k}) AS top FROM copied GROUP BY {group} ending
)
SELECT {group} ending, one[1] AS score, one[2] AS ts, one[3] AS trade_id
FROM (SELECT {group} ending, unnest(top) AS one FROM tops)
"""

CHDB_LIMIT = """
WITH scored AS (
  SELECT {group} ts, trade_id, price * size AS score, intDiv(toUnixTimestamp64Micro(ts), {slide}000000) AS pane
  FROM {source}
), best AS (
  SELECT * FROM scored ORDER BY score DESC, ts DESC, trade_id DESC LIMIT {k} BY {group} pane
), copied AS (
  SELECT {group} ts, trade_id, score, pane + arrayJoin(range(1, {panes} + 1)) AS ending FROM best
)
SELECT * FROM copied ORDER BY score DESC, ts DESC, trade_id DESC LIMIT {k} BY {group} ending
"""

CHDB_TOP = """
SELECT {group} ending, -one.1 AS score, -one.2 AS ts, -one.3 AS trade_id FROM (
  SELECT {group} ending, arrayJoin(groupArraySortedArray({k})(top)) AS one FROM (
    SELECT {group} pane + arrayJoin(range(1, {panes} + 1)) AS ending, top FROM (
      SELECT {group} intDiv(toUnixTimestamp64Micro(ts), {slide}000000) AS pane,
        groupArraySorted({k})((-(price * size), -toUnixTimestamp64Micro(ts), -trade_id)) AS top
      FROM {source} GROUP BY {group} pane
    )
  ) GROUP BY {group} ending
)
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
    return sb.replay(case.query, path, time="ts", id="trade_id").to_arrow()


def by_duckdb(path: Path, case: Case) -> pa.Table:
    text = _sql(PANES, case, source=f"'{path}'", micros="epoch_us(ts)")
    return import_module("duckdb").connect().sql(text).to_arrow_table()


def by_duckdb_top(path: Path, case: Case) -> pa.Table:
    return import_module("duckdb").connect().sql(_sql(DUCKDB_TOP, case, source=f"'{path}'")).to_arrow_table()


def by_datafusion(path: Path, case: Case) -> pa.Table:
    context = import_module("datafusion").SessionContext()
    context.register_parquet("trades", str(path))
    text = _sql(PANES, case, source="trades", micros="CAST(ts AS BIGINT)").replace("//", "/")
    return pa.Table.from_batches(context.sql(text).collect())


def by_chdb(path: Path, case: Case) -> pa.Table:
    return import_module("chdb").query(_sql(CHDB_LIMIT, case, source=f"file('{path}', Parquet)"), "ArrowTable")


def by_chdb_top(path: Path, case: Case) -> pa.Table:
    return import_module("chdb").query(_sql(CHDB_TOP, case, source=f"file('{path}', Parquet)"), "ArrowTable")


def by_polars(path: Path, case: Case) -> pa.Table:
    pl: Any = import_module("polars")
    best, groups = ["score", "ts", "trade_id"], [case.group.strip(", ")] if case.group else []
    pane = pl.col("ts").dt.epoch("us") // (case.slide * 1_000_000)
    scored = pl.scan_parquet(path).select(*groups, *best[1:], score=pl.col("price") * pl.col("size"), pane=pane)
    kept = scored.sort(best, descending=True).group_by(*groups, "pane").head(case.query.k)
    copies = kept.join(pl.LazyFrame({"copy": range(1, SIZE // case.slide + 1)}), how="cross")
    copies = copies.select(*groups, *best, ending=pl.col("pane") + pl.col("copy"))
    return copies.sort(best, descending=True).group_by(*groups, "ending").head(case.query.k).collect().to_arrow()


def _sql(text: str, case: Case, **names: str) -> str:
    return text.format(group=case.group, slide=case.slide, k=case.query.k, panes=SIZE // case.slide, **names)


Run = Callable[[Path, Case], pa.Table]
RIVALS: dict[str, list[Run]] = {
    "duckdb": [by_duckdb_top, by_duckdb],
    "datafusion": [by_datafusion],
    "chdb": [by_chdb, by_chdb_top],
    "polars": [by_polars],
}


def run(*, quick: bool = False) -> None:
    rows, rounds = (200_000, 1) if quick else (ROWS, ROUNDS)
    engines: dict[str, list[Run]] = {"skyband": [by_skyband]}
    for name, forms in RIVALS.items():
        try:
            import_module(name)
        except ImportError:
            print(f"{name} is not installed and is skipped; `pip install {name}` adds it.")
        else:
            engines[name] = forms
    if not quick:
        others = ", ".join(f"{name} {version(name)}" for name in engines if name != "skyband")
        report.into_page("frames-machine", f"{report.machine()} Against {others}.", page=PAGE)
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trades.parquet"
        write_trades(path, rows)
        floors, floor = _floors(path, rounds)
        for case in CASES:
            lines += _compare(case, path, engines, rounds, floor)
        lines += floors
    heads = ["query", "engine", "seconds", "CPU seconds", "times Skyband", "times Skyband, CPU", "answer rows"]
    report.show(
        "frames", f"{rows:,} rows of a Parquet file, median of {rounds}", heads, lines, write=not quick, page=PAGE
    )


class _Timed(NamedTuple):
    wall: float
    cpu: float


def _timed(engine: Run, path: Path, case: Case) -> tuple[pa.Table, _Timed]:
    wall, cpu = time.perf_counter(), time.process_time()
    table = engine(path, case)
    return table, _Timed(time.perf_counter() - wall, time.process_time() - cpu)


def _compare(case: Case, path: Path, engines: dict[str, list[Run]], rounds: int, floor: float) -> list[list[str]]:
    """Time the faster form of each engine in turn; their answers must be equal. Decoding takes `floor` s."""
    by_skyband(path, case)  # compiles
    first = _first_round(case, path, engines)
    times = {name: [one.timed] if one.timed.wall >= SLOW and name != "skyband" else [] for name, one in first.items()}
    repeated = [name for name, found in times.items() if not found]
    for _ in range(rounds):
        for name in repeated:
            times[name].append(_timed(first[name].form, path, case)[1])
    wall = {name: statistics.median(one.wall for one in found) for name, found in times.items()}
    cpu = {name: statistics.median(one.cpu for one in found) for name, found in times.items()}
    for what, seconds in (("elapsed", wall), ("CPU", cpu)):
        others = {name: one for name, one in seconds.items() if name != "skyband"}
        if others:
            fastest = min(others, key=lambda name: others[name])
            best, least = others[fastest] / seconds["skyband"], "" if first[fastest].ended else "more than "
            met = "met" if best >= case.target else "not met"
            print(f"{case.title}: {least}{best:.1f}x the best other engine in {what} time; {case.target:.0f}x {met}")
    if len(wall) > 1:
        most = min(one for name, one in wall.items() if name != "skyband") / floor
        print(f"{case.title}: pyarrow decodes all columns in {floor:.3f} s, so {most:.1f}x is the most possible")
    print(flush=True)
    return [
        [
            case.title,
            _form(name, one.form),
            f"{'' if one.ended else '> '}{wall[name]:.3f}",
            f"{'' if one.ended else '> '}{cpu[name]:.2f}",
            *(f"{'' if one.ended else '> '}{seconds[name] / seconds['skyband']:.1f}×" for seconds in (wall, cpu)),
            f"{first['skyband'].rows:,}",
        ]
        for name, one in first.items()
    ]


FLOORS = {
    "decode of ts, price and size": ["ts", "price", "size"],
    "decode of ts, price, size and symbol": ["ts", "price", "size", "symbol"],
    "decode of all columns": None,
}


def _floors(path: Path, rounds: int) -> tuple[list[list[str]], float]:
    """Time pyarrow's decoding alone, with texts as dictionaries, on all cores; and return that of all columns."""
    lines = []
    for what, columns in FLOORS.items():
        found = []
        for _ in range(rounds + 1):
            wall, cpu = time.perf_counter(), time.process_time()
            pq.ParquetFile(path, read_dictionary=["symbol", "exchange"]).read(columns)
            found.append(_Timed(time.perf_counter() - wall, time.process_time() - cpu))
        middle = _Timed(*(statistics.median(times) for times in zip(*found[1:], strict=True)))
        lines.append([what, "pyarrow", f"{middle.wall:.3f}", f"{middle.cpu:.2f}", "-", "-", "-"])
    return lines, middle.wall


class _First(NamedTuple):
    """The first call of an engine's faster form."""

    form: Run
    timed: _Timed
    rows: int  # of answers
    ended: bool  # by itself, before the limit


def _first_round(case: Case, path: Path, engines: dict[str, list[Run]]) -> dict[str, _First]:
    """Call each form of each engine once, in a process of its own, and compare their answers."""
    found: dict[str, _First] = {}
    wanted: Any = None
    for name, forms in engines.items():
        if name == "polars" and rows_copied(path, case) > MOST_COPIES:
            print(f"{case.title}: polars is skipped, it would need too much memory.")
            continue
        for form in forms:
            timed, windows = _called(form, path, case)
            ended = windows is not None
            if ended:
                wanted = windows if wanted is None else wanted
                if not np.array_equal(windows, wanted):
                    raise SystemExit(f"{name} has other answers than skyband to {case.title!r}.")
            if name not in found or (ended, -timed.wall) > (found[name].ended, -found[name].timed.wall):
                found[name] = _First(form, timed, wanted.size, ended)
    return found


def _called(form: Run, path: Path, case: Case) -> tuple[_Timed, Any]:
    """Return the time of one call in a process of its own, and its windows: None if it took longer than the limit."""
    context = multiprocessing.get_context("spawn")
    mine, others = context.Pipe()
    answers = path.with_suffix(".npy")
    child = context.Process(target=_call, args=(form.__name__, path, CASES.index(case), answers, others), daemon=True)
    child.start()
    others.close()
    try:
        mine.recv()  # it has started
        used = time.perf_counter()
        if not mine.poll(LIMIT):
            used = time.perf_counter() - used
            return _Timed(used, _cpu_of(child.pid or 0)), None
        timed = _Timed(*mine.recv())
        child.join()
        return timed, np.load(answers)
    finally:
        child.kill()
        child.join()
        answers.unlink(missing_ok=True)


def _call(form: str, path: Path, case: int, answers: Path, parent: Any) -> None:
    """Run in the child: call a form, send its time, and write its windows."""
    engine: Run = globals()[form]
    if engine is not by_skyband:
        import_module(form.removeprefix("by_").removesuffix("_top"))
    parent.send("ready")
    table, timed = _timed(engine, path, CASES[case])
    np.save(answers, _windows(table, CASES[case]))
    parent.send(tuple(timed))


def _cpu_of(process: int) -> float:
    """Return the CPU time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rows_copied(path: Path, case: Case) -> int:
    """Number of rows that SQL copies into windows, at most."""
    panes = DAY // case.slide * (SYMBOLS if case.group else 1)
    rows: int = pq.read_metadata(path).num_rows
    return min(rows, panes * case.query.k) * (SIZE // case.slide)


def _form(name: str, engine: Run) -> str:
    return f"{name}, n best" if engine.__name__.endswith("_top") else name


def _windows(table: pa.Table, case: Case) -> Any:
    """The rows of all windows, by the number of the window and the row."""
    if "ending" in table.column_names:
        ending = table["ending"].to_numpy()
    else:
        ending = table["window_end"].cast(pa.int64()).to_numpy() // (case.slide * 1_000_000)
    return np.sort(ending.astype(np.int64) * ROWS + table["trade_id"].to_numpy())
