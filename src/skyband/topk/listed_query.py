"""A top-k query whose windows are listed by their starts and ends, and any top-k query from its stored fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from skyband.queries.fields import spelled
from skyband.topk.query import TopK
from skyband.windows import ListedWindows

__all__ = ["ListedTopK", "topk_from"]


@dataclass(frozen=True, kw_only=True, repr=False)
class ListedTopK(TopK):
    """The k best objects of every listed window over event time, in microseconds.

    >>> import skyband as sb
    >>> so_far = ListedTopK(name="so far", k=1, windows=ListedWindows([0, 0, 20], [10, 20, 30]))
    >>> table = sb.replay(so_far, [5, 12, 25], [3.0, 9.0, 1.0])
    >>> table.select(["window_start", "window_end", "id"]).to_pydict()
    {'window_start': [0, 0, 20], 'window_end': [10, 20, 30], 'id': [0, 1, 2]}
    """

    windows: ListedWindows
    size: str | timedelta | int = field(init=False, default=0)  # the longest window
    slide: str | timedelta | int | None = field(init=False, default=None)
    origin: datetime | str | int | None = field(init=False, default=None)

    def _windowed(self) -> dict[str, Any]:
        return {"axis": "time", "window": self.windows, "size": spelled("time", self.windows.longest)}

    def to_dict(self) -> dict[str, Any]:
        """The query as plain values, ready for JSON; `topk_from` makes the same query of them."""
        listed = {"starts": list(self.windows.starts), "ends": list(self.windows.ends)}
        return {**super().to_dict(), "windows": listed}

    def to_sql(self, *, named: bool = False) -> None:  # type: ignore[override]  # a list of windows has no SQL
        """Nothing: a list of windows has no SQL."""


def topk_from(fields: Mapping[str, Any]) -> TopK:
    """The query that `to_dict` returned these fields of.

    >>> import skyband as sb
    >>> query = ListedTopK(k=1, windows=ListedWindows([0], [10]))
    >>> topk_from(query.to_dict()) == query
    True
    """
    if "windows" in fields:
        return ListedTopK(**{**fields, "windows": ListedWindows(**fields["windows"])})
    return TopK(**fields)
