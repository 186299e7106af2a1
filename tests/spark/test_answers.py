"""Batch data frames: the answers against the definitions, and the columns that come back."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

import skyband as sb
from skyband.spark import answers
from tests.sharding import cases
from tests.spark.frames import SCHEMA, collected, frame

T = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
SECOND = dt.timedelta(seconds=1)
HOUR = {"k": 2, "size": "1 hour"}


def sorted_rows(out):
    return collected(out.orderBy("query", "window_end", "rank"))


@pytest.mark.parametrize(
    ("axis", "seed", "algorithm"),
    [("time", 1, "auto"), ("time", 2, "mintopk"), ("time", 3, "mtoplist"), ("count", 4, "auto"), ("count", 5, "naive")],
)
def test_answers_are_those_of_the_definitions(spark, axis, seed, algorithm):
    random = cases.rng("batch", seed)
    posed = [cases.draw_posed(random, f"q{i}", axis=axis, kinds=cases.KINDS[i : i + 1]) for i in range(5)]
    rows = cases.draw_rows(random, 200)
    random.shuffle(rows)
    out = answers(
        frame(spark, rows), [one.query(axis) for one in posed], time="ts", id="id", algorithm=algorithm, shards=3
    )
    want = {}
    for one in posed:
        want |= cases.wanted(one, rows, axis)
    assert cases.answered(collected(out), posed) == want


def test_columns_and_their_order(spark):
    df = frame(spark, [(1_000_000, 2.0, 1, "a"), (2_000_000, 1.0, 2, None)])
    whole = sb.TopK(name="whole", by="s", **HOUR)
    grouped = sb.TopK(name="grouped", by="s", partition_by=["g", "upper(g)"], **HOUR)
    out = answers(df, [whole, grouped], time="TS", id="ID")
    assert [f"{name} {kind}" for name, kind in out.dtypes] == [
        "query string",
        "g string",
        "upper(g) string",
        "window_start timestamp",
        "window_end timestamp",
        "rank int",
        "score double",
        "ts timestamp",
        "id bigint",
        "s double",
        "odd boolean",
    ]
    found = {(row["query"], row["rank"], row["g"], row["upper(g)"], row["id"]) for row in collected(out)}
    assert found == {
        ("whole", 1, "a", None, 1),
        ("whole", 2, None, None, 2),
        ("grouped", 1, "a", "A", 1),
        ("grouped", 1, None, None, 2),
    }
    by_count = answers(df, sb.TopK(k=1, size=2, by="s"), time="ts")
    assert [kind for name, kind in by_count.dtypes if name.startswith("window")] == ["bigint", "bigint"]


TYPES = """ts timestamp, n long, i int, short smallint, tiny tinyint, f float, d double, t string, flag boolean,
    price decimal(20, 4), raw binary, day date, local timestamp_ntz, pair struct<a: int, b: array<string>>,
    list array<decimal(5, 1)>, by_name map<string, timestamp>, span interval day to second"""


def test_every_type_of_column_comes_back_as_it_was(spark):
    full = (
        *(T, 2**60, -7, 3, 1, 0.5, float("inf"), "häß", True, Decimal("12345678901234.5678"), b"\0\xff"),
        *(dt.date(1969, 2, 3), dt.datetime(2024, 1, 1, 12, 0, 0, 7), (1, ["x", None]), [Decimal("0.1"), None]),
        *({"a": T, "b": None}, dt.timedelta(days=1, microseconds=3)),
    )
    empty = (T + SECOND, 1, *([None] * 15))
    df = spark.createDataFrame([full, empty], TYPES)
    query = sb.TopK(name="q", k=5, size="1 day", by="unix_micros(ts)")
    for id_ in ("n", None):
        out = answers(df, query, time="ts", id=id_)
        fields = {field.name: field.dataType for field in out.schema.fields}
        assert {field.name: fields[field.name] for field in df.schema.fields} == {
            field.name: field.dataType for field in df.schema.fields
        }
        assert out.orderBy("rank").select(*df.columns).collect() == df.orderBy("ts", ascending=False).collect()


def test_a_local_time_gives_local_windows(spark):
    at = dt.datetime(2024, 1, 1, 12, 30)
    df = spark.createDataFrame([(at, 1.0)], "at timestamp_ntz, v double")
    out = answers(df, sb.TopK(name="q", by="v", k=1, size="1 hour"), time="at")
    assert dict(out.dtypes)["window_end"] == "timestamp_ntz"
    (row,) = collected(out)
    assert (row["window_start"], row["window_end"]) == (dt.datetime(2024, 1, 1, 12), dt.datetime(2024, 1, 1, 13))


def test_a_column_score_that_is_the_score_of_every_query_comes_back_once(spark):
    df = spark.createDataFrame([(T, 2.0, 7)], "ts timestamp, score double, other int")
    once = answers(df, sb.TopK(by="score", **HOUR), time="ts")
    assert once.columns == ["query", "window_start", "window_end", "rank", "score", "ts", "other"]
    both = [sb.TopK(name="a", by="score", **HOUR), sb.TopK(name="b", by="other", **HOUR)]
    twice = answers(df, both, time="ts")
    assert twice.columns == ["query", "window_start", "window_end", "rank", "score", "ts", "row_score", "other"]
    assert {(row["query"], row["score"], row["row_score"]) for row in collected(twice)} == {("a", 2, 2), ("b", 7, 2)}


def test_a_column_with_the_name_of_one_of_ours_comes_back_renamed(spark):
    df = spark.createDataFrame([(T, 5, "q", 1.0)], "window_end timestamp, rank int, Query string, v double")
    out = answers(df, sb.TopK(name="mine", by="v", **HOUR), time="window_end", id="rank")
    (row,) = collected(out)
    assert (row["query"], row["row_Query"], row["rank"], row["row_rank"]) == ("mine", "q", 1, 5)
    assert (row["window_end"], row["row_window_end"]) == (T + dt.timedelta(hours=1), T)


def test_names_with_spaces(spark):
    df = spark.createDataFrame([(T, 1.0, "x"), (T, 2.0, "x")], "`a time` timestamp, `the score` double, `g h` string")
    query = sb.TopK(name="q", by="`the score`", partition_by=["`g h`"], **HOUR)
    found = sorted_rows(answers(df, query, time="a time", id="the score"))
    assert [(row["rank"], row["the score"], row["`g h`"]) for row in found] == [(1, 2.0, "x"), (2, 1.0, "x")]


def test_names_with_dots(spark):
    df = spark.createDataFrame([(T, 1.0), (T, 2.0)], "ts timestamp, `the.score` double")
    query = sb.TopK(name="q", by="`the.score`", partition_by=["`the.score` > 1.5"], **HOUR)
    found = sorted_rows(answers(df, query, time="ts"))
    assert [(row["rank"], row["the.score"]) for row in found] == [(1, 1.0), (1, 2.0)]


def test_ties_without_an_id_do_not_depend_on_partitions(spark):
    rows = [(T, 1.0, text) for text in "abcdefgh"]
    df = spark.createDataFrame(rows, "ts timestamp, v double, t string")
    query = sb.TopK(k=3, size="1 hour", by="v")
    found = [sorted_rows(answers(df.repartition(n), query, time="ts", shards=n)) for n in (1, 4)]
    assert found[0] == found[1]
    assert len({row["t"] for row in found[0]}) == 3


@pytest.mark.parametrize(
    ("kind", "ids", "order"),
    [
        ("string", ["b", None, "a", "aa"], ["b", "aa", "a", None]),
        (
            "decimal(30,2)",
            [Decimal(3), Decimal("-2.5"), None, Decimal(10**20)],
            [Decimal(10**20), 3, Decimal("-2.5"), None],
        ),
        ("date", [dt.date(1960, 1, 1), dt.date(2020, 1, 1)], [dt.date(2020, 1, 1), dt.date(1960, 1, 1)]),
    ],
    ids=["string", "decimal", "date"],
)
def test_of_equal_score_and_time_the_larger_id_is_better(spark, kind, ids, order):
    df = spark.createDataFrame([(T, 1.0, id_) for id_ in ids], f"ts timestamp, v double, key {kind}").repartition(2)
    found = sorted_rows(answers(df, sb.TopK(k=9, size="1 hour", by="v"), time="ts", id="key"))
    assert [row["key"] for row in found] == order


def test_scores_of_any_number_type(spark):
    df = spark.createDataFrame([(T, 3, Decimal("2.5")), (T, None, None)], "ts timestamp, i int, d decimal(10,1)")
    queries = [sb.TopK(name=by, by=by, **HOUR) for by in ("i", "d", "i * d", "cast(i as tinyint)")]
    found = {row["query"]: row["score"] for row in collected(answers(df, queries, time="ts"))}
    assert found == {"i": 3.0, "d": 2.5, "i * d": 7.5, "cast(i as tinyint)": 3.0}


def test_a_filter_that_is_null_lets_nothing_through(spark):
    df = spark.createDataFrame([(T, 1.0, True), (T, 2.0, None), (T, 3.0, False)], "ts timestamp, v double, ok boolean")
    found = collected(answers(df, sb.TopK(by="v", where="ok", **HOUR), time="ts"))
    assert [row["v"] for row in found] == [1.0]


def test_no_rows_no_answers(spark):
    df = spark.createDataFrame([], SCHEMA)
    for query in (sb.TopK(by="s", partition_by=["g"], **HOUR), sb.TopK(k=1, size=3, by="s")):
        assert collected(answers(df, query, time="ts", id="id")) == []


def test_nothing_of_a_batch_is_late(spark):
    df = frame(spark, [(1, 2.0, 1, "a")])
    out, late = answers(df, sb.TopK(by="s", **HOUR), time="ts", late="return")
    assert out.count() == 1
    assert (late.columns, late.count()) == (df.columns, 0)
