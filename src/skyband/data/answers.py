"""Answers over data frames: an Arrow table that displays itself and converts to other libraries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from skyband.data.wide_timestamps import values_of
from skyband.display import MOST_ROWS, html_table

__all__ = ["Answers"]


class Answers:
    """Answers as an Arrow table. Everything that a `pyarrow.Table` can do, it can do as well.

    >>> import skyband as sb
    >>> trades = {"at": pa.array([1, 2, 9], pa.timestamp("s")), "price": [4.0, 8.0, 6.0], "who": ["ann", "bob", "cat"]}
    >>> found = sb.replay(sb.TopK(k=1, size="5 seconds", by="price"), trades, time="at")
    >>> found.column_names
    ['query', 'window_start', 'window_end', 'rank', 'score', 'at', 'price', 'who']
    >>> found["who"].to_pylist(), len(found)
    (['bob', 'cat'], 2)
    """

    __slots__ = ("_table",)

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def to_arrow(self) -> pa.Table:
        """Return the answers as a `pyarrow.Table`."""
        return self._table

    def to_polars(self) -> Any:
        """Return the answers as a polars data frame; needs polars."""
        import polars  # noqa: PLC0415 - not a dependency

        return polars.from_arrow(self._table)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_table":
            raise AttributeError(name)
        return getattr(self._table, name)

    def __getitem__(self, key: Any) -> Any:
        return self._table[key]

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __eq__(self, other: object) -> bool:
        theirs = other._table if isinstance(other, Answers) else other
        return isinstance(theirs, pa.Table) and bool(self._table.equals(theirs))

    def __hash__(self) -> int:
        raise TypeError("answers cannot be hashed; they are compared by their rows.")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._table.to_pylist())

    def __repr__(self) -> str:
        rows = f"{len(self):,} row{'' if len(self) == 1 else 's'}"
        return f"Answers({rows}: {', '.join(self._table.column_names)})"

    def _repr_html_(self) -> str:
        columns = [values_of(column) for column in self._table.slice(0, MOST_ROWS).columns]
        return html_table(self._table.column_names, zip(*columns, strict=True), len(self))
