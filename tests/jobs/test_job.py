"""Workload files from their sources to their sinks, against the definitions."""

from __future__ import annotations

import csv
import datetime as dt
import json
import shutil
import socket
import threading

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.connectors.folder_writer import FolderWriter
from skyband.connectors.sources import open_batch
from skyband.jobs import run
from skyband.sharding.delivery import Wanted
from tests.sharding import cases
from tests.sharding.differences import by_order, compared, reported
from tests.spark.frames import read_answers, read_lines, table, write_files
from tests.waiting import wait_for

POSED = [
    cases.Posed("all", cases.Asked(k=3, size=20_000_000, slide=5_000_000), {"by": "s"}),
    cases.Posed("each", cases.Asked(k=2, size=30_000_000, slide=30_000_000), {"by": "s", "partition_by": ["g"]}),
]
QUERIES = """
queries:
  - {name: all, k: 3, size: 20 seconds, slide: 5 seconds, by: s}
  - {name: each, sql: "TOPK s, 2 BY g OVER 30 SECONDS"}
"""


def workload(folder, text, name="work.yaml"):
    file = folder / name
    file.write_text(text)
    return sb.read_workload(file)


def rows_of(seed, count=120):
    return cases.draw_rows(cases.rng("runs", seed), count, scale=1_000_000)


def wanted(rows):
    return {key: found for one in POSED for key, found in cases.wanted(one, rows).items()}


def whole(rows):
    """Answers with plain values; a sink's `g` is the row's own where a query has no groups."""
    return cases.answered(rows, POSED)


def finished(file, spark, mode="once", **more):
    running = run(file, mode, spark=spark, **more)
    assert running.await_end(300)
    return running


def lines_of(folder):
    found = read_lines(folder)
    for row in found:
        for name in ("window_start", "window_end"):
            row[name] = dt.datetime.fromisoformat(row[name])
        row["score"] = float(row["score"])
    return found


@pytest.fixture
def source(tmp_path):
    rows = rows_of(1)
    write_files(tmp_path / "in", [rows[:50], rows[50:]])
    return rows


STREAM = "streams: {rows: {path: in, format: parquet, time: ts, id: id, watermark: 0 seconds}}\n"


def test_every_sink_has_the_answers_of_the_definitions(spark, tmp_path, source):
    file = workload(
        tmp_path,
        STREAM
        + QUERIES
        + """
sinks:
  - {type: parquet, path: out/parquet}
  - {type: jsonl, path: out/lines}
  - {type: csv, path: out/csv, queries: [each]}
  - {type: memory, output: changes}
  - {type: memory, queries: [all]}
""",
    )
    running = finished(file, spark)
    assert whole(read_answers(tmp_path / "out/parquet")) == wanted(source)
    assert whole(lines_of(tmp_path / "out/lines")) == wanted(source)
    written = [row for path in (tmp_path / "out/csv").glob("*.csv") for row in pcsv.read_csv(path).to_pylist()]
    assert {row["query"] for row in written} == {"each"}
    assert len(written) == sum(len(rows) for key, rows in wanted(source).items() if key[0] == "each")
    newest = max(row[0] for row in source)
    changes = {
        key: sorted(compared(one, rows, newest, "time"), key=by_order)
        for one in POSED
        for key, rows in cases.wanted(one, source).items()
    }
    found = reported(running.memory("rows", "changes").to_pylist(), POSED)
    kept = whole(running.memory("rows", "answers").to_pylist())
    assert kept == {key: rows for key, rows in wanted(source).items() if key[0] == "all"}
    with pytest.raises(sb.InvalidInputError, match="Choose one with output="):
        running.memory("rows")
    assert {key: sorted(rows, key=by_order) for key, rows in found.items()} == changes
    metrics = running.metrics()["rows"]
    assert metrics["answers"] == sum(map(len, wanted(source).values()))
    assert (metrics["rows"], metrics["late"]) == (len(source), 0)


def test_a_query_without_groups_has_the_rows_own_value_in_a_group_column(spark, tmp_path, source):
    file = workload(tmp_path, STREAM + QUERIES + "sinks: [{type: memory}]\n")
    found = finished(file, spark).memory("rows").to_pylist()
    by_id = {row[2]: row[3] for row in source}
    assert all(row["g"] == by_id[row["id"]] for row in found)
    assert "row_g" not in found[0]


def test_answering_once_again_replaces_what_was_written(spark, tmp_path, source):
    file = workload(tmp_path, STREAM + QUERIES + "sinks: [{type: parquet, path: out}]\n")
    finished(file, spark)
    stale = tmp_path / "out" / "rows-00000077.parquet"
    (tmp_path / "out" / "notes.parquet.txt").write_text("not ours")
    stale.write_bytes((sorted((tmp_path / "out").glob("*.parquet"))[0]).read_bytes())
    wrong = workload(tmp_path, STREAM + QUERIES.replace("by: s", "by: t") + "sinks: [{type: parquet, path: out}]\n")
    with pytest.raises(sb.InvalidQueryError, match="column 't' does not exist"):
        run(wrong, "once", spark=spark)
    assert stale.exists(), "what was there stays until it can be replaced"
    finished(file, spark)
    assert not stale.exists()
    assert (tmp_path / "out" / "notes.parquet.txt").exists()
    assert whole(read_answers(tmp_path / "out")) == wanted(source)
    assert not (tmp_path / ".skyband").exists(), "a bounded run keeps no state"


@pytest.mark.long
def test_catching_up_twice_is_one_stream(spark, tmp_path, source):
    file = workload(tmp_path, STREAM + QUERIES + "sinks: [{type: jsonl, path: out, output: changes}]\n")
    drawn = rows_of(2)
    shift = source[-1][0] - drawn[0][0] + 12_000_000
    later = [(position + shift, score, id_ + 20_000, group) for position, score, id_, group in drawn]
    finished(file, spark, "catch-up")
    write_files(tmp_path / "in", [later], 5)
    finished(file, spark, "catch-up")
    write_files(tmp_path / "in", [[(later[-1][0] + 900_000_000, 1.0, 1, "a")]], 6)
    finished(file, spark, "catch-up")
    rows = source + later
    end = later[-1][0] + 900_000_000
    want = {
        key: sorted(compared(one, found, end, "time"), key=by_order)
        for one in POSED
        for key, found in cases.wanted(one, rows).items()
    }
    found = reported(lines_of(tmp_path / "out"), POSED)
    assert {key: sorted(changes, key=by_order) for key, changes in found.items()} == want


def test_a_stream_goes_on_from_its_state_and_begins_anew_when_told(spark, tmp_path, source):
    file = workload(tmp_path, STREAM + QUERIES + "sinks: [{type: parquet, path: out}]\n")
    running = run(file, spark=spark)
    wait_for(lambda: running.await_end(0.2) or read_answers(tmp_path / "out"))
    running.stop()
    before = whole(read_answers(tmp_path / "out"))
    assert before
    assert all(set(found) <= set(wanted(source)[key]) for key, found in before.items())
    with pytest.raises(sb.InvalidInputError, match=r"belong to a stored state, and --once would replace them.*--fresh"):
        run(file, "once", spark=spark)
    finished(file, spark, "once", fresh=True)
    assert whole(read_answers(tmp_path / "out")) == wanted(source)
    with pytest.raises(sb.InvalidInputError, match=r"there is no state to resume from.*--fresh"):
        run(file, spark=spark)


class Failing:
    """Takes so many batches with answers, then fails: after the files are written, before Spark notes it down."""

    def __init__(self, batches):
        self.left = batches

    def take(self, batch, rows):
        self.left -= rows.num_rows > 0
        if self.left < 0:
            raise OSError("the power went out")


@pytest.mark.faults
def test_a_crash_between_writing_and_noting_it_down_loses_nothing_and_doubles_nothing(spark, tmp_path, tally):
    rows = rows_of(3, 200)
    write_files(tmp_path / "in", [rows[low : low + 40] for low in range(0, 160, 40)])
    text = STREAM.replace("watermark", "files_per_batch: 1, watermark")
    file = workload(tmp_path, text + QUERIES + "sinks: [{type: jsonl, path: out, output: changes}, {type: memory}]\n")
    for batches in (1, 1):
        running = run(file, spark=spark, watchers={"rows": [Wanted(Failing(batches), "changes")]})
        with pytest.raises(sb.PipelineError, match="the power went out"):
            running.await_end(300)
        tally.fault("crash between writing and noting it down")
    finished(file, spark, "catch-up")
    end = rows[159][0] + 500_000_000
    write_files(tmp_path / "in", [[(end, 1.0, 1, "a")]], 9)
    finished(file, spark, "catch-up")
    want = {
        key: compared(one, found, end, "time") for one in POSED for key, found in cases.wanted(one, rows[:160]).items()
    }
    found = reported(lines_of(tmp_path / "out"), POSED)
    tally.check(*([(*key, *change) for key, changes in one.items() for change in changes] for one in (found, want)))


def test_a_batch_that_is_run_again_replaces_its_file(tmp_path):
    sink = FolderWriter(str(tmp_path / "out"), "s*", "csv")
    sink.take(3, table([(1, 2.0, 3, "a")]))
    sink.take(3, table([(1, 2.0, 4, "a")]))
    sink.take(4, table([]))
    assert [path.name for path in sink.files()] == ["s*-00000003.csv"]
    with sink.files()[0].open() as file:
        assert [row["id"] for row in csv.DictReader(file)] == ["4"]
    (tmp_path / "out" / "sx-00000003.csv").write_text("of another stream")
    sink.clear()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["sx-00000003.csv"]


def test_far_times_and_formulas_in_files(tmp_path):
    far = pa.array([1_699_972_963_200_000_000, 0], pa.timestamp("us", "UTC"))
    rows = pa.table({"window_end": far, "name": ["=1+1", "-x"], "score": [-1.0, 2.0]})
    for kind, quotes in (("jsonl", False), ("csv", False), ("csv", True), ("parquet", False)):
        FolderWriter(str(tmp_path / f"{kind}{quotes}"), "s", kind, quote_formulas=quotes).take(0, rows)
    assert '{"window_end": "+55840-01-01T00:00:00Z"' in (tmp_path / "jsonlFalse/s-00000000.jsonl").read_text()
    for quotes, name in ((False, "=1+1"), (True, "'=1+1")):
        with (tmp_path / f"csv{quotes}/s-00000000.csv").open() as file:
            row = next(csv.DictReader(file))
        assert (row["window_end"], row["name"], row["score"]) == ("+55840-01-01 00:00:00.000000Z", name, "-1")
    assert pq.read_table(tmp_path / "parquetFalse")["window_end"].cast(pa.int64())[0].as_py() == far[0].value


def test_what_a_killed_run_left_behind_is_removed(tmp_path):
    FolderWriter(str(tmp_path / "out"), "s*", "csv").take(3, table([(1, 2.0, 3, "a")]))
    (tmp_path / "out" / ".s*-00000004.csv.77").write_text("unfinished")
    (tmp_path / "out" / ".sx-00000004.csv.77").write_text("of another stream")
    FolderWriter(str(tmp_path / "out"), "s*", "csv").take(3, table([]))  # the query that was answered then was dropped
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".sx-00000004.csv.77"]


def test_a_first_start_that_was_killed_early_is_no_damage(spark, tmp_path, source):
    file = workload(tmp_path, STREAM + QUERIES + "sinks: [{type: parquet, path: out}]\n")
    for unfinished in ("control", "about"):
        (tmp_path / ".skyband" / "work" / "rows" / "skyband" / unfinished / "_temporary" / "0").mkdir(parents=True)
    finished(file, spark, "catch-up")
    assert whole(read_answers(tmp_path / "out"))


@pytest.mark.parametrize(
    ("column", "told", "rest"),
    [
        ("1700000000.5", "seconds", "2023-11-14T22:13:20.500"),
        ("1700000000500", "milliseconds", "2023-11-14T22:13:20.500"),
        ("1700000000500000", "microseconds", "2023-11-14T22:13:20.500"),
        ("14.11.2023 22:13:20.5", "dd.MM.yyyy HH:mm:ss.S", "2023-11-14T22:13:20.500"),
        ("2023-11-14 22:13:20.5", None, "2023-11-14T22:13:20.500"),
        ("2023-11-14", None, "2023-11-14T00:00:00.000"),
    ],
)
@pytest.mark.parametrize("kind", ["csv", pytest.param("json", marks=pytest.mark.long)])
def test_times_however_they_are_written(spark, tmp_path, kind, column, told, rest):
    if kind == "csv":
        (tmp_path / "in.csv").write_text(f"when,v\n{column},1.5\nnever,2.5\n")
    else:
        lines = [json.dumps({"when": when, "v": v}) for when, v in ((column, 1.5), ("never", 2.5))]
        (tmp_path / "in.json").write_text("\n".join(lines))
    told = f"time_format: {told}, " if told else ""
    text = f"streams: {{s: {{path: in.{kind}, {told}time: when}}}}\nqueries: [{{k: 5, size: 1 hour, by: v}}]\n"
    rows = open_batch(spark, "s", workload(tmp_path, text).streams["s"]).orderBy("v").toArrow()["when"].to_pylist()
    assert rows[0].isoformat(timespec="milliseconds")[:23] == rest
    assert rows[1] is None, "what cannot be read is left out, and counted"


def test_computed_columns_and_a_schema(spark, tmp_path):
    (tmp_path / "in.csv").write_text("7;2024-01-01 00:00:00;3\n9;2024-01-01 00:00:01;2\n")
    text = """
streams:
  s:
    path: in.csv
    options: {sep: ";", header: false}
    schema: {price: double, at: timestamp, shares: int}
    columns: {value: price * shares, double: value * 2}
    time: at
queries: [{k: 1, size: 1 hour, by: double}]
sinks: [{type: memory}]
"""
    found = finished(workload(tmp_path, text), spark).memory("s").to_pylist()
    assert [(row["score"], row["value"], row["shares"]) for row in found] == [(42.0, 21.0, 3)]


def test_two_streams_run_beside_each_other(spark, tmp_path, source):
    text = """
streams:
  rows: {path: in, format: parquet, time: ts, id: id, watermark: 0 seconds}
  again: {path: in/*.parquet, time: ts, id: id, watermark: 0 seconds, files_per_batch: 1}
queries:
  - {name: all, stream: rows, k: 3, size: 20 seconds, slide: 5 seconds, by: s}
  - {name: each, stream: again, k: 2, size: 30 seconds, by: s, partition_by: g}
sinks: [{type: parquet, path: out}]
"""
    running = finished(workload(tmp_path, text), spark)
    assert whole(read_answers(tmp_path / "out")) == wanted(source)
    assert running.metrics().keys() == {"rows", "again"}


@pytest.mark.long
def test_lines_of_a_socket(spark, tmp_path):
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    done = threading.Event()

    def serve():
        peer, _ = server.accept()
        with peer:
            for second in range(40):
                peer.sendall(f"2024-01-01 00:00:{second:02},{second}\n".encode())
            done.wait(3000)

    threading.Thread(target=serve, daemon=True).start()
    text = f"""
streams:
  s: {{source: socket, format: csv, host: 127.0.0.1, port: {port}, schema: {{at: timestamp, v: long}}, time: at,
       watermark: 0 seconds}}
queries: [{{k: 1, size: 10 seconds, by: v}}]
sinks: [{{type: memory}}]
"""
    running = run(workload(tmp_path, text), spark=spark)
    try:
        wait_for(lambda: running.await_end(0.2) or ((found := running.memory("s")) is not None and found.num_rows >= 3))
        assert running.memory("s")["v"].to_pylist()[:3] == [9, 19, 29]
    finally:
        done.set()
        running.stop()
        server.close()


# What is wrong with a file only Spark can tell.


@pytest.mark.parametrize(
    ("stream", "mode", "says"),
    [
        ("{path: in.csv, time: tme}", "once", "time column 'tme' does not exist; did you mean 'time'?"),
        ("{path: in.csv, time: time, columns: {a: v *}}", "once", "columns.a: 'v \\*' is not an SQL expression"),
        ("{path: in.csv, time: time, columns: {a: w + 1}}", "once", "columns.a: 'w \\+ 1' cannot be computed"),
        ("{path: gone.csv, time: time}", "once", "no files found in '.*gone.csv'"),
        ("{path: in.csv, time: v}", "once", "Set time_format to the unit of the numbers"),
        ("{path: in.csv, time: v, time_format: yyyy}", "once", "the pattern time_format 'yyyy' requires text"),
        ("{path: in.csv, time: time, time_format: seconds}", "once", "requires a number, but .* Remove time_format"),
        ("{path: in.csv, time: time, id: vv}", "once", "id= column 'vv' does not exist; did you mean 'v'"),
        ("{path: in.csv, format: parquet, time: time}", "once", "stream 's' cannot be read"),
        ("{source: rate}", "once", "which never ends. mode='once' \\(--once\\) supports only files"),
        ("{source: rate}", "catch-up", "--catch-up"),
    ],
)
def test_mistakes_are_told_in_the_streams_name(spark, tmp_path, stream, mode, says):
    (tmp_path / "in.csv").write_text("time,v\n2024-01-01 00:00:00,1.5\n")
    by = "value" if "rate" in stream else "v"
    file = workload(tmp_path, f"streams: {{s: {stream}}}\nqueries: [{{k: 1, size: 1 hour, by: {by}}}]\n")
    with pytest.raises(sb.SkybandError, match=says):
        run(file, mode, spark=spark)
    assert [query for query in spark.streams.active if query.isActive] == []


def test_a_sink_that_cannot_be_written_stops_the_run_with_a_reason(spark, tmp_path, source):
    (tmp_path / "out").write_text("a file where the folder should be")
    file = workload(tmp_path, STREAM + QUERIES + "sinks: [{type: csv, path: out}]\n")
    running = run(file, "once", spark=spark)
    with pytest.raises(sb.SkybandError, match="answers cannot be written to"):
        running.await_end(300)


def test_what_is_not_kept_is_not_given(spark, tmp_path, source):
    running = finished(workload(tmp_path, STREAM + QUERIES), spark)
    with pytest.raises(sb.InvalidInputError, match="has no sink of type memory"):
        running.memory("rows")
    with pytest.raises(sb.InvalidInputError, match=r"mode must be .*, got 'twice'"):
        run(workload(tmp_path, STREAM + QUERIES), "twice", spark=spark)


@pytest.mark.long
@pytest.mark.faults
def test_an_older_copy_of_the_state_is_refused_and_a_crash_before_the_commit_is_not(spark, tmp_path, tally):
    rows = rows_of(4, 160)
    text = STREAM.replace("watermark", "dead_letters: dead, watermark")
    file = workload(tmp_path, text + QUERIES + "sinks: [{type: parquet, path: out}]\n")
    state, copy = tmp_path / ".skyband", tmp_path / "copy"
    write_files(tmp_path / "in", [rows[:40]])
    finished(file, spark, "catch-up")
    shutil.copytree(state, copy)
    for number, low in enumerate((40, 80), 1):
        write_files(tmp_path / "in", [rows[low : low + 40]], number)
        finished(file, spark, "catch-up")
    newest = max((tmp_path / "out").iterdir())
    commits = state / "work" / "rows" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    for name in (str(last), f".{last}.crc"):  # killed between writing the file and noting it down
        (commits / name).unlink()
    tally.fault("crash between writing and noting it down")
    write_files(tmp_path / "in", [rows[120:]], 3)
    finished(file, spark, "catch-up")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert newest.name in before
    doubled = read_answers(tmp_path / "out")
    assert len(doubled) == len({(row["query"], row["window_end"], row["g"], row["rank"]) for row in doubled})
    shutil.rmtree(state)
    shutil.copytree(copy, state)
    tally.fault("an older copy of the state")
    with pytest.raises(
        sb.SnapshotError, match=r"contains answers of stream 'rows' up to batch \d+.*older copy.*--fresh"
    ):
        run(file, "catch-up", spark=spark)
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    kept = max(int(path.name) for path in (state / "work" / "rows" / "offsets").iterdir() if path.name.isdecimal())
    for path in (tmp_path / "out").iterdir():
        if int(path.stem.rpartition("-")[2]) > kept:
            path.unlink()  # as the message says
    finished(file, spark, "catch-up")
    again = whole(read_answers(tmp_path / "out"))
    assert {key: sorted(found) for key, found in again.items()} == {
        key: sorted(found) for key, found in whole(doubled).items()
    }
