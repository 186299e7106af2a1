"""Workload files with a table as their sink, from files to PostgreSQL, against the definitions."""

from __future__ import annotations

import json
import shutil
import threading
import time
from random import Random

import pytest

import skyband as sb
from skyband.cli.explain import explain_file
from skyband.jobs import run, run_local
from skyband.jobs.local_state import LocalCheckpoint
from skyband.sharding.delivery import Wanted
from tests.jobs.test_job import Failing, finished, rows_of, workload
from tests.jobs.test_job_families import FILE, data, expected, plain, write_families
from tests.servers import PASSWORD
from tests.sharding import cases
from tests.sharding.differences import by_order, compared, reported
from tests.spark.frames import write_files
from tests.waiting import process_all, wait_for

__all__ = ["data"]  # a fixture

SECOND = 1_000_000
POSED = [
    cases.Posed("all", cases.Asked(k=3, size=20 * SECOND, slide=5 * SECOND), {"by": "s"}),
    cases.Posed("each", cases.Asked(k=2, size=30 * SECOND, slide=30 * SECOND), {"by": "s", "partition_by": ["g"]}),
    cases.Posed(
        "tied", cases.Asked(k=2, size=20 * SECOND, slide=10 * SECOND, tied=True), {"by": "s", "partition_by": ["g"]}
    ),
    cases.Posed("low", cases.Asked(k=2, size=20 * SECOND, slide=10 * SECOND, ascending=True), {"by": "s"}),
]
QUERIES = """
queries:
  - {name: all, k: 3, size: 20 seconds, slide: 5 seconds, by: s}
  - {name: each, sql: "TOPK s, 2 BY g OVER 30 SECONDS"}
  - {name: tied, k: 2, size: 20 seconds, slide: 10 seconds, by: s, partition_by: g, ties: rank}
  - {name: low, k: 2, size: 20 seconds, slide: 10 seconds, by: s, order: asc}
"""
STREAM = """
streams:
  rows: {path: in, format: parquet, time: ts, id: id, watermark: 0 seconds, files_per_batch: 1}
"""
SINK = "sinks: [{type: postgres, table: answers, url: '${DATABASE_URL}'}]\n"


@pytest.fixture(autouse=True)
def environment(database, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", database.url())


def wanted(rows):
    return {key: found for one in POSED for key, found in cases.wanted(one, rows).items()}


def in_order(answers):
    """Ties share a rank: their order is compared where the row's place is."""
    return {key: sorted(found, key=lambda row: (row[1], row[2], row[3])) for key, found in answers.items()}


def whole(database, table="answers"):
    return in_order(cases.answered(database.rows(table), POSED))


def test_a_table_has_the_answers_of_the_definitions(spark, tmp_path, database):
    rows = rows_of(11, 150)
    write_files(tmp_path / "in", [rows[:60], rows[60:]])
    file = workload(tmp_path, STREAM + QUERIES + SINK)
    finished(file, spark)
    assert whole(database) == in_order(wanted(rows))
    assert {row["g"] for row in database.rows()} == {"a", "b", "c", None}
    places = {}
    for row in database.rows():
        if row["query"] == "tied":
            places.setdefault((row["window_end"], row["answer_group"]), []).append(row)
    assert any(one[0]["rank"] == one[1]["rank"] for one in places.values() if len(one) > 1)
    for one in places.values():
        assert [row["answer_place"] for row in one] == list(range(1, len(one) + 1))
        assert [row["rank"] for row in one] == sorted(row["rank"] for row in one)
        same = [(row["rank"], -row["ts"].timestamp(), -row["id"]) for row in one]
        assert same == sorted(same)  # as the library orders equal scores: newer first, then the larger id
    # Answered once more, with less: what is gone is gone.
    for path in (tmp_path / "in").iterdir():
        path.unlink()
    write_files(tmp_path / "in", [rows[:60]])
    finished(file, spark)
    assert whole(database) == in_order(wanted(rows[:60]))


def test_changes_in_a_table(spark, tmp_path, database):
    rows = rows_of(12)
    write_files(tmp_path / "in", [rows[:50], rows[50:]])
    text = SINK.replace("table: answers", "table: '{stream}_moves', output: changes")
    finished(workload(tmp_path, STREAM + QUERIES + text), spark)
    newest = max(row[0] for row in rows)
    want = {
        key: sorted(compared(one, found, newest, "time"), key=by_order)
        for one in POSED
        for key, found in cases.wanted(one, rows).items()
    }
    found = reported(database.rows("rows_moves"), POSED)
    assert {key: sorted(changes, key=by_order) for key, changes in found.items()} == want


@pytest.mark.long
def test_a_crash_between_writing_and_noting_it_down(spark, tmp_path, database):
    rows = rows_of(13, 200)
    write_files(tmp_path / "in", [rows[low : low + 40] for low in range(0, 160, 40)])
    file = workload(tmp_path, STREAM + QUERIES + SINK)
    running = run(file, spark=spark, watchers={"rows": [Wanted(Failing(1), "answers")]})
    with pytest.raises(sb.PipelineError, match="the power went out"):
        running.await_end(300)
    write_files(tmp_path / "in", [[(rows[159][0] + 500 * SECOND, 1.0, 1, "a")]], 9)
    finished(file, spark, "catch-up")
    assert whole(database) == in_order(wanted(rows[:160]))
    with pytest.raises(sb.InvalidInputError, match=r"contains answers of a run whose state is stored.*--fresh"):
        run(file, "once", spark=spark)


class Pulling:
    """Pulls the plug after so many batches with answers, and puts it back a while later; twice."""

    def __init__(self, server):
        self._server = server
        self.left = [2, 1]
        self.pulled = 0
        self.back = None

    def take(self, batch, rows):
        if rows.num_rows and self.left:
            self.left[0] -= 1
            if self.left[0] < 0:
                self.left.pop(0)
                self.pulled += 1
                if self.back is not None:
                    self.back.join()
                self._server.crash()
                self.back = threading.Timer(0.7, self._server.start)
                self.back.start()


@pytest.mark.faults
@pytest.mark.long
def test_a_server_that_restarts_while_a_stream_runs(spark, tmp_path, database, tally):
    rows = rows_of(14, 240)
    write_files(tmp_path / "in", [rows[low : low + 30] for low in range(0, 240, 30)])
    write_files(tmp_path / "in", [[(rows[-1][0] + 500 * SECOND, 1.0, 1, "a")]], 20)
    file = workload(tmp_path, STREAM + QUERIES + SINK)
    plug = Pulling(database.server)
    running = run(file, spark=spark, watchers={"rows": [Wanted(plug, "answers")]})
    process_all(running.handles["rows"].query)
    running.stop()
    plug.back.join()
    assert plug.pulled == 2
    tally.fault("crash of PostgreSQL while a stream writes to it", plug.pulled)
    tally.check_answers(whole(database), in_order(wanted(rows)))


@pytest.mark.long
@pytest.mark.faults
def test_a_server_that_does_not_come_back_stops_the_run_and_nothing_is_lost(spark, tmp_path, database, capfd, tally):
    rows = rows_of(15, 120)
    write_files(tmp_path / "in", [rows[:40], rows[40:80], rows[80:]])
    write_files(tmp_path / "in", [[(rows[-1][0] + 500 * SECOND, 1.0, 1, "a")]], 20)
    file = workload(tmp_path, STREAM + QUERIES + SINK.replace("table:", "retry: 1 second, table:"))

    class Stopping:
        def take(self, batch, rows):
            if rows.num_rows and not stopped:
                stopped.append(batch)
                database.server.stop()

    stopped = []
    running = run(file, spark=spark, watchers={"rows": [Wanted(Stopping(), "answers")]})
    try:
        with pytest.raises(sb.PipelineError, match=r"no answers are lost\. Fix the problem and run it again") as caught:
            running.await_end(300)
    finally:
        database.server.start()
    shown = "".join(capfd.readouterr())
    assert PASSWORD not in str(caught.value) + shown
    assert database.url() not in str(caught.value) + shown
    finished(file, spark, "catch-up")
    tally.fault("PostgreSQL away for longer than it is waited for")
    tally.check_answers(whole(database), in_order(wanted(rows)))


@pytest.mark.long
def test_who_waits_for_a_server_can_be_stopped(spark, tmp_path, database, caplog):
    rows = rows_of(16, 80)
    write_files(tmp_path / "in", [rows[:40], rows[40:]])
    file = workload(tmp_path, STREAM + QUERIES + SINK.replace("table:", "retry: 10 minutes, table:"))
    taken = threading.Event()

    class Stopping:
        def take(self, batch, rows):
            if rows.num_rows and not taken.is_set():
                taken.set()
                database.server.stop()

    running = run(file, spark=spark, watchers={"rows": [Wanted(Stopping(), "answers")]})
    try:
        assert taken.wait(300)
        wait_for(lambda: "retrying for 600 seconds" in caplog.text)
        began = time.monotonic()
        running.stop()
        assert time.monotonic() - began < 300
    finally:
        database.server.start()


def test_all_families_of_queries(spark, tmp_path, database, data):
    write_families(tmp_path, data)
    text = FILE.replace("sinks: [{type: memory}, {type: jsonl, path: out}]", SINK.replace("answers", "'{stream}'"))
    file = workload(tmp_path, text)
    finished(file, spark)
    for stream, want in expected(file, data).items():
        moment = "window_end" if stream == "requests" else "time"
        found = {_shape(row) for row in _selected(database.rows(stream, moment), want.column_names)}
        assert found == {_shape(row) for row in plain(want)}, stream
        assert len(database.rows(stream, moment)) == want.num_rows


def _selected(rows, names):
    from tests.jobs.test_job_families import _micros

    return [tuple(_micros(row[name]) for name in names) for row in rows]


def _shape(row):
    return tuple(round(value, 9) if isinstance(value, float) else value for value in row)


@pytest.mark.long
def test_streams_of_different_columns_in_one_table_are_refused(spark, tmp_path, database, data):
    write_families(tmp_path, data)
    text = FILE.replace("sinks: [{type: memory}, {type: jsonl, path: out}]", SINK)
    with pytest.raises(sb.InvalidInputError, match=r"table 'answers' exists, but has no column .*{stream}"):
        run(workload(tmp_path, text), "once", spark=spark)
    assert [query for query in spark.streams.active if query.isActive] == []


def test_a_door_that_is_shut_is_told_before_anything_is_forgotten(spark, tmp_path, database, monkeypatch):
    rows = rows_of(17, 60)
    write_files(tmp_path / "in", [rows])
    finished(workload(tmp_path, STREAM + QUERIES + SINK), spark, "catch-up")
    kept = sorted(path.name for path in (tmp_path / ".skyband").rglob("*"))
    monkeypatch.setenv("DATABASE_URL", database.url(password="wr0ng-secret"))
    with pytest.raises(sb.InvalidInputError, match="password authentication failed") as caught:
        run(workload(tmp_path, STREAM + QUERIES + SINK), fresh=True, spark=spark)
    assert "wr0ng-secret" not in str(caught.value)
    assert sorted(path.name for path in (tmp_path / ".skyband").rglob("*")) == kept
    monkeypatch.setenv("DATABASE_URL", database.url())
    assert database.rows()
    database.execute("UPDATE answers SET window_end = window_end + interval '1 second'")
    finished(workload(tmp_path, STREAM + QUERIES + SINK), spark, "once", fresh=True)
    assert whole(database) == in_order(wanted(rows))


@pytest.mark.parametrize("as_json", [True, False])
def test_explain_shows_no_secret(tmp_path, database, as_json, monkeypatch):
    monkeypatch.setenv("DB_PW", PASSWORD)
    write_files(tmp_path / "in", [rows_of(17, 5)])
    options = "{password: '${DB_PW}', sslmode: require}"
    more = f"  - {{type: postgres, table: a.b, url: 'postgresql://db/x', options: {options}}}"
    file = workload(tmp_path, STREAM + QUERIES + SINK.replace("[{", "\n  - {").replace("}]", "}") + more)
    shown = explain_file(file.path, as_json=as_json)
    assert PASSWORD not in shown + repr(file)
    assert database.url() not in shown + repr(file)
    assert "boss:***@127.0.0.1" in shown
    if as_json:
        assert json.loads(shown)["sinks"][1]["options"] == {"password": "***", "sslmode": "require"}
    else:
        assert "sink postgres to table a.b at postgresql://db/x: answers of all queries" in shown


def test_a_local_stream_writes_every_answer_once(tmp_path, database, monkeypatch):
    """Without Spark, over restarts and a batch that is repeated after its rows were written."""
    rows = rows_of(13, 150)
    file = workload(tmp_path, STREAM + QUERIES + SINK)
    write_files(tmp_path / "in", [rows[:40], rows[40:80]])
    commit, calls = LocalCheckpoint.commit, []

    def failing(self, values):
        calls.append(values)
        if len(calls) == 3:  # after the first state and the first batch
            raise RuntimeError("killed")
        return commit(self, values)

    monkeypatch.setattr(LocalCheckpoint, "commit", failing)
    with pytest.raises(sb.PipelineError, match="killed"):
        run_local(file, "stream").finish()
    write_files(tmp_path / "in", [rows[80:]], begin=2)
    assert run_local(file, "catch-up").await_end(60)
    run_local(file, "stream").finish()
    assert whole(database) == in_order(wanted(rows))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_an_older_checkpoint_over_a_newer_table(tmp_path, database, seed):
    """Answers that are written again replace themselves: none is doubled or lost, nor is a change."""
    random = Random(seed)
    rows = sorted(rows_of(30 + seed, 200), key=lambda row: row[0])
    moves = "{type: postgres, table: moves, output: changes, url: '${DATABASE_URL}'}"
    file = workload(tmp_path, STREAM + QUERIES + SINK.replace("]", f", {moves}]"))
    stored = tmp_path / file.engine.checkpoint
    older, cut = tmp_path / "older", random.randrange(1, 4)
    for number in range(4):
        write_files(tmp_path / "in", [rows[40 * number : 40 * number + 40]], begin=number)
        if number == cut:
            shutil.copytree(stored, older)
        assert run_local(file, "catch-up").await_end(60)
    newer = whole(database), database.rows("moves")
    assert newer[1]
    shutil.rmtree(stored)
    shutil.copytree(older, stored)
    assert run_local(file, "catch-up").await_end(60)
    assert (whole(database), database.rows("moves")) == newer
    write_files(tmp_path / "in", [rows[160:]], begin=4)
    run_local(file, "stream").finish()
    assert whole(database) == in_order(wanted(rows))
    want = {
        key: sorted(compared(one, found, rows[-1][0], "time"), key=by_order)
        for one in POSED
        for key, found in cases.wanted(one, rows).items()
    }
    found = reported(database.rows("moves"), POSED)
    assert {key: sorted(changes, key=by_order) for key, changes in found.items()} == want
