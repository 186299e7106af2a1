"""Sinks given to `start` from Python: written to as those of a workload file are, in the same words."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.spark import start

BIG = sb.TopK(name="big", k=2, size="2 seconds", slide="1 second", by="s")
MINE = sb.TopK(name="mine", k=1, size="2 seconds", slide="1 second", by="s", partition_by=["g"])
SCHEMA = "ts timestamp, g string, s double"


@pytest.fixture
def rows(spark, tmp_path):
    """A stream of one file."""
    folder = tmp_path / "in"
    folder.mkdir()
    seconds = [0, 0, 1, 2, 2, 5]
    table = {
        "ts": pa.array([1_000_000 * second for second in seconds], pa.timestamp("us", "UTC")),
        "g": ["a", "b", "a", "b", "b", "a"],
        "s": [1.0, 5.0, 3.0, 2.0, 4.0, 7.0],
    }
    pq.write_table(pa.table(table), folder / "rows.parquet")
    return spark.readStream.schema(SCHEMA).parquet(str(folder))


def started(rows, tmp_path, **how):
    how = {"time": "ts", "watermark": "0 seconds", "bounded": True, "checkpoint": str(tmp_path / "state"), **how}
    return start(rows, [BIG, MINE], **how)


def listed(table, query):
    mine = [row for row in table.to_pylist() if row["query"] == query]
    return [(row["window_end"].second, row["rank"], row["g"], row["score"]) for row in mine]


ANSWERS = [
    (1, 1, "b", 5.0), (1, 2, "a", 1.0), (2, 1, "b", 5.0), (2, 2, "a", 3.0), (3, 1, "b", 4.0), (3, 2, "a", 3.0),
    (4, 1, "b", 4.0), (4, 2, "b", 2.0), (6, 1, "a", 7.0), (7, 1, "a", 7.0),
]  # fmt: skip


def test_files_memory_and_output_hold_the_answers(rows, tmp_path, capsys):
    kept, changed = sb.sinks.Memory(queries=["big"]), sb.sinks.Memory(queries=["big"], output="changes")
    out = tmp_path / "out"
    sinks = [kept, sb.sinks.Parquet(path=str(out)), changed, sb.sinks.Stdout(queries=["big"])]
    handle = started(rows, tmp_path, sinks=sinks, name="trades")
    assert handle.await_end(300)
    names, *lines = capsys.readouterr().out.splitlines()
    assert names.startswith('"query","g","window_start","window_end","rank","score"')
    assert len(lines) == len(ANSWERS)
    assert listed(kept.table(), "big") == ANSWERS
    assert "change" not in kept.table().column_names
    files = sorted(out.iterdir())
    assert files
    assert all(file.name.startswith("trades-") for file in files)
    written = pa.concat_tables(pq.read_table(file) for file in files)
    assert listed(written, "big") == ANSWERS
    groups = [*[("a", 7.0)] * 2, *[("b", 4.0)] * 2, *[("b", 5.0)] * 2, *[("a", 3.0)] * 2, ("a", 1.0)]
    assert sorted((group, score) for _, _, group, score in listed(written, "mine")) == sorted(groups)
    assert changed.table().column("change").to_pylist()[:2] == ["entered", "entered"]

    with pytest.raises(sb.InvalidInputError, match="from another run"):
        started(rows, tmp_path, sinks=[sb.sinks.Parquet(path=str(out))], name="trades", checkpoint=str(tmp_path / "b"))


def test_an_older_copy_of_the_state_is_refused(rows, tmp_path):
    """Restored under newer files, it would answer their windows a second time."""
    sinks = [sb.sinks.Parquet(path=str(tmp_path / "out"))]
    assert started(rows, tmp_path, sinks=sinks).await_end(300)
    newest = max(int(path.stem.rpartition("-")[2]) for path in (tmp_path / "out").iterdir())
    for log in ("offsets", "commits"):
        for path in (tmp_path / "state" / log).iterdir():
            if path.name.lstrip(".").split(".")[0] >= str(newest):
                path.unlink()
    with pytest.raises(sb.SnapshotError, match="older copy of the state"):
        started(rows, tmp_path, sinks=sinks)


def test_what_cannot_be_is_refused_before_anything_is_written(rows, tmp_path):
    parquet, write = sb.sinks.Parquet(path=str(tmp_path / "out")), lambda out: out.writeStream
    wrong = [
        ({}, "exactly one of write= and sinks="),
        ({"write": write, "sinks": [parquet]}, "exactly one of write= and sinks="),
        ({"sinks": []}, "must be a list of sinks"),
        ({"sinks": ["parquet"]}, "must contain only sinks from skyband.sinks, got 'parquet'"),
        ({"sinks": [sb.sinks.Terminal()]}, "supported only by `skyband run`"),
        ({"sinks": [sb.sinks.Memory(queries=["bgi"])]}, "did you mean 'big'?"),
        ({"sinks": [parquet], "output": "changes"}, "cannot be combined with sinks="),
    ]
    for how, message in wrong:
        with pytest.raises(sb.SkybandError) as caught:
            started(rows, tmp_path, **how)
        assert message in str(caught.value)
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "state").exists()
