"""sap-shared against panes, mtoplist and one sap per query: queries, slides, windows and k, one varied at a time.

python -m benchmarks sap-shared [--quick]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from benchmarks import report, workloads
from benchmarks.measure import NOTHING
from skyband import TopK
from skyband.data.answer_log import AnswerLog
from skyband.kernels.stream import Rows
from skyband.topk.algorithms import ENGINES, Engine

PAGE = report.REPORTS / "sap_shared.md"
SEED = 7
SHARED = ("sap-shared", "panes", "mtoplist")
ALONE = "sap"
SAMPLE = 20  # of more queries than this, so many sap engines are timed; the others are assumed to be like them
MOST_ROWS = 1_000_000  # of answers in a round
FIRST, ROUNDS = 2, 5  # rounds that are not timed, because lists and buffers are still growing; timed rounds
NEVER = 2**61  # as the position of the stream's first object: no window starts that late, so no answers are written


class Place(NamedTuple):
    """A workload over a stream: sizes from a tenth of the window to the window, k from a tenth of k to k."""

    stream: str
    queries: int = 100
    slide: int = 10
    window: int = 100_000
    k: int = 100


def _stock(n: int) -> Any:
    if workloads.missing("trades_us_equity_20131008_09"):
        raise FileNotFoundError(f"no real trades in {workloads.DATA}. Set SKYBAND_TEST_DATA to the folder with them.")
    return workloads.stock(n)


STREAMS: dict[str, Callable[[int], Any]] = {
    "uniform": workloads.uniform,
    "rising": lambda n: np.arange(n, dtype=np.float64),
    "falling": workloads.decreasing,
    "real trades": _stock,
}
VARIED: dict[str, tuple[int, ...]] = {
    "queries": (1, 10, 100, 1000),
    "slide": (1, 10, 100, 1000),
    "window": (10_000, 100_000, 1_000_000),
    "k": (10, 100, 1000),
}


def places(*, quick: bool) -> Iterator[Place]:
    """The places of the grid, each once."""
    found: dict[Place, None] = {}
    for stream in STREAMS:
        for name, values in VARIED.items():
            for value in values[:-1] if quick else values:
                asked: dict[str, Any] = {name: value}
                found[Place(stream, **asked)] = None
    yield from found


@cache
def queries_of(place: Place) -> tuple[TopK, ...]:
    """Seeded workload; the first query has the largest window and k. Only full windows are reported."""
    random, found = np.random.default_rng(SEED), []
    for i in range(place.queries):
        size = int(random.integers(place.window // 10, place.window + 1)) if i else place.window
        k = int(random.integers(max(1, place.k // 10), place.k + 1)) if i else place.k
        found.append(TopK(name=f"q{i}", k=k, size=size, slide=place.slide, full_only=True))
    return tuple(found)


def timed(place: Place, name: str, cap: float) -> float | None:
    """CPU nanoseconds per object with all answers written, once the longest window is full: the median of some rounds.

    None if all of that takes more than `cap` seconds.
    """
    queries = queries_of(place)
    engines: list[Engine] = (
        [ENGINES[name]([query]) for query in queries[:SAMPLE]] if name == ALONE else [ENGINES[name](queries)]
    )
    rows = sum(query.k for query in queries) / place.slide
    step = max(1, int(min(20_000, MOST_ROWS / rows)) // place.slide) * place.slide
    filled = place.window + place.window // 4
    scores = STREAMS[place.stream](filled + (FIRST + ROUNDS) * step)
    log, fed, spent, rounds = AnswerLog(), 0, 0.0, []
    while fed < scores.size:
        count = min(filled - fed, 10_000) if fed < filled else step
        first = NEVER if fed < filled else 0
        begin = time.thread_time()
        for engine in engines:
            log.begin(-1, range(len(queries)))
            engine.advance(Rows(scores[fed : fed + count], NOTHING, NOTHING, fed, fed), fed + count, first, log)
        took = time.thread_time() - begin
        log.take()
        spent += took
        if spent > cap:
            return None
        if fed >= filled + FIRST * step:
            rounds.append(took / count)
        fed += count
    return 1e9 * statistics.median(rounds) * (len(queries) / len(engines) if name == ALONE else 1)


def row_of(place: Place, found: dict[str, float | None]) -> list[str]:
    """A row of the table: times, and how many times faster sap-shared is than each other way."""
    mine = found["sap-shared"]
    cells = [report.amount(one) if (one := found[name]) else "-" for name in (*SHARED, ALONE)]
    ratios = [f"{one / mine:.2f}×" if mine and (one := found[name]) else "-" for name in (*SHARED[1:], ALONE)]
    return [place.stream, *(report.short(value) for value in place[1:]), *cells, *ratios]


def run(*, quick: bool = False) -> None:
    """Measure the grid and print the ratios."""
    if not quick:
        report.into_page("sap-shared-machine", report.machine(), page=PAGE)
    cap, rows, ratios = (0.5 if quick else 1.2), [], []
    for name in (*SHARED, ALONE):
        timed(Place("uniform", queries=2, slide=1, window=100, k=2), name, 300.0)  # compiles
    for place in places(quick=quick):
        found = {name: timed(place, name, cap) for name in (*SHARED, ALONE)}
        rows.append(row_of(place, found))
        print(*rows[-1], flush=True)
        if (mine := found["sap-shared"]) and (other := found["panes"]):
            ratios.append(other / mine)
    heads = ["stream", "queries", "slide", "window", "k", *(f"{name}, ns/object" for name in (*SHARED, ALONE))]
    heads += [f"{name}/sap-shared" for name in (*SHARED[1:], ALONE)]
    report.show("sap-shared", "sap-shared against other engines", heads, rows, write=not quick, page=PAGE)
    summary = (
        f"Faster than panes at {sum(ratio > 1 for ratio in ratios)} of {len(ratios)} places; panes takes "
        f"{statistics.median(ratios):.2f} times as long in the median, {min(ratios):.2f} to {max(ratios):.2f} times."
    )
    print(summary, flush=True)
    if not quick:
        report.into_page("sap-shared-summary", summary, page=PAGE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller windows, nothing written")
    run(quick=parser.parse_args().quick)


if __name__ == "__main__":
    main()
