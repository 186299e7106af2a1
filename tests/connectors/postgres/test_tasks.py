"""Answers that tasks copy to PostgreSQL: in the table once, whoever ends in the middle; nothing is left beside it."""

from __future__ import annotations

import pickle
import random
import signal

import pyarrow as pa
import pytest

import skyband as sb
from skyband.connectors.postgres_writer import PostgresWriter
from skyband.jobs import run, run_local
from tests.connectors.postgres.test_sink import BATCH, GROUPS, answers, plain, sorted_rows
from tests.connectors.tables.test_table_runs import SECOND, ended, held, workload
from tests.servers import PASSWORD

pytestmark = [pytest.mark.long, pytest.mark.slow]


@pytest.fixture
def sink(database):
    made = []

    def making(**more):
        writer = PostgresWriter(
            "answers", GROUPS, **{"url": database.url(), "retry": 60, **more}, by_tasks=True, key="s"
        )
        writer.check(BATCH)
        writer.prepare(BATCH)
        made.append(writer)
        return writer

    yield making
    for one in made:
        one.close()


def beside(database):
    """Tables of tasks that are left."""
    with database.server.connect(database.name) as connection:
        return connection.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'skyband_tasks%'").fetchone()[0]


def by_group(rows):
    """Whole answers, divided among tasks."""
    keys = [(row["query"], row["g"] if row["query"] == "each" else 0, row["window_end"]) for row in rows.to_pylist()]
    return [rows.filter(pa.array([key == one for key in keys])) for one in dict.fromkeys(keys)]


def staged(writer, rows):
    copy = pickle.loads(pickle.dumps(writer.task_writer()))  # as Spark sends it to tasks
    files = [copy(part) for part in by_group(rows)]
    copy(rows)  # of a task that was repeated: it is not among the files
    return files


@pytest.mark.parametrize("seed", range(4))
def test_a_batch_is_written_once(sink, database, seed):
    draw, writer, written = random.Random(seed), sink(), {}
    for batch in range(6):
        rows = answers(
            [
                (query, g, batch, 1, number, draw.random())
                for query, g in (("all", "x"), ("each", "a"), ("each", None))
                for number in range(draw.randint(1, 4))
            ]
        )
        for _ in range(draw.randint(1, 3)):
            files, rest = staged(writer, rows), None
            if draw.random() < 0.4:
                writer = sink()  # ended before the commit
                files = staged(writer, rows)
            if draw.random() < 0.3:
                files, rest = files[1:], by_group(rows)[0]
            writer.take_files(batch, files, rest)
            if draw.random() < 0.4:
                writer = sink()  # ended after the commit: the batch is repeated
        written[batch] = sorted_rows(rows)
    assert sorted(plain(database.rows()), key=repr) == sorted(
        [row for rows in written.values() for row in rows], key=repr
    )
    assert [row["answer_place"] for row in database.rows() if row["query"] == "all"].count(1) == 6
    sink()
    assert beside(database) == 0


def test_only_the_newest_window(sink, database):
    writer = sink(newest=True)
    writer.take_files(0, staged(writer, BATCH), None)
    assert {(row["query"], row["window_end"].timestamp()) for row in database.rows()} == {("all", 5.0), ("each", 10.0)}


def test_a_server_that_crashes_loses_what_tasks_have_copied_and_the_batch_is_repeated(sink, database, tally):
    writer = sink()
    files = staged(writer, BATCH)
    database.server.stop(signal.SIGKILL)
    tally.fault("crash of PostgreSQL between the tasks and the commit")
    database.server.start()
    with pytest.raises(sb.PipelineError, match=f"0 of {BATCH.num_rows} rows that tasks have copied are left"):
        writer.take_files(0, files, None)
    assert database.rows() == []
    writer.take_files(0, staged(writer, BATCH), None)
    assert sorted(plain(database.rows()), key=repr) == sorted_rows(BATCH)


def test_a_task_that_cannot_write_says_why_without_the_secret(sink, database):
    writer = sink()
    copy = writer.task_writer()
    assert PASSWORD not in repr(copy)
    writer._sweep()  # as if the micro-batch were over
    with pytest.raises(sb.PipelineError, match=r"cannot be written: relation .* does not exist") as error:
        copy(BATCH)
    assert PASSWORD not in str(error.value)


def test_rights_for_the_table_of_tasks_are_checked(sink, database):
    sink()
    guest = f"guest_{database.name}"
    database.execute(f"CREATE ROLE {guest} LOGIN PASSWORD '{PASSWORD}'")
    database.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON answers TO {guest}")
    limited = PostgresWriter("answers", GROUPS, url=database.url(guest), by_tasks=True, key="s")
    try:
        with pytest.raises(sb.InvalidInputError, match="permission denied for schema public"):
            limited.check(BATCH)
    finally:
        limited.close()
        database.execute(f"DROP OWNED BY {guest}")
        database.execute(f"DROP ROLE {guest}")


def test_runs(spark, database, tmp_path, monkeypatch):
    from skyband.spark import task_files

    file = workload(tmp_path, [])
    wanted = held(ended(run_local(file, "catch-up")))
    (tmp_path / "tasks").mkdir()
    workload(tmp_path / "tasks", [])
    work = tmp_path / "tasks" / "work.yaml"
    monkeypatch.setenv("URL", database.url())
    text = work.read_text().replace("{type: memory}", "{type: postgres, url: '${URL}', table: answers, writers: tasks}")
    work.write_text(text)
    file, real = sb.read_workload(work), PostgresWriter.take_files

    def take_files(self, *args):
        real(self, *args)
        raise sb.PipelineError("ended after the commit")

    monkeypatch.setattr(task_files, "_FEW", 0)  # every task copies
    monkeypatch.setattr(PostgresWriter, "take_files", take_files)
    with pytest.raises(sb.SkybandError, match="ended after the commit"):
        ended(run(file, "catch-up", spark=spark))
    monkeypatch.setattr(PostgresWriter, "take_files", real)
    ended(run(file, "catch-up", spark=spark))
    (tmp_path / "in" / "2.csv").write_text(SECOND)
    (tmp_path / "tasks" / "in" / "2.csv").write_text(SECOND)
    wanted += held(ended(run_local(sb.read_workload(tmp_path / "work.yaml"), "catch-up")))
    ended(run(file, "catch-up", spark=spark))
    rows = database.rows()
    found = [(row["query"], row["window_end"].isoformat(), row["rank"], row["name"], row["score"]) for row in rows]
    assert sorted(found) == sorted(wanted)
    assert beside(database) == 0
