"""Many queries at once: the grid of the MTopS paper (its figures 8 to 15), and the ratios with a target.

python -m benchmarks shared [--quick] [--cap SECONDS]
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import matplotlib
import numpy as np

import skyband as sb
from benchmarks import report, workloads
from benchmarks.measure import NOTHING, Timing, state_bytes
from benchmarks.report import Ratio
from skyband import TopK
from skyband.data.answer_log import AnswerLog
from skyband.kernels.stream import Rows
from skyband.topk.algorithms import ENGINES, Engine

matplotlib.use("Agg")
from matplotlib import pyplot

PAGE = report.REPORTS / "shared.md"
MILLION = 1_000_000
SHARED = ("panes", "mtoplist", "mtopband")
ALONE = "mintopk, each alone"
COUNTS = (10, 100, 1000)
SEED = 7
SAMPLE = 50  # number of timed runs, of a thousand independent ones
CHUNK = 100_000  # objects in a call
NEVER = 2**61  # as the position of the stream's first object: no window starts that late, so no answers are written
HEADS = (
    "queries",
    "engine",
    "ns/object",
    "spread",
    "ns/object, answers written",
    "spread",
    "rows/object",
    "objects held",
    "references",
    "views",
    "state",
    "memory",
    "objects timed",
    "rounds",
)


class Kind(NamedTuple):
    """A workload of the paper: common values of its queries, and the ranges from which the others are drawn."""

    name: str
    title: str
    sizes: tuple[int, int]
    slides: tuple[int, int]
    ks: tuple[int, int]
    unit: int = 1  # sizes are multiples of this
    stream: str = "uniform"

    def shorter(self, by: int) -> Kind:
        """The same with windows and slides that are shorter by this factor."""
        sizes, slides = ((max(1, low // by), max(1, high // by)) for low, high in (self.sizes, self.slides))
        return self._replace(sizes=sizes, slides=slides, unit=max(1, self.unit // by))


GRID = (
    Kind("k", "arbitrary k (window 1M, slide 100K, k 10 to 1000)", (MILLION,) * 2, (100_000,) * 2, (10, 1000)),
    Kind(
        "slide",
        "arbitrary slide (window 1M, slide 100K to 1M, k 1000)",
        (MILLION,) * 2,
        (100_000, MILLION),
        (1000,) * 2,
    ),
    Kind(
        "window",
        "arbitrary window and slide (window 100K to 1M, slide 10K to 100K, k 100)",
        (100_000, MILLION),
        (10_000, 100_000),
        (100,) * 2,
    ),
    Kind(
        "all",
        "all arbitrary (window 100K to 1M, slide 10K to 100K, k 10 to 1000)",
        (100_000, MILLION),
        (10_000, 100_000),
        (10, 1000),
    ),
)
COMMON = (
    Kind(
        "common", "slide 1024, windows of 1 to 976 slides, k 50 to 150", (1024, MILLION), (1024,) * 2, (50, 150), 1024
    ),
    Kind(
        "common-any", "slide 1024, windows of 1024 to 1M objects, k 50 to 150", (1024, MILLION), (1024,) * 2, (50, 150)
    ),
)


@cache
def queries_of(kind: Kind, count: int) -> tuple[TopK, ...]:
    """Seeded workload. It reports only full windows, so `first` decides whether answers are written."""
    random = np.random.default_rng(SEED)
    found = []
    for i in range(count):
        size, slide, k = (int(random.integers(low, high + 1)) for low, high in (kind.sizes, kind.slides, kind.ks))
        size = max(kind.unit, size // kind.unit * kind.unit)
        found.append(TopK(name=f"q{i}", k=k, size=size, slide=min(slide, size), full_only=True))
    return tuple(found)


class Group:
    """Engines over the same objects: one for all queries, or one per query."""

    def __init__(self, engines: Sequence[Engine], counts: Sequence[int], stream: str = "uniform") -> None:
        self.engines = list(engines)
        self.stream = stream
        self.counts = counts  # of each engine, its queries
        self.log = AnswerLog()

    def take(self, low: int, high: int, first: int, spent: list[float] | None = None) -> tuple[float, int]:
        """Feed objects [low, high); return CPU seconds and rows written. `spent` receives the time of each engine."""
        scores, total, rows = workloads.scores_of(self.stream, 2 * MILLION), 0.0, 0
        each = [0.0] * len(self.engines) if spent is None else spent
        for at in range(low, high, CHUNK):
            stop = min(high, at + CHUNK)
            some = Rows(scores[at:stop], NOTHING, NOTHING, at, at)
            for i, engine in enumerate(self.engines):
                begin = time.thread_time()
                self.log.begin(-1, range(self.counts[i]))
                engine.advance(some, stop, first, self.log)
                each[i] += time.thread_time() - begin
            begin = time.thread_time()
            rows += sum(part.keys.size for part in self.log.take())
            total += time.thread_time() - begin
        return total + sum(each), rows

    def copies(self) -> Group:
        """Copies of the engines, to repeat a round from the same state."""
        return Group([_copied(engine) for engine in self.engines], self.counts, self.stream)


def _copied(engine: Engine) -> Engine:
    """Copy without shared mutable state."""
    kept = {id(engine._queries): engine._queries}
    return copy.deepcopy(engine, kept)


class Cell(NamedTuple):
    """One way to answer one workload."""

    kind: str
    engine: str
    queries: int
    silent: Timing = Timing([])  # seconds per object, nothing written
    written: Timing = Timing([])  # with every answer written
    rows: float = 0.0  # an object
    held: float = 0.0  # objects, after a window has ended
    references: float = 0.0
    views: float = 0.0
    state: float = 0.0  # bytes of a snapshot
    memory: float = 0.0  # bytes of all arrays
    objects: int = 0
    timed: int = 0  # engines that were timed
    error: float = 0.0  # standard error of their mean, relative

    def ns(self, *, written: bool) -> float:
        """CPU time per object, best round."""
        return 1e9 * (self.written if written else self.silent).best

    def row(self) -> list[str]:
        """The cell as a row of its table."""
        whose = self.engine if not self.error else f"{self.engine} ({self.timed} of {self.queries} timed)"
        return [
            str(self.queries),
            whose,
            report.amount(self.ns(written=False)),
            f"{self.silent.spread:.0%}",
            report.amount(self.ns(written=True)),
            f"{self.written.spread:.0%}",
            f"{self.rows:.2f}",
            report.amount(round(self.held)),
            report.amount(round(self.references)),
            report.amount(round(self.views)) if self.views else "",
            report.bytes_text(round(self.state)),
            report.bytes_text(round(self.memory)),
            report.amount(self.objects),
            f"{len(self.silent.rounds)} + {len(self.written.rounds)}",
        ]


def arrays_of(thing: Any, seen: dict[int, int]) -> None:
    """The bytes of every array below `thing`, each once, into `seen`."""
    if isinstance(thing, np.ndarray):
        whole = thing if thing.base is None else thing.base
        seen[id(whole)] = getattr(whole, "nbytes", thing.nbytes)
    elif isinstance(thing, dict):
        for part in thing.values():
            arrays_of(part, seen)
    elif isinstance(thing, list | tuple):
        for part in thing:
            arrays_of(part, seen)


def memory_of(engine: Engine) -> int:
    """Bytes of all arrays of an engine: state, reserved capacity, scratch space and queries."""
    seen: dict[int, int] = {}
    arrays_of(vars(engine), seen)
    return sum(seen.values())


@cache
def compiled(name: str) -> None:
    """Compile all that the engine needs."""
    queries = queries_of(GRID[3].shorter(1000), 1 if name == "mintopk" else 3)
    engine, log = ENGINES[name](queries), AnswerLog()
    log.begin(-1, range(len(queries)))
    for first in (0, NEVER):
        low = engine.candidates and 20_000
        engine.advance(
            Rows(workloads.uniform(2 * MILLION)[:20_000], NOTHING, NOTHING, low, low), low + 20_000, first, log
        )


def sample_of(queries: Sequence[TopK]) -> list[int]:
    """Indices of sampled queries: queries are sorted by expected cost, and one in twenty is drawn."""

    def expected(place: int) -> float:
        query = queries[place]
        slides = query.sliding.size / query.sliding.slide
        return query.k * (1 + math.log(slides)) / query.sliding.slide

    ordered, random = sorted(range(len(queries)), key=expected), np.random.default_rng(SEED)
    every = len(queries) // SAMPLE
    return [ordered[low + int(random.integers(every))] for low in range(0, SAMPLE * every, every)]


@cache
def measure(kind: Kind, name: str, count: int, cap: float, most_rounds: int) -> Cell:
    """Fill the largest window, then time the same range of objects repeatedly, with copies of the engine."""
    queries = queries_of(kind, count)
    alone = name == ALONE
    compiled("mintopk" if alone else name)
    if alone:
        chosen = sample_of(queries) if count > 2 * SAMPLE else list(range(count))
        group = Group([ENGINES["mintopk"]([queries[i]]) for i in chosen], [1] * len(chosen), kind.stream)
    else:
        group = Group([ENGINES[name](queries)], [count], kind.stream)
    fill = kind.sizes[1]
    filling, _ = group.take(0, fill, NEVER)
    # A range as long as the largest window, or a tenth of it if that exceeds the time limit of a cell.
    stretch = fill if filling <= cap else fill // 10
    many = count / len(group.engines) if alone else 1.0
    silent: list[float] = []
    written: list[float] = []
    each: list[list[float]] = []
    rows = 0
    for found, first in ((silent, NEVER), (written, 0)):
        while len(found) < most_rounds and (len(found) < 2 or sum(found) * stretch / many < cap):
            again, spent = group.copies(), [0.0] * len(group.engines)
            seconds, rows = again.take(fill, fill + stretch, first, spent)
            found.append(seconds * many / stretch)
            each.append(spent)
    held = [engine.candidates for engine in group.engines]
    counters = [engine.counters() for engine in group.engines]
    error = 0.0
    if many > 1:
        # The sample is sorted by expected cost, so differences between neighbours estimate the remaining variance.
        steps = np.diff(each[0])
        error = math.sqrt(float((steps**2).mean()) / 2 / len(each[0])) / statistics.fmean(each[0])
    return Cell(
        kind.name,
        name,
        count,
        Timing(silent),
        Timing(written),
        rows * many / stretch,
        sum(held) * many,
        sum(c.get("references", n) for c, n in zip(counters, held, strict=True)) * many,
        sum(c.get("views", 0) for c in counters) * many,
        sum(state_bytes(engine.state()) for engine in group.engines) * many,
        sum(map(memory_of, group.engines)) * many,
        stretch,
        len(group.engines),
        error,
    )


def check_answers(kinds: Sequence[Kind]) -> int:
    """Check that all engines return equal answers; return the number of rows compared."""
    rows = 0
    for kind in kinds:
        queries = queries_of(kind.shorter(1000 if kind in GRID else 100), 60)
        tables = {
            name: sb.replay(queries, None, workloads.uniform(3000), algorithm=name) for name in (*SHARED, "mintopk")
        }
        for name, table in tables.items():
            if not table.equals(tables["mintopk"]):
                raise AssertionError(f"{name} answers otherwise than mintopk, each query alone: {kind.title}")
        rows += tables["mintopk"].num_rows
    return rows


START = """
import json, sys, time
wall, cpu = time.perf_counter(), time.thread_time()
import numpy as np
import skyband as sb
asked, scores = json.load(open(sys.argv[1])), np.load(sys.argv[2])
objects, step = map(int, sys.argv[3:5])
loaded_wall, loaded_cpu = time.perf_counter(), time.thread_time()
queries = [sb.TopK(name=f"q{i}", k=k, size=size, slide=slide) for i, (k, size, slide) in enumerate(asked)]
monitor = sb.Monitor(sb.Workload(queries))
monitor.push(None, scores[:objects])
started_wall, started_cpu = time.perf_counter(), time.thread_time()
rows = monitor.answers().num_rows
begin, rows, ran = time.thread_time(), 0, 0
for at in range(objects, scores.size, step):
    monitor.push(None, scores[at : at + step])
    rows += monitor.answers().num_rows
spent = time.thread_time() - begin
ran = scores.size - objects
print(json.dumps({
    "wall": started_wall - loaded_wall, "cpu": started_cpu - loaded_cpu, "import": loaded_wall - wall,
    "ns": 1e9 * spent / ran, "rows": rows / ran, "ran": ran, "candidates": monitor.candidates,
    "algorithm": monitor.algorithm,
}))
"""


def in_fresh_process(kind: Kind, count: int, objects: int, more: int, step: int) -> dict[str, Any]:
    """Queries, Workload, Monitor and the first push in a new process, then `more` objects with their tables."""
    asked = [(query.k, query.sliding.size, query.sliding.slide) for query in queries_of(kind, count)]
    with tempfile.TemporaryDirectory() as folder:
        workload, scores = os.path.join(folder, "queries.json"), os.path.join(folder, "scores.npy")
        with open(workload, "w", encoding="utf-8") as file:
            json.dump(asked, file)
        np.save(scores, workloads.uniform(2 * MILLION)[: objects + more])
        done = subprocess.run(
            [sys.executable, "-c", START, workload, scores, str(objects), str(step)],
            capture_output=True,
            text=True,
            check=True,
        )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


class Run:
    """One run of the benchmark: time limit of a cell, number of rounds, and whether windows are short."""

    def __init__(self, *, quick: bool, cap: float) -> None:
        self.quick = quick
        self.cap = 0.5 if quick else cap
        self.rounds = 2 if quick else 4
        self.left_out = COUNTS[-1] if quick else None  # mtopband takes too long with this many queries
        self.began = time.perf_counter()

    def kind(self, kind: Kind) -> Kind:
        return kind.shorter(10) if self.quick else kind

    def cell(self, kind: Kind, engine: str, count: int) -> Cell:
        return measure(self.kind(kind), engine, count, self.cap, self.rounds)

    def say(self, text: str) -> None:
        print(f"  {time.perf_counter() - self.began:5.0f} s  {text}", flush=True)

    def grid(self, kind: Kind) -> Iterator[Cell]:
        """Every engine with every number of queries."""
        for count in COUNTS:
            for engine in (*SHARED, ALONE):
                if (engine, count) == ("mtopband", self.left_out):
                    continue
                cell = self.cell(kind, engine, count)
                times = f"{cell.ns(written=False):,.1f} ns, with answers {cell.ns(written=True):,.1f} ns"
                self.say(f"{kind.name:7} {count:>5} {engine:20} {times}")
                yield cell

    def speedups(self) -> list[Ratio]:
        """Shared against independent, nothing written and everything written."""
        found = []
        for kind, targets in (
            (GRID[0], (200, 40)),
            (GRID[3], (10, None)),
            (GRID[1], (None,) * 2),
            (GRID[2], (None,) * 2),
        ):
            alone = self.cell(kind, ALONE, 1000)
            for target, written in zip(targets, (False, True), strict=True):
                for engine in ("mtoplist", "panes"):
                    cell = self.cell(kind, engine, 1000)
                    times = alone.ns(written=written) / cell.ns(written=written)
                    spread = (cell.written if written else cell.silent).spread
                    found.append(
                        Ratio(
                            f"1000 queries, {_short(kind)}, {_what(written)}: {engine} against 1000 runs of mintopk",
                            f"{target}×" if target and engine == "mtoplist" else "-",
                            f"{report.amount(times)}× ({report.amount(cell.ns(written=written))} ns against "
                            f"{report.amount(alone.ns(written=written))} ns per object; spread {spread:.0%}, "
                            f"sampling error {alone.error:.1%})",
                            times >= target if target and engine == "mtoplist" else None,
                        )
                    )
        return found

    def rates(self) -> list[Ratio]:
        """Objects per second: with all answers written, and maintenance only with a common slide."""
        found = []
        for kind in (GRID[0], GRID[3]):
            for engine in ("panes", "mtoplist"):
                cell = self.cell(kind, engine, 1000)
                rate = 1e3 / cell.ns(written=True)
                promised = engine == "panes"
                found.append(
                    Ratio(
                        f"1000 queries, {_short(kind)}, {_what(True)}: {engine}",
                        "1M objects/s" if promised else "-",
                        f"{rate:.3g}M objects/s ({cell.rows:.1f} rows per object, "
                        f"{rate * cell.rows:,.0f}M rows/s; spread {cell.written.spread:.0%})",
                        rate >= 1 if promised else None,
                    )
                )
        for kind in COMMON:
            for engine in ("panes", "mtoplist"):
                cell = self.cell(kind, engine, 1000)
                self.say(f"{kind.name} 1000 {engine} {cell.ns(written=False):,.1f} ns")
                rate = 1e3 / cell.ns(written=False)
                promised = engine == "panes"
                found.append(
                    Ratio(
                        f"1000 queries, {kind.title}, maintained: {engine}",
                        "10M objects/s" if promised else "-",
                        f"{rate:.3g}M objects/s ({report.amount(1e3 / rate)} ns per object, with answers "
                        f"{report.amount(cell.ns(written=True))} ns; spread {cell.silent.spread:.0%}; "
                        f"{cell.held:,.0f} objects held)",
                        rate >= 10 if promised else None,
                    )
                )
        return found

    def memory(self) -> list[Ratio]:
        """State against independent runs, and its growth with the number of queries."""
        found = []
        for kind in GRID:
            alone = self.cell(kind, ALONE, 1000)
            for engine in ("mtoplist", "panes"):
                cell = self.cell(kind, engine, 1000)
                less, all_less = alone.state / cell.state, alone.memory / cell.memory
                found.append(
                    Ratio(
                        f"1000 queries, {_short(kind)}: state of {engine} is smaller than that of 1000 runs of mintopk",
                        "100×",
                        f"{less:,.0f}× ({report.bytes_text(round(cell.state))} against "
                        f"{report.bytes_text(round(alone.state))}); all arrays {all_less:,.0f}× "
                        f"({report.bytes_text(round(cell.memory))} against {report.bytes_text(round(alone.memory))})",
                        less >= 100,
                    )
                )
        for engine in ("mtoplist", "panes"):
            few, many = (self.cell(GRID[0], engine, count) for count in (10, 1000))
            growth = many.state / few.state
            found.append(
                Ratio(
                    f"arbitrary k: state of {engine} at 1000 queries against 10",
                    "at most 2.5×",
                    f"{growth:.2f}× ({report.bytes_text(round(few.state))} to {report.bytes_text(round(many.state))}; "
                    f"objects held {many.held / few.held:.2f}×; all arrays {many.memory / few.memory:.2f}×)",
                    growth <= 2.5,
                )
            )
        return found

    def against_band(self) -> list[Ratio]:
        """MTopList against MTopBand everywhere on the grid."""
        found = []
        for written in (False, True):
            ratios = [
                (
                    self.cell(kind, "mtopband", count).ns(written=written)
                    / self.cell(kind, "mtoplist", count).ns(written=written),
                    f"{_short(kind)}, {count} queries",
                )
                for kind in GRID
                for count in COUNTS
                if count != self.left_out
            ]
            least, most = min(ratios), max(ratios)
            below = [f"{where} {ratio:.2f}×" for ratio, where in ratios if ratio < 1]
            found.append(
                Ratio(
                    f"mtoplist is faster than mtopband everywhere on the grid, {_what(written)}",
                    "1×",
                    f"{least[0]:.2f}× at the least ({least[1]}), {most[0]:.1f}× at the most ({most[1]})"
                    + (f"; below 1 at {len(below)} of {len(ratios)}: {', '.join(below)}" if below else ""),
                    least[0] >= 1,
                )
            )
        return found

    def public(self) -> list[Ratio]:
        """Through the public API in fresh processes: ten thousand queries, and a thousand."""
        kind = self.kind(GRID[3])
        objects = kind.sizes[1] // 10
        many, more = (1000, objects) if self.quick else (10_000, 11 * objects)
        start = in_fresh_process(kind, many, objects, more, objects // 5)
        self.say(f"{many} queries start in {start['wall']:.2f} s")
        thousand = in_fresh_process(kind, 1000, kind.sizes[1], objects if self.quick else kind.sizes[1], objects)
        rate = 1e3 / thousand["ns"]
        return [
            Ratio(
                f"{many:,} queries, all arbitrary: queries, Workload, Monitor and a first push of "
                f"{report.short(objects)} objects in a fresh process, kernels on disk",
                "under 5 s",
                f"{start['wall']:.2f} s ({start['cpu']:.2f} s CPU; the import before it {start['import']:.2f} s)",
                start["wall"] < 5,
            ),
            Ratio(
                f"the same continued, pushes of {report.short(objects // 5)} objects, the Arrow table of each fetched",
                "runs",
                f"{1e3 / start['ns']:.2g}M objects/s over {start['ran']:,} objects ({start['rows']:.0f} rows each, "
                f"{1e3 * start['rows'] / start['ns']:,.0f}M rows/s); {start['candidates']:,} objects held; "
                f"algorithm {start['algorithm']}",
                True,
            ),
            Ratio(
                f"1000 queries, all arbitrary, public API with Arrow tables, pushes of {report.short(objects)} objects",
                "-",
                f"{rate:.3g}M objects/s ({thousand['rows']:.1f} rows each, {rate * thousand['rows']:,.0f}M rows/s)",
                None,
            ),
        ]


def _short(kind: Kind) -> str:
    return kind.title.split(" (")[0]


def _what(written: bool) -> str:
    return "every answer written" if written else "nothing written"


def plot(kind: Kind, cells: Sequence[Cell]) -> None:
    """Time, objects and bytes against the number of queries, as in the paper's figures."""
    figure, axes = pyplot.subplots(1, 3, figsize=(13, 4), layout="constrained")
    for axis, title in zip(
        axes, ("CPU time, ns per object", "objects and references held", "state, bytes"), strict=True
    ):
        for i, engine in enumerate((*SHARED, ALONE)):
            mine = [cell for cell in cells if cell.engine == engine]
            counts, look = [cell.queries for cell in mine], {"marker": "o", "color": f"C{i}"}
            if axis is axes[0]:
                axis.loglog(counts, [cell.ns(written=False) for cell in mine], "-", label=engine, **look)
                axis.loglog(counts, [cell.ns(written=True) for cell in mine], ":", **look)
            elif axis is axes[1]:
                axis.loglog(counts, [cell.references for cell in mine], "-", **look)
            else:
                axis.loglog(counts, [cell.state for cell in mine], "-", **look)
        axis.set_xlabel("queries")
        axis.set_title(title, fontsize=10)
        axis.grid(alpha=0.3)
    axes[0].set_title("CPU time, ns per object (dotted: every answer written)", fontsize=10)
    axes[1].set_title("references held (an object counts once for each set it is in)", fontsize=10)
    axes[0].legend(fontsize=8)
    figure.suptitle(kind.title, fontsize=10)
    report.IMAGES.mkdir(parents=True, exist_ok=True)
    figure.savefig(report.IMAGES / f"shared-{kind.name}.png", dpi=110, metadata={"Software": None})
    pyplot.close(figure)


def run(*, quick: bool = False, cap: float = 6.0) -> None:
    """Measure the grid, then the ratios."""
    write, this = not quick, Run(quick=quick, cap=cap)
    where = report.machine()
    print(where)
    this.say(f"all engines agree on {check_answers((*GRID, *COMMON)):,} rows")
    if write:
        report.into_page("shared-machine", where, page=PAGE)
    for kind in GRID:
        cells = list(this.grid(kind))
        title = kind.title + (", all lengths a tenth of that" if quick else "")
        report.show(f"shared-{kind.name}", title, HEADS, [cell.row() for cell in cells], write=write, page=PAGE)
        if write:
            plot(kind, cells)
    ratios = [*this.speedups(), *this.rates(), *this.memory(), *this.against_band(), *this.public()]
    heads = ("", "target", "measured", "met")
    report.show("shared-ratios", "Targets and results", heads, [r.row() for r in ratios], write=write, page=PAGE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="all lengths a tenth, a minute in all, nothing written")
    parser.add_argument("--cap", type=float, default=6.0, help="the most seconds for the rounds of a cell")
    asked = parser.parse_args()
    run(quick=asked.quick, cap=asked.cap)


if __name__ == "__main__":
    main()
