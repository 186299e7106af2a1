"""Groups in process: new groups in every push, a million groups in one push, and a few groups with many rows.

python -m benchmarks groups [--quick]

With SKYBAND_BEFORE=<root of another checkout>, every case also runs with the library of that checkout, alternating
with this one, and the ratio of the medians is printed.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import skyband as sb
from benchmarks import report

SECOND = 1_000_000
LONGEST = 900  # seconds that a case may take


class Case(NamedTuple):
    """A stream with groups, pushed in parts."""

    what: str
    rows: int  # a push
    pushes: int
    groups: int  # distinct ones in a push
    again: bool  # whether the next push has the same groups
    k: int = 2
    size: str = "10 seconds"
    slide: str = "5 seconds"
    span: int = 10 * SECOND  # of event time, a push


CASES = {
    "new": Case("20,000 new groups in every push", 20_000, 5, 20_000, False),
    "million": Case("1M groups in one push", 1_000_000, 1, 1_000_000, False),
    "four": Case("4 groups, pushes of 500K rows", 500_000, 8, 4, True, k=10),
    "hundred": Case("100 groups, pushes of 500K rows", 500_000, 8, 100, True, k=10),
    "hundred-short": Case("100 groups, pushes of 1,000 rows", 1_000, 300, 100, True, k=10, span=SECOND),
    "four-short": Case("4 groups, pushes of 100 rows", 100, 1_000, 4, True, k=10, span=SECOND // 10),
    "four-deep": Case("4 groups, k 5,000, pushes of 100 rows", 100, 2_000, 4, True, k=5_000, span=SECOND // 100),
}


def groups_of(case: Case, push: int, rng: np.random.Generator) -> list[str]:
    first = 0 if case.again else push * case.groups
    codes = np.arange(case.rows) if case.groups == case.rows else rng.integers(0, case.groups, case.rows)
    return [f"group {first + code}" for code in codes.tolist()]


def measured(case: Case) -> dict[str, Any]:
    """CPU seconds of each push with its answers, and the state at the end."""
    query = sb.TopK(k=case.k, size=case.size, slide=case.slide)
    _ = sb.replay(query, [0, 6 * SECOND, 20 * SECOND], [1.0, 2.0, 3.0], groups=["a", "b", "c"])  # compiled
    monitor, spent, snapshots = sb.Monitor(query), [], []
    for push in range(case.pushes):
        rng = np.random.default_rng(push)
        positions = push * case.span + np.arange(case.rows) * case.span // case.rows
        scores, groups = rng.random(case.rows), groups_of(case, push, rng)
        begin = time.thread_time()
        monitor.push(positions, scores, groups=groups)
        monitor.answers()
        spent.append(time.thread_time() - begin)
        if push in (1, case.pushes - 1):
            snapshots.append(len(monitor.snapshot()))
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"spent": spent, "peak": peak, "snapshots": snapshots, "candidates": monitor.candidates}


def run_case(name: str, root: Path) -> dict[str, Any]:
    """Run the case in a separate process, with the library of another checkout."""
    paths = os.pathsep.join([str(root / "src"), str(report.ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.bench_groups", name],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=report.ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=LONGEST,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def run(*, quick: bool = False) -> None:
    """Measure all cases, here and in the other checkout, if one is set."""
    before = os.environ.get("SKYBAND_BEFORE")
    rows = []
    for name, case in CASES.items():
        if quick and name == "million":
            continue
        # A library with one engine per group would exhaust the memory with a million groups.
        roots = [report.ROOT, *([Path(before)] if before and name != "million" else [])]
        rounds = [[run_case(name, root) for root in roots] for _ in range(1 if quick or case.pushes < 8 else 3)]
        mine = [[one[place] for one in rounds] for place in range(len(roots))]
        # The first push of a process grows arrays and loads code, so it is ignored if there are others.
        seconds = [
            statistics.median(spent for one in some for spent in one["spent"][1 if case.pushes > 1 else 0 :])
            for some in mine
        ]
        peaks = [report.bytes_text(some[0]["peak"]) for some in mine]
        snapshots = [report.bytes_text(some[0]["snapshots"][-1]) for some in mine]
        rows.append(
            [
                case.what,
                *(_milliseconds(value) for value in seconds),
                *([] if len(roots) > 1 or not before else ["-", "-"]),
                *([f"{seconds[1] / seconds[0]:.2f}×"] if len(roots) > 1 else []),
                *(f"{1e9 * value / case.rows:,.0f}" for value in seconds[:1]),
                " / ".join(peaks),
                " / ".join(snapshots),
            ]
        )
    heads = ["", "ms a push", *(["before", "before / now"] if before else []), "ns a row", "peak memory", "snapshot"]
    report.show("groups", "Groups in process", heads, rows, write=False)


def _milliseconds(seconds: float) -> str:
    return report.amount(round(1000 * seconds, 3))


if __name__ == "__main__":
    print(json.dumps(measured(CASES[sys.argv[1]])))
