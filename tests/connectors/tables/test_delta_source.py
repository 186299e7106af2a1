"""Delta tables as sources: every appended row once, whatever the versions, the batches and the restarts."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import skyband as sb
from skyband.cli.explain import explain_file
from skyband.cli.init import init_file
from skyband.cli.verify import verify_file
from skyband.jobs import run_local
from skyband.jobs.engine_choice import needs_spark
from skyband.jobs.local_state import LocalCheckpoint
from skyband.workload_file import sample_of
from tests.jobs.test_job import QUERIES, rows_of, wanted, whole
from tests.spark.frames import read_answers, table

STREAM = "streams: {rows: {source: delta, path: lake, time: ts, id: id, watermark: 0 seconds%s}}\n"
SINKS = "sinks: [{type: parquet, path: out}]\n"


def workload(folder, more=""):
    (folder / "work.yaml").write_text(STREAM % more + QUERIES + SINKS)
    return sb.read_workload(folder / "work.yaml")


def in_time(seed):
    return sorted(rows_of(seed, 200), key=lambda row: row[0])


def append(folder, rows, **more):
    write_deltalake(folder / "lake", table(rows), mode="append", **more)


def finished(file, mode="catch-up"):
    running = run_local(file, mode)
    if mode == "stream":
        running.finish()
    assert running.await_end(60)


@pytest.mark.parametrize("seed", range(6))
def test_answers_whatever_the_versions_and_restarts(tmp_path, seed, monkeypatch):
    draw, rows = random.Random(seed), in_time(seed)
    partitions = draw.choice([None, ["g"], ["odd", "g"]])
    cuts = sorted(draw.sample(range(1, len(rows)), 5))
    parts = [rows[low:high] for low, high in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    file = workload(tmp_path, draw.choice(["", ", version: 0", ", files_per_batch: 1"]) if not partitions else "")
    commit, draws = LocalCheckpoint.commit, random.Random(seed)

    def fail_sometimes(self, state):
        if state["batch"] >= 0 and draws.random() < 0.4:
            raise sb.PipelineError("killed before the state was stored")
        return commit(self, state)

    monkeypatch.setattr(LocalCheckpoint, "commit", fail_sometimes)
    for number, part in enumerate(parts):
        append(tmp_path, part, partition_by=partitions)
        if draw.random() < 0.3:
            DeltaTable(tmp_path / "lake").optimize.compact()
        if draw.random() < 0.6 or number == len(parts) - 1:
            for _ in range(50):
                try:
                    finished(file)
                    break
                except sb.PipelineError:
                    continue
    monkeypatch.setattr(LocalCheckpoint, "commit", commit)
    finished(file, "stream")
    assert whole(read_answers(tmp_path / "out")) == wanted(rows)


def test_a_bounded_run_reads_the_newest_version(tmp_path):
    rows = in_time(11)
    append(tmp_path, rows[:100])
    append(tmp_path, rows[100:])
    DeltaTable(tmp_path / "lake").delete("id % 5 = 0")
    kept = [row for row in rows if row[2] % 5]
    finished(workload(tmp_path), "once")
    assert whole(read_answers(tmp_path / "out")) == wanted(kept)
    finished(workload(tmp_path, ", version: 0"), "once")
    assert whole(read_answers(tmp_path / "out")) == wanted(rows[:100])


def test_a_commit_that_changes_rows_stops_the_stream_or_is_skipped(tmp_path):
    rows = in_time(12)
    append(tmp_path, rows[:100])
    finished(workload(tmp_path))
    DeltaTable(tmp_path / "lake").delete("id % 5 = 0")
    append(tmp_path, rows[100:])
    with pytest.raises(sb.InvalidInputError, match=r"version 1 of Delta table .* deletes, updates or overwrites rows"):
        finished(workload(tmp_path))
    finished(workload(tmp_path, ", changed_rows: skip"), "stream")
    assert whole(read_answers(tmp_path / "out")) == wanted(rows)


def test_new_columns_are_ignored_and_other_types_stop_the_stream(tmp_path):
    rows = in_time(13)
    append(tmp_path, rows[:100])
    finished(workload(tmp_path))
    more = table(rows[100:]).append_column("more", pa.array(range(len(rows) - 100)))
    write_deltalake(tmp_path / "lake", more, mode="append", schema_mode="merge")
    finished(workload(tmp_path), "stream")
    assert whole(read_answers(tmp_path / "out")) == wanted(rows)
    other = more.set_column(more.schema.get_field_index("s"), "s", more["s"].cast(pa.string()))
    write_deltalake(tmp_path / "lake", other, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(sb.InvalidInputError, match=r"column 's' of type string, which was double"):
        finished(workload(tmp_path))


def test_a_log_that_was_cleaned_stops_the_stream(tmp_path):
    rows = in_time(14)
    append(tmp_path, rows[:50])
    finished(workload(tmp_path))
    for low in range(50, 200, 50):
        append(tmp_path, rows[low : low + 50])
    DeltaTable(tmp_path / "lake").create_checkpoint()
    (tmp_path / "lake" / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(sb.InvalidInputError, match="has no version 1 any more"):
        finished(workload(tmp_path))


def test_what_is_rejected(tmp_path):
    with pytest.raises(sb.WorkloadFileError, match="a Delta table determines its files and columns"):
        workload(tmp_path, ", format: csv")
    with pytest.raises(sb.InvalidInputError, match="is not a Delta table"):
        finished(workload(tmp_path))
    append(tmp_path, in_time(15)[:20])
    with pytest.raises(sb.InvalidInputError, match=r"version 7 of Delta table .* the newest is 0. Correct version"):
        finished(workload(tmp_path, ", version: 7"))
    with pytest.raises(sb.InvalidInputError, match=r"time_format 'QQ yyyy' is not supported for Delta tables"):
        finished(workload(tmp_path, ", columns: {ts: g}, time_format: QQ yyyy"))


def test_a_file_with_another_type_is_not_sent_to_spark(tmp_path):
    rows = in_time(17)
    append(tmp_path, rows)
    [path] = (tmp_path / "lake").glob("*.parquet")
    found = pq.read_table(path)
    pq.write_table(found.set_column(found.schema.get_field_index("s"), "s", found["s"].cast(pa.string())), path)
    with pytest.raises(
        sb.InvalidInputError, match=r"column 's' of type string in .* Correct .* or the table\."
    ) as error:
        finished(workload(tmp_path), "once")
    assert "--local" not in str(error.value)
    assert not needs_spark(error.value)


@pytest.mark.parametrize("partitions", [None, ["g"]])
def test_the_first_workload_file(tmp_path, partitions, capsys):
    rows = in_time(16)
    append(tmp_path, rows[:100], partition_by=partitions)
    append(tmp_path, rows[100:], partition_by=partitions)
    DeltaTable(tmp_path / "lake").optimize.compact()  # the folder has files that are not part of the table
    path = tmp_path / "work.yaml"
    said = init_file(None, path, force=False)
    assert "run work.yaml --local" in said.replace(str(tmp_path) + "/", "")
    file = sb.read_workload(path, {})
    assert (file.streams["lake"].source, file.streams["lake"].time) == ("delta", "ts")
    assert sample_of(tmp_path / "lake").total == 200
    assert f"stream lake: Delta table {tmp_path / 'lake'}; time ts" in explain_file(path, as_json=False)
    assert verify_file(path, answers=None, unfinished=False, as_json=False, verbose=False) == 0
    printed = capsys.readouterr()
    assert "Spark itself has no reader of Delta tables" in printed.err
    assert "answer rows agree" in printed.out
    path.unlink()
    with pytest.raises(sb.InvalidInputError, match="this folder is a Delta table"):
        init_file(None, tmp_path / "lake" / "work.yaml", force=False)
    (tmp_path / "none").mkdir()
    write_deltalake(tmp_path / "none", table([]))
    with pytest.raises(sb.InvalidInputError, match="a Delta table without rows"):
        sample_of(tmp_path / "none")
