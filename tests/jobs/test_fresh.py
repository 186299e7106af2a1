"""--fresh checks everything that a new run needs before it removes anything: state, journal, files and tables."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from deltalake import write_deltalake

import skyband as sb
from skyband.jobs import run, run_local
from skyband.jobs.journal import Change, Journal
from tests.connectors.tables.places import KINDS, catalog_of, rows_in, yaml_of
from tests.connectors.tables.test_table_runs import SECOND, found, held
from tests.connectors.tables.test_table_runs import workload as of_tables
from tests.jobs.test_job import rows_of
from tests.spark.frames import table, write_files

QUERIES = """
queries:
  - {name: first, stream: files, k: 2, size: 20 seconds, by: s}
  - {name: second, stream: lake, k: 3, size: 20 seconds, by: s}
sinks: [{type: parquet, path: out}]
"""
FILES = "{path: in/*.parquet, time: ts, id: id, watermark: 0 seconds}"
LAKE = "{source: delta, path: lake, time: ts, id: id, watermark: 0 seconds}"
LATER = sb.TopK(name="later", k=1, size="20 seconds", by="s")


def ended(running):
    assert running.await_end(300)
    return running


def content(folder):
    """The bytes of every file of the state, the sources and the outputs."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".yaml"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files if path.name != "lock"}


def refused(folder, file, match, *, mode="catch-up", go=run_local, error=sb.InvalidInputError):
    """A run with fresh is rejected, and every byte stays."""
    before = content(folder)
    with pytest.raises(error, match=match):
        ended(go(file, mode, fresh=True))
    after = content(folder)
    assert [name for name in before | after if before.get(name) != after.get(name)] == []


def two_streams(folder):
    """A run of two streams, of files and of a table, and a query that was added to the first one."""
    rows = sorted(rows_of(3), key=lambda row: row[0])
    write_deltalake(folder / "lake", table(rows))
    write_files(folder / "in", [rows])
    (folder / "work.yaml").write_text(f"streams: {{files: {FILES}, lake: {LAKE}}}\n{QUERIES}")
    file = sb.read_workload(folder / "work.yaml")
    Journal(Path(file.engine.checkpoint)).append(Change("add", "files", LATER))
    ended(run_local(file, "catch-up"))
    return file


def test_a_source_that_is_gone_or_has_other_columns(tmp_path):
    file = two_streams(tmp_path)
    checkpoint = file.engine.checkpoint
    assert [path for path in content(tmp_path) if path.endswith(("changes.jsonl", "local/state"))]
    assert Journal(Path(checkpoint)).read()
    (tmp_path / "lake").rename(tmp_path / "elsewhere")
    for mode in ("catch-up", "stream", "once"):
        refused(tmp_path, file, "is not a Delta table", mode=mode)
    other = table(rows_of(4)).rename_columns(["ts", "id", "g", "odd", "t"][: table(rows_of(4)).num_columns])
    write_deltalake(tmp_path / "lake", other)
    refused(tmp_path, file, r"'s'|\bs\b", error=sb.SkybandError)
    shutil.rmtree(tmp_path / "lake")
    (tmp_path / "elsewhere").rename(tmp_path / "lake")
    ended(run_local(file, "catch-up", fresh=True))
    assert Journal(Path(checkpoint)).read() == []


def test_an_output_that_cannot_be_written(tmp_path):
    file = two_streams(tmp_path)
    (tmp_path / "out").rename(tmp_path / "answers")
    (tmp_path / "out").write_text("a file")
    refused(tmp_path, file, r"out' is not a folder.*Nothing was removed")
    (tmp_path / "out").unlink()
    (tmp_path / "answers").rename(tmp_path / "out")
    assert ended(run_local(file, "catch-up")).metrics()["files"]["rows"] == 0  # the state continues


def tables(folder, kinds=KINDS):
    file = of_tables(folder, kinds)
    first = held(ended(run_local(file, "catch-up")))
    (folder / "in" / "2.csv").write_text(SECOND)
    return file, first


def check_tables(folder, go):
    """A table that does not fit, a catalog that cannot be written to, and a run that starts over."""
    file, _ = tables(folder)
    text = (folder / "work.yaml").read_text()
    for sink, kind in zip(map(yaml_of, KINDS), KINDS, strict=True):
        assert sink in text
        # Names were text in the answers; now they are numbers.
        columns = text.replace("time: at,", "time: at, columns: {name: CAST(length(name) AS BIGINT)},")
        only = columns.replace(", ".join(map(yaml_of, KINDS)), sink)
        (folder / "work.yaml").write_text(only)
        match = f"{kind.capitalize()} table .*column 'name' has type .*string, but answers have int64"
        refused(folder, sb.read_workload(folder / "work.yaml"), match, go=go)
    (folder / "work.yaml").write_text(text)
    real = folder / "catalog.db"
    real.rename(folder / "kept.db")
    real.mkdir()
    refused(folder, file, r"Iceberg table 'db.answers' cannot be used: .*Nothing was written", go=go)
    real.rmdir()
    (folder / "kept.db").rename(real)
    (folder / "answers/_delta_log").rename(folder / "log")
    (folder / "answers/_delta_log").write_text("")
    refused(folder, file, r"Delta table .* cannot be used: .*Nothing was written", go=go)
    (folder / "answers/_delta_log").unlink()
    (folder / "log").rename(folder / "answers/_delta_log")
    again = held(ended(go(file, "catch-up", fresh=True)))
    for kind in KINDS:
        assert found(kind, folder) == sorted(again)


def test_tables_that_do_not_fit(tmp_path):
    check_tables(tmp_path, run_local)


def test_no_table_is_created_if_another_one_does_not_fit(tmp_path):
    tables(tmp_path, ["iceberg"])
    text = (tmp_path / "work.yaml").read_text()
    both = text.replace(yaml_of("iceberg"), f"{yaml_of('delta')}, {yaml_of('iceberg')}")
    both = both.replace("time: at,", "time: at, columns: {name: CAST(length(name) AS BIGINT)},")
    (tmp_path / "work.yaml").write_text(both.replace("streams: {s:", "streams: {s2:"))
    with pytest.raises(sb.InvalidInputError, match=r"Iceberg table .*column 'name' has type"):
        run_local(sb.read_workload(tmp_path / "work.yaml"), "catch-up")
    assert not (tmp_path / "answers").exists()
    assert len(rows_in("iceberg", tmp_path)) == len(found("iceberg", tmp_path)) > 0
    assert catalog_of(tmp_path).list_tables("db")


@pytest.mark.long
@pytest.mark.slow
def test_tables_that_do_not_fit_on_spark(spark, tmp_path):
    def go(file, mode, **more):
        return run(file, mode, spark=spark, **more)

    file, _ = (of_tables(tmp_path), ended(go(of_tables(tmp_path), "catch-up")))
    (tmp_path / "in" / "2.csv").write_text(SECOND)
    columns = (tmp_path / "work.yaml").read_text()
    (tmp_path / "work.yaml").write_text(
        columns.replace("time: at,", "time: at, columns: {name: CAST(length(name) AS BIGINT)},")
    )
    other = sb.read_workload(tmp_path / "work.yaml")
    for mode in ("catch-up", "stream", "once"):
        refused(tmp_path, other, "column 'name' has type .*string, but answers have int64", mode=mode, go=go)
    (tmp_path / "work.yaml").write_text(columns.replace("by: price", "by: prize"))
    refused(tmp_path, sb.read_workload(tmp_path / "work.yaml"), "prize", error=sb.SkybandError, go=go)
    (tmp_path / "in").rename(tmp_path / "elsewhere")
    refused(tmp_path, file, "stream 's'", error=sb.SkybandError, go=go)
    (tmp_path / "elsewhere").rename(tmp_path / "in")
    again = held(ended(go(file, "catch-up", fresh=True)))
    for kind in KINDS:
        assert found(kind, tmp_path) == sorted(again)
