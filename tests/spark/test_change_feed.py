"""The change feed on Spark: batch frames, and a stream that is stopped and taken up again."""

from __future__ import annotations

import pytest

import skyband as sb
from skyband.spark import answers, start
from tests.sharding import cases
from tests.sharding.differences import by_order, compared, reported
from tests.spark.frames import collected, frame, read_stream, write_files


def wanted(posed, rows):
    newest = max(row[0] for row in rows)
    return {
        key: sorted(compared(one, found, newest, "time"), key=by_order)
        for one in posed
        for key, found in cases.wanted(one, rows).items()
    }


def in_order(rows, posed):
    return {key: sorted(found, key=by_order) for key, found in reported(rows, posed).items()}


@pytest.fixture
def posed():
    random = cases.rng("changes on spark")
    return [cases.draw_posed(random, f"q{i}", scale=1_000_000, kinds=cases.KINDS[i : i + 1]) for i in range(5)]


def test_a_batch_frame(spark, posed):
    rows = cases.draw_rows(cases.rng("batch"), 200, scale=1_000_000)
    queries = [one.query() for one in posed]
    out = answers(frame(spark, rows), queries, time="ts", id="id", output="changes", shards=2)
    assert out.columns[:8] == ["query", "g", "window_start", "window_end", "change", "rank", "old_rank", "score"]
    assert in_order(collected(out), posed) == wanted(posed, rows)


def test_a_stream_that_is_taken_up_again(spark, posed, tmp_path):
    rows = cases.draw_rows(cases.rng("stream"), 160, scale=1_000_000)
    sink = str(tmp_path / "out")

    def run(**more):
        return start(
            read_stream(spark, tmp_path / "in"),
            [one.query() for one in posed],
            time="ts",
            id="id",
            watermark="0 seconds",
            output="changes",
            write=lambda out: out.writeStream.format("parquet").option("path", sink).trigger(availableNow=True),
            checkpoint=str(tmp_path / "state"),
            **more,
        )

    write_files(tmp_path / "in", [rows[:40], rows[40:90]])
    assert run().await_end(300, progress=False)
    write_files(tmp_path / "in", [rows[90:]], 2)
    handle = run(bounded=True)
    assert handle.await_end(300, progress=False)
    assert in_order(collected(spark.read.parquet(sink)), posed) == wanted(posed, rows)


def test_columns_named_like_a_changes_own_come_back_under_another_name(spark):
    df = frame(spark, [(1_000_000, 2.0, 1, "a")]).withColumnRenamed("odd", "change")
    query = sb.TopK(k=1, size="1 hour", by="s")
    assert "row_change" in answers(df, query, time="ts", id="id", output="changes").columns
    assert "row_change" not in answers(df, query, time="ts", id="id").columns


def test_another_output_is_refused(spark):
    df = frame(spark, [(1_000_000, 2.0, 1, "a")])
    with pytest.raises(sb.InvalidInputError, match=r"output must be 'answers' .* got 'both'"):
        answers(df, sb.TopK(k=1, size="1 hour", by="s"), time="ts", output="both")


@pytest.mark.long
def test_changes_of_merged_answers_follow_the_answers(spark, tmp_path):
    """Two starts of a stream with two shards report what the answers of a batch frame differ by."""
    rows = cases.draw_rows(cases.rng("keys"), 120, scale=1_000_000)
    query = sb.AggregateTopK(name="q", k=2, size="20 seconds", slide="5 seconds", key="g", aggregate="count")
    write_files(tmp_path / "in", [rows[:40], rows[40:80]])

    def run(**more):
        return start(
            read_stream(spark, tmp_path / "in"),
            query,
            time="ts",
            watermark="0 seconds",
            output="changes",
            shards=2,
            write=lambda out: (
                out.writeStream.format("parquet").option("path", str(tmp_path / "out")).trigger(availableNow=True)
            ),
            checkpoint=str(tmp_path / "state"),
            **more,
        )

    assert run().await_end(300, progress=False)
    write_files(tmp_path / "in", [rows[80:]], 2)
    assert run(bounded=True).await_end(300, progress=False)
    found = spark.read.parquet(str(tmp_path / "out")).toArrow()
    want = answers(frame(spark, rows), query, time="ts", output="changes", shards=2).toArrow()
    assert want.num_rows
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, want.to_pylist()))
    feed = sb.ChangeFeed(query)
    plain = answers(frame(spark, rows), query, time="ts", shards=2).toArrow().sort_by([
        ("window_end", "ascending"), ("rank", "ascending")
    ])  # fmt: skip
    told = [*feed.take(plain).to_pylist(), *feed.take(plain.slice(0, 0), now=max(row[0] for row in rows)).to_pylist()]
    assert sorted(map(repr, told)) == sorted(map(repr, want.to_pylist()))
