"""Boards: every move against the definition, restated over plain lists; and ids of every kind."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.dashboard.boards import MOST_OBJECTS, board, ranks_over_time
from skyband.dashboard.query_info import QueryInfo
from tests.dashboard.making import MINUTE, answers, history

objects = st.lists(st.integers(0, 12), max_size=8, unique=True).filter(bool)


def restated(before, now):
    """Who entered, left, rose, fell or stayed, by what the words mean."""
    rows = []
    for rank, object_ in enumerate(now, 1):
        if before is None:
            rows.append((object_, "same", None))
        elif object_ not in before:
            rows.append((object_, "entered", None))
        else:
            old = before.index(object_) + 1
            rows.append((object_, {True: "up", False: "down"}[rank < old] if rank != old else "same", old))
    left = [(object_, place + 1) for place, object_ in enumerate(before or ()) if object_ not in now]
    return rows, left


@settings(deadline=None)
@given(st.lists(objects, min_size=1, max_size=6), st.booleans())
def test_moves_are_what_the_words_mean(windows, in_one_batch):
    store = history("q")
    tables = [
        answers([("q", None, minute, [(object_, 100.0 - place) for place, object_ in enumerate(ranked)])])
        for minute, ranked in enumerate(windows)
    ]
    for batch, table in enumerate([pa.concat_tables(tables)] if in_one_batch else tables):
        store.outlet("s").take(batch, table)
    store.settle()
    for minute, now in enumerate(windows):
        found = board(store, "q", moment=minute * MINUTE)
        before = windows[minute - 1] if minute else None
        rows, left = restated(before, now)
        assert [(row["id"], row["move"], row["old_rank"]) for row in found["rows"]] == rows
        assert [(one["id"], one["old_rank"]) for one in found["left"]] == left
        assert [row["rank"] for row in found["rows"]] == list(range(1, len(now) + 1))


@settings(deadline=None)
@given(st.lists(objects, min_size=1, max_size=8), st.integers(1, 8))
def test_ranks_over_time(windows, last):
    store = history("q")
    for minute, ranked in enumerate(windows):
        store.outlet("s").take(minute, answers([("q", None, minute, [(one, 9.0 - one) for one in ranked])]))
    store.settle()
    found = ranks_over_time(store, "q", None, last)
    shown = windows[-last:]
    ids = [one["id"] for one in found["objects"]]
    assert ids[: len(shown[-1])] == shown[-1]
    assert set(ids) == {object_ for ranked in shown for object_ in ranked}
    for one in found["objects"]:
        assert one["ranks"] == [ranked.index(one["id"]) + 1 if one["id"] in ranked else None for ranked in shown]
    assert found["first"] == [9.0 - ranked[0] for ranked in shown]
    assert found["last"] == [9.0 - ranked[-1] for ranked in shown]


def test_a_chart_shows_no_more_objects_than_it_can():
    store = history("q")
    store.outlet("s").take(0, answers([("q", None, 1, [(place, 1.0) for place in range(1000)])]))
    store.settle()
    assert [one["id"] for one in ranks_over_time(store, "q", None, 120)["objects"]] == list(range(MOST_OBJECTS))


@pytest.mark.parametrize(
    ("values", "kind", "wire"),
    [
        ([2**60, 2**60 + 1], pa.int64(), [str(2**60), str(2**60 + 1)]),
        (["<b>", None], pa.string(), ["<b>", None]),
        ([float("nan"), float("inf")], pa.float64(), ["NaN", "Infinity"]),
        ([[1, 2], [1, 3]], pa.list_(pa.int64()), ["[1, 2]", "[1, 3]"]),
        ([b"a", b"b"], pa.binary(), ["YQ==", "Yg=="]),
    ],
)
def test_ids_of_every_kind_are_told_apart(values, kind, wire):
    store = history("q")
    store.outlet("s").take(0, answers([("q", None, 1, [(value, 1.0) for value in values])], kind=kind))
    store.outlet("s").take(1, answers([("q", None, 2, [(value, 1.0) for value in reversed(values)])], kind=kind))
    store.settle()
    found = board(store, "q")
    assert [(row["id"], row["move"]) for row in found["rows"]] == [(wire[1], "up"), (wire[0], "down")]
    assert ranks_over_time(store, "q", None, 9)["objects"][0] == {"id": wire[1], "ranks": [2, 1]}


def test_the_column_that_the_stream_names_is_the_id():
    store = history(QueryInfo("q", "s", "topk", id="Trade_ID"))
    store.outlet("s").take(0, answers([("q", None, 1, [(5, 1.0)])], id_="trade_id"))
    store.settle()
    assert board(store, "q")["rows"][0]["id"] == 5


def test_a_label_names_objects_and_does_not_identify_them():
    store = history(QueryInfo("q", "s", "topk", id="id", label="Name"))
    for batch, (ids, names) in enumerate([([1, 2, 3], "aab"), ([2, 1, 4], "axc")]):
        rows = answers([("q", None, batch, [(one, 1.0) for one in ids])])
        store.outlet("s").take(batch, rows.append_column("name", pa.array(list(names))))
    store.settle()
    found = board(store, "q")
    assert [(row["id"], row["label"], row["move"]) for row in found["rows"]] == [
        (2, "a", "up"),
        (1, "x", "down"),
        (4, "c", "entered"),
    ]
    assert [(one["id"], one["label"]) for one in found["left"]] == [(3, "b")]
    objects = {one["id"]: one["label"] for one in ranks_over_time(store, "q", None, 9)["objects"]}
    assert objects == {2: "a", 1: "x", 4: "c", 3: "b"}
    assert "label" not in board(store, "q", label="")["rows"][0]
    assert board(store, "q", label="score")["rows"][0]["label"] == 1.0
    assert "label" not in board(store, "q", label="nothing")["rows"][0]


def test_windows_that_are_not_final_say_so():
    store = history("q")
    rows = answers([("q", None, 1, [("x", 1.0)])])
    after = rows.schema.get_field_index("window_end") + 1
    store.outlet("s").take(0, rows.add_column(after, "final", pa.array([False])))
    store.outlet("s").take(1, answers([("q", None, 2, [("x", 1.0)])]).append_column("final", pa.array([False])))
    store.settle()
    assert board(store, "q", moment=60_000_000)["rows"][0]["final"] is False
    assert "final" not in board(store, "q")["rows"][0]  # a column of the row that has this name


def test_without_an_id_the_whole_row_is_one():
    store = history("q")
    for batch, names in enumerate([["x", "y"], ["y", "x"]]):
        rows = answers([("q", None, batch, [(name, 1.0) for name in names])], id_="city")
        store.outlet("s").take(batch, rows.append_column("n", pa.array([1, 1])))
    store.settle()
    assert [(row["id"], row["move"]) for row in board(store, "q")["rows"]] == [("y · 1", "up"), ("x · 1", "down")]


def test_one_object_at_several_ranks():
    """Of uncertain tuples, the likeliest for each rank may be the same one."""
    store = history("q")
    store.outlet("s").take(0, answers([("q", None, 1, [(5, 1.0), (5, 1.0), (6, 1.0)])]))
    store.outlet("s").take(1, answers([("q", None, 2, [(6, 1.0), (5, 1.0), (5, 1.0)])]))
    store.settle()
    found = board(store, "q")
    assert [(row["id"], row["move"], row["old_rank"]) for row in found["rows"]] == [
        (6, "up", 3),
        (5, "down", 1),
        (5, "down", 1),
    ]
    assert found["left"] == []


def test_what_only_some_families_tell():
    store = history(QueryInfo("u", "s", "uncertain"), QueryInfo("i", "t", "incomplete"))
    at = pa.array([60_000_000], pa.timestamp("us", "UTC"))
    one = {"time": at, "rank": pa.array([1], pa.int32()), "score": [2.0]}
    store.put(0, "s", pa.table({"query": ["u"], **one, "id": [1], "probability": [0.5], "expected_rank": [1.5]}))
    store.put(1, "t", pa.table({"query": ["i"], **one, "object": ["a"], "best": [float("inf")], "sure": [None]}))
    store.settle()
    uncertain, incomplete = board(store, "u")["rows"][0], board(store, "i")["rows"][0]
    assert (uncertain["id"], uncertain["probability"], uncertain["details"]["expected_rank"]) == (1, 0.5, 1.5)
    assert (incomplete["id"], incomplete["best"], incomplete["sure"]) == ("a", "Infinity", None)
    assert "best" not in uncertain
    assert board(store, "u")["start"] is None


def test_streams_are_ranked_by_their_names():
    store = history(QueryInfo("u", "s", "uncertain"))
    at = pa.array([60_000_000], pa.timestamp("us", "UTC"))
    rows = {
        "query": ["u"],
        "time": at,
        "rank": [1],
        "id": pa.nulls(1, pa.int64()),
        "score": [2.0],
        "probability": [0.5],
    }
    store.put(0, "s", pa.table({**rows, "stream": ["ship"]}))
    store.settle()
    assert board(store, "u")["rows"][0]["id"] == "ship"
