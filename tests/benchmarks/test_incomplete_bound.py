"""The least number of items for a precision: by hand, and never above what a method needs."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.incomplete_bound import least_held
from benchmarks.workloads import Reports, correlated

import skyband as sb


def test_without_followers_only_the_answers_are_held():
    """Objects with one report: the best rule holds those with the k best scores, until they leave the window."""
    n, size, k = 20_000, 400, 10
    values = np.random.default_rng(1).random(n)
    least = least_held(Reports(np.arange(n), np.zeros(n, np.int64), values, (0,)), size, k, precision=1.0)
    # An object is in answers from its report on, or from the end of a better one; a class of scores is all or nothing.
    assert 0.8 * k < least < 4 * k


def test_objects_that_wait_for_their_last_report_are_all_held():
    """Two streams, each object reported by both, 100 tuples apart: until then, all objects look alike."""
    n, size, k, apart = 20_000, 400, 5, 100
    draw = np.random.default_rng(2)
    first = np.arange(n // 2)
    objects = np.empty(n, np.int64)
    # Blocks of `apart` first reports, then the second reports of the same objects in another order.
    for block in range(0, n // 2, apart):
        mine = first[block : block + apart]
        objects[2 * block : 2 * block + apart] = mine
        objects[2 * block + apart : 2 * block + 2 * apart] = mine
    streams = (np.arange(n) // apart) % 2
    # The second value decides: the first one is the same for all, and too small for an answer.
    values = np.where(streams == 0, 0.3, draw.random(n) * 0.7)
    reports = Reports(objects, streams, values, (0, 1))
    every = least_held(reports, size, k, precision=1.0, every=50)
    assert every > 0.7 * apart / 2 + k  # half of the time, a hundred objects wait
    assert least_held(reports, size, k, precision=0.5, every=50) < 0.8 * every
    assert least_held(reports, size, k, precision=0.0, every=50) == 0.0


@pytest.mark.parametrize(("streams", "rho"), [(2, 0.5), (3, 0.5)])
def test_no_method_holds_less_than_the_bound_for_its_precision(streams, rho):
    reports = correlated(12_000, streams, rho, 21)
    tables, items = [], []
    for method in ("exact", "approximate", "expected-scores"):
        query = sb.IncompleteTopK(k=10, size=500, every=50, streams=list(range(streams)), method=method)
        monitor = sb.incomplete.Monitor(query)
        held = []
        for low in range(0, 12_000, 50):
            monitor.push(None, *(column[low : low + 50] for column in reports[:3]))
            held.append(monitor.candidates)
        tables.append(monitor.answers())
        items.append(float(np.mean(held)))
    for place in range(3):
        precision = sb.incomplete.precision(tables[0], tables[place])
        assert items[place] > least_held(reports, 500, 10, precision=precision)
