"""The history of answers: what is kept, for how long, and that a batch which is run again is not counted twice."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest

import skyband as sb
from skyband.dashboard.boards import board, gaps_of, moment_of, moments, ranks_over_time, summary
from skyband.dashboard.query_info import QueryInfo
from skyband.dashboard.wire import group_key
from tests.dashboard.making import MINUTE, answers, grouped, history


def ids_of(found):
    return [row["id"] for row in found["rows"]]


def put(store, batch, *windows, groups=False):
    store.outlet("s").take(batch, answers(windows, groups=groups))
    store.settle()


def test_the_newest_window_and_its_neighbours():
    store = history("q")
    put(store, 0, ("q", None, 1, [(7, 3.0)]), ("q", None, 2, [(8, 4.0), (7, 3.0)]))
    put(store, 1, ("q", None, 5, [(9, 4.5)]))
    newest = board(store, "q")
    assert ids_of(newest) == [9]
    assert (newest["moment"], newest["previous"], newest["next"]) == (
        "1970-01-01T00:05:00+00:00",
        "1970-01-01T00:02:00+00:00",
        None,
    )
    older = board(store, "q", moment=2 * MINUTE)
    assert ids_of(older) == [8, 7]
    assert older["next"] == older["newest"] == newest["moment"]
    assert board(store, "q", moment=3 * MINUTE) is None
    assert board(store, "other") is None


def test_a_batch_that_is_run_again_replaces_itself():
    store = history("q", "other")
    put(store, 3, ("q", None, 1, [(7, 3.0)]), ("other", None, 1, [(1, 1.0)]))
    put(store, 4, ("q", None, 2, [(8, 3.0)]))
    before = store.bytes
    for _ in range(5):
        put(store, 4, ("q", None, 2, [(8, 3.0)]))
    assert store.bytes == before
    assert summary(store, "q")["windows"] == 2
    put(store, 4, ("q", None, 2, [(9, 5.0)]))
    assert ids_of(board(store, "q")) == [9]
    put(store, 3)  # it turns out to have had no answers
    assert summary(store, "other") is None
    assert len(moments(store, "q", None)["moments"]) == 1


def test_windows_may_come_in_any_order():
    places = list(range(1, 40))
    random.Random(5).shuffle(places)
    store = history("q")
    for batch, minute in enumerate(places):
        put(store, batch, ("q", None, minute, [(minute, 1.0)]))
    assert [window.moment // MINUTE for window in store.line("q")] == sorted(places)
    assert ids_of(board(store, "q")) == [39]


@pytest.mark.parametrize("total", [11, 60, 2000])
def test_older_windows_are_thinned_and_counted(total):
    """The newest are all there, the oldest stay in part, and what is missing between two is known exactly."""
    store = history("q", "seldom", most_windows=10)
    put(store, 0, ("seldom", None, 1, [(1, 1.0)]))
    for minute in range(1, total + 1):
        put(store, minute, ("q", None, minute, [(minute, 1.0)]))
    found = moments(store, "q", None)
    kept = [moment_of(text) // MINUTE for text in found["moments"]]
    assert 5 <= len(kept) <= 10
    assert (kept[0], kept[-4:]) == (1, list(range(total - 3, total + 1)))
    assert found["dropped"] == total - len(kept)
    boards = [board(store, "q", moment=minute * MINUTE) for minute in kept]
    assert [one["dropped"] for one in boards] == [0, *(b - a - 1 for a, b in pairwise(kept))]
    assert ranks_over_time(store, "q", None, 100)["gaps"] == []  # dropped windows had data
    assert (summary(store, "q")["windows"], summary(store, "q")["dropped"]) == (len(kept), total - len(kept))
    assert (summary(store, "seldom")["windows"], summary(store, "seldom")["dropped"]) == (1, 0)


def test_windows_without_answers_are_gaps():
    store = history("q")
    for minute in (1, 2, 3, 10, 11):
        put(store, minute, ("q", None, minute, [(minute, float(minute))]))
    assert ranks_over_time(store, "q", None, 100)["gaps"] == [3]
    assert summary(store, "q")["trend"] == [1.0, 2.0, 3.0, None, 10.0, 11.0]
    known = replace(QueryInfo("q", "s", "topk"), query=sb.TopK(name="q", k=1, size="1 minute", slide="30 seconds"))
    assert gaps_of([MINUTE, 2 * MINUTE], [0, 0], known) == [1]
    days = sb.TopK(name="q", k=1, size="1 month", zone="Europe/Berlin")
    ends = list(days.window.ends_between(0, 10**14))[:4]
    known = replace(known, query=days)
    assert gaps_of(ends, [0] * 4, known) == []
    assert gaps_of([ends[0], *ends[2:]], [0] * 3, known) == [1]


def test_bytes_are_bounded_and_who_answers_seldom_keeps_its_newest():
    most = 400_000
    store = history("q", "seldom", most_bytes=most)
    put(store, 0, ("seldom", None, 1, [(1, 1.0), (2, 0.5)]))
    for minute in range(2, 500):
        put(store, minute, ("q", None, minute, [(place, 1.0) for place in range(100)]))
        assert store.bytes <= most
    assert ids_of(board(store, "seldom")) == [1, 2]
    kept = moments(store, "q", None)["moments"]
    assert 10 < len(kept) < 490
    held = [moment_of(text) // MINUTE for text in kept]
    assert held[0] == 2  # a sample of the oldest stays
    assert moments(store, "q", None)["dropped"] == 498 - len(kept)
    skipped = [board(store, "q", moment=minute * MINUTE)["dropped"] for minute in held]
    assert skipped == [0, *(b - a - 1 for a, b in pairwise(held))]
    assert board(store, "q")["newest"] == kept[-1] == "1970-01-01T08:19:00+00:00"


def test_one_batch_larger_than_all_there_is_room_for():
    store = history("q", most_bytes=10_000)
    put(store, 0, ("q", None, 1, [(place, 1.0) for place in range(10)]))
    put(store, 1, ("q", None, 2, [(place, 1.0) for place in range(5_000)]))
    assert len(board(store, "q")["rows"]) == 5_000


def test_many_newest_windows_cannot_exceed_the_bound_for_ever():
    most = 200_000
    names = [f"q{number}" for number in range(200)]
    store = history(*names, most_bytes=most)
    for minute, name in enumerate(names):  # each answers once, and all would be spared
        put(store, minute, (name, None, minute, [(place, 1.0) for place in range(100)]))
    assert store.bytes <= most
    assert summary(store, names[0]) is None
    assert summary(store, names[-1])["rows"] == 100


def test_nobody_looks_for_long():
    store = history("q", most_bytes=50_000)
    for minute in range(1, 300):
        store.outlet("s").take(minute, answers([("q", None, minute, [(place, 1.0) for place in range(100)])]))
    assert sum(laid.bytes for laid in store._waiting.values()) <= 50_000
    store.settle()
    assert board(store, "q")["moment"] == "1970-01-01T04:59:00+00:00"


def test_groups_have_boards_of_their_own():
    store = history(grouped("q"))
    windows = [
        ("q", symbol, minute, [(place, 9.0)]) for minute in (1, 2) for place, symbol in enumerate(["b", "a", None])
    ]
    put(store, 0, *windows, groups=True)
    put(store, 1, ("q", "a", 3, [(42, 9.0)]), groups=True)
    assert store.groups("q") == (3, [["a"], ["b"], [None]])
    assert store.groups("q", like="NUL") == (1, [[None]])
    assert store.groups("q", limit=1) == (3, [["a"]])
    assert ids_of(board(store, "q", group_key(["b"]))) == [0]
    assert ids_of(board(store, "q", group_key([None]))) == [2]
    assert board(store, "q", group_key(["zzz"])) is None
    newest = board(store, "q")
    assert (newest["group"], ids_of(newest)) == (["a"], [42])
    assert summary(store, "q") | {"trend": None} == {
        "moment": "1970-01-01T00:03:00+00:00",
        "dropped": 0,
        "windows": 7,
        "groups": 3,
        "first": 9.0,
        "last": 9.0,
        "rows": 1,
        "trend": None,
    }


def test_the_default_group_does_not_jump_about():
    store = history(grouped("q"))
    for minute in range(1, 6):
        order = ["b", "a", "c"] if minute % 2 else ["c", "a", "b"]
        put(store, minute, *(("q", symbol, minute, [(1, 1.0)]) for symbol in order), groups=True)
        assert board(store, "q")["group"] == ["b"]


def test_a_column_that_tells_groups_of_one_query_is_an_attribute_of_another():
    store = history(grouped("by symbol"), "all")
    rows = answers(
        [
            ("by symbol", "a", 1, [(1, 3.0), (2, 2.0)]),
            ("by symbol", "b", 1, [(3, 9.0)]),
            ("all", "b", 1, [(3, 9.0)]),
        ],
        groups=True,
    )
    more = answers([("all", "a", 1, [(1, 3.0)])], groups=True)
    more = more.set_column(more.column_names.index("rank"), "rank", pa.array([2], pa.int32()))
    store.outlet("s").take(0, pa.concat_tables([rows, more]))
    store.settle()
    assert ids_of(board(store, "all")) == [3, 1]
    assert [row["details"] for row in board(store, "all")["rows"]] == [
        {"symbol": "b", "id": 3},
        {"symbol": "a", "id": 1},
    ]
    assert board(store, "by symbol", group_key(["a"]))["rows"][1]["details"] == {"id": 2}
    assert store.groups("all") == (1, [[]])


def test_what_two_writers_wrote_of_a_window_is_put_together():
    store = history("q")
    whole = answers([("q", None, 1, [(place, 10.0 - place) for place in range(6)])])
    store.put("one", "s", whole.slice(3))
    store.put("two", "s", whole.slice(0, 3))
    store.settle()
    assert ids_of(board(store, "q")) == [0, 1, 2, 3, 4, 5]
    assert summary(store, "q")["first"] == 10.0
    assert summary(store, "q")["last"] == 5.0
    assert summary(store, "q")["windows"] == 1


def test_only_what_has_changed_is_named():
    store = history("a", "b")
    put(store, 0, ("a", None, 1, [(1, 1.0)]), ("b", None, 1, [(1, 1.0)]))
    version = store.version
    assert set(store.changed_since(0)) == {"a", "b"}
    put(store, 1, ("b", None, 2, [(1, 1.0)]))
    assert store.changed_since(version) == ["b"]
    assert store.changed_since(store.version) == []


def test_trends_are_the_last_scores():
    store = history("q")
    for minute in range(1, 101):
        score = float("inf") if minute == 100 else float(minute)
        put(store, minute, ("q", None, minute, [(1, 500.0), (2, score)]))
    found = summary(store, "q")
    assert found["trend"] == [*map(float, range(41, 100)), None]
    assert found["last"] == "Infinity"


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("ms", "Europe/Berlin"), pa.date32()])
def test_moments_of_other_types(kind):
    store = history("q")
    rows = answers([("q", None, 2880, [(1, 1.0)])])
    place = rows.column_names.index("window_end")
    store.put(0, "s", rows.set_column(place, "window_end", rows["window_end"].cast(kind, safe=False)))
    store.settle()
    assert board(store, "q")["moment"] == "1970-01-03T00:00:00+00:00"


def test_another_query_under_the_same_name_begins_anew():
    store = history("q", "other")
    put(store, 0, ("q", None, 1, [(1, 1.0)]), ("other", None, 1, [(1, 1.0)]))
    before = store.bytes
    store.set_queries({"q": replace(store.info("q"), k=7)})  # only better known
    assert summary(store, "q")["windows"] == 1
    store.set_queries({"q": grouped("q")})
    assert summary(store, "q") is None
    assert store.bytes < before
    put(store, 1, ("q", "a", 2, [(2, 1.0)]), groups=True)
    assert store.groups("q") == (1, [["a"]])
    assert board(store, "q")["rows"][0]["move"] == "same"
    assert summary(store, "other")["windows"] == 1
