"""First use: commands in new processes, with nothing compiled in a new kernel store, then with its kernels on disk.

python -m benchmarks first_use [--quick]

Times are wall-clock times of whole processes. The demo is timed until its first board is on the terminal.
"""

from __future__ import annotations

import os
import pty
import re
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks import report
from benchmarks.bench_front import COMMAND, write_csv
from benchmarks.report import Ratio

PAGE = report.REPORTS / "front.md"
ROWS, ROUNDS = 100_000, 3
LOCAL = ("run", "--local", "--once", "--fresh", "--json")
REPLAY = (
    "import numpy as np, skyband as sb; sb.replay(sb.TopK(k=10, size=1000, slide={slide}), None, np.arange(9e3) % 977)"
)
BOARD = re.compile(rb"\b[1-9][0-9,]* windows? emitted")  # the line below the boards
LONGEST = 300.0  # seconds


class Case(NamedTuple):
    """A command, and the seconds that it may take cold and warm; None: no target."""

    what: str
    command: tuple[str, ...]
    cold: float | None = None
    warm: float | None = None
    is_board: bool = False  # timed until the first board, then stopped


def run(*, quick: bool = False) -> None:
    """Run this benchmark and print the results; write the report unless `quick`."""
    rows, rounds = (2_000, 1) if quick else (ROWS, ROUNDS)
    cases = [
        Case(f"`skyband {shlex.join(LOCAL)}`, a CSV of {rows:,} rows", (*COMMAND, *LOCAL), 15.0, 3.0),
        Case("`sb.replay`, slide 100 of 1000, k 10", (sys.executable, "-c", REPLAY.format(slide=100))),
        Case("`make demo` (`skyband demo`), until the first board", (*COMMAND, "demo"), None, 20.0, is_board=True),
        Case("`skyband demo --local`, until the first board", (*COMMAND, "demo", "--local"), None, 20.0, is_board=True),
    ]
    with TemporaryDirectory() as folder:
        write_csv(Path(folder, "orders.csv"), rows)
        subprocess.run([*COMMAND, "init"], cwd=folder, check=True, capture_output=True)
        found = [ratio for number, case in enumerate(cases) for ratio in _timed(case, number, folder, rounds)]
    report.show(
        "front-first-use",
        "First use: promised and measured",
        ("what", "target", "measured", "met"),
        [ratio.row() for ratio in found],
        write=not quick,
        page=PAGE,
    )
    if not quick:
        report.into_page("front-first-use-machine", report.machine(), page=PAGE)


def _timed(case: Case, number: int, folder: str, rounds: int) -> list[Ratio]:
    """Time the command once with nothing compiled, then several times with the kernels that the first one stored."""
    store = {**os.environ, "NUMBA_CACHE_DIR": str(Path(folder, f"kernels {number}"))}
    time_one = _until_board if case.is_board else _whole
    cold = time_one(case.command, folder, store)
    warm = statistics.median(time_one(case.command, folder, store) for _ in range(rounds))
    return [
        Ratio(
            f"{case.what}, {state}",
            "" if limit is None else f"at most {limit:.0f} s",
            f"{seconds:.1f} s",
            None if limit is None else seconds <= limit,
        )
        for state, limit, seconds in (("nothing compiled", case.cold, cold), ("kernels on disk", case.warm, warm))
    ]


def _whole(command: Sequence[str], folder: str, environment: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env=environment)
    return time.perf_counter() - began


def _until_board(command: Sequence[str], folder: str, environment: dict[str, str]) -> float:
    """Run on a terminal until a board is shown, then stop the command."""
    ours, theirs = pty.openpty()
    began, shown = time.perf_counter(), b""
    environment = {**environment, "TMPDIR": folder, "TERM": "xterm", "COLUMNS": "120", "LINES": "50"}
    running = subprocess.Popen(command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    try:
        while not BOARD.search(shown):
            shown += os.read(ours, 65_536)
            if time.perf_counter() - began > LONGEST:
                raise SystemExit(f"no board after {LONGEST:.0f} s: {shown[-2000:]!r}")
        return time.perf_counter() - began
    finally:
        os.close(ours)  # before the wait: a process that writes to a full terminal would not end
        running.kill()
        running.wait()


if __name__ == "__main__":
    run(quick="--quick" in sys.argv)
