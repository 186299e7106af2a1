"""A workload: distinct names, one axis, frozen and ordered."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

import skyband as sb
from skyband import TopK, Workload  # noqa: F401 — repr() is evaluated here

HOUR = sb.TopK(name="hour", k=5, size="1 hour", slide="1 minute")
DAY = sb.TopK(name="day", k=20, size="1 day", slide="1 hour")
COUNT = sb.TopK(name="count", k=2, size=100)


def test_one_query_several_or_a_workload():
    assert sb.Workload(HOUR) == sb.Workload([HOUR]) == sb.Workload(iter([HOUR])) == sb.Workload(sb.Workload(HOUR))


def test_keeps_its_order():
    work = sb.Workload([HOUR, DAY])
    assert list(work) == [HOUR, DAY]
    assert len(work) == 2
    assert work.axis == "time"
    assert work != sb.Workload([DAY, HOUR])


def test_finds_a_query_by_name():
    assert sb.Workload([HOUR, DAY])["day"] is DAY


def test_unknown_name_with_near_matches():
    with pytest.raises(sb.UnknownNameError, match=r"query 'houre' does not exist; did you mean 'hour'\?"):
        sb.Workload([HOUR, DAY])["houre"]
    with pytest.raises(sb.UnknownNameError, match="known: day, hour"):
        sb.Workload([HOUR, DAY])["zzz"]


def test_refuses_duplicate_names():
    with pytest.raises(
        sb.InvalidQueryError, match=r"name='hour' is used by more than one query. Names identify queries"
    ):
        sb.Workload([HOUR, DAY, dataclasses.replace(DAY, name="hour")])


def test_refuses_mixed_axes():
    with pytest.raises(sb.InvalidQueryError, match="'hour' has time windows and 'count' has count windows"):
        sb.Workload([HOUR, DAY, COUNT])


def test_refuses_nothing_at_all():
    with pytest.raises(sb.InvalidQueryError, match="at least one query"):
        sb.Workload([])


@pytest.mark.parametrize("queries", [["big"], "big", [HOUR, None], {"hour": 5}])
def test_refuses_what_is_not_a_query(queries):
    with pytest.raises(sb.InvalidQueryError, match=r"is not a query. A workload consists of skyband\.TopK, "):
        sb.Workload(queries)


@pytest.mark.parametrize("queries", [None, 5, sb.TopK])
def test_refuses_what_holds_no_queries(queries):
    with pytest.raises(sb.InvalidQueryError, match=r"is not a query. A workload consists of skyband\.TopK, "):
        sb.Workload(queries)


def test_is_a_value():
    work = sb.Workload([HOUR, DAY])
    assert eval(repr(work)) == work == pickle.loads(pickle.dumps(work))
    assert len({work, sb.Workload([HOUR, DAY])}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        work.queries = ()
