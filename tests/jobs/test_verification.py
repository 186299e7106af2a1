"""Brute force in Spark SQL agrees with the pipeline, and with the definitions; a wrong answer is found."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as sf

import skyband as sb
from skyband.jobs.verification import verify
from skyband.spark import answers
from skyband.topk.verification import by_brute_force, compare
from tests.sharding import cases
from tests.spark.frames import collected, frame, write_files

QUERIES = """
  - {name: plain, k: 3, size: 20 seconds, slide: 7 seconds, by: s}
  - {name: asc, k: 2, size: 20 seconds, slide: 20 seconds, by: s, order: asc, where: odd, origin: 3000000}
  - {name: each, k: 2, size: 30 seconds, slide: 11 seconds, by: -s, partition_by: [g], full_only: true}
  - {name: ties, k: 2, size: 30 seconds, slide: 11 seconds, by: s, ties: rank}
"""
CALENDARS = """
  - {name: day, k: 2, size: 1 day, zone: Asia/Beirut, by: s, where: odd}
  - {name: so far, k: 2, size: 1 day, slide: 8 hours, cumulative: true, zone: Asia/Beirut, by: s, partition_by: [g]}
  - {name: grows, k: 3, size: 6 hours, slide: 2 hours, cumulative: true, by: -s, ties: rank}
  - {name: week, k: 1, size: 1 week, slide: 1 day, zone: Asia/Beirut, by: s, full_only: true}
  - {name: ever, k: 2, size: all, slide: 1 day, zone: Asia/Beirut, origin: "2024-03-30T12:00", by: s, where: odd}
"""
KEYS = """
  - {name: total, type: aggregate, k: 2, size: 20 seconds, slide: 7 seconds, key: id % 6, value: s}
  - {name: mean, sql: "TOPK avg(s), 3 WHERE odd BY KEY id % 5 OVER 20 SECONDS ORIGIN 3000000"}
  - {name: each, type: aggregate, k: 2, size: 30 seconds, slide: 11 seconds, key: id % 4, aggregate: stddev, value: s,
     partition_by: [g], full_only: true}
  - {name: clicks, sql: "TOPK count(*), 2 BY id % 7 OVER 30 SECONDS EVERY 11 SECONDS"}
  - {name: low, sql: "TOPK min(s), 2 BY id % 3 OVER 30 SECONDS EVERY 30 SECONDS"}
  - {name: kinds, type: aggregate, k: 3, size: 20 seconds, slide: 7 seconds, key: id % 4, aggregate: count_distinct,
     value: "coalesce(g, '?')", having: count(*) > 1}
  - {name: middle, type: aggregate, k: 2, size: 20 seconds, slide: 7 seconds, key: id % 5, aggregate: quantile,
     quantile: 0.3, value: s}
  - {name: best, sql: "TOPK max(round(s)), 2 BY KEY id % 4 OVER 20 SECONDS EVERY 7 SECONDS WITH ROW"}
  - {name: worst, sql: "TOPK min(s) ASC, 2 BY KEY id % 4 PARTITION BY g OVER 30 SECONDS EVERY 11 SECONDS WITH ROW"}
  - {name: newest, sql: "TOPK latest(round(s)), 2 BY KEY id % 3 OVER 20 SECONDS WITH ROW WITH DELETE WHEN odd"}
  - {name: oldest, sql: "TOPK first(s), 2 BY KEY id % 3 OVER 20 SECONDS EVERY 7 SECONDS WITH ROW"}
"""
CALENDARS_OF_KEYS = """
  - {name: day, type: aggregate, k: 2, size: 1 day, zone: Asia/Beirut, key: id % 6, value: s, where: odd, share: true}
  - {name: so far, type: aggregate, k: 2, size: 1 day, slide: 8 hours, cumulative: true, zone: Asia/Beirut,
     key: id % 4, value: s, aggregate: max, partition_by: [g]}
  - {name: grows, k: 3, size: 6 hours, slide: 2 hours, cumulative: true, type: aggregate, key: id % 5, value: s,
     others: true}
  - {name: week, sql: "TOPK avg(s), 1 BY KEY id % 6 OVER 1 WEEK AT TIME ZONE 'Asia/Beirut' EVERY 1 DAY"}
  - {name: ever, type: aggregate, k: 2, size: all, slide: 1 day, zone: Asia/Beirut, origin: "2024-03-30T12:00",
     key: id % 6, value: s, where: odd, aggregate: min}
"""
OBJECTS = """
  - {name: sums, type: incomplete, k: 3, size: 20 seconds, every: 7 seconds, object: id % 5,
     stream_by: "coalesce(g, 'b')", value: CASE WHEN s > 9 THEN 9 WHEN s < -9 THEN -9 ELSE s END,
     streams: [a, b, c], bounds: [-100, 1000], weights: {a: 0.1, b: 3}}
  - {name: often, type: incomplete, k: 2, size: 30 seconds, every: 11 seconds, object: id % 5, stream_by: "'a'",
     value: CASE WHEN s > 9 THEN 0.1 WHEN s < 0 THEN 0.7 ELSE s END, streams: [a, b], bounds: [0, 1000],
     occurrences: 3, aggregate: avg, origin: 2000000}
  - {name: worst, type: incomplete, k: 2, size: 20 seconds, every: 5 seconds, object: id % 5,
     stream_by: "coalesce(g, 'b')", value: CASE WHEN s > 9 THEN 9 WHEN s < -9 THEN -9 ELSE s END,
     streams: [a, b, c], bounds: [-100, 1000], aggregate: min, where: odd, method: sorted-lists}
  - {name: each, type: incomplete, k: 2, size: 20 seconds, every: 5 seconds, object: id % 5, stream_by: "'a'",
     value: CASE WHEN s > 9 THEN 0.1 WHEN s < 0 THEN 0.7 ELSE s END, streams: [a], bounds: [0, 1000], occurrences: 3,
     partition_by: [g, odd]}
  - {name: lowest, type: incomplete, k: 2, size: 20 seconds, every: 7 seconds, object: id % 5, order: asc,
     stream_by: "coalesce(g, 'b')", value: CASE WHEN s > 9 THEN 9 WHEN s < -9 THEN -9 ELSE s END,
     streams: [a, b, c], bounds: [-100, 1000], aggregate: max}
  - {name: ties, type: incomplete, k: 2, size: 20 seconds, every: 7 seconds, object: id % 5, stream_by: "'a'",
     value: CASE WHEN s > 0 THEN 1 ELSE 0 END, streams: [a, b], ties: rank, where: odd, occurrences: 3}
"""
CHANCES = """
  - {name: likely, type: uncertain, k: 2, size: 20 seconds, every: 7 seconds, by: s, probability: '0.25', rule: id % 40}
  - {name: alarm, type: uncertain, k: 3, size: 20 seconds, every: 9 seconds, by: s, probability: '0.5', where: odd,
     semantics: pt-k, threshold: 0.4}
  - {name: expected, type: uncertain, k: 3, size: 20 seconds, every: 6 seconds, by: -s, probability: '0.9',
     semantics: expected-rank}
  - {name: groups, type: uncertain, k: 2, size: 20 seconds, every: 6 seconds, by: s, probability: '0.5',
     stream_by: "coalesce(g, '?')"}
  - {name: each, type: uncertain, k: 2, size: 20 seconds, every: 6 seconds, by: s, probability: '0.5',
     partition_by: [g, odd]}
"""
ORDERS = """
  - {name: several, k: 3, size: 20 seconds, slide: 7 seconds, by: round(s), then_by: [g desc nulls first, id % 3 asc]}
  - {name: text, k: 2, size: 20 seconds, by: "if(s is null, null, coalesce(g, 'b'))", order: asc, then_by: [s desc],
     ties: rank}
  - {name: flags, k: 4, size: 12 seconds, slide: 5 seconds, by: "if(s is null, null, odd)", then_by: [s asc],
     partition_by: [g]}
  - {name: once, k: 3, size: 30 seconds, slide: 11 seconds, by: s, then_by: [g], distinct: id % 5}
  - {name: fading, k: 3, size: 30 seconds, slide: 11 seconds, by: s, half_life: 4 seconds, where: odd}
  - {name: low, k: 2, size: 50 seconds, slide: 7 seconds, by: s, order: asc, half_life: 1 second, distinct: g}
"""
COUNTED = """
  - {name: plain, k: 3, size: 20, slide: 7, by: s}
  - {name: each, k: 2, size: 12, slide: 5, by: -s, partition_by: [g], full_only: true}
"""


def workload(folder, queries, watermark="0 seconds", id_="id: id,"):
    text = f"streams: {{rows: {{path: in, format: parquet, time: ts, {id_} watermark: {watermark}}}}}\n"
    shards = "" if "type: uncertain" in queries else "engine: {shards: 2}\n"
    (folder / "work.yaml").write_text(text + "queries:" + queries + shards)
    return sb.read_workload(folder / "work.yaml")


@pytest.mark.parametrize(
    "queries",
    [
        pytest.param(QUERIES, id="time"),
        pytest.param(KEYS, id="keys", marks=pytest.mark.long),
        pytest.param(ORDERS, id="orders", marks=pytest.mark.long),
        pytest.param(COUNTED, id="count", marks=pytest.mark.long),
        pytest.param(OBJECTS, id="objects", marks=pytest.mark.long),
        pytest.param(CHANCES, id="chances", marks=pytest.mark.long),
    ],
)
def test_the_two_agree(spark, tmp_path, queries):
    rows = cases.draw_rows(cases.rng("verify"), 150, scale=1_000_000)
    write_files(tmp_path / "in", [rows[:60], rows[60:100], rows[100:]])
    found = verify(spark, workload(tmp_path, queries), "rows")
    assert found.agrees, found.difference
    assert found.difference.compared > 50
    assert found.rows == 150
    assert found.windows > 20


@pytest.mark.parametrize(
    "queries", [pytest.param(CALENDARS, id="rows", marks=pytest.mark.long), pytest.param(CALENDARS_OF_KEYS, id="keys")]
)
def test_windows_of_calendars(spark, tmp_path, queries):
    write_files(tmp_path / "in", [rows_around_a_change()[:60], rows_around_a_change()[60:]])
    found = verify(spark, workload(tmp_path, queries), "rows")
    assert found.agrees, found.difference
    assert found.difference.compared > 100


def rows_around_a_change():
    """Some days of rows; in the night of 31 March 2024, clocks in Beirut skip midnight."""
    rows, hour = cases.draw_rows(cases.rng("calendars"), 100, scale=1_000_000), 3_600_000_000
    begin = 1_711_800_000_000_000 - hour  # 2024-03-30 11:00
    return [(begin + number * hour, *row[1:]) for number, row in enumerate(rows)]


@pytest.mark.long
def test_files_in_any_order_without_an_id(spark, tmp_path):
    rows = cases.draw_rows(cases.rng("late"), 90, scale=1_000_000)
    write_files(tmp_path / "in", [rows[60:], rows[:60]])
    lines = []
    found = verify(spark, workload(tmp_path, QUERIES, id_=""), "rows", lines.append)
    assert found.agrees, found.difference
    assert found.dropped_null == sum(row[1] is None for row in rows)
    assert len(lines) == 2


@pytest.mark.parametrize("axis", ["time", "count"])
def test_brute_force_is_the_definitions(spark, axis):
    random = cases.rng("brute", axis)
    posed = [cases.draw_posed(random, f"q{i}", axis=axis, kinds=cases.KINDS[i : i + 1]) for i in range(5)]
    rows = cases.draw_rows(random, 120)
    found = by_brute_force(frame(spark, rows), sb.Workload(one.query(axis) for one in posed), time="ts", id_="id")
    want = {}
    for one in posed:
        want |= cases.wanted(one, rows, axis)
    sizes = {one.name: one.asked.size for one in posed}
    got = {}
    for row in collected(found):
        group = row["g"] if "partition_by" in next(one for one in posed if one.name == row["query"]).kind else "-"
        end = cases.micros(row["window_end"])
        values = (end - sizes[row["query"]], end, row["rank"], row["__id"], row["score"])
        got.setdefault((row["query"], group), []).append(values)
    assert {key: sorted(found, key=lambda row: row[1:3]) for key, found in got.items()} == want


def test_a_wrong_answer_is_found(spark):
    rows = cases.draw_rows(cases.rng("wrong"), 60)
    query = sb.Workload(sb.TopK(name="q", k=3, size="20 milliseconds", slide="5 milliseconds", by="s"))
    df = frame(spark, rows)
    expected = by_brute_force(df, query, time="ts", id_="id").drop("__time", "__id").persist()
    found = answers(df, query, time="ts", id="id").select(expected.columns).persist()
    assert compare(expected, found)[1:3] == (0, 0)
    first = found.orderBy("window_end", "rank").limit(1)
    missing = compare(expected, found.exceptAll(first))
    assert missing[1:3] == (1, 0)
    assert missing.examples[0]["what"] == "missing"
    assert compare(expected, found.union(first))[1:3] == (0, 1)
    changed = found.withColumn("score", sf.when(sf.col("rank") == 1, sf.col("score") + 1).otherwise(sf.col("score")))
    wrong = compare(expected, changed)
    assert wrong.missing == wrong.unexpected > 0
