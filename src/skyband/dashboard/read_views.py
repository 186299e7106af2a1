"""The answers as the read API returns them: windows with the columns of the answers, and the ranks of one entity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from skyband.dashboard.boards import ids_of, label_column, plain_column, text_of_id
from skyband.dashboard.history import FoundWindow, History, WindowSpan
from skyband.dashboard.query_info import QueryInfo
from skyband.dashboard.wire import moment_text
from skyband.sharding.emission import marks_in, marks_of

__all__ = ["WINDOW_COLUMNS", "columns_of", "rank_of", "ranks_of", "rows_of", "window_of", "window_table"]

WINDOW_COLUMNS = ("query", "window_start", "window_end")  # the same in all rows of a window


def window_of(history: History, name: str, key: str | None = None, moment: int | None = None) -> dict[str, Any] | None:
    """Return a window with its rows as JSON values; None if the history has no such window."""
    found = history.find(name, key, moment)
    if found is None:
        return None
    info = history.info(name)
    return {**_frame(found, info), "rows": rows_of(found.window.rows, info)}


def window_table(
    history: History, name: str, key: str | None, moments: tuple[int | None, int | None], limit: int
) -> Any:
    """Return the rows of the oldest `limit` windows between two moments, and the moment to continue from.

    Returns None if the query and group have no window in the history.
    """
    line, windows = history.line(name, key), history.windows(name, key)
    if line is None or windows is None:
        return None
    low, high = moments
    wanted = [window.moment for window in windows[0] if _between(window.moment, low, high)]
    found = (history.window(name, key, moment) for moment in wanted[:limit])
    tables = [window.rows for window in found if window is not None]
    tables = tables or [window.rows.slice(0, 0) for window in line[-1:]]
    rest = wanted[limit] if len(wanted) > limit else None
    return pa.concat_tables(tables, promote_options="permissive") if tables else None, rest


def rank_of(
    history: History, name: str, key: str | None, moment: int | None, entity: str, neighbours: int
) -> dict[str, Any] | None:
    """Return the rank of an entity in a window, with the rows around it; None if the history has no such window.

    An entity that is not in the answer has the rank None, and the last row shows the score that it did not reach.
    """
    found = history.find(name, key, moment)
    if found is None:
        return None
    info, rows = history.info(name), found.window.rows
    places = _places(ids_of(rows, info), entity)
    frame = {**_frame(found, info), "id": entity, "of": rows.num_rows}
    if not places:
        return {**frame, "label": None, "rank": None, "row": None, "neighbours": [], "last": _last(rows, info)}
    at = places[0]
    first = max(0, at - neighbours)
    around = rows_of(rows.slice(first, at - first + 1 + neighbours), info)
    row = around.pop(at - first)
    column = label_column(rows, info)
    label = None if column is None else plain_column(rows[column].slice(at, 1))[0]
    return {**frame, "label": label, "rank": row["rank"], "row": row, "neighbours": around, "last": _last(rows, info)}


def ranks_of(history: History, name: str, key: str | None, entity: str, last: int) -> dict[str, Any] | None:
    """Return the rank and score of an entity in the newest windows; None if the history has no such line."""
    line, info = history.line(name, key, last), history.info(name)
    if not line:
        return None
    return {
        "query": name,
        "id": entity,
        "windows": [
            {"moment": moment_text(window.moment, info.axis), "rank": rank, "score": score}
            for window, (rank, score) in zip(line, _course(line, info, entity), strict=True)
        ],
    }


def rows_of(rows: pa.Table, info: QueryInfo) -> list[dict[str, Any]]:
    """Return rows as JSON objects with the columns of the answers, without those that all rows of a window share."""
    columns = columns_of(rows.column_names, info)
    values = [plain_column(rows[column]) for column in columns]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def columns_of(names: Sequence[str], info: QueryInfo) -> list[str]:
    """Return the columns that differ between the rows of a window."""
    shared = {*WINDOW_COLUMNS, *(column.lower() for column in info.groups)}
    if "window_end" not in names:
        shared.add("time")
    shared.update(marks_in(names))
    return [name for name in names if name.lower() not in shared]


def _frame(found: FoundWindow, info: QueryInfo) -> dict[str, Any]:
    return {
        "query": info.name,
        "group": found.line.group if info.groups else None,
        "moment": moment_text(found.window.moment, info.axis),
        "start": None if found.window.start is None else moment_text(found.window.start, info.axis),
        "is_newest": found.place == len(found.moments) - 1,
        **marks_of(found.window.rows),
    }


def _course(line: Sequence[WindowSpan], info: QueryInfo, entity: str) -> Iterator[tuple[int | None, Any]]:
    for window in line:
        rows = window.rows
        places = _places(ids_of(rows, info), entity)
        row = None if not places else rows.slice(places[0], 1)
        score = None if row is None or "score" not in row.column_names else plain_column(row["score"])[0]
        yield (None if row is None else row["rank"][0].as_py()), score


def _places(ids: Any, entity: str) -> list[int]:
    """Return where an entity is. Its id is written as the API writes it: a text as it is, other values as JSON."""
    return [place for place, value in enumerate(plain_column(ids)) if text_of_id(value) == entity]


def _last(rows: pa.Table, info: QueryInfo) -> dict[str, Any] | None:
    found = rows_of(rows.slice(max(0, rows.num_rows - 1)), info)
    return found[0] if found else None


def _between(moment: int, low: int | None, high: int | None) -> bool:
    return (low is None or moment >= low) and (high is None or moment <= high)
