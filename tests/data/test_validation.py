"""Integers that look like seconds or milliseconds since 1970 are rejected in the first push."""

from __future__ import annotations

import numpy as np
import pytest

import skyband as sb

QUERY = sb.TopK(k=1, size="1 minute")
NOW = 1_700_000_000  # in seconds


@pytest.mark.parametrize(("factor", "name", "unit"), [(1, "seconds", "s"), (1000, "milliseconds", "ms")])
def test_other_units_than_microseconds_are_rejected(factor, name, unit):
    positions = np.array([NOW, NOW + 7]) * factor
    monitor = sb.Monitor(QUERY)
    before = monitor.snapshot()
    with pytest.raises(
        sb.InvalidInputError, match=f"got positions.0.={positions[0]}, and all .* look like {name} since"
    ):
        monitor.push(positions, [1.0, 2.0])
    assert monitor.snapshot() == before
    with pytest.raises(sb.InvalidInputError, match=rf"astype\('datetime64\[{unit}\]'\).*view\('datetime64\[us\]'\)"):
        sb.replay(QUERY, positions.tolist(), [1.0, 2.0])
    monitor.push(positions.astype(f"datetime64[{unit}]"), [1.0, 2.0])
    assert len(sb.replay(QUERY, positions.view("datetime64[us]"), [1.0, 2.0])) == 1


@pytest.mark.parametrize(
    "positions", [[NOW * 10**6], [0, NOW], [5, NOW * 1000], [NOW, 2 * 10**12], [None, None], [946_684_799], []]
)
def test_other_numbers_are_microseconds(positions):
    sb.replay(QUERY, positions, [1.0] * len(positions))


def test_only_the_first_push_is_checked():
    monitor = sb.Monitor(QUERY)
    monitor.push([0], [1.0])
    monitor.push([NOW], [1.0])
    monitor = sb.Monitor(QUERY, computed=True)
    monitor = sb.Monitor.resume(monitor.snapshot())
    monitor.push([NOW], [1.0])


@pytest.mark.parametrize(
    "push",
    [
        lambda: sb.aggregate.replay(sb.AggregateTopK(k=1, size="1 minute"), [NOW], ["a"], [1.0]),
        lambda: sb.incomplete.replay(sb.IncompleteTopK(k=1, size="1 minute"), [NOW], ["a"], ["x"], [1.0]),
        lambda: sb.uncertain.replay(sb.UncertainTopK(k=1, size="1 minute"), [NOW], [1.0], [1.0]),
    ],
    ids=["aggregate", "incomplete", "uncertain"],
)
def test_every_family_checks(push):
    with pytest.raises(sb.InvalidInputError, match="look like seconds since 1970"):
        push()
