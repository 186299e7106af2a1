"""What a terminal shows: whatever the data holds, it stays in its cell."""

from __future__ import annotations

import datetime as dt
import io

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console
from rich.text import Text

import skyband as sb
from skyband.cli.line_writers import JsonLines, PlainLines
from skyband.cli.live_view import Follower
from skyband.cli.terminal import cell, move, screen, state_line, window_table
from skyband.connectors.memory import Board

QUERY = sb.TopK(name="q", k=3, size="10 minutes", slide="1 minute", by="v")
END = dt.datetime(2024, 1, 1, 9, 10, tzinfo=dt.UTC)


def answers(rows, **more):
    """Rows ``(rank, score, symbol, change, old rank)`` of one window."""
    ranks, scores, symbols, changes, old = zip(*rows, strict=True)
    return pa.table(
        {
            "query": ["q"] * len(rows),
            "window_start": [END - dt.timedelta(minutes=10)] * len(rows),
            "window_end": [END] * len(rows),
            "change": pa.array(changes, pa.string()),
            "rank": pa.array(ranks, pa.int32()),
            "old_rank": pa.array(old, pa.int32()),
            "score": pa.array(scores, pa.float64()),
            "symbol": symbols,
            **more,
        }
    )


def drawn(query, rows, height=30):
    out = Console(file=io.StringIO(), width=100, highlight=False)
    out.print(screen([query], {"q": rows}, height, Text("foot")))
    return out.file.getvalue()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "·"),
        (True, "true"),
        (7, "7"),
        (1234567.891, "1,234,567.89"),
        (0.0, "0.00"),
        (1e-9, "1e-09"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
        (dt.datetime(2024, 1, 1, 9, 30, tzinfo=dt.UTC), "2024-01-01 09:30:00"),
        (dt.datetime(2024, 1, 1, 9, 30, 0, 250_000, tzinfo=dt.UTC), "2024-01-01 09:30:00.250"),
        ("plain", "plain"),
        ("[red]not markup[/red]", "[red]not markup[/red]"),
        ("\x1b[2Jclears\nthe screen\x07", "·[2Jclears·the screen·"),
        ("x" * 10_000, "x" * 39 + "…"),
        ("\u202eright to left", "·right to left"),
    ],
)
def test_cells(value, shown):
    assert cell(value) == shown


def test_moves_stand_beside_the_rows_they_are_about():
    rows = answers(
        [
            (1, 9.0, "a", None, None),
            (2, 8.0, "b", None, None),
            (3, 7.0, "c", None, None),
            (2, 8.0, "b", "moved", 3),
            (3, 7.0, "c", "entered", None),
            (None, 1.0, "d", "left", 2),
        ]
    )
    lines = drawn(QUERY, rows).splitlines()
    told = {line.split()[0]: line.split()[1] for line in lines if line.strip()[:1] in "123" and line.strip()}
    assert told == {"1": "=", "2": "▲1", "3": "new"}
    assert "d" not in [part for line in lines for part in line.split()]
    assert "window ends 2024-01-01 09:10:00" in lines[1]


def test_moves_of_groups_are_not_mixed():
    query = sb.TopK(name="q", k=3, size="10 minutes", by="v", partition_by=["symbol"])
    rows = answers(
        [
            (1, 9.0, "a", None, None),
            (1, 8.0, "b", None, None),
            (1, 8.0, "b", "moved", 2),
            (1, 9.0, "a", "entered", None),
        ]
    )
    lines = [line.split() for line in drawn(query, rows).splitlines()]
    assert ["a", "1", "new", "9.00"] in lines
    assert ["b", "1", "▲1", "8.00"] in lines


def test_hostile_text_does_not_reach_the_terminal():
    rows = answers([(1, 1.0, "\x1b]0;owned\x07[bold]x", None, None)])
    shown = drawn(QUERY, rows)
    assert "\x1b" not in shown
    assert "[bold]x" in shown


def test_a_small_terminal_shows_the_first_rows_and_says_that_there_are_more():
    rows = answers([(rank, float(-rank), "s", None, None) for rank in range(1, 41)])
    assert "37 more" in drawn(QUERY, rows, height=5)


def test_many_queries_do_not_fill_the_screen():
    out = Console(file=io.StringIO(), width=100)
    queries = [sb.TopK(name=f"q{i}", k=1, size=10) for i in range(50)]
    out.print(screen(queries, {}, 20, Text("foot")))
    assert "and 42 more queries" in out.file.getvalue()


def test_what_was_left_out_is_told():
    counts = {"rows": 5, "windows": 2, "candidates": 3, "late": 7, "dropped_null": 0}
    assert "7 late" in state_line({"s": counts}).plain
    assert "dropped" not in state_line({"s": counts}).plain


@pytest.mark.parametrize(
    ("change", "rank", "old", "shown"), [("entered", 1, None, "new"), ("left", None, 2, "out"), ("moved", 5, 2, "▼3")]
)
def test_move(change, rank, old, shown):
    assert move(change, rank, old).plain == shown


def test_lines_for_people_and_for_machines():
    rows = answers([(1, 9.5, "a\tb", "entered", None)], x=[None])
    people, machines = io.StringIO(), io.StringIO()
    PlainLines(people).take(0, rows)
    JsonLines(machines).take(0, rows)
    assert people.getvalue() == "2024-01-01 09:10:00  q  new    1  9.50  symbol=a·b\n"
    assert machines.getvalue().count("\n") == 1
    assert '"window_end": "2024-01-01T09:10:00Z"' in machines.getvalue()


def printed(*parts):
    out = Console(width=120, file=io.StringIO())
    for part in parts:
        out.print(part)
    return [line.rstrip() for line in out.file.getvalue().splitlines()]


def test_a_grouped_board_is_shown_by_group():
    """Each group's rows stand together, best group first; groups without room are counted."""
    query = sb.TopK(name="q", k=3, size="1 minute", slide="1 minute", by="x", partition_by=["symbol"])
    rows = [(symbol, rank, 100.0 * group - rank) for group, symbol in enumerate("dcba") for rank in (1, 2, 3)]
    moment = dt.datetime(2024, 1, 1, 9, 30, tzinfo=dt.UTC)
    table = pa.table(
        {
            "query": ["q"] * 12,
            "symbol": [row[0] for row in rows],
            "window_start": [moment] * 12,
            "window_end": [moment] * 12,
            "rank": [row[1] for row in rows],
            "score": [row[2] for row in rows],
        }
    )
    assert [line.split() for line in printed(window_table(query, table, 7))] == [
        ["symbol", "#", "score"],
        ["a", "1", "299.00"],
        ["2", "298.00"],
        ["3", "297.00"],
        ["b", "1", "199.00"],
        ["2", "198.00"],
        ["3", "197.00"],
        ["…", "2", "more", "groups"],
    ]
    assert len(printed(window_table(query, table, 2))) == 1 + 2 + 1


def test_the_label_is_the_first_column_after_the_rank():
    query = sb.TopK(name="q", k=2, size=10, by="x")
    columns = {"query": ["q"] * 2, "rank": [1, 2], "id": [7, 8], "Name": ["ann", "bob"], "score": [2.0, 1.0]}
    table = pa.table(columns)
    assert printed(window_table(query, table, 2, "name"))[0].split() == ["#", "Name", "score", "id"]
    assert printed(window_table(query, table, 2, "nothing"))[0].split() == ["#", "score", "id", "Name"]
    assert printed(window_table(query, table, 2, "name"))[1].split() == ["1", "ann", "2.00", "7"]


@pytest.mark.parametrize("batches", [1, 3, 40])
def test_the_last_full_window_comes_first(batches):
    """Of rows until 10:00:25, the window that ends then is the last that the input fills."""
    query = sb.TopK(name="q", k=1, size="20 seconds", slide="5 seconds", by="x")
    positions = np.arange(0, 26) * 1_000_000 + 1_704_103_200_000_000
    table = sb.replay([query], positions.astype("datetime64[us]"), np.arange(26.0))
    board = Board(last_full=True)
    for number, part in enumerate(np.array_split(np.arange(table.num_rows), batches)):
        if part.size:
            board.take(number, table.take(part))
    follower = Follower(Console(width=120, file=io.StringIO()), lambda: [query], board)
    follower.print_newest()
    titles = [line for line in follower._out.file.getvalue().splitlines() if line.startswith("q:")]
    assert [title.partition("   ")[2] for title in titles] == [
        "last full window ends 2024-01-01 10:00:25",
        "the input ends in the newest window, until 2024-01-01 10:00:45",
    ]
    assert Board().last_full("q") is None


def test_an_input_shorter_than_a_window_has_no_full_window():
    query = sb.TopK(name="q", k=1, size="20 seconds", slide="5 seconds", by="x")
    table = sb.replay([query], np.array([7_000_000, 9_000_000], "datetime64[us]"), np.arange(2.0))
    board = Board(last_full=True)
    board.take(0, table)
    assert board.last_full("q") is None
    assert board.newest("q")["window_end"][0].as_py().second == 25
