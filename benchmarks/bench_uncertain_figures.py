"""The figures 7 to 16 of the paper on shared plans: cost, throughput and latency of five plans, over what it varies.

On drawn tuples, sightings of icebergs, several drawn streams, and tremors at several sensors. `none`, `in`, `inco`,
`greedy` and `dp` are the paper's NS, IN, INCO, GA and DP.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import matplotlib

from benchmarks import report, uncertain_streams, workloads
from benchmarks.report import Ratio
from benchmarks.uncertain_model import METHODS, Draw, Outcome, Place, outcomes
from benchmarks.uncertain_streams import Uncertain

matplotlib.use("Agg")
from matplotlib import pyplot

PAGE = report.REPORTS / "uncertain.md"
XS: Sequence[int] = (10, 20, 30, 40, 60, 80, 100)
SIZES: Sequence[int] = (2_000, 4_000, 6_000, 8_000, 10_000)
KS: Sequence[int] = (200, 400, 600, 800, 1_000)
PARTS: Sequence[int] = (20, 40, 60, 80, 100)  # streams, tuples of each, and k
SENSORS: Sequence[int] = (8, 10, 12, 14, 16)
READINGS: Sequence[int] = (200, 400, 600, 800, 1_000)
SEEDS = 5  # draws of queries


class Measure(NamedTuple):
    """A measure that a figure shows."""

    name: str
    of: Callable[[Outcome], float]
    digits: int


MEASURES = (
    Measure("cost a unit", lambda one: one.cost, 1),
    Measure("CPU ms a unit", lambda one: 1e3 * one.seconds, 2),
    Measure("queries per second", lambda one: one.queries, 0),
    Measure("latency, units", lambda one: one.latency, 1),
    Measure("latency with O(n²k), units", lambda one: one.published, 1),
)


class Figure(NamedTuple):
    """One figure of the paper: the varied parameter, and the results of each method."""

    name: str
    title: str
    varied: str
    places: Sequence[int]
    found: list[dict[str, Outcome]]

    def show(self, write: bool) -> None:
        rows = [
            [
                f"{self.varied} {place:,}: {measure.name}",
                *(f"{measure.of(one[method]):,.{measure.digits}f}" for method in METHODS),
            ]
            for place, one in zip(self.places, self.found, strict=True)
            for measure in MEASURES
        ]
        report.show(f"uncertain-{self.name}", self.title, ["", *METHODS], rows, write=write, page=PAGE)


class Family(NamedTuple):
    """Figures about the same kind of stream, with the time unit of one default point."""

    name: str
    make: Callable[..., Uncertain]
    sizes: tuple[int, ...]
    draw: Draw
    seeds: int = SEEDS

    def figure(
        self, name: str, title: str, varied: str, places: Sequence[int], at: Callable[[int], tuple[Any, Draw]]
    ) -> Figure:
        default = Place(self.make, self.sizes, self.draw)
        found = [outcomes(Place(self.make, *at(place)), default, self.seeds) for place in places]
        return Figure(f"{self.name}-{name}", title, varied, places, found)


def single(name: str, what: str, numbers: Sequence[int], make: Callable[..., Uncertain], quick: bool) -> list[Figure]:
    """Figures 7 to 9, or 10 to 12: one stream."""
    family = Family(name, make, (SIZES[-1],), Draw(), 1 if quick else SEEDS)
    some = slice(0, 2) if quick else slice(None)
    usual = family.sizes, family.draw
    return [
        family.figure(
            "x",
            f"{what}: over the number of queries x (figure {numbers[0]})",
            "x",
            XS[some],
            lambda x: (usual[0], usual[1]._replace(x=x)),
        ),
        family.figure(
            "n",
            f"{what}: over the tuples n of a window (figure {numbers[1]})",
            "n",
            SIZES[some],
            lambda n: ((n,), usual[1]),
        ),
        family.figure(
            "k",
            f"{what}: over the largest k (figure {numbers[2]})",
            "k to",
            KS[some],
            lambda k: (usual[0], usual[1]._replace(most=k)),
        ),
    ]


def several(quick: bool) -> list[Figure]:
    """Figures 13 to 16: several drawn streams."""
    family = Family("streams", uncertain_streams.drawn_streams, (100, 100), Draw(most=20), 1 if quick else SEEDS)
    some = slice(0, 2) if quick else slice(None)
    draw = family.draw
    return [
        family.figure(
            "N", "Drawn streams: over their number N (figure 13)", "N", PARTS[some], lambda n: ((n, 100), draw)
        ),
        family.figure(
            "w", "Drawn streams: over the tuples w of each (figure 14)", "w", PARTS[some], lambda w: ((100, w), draw)
        ),
        family.figure(
            "x",
            "Drawn streams: over the number of queries x (figure 15)",
            "x",
            XS[some],
            lambda x: (family.sizes, draw._replace(x=x)),
        ),
        family.figure(
            "k",
            "Drawn streams: over the largest k (figure 16)",
            "k to",
            PARTS[some],
            lambda k: (family.sizes, draw._replace(most=k)),
        ),
    ]


def sensors(quick: bool) -> list[Figure]:
    """The same on tremors; the paper has these figures in a supplement."""
    sizes = (8, 200) if quick else (16, 1_000)
    family = Family("tremors", uncertain_streams.tremors, sizes, Draw(most=5), 1 if quick else 2)
    some = slice(0, 2) if quick else slice(None)
    draw = family.draw
    return [
        family.figure("N", "Tremors: over the sensors N", "N", SENSORS[some], lambda n: ((n, sizes[1]), draw)),
        family.figure(
            "w", "Tremors: over the readings w of each", "w", READINGS[some], lambda w: ((sizes[0], w), draw)
        ),
        family.figure(
            "x", "Tremors: over the number of queries x", "x", XS[::2][some], lambda x: (sizes, draw._replace(x=x))
        ),
    ]


def laws(quick: bool) -> None:
    """`every` and k drawn evenly or from normal laws, at the default place."""
    seeds = 1 if quick else SEEDS
    sizes = (SIZES[-1],)
    default = Place(uncertain_streams.drawn, sizes, Draw())
    rows = []
    for every_law in "ug":
        for k_law in "ug":
            place = Place(uncertain_streams.drawn, sizes, Draw(every_law=every_law, k_law=k_law))
            found = outcomes(place, default, seeds)
            rows += [
                [
                    f"{every_law}{k_law}: {measure.name}",
                    *(f"{measure.of(found[method]):,.{measure.digits}f}" for method in METHODS),
                ]
                for measure in MEASURES
            ]
    title = "Laws of `every` and k: evenly (u), normal (g)"
    report.show("uncertain-laws", title, ["", *METHODS], rows, write=not quick, page=PAGE)


def figures(*, quick: bool) -> list[Ratio]:
    """Measure and print all figures; they have no targets."""
    found = {"single": single("single", "Drawn tuples", (7, 8, 9), uncertain_streams.drawn, quick)}
    if uncertain_streams.there_are_icebergs():
        found["icebergs"] = single("icebergs", "Icebergs", (10, 11, 12), uncertain_streams.icebergs, quick)
    else:
        print(f"  skipped figures 10 to 12: no icebergs_iip_2014 in {workloads.DATA}; set SKYBAND_TEST_DATA")
    found["streams"] = several(quick)
    if uncertain_streams.there_are_tremors():
        found["tremors"] = sensors(quick)
    else:
        print(f"  skipped tremors: no seismic_bw_2010 in {workloads.DATA}; set SKYBAND_TEST_DATA")
    for name, mine in found.items():
        for figure in mine:
            figure.show(not quick)
        if not quick:
            _plot(name, mine)
    laws(quick)
    return _ratios(found)


def _ratios(found: dict[str, list[Figure]]) -> list[Ratio]:
    """How far dp is from no sharing, in what was measured."""
    ratios = []
    for name, mine in found.items():
        places = [one for figure in mine for one in figure.found]
        queries = [one["dp"].queries / one["none"].queries for one in places]
        seconds = [one["none"].seconds / one["dp"].seconds for one in places]
        for what, each in (("queries per second, dp against none", queries), ("CPU time, none against dp", seconds)):
            ratios.append(Ratio(f"{name}: {what}", "", f"{min(each):.1f}× to {max(each):.1f}×", None))
    return ratios


def _plot(name: str, mine: Sequence[Figure]) -> None:
    """A row for each figure of the paper, a column for each measure."""
    rows = len(mine)
    canvas, axes = pyplot.subplots(rows, len(MEASURES), figsize=(15, 2.9 * rows), layout="constrained", squeeze=False)
    for row, figure in zip(axes, mine, strict=True):
        for axis, measure in zip(row, MEASURES, strict=True):
            for method in METHODS:
                values = [measure.of(one[method]) for one in figure.found]
                axis.plot(figure.places, values, marker=".", label=method, linestyle="--" if method == "dp" else "-")
            axis.set_ylim(bottom=0)
            axis.set_title(measure.name, fontsize=9)
            axis.set_xlabel(figure.varied, fontsize=8)
            axis.tick_params(labelsize=7)
            axis.grid(alpha=0.3)
        row[0].legend(fontsize=7)
    report.IMAGES.mkdir(parents=True, exist_ok=True)
    canvas.savefig(report.IMAGES / f"uncertain-{name}.png", dpi=80, metadata={"Software": None})
    pyplot.close(canvas)
