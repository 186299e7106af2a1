"""The tables of the SAP paper as functions: each returns its rows as dictionaries with the paper's columns.

The parameters of tables 1 and 4 are shares of the data set, so a smaller `scale` shrinks everything together: windows,
slides, the period of TIME^R, and k. A measurement feeds an engine a full window, and then at
least one window and one whole period of TIME^R; times are means over all of these objects.

python -m benchmarks.sap_tables [TABLE ...] [--scale tiny|small|full]

Appendix F has a hundred random queries on every stream, and is measured only if it is named: F.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from benchmarks import report, workloads
from benchmarks.measure import Feed, compiled, engine_of, state_bytes
from skyband import TopK
from skyband.topk.algorithms import ENGINES, Engine

Row = dict[str, Any]

#: The paper's data sets, and the streams that are measured under these names.
DATA_SETS = {
    "STOCK": "stock",
    "TRIP": "trip",
    "PLANET (air quality)": "air",
    "TIME^U": "time-u",
    "TIME^R": "time-r",
}
#: The paper's names of the algorithms, and the engines.
PARTITIONERS = {"En-Dyna": "sap", "Dyna": "sap-dynamic", "EQUAL": "sap-equal"}
VARIANTS = {"non-delay": "sap-eager", "Algo 1": "sap-rescan", "Algo 1+S-AVL": "sap-equal"}
COMPARED = {"SAP": "sap", "minTopK": "mintopk", "k-skyband": "kskyband"}
FAST = {"minTopK": "mintopk", "SAP": "sap"}

RESOLUTIONS = (5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37)
SEED = 20170601


class Scale(NamedTuple):
    """How large a run is: objects of a data set, and by how much k is divided."""

    objects: int
    shrink_k: int
    resolutions: Sequence[int]
    queries: int  # of appendix F
    looks: int  # how often candidates and bytes are counted

    @property
    def period(self) -> int:
        """Objects in a period of TIME^R: two million of the paper's hundred million."""
        return self.objects // 50


SCALES = {
    "tiny": Scale(400_000, 20, RESOLUTIONS[::8], 3, 8),
    "small": Scale(10_000_000, 10, RESOLUTIONS[::4], 100, 40),
    "full": Scale(100_000_000, 1, RESOLUTIONS, 100, 200),
}


class Grid(NamedTuple):
    """Values of the three parameters, and their defaults."""

    ns: Sequence[float]  # percent of the data set
    ks: Sequence[int]
    slides: Sequence[float]  # percent of the window
    n: float
    k: int
    slide: float


#: Tables that take much longer than the others: measured only if they are named.
ON_REQUEST = ("F",)

TABLE_1 = Grid((0.01, 0.05, 0.1, 0.5, 1), (10, 50, 100, 500, 1000), (0.01, 0.05, 0.1, 1, 5, 10), 0.1, 100, 0.1)
TABLE_4 = Grid((10, 20, 30, 40, 50), (500, 1000, 5000, 10_000, 50_000), (0.01, 0.1, 1, 2, 5, 10), 50, 1000, 2)
FAST_SHARE = 50  # high-speed windows are shares of a data set that is this many times smaller


class Point(NamedTuple):
    """A column of a table, and its query."""

    column: str
    n: int
    k: int
    s: int


def points(grid: Grid, scale: Scale) -> list[Point]:
    """The columns of a table: one parameter varies, the others have their defaults."""
    varied = [
        *((f"n {n:g}%", n, grid.k, grid.slide) for n in grid.ns),
        *((f"k {k}", grid.n, k, grid.slide) for k in grid.ks),
        *((f"s {slide:g}%", grid.n, grid.k, slide) for slide in grid.slides),
    ]
    return [Point(column, *_query(grid, scale, n, k, slide)) for column, n, k, slide in varied]


def _query(grid: Grid, scale: Scale, n: float, k: int, slide: float) -> tuple[int, int, int]:
    objects = scale.objects if grid is TABLE_1 else scale.objects // FAST_SHARE
    size = max(10, round(objects * n / 100))
    return size, max(1, k // scale.shrink_k), max(1, round(size * slide / 100))


class Measured(NamedTuple):
    """Means over the measured objects, except for the time of the slowest call."""

    ns: float  # per object
    candidates: float
    size: float  # bytes of the state
    size_without_window: float  # the same without the objects that are no candidates


class Stream(NamedTuple):
    """A stream of a scale."""

    name: str
    period: int

    def scores(self, n: int) -> Any:
        """The first n scores."""
        if self.name == "time-r":
            return np.sin(2 * np.pi * np.arange(1, n + 1) / self.period)
        return workloads.scores_of(self.name, n)


def measure(engine: Engine, stream: Stream, n: int, looks: int) -> Measured:
    """Feed a window, then at least one more and whole periods of TIME^R."""
    objects = max(1, math.ceil(n / stream.period)) * stream.period
    step = max(1, objects // looks)
    feed = Feed(engine, stream.scores(n + objects))
    feed.take(n)
    spent, counted, sizes, slim = 0.0, [], [], []
    while feed.fed < n + objects:
        spent += feed.take(min(step, n + objects - feed.fed))
        counted.append(engine.candidates)
        state = engine.state()
        sizes.append(state_bytes(state))
        slim.append(_without_window(engine, state))
    return Measured(1e9 * spent / objects, statistics.fmean(counted), statistics.fmean(sizes), statistics.fmean(slim))


def _without_window(engine: Engine, state: dict[str, Any]) -> int:
    """Bytes of the state, with 32 bytes for each candidate that only the stored window contains."""
    whole = state_bytes(state)
    if "ring" not in state:
        return whole
    return whole - state_bytes(state["ring"]) + 32 * engine.candidates


@cache
def _at(algorithm: str, stream: Stream, n: int, k: int, s: int, looks: int) -> Measured:
    compiled(algorithm)
    return measure(engine_of(algorithm, TopK(k=k, size=n, slide=s, full_only=True)), stream, n, looks)


def _streams(scale: Scale) -> Iterator[tuple[str, Stream]]:
    there = workloads.available(tuple(DATA_SETS.values()))
    for name, stream in DATA_SETS.items():
        if stream in there:
            yield name, Stream(stream, scale.period)


def _table(grid: Grid, scale: Scale, algorithms: dict[str, str], value: Callable[[Measured], float]) -> list[Row]:
    rows = []
    for data_set, stream in _streams(scale):
        for shown, algorithm in algorithms.items():
            row: Row = {"Data set": data_set, "algorithm": shown}
            for point in points(grid, scale):
                found = _at(algorithm, stream, point.n, point.k, point.s, scale.looks)
                row[point.column] = value(found)
            rows.append(row)
    return rows


def table_2(scale: str = "small") -> list[Row]:
    """Time of equal partitions for different m, ns per object: non-delay, Algorithm 1, and Algorithm 1 with S-AVL."""
    size = SCALES[scale]
    n, k, s = _query(TABLE_1, size, TABLE_1.n, TABLE_1.k, TABLE_1.slide)
    rows = []
    for data_set, stream in _streams(size):
        for shown, algorithm in VARIANTS.items():
            if algorithm not in ENGINES:
                continue
            row: Row = {"Dataset": data_set, "algorithm": shown, "m*": math.ceil(math.sqrt(n / max(s, k)))}
            for m in size.resolutions:
                engine = type("Resolved", (ENGINES[algorithm],), {"units": m})
                compiled(algorithm)
                query = TopK(k=k, size=n, slide=s, full_only=True)
                row[str(m)] = measure(engine([query]), stream, n, size.looks).ns
            rows.append(row)
    return rows


def table_3(scale: str = "small") -> list[Row]:
    """Time of enhanced dynamic, dynamic and equal partitions, ns per object."""
    return _table(TABLE_1, SCALES[scale], PARTITIONERS, lambda found: found.ns)


def running_times(scale: str, algorithms: dict[str, str]) -> list[Row]:
    """Time of these algorithms, ns per object, at the points of table 1 (figures 9 and 10)."""
    return _table(TABLE_1, SCALES[scale], algorithms, lambda found: found.ns)


def table_5(scale: str = "small") -> list[Row]:
    """Time under high-speed streams, ns per object."""
    return _table(TABLE_4, SCALES[scale], FAST, lambda found: found.ns)


def table_6(scale: str = "small") -> list[Row]:
    """Number of candidates, mean."""
    return _table(TABLE_1, SCALES[scale], COMPARED, lambda found: found.candidates)


def table_7(scale: str = "small") -> list[Row]:
    """Number of candidates under high-speed streams, mean. (The paper's unit, KB, is a slip: these are thousands.)"""
    return _table(TABLE_4, SCALES[scale], FAST, lambda found: found.candidates)


def table_8(scale: str = "small") -> list[Row]:
    """Memory, KB: the whole state, and for SAP also without the stored window, which the paper does not count."""
    return _with_slim(TABLE_1, SCALES[scale], COMPARED)


def table_9(scale: str = "small") -> list[Row]:
    """Memory under high-speed streams, KB, as in table 8."""
    return _with_slim(TABLE_4, SCALES[scale], FAST)


def _with_slim(grid: Grid, scale: Scale, algorithms: dict[str, str]) -> list[Row]:
    rows = _table(grid, scale, algorithms, lambda found: found.size / 1024)
    slim = _table(
        grid, scale, {"SAP without the window": algorithms["SAP"]}, lambda found: found.size_without_window / 1024
    )
    return sorted([*rows, *slim], key=lambda row: [*DATA_SETS].index(row["Data set"]))


def appendix_f(scale: str = "small") -> list[Row]:
    """Means over random queries, with regular and with high-speed streams: time, candidates and memory."""
    size, rows = SCALES[scale], []
    for streams, grid, algorithms in (("regular", TABLE_1, COMPARED), ("high-speed", TABLE_4, FAST)):
        drawn = _random_queries(grid, size)
        for data_set, stream in _streams(size):
            for shown, algorithm in algorithms.items():
                found = [_at(algorithm, stream, n, k, s, size.looks) for n, k, s in drawn]
                rows.append(
                    {
                        "streams": streams,
                        "Data set": data_set,
                        "algorithm": shown,
                        "queries": len(drawn),
                        "ns": statistics.fmean(one.ns for one in found),
                        "candidates": statistics.fmean(one.candidates for one in found),
                        "KB": statistics.fmean(one.size for one in found) / 1024,
                        "KB without the window": statistics.fmean(one.size_without_window for one in found) / 1024,
                    }
                )
    return rows


def _random_queries(grid: Grid, scale: Scale) -> list[tuple[int, int, int]]:
    """Queries with n, k and s drawn evenly on a logarithmic scale between the ends of the grid."""
    random = np.random.default_rng(SEED)

    def draw(values: Sequence[float]) -> float:
        return math.exp(random.uniform(math.log(values[0]), math.log(values[-1])))

    return [_query(grid, scale, draw(grid.ns), round(draw(grid.ks)), draw(grid.slides)) for _ in range(scale.queries)]


def footnote_1(scale: str = "small") -> list[Row]:
    """Dynamic partitions with the rank test and with the paired test that the footnote names, at the default point."""
    size = SCALES[scale]
    n, k, s = _query(TABLE_1, size, TABLE_1.n, TABLE_1.k, TABLE_1.slide)
    compiled("sap-dynamic")
    rows = []
    for data_set, stream in _streams(size):
        for shown, paired in (("rank test", False), ("paired test", True)):
            kind = type("Tested", (ENGINES["sap-dynamic"],), {"paired": paired})
            engine = kind([TopK(k=k, size=n, slide=s, full_only=True)])
            found, counted = measure(engine, stream, n, size.looks), engine.counters()
            rows.append(
                {
                    "Data set": data_set,
                    "test": shown,
                    "ns": found.ns,
                    "candidates": found.candidates,
                    "partitions": counted["partitions"],
                    "M formed": counted["formations"],
                }
            )
    return rows


#: Every table by the name that the paper has for it.
TABLES: dict[str, Callable[[str], list[Row]]] = {
    "2": table_2,
    "3": table_3,
    "5": table_5,
    "6": table_6,
    "7": table_7,
    "8": table_8,
    "9": table_9,
    "F": appendix_f,
    "footnote 1": footnote_1,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"{', '.join(TABLES)}; default: all but F")
    parser.add_argument("--scale", choices=SCALES, default="small")
    asked = parser.parse_args()
    if unknown := set(asked.tables) - set(TABLES):
        parser.error(f"unknown table {', '.join(sorted(unknown))}; tables: {', '.join(TABLES)}")
    for name in asked.tables or [name for name in TABLES if name not in ON_REQUEST]:
        rows = TABLES[name](asked.scale)
        cells = [
            [f"{value:,.1f}" if isinstance(value, float) else str(value) for value in row.values()] for row in rows
        ]
        report.show(f"sap-table-{name}", f"Table {name}, {asked.scale}", list(rows[0]), cells, write=False)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
