"""Data frames of all libraries become the same Arrow table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import skyband as sb
from skyband.local.frames import as_table, is_frame

TIMES = [1_600_000_000_123_456 + 700_000 * step for step in range(6)]
PLAIN = pa.table(
    {
        "at": pa.array(TIMES, pa.timestamp("us")),
        "v": [3.0, 1.0, 4.0, 1.0, 5.0, 9.0],
        "g": ["a", "b", "a", None, "b", "a"],
        "n": pa.array([1, 2, None, 4, 5, 6], pa.int64()),
    }
)
QUERY = sb.TopK(k=2, size="2 seconds", slide="1 second", by="v + coalesce(n, 0)", partition_by="g")


def pandas_frame():
    frame = PLAIN.to_pandas()
    frame["at"] = frame["at"].astype("datetime64[ns]")
    frame["g"] = frame["g"].astype("category")
    frame["n"] = frame["n"].astype("Int64")
    return frame


def polars_frame():
    return pl.from_arrow(PLAIN).with_columns(pl.col("g").cast(pl.Categorical))


def duckdb_relation():
    return duckdb.connect().from_arrow(PLAIN)


FORMS = {
    "table": lambda: PLAIN,
    "chunks": lambda: pa.concat_tables([PLAIN.slice(0, 2), PLAIN.slice(2)]),
    "batch": lambda: PLAIN.combine_chunks().to_batches()[0],
    "reader": lambda: PLAIN.to_reader(max_chunksize=2),
    "dictionary": lambda: PLAIN.set_column(2, "g", PLAIN["g"].dictionary_encode()),
    "pandas": pandas_frame,
    "pandas with an index": lambda: pandas_frame().set_index(np.arange(6) * 7),
    "polars": polars_frame,
    "polars strings": lambda: pl.from_arrow(PLAIN),
    "polars enum": lambda: pl.from_arrow(PLAIN).with_columns(pl.col("g").cast(pl.Enum(["a", "b"]))),
    "polars lazy": lambda: polars_frame().lazy(),
    "duckdb": duckdb_relation,
    "columns": lambda: {name: PLAIN[name] for name in PLAIN.column_names},
    "lists": lambda: {**PLAIN.to_pydict(), "at": np.array(TIMES).view("datetime64[us]")},
    "series": lambda: dict(pl.from_arrow(PLAIN).to_dict()),
    "pandas series": lambda: dict(pandas_frame().items()),
}


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_have_the_same_answers(form):
    frame = FORMS[form]()
    assert is_frame(frame)
    expected = sb.replay(QUERY, PLAIN, time="at")
    assert len(expected) > 5
    found = sb.replay(QUERY, frame, time="at")
    assert found.schema == expected.schema
    assert found == expected


@pytest.mark.parametrize("form", [form for form in FORMS if form != "reader"])
def test_all_forms_can_be_pushed(form):
    frame = FORMS[form]()
    monitor = sb.Monitor(QUERY, time="at")
    monitor.push(frame)
    monitor.finish()
    assert monitor.answers() == sb.replay(QUERY, PLAIN, time="at")


@pytest.mark.parametrize(
    "value",
    [
        [1, 2],
        (1, 2),
        np.arange(2),
        pa.array([1]),
        pa.chunked_array([[1]]),
        pd.Series([1]),
        pd.Index([1]),
        pl.Series([1]),
        None,
        5,
    ],
)
def test_arrays_are_not_frames(value):
    assert not is_frame(value)


def test_arrays_may_be_series():
    positions, scores = [0, 1, 2], [1.0, 2.0, 3.0]
    query = sb.TopK(k=1, size="2 microseconds")
    expected = sb.replay(query, positions, scores)
    for series in (pd.Series, pl.Series):
        assert sb.replay(query, series(positions), series(scores)) == expected


def test_answers_can_be_queried_again():
    found = sb.replay(sb.TopK(k=2, size="1 second", by="v"), PLAIN, time="at")
    assert is_frame(found)
    again = sb.replay(sb.TopK(k=1, size="10 seconds", by="v"), found, time="window_end")
    assert again["v"].to_pylist() == [9.0]


ZONE = timezone(timedelta(hours=-5))


def test_instants_come_back_in_utc():
    at = [datetime(2024, 1, 1, 12, 0, second, tzinfo=ZONE) for second in (1, 2)]
    frame = pd.DataFrame({"at": pd.to_datetime(at), "v": [1.0, 2.0]})
    found = sb.replay(sb.TopK(k=1, size="1 minute", by="v"), frame, time="at")
    assert found.schema.field("window_end").type == pa.timestamp("us", "UTC")
    assert found["at"].to_pylist() == [datetime(2024, 1, 1, 17, 0, 2, tzinfo=UTC)]


def test_nanoseconds_are_rounded_down():
    at = pa.array([-1, 0, 999, 1000, None], pa.int64()).cast(pa.timestamp("ns"))
    assert as_table({"at": at})["at"].cast(pa.int64()).to_pylist() == [-1, 0, 0, 1, None]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (pa.uint8(), pa.int16()),
        (pa.uint16(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.uint64(), pa.decimal128(20, 0)),
        (pa.float16(), pa.float32()),
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.timestamp("s", "Europe/Paris"), pa.timestamp("us", "UTC")),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        (pa.date64(), pa.date32()),
    ],
)
def test_types_are_those_of_spark(given, expected):
    assert as_table(pa.schema([("x", given)]).empty_table()).schema.field("x").type == expected


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"a": [1, 2], "b": [1]}, r"the data frame \(dict\) cannot be converted to Arrow: .*Nothing was read from it"),
        ({"a": [1, "x"]}, r"cannot be converted to Arrow"),
        ({"a": 5}, r"cannot be converted to Arrow"),
        (pd.DataFrame({"a": [1, "x"]}), r"the data frame \(.*DataFrame\) cannot be converted to Arrow"),
        ({"at": pa.array([2**62], pa.timestamp("s"))}, r"cannot be converted to Arrow"),
    ],
)
def test_rejected_frames(frame, message):
    with pytest.raises(sb.InvalidInputError, match=message):
        sb.replay(QUERY, frame, time="at")


def test_two_columns_of_one_name_are_rejected():
    twice = pa.Table.from_arrays([PLAIN["at"], PLAIN["v"], PLAIN["v"]], names=["at", "v", "V"])
    with pytest.raises(sb.InvalidInputError, match="more than one column named"):
        sb.replay(sb.TopK(k=1, size="1 second", by="v"), twice, time="at")
