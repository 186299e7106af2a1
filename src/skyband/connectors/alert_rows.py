"""The alerts of rows that are changes: each has a key, which depends on its content only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.connectors.alert_conditions import COMPARED, LEADER, SCORE, TOP
from skyband.data.json_lines import json_rows
from skyband.queries.answer_schema import OLD_SCORE, moment_of

__all__ = ["Alert", "alerts_of"]

Row = Mapping[str, Any]
Alert = dict[str, Any]
_NO_RANK = 1 << 62


def alerts_of(rows: pa.Table, conditions: Sequence[str], groups: Mapping[str, Sequence[str]]) -> Iterator[Alert]:
    """Yield the alerts of rows that are changes. `groups` has the group columns of each query.

    The key of an alert depends on its content only, so that a repeated micro-batch gives the same keys.

    >>> import pyarrow as pa
    >>> rows = pa.table({"query": ["q", "q"], "window_end": [10, 10], "rank": [1, 2], "score": [7.5, 5.0],
    ...                  "id": ["b", "a"], "change": ["entered", "moved"], "old_rank": [None, 1],
    ...                  "__skyband_old_score": [None, 3.0]})
    >>> found = alerts_of(rows, ["enters top 3", "leader changes", "score > 4"], {"q": ()})
    >>> [(alert["when"], alert["row"]["id"]) for alert in found]
    [('enters top 3', 'b'), ('leader changes', 'b'), ('score > 4', 'b'), ('score > 4', 'a')]
    """
    moment = moment_of(rows.column_names)
    met = _met(rows, conditions)
    used = np.flatnonzero(np.any(met, axis=0))
    changes = [_shown(row) for row in json_rows(rows.take(pa.array(used)))]
    windows: dict[tuple[Any, ...], list[int]] = {}
    for place, row in enumerate(changes):
        group = tuple(str(row.get(name)) for name in groups.get(row["query"], ()))
        windows.setdefault((row["query"], group, row[moment]), []).append(place)
    for (query, _, end), places in windows.items():
        named = {name: changes[places[0]].get(name) for name in groups.get(query, ())}
        for number, condition in enumerate(conditions):
            mine = [changes[place] for place in places if met[number, used[place]]]
            pairs = _new_leaders(mine) if condition == LEADER else ((row, None) for row in mine)
            for changed, before in pairs:
                content = {
                    "query": query,
                    "group": named,
                    moment: end,
                    "when": condition,
                    "row": _own(changed, (*named, moment)),
                    "before": None if before is None else _own(before, (*named, moment)),
                }
                digest = blake2b(json.dumps(content, sort_keys=True, default=str).encode(), digest_size=16)
                yield {"key": digest.hexdigest(), **content}


def _met(rows: pa.Table, conditions: Sequence[str]) -> Any:
    """Return which rows meet each condition; for a new leader, the rows that led or lead."""
    changed = _numpy(pc.is_valid(rows["change"]))
    ranks, old_ranks = (_numpy(pc.fill_null(rows[name].cast(pa.int64()), _NO_RANK)) for name in ("rank", "old_rank"))
    scores, old_scores = (_numpy(rows[name].cast(pa.float64())) for name in ("score", OLD_SCORE.name))
    is_in, was_in = changed & (ranks != _NO_RANK), changed & (old_ranks != _NO_RANK)
    met = np.zeros((len(conditions), rows.num_rows), bool)
    for number, condition in enumerate(conditions):
        if condition == LEADER:
            met[number] = (is_in & (ranks == 1)) | (was_in & (old_ranks == 1))
        elif found := TOP.fullmatch(condition):
            now, before = is_in & (ranks <= int(found[2])), was_in & (old_ranks <= int(found[2]))
            met[number] = (now & ~before) if found[1] == "enters" else (before & ~now)
        elif found := SCORE.fullmatch(condition):
            holds, limit = COMPARED[found[1]], float(found[2])
            met[number] = is_in & holds(scores, limit) & ~(was_in & holds(old_scores, limit))
    return met


def _new_leaders(changes: Sequence[Row]) -> Iterator[tuple[Row, Row]]:
    """Yield the new first row of a window, and the row that was first before."""
    leader = next((row for row in changes if row["rank"] == 1), None)
    before = next((row for row in changes if row["old_rank"] == 1), None)
    stays = any(row["rank"] == row["old_rank"] for row in changes)
    # The first leader of a stream follows no other.
    if leader is not None and before is not None and not stays:
        yield leader, before


def _shown(row: Row) -> dict[str, Any]:
    """Return the row with the score in the previous window after its rank in it, unless it has such a column."""
    found = dict[str, Any]()
    for name, value in row.items():
        if name == OLD_SCORE.name:
            continue
        found[name] = value
        if name == "old_rank" and "old_score" not in row:
            found["old_score"] = row[OLD_SCORE.name]
    return found


def _numpy(column: pa.ChunkedArray) -> Any:
    return column.to_numpy()


def _own(row: Row, shared: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("query", "window_start", *shared)}
