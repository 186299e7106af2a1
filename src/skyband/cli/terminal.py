"""Answers on a terminal: a table per query with its newest window, and a line with the counters."""

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
from skyband.sharding.emission import FINAL, marks_in, marks_of

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

COUNTED = {  # counters of rows that are in no answer, with their labels
    "late": "late",
    "dropped_null": "dropped (no time or no score)",
    "malformed": "malformed",
    "unreadable": "files or row groups unreadable",
    "over_limit": "above the occurrences limit",
    "unrankable": "without a total that can be ranked",
    "unknown_deletes": "deletes of keys without a value",
}
_REASONS = {
    "late": "late: they arrived behind the watermark and were dropped. A longer watermark accepts more of them.",
    "dropped_null": "dropped: they have no time or no score.",
    "malformed": "malformed: they could not be read.",
    "unreadable": "files or row groups skipped: they could not be read, and none of their rows is in an answer.",
    "over_limit": "dropped: their object was reported more often than occurrences= allows.",
    "unrankable": "keys of windows were not ranked: their total cannot be ranked.",
    "unknown_deletes": "deleted a key that has no value in the windows.",
}
WIDEST = 120
MOST_QUERIES = 8
MOST_COLUMNS = 6  # columns of the row itself
ROWS_OF_A_GROUP = 3  # at least, where there is room
LEAST_ROWS = 3
LONGEST = 40  # characters of a cell
_OURS = (*FAMILIES["topk"].answers.names, *(column.name for column in CHANGE_COLUMNS))


def console(*, stderr: bool = False) -> Console:
    """Return a console that prints text unchanged: no markup, no emoji codes, no highlighting."""
    found = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    found.width = min(found.width, WIDEST) if found.is_terminal else WIDEST
    return found


def screen(
    queries: Sequence[Query],
    newest: Mapping[str, pa.Table | None],
    height: int,
    foot: RenderableType,
    labels: Mapping[str, str] | None = None,
) -> RenderableType:
    """The live view: as many queries as fit, each with the first rows of its newest window.

    `labels` has the columns that name the rows of queries.
    """
    shown = queries[:MOST_QUERIES]
    most = max(LEAST_ROWS, (height - 4) // max(1, len(shown)) - 3)
    parts: list[RenderableType] = []
    for query in shown:
        parts += newest_answer(query, newest.get(query.name), min(most, 20), label=(labels or {}).get(query.name))
    if len(queries) > len(shown):
        parts.append(Text(f"\n… and {len(queries) - len(shown)} more queries", "dim"))
    return Padding(Group(*parts, foot), (0, 1))


def newest_answer(
    query: Query, rows: pa.Table | None, most: int, when: str | None = None, label: str | None = None
) -> tuple[Text, RenderableType]:
    """Title of a query and the first rows of its newest window; `rows` is None before the first window.

    `when` introduces the end of the window in the title, `label` is the column that names a row.
    """
    table = Text("  no window has ended yet", "dim italic") if rows is None else window_table(query, rows, most, label)
    return query_title(query, rows, when), table


def query_title(query: Query, rows: pa.Table | None, when: str | None = None) -> Text:
    """The query's name and headline, and the end or time of its newest window."""
    when = when if when is not None else "window ends" if query.moment == "window_end" else "at"
    end = "" if rows is None or not rows.num_rows else f"   {when} {cell(rows[query.moment][0].as_py())}"
    if rows is not None and marks_of(rows).get(FINAL, True) is False:
        end += ", so far"
    return Text.assemble("\n", (_clean(query.name), "bold cyan"), f": {query.headline}", (end, "dim"))


def window_table(query: Query, rows: pa.Table, most: int, label: str | None = None) -> Table:
    """Table of a window's first rows; for a grouped query by group, those with the best scores first.

    The column `label`, if the rows have it, is the first after the rank.
    """
    moves = _moves(rows, query)
    if "change" in rows.column_names:
        rows = rows.filter(pc.is_null(rows["change"]))
    groups = [name for name in query.groups if name in rows.column_names]
    ours = (*_OURS, query.moment, *groups, *marks_in(rows.column_names))
    others = [name for name in rows.column_names if name not in ours]
    names = [name for name in others if label is not None and name.lower() == label.lower()][:1]
    others = [name for name in others if rows[name].null_count < rows.num_rows and name not in names][:MOST_COLUMNS]
    shown_columns = [*names, "score", *others]
    keys = [name for name in ("key", *getattr(query, "key_columns", ())) if name in shown_columns]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in groups:
        table.add_column(_clean(name), justify="right" if _is_number(rows[name].type) else "left", no_wrap=True)
    table.add_column("#", justify="right", style="bold", no_wrap=True)
    if moves is not None:
        table.add_column("", no_wrap=True)
    for name in shown_columns:
        table.add_column(_clean(name), justify="right" if _is_number(rows[name].type) else "left", no_wrap=True)
    shown, left = _by_group(query, rows, groups, most) if groups else (rows.slice(0, most).to_pylist(), "")
    before: list[Any] | None = None
    for row in shown:
        group = [row[name] for name in groups]
        moved = [] if moves is None else [moves.get((*group, row["rank"]), Text("=", "dim"))]
        named = [Text("" if group == before else cell(value)) for value in group]
        before = group
        cells = [Text(cell(row[name])) for name in shown_columns]
        if getattr(query, "others", False) and all(row[name] is None for name in keys):
            cells[shown_columns.index(keys[0])] = Text("(all others)", "dim italic")
        table.add_row(*named, str(row["rank"]), *moved, *cells)
    left = left or (f"{rows.num_rows - most} more" if rows.num_rows > most else "")
    if left and groups:
        table.add_row(Text(f"… {left}", "dim"))
    elif left:
        table.add_row("…", *([""] if moves is not None else []), Text(left, "dim"))
    return table


def _by_group(query: Query, rows: pa.Table, groups: Sequence[str], most: int) -> tuple[list[dict[str, Any]], str]:
    """Return the first rows of the groups with the best scores, and a text on the groups without room."""
    ordered = rows.sort_by([("score", "ascending" if query.ascending else "descending")])
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in ordered.to_pylist():
        found.setdefault(tuple(map(repr, (row[name] for name in groups))), []).append(row)
    each = max(1, most // max(1, min(len(found), most // ROWS_OF_A_GROUP or 1)))
    shown: list[dict[str, Any]] = []
    count = 0
    for mine in found.values():
        if shown and len(shown) + min(each, len(mine)) > most:
            break
        shown += sorted(mine, key=lambda row: (row["rank"] is None, row["rank"]))[:each]
        count += 1
    more = len(found) - count
    return shown, f"{more:,} more group{'s' if more > 1 else ''}" if more else ""


def move(change: str, rank: int | None, old_rank: int | None) -> Text:
    """A row's change since the previous window: new, out, up or down; = for other values at the same rank."""
    if change == "entered":
        return Text("new", "bold green")
    if change == "left":
        return Text("out", "dim red")
    if change == "updated":
        return Text("=", "dim")
    places = (old_rank or 0) - (rank or 0)
    return Text(f"▲{places}", "green") if places > 0 else Text(f"▼{-places}", "red")


def state_line(metrics: Mapping[str, Mapping[str, Any]]) -> Text:
    """Counters summed over all streams, and a line for each dropped query."""
    total = {name: sum(one[name] for one in metrics.values()) for name in ("rows", "windows", "candidates")}
    wrong = {name: sum(one.get(name, 0) for one in metrics.values()) for name in COUNTED}
    parts = [
        f"{total['rows']:,} rows read",
        f"{total['windows']:,} windows emitted",
        f"{total['candidates']:,} rows held",
        *(f"{count:,} {spoken(name)}" for name, count in wrong.items() if count),
    ]
    lines = ["", ", ".join(parts), *dropped_queries(metrics)]
    return Text("\n".join(lines), "bold red" if wrong["late"] else "dim")


def dropped_rows(metric: str, count: int, rows: int) -> str:
    """Sentence on rows that are in no answer: how many, their share, and why.

    >>> dropped_rows("dropped_null", 5, 1000)
    '5 of 1,000 rows (0.50%) dropped: they have no time or no score.'
    """
    of_rows = "" if metric in ("unrankable", "unreadable") else f" of {rows:,} rows ({count / max(1, rows):.2%})"
    return f"{count:,}{of_rows} {_REASONS[metric]}"


def dropped_queries(metrics: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A line for each query that was added while the job ran and dropped because a micro-batch failed with it."""
    return [
        "".join(letter if letter.isprintable() else "·" for letter in f"dropped {name!r} from {stream}: {why}")
        for stream, one in metrics.items()
        for name, why in (one.get("dropped") or {}).items()
    ]


def spoken(metric: str) -> str:
    """Label of a counter."""
    return COUNTED[metric]


def cell(value: Any) -> str:
    """Format a value for a table cell, without control characters."""
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
    """Replace control characters, which could move the cursor, and shorten the text."""
    printable = "".join(letter if letter.isprintable() else "·" for letter in text[: LONGEST + 1])
    return printable if len(printable) <= LONGEST else printable[: LONGEST - 1] + "…"


def _moves(rows: pa.Table, query: Query) -> dict[tuple[Any, ...], Text] | None:
    """Changes by group and rank; None if the rows have no change column, or if ranks can be shared."""
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
