"""Queries whose windows can be sliding, of a calendar, cumulative, landmarks or sessions: what families share."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from skyband.errors import InvalidInputError, UnsupportedError
from skyband.queries.base import Query
from skyband.queries.fields import same_axis, spelled, window_of
from skyband.queries.window_fields import (
    irregular_fields,
    is_irregular,
    refuse_missing_size,
    session_fields,
    session_text,
)
from skyband.windows import SlidingWindow

__all__ = ["WINDOW_FIELDS", "WindowedQuery", "refuse_past_landmark"]

# The fields of windows that have no lattice. Stored queries contain them only if they are set.
WINDOW_FIELDS = ("gap", "max_length", "zone", "week_start", "cumulative")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class WindowedQuery(Query):
    """A query with windows of any kind."""

    instead: ClassVar[str]  # what answers queries whose windows are not sliding, for messages
    optional: ClassVar[tuple[str, ...]] = WINDOW_FIELDS  # fields that `to_dict` contains only if they are set
    size: Any
    slide: Any
    origin: Any
    gap: Any
    max_length: Any
    full_only: bool

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
            f"slide. {self.instead}"
        )

    @property
    def window_kind(self) -> str:
        """The kind of the query's windows: sliding, calendar, cumulative, landmark, session or listed.

        >>> import skyband as sb
        >>> sb.TopK(k=3, size=None, slide="1 hour").window_kind
        'landmark'
        """
        if getattr(self, "gap", None) is not None:
            return "session"
        if self.size is None:
            return "landmark"
        if getattr(self, "cumulative", False):
            return "cumulative"
        return "sliding" if getattr(self, "zone", None) is None else "calendar"

    @property
    def window_text(self) -> str:
        """A short description of the windows and the answer frequency.

        >>> import skyband as sb
        >>> sb.TopK(k=1, size="1 day", zone="Asia/Tokyo").window_text
        '1 day, every 1 day, in Asia/Tokyo'
        """
        if isinstance(self.window, SlidingWindow):
            return super().window_text
        fields = {name: getattr(self, name, None) for name in WINDOW_FIELDS}
        if fields["gap"] is not None:
            return session_text(fields["gap"], fields["max_length"])
        where = "" if fields["zone"] is None else f", in {fields['zone']}"
        week = "" if fields["week_start"] is None else f", weeks from {fields['week_start'].capitalize()}"
        if self.size is None:
            since = _moment(self.origin) if isinstance(self.origin, int) else str(self.origin or "1970-01-01")
            return f"everything since {since}, every {self.slide}{where}"
        return f"{self.size}{' so far' if fields['cumulative'] else ''}, every {self.slide}{where}{week}"

    def _windowed(self) -> dict[str, Any]:
        """The fields that define the query's windows, normalized, and the windows."""
        kind = {name: getattr(self, name) for name in ("zone", "week_start", "cumulative")}
        if self.gap is not None or self.max_length is not None:
            others = {"origin": self.origin, **kind, "full_only": self.full_only}
            return session_fields(self.gap, self.max_length, self.size, self.slide, others)
        refuse_missing_size(self.size)
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

    def to_dict(self) -> dict[str, Any]:
        """Return the query as plain values for JSON; ``TopK(**query.to_dict())`` is the same query.

        >>> import skyband as sb
        >>> "zone" in sb.TopK(k=1, size="1 day").to_dict(), sb.TopK(k=1, size="1 day", zone="UTC").to_dict()["zone"]
        (False, 'UTC')
        """
        return {name: value for name, value in super().to_dict().items() if value or name not in self.optional}


def refuse_past_landmark(query: WindowedQuery, since: int) -> None:
    """Reject a query that joins a stream if all its windows start earlier than `since`, from where it is exact."""
    if query.window_kind == "landmark" and query.window.start(query.window.first_end_after(since)) < since:
        raise InvalidInputError(
            f"query {query.name!r} has {query.window_text}, but it joins a stream whose rows before "
            f"'{_moment(since)}' were not stored for it, so none of its answers would be complete. Set "
            "origin= to a later time, or start a new stream with this query."
        )


def _moment(position: int) -> str:
    """Return a time as ISO text, or as a number if Python cannot represent it."""
    try:
        return (_EPOCH + timedelta(microseconds=position)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return str(position)
