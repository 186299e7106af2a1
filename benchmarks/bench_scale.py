"""How far the pipeline scales: a cost model fitted to the real stations, and its predictions.

python -m benchmarks scale [--quick]

1. A simulated cluster runs the real reducer, combiners, shards and merge for N tasks. CPU times of single tasks are
   fitted to counts.
2. The model predicts larger clusters, up to 10,000 tasks, and the simulator runs them.
3. Micro-batches on Spark on this machine are measured. Spark's constants are fitted to some of them, and the model
   predicts the others.
4. The model says at which rate each station takes as long as the micro-batch.
5. The one shard of an uncertain query is measured with a full window, in the simulator and on Spark.
"""

from __future__ import annotations

import itertools
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from math import inf, isqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import skyband as sb
from benchmarks import report
from benchmarks.cost_model import Line, distinct_keys, fitted, kept_rows, limit
from benchmarks.simulated_cluster import SimulatedCluster, Step
from skyband.spark import answers, session
from skyband.spark.combiners import COMBINERS
from skyband.topk.warmup import warm_up
from skyband.uncertain.retention import needed_mean, negligible_for

PAGE = report.REPORTS / "scale.md"
SECOND = 1_000_000
BUDGET = 1.0  # seconds of a micro-batch, and of event time in it
BUSY = 0.5  # the share of a micro-batch in which a task works
SHARD = ("fixed", "envelope", "row", "held row", "query")


class Case(NamedTuple):
    """A workload on a cluster."""

    queries: list[Any]
    tasks: int
    rows: int  # of a task, in each micro-batch
    combiners: int = 0
    groups: int = 1000
    shards: int = 1
    steps: int = 3


class Measured(NamedTuple):
    """The last micro-batch of a case: all constants of a line refer to its counts."""

    case: Case
    step: Step

    @property
    def counts(self) -> dict[str, float]:
        step = self.step
        keys = distinct_keys(self.case.steps * self.case.tasks * self.case.rows, self.case.groups) / self.case.shards
        found = {"envelope": step.received, "row": step.received_rows, "held row": step.held}
        return {**found, "query": len(self.case.queries), "key": keys}

    @property
    def shard(self) -> float:
        return max(self.step.shard_seconds)


def top(k: int = 10, **more: Any) -> sb.TopK:
    return sb.TopK(**{"name": "top", "k": k, "size": "600 seconds", "slide": "60 seconds", "by": "s", **more})


def many(count: int) -> list[sb.TopK]:
    """Queries with sizes of 1 to 20 minutes, slides of at least a minute, and k up to 100."""
    random = np.random.default_rng(count)
    found = []
    for number in range(count):
        size = int(random.integers(2, 41)) * 30
        slide = min(size, max(60, int(size * random.uniform(0.1, 1)) // 30 * 30))
        found.append(
            top(int(random.integers(1, 101)), name=f"q{number}", size=f"{size} seconds", slide=f"{slide} seconds")
        )
    return found


def totals(**more: Any) -> sb.AggregateTopK:
    windows = {"size": "600 seconds", "slide": "1 second"}
    return sb.AggregateTopK(**{"name": "totals", "k": 10, "key": "g", "value": "s", **windows, **more})


def unsure(seconds: int = 60, semantics: Any = "pk-topk") -> sb.UncertainTopK:
    size = f"{seconds} seconds"
    return sb.UncertainTopK(
        name="unsure", k=10, by="s", probability="p", size=size, every="1 second", semantics=semantics
    )


def unsure_depth() -> int:
    """Return how many better tuples are enough to drop one, with the mean probability of `rows_of`."""
    mean = needed_mean(10, negligible_for(unsure()))
    assert mean is not None
    return round(mean / 0.55)


def rows_of(random: np.random.Generator, rows: int, low: int, groups: int, length: int = SECOND) -> pa.Table:
    return pa.table(
        {
            "ts": pa.array(np.sort(random.integers(low, low + length, rows))).cast(pa.timestamp("us", "UTC")),
            "id": random.integers(0, 2**60, rows),
            "g": random.integers(0, groups, rows),
            "s": random.random(rows),
            "p": random.random(rows) * 0.9 + 0.1,
        }
    )


def simulated(case: Case) -> Measured:
    """Run a case; the last of its micro-batches counts."""
    random = np.random.default_rng(1)
    schema = rows_of(random, 1, 0, 1).schema
    cluster = SimulatedCluster(case.queries, schema, shards=case.shards, combiners=case.combiners)
    for number in range(case.steps):
        low = (100_000 + number) * SECOND
        _, step = cluster.step(rows_of(random, case.rows, low, case.groups) for _ in range(case.tasks))
    print(
        f"{case.queries[0].name} × {len(case.queries)}, {case.tasks} tasks of {case.rows}, {case.combiners} combiners: "
        f"{step.received} envelopes, {step.received_rows} rows, {step.held} held, {max(step.shard_seconds):.4f} s",
        flush=True,
    )
    return Measured(case, step)


class Model(NamedTuple):
    """The lines of all stations."""

    task: Line
    combiner: Line
    shard: Line
    totals: Line
    merge: Line
    unsure: Line

    def tasks(self, rate: float) -> float:
        """Return how many tasks read so many rows a second, each busy for half of a micro-batch."""
        fixed, row = self.task.constants
        return max(1.0, rate * BUDGET * row / (BUSY * BUDGET - fixed))

    def top_shard(self, tasks: float, rate: float, *, k: int, combiners: float = 0, queries: int = 1) -> float:
        """Return the seconds of the one shard of a query without groups, in a micro-batch within a pane."""
        senders = combiners or tasks
        rows = senders * kept_rows(rate * BUDGET / senders, k)
        return self.shard.seconds(envelope=senders, row=rows, **{"held row": 11 * k, "query": queries})

    def top_combiner(self, tasks: float, rate: float, *, k: int, combiners: float) -> float:
        rows = tasks * kept_rows(rate * BUDGET / tasks, k) / combiners
        return self.combiner.seconds(envelope=tasks / combiners, row=rows)

    def unsure_shard(self, tasks: float, rate: float, *, window: int = 60, combiners: float = 0) -> float:
        """Return the seconds of the one shard of an uncertain query, whose tasks drop what has enough better tuples."""
        senders, depth = combiners or tasks, unsure_depth()
        rows = senders * kept_rows(rate * BUDGET / senders, depth)
        # A store is pruned when it has twice as many tuples as after the last time.
        held = 2 * kept_rows(rate * window, depth)
        return self.unsure.seconds(envelope=senders, row=rows, **{"held row": held})

    def totals_shard(self, tasks: float, rate: float, *, keys: int, shards: int, combiners: float = 0) -> float:
        senders = combiners or tasks
        rows = senders * distinct_keys(rate * BUDGET / senders, keys) / shards
        return self.totals.seconds(envelope=senders * (1 if combiners else 2), row=rows, key=keys / shards)


def run(*, quick: bool = False) -> None:
    """Run this benchmark; `quick` only checks that it runs."""
    began, machine = time.perf_counter(), report.machine()
    warm_up()
    top_points = [simulated(case) for case in _top_cases(quick=quick)]
    total_points = [simulated(case) for case in _total_cases(quick=quick)]
    unsure_points = [simulated(case) for case in _unsure_cases(quick=quick)]
    merge_points = [simulated(case) for case in _merge_cases(quick=quick)]
    model = _fitted(top_points, total_points, unsure_points, merge_points)
    lines = zip(Model._fields, model, strict=True)
    table = [[name, line.text(), f"{line.error:.0%}"] for name, line in lines]
    heads = ["station", "CPU time", "median error of the fit"]
    report.show("scale-model", "The model", heads, table, write=not quick, page=PAGE)
    _check(model, quick=quick)
    measured, unsures = _measured_on_spark(quick=quick)
    _on_spark(model, measured, write=not quick)
    _limits(model, write=not quick)
    _one_unsure_shard(model, unsures, write=not quick)
    if not quick:
        report.into_page("scale-machine", machine, page=PAGE)
    print(f"{time.perf_counter() - began:.0f} s")


def _top_cases(*, quick: bool) -> list[Case]:
    if quick:
        return [Case([top()], tasks, 200, combiners) for tasks in (2, 20) for combiners in (0, 2)]
    found = [Case([top(k)], tasks, rows) for k in (10, 100) for tasks in (1, 10, 100, 500) for rows in (500, 5000)]
    found += [Case([top(k)], tasks, 1000, isqrt(tasks)) for k in (10, 100) for tasks in (25, 100, 400)]
    found += [Case([top(partition_by=["g"])], 10, 20_000, groups=groups) for groups in (1000, 10_000, 100_000)]
    found += [Case(many(count), tasks, 2000) for count in (10, 100, 1000, 3000) for tasks in (4, 40)]
    return found


def _total_cases(*, quick: bool) -> list[Case]:
    sizes = [(2, 200), (8, 200)] if quick else [(4, 20_000), (20, 4000), (100, 1000), (400, 500)]
    keys = (10, 100) if quick else (100, 10_000, 200_000)
    return [Case([totals()], tasks, rows, groups=groups) for tasks, rows in sizes for groups in keys]


def _unsure_cases(*, quick: bool) -> list[Case]:
    sizes = [(2, 100), (4, 200)] if quick else [(4, 500), (10, 2000), (10, 10_000), (40, 5000), (100, 500), (400, 500)]
    return [Case([unsure()], tasks, rows, steps=steps) for tasks, rows in sizes for steps in (2, 6)]


def _merge_cases(*, quick: bool) -> list[Case]:
    groups = (10, 20) if quick else (100, 1000, 10_000, 100_000)
    query = totals(key="id % 16", k=2, partition_by=["g"], slide="1 second", size="5 seconds")
    return [Case([query], 4, 200 if quick else 50_000, groups=count, shards=4) for count in groups]


def _fitted(tops: Sequence[Measured], sums: Sequence[Measured], unsures: Sequence[Measured],
            merges: Sequence[Measured]) -> Model:  # fmt: skip
    plain = [one for one in tops if len(one.case.queries) == 1 and one.case.groups == 1000]
    combined = [one for one in tops if one.case.combiners]
    return Model(
        task=fitted(
            ("fixed", "row"),
            [{"row": one.case.rows} for one in plain],
            [statistics.median(one.step.task_seconds) for one in plain],
        ),
        combiner=fitted(
            ("fixed", "envelope", "row"),
            [
                {
                    "envelope": one.step.sent / one.case.combiners,
                    "row": one.case.tasks * kept_rows(one.case.rows, one.case.queries[0].k) / one.case.combiners,
                }
                for one in combined
            ],
            [statistics.median(one.step.combiner_seconds) for one in combined],
        ),
        shard=fitted(SHARD, [one.counts for one in tops], [one.shard for one in tops]),
        totals=fitted(("fixed", "envelope", "row", "key"), [one.counts for one in sums], [one.shard for one in sums]),
        merge=fitted(
            ("fixed", "answer"),
            [{"answer": one.step.answer_rows} for one in merges],
            [one.step.merge_seconds for one in merges],
        ),
        unsure=fitted(
            ("fixed", "envelope", "row", "held row"), [one.counts for one in unsures], [one.shard for one in unsures]
        ),
    )


def _check(model: Model, *, quick: bool) -> None:
    """Simulate larger clusters than those of the fit, and compare."""
    rows = []
    for tasks, size in [(30, 100)] if quick else [(1000, 1000), (3000, 1000), (10_000, 500)]:
        for combiners in (0, isqrt(tasks)):
            case = Case([top()], tasks, size, combiners, steps=2)
            found = simulated(case)
            senders = combiners or tasks
            expected = senders * kept_rows(tasks * size / senders, 10)
            predicted = model.top_shard(tasks, tasks * size / BUDGET, k=10, combiners=combiners)
            rows.append(
                [
                    f"{tasks:,} tasks, {combiners or 'no'} combiners",
                    f"{found.step.received:,}",
                    f"{expected:,.0f}",
                    f"{found.step.received_rows:,}",
                    report.bytes_text(found.step.received_bytes),
                    f"{1e3 * predicted:,.1f}",
                    f"{1e3 * found.shard:,.1f}",
                    f"{1e3 * max(found.step.combiner_seconds, default=0):,.1f}",
                ]
            )
    heads = ["cluster", "envelopes", "rows, predicted", "rows", "bytes", "shard ms, predicted", "shard ms",
             "slowest combiner ms"]  # fmt: skip
    report.show("scale-simulated", "What the one shard receives", heads, rows, write=not quick, page=PAGE)
    if not quick:
        _many_queries(model)


def _many_queries(model: Model) -> None:
    rows = []
    for count in (1, 100, 10_000):
        found = simulated(Case(many(count), 10, 2000))
        rows.append([f"{count:,}", f"{1e3 * model.shard.seconds(**found.counts):,.1f}", f"{1e3 * found.shard:,.1f}",
                     report.bytes_text(found.step.state_bytes)])  # fmt: skip
    heads = ["queries of one scan", "shard ms, predicted", "shard ms", "state"]
    report.show("scale-queries", "Many queries", heads, rows, write=True, page=PAGE)


STAGE = ("batch", "task", "row", "combiner stage")  # Spark's constants


class Point(NamedTuple):
    """A micro-batch on Spark."""

    tasks: int
    rows: int  # of a task
    combiners: int
    is_fitted: bool  # otherwise it is predicted
    seconds: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.tasks} tasks of {self.rows:,} rows, {self.combiners or 'no'} combiners"


POINTS = [
    Point(4, 2000, 0, True), Point(16, 2000, 0, True), Point(64, 2000, 0, True), Point(64, 2000, 8, True),
    Point(8, 100_000, 0, True),
    Point(32, 2000, 0, False), Point(96, 2000, 0, False), Point(96, 2000, 10, False), Point(16, 50_000, 0, False),
]  # fmt: skip
QUICK_POINTS = [Point(2, 200, 0, True), Point(8, 200, 0, True), Point(8, 200, 2, True), Point(2, 2000, 0, True),
                Point(4, 200, 0, False)]  # fmt: skip
BATCHES = 5
ROUNDS = 3
RATES = {"pk-topk": (10_000, 100_000), "expected-rank": (2_500, 5_000, 10_000)}  # tuples per second
QUICK_RATES = {"pk-topk": (100, 200), "expected-rank": (100, 200)}
WINDOW = 60  # seconds, of an uncertain query
CORES = 2


class _Spark:
    """Micro-batches on Spark."""

    def __init__(self, home: Path) -> None:
        self.spark, self._home = session(app="skyband bench", master=f"local[{CORES}]", memory="4g"), home
        self.spark.conf.set("spark.sql.files.openCostInBytes", str(128 << 20))  # no task reads two files

    def tops(self, point: Point) -> list[float]:
        """Measure micro-batches with so many tasks, without the first two."""
        folder = self._home / f"in-{point.tasks}-{point.rows}"
        if not folder.exists():
            _write(folder, [[point.rows] * point.tasks] * BATCHES)
        self.spark.conf.set(COMBINERS, str(point.combiners))
        found = self._ran(folder, [top()], point.tasks, shards=1)
        print(f"Spark, {point.name}: {found}", flush=True)
        return found[2:]

    def unsures(self, semantics: str, rate: int, window: int) -> float:
        """Measure the median time of a micro-batch of one second, when the window of an uncertain query is full."""
        folder = self._home / f"unsure-{rate}"
        _write(folder, [[rate * (window - 1)], *[[rate]] * 6], begin=window - 1)
        self.spark.conf.set(COMBINERS, "0")
        found = self._ran(folder, [unsure(window, semantics)], 1)
        shutil.rmtree(folder)
        print(f"Spark, {semantics}, {rate} rows/s: {found}", flush=True)
        return statistics.median(found[2:])

    def _ran(self, folder: Path, queries: list[Any], files: int, **more: Any) -> list[float]:
        """Return the times of the micro-batches of a stream, in seconds."""
        checkpoint = self._home / "checkpoint"
        shutil.rmtree(checkpoint, ignore_errors=True)
        stream = self.spark.readStream.schema("ts timestamp, id long, s double, p double")
        df = stream.option("maxFilesPerTrigger", files).parquet(str(folder))
        out = answers(df, queries, time="ts", id="id", watermark="0 seconds", **more)
        writer = out.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return [one["durationMs"]["triggerExecution"] / 1e3 for one in query.recentProgress if one["numInputRows"]]


def _write(folder: Path, batches: Sequence[Sequence[int]], begin: int = 1) -> None:
    """Write a file for each task of each micro-batch. The first has so many seconds of event time, the others one."""
    folder.mkdir()
    random = np.random.default_rng(1)
    low = 100_000 * SECOND
    for batch, sizes in enumerate(batches):
        length = begin * SECOND if batch == 0 else SECOND
        for task, rows in enumerate(sizes):
            path = folder / f"{batch:03}-{task:05}.parquet"
            pq.write_table(rows_of(random, rows, low, 1, length).select(["ts", "id", "s", "p"]), path)
            os.utime(path, (1_000_000_000 + batch, 1_000_000_000 + batch))
        low += length


OnSpark = dict[str, dict[int, float]]  # by semantics and rate: seconds of a micro-batch


def _measured_on_spark(*, quick: bool) -> tuple[list[Point], OnSpark]:
    """Measure micro-batches of a top-k query, and those of an uncertain query by rate."""
    home = Path(tempfile.mkdtemp(prefix="skyband-bench-"))
    cluster = _Spark(home)
    try:
        plan = QUICK_POINTS if quick else POINTS
        # Java compiles in the first round, and less and less in the others, so all points take turns. Other work on
        # the machine makes a micro-batch slower, never faster.
        rounds = [[cluster.tops(point) for point in plan] for _ in range(2 if quick else ROUNDS)][1:]
        points = [
            point._replace(seconds=min(itertools.chain(*found)))
            for point, found in zip(plan, zip(*rounds, strict=True), strict=True)
        ]
        window = 5 if quick else WINDOW
        return points, {
            semantics: {rate: cluster.unsures(semantics, rate, window) for rate in rates}
            for semantics, rates in (QUICK_RATES if quick else RATES).items()
        }
    finally:
        cluster.spark.stop()
        shutil.rmtree(home, ignore_errors=True)


def _on_spark(model: Model, measured: list[Point], *, write: bool) -> None:
    """Fit Spark's constants to the points of the fit, and predict the others."""

    def ours(point: Point) -> float:
        tasks, combiners = point.tasks, point.combiners
        rate = tasks * point.rows / BUDGET
        found = model.task.seconds(row=point.rows) * tasks / CORES
        found += model.top_shard(tasks, rate, k=10, combiners=combiners)
        if combiners:
            found += model.top_combiner(tasks, rate, k=10, combiners=combiners) * combiners / CORES
        return found

    def counts(point: Point) -> dict[str, float]:
        tasks = (point.tasks + point.combiners) / CORES
        rows = point.tasks * point.rows / CORES
        return {"batch": 1, "task": tasks, "row": rows, "combiner stage": float(point.combiners > 0)}

    known = [point for point in measured if point.is_fitted]
    line = fitted(STAGE, list(map(counts, known)), [point.seconds for point in known], list(map(ours, known)))
    rows = []
    for point in measured:
        predicted = line.seconds(**counts(point)) + ours(point)
        error = f"{predicted / point.seconds - 1:+.0%}"
        rows.append(
            [point.name, "fit" if point.is_fitted else "predicted", f"{predicted:.2f}", f"{point.seconds:.2f}", error]
        )
    heads = ["micro-batch", "use", "model, s", "measured, s", "error"]
    report.show("scale-spark", "Spark on this machine", heads, rows, write=write, page=PAGE)
    batch, task, row, stage = line.constants
    text = (
        f"Spark's share: {1e3 * batch:.0f} ms for each micro-batch, {1e3 * task:.1f} ms of a core for each task, "
        f"{1e6 * row:.2f} µs of a core for each row, and {1e3 * stage:.0f} ms for the stage of combiners."
    )
    print(text)
    if write:
        report.into_page("scale-spark-share", text, page=PAGE)


def _one_unsure_shard(model: Model, on_spark: OnSpark, *, write: bool) -> None:
    """Compare an uncertain query with a full window: the model, the simulator, and Spark."""
    window = WINDOW if write else 5
    rows, texts = [], []
    for semantics, measured in on_spark.items():
        shards = {}
        for rate, seconds in measured.items():
            step = _full_window(rate, window, semantics)
            shards[rate] = max(step.shard_seconds)
            rows.append([f"`{semantics}`", f"{rate:,}", f"{step.received_rows:,}", f"{step.held:,}",
                         report.bytes_text(step.state_bytes), f"{shards[rate]:.3f}", f"{seconds:.2f}"])  # fmt: skip
        texts.append(
            f"With `{semantics}`, a micro-batch of one second takes one second at {_crossing(measured)} tuples per "
            f"second on Spark, and its shard alone at {_crossing(shards)}."
        )
    heads = ["semantics", "tuples per second", "received", "held", "state", "shard s", "micro-batch on Spark, s"]
    report.show("scale-unsure", "The one shard of an uncertain query", heads, rows, write=write, page=PAGE)
    text = " ".join(texts)
    print(text)
    if write:
        report.into_page("scale-unsure-limit", text, page=PAGE)
    _unsure_cluster(model, write=write)


def _unsure_cluster(model: Model, *, write: bool) -> None:
    """Simulate an uncertain query over more tasks than those of the fit."""
    rows = []
    for tasks, size in [(1, 100_000), (10, 100_000), (100, 100_000), (1000, 10_000)] if write else [(2, 1000)]:
        for combiners in (0, isqrt(tasks)) if tasks > 10 else (0,):
            found = simulated(Case([unsure()], tasks, size, combiners, steps=3))
            predicted = model.unsure_shard(tasks, tasks * size, window=3, combiners=combiners)
            rows.append([f"{tasks * size:,}", f"{tasks:,}", f"{combiners or 'no'}", f"{found.step.received_rows:,}",
                         f"{found.step.held:,}", f"{1e3 * predicted:,.1f}", f"{1e3 * found.shard:,.1f}"])  # fmt: skip
    heads = ["tuples per second", "tasks", "combiners", "received", "held", "shard ms, predicted", "shard ms"]
    report.show("scale-unsure-tasks", "An uncertain query over many tasks", heads, rows, write=write, page=PAGE)


def _full_window(rate: int, window: int, semantics: str = "pk-topk") -> Step:
    """Run micro-batches of one second after one that fills the window of an uncertain query; return the last."""
    random = np.random.default_rng(1)
    low = 100_000 * SECOND
    cluster = SimulatedCluster([unsure(window, semantics)], rows_of(random, 1, 0, 1).schema)
    cluster.step([rows_of(random, rate * (window - 1), low, 1, (window - 1) * SECOND)])
    for number in range(3):
        _, step = cluster.step([rows_of(random, rate, low + (window - 1 + number) * SECOND, 1)])
    return step


def _crossing(seconds: dict[int, float]) -> str:
    """Return the rate at which a micro-batch takes one second: between two measured rates, or outside of them."""
    rates = sorted(seconds)
    if seconds[rates[0]] > BUDGET:
        return f"less than {report.amount(rates[0])}"
    for low, high in itertools.pairwise(rates):
        if seconds[low] <= BUDGET < seconds[high]:
            share = (BUDGET - seconds[low]) / (seconds[high] - seconds[low])
            return f"about {report.amount(float(f'{low + share * (high - low):.2g}'))}"
    return f"more than {report.amount(rates[-1])}"


def _limits(model: Model, *, write: bool) -> None:
    """Find the rate at which a station takes as long as a micro-batch."""

    def alone(rate: float, k: int) -> float:
        return model.top_shard(model.tasks(rate), rate, k=k)

    def combined(rate: float, k: int) -> float:
        tasks = model.tasks(rate)
        combiners = max(1.0, tasks**0.5)
        return max(
            model.top_shard(tasks, rate, k=k, combiners=combiners),
            model.top_combiner(tasks, rate, k=k, combiners=combiners),
        )

    def keyed(rate: float, keys: int, shards: int, *, combine: bool) -> float:
        tasks = model.tasks(rate)
        combiners = max(1.0, tasks**0.5) if combine else 0
        return model.totals_shard(tasks, rate, keys=keys, shards=shards, combiners=combiners)

    def unsures(rate: float, *, combine: bool) -> float:
        tasks = model.tasks(rate)
        return model.unsure_shard(tasks, rate, combiners=max(1.0, tasks**0.5) if combine else 0)

    stations = [
        ("one shard, k = 10", limit(lambda rate: alone(rate, 10), BUDGET)),
        ("one shard, k = 1000", limit(lambda rate: alone(rate, 1000), BUDGET)),
        ("one shard with combiners, k = 10", limit(lambda rate: combined(rate, 10), BUDGET)),
        ("one shard with combiners, k = 1000", limit(lambda rate: combined(rate, 1000), BUDGET)),
        ("aggregate, 1,000 keys, 32 shards", limit(lambda rate: keyed(rate, 1000, 32, combine=False), BUDGET)),
        ("the same with combiners", limit(lambda rate: keyed(rate, 1000, 32, combine=True), BUDGET)),
        ("aggregate, 1M keys, 32 shards", limit(lambda rate: keyed(rate, 10**6, 32, combine=False), BUDGET)),
        ("aggregate, 1M keys, 256 shards", limit(lambda rate: keyed(rate, 10**6, 256, combine=False), BUDGET)),
        ("uncertain, 60 s window, no certain tuples", limit(partial(unsures, combine=False), BUDGET)),
        ("the same with combiners", limit(partial(unsures, combine=True), BUDGET)),
    ]  # fmt: skip
    rows = [
        [name, "more than 10¹²" if rate == inf else report.amount(float(f"{rate:.2g}")),
         "–" if rate in (0.0, inf) else report.amount(float(f"{model.tasks(rate):.2g}"))]
        for name, rate in stations
    ]  # fmt: skip
    heads = ["station", "rows per second at the limit", "tasks at that rate"]
    report.show("scale-limits", "Limits with micro-batches of one second", heads, rows, write=write, page=PAGE)
    held = limit(lambda count: model.shard.seconds(envelope=100, row=0, query=1, **{"held row": count}), BUDGET)
    queries = limit(lambda count: model.shard.seconds(envelope=100, row=0, query=count, **{"held row": 1000}), BUDGET)
    answered = limit(lambda count: model.merge.seconds(answer=count), BUDGET)
    sizes = [
        ["rows held by a shard of groups", report.amount(float(f"{held:.2g}"))],
        ["queries of a shard", report.amount(float(f"{queries:.2g}"))],
        ["answers of shards that one merge takes", report.amount(float(f"{answered:.2g}"))],
    ]
    report.show("scale-sizes", "Sizes that take one second", ["what", "limit"], sizes, write=write, page=PAGE)


if __name__ == "__main__":
    run()
