"""The change feed of Delta tables: leaderboards are those of the table, whatever the commits, batches and restarts."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import skyband as sb
from skyband.connectors.arrow.delta_changes import CHANGE_COLUMNS
from skyband.connectors.arrow.rows import LocalRows
from skyband.connectors.arrow.splits import Split
from skyband.connectors.arrow.tables import follow_table
from skyband.jobs import run
from skyband.jobs.local_state import LocalCheckpoint
from tests.connectors.tables.changed_tables import STREAM, changed, created, rows_of, standings
from tests.connectors.tables.test_delta_source import finished
from tests.spark.frames import read_answers

SINKS = "sinks: [{type: parquet, path: out}]\n"


def workload(folder, more=""):
    (folder / "work.yaml").write_text(STREAM % more + SINKS)
    return sb.read_workload(folder / "work.yaml")


def last_answer(folder):
    rows = read_answers(folder / "out")
    end = max(row["window_end"] for row in rows)
    return {row["key"]: row["score"] for row in rows if row["window_end"] == end}


class _Nothing:
    versions = None

    def __contains__(self, file):
        return False


@pytest.mark.parametrize("seed", range(6))
def test_rows_are_those_of_the_feed(tmp_path, seed):
    """Against the reader of deltalake, which computes the feed from the same log."""
    draw = random.Random(seed)
    created(tmp_path, draw, draw.choice([None, ["g"]]))
    for _ in range(8):
        changed(tmp_path, draw)
    stream = workload(tmp_path).streams["players"]
    rows = LocalRows("players", stream)
    files = follow_table("players", stream, _Nothing()).look()
    from pathlib import Path

    found = pa.concat_tables(batch.rows for batch in rows.read([Split(Path(file.path)) for file in files])).to_pylist()
    wanted = pa.table(DeltaTable(tmp_path / "lake").load_cdf(starting_version=0).read_all()).to_pylist()
    names = ("id", "g", "points", "_change_type", "_commit_version")

    def plain(some):
        return sorted(tuple(row[name] for name in names) for row in some)

    assert plain(found) == plain(wanted)
    times = {row["_commit_version"]: row["_commit_timestamp"].replace(tzinfo=None) for row in wanted}
    assert all(row["_commit_timestamp"].replace(tzinfo=None) == times[row["_commit_version"]] for row in found)
    for row in found:
        is_delete = row["_change_type"] in ("delete", "update_preimage")
        assert (row["op"], row["op_number"]) == (
            "d" if is_delete else "u",
            2 * row["_commit_version"] + (not is_delete),
        )


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 6))])
def test_leaderboards_whatever_the_commits_and_restarts(tmp_path, seed, monkeypatch):
    draw = random.Random(seed)
    created(tmp_path, draw, draw.choice([None, ["g"]]))
    file = workload(tmp_path, draw.choice(["", ", files_per_batch: 1"]))
    commit, draws = LocalCheckpoint.commit, random.Random(seed)

    def fail_sometimes(self, state):
        if state["batch"] >= 0 and draws.random() < 0.4:
            raise sb.PipelineError("killed before the state was stored")
        return commit(self, state)

    monkeypatch.setattr(LocalCheckpoint, "commit", fail_sometimes)
    for _ in range(6):
        for _ in range(draw.randrange(3)):
            changed(tmp_path, draw)
        for _ in range(50):
            try:
                finished(file)
                break
            except sb.PipelineError:
                continue
    monkeypatch.setattr(LocalCheckpoint, "commit", commit)
    changed(tmp_path, draw)
    finished(file, "stream")
    assert last_answer(tmp_path) == standings(tmp_path)


@pytest.mark.long
@pytest.mark.slow
def test_leaderboards_on_spark(tmp_path, spark):
    draw = random.Random(51)
    created(tmp_path, draw, ["g"])
    file = workload(tmp_path)
    for _ in range(3):
        for _ in range(2):
            changed(tmp_path, draw)
        running = run(file, "catch-up", spark=spark)
        assert running.await_end(300)
        assert running.metrics()["players"]["reader"] == "arrow"
    changed(tmp_path, draw)
    running = run(file, "stream", spark=spark)
    running.finish()
    assert running.await_end(300)
    assert last_answer(tmp_path) == standings(tmp_path)


def test_a_bounded_run_has_the_newest_version(tmp_path):
    draw = random.Random(52)
    created(tmp_path, draw)
    for _ in range(4):
        changed(tmp_path, draw)
    file = workload(tmp_path)
    text = (tmp_path / "work.yaml").read_text().replace("version: 0, ", "")
    (tmp_path / "work.yaml").write_text(text)
    finished(sb.read_workload(tmp_path / "work.yaml"), "once")
    assert last_answer(tmp_path) == standings(tmp_path)
    assert file.streams["players"].id == "op_number"


def test_a_table_without_a_feed(tmp_path):
    draw = random.Random(53)
    write_deltalake(tmp_path / "lake", rows_of(draw, 30))
    write_deltalake(tmp_path / "lake", rows_of(draw, 30), mode="append")
    finished(workload(tmp_path))
    DeltaTable(tmp_path / "lake").delete("id % 2 = 0")
    with pytest.raises(sb.InvalidInputError, match=r"version 2 .* set the table property delta\.enableChangeDataFeed"):
        finished(workload(tmp_path))


def test_a_removed_file_that_vacuum_has_deleted(tmp_path):
    draw = random.Random(54)
    created(tmp_path, draw)
    finished(workload(tmp_path))
    (old,) = (tmp_path / "lake").glob("*.parquet")
    write_deltalake(tmp_path / "lake", rows_of(draw, 5), mode="overwrite")
    old.unlink()
    with pytest.raises(sb.InvalidInputError, match=r"version 1 .* removed .*, which cannot be read"):
        finished(workload(tmp_path))


@pytest.mark.parametrize("name", CHANGE_COLUMNS.names)
def test_a_table_with_a_column_of_the_feed(tmp_path, name):
    write_deltalake(tmp_path / "lake", pa.table({"id": [1], "points": [2.0], name.upper(): [3]}))
    with pytest.raises(sb.InvalidInputError, match=rf"has a column '{name.upper()}', which changed_rows: feed adds"):
        finished(workload(tmp_path))


def test_a_feed_determines_the_id(tmp_path):
    with pytest.raises(sb.WorkloadFileError, match=r"'g' cannot be combined with changed_rows: feed.* Omit id"):
        workload(tmp_path, ", id: g")
