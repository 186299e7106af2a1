"""Figures 7 to 17, table 9 and the supplement of the paper on uncertain streams: sharing plans of many queries."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import skyband as sb
from benchmarks import uncertain_streams
from benchmarks.bench_uncertain_figures import Family
from benchmarks.bench_uncertain_plans import PRINTED, RANGES, costs
from benchmarks.figures.registry import Claim, Figure, Finding, Order, Panel, Scale, Values, average, graded, ratios
from benchmarks.measure import best_of
from benchmarks.uncertain_model import METHODS, Draw, Outcome, Place, outcomes, requests

PAPER = "Uncertain streams"
ICEBERGS, TREMORS = "icebergs_iip_2014", "seismic_bw_2010"
MEASURES: dict[str, Callable[[Outcome], float]] = {
    "cost per unit of time": lambda one: one.cost,
    "queries per second": lambda one: one.queries,
    "latency, units": lambda one: one.latency,
    "latency with the paper's cost of a run, units": lambda one: one.published,
}
COST, RATE, LATENCY, PUBLISHED = MEASURES
PLANS = tuple(METHODS)

_RATE = (
    "A run costs O(n²k) in the paper and about the same for every k here: one pass computes all top-k probabilities, "
    "and stops early. Sharing then saves runs, not work in proportion to k."
)
_LATE = (
    "Latency is counted on a clock that runs out at 2× without sharing; where all plans keep up, all latencies are 0 "
    "or close to it."
)
_GREEDY = "Draws of few queries differ by chance; the plans are within a few percent of each other."
_INCO = (
    "INCO makes a query run with a more frequent one whenever its period allows; for queries that are rare but have a "
    "large k, that makes expensive runs more frequent."
)


def _figure(
    family: Family, varied: str, places: Sequence[int], at: Callable[[int], tuple[Any, Draw]], scale: Scale
) -> list[Panel]:
    family = family._replace(seeds=1 if scale.few else 2 if scale.name == "small" else 5)
    found = family.figure("", "", varied, scale.some(places), at).found
    return [
        Panel("", name, varied, tuple(scale.some(places)),
              {method: tuple(of(one[method]) for one in found) for method in PLANS}, logarithmic=False)
        for name, of in MEASURES.items()
    ]  # fmt: skip


def _family(make: Callable[..., Any], sizes: tuple[int, ...], draw: Draw, scale: Scale) -> Family:
    return Family("", make, tuple(max(10, size // 10) for size in sizes) if scale.few else sizes, draw)


def _single(make: Callable[..., Any], varied: str) -> Callable[[Scale], list[Panel]]:
    def run(scale: Scale) -> list[Panel]:
        family = _family(make, (10_000,), Draw(), scale)
        usual, by = family.sizes, 10 if scale.few else 1
        if varied == "x":
            return _figure(family, "x", (10, 20, 30, 40), lambda x: (usual, Draw(x=x)), scale)
        if varied == "n":
            sizes = (2_000, 4_000, 6_000, 8_000, 10_000)
            return _figure(family, "n", sizes, lambda n: ((n // by,), Draw()), scale)
        return _figure(
            family, "k up to", (200, 400, 600, 800, 1_000), lambda k: (usual, Draw(most=max(3, k // by))), scale
        )

    return run


def _several(
    make: Callable[..., Any], sizes: tuple[int, int], most: int, varied: str, places: Sequence[int]
) -> Callable[[Scale], list[Panel]]:
    def run(scale: Scale) -> list[Panel]:
        family = _family(make, sizes, Draw(most=most), scale) if make is not uncertain_streams.tremors else Family(
            "", make, (sizes[0], sizes[1] // (5 if scale.few else 1)), Draw(most=most)
        )  # fmt: skip
        usual, draw = family.sizes, family.draw
        ways: dict[str, Callable[[int], tuple[Any, Draw]]] = {
            "N": lambda n: (
                (n if not scale.few or make is uncertain_streams.tremors else max(8, n // 10), usual[1]),
                draw,
            ),
            "w": lambda w: ((usual[0], max(10, w * usual[1] // sizes[1])), draw),
            "x": lambda x: (usual, draw._replace(x=x)),
            "k up to": lambda k: (usual, draw._replace(most=k)),
        }
        return _figure(family, varied, places, ways[varied], scale)

    return run


def runtime(scale: Scale) -> list[Panel]:
    """Figure 17: seconds to plan 20 queries."""
    ranges = scale.some(RANGES) if not scale.few else (100, 400)
    took: dict[str, list[float]] = {"greedy": [], "dp": []}
    for longest in ranges:
        asked = [requests(Draw(longest=longest), seed) for seed in range(1 if scale.name != "full" else 5)]
        for method, mine in took.items():
            each = [best_of(partial(_planned, one, method), 1).best for one in asked]
            mine.append(1e3 * float(np.mean(each)))
    return [Panel("", "time to plan, ms", "longest period", tuple(ranges), {m: tuple(v) for m, v in took.items()})]


def _planned(asked: list[tuple[int, int]], method: str) -> int:
    return len(sb.uncertain.schedule(asked, method).executions)


def table_9(scale: Scale) -> list[Panel]:
    """Cost of no sharing against dp: the mean of many draws, and the paper's one draw."""
    xs = tuple(PRINTED)
    found = costs(Draw(most=5), xs, 5 if scale.few else 100 if scale.name == "small" else 400)
    printed: dict[str, Values] = {
        "none": tuple(PRINTED[x][0] for x in xs),
        "dp": tuple(PRINTED[x][1] for x in xs),
    }
    lines: dict[str, Values] = {m: tuple(float(np.mean(one.of[m])) for one in found) for m in PLANS}
    return [Panel("k 2 to 5", COST, "x", xs, lines, printed, "cost", logarithmic=False)]


def laws(scale: Scale) -> list[Panel]:
    """Section 10.2.1, last paragraph: `every` and k evenly or normally distributed."""
    sizes = (1_000,) if scale.few else (10_000,)
    default = Place(uncertain_streams.drawn, sizes, Draw())
    names = ("uu", "ug", "gu", "gg")
    found = [
        outcomes(
            Place(uncertain_streams.drawn, sizes, Draw(every_law=n[0], k_law=n[1])), default, 1 if scale.few else 2
        )
        for n in names
    ]
    return [
        Panel("", measure, "laws of period and k", names,
              {m: tuple(of(one[m]) for one in found) for m in PLANS}, logarithmic=False)
        for measure, of in MEASURES.items()
    ]  # fmt: skip


def _log_bound(panels: Sequence[Panel]) -> Finding:
    panel = panels[0]
    found = [
        (none or 0) / (dp or 1) / math.log2(float(x))
        for x, none, dp in zip(panel.places, panel.lines["none"], panel.lines["dp"], strict=True)
    ]
    return "none / dp against log2 x: " + ", ".join(f"{value:.2f}" for value in found), graded(min(found), 1.0, 0.8)


def _gap(panels: Sequence[Panel]) -> Finding:
    found = ratios(panels, "none", "dp", COST)
    return f"{found[0]:.2f}× → {found[-1]:.2f}×", graded(found[-1], found[0], found[0])


def _more_in_gg(panels: Sequence[Panel]) -> Finding:
    found = ratios(panels, "none", "dp", COST)
    return ", ".join(
        f"{name} {value:.2f}×" for name, value in zip(("uu", "ug", "gu", "gg"), found, strict=True)
    ), graded(found[3], max(found[:3]), min(found[:3]))


def _same(panels: Sequence[Panel]) -> Finding:
    found = average(ratios(panels, "greedy", "dp", COST))
    return f"greedy {found:.3f}× of dp", graded(-found, -1.05, -2.0)


ORDERS = (
    Order("dp", "greedy", COST, _GREEDY),
    Order("dp", "inco", COST, _GREEDY),
    Order("greedy", "inco", COST, _GREEDY),
    Order("inco", "in", COST, _INCO),
    Order("in", "none", COST, ""),
    Order("dp", "inco", RATE, _RATE),
    Order("inco", "in", RATE, _RATE),
    Order("in", "none", RATE, _RATE),
    Order("dp", "in", "latency with", _LATE),
    Order("in", "none", "latency with", _LATE),
)
SAME = Claim("section 10.2", "cost of the greedy plan against the best", "almost the same", _same, _GREEDY)
_MODEL = "Times of runs are measured; a clock puts them one after another, at a load of 2 without sharing by default."


def _made(
    number: str, title: str, varied: str, run: Callable[[Scale], list[Panel]], setting: str,
    data: tuple[str, ...] = (), *claims: Claim,
) -> Figure:  # fmt: skip
    return Figure(PAPER, number, title, varied, PLANS, run, ORDERS, (SAME, *claims), data, f"{setting} {_MODEL}")


_GAP = Claim("section 10.2.1, figure 7 a", "the gap between no sharing and DP grows with x", "grows", _gap, _GREEDY)
_PARTS = (20, 40, 60, 80, 100)
_DRAWN = "Drawn tuples, n = 10,000, x = 20, periods 1 to 40, k 2 to 100, as in the paper."
_ICE = "Paper: IIP iceberg sightings 1998 to 2007. Here: those of 2014, ranked by the days since the first sighting."
_STREAMS = "Drawn streams, N = 100, w = 100, k 2 to 20, as in the paper."
_TREMORS = "Paper: 16 sensors at Reventador, w = 1000, k 2 to 5. Here: pieces of the channels of four other stations."

FIGURES = (
    _made("figure 7", "over the number of queries", "x", _single(uncertain_streams.drawn, "x"), _DRAWN, (), _GAP),
    _made("figure 8", "over the tuples of a window", "n", _single(uncertain_streams.drawn, "n"), _DRAWN),
    _made("figure 9", "over the range of k", "k", _single(uncertain_streams.drawn, "k"), _DRAWN),
    _made("figure 10", "icebergs, over the number of queries", "x", _single(uncertain_streams.icebergs, "x"), _ICE,
          (ICEBERGS,)),
    _made("figure 11", "icebergs, over the tuples of a window", "n", _single(uncertain_streams.icebergs, "n"), _ICE,
          (ICEBERGS,)),
    _made("figure 12", "icebergs, over the range of k", "k", _single(uncertain_streams.icebergs, "k"), _ICE,
          (ICEBERGS,)),
    _made("figure 13", "several streams, over their number", "N",
          _several(uncertain_streams.drawn_streams, (100, 100), 20, "N", _PARTS), _STREAMS),
    _made("figure 14", "several streams, over the tuples of each", "w",
          _several(uncertain_streams.drawn_streams, (100, 100), 20, "w", _PARTS), _STREAMS),
    _made("figure 15", "several streams, over the number of queries", "x",
          _several(uncertain_streams.drawn_streams, (100, 100), 20, "x", (10, 20, 30, 40)), _STREAMS, (), _GAP),
    _made("figure 16", "several streams, over the range of k", "k up to",
          _several(uncertain_streams.drawn_streams, (100, 100), 20, "k up to", _PARTS), _STREAMS),
    Figure(PAPER, "figure 17", "time to plan", "longest period", ("greedy", "dp"), runtime,
           (Order("greedy", "dp", "", ""),), (), (), "20 queries, periods up to 10,000 to 40,000, as in the paper."),
    Figure(PAPER, "table 9", "no sharing against DP", "x", ("none", "dp"), table_9,
           (Order("dp", "none", "", ""),),
           (Claim("section 10.2.5, table 9", "no sharing costs at least log2 x times as much as DP",
                  "1.01 to 1.37 times it", _log_bound,
                  "The paper has one draw for each x. Of many draws, a part is below the bound at each x."),),
           (), "Periods 1 to 40, k 2 to 5, one draw in the paper; here the mean of many."),
    Figure(PAPER, "section 10.2.1, laws", "distributions of periods and k", "laws", PLANS, laws, (),
           (Claim("section 10.2.1", "sharing saves most where both are Gaussian (cost of no sharing against DP)",
                  "gg largest", _more_in_gg),), (), _DRAWN),
    *(
        _made(f"supplement, {varied}", f"tremors, over {what}", varied,
              _several(uncertain_streams.tremors, (16, 1_000), 5, varied, places), _TREMORS, (TREMORS,))
        for varied, what, places in (
            ("N", "the sensors", (8, 10, 12, 14, 16)),
            ("w", "the readings of each", (200, 400, 600, 800, 1_000)),
            ("x", "the number of queries", (10, 20, 30, 40)),
            ("k up to", "the range of k", (5, 8, 11, 14, 16)),
        )
    ),
)  # fmt: skip
