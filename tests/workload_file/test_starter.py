"""The first workload file: whatever the data is called and looks like, it reads back, and it suits the data."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import skyband as sb
from skyband.durations import parse_duration
from skyband.workload_file import DataSample, sample_of, starter
from skyband.workload_file.starter import quoted, windows_for
from skyband.workload_file.tree import read_tree
from tests.workload_file.json_schema import errors

NEW_YEAR = datetime(2024, 1, 1, tzinfo=UTC)


def sample(**given):
    return DataSample(
        **{"path": "trades.csv", "format": "csv", "time": "ts", "columns": [("ts", "timestamp"), ("price", "number")]}
        | given
    )


def read_back(tmp_path, data):
    text = starter(data)
    file = tmp_path / "w.yaml"
    file.write_text(text, encoding="utf-8")
    assert errors(read_tree(text, lambda text, loc: text).value) == []
    return sb.read_workload(file, {})


def test_without_data(tmp_path):
    file = read_back(tmp_path, None)
    assert file.streams["numbers"].source == "rate"
    assert [query.name for query in file.workloads["numbers"]] == ["best", "best_per_group"]


def test_with_data(tmp_path):
    columns = [("ts", "text"), ("trade_id", "integer"), ("symbol", "text"), ("size", "integer"), ("price", "number")]
    data = sample(columns=columns, time_format="yyyy-MM-dd HH:mm", distinct={"symbol": 4}, rows=100)
    file = read_back(tmp_path, data)
    trades = file.streams["trades"]
    assert trades.path == str(tmp_path / "trades.csv")
    assert (trades.time, trades.time_format, trades.id) == ("ts", "yyyy-MM-dd HH:mm", "trade_id")
    assert trades.options == {"header": True}
    best, grouped = file.workloads["trades"]
    assert (best.by, best.partition_by) == ("price * size", ())
    assert (grouped.by, grouped.partition_by) == ("price * size", ("symbol",))


def leaderboard(data, name="leaderboard"):
    """The suggested query over keys, as a file has it without the comment signs; None if there is none."""
    lines = starter(data).split("\n")
    if f"  # - name: {name}" not in lines:
        return None
    at = lines.index(f"  # - name: {name}")
    text = "".join(line.replace("# ", "", 1) + "\n" for line in lines[at : at + 2])
    [entry] = read_tree(text, lambda text, loc: text.replace("$${", "${")).value
    return sb.sql(entry["sql"])


@pytest.mark.parametrize(
    ("columns", "distinct", "key", "aggregate", "value"),
    [
        ([("symbol", "text"), ("price", "number")], {"symbol": 4}, "symbol", "sum", "price"),
        ([("kind", "text"), ("page", "text"), ("ms", "integer")], {"kind": 3, "page": 40}, "page", "sum", "ms"),
        ([("page", "text"), ("note", "text")], {"page": 9, "note": 99}, "page", "count", None),
        ([("value", "text")], {"value": 9}, "value", "count", None),
    ],
)
def test_a_leaderboard_is_suggested(columns, distinct, key, aggregate, value):
    data = sample(columns=[("ts", "timestamp"), *columns], distinct=distinct, rows=100)
    query = leaderboard(data)
    assert isinstance(query, sb.AggregateTopK)
    assert (query.key, query.aggregate, query.value) == (key, aggregate, value)
    assert leaderboard(sample(columns=data.columns, distinct=dict.fromkeys(distinct, 90), rows=100)) is None


def test_queries_over_uncertain_rows_are_suggested():
    columns = [("ts", "timestamp"), ("speed", "number"), ("detection confidence", "number"), ("track_id", "integer")]
    assert leaderboard(sample(columns=columns), "likely") is None
    columns[2] = ("Detection_Confidence", "number")
    query = leaderboard(sample(columns=columns, distinct={"track_id": 5}, rows=100), "likely")
    assert isinstance(query, sb.UncertainTopK)
    assert (query.by, query.probability, query.rule) == ("speed", "Detection_Confidence", "track_id")
    assert leaderboard(sample(columns=[("ts", "timestamp"), ("chance", "number")]), "likely") is None


def test_queries_over_several_streams_are_suggested():
    columns = [("ts", "timestamp"), ("flow", "text"), ("order", "text"), ("bytes", "integer"), ("Router", "text")]
    data = sample(columns=columns, distinct={"flow": 40, "Router": 3}, rows=100)
    query = leaderboard(data, "reported")
    assert isinstance(query, sb.IncompleteTopK)
    assert (query.object, query.stream, query.value, query.aggregate) == ("flow", "Router", "bytes", "sum")
    many = sample(columns=columns, distinct={"flow": 40, "Router": 90}, rows=1000)
    assert leaderboard(many, "reported") is None
    assert leaderboard(sample(columns=columns[:-1], distinct={"flow": 40}, rows=100), "reported") is None


def test_every_key_is_in_it_or_explained():
    from skyband.workload_file.models import EngineSection, Sink, Stream
    from skyband.workload_file.query_models import FamilyQuery

    text = starter(sample())
    left_out = {"partition_by", "stream", "dead_letters", "unreadable_files"}  # where rows have no groups
    for section in (Stream.kinds["files"], FamilyQuery.kinds["topk"], Sink.kinds["parquet"], EngineSection):
        assert [name for name in section.model_fields if f"{name}:" not in text and name not in left_out] == []


@pytest.mark.parametrize(
    ("columns", "by"),
    [
        ([("ts", "timestamp"), ("a b", "number")], "`a b`"),
        ([("ts", "timestamp"), ("a`b", "number")], "`a``b`"),
        ([("ts", "timestamp"), ("order", "number")], "`order`"),
        ([("ts", "timestamp"), ("a.b", "integer")], "`a.b`"),
        ([("ts", "timestamp"), ("größe", "integer")], "`größe`"),
        ([("ts", "timestamp"), ("lat", "number"), ("n", "integer")], "n"),
        ([("ts", "timestamp"), ("n", "number"), ("fare_amount", "number")], "fare_amount"),
        ([("ts", "timestamp"), ("distance", "number"), ("total_amount", "number"), ("tip", "number")], "total_amount"),
        ([("ts", "timestamp"), ("distance_mi", "integer"), ("delay_min", "integer")], "delay_min"),
        ([("ts", "timestamp"), ("price_usd", "number"), ("volume_btc", "number")], "price_usd * volume_btc"),
        ([("ts", "timestamp"), ("status", "integer"), ("bytes", "integer")], "bytes"),
        ([("ts", "timestamp"), ("id", "integer"), ("name", "text")], "length(name)"),
        ([("ts", "timestamp"), ("id", "integer")], "1"),
        ([("ts", "timestamp"), ("user_id", "integer"), ("zone_id", "integer")], "zone_id"),
        ([("ts", "timestamp"), ("a", "number"), ("A", "number"), ("b", "integer")], "b"),
        ([("ts", "timestamp"), ("", "number"), ("ok", "boolean")], "1"),
    ],
)
def test_the_score(tmp_path, columns, by):
    assert read_back(tmp_path, sample(columns=columns)).workloads["trades"]["best"].by == by


@pytest.mark.parametrize(
    ("distinct", "rows", "grouped"),
    [
        ({"a": 3}, 100, True),
        ({"a": 1}, 100, False),
        ({"a": 90}, 100, False),
        ({"a": 5000}, 10**6, False),
        ({}, 9, False),
    ],
)
def test_groups_are_few(tmp_path, distinct, rows, grouped):
    data = sample(columns=[("ts", "timestamp"), ("a", "text"), ("x", "number")], distinct=distinct, rows=rows)
    assert (len(read_back(tmp_path, data).workloads["trades"]) == 2) is grouped


@pytest.mark.parametrize(
    ("columns", "distinct", "group"),
    [
        (
            [("method", "text"), ("section", "text"), ("url", "text")],
            {"method": 3, "section": 12, "url": 900},
            "section",
        ),
        ([("condition", "text"), ("exchange", "text")], {"condition": 40, "exchange": 12}, "exchange"),
        ([("origin", "text"), ("to", "text")], {"origin": 200, "to": 90}, "origin"),
        (
            [("pu_zone", "integer"), ("payment_type", "integer"), ("n", "integer")],
            {"pu_zone": 240, "payment_type": 5, "n": 7},
            "payment_type",
        ),
        ([("n", "integer")], {"n": 5}, None),
    ],
)
def test_the_group(tmp_path, columns, distinct, group):
    data = sample(columns=[("ts", "timestamp"), *columns, ("x", "number")], distinct=distinct, rows=10_000)
    found = [query.partition_by for query in read_back(tmp_path, data).workloads["trades"]]
    assert found == ([()] if group is None else [(), (group,)])


@pytest.mark.parametrize("kind", ["integer", "text"])
@pytest.mark.parametrize(("distinct", "is_id"), [(1000, True), (999, False)])
def test_an_id_identifies_rows(tmp_path, distinct, is_id, kind):
    columns = [("ts", "timestamp"), ("order_id", kind), ("x", "number")]
    data = sample(columns=columns, distinct={"order_id": distinct}, rows=1000)
    assert read_back(tmp_path, data).streams["trades"].id == ("order_id" if is_id else None)


def test_an_id_is_preferably_an_integer(tmp_path):
    columns = [("ts", "timestamp"), ("session_id", "text"), ("order_id", "integer"), ("x", "number")]
    data = sample(columns=columns, distinct={"session_id": 10, "order_id": 10}, rows=10)
    assert read_back(tmp_path, data).streams["trades"].id == "order_id"


@pytest.mark.parametrize(
    ("days", "rows", "windows"),
    [
        (90, 205_000, ("6 hours", "1 day")),  # many rows: short windows
        (365, 17_000, ("7 days", "28 days")),
        (1, 50, ("3 hours", "12 hours")),  # few rows: windows in which there is something to rank
        (365, 9, ("90 days", "360 days")),
    ],
)
def test_windows_suit_the_rate(days, rows, windows):
    assert windows_for(NEW_YEAR, NEW_YEAR + timedelta(days=days), rows) == windows


@given(st.floats(10, 60 * 366 * 86400))
def test_windows_suit_the_span(seconds):
    slide, size = (
        parse_duration(text, field="size") for text in windows_for(NEW_YEAR, NEW_YEAR + timedelta(seconds=seconds))
    )
    assert 10 <= (seconds * 1e6 + size) / slide <= 70
    assert size % slide == 0


def test_windows_where_the_span_is_not_known():
    assert windows_for(None, None) == windows_for(NEW_YEAR, NEW_YEAR) == ("1 minute", "10 minutes")


@given(st.text())
def test_quoted_text_is_read_back(text):
    from skyband.workload_file.environment import Environment

    text = text.encode("utf-16", "replace").decode("utf-16")
    assert read_tree(f"a: {quoted(text)}\n", Environment({}).fill).value == {"a": text}


NAMES = st.text(min_size=1, max_size=12).filter(lambda name: name.strip())
KINDS = st.sampled_from(["timestamp", "number", "integer", "text", "boolean", "struct<a: int64>"])


@given(
    columns=st.lists(st.tuples(NAMES, KINDS), max_size=6),
    time=NAMES,
    path=st.text(min_size=1, max_size=20).filter(lambda path: path.strip()),
    pattern=st.sampled_from([None, "seconds", "yyyy-MM-dd'T'HH:mm:ss[.SSSSSSSSS]XXX"]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_it_always_reads_back(tmp_path, columns, time, path, pattern):
    whole = [(name.encode("utf-16", "replace").decode("utf-16"), kind) for name, kind in columns]
    data = sample(
        columns=[*whole, (time, "text")],
        time=time,
        time_format=pattern,
        path=path,
        distinct={name: 3 for name, _ in whole},
        first=NEW_YEAR,
        last=NEW_YEAR + timedelta(days=3),
    )
    file = read_back(tmp_path, data)
    [stream] = file.streams.values()
    assert (stream.time, stream.time_format) == (time, pattern)
    for name in ("leaderboard", "likely", "reported"):
        assert leaderboard(data, name) is None or leaderboard(data, name).k == 10


CSVS = {
    "iso": "ts,price\n2024-01-01T09:30:00Z,1.5\n2024-01-01T10:30:00.5Z,2\n",
    "minutes": "when,x\n2024-01-01 09:30,1\n2024-01-01 09:31,2\n",
    "dates": "date,x\n2024-01-01,1\n2024-02-01,2\n",
    "epoch": "epoch,x\n1704101400,1\n1704101500,2\n",
    "milliseconds": "event_time,x\n1704101400000,1\n1704101500000,2\n",
    "microseconds": "ts,x\n1704101400000000,1\n1704101500000000,2\n",
    "semicolons": "ts;price;name\n2024-01-01 09:30:00;1.5;a\n2024-01-01 09:31:00;2;b\n",
    "tabs": "ts\tprice\n2024-01-01 09:30:00\t1\n",
    "odd names": '"time stamp","pri:ce","a ""b""","# c","- d","e\nf"\n2024-01-01 09:30:00,1,2,3,4,5\n',
    "words of YAML": "ts,true,null,~,yes\n2024-01-01 09:30:00,1,2,3,4\n",
    "variables": "ts,${HOME}\n2024-01-01 09:30:00,1\n",
    "a byte order mark": "\ufeffts,price\n2024-01-01 09:30:00,1\n",
    "twice the same": "ts,a,a,A,b\n2024-01-01 09:30:00,1,2,3,4\n",
    "no name": "ts,,x\n2024-01-01 09:30:00,1,2\n",
    "returns": "ts,x\r\n2024-01-01 09:30:00,1\r\n2024-01-01 09:31:00,2\r\n",
    "nulls": "ts,x\n,\n2024-01-01 09:30:00,1\n2024-01-01 09:31:00,\n",
    "ragged rows": "ts,x\n2024-01-01 09:30:00,1\n2024-01-01 09:30:00\n2024-01-01 09:31:00,2,3\n2024-01-01 09:32:00,4\n",
    "quoted lines": 'ts,note,x\n2024-01-01 09:30:00,"a\nb",1\n2024-01-01 09:31:00,"c,d",2\n',
    "letters of the world": "时间,prix €,😀 ts\n2024-01-01 09:30:00,1,2024-01-01 09:30:00\n",
    "slashes": "ts,x\n2024/01/01 09:30:00,1\n",
    "zones": "ts,x\n2024-01-01 09:30:00+01:00,1\n2024-01-01 09:30:00+0100,1\n",
    "one column": "ts\n2024-01-01 09:30:00\n",
    "truth": "ts,ok\n2024-01-01 09:30:00,true\n",
}


@pytest.mark.parametrize("name", CSVS)
def test_odd_files_get_a_first_workload_file(tmp_path, name):
    (tmp_path / "data.csv").write_text(CSVS[name], encoding="utf-8", newline="")
    data = sample_of(tmp_path / "data.csv")
    file = read_back(tmp_path, data)
    assert data.first is not None
    assert file.streams["data"].time == data.time
