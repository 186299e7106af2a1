"""The grid of the MinTopk paper for one query: k, window size, slide, uneven arrival; tables and plots.

python -m benchmarks.bench_single [--quick] [--cap SECONDS]
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any, NamedTuple

import matplotlib

from benchmarks import report, workloads
from benchmarks.measure import Cell, measure_cell, response_times
from skyband import TopK

matplotlib.use("Agg")
from matplotlib import pyplot

ALGORITHMS = ("naive", "kskyband", "sma", "pretopk", "mintopk", "panes")
HEADS = (
    "",
    "algorithm",
    "ns/object",
    "spread",
    "candidates, mean",
    "max",
    "state",
    "refills/slide",
    "objects",
    "slides",
)


class Place(NamedTuple):
    stream: str
    size: int
    slide: int
    k: int


class Section(NamedTuple):
    name: str
    title: str
    varied: str  # the field of `Place` that the section varies
    places: tuple[Place, ...]


SECTIONS = (
    Section(
        "k",
        "k, window 1M, slide 100K, uniform scores",
        "k",
        tuple(Place("uniform", 1_000_000, 100_000, k) for k in (10, 100, 1_000, 10_000)),
    ),
    Section(
        "window",
        "window, slide a tenth of it, k 1K, uniform scores",
        "size",
        tuple(Place("uniform", size, size // 10, 1_000) for size in (1_000, 10_000, 100_000, 1_000_000)),
    ),
    Section(
        "slide",
        "slide, window 1M, k 1K, uniform scores",
        "slide",
        tuple(Place("uniform", 1_000_000, slide, 1_000) for slide in (100, 1_000, 10_000, 100_000)),
    ),
    Section(
        "trades",
        "slide, window 1M, k 1K, trades",
        "slide",
        tuple(Place("trades", 1_000_000, slide, 1_000) for slide in (1_000, 100_000)),
    ),
)
UNEVEN_SLIDES = {1: 10_000, 10: 1_000, 100: 100}  # seconds, and the windows answered


def grid(section: Section, cap: float, rounds: int, quick: bool) -> list[Cell]:
    """Measure a section; `quick` uses windows of a tenth of the length."""
    by = 10 if quick else 1
    found = []
    for place in section.places:
        size, slide = max(1_000, place.size // by), max(10, place.slide // by)
        for algorithm in ALGORITHMS:
            cell = measure_cell(algorithm, place.stream, size, slide, place.k, cap, rounds)
            figure = cell.skipped or f"{cell.ns:.2f} ns"
            print(f"  {size:>9} {slide:>7} {place.k:>6} {algorithm:9} {figure}", flush=True)
            found.append(cell)
    return found


def rows_of(section: Section, cells: list[Cell]) -> list[list[str]]:
    """Rows of the table, one per cell."""
    found = []
    for cell in cells:
        place = report.short(getattr(cell, section.varied))
        if cell.skipped:
            found.append([place, cell.algorithm, "-", *[""] * 6, cell.skipped])
            continue
        found.append(
            [
                place,
                cell.algorithm,
                report.amount(cell.ns),
                f"{cell.spread:.0%}",
                report.amount(round(cell.candidates_mean)),
                report.amount(cell.candidates_max),
                report.bytes_text(cell.state_bytes),
                "" if cell.refills is None else f"{cell.refills:.3f}",
                report.amount(cell.objects),
                report.amount(cell.slides),
            ]
        )
    return found


def plot_grid(section: Section, cells: list[Cell]) -> None:
    """Time, candidates and bytes against the varied parameter."""
    figure, axes = pyplot.subplots(1, 3, figsize=(13, 4), layout="constrained")
    panels = (
        ("ns", "CPU time, ns per object"),
        ("candidates_mean", "candidates, mean"),
        ("state_bytes", "state, bytes"),
    )
    for axis, (field, label) in zip(axes, panels, strict=True):
        for algorithm in ALGORITHMS:
            mine = [cell for cell in cells if cell.algorithm == algorithm and not cell.skipped]
            places = [getattr(cell, section.varied) for cell in mine]
            axis.loglog(
                places,
                [getattr(cell, field) for cell in mine],
                marker="o",
                label=algorithm,
                linestyle="--" if algorithm == "panes" else "-",
            )
        axis.set_xlabel(section.name)
        axis.set_title(label, fontsize=10)
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=8)
    save(figure, section.name)


def save(figure: Any, name: str) -> None:
    """Store a plot as reports/images/performance-<name>.png."""
    report.IMAGES.mkdir(parents=True, exist_ok=True)
    figure.savefig(report.IMAGES / f"performance-{name}.png", dpi=110, metadata={"Software": None})
    pyplot.close(figure)


def uneven(cap: float, quick: bool, write: bool) -> None:
    """Response times for windows of 1000 s under uneven arrival."""
    seconds = 1_800 if quick else 12_500
    stream = workloads.uneven(400 * seconds)
    rows, means = [], []
    for slide, windows in UNEVEN_SLIDES.items():
        for algorithm in ALGORITHMS:
            query = TopK(k=1_000, size="1000 seconds", slide=f"{slide} seconds", full_only=True)
            found = response_times(algorithm, stream, query, windows, cap)
            if isinstance(found, str):
                rows.append([f"{slide} s", algorithm, "-", "", "", "", found])
                continue
            mean = statistics.fmean(found)
            means.append((slide, algorithm, mean))
            figures = (min(found), mean, max(found), statistics.pstdev(found))
            rows.append([f"{slide} s", algorithm, *(f"{1e3 * figure:,.3f}" for figure in figures), f"{len(found):,}"])
    heads = ("slide", "algorithm", "min, ms", "mean, ms", "max, ms", "std, ms", "windows")
    title = "Response time of a window under uneven arrival, window 1000 s, k 1K"
    report.show("uneven", title, heads, rows, write=write)
    if write:
        figure, axis = pyplot.subplots(figsize=(6, 4), layout="constrained")
        for algorithm in ALGORITHMS:
            mine = [(slide, mean) for slide, name, mean in means if name == algorithm]
            line = "--" if algorithm == "panes" else "-"
            axis.loglog(
                [slide for slide, _ in mine], [1e3 * mean for _, mean in mine], line, marker="o", label=algorithm
            )
        axis.set_xlabel("slide, s")
        axis.set_title("CPU time of a window, ms, mean", fontsize=10)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
        save(figure, "uneven")


def run(*, quick: bool = False, cap: float = 20.0) -> None:
    """Measure the whole grid."""
    write = not quick
    if write:
        report.into_page("machine", report.machine())
    for section in SECTIONS:
        cells = grid(section, min(cap, 1.0) if quick else cap, 2 if quick else 8, quick)
        title = f"{section.title} (quick: windows and slides a tenth as long)" if quick else section.title
        report.show(f"grid-{section.name}", title, HEADS, rows_of(section, cells), write=write)
        if write:
            plot_grid(section, cells)
    uneven(min(cap, 1.0) if quick else cap, quick, write)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="windows a tenth as long, a minute in all, nothing written"
    )
    parser.add_argument("--cap", type=float, default=20.0, help="the most seconds for a cell of the table")
    asked = parser.parse_args()
    run(quick=asked.quick, cap=asked.cap)


if __name__ == "__main__":
    main()
