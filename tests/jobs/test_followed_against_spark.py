"""Streams that follow a folder: the answers and counts of a local run are those of Spark, file by file."""

from __future__ import annotations

import os
import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.jobs import run, run_local

SECOND = 1_000_000
FILES = 3  # of tests that run on Spark as well
COUNTED = ("rows", "malformed", "dropped_null", "late", "windows", "answers", "over_limit", "unrankable", "queries")
STREAM = "streams: {s: {path: in, format: parquet, time: at, id: id, watermark: 7 seconds, files_per_batch: 1}}\n"
FAMILIES = {
    "topk": """
  - {name: all, k: 3, size: 60 seconds, slide: 20 seconds, by: v}
  - {name: low, k: 2, size: 45 seconds, slide: 10 seconds, by: v, order: asc, where: odd, full_only: true}
  - {name: each, k: 2, size: 60 seconds, slide: 30 seconds, by: v, partition_by: [g]}
""",
    "filtered": """
  - {name: odd, k: 2, size: 60 seconds, slide: 20 seconds, by: v, where: odd}
""",
    "count": """
  - {name: rows, k: 3, size: 20, slide: 7, by: v}
""",
    "aggregate": """
  - {name: busy, type: aggregate, k: 2, size: 60 seconds, slide: 5 seconds, key: g, value: v}
  - {name: often, type: aggregate, k: 2, size: 40 seconds, slide: 20 seconds, key: r, aggregate: count, where: v > 0}
""",
    "incomplete": """
  - {name: heavy, type: incomplete, k: 2, size: 60 seconds, every: 20 seconds, object: g, stream_by: r, value: p,
     streams: [a, b], occurrences: 4}
""",
    "uncertain": """
  - {name: likely, type: uncertain, k: 3, size: 60 seconds, every: 20 seconds, by: v, probability: p, where: v > -9}
""",
}

# Not in stored checkpoints: their streams have no group columns.
GROUPED = {
    "incomplete groups": f"""{FAMILIES["incomplete"]}
  - {{name: each, type: incomplete, k: 2, size: 60 seconds, every: 20 seconds, object: g, stream_by: r, value: p,
     streams: [a, b], partition_by: [odd], order: asc, ties: rank}}
""",
    "uncertain groups": f"""{FAMILIES["uncertain"]}
  - {{name: each, type: uncertain, k: 2, size: 60 seconds, every: 30 seconds, by: v, probability: p, partition_by: [g]}}
""",
}


def tables(seed, rows=240, files=5):
    """Files of rows that are mostly in order: some are behind the watermark of an earlier file, some lack values."""
    rng = np.random.default_rng(seed)
    at = np.sort(rng.integers(0, 300, rows)) * SECOND
    at = np.where(rng.random(rows) < 0.15, at - rng.integers(0, 40, rows) * SECOND, at)
    scores = rng.integers(-5, 9, rows).astype(float)
    scores[rng.random(rows) < 0.05] = np.inf
    table = pa.table(
        {
            "at": pa.array([None if rng.random() < 0.02 else int(one) + 50 * SECOND for one in at], pa.int64()).cast(
                pa.timestamp("us", "UTC")
            ),
            "id": rng.permutation(rows),
            "v": pa.array([None if rng.random() < 0.03 else one for one in scores], pa.float64()),
            "g": rng.choice(["x", "y", "z"], rows),
            "r": rng.choice(["a", "b"], rows),
            "p": rng.choice([0.2, 0.5, 0.9, 1.0], rows),
            "odd": rng.random(rows) < 0.5,
        }
    )
    each = rows // files
    return [table.slice(number * each, each) for number in range(files)]


def write(folder, parts, begin=0):
    """A file for each part, in the order of their times."""
    folder.mkdir(exist_ok=True)
    for number, part in enumerate(parts, begin):
        hidden = folder / f".{number}"
        pq.write_table(part, hidden)
        os.utime(hidden, (1_000_000_000 + number, 1_000_000_000 + number))
        hidden.rename(folder / f"{9 - number}.parquet")  # the order of names is another one


def file_of(folder, queries, checkpoint, output="answers", engine=""):
    sinks = "sinks: [{type: memory}]\n" if output == "answers" else "sinks: [{type: memory, output: changes}]\n"
    (folder / "work.yaml").write_text(f"{STREAM}queries:{queries}{sinks}engine: {{checkpoint: {checkpoint}{engine}}}\n")
    return sb.read_workload(folder / "work.yaml")


def finished(running):
    running.finish()
    assert running.await_end(300)
    return running


def values(running):
    table = running.memory("s")
    return (None, []) if table is None else (table.schema.remove_metadata(), sorted(map(repr, table.to_pylist())))


def assert_same(ours, theirs):
    assert values(ours) == values(theirs)
    mine, other = ours.metrics()["s"], theirs.metrics()["s"]
    assert {name: mine.get(name, 0) for name in COUNTED} == {name: other.get(name, 0) for name in COUNTED}


# Of the other families, spark/test_file_source.py compares streams in `make test`.
@pytest.mark.parametrize(
    "family",
    [pytest.param(name, marks=() if name == "topk" else pytest.mark.long) for name in (*FAMILIES, *GROUPED)],
)
def test_every_family(spark, tmp_path, family):
    queries = FAMILIES | GROUPED
    write(tmp_path / "in", tables(list(queries).index(family), files=FILES))
    ours = finished(run_local(file_of(tmp_path, queries[family], "local"), "stream"))
    theirs = finished(run(file_of(tmp_path, queries[family], "spark"), "stream", spark=spark))
    assert_same(ours, theirs)
    assert ours.metrics()["s"]["late"] > 0
    assert len(values(ours)[1]) > 10


@pytest.mark.long
def test_changes(spark, tmp_path):
    write(tmp_path / "in", tables(21, files=FILES))
    ours = finished(run_local(file_of(tmp_path, FAMILIES["topk"], "local", "changes"), "stream"))
    theirs = finished(run(file_of(tmp_path, FAMILIES["topk"], "spark", "changes"), "stream", spark=spark))
    assert_same(ours, theirs)


@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=pytest.mark.long) for name in ("topk", "incomplete", "uncertain")]
)
def test_catching_up_with_other_queries(spark, tmp_path, family):
    """A query is dropped and another is added between two runs."""
    parts = tables(31, files=FILES)
    before = FAMILIES[family]
    first = before.strip("\n").splitlines()[0]
    if family == "incomplete":
        after = before.replace("name: heavy", "name: strong").replace("k: 2", "k: 1") + before
    else:
        after = first.replace("name: all", "name: more").replace("name: likely", "name: more") + "\n"
        after += before.replace(first, first.replace("k: 3", "k: 2"))
    runs = {}
    for engine in ("local", "spark"):
        folder = tmp_path / engine
        folder.mkdir()
        write(folder / "in", parts[:2])
        found = []
        for queries in (before, after):
            file = file_of(folder, f"\n{queries}", "state")
            running = run_local(file, "catch-up") if engine == "local" else run(file, "catch-up", spark=spark)
            assert running.await_end(300)
            found.append(values(running)[1])
            write(folder / "in", parts[2:], begin=2)
        runs[engine] = found
    assert runs["local"] == runs["spark"]
    assert all(map(len, runs["local"]))


@pytest.mark.parametrize(
    ("mode", "kind"), [("stream", "local"), pytest.param("catch-up", "spark", marks=pytest.mark.long)]
)
def test_a_checkpoint_of_the_other_engine_is_rejected(spark, tmp_path, mode, kind):
    write(tmp_path / "in", tables(1, files=FILES))
    file = file_of(tmp_path, FAMILIES["topk"], "state")
    if kind == "local":
        assert run(file, "catch-up", spark=spark).await_end(300)
        with pytest.raises(sb.SnapshotError, match="written by a run on Spark, and --local cannot resume it"):
            run_local(file, mode)
    else:
        assert run_local(file, "catch-up").await_end(300)
        with pytest.raises(sb.SnapshotError, match="written by a run without Spark, and Spark cannot resume it"):
            run(file, mode, spark=spark)
        fresh = run(file, mode, fresh=True, spark=spark)
        assert fresh.await_end(300)
        assert fresh.metrics()["s"]["rows"] == 240


def test_a_late_row_that_stops_the_stream(spark, tmp_path):
    write(tmp_path / "in", tables(1, files=FILES))
    file = file_of(tmp_path, FAMILIES["topk"], "local", engine=", late: refuse")
    with pytest.raises(sb.InvalidInputError, match="behind the watermark"):
        run_local(file, "stream").finish()
    file = replace(
        file, engine=file.engine.model_copy(update={"checkpoint": str(tmp_path / "limits"), "late": {"fail": 0.001}})
    )
    with pytest.raises(sb.PipelineError, match=r"more than late\.fail=0\.10% allows"):
        run_local(file, "stream").finish()


@pytest.mark.long
def test_dead_letters_and_malformed_lines(spark, tmp_path):
    rng = random.Random(3)
    for number in range(2):
        lines = [f"{rng.randint(0, 9)},2024-01-01T00:0{number}:{second:02}Z" for second in range(0, 60, 5)]
        lines.insert(3, "many,2024-01-01T00:00:00Z")
        path = tmp_path / "in" / f"{number}.csv"
        path.parent.mkdir(exist_ok=True)
        path.write_text("v,at\n" + "\n".join(lines) + "\n")
        os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))
    text = (
        "streams: {s: {path: in, format: csv, time: at, watermark: 0 seconds, files_per_batch: 1, "
        "dead_letters: dead-%s, schema: {v: int, at: timestamp}}}\n"
        "queries: [{name: q, k: 2, size: 1 minute, slide: 30 seconds, by: v}]\n"
        "sinks: [{type: memory}]\nengine: {checkpoint: %s}\n"
    )
    found = {}
    for engine in ("local", "spark"):
        (tmp_path / "work.yaml").write_text(text % (engine, engine))
        file = sb.read_workload(tmp_path / "work.yaml")
        running = finished(run_local(file, "stream") if engine == "local" else run(file, "stream", spark=spark))
        letters = sorted(
            line for part in (tmp_path / f"dead-{engine}").glob("s-*/part-*") for line in part.read_text().splitlines()
        )
        found[engine] = values(running)[1], running.metrics()["s"]["malformed"], len(letters)
    assert found["local"] == found["spark"]
    assert found["local"][1:] == (2, 2)
