"""The answers as the read API returns them: windows with the columns of the answers, and the ranks of one entity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from skyband.dashboard.boards import ids_of, label_column, plain_column, text_of_id
from skyband.dashboard.history import FoundWindow, History, ReadableWindows, WindowSpan
from skyband.dashboard.query_info import QueryInfo
from skyband.dashboard.wire import moment_text
from skyband.sharding.emission import marks_in, marks_of

__all__ = ["WINDOW_COLUMNS", "WindowTable", "columns_of", "rank_of", "ranks_of", "rows_of", "window_of", "window_table"]

WINDOW_COLUMNS = ("query", "window_start", "window_end")  # the same in all rows of a window


class WindowTable(NamedTuple):
    """The rows of several windows."""

    rows: pa.Table
    rest: int | None  # the moment to continue from; None: there are no more windows
    dropped: int  # windows directly before one of these that cannot be read


def window_of(history: History, name: str, key: str | None = None, moment: int | None = None) -> dict[str, Any] | None:
    """Return a window with its rows as JSON values; None if the history has no such window."""
    found = history.find(name, key, moment)
    if found is None:
        return None
    info = history.info(name)
    return {**_frame(found, info), "rows": rows_of(found.window.rows, info)}


def window_table(
    history: History, name: str, key: str | None, moments: tuple[int | None, int | None], limit: int
) -> WindowTable | None:
    """Return the rows of the oldest `limit` windows between two moments.

    Returns None if the query and group have no window that can be read.
    """
    listed = history.listed(name, key)
    if listed is None or not listed.windows:
        return None
    wanted = [place for place, window in enumerate(listed.windows) if _between(window.moment, *moments)]
    past = _past(history, listed, wanted[:limit])
    tables = [window.rows for _, window, _ in past if window is not None]
    if not tables:
        newest = history.spans(listed.line, [listed.windows[-1].moment])
        tables = [window.rows.slice(0, 0) for window in newest.values()]
    rest = listed.windows[wanted[limit]].moment if len(wanted) > limit else None
    rows = pa.concat_tables(tables, promote_options="permissive") if tables else None
    return None if rows is None else WindowTable(rows, rest, sum(dropped for _, _, dropped in past))


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
    """Return the rank and score of an entity in the newest windows; None if the history has no such line.

    `dropped` counts windows that cannot be read: between the windows, and of each also directly before it.
    """
    listed, info = history.listed(name, key), history.info(name)
    if listed is None or not listed.windows:
        return None
    count = len(listed.windows)
    past = _past(history, listed, range(max(0, count - last), count))
    windows = []
    for moment, window, dropped in past:
        if window is not None:
            rank, score = _standing(window, info, entity)
            windows.append({"moment": moment_text(moment, info.axis), "rank": rank, "score": score, "dropped": dropped})
    return {"query": name, "id": entity, "windows": windows, "dropped": sum(dropped for _, _, dropped in past)}


def _past(history: History, listed: ReadableWindows, places: Sequence[int]) -> list[tuple[int, WindowSpan | None, int]]:
    """Return the windows at some places, and the number of dropped windows before each.

    A window that cannot be read any more, because its file was removed or replaced, is None, and counts as dropped.
    """
    moments = [listed.windows[place].moment for place in places]
    found, missing = history.spans(listed.line, moments), 0
    past: list[tuple[int, WindowSpan | None, int]] = []
    for place, moment in zip(places, moments, strict=True):
        window, missing = found.get(moment), missing + listed.dropped[place]
        if window is None:
            missing += 1
        else:
            past.append((moment, window, missing))
            missing = 0
    return [*past, (0, None, missing)] if missing else past


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


def _standing(window: WindowSpan, info: QueryInfo, entity: str) -> tuple[int | None, Any]:
    """Return the rank and the score of an entity in a window."""
    rows = window.rows
    places = _places(ids_of(rows, info), entity)
    row = None if not places else rows.slice(places[0], 1)
    score = None if row is None or "score" not in row.column_names else plain_column(row["score"])[0]
    return (None if row is None else row["rank"][0].as_py()), score


def _places(ids: Any, entity: str) -> list[int]:
    """Return where an entity is. Its id is written as the API writes it: a text as it is, other values as JSON."""
    return [place for place, value in enumerate(plain_column(ids)) if text_of_id(value) == entity]


def _last(rows: pa.Table, info: QueryInfo) -> dict[str, Any] | None:
    found = rows_of(rows.slice(max(0, rows.num_rows - 1)), info)
    return found[0] if found else None


def _between(moment: int, low: int | None, high: int | None) -> bool:
    return (low is None or moment >= low) and (high is None or moment <= high)
