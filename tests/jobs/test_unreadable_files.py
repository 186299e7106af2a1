"""Files that cannot be read: they stop the stream, or are skipped and reported once, with the answers of the rest."""

from __future__ import annotations

import gzip
import json
import math
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.connectors.arrow.rows import LocalRows
from skyband.connectors.arrow.splits import Split
from skyband.jobs import run, run_local
from skyband.jobs.local_state import LocalCheckpoint
from tests.jobs.test_job import QUERIES, rows_of, wanted, whole
from tests.programs import skyband
from tests.spark.frames import read_answers, read_lines, table, write_files

STREAM = "streams: {rows: {path: in, format: %s, time: ts, id: id, watermark: 0 seconds%s}}\n"
SKIPPED = ", dead_letters: dead, unreadable_files: dead_letters"
SINKS = "sinks: [{type: parquet, path: out}]\n"
SCHEMA = ", schema: {ts: timestamp, id: bigint, g: string, s: double, odd: boolean}"


def file_of(folder, more=SKIPPED, kind="parquet"):
    (folder / "work.yaml").write_text(STREAM % (kind, more) + QUERIES + SINKS)
    return sb.read_workload(folder / "work.yaml")


def finished(file, mode, spark=None, *, fresh=False):
    running = run_local(file, mode, fresh=fresh) if spark is None else run(file, mode, fresh=fresh, spark=spark)
    if mode == "stream":
        running.finish()
    assert running.await_end(300)
    return running.metrics()["rows"]


def in_time(seed):
    """Rows with scores that lines of text can have, by time."""
    kept = [row for row in rows_of(seed, 200) if row[1] is not None and math.isfinite(row[1])]
    return sorted(kept, key=lambda row: row[0])[:120]


def write_damaged(folder, rows):
    """Files of 120 rows, two of which are damaged; return the rows that can be read."""
    write_files(folder, [rows[:40], rows[40:60]])
    cut = folder / "001.parquet"
    cut.write_bytes(cut.read_bytes()[:-20])
    aged(cut, 1)
    damaged = folder / "002.parquet"
    pq.write_table(table(rows[60:100]), damaged, row_group_size=10)
    column = pq.read_metadata(damaged).row_group(2).column(3)
    raw = bytearray(damaged.read_bytes())
    begin = column.dictionary_page_offset or column.data_page_offset
    raw[begin : begin + 20] = b"\xff" * 20
    damaged.write_bytes(raw)
    aged(damaged, 2)
    write_files(folder, [rows[100:]], begin=3)
    return rows[:40] + rows[60:80] + rows[90:]


def aged(path, number):
    os.utime(path, (1_000_000_000 + number,) * 2)


def letters(folder):
    return sorted(read_lines(folder / "dead", "rows-*/part-*"), key=lambda letter: (letter["file"], str(letter)))


def assert_two_letters(folder):
    cut, damaged = letters(folder)
    assert cut["file"] == f"file:{folder}/in/001.parquet"
    assert cut["reason"].startswith("the file cannot be read as Parquet: Parquet magic bytes not found")
    assert cut["stream"] == "rows"
    assert "row" not in cut
    assert damaged["file"] == f"file:{folder}/in/002.parquet"
    assert damaged["reason"].startswith("row group 2 (rows 20 to 29) cannot be read as Parquet: ")
    assert damaged["row"] == 20


def kill_once(monkeypatch):
    """The next batch fails after its output is written, before its state is stored."""
    commit, failures = LocalCheckpoint.commit, iter([True])

    def fail_once(self, state):
        if state["batch"] >= 0 and next(failures, False):
            raise sb.PipelineError("killed before the state was stored")
        return commit(self, state)

    monkeypatch.setattr(LocalCheckpoint, "commit", fail_once)


def write_lines(path, rows, kind, *, cut=False, number=0):
    """Rows as compressed lines; `cut` is after most lines."""
    found = [
        (row["ts"].isoformat(sep=" ").removesuffix("+00:00"), row["id"], row["g"], row["s"], row["odd"])
        for row in table(rows).to_pylist()
    ]
    if kind == "csv":
        text = "ts,id,g,s,odd\n" + "".join(
            f"{ts},{id_},{g or ''},{s!r},{str(odd).lower()}\n" for ts, id_, g, s, odd in found
        )
    else:
        names = ("ts", "id", "g", "s", "odd")
        text = "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in found)
    raw = gzip.compress(text.encode())
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(raw[:-12] if cut else raw)
    aged(path, number)


@pytest.mark.parametrize("mode", ["once", "catch-up", "stream"])
def test_damaged_parquet_files_are_skipped_and_reported(tmp_path, mode):
    rows = in_time(1)
    kept = write_damaged(tmp_path / "in", rows)
    metrics = finished(file_of(tmp_path), mode)
    if mode == "catch-up":
        finished(file_of(tmp_path), "stream")  # ends the stream
    assert whole(read_answers(tmp_path / "out")) == wanted(kept)
    assert_two_letters(tmp_path)
    assert (metrics["unreadable"], metrics["malformed"], metrics["rows"]) == (2, 0, len(kept))


def test_the_first_file_may_be_unreadable(tmp_path):
    rows = in_time(2)
    write_files(tmp_path / "in", [rows], begin=1)
    (tmp_path / "in" / "000.parquet").write_bytes(b"PAR1 no Parquet PAR1")
    (tmp_path / "in" / "002.parquet").touch()  # a Parquet file is never empty
    assert finished(file_of(tmp_path), "once")["unreadable"] == 2
    assert whole(read_answers(tmp_path / "out")) == wanted(rows)
    (tmp_path / "in" / "001.parquet").unlink()
    with pytest.raises(sb.InvalidInputError, match=r"000\.parquet' cannot be read as Parquet"):
        finished(file_of(tmp_path), "once")


def test_tasks_that_read_single_row_groups_skip_the_same(tmp_path):
    kept = write_damaged(tmp_path / "in", in_time(13))
    file = file_of(tmp_path)
    rows = LocalRows("rows", file.streams["rows"])
    damaged = tmp_path / "in" / "002.parquet"
    found = [one for group in range(4) for one in rows.read([Split(damaged, group, group + 1)])]
    assert sum(one.read for one in found) == 30
    assert pa.concat_tables(one.rows for one in found)["id"].to_pylist() == [row[2] for row in kept[40:70]]
    assert [one.unreadable["row"][0].as_py() for one in found if one.unreadable is not None] == [20]
    (cut,) = rows.read([Split(tmp_path / "in" / "001.parquet", 1, 3)])  # it had a footer when it was split
    assert cut.unreadable["reason"][0].as_py().startswith("row groups 1 to 2 cannot be read as Parquet: ")


def test_letters_are_written_once_if_a_batch_is_repeated(tmp_path, monkeypatch):
    rows = in_time(3)
    file = file_of(tmp_path)
    write_files(tmp_path / "in", [rows[:40]])
    finished(file, "catch-up")
    kept = write_damaged(tmp_path / "in", rows)
    kill_once(monkeypatch)
    with pytest.raises(sb.PipelineError, match="killed"):
        finished(file, "catch-up")
    assert_two_letters(tmp_path)  # written before the state
    for _ in range(2):
        finished(file, "stream")
    assert_two_letters(tmp_path)
    assert whole(read_answers(tmp_path / "out")) == wanted(kept)


def test_a_file_that_is_repaired_before_its_batch_is_repeated_is_used(tmp_path, monkeypatch):
    rows = in_time(4)
    file = file_of(tmp_path)
    write_damaged(tmp_path / "in", rows)
    kill_once(monkeypatch)
    with pytest.raises(sb.PipelineError, match="killed"):
        finished(file, "catch-up")
    assert_two_letters(tmp_path)
    write_files(tmp_path / "in", [rows[:40], rows[40:60], rows[60:100], rows[100:]])
    assert finished(file, "stream")["unreadable"] == 0
    assert letters(tmp_path) == []
    assert whole(read_answers(tmp_path / "out")) == wanted(rows)


@pytest.mark.parametrize("kind", ["csv", "json"])
@pytest.mark.parametrize("schema", [SCHEMA, ""], ids=["declared", "inferred"])
def test_a_compressed_file_is_used_completely_or_not_at_all(tmp_path, kind, schema):
    rows = in_time(5)
    write_lines(tmp_path / "in" / f"a.{kind}.gz", rows[:30], kind, cut=True)
    write_lines(tmp_path / "in" / f"b.{kind}.gz", rows[30:80], kind, number=1)
    write_lines(tmp_path / "in" / f"c.{kind}.gz", rows[80:], kind, number=2)
    (tmp_path / "in" / f"d.{kind}.gz").write_bytes(b"not compressed\n")
    if kind == "json" and not schema:
        schema = ", columns: {ts: CAST(ts AS timestamp)}"
    metrics = finished(file_of(tmp_path, SKIPPED + schema, kind), "once")
    assert whole(read_answers(tmp_path / "out")) == wanted(rows[30:])
    assert (metrics["unreadable"], metrics["rows"]) == (2, 90)
    assert [(os.path.basename(letter["file"]), letter["reason"]) for letter in letters(tmp_path)] == [
        (f"a.{kind}.gz", "the file cannot be read: Truncated compressed stream"),
        (f"d.{kind}.gz", "the file cannot be read: zlib inflate failed: incorrect header check"),
    ]


@pytest.mark.parametrize("kind", ["csv", "json"])
@pytest.mark.parametrize("mode", ["once", "catch-up"])
def test_a_compressed_file_stops_the_stream_with_its_name(tmp_path, kind, mode):
    rows = in_time(6)
    write_lines(tmp_path / "in" / f"a.{kind}.gz", rows[:60], kind)
    write_lines(tmp_path / "in" / f"b.{kind}.gz", rows[60:], kind, cut=True, number=1)
    with pytest.raises(sb.InvalidInputError, match=rf"b\.{kind}\.gz' cannot be read: Truncated compressed stream"):
        finished(file_of(tmp_path, SCHEMA, kind), mode)
    assert not (tmp_path / "out").exists()


def test_no_line_of_a_file_with_a_wrong_checksum_is_used(tmp_path):
    # Most lines still have two numbers, and only the checksum at the end shows that they are wrong.
    lines = "".join(f"{row},{row * 7919 % 1000}\n" for row in range(200_000))
    raw = bytearray(gzip.compress(f"at,v\n{lines}".encode()))
    raw[len(raw) // 4] ^= 0xFF
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("at,v\n7,1.5\n")
    (tmp_path / "in" / "b.csv.gz").write_bytes(raw)
    stream = f"{{path: in, format: csv, time: at, time_format: seconds, schema: {{at: bigint, v: double}}{SKIPPED}}}"
    (tmp_path / "work.yaml").write_text(
        f"streams: {{rows: {stream}}}\nqueries: [{{k: 9, size: 1 minute, by: v}}]\n{SINKS}"
    )
    metrics = finished(sb.read_workload(tmp_path / "work.yaml"), "once")
    assert (metrics["rows"], metrics["unreadable"]) == (1, 1)
    assert [row["v"] for row in read_answers(tmp_path / "out")] == [1.5]
    assert "incorrect data check" in letters(tmp_path)[0]["reason"]


def test_problems_that_may_disappear_stop_the_stream(tmp_path, monkeypatch):
    write_files(tmp_path / "in", [in_time(7)])
    file = file_of(tmp_path)

    def opened(*arguments, **named):
        raise OSError(24, "Too many open files")

    running = run_local(file, "once")
    assert running.await_end(300)
    stream = running._streams["rows"]
    monkeypatch.setattr(pq, "ParquetFile", opened)
    with pytest.raises(sb.InvalidInputError, match="Too many open files"):
        list(stream.rows.read())

    def refused(*arguments, **named):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(pq, "ParquetFile", refused)
    (found,) = stream.rows.read()
    assert "Permission denied" in found.unreadable["reason"][0].as_py()


@pytest.mark.long
def test_the_summary_of_a_run_reports_what_was_skipped(tmp_path):
    write_damaged(tmp_path / "in", in_time(12))
    file_of(tmp_path)
    done = skyband("run", tmp_path / "work.yaml", "--local", "--once")
    assert done.returncode == 0
    printed = " ".join(done.stderr.split())
    line = "2 files or row groups skipped: they could not be read, and none of their rows is in an answer."
    assert line in printed
    verified = skyband("verify", tmp_path / "work.yaml", "--local")
    assert verified.returncode == 0
    assert line in " ".join(verified.stdout.split())


def test_spark_skips_and_reports_the_same(spark, tmp_path):
    rows = in_time(8)
    kept = write_damaged(tmp_path / "in", rows)
    file = file_of(tmp_path)
    metrics = finished(file, "stream", spark)
    assert metrics["reader"] == "arrow"
    assert (metrics["unreadable"], metrics["malformed"], metrics["rows"]) == (2, 0, len(kept))
    assert whole(read_answers(tmp_path / "out")) == wanted(kept)
    assert_two_letters(tmp_path)
    theirs = letters(tmp_path)
    finished(file, "once", fresh=True)
    assert letters(tmp_path) == theirs


def test_a_bounded_run_on_spark_skips_and_reports_the_same(spark, tmp_path):
    rows = in_time(9)
    write_lines(tmp_path / "in" / "a.csv.gz", rows[:30], "csv", cut=True)
    write_lines(tmp_path / "in" / "b.csv.gz", rows[30:], "csv", number=1)
    (tmp_path / "in" / "c.csv").write_text("ts,id,g,s,odd\nsome,line\n")
    file = file_of(tmp_path, SKIPPED + SCHEMA, "csv")
    found = []
    for engine in (spark, None):
        metrics = finished(file, "once", engine)
        assert (metrics["reader"], metrics["unreadable"], metrics["malformed"]) == ("arrow", 1, 1)
        assert whole(read_answers(tmp_path / "out")) == wanted(rows[30:])
        found.append(letters(tmp_path))
    assert found[0] == found[1]
    assert [letter.get("value") for letter in found[0]] == [None, "some,line"]


@pytest.mark.long
def test_a_stream_on_spark_that_stopped_continues_when_the_key_is_set(spark, tmp_path):
    rows = in_time(10)
    stopping, skipping = ", dead_letters: dead" + SCHEMA, SKIPPED + SCHEMA
    write_lines(tmp_path / "in" / "a.csv.gz", rows[:40], "csv")
    (tmp_path / "in" / "a1.csv").write_text("ts,id,g,s,odd\none\n")
    aged(tmp_path / "in" / "a1.csv", 1)
    finished(file_of(tmp_path, stopping, "csv"), "catch-up", spark)
    write_lines(tmp_path / "in" / "b.csv.gz", rows[40:80], "csv", cut=True, number=2)
    (tmp_path / "in" / "b1.csv").write_text("ts,id,g,s,odd\ntwo\n")
    aged(tmp_path / "in" / "b1.csv", 3)
    with pytest.raises(sb.SkybandError, match=r"b\.csv\.gz"):
        finished(file_of(tmp_path, stopping, "csv"), "catch-up", spark)
    assert [letter["value"] for letter in letters(tmp_path)] == ["one"]
    metrics = finished(file_of(tmp_path, skipping, "csv"), "catch-up", spark)
    assert (metrics["unreadable"], metrics["malformed"]) == (1, 1)
    after = letters(tmp_path)
    assert [letter.get("value") for letter in after] == ["one", None, "two"]
    commits = tmp_path / ".skyband" / "work" / "rows" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    for name in (str(last), f".{last}.crc"):  # killed between writing and noting it down
        (commits / name).unlink()
    write_lines(tmp_path / "in" / "c.csv.gz", rows[80:], "csv", number=4)
    (tmp_path / "in" / "c1.csv").write_text("ts,id,g,s,odd\nthree\n")
    aged(tmp_path / "in" / "c1.csv", 5)
    finished(file_of(tmp_path, skipping, "csv"), "catch-up", spark)
    assert letters(tmp_path)[:3] == after
    (tmp_path / "in" / "d.csv").write_text("ts,id,g,s,odd\nfour\n")
    finished(file_of(tmp_path, stopping, "csv"), "stream", spark)  # tasks still write the letters
    assert [letter.get("value") for letter in letters(tmp_path)] == ["one", None, "two", "three", "four"]
    assert whole(read_answers(tmp_path / "out")) == wanted(rows[:40] + rows[80:])


@pytest.mark.long
def test_spark_refuses_what_its_own_reader_would_have_to_read(spark, tmp_path):
    rows = in_time(11)
    write_lines(tmp_path / "in" / "a.csv.gz", rows, "csv")
    file = file_of(tmp_path, SKIPPED + SCHEMA + ", options: {quote: '|'}", "csv")
    for mode in ("once", "catch-up"):
        with pytest.raises(sb.UnsupportedError, match=r"quote.*unreadable_files: dead_letters") as error:
            run(file, mode, spark=spark)
        assert "is only supported by Spark's reader. Spark's reader would have to read the files." in str(error.value)
    assert not (tmp_path / "out").exists()
    (tmp_path / "in" / "b.csv").write_text("ts,id,g,s,odd\n2024-01-01 00:00:00,1,a\0b,2.5,true\n")
    aged(tmp_path / "in" / "b.csv", 1)
    with pytest.raises(sb.UnsupportedError, match=r"NUL character.*in/b\.csv.*unreadable_files: dead_letters"):
        finished(file_of(tmp_path, SKIPPED + SCHEMA, "csv"), "catch-up", spark)
