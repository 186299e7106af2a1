"""Durations as interval text: what is read, what is written back, and what is refused with a hint."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.durations import format_duration, parse_duration
from skyband.errors import InvalidQueryError, SkybandError


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("10 minutes", 600_000_000),
        ("10 minute", 600_000_000),
        ("10minutes", 600_000_000),
        ("  1   HOUR 30 Minutes ", 5_400_000_000),
        ("interval 2 days", 172_800_000_000),
        ("INTERVAL 1 week", 604_800_000_000),
        ("500 milliseconds", 500_000),
        ("0.5 seconds", 500_000),
        ("1.000001 seconds", 1_000_001),
        ("1 microsecond", 1),
        ("1 day -1 hour", 82_800_000_000),
        ("+3 seconds", 3_000_000),
        ("-3 seconds", -3_000_000),
        ("0 seconds", 0),
        ("5m", 300_000_000),
        ("5 m", 300_000_000),
        ("5 ms", 5_000),
        ("1 min", 60_000_000),
        ("1 hr", 3_600_000_000),
        ("2 hrs 30 mins", 9_000_000_000),
        ("1h30m", 5_400_000_000),
        ("1d12H", 129_600_000_000),
        ("500ms", 500_000),
        ("250 us", 250),
        ("2w", 1_209_600_000_000),
        ("PT5M", 300_000_000),
        ("pt1h30m", 5_400_000_000),
        ("P1DT2H", 93_600_000_000),
        ("P3W", 1_814_400_000_000),
        ("PT0.5S", 500_000),
        ("PT0S", 0),
    ],
)
def test_reads(text, microseconds):
    assert parse_duration(text, field="size") == microseconds


@given(st.timedeltas())
def test_reads_timedeltas_exactly(delta):
    assert parse_duration(delta, field="size") == delta // timedelta(microseconds=1)


@given(st.integers(0, 10**18))
def test_what_is_written_reads_back(microseconds):
    assert parse_duration(format_duration(microseconds), field="size") == microseconds


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (0, "0 seconds"),
        (1, "1 microsecond"),
        (60_000_000, "1 minute"),
        (694_861_001_001, "8 days 1 hour 1 minute 1 second 1 millisecond 1 microsecond"),
        (1_209_600_000_002, "14 days 2 microseconds"),
        (7_776_000_000_000, "90 days"),
    ],
)
def test_writes_the_largest_units_first(microseconds, text):
    assert format_duration(microseconds) == text


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "it is empty"),
        ("   ", "it is empty"),
        ("soon", "expected '<number> <unit>' at 'soon'"),
        ("10", "expected '<number> <unit>' at "),
        ("minutes", "expected '<number> <unit>' at "),
        ("10 minutes and more", "at 'and more'"),
        ("5 minuets", "did you mean 'minutes'?"),
        ("P", "expected '<number> <unit>' at "),
        ("PT", "expected '<number> <unit>' at "),
        ("P1DT", "expected '<number> <unit>' at "),
        ("PT5", "expected '<number> <unit>' at "),
        ("PT0.0000001S", "not a whole number of microseconds"),
        ("P1M", "a month has no fixed length. Use days, or add zone="),
        ("P1Y2M", "a year has no fixed length"),
        ("5 parsecs", "unit 'parsecs' is unknown"),
        ("3 months", "a month has no fixed length. Use days, or add zone="),
        ("1 year", "a year has no fixed length"),
        ("2 quarters", "a quarter has no fixed length"),
        ("0.5 microseconds", "not a whole number of microseconds"),
        ("1e3 seconds", "unit 'e' is unknown"),
    ],
)
def test_refuses_with_the_field_the_value_and_a_hint(text, hint):
    with pytest.raises(InvalidQueryError) as caught:
        parse_duration(text, field="slide")
    message = str(caught.value)
    assert message.startswith(f"slide={text!r} is not a duration: ")
    assert hint in message
    assert "'10 minutes'" in message, "the message shows what would have been right"
    assert isinstance(caught.value, SkybandError)
    assert isinstance(caught.value, ValueError)
