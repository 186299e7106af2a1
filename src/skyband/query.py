"""What is asked: one continuous top-k query, frozen, and checked once when it is written down."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from skyband import canonical
from skyband.duration import format_duration, parse_duration
from skyband.errors import InvalidQueryError
from skyband.windows import AXIS_LIMIT, SlidingWindow

__all__ = ["Axis", "Order", "Ties", "TopK"]

Axis = Literal["time", "count"]
Order = Literal["desc", "asc"]
Ties = Literal["row_number", "rank"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, repr=False)
class TopK:
    """The k best objects of every window ``[end - size, end)`` with ``end = origin + i * slide``.

    Parameters
    ----------
    k
        How many objects an answer ranks, at least 1.
    size, slide
        Interval text (``"10 minutes"``) or `timedelta` for a window over event time, integers for a window over the
        last `size` objects. `slide` defaults to `size` and need not divide it.
    name
        What the query is called in its answers; unique in a workload.
    by, where, partition_by
        SQL expressions for the score, the filter and the groups. Arrays carry the score themselves, so that
        `skyband.replay` and `skyband.Monitor` do not need `by`.
    order
        ``"desc"``: higher scores first; ``"asc"``: lower scores first.
    origin
        Where the windows are anchored: a `datetime`, ISO text or microseconds (time), or a sequence number (count).
    full_only
        Report only windows that begin at or after the first object of the stream.
    ties
        ``"row_number"``: k rows, of equal scores the newest first. ``"rank"``: every object with the score of the k-th
        is in too, and equal scores share a rank (1, 1, 3); answers may then be longer than k, and more may be held.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(name="big", k=10, size="10 minutes", slide="1 minute", by="price * size")
    >>> query
    TopK(name='big', k=10, size='10 minutes', slide='1 minute', by='price * size')
    >>> query.axis, query.window.slide
    ('time', 60000000)
    >>> sb.TopK(k=3, size=10_000, slide=100).axis
    'count'
    """

    name: str = "topk"
    k: int
    size: str | timedelta | int
    slide: str | timedelta | int | None = None
    by: str | None = None
    where: str | None = None
    partition_by: Iterable[str] = ()
    order: Order = "desc"
    origin: datetime | str | int | None = None
    full_only: bool = False
    ties: Ties = "row_number"
    axis: Axis = field(init=False, compare=False)
    window: SlidingWindow = field(init=False, compare=False)

    def __post_init__(self) -> None:
        slide = self.size if self.slide is None else self.slide
        axis = _axis_of("size", self.size)
        if _axis_of("slide", slide) != axis:
            raise InvalidQueryError(
                f"size={self.size!r} and slide={slide!r} are on different axes (time and count); "
                "a window cannot slide by one and span the other. Give both as durations or both as integers."
            )
        window = _window(axis, self.size, slide, self.origin)
        normal: dict[str, Any] = {
            "name": _checked_name(self.name),
            "k": _checked_k(self.k),
            "size": _spelled(axis, window.size),
            "slide": _spelled(axis, window.slide),
            "by": _checked_expression("by", self.by),
            "where": _checked_expression("where", self.where),
            "partition_by": _checked_columns(self.partition_by),
            "order": _checked_order(self.order),
            "origin": window.origin,
            "full_only": _checked_flag("full_only", self.full_only),
            "ties": _checked_ties(self.ties),
            "axis": axis,
            "window": window,
        }
        for key, value in normal.items():
            object.__setattr__(self, key, value)

    def to_dict(self) -> dict[str, Any]:
        """The query as plain values, ready for JSON; ``TopK(**query.to_dict())`` is the same query.

        >>> import skyband as sb
        >>> sb.TopK(k=1, size=10).to_dict()["slide"]
        10
        """
        values = {item.name: getattr(self, item.name) for item in fields(self) if item.init}
        return {**values, "partition_by": list(self.partition_by)}

    def __str__(self) -> str:
        """The query as one line of SQL, its canonical form; `skyband.sql` reads it back.

        >>> import skyband as sb
        >>> print(sb.TopK(name="big", k=10, size="10 minutes", slide="1 minute", by="price * size"))
        big: TOPK price * size, 10 OVER 10 MINUTES EVERY 1 MINUTE
        """
        return canonical.write(self.to_dict())

    def __repr__(self) -> str:
        shown = []
        for item in fields(self):
            value = getattr(self, item.name)
            default = 0 if item.name == "origin" else item.default
            if item.init and (item.name in ("name", "k", "size", "slide") or value != default):
                shown.append(f"{item.name}={value!r}")
        return f"TopK({', '.join(shown)})"


def _axis_of(name: str, value: object) -> Axis:
    if isinstance(value, str | timedelta):
        return "time"
    if _is_integer(value):
        return "count"
    raise InvalidQueryError(
        f"{name}={value!r} must be interval text such as '10 minutes', a timedelta (both time windows) or an integer "
        f"(a count window), not {type(value).__name__}."
    )


def _window(axis: Axis, size: Any, slide: Any, origin: object) -> SlidingWindow:
    if axis == "time":
        return _time_window(size, slide, origin)
    if origin is not None and not _is_integer(origin):
        raise InvalidQueryError(
            f"origin={origin!r} must be an integer (a sequence number) for a count window; its axis has no clock."
        )
    return SlidingWindow(
        size=operator.index(size),
        slide=operator.index(slide),
        origin=0 if origin is None else operator.index(origin),  # type: ignore[arg-type]  # checked just above
    )


def _time_window(size: Any, slide: Any, origin: object) -> SlidingWindow:
    """The window in microseconds; what is wrong with it is said in the words of the user."""
    ticks, step, anchor = parse_duration(size, field="size"), parse_duration(slide, field="slide"), _time_origin(origin)
    if ticks < 1:
        raise InvalidQueryError(f"size={size!r} must be at least 1 microsecond; an empty window holds no object.")
    if not 1 <= step <= ticks:
        raise InvalidQueryError(
            f"slide={slide!r} must lie between 1 microsecond and {size!r} (the window's size); "
            "a longer one would leave objects in no window at all, a shorter one would never move on."
        )
    if ticks >= AXIS_LIMIT or abs(anchor) >= AXIS_LIMIT:
        raise InvalidQueryError(
            f"size={size!r} and origin={origin!r} must stay below 2**62 microseconds; "
            "larger ones leave the integer axis."
        )
    return SlidingWindow(size=ticks, slide=step, origin=anchor)


def _time_origin(origin: object) -> int:
    if origin is None:
        return 0
    if _is_integer(origin):
        return operator.index(origin)  # type: ignore[arg-type]  # checked just above
    if isinstance(origin, str):
        try:
            origin = datetime.fromisoformat(origin)
        except ValueError as error:
            raise InvalidQueryError(
                f"origin={origin!r} is not an ISO date or time; write '2024-01-01' or '2024-01-01T09:30:00+00:00'."
            ) from error
    if not isinstance(origin, datetime):
        raise InvalidQueryError(
            f"origin={origin!r} must be a datetime, ISO text or microseconds since 1970, not {type(origin).__name__}."
        )
    if getattr(origin, "nanosecond", False):  # pandas: finer than a datetime, or none at all (NaT)
        raise InvalidQueryError(f"origin={origin!r} is not a whole microsecond; windows can be anchored at no other.")
    try:
        since = (origin if origin.tzinfo else origin.replace(tzinfo=UTC)) - _EPOCH
    except (OverflowError, ValueError) as error:
        raise InvalidQueryError(f"origin={origin!r} is too far from 1970 to be counted in microseconds.") from error
    return parse_duration(since, field="origin")


def _spelled(axis: Axis, ticks: int) -> str | int:
    return format_duration(ticks) if axis == "time" else ticks


def _checked_k(k: object) -> int:
    if not _is_integer(k):
        raise InvalidQueryError(f"k={k!r} must be an integer, not {type(k).__name__}; an answer has whole rows.")
    value = operator.index(k)  # type: ignore[arg-type]  # checked just above
    if not 1 <= value < 2**31:
        raise InvalidQueryError(f"k={value} must lie in 1..{2**31 - 1}; an answer ranks at least one object.")
    return value


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not name.strip() or any("\ud800" <= letter <= "\udfff" for letter in name):
        raise InvalidQueryError(
            f"name={name!r} must be non-empty text of whole characters; answers are told apart by it."
        )
    return name


def _checked_expression(name: str, value: object) -> str | None:
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise InvalidQueryError(f"{name}={value!r} must be an SQL expression as text, or None.")
    return value


def _checked_columns(columns: object) -> tuple[str, ...]:
    if isinstance(columns, str):
        columns = (columns,)
    try:
        names: tuple[Any, ...] = tuple(columns)  # type: ignore[arg-type]  # what cannot be iterated is refused
    except TypeError as error:
        raise InvalidQueryError(
            f"partition_by={columns!r} must be a list of column names; they tell one group from another."
        ) from error
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise InvalidQueryError(f"partition_by={names!r} must hold column names only; {name!r} is none.")
    if len(set(names)) < len(names):
        raise InvalidQueryError(f"partition_by={names!r} names a column twice; each groups the stream once.")
    return names


def _checked_order(order: object) -> Order:
    if isinstance(order, str) and order in ("desc", "asc"):
        return "desc" if order == "desc" else "asc"
    raise InvalidQueryError(f"order={order!r} must be 'desc' (higher first) or 'asc' (lower first).")


def _checked_ties(ties: object) -> Ties:
    if isinstance(ties, str) and ties in ("row_number", "rank"):
        return "row_number" if ties == "row_number" else "rank"
    raise InvalidQueryError(
        f"ties={ties!r} must be 'row_number' (k rows, the newest of equal scores first) or 'rank' (all that equal the "
        "k-th are in)."
    )


def _checked_flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidQueryError(f"{name}={value!r} must be True or False, not {type(value).__name__}.")
    return value


def _is_integer(value: object) -> bool:
    try:
        operator.index(value)  # type: ignore[arg-type]  # arrays have __index__, but only some of them can use it
    except TypeError:
        return False
    return not isinstance(value, bool)
