"""Incomplete streams on Spark: one data frame or several, batches, lagging streams, restarts, bad input."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.spark import answers, start
from tests.spark.frames import read_sink

SCHEMA = "ts timestamp, flow string, router string, size double"
ASKED = {"object": "flow", "stream": "router", "value": "size", "streams": ["north", "south", "west"]}
QUERY = sb.IncompleteTopK(
    name="flows", k=3, size="10 seconds", every="2 seconds", bounds=(0, 10), occurrences=2, **ASKED
)


def some_rows(n=400, seed=3):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "ts": pa.array(np.cumsum(rng.integers(0, 300_000, n)) + 1_000_000).cast(pa.timestamp("us", "UTC")),
            "flow": [f"f{number}" for number in rng.integers(0, 12, n)],
            "router": rng.choice(ASKED["streams"], n),
            "size": rng.integers(0, 11, n).astype(float),
        }
    )


def expected(table, query=QUERY):
    rows = table.sort_by([("ts", "ascending")])
    out = sb.incomplete.replay(query, rows["ts"], rows["flow"], rows["router"], rows["size"])
    return as_rows(out.to_pylist())


def as_rows(rows):
    return [(row["query"], row["time"].timestamp(), row["rank"], row["object"], row["score"]) for row in rows]


def in_order(rows):
    return sorted(as_rows(rows), key=lambda row: (row[1], row[0], row[2]))


def write(folder, tables, begin=0):
    folder.mkdir(exist_ok=True)
    for number, table in enumerate(tables, begin):
        at = folder / f"{number:03}.parquet"
        pq.write_table(table, folder / ".part")
        (folder / ".part").rename(at)
        os.utime(at, (1_000_000_000 + number, 1_000_000_000 + number))


def stream(spark, folder):
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


def unique_moments(table):
    """The rows with no two at one time: which of two comes first is a matter of ids, tested elsewhere."""
    times = table["ts"].to_numpy()
    return table.filter(pa.array(np.append(True, times[1:] != times[:-1])))


def test_a_batch_data_frame_with_a_stream_column(spark):
    rows = unique_moments(some_rows())
    frame = spark.createDataFrame(rows, SCHEMA).repartition(4)
    bounds = {name: (0, 10 + place) for place, name in enumerate(ASKED["streams"])}
    formula = {**QUERY.to_dict(), "aggregate": "north + 2 * sqrt(south) + least(west, 5)", "bounds": bounds}
    asked = [QUERY, *(sb.IncompleteTopK(**{**formula, "name": f"best {k}", "k": k}) for k in (1, 4))]
    out = answers(frame, asked, time="ts")
    assert out.columns == ["query", "time", "rank", "object", "score"]
    found = in_order(out.toArrow().to_pylist())
    for query in asked:
        assert [row for row in found if row[0] == query.name] == expected(rows, query)


def test_one_data_frame_for_each_stream(spark):
    rows = unique_moments(some_rows())
    frames = {
        name: spark.createDataFrame(rows.filter(pa.compute.equal(rows["router"], name)), SCHEMA).drop("router")
        for name in ASKED["streams"]
    }
    query = sb.IncompleteTopK(**{**QUERY.to_dict(), "stream": None, "streams": None, "where": "size > 2"})
    out = answers(frames, query, time="ts", shards=3)
    assert in_order(out.toArrow().to_pylist()) == expected(rows.filter(pa.compute.greater(rows["size"], 2)))


def test_windows_over_the_last_tuples_and_intervals(spark):
    rows = unique_moments(some_rows(120))
    last = sb.IncompleteTopK(name="last", k=2, size=30, every=7, bounds=(0, 10), intervals=True, **ASKED)
    likely = {**last.to_dict(), "name": "likely", "intervals": False, "occurrences": 30, "method": "approximate"}
    query = [last, sb.IncompleteTopK(**likely)]
    out = answers(spark.createDataFrame(rows, SCHEMA).repartition(3), query, time="ts")
    assert out.columns[-3:] == ["best", "sure", "exact"]
    found = out.toArrow().to_pylist()
    ordered = rows.sort_by([("ts", "ascending")])
    whole = sb.incomplete.replay(query, None, ordered["flow"], ordered["router"], ordered["size"]).to_pylist()
    assert sorted(found, key=lambda row: (row["time"], row["query"], row["rank"])) == whole
    assert {row["exact"] for row in found if row["query"] == "last"} == {True}


class TestStreams:
    def started(self, spark, folder, out, checkpoint, query=QUERY, **more):
        return start(
            stream(spark, folder) if not isinstance(folder, dict) else folder,
            query,
            time="ts",
            watermark="1 second",
            write=lambda frame: frame.writeStream.format("parquet").option("path", str(out)),
            checkpoint=str(checkpoint),
            bounded=True,
            **more,
        )

    def test_out_of_order_and_stopped_in_between(self, spark, tmp_path):
        rows = unique_moments(some_rows(300))
        rng = np.random.default_rng(8)
        arrival = np.argsort(np.arange(rows.num_rows) + rng.integers(0, 4, rows.num_rows), kind="stable")
        shuffled = rows.take(pa.array(arrival))
        parts = [shuffled.slice(low, 60) for low in range(0, rows.num_rows, 60)]
        write(tmp_path / "in", parts[:2])
        handle = start(
            stream(spark, tmp_path / "in"),
            QUERY,
            time="ts",
            watermark="1 second",
            write=lambda frame: (
                frame.writeStream.format("parquet").option("path", str(tmp_path / "out")).trigger(availableNow=True)
            ),
            checkpoint=str(tmp_path / "checkpoint"),
        )
        assert handle.await_end(300)
        write(tmp_path / "in", parts[2:], begin=2)
        handle = self.started(spark, tmp_path / "in", tmp_path / "out", tmp_path / "checkpoint")
        assert handle.await_end(300)
        found = read_sink(tmp_path / "out")
        wanted = expected(rows)
        assert in_order(found) == wanted
        told = handle.metrics()
        assert told["late"] == 0
        assert told["over_limit"] > 0
        assert 0 < told["windows"] < len({row[1] for row in wanted}) + 1

    @pytest.mark.long
    def test_a_stream_that_lags_or_falls_silent_stops_nothing(self, spark, tmp_path):
        """West never reports and south comes an hour late: answers go on with what the north knows."""
        rows = unique_moments(some_rows(200))
        north = rows.filter(pa.compute.equal(rows["router"], "north")).drop_columns("router")
        south = rows.filter(pa.compute.equal(rows["router"], "south")).drop_columns("router")
        write(tmp_path / "north", [north])
        write(tmp_path / "south", [])
        write(tmp_path / "west", [])
        schema = SCHEMA.replace(" router string,", "")
        frames = {
            name: spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / name))
            for name in ASKED["streams"]
        }
        query = sb.IncompleteTopK(**{**QUERY.to_dict(), "stream": None, "streams": ASKED["streams"]})
        handle = self.started(spark, frames, tmp_path / "out", tmp_path / "checkpoint", query=query)
        assert handle.await_end(300)
        alone = rows.filter(pa.compute.equal(rows["router"], "north"))
        assert in_order(read_sink(tmp_path / "out")) == expected(alone)
        write(tmp_path / "south", [south])
        handle = self.started(spark, frames, tmp_path / "out", tmp_path / "checkpoint", query=query)
        assert handle.await_end(300)
        assert handle.metrics()["late"] == south.num_rows
        assert in_order(read_sink(tmp_path / "out")) == expected(alone)


class TestRefused:
    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"stream": None}, "has no stream="),
            ({"streams": None}, "has no streams="),
            ({"object": None}, "has no object="),
            ({"value": "flow"}, "value must be numeric to be aggregated into a score"),
            ({"object": "named_struct('a', 1)"}, "must be an integer, a string"),
            ({"object": "flw"}, "flw"),
            ({"where": "size"}, "must be Boolean"),
        ],
    )
    def test_queries_that_do_not_fit(self, spark, change, said):
        frame = spark.createDataFrame([], SCHEMA)
        with pytest.raises(sb.SkybandError, match=said):
            answers(frame, sb.IncompleteTopK(**{**QUERY.to_dict(), **change}), time="ts")

    def test_what_only_top_k_queries_have(self, spark):
        frame = spark.createDataFrame([], SCHEMA)
        with pytest.raises(sb.UnsupportedError, match="is not supported for IncompleteTopK queries"):
            answers(frame, QUERY, time="ts", algorithm="mintopk")
        declared = sb.IncompleteTopK(**{**QUERY.to_dict(), "stream": None, "streams": ["a"]})
        with pytest.raises(sb.UnsupportedError, match="several data frames by name"):
            answers({"a": frame}, declared, time="ts", late="return")
        with pytest.raises(sb.UnsupportedError, match="rank the rows of one data frame"):
            answers({"a": frame}, sb.TopK(k=1, size="1 hour", by="size"), time="ts")

    def test_streams_that_do_not_match(self, spark):
        frame = spark.createDataFrame([], SCHEMA)
        query = sb.IncompleteTopK(**{**QUERY.to_dict(), "stream": None})
        with pytest.raises(sb.InvalidQueryError, match="there is a data frame for the stream 'east'"):
            answers({"north": frame, "east": frame}, query, time="ts")

    def test_a_value_outside_the_bounds_is_told_plainly(self, spark):
        rows = some_rows(20).set_column(3, "size", pa.array([99.0] * 20))
        with pytest.raises(Exception, match=r"a value of 99\.0 is outside bounds"):
            answers(spark.createDataFrame(rows, SCHEMA), QUERY, time="ts").collect()


@pytest.mark.long
def test_groups_in_shards_across_a_restart(spark, tmp_path):
    """One query has groups, the other has none; a second stream reads later tuples."""
    rows = unique_moments(some_rows(400))
    each = sb.IncompleteTopK(**{**QUERY.to_dict(), "name": "each", "partition_by": "flow IN ('f1', 'f2', 'f3')"})
    parts = [rows.slice(low, 100) for low in range(0, rows.num_rows, 100)]
    write(tmp_path / "in", parts[:2])
    for bounded in (False, True):
        handle = start(
            stream(spark, tmp_path / "in"),
            [QUERY, each],
            time="ts",
            watermark="1 second",
            write=lambda frame: (
                frame.writeStream.format("parquet").option("path", str(tmp_path / "out")).trigger(availableNow=True)
            ),
            checkpoint=str(tmp_path / "checkpoint"),
            shards=3,
            bounded=bounded,
        )
        assert handle.await_end(300)
        write(tmp_path / "in", parts[2:], begin=2)
    found = read_sink(tmp_path / "out")
    assert in_order([row for row in found if row["query"] == QUERY.name]) == expected(rows)
    name = next(name for name in found[0] if name.startswith("flow"))
    some = pa.compute.is_in(rows["flow"], pa.array(["f1", "f2", "f3"]))
    for inside in (True, False):
        own = [row for row in found if row["query"] == "each" and row[name] == inside]
        alone = rows.filter(pa.compute.equal(some, inside))
        assert in_order(own) == [("each", *row[1:]) for row in expected(alone)]
