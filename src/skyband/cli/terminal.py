"""Answers on a terminal: a table for each query with its newest window, and a line on how the stream is doing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from skyband.queries import Query
from skyband.queries.answer_schema import CHANGE_COLUMNS
from skyband.queries.families import FAMILIES

__all__ = [
    "COUNTED",
    "cell",
    "console",
    "dropped_queries",
    "dropped_rows",
    "move",
    "newest_answer",
    "screen",
    "spoken",
    "state_line",
]

COUNTED = {  # rows that are in no answer, as people say it
    "late": "late",
    "dropped_null": "left out (no time or no score)",
    "malformed": "malformed",
    "over_limit": "more often than declared",
    "unrankable": "without a total that can be ranked",
}
_REASONS = {
    "late": "late: they came behind the watermark and are in no answer. A longer watermark lets more of them in.",
    "dropped_null": "left out: they have no time or no score.",
    "malformed": "malformed: they could not be read.",
    "over_limit": "left out: their object was reported more often than occurrences= allows.",
    "unrankable": "keys of windows whose total cannot be ranked.",
}
WIDEST = 120
MOST_QUERIES = 8
MOST_COLUMNS = 6  # of the row's own
LEAST_ROWS = 3
LONGEST = 40  # letters of a cell
_OURS = (*FAMILIES["topk"].answers.names, *(column.name for column in CHANGE_COLUMNS))


def console(*, stderr: bool = False) -> Console:
    """A console that writes what it is given: nothing in data is taken for markup, or coloured by guess."""
    found = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    found.width = min(found.width, WIDEST) if found.is_terminal else WIDEST
    return found


def screen(
    queries: Sequence[Query], newest: Mapping[str, pa.Table | None], height: int, foot: RenderableType
) -> RenderableType:
    """All queries, as many as there is room for, each with the first rows of its newest window."""
    shown = queries[:MOST_QUERIES]
    most = max(LEAST_ROWS, (height - 4) // max(1, len(shown)) - 3)
    parts: list[RenderableType] = []
    for query in shown:
        parts += newest_answer(query, newest.get(query.name), min(most, 20))
    if len(queries) > len(shown):
        parts.append(Text(f"\n… and {len(queries) - len(shown)} more queries", "dim"))
    return Padding(Group(*parts, foot), (0, 1))


def newest_answer(query: Query, rows: pa.Table | None, most: int) -> tuple[Text, RenderableType]:
    """What is asked, and the first rows of its newest window; None: there is none yet."""
    table = Text("  no window has ended yet", "dim italic") if rows is None else window_table(query, rows, most)
    return query_title(query, rows), table


def query_title(query: Query, rows: pa.Table | None) -> Text:
    """What is asked, and of which window the answer is."""
    when = "window ends" if query.moment == "window_end" else "at"
    told = "" if rows is None or not rows.num_rows else f"   {when} {cell(rows[query.moment][0].as_py())}"
    return Text.assemble("\n", (_clean(query.name), "bold cyan"), f": {query.headline}", (told, "dim"))


def window_table(query: Query, rows: pa.Table, most: int) -> Table:
    """The first rows of a window; of a grouped query, the groups with the best scores."""
    moves = _moves(rows, query)
    if "change" in rows.column_names:
        rows = rows.filter(pc.is_null(rows["change"]))
    if query.groups:
        rows = rows.sort_by([("score", "ascending" if query.ascending else "descending")])
    groups = [name for name in query.groups if name in rows.column_names]
    others = [name for name in rows.column_names if name not in (*_OURS, query.moment, *groups)]
    others = [name for name in others if rows[name].null_count < rows.num_rows][:MOST_COLUMNS]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("#", justify="right", style="bold", no_wrap=True)
    if moves is not None:
        table.add_column("", no_wrap=True)
    for name in [*groups, "score", *others]:
        table.add_column(_clean(name), justify="right" if _is_number(rows[name].type) else "left", no_wrap=True)
    for row in rows.slice(0, most).to_pylist():
        moved = [] if moves is None else [moves.get((*(row[name] for name in groups), row["rank"]), Text("=", "dim"))]
        cells = [Text(cell(row[name])) for name in [*groups, "score", *others]]
        table.add_row(str(row["rank"]), *moved, *cells)
    if rows.num_rows > most:
        table.add_row("…", *([""] if moves is not None else []), Text(f"{rows.num_rows - most} more", "dim"))
    return table


def move(change: str, rank: int | None, old_rank: int | None) -> Text:
    """How a row has moved since the window before."""
    if change == "entered":
        return Text("new", "bold green")
    if change == "left":
        return Text("out", "dim red")
    places = (old_rank or 0) - (rank or 0)
    return Text(f"▲{places}", "green") if places > 0 else Text(f"▼{-places}", "red")


def state_line(metrics: Mapping[str, Mapping[str, Any]]) -> Text:
    """How far all streams have come."""
    total = {name: sum(one[name] for one in metrics.values()) for name in ("rows", "windows", "candidates")}
    wrong = {name: sum(one.get(name, 0) for one in metrics.values()) for name in COUNTED}
    parts = [
        f"{total['rows']:,} rows read",
        f"{total['windows']:,} windows final",
        f"{total['candidates']:,} rows held",
        *(f"{count:,} {spoken(name)}" for name, count in wrong.items() if count),
    ]
    lines = ["", ", ".join(parts), *dropped_queries(metrics)]
    return Text("\n".join(lines), "bold red" if wrong["late"] else "dim")


def dropped_rows(metric: str, count: int, rows: int) -> str:
    """What happened to rows that are in no answer, with their share.

    >>> dropped_rows("dropped_null", 5, 1000)
    '5 of 1,000 rows (0.50%) left out: they have no time or no score.'
    """
    of_rows = "" if metric == "unrankable" else f" of {rows:,} rows ({count / max(1, rows):.2%})"
    return f"{count:,}{of_rows} {_REASONS[metric]}"


def dropped_queries(metrics: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A line for each query that joined and was dropped because it broke a micro-batch."""
    return [
        "".join(letter if letter.isprintable() else "·" for letter in f"dropped {name!r} from {stream}: {why}")
        for stream, one in metrics.items()
        for name, why in (one.get("dropped") or {}).items()
    ]


def spoken(metric: str) -> str:
    """The name of a count as people say it."""
    return COUNTED[metric]


def cell(value: Any) -> str:
    """A value as a person reads it; whatever it holds, it stays in its cell."""
    if value is None:
        return "·"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:,.2f}" if 0.01 <= abs(value) < 1e15 or value == 0 else f"{value:g}"
    if isinstance(value, datetime):
        text = value.isoformat(sep=" ", timespec="auto").removesuffix("+00:00")
        return text[:-3] if value.microsecond and value.microsecond % 1000 == 0 else text
    return _clean(str(value))


def _clean(text: str) -> str:
    """Control characters would move the cursor, or worse."""
    printable = "".join(letter if letter.isprintable() else "·" for letter in text[: LONGEST + 1])
    return printable if len(printable) <= LONGEST else printable[: LONGEST - 1] + "…"


def _moves(rows: pa.Table, query: Query) -> dict[tuple[Any, ...], Text] | None:
    """By group and rank, how the row there has moved; None where nothing tells it, or ranks are shared."""
    if "change" not in rows.column_names or getattr(query, "ties", None) == "rank":
        return None
    groups = [name for name in query.groups if name in rows.column_names]
    changes = rows.filter(pc.and_(pc.is_valid(rows["change"]), pc.is_valid(rows["rank"])))
    return {
        (*(row[name] for name in groups), row["rank"]): move(row["change"], row["rank"], row["old_rank"])
        for row in changes.select([*groups, "change", "rank", "old_rank"]).to_pylist()
    }


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
