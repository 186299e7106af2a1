"""Tables as lines of JSON, whatever Arrow can hold."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal

import pyarrow as pa
import pytest

from skyband.data.json_lines import flat, json_lines, without_formulas

ZONE = dt.timezone(dt.timedelta(hours=2))


@pytest.mark.parametrize(
    ("value", "spelled"),
    [
        (1.5, 1.5),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (float("nan"), "NaN"),
        (dt.datetime(2024, 1, 1, 12, tzinfo=ZONE), "2024-01-01T10:00:00Z"),
        (dt.datetime(2024, 1, 1, 12), "2024-01-01T12:00:00"),
        (dt.date(2024, 1, 1), "2024-01-01"),
        (dt.time(1, 2, 3), "01:02:03"),
        (dt.timedelta(seconds=90), 90.0),
        (Decimal("1.10"), "1.10"),
        (b"\x00\xff", "AP8="),
        ([1.0, None, float("nan")], [1.0, None, "NaN"]),
        ({"a": [dt.date(2024, 1, 1)]}, {"a": ["2024-01-01"]}),
        ("line\nbreak “ü”", "line\nbreak “ü”"),
        (2**60 + 1, 2**60 + 1),
    ],
)
def test_values(value, spelled):
    (line,) = json_lines(pa.table({"x": [value]}))
    assert line.count("\n") == 1
    assert json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON")) == {"x": spelled}


FAR = {  # microseconds since 1970, in JSON, in CSV
    1_699_972_963_200_000_000: ("+55840-01-01T00:00:00Z", "+55840-01-01 00:00:00.000000Z"),
    253_402_300_800_000_001: ("+10000-01-01T00:00:00.000001Z", "+10000-01-01 00:00:00.000001Z"),
    -62_324_985_600_000_000: ("-0005-01-01T00:00:00Z", "-0005-01-01 00:00:00.000000Z"),
    -1: ("1969-12-31T23:59:59.999999Z", "1969-12-31 23:59:59.999999Z"),
    0: ("1970-01-01T00:00:00Z", "1970-01-01 00:00:00.000000Z"),
}


def test_times_of_any_year_are_written():
    times = pa.array([*FAR, None], pa.timestamp("us", "UTC"))
    table = pa.table(
        {
            "at": times,
            "local": times.cast(pa.timestamp("us")),
            "days": pa.array([10**7, -(10**6), 0, 1, None, 3], pa.date32()),
            "nested": pa.array([[{"at": time}] for time in [*FAR, None]], pa.list_(pa.struct([("at", times.type)]))),
        }
    )
    rows = [json.loads(line) for line in json_lines(table)]
    assert [row["at"] for row in rows] == [*(spelled for spelled, _ in FAR.values()), None]
    assert [row["local"] for row in rows] == [*(spelled[:-1] for spelled, _ in FAR.values()), None]
    assert [row["days"] for row in rows][:3] == ["+29349-01-26", "-0768-02-04", "1970-01-01"]
    assert [row["nested"][0]["at"] for row in rows] == [row["at"] for row in rows]
    assert flat(table)["at"].to_pylist() == [*(spelled for _, spelled in FAR.values()), None]
    near = pa.table({"at": times.slice(3)})
    assert flat(near)["at"] is near["at"] or flat(near).schema == near.schema, "others are left to Arrow"


def test_nanoseconds_are_written():
    table = pa.table({"at": pa.array([1_700_000_000_123_456_789], pa.timestamp("ns", "UTC"))})
    assert json.loads(*json_lines(table))["at"] == "2023-11-14T22:13:20.123456789Z"


def test_formulas_are_quoted_where_that_is_asked_for():
    texts = ["=cmd|' /C calc'!A0", "+1", "-1", "@sum", "\tx", "\rx", "fine", "", None, "a=b"]
    quoted = without_formulas(pa.table({"=a": texts, "b": pa.array(range(-5, 5))}))
    assert quoted.column_names == ["'=a", "b"]
    assert quoted["'=a"].to_pylist() == [f"'{text}" for text in texts[:6]] + texts[6:]
    assert quoted["b"].to_pylist() == list(range(-5, 5))


def test_nested_columns_become_text():
    table = pa.table({"a": [[1, 2], None], "b": [{"x": 1}, {"x": None}], "c": [b"\x01", None], "d": [1, 2]})
    assert flat(table).to_pydict() == {
        "a": ["[1, 2]", None],
        "b": ['{"x": 1}', '{"x": null}'],
        "c": ["AQ==", None],
        "d": [1, 2],
    }


def test_a_far_time_in_a_row_breaks_no_screen():
    """A row may bring any time in its other columns; who shows answers has no object for some of them."""
    from skyband.cli.line_writers import PlainLines
    from skyband.connectors.memory import Board

    far = pa.array([1_699_972_963_200_000_000], pa.timestamp("us", "UTC"))
    end = pa.array([60_000_000], pa.timestamp("us", "UTC"))
    rows = pa.table(
        {"query": ["q"], "window_start": end, "window_end": end, "rank": [1], "score": [2.0], "shipped": far}
    )
    board = Board()
    board.take(0, rows)
    assert board.newest("q").to_pylist()[0]["shipped"].startswith("+55840-01-01")
    out = io.StringIO()
    PlainLines(out).take(0, rows)
    assert "shipped=+55840-01-01" in out.getvalue()
