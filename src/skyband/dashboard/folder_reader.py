"""A file of answers, read and checked: whatever is in it, the page is given columns that it can show, or nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from skyband.dashboard.file_sources import Ident, Source
from skyband.dashboard.inference import axis_of, is_answers, with_query
from skyband.dashboard.window_slices import coded, moment_column, start_column
from skyband.dashboard.wire import LARGEST
from skyband.queries.answer_schema import moment_of
from skyband.queries.families import inferred_family

__all__ = ["FileAnswers", "NoAnswersError", "read_answers"]

MOST_SIZES = 8  # of windows of one name in a file; who has more has windows of no fixed size


class NoAnswersError(Exception):
    """A file is readable, but holds no answers."""


class FileAnswers(NamedTuple):
    """The rows of a file, and the query of each row as a place among the queries of the file."""

    rows: pa.Table
    idents: list[Ident]
    codes: Any


def read_answers(path: Path, source: Source, name: str, most: int) -> FileAnswers:
    """Read a file; `name` is that of a query which has none. Of a file above `most` bytes, the last row groups."""
    rows = _ranked(_rows(path, most))
    rows = with_query(rows, name)
    names, queries = coded(rows["query"])
    moment_column(rows)  # whether it is a time or a number
    if "score" in rows.column_names:
        rows["score"].cast(pa.float64(), safe=False)
    sizes = _sizes(rows, len(names), queries)
    family, axis = inferred_family(rows.column_names).name, axis_of(rows)
    lengths, which = np.unique(sizes, return_inverse=True)
    pairs, codes = np.unique(queries * np.int64(max(1, lengths.size)) + which, return_inverse=True)
    idents = [
        Ident(source, names[pair // lengths.size], family, axis, int(lengths[pair % lengths.size]) or None)
        for pair in pairs.tolist()
    ]
    return FileAnswers(rows, idents, codes)


def _rows(path: Path, most: int) -> pa.Table:
    """The rows of a file, or of its last row groups where it is very long."""
    with pq.ParquetFile(path) as file:
        names = file.schema_arrow.names
        if not is_answers(names):
            raise NoAnswersError("answers have a column rank, and window_end or time")
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise NoAnswersError(f"it has two columns {twice[0]!r}")
        sizes = [file.metadata.row_group(place).total_byte_size for place in range(file.num_row_groups)]
        first, total = len(sizes), 0
        while first > 0 and (first == len(sizes) or total + sizes[first - 1] <= most):
            first -= 1
            total += sizes[first]
        return file.read_row_groups(list(range(first, len(sizes)))) if sizes else file.read()


def _ranked(rows: pa.Table) -> pa.Table:
    """The rows that have a rank and a moment, ranks as integers."""
    kind = rows["rank"].type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise NoAnswersError(f"its column rank is of type {kind}, and ranks are whole numbers")
    ranks = rows["rank"].cast(pa.int64())
    if pc.any(pc.greater(ranks, LARGEST)).as_py():
        raise NoAnswersError(f"it has a rank above {LARGEST:,}")
    rows = rows.set_column(rows.column_names.index("rank"), "rank", ranks)
    moment = rows[moment_of(rows.column_names)]
    if ranks.null_count or moment.null_count:
        rows = rows.filter(pc.and_(pc.is_valid(ranks), pc.is_valid(moment)))
    return rows


def _sizes(rows: pa.Table, count: int, queries: Any) -> Any:
    """For each row how long its window is; 0 where that is not told, or differs from window to window."""
    if "window_start" not in rows.column_names or "window_end" not in rows.column_names:
        return np.zeros(rows.num_rows, np.int64)
    sizes = np.maximum(moment_column(rows) - start_column(rows), 0)
    sizes[rows["window_start"].is_null().to_numpy()] = 0
    lengths, which = np.unique(sizes, return_inverse=True)
    if lengths.size > MOST_SIZES:
        pairs = np.unique(queries * np.int64(lengths.size) + which)
        varies = np.bincount(pairs // lengths.size, minlength=count) > MOST_SIZES
        sizes[varies[queries]] = 0
    return sizes
