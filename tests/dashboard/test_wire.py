"""Values on the wire: a browser must be able to read them, and lose nothing."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.dashboard.boards import moment_of
from skyband.dashboard.wire import group_key, moment_text, packed, plain
from tests.dashboard.asking import strict


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (2**53, 2**53),
        (2**53 + 1, "9007199254740993"),
        (-(2**60), "-1152921504606846976"),
        (True, True),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
        (0.1, 0.1),
        (None, None),
        (datetime(2024, 1, 1, 9, 30, tzinfo=timezone(timedelta(hours=2))), "2024-01-01T07:30:00+00:00"),
        (datetime(2024, 1, 1, 9, 30), "2024-01-01T09:30:00"),
        (date(2024, 1, 1), "2024-01-01"),
        (timedelta(seconds=1.5), 1.5),
        (Decimal("12.340"), "12.340"),
        (b"\x00\xff", "AP8="),
        ({"a": [math.nan, {"b": 2**60}]}, {"a": ["NaN", {"b": str(2**60)}]}),
        ("<script>\u202e\n", "<script>\u202e\n"),
    ],
)
def test_what_the_browser_gets(value, wire):
    assert plain(value) == wire or (wire is True and plain(value) is True)
    assert strict(packed(plain(value))) == wire


def test_very_long_text_is_cut_and_says_so():
    found = plain("x" * 100_000)
    assert len(found) < 20_000
    assert found.endswith("…")
    assert plain("x" * 10_240) == "x" * 10_240


@given(st.integers(-(2**55), 2**57))
def test_moments_come_back(moment):
    assert moment_of(str(moment_text(moment, "time"))) == moment
    assert moment_of(str(moment_text(moment, "count"))) == moment


def test_a_moment_that_lost_its_plus_sign_in_a_url():
    assert moment_of("2024-01-01T09:30:00 00:00") == moment_of("2024-01-01T09:30:00+00:00")
    assert moment_of("2024-01-01T09:30:00") == int(datetime(2024, 1, 1, 9, 30, tzinfo=UTC).timestamp()) * 10**6


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [([1.0], [1], True), (["1"], [1], False), ([None], ["null"], False), ([math.nan], ["NaN"], True), ([], [], True)],
)
def test_groups_are_found_however_javascript_spells_them(one, other, same):
    assert (group_key(one) == group_key(other)) is same
