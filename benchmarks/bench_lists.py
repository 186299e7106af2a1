"""Bytes per candidate and time of the engines with a ranked list, against those that their papers compare them with.

MinTopk against PreTopk and SMA (figures 11 and 12 of its paper: four slides), MTopList and MTopBand against separate
runs of MinTopk (figures 14 and 15 of the MTopS paper: all parameters arbitrary).

python -m benchmarks lists [--quick]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import numpy as np

from benchmarks import bench_shared, report
from benchmarks.measure import Cell, best_of, measure_cell
from benchmarks.report import Ratio
from skyband.kernels._jit import kernel
from skyband.kernels.ranked_list import RankedList, empty_ranked_list, insert, remove
from skyband.kernels.stream import Floats, Ints

PAGE = report.REPORTS / "lists.md"
SIZE, SLIDES, K = 1_000_000, (100, 1_000, 10_000, 100_000), 1_000
OBJECT = 24 + 2 * 4  # Lemma 4.7: an object and two references


@kernel
def exchange(chain: RankedList, keys: Floats, slots: Ints) -> None:
    """Insert objects into a list; for each, the one leaves that entered `slots.size` objects before."""
    for i in range(keys.size):
        at = i % slots.size
        if slots[at]:
            remove(chain, slots[at])
        slots[at] = insert(chain, keys[i], i, i)


def positioning(held: int, count: int = 400_000) -> float:
    """Nanoseconds to insert an object into a list of this length and to remove one, without marks and pointers."""
    keys = np.random.default_rng(1).random(count)
    chain, slots = empty_ranked_list(held + 2), np.zeros(held, np.int64)
    exchange(chain, keys[: 4 * held], slots)
    return 1e9 * best_of(lambda: exchange(chain, keys, slots), 5, time.thread_time).best / count


def run(*, quick: bool = False) -> None:
    """Run this benchmark and print the results; write the report unless `quick`."""
    if not quick:
        report.into_page("lists-machine", report.machine(), page=PAGE)
    size = SIZE // 10 if quick else SIZE
    cells = list(_slides(size, 1.0 if quick else 6.0))
    rows = [
        [
            report.short(slide),
            cell.algorithm,
            cell.skipped or report.amount(cell.ns),
            report.amount(round(cell.candidates_mean)),
            report.bytes_text(cell.state_bytes),
            f"{cell.state_bytes / max(1.0, cell.candidates_mean):.1f}",
        ]
        for slide, cell in cells
    ]
    heads = ("slide", "algorithm", "ns/object", "candidates", "state", "bytes/candidate")
    title = f"MinTopk, PreTopk and SMA: window {report.short(size)}, k 1K"
    report.show("lists-slides", title, heads, rows, write=not quick, page=PAGE)
    ratios = [*_single(cells), *_shared(100 if quick else 1_000, quick), *_floors(cells)]
    report.show(
        "lists-ratios",
        "Ratios",
        ("what", "target", "measured", "met"),
        [one.row() for one in ratios],
        write=not quick,
        page=PAGE,
    )


def _slides(size: int, cap: float) -> Iterator[tuple[int, Cell]]:
    for slide in SLIDES:
        for algorithm in ("mintopk", "pretopk", "sma"):
            if algorithm == "pretopk" and slide < SLIDES[2]:
                continue  # a set for each of a thousand windows and more: figure 11 shows it far above the others
            yield slide, measure_cell(algorithm, "uniform", size, min(slide, size // 10), K, cap, 5)


def _single(cells: list[tuple[int, Cell]]) -> list[Ratio]:
    found = {(slide, cell.algorithm): cell for slide, cell in cells if not cell.skipped}
    times = {
        slide: found[slide, "mintopk"].ns / found[slide, "sma"].ns
        for slide in SLIDES
        if (slide, "mintopk") in found and (slide, "sma") in found
    }
    mine, other = found[SLIDES[-1], "mintopk"], found[SLIDES[-1], "pretopk"]
    each = mine.state_bytes / mine.candidates_max
    return [
        Ratio(
            "mintopk against sma, time (figure 11)",
            "at most 1× at three of four slides",
            ", ".join(f"{report.short(slide)} {ratio:.2f}×" for slide, ratio in times.items()),
            sum(ratio <= 1 for ratio in times.values()) >= 3,
        ),
        Ratio(
            "mintopk against pretopk, state, ten windows (figure 8)",
            "less",
            f"{mine.state_bytes / other.state_bytes:.2f}×",
            mine.state_bytes < other.state_bytes,
        ),
        Ratio(
            f"mintopk, bytes for each of the most candidates; Lemma 4.7 without an index: {OBJECT}",
            "at most twice that",
            f"{each:.1f}",
            each <= 2 * OBJECT,
        ),
    ]


def _floors(cells: list[tuple[int, Cell]]) -> Iterator[Ratio]:
    """Where MinTopk is slower than SMA: what one step of it takes that cannot be left out."""
    found = {(slide, cell.algorithm): cell for slide, cell in cells if not cell.skipped}
    for slide in SLIDES[:2]:
        if (slide, "mintopk") in found and (slide, "sma") in found:
            mine, other = found[slide, "mintopk"], found[slide, "sma"]
            alone = positioning(round(mine.candidates_mean))
            yield Ratio(
                f"slide {report.short(slide)}, where every object becomes a candidate: positioning it in a list of "
                f"{report.amount(round(mine.candidates_mean))} and removing another, without marks and pointers",
                "",
                f"{report.amount(alone)} ns; sma takes {report.amount(other.ns)} ns for everything",
                None,
            )


def _shared(count: int, quick: bool) -> Iterator[Ratio]:
    kind = bench_shared.GRID[3].shorter(10) if quick else bench_shared.GRID[3]
    alone = bench_shared.measure(kind, bench_shared.ALONE, count, 10.0, 2)
    for name, target in (("mtoplist", 20.0), ("mtopband", 1.0)):
        cell = bench_shared.measure(kind, name, count, 10.0, 2)
        ratio = alone.ns(written=False) / cell.ns(written=False)
        yield Ratio(
            f"{count} arbitrary queries: {name} against as many runs of mintopk, time",
            f"{target:.0f}×",
            f"{ratio:.2f}× ({report.amount(cell.ns(written=False))} ns against "
            f"{report.amount(alone.ns(written=False))} ns an object)",
            ratio >= target,
        )
        yield Ratio(
            f"{count} arbitrary queries: {name} against as many runs of mintopk, state",
            "",
            f"{alone.state / cell.state:.0f}× smaller ({report.bytes_text(round(cell.state))}, "
            f"{cell.state / cell.held:.0f} bytes a candidate)",
            None,
        )


if __name__ == "__main__":
    run(quick="--quick" in sys.argv)
