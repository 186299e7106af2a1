"""Iceberg tables as sources: every appended row once, whatever the snapshots, the batches and the restarts."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from pyiceberg.types import DoubleType, IntegerType, LongType

import skyband as sb
from skyband.cli.explain import explain_file
from skyband.cli.init import init_file
from skyband.cli.verify import verify_file
from skyband.jobs import run_local
from skyband.jobs.local_state import LocalCheckpoint
from tests.connectors.tables.iceberg_tables import STREAM, append, compact, created, expire, opened
from tests.connectors.tables.places import catalog_of
from tests.connectors.tables.rest_catalog import RestCatalog
from tests.connectors.tables.test_delta_source import finished, in_time
from tests.jobs.test_job import QUERIES, wanted, whole
from tests.spark.frames import read_answers, table

SINKS = "sinks: [{type: parquet, path: out}]\n"


def workload(folder, more="", queries=QUERIES):
    (folder / "work.yaml").write_text(STREAM % more + queries + SINKS)
    return sb.read_workload(folder / "work.yaml")


def answers(folder):
    return whole(read_answers(folder / "out"))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 6))])
def test_answers_whatever_the_snapshots_and_restarts(tmp_path, seed, monkeypatch):
    draw, rows = random.Random(seed), in_time(seed)
    created(tmp_path, properties={"format-version": draw.choice(["1", "2"])})
    cuts = sorted(draw.sample(range(1, len(rows)), 5))
    parts = [rows[low:high] for low, high in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    file = workload(tmp_path, draw.choice(["", ", files_per_batch: 1"]))
    commit, draws = LocalCheckpoint.commit, random.Random(seed)

    def fail_sometimes(self, state):
        if state["batch"] >= 0 and draws.random() < 0.4:
            raise sb.PipelineError("killed before the state was stored")
        return commit(self, state)

    def catch_up():
        for _ in range(50):
            try:
                finished(file)
                return
            except sb.PipelineError:
                continue

    monkeypatch.setattr(LocalCheckpoint, "commit", fail_sometimes)
    if draw.random() < 0.3:
        catch_up()  # the table has no snapshot yet
    for number, part in enumerate(parts):
        append(tmp_path, part, files=draw.choice([1, 3]))
        if draw.random() < 0.3:
            compact(tmp_path)
        if draw.random() < 0.6 or number == len(parts) - 1:
            catch_up()
    monkeypatch.setattr(LocalCheckpoint, "commit", commit)
    finished(file, "stream")
    assert answers(tmp_path) == wanted(rows)


def test_a_batch_ends_between_files_of_a_snapshot(tmp_path):
    """A stream that was stopped in a snapshot continues in it, also if the snapshot has expired since."""
    rows = in_time(21)
    created(tmp_path)
    append(tmp_path, rows[:40])
    finished(workload(tmp_path))
    append(tmp_path, rows[40:100], files=3)
    file = workload(tmp_path, ", files_per_batch: 1")
    stop_after(file, 1)
    append(tmp_path, rows[100:])
    stop_after(file, 1)
    finished(file, "stream")
    assert answers(tmp_path) == wanted(rows)


def stop_after(file, batches):
    """Run a stream until it has read some micro-batches."""
    running = run_local(file, "stream")
    stream = next(iter(running._streams.values()))
    plan, left = stream._plan_batch, [batches]

    def counted(files, messages, stop):
        if not left[0]:
            stop.set()
            return
        left[0] -= 1
        plan(files, messages, stop)

    stream._plan_batch = counted
    assert running.await_end(60)


def test_a_bounded_run_reads_a_snapshot(tmp_path):
    rows = in_time(22)
    held = created(tmp_path)
    append(tmp_path, rows[:100])
    first = held.refresh().current_snapshot().snapshot_id
    append(tmp_path, rows[100:])
    opened(tmp_path).delete("odd = true")
    kept = [row for row in rows if not row[2] % 2]
    finished(workload(tmp_path), "once")
    assert answers(tmp_path) == wanted(kept)
    finished(workload(tmp_path, f", snapshot: {first}"), "once")
    assert answers(tmp_path) == wanted(rows[:100])
    with pytest.raises(
        sb.InvalidInputError, match=r"has no snapshot 7; it may have expired\. Its newest snapshots are"
    ):
        finished(workload(tmp_path, ", snapshot: 7"), "once")


def test_a_snapshot_that_changes_rows_stops_the_stream_or_is_skipped(tmp_path):
    rows = in_time(23)
    created(tmp_path)
    append(tmp_path, rows[:100])
    finished(workload(tmp_path))
    opened(tmp_path).delete("odd = true")
    number = opened(tmp_path).current_snapshot().snapshot_id
    append(tmp_path, rows[100:])
    with pytest.raises(
        sb.InvalidInputError, match=rf"snapshot {number} of Iceberg table db\.trades .* changed_rows: skip"
    ):
        finished(workload(tmp_path))
    finished(workload(tmp_path, ", changed_rows: skip"), "stream")
    assert answers(tmp_path) == wanted(rows)


def test_files_of_deleted_rows_are_rejected(tmp_path, monkeypatch):
    """pyiceberg cannot write them, so a manifest is taken for one."""
    created(tmp_path)
    append(tmp_path, in_time(24))
    number = opened(tmp_path).current_snapshot().snapshot_id
    monkeypatch.setattr("skyband.connectors.arrow.iceberg_log._has_deletes", lambda manifest: True)
    with pytest.raises(
        sb.InvalidInputError, match=rf"snapshot {number} .* has files of deleted rows.*rewrite_data_files"
    ):
        finished(workload(tmp_path), "once")


def test_expired_snapshots(tmp_path):
    rows = in_time(25)
    created(tmp_path)
    append(tmp_path, rows[:50])
    finished(workload(tmp_path))
    last = opened(tmp_path).current_snapshot().snapshot_id
    for low in range(50, 200, 50):
        append(tmp_path, rows[low : low + 50])
    expire(tmp_path, kept=2)
    oldest = min(opened(tmp_path).snapshots(), key=lambda one: one.sequence_number).snapshot_id
    with pytest.raises(
        sb.InvalidInputError,
        match=rf"after {last}, the last one that was read, have expired; the oldest one left is {oldest}",
    ):
        finished(workload(tmp_path))
    assert run_local(workload(tmp_path), "once", fresh=True).await_end(60)
    assert answers(tmp_path) == wanted(rows)


def test_a_stream_before_the_first_snapshot_reads_all_rows_although_snapshots_expired(tmp_path):
    rows = in_time(26)
    created(tmp_path)
    running = run_local(workload(tmp_path), "stream")
    stream = next(iter(running._streams.values()))
    look = stream._folder.look
    began = []

    def looked():
        found = look()
        if not began:
            began.append(True)
            for low in range(0, 200, 50):
                append(tmp_path, rows[low : low + 50])
            expire(tmp_path)
        return found

    stream._folder.look = looked
    running.finish()
    assert running.await_end(60)
    running = run_local(workload(tmp_path), "stream")
    running.finish()
    assert running.await_end(60)
    assert answers(tmp_path) == wanted(rows)


def test_a_table_that_is_rolled_back(tmp_path):
    rows = in_time(27)
    held = created(tmp_path)
    append(tmp_path, rows[:50])
    first = held.refresh().current_snapshot().snapshot_id
    append(tmp_path, rows[50:])
    finished(workload(tmp_path))
    last = held.refresh().current_snapshot().snapshot_id
    held.refresh().manage_snapshots().rollback_to_snapshot(first).commit()
    with pytest.raises(sb.InvalidInputError, match=rf"snapshot {last}, .* current snapshot is {first}: .* rolled back"):
        finished(workload(tmp_path))


def test_columns_that_change(tmp_path):
    """Columns are found by their numbers; a column of the stream that is renamed stops it, others do not."""
    rows = in_time(28)
    held = created(tmp_path)
    append(tmp_path, rows[:100])
    finished(workload(tmp_path))
    with held.refresh().update_schema() as change:
        change.add_column("more", IntegerType())
    with held.refresh().update_schema() as change:
        change.move_first("more")
    held.refresh().append(table(rows[100:150]).append_column("more", pa.array(range(50), pa.int32())))
    finished(workload(tmp_path))
    with held.refresh().update_schema() as change:
        change.update_column("more", LongType())
    held.refresh().append(table(rows[150:]).append_column("more", pa.array(range(50), pa.int64())))
    finished(workload(tmp_path), "stream")
    assert answers(tmp_path) == wanted(rows)
    with held.refresh().update_schema() as change:
        change.rename_column("s", "score")
    append_renamed = table(rows[:10]).rename_columns(["ts", "id", "g", "score", "odd"])
    held.refresh().append(append_renamed.append_column("more", pa.array(range(10), pa.int64())))
    with pytest.raises(sb.InvalidInputError, match=r"no longer has the column 's'"):
        finished(workload(tmp_path))
    queries = QUERIES.replace("by: s", "by: score").replace("TOPK s", "TOPK score")
    assert run_local(workload(tmp_path, queries=queries), "once", fresh=True).await_end(60)
    assert answers(tmp_path) == wanted(rows + rows[:10])


@pytest.mark.long
def test_a_dropped_column_that_is_added_again_is_another_one(tmp_path):
    rows = in_time(29)
    held = created(tmp_path)
    append(tmp_path, rows[:100])
    with held.refresh().update_schema(allow_incompatible_changes=True) as change:
        change.delete_column("s")
    with held.refresh().update_schema() as change:
        change.add_column("s", DoubleType())
    held.refresh().append(table(rows[100:]))
    finished(workload(tmp_path, ", options: {py-io-impl: pyiceberg.io.pyarrow.PyArrowFileIO}"), "once")
    assert answers(tmp_path) == wanted(rows[100:])


def test_files_that_others_wrote_are_read_by_name(tmp_path):
    import pyarrow.parquet as pq

    rows = in_time(30)
    held = created(tmp_path)
    pq.write_table(table(rows), tmp_path / "other.parquet")
    held.add_files([f"file://{tmp_path}/other.parquet"])
    finished(workload(tmp_path), "once")
    assert answers(tmp_path) == wanted(rows)


def test_a_table_without_rows_and_a_table_that_appears_to_be_gone(tmp_path):
    created(tmp_path)
    finished(workload(tmp_path))
    catalog_of(tmp_path).drop_table("db.trades")
    with pytest.raises(
        sb.InvalidInputError, match=r"db\.trades of sqlite.* does not exist\. The catalog has no tables"
    ):
        finished(workload(tmp_path))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("table: db.trade", r"Did you mean 'db\.trades'\?"),
        ("table: other.trades", r"no tables in 'other'; its namespaces are db"),
        (
            "table: db.trades, catalog: 'sqlite:////nowhere/catalog.db'",
            r"the file '/nowhere/catalog.db' does not exist",
        ),
        (
            "table: db.trades, catalog_name: prod",
            r"no tables of a catalog named 'prod', but of default\. Set catalog_name",
        ),
    ],
)
def test_a_table_that_cannot_be_found(tmp_path, line, said):
    created(tmp_path)
    text = STREAM % "" + QUERIES + SINKS
    parts = line.split(", ")
    text = text.replace("table: db.trades", parts[0])
    if len(parts) > 1:
        key = "," if parts[1].startswith("catalog_name") else "catalog: 'sqlite:///catalog.db',"
        text = text.replace(key, f", {parts[1]}," if key == "," else f"{parts[1]},", 1)
    (tmp_path / "work.yaml").write_text(text)
    with pytest.raises(sb.InvalidInputError, match=said) as error:
        finished(sb.read_workload(tmp_path / "work.yaml"))
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_a_rest_catalog(tmp_path):
    rows = in_time(32)
    created(tmp_path)
    append(tmp_path, rows[:100])

    def through(address, table="db.trades"):
        text = (STREAM % "").replace("sqlite:///catalog.db", address).replace("db.trades", table)
        (tmp_path / "work.yaml").write_text(text + QUERIES + SINKS)
        return sb.read_workload(tmp_path / "work.yaml")

    with RestCatalog(tmp_path) as catalog:
        finished(through(catalog.address))
        append(tmp_path, rows[100:150])
        with pytest.raises(sb.InvalidInputError, match=r"does not exist\. Did you mean 'db\.trades'\?"):
            finished(through(catalog.address, "db.trade"))
        finished(through(catalog.address))
    append(tmp_path, rows[150:])
    with pytest.raises(sb.InvalidInputError, match=r"Iceberg table db\.trades of http.* cannot be read: .*refused"):
        finished(through(catalog.address))
    with RestCatalog(tmp_path) as catalog:
        finished(through(catalog.address), "stream")
    assert answers(tmp_path) == wanted(rows)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (", format: csv", "an Iceberg table determines its files and columns"),
        (", path: lake", r"path: is for source: delta or files"),
        (", version: 3", "version"),
        (", options: {s3.secret-access-key: abcdef123}", "s3.secret-access-key"),
    ],
)
def test_keys_that_are_rejected(tmp_path, more, said):
    with pytest.raises(sb.WorkloadFileError, match=said):
        workload(tmp_path, more)


def test_what_a_catalog_must_be(tmp_path):
    for wrong, said in (("catalog.db", "is not an address of a catalog"), ("", "catalog")):
        (tmp_path / "work.yaml").write_text((STREAM % "").replace("sqlite:///catalog.db", wrong) + QUERIES + SINKS)
        with pytest.raises(sb.WorkloadFileError, match=said):
            sb.read_workload(tmp_path / "work.yaml")


def test_a_catalog_that_does_not_exist_is_not_created(tmp_path):
    with pytest.raises(sb.InvalidInputError, match="Nothing was read or created"):
        finished(workload(tmp_path))
    assert not (tmp_path / "catalog.db").exists()


def test_explain_verify_and_init(tmp_path, capsys):
    rows = in_time(31)
    held = created(tmp_path)
    append(tmp_path, rows)
    workload(tmp_path)
    path = tmp_path / "work.yaml"
    said = explain_file(path, as_json=False)
    assert f"stream rows: Iceberg table db.trades of sqlite:///{tmp_path}/catalog.db; time ts" in said
    assert verify_file(path, answers=None, unfinished=False, as_json=False, verbose=False) == 0
    printed = capsys.readouterr()
    assert "Spark itself has no reader of Iceberg tables" in printed.err
    assert "answer rows agree" in printed.out
    folder = held.location().removeprefix("file://")
    with pytest.raises(sb.InvalidInputError, match=r"is an Iceberg table.*source: iceberg"):
        init_file(tmp_path.__class__(folder), tmp_path / "other.yaml", force=False)
