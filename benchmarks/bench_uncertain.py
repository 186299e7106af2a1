"""Uncertain streams: probabilities against the definition, a hundred queries over one stream, and the paper's figures.

python -m benchmarks uncertain [--quick]
"""

from __future__ import annotations

from functools import partial
from time import process_time
from typing import Any

import numpy as np

import skyband as sb
from benchmarks import bench_uncertain_figures, bench_uncertain_plans, report
from benchmarks.measure import best_of

PAGE = report.REPORTS / "uncertain.md"
K = 100


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


def run(*, quick: bool = False) -> None:
    """Run this benchmark; `quick` writes nothing."""
    machine = report.machine()
    ratios = [
        *_probabilities(quick=quick),
        *bench_uncertain_plans.plans(quick=quick),
        *bench_uncertain_plans.planning(quick=quick),
        *_stream(quick=quick),
        *bench_uncertain_figures.figures(quick=quick),
    ]
    rows = [ratio.row() for ratio in ratios]
    heads = ["ratio", "target", "measured", "met"]
    report.show("uncertain-ratios", "Targets and results", heads, rows, write=not quick, page=PAGE)
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
        slow = best_of(partial(ask, scores, chances, K, rules, method="definition"), 2).best
        pass_ = best_of(partial(ask, scores, chances, K, rules), 15)
        fast = pass_.best
        rows.append([f"{n:,} tuples, {what}", f"{1e3 * slow:,.0f}", f"{1e3 * fast:.2f}", f"{pass_.spread:+.0%}"])
        met = slow / fast >= 200
        found.append(
            report.Ratio(f"Pr_k with rules, {what}, against O(n²k)", "at least 200×", f"{slow / fast:,.0f}×", met)
        )
    n = 100_000 if quick else 1_000_000
    worst = 0.0
    for what, most, ruled in (("no rules", 1.0, 0.0), ("all in rules", 1.0, 1.0), ("no scan ends early", 2e-4, 0.5)):
        scores, chances, rules = tuples(n, most, ruled)
        pass_ = best_of(partial(ask, scores, chances, K, rules), 5)
        worst = max(worst, pass_.best)
        rows.append([f"{n:,} tuples, {what}", "", f"{1e3 * pass_.best:.1f}", f"{pass_.spread:+.0%}"])
    heads = ["k = 100", "the definition, ms", "one pass, ms", "median above best"]
    report.show("uncertain-passes", "Top-k probabilities", heads, rows, write=not quick, page=PAGE)
    return [*found, report.Ratio(f"Pr_k of {n:,} tuples", "below 1 s", f"at most {worst:.2f} s", worst < 1)]


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
    rows, found = [], []
    for plan in ("greedy", "none"):
        _pushed(queries, plan, 20_000)  # compile before timing
        told, answers, spent = _pushed(queries, plan, n)
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
    heads = [f"{seconds} s of stream", "seconds", "tuples per second", "runs", "rows of answers", "tuples held"]
    report.show("uncertain-stream", "A hundred queries over one stream", heads, rows, write=not quick, page=PAGE)
    return found


def _pushed(queries: list[sb.UncertainTopK], plan: str, n: int) -> tuple[dict[str, Any], int, float]:
    """Push tuples in batches of a thousand; return the monitor's metrics, the answer rows and the CPU seconds."""
    scores, chances, _ = tuples(n, 1.0, 0.0)
    positions = np.arange(n) * 100
    monitor = sb.uncertain.Monitor(queries, plan=plan)
    answers = 0
    began = process_time()
    for low in range(0, n, 1000):
        part = slice(low, low + 1000)
        monitor.push(positions[part], scores[part], chances[part])
        answers += monitor.answers().num_rows
    return monitor.metrics(), answers, process_time() - began


if __name__ == "__main__":
    run()
