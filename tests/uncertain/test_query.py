"""The query itself: what its fields may hold, and what the page of a workload tells."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

import skyband as sb
from skyband import UncertainTopK  # noqa: F401 — repr() is evaluated here

Q1 = sb.UncertainTopK(name="q1", k=3, size="20 minutes", every="2 minutes")
Q3 = sb.UncertainTopK(name="q3", k=4, size="20 minutes", every="3 minutes")
Q5 = sb.UncertainTopK(name="q5", k=5, size="20 minutes", every="5 minutes")


def test_is_a_value():
    full = sb.UncertainTopK(
        name="sure", k=2, size="1 hour", every="1 minute", by="speed", probability="p", rule="car", where="lane = 2",
        semantics="pt-k", threshold=0.5,
    )  # fmt: skip
    streams = sb.UncertainTopK(k=2, size="1 hour", stream="sensor", semantics="global-topk")
    for query in (Q1, full, streams, sb.UncertainTopK(k=1, size=100)):
        assert eval(repr(query)) == query == pickle.loads(pickle.dumps(query))
        assert sb.UncertainTopK(**query.to_dict()) == query
    assert sb.UncertainTopK(k=1, size=100).every == 100
    with pytest.raises(dataclasses.FrozenInstanceError):
        Q1.k = 5


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"every": "30 minutes"},
            "every must be between 1 microsecond and '20 minutes' (the window size), got '30 minutes'",
        ),
        ({"size": 10, "every": 11}, "every must be between 1 and 10 (the window size), got 11"),
        ({"size": 10, "every": "1 minute"}, "different axes"),
        ({"k": 0}, "k must be between 1 and 2147483647, got 0"),
        ({"threshold": 0.5}, "threshold=0.5 is not supported with semantics='pk-topk'"),
        ({"semantics": "pt-k"}, "threshold=None is missing; semantics='pt-k' needs"),
        ({"semantics": "pt-k", "threshold": 1.5}, "threshold=1.5 must be a number"),
        ({"semantics": "utopk"}, "semantics must be one of 'pk-topk'"),
        ({"by": "speed"}, "probability=None, but by='speed' is set"),
        ({"probability": "p"}, "by=None, but probability='p' is set"),
        ({"rule": ""}, "rule must be an SQL expression as text, or None, got ''"),
        ({"stream": ""}, "stream must be an SQL expression as text, or None, got ''"),
        ({"stream": "s", "semantics": "u-topk"}, "semantics='u-topk' is not supported with stream='s'"),
        ({"probability": 0.5, "by": "x"}, "probability must be an SQL expression as text, or None, got 0.5"),
    ],
)
def test_refuses_what_has_no_meaning(fields, message):
    with pytest.raises(sb.InvalidQueryError) as raised:
        sb.UncertainTopK(**{"k": 3, "size": "20 minutes", **fields})
    assert message in str(raised.value)


def test_one_size_in_a_class():
    other = sb.UncertainTopK(name="long", k=3, size="1 hour", every="2 minutes")
    with pytest.raises(sb.InvalidQueryError, match="queries 'q1' and 'long' have different sizes"):
        sb.Workload([Q1, other])
    speed = {"by": "speed", "probability": "p"}
    sb.Workload([dataclasses.replace(Q1, **speed), dataclasses.replace(other, by="weight", probability="p")])


def test_families_do_not_mix():
    with pytest.raises(sb.InvalidQueryError, match="must be of one family"):
        sb.Workload([Q1, sb.TopK(k=3, size="20 minutes")])
    with pytest.raises(sb.UnsupportedError, match=r"Use skyband\.uncertain\.replay"):
        sb.Monitor(Q1)


def test_the_page_shows_groups_plan_and_cost():
    page = sb.Workload([Q1, dataclasses.replace(Q1, name="q2", k=2), Q3, Q5]).explain()
    for text in (
        f"4 queries over event time, on tuples with probabilities: {Q1.ranked_text} in 20 minutes, at least every ",
        "Work: 2.1 times less than without sharing.",
        "1 sharing class;",
        "group 1       at least every 2 minutes, k = 3: q1, q2",
        "group 3       at least every 5 minutes, k = 5: q5",
        "2 minutes  ##########    k = 4: q1, q2, q3",
        "4 minutes  ############  k = 5: all",
        "repeats after 4 minutes",
        "cost          2.25 per 1 minute (sum of k over all runs), 4.833 without sharing: 2.1 times less",
    ):
        assert text in page
    assert "window        20 minutes, without tuples that cannot be in any answer" in page
    assert "On Spark" in sb.Workload(Q1).explain(on_spark=True)


def test_the_page_shows_the_plan_that_is_used():
    queries = [sb.UncertainTopK(name=f"k{k}", k=k, size=100, every=every) for every, k in [(30, 2), (51, 3), (60, 4)]]
    work = sb.Workload(queries)
    dp, none = work.explain(plan="dp"), work.explain(plan="none")
    assert "plan          dp: the cheapest plan, found in time quadratic" in dp
    assert "30 tuples  #########     k = 3: k2, k3" in dp
    assert "repeats after 60 tuples" in dp
    assert "cost          0.35 per 3 tuples (sum of k over all runs), 0.5765 without sharing: 1.6 times less" in dp
    assert "51 tuples  #########     k = 3: k3" in none
    assert "… 59 more runs" in none  # 34, 20 and 17 in a cycle of 1020 tuples, of which 12 are shown
    assert "Every query runs separately." in none
    assert "without sharing" not in none
    assert work.explain() == work.explain(plan="auto") == dp
    dear = sb.Workload([sb.UncertainTopK(name=f"k{k}", k=k, size=9, every=every) for every, k in [(2, 1), (3, 6)]])
    assert "Work: 1.2 times more than without sharing." in dear.explain(plan="greedy")
    assert "2.5 without sharing: 1.2 times more" in dear.explain(plan="greedy")
    assert "2.333 per 1 tuple (sum of k over all runs), 2.5 without sharing: 1.1 times less" in dear.explain()
    with pytest.raises(sb.InvalidQueryError, match=r"plan must be one of .*, got 'best'"):
        work.explain(plan="best")
    with pytest.raises(sb.UnsupportedError, match="plan='dp' is not supported for TopK queries"):
        sb.Workload(sb.TopK(k=1, size=10)).explain(plan="dp")


def test_the_page_names_those_who_rank_streams():
    shared = {"k": 2, "size": "1 hour", "by": "height", "probability": "p"}
    queries = [
        sb.UncertainTopK(name=name, stream=stream, **shared)
        for name, stream in [("tuples", None), ("sensors", "sensor"), ("regions", "left(sensor, 2)")]
    ]
    page = sb.Workload(queries).explain(on_spark=True)
    assert "3 queries over event time, on tuples with probabilities: " in page
    assert "Memory: the tuples of the last 1 hour of each sharing class, " in page
    assert "2 sharing classes;" in page
    assert "queries       2: tuples, sensors" in page
    assert "streams       identified by sensor, ranked by the sum over their tuples: sensors" in page
    assert "streams       identified by left(sensor, 2), ranked by the sum over their tuples: regions" in page
    assert "Earlier tasks drop tuples" in page
    assert "streams  " not in sb.Workload(queries[:1]).explain()


def test_the_page_of_a_count_window_with_many_runs():
    queries = [sb.UncertainTopK(name="a", k=1, size=100, every=1, by="x", probability="p", rule="r", where="y > 0")]
    queries.append(dataclasses.replace(queries[0], name="b", k=7, every=50, semantics="u-topk"))
    page = sb.Workload(queries).explain()
    assert "class 1: by x, with probability p, one of each r, where y > 0" in page
    assert "… 38 more runs" in page
    assert "repeats after 50 tuples" in page
