"""Provisional and corrected answers of workload files that run in this process, and what is refused."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skyband as sb
from skyband.connectors.kafka import messages
from skyband.errors import SkybandError
from skyband.jobs import run_local
from skyband.jobs.local_verification import verify_local
from tests.jobs.test_followed_stream import file_of, finished
from tests.jobs.test_job import rows_of, wanted, whole
from tests.sharding import cases
from tests.spark.frames import read_answers, write_files

PROVISIONAL = ", emit: provisional"


def in_parts(folder, file, rows, cuts=(40, 80)):
    """Run the file once for each part of the rows, then to the end; return the metrics of all runs."""
    found = []
    for number, (low, high) in enumerate(zip((0, *cuts), (*cuts, len(rows)), strict=True)):
        write_files(folder / "in", [rows[low:high]], begin=number)
        found.append(finished(file, "catch-up").metrics()["rows"])
    return [*found, finished(file).metrics()["rows"]]


def only(rows, **values):
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


@pytest.mark.parametrize("seed", [0, 1, 5, 6])
def test_final_answers_are_those_without_provisional_ones(tmp_path, seed):
    rows = sorted(rows_of(seed), key=lambda row: row[0])
    metrics = in_parts(tmp_path, file_of(tmp_path, PROVISIONAL), rows)
    found = read_answers(tmp_path / "out")
    assert whole(only(found, final=True)) == wanted(rows)
    assert only(found, final=False)
    assert all(one["emit_lag"] is None or one["emit_lag"] >= 0 for one in metrics)
    assert "late_used" not in metrics[0]


def test_rows_within_the_lateness_correct_answers(tmp_path):
    rows = sorted(rows_of(4), key=lambda row: row[0])
    random = cases.rng("late files")
    late = random.sample(rows[:80], 20)
    rows = [row for row in rows[:80] if row not in late] + late + rows[80:]
    patient = max(row[0] for row in rows[:80]) - min(row[0] for row in late)
    file = file_of(tmp_path, f", allowed_lateness: {patient // 1000 + 1} milliseconds")
    metrics = in_parts(tmp_path, file, rows, (60, 80))
    found = read_answers(tmp_path / "out")
    last = {}
    for row in found:
        key = (row["query"], row["window_end"], row["g"] if row["query"] == "each" else None)
        last[key] = max(row["revision"], last.get(key, 0))
    newest = [
        row
        for row in found
        if row["revision"] == last[row["query"], row["window_end"], row["g"] if row["query"] == "each" else None]
    ]
    assert sum(one["late_used"] for one in metrics) > 0
    assert sum(one["late"] for one in metrics) == 0
    assert whole(newest) == wanted(rows)
    assert only(found, revision=1)


def test_a_bounded_run_has_final_answers(tmp_path):
    rows = rows_of(2)
    write_files(tmp_path / "in", [rows])
    finished(file_of(tmp_path, f"{PROVISIONAL}, allowed_lateness: 1 minute"), "once")
    found = read_answers(tmp_path / "out")
    assert whole(found) == wanted(rows)
    assert {(row["final"], row["revision"]) for row in found} == {(True, 0)}


def test_options_can_be_set_and_removed_between_runs(tmp_path):
    rows = sorted(rows_of(3), key=lambda row: row[0])
    for number, more in enumerate(["", PROVISIONAL, f"{PROVISIONAL}, allowed_lateness: 1 second", ""]):
        write_files(tmp_path / "in", [rows[30 * number : 30 * number + 30]], begin=number)
        finished(file_of(tmp_path, more), "catch-up")
    finished(file_of(tmp_path))
    found = [{"final": True, "revision": 0, **row} for row in read_answers(tmp_path / "out")]
    final = [row for row in found if row["final"] is not False and not row["revision"]]
    assert whole(final) == wanted(rows[:120])


MERGED = """queries:
  - {type: aggregate, name: sums, k: 2, size: 20 seconds, slide: 5 seconds, key: id % 7, value: s}
  - {type: aggregate, name: today, k: 2, size: 1 minute, slide: 10 seconds, cumulative: true, key: id % 5,
     aggregate: count}
"""


def test_late_rows_correct_totals_of_keys(tmp_path):
    """Runs that stop in between; the last revisions are the answers over all rows, which verify compares."""
    rows = sorted((row for row in rows_of(4) if row[1] is not None), key=lambda row: row[0])
    rows = [*rows[20:60], *rows[:20], *rows[60:]]  # 20 rows are late
    file = file_of(tmp_path, ", allowed_lateness: 1 hour", MERGED)
    metrics = in_parts(tmp_path, file, rows, (40, 60))
    assert sum(one["late_used"] for one in metrics) > 0
    assert sum(one["late"] for one in metrics) == 0
    assert only(read_answers(tmp_path / "out"), revision=1)
    found = verify_local(file, "rows", answers=tmp_path / "out")
    assert found.agrees
    assert found.difference.compared > 0


@pytest.mark.parametrize(
    ("more", "queries", "said"),
    [
        (", emit: sometimes", "{type: topk, k: 1, size: 1 minute, by: s}", "emit"),
        (", provisional_every: 1 second", "{type: topk, k: 1, size: 1 minute, by: s}", "only for emit: provisional"),
        (PROVISIONAL, "{type: aggregate, k: 1, gap: 1 minute, key: g, value: s}", "has session windows"),
        (", allowed_lateness: 1 minute", "{type: topk, k: 1, gap: 1 minute, by: s}", "has session windows"),
        (
            ", allowed_lateness: 1 minute",
            "{type: aggregate, k: 1, size: 1 minute, key: g, value: s, having: score < 3}",
            "could remove all keys",
        ),
        (", allowed_lateness: -1 minute", "{type: topk, k: 1, size: 1 minute, by: s}", "allowed_lateness"),
    ],
)
def test_unsupported_options_are_rejected(tmp_path, more, queries, said):
    write_files(tmp_path / "in", [rows_of(1)[:5]])
    with pytest.raises(SkybandError, match=said):
        run_local(file_of(tmp_path, more, f"queries: [{queries}]\n"), "once")


def test_a_change_feed_alone_has_no_open_windows(tmp_path):
    write_files(tmp_path / "in", [rows_of(1)[:5]])
    sinks = "sinks: [{type: parquet, path: out, output: changes}]\n"
    with pytest.raises(SkybandError, match="only changes are written"):
        run_local(file_of(tmp_path, PROVISIONAL, sinks=sinks), "once")


def test_changes_beside_answers_are_those_of_final_windows(tmp_path):
    rows = sorted(rows_of(6), key=lambda row: row[0])
    sinks = "sinks: [{type: parquet, path: out}, {type: parquet, path: changes%s, output: changes}]\n"
    found = []
    for number, more in enumerate(["", PROVISIONAL]):
        folder = tmp_path / str(number)
        folder.mkdir()
        in_parts(folder, file_of(folder, more, sinks=sinks % number), rows)
        changes = read_answers(folder / f"changes{number}")
        found.append(sorted(repr({name: value for name, value in row.items() if name != "final"}) for row in changes))
    assert found[0] == found[1]


def test_the_page_and_the_terminal_show_the_newest_window_so_far():
    from skyband.cli.terminal import newest_answer
    from skyband.connectors.memory import Board
    from skyband.dashboard.boards import board
    from skyband.dashboard.history import History
    from skyband.dashboard.query_info import QueryInfo

    query = sb.TopK(name="each", k=2, size="10 minutes", by="s", partition_by="g")
    history, shown = History(), Board(groups={"each": ("g",)})
    history.set_queries({"each": QueryInfo("each", "rows", "topk", groups=("g",), id="id", query=query)})
    outlet = history.outlet("rows")

    def rows(final, group, *ids):
        start, end = (pa.array([at * 1_000_000] * len(ids)).cast(pa.timestamp("us", "UTC")) for at in (0, 600))
        return pa.table(
            {
                "query": ["each"] * len(ids),
                "g": [group] * len(ids),
                "window_start": start,
                "window_end": end,
                "final": [final] * len(ids),
                "rank": pa.array(range(1, len(ids) + 1), pa.int32()),
                "score": [float(10 - place) for place in range(len(ids))],
                "id": list(ids),
            }
        )

    for batch, part in enumerate([rows(False, "a", 1), rows(False, "b", 2, 3), rows(False, "a", 4, 1)]):
        outlet.take(batch, part)
        shown.take(batch, part)
    history.settle()
    found = board(history, "each", '["a"]')
    assert [row["id"] for row in found["rows"]] == [4, 1]
    assert found["final"] is False
    newest = shown.newest("each")
    assert sorted(newest["id"].to_pylist()) == [1, 2, 3, 4]
    assert newest_answer(query, newest, 5)[0].plain.endswith("so far")
    outlet.take(3, rows(True, "a", 4, 1))
    outlet.take(2, rows(False, "a", 4, 1))  # read again
    history.settle()
    assert board(history, "each", '["a"]')["final"] is True
    assert "final" not in history.columns("each")
    assert history.contested() == (set(), set())
    shown.take(3, rows(True, "a", 4, 1))
    assert pc.any(shown.newest("each")["final"]).as_py()


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_stored_answers_are_verified_by_their_last_revision(tmp_path, kind):
    rows = sorted(rows_of(4), key=lambda row: row[0])
    rows = [*rows[20:60], *rows[:20], *rows[60:]]  # 20 rows are late
    options = f"{PROVISIONAL}, allowed_lateness: 1 hour"
    file = file_of(tmp_path, options, sinks=f"sinks: [{{type: {kind}, path: out}}]\n")
    assert sum(one["late_used"] for one in in_parts(tmp_path, file, rows)) > 0
    found = verify_local(file, "rows", answers=tmp_path / "out")
    assert found.agrees
    assert found.difference.compared > 0


def test_keys_of_messages_have_the_window_if_it_is_sent_again():
    row = {"query": ["a"], "window_start": [0], "window_end": [10], "final": [False], "rank": [1], "score": [2.0]}
    found = list(messages(pa.table(row), {"a": ()}))
    assert found == [
        (
            '{"query": "a", "window_end": 10}',
            '{"query": "a", "window_start": 0, "window_end": 10, "final": false, "rows": [{"rank": 1, "score": 2.0}]}',
        )
    ]


SO_FAR = {
    "aggregate": "{type: aggregate, name: q, k: 2, size: 1 hour, slide: 10 minutes, key: g, value: abs(s), having: "
    "count(*) > 1}",
    "incomplete": "{type: incomplete, name: q, k: 2, size: 1 hour, every: 10 minutes, object: id % 5, stream_by: g, "
    "streams: [a, b, c], value: 'least(s / 9, 1)', where: s >= 0}",
    "uncertain": "{type: uncertain, name: q, k: 2, size: 1 hour, every: 10 minutes, by: s, probability: '0.5', "
    "partition_by: g}",
}


@pytest.mark.parametrize("family", SO_FAR)
def test_merged_answers_are_emitted_so_far_and_verified(tmp_path, family):
    rows = sorted(rows_of(6), key=lambda row: row[0])
    sinks = "sinks: [{type: parquet, path: out}, {type: parquet, path: changes, output: changes}]\n"
    found = []
    for number, more in enumerate(["", f"{PROVISIONAL}, provisional_every: 1 minute"]):
        folder = tmp_path / str(number)
        folder.mkdir()
        file = file_of(folder, more, f"queries: [{SO_FAR[family]}]\n", sinks)
        in_parts(folder, file, rows)
        mine = [read_answers(folder / name) for name in ("out", "changes")]
        open_rows = [row for row in mine[0] if not row.get("final", True)]
        assert bool(open_rows) == bool(more)
        assert all(row["final"] for row in mine[1] if "final" in row)
        assert verify_local(file, "rows", answers=folder / "out").agrees
        kept = [[row for row in part if row.get("final", True)] for part in mine]
        found.append([sorted(repr(sorted({**row, "final": True}.items())) for row in part) for part in kept])
    assert found[0] == found[1]
