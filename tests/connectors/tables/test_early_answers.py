"""Tables with provisional and corrected answers, and Delta tables of a run as the source of another."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

import skyband as sb
from skyband.jobs.local_verification import verify_local
from tests.connectors.tables.places import KINDS, rows_in, yaml_of
from tests.jobs.test_followed_stream import file_of, finished
from tests.jobs.test_job import rows_of, wanted, whole
from tests.spark.frames import read_answers, write_files

COLUMNS = ("query", "window_end", "g", "rank", "id", "s", "final", "revision")


def values(rows):
    return sorted(repr([row[name] for name in COLUMNS if name in row]) for row in rows)


def last(rows):
    """The last answer of each window."""
    newest = {}
    for row in rows:
        window = row["query"], row["window_end"], row["g"] if row["query"] == "each" else None
        newest.setdefault(window, {}).setdefault((row["final"], row["revision"]), []).append(row)
    return [row for answers in newest.values() for row in answers[max(answers)]]


@pytest.mark.parametrize("seed", [0, pytest.param(5, marks=pytest.mark.long)])
def test_tables_end_with_the_last_answer_of_each_window(tmp_path, seed):
    """Each commit replaces the answers of its windows; files contain all answers that were emitted."""
    sinks = ", ".join(["{type: parquet, path: out}", *map(yaml_of, KINDS)])
    rows = sorted(rows_of(seed), key=lambda row: row[0])
    late, others = rows[30:70:4], [row for row in rows if row not in rows[30:70:4]]
    span = (rows[-1][0] - rows[0][0]) // 1000 + 1
    file = file_of(tmp_path, f", emit: provisional, allowed_lateness: {span} milliseconds", sinks=f"sinks: [{sinks}]\n")
    for number, part in enumerate([others[:40], others[40:80], late, others[80:]]):
        write_files(tmp_path / "in", [part], begin=number)
        finished(file, "catch-up")
        files = read_answers(tmp_path / "out")
        for kind in KINDS:
            assert values(rows_in(kind, tmp_path).to_pylist()) == values(last(files))
    finished(file)
    files = read_answers(tmp_path / "out")
    assert {row["final"] for row in files} == {True, False}
    assert max(row["revision"] for row in files) > 0
    for kind in KINDS:
        found = rows_in(kind, tmp_path)
        assert [str(found.schema.field(name).type) for name in ("final", "revision")] == ["bool", "int32"]
        assert values(found.to_pylist()) == values(last(files))
        assert whole(found.to_pylist()) == wanted(rows)


def test_columns_of_early_answers_are_added_to_tables(tmp_path):
    sinks = f"sinks: [{', '.join(map(yaml_of, KINDS))}]\n"
    rows = sorted(rows_of(6), key=lambda row: row[0])
    write_files(tmp_path / "in", [rows[:60]])
    finished(file_of(tmp_path, sinks=sinks), "catch-up")
    write_files(tmp_path / "in", [rows[60:]], begin=1)
    finished(file_of(tmp_path, ", emit: provisional", sinks=sinks))
    for kind in KINDS:
        found = rows_in(kind, tmp_path).to_pylist()
        assert {row["final"] for row in found} >= {None, True}
        assert whole([row for row in found if row["final"] is not False]) == wanted(rows)


def test_a_table_of_answers_is_the_source_of_another_run(tmp_path):
    rows = sorted(rows_of(7, 200), key=lambda row: row[0])
    first = file_of(tmp_path, sinks="sinks: [{type: delta, path: answers}]\n")
    (tmp_path / "second.yaml").write_text(
        "streams: {a: {source: delta, path: answers, time: window_end, id: id, watermark: 0 seconds}}\n"
        "queries: [{name: best, k: 3, size: 1 minute, by: score, where: query = 'each', partition_by: [g]}]\n"
        "sinks: [{type: parquet, path: best}]\n"
    )
    second = sb.read_workload(tmp_path / "second.yaml")
    for number, low in enumerate(range(0, 200, 50)):
        write_files(tmp_path / "in", [rows[low : low + 50]], begin=number)
        finished(first, "catch-up")
        if number == 1:
            DeltaTable(tmp_path / "answers").optimize.compact()
        metrics = finished(second, "catch-up").metrics()["a"]
        assert metrics["late"] == 0
    finished(first)
    finished(second)
    assert whole(rows_in("delta", tmp_path).to_pylist()) == wanted(rows)
    found = verify_local(second, "a", answers=tmp_path / "best")
    assert found.agrees
    assert found.difference.compared == len(read_answers(tmp_path / "best")) > 20
