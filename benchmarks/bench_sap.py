"""The grids of the SAP paper: equal, dynamic and enhanced partitions against MinTopk, k-skyband and SMA.

Its tables 2 (how many partitions; delay and stacks), 3 (the three partitioners), 5 (high-speed streams), 6 (candidates)
and 8 (memory), on streams like its own.

python -m benchmarks sap [--quick] [--cap SECONDS]
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import matplotlib
import numpy as np

from benchmarks import report, workloads
from benchmarks.measure import STREAM, Cell, Feed, Timing, engine_of, measure_cell
from benchmarks.report import Ratio
from skyband import TopK
from skyband.topk.algorithms.sap import SapEqual

matplotlib.use("Agg")
from matplotlib import pyplot

PAGE = report.REPORTS / "sap.md"
STREAMS = ("stock", "trip", "air", "time-u", "time-r")
PARTITIONERS = ("sap", "sap-dynamic", "sap-equal")
RIVALS = ("mintopk", "sma", "kskyband", "panes", "auto")
CHOICES = ("mintopk", "sap", "panes")  # algorithms that the planner can choose
N, K, S = 100_000, 100, 100  # the paper's default: m* = 33, s a thousandth of n
SIZES = (10_000, 50_000, 100_000, 200_000, 500_000, 1_000_000)
KS = (10, 50, 100, 200, 500, 1_000)
SLIDES = (10, 50, 100, 1_000, 2_000, 5_000, 10_000)
RESOLUTIONS = (5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37)
WORST_KS = (10, 100, 1_000, 10_000)
NEVER = 2**61  # as the position of the stream's first object: no window starts that late, so no answers are written
FAST_N, FAST_K, FAST_S = 1_000_000, 1_000, 20_000  # the paper's default for high-speed streams
FAST_SIZES = (200_000, 400_000, 600_000, 800_000, 1_000_000)
FAST_KS = (500, 1_000, 5_000, 10_000, 50_000)
FAST_SLIDES = (100, 1_000, 10_000, 20_000, 50_000, 100_000)


class Place(NamedTuple):
    """A point of a grid: the varied parameter, and the query."""

    varied: str
    size: int
    slide: int
    k: int

    @property
    def shown(self) -> str:
        value = {"n": self.size, "k": self.k, "s": self.slide}[self.varied]
        return f"{self.varied} {report.short(value)}"


def table_1() -> list[Place]:
    """The points of the paper's table 1: n, k and s varied around its default."""
    return [
        *(Place("n", size, max(1, size // 1000), K) for size in SIZES),
        *(Place("k", N, S, k) for k in KS),
        *(Place("s", N, slide, K) for slide in SLIDES),
    ]


def table_4() -> list[Place]:
    """The same for high-speed streams."""
    return [
        *(Place("n", size, size // 50, FAST_K) for size in FAST_SIZES),
        *(Place("k", FAST_N, FAST_S, k) for k in FAST_KS),
        *(Place("s", FAST_N, slide, FAST_K) for slide in FAST_SLIDES),
    ]


def cells(
    places: Sequence[Place], algorithms: Sequence[str], cap: float, rounds: int, streams: Sequence[str] = STREAMS
) -> Iterator[tuple[Place, Cell]]:
    """Measure every algorithm at every point, on every stream."""
    for stream in workloads.available(streams):
        for place in places:
            for algorithm in algorithms:
                cell = measure_cell(algorithm, stream, place.size, place.slide, place.k, cap, rounds)
                print(f"  {stream:7} {place.shown:9} {algorithm:12} {cell.skipped or f'{cell.ns:.2f} ns'}", flush=True)
                yield place, cell


def pivot(found: Sequence[tuple[Place, Cell]], figure: str) -> tuple[list[str], list[list[str]]]:
    """A row for each stream and algorithm, a column for each point."""
    columns = list(dict.fromkeys(place.shown for place, _ in found))
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for place, cell in found:
        value = "-" if cell.skipped else report.amount(round(getattr(cell, figure), 2))
        rows.setdefault((cell.stream, cell.algorithm), {})[place.shown] = value
    return ["stream", "algorithm", *columns], [
        [*key, *(row.get(column, "") for column in columns)] for key, row in rows.items()
    ]


def total(found: Sequence[tuple[Place, Cell]], algorithm: str, field: str = "ns") -> float:
    return sum(float(getattr(cell, field)) for _, cell in found if cell.algorithm == algorithm and not cell.skipped)


def at(found: Sequence[tuple[Place, Cell]], algorithm: str, stream: str, place: Place) -> Cell | None:
    for where, cell in found:
        if (cell.algorithm, cell.stream, where) == (algorithm, stream, place) and not cell.skipped:
            return cell
    return None


def ratios(found: Sequence[tuple[Place, Cell]], held: dict[tuple[str, str], float]) -> list[Ratio]:
    """Ratios with a target, from the cells of table 1 and the candidates held over a period."""
    less = held["sap", "time-r"] / held["mintopk", "time-r"]
    default, coarse = Place("s", N, S, K), Place("s", N, N // 10, K)
    times, ends = {}, {}
    for stream in STREAMS:
        pair = at(found, "sap", stream, default), at(found, "mintopk", stream, default)
        last = at(found, "sap", stream, coarse), at(found, "mintopk", stream, coarse)
        if pair[0] and pair[1]:
            times[stream] = pair[0].ns / pair[1].ns
        if last[0] and last[1]:
            ends[stream] = last[0].ns / last[1].ns
    sums = [total(found, name) for name in PARTITIONERS]
    listed = ", ".join(f"{stream} {ratio:.2f}×" for stream, ratio in times.items())
    worst = ", ".join(f"{stream} {ratio:.2f}×" for stream, ratio in ends.items())
    return [
        Ratio("`sap` against `mintopk`, default place, time", "at most 0.5× on four streams of five", listed,
              sum(ratio <= 0.5 for ratio in times.values()) >= 4),
        Ratio("`sap` against `mintopk`, slide a tenth of the window", "at most 1.1×", worst, max(ends.values()) <= 1.1),
        Ratio("in total over the grid", "`sap` ≤ `sap-dynamic` ≤ `sap-equal`",
              " ≤ ".join(f"{value:,.0f} ns" for value in sums), sums == sorted(sums)),
        Ratio("mean candidates of `sap` against `mintopk`, TIME^R", "at most 0.6×", f"{less:.2f}×", less <= 0.6),
    ]  # fmt: skip


def candidates(algorithms: Sequence[str], quick: bool, write: bool) -> dict[tuple[str, str], float]:
    """Candidates at the default point, averaged over 2M objects: a whole period of TIME^R."""
    objects, looks = (100_000, 20) if quick else (2_000_000, 400)
    held: dict[tuple[str, str], float] = {}
    rows = []
    for stream in workloads.available(STREAMS):
        row = [stream]
        for algorithm in algorithms:
            query = TopK(k=K, size=N, slide=S, full_only=True)
            feed = Feed(engine_of(algorithm, query), workloads.scores_of(stream, STREAM))
            feed.take(N)
            seen = []
            for _ in range(looks):
                feed.take(objects // looks)
                seen.append(feed.engine.candidates)
            held[algorithm, stream] = statistics.fmean(seen)
            row.append(f"{held[algorithm, stream]:,.0f} (max {max(seen):,})")
        rows.append(row)
    heads = ("stream", *algorithms)
    title = "Candidates at the default place, mean and largest over 2M objects (table 6)"
    report.show("sap-candidates", title, heads, rows, write=write, page=PAGE)
    return held


def round_length(stream: str) -> int:
    """Objects of a round: two windows, or whole periods if the scores change with time."""
    period = workloads.period_of(stream)
    return 2 * N if period is None else period * -(-2 * N // period)


def resolutions(rounds: int, write: bool) -> None:
    """Number of equal partitions: time, and how often the delay avoids a scan (the paper's table 2).

    A round is a whole period of a stream whose scores change with time. The result is the median of the rounds.
    """
    rows = []
    for stream in workloads.available(STREAMS):
        objects = round_length(stream)
        times, spared = [], []
        for units in RESOLUTIONS:
            engine = type("Resolved", (SapEqual,), {"units": units})([TopK(k=K, size=N, slide=S, full_only=True)])
            feed = Feed(engine, workloads.scores_of(stream, STREAM))
            feed.take(2 * N)
            timed = Timing([feed.take(objects) for _ in range(rounds)])
            counted = engine.counters()
            decided = counted["formations"] + counted["formations_skipped"]
            times.append(f"{1e9 * timed.median / objects:.1f}")
            spared.append(f"{counted['formations_skipped'] / max(1, decided):.0%}")
        rows += [[stream, "ns per object", *times], [stream, "partitions not scanned again", *spared]]
    m = int(np.ceil(np.sqrt(N / max(S, K))))
    title = f"sap-equal with m partitions at the default place (m* = {m}; table 2), medians"
    report.show("sap-m", title, ("stream", "", *map(str, RESOLUTIONS)), rows, write=write, page=PAGE)


def worst_case(quick: bool, write: bool) -> None:
    """Falling scores, slide 1: cost per object as k grows, and cost per row of an answer."""
    size = 50_000 if quick else 1_000_000
    rows = []
    for algorithm in PARTITIONERS:
        kept = [_falling(algorithm, size, k, size, NEVER) for k in WORST_KS]
        # A slide of one object has an answer of k rows, so the rows dominate the time.
        written = [_falling(algorithm, size // 10, k, max(1_000, 10_000_000 // k), 0) / k for k in WORST_KS[:3]]
        growth = f"{kept[-1] / kept[0]:.2f}, log k {np.log(WORST_KS[-1]) / np.log(WORST_KS[0]):.1f}"
        rows.append([algorithm, *(f"{value:,.0f}" for value in kept), growth, *(f"{value:.1f}" for value in written)])
    heads = (
        "algorithm",
        *(f"k {report.short(k)}" for k in WORST_KS),
        "grows by",
        *(f"answers, k {report.short(k)}" for k in WORST_KS[:3]),
    )
    title = (
        "Falling scores, slide 1: ns per object (window 1M, no answers written); ns per row of an answer (window 100K)"
    )
    report.show("sap-worst", title, heads, rows, write=write, page=PAGE)


def _falling(algorithm: str, size: int, k: int, objects: int, first: int) -> float:
    """Nanoseconds per object over so many objects, the window full and past its first partition."""
    query = TopK(k=k, size=size, slide=1, full_only=True)
    feed = Feed(engine_of(algorithm, query), workloads.scores_of("decreasing", STREAM), first)
    if first:
        feed.take(2 * size)
    else:
        feed.take(size - 1)
        feed.take(1_000)
    return 1e9 * feed.take(objects) / objects


def choice(found: Sequence[tuple[Place, Cell]], write: bool) -> None:
    """Time of the engine that `auto` chooses, relative to the fastest engine, at every point."""
    rows = [
        _over(found, CHOICES, "`auto` against the fastest of those it chooses from", 1.3).row(),
        _over(found, (*PARTITIONERS, *RIVALS[:-1]), "`auto` against the fastest of all", None).row(),
    ]
    report.show("sap-choice", "The planner", ("what", "target", "measured", "met"), rows, write=write, page=PAGE)


def _over(found: Sequence[tuple[Place, Cell]], rivals: Sequence[str], what: str, most: float | None) -> Ratio:
    best: dict[tuple[str, Place], float] = {}
    auto: dict[tuple[str, Place], float] = {}
    for place, cell in found:
        key = (cell.stream, place)
        if cell.algorithm == "auto" and not cell.skipped:
            auto[key] = cell.ns
        elif cell.algorithm in rivals and not cell.skipped:
            best[key] = min(cell.ns, best.get(key, float("inf")))
    over = {key: auto[key] / best[key] for key in auto if key in best}
    worst = max(over, key=lambda key: over[key])
    within = sum(ratio <= 1.3 for ratio in over.values())
    return Ratio(
        what,
        "" if most is None else f"never more than {most}×",
        f"{over[worst]:.2f}× at the worst ({worst[0]}, {worst[1].shown}), {within} of {len(over)} places within 1.3×, "
        f"median {np.median(list(over.values())):.2f}×",
        None if most is None else over[worst] <= most,
    )


def plot(found: Sequence[tuple[Place, Cell]]) -> None:
    """Time against n, k and s, a row of panels for each stream."""
    figure, axes = pyplot.subplots(len(STREAMS), 3, figsize=(12, 3 * len(STREAMS)), layout="constrained")
    for line, stream in zip(axes, STREAMS, strict=True):
        for axis, varied in zip(line, ("n", "k", "s"), strict=True):
            for algorithm in (*PARTITIONERS, *RIVALS):
                mine = [
                    ({"n": place.size, "k": place.k, "s": place.slide}[varied], cell.ns)
                    for place, cell in found
                    if place.varied == varied
                    and (cell.stream, cell.algorithm) == (stream, algorithm)
                    and not cell.skipped
                ]
                axis.loglog(
                    [x for x, _ in mine],
                    [y for _, y in mine],
                    marker=".",
                    label=algorithm,
                    linestyle="--" if algorithm == "auto" else "-",
                )
            axis.set_title(f"{stream}: ns per object against {varied}", fontsize=9)
            axis.grid(alpha=0.3)
    axes[0][0].legend(fontsize=7)
    report.IMAGES.mkdir(parents=True, exist_ok=True)
    figure.savefig(report.IMAGES / "performance-sap.png", dpi=100, metadata={"Software": None})
    pyplot.close(figure)


def run(*, quick: bool = False, cap: float = 1.2) -> None:
    """Run this benchmark."""
    write, rounds = not quick, 2 if quick else 4
    cap = min(cap, 0.5) if quick else cap
    if write:
        report.into_page("sap-machine", report.machine(), page=PAGE)
    places = [Place("s", N // 10, S // 10, K), Place("s", N // 10, N // 100, K)] if quick else table_1()
    found = list(cells(places, (*PARTITIONERS, *RIVALS), cap, rounds))
    for name, title, field in (
        ("sap-time", "Time, ns per object (the paper's table 3 and figures 9 and 10)", "ns"),
        ("sap-memory", "State, bytes (table 8)", "state_bytes"),
    ):
        report.show(name, title, *pivot(found, field), write=write, page=PAGE)
    held = candidates((*PARTITIONERS, "mintopk", "panes", "kskyband"), quick, write)
    if not quick:
        report.show("sap-ratios", "Targets and results", ("what", "target", "measured", "met"),
                    [ratio.row() for ratio in ratios(found, held)], write=True, page=PAGE)  # fmt: skip
        plot(found)
    choice(found, write)
    if not quick:
        fast = list(cells(table_4(), ("sap", "mintopk", "panes", "auto"), cap, rounds))
        report.show(
            "sap-fast", "High-speed streams, ns per object (table 5)", *pivot(fast, "ns"), write=True, page=PAGE
        )
    resolutions(2 if quick else rounds, write)
    worst_case(quick, write)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two small points, nothing written")
    parser.add_argument("--cap", type=float, default=1.2, help="maximum seconds for a cell of the table")
    asked = parser.parse_args()
    run(quick=asked.quick, cap=asked.cap)


if __name__ == "__main__":
    main()
