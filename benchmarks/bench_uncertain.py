"""Uncertain streams: probabilities against the definition, plans against no sharing, many queries over one stream."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

import skyband as sb
from benchmarks import report

PAGE = report.ROOT / "docs" / "performance-uncertain.md"
K = 100
METHODS = ("none", "in", "inco", "greedy", "dp")


def tuples(n: int, most: float, ruled: float, seed: int = 0) -> tuple[Any, Any, Any]:
    """Scores, probabilities up to `most`, and rules of two tuples each for a share of them."""
    rng = np.random.default_rng(seed)
    scores, chances = rng.random(n), np.maximum(most * rng.random(n), 1e-12)
    rules = np.full(n, -1)
    pairs = rng.permutation(n)[: int(n * ruled) // 2 * 2].reshape(-1, 2)
    for side in (0, 1):
        rules[pairs[:, side]] = np.arange(len(pairs))
    chances[pairs] /= 2
    return scores, chances, rules


def timed(work: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """The best of several rounds, in seconds, and how far the median lies above it."""
    spent = []
    for _ in range(rounds):
        began = perf_counter()
        work()
        spent.append(perf_counter() - began)
    return min(spent), float(np.median(spent)) / min(spent) - 1


def requests(x: int, longest: int, most: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """So many queries, `every` and k drawn evenly."""
    drawn = zip(rng.integers(1, longest + 1, x), rng.integers(2, most + 1, x), strict=True)
    return [(int(every), int(k)) for every, k in drawn]


def run(*, quick: bool = False) -> None:
    """Measure all of it; `quick` writes nothing."""
    machine = report.machine()
    ratios = [*_probabilities(quick=quick), *_plans(quick=quick), *_stream(quick=quick)]
    rows = [ratio.row() for ratio in ratios]
    heads = ["ratio", "target", "measured", "met"]
    report.show("uncertain-ratios", "Promised and measured", heads, rows, write=not quick, page=PAGE)
    if not quick:
        report.into_page("uncertain-machine", machine, page=PAGE)


def _probabilities(*, quick: bool) -> list[report.Ratio]:
    """The pass with rules against the definition's, compiled the same way, and a million tuples."""
    ask = sb.uncertain.topk_probabilities
    small = tuples(200, 1.0, 0.5)
    ask(*small[:2], 5, small[2])
    ask(*small[:2], 5, small[2], method="definition")
    rows, found = [], []
    n = 2_000 if quick else 10_000
    for what, most in (("any probability", 1.0), ("at most 0.02, so that no scan ends early", 0.02)):
        scores, chances, rules = tuples(n, most, 0.5)
        slow, _ = timed(partial(ask, scores, chances, K, rules, method="definition"), 1)
        fast, spread = timed(partial(ask, scores, chances, K, rules), 9)
        rows.append([f"{n:,} tuples, {what}", f"{1e3 * slow:,.0f}", f"{1e3 * fast:.2f}", f"{spread:+.0%}"])
        met = slow / fast >= 200
        found.append(
            report.Ratio(f"Pr_k with rules, {what}, against O(n²k)", "at least 200×", f"{slow / fast:,.0f}×", met)
        )
    n = 100_000 if quick else 1_000_000
    worst = 0.0
    for what, most, ruled in (("no rules", 1.0, 0.0), ("all in rules", 1.0, 1.0), ("no scan ends early", 2e-4, 0.5)):
        scores, chances, rules = tuples(n, most, ruled)
        fast, spread = timed(partial(ask, scores, chances, K, rules), 5)
        worst = max(worst, fast)
        rows.append([f"{n:,} tuples, {what}", "", f"{1e3 * fast:.1f}", f"{spread:+.0%}"])
    heads = ["k = 100", "the definition, ms", "one pass, ms", "median above best"]
    report.show("uncertain-passes", "Top-k probabilities", heads, rows, write=not quick, page=PAGE)
    return [*found, report.Ratio(f"Pr_k of {n:,} tuples", "below 1 s", f"at most {worst:.2f} s", worst < 1)]


def _plans(*, quick: bool) -> list[report.Ratio]:
    """What plans cost, against no sharing, and what planning itself takes."""
    rng = np.random.default_rng(1)
    rows, gains, greedy = [], [], []
    for most in (5, 100):
        for x in (10, 20, 40, 60, 80, 100):
            costs: dict[str, list[float]] = {method: [] for method in METHODS}
            for _ in range(5 if quick else 50):
                asked = requests(x, 40, most, rng)
                for method in METHODS:
                    costs[method].append(sb.uncertain.schedule(asked, method).cost_per_unit)
            mean = {method: float(np.mean(found)) for method, found in costs.items()}
            gain = float(np.mean(np.divide(costs["none"], costs["dp"])))
            more = float(np.mean(np.divide(costs["greedy"], costs["dp"])))
            if x >= 40:
                gains.append((gain, math.log2(x)))
            greedy.append(more)
            told = [f"{mean[method]:.1f}" for method in METHODS]
            rows.append([f"{x} queries, k up to {most}", *told, f"{gain:.2f}×", f"{math.log2(x):.2f}×", f"{more:.3f}×"])
    heads = ["`every` up to 40", *METHODS, "none / dp", "Theorem 7.1", "greedy / dp"]
    report.show("uncertain-plans", "Cost of plans, per unit of time", heads, rows, write=not quick, page=PAGE)
    asked = requests(100, 4_000 if quick else 40_000, 1000, rng)
    spent, _ = timed(lambda: len(sb.uncertain.schedule(asked, "greedy").executions), 5)
    reached = sum(gain >= least for gain, least in gains)
    return [
        report.Ratio(
            "dp against no sharing, x = 40 to 100",
            "at least log2 x",
            f"at {reached} of {len(gains)} places",
            reached == len(gains),
        ),
        report.Ratio(
            "greedy against dp, on average", "at most 1.05×", f"at most {max(greedy):.3f}×", max(greedy) <= 1.05
        ),
        report.Ratio("greedy over 40,000 units", "below 50 ms", f"{1e3 * spent:.0f} ms", spent < 0.05),
    ]


def _stream(*, quick: bool) -> list[report.Ratio]:
    """A hundred queries over the last 100,000 tuples of a stream of 10,000 a second, on one core."""
    rng = np.random.default_rng(2)
    asked = zip(rng.integers(2, 101, 100), rng.integers(1, 41, 100), strict=True)
    queries = [
        sb.UncertainTopK(name=f"q{place}", k=int(k), size="10 seconds", every=f"{int(every) * 100} milliseconds")
        for place, (k, every) in enumerate(asked)
    ]
    seconds = 5 if quick else 30
    n = 10_000 * seconds
    scores, chances, _ = tuples(n, 1.0, 0.0)
    positions = np.arange(n) * 100
    rows, found = [], []
    for plan in ("greedy", "none"):
        monitor = sb.uncertain.Monitor(queries, plan=plan)
        began = perf_counter()
        answers = 0
        for low in range(0, n, 1000):
            part = slice(low, low + 1000)
            monitor.push(positions[part], scores[part], chances[part])
            answers += monitor.answers().num_rows
        spent = perf_counter() - began
        told = monitor.metrics()
        rows.append(
            [plan, f"{spent:.2f}", f"{n / spent:,.0f}", f"{told['runs']:,}", f"{answers:,}", f"{told['candidates']:,}"]
        )
        if plan == "greedy":
            found.append(
                report.Ratio(
                    "100 queries, 100K window, 10K tuples/s",
                    "in real time",
                    f"{seconds / spent:.0f}× as fast",
                    spent < seconds,
                )
            )
    heads = [f"{seconds} s of stream", "seconds", "tuples a second", "runs", "rows of answers", "tuples held"]
    report.show("uncertain-stream", "A hundred queries over one stream", heads, rows, write=not quick, page=PAGE)
    return found


if __name__ == "__main__":
    run()
