"""What a run of a shared plan costs, and how much of a window is held for each semantics.

A run has a fixed part, a part per rank of the largest k, and a part per answer.

python -m benchmarks uncertain-costs [--quick]
"""

from __future__ import annotations

from typing import Any

import numpy as np

import skyband as sb
from benchmarks import report
from benchmarks.measure import best_of
from benchmarks.report import Ratio
from benchmarks.uncertain_streams import drawn
from skyband.uncertain.run_cost import MEASURED
from skyband.uncertain.schedules import Execution

PAGE = report.REPORTS / "uncertain.md"
KS = (1, 10, 30, 100, 200, 400, 700, 1_000)
ANSWERS = (1, 2, 5, 10, 20, 40)
HELD: dict[str, dict[str, Any]] = {
    "`pk-topk`, `u-kranks`, `pt-k` with threshold 0.1": {},
    "`pk-topk` of 50 streams": {"stream": "s"},
    "`prf`, ten weights": {"semantics": "prf", "weights": [1 / rank for rank in range(1, 11)]},
    "`prf`, `alpha=0.5`": {"semantics": "prf", "alpha": 0.5},
    "`prf`, `alpha=0.95`": {"semantics": "prf", "alpha": 0.95},
    "`u-topk`": {"semantics": "u-topk"},
    "`expected-rank`": {"semantics": "expected-rank"},
}
N = 10_000  # tuples in the window, the default of the paper


def seconds(monitor: sb.uncertain.Monitor, k: int, answers: int, rounds: int) -> float:
    """CPU time of a run for this k that answers so many queries, the table of answers included."""
    everyone = tuple(range(answers))
    run = Execution(N, k, everyone)

    def once() -> Any:
        monitor._answer(run, N)
        return monitor.answers()

    return best_of(once, rounds).best


def grid(*, quick: bool) -> Any:
    """Rows (k, answers, seconds) of runs over a window of drawn tuples, some of which exclude each other."""
    stream = drawn(N)
    rows = []
    for k in KS[1:4] if quick else KS:
        for answers in ANSWERS[:2] if quick else ANSWERS:
            ks = np.unique(np.linspace(max(1, k // 2), k, answers).astype(int))
            ks = np.resize(ks[::-1], answers)  # the largest first; some twice where there are fewer than answers
            queries = [sb.UncertainTopK(name=f"q{i}", k=int(mine), size=N, every=N) for i, mine in enumerate(ks)]
            monitor = sb.uncertain.Monitor(queries)
            monitor.push(None, stream.scores[:N], stream.chances[:N], stream.rules[:N])
            monitor.answers()
            rows.append((k, answers, seconds(monitor, k, answers, 3 if quick else 9)))
    return np.array(rows)


def fitted(rows: Any) -> Any:
    """The parts that fit best, by relative error: a run takes a + b k + c answers seconds."""
    terms = np.stack([np.ones(len(rows)), rows[:, 0], rows[:, 1]], axis=1) / rows[:, 2:]
    return np.linalg.lstsq(terms, np.ones(len(rows)), rcond=None)[0]


def errors(parts: Any, rows: Any) -> Any:
    """Relative errors of the estimates."""
    return np.abs((parts[0] + parts[1] * rows[:, 0] + parts[2] * rows[:, 1]) / rows[:, 2] - 1)


def held(*, quick: bool) -> list[list[str]]:
    """Tuples held and bytes of a snapshot by semantics, over a window of tuples with any probability."""
    size = 2_000 if quick else 20_000
    rng = np.random.default_rng(4)
    scores, chances = rng.random(3 * size), np.maximum(rng.random(3 * size), 1e-3)
    rows = []
    for what, more in HELD.items():
        query = sb.UncertainTopK(k=10, size=size, every=size // 20, **more)
        monitor = sb.uncertain.Monitor(query)
        for low in range(0, 3 * size, size // 20):
            part = slice(low, low + size // 20)
            labels = (np.arange(low, low + size // 20) % 50).tolist() if query.stream else None
            monitor.push(None, scores[part], chances[part], streams=labels)
        monitor.answers()
        rows.append([what, f"{monitor.candidates:,}", f"{len(monitor.snapshot()) / 1e3:,.0f} kB"])
    return rows


def run(*, quick: bool = False) -> None:
    """Run this benchmark; `quick` writes nothing."""
    machine = report.machine()
    heads = ["20,000 tuples, k = 10", "tuples held", "snapshot"]
    report.show("uncertain-held", "What a window holds", heads, held(quick=quick), write=not quick, page=PAGE)
    rows = grid(quick=quick)
    parts = fitted(rows)
    stored = np.array(MEASURED) / 1e9
    shown = [
        [name, f"{1e6 * part:.2f}", f"{1e6 * kept:.2f}"]
        for name, part, kept in zip(("a, of a run", "b, per rank", "c, per answer"), parts, stored, strict=True)
    ]
    shown.append(["median error", f"{np.median(errors(parts, rows)):.0%}", f"{np.median(errors(stored, rows)):.0%}"])
    by_k = np.median(errors(np.array([0.0, np.median(rows[:, 2] / rows[:, 0]), 0.0]), rows))
    heads = ["µs", "measured", "in skyband.uncertain.run_cost"]
    report.show("uncertain-costs", "What a run costs", heads, shown, write=not quick, page=PAGE)
    ratio = Ratio(
        "estimated cost of a run against measured",
        "median error at most 30%",
        f"{np.median(errors(stored, rows)):.0%}",
        bool(np.median(errors(stored, rows)) <= 0.3),
    )
    against = ["estimated by k alone", "", f"median error {by_k:.0%}", ""]
    heads = ["ratio", "target", "measured", "met"]
    report.show("uncertain-costs-ratios", "Estimates", heads, [ratio.row(), against], write=not quick, page=PAGE)
    if not quick:
        report.into_page("uncertain-costs-machine", machine, page=PAGE)


if __name__ == "__main__":
    run()
