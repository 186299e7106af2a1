"""What is said about work and state: partials shared, keys forgotten, sums exact, refusals without a trace."""

from __future__ import annotations

import inspect
import math
import statistics
from fractions import Fraction
from random import Random

import numpy as np
import pytest

import skyband as sb
from skyband.aggregate import Monitor, replay
from skyband.aggregate.kernels.exact_sum import LIMBS, limb_range, sum_exactly
from tests.aggregate import cases, oracle

HOUR = 3_600_000_000


def total(values):
    query = sb.AggregateTopK(k=1, size=len(values))
    return replay(query, None, [0] * len(values), values)["score"][0].as_py()


@pytest.mark.parametrize(
    "values",
    [
        [1e16, 1.0, -1e16],
        [0.1] * 10,
        [1e308, 1e308, -1e308, -1e308, 5e-324],
        [5e-324, 5e-324],
        [2.0**53, 1.0, 2.0**-30],  # halfway, but for a bit far below
        [2.0**53, 1.0],  # halfway: the even one
        [-(2.0**53), -1.0],
        [1e-300, 1e300, -1e300],
        [2.0**1023, 2.0**970, 2.0**969],
        [-0.0, 0.0],
    ],
    ids=str,
)
def test_sums_are_rounded_once(values):
    assert total(values) == float(sum(map(Fraction, values)))


def test_a_sum_beyond_the_largest_double_is_infinite():
    assert total([1.7e308, 1.7e308]) == math.inf
    assert total([-1.7e308] * 3) == -math.inf


@pytest.mark.parametrize("seed", range(300))
def test_limbs_hold_any_doubles(seed):
    random = Random(seed)
    values = [math.ldexp(random.choice([-1, 1]) * random.random(), random.randint(-1080, 1000)) for _ in range(9)]
    values += [-value for value in values[: random.randint(0, 8)]] + [float(random.randint(-10, 10))]
    found = np.array([LIMBS, 0], np.int64)
    array = np.array(values)
    limb_range(array.view(np.int64), found)
    limbs = int(found[1] - found[0])
    room = np.zeros(limbs + 2, np.int64)
    assert sum_exactly(array, array.view(np.int64), room, limbs, int(found[0])) == math.fsum(values)


def test_what_leaves_leaves_no_trace():
    query = sb.AggregateTopK(k=1, size=2, slide=1)
    scores = replay(query, None, [0] * 5, [1e300, 0.1, 0.2, 1e-300, 0.0])["score"].to_pylist()
    assert scores == [1e300, 1e300, 0.1 + 0.2, 0.2, 1e-300]


def deviation(values):
    query = sb.AggregateTopK(k=1, size=len(values), aggregate="stddev")
    return replay(query, None, [0] * len(values), values)["score"].to_pylist()


@pytest.mark.parametrize(
    "values",
    [
        [1e15, 1e15 + 1, 1e15 + 2],  # of the squares, a double would hold nothing but noise
        [0.1] * 7,
        [1e-200, 3e-200],
        [1e200, 3e200, -1e200],
        [5e-324, 0.0],
        [1e300, 1.0, -1e300, 0.1],
        list(range(100)),
    ],
    ids=str,
)
def test_deviations_are_those_of_exact_sums(values):
    assert deviation(values) == [pytest.approx(statistics.stdev(map(Fraction, values)), rel=4e-16, abs=0)]


@pytest.mark.parametrize("values", [[1e15, 1e15 + 1, 1e15 + 2], [0.1] * 7, [1e200, 3e200, -1e200], [3.0]], ids=str)
def test_deviations_of_populations(values):
    query = sb.AggregateTopK(k=1, size=len(values), aggregate="stddev_pop")
    found = replay(query, None, [0] * len(values), values)["score"].to_pylist()
    assert found == [pytest.approx(statistics.pstdev(map(Fraction, values)), rel=4e-16, abs=0)]


def test_keys_without_a_deviation_are_not_ranked():
    assert deviation([1.0]) == []
    assert deviation([1.0, 1.0]) == [0.0]
    assert deviation([1.7e308, -1.7e308]) == [math.inf]
    monitor = Monitor(sb.AggregateTopK(k=3, size=5, aggregate="stddev"))
    monitor.push(None, ["one", "two", "two", "far", "far"], [7.0, 1.0, 3.0, math.inf, 1.0])
    assert oracle.listed(monitor.answers()) == [("topk", None, 0, 5, 1, "two", math.sqrt(2.0))]
    assert monitor.metrics()["unrankable"] == 1  # one value has no deviation by definition, and is not counted


def stream(rows, keys, seed=0):
    random = np.random.default_rng(seed)
    return np.sort(random.integers(0, 10 * HOUR, rows)), random.integers(0, keys, rows), random.random(rows)


def test_partials_are_shared():
    position, key, value = stream(20_000, 50)
    sizes = ["1 hour", "2 hours", "30 minutes"]
    many = [
        sb.AggregateTopK(name=f"q{place}", k=1 + place, size=sizes[place % 3], slide="10 minutes", aggregate=aggregate)
        for place, aggregate in enumerate(["sum", "avg", "count", "max", "min", "stddev"] * 6)
    ]
    one, all_ = Monitor(many[0]), Monitor(many)
    for monitor in (one, all_):
        monitor.push(position, key, value)
        monitor.finish()
    alone, together = one.metrics(), all_.metrics()
    assert together["partials"] == alone["partials"] <= 61 * 50
    assert together["entered"] == alone["entered"] == alone["left"]
    assert together["left"] == 3 * alone["left"]  # once for each size, not once for each query


def test_work_follows_partials_not_windows_or_rows():
    position, key, value = stream(20_000, 50)
    monitor = Monitor(sb.AggregateTopK(k=3, size="5 hours", slide="10 minutes"))
    monitor.push(position, key, value)
    monitor.finish()
    done = monitor.metrics()
    assert done["scored"] <= done["entered"] + done["left"]


def test_keys_are_forgotten():
    monitor = Monitor(sb.AggregateTopK(k=3, size="1 minute", slide="10 seconds"))
    most_keys = most_partials = most_bytes = 0
    for begin in range(0, 200_000, 5_000):
        numbers = np.arange(begin, begin + 5_000)
        monitor.push(numbers * 100_000, [f"key {number}" for number in numbers], np.ones(5_000))
        monitor.answers()
        most_keys = max(most_keys, monitor.metrics()["keys"])
        most_partials = max(most_partials, monitor.candidates)
        most_bytes = max(most_bytes, len(monitor.snapshot()))
    assert monitor.metrics()["rows"] == 200_000
    assert most_partials <= 700  # a window holds 600 rows, each of another key
    assert most_keys <= 20_000  # what is in use, and one push that has not been looked through yet
    assert most_bytes < 6_000_000
    monitor.finish()
    assert monitor.candidates == 0


def test_unrankable_keys_are_counted():
    monitor = Monitor(
        [sb.AggregateTopK(name="s", k=3, size=4), sb.AggregateTopK(name="m", k=3, size=4, aggregate="max")]
    )
    monitor.push(None, ["a", "a", "b", "b"], [math.inf, -math.inf, math.inf, 1.0])
    table = monitor.answers()
    assert oracle.listed(table) == [
        ("s", None, 0, 4, 1, "b", math.inf),
        ("m", None, 0, 4, 1, "b", math.inf),
        ("m", None, 0, 4, 2, "a", math.inf),
    ]
    assert monitor.metrics()["unrankable"] == 1


def test_rows_left_out_move_time_but_are_no_objects():
    monitor = Monitor(sb.AggregateTopK(k=1, size="10 microseconds"))
    monitor.push([1, 25, None], ["a", None, "b"], [1.0, 2.0, 3.0])
    assert monitor.answers()["window_end"].to_pylist() == [10]
    assert (monitor.metrics()["dropped_null"], monitor.metrics()["objects"]) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([5, 4], ["a", "b"], [1.0, 2.0]), "must not decrease"),
        (([5, 6], ["a"], [1.0, 2.0]), "must have the same length"),
        (([5, 6], ["a", "b"], None), "only aggregate='count' works without them"),
        (([5, 6], [1, 2], [1.0, 2.0]), "keys changed type from string to int64, so one key would be counted as two"),
        (([5, 6], ["a", "b"], ["x", "y"]), r"values must be numbers.*values\[0\]='x', with key 'a'"),
        (([5, 6], [{"a": 1}, {"a": 2}], [1.0, 2.0]), "must be numbers, text"),
        ((None, ["a"], [1.0]), "positions must not be None"),
    ],
)
def test_a_refused_push_changes_nothing(arguments, said):
    monitor = Monitor(sb.AggregateTopK(k=1, size="10 microseconds"))
    monitor.push([3], ["a"], [1.0])
    before = monitor.snapshot()
    with pytest.raises(sb.InvalidInputError, match=said):
        monitor.push(*arguments)
    assert monitor.snapshot() == before


def test_other_families_and_filters_are_refused():
    with pytest.raises(sb.UnsupportedError, match=r"skyband\.replay"):
        Monitor(sb.TopK(k=1, size=3))
    with pytest.raises(sb.InvalidQueryError, match="cannot be filtered"):
        Monitor(sb.AggregateTopK(k=1, size=3, where="x > 1"))
    with pytest.raises(sb.InvalidInputError, match="groups= is missing"):
        Monitor(sb.AggregateTopK(k=1, size=3, partition_by=["g"])).push(None, [1], [1.0])


def test_snapshots_of_others_are_refused():
    mine = Monitor(sb.AggregateTopK(k=1, size=3)).snapshot()
    with pytest.raises(sb.SnapshotError):
        Monitor.resume(sb.Monitor(sb.TopK(k=1, size=3)).snapshot())
    with pytest.raises(sb.SnapshotError, match=r"but queries=.* was given; nothing was resumed"):
        Monitor.resume(mine, sb.AggregateTopK(k=2, size=3))
    with pytest.raises(sb.SnapshotError, match="damaged"):
        Monitor.resume(mine[:-1] + bytes([mine[-1] ^ 1]))


def test_many_groups_at_once():
    case = cases.draw(Random(5), axis="time", grouped=True, most=60)
    found = replay(case.queries, **case.columns(0, len(case.rows)))
    assert oracle.listed(found) == oracle.answers(case.queries, case.rows, valued=case.valued, grouped=True)
    assert "group" in found.column_names


def test_what_users_see_is_documented():
    assert set(sb.aggregate.__all__) == {"Monitor", "replay"} <= set(dir(sb.aggregate))
    shown = [replay, Monitor, *(value for name, value in vars(Monitor).items() if not name.startswith("_"))]
    assert all(inspect.getdoc(value) for value in shown)
    with pytest.raises(AttributeError, match="attribute monitr"):
        _ = sb.aggregate.monitr
