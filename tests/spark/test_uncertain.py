"""Uncertain streams on Spark: what one process answers, from files in any order, after restarts; and bad input."""

from __future__ import annotations

import datetime as dt
import os
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.spark import answers, start
from tests.spark.frames import read_sink
from tests.waiting import process_all

SCHEMA = "ts timestamp, sighting long, size double, sure double, berg string, ship int"
SHARED = {"by": "size", "probability": "sure", "rule": "berg", "size": "20 seconds"}
QUERIES = [
    sb.UncertainTopK(name="often", k=2, every="2 seconds", **SHARED),
    sb.UncertainTopK(name="deep", k=5, every="6 seconds", **SHARED),
]
SHIPS = sb.UncertainTopK(name="ships", k=2, every="4 seconds", stream="ship", **SHARED)
SECOND = 1_000_000


def some_rows(n=200, sure=0.0):
    """Sightings; of those without a rule so many are certain."""
    rng = np.random.default_rng(6)
    bergs = [f"b{number}" if number < 9 else None for number in rng.integers(0, 60 if sure else 12, n)]
    chances = rng.integers(1, 10, n) / 100
    certain = np.array([berg is None for berg in bergs]) & (rng.random(n) < sure)
    return pa.table(
        {
            "ts": pa.array(np.cumsum(rng.integers(1, 400_000, n)) + SECOND).cast(pa.timestamp("us", "UTC")),
            "sighting": np.arange(n),
            "size": rng.integers(0, 30, n).astype(float),
            "sure": np.where(certain, 1.0, chances),
            "berg": bergs,
            "ship": pa.array(rng.integers(0, 4, n), pa.int32()),
        }
    )


def replayed(rows, queries):
    columns = (rows[name] for name in ("ts", "size", "sure", "berg", "sighting"))
    return sb.uncertain.replay(queries, *columns, streams=rows["ship"]).to_pylist()


def expected(rows, queries=QUERIES):
    return [told(row) for row in replayed(rows, queries)]


def told(row):
    plain = row["query"], row["time"].timestamp(), row["rank"], row["id"], row["score"]
    return *plain, round(row["probability"], 12), row.get("stream")


def in_order(rows, queries=QUERIES):
    places = {query.name: place for place, query in enumerate(queries)}
    return sorted(map(told, rows), key=lambda row: (row[1], places[row[0]], row[2]))


def at(row):
    """When a row of answers is, in microseconds."""
    return round(row[1] * SECOND)


@pytest.mark.parametrize(("partitions", "sure"), [(1, 0.0), (3, 0.7)])
def test_a_batch_data_frame(spark, partitions, sure):
    rows = some_rows(sure=sure)
    out = answers(spark.createDataFrame(rows, SCHEMA).repartition(partitions), QUERIES, time="ts", id="sighting")
    assert out.columns == ["query", "time", "rank", "id", "score", "probability"]
    assert in_order(out.toArrow().to_pylist()) == expected(rows)


def test_streams_are_ranked_beside_tuples(spark):
    """In one class and in another, for streams that are told apart in another way."""
    rows = some_rows(sure=0.7)
    odd = sb.UncertainTopK(name="odd", k=1, every="5 seconds", stream="ship % 2", **SHARED)
    weighed = sb.UncertainTopK(name="weighed", k=2, every="5 seconds", semantics="prf", weights=[1, 0.5], **SHARED)
    queries = [*QUERIES, SHIPS, odd, weighed]
    out = answers(spark.createDataFrame(rows, SCHEMA).repartition(3), queries, time="ts", id="sighting")
    assert out.columns[-2:] == ["prf", "stream"]
    assert dict(out.dtypes)["stream"] == "bigint"
    found = in_order(out.toArrow().to_pylist(), queries)
    assert [row for row in found if row[0] != "odd"] == expected(rows, [*QUERIES, SHIPS, weighed])
    halves = rows.set_column(5, "ship", pc.subtract(rows["ship"], pc.multiply(pc.divide(rows["ship"], 2), 2)))
    assert [row for row in found if row[0] == "odd"] == expected(halves, [replace(odd, stream="half")])


class Run:
    """A source folder, a sink and a checkpoint; may be started again and again."""

    def __init__(self, spark, folder):
        self.spark, self.folder, self.files = spark, folder, 0
        (folder / "in").mkdir()

    def add(self, *tables):
        for table in tables:
            at = self.folder / "in" / f"{self.files:03}.parquet"
            pq.write_table(table, self.folder / ".part")
            os.utime(self.folder / ".part", (1_000_000_000 + self.files, 1_000_000_000 + self.files))
            (self.folder / ".part").rename(at)
            self.files += 1

    def start(self, queries, *, watermark="0 seconds", bounded=False, **more):
        source = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(self.folder / "in"))
        return start(
            source,
            queries,
            time="ts",
            id="sighting",
            watermark=watermark,
            write=lambda out: out.writeStream.format("parquet").option("path", str(self.folder / "out")),
            checkpoint=str(self.folder / "checkpoint"),
            bounded=bounded,
            **more,
        )

    def catch_up(self, queries, **more):
        """Take in what there is, without an end, and stop."""
        handle = self.start(queries, **more)
        process_all(handle.query)
        handle.stop()

    def finish(self, queries, **more):
        handle = self.start(queries, bounded=True, **more)
        assert handle.await_end(300, progress=False)
        return handle.metrics()

    def found(self, queries=QUERIES):
        return in_order(read_sink(self.folder / "out"), queries)


@pytest.fixture
def run(spark, tmp_path):
    return Run(spark, tmp_path)


def test_a_stream_in_disorder_that_is_stopped_in_between(run):
    """Every answer once, as from one process; rows within the delay in any order, one that is late counted."""
    rows = some_rows(sure=0.7)
    arrival = np.argsort(np.arange(200) + np.random.default_rng(8).integers(0, 4, 200), kind="stable")
    mixed = rows.take(pa.array(arrival))
    late = rows.slice(20, 1).set_column(1, "sighting", pa.array([999]))
    queries = [*QUERIES, SHIPS]
    run.add(mixed.slice(0, 60), mixed.slice(60, 50))
    run.catch_up(queries, watermark="2 seconds")
    run.add(pa.concat_tables([mixed.slice(110), late]))
    metrics = run.finish(queries, watermark="2 seconds")
    assert run.found(queries) == expected(rows, queries)
    assert (metrics["late"], metrics["rows"], metrics["dropped_null"], metrics["candidates"]) == (1, 91, 0, 0)
    assert metrics["pruned"] > 0
    assert metrics["algorithm"] == "auto"
    again = run.finish(queries, watermark="2 seconds")
    assert (again["rows"], again["answers"]) == (0, 0)


@pytest.mark.long
def test_queries_come_and_go_at_a_restart(run):
    rows = some_rows()
    run.add(rows.slice(0, 60), rows.slice(60, 50))
    run.catch_up(QUERIES)
    stopped = rows["ts"][109].value
    run.add(rows.slice(110))
    queries = [QUERIES[0], SHIPS]
    run.finish(queries)
    found, whole = run.found([*QUERIES, SHIPS]), expected(rows, [QUERIES[0], SHIPS])
    of = {name: [row for row in found if row[0] == name] for name in ("often", "deep", "ships")}
    # All of what stays, but for the run with which the plan began anew; nothing more of what went.
    stays = [row for row in whole if row[0] == "often"]
    assert [row for row in of["often"] if at(row) % (2 * SECOND) == 0] == stays
    assert max(map(at, of["deep"])) <= stopped
    assert of["deep"] == [row for row in expected(rows) if row[0] == "deep" and row in of["deep"]]
    # What is new answers windows that begin after all that was seen, in time and as if it had always been there.
    times = sorted({at(row) for row in of["ships"]})
    assert stopped + 20 * SECOND < times[0] <= stopped + 24 * SECOND
    assert max(np.diff(times)) <= 4 * SECOND
    right = {
        (row[1], row[2]): row for row in expected(rows, [sb.UncertainTopK(**{**SHIPS.to_dict(), "every": "2 seconds"})])
    }
    assert of["ships"] == [right[row[1], row[2]] for row in of["ships"]]


@pytest.mark.long
def test_time_moves_without_rows(run):
    run.add(some_rows(20))
    handle = run.start(QUERIES)
    try:
        process_all(handle.query)
        before = len(run.found())
        handle.advance(dt.datetime(1970, 1, 1, 0, 0, 12, tzinfo=dt.UTC))
        assert max(map(at, run.found())) == 12 * SECOND
        assert len(run.found()) > before
        handle.flush()
    finally:
        handle.stop()
    assert run.found() == expected(some_rows(20))


def test_windows_over_the_last_tuples(spark):
    rows = some_rows(80)
    counted = [
        sb.UncertainTopK(**{**query.to_dict(), "size": 20, "every": n}) for n, query in [(3, QUERIES[0]), (9, SHIPS)]
    ]
    out = answers(spark.createDataFrame(rows, SCHEMA).repartition(3), counted, time="ts", id="sighting")
    columns = (rows[name] for name in ("size", "sure", "berg", "sighting"))
    whole = sb.uncertain.replay(counted, None, *columns, streams=rows["ship"]).to_pylist()
    key = lambda row: (row["time"], row["query"], row["rank"])  # noqa: E731
    found = [{**row, "probability": round(row["probability"], 12)} for row in out.toArrow().to_pylist()]
    wanted = [{**row, "probability": round(row["probability"], 12)} for row in whole]
    assert sorted(found, key=key) == sorted(wanted, key=key)


@pytest.mark.parametrize(
    ("change", "asked", "said"),
    [
        ({"probability": None, "by": None}, {}, "needs by= and probability="),
        ({"probability": "berg"}, {}, "probability must be numeric"),
        ({"stream": "named_struct('a', 1)"}, {}, "ties are broken by the larger stream, so it must be"),
        ({"stream": "boat"}, {}, "boat"),
        ({}, {"algorithm": "mintopk"}, "algorithm='mintopk' is not supported for UncertainTopK queries"),
        ({}, {"shards": 2}, "depends on all tuples"),
    ],
)
def test_what_cannot_be_answered(spark, change, asked, said):
    query = sb.UncertainTopK(**{**QUERIES[0].to_dict(), **change})
    with pytest.raises(sb.SkybandError, match=said):
        answers(spark.createDataFrame([], SCHEMA), query, time="ts", **asked)


def test_streams_of_different_types(spark):
    queries = [SHIPS, sb.UncertainTopK(**{**SHIPS.to_dict(), "name": "bergs", "stream": "berg"})]
    with pytest.raises(sb.InvalidQueryError, match="streams of the types bigint, string"):
        answers(spark.createDataFrame([], SCHEMA), queries, time="ts")


BAD = [
    ("sure", None, r"query 'often': probability='sure' must be in \(0, 1\], got null"),
    ("ship", None, r"query 'ships': stream='ship' must not be null"),
    ("berg", "b1", r"rule 'b1' add up to 1\.\d+ in the window \[-?\d+, \d+\)"),
]


def spoiled(column, value):
    rows = some_rows(30)
    at = rows.column_names.index(column)
    values = [value, *rows[column].to_pylist()[1:]]
    if column == "berg":
        rows, values = rows.set_column(3, "sure", pa.array([0.3] * 30)), [value] * 30
    return rows.set_column(at, column, pa.array(values, rows.schema.field(column).type))


@pytest.mark.parametrize(("column", "value", "said"), BAD)
def test_what_is_wrong_with_a_row_is_told_plainly(spark, column, value, said):
    frame = spark.createDataFrame(spoiled(column, value), SCHEMA)
    with pytest.raises(Exception, match=said):
        answers(frame, [QUERIES[0], SHIPS], time="ts", id="sighting").collect()


def test_a_stream_stops_at_a_bad_row_with_our_error(run):
    run.add(some_rows(30), spoiled("sure", 1.25))
    handle = run.start(QUERIES, bounded=True)
    with pytest.raises(sb.InvalidInputError, match=r"^query 'often': probability='.*' must be in \(0, 1\], got 1\.25"):
        handle.await_end(300, progress=False)


@pytest.mark.long
def test_groups_are_distributed_over_shards(run):
    """Also across a restart: the answers are those of one process. One late row is counted once."""
    rows = some_rows(240, sure=0.3)
    queries = [sb.UncertainTopK(**{**query.to_dict(), "partition_by": "ship"}) for query in QUERIES]
    late = rows.slice(20, 1).set_column(1, "sighting", pa.array([999]))
    run.add(rows.slice(0, 80), rows.slice(80, 60))
    run.catch_up(queries, shards=3)
    run.add(pa.concat_tables([rows.slice(140), late]))
    metrics = run.finish(queries, shards=3)
    assert (metrics["late"], metrics["rows"], metrics["candidates"]) == (1, 101, 0)
    columns = (rows[name] for name in ("ts", "size", "sure", "berg", "sighting"))
    monitor = sb.uncertain.Monitor(queries, computed=True)
    monitor.push(*columns, groups=rows["ship"])
    monitor.finish()
    wanted = [(row["group"], *told(row)) for row in monitor.answers().to_pylist()]
    found = [(row["ship"], *told(row)) for row in read_sink(run.folder / "out")]
    assert sorted(found) == sorted(wanted)
    assert len({row[0] for row in found}) == 4
