"""Why the published approximation is imprecise if streams share few objects: one part is exchanged at a time.

The published bound of an object is its score plus, for each missing stream, the highest value times the probability of
a report. It says nothing about time. An object is dropped when k newer ones have scores above its bound, which takes
its *patience*. If few objects are shared, the bound is close to the score, and the patience is short. But the delay
until the next report depends on the streams, not on how many objects they share.

python -m benchmarks.incomplete_causes [--write]
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import report, workloads
from benchmarks.workloads import Reports
from skyband import IncompleteTopK, incomplete
from skyband.incomplete import executor
from skyband.incomplete.approximate import ExpectedAggregation
from skyband.incomplete.measures import precision
from skyband.incomplete.query import Method
from skyband.kernels.stream import Floats, Ints

PAGE = report.REPORTS / "incomplete.md"
W, K, D = 500, 20, 4
RHOS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
SEED, LOOKS, SAMPLES = 301, 40, 1_200
#: Methods, and the factor of exact probabilities, or None for the estimates of the method.
COMPARED: tuple[tuple[Method, float | None], ...] = (
    ("expected-scores", None), ("expected-scores", 1.0), ("expected-scores", 2.0), ("approximate", None)
)  # fmt: skip


class Counted(ExpectedAggregation):
    """The published method with exact probabilities, times a factor: it remembers the tuples of the window."""

    factor = 1.0

    def __init__(self, shape: Any) -> None:
        super().__init__(shape)
        self._window = np.empty((3, 0), np.int64)  # positions, streams, objects

    def _observe(self, positions: Ints, streams: Ints, hashes: Ints, values: Floats) -> None:
        self._window = np.concatenate([self._window, np.array([positions, streams, hashes])], axis=1)
        super()._observe(positions, streams, hashes, values)

    def _chances(self, masks: Ints, start: int) -> Floats:
        self._window = self._window[:, self._window[0] >= start]
        _, objects = np.unique(self._window[2], return_inverse=True)
        seen = np.zeros((int(objects.max()) + 1, self.shape.d), bool)
        seen[objects, self._window[1]] = True
        found = np.ones((masks.size, self.shape.d))
        for row, mask in enumerate(masks.tolist()):
            given = seen[seen[:, [bool(mask >> s & 1) for s in range(self.shape.d)]].all(axis=1)]
            found[row] = given.mean(axis=0) if given.size else 0.0
        return np.minimum(self.factor * found, 1.0)


def exchanged(factor: float) -> AbstractContextManager[Any]:
    """Queries with `expected-scores` use exact probabilities, times a factor."""
    engine = type("Exchanged", (Counted,), {"factor": factor})
    return mock.patch.object(executor, "ExpectedAggregation", engine)


def answers(reports: Reports, method: Method, looks: int = LOOKS) -> tuple[pa.Table, float]:
    """Answers at some moments after two windows, and the mean number of items then."""
    query = IncompleteTopK(k=K, size=W, every=1, streams=reports.names, method=method)
    monitor, found, held, seen = incomplete.Monitor(query), [], [], 0
    for stop in range(2 * W, 2 * W + looks * (W // 2), W // 2):
        part = slice(seen, stop)
        monitor.push(None, reports.objects[part], reports.streams[part], reports.values[part])
        newest = monitor.answers()
        found.append(newest.filter(pc.equal(newest["time"], stop)))
        held.append(monitor.candidates)
        seen = stop
    return pa.concat_tables(found), float(np.mean(held))


class Waiting(NamedTuple):
    """Objects with one report: how long they are held, and when the next report comes, in tuples."""

    chance: float  # that another stream has an object, in the window
    patience: float  # median
    delay: float  # mean, of objects that are reported again within the window
    too_late: float  # share of those whose next report comes after they were dropped


def waiting(reports: Reports, factor: float = 1.0, samples: int = SAMPLES, size: int = W, k: int = K) -> Waiting:
    """Follow some new objects under the published rule, with exact probabilities times a factor."""
    objects, values, n = reports.objects.tolist(), reports.values.tolist(), reports.objects.size
    d = len(reports.names)
    chance = _chance(reports, size)
    first = np.sort(np.unique(reports.objects, return_index=True)[1])
    first = first[(first >= size) & (first < n - size)]
    patience, delays, late = [], [], 0
    for at in np.random.default_rng(1).choice(first, min(samples, first.size), replace=False).tolist():
        bound = values[at] + (d - 1) * min(1.0, factor * chance)
        newer: dict[Any, float] = {}
        above, dropped, again = 0, size, 0
        for later in range(at + 1, at + size):
            if objects[later] == objects[at]:
                again = again or later - at
                continue
            before = newer.get(objects[later], 0.0)
            newer[objects[later]] = before + values[later]
            above += before <= bound < before + values[later]
            if above == k and dropped == size:
                dropped = later - at
        patience.append(dropped)
        if again:
            delays.append(again)
            late += again > dropped
    return Waiting(chance, float(np.median(patience)), float(np.mean(delays)), late / len(delays))


def _chance(reports: Reports, size: int) -> float:
    """Probability that a stream has an object of another one, in windows of this size."""
    shared = held = 0
    d = len(reports.names)
    for end in range(size, reports.objects.size, 2 * size):
        part = slice(end - size, end)
        _, objects = np.unique(reports.objects[part], return_inverse=True)
        streams = np.zeros(int(objects.max()) + 1, np.int64)
        np.add.at(streams, objects, 1)
        shared += int((streams * (streams - 1)).sum())
        held += int(streams.sum())
    return shared / ((d - 1) * held)


def run(*, quick: bool = False, write: bool = False) -> None:
    """Print the table; with `write`, put it into the report."""
    looks, samples = (10, 100) if quick else (LOOKS, SAMPLES)
    rows = []
    for rho in RHOS[1::3] if quick else RHOS:
        reports = workloads.correlated((3 + looks) * W, D, rho, SEED)
        exact, whole = answers(reports, "exact", looks)
        cells = []
        for method, factor in COMPARED:
            with nullcontext() if factor is None else exchanged(factor):
                found, items = answers(reports, method, looks)
            cells.append(f"{precision(exact, found):.3f} ({items / whole:.2f}×)")
        once, twice = (waiting(reports, factor, samples) for factor in (1.0, 2.0))
        rows.append([f"ρ {rho}", *cells, f"{once.chance:.3f}", f"{once.delay:.0f}", f"{once.patience:.0f}",
                     f"{once.too_late:.0%}", f"{twice.too_late:.0%}"])  # fmt: skip
    heads = ("", "published", "exact probabilities", "twice these", "approximate", "probability of a stream",
             "delay of the next report", "patience", "too late", "too late, twice")  # fmt: skip
    title = f"{D} streams, W = {W}, k = {K}: precision (items relative to EAA), and objects with one report"
    report.show("incomplete-causes", title, heads, rows, write=write, page=PAGE)


if __name__ == "__main__":
    run(quick="--quick" in sys.argv, write="--write" in sys.argv)
