"""Start-up times: --help, a first run on Spark, parsing SQL; and the rows that a change feed saves a sink.

python -m benchmarks front [--quick]
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import skyband as sb
from benchmarks import report
from benchmarks.measure import Timing, best_of
from benchmarks.report import Ratio
from skyband import streams

PAGE = report.REPORTS / "front.md"
HELP_LIMIT = 0.5  # seconds
FIRST_ANSWER_LIMIT = 60.0
COMMAND = (sys.executable, "-m", "skyband.cli")
SQL = "q{n}: TOPK price * size, {k} WHERE exchange <> 'D' BY symbol OVER {size} MINUTES EVERY 1 MINUTE"


def run(*, quick: bool = False) -> None:
    """Run this benchmark and print the results; write the report unless `quick`."""
    rows = 2_000 if quick else 100_000
    ratios = [_help(3 if quick else 11), *_first_answer(rows), _sql(100 if quick else 1_000)]
    report.show(
        "front-ratios",
        "The front door: promised and measured",
        ("what", "target", "measured", "met"),
        [ratio.row() for ratio in ratios],
        write=not quick,
        page=PAGE,
    )
    report.show(
        "front-changes",
        "Rows that a sink is given, over seeded trades",
        ("query", "windows", "rows as answers", "rows as changes", "answers / changes"),
        [_changes(k, size, slide, 50_000 if quick else 1_000_000) for k, size, slide in CHANGE_CASES],
        write=not quick,
        page=PAGE,
    )
    if not quick:
        report.into_page("front-machine", report.machine(), page=PAGE)


CHANGE_CASES = (
    (10, "10 minutes", "1 minute"),
    (10, "1 hour", "10 seconds"),
    (100, "1 hour", "10 seconds"),
    (100, "10 minutes", "1 second"),
)


def _help(rounds: int) -> Ratio:
    """Wall time of a process, as the user experiences it."""
    found = best_of(
        lambda: subprocess.run([*COMMAND, "--help"], check=True, capture_output=True), rounds, time.perf_counter
    )
    measured = f"{found.best:.2f} s, median {statistics.median(found.rounds):.2f} s"
    return Ratio("`skyband --help`", f"under {HELP_LIMIT} s", measured, statistics.median(found.rounds) < HELP_LIMIT)


def _first_answer(rows: int) -> list[Ratio]:
    """Time of `skyband init` and `skyband run` over a CSV until the first line of an answer."""
    with TemporaryDirectory() as folder:
        write_csv(Path(folder, "orders.csv"), rows)
        began = time.perf_counter()
        subprocess.run([*COMMAND, "init"], cwd=folder, check=True, capture_output=True)
        seconds = time.perf_counter() - began + _until_first_line(folder)
        again = _until_first_line(folder, "--fresh")
    return [
        Ratio(
            f"`skyband init && skyband run`, a CSV of {rows:,} rows, until the first answer",
            f"under {FIRST_ANSWER_LIMIT:.0f} s",
            f"{seconds:.1f} s",
            seconds < FIRST_ANSWER_LIMIT,
        ),
        Ratio("the same with `--fresh`, a second time", "", f"{again:.1f} s", None),
    ]


def _until_first_line(folder: str, *more: str) -> float:
    began = time.perf_counter()
    running = subprocess.Popen(
        [*COMMAND, "run", "--json", *more],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ},
    )
    assert running.stdout is not None
    line = running.stdout.readline()
    seconds = time.perf_counter() - began
    running.stdout.close()  # the run detects the closed pipe and ends
    running.wait(120)
    assert line.startswith(b"{"), line
    return seconds


def write_csv(path: Path, rows: int) -> None:
    drawn = random.Random(1)
    with path.open("w") as file:
        file.write("at,shop,amount\n")
        for number in range(rows):
            at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(1_704_100_000 + number // 10))
            file.write(f"{at},shop {drawn.randrange(20)},{drawn.paretovariate(1.2):.2f}\n")


def _sql(queries: int) -> Ratio:
    """CPU time of parsing a workload with this many statements."""
    text = ";\n".join(SQL.format(n=n, k=1 + n % 50, size=5 + n % 20) for n in range(queries))
    sb.sql(text)
    found: Timing = best_of(lambda: sb.sql(text), 5)
    each = found.best / queries * 1e3
    return Ratio(f"`sb.sql` of {queries:,} statements, each", "", f"{each:.2f} ms, spread {found.spread:.0%}", None)


def _changes(k: int, size: str, slide: str, rows: int) -> list[str]:
    query = sb.TopK(k=k, size=size, slide=slide)
    trades = streams.trades(rows, seed=1)
    answers = sb.replay(query, trades.position, trades.score, trades.trade_id)
    changes = sb.ChangeFeed(query).take(answers)
    windows = len(answers["window_end"].unique())
    ratio = answers.num_rows / changes.num_rows
    return [
        f"k {k}, {size} every {slide}",
        f"{windows:,}",
        f"{answers.num_rows:,}",
        f"{changes.num_rows:,}",
        f"{ratio:.1f}",
    ]


if __name__ == "__main__":
    run(quick="--quick" in sys.argv)
