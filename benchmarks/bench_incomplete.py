"""The experiments of the paper on incomplete streams: state (figures 4 and 5), and precision of the approximation.

Skyline sizes under standard and interval dominance; items held by sorted lists (SLA), early aggregation (EAA) and the
approximate methods over window size, correlation, streams and k, on generated and on real streams; tuples per second;
state without a ledger, and state and time of queries that share instances.

python -m benchmarks incomplete [--quick]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import report, workloads
from benchmarks.incomplete_bound import least_held
from benchmarks.instance_bound import least_instances
from benchmarks.report import Ratio
from benchmarks.workloads import Reports
from skyband import IncompleteTopK, incomplete
from skyband.incomplete.measures import precision, relative_error
from skyband.incomplete.query import Method

matplotlib.use("Agg")
from matplotlib import pyplot

PAGE = report.REPORTS / "incomplete.md"
SLA: Method = "sorted-lists"
EAA: Method = "exact"
LIKELY: Method = "approximate"
PUBLISHED: Method = "expected-scores"
METHODS = (SLA, EAA, LIKELY, PUBLISHED)
EVALUATIONS = 50
K, W, D, RHO = 10, 1_000, 3, 0.5
SIZES: Sequence[int] = (500, 750, 1_000, 1_250, 1_500, 1_750, 2_000)
RHOS: Sequence[float] = (0.1, 0.3, 0.5, 0.7, 0.9)
STREAMS: Sequence[int] = (2, 3, 4, 5, 6, 7, 8)
KS: Sequence[int] = (10, 20, 50, 100)
REAL_K = 20
SKYLINES = 100  # rounds of the experiment with skylines
POINTS = (1_000, 2_500, 5_000, 7_500, 10_000)
INTERVALS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
OTHER_SEEDS = range(301, 309)  # streams on which nothing was chosen
AIM, SHARE = 0.95, 0.25  # precision, and items relative to EAA
BOUND_TUPLES = 1_600_000  # of the streams for which the least possible number of items is computed
FINER = 10  # classes of times, where methods that know them better are covered, too
FAST_W, FAST_K, FAST_EVERY = 100_000, 20, 1_000
SHARED_W = 20_000


class Figures(NamedTuple):
    """Results at one point of a table, averaged over all evaluations."""

    varied: str
    items: dict[str, float]  # by method
    precision: dict[str, float]
    error: float  # of the approximate method
    sketch_bytes: int

    @property
    def less(self) -> float:
        """Items held by the approximate method, relative to EAA."""
        return self.items[LIKELY] / self.items[EAA]

    def row(self) -> list[str]:
        return [
            self.varied,
            *(f"{self.items[method]:,.0f}" for method in METHODS),
            f"{self.less:.2f}×",
            f"{self.items[PUBLISHED] / self.items[EAA]:.2f}×",
            f"{self.precision[EAA]:.3g}",
            f"{self.precision[LIKELY]:.3f}",
            f"{self.precision[PUBLISHED]:.3f}",
            f"{self.error:.4f}",
        ]


HEADS = (
    "",
    "SLA",
    "EAA",
    "approximate",
    "published",
    "approximate / EAA",
    "published / EAA",
    "precision, EAA",
    "precision, approximate",
    "precision, published",
    "relative error, approximate",
)


def evaluate(varied: str, reports: Reports, size: int, k: int, evaluations: int = EVALUATIONS) -> Figures:
    """Run all methods over the same tuples and evaluate them several times, after two full windows."""
    step = min(size // 2, (reports.objects.size - 2 * size) // evaluations)
    queries = [
        IncompleteTopK(
            name=method, k=k, size=size, every=1, streams=reports.names, occurrences=reports.occurrences, method=method
        )
        for method in METHODS
    ]
    monitor = incomplete.Monitor(queries)
    held: list[list[int]] = []
    answers: list[pa.Table] = []
    seen = 0
    for look in range(evaluations):
        part = slice(seen, 2 * size + look * step)
        monitor.push(None, reports.objects[part], reports.streams[part], reports.values[part])
        seen = part.stop
        newest = monitor.answers()
        answers.append(newest.filter(pc.equal(newest["time"], seen)))
        per_query = monitor.metrics()["queries"]
        held.append([per_query[method]["items"] for method in METHODS])
    if monitor.metrics()["over_limit"]:
        raise AssertionError(f"{varied}: tuples were dropped, so the methods processed different windows")
    table = pa.concat_tables(answers)
    by_method = {method: _answers_of(table, method) for method in METHODS}
    return Figures(
        varied,
        dict(zip(METHODS, np.mean(held, axis=0).tolist(), strict=True)),
        {method: precision(by_method[SLA], by_method[method]) for method in METHODS},
        relative_error(by_method[SLA], by_method[LIKELY]),
        per_query[LIKELY]["sketch_bytes"],
    )


def _answers_of(table: pa.Table, method: str) -> pa.Table:
    """Answers of one method, under a common query name."""
    mine = table.filter(pc.equal(table["query"], method))
    return mine.set_column(mine.column_names.index("query"), "query", pa.repeat("q", mine.num_rows))


def synthetic(size: int, d: int, rho: float, evaluations: int = EVALUATIONS, seed: int = workloads.SEED) -> Reports:
    return workloads.correlated((2 + evaluations // 2) * size, d, rho, seed)


class Grid(NamedTuple):
    """One table: the varied parameter, and the results at each value."""

    name: str
    title: str
    figures: list[Figures]

    def show(self, write: bool) -> None:
        rows = [figures.row() for figures in self.figures]
        report.show(self.name, self.title, HEADS, rows, write=write, page=PAGE)


def synthetic_grids(quick: bool) -> list[Grid]:
    """The paper's figure 5 and its tables 1 and 2."""
    looks = 10 if quick else EVALUATIONS
    some = slice(None, None, 4) if quick else slice(None)  # the first and one more
    sizes, rhos, streams, ks = SIZES[some], RHOS[some], STREAMS[some], KS[some]
    return [
        Grid(
            "incomplete-window",
            f"Items over the window size W: 2 streams, k = {K}, ρ = {RHO} (figure 5 a, b)",
            [evaluate(f"W {size:,}", synthetic(size, 2, RHO, looks), size, K, looks) for size in sizes],
        ),
        *(
            Grid(
                f"incomplete-rho-{size}",
                f"Items over the correlation ρ: W = {size:,}, 2 streams, k = {K} (figure 5 c, d)",
                [evaluate(f"ρ {rho}", synthetic(size, 2, rho, looks), size, K, looks) for rho in rhos],
            )
            for size in (500, 1_000)
        ),
        Grid(
            "incomplete-streams",
            f"Items over the number of streams: W = {W:,}, k = {K}, ρ = {RHO} (table 1)",
            [evaluate(f"{d} streams", synthetic(W, d, RHO, looks), W, K, looks) for d in streams],
        ),
        Grid(
            "incomplete-k",
            f"Items over k: W = {W:,}, {D} streams, ρ = {RHO} (table 2)",
            [evaluate(f"k {k}", synthetic(W, D, RHO, looks), W, k, looks) for k in ks],
        ),
    ]


def real_grids(quick: bool) -> list[Grid]:
    """The paper's tables 3 and 4, on a network log and on flights; skipped if the data is missing."""
    missing = workloads.missing("netlog_zeek_2018", "flights_nyc_2013")
    if missing:
        print(f"  skipped tables 3 and 4: no {', '.join(missing)} in {workloads.DATA}; set SKYBAND_TEST_DATA")
        return []
    looks = 10 if quick else EVALUATIONS
    sizes = (500, 1_000) if quick else (500, 1_000, 1_500, 2_000)
    by_streams = [(f"log, {d} streams", workloads.netlog(d), 500) for d in ((2,) if quick else (2, 3, 4, 5))]
    by_streams.append(("flights, 3 airports", workloads.flights(), 500))
    by_size = [
        (f"{name}, W {size:,}", reports, size)
        for name, reports in (("log, 2 streams", workloads.netlog(2)), ("flights", workloads.flights()))
        for size in sizes
    ]
    again = [
        (f"flights, up to {reports.occurrences} times, W {size:,}", reports, size)
        for size, reports in ((size, workloads.flights_again(size)) for size in sizes[:2])
    ]
    return [
        Grid(name, title, [evaluate(varied, reports, size, REAL_K, looks) for varied, reports, size in places])
        for name, title, places in (
            ("incomplete-real-streams", f"Real streams, W = 500, k = {REAL_K} (table 3)", by_streams),
            ("incomplete-real-window", f"Real streams over the window size, k = {REAL_K} (table 4)", by_size),
            ("incomplete-real-again", f"Planes that leave an airport several times, k = {REAL_K}", again),
        )
    ]


def other_seeds(quick: bool, write: bool) -> list[Ratio]:
    """State and answers of the approximate method at W = 1,000, on streams that were not used to choose its price."""
    looks, seeds = (10, OTHER_SEEDS[:2]) if quick else (EVALUATIONS, OTHER_SEEDS)
    places = [(2, 0.5), (3, 0.5)] if quick else [*((2, rho) for rho in RHOS), *((d, RHO) for d in (3, 4, 5, 8))]
    rows: list[list[str]] = []
    two: list[Figures] = []
    for d, rho in places:
        found = [evaluate(f"seed {s}", synthetic(W, d, rho, looks, s), W, K, looks) for s in seeds]
        two += found if d == 2 else []
        less, precise = [one.less for one in found], [one.precision[LIKELY] for one in found]
        rows.append(
            [
                f"{d} streams, ρ {rho}",
                f"{np.mean(less):.2f}×",
                _range(less, "×"),
                f"{np.mean(precise):.2f}",
                _range(precise),
            ]
        )
    heads = ("", "against EAA, mean", "lowest to highest", "precision, mean", "lowest to highest")
    title = f"W = {W:,}, k = {K}: streams of {len(seeds)} other seeds"
    report.show("incomplete-seeds", title, heads, rows, write=write, page=PAGE)
    return _bargain(f"the same, streams of {len(seeds)} other seeds", two, 0.85)


def bounds(quick: bool, write: bool) -> list[Ratio]:
    """The aim over two to five streams, and the least number of items that any method needs for it."""
    looks, seeds = (10, OTHER_SEEDS[:1]) if quick else (EVALUATIONS, OTHER_SEEDS[:4])
    places = [(W, K, d, RHO) for d in ((3,) if quick else (2, 3, 4, 5))] + [(500, 20, 4, 0.2)]
    rows, ratios = [], []
    for size, k, d, rho in places:
        found = [evaluate(f"seed {s}", synthetic(size, d, rho, looks, s), size, k, looks) for s in seeds]
        exact = float(np.mean([one.items[EAA] for one in found]))
        less = float(np.mean([one.less for one in found]))
        precise = float(np.mean([one.precision[LIKELY] for one in found]))
        reports = workloads.correlated(BOUND_TUPLES // (10 if quick else 1), d, rho, OTHER_SEEDS[0])
        by_object = least_held(reports, size, k, precision=AIM) / exact
        least = [
            least_instances(reports, size, k, precision=aim, resolution=resolution) / exact
            for aim, resolution in ((AIM, 4), (AIM, FINER), (precise, 4))
        ]
        name = f"{d} streams, ρ {rho}, W {size:,}, k {k}"
        cells = [by_object, *least, less]
        rows.append([name, *(f"{cell:.2f}×" for cell in cells), f"{precise:.3f}"])
        met = round(precise, 2) >= AIM and round(less, 2) <= SHARE
        text = f"{less:.2f}×, {precise:.2f}; at least {min(least[:2]):.2f}× is needed"
        ratios.append(Ratio(f"approximate, {name}", f"{SHARE}×, precision {AIM}", text, met))
    heads = ("", f"objects for {AIM}", f"instances for {AIM}", "the same, times in finer classes",
             "for the precision of approximate", "approximate", "its precision")  # fmt: skip
    title = f"Items relative to EAA: the bound of any method, and approximate on streams of {len(seeds)} other seeds"
    report.show("incomplete-bounds", title, heads, rows, write=write, page=PAGE)
    return ratios


class Skylines(NamedTuple):
    """Mean sizes of the skyline under both kinds of dominance."""

    points: int
    interval: float
    standard: float
    intervals: float


def skylines(points: int, interval: float, rounds: int) -> Skylines:
    """Count the points that no other dominates, if the best score of each is higher than its score by `interval`."""
    draw = np.random.default_rng(points)
    sizes = []
    for _ in range(rounds):
        current = draw.random(points)
        # The best score among later points: no later point dominates a point above it.
        later = np.append(np.maximum.accumulate(current[::-1])[::-1][1:], -1.0)
        sizes.append([(current >= later).sum(), (np.minimum(current + interval, 1.0) >= later).sum()])
    standard, interval_size = np.mean(sizes, axis=0).tolist()
    return Skylines(points, interval, standard, interval_size)


def figure_4(quick: bool, write: bool) -> tuple[list[Skylines], list[Skylines]]:
    rounds = 10 if quick else SKYLINES
    by_points = [skylines(points, 0.1, rounds) for points in POINTS]
    by_interval = [skylines(5_000, interval, rounds) for interval in INTERVALS]
    rows = [
        [
            f"{found.points:,} points, interval {found.interval}",
            f"{found.standard:.1f}",
            f"{found.intervals:,.0f}",
            f"{found.points * found.interval:,.0f}",
        ]
        for found in (*by_points, *by_interval)
    ]
    heads = ("", "standard dominance", "interval dominance", "Lemma 1: at least")
    title = f"Skyline sizes, mean of {rounds} rounds (figure 4)"
    report.show("incomplete-skyline", title, heads, rows, write=write, page=PAGE)
    return by_points, by_interval


def tuples_a_second(method: Method, quick: bool) -> tuple[float, float]:
    """In all, and items held: arrays pushed in batches of 10,000, the window full, the best of three rounds."""
    size = FAST_W // 10 if quick else FAST_W
    reports = workloads.correlated(5 * size, D, RHO)
    query = IncompleteTopK(k=FAST_K, size=size, every=FAST_EVERY, streams=reports.names, method=method)
    monitor = incomplete.Monitor(query)
    times = []
    for begin in range(0, 5 * size, size):
        started = time.thread_time()
        for at in range(begin, begin + size, 10_000):
            part = slice(at, at + 10_000)
            monitor.push(None, reports.objects[part], reports.streams[part], reports.values[part])
            monitor.answers()
        times.append(time.thread_time() - started)
    return size / min(times[2:]), float(monitor.candidates)


def speed(quick: bool, write: bool) -> dict[str, float]:
    found = {method: tuples_a_second(method, quick) for method in METHODS}
    rows = [[method, f"{rate / 1e3:,.0f}K", f"{items:,.0f}"] for method, (rate, items) in found.items()]
    title = f"W = {report.short(FAST_W)}, {D} streams, k = {FAST_K}, an answer every {FAST_EVERY:,} tuples"
    report.show("incomplete-speed", title, ("method", "tuples/s", "items"), rows, write=write, page=PAGE)
    return {method: rate for method, (rate, _) in found.items()}


class State(NamedTuple):
    """Tuples per second, items and the bytes of a snapshot of some monitors, together."""

    rate: float
    items: int
    size: int


def run_of(monitors: Sequence[incomplete.Monitor], reports: Reports, size: int) -> State:
    """Push five windows to all monitors, and measure the last three."""
    spent = 0.0
    for begin in range(0, 5 * size, size):
        started = time.thread_time()
        for at in range(begin, begin + size, 10_000):
            part = slice(at, min(at + 10_000, begin + size))
            for monitor in monitors:
                monitor.push(None, reports.objects[part], reports.streams[part], reports.values[part])
                monitor.answers()
        spent += time.thread_time() - started if begin >= 2 * size else 0.0
    held = sum(monitor.candidates for monitor in monitors)
    return State(3 * size / spent, held, sum(len(monitor.snapshot()) for monitor in monitors))


def sharing(quick: bool, write: bool) -> list[Ratio]:
    """Streams that report an object once: the state without a ledger, and queries that share instances."""
    size = SHARED_W // 2 if quick else SHARED_W
    reports = workloads.correlated(5 * size, D, RHO)

    def query(number: int, **different: Any) -> IncompleteTopK:
        fields = {"k": FAST_K, "size": size, "every": FAST_EVERY, "streams": reports.names, "occurrences": "once"}
        return IncompleteTopK(**{**fields, "name": f"q{number}", **different})

    by_k = [query(number, k=5 * (number + 1)) for number in range(8)]
    by_window = [
        query(number, size=size * (5 - number % 4) // 5, every=FAST_EVERY * (1 + number % 2)) for number in range(8)
    ]
    checked = run_of([incomplete.Monitor(query(0, occurrences=1))], reports, size)
    once = run_of([incomplete.Monitor(query(0))], reports, size)
    cases = [("checked, one query", checked), ("once, one query", once)]
    found = []
    for name, queries in (("k from 5 to 40", by_k), ("four sizes, two intervals", by_window)):
        alone = run_of([incomplete.Monitor(one) for one in queries], reports, size)
        together = run_of([incomplete.Monitor(queries)], reports, size)
        cases += [(f"8 queries, {name}, alone", alone), (f"8 queries, {name}, shared", together)]
        speed, less = together.rate / alone.rate, together.size / alone.size
        found.append(Ratio(f"8 queries that share instances, {name}: time", "faster", f"{speed:.1f}×", speed > 1))
        found.append(Ratio(f"their state, {name}", "at most 0.5×", f"{less:.2f}×", less <= 0.5))
    rows = [[name, f"{one.rate / 1e3:,.0f}K", f"{one.items:,}", f"{one.size / 1e6:.2f} MB"] for name, one in cases]
    title = (
        f'W = {report.short(size)}, {D} streams, occurrences="once" unless checked, answers every {FAST_EVERY:,} tuples'
    )
    heads = ("", "tuples/s", "items", "snapshot")
    report.show("incomplete-sharing", title, heads, rows, write=write, page=PAGE)
    less = once.size / checked.size
    return [
        Ratio('state with occurrences="once" against a checked limit', "", f"{less:.2f}×", None),
        *found,
    ]


def ratios(grids: Sequence[Grid], others: Sequence[Ratio], rates: dict[str, float], quick: bool) -> list[Ratio]:
    named = {grid.name.removeprefix("incomplete-"): grid.figures for grid in grids}
    everything = [figures for grid in grids for figures in grid.figures]
    most = max(figures.items[EAA] / figures.items[SLA] for figures in everything)
    exact = min(figures.precision[EAA] for figures in everything)
    found = [
        Ratio("EAA holds no more than SLA", "everywhere", f"at most {most:.2f}×", most <= 1),
        Ratio("EAA answers as SLA", "precision 1", f"{exact:.3g}", exact == 1),
        *_bargain(f"W = {W:,}, 2 streams, ρ from 0.1 to 0.9", named[f"rho-{W}"], 0.85),
        *others,
        *_bargain(f"W = {W:,}, 2 to 8 streams, ρ = {RHO}", named["streams"], 0.85),
    ]
    if "real-window" in named:
        at_1000 = [figures for figures in named["real-window"] if figures.varied.endswith(f"W {W:,}")]
        found += _bargain(f"W = {W:,}, real streams", at_1000, 0.95)
        found += _bargain("all places with real streams", [*named["real-streams"], *named["real-window"]], None)
        found += _bargain("the same, planes several times", named["real-again"], None)
    if not quick:
        speed = f"EAA at W = {report.short(FAST_W)}, an answer every {FAST_EVERY:,} tuples"
        fast = rates[EAA] >= 300_000
        found.append(Ratio(speed, "at least 300K tuples/s", f"{rates[EAA] / 1e3:,.0f}K", fast))
    return found


def _bargain(where: str, found: Sequence[Figures], least: float | None) -> list[Ratio]:
    """Memory saved by the approximate method, and its cost."""
    less = [round(figures.less, 2) for figures in found]
    precise = [round(figures.precision[LIKELY], 2) for figures in found]
    promised = least is not None
    return [
        Ratio(
            f"approximate against EAA, items: {where}",
            "at most 0.25×" if promised else "",
            _range(less, "×"),
            max(less) <= 0.25 if promised else None,
        ),
        Ratio(
            f"its precision: {where}",
            f"at least {least}" if promised else "",
            _range(precise),
            None if least is None else min(precise) >= least,
        ),
    ]


def _range(values: Sequence[float], unit: str = "") -> str:
    return f"{min(values):.2f}{unit} to {max(values):.2f}{unit}"


def plot(by_points: Sequence[Skylines], by_interval: Sequence[Skylines], grids: Sequence[Grid]) -> None:
    """The paper's figures 4 and 5."""
    figure, axes = pyplot.subplots(2, 3, figsize=(12, 7), layout="constrained")
    for axis, found, across, called in (
        (axes[0][0], by_points, [one.points for one in by_points], "points"),
        (axes[0][1], by_interval, [one.interval for one in by_interval], "interval"),
    ):
        axis.plot(across, [one.standard for one in found], marker=".", label="standard dominance")
        axis.plot(across, [one.intervals for one in found], marker=".", label="interval dominance")
        _label(axis, f"skyline over {called}", called)
    named = {grid.name: grid.figures for grid in grids}
    _items(axes[0][2], "items over the window, 2 streams", "W", SIZES, named["incomplete-window"])
    _precisions(axes[1][0], "precision over the window", "W", {"": (SIZES, named["incomplete-window"])})
    _items(axes[1][1], "items over ρ, W = 1,000", "ρ", RHOS, named["incomplete-rho-1000"])
    both = {f", W = {size:,}": (RHOS, named[f"incomplete-rho-{size}"]) for size in (500, 1_000)}
    _precisions(axes[1][2], "precision over ρ", "ρ", both)
    report.IMAGES.mkdir(parents=True, exist_ok=True)
    figure.savefig(report.IMAGES / "performance-incomplete.png", dpi=100, metadata={"Software": None})
    pyplot.close(figure)


def _items(axis: Any, title: str, called: str, across: Sequence[float], found: Sequence[Figures]) -> None:
    for method, name in zip(METHODS, ("SLA", "EAA", "approximate", "published"), strict=True):
        axis.plot(across, [figures.items[method] for figures in found], marker=".", label=name)
    _label(axis, title, called)


def _precisions(
    axis: Any, title: str, called: str, lines: Mapping[str, tuple[Sequence[float], Sequence[Figures]]]
) -> None:
    for name, (across, found) in lines.items():
        axis.plot(across, [f.precision[LIKELY] for f in found], marker=".", label=f"approximate{name}")
    axis.axhline(1.0, color="grey", linewidth=1, label="EAA, SLA")
    axis.set_ylim(0, 1.05)
    _label(axis, title, called)


def _label(axis: Any, title: str, called: str) -> None:
    axis.set_title(title, fontsize=9)
    axis.set_xlabel(called, fontsize=8)
    axis.legend(fontsize=7)
    axis.grid(alpha=0.3)


def run(*, quick: bool = False) -> None:
    """Run this benchmark."""
    write = not quick
    if write:
        report.into_page("incomplete-machine", report.machine(), page=PAGE)
    by_points, by_interval = figure_4(quick, write)
    grids = [*synthetic_grids(quick), *real_grids(quick)]
    for grid in grids:
        grid.show(write)
    rates = speed(quick, write)
    others = [*other_seeds(quick, write), *bounds(quick, write), *sharing(quick, write)]
    promised = [ratio.row() for ratio in ratios(grids, others, rates, quick)]
    heads = ("what", "target", "measured", "met")
    report.show("incomplete-ratios", "Targets and results", heads, promised, write=write, page=PAGE)
    if write:
        plot(by_points, by_interval, grids)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer points and evaluations, nothing written")
    run(quick=parser.parse_args().quick)


if __name__ == "__main__":
    main()
