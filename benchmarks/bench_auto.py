"""`auto` against every engine it can choose from, through the public call: windows, slides, k and four streams.

python -m benchmarks auto [--quick]
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import skyband as sb
from benchmarks import report, workloads

PAGE = report.REPORTS / "auto.md"
STREAMS: dict[str, Callable[[int], Any]] = {
    "uniform": workloads.uniform,
    "trades": workloads.trades,
    "waves": workloads.time_r,
    "falling": workloads.decreasing,
}
ENGINES = ("sap", "panes", "mintopk")
MOST_ROWS = 20_000_000  # of answers in one call: beyond, writing the table takes most of the time
SLOW = 2.0  # an engine this many times slower than the best is timed once, or not at all if it takes a second or more
ROUNDS, MOST_ROUNDS = 5, 15
ENOUGH = 0.5  # seconds: more rounds only if they take less
WITHIN = 1.2  # the target: times the best engine


class Grid(NamedTuple):
    """Windows, slides and ks, in all combinations."""

    sizes: tuple[int, ...]
    slides: tuple[int, ...]
    ks: tuple[int, ...]


GRID = Grid((10_000, 100_000, 1_000_000), (10, 100, 1_000, 10_000), (10, 100, 1_000))
BETWEEN = Grid((30_000, 300_000), (30, 300, 3_000), (30, 300))  # some with slides of 300 were used to fit the limits


class Place(NamedTuple):
    """One query over one stream."""

    stream: str
    size: int
    slide: int
    k: int

    @property
    def objects(self) -> int:
        """How many are replayed: twice the window and at least half a million, if the table stays below the limit."""
        wanted = max(2 * self.size, 500_000)
        return max(self.size + 20 * self.slide, min(wanted, self.size + MOST_ROWS // self.k * self.slide))


def places(grid: Grid) -> Iterator[Place]:
    """The places of a grid: slides up to the window, k up to the window."""
    for stream in STREAMS:
        for size in grid.sizes:
            for slide in grid.slides:
                for k in grid.ks:
                    if slide <= size and k < size:
                        yield Place(stream, size, slide, k)


def seconds(place: Place, algorithm: str) -> float:
    """The CPU time of a replay, table included."""
    scores = STREAMS[place.stream](place.objects)
    query = sb.TopK(k=place.k, size=place.size, slide=place.slide, full_only=True)
    begin = time.thread_time()
    sb.replay(query, None, scores, algorithm=algorithm)
    return time.thread_time() - begin


def finishes(place: Place, algorithm: str, limit: float) -> bool:
    """Whether a replay takes less CPU time than the limit: tried in a child process, which the system ends there."""
    STREAMS[place.stream](place.objects)  # generated before, once
    child = os.fork()
    if child == 0:
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit), math.ceil(limit) + 5))
            seconds(place, algorithm)
            os._exit(0)
        finally:
            os._exit(1)  # after an error, too: the child must not return into the benchmark
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code not in (0, -signal.SIGXCPU):
        raise RuntimeError(f"{algorithm} failed at {place} with exit code {code}")
    return code == 0


def measured(place: Place) -> dict[str, list[float]]:
    """Seconds by engine and by `auto`, in several rounds in turn; engines beyond the limit are left out."""
    found: dict[str, list[float]] = {}
    for name in ENGINES:
        if not found or finishes(place, name, max(1.0, SLOW * min(map(min, found.values())))):
            found[name] = [seconds(place, name)]
    found["auto"] = [seconds(place, "auto")]
    least = SLOW * min(map(min, found.values()))
    names = [name for name, times in found.items() if name == "auto" or times[0] <= least]
    for name in names:
        found[name].clear()  # the first call may wait for memory
    begin = time.thread_time()
    for done in range(MOST_ROUNDS):
        if done >= ROUNDS and time.thread_time() - begin > ENOUGH:
            break
        for name in names:
            found[name].append(seconds(place, name))
    return found


def table(name: str, title: str, grid: Grid, *, write: bool) -> None:
    """Measure a grid, print how far `auto` is from the best engine."""
    rows, ratios, spreads = [], [], []
    for place in places(grid):
        found = measured(place)
        middle = {name: statistics.median(times) for name, times in found.items()}
        ratio = middle["auto"] / min(middle[name] for name in ENGINES if name in middle)
        low, _, high = statistics.quantiles(found["auto"], n=4)
        ratios.append(ratio)
        spreads.append((high - low) / middle["auto"])
        speeds = [
            f"{place.objects / middle[name] / 1e6:,.1f}" if name in middle else "-" for name in (*ENGINES, "auto")
        ]
        names = [report.short(value) for value in place[1:]]
        rows.append([place.stream, *names, *speeds, f"{ratio:.2f}×", f"{spreads[-1]:.0%}"])
        print(*rows[-1], flush=True)
    speed_heads = (f"{name}, M objects/s" for name in (*ENGINES, "auto"))
    heads = ["stream", "window", "slide", "k", *speed_heads, "auto/best", "spread"]
    report.show(f"auto-{name}", title, heads, rows, write=write, page=PAGE)
    within = sum(ratio <= WITHIN for ratio in ratios)
    summary = (
        f"{within} of {len(ratios)} places within {WITHIN}× of the best engine, median "
        f"{statistics.median(ratios):.2f}×, worst {max(ratios):.2f}×. Spread of the rounds of `auto`: median "
        f"{statistics.median(spreads):.0%}, highest {max(spreads):.0%}."
    )
    print(summary, flush=True)
    if write:
        report.into_page(f"auto-{name}-summary", summary, page=PAGE)


def run(*, quick: bool = False) -> None:
    """Measure the grid, and places between those of the grid."""
    for name in (*ENGINES, "auto"):
        sb.replay(sb.TopK(k=2, size=64, slide=1), None, np.arange(999.0), algorithm=name)
    if not quick:
        report.into_page("auto-machine", report.machine(), page=PAGE)
    grid = GRID._replace(sizes=GRID.sizes[:2]) if quick else GRID
    table("choice", "auto against the best engine", grid, write=not quick)
    if not quick:
        table("between", "places between those of the grid", BETWEEN, write=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="windows up to 100K, nothing written")
    run(quick=parser.parse_args().quick)


if __name__ == "__main__":
    main()
