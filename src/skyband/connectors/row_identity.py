"""Which answer a row belongs to, and where it stands in it: what keeps rows apart that ranks and groups do not.

A rank is shared where a query says ``ties="rank"``, a group may be null, several columns may tell a group, and a query
without groups has the row's own value in a column that tells the groups of another. So a row is known by the text of
its group and by its place in its answer, both of which are there and unequal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.json_lines import as_json
from skyband.data.wide_timestamps import values_of
from skyband.errors import InvalidInputError
from skyband.kernels.stream import Ints
from skyband.queries import Query

__all__ = ["GROUP", "PLACE", "ends_of", "groups_of", "moment_of", "newest_answers", "refuse_taken_names", "with_places"]

GROUP = "answer_group"
PLACE = "answer_place"
_LONGEST = 500  # bytes of a group's text: an index holds no more than 2,700 for a row


def groups_of(queries: Iterable[Query]) -> dict[str, tuple[str, ...]]:
    """The columns that tell the groups of each query, by its name.

    >>> import skyband as sb
    >>> groups_of([sb.TopK(name="big", k=1, size=10), sb.TopK(name="each", k=1, size=10, partition_by="symbol")])
    {'big': (), 'each': ('symbol',)}
    """
    return {query.name: query.groups for query in queries}


def moment_of(rows: pa.Table | pa.Schema) -> str:
    """The column that says when answers were final."""
    names = rows.names if isinstance(rows, pa.Schema) else rows.column_names
    return "window_end" if "window_end" in names else "time"


def refuse_taken_names(rows: pa.Table, where: str) -> None:
    """The columns that answers get must not be the stream's own."""
    for name in (GROUP, PLACE):
        if name in map(str.lower, rows.column_names):
            raise InvalidInputError(
                f"column {name!r} of the stream has the name of a column that answers get in {where}; give it another "
                "one under columns of the stream."
            )


def with_places(rows: pa.Table, groups: Mapping[str, tuple[str, ...]]) -> pa.Table:
    """The rows with their group as JSON text, and their place in the answer of that group, from 1 on.

    The rows of an answer come in its order.

    >>> rows = pa.table({"query": ["each"] * 3, "symbol": ["A", "A", None], "window_end": [5, 5, 5], "rank": [1, 1, 1]})
    >>> with_places(rows, {"each": ("symbol",)}).drop_columns(["query", "window_end"]).to_pylist()[1:]
    [{'symbol': 'A', 'rank': 1, 'answer_group': '["A"]', 'answer_place': 2}, \
{'symbol': None, 'rank': 1, 'answer_group': '[null]', 'answer_place': 1}]
    """
    group, texts = _groups(rows, groups)
    answer = _together([_codes(rows["query"]), _codes(rows[moment_of(rows)]), group])
    rows = rows.append_column(GROUP, pa.array(texts, pa.string()).take(pa.array(group)))
    return rows.append_column(PLACE, pa.array(_places(answer), pa.int32()))


def newest_answers(rows: pa.Table, of: Sequence[str]) -> pa.Table:
    """The rows of the newest answer of each value of the columns.

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
    """When the answers of the rows were final: in microseconds since 1970, or the number of a row."""
    moment = rows[moment_of(rows)]
    if pa.types.is_timestamp(moment.type):
        moment = moment.cast(pa.timestamp("us", moment.type.tz))
    found: Ints = moment.cast(pa.int64()).to_numpy()
    return found


def _groups(rows: pa.Table, groups: Mapping[str, tuple[str, ...]]) -> tuple[Ints, list[str]]:
    """A number for the group of each row, and the text of each number."""
    spelled = {name.lower(): name for name in rows.column_names}
    found, texts = np.zeros(rows.num_rows, np.int64), ["[]"]
    for columns in sorted({columns for columns in groups.values() if columns}):
        names = [name for name, told in groups.items() if told == columns]
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
    """A number for each value; null has one, too."""
    if pa.types.is_nested(column.type):
        column = pa.chunked_array([[as_json(value) for value in values_of(column)]], pa.string())
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    found: Ints = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _together(codes: list[Ints]) -> Ints:
    """A number for each combination."""
    found = np.zeros(len(codes[0]), np.int64)
    for code in codes:
        _, found = np.unique(found * (int(code.max(initial=0)) + 1) + code, return_inverse=True)
    return found


def _places(answer: Ints) -> Ints:
    """1, 2, 3, … within each answer, in the order of the rows."""
    order = np.argsort(answer, kind="stable")
    begins = np.flatnonzero(np.diff(answer[order], prepend=-1))
    lengths = np.diff(np.append(begins, len(answer)))
    found = np.empty(len(answer), np.int64)
    found[order] = np.arange(len(answer)) - np.repeat(begins, lengths) + 1
    return found


def _short(text: str) -> str:
    """The text, or its beginning and a fingerprint of all of it."""
    raw = text.encode()
    if len(raw) <= _LONGEST:
        return text
    return f"{raw[:_LONGEST].decode(errors='ignore')}…{sha256(raw).hexdigest()}"
