"""Sharing plans of uncertain queries: cost against no sharing, table 9 of the paper, and the time of planning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

import matplotlib
import numpy as np

import skyband as sb
from benchmarks import report
from benchmarks.measure import best_of
from benchmarks.report import Ratio
from benchmarks.uncertain_model import METHODS, Draw, Requests, requests
from skyband.uncertain.schedules import Execution

matplotlib.use("Agg")
from matplotlib import pyplot

PAGE = report.REPORTS / "uncertain.md"
XS: Sequence[int] = (10, 20, 40, 60, 80, 100)
MANY = 40  # queries from which on the theorem is checked
DRAWS = 400
# Values of the paper's table 9: no sharing and dp. The paper swaps the two columns.
PRINTED = {40: (168.39, 31.3742), 60: (232.625, 39.0), 80: (338.65, 39.0), 100: (383.625, 47.0)}
LAWS = {
    "k 2 to 5 (table 9)": Draw(most=5),
    "k 2 to 20": Draw(most=20),
    "k 2 to 100 (uu)": Draw(),
    "k 2 to 1000": Draw(most=1000),
    "k about 100 (ug)": Draw(k_law="g"),
    "`every` about 40 (gu)": Draw(every_law="g"),
    "both (gg)": Draw(every_law="g", k_law="g"),
}
UNITS = 40_000
RANGES = (10_000, 20_000, 30_000, 40_000)


class Costs(NamedTuple):
    """Costs of a unit of time by method, of every draw of x queries."""

    x: int
    of: dict[str, Any]

    @property
    def gains(self) -> Any:
        return self.of["none"] / self.of["dp"]

    @property
    def greedy(self) -> float:
        return float(np.mean(self.of["greedy"] / self.of["dp"]))


def costs(draw: Draw, xs: Sequence[int], draws: int) -> list[Costs]:
    found = []
    for x in xs:
        asked = [requests(draw._replace(x=x), seed) for seed in range(draws)]
        of = {
            method: np.array([sb.uncertain.schedule(one, method).cost_per_unit for one in asked]) for method in METHODS
        }
        found.append(Costs(x, of))
    return found


def plans(*, quick: bool) -> list[Ratio]:
    """Cost of plans, for all distributions of `every` and k."""
    draws = 5 if quick else DRAWS
    found = {law: costs(draw, XS[::2] if quick else XS, draws) for law, draw in LAWS.items()}
    rows = [
        [
            f"{one.x} queries, {law}",
            *(f"{np.mean(one.of[method]):.1f}" for method in METHODS),
            f"{np.mean(one.gains):.2f}×",
            f"{math.log2(one.x):.2f}×",
            f"{one.greedy:.3f}×",
        ]
        for law, each in found.items()
        for one in each
    ]
    heads = ["", *METHODS, "none / dp", "log2 x", "greedy / dp"]
    report.show("uncertain-plans", "Cost of plans, per unit of time", heads, rows, write=not quick, page=PAGE)
    _table_9(next(iter(found.values())), quick=quick)
    worst = max(one.greedy for each in found.values() for one in each)
    return [
        *(ratio for law, each in found.items() for ratio in _theorem(law, each)),
        Ratio("greedy against dp, on average", "at most 1.05×", f"at most {worst:.3f}×", worst <= 1.05),
    ]


def _theorem(law: str, each: Sequence[Costs]) -> list[Ratio]:
    """Whether no sharing is log2 x times as dear as dp, in the mean over x and at every x; dp is the cheapest plan."""
    many = [one for one in each if one.x >= MANY]
    by_draw = np.mean(
        [one.gains for one in many], axis=0
    )  # the queries of a larger x begin with those of a smaller one
    gain, least = float(by_draw.mean()), float(np.mean([math.log2(one.x) for one in many]))
    error = float(by_draw.std()) / math.sqrt(by_draw.size)
    reached = [str(one.x) for one in many if np.mean(one.gains) >= math.log2(one.x)]
    told = f"{gain:.2f}× ± {2 * error:.2f}; by itself at {'x = ' + ', '.join(reached) if reached else 'no x'}"
    what = f"dp against no sharing, x = {many[0].x} to {many[-1].x}, {law}"
    return [Ratio(what, f"at least {least:.2f}× (log2 x)", told, gain - 2 * error >= least)]


def _table_9(each: Sequence[Costs], *, quick: bool) -> None:
    rows = []
    for one in each:
        if one.x not in PRINTED:
            continue
        none, dp = PRINTED[one.x]
        low, high = np.percentile(one.gains, [5, 95])
        rows.append(
            [
                str(one.x),
                f"{np.mean(one.of['none']):.2f}",
                f"{np.mean(one.of['dp']):.2f}",
                f"{np.mean(one.gains):.2f}×",
                f"{low:.1f}× to {high:.1f}×",
                f"{np.mean(one.of['none']) / np.mean(one.of['dp']):.2f}×",
                f"{math.log2(one.x):.2f}×",
                f"{np.mean(one.gains >= math.log2(one.x)):.0%}",
                f"{none / dp:.2f}×",
            ]
        )
    heads = [
        "x",
        "none",
        "dp",
        "ratio, mean",
        "nine draws of ten",
        "ratio of the means",
        "log2 x",
        "draws that reach it",
        "printed, one draw",
    ]
    title = "Table 9: `every` 1 to 40, k 2 to 5"
    report.show("uncertain-table-9", title, heads, rows, write=not quick, page=PAGE)


def planning(*, quick: bool) -> list[Ratio]:
    """Figure 17: what planning takes where `every` goes up to 40,000; and all runs of so many units, listed."""
    draws = 1 if quick else 5
    took: dict[str, list[float]] = {"greedy": [], "dp": []}
    rows = []
    for longest in RANGES[:1] if quick else RANGES:
        asked = [requests(Draw(longest=longest), seed) for seed in range(draws)]
        for method, rounds in (("greedy", 5), ("dp", 1)):
            each = [best_of(partial(_planned, one, method), rounds).best for one in asked]
            took[method].append(1e3 * float(np.mean(each)))
        rows.append([f"`every` up to {longest:,}", f"{took['greedy'][-1]:.2f}", f"{took['dp'][-1]:,.0f}"])
    heads = ["CPU time, 20 queries", "greedy, ms", "dp, ms"]
    report.show("uncertain-planning", "What planning takes (figure 17)", heads, rows, write=not quick, page=PAGE)
    if not quick:
        _plot(took)
    spent = best_of(lambda: _listed(UNITS), 5).best
    what = f"greedy: 100 queries planned, all runs of {UNITS:,} units listed, one in each"
    return [Ratio(what, "below 50 ms", f"{1e3 * spent:.0f} ms", spent < 0.05)]


def _planned(asked: Requests, method: str) -> int:
    """Compute the plan and list the runs of a cycle, so that lazy parts are included."""
    return len(sb.uncertain.schedule(asked, method).executions)


def _listed(units: int) -> list[Execution]:
    """All runs of so many units: there is a query that wants one in each."""
    plan = sb.uncertain.schedule([(1, 2), *requests(Draw(x=99), 0)], "greedy")
    found = list(takewhile(lambda run: run.time <= units, plan.upcoming(0)))
    if len(found) != units:
        raise AssertionError(f"{len(found)} runs in {units} units")
    return found


def _plot(took: dict[str, list[float]]) -> None:
    figure, axis = pyplot.subplots(figsize=(5, 3.5), layout="constrained")
    for method, mine in took.items():
        axis.plot(RANGES, mine, marker=".", label=method)
    axis.set_yscale("log")
    axis.set_xlabel("longest `every`, units", fontsize=8)
    axis.set_ylabel("ms", fontsize=8)
    axis.set_title("planning 20 queries (figure 17)", fontsize=9)
    axis.legend(fontsize=7)
    axis.grid(alpha=0.3)
    report.IMAGES.mkdir(parents=True, exist_ok=True)
    figure.savefig(report.IMAGES / "uncertain-planning.png", dpi=100, metadata={"Software": None})
    pyplot.close(figure)
