"""A window as a board: its rows, their changes of rank since the previous window, and the objects that left."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.dashboard.history import FoundWindow, History, WindowSpan
from skyband.dashboard.query_info import QueryInfo, added_columns
from skyband.dashboard.window_spans import spelled
from skyband.dashboard.wire import moment_text, plain
from skyband.sharding.emission import FINAL, marks_in, marks_of
from skyband.windows import IrregularWindows, SlidingWindow

__all__ = [
    "board",
    "gaps_of",
    "ids_of",
    "label_column",
    "moment_of",
    "moments",
    "plain_column",
    "ranks_over_time",
    "summaries",
    "summary",
    "text_of_id",
]

MOST_OBJECTS = 50
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def board(
    history: History, name: str, key: str | None = None, moment: int | None = None, label: str | None = None
) -> dict[str, Any] | None:
    """Return the board of a query, group and moment as JSON values; None if the history has no such window.

    `label` is the column that names its objects; by default the one of the query.
    """
    found = history.find(name, key, moment)
    if found is None:
        return None
    info = labelled(history.info(name), label)

    def moment_at(place: int) -> Any:
        return moment_text(found.moments[place], info.axis) if 0 <= place < len(found.moments) else None

    return {
        "query": name,
        "group": found.line.group if info.groups else None,
        "moment": moment_at(found.place),
        "start": None if found.window.start is None else moment_text(found.window.start, info.axis),
        "previous": moment_at(found.place - 1),
        "next": moment_at(found.place + 1),
        "newest": moment_at(len(found.moments) - 1),
        "dropped": found.dropped,
        **marks_of(found.window.rows),
        **_moved(found, info),
    }


def summary(history: History, name: str) -> dict[str, Any] | None:
    """Return a short summary of a query for lists; None before its first answer."""
    found = history.overview(name)
    if found is None:
        return None
    newest, info = found.line[-1], history.info(name)
    breaks = set(gaps_of([window.moment for window in found.line], found.gaps, info))
    trend: list[float | None] = []
    for place, window in enumerate(found.line):
        if place in breaks:
            trend.append(None)
        trend.append(window.last if math.isfinite(window.last) else None)
    return {
        "moment": moment_text(newest.moment, info.axis),
        "windows": found.windows,
        "dropped": found.dropped,
        "groups": found.groups,
        "first": _score(newest.first),
        "last": _score(newest.last),
        "rows": newest.count,
        "trend": trend,
    }


def moments(history: History, name: str, key: str | None) -> dict[str, Any] | None:
    """Return the moments of a query and group that can be read, and the number of windows that were dropped."""
    found = history.windows(name, key)
    if found is None:
        return None
    axis = history.info(name).axis
    return {"moments": [moment_text(window.moment, axis) for window in found[0]], "dropped": found[1]}


def labelled(info: QueryInfo, label: str | None) -> QueryInfo:
    """Return the description with another label column; unchanged for None."""
    return info if label is None else replace(info, label=label)


def ranks_over_time(
    history: History, name: str, key: str | None, last: int, label: str | None = None
) -> dict[str, Any] | None:
    """Return, for each moment, the ranks of the newest windows' objects and the scores of the first and last rank.

    `gaps` has the indexes of the windows that do not follow directly after the window before them.
    """
    found, info = history.thinned_line(name, key, max(1, last)), labelled(history.info(name), label)
    if found is None or not found[0]:
        return None
    line, dropped = found
    ids = [ids_of(window.rows, info) for window in line]
    objects = _foremost(ids)
    ranks = [_ranks(window, mine, objects) for window, mine in zip(line, ids, strict=True)]
    names = _names(line, ids, info)
    return {
        "moments": [moment_text(window.moment, info.axis) for window in line],
        "gaps": gaps_of([window.moment for window in line], dropped, info),
        "dropped": sum(dropped[1:]),
        "first": [_score(window.first) for window in line],
        "last": [_score(window.last) for window in line],
        "objects": [
            {
                "id": object_,
                **({"label": names[key]} if (key := text_of_id(object_)) in names else {}),
                "ranks": [mine[place] for mine in ranks],
            }
            for place, object_ in enumerate(plain_column(objects))
        ],
    }


def gaps_of(moments: Sequence[int], dropped: Sequence[int], info: QueryInfo) -> list[int]:
    """Return the indexes of windows before which the query had no answer for at least one window.

    `dropped` has, for each window, the number of answered windows before it that are not in the sequence.

    >>> gaps_of([10, 20, 50, 60], [0, 0, 0, 0], QueryInfo("q", "s", "topk"))
    [2]
    >>> gaps_of([10, 20, 50, 60], [0, 0, 2, 0], QueryInfo("q", "s", "topk"))
    []
    """
    steps = [after - before for before, after in pairwise(moments)]
    if not steps:
        return []
    # Queries answered at moments may be answered more often than they ask for.
    window = None if info.query is None or info.query.moment != "window_end" else info.query.window
    if isinstance(window, IrregularWindows):
        between = (window.ends_between(before, after) for before, after in pairwise(moments))
        return [place for place, ends in enumerate(between, 1) if any(islice(ends, dropped[place] + 1, None))]
    slide = (
        window.slide
        if isinstance(window, SlidingWindow)
        else min(step // (1 + gone) for step, gone in zip(steps, dropped[1:], strict=True))
    )
    return [place for place, step in enumerate(steps, 1) if step > slide * (dropped[place] + 1)]


def moment_of(text: str) -> int:
    """Parse a moment: ISO text becomes microseconds, a number stays as it is.

    >>> moment_of("2024-01-01T09:30:00+00:00"), moment_of("500")
    (1704101400000000, 500)
    """
    if re.fullmatch("-?[0-9]{1,19}", text):
        found = int(text)
        if not -(2**63) <= found < 2**63:
            raise OverflowError(text)
        return found
    # A plus sign in a URL may arrive as a space.
    at = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    return (at - _EPOCH) // timedelta(microseconds=1)


def _moved(found: FoundWindow, info: QueryInfo) -> dict[str, Any]:
    """Return the rows of a window, and the objects that left since the previous window."""
    rows = found.window.rows
    ids = plain_column(ids_of(rows, info))
    ranks = rows["rank"].to_pylist()
    label = label_column(rows, info)
    old: dict[str, int] = {}
    gone: list[dict[str, Any]] = []
    if found.before is not None:
        before = found.before.rows
        columns = [ids_of(before, info), before["rank"], _column(before, "score")]
        if (named := label_column(before, info)) is not None:
            columns.append(before[named])
        here = set(map(text_of_id, ids))
        for value, rank, score, *name in zip(*map(plain_column, columns), strict=True):
            known = text_of_id(value)
            if known not in old:  # for an object with several ranks, use the best
                old[known] = rank
                if known not in here:
                    gone.append({"id": value, "old_rank": rank, "score": score, **({"label": name[0]} if name else {})})
    groups = {column.lower() for column in info.groups}
    added = added_columns(rows.column_names)
    own = [name for name in rows.column_names if name not in added and name.lower() not in groups]
    details = {name: plain_column(rows[name]) for name in own}
    scores = plain_column(_column(rows, "score"))
    extra = {name: plain_column(rows[name]) for name in _EXTRA if name in rows.column_names}
    if FINAL in marks_in(rows.column_names) and pa.types.is_boolean(rows[FINAL].type):
        extra["final"] = plain_column(rows[FINAL])
    if label is not None:
        extra["label"] = plain_column(rows[label])
    shown = []
    for place, (rank, id_, score) in enumerate(zip(ranks, ids, scores, strict=True)):
        before_it = old.get(text_of_id(id_))
        shown.append(
            {
                "rank": rank,
                "id": id_,
                "score": score,
                "move": _move(rank, before_it, first=found.before is None),
                "old_rank": before_it,
                **{name: values[place] for name, values in extra.items()},
                "details": {name: values[place] for name, values in details.items()},
            }
        )
    return {"rows": shown, "left": gone}


_EXTRA = ("probability", "best", "sure")


def _move(rank: int, old: int | None, *, first: bool) -> str:
    if first:
        return "same"
    if old is None:
        return "entered"
    return "up" if rank < old else "down" if rank > old else "same"


def ids_of(rows: pa.Table, info: QueryInfo) -> pa.Array | pa.ChunkedArray:
    """Return the object ids: the id column, or the text of the row's columns if there is no such column."""
    column = id_column(rows, info)
    if column is not None and _is_simple(rows[column].type):
        return rows[column]
    if column is not None:
        return pa.array(
            [None if value is None else text_of_id(value) for value in plain_column(rows[column])], pa.string()
        )
    added = added_columns(rows.column_names)
    own = [name for name in rows.column_names if name not in added and name not in info.groups]
    whole = zip(*(plain_column(rows[name]) for name in own), strict=True) if own else ((),) * rows.num_rows
    return pa.array([" · ".join(map(text_of_id, row)) for row in whole], pa.string())


def _is_simple(kind: pa.DataType) -> bool:
    """Return whether Arrow can look up values of this type, and all supported writers produce it."""
    return any(fits(kind) for fits in _SIMPLE)


_SIMPLE = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_decimal,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
)


def id_column(rows: pa.Table, info: QueryInfo) -> str | None:
    """Return the column that identifies objects; None if only the complete row does."""
    if info.id is not None and (known := spelled(rows, info.id)) is not None:
        return known
    for name in ("id", "key", "object"):
        if name in rows.column_names and name not in info.groups:
            if name == "id" and "stream" in rows.column_names and rows["id"].null_count == rows.num_rows:
                return "stream"  # streams are ranked, not their tuples
            return name
    return None


def label_column(rows: pa.Table, info: QueryInfo) -> str | None:
    """Return the column that names objects; None if their ids do."""
    return None if info.label is None else spelled(rows, info.label)


def _names(line: Sequence[WindowSpan], ids: Sequence[Any], info: QueryInfo) -> dict[str, Any]:
    """Return the newest name of each object by the text of its id; empty without a label column."""
    found: dict[str, Any] = {}
    for window, mine in zip(line, ids, strict=True):
        column = label_column(window.rows, info)
        if column is not None:
            found |= zip(map(text_of_id, plain_column(mine)), plain_column(window.rows[column]), strict=True)
    return found


def _foremost(ids: Sequence[pa.ChunkedArray]) -> pa.Array:
    """Return the objects of the newest windows, newest first, at most MOST_OBJECTS."""
    found = pa.array([], ids[-1].type)
    for mine in reversed(ids):
        if mine.type != found.type:
            continue  # files may store the column in different types
        fresh = mine.filter(pc.invert(pc.is_in(mine, found))).unique()
        more = fresh.slice(0, MOST_OBJECTS - len(found))
        found = pa.concat_arrays([found, *(more.chunks if isinstance(more, pa.ChunkedArray) else [more])])
        if len(found) >= MOST_OBJECTS:
            break
    return found


def _ranks(window: WindowSpan, ids: pa.ChunkedArray, objects: pa.Array) -> list[int | None]:
    """Return the rank of each object in a window; None if it is not ranked."""
    if ids.type != objects.type:
        return [None] * len(objects)
    places = pc.index_in(objects, value_set=ids)
    return list(window.rows["rank"].take(places).to_pylist())


def _column(rows: pa.Table, name: str) -> Any:
    return rows[name] if name in rows.column_names else pa.nulls(rows.num_rows, pa.float64())


def plain_column(column: Any) -> list[Any]:
    """Return a column as JSON values. Values that Python cannot represent, such as the year 300,000, become text."""
    try:
        return [plain(value) for value in column.to_pylist()]
    except (ValueError, OverflowError):
        pass
    try:
        return [plain(value) for value in column.cast(pa.string()).to_pylist()]
    except pa.ArrowException:
        return [f"({column.type})"] * len(column)


def _score(value: float) -> Any:
    return None if math.isnan(value) else plain(value)


def text_of_id(value: Any) -> str:
    """Return a value as a text key. All values of a column have one type, so 1 and "1" cannot collide."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def summaries(history: History, names: Iterable[str]) -> dict[str, Any]:
    """Return the summaries of these queries, without those that have no answer yet."""
    found = {name: summary(history, name) for name in names}
    return {name: one for name, one in found.items() if one is not None}
