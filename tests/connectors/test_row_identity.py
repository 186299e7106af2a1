"""Rows are known by their query, the moment of their answer, their group and their place, whatever the stream holds."""

from __future__ import annotations

import datetime as dt
import json
import math

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from skyband.connectors.row_identity import GROUP, PLACE, newest_answers, with_places

GROUPS = {"all": (), "one": ("G",), "two": ("g", "h"), "other": ("h",)}
ROWS = st.lists(
    st.tuples(
        st.sampled_from(sorted(GROUPS)),
        st.integers(0, 3),
        st.sampled_from(["a", "", None, "[null]", '"', "\0", "é" * 300]),
        st.sampled_from([1.5, math.inf, -0.0, 0.0, None]),
    ),
    max_size=40,
)


def table(rows):
    query, end, g, h = zip(*rows, strict=True) if rows else ((),) * 4
    return pa.table(
        {
            "query": pa.array(query, pa.string()),
            "window_end": pa.array(end, pa.int64()),
            "g": pa.array(g, pa.string()),
            "h": pa.array(h, pa.float64()),
        }
    )


@given(rows=ROWS)
def test_places_count_the_rows_of_each_answer(rows):
    found = with_places(table(rows), GROUPS).to_pylist()
    assert [(row["query"], row["window_end"], row["g"], row["h"]) for row in found] == rows
    seen = {}
    for row in found:
        values = [row[name.lower()] for name in GROUPS[row["query"]]]
        answer = (row["query"], row["window_end"], repr(values))
        seen[answer] = seen.get(answer, 0) + 1
        assert row[PLACE] == seen[answer]
        if len(row[GROUP].encode()) <= 500:
            assert json.loads(row[GROUP]) == [_plain(value) for value in values]
    keys = [(row["query"], row["window_end"], row[GROUP], row[PLACE]) for row in found]
    assert len(set(keys)) == len(keys)


def _plain(value):
    return "Infinity" if value == math.inf else value


@given(rows=ROWS)
def test_the_newest_answers(rows):
    newest = {}
    for query, end, *_ in rows:
        newest[query] = max(end, newest.get(query, end))
    found = newest_answers(table(rows), ["query"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [row for row in rows if row[1] == newest[row[0]]]


def test_groups_of_every_type():
    when = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    values = {
        "a": pa.array([when, None, when + dt.timedelta(microseconds=1)], pa.timestamp("us", "UTC")),
        "b": pa.array([dt.date(2024, 1, 1), None, dt.date(2024, 1, 2)]),
        "c": pa.array([True, None, False]),
        "d": pa.array([[1, 2], None, []]),
        "e": pa.array([b"\xff", None, b""]),
        "f": pa.array([{"x": 1}, None, {"x": None}]),
    }
    for name, column in values.items():
        rows = pa.table({"query": ["q"] * 3, "window_end": [1, 1, 1], name: column})
        found = with_places(rows, {"q": (name,)})
        assert len(set(found[GROUP].to_pylist())) == 3, name
        assert found[PLACE].to_pylist() == [1, 1, 1]
