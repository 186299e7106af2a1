"""A query is a value: checked at birth, frozen, comparable however it was spelled, printable, picklable."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb
from skyband import TopK  # noqa: F401 — repr() is evaluated here
from tests.drive import count_query, time_query
from tests.streams import asked


def refused(match=None, **fields):
    """The message with which the query is refused."""
    with pytest.raises(sb.InvalidQueryError, match=match) as caught:
        sb.TopK(**{"k": 3, "size": 10, **fields})
    assert isinstance(caught.value, ValueError)
    return str(caught.value)


class TestRefused:
    """Every message gives the value, the rule, and the consequence or what to do."""

    @pytest.mark.parametrize("k", [0, -1, -(2**40), 2**31])
    def test_k_out_of_range(self, k):
        assert refused(k=k) == f"k must be between 1 and 2147483647, got {k}."

    @pytest.mark.parametrize("k", [2.0, 2.5, "3", None, True, np.float64(2), np.True_, [3]])
    def test_k_not_an_integer(self, k):
        assert refused(k=k) == f"k must be an integer, got {k!r} of type {type(k).__name__}."

    @pytest.mark.parametrize("k", [np.array([1, 2]), np.array(2.0)])
    def test_an_array_is_not_a_whole_number(self, k):
        refused(k=k, match="k must be an integer, got .* of type ndarray")
        refused(size=k, match="size must be a duration such as .* of type ndarray")
        refused(slide=k, match="slide must be a duration such as .* of type ndarray")
        refused(origin=k, match="origin must be an integer")

    @pytest.mark.parametrize("slide", [0, -2, 11, 10**9])
    def test_slide_out_of_range(self, slide):
        message = refused(slide=slide)
        assert message.startswith(f"slide must be between 1 and 10 (the window size), got {slide}.")
        assert "some objects would be in no window" in message

    @pytest.mark.parametrize("slide", ["0 seconds", "-1 second", "2 minutes", timedelta(0)])
    def test_time_slide_out_of_range(self, slide):
        message = refused(size="60 seconds", slide=slide)
        assert f"slide must be between 1 microsecond and '60 seconds' (the window size), got {slide!r}." in message
        assert "some objects would be in no window" in message

    @pytest.mark.parametrize("size", [0, -1])
    def test_size_not_positive(self, size):
        assert refused(size=size) == f"size must be at least 1, got {size}."

    @pytest.mark.parametrize("size", ["0 seconds", "-5 minutes", timedelta(days=-1)])
    def test_time_size_not_positive(self, size):
        assert refused(size=size) == f"size must be at least 1 microsecond, got {size!r}."

    def test_time_beyond_the_axis(self):
        message = refused(size="9000000 weeks")
        assert message.startswith("size='9000000 weeks' and origin=None must be below 2**62 microseconds")
        refused(size="1 week", origin=2**62, match=r"origin=4611686018427387904 must be below 2\*\*62 microseconds")

    @pytest.mark.parametrize("field", ["size", "slide"])
    def test_finer_than_a_microsecond(self, field):
        fine = pd.Timedelta(1500, "ns")
        message = refused(**{"size": "1 second", field: fine})
        assert message.startswith(f"{field}={fine!r} is not a duration: it is not a whole number of microseconds")
        assert sb.TopK(k=1, size=pd.Timedelta(2000, "ns")) == sb.TopK(k=1, size="2 microseconds")

    @pytest.mark.parametrize("origin", [pd.NaT, pd.Timestamp(1500, unit="ns"), pd.Timestamp(1, unit="ns", tz="UTC")])
    def test_origin_is_no_whole_microsecond(self, origin):
        assert (
            refused(size="1 hour", origin=origin) == f"origin must be a whole number of microseconds, got {origin!r}."
        )

    @pytest.mark.parametrize("size", [10.0, b"10 minutes", (10,), date(2020, 1, 1), True])
    def test_size_of_no_axis(self, size):
        message = refused(size=size)
        assert message.startswith("size must be a duration such as '10 minutes'")
        assert message.endswith(f"got {size!r} of type {type(size).__name__}.")

    @pytest.mark.parametrize("field", ["size", "slide"])
    @pytest.mark.parametrize(
        "text", ["", "soon", "5 minuets", "3 months", "0.1 microseconds", "10", "9" * 5000 + " days"]
    )
    def test_unparsable_duration(self, field, text):
        fields = {"size": "10 minutes", "slide": "1 minute", field: text}
        assert refused(**fields).startswith(f"{field}={text!r} is not a duration: ")

    @pytest.mark.parametrize(("size", "slide"), [("10 minutes", 5), (10, "5 minutes"), (10, timedelta(minutes=1))])
    def test_mixed_axes(self, size, slide):
        message = refused(size=size, slide=slide)
        assert f"size={size!r} and slide={slide!r} are on different axes" in message
        assert "Give both as durations or both as integers" in message

    @pytest.mark.parametrize("name", ["", "  ", None, 7, b"big", "half a \ud800"])
    def test_name(self, name):
        assert f"name must be non-empty text without surrogates, got {name!r}." in refused(name=name)

    @pytest.mark.parametrize("order", ["descending", "DESC", None, 1, "", ["desc"]])
    def test_order(self, order):
        assert f"order={order!r} must be 'desc' (higher first) or 'asc' (lower first)" in refused(order=order)

    @pytest.mark.parametrize("flag", [1, 0, None, "yes", np.True_])
    def test_full_only(self, flag):
        assert f"full_only must be True or False, got {flag!r} of type " in refused(full_only=flag)

    @pytest.mark.parametrize("field", ["by", "where"])
    @pytest.mark.parametrize("expression", ["", "  ", 5])
    def test_expressions(self, field, expression):
        message = refused(**{field: expression})
        assert message == f"{field} must be an SQL expression as text, or None, got {expression!r}."

    @pytest.mark.parametrize(
        ("columns", "rule"),
        [
            (5, "must be a list of column names"),
            (np.array("a"), "must be a list of column names"),
            (["a", ""], "must contain only column names, got '' in"),
            (["a", 3], "must contain only column names, got 3 in"),
            (["a", "b", "a"], "contains a column twice"),
        ],
    )
    def test_partition_by(self, columns, rule):
        message = refused(partition_by=columns)
        assert message.startswith(("partition_by=", "partition_by must "))
        assert rule in message

    @pytest.mark.parametrize("origin", ["yesterday", "2024-13-01", 1.5, date(2024, 1, 1), timedelta(1), True])
    def test_time_origin(self, origin):
        message = refused(size="1 hour", origin=origin)
        assert message.startswith("origin must be ")
        assert f"got {origin!r}" in message

    def test_origin_of_another_age(self):
        origin = pd.Timestamp(np.datetime64(10**13, "s"))
        assert refused(size="1 hour", origin=origin).endswith("is too far from 1970 for microseconds in 64 bits.")

    @pytest.mark.parametrize("origin", ["2024-01-01", datetime(2024, 1, 1, tzinfo=UTC), 1.5, True])
    def test_count_origin(self, origin):
        assert (
            refused(origin=origin)
            == f"origin must be an integer (a sequence number) for count windows, got {origin!r}."
        )

    @pytest.mark.parametrize("far", [{"size": 2**62}, {"origin": 2**62}, {"origin": -(2**62)}])
    def test_beyond_the_axis(self, far):
        refused(**far, match=r"must be below 2\*\*62")

    def test_positional_arguments(self):
        with pytest.raises(TypeError):
            sb.TopK(3, 10)

    def test_unknown_field(self):
        with pytest.raises(TypeError, match="sildes"):
            sb.TopK(k=3, size=10, sildes=2)


class TestSpellings:
    """However a question is written, the same question is the same value."""

    @pytest.mark.parametrize(
        "size", ["10 minutes", "600 seconds", "  10  Minutes", "interval 10 minutes", timedelta(minutes=10)]
    )
    def test_durations(self, size):
        query = sb.TopK(k=1, size=size, slide="60 seconds")
        same = sb.TopK(k=1, size="10 minutes", slide=timedelta(minutes=1))
        assert query == same
        assert hash(query) == hash(same)
        assert repr(query) == repr(same)
        assert query.size == "10 minutes"

    @pytest.mark.parametrize(
        "origin",
        [
            "2024-01-01",
            "2024-01-01T00:00:00",
            "2024-01-01T01:00:00+01:00",
            datetime(2024, 1, 1),
            datetime(2024, 1, 1, tzinfo=UTC),
            pd.Timestamp("2024-01-01"),
            pd.Timestamp("2024-01-01T01:00", tz="Europe/Paris"),
            datetime(2024, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
            1_704_067_200_000_000,
            np.int64(1_704_067_200_000_000),
        ],
    )
    def test_origins(self, origin):
        assert sb.TopK(k=1, size="1 day", origin=origin) == sb.TopK(k=1, size="1 day", origin="2024-01-01T00:00Z")

    def test_origin_before_1970_to_the_microsecond(self):
        query = sb.TopK(k=1, size="1 day", origin=datetime(1969, 12, 31, 23, 59, 59, 999_999))
        assert query.window.origin == -1

    def test_defaults(self):
        assert sb.TopK(k=1, size=10) == sb.TopK(name="topk", k=1, size=10, slide=10, origin=0, order="desc")

    def test_whole_numbers_of_any_kind(self):
        query = sb.TopK(k=np.int32(3), size=np.uint8(10), slide=np.int64(2))
        assert query == sb.TopK(k=3, size=10, slide=2)
        assert type(query.k) is type(query.size) is type(query.slide) is int

    def test_columns(self):
        assert sb.TopK(k=1, size=9, partition_by="a").partition_by == ("a",)
        assert sb.TopK(k=1, size=9, partition_by=iter(["a", "b"])).partition_by == ("a", "b")

    def test_a_count_window_is_not_a_time_window(self):
        count, time = sb.TopK(k=1, size=10), sb.TopK(k=1, size="10 microseconds")
        assert (count.axis, time.axis) == ("count", "time")
        assert count.window == time.window
        assert count != time

    @pytest.mark.parametrize(
        "change",
        [
            {"k": 2},
            {"size": "2 hours"},
            {"slide": "1 minute"},
            {"name": "b"},
            {"by": "price"},
            {"where": "a > 1"},
            {"partition_by": ["s"]},
            {"order": "asc"},
            {"origin": 1},
            {"full_only": True},
        ],
    )
    def test_every_field_counts(self, change):
        query = sb.TopK(k=1, size="1 hour")
        other = dataclasses.replace(query, **change)
        assert query != other
        assert len({query, other}) == 2


FULL = sb.TopK(
    name="per symbol's best",
    k=5,
    size="1 hour",
    slide="7 minutes",
    by="price * size",
    where="exchange <> 'D'",
    partition_by=["symbol", "side"],
    order="asc",
    origin="1969-07-20T20:17:40Z",
    full_only=True,
)


@pytest.mark.parametrize("query", [FULL, sb.TopK(k=1, size=10), sb.TopK(k=1, size=10, slide=3, origin=-4)])
class TestValue:
    def test_repr_reads_back(self, query):
        assert eval(repr(query)) == query

    def test_pickle(self, query):
        again = pickle.loads(pickle.dumps(query))
        assert again == query
        assert (again.window, again.axis, hash(again)) == (query.window, query.axis, hash(query))

    def test_copy(self, query):
        assert copy.copy(query) == copy.deepcopy(query) == dataclasses.replace(query) == query

    def test_plain_values_survive_json(self, query):
        assert sb.TopK(**json.loads(json.dumps(query.to_dict()))) == query

    @pytest.mark.parametrize("field", ["k", "size", "window", "axis", "anything"])
    def test_frozen(self, query, field):
        before = repr(query)
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(query, field, 7)
        with pytest.raises(dataclasses.FrozenInstanceError):
            delattr(query, field)
        assert repr(query) == before


@given(asked(), st.sampled_from([time_query, count_query]))
def test_any_query_survives_repr_pickle_and_json(plain, build):
    query = build(plain)
    assert eval(repr(query)) == query == pickle.loads(pickle.dumps(query)) == sb.TopK(**query.to_dict())
    assert (query.window.size, query.window.slide, query.window.origin) == (plain.size, plain.slide, plain.origin)
