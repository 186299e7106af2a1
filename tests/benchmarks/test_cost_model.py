"""The cost model: constants that are fitted are those of the data, and counts are those of drawn streams."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchmarks.cost_model import distinct_keys, fitted, kept_rows, limit

POINTS = [{"row": rows, "task": tasks} for rows in (10, 200, 3000) for tasks in (1, 7)]


def test_constants_are_found_again_beside_known_seconds():
    known = [0.5 * point["task"] for point in POINTS]
    seconds = [2 + 0.01 * point["row"] + 0.3 * point["task"] + more for point, more in zip(POINTS, known, strict=True)]
    line = fitted(("fixed", "row", "task"), POINTS, seconds, known)
    assert line.constants == pytest.approx((2, 0.01, 0.3))
    assert line.error == pytest.approx(0)
    assert line.seconds(row=100, task=2) == pytest.approx(3.6)


def test_no_constant_is_negative():
    line = fitted(("fixed", "row", "task"), POINTS, [5 + point["row"] - 0.1 * point["task"] for point in POINTS])
    assert min(line.constants) == line.constants[2] == 0
    assert line.constants[1] == pytest.approx(1, rel=0.02)


@pytest.mark.parametrize(("rows", "k"), [(8, 10), (500, 1), (1000, 10)])
def test_rows_that_few_later_ones_beat(rows, k):
    random = np.random.default_rng(1)
    counts = []
    for _ in range(200):
        scores = random.random(rows)
        later = np.triu(scores[None] > scores[:, None], 1).sum(axis=1)
        counts.append((later < k).sum())
    assert kept_rows(rows, k) == pytest.approx(np.mean(counts), rel=0.05)


def test_different_keys():
    drawn = np.random.default_rng(1).integers(0, 300, 500)
    assert distinct_keys(500, 300) == pytest.approx(np.unique(drawn).size, rel=0.05)


def test_the_limit_is_where_the_budget_is_reached():
    assert limit(lambda rate: 0.25 + rate / 1000, 1) == pytest.approx(750, rel=2e-3)
    assert limit(lambda rate: 0.5, 1) == math.inf
    assert limit(lambda rate: 2 + rate, 1) == 0
