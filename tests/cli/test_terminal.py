"""What a terminal shows: whatever the data holds, it stays in its cell."""

from __future__ import annotations

import datetime as dt
import io

import pyarrow as pa
import pytest
from rich.console import Console
from rich.text import Text

import skyband as sb
from skyband.cli.line_writers import JsonLines, PlainLines
from skyband.cli.terminal import cell, move, screen, state_line

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
    assert ["1", "new", "a", "9.00"] in lines
    assert ["1", "▲1", "b", "8.00"] in lines


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
