"""What queries share is said by the queries, and grouped in one place."""

from __future__ import annotations

import pytest

import skyband as sb
from skyband.aggregate.plan import scans_of as sums_of
from skyband.incomplete.plan import scans_of as reads_of
from skyband.queries.answer_schema import moment_of
from skyband.queries.families import FAMILIES
from skyband.queries.sharing import places_by
from skyband.topk.meta_query import sharing_classes
from skyband.topk.plan import scans_of
from skyband.uncertain.query import classes_of

# Per family: a query, what may differ inside a class, and what may not.
CASES = {
    "topk": (
        {"by": "price", "where": "a > 1", "partition_by": ["s"]},
        {"k": 9, "size": "2 hours", "slide": "1 minute", "full_only": True, "origin": 60},
        {"by": "size", "where": None, "partition_by": [], "order": "asc", "ties": "rank"},
    ),
    "aggregate": (
        {"key": "client", "value": "bytes", "where": "a > 1", "partition_by": ["s"]},
        {"k": 9, "size": "2 hours", "aggregate": "max", "full_only": True},
        {"key": "server", "value": "packets", "where": None, "partition_by": []},
    ),
    "incomplete": (
        {"object": "car", "stream": "camera", "value": "speed", "where": "a > 1", "streams": ["n", "s"]},
        {"k": 9},
        {"object": "van", "stream": "site", "value": "height", "where": None},
    ),
    "uncertain": (
        {"by": "speed", "probability": "p", "rule": "r", "where": "a > 1"},
        {"k": 9, "every": "1 minute", "semantics": "u-topk"},
        {"by": "height", "probability": "q", "rule": None, "where": None},
    ),
}
families = pytest.mark.parametrize("family", FAMILIES)


def made(family, **given):
    kind = getattr(sb, FAMILIES[family].query)
    return kind(**{"k": 1, "size": "1 hour", **CASES[family][0], **given})


@families
def test_sharing_keys_differ_where_nothing_can_be_shared(family):
    _, inside, apart = CASES[family]
    key = made(family).sharing_key()
    assert hash(key) == hash(made(family, name="other").sharing_key())
    for name, value in inside.items():
        assert made(family, **{name: value}).sharing_key() == key, name
    for name, value in apart.items():
        assert made(family, **{name: value}).sharing_key() != key, name


def test_both_directions_are_one_scan():
    high, low = made("topk"), made("topk", name="low", order="asc")
    assert high.scan_key() == low.scan_key()
    assert [feed.places for feed in scans_of([high, low])] == [(0, 1)]
    assert [meta.queries for meta in sharing_classes([high, low]).values()] == [(high,), (low,)]


@families
def test_what_groups_queries_groups_them_by_their_keys(family):
    _, inside, apart = CASES[family]
    variants = [
        {},
        *({name: value} for given in (apart, inside) for name, value in given.items() if name != "size"),
        {},
    ]
    queries = [made(family, name=str(place), **given) for place, given in enumerate(variants)]
    by_class, by_scan = (
        [tuple(str(place) for place in places) for places in places_by(key, queries).values()]
        for key in (lambda query: query.sharing_key(), lambda query: query.scan_key())
    )
    if family == "topk":
        assert [tuple(one.name for one in meta.queries) for meta in sharing_classes(queries).values()] == by_class
    if family == "uncertain":
        assert [tuple(one.name for one in together) for together in classes_of(queries)] == by_class
    scans = {"topk": scans_of, "aggregate": sums_of, "incomplete": reads_of}
    if family in scans:
        assert [tuple(map(str, scan.places)) for scan in scans[family](queries)] == by_scan


def test_places_come_in_the_order_of_first_appearance():
    assert places_by(len, ["bb", "a", "cc", "", "d"]) == {2: (0, 2), 1: (1, 4), 0: (3,)}
    assert list(places_by(len, ["bb", "a", "cc", "", "d"])) == [2, 1, 0]
    assert places_by(len, []) == {}


@families
def test_the_moment_is_found_among_the_columns_of_answers(family):
    query = made(family)
    bounds = ["window_start", "window_end"] if query.moment == "window_end" else ["time"]
    assert moment_of(["query", *bounds, "rank", "score"]) == query.moment
