"""Files that tasks read and reduce: the same answers and counts as with Spark's reader, batch by batch."""

from __future__ import annotations

import json
import os
import shutil

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.spark import answers, read_files, start
from tests.sharding import cases
from tests.spark.frames import SCHEMA, collected, read_sink, table, write_files

SECOND = 1_000_000
ALL = sb.TopK(name="all", k=3, size="20 seconds", slide="5 seconds", by="s")
EACH = sb.TopK(name="each", k=2, size="30 seconds", slide="30 seconds", by="s", partition_by=["g"])
ODD = sb.TopK(name="odd", k=2, size="20 seconds", slide="10 seconds", by="s + id / 1000", where="odd")
DECLARED = dict(part.split() for part in SCHEMA.split(", "))
BUSY = sb.AggregateTopK(name="busy", k=2, size="30 seconds", slide="10 seconds", key="g", value="id", aggregate="sum")
HEAVY = sb.IncompleteTopK(
    name="heavy",
    k=2,
    size="30 seconds",
    every="10 seconds",
    object="id % 5",
    stream="g",
    value="abs(id % 3)",
    streams=["a", "b", "c"],
    bounds=(0, 9),
    occurrences=100,
)
LIKELY = sb.UncertainTopK(name="likely", k=2, size="30 seconds", every="10 seconds", by="id % 7", probability="0.5")
FAMILIES = {"topk": [ALL, EACH], "filtered": [ODD], "aggregate": [BUSY], "incomplete": [HEAVY], "uncertain": [LIKELY]}
COUNTED = ("rows", "dropped_null", "late", "windows", "answers", "malformed", "over_limit", "lags")


def drawn(seed, count=160):
    random = cases.rng("file source", seed)
    return cases.disordered(random, cases.draw_rows(random, count, scale=SECOND), 20 * SECOND)


def in_parts(rows, size=60):
    return [rows[low : low + size] for low in range(0, len(rows), size)]


def by_content(rows):
    return sorted(map(repr, rows))


def files(folder, **more):
    return read_files(str(folder), **{"format": "parquet", "schema": DECLARED, "files_per_batch": 1, **more})


def followed(df, queries, folder, *, bounded=True, **more):
    """Run a stream over what there is; its answers so far and its handle."""
    handle = start(
        df,
        queries,
        **{"time": "ts", "id": "id", "watermark": "3 seconds", **more},
        bounded=bounded,
        checkpoint=str(folder / "state"),
        write=lambda out: _triggered(out.writeStream.format("parquet").option("path", str(folder / "out")), bounded),
    )
    assert handle.await_end(300, progress=False)
    return by_content(read_sink(folder / "out")), handle


def _triggered(writer, bounded):
    return writer if bounded else writer.trigger(availableNow=True)


def counts(handle):
    return {name: handle.metrics().get(name) for name in COUNTED}


# Uncertain queries are compared in jobs/test_followed_against_spark.py, in `make test` as well.
@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=() if name == "topk" else pytest.mark.long) for name in FAMILIES]
)
def test_batches_and_streams_have_the_answers_and_counts_of_spark_s_reader(spark, tmp_path, family):
    queries = FAMILIES[family]
    write_files(tmp_path / "in", in_parts(drawn(1)))
    given = {"time": "ts", "id": "id"}
    ours, theirs = (
        by_content(collected(answers(files(tmp_path / "in", reader=reader), queries, **given)))
        for reader in ("auto", "spark")
    )
    assert ours
    assert ours == theirs
    found = {}
    for reader in ("auto", "spark"):
        found[reader], handle = followed(
            files(tmp_path / "in", reader=reader), queries, tmp_path / reader, bounded=False, watermark="1 second"
        )
        expected = "arrow" if reader == "auto" else "spark: requested"
        assert handle.metrics()["reader"] == expected
        found[reader] = (found[reader], counts(handle))
    assert found["auto"] == found["spark"]
    assert found["auto"][1]["late"] > 0
    assert found["auto"][1]["rows"] == 160


def test_tasks_pass_on_only_the_best_rows_if_none_can_be_late(spark, tmp_path):
    """Tasks know the watermark, so of 300 rows between two window ends they keep 3, and not each that was once best."""
    rows = [(number * SECOND // 60, float(number * 7919 % 1009), number, "a") for number in range(1200)]
    write_files(tmp_path / "in", in_parts(rows, 300))  # 5 seconds each
    _, handle = followed(files(tmp_path / "in"), [ALL], tmp_path, bounded=False, watermark="0 seconds")
    assert handle.metrics()["pruned"] == 1200 - 4 * 3


@pytest.mark.long
@pytest.mark.parametrize("kind", ["csv", "json"])
def test_lines_with_malformed_ones(spark, tmp_path, kind):
    folder = tmp_path / "in"
    folder.mkdir()
    for number, rows in enumerate(in_parts(drawn(2), 80)):
        finite = [(ts, None if score is None else max(-9.0, min(9.5, score)), *rest) for ts, score, *rest in rows]
        found = table(finite).to_pylist()
        path = folder / f"{number}.{kind}"
        if kind == "json":
            lines = [json.dumps({**row, "ts": row["ts"].isoformat()}) for row in found]
            path.write_text("\n".join([*lines[:3], '{"id": "no number"}', "{", *lines[3:]]) + "\n")
        else:
            text = [{**row, "ts": row["ts"].isoformat()} for row in found]
            pcsv.write_csv(pa.Table.from_pylist(text), path)
            path.write_text(path.read_text() + "2024-01-01 00:00:00,x,y,z,true\n1,2\n")
        os.utime(path, (1_000_000_000 + number,) * 2)
    found = {}
    for reader in ("auto", "spark"):
        rows, handle = followed(files(folder, format=kind, reader=reader), [ALL, EACH], tmp_path / reader)
        assert handle.metrics()["reader"].startswith("arrow" if reader == "auto" else "spark")
        found[reader] = (rows, counts(handle))
    assert found["auto"] == found["spark"]
    assert found["auto"][1]["malformed"] == 4


@pytest.mark.long
def test_several_streams_of_files(spark, tmp_path):
    heavy = sb.IncompleteTopK(
        name="heavy", k=2, size="30 seconds", every="10 seconds", object="id % 5", value="abs(id % 3)", bounds=(0, 9),
        occurrences=100,
    )  # fmt: skip
    for name, seed in (("north", 3), ("south", 4)):
        write_files(tmp_path / name, in_parts(drawn(seed), 80))
    found = {}
    for reader in ("auto", "spark"):
        df = {name: files(tmp_path / name, reader=reader) for name in ("north", "south")}
        rows, handle = followed(df, [heavy], tmp_path / reader)
        found[reader] = rows, counts(handle)
    assert found["auto"] == found["spark"]
    assert found["auto"][0]
    assert sorted(path.name for path in (tmp_path / "auto/state/sources").iterdir()) == ["0", "1", "2"]


@pytest.mark.long
def test_a_stream_resumes_with_either_reader(spark, tmp_path):
    """Each reads lists of files that the other has written, the compacted one too."""
    parts = in_parts(drawn(5, 220), 20)
    write_files(tmp_path / "all", parts)
    wanted, _ = followed(files(tmp_path / "all", reader="spark"), [ALL, EACH], tmp_path / "spark", bounded=False)
    log, begin = tmp_path / "state/sources/0", 0
    for reader, end in (("auto", 4), ("spark", 8), ("auto", 10), ("spark", 11)):
        write_files(tmp_path / "in", parts[begin:end], begin)
        found, handle = followed(files(tmp_path / "in", reader=reader), [ALL, EACH], tmp_path, bounded=False)
        assert handle.metrics()["rows"] == 20 * (end - begin), "each file once"
        assert (log / "9.compact").exists() == (end >= 10)
        begin = end
    assert found == wanted


@pytest.mark.long
def test_a_list_that_was_written_before_a_crash_is_read(spark, tmp_path):
    write_files(tmp_path / "in", in_parts(drawn(6)))
    first, _ = followed(files(tmp_path / "in"), [ALL], tmp_path, bounded=False)
    log = tmp_path / "state/sources/0"
    last = max(int(path.name) for path in log.iterdir() if path.name.isdecimal())
    for folder in ("offsets", "commits"):  # Spark has not planned the last two batches: the data, and the end of it
        numbers = sorted(int(path.name) for path in (tmp_path / "state" / folder).iterdir() if path.name.isdecimal())
        for number in numbers[last:]:
            (tmp_path / "state" / folder / str(number)).unlink()
            (tmp_path / "state" / folder / f".{number}.crc").unlink(missing_ok=True)
    shutil.rmtree(tmp_path / "out")
    again, handle = followed(files(tmp_path / "in"), [ALL], tmp_path, bounded=False)
    assert set(again) <= set(first)
    assert handle.metrics()["rows"] == 40


@pytest.mark.long
def test_files_are_taken_by_modification_time_then_path_each_once(spark, tmp_path):
    rows = drawn(7, 120)
    write_files(tmp_path / "in", in_parts(rows, 20))
    for name, seconds in (("000", 50), ("001", 10), ("002", 10), ("003", 5), ("004", 90), ("005", 1)):
        os.utime(tmp_path / "in" / f"{name}.parquet", (seconds, seconds))
    followed(files(tmp_path / "in", files_per_batch=4), [ALL], tmp_path)
    assert taken(tmp_path) == ["005", "003", "001", "002", "000", "004"]
    (tmp_path / "in/000.parquet").rename(tmp_path / "in/renamed.parquet")
    (tmp_path / "in/_temporary").mkdir()
    shutil.copy(tmp_path / "in/001.parquet", tmp_path / "in/_temporary/9.parquet")
    shutil.copy(tmp_path / "in/001.parquet", tmp_path / "in/.hidden.parquet")
    shutil.copy(tmp_path / "in/001.parquet", tmp_path / "in/_hidden.parquet")
    (tmp_path / "in/empty.parquet").touch()
    _, handle = followed(files(tmp_path / "in", files_per_batch=4), [ALL], tmp_path)
    assert handle.metrics()["rows"] == 20, "a renamed file is a new one, as for Spark"
    assert set(taken(tmp_path)[6:]) == {"renamed", "empty"}


def taken(folder):
    """The names of the files in the order of the log."""
    lists = {int(path.name.partition(".")[0]): path for path in (folder / "state/sources/0").glob("[0-9]*")}
    found = [json.loads(line) for _, path in sorted(lists.items()) for line in path.read_text().splitlines()[1:]]
    return [os.path.basename(entry["path"]).partition(".")[0] for entry in found]


@pytest.mark.long
def test_a_corrupt_or_vanished_file_stops_the_stream_with_its_name(spark, tmp_path):
    write_files(tmp_path / "in", in_parts(drawn(8), 80))
    whole, _ = followed(files(tmp_path / "in"), [ALL], tmp_path / "whole")
    good = (tmp_path / "in/001.parquet").read_bytes()
    (tmp_path / "in/001.parquet").write_bytes(good[: len(good) // 2])
    os.utime(tmp_path / "in/001.parquet", (1_000_000_001,) * 2)
    with pytest.raises(sb.InvalidInputError, match=r"001\.parquet' cannot be read as Parquet"):
        followed(files(tmp_path / "in"), [ALL], tmp_path)
    (tmp_path / "in/001.parquet").unlink()
    with pytest.raises(sb.InvalidInputError, match=r"001\.parquet' is to be read in this micro-batch"):
        followed(files(tmp_path / "in"), [ALL], tmp_path)
    (tmp_path / "in/001.parquet").write_bytes(good)
    found, _ = followed(files(tmp_path / "in"), [ALL], tmp_path)
    assert found == whole


@pytest.mark.long
def test_a_repeated_micro_batch_reads_its_files_as_they_are_then(spark, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    lines = [json.dumps({"ts": row["ts"].isoformat(), "s": row["id"]}) for row in table(drawn(9)).to_pylist()]
    (folder / "a.json").write_text("\n".join(lines[:80]) + "\n")
    stream = {"format": "json", "schema": {"ts": "timestamp", "s": "double"}}

    def fail(frame, batch):
        raise sb.PipelineError("the sink is away")

    handle = start(
        files(folder, **stream),
        ALL,
        time="ts",
        watermark="3 seconds",
        checkpoint=str(tmp_path / "state"),
        write=lambda out: out.writeStream.foreachBatch(fail).trigger(availableNow=True),
    )
    with pytest.raises(sb.SkybandError):
        handle.await_end(300, progress=False)
    with (folder / "a.json").open("a") as file:
        file.write("\n".join(lines[80:]) + "\n")
    _, handle = followed(files(folder, **stream), [ALL], tmp_path, id=None)
    assert handle.metrics()["rows"] == len(lines)


@pytest.mark.long
def test_files_that_only_spark_reads_go_on_with_spark_s_reader(spark, tmp_path, caplog):
    """A type that tasks cannot read arrives in the third file: the stream goes on, exactly."""
    rows = drawn(10)
    write_files(tmp_path / "in", in_parts(rows))
    plain, _ = followed(files(tmp_path / "in", reader="spark"), [ALL], tmp_path / "spark")
    third = tmp_path / "in/002.parquet"
    found = pq.read_table(third)
    pq.write_table(found.set_column(1, "id", found["id"].cast(pa.int32())), third)
    os.utime(third, (1_000_000_002,) * 2)
    given, handle = followed(files(tmp_path / "in"), [ALL], tmp_path)
    assert given == plain
    assert handle.metrics()["rows"] == 160
    assert handle.metrics()["reader"].startswith("spark: stream 'files': column 'id' of type int in")
    assert "Spark reads the files, which is slower" in caplog.text


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"options": {"mergeSchema": True}}, "mergeSchema"),
        ({"columns": {"x": "regexp_extract(g, 'a(b)', 1)"}}, "regexp_extract"),
    ],
)
def test_what_tasks_cannot_do_is_reported(spark, tmp_path, more, why):
    write_files(tmp_path / "in", [drawn(11)])
    found, handle = followed(files(tmp_path / "in", **more), [ALL], tmp_path)
    assert found
    assert why in handle.metrics()["reader"]
    assert "without Spark" not in handle.metrics()["reader"]


def test_a_stream_of_answers_alone_is_read_by_spark(spark, tmp_path, caplog):
    write_files(tmp_path / "in", [drawn(12)])
    out = answers(files(tmp_path / "in", streaming=True), [ALL], time="ts", id="id", watermark="3 seconds")
    assert out.isStreaming
    assert "no known checkpoint" in caplog.text


def test_one_failing_row_stops_the_stream_as_on_spark(spark, tmp_path):
    write_files(tmp_path / "in", [drawn(13)])
    failing = sb.TopK(name="q", k=1, size="20 seconds", by="CAST(id + 2147483600 AS int)")
    for reader in ("auto", "spark"):
        with pytest.raises(sb.SkybandError, match=r"(?i)CAST_OVERFLOW|overflow"):
            followed(files(tmp_path / "in", reader=reader), [failing], tmp_path / reader)


def test_a_single_file_is_read_by_all_tasks(spark, tmp_path):
    from skyband.connectors.arrow.splits import balanced, splits_of

    rows = drawn(14)
    (tmp_path / "in").mkdir()
    path = tmp_path / "in/a.parquet"
    pq.write_table(table(rows), path, row_group_size=40)
    splits = splits_of("parquet", [(path, 100 << 20)], 2)
    assert [(split.begin, split.end) for split in splits] == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert [len(part) for part in balanced(splits, 2)] == [2, 2]


def test_read_files_rejects_what_a_workload_file_rejects(tmp_path):
    with pytest.raises(sb.InvalidInputError, match="format: is missing"):
        read_files(str(tmp_path))
    with pytest.raises(sb.InvalidInputError, match="files_per_batch"):
        read_files("a.csv", files_per_batch=0)
    with pytest.raises(sb.InvalidInputError, match="reader"):
        read_files("a.csv", reader="pandas")
