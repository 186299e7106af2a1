"""Tables as lines of JSON, whatever Arrow can hold."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest

from skyband.lines import flat, json_lines

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


def test_nested_columns_become_text():
    table = pa.table({"a": [[1, 2], None], "b": [{"x": 1}, {"x": None}], "c": [b"\x01", None], "d": [1, 2]})
    assert flat(table).to_pydict() == {
        "a": ["[1, 2]", None],
        "b": ['{"x": 1}', '{"x": null}'],
        "c": ["AQ==", None],
        "d": [1, 2],
    }
