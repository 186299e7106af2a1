"""Continuous top-k queries over sliding, calendar, cumulative, session and other windows. Validated and frozen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal, NamedTuple

from skyband.durations import parse_duration
from skyband.errors import InvalidQueryError
from skyband.queries.base import Query
from skyband.queries.fields import (
    Axis,
    checked_columns,
    checked_expression,
    checked_flag,
    checked_half_life,
    checked_k,
    checked_name,
    spelled,
)
from skyband.queries.ordering import SortColumn, checked_ordering, sort_column
from skyband.queries.window_fields import NO_SIZE
from skyband.queries.windowed import WINDOW_FIELDS, WindowedQuery
from skyband.session_windows import SessionWindows
from skyband.sql import writer
from skyband.windows import ListedWindows, Windows

__all__ = ["ListedTopK", "Order", "RankingRule", "Ties", "TopK", "topk_from"]

Order = Literal["desc", "asc"]
Ties = Literal["row_number", "rank"]

# Fields that states and journals contain only if they are set, so that those of other queries are as before.
_OPTIONAL = (*WINDOW_FIELDS, "then_by", "distinct", "half_life")


class RankingRule(NamedTuple):
    """How a query ranks rows beyond one score: its order by several columns, distinct entities, decay."""

    order: Order
    then_by: tuple[str, ...]
    distinct: str | None
    half_life: str | None

    @property
    def columns(self) -> tuple[SortColumn, ...]:
        """The columns after the first."""
        return tuple(sort_column(text)[0] for text in self.then_by)

    @property
    def half_life_ticks(self) -> int | None:
        """The half-life in microseconds."""
        return None if self.half_life is None else parse_duration(self.half_life, field="half_life")

    def described(self) -> str:
        """Return the rule in a few words, for `explain`."""
        parts = [f"then by {', '.join(self.then_by)}"] if self.then_by else []
        parts += [f"one row for each {self.distinct}"] if self.distinct else []
        return ", ".join(parts + ([f"halved every {self.half_life}"] if self.half_life else []))


@dataclass(frozen=True, kw_only=True, repr=False)
class TopK(WindowedQuery):
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
        `by` may be a list: ``["price desc", "size desc", "symbol asc nulls first"]``. Its first entry is the score;
        the others, which become `then_by`, rank rows that are equal in the entries before. An entry without a direction
        has that of `order`. Values are compared exactly: text by its bytes in UTF-8, decimals, dates, timestamps, and
        integers of 64 bits. A row without a value in a later column is behind the others, unless the entry says
        ``nulls first``.
    order
        ``"desc"``: higher scores first; ``"asc"``: lower scores first.
    then_by
        The columns after the first, if `by` is not a list.
    distinct
        An SQL expression, such as ``"player_id"``: an answer contains at most one row of each entity, its best. Rows
        without an entity are one entity.
    half_life
        Scores decay: after this time a score counts half. Answers contain the score as of the end of their window.
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
    gap, max_length
        Session windows instead of `size` and `slide`: in each group, a session contains the rows that follow each other
        within less than `gap`, for less than `max_length` after its first row. Each group has its own sessions.
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
    >>> sb.TopK(k=3, gap="30 minutes", max_length="8 hours", partition_by="user").window_text
    'sessions with gaps below 30 minutes, up to 8 hours'
    """

    family: ClassVar[str] = "topk"
    instead: ClassVar[str] = "Use Monitor, replay or shards with algorithm='panes' or 'naive'."
    optional: ClassVar[tuple[str, ...]] = _OPTIONAL

    name: str = "topk"
    k: int
    size: str | timedelta | int | None = NO_SIZE
    slide: str | timedelta | int | None = None
    by: str | Iterable[str] | None = None
    where: str | None = None
    partition_by: Iterable[str] = ()
    order: Order = "desc"
    origin: datetime | str | int | None = None
    full_only: bool = False
    ties: Ties = "row_number"
    zone: str | None = None
    week_start: str | None = None
    cumulative: bool = False
    then_by: Iterable[str] = ()
    distinct: str | None = None
    half_life: str | timedelta | None = None
    gap: str | timedelta | None = None
    max_length: str | timedelta | None = None
    axis: Axis = field(init=False, compare=False)
    window: Windows = field(init=False, compare=False)

    def __post_init__(self) -> None:
        normal: dict[str, Any] = {
            **self._windowed(),
            "name": checked_name(self.name),
            "k": checked_k(self.k),
            "where": checked_expression("where", self.where),
            "partition_by": checked_columns(self.partition_by),
            "full_only": checked_flag("full_only", self.full_only),
            "ties": _checked_ties(self.ties),
            "distinct": checked_expression("distinct", self.distinct),
        }
        ordering = checked_ordering(self.by, _checked_order(self.order), self.then_by)
        normal |= zip(("by", "order", "then_by"), ordering, strict=True)
        normal["half_life"] = checked_half_life(self.half_life, normal["axis"])
        if normal["distinct"] is not None and normal["ties"] == "rank":
            raise InvalidQueryError(
                f"distinct={self.distinct!r} and ties='rank' cannot be combined: an answer would contain any number of "
                "entities. Use ties='row_number'."
            )
        self._settle(normal)

    @property
    def ascending(self) -> bool:
        """Whether lower scores are better."""
        return self.order == "asc"

    @property
    def whole_rows(self) -> bool:
        """Whether answers contain all columns of a row."""
        return True

    def to_sql(self, *, named: bool = False) -> str | None:
        """Return the query as one line of SQL in canonical form; `skyband.sql` parses it.

        None if it ranks rows by several columns, of which the first is not given.

        >>> import skyband as sb
        >>> print(sb.TopK(name="big", k=10, size="10 minutes", slide="1 minute", by="price * size"))
        big: TOPK price * size, 10 OVER 10 MINUTES EVERY 1 MINUTE
        """
        return None if self.then_by and self.by is None else writer.write(self.to_dict(), named=named)

    @property
    def ranking_rule(self) -> RankingRule | None:
        """How rows are ranked beyond one score; None: by their score alone.

        >>> import skyband as sb
        >>> sb.TopK(k=1, size=10).ranking_rule is None, sb.TopK(k=1, size=10, by=["a", "b asc"]).ranking_rule.then_by
        (True, ('b asc',))
        """
        if not self.then_by and self.distinct is None and self.half_life is None:
            return None
        return RankingRule(self.order, tuple(self.then_by), self.distinct, self.half_life)  # type: ignore[arg-type]

    def scan_key(self) -> tuple[str | None, str | None, tuple[str, ...], RankingRule | None, SessionWindows | None]:
        """The key of a scan: queries with equal keys rank the same rows by the same score in the same groups.

        Sessions have their own scans, because their rows are retained by other rules.
        """
        window = self.window if isinstance(self.window, SessionWindows) else None
        return self.by, self.where, tuple(self.partition_by), self.ranking_rule, window  # type: ignore[return-value]

    def sharing_key(self) -> tuple[Any, ...]:
        """The key of a sharing class: queries with equal keys share one set of candidates."""
        by, where, partition_by, rule, session = self.scan_key()
        return (self.axis, by, where, partition_by, self.order, self.ties, rule, session)


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
    gap: str | timedelta | None = field(init=False, default=None)
    max_length: str | timedelta | None = field(init=False, default=None)

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
        fields = {name: value for name, value in Query.to_dict(self).items() if value or name not in _OPTIONAL}
        return {**fields, "windows": listed}

    def to_sql(self, *, named: bool = False) -> None:
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
