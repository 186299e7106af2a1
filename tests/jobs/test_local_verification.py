"""Local runs and stored answers agree with the definitions; a wrong answer is found. Without Spark."""

from __future__ import annotations

import json
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.cli.verify import verify_file
from skyband.incomplete.brute_force import by_definition
from skyband.jobs import run_local
from skyband.jobs.local_verification import verify_local
from tests.jobs.test_verification import (
    CALENDARS,
    CALENDARS_OF_KEYS,
    CHANCES,
    COUNTED,
    KEYS,
    OBJECTS,
    ORDERS,
    QUERIES,
    rows_around_a_change,
)
from tests.sharding import cases
from tests.spark.frames import write_files


def workload(folder, queries, sinks="", id_="id: id,"):
    stream = f"streams: {{rows: {{path: in, format: parquet, time: ts, {id_} watermark: 0 seconds}}}}\n"
    (folder / "work.yaml").write_text(f"{stream}queries:{queries}{sinks}")
    return sb.read_workload(folder / "work.yaml")


@pytest.fixture
def rows(tmp_path):
    found = cases.draw_rows(cases.rng("verify"), 150, scale=1_000_000)
    write_files(tmp_path / "in", [found[100:], found[:60], found[60:100]])
    return found


@pytest.mark.parametrize("id_", ["id: id,", ""])
@pytest.mark.parametrize(
    "queries",
    [QUERIES, ORDERS, COUNTED, KEYS, OBJECTS, CHANCES],
    ids=["time", "orders", "count", "keys", "objects", "chances"],
)
def test_the_two_agree(tmp_path, rows, queries, id_):
    lines = []
    found = verify_local(workload(tmp_path, queries, id_=id_), "rows", lines.append)
    assert found.agrees, found.difference
    assert found.difference.compared > 50
    assert found.rows == 150
    assert found.windows > 20
    assert found.dropped_null == sum(row[1] is None for row in rows)
    assert len(lines) == 2


@pytest.mark.parametrize("queries", [CALENDARS, CALENDARS_OF_KEYS], ids=["rows", "keys"])
def test_windows_of_calendars(tmp_path, queries):
    rows = rows_around_a_change()
    write_files(tmp_path / "in", [rows[70:], rows[:70]])
    file = workload(tmp_path, queries, "sinks: [{type: parquet, path: out}]\n")
    assert run_local(file).await_end(600)
    found = verify_local(file, "rows", answers=tmp_path / "out")
    assert found.agrees, found.difference
    assert found.difference.compared > 100
    found = verify_local(file, "rows")
    assert found.agrees, found.difference


def test_a_wrong_total_is_found(tmp_path, rows):
    file = workload(tmp_path, KEYS, "sinks: [{type: parquet, path: out}]\n")
    assert run_local(file).await_end(600)
    found = verify_local(file, "rows", answers=tmp_path / "out")
    assert found.agrees, found.difference
    path = next((tmp_path / "out").iterdir())
    answers = pq.read_table(path)
    scores = answers["score"].to_pylist()
    scores[0] = math.nextafter(scores[0], math.inf)
    pq.write_table(answers.set_column(answers.schema.get_field_index("score"), "score", [scores]), path)
    found = verify_local(file, "rows", answers=tmp_path / "out")
    assert (found.difference.missing, found.difference.unexpected) == (1, 1)
    ids = [row["id"] and row["id"] + (row["query"] == "best") for row in answers.to_pylist()]  # of another row
    pq.write_table(answers.set_column(answers.schema.get_field_index("id"), "id", [ids]), path)
    found = verify_local(file, "rows", answers=tmp_path / "out")
    wrong = answers["query"].to_pylist().count("best")
    assert (found.difference.missing, found.difference.unexpected) == (wrong, wrong)
    assert {row["query"] for row in found.difference.examples} == {"best"}


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_stored_answers(tmp_path, rows, kind):
    file = workload(tmp_path, QUERIES, f"sinks: [{{type: {kind}, path: out}}]\n")
    assert run_local(file).await_end(600)
    found = verify_local(file, "rows", answers=tmp_path / "out")
    assert found.agrees, found.difference
    assert found.windows is None
    path = next((tmp_path / "out").iterdir())
    if kind == "parquet":
        pq.write_table(pq.read_table(path).slice(1), path)
    else:
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join([*lines[:1], *lines[2:]]))
    found = verify_local(file, "rows", answers=tmp_path / "out")
    assert (found.difference.missing, found.difference.unexpected) == (1, 0)


def test_answers_of_an_unfinished_run(tmp_path, rows):
    file = workload(tmp_path, QUERIES, "sinks: [{type: parquet, path: out}]\n")
    assert run_local(file, "catch-up").await_end(600)
    assert not verify_local(file, "rows", answers=tmp_path / "out").agrees
    found = verify_local(file, "rows", answers=tmp_path / "out", unfinished=True)
    assert found.agrees, found.difference
    assert found.not_final > 0


def test_answers_of_a_query_that_joined(tmp_path):
    rows = cases.draw_rows(cases.rng("joined"), 150, scale=1_000_000)
    write_files(tmp_path / "in", [rows[:60], rows[60:]])
    later = sorted((tmp_path / "in").iterdir())[1:]
    for path in later:
        path.rename(tmp_path / path.name)
    sink, one = "sinks: [{type: parquet, path: out}]\n", "\n  - {name: low, k: 2, size: 10 seconds, by: -s}\n"
    assert run_local(workload(tmp_path, one, sink), "catch-up").await_end(600)
    file = workload(tmp_path, one + "  - {name: joined, k: 2, size: 10 seconds, by: s}\n", sink)
    for path in later:
        (tmp_path / path.name).rename(path)
    assert run_local(file, "catch-up").await_end(600)
    given = {"answers": tmp_path / "out", "unfinished": True}
    without = verify_local(file, "rows", **given)
    assert without.difference.missing > 0
    assert {row["query"] for row in without.difference.examples} == {"joined"}
    found = verify_local(file, "rows", **given, joined=True)
    assert found.agrees, found.difference
    assert found.earlier == without.difference.missing
    answers = next(path for path in sorted((tmp_path / "out").iterdir(), reverse=True) if "joined" in queries_in(path))
    table = pq.read_table(answers)
    mine = [at for at, row in enumerate(table.to_pylist()) if row["query"] == "joined"]
    gone = mine[len(mine) // 2]
    pq.write_table(pa.concat_tables([table.slice(0, gone), table.slice(gone + 1)]), answers)
    assert verify_local(file, "rows", **given, joined=True).difference.missing == 1
    with pytest.raises(sb.InvalidInputError, match="--joined requires --answers"):
        verify_file(file.path, answers=None, unfinished=False, joined=True, as_json=False, verbose=False)


def queries_in(path):
    return set(pq.read_table(path)["query"].to_pylist())


def test_the_command(tmp_path, rows, capsys):
    path = workload(tmp_path, QUERIES).path
    options = {"answers": None, "unfinished": False, "verbose": False, "local": True}
    assert verify_file(path, as_json=False, **options) == 0
    shown = capsys.readouterr().out
    assert "brute force in this process" in shown
    assert "answer rows agree" in shown
    assert verify_file(path, as_json=True, **options) == 0
    assert json.loads(capsys.readouterr().out)["rows"]["agrees"]


def test_what_cannot_be_verified_without_spark(tmp_path):
    (tmp_path / "work.yaml").write_text(
        "streams: {s: {source: rate, rows_per_second: 5}}\nqueries: [{name: q, k: 1, size: 1 minute, by: value}]\n"
    )
    with pytest.raises(sb.UnsupportedError, match="source 'rate'"):
        verify_local(sb.read_workload(tmp_path / "work.yaml"), "s")


@pytest.mark.parametrize(
    ("change", "said"),
    [({"method": "approximate"}, "may miss objects"), ({"aggregate": "a + sqrt(b)"}, "cannot compute by brute force")],
)
def test_answers_without_a_definition_are_refused(change, said):
    query = sb.IncompleteTopK(k=1, size="1 hour", object="o", stream="s", value="v", streams=["a", "b"], **change)
    rows = pa.table({"ts": pa.array([1], pa.timestamp("us", "UTC")), "o": [1], "s": ["a"], "v": [0.5]})
    with pytest.raises(sb.UnsupportedError, match=said):
        by_definition(rows, sb.Workload([query]), time="ts", id_=None)
