"""Keys, objects, rules, streams, ids and groups that never return: what is held of them goes with their windows."""

from __future__ import annotations

import numpy as np
import pytest

import skyband as sb

EACH = 400  # in a push
PUSHES = 24
WINDOWS = {"size": "10 microseconds", "slide": "5 microseconds"}
ANSWERED = {"size": "10 microseconds", "every": "5 microseconds"}
ROWS = np.arange(EACH)


def positions(push):
    return 20 * push + ROWS * 10 // EACH


def fresh(push):
    return [f"{push} {row}" for row in ROWS.tolist()]


def chances():
    return np.full(EACH, 0.5)


CASES = {
    "aggregate keys": (
        lambda: sb.aggregate.Monitor(sb.AggregateTopK(k=2, **WINDOWS)),
        lambda monitor, push: monitor.push(positions(push), fresh(push), ROWS * 1.0),
    ),
    "aggregate groups": (
        lambda: sb.aggregate.Monitor(sb.AggregateTopK(k=2, **WINDOWS)),
        lambda monitor, push: monitor.push(positions(push), ROWS % 3, ROWS * 1.0, groups=fresh(push)),
    ),
    **{
        f"incomplete objects, {method}": (
            lambda method=method: sb.incomplete.Monitor(
                sb.IncompleteTopK(k=2, streams=["a", "b"], method=method, **ANSWERED)
            ),
            lambda monitor, push: monitor.push(
                positions(push), fresh(push), ["a", "b"] * (EACH // 2), ROWS % 100 / 100
            ),
        )
        for method in ("exact", "sorted-lists")
    },
    "uncertain rules": (
        lambda: sb.uncertain.Monitor(sb.UncertainTopK(k=2, **ANSWERED)),
        lambda monitor, push: monitor.push(positions(push), ROWS * 1.0, chances(), rules=fresh(push)),
    ),
    "uncertain ids": (
        lambda: sb.uncertain.Monitor(sb.UncertainTopK(k=2, **ANSWERED)),
        lambda monitor, push: monitor.push(positions(push), ROWS * 1.0, chances(), ids=fresh(push)),
    ),
    "uncertain streams": (
        lambda: sb.uncertain.Monitor(sb.UncertainTopK(k=2, stream="s", **ANSWERED)),
        lambda monitor, push: monitor.push(positions(push), ROWS * 1.0, chances(), streams=fresh(push)),
    ),
}


def most_held(snapshots):
    """The longest snapshot; books are looked through now and then, so that single ones say little."""
    return max(map(len, snapshots))


@pytest.mark.parametrize("case", CASES)
def test_state_does_not_grow_with_what_never_returns(case):
    make, push = CASES[case]
    monitor, snapshots = make(), []
    for number in range(PUSHES):
        push(monitor, number)
        monitor.answers()
        snapshots.append(monitor.snapshot())
    assert most_held(snapshots[PUSHES // 2 :]) < 1.1 * most_held(snapshots[: PUSHES // 2])


def test_groups_of_aggregates_are_forgotten_and_their_numbers_used_again():
    monitor = sb.aggregate.Monitor(sb.AggregateTopK(k=1, **WINDOWS))
    for push in range(PUSHES):
        monitor.push(positions(push), ROWS % 3, ROWS * 1.0, groups=fresh(push))
        found = monitor.answers()
        assert set(found["group"].to_pylist()) <= {*fresh(push), *fresh(push - 1)}
    assert monitor._intake.groups.codes < 10 * EACH
    assert monitor.metrics()["groups"] <= 2 * EACH
    monitor.finish()
    monitor.answers()
    assert monitor.metrics()["groups"] == 0
