"""Which answers of a table are replaced, if windows are emitted before they are final, or again after late rows.

An answer belongs to a query, a group and a window. A later answer of the same window replaces all of its rows, because
it can have fewer of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import one
from skyband.kernels.stream import Bools, Ints
from skyband.queries.answer_schema import moment_of
from skyband.sharding.emission import FINAL, REVISION, marks_in
from skyband.sharding.rows import group_rows

__all__ = ["Range", "are_emitted_again", "last_answers", "range_of", "unreplaced"]

Groups = Mapping[str, Sequence[str]]  # by query: its group columns


class Range(NamedTuple):
    """The answers of some queries to windows with ends in an interval."""

    queries: list[str]
    column: str  # with the end of the window
    first: pa.Scalar
    last: pa.Scalar


def are_emitted_again(rows: pa.Table) -> bool:
    """Return whether the table may have answers of the same windows; changes of answers are emitted once."""
    marks = marks_in(rows.column_names)
    if not marks or not rows.num_rows or "change" in rows.column_names:
        return False
    return FINAL in marks or bool(pc.max(rows[REVISION]).as_py())


def range_of(rows: pa.Table) -> Range:
    """Return the smallest range that has the windows of these answers."""
    column = moment_of(rows.column_names)
    ends = pc.min_max(rows[column])
    return Range(sorted(pc.unique(rows["query"]).to_pylist()), column, ends["min"], ends["max"])


def last_answers(rows: pa.Table, groups: Groups) -> pa.Table:
    """Return the last answer of each window."""
    windows, age = _windows(rows, groups), np.zeros(rows.num_rows, np.int64)
    for name in marks_in(rows.column_names):
        values = one(rows[name]).cast(pa.int64()).to_numpy(zero_copy_only=False)
        age = age * 2**40 + values
    newest = np.full(int(windows.max(initial=-1)) + 1, -1, np.int64)
    np.maximum.at(newest, windows, age)
    return rows.filter(pa.array(age == newest[windows]))


def unreplaced(stored: pa.Table, rows: pa.Table, groups: Groups) -> pa.Table:
    """Return the stored answers without those of windows that `rows` answers."""
    wanted = {"query", moment_of(rows.column_names), *(name.lower() for names in groups.values() for name in names)}
    names = [name for name in rows.column_names if name in wanted or name.lower() in wanted]
    names = [name for name in names if name in stored.column_names]
    alike = stored.select(names).cast(pa.schema([rows.schema.field(name) for name in names]))
    windows = _windows(pa.concat_tables([alike, rows.select(names)]), groups)
    is_replaced: Bools = np.isin(windows[: stored.num_rows], windows[stored.num_rows :])
    return stored.filter(pa.array(~is_replaced))


def _windows(rows: pa.Table, groups: Groups) -> Ints:
    """Return a number for each row, equal for the rows of one answer."""
    found = np.zeros(rows.num_rows, np.int64)
    spelled = {name.lower(): name for name in rows.column_names}
    end, size = moment_of(rows.column_names), 0
    for query in pc.unique(rows["query"]).to_pylist():
        mine = np.flatnonzero(pc.equal(rows["query"], query).to_numpy(zero_copy_only=False))
        names = [end, *(spelled.get(group.lower(), group) for group in groups.get(query, ()))]
        grouping = group_rows(rows.select(names).take(pa.array(mine)), names)
        found[mine] = grouping.codes + size
        size += grouping.size
    return found
