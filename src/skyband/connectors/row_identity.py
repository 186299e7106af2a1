"""The identity of a row in an answer: the text of its group, and its place in the answer of that group.

Ranks and group columns do not identify a row. With ``ties="rank"`` rows share a rank, group columns can be null, a
group can have several columns, and a query without groups has the row's value in the group column of another query.
The text of the group and the place are never null, and their combination is unique within an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import one
from skyband.data.json_lines import as_json
from skyband.data.wide_timestamps import values_of
from skyband.errors import InvalidInputError
from skyband.kernels.stream import Ints
from skyband.queries import Query
from skyband.queries.answer_schema import moment_of

__all__ = ["GROUP", "PLACE", "ends_of", "groups_of", "newest_answers", "refuse_taken_names", "with_places"]

GROUP = "answer_group"
PLACE = "answer_place"
_LONGEST = 500  # bytes of a group's text: an index of PostgreSQL stores at most 2,700 bytes per row


def groups_of(queries: Iterable[Query]) -> dict[str, tuple[str, ...]]:
    """Return the group columns of each query, by its name.

    >>> import skyband as sb
    >>> groups_of([sb.TopK(name="big", k=1, size=10), sb.TopK(name="each", k=1, size=10, partition_by="symbol")])
    {'big': (), 'each': ('symbol',)}
    """
    return {query.name: query.groups for query in queries}


def refuse_taken_names(rows: pa.Table, where: str) -> None:
    """Reject streams with a column that has the name of an added column."""
    for name in (GROUP, PLACE):
        if name in map(str.lower, rows.column_names):
            raise InvalidInputError(
                f"column name {name!r} is reserved: answers in {where} get a column of that name. Rename the stream's "
                "column."
            )


def with_places(rows: pa.Table, groups: Mapping[str, tuple[str, ...]]) -> pa.Table:
    """Add the group as JSON text, and the place in the answer of that group, from 1.

    The rows of an answer must be in its order.

    >>> rows = pa.table({"query": ["each"] * 3, "symbol": ["A", "A", None], "window_end": [5, 5, 5], "rank": [1, 1, 1]})
    >>> with_places(rows, {"each": ("symbol",)}).drop_columns(["query", "window_end"]).to_pylist()[1:]
    [{'symbol': 'A', 'rank': 1, 'answer_group': '["A"]', 'answer_place': 2}, \
{'symbol': None, 'rank': 1, 'answer_group': '[null]', 'answer_place': 1}]
    """
    group, texts = _groups(rows, groups)
    answer = _together([_codes(rows["query"]), _codes(rows[moment_of(rows.column_names)]), group])
    rows = rows.append_column(GROUP, pa.array(texts, pa.string()).take(pa.array(group)))
    return rows.append_column(PLACE, pa.array(_places(answer), pa.int32()))


def newest_answers(rows: pa.Table, of: Sequence[str]) -> pa.Table:
    """Return the rows of the newest answer of each combination of values in the columns `of`.

    >>> rows = pa.table({"query": ["a", "a", "b"], "window_end": [5, 6, 5], "rank": [1, 1, 1]})
    >>> newest_answers(rows, ["query"])["window_end"].to_pylist()
    [6, 5]
    """
    code = _together([_codes(rows[name]) for name in of])
    ends = ends_of(rows)
    newest = np.full(int(code.max(initial=0)) + 1, np.iinfo(np.int64).min)
    np.maximum.at(newest, code, ends)
    return rows.filter(pa.array(ends == newest[code]))


def ends_of(rows: pa.Table) -> Ints:
    """Return the window ends of the rows: microseconds since 1970, or row numbers."""
    moment = rows[moment_of(rows.column_names)]
    if pa.types.is_timestamp(moment.type):
        moment = moment.cast(pa.timestamp("us", moment.type.tz))
    found: Ints = moment.cast(pa.int64()).to_numpy()
    return found


def _groups(rows: pa.Table, groups: Mapping[str, tuple[str, ...]]) -> tuple[Ints, list[str]]:
    """Return the group number of each row, and the text of each group."""
    spelled = {name.lower(): name for name in rows.column_names}
    found, texts = np.zeros(rows.num_rows, np.int64), ["[]"]
    for columns in sorted({columns for columns in groups.values() if columns}):
        names = [name for name, of_query in groups.items() if of_query == columns]
        mine = np.flatnonzero(pc.is_in(rows["query"], pa.array(names, pa.string())).to_numpy(zero_copy_only=False))
        part = rows.select([spelled.get(name.lower(), name) for name in columns]).take(pa.array(mine))
        _, first, code = np.unique(
            _together([_codes(column) for column in part.columns]), return_index=True, return_inverse=True
        )
        values = zip(*(values_of(column.take(pa.array(first))) for column in part.columns), strict=True)
        found[mine] = code + len(texts)
        texts += [_short(as_json(list(value))) for value in values]
    return found, texts


def _codes(column: pa.ChunkedArray) -> Ints:
    """Return a code for each value, including null."""
    if pa.types.is_nested(column.type):
        column = pa.chunked_array([[as_json(value) for value in values_of(column)]], pa.string())
    encoded = one(column).dictionary_encode(null_encoding="encode")
    found: Ints = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _together(codes: list[Ints]) -> Ints:
    """Return a code for each combination of codes."""
    found = np.zeros(len(codes[0]), np.int64)
    for code in codes:
        _, found = np.unique(found * (int(code.max(initial=0)) + 1) + code, return_inverse=True)
    return found


def _places(answer: Ints) -> Ints:
    """Return 1, 2, 3, … within each answer, in row order."""
    order = np.argsort(answer, kind="stable")
    begins = np.flatnonzero(np.diff(answer[order], prepend=-1))
    lengths = np.diff(np.append(begins, len(answer)))
    found = np.empty(len(answer), np.int64)
    found[order] = np.arange(len(answer)) - np.repeat(begins, lengths) + 1
    return found


def _short(text: str) -> str:
    """Return the text; if it is too long, its beginning and a hash of it."""
    raw = text.encode()
    if len(raw) <= _LONGEST:
        return text
    return f"{raw[:_LONGEST].decode(errors='ignore')}…{sha256(raw).hexdigest()}"
