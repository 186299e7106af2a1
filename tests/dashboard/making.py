"""Tables of answers for the tests, row by row."""

from __future__ import annotations

import pyarrow as pa

from skyband.dashboard.history import History
from skyband.dashboard.query_info import QueryInfo

MINUTE = 60_000_000


def answers(windows, *, groups=False, id_="id", kind=None):
    """Rows of windows ``(query, group, moment, [(id, score), ...])``, ranked as they stand."""
    rows = [
        (query, group, moment, rank, object_, score)
        for query, group, moment, ranked in windows
        for rank, (object_, score) in enumerate(ranked, 1)
    ]
    columns = list(zip(*rows, strict=True)) if rows else [[]] * 6
    table = {"query": pa.array(columns[0], pa.string())}
    if groups:
        table["symbol"] = pa.array(columns[1], pa.string())
    moments = pa.array([minute * MINUTE for minute in columns[2]], pa.int64()).cast(pa.timestamp("us", "UTC"))
    table |= {"window_start": moments, "window_end": moments}
    table["rank"] = pa.array(columns[3], pa.int32())
    table["score"] = pa.array(columns[5], pa.float64())
    table[id_] = pa.array(columns[4], kind)
    return pa.table(table)


def history(*asked, **limits):
    """An empty history of these queries; a text is one without groups."""
    found = History(**limits)
    known = [QueryInfo(one, "s", "topk") if isinstance(one, str) else one for one in asked]
    found.set_queries({one.name: one for one in known})
    return found


def grouped(name):
    return QueryInfo(name, "s", "topk", groups=("symbol",))
