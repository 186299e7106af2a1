"""Sharing plans: never late for any query, and as cheap as the definitions say."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import islice, pairwise, product

import pytest

import skyband as sb

METHODS = ("none", "in", "inco", "dp", "greedy", "auto")
ORIGINAL = [(2, 3), (2, 2), (3, 4), (5, 3), (5, 5), (7, 2)]
FIRST = [(2, 3), (3, 4), (5, 5)]
SECOND = [(30, 2), (51, 3), (60, 4)]


def cost(plan):
    return Fraction(sum(run.k_max for run in plan.executions), plan.cycle)


def latest_gaps(plan, cycles=3):
    """The longest time each query waits for an answer, from the start on and across cycles."""
    answered = {place: [0] for place in range(len(plan.requests))}
    for run in plan.upcoming(0):
        if run.time > cycles * plan.cycle:
            break
        for place in run.queries:
            answered[place].append(run.time)
    return {
        place: max((late - early for early, late in pairwise(times)), default=float("inf"))
        for place, times in answered.items()
    }


def check(plan):
    assert plan.cost_per_unit == pytest.approx(float(cost(plan)))
    assert [run.time for run in plan.executions] == sorted(run.time for run in plan.executions)
    assert all(0 < run.time <= plan.cycle for run in plan.executions)
    for run in plan.executions:
        assert run.k_max == max(plan.requests[place][1] for place in run.queries)
    for place, gap in latest_gaps(plan).items():
        assert gap <= plan.requests[place][0]


def random_requests(draw, most=5, longest=12):
    return [(draw.randint(1, longest), draw.randint(1, 9)) for _ in range(draw.randint(1, most))]


def cheapest_by_trying(requests):
    """All plans with a cycle up to the longest `every`: at each time nobody runs, or all queries up to some k."""
    best = None
    ks = sorted({k for _, k in requests})
    for cycle in range(1, max(every for every, _ in requests) + 1):
        for chosen in product([0, *ks], repeat=cycle):
            total = Fraction(sum(chosen), cycle)
            if best is not None and total >= best:
                continue
            if all(in_time(chosen, every, k) for every, k in requests):
                best = total
    return best


def in_time(chosen, every, k):
    times = [time for time, run in enumerate(chosen, 1) if run >= k]
    if not times or times[0] > every:
        return False
    gaps = [late - early for early, late in pairwise(times)]
    return max([*gaps, times[0] + len(chosen) - times[-1]]) <= every


@pytest.mark.parametrize("method", ["dp", "greedy"])
def test_the_first_example(method):
    for requests in (FIRST, ORIGINAL):
        plan = sb.uncertain.schedule(requests, method)
        assert (plan.cycle, cost(plan), plan.cost_per_unit) == (4, Fraction(9, 4), 9 / 4)
        assert [(run.time, run.k_max) for run in plan.executions] == [(2, 4), (4, 5)]


@pytest.mark.parametrize("method", ["dp", "greedy"])
def test_the_second_example(method):
    """The greedy rule comes to the cheapest plan too: the second group's last run before 60 is at 60."""
    plan = sb.uncertain.schedule(SECOND, method)
    assert (plan.cycle, cost(plan), plan.cost_per_unit) == (60, Fraction(7, 60), 7 / 60)
    assert [(run.time, run.k_max) for run in plan.executions] == [(30, 3), (60, 4)]


def test_no_sharing_and_sharing_inside_groups():
    plans = {method: sb.uncertain.schedule(ORIGINAL, method) for method in METHODS}
    assert cost(plans["none"]) == sum(Fraction(k, every) for every, k in ORIGINAL)
    assert cost(plans["in"]) == Fraction(3, 2) + Fraction(4, 3) + Fraction(5, 5) + Fraction(2, 7)
    assert cost(plans["inco"]) == Fraction(3, 2) + Fraction(4, 3) + Fraction(5, 5)
    assert [group[:2] for group in plans["inco"].groups] == [(2, 3), (3, 4), (5, 5)]
    assert plans["none"].cycle == 210
    assert [run.time for run in islice(plans["none"].executions, 4)] == [2, 2, 3, 4]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(40))
def test_every_plan_is_in_time(method, seed):
    draw = random.Random(seed)
    plan = sb.uncertain.schedule(random_requests(draw, most=7), method)
    check(plan)


@pytest.mark.parametrize("seed", range(40))
def test_the_cheapest_plan_is_the_cheapest(seed):
    requests = random_requests(random.Random(seed), most=4, longest=6)
    assert cost(sb.uncertain.schedule(requests, "dp")) == cheapest_by_trying(requests)


@pytest.mark.parametrize("seed", range(60))
def test_methods_are_ordered_by_cost(seed):
    draw = random.Random(seed)
    requests = [(draw.randint(1, 60), draw.randint(1, 100)) for _ in range(draw.randint(1, 30))]
    costs = {method: Fraction(0) for method in METHODS}
    for method in METHODS:
        plan = sb.uncertain.schedule(requests, method)
        costs[method] = sum(
            (Fraction(sum(run.k_max for run in track.runs), track.period) for track in plan.tracks), Fraction(0)
        )
        assert plan.cost_per_unit == pytest.approx(float(costs[method]))
    assert costs["dp"] <= costs["inco"] <= costs["in"] <= costs["none"]
    assert costs["dp"] <= costs["greedy"] <= 2 * costs["dp"]
    assert costs["dp"] <= costs["auto"] <= costs["none"]


@pytest.mark.parametrize("seed", range(40))
def test_two_groups_have_a_closed_form(seed):
    draw = random.Random(seed)
    short, long = sorted(draw.sample(range(1, 400), 2))
    k, more = sorted(draw.sample(range(1, 60), 2))
    plan = sb.uncertain.schedule([(short, k), (long, more)], "dp")
    check(plan)
    costs = {cycle: Fraction((cycle - 1) // short * k + more, cycle) for cycle in range(1, long + 1)}
    assert cost(plan) == min(costs.values())
    assert plan.cycle == max(cycle for cycle, one in costs.items() if one == cost(plan))
    runs = plan.tracks[0].runs
    assert [runs[place] for place in range(len(runs))] == [runs[-len(runs) + place] for place in range(len(runs))]
    assert runs[:2] == list(runs)[:2]
    with pytest.raises(IndexError):
        runs[len(runs)]


def test_two_long_groups_are_not_searched():
    plan = sb.uncertain.schedule([(1_000_000_007, 2), (1_000_000_009, 3)], "dp")
    assert plan.executions == [(1_000_000_007, 3, (0, 1))]
    plan = sb.uncertain.schedule([(2, 1), (10**9 + 1, 2 * 10**9)], "dp")
    assert plan.cycle == 10**9 + 1
    later = plan.upcoming(plan.cycle - 2)
    assert [(run.time - plan.cycle, run.k_max) for run in islice(later, 3)] == [(-1, 1), (0, 2 * 10**9), (2, 1)]


def test_the_default_never_costs_more_than_no_sharing():
    requests = [(2, 1), (3, 6)]
    costs = {method: cost(sb.uncertain.schedule(requests, method)) for method in METHODS}
    assert costs["none"] == Fraction(5, 2)
    assert costs["greedy"] == 3  # more than no sharing
    assert costs["dp"] == costs["auto"] == Fraction(7, 3)
    assert sb.uncertain.schedule(requests).method == "dp"
    assert cost(sb.uncertain.schedule(requests)) == Fraction(7, 3)


@pytest.mark.parametrize("seed", range(40))
def test_where_a_search_is_too_long_the_cheaper_plan_is_the_default(seed, monkeypatch):
    monkeypatch.setattr("skyband.uncertain.scheduling._QUICK_STEPS", 0)
    monkeypatch.setattr("skyband.uncertain.scheduling._QUICK_ROOM", 0)
    draw = random.Random(seed)
    requests = [(draw.randint(1, 9), draw.randint(1, 9) ** 2) for _ in range(draw.randint(3, 9))]
    found = {method: sb.uncertain.schedule(requests, method) for method in METHODS}
    if len(found["inco"].groups) > 2:
        assert found["auto"].method != "dp"
    assert cost(found["auto"]) <= cost(found["none"])
    allowed = [found[method] for method in METHODS[:3] + METHODS[4:5] if cost(found[method]) <= cost(found["none"])]
    assert found["auto"].seconds_per_unit <= min(plan.seconds_per_unit for plan in allowed)


def estimated(plan):
    """Seconds of all runs in a unit of time, from the list of runs."""
    return sum(300e-6 + 1e-6 * run.k_max + 16e-6 * len(run.queries) for run in plan.executions) / plan.cycle


@pytest.mark.parametrize("seed", range(60))
def test_the_default_takes_the_least_time(seed):
    draw = random.Random(seed)
    requests = [
        (draw.randint(1, 12), draw.choice([1, 10, 1000, draw.randint(1, 5000)])) for _ in range(draw.randint(1, 8))
    ]
    found = {method: sb.uncertain.schedule(requests, method) for method in METHODS}
    for plan in found.values():
        assert plan.seconds_per_unit == pytest.approx(estimated(plan))
    check(found["auto"])
    allowed = [plan for plan in found.values() if cost(plan) <= cost(found["none"])]
    assert found["auto"].seconds_per_unit == min(plan.seconds_per_unit for plan in allowed)


def test_answers_that_nobody_needs_are_not_free():
    """A query of a week beside one of a second: to answer it every second would take more time than its own runs."""
    requests = [(1, 5), *[(604_800, 5)] * 1000]
    plan = sb.uncertain.schedule(requests)
    assert plan.method == "in"
    assert plan.seconds_per_unit < sb.uncertain.schedule(requests, "dp").seconds_per_unit / 10
    assert plan.cost_per_unit <= sb.uncertain.schedule(requests, "none").cost_per_unit


def test_runs_that_take_time_are_shared():
    """Where the sum of k is the same, fewer runs are better."""
    plan = sb.uncertain.schedule([(4, 100), (5, 101)])
    assert [(run.time, run.k_max) for run in plan.executions] == [(4, 101)]


def test_a_long_plan_by_default():
    far = [(1_000_000_007, 2), (1_000_000_009, 3), (1_000_000_011, 9)]
    plan = sb.uncertain.schedule(far)
    assert plan.method in ("greedy", "inco")
    with pytest.raises(sb.UnsupportedError, match=r"099 steps \(at most 10{12}\) and 2000000022 table entries"):
        sb.uncertain.schedule(far, "dp")


def test_plans_speak_in_the_units_of_the_input():
    for method in METHODS:
        short = sb.uncertain.schedule(FIRST, method)
        long = sb.uncertain.schedule([(1000 * every, k) for every, k in FIRST], method)
        assert long.cycle == 1000 * short.cycle
        assert [run.time for run in long.executions] == [1000 * run.time for run in short.executions]
        assert long.cost_per_unit == pytest.approx(short.cost_per_unit / 1000)


def test_runs_go_on_in_every_cycle():
    plan = sb.uncertain.schedule(FIRST)
    assert [run.time for run in islice(plan.upcoming(0), 5)] == [2, 4, 6, 8, 10]
    assert [run.time for run in islice(plan.upcoming(4), 2)] == [6, 8]
    assert [run.time for run in islice(plan.upcoming(10**15 + 1), 2)] == [10**15 + 2, 10**15 + 4]


def test_a_cycle_too_long_to_be_listed():
    plan = sb.uncertain.schedule([(every, 3) for every in range(1, 60)], "none")
    assert plan.cycle > 10**20
    assert plan.cost_per_unit == pytest.approx(sum(3 / every for every in range(1, 60)))
    with pytest.raises(sb.UnsupportedError, match=r"one cycle of the plan has \d+ units and \d+ executions"):
        _ = plan.executions
    assert next(plan.upcoming(10**19)).time == 10**19 + 1


def test_a_long_greedy_plan_is_not_written_down():
    plan = sb.uncertain.schedule([(1, 2), (7, 3), (10**12, 5)], "greedy")
    assert plan.cycle == 10**12 // 7 * 7
    assert plan.cost_per_unit == pytest.approx(2 * 6 / 7 + 3 / 7)
    later = plan.upcoming(plan.cycle - 2)
    assert [(run.time - plan.cycle, run.k_max) for run in islice(later, 4)] == [(-1, 2), (0, 5), (1, 2), (2, 2)]
    with pytest.raises(sb.UnsupportedError, match="one cycle of the plan has"):
        _ = plan.executions
    runs = sb.uncertain.schedule(SECOND, "greedy").tracks[0].runs
    assert runs[-1] == runs[1] == list(runs)[1]
    with pytest.raises(IndexError):
        runs[2]


def test_forty_thousand_units():
    plan = sb.uncertain.schedule([(1, 2), (7, 5), (900, 20), (40_000, 100)], "greedy")
    assert plan.cycle == 39_424  # 7, 128 · 7 = 896, 44 · 896
    assert len(plan.executions) == 39_424
    assert plan.executions[-1].k_max == 100


@pytest.mark.parametrize("wrong", [[(0, 3)], [(2.5, 3)], [(2,)], [5], None, [(2, 3, 4)], [("2 minutes", 3)]])
def test_refuses_what_is_no_request(wrong):
    with pytest.raises(sb.InvalidQueryError, match=r"queries\[0\] must be a pair \(every, k\)"):
        sb.uncertain.schedule(wrong)


def test_what_is_no_request_is_shown():
    query = sb.UncertainTopK(k=3, size=4)
    with pytest.raises(sb.InvalidQueryError, match=r"got UncertainTopK\(name='topk', k=3"):
        sb.uncertain.schedule([(2, 3), query])


def test_refuses_nothing_and_unknown_methods():
    with pytest.raises(sb.InvalidQueryError, match="at least one query"):
        sb.uncertain.schedule([])
    with pytest.raises(sb.InvalidQueryError, match=r"method must be one of 'auto'.*, got 'best'"):
        sb.uncertain.schedule(FIRST, "best")
    with pytest.raises(sb.InvalidQueryError, match="k must be between 1 and 2147483647, got 0"):
        sb.uncertain.schedule([(2, 0)])


def test_a_plan_too_long_to_search():
    with pytest.raises(sb.UnsupportedError, match=r"steps.*Use method='auto'"):
        sb.uncertain.schedule([(1, 2), (999_983, 5), (9_999_991, 7)], "dp")


def test_a_plan_is_shown():
    assert repr(sb.uncertain.schedule(FIRST)) == "Plan(method='dp', queries=3, cycle=4, cost_per_unit=2.25)"
