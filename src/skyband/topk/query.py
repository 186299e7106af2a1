"""Continuous top-k queries over sliding, calendar, cumulative and other windows. Validated and frozen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal

from skyband.errors import InvalidQueryError, UnsupportedError
from skyband.queries.base import Query
from skyband.queries.fields import (
    Axis,
    checked_columns,
    checked_expression,
    checked_flag,
    checked_k,
    checked_name,
    same_axis,
    spelled,
    window_of,
)
from skyband.queries.window_fields import irregular_fields, is_irregular
from skyband.sql import writer
from skyband.windows import ListedWindows, SlidingWindow, Windows

__all__ = ["ListedTopK", "Order", "Ties", "TopK", "topk_from"]

Order = Literal["desc", "asc"]
Ties = Literal["row_number", "rank"]


@dataclass(frozen=True, kw_only=True, repr=False)
class TopK(Query):
    """The k best objects of every window ``[end - size, end)`` with ``end = origin + i * slide``.

    Parameters
    ----------
    k
        Number of objects in an answer, at least 1.
    size, slide
        Interval text (``"10 minutes"``) or `timedelta` for a window over event time, integers for a window over the
        last `size` objects. `slide` defaults to `size` and need not divide it. With ``size=None`` every window starts
        at `origin` (a landmark; by default 1970-01-01).
    name
        Name of the query in its answers; unique in a workload.
    by, where, partition_by
        SQL expressions for the score, the filter and the groups. `skyband.replay` and `skyband.Monitor` get scores and
        groups as arrays: they accept plain column names and reject expressions, which they cannot compute.
    order
        ``"desc"``: higher scores first; ``"asc"``: lower scores first.
    origin
        A position at which a window ends: a `datetime`, ISO text or microseconds (time), or a sequence number (count).
        With `zone`, a time without offset is a local time: ``"2024-01-01T06:00"`` makes days that begin at 6:00.
    zone
        A time zone such as ``"America/New_York"``. Windows then begin at local midnight, also on days with 23 or 25
        hours, and `size` may be days, weeks, months, quarters or years.
    week_start
        With `zone` and weeks: the day that weeks begin with, ``"monday"`` unless given.
    cumulative
        Windows grow: they start with each `size` and end every `slide` ("so far today", Flink's CUMULATE).
    full_only
        Report only windows that begin at or after the first object of the stream.
    ties
        ``"row_number"``: k rows, of equal scores the newest first. ``"rank"``: also every object with the score of the
        k-th, and equal scores share a rank (1, 1, 3). Answers may then be longer than k, and more objects are kept.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(name="big", k=10, size="10 minutes", slide="1 minute", by="price * size")
    >>> query
    TopK(name='big', k=10, size='10 minutes', slide='1 minute', by='price * size')
    >>> query.axis, query.sliding.slide
    ('time', 60000000)
    >>> sb.TopK(k=3, size=10_000, slide=100).axis
    'count'
    >>> sb.TopK(k=3, size="1 day", slide="1 minute", cumulative=True, zone="Europe/Paris").window_text
    '1 day so far, every 1 minute, in Europe/Paris'
    """

    family: ClassVar[str] = "topk"

    name: str = "topk"
    k: int
    size: str | timedelta | int | None
    slide: str | timedelta | int | None = None
    by: str | None = None
    where: str | None = None
    partition_by: Iterable[str] = ()
    order: Order = "desc"
    origin: datetime | str | int | None = None
    full_only: bool = False
    ties: Ties = "row_number"
    zone: str | None = None
    week_start: str | None = None
    cumulative: bool = False
    axis: Axis = field(init=False, compare=False)
    window: Windows = field(init=False, compare=False)

    def __post_init__(self) -> None:
        normal: dict[str, Any] = {
            **self._windowed(),
            "name": checked_name(self.name),
            "k": checked_k(self.k),
            "by": checked_expression("by", self.by),
            "where": checked_expression("where", self.where),
            "partition_by": checked_columns(self.partition_by),
            "order": _checked_order(self.order),
            "full_only": checked_flag("full_only", self.full_only),
            "ties": _checked_ties(self.ties),
        }
        self._settle(normal)

    @property
    def ascending(self) -> bool:
        """Whether lower scores are better."""
        return self.order == "asc"

    @property
    def whole_rows(self) -> bool:
        """Whether answers contain all columns of a row."""
        return True

    def _windowed(self) -> dict[str, Any]:
        """The fields that define the query's windows, normalized."""
        kind = {name: getattr(self, name) for name in ("zone", "week_start", "cumulative")}
        if is_irregular({"size": self.size, **kind}):
            return {"axis": "time", **irregular_fields(self.size, self.slide, self.origin, **kind)}
        slide = self.size if self.slide is None else self.slide
        axis = same_axis(self.size, slide, "slide")
        window = window_of(axis, self.size, slide, self.origin)
        return {
            "axis": axis,
            "window": window,
            "size": spelled(axis, window.size),
            "slide": spelled(axis, window.slide),
            "origin": window.origin,
        }

    @property
    def sliding(self) -> SlidingWindow:
        """The query's windows, which must have one size and one slide.

        >>> import skyband as sb
        >>> sb.TopK(k=3, size=10_000, slide=100).sliding.most_alive
        100
        """
        if isinstance(self.window, SlidingWindow):
            return self.window
        raise UnsupportedError(
            f"{self.name!r} has {self.window_kind} windows; this operation supports only windows with one size and one "
            "slide. Use Monitor, replay or shards with algorithm='panes' or 'naive'."
        )

    @property
    def window_kind(self) -> str:
        """The kind of the query's windows: sliding, calendar, cumulative, landmark or listed.

        >>> import skyband as sb
        >>> sb.TopK(k=3, size=None, slide="1 hour").window_kind
        'landmark'
        """
        if self.size is None:
            return "landmark"
        return "cumulative" if self.cumulative else "sliding" if self.zone is None else "calendar"

    @property
    def window_text(self) -> str:
        """A short description of the windows and the answer frequency.

        >>> import skyband as sb
        >>> sb.TopK(k=1, size="1 day", zone="Asia/Tokyo").window_text
        '1 day, every 1 day, in Asia/Tokyo'
        """
        if isinstance(self.window, SlidingWindow):
            return super().window_text
        where = "" if self.zone is None else f", in {self.zone}"
        week = "" if self.week_start is None else f", weeks from {self.week_start.capitalize()}"
        if self.size is None:
            return f"everything since {self._since_text()}, every {self.slide}{where}"
        return f"{self.size}{' so far' if self.cumulative else ''}, every {self.slide}{where}{week}"

    def _since_text(self) -> str:
        if isinstance(self.origin, int):
            return writer.origin(self.origin, clock=True).strip("'")
        return str(self.origin or "1970-01-01")

    def to_dict(self) -> dict[str, Any]:
        """Return the query as plain values for JSON; ``TopK(**query.to_dict())`` is the same query.

        >>> import skyband as sb
        >>> "zone" in sb.TopK(k=1, size="1 day").to_dict(), sb.TopK(k=1, size="1 day", zone="UTC").to_dict()["zone"]
        (False, 'UTC')
        """
        found = super().to_dict()
        # Without these, states and journals of sliding windows are as they were before the fields existed.
        for name in ("zone", "week_start", "cumulative"):
            if not found[name]:
                del found[name]
        return found

    def to_sql(self, *, named: bool = False) -> str:
        """Return the query as one line of SQL in canonical form; `skyband.sql` parses it.

        >>> import skyband as sb
        >>> print(sb.TopK(name="big", k=10, size="10 minutes", slide="1 minute", by="price * size"))
        big: TOPK price * size, 10 OVER 10 MINUTES EVERY 1 MINUTE
        """
        return writer.write(self.to_dict(), named=named)

    def scan_key(self) -> tuple[str | None, str | None, tuple[str, ...]]:
        """The key of a scan: queries with equal keys rank the same rows by the same score in the same groups."""
        return self.by, self.where, tuple(self.partition_by)

    def sharing_key(self) -> tuple[Axis, str | None, str | None, tuple[str, ...], Order, Ties]:
        """The key of a sharing class: queries with equal keys share one set of candidates."""
        return (self.axis, *self.scan_key(), self.order, self.ties)


def _checked_order(order: object) -> Order:
    if isinstance(order, str) and order in ("desc", "asc"):
        return "desc" if order == "desc" else "asc"
    raise InvalidQueryError(f"order={order!r} must be 'desc' (higher first) or 'asc' (lower first).")


def _checked_ties(ties: object) -> Ties:
    if isinstance(ties, str) and ties in ("row_number", "rank"):
        return "row_number" if ties == "row_number" else "rank"
    raise InvalidQueryError(
        f"ties={ties!r} must be 'row_number' (k rows, the newest of equal scores first) or 'rank' (also all rows that "
        "tie with the k-th)."
    )


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
    size: str | timedelta | int | None = field(init=False, default=0)  # the longest window
    slide: str | timedelta | int | None = field(init=False, default=None)
    origin: datetime | str | int | None = field(init=False, default=None)
    zone: str | None = field(init=False, default=None)
    week_start: str | None = field(init=False, default=None)
    cumulative: bool = field(init=False, default=False)

    @property
    def window_kind(self) -> str:
        """The kind of the query's windows."""
        return "listed"

    @property
    def window_text(self) -> str:
        """A short description of the windows."""
        return f"{len(self.windows.ends):,} windows of up to {self.size}"

    @property
    def whole_rows(self) -> bool:
        """Whether answers contain all columns of a row."""
        return True

    def _windowed(self) -> dict[str, Any]:
        return {"axis": "time", "window": self.windows, "size": spelled("time", self.windows.longest)}

    def to_dict(self) -> dict[str, Any]:
        """Return the query as plain values for JSON; `topk_from` restores it."""
        listed = {"starts": list(self.windows.starts), "ends": list(self.windows.ends)}
        fields = Query.to_dict(self)
        return {**fields, "windows": listed}

    def to_sql(self, *, named: bool = False) -> None:  # type: ignore[override]  # a list of windows has no SQL
        """Return None: SQL cannot express a list of windows."""


def topk_from(fields: Mapping[str, Any]) -> TopK:
    """Return the query from the fields that its `to_dict` returned.

    >>> import skyband as sb
    >>> query = ListedTopK(k=1, windows=ListedWindows([0], [10]))
    >>> topk_from(query.to_dict()) == query
    True
    """
    if "windows" in fields:
        return ListedTopK(**{**fields, "windows": ListedWindows(**fields["windows"])})
    return TopK(**fields)
