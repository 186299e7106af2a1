"""The query class for ranking objects whose attributes arrive in several streams."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal

from skyband.errors import InvalidQueryError, UnknownNameError
from skyband.queries.base import Query
from skyband.queries.fields import (
    Axis,
    as_number,
    checked_choice,
    checked_columns,
    checked_expression,
    checked_flag,
    checked_k,
    checked_name,
    is_integer,
    same_axis,
    spelled,
    window_of,
)
from skyband.queries.window_fields import irregular_fields, is_irregular
from skyband.sql import writer
from skyband.windows import Windows

__all__ = ["APPROXIMATE", "METHODS", "MONOTONE", "IncompleteTopK", "Method", "Monotone", "optional_columns"]

Monotone = Literal["sum", "avg", "min", "max"]
MONOTONE = {
    "sum": "the weighted sum of an object's attributes",
    "avg": "the mean of an object's attributes over all declared streams",
    "min": "the smallest of an object's attributes",
    "max": "the largest of an object's attributes",
}
Method = Literal["exact", "sorted-lists", "approximate", "expected-scores"]
METHODS = {
    "exact": "early aggregation (EAA): keeps only the object instances that may still be in an answer",
    "sorted-lists": "a sorted list per stream and the threshold algorithm (SLA): keeps every tuple of the window",
    "approximate": "early aggregation with likely scores instead of best possible ones: keeps fewer instances, may "
    "miss some objects",
    "expected-scores": "early aggregation with expected scores, probability times bound: the published approximation",
}
# Fields that states and journals contain only if they are set, so that those of other queries are as before.
_OPTIONAL: dict[str, Any] = {
    "partition_by": [], "order": "desc", "ties": "row_number", "zone": None, "week_start": None, "cumulative": False
}  # and what they are then  # fmt: skip
APPROXIMATE = ("approximate", "expected-scores")  # methods with sketches, without a ledger


@dataclass(frozen=True, kw_only=True, repr=False)
class IncompleteTopK(Query):
    """The k best objects at every ``origin + i * every``, over tuples (object, stream, value) of the last `size`.

    An object's score is the aggregate of its values in all declared streams. The lower bound is used for streams in
    which the window contains no tuple of the object. Objects with at least one tuple are ranked. Higher scores rank
    first; with ``order="asc"`` lower ones do, and the upper bound is used. Ties are broken by the object seen last,
    then by the larger object id.

    Parameters
    ----------
    k
        Number of objects per answer, at least 1.
    size, every
        Interval text (``"10 minutes"``) or `timedelta` for a window over event time, integers for a window over the
        last `size` tuples of all streams together. `every` defaults to `size`.
    name
        Name of the query in its answers. Must be unique in a workload.
    object, stream, value, where
        SQL expressions for the object id, the stream name, the attribute value and a filter.
        `skyband.incomplete.replay` and `skyband.incomplete.Monitor` take these as arrays and need none of them.
    partition_by
        SQL expressions for the groups: each group has its own ranking, and its own windows over the last tuples. An
        object in two groups is two objects. In process, groups are passed as an array (``groups=``).
    streams
        The names of all streams. `skyband.incomplete.replay` defaults to those in the input.
    aggregate, weights
        ``"sum"`` (with ``weights={stream: factor}``, default factor 1), ``"avg"``, ``"min"`` or ``"max"``, or an
        expression over the streams, for example ``"0.7 * a + sqrt(b)"``. It must rise with every value, which is
        derived from its form and from `bounds`.
    bounds
        The smallest and the largest value a tuple may have, or ``{stream: (smallest, largest)}`` for all streams.
        Values outside are rejected, because they would invalidate the score bounds. A stream in which an object has no
        tuple counts as its smallest value.
    occurrences
        How many tuples of an object in one stream count per window. Their values are added. Further tuples are dropped
        and counted as ``over_limit``. For this, exact methods record every tuple of the window.
        ``"once"`` declares that no stream ever reports an object twice. Nothing is recorded then, and objects are
        dropped sooner, but answers can be wrong if a stream does.
    method
        ``"exact"``, ``"sorted-lists"`` (exact too, keeps every tuple), ``"approximate"`` or ``"expected-scores"``, the
        approximation as published. Answers of approximate methods have a column ``exact``, which is false for scores
        that may be too low.
    intervals
        Whether answers also contain ``best``, the best score an object can still reach through attributes that have not
        arrived, and ``sure``, whether the object stays in the top k even if all other objects reach theirs. Requires
        ``method="exact"``.
    order
        ``"desc"``: higher scores are better, ``"asc"``: lower scores are better. The worst value is assumed of streams
        without a tuple, so a score only improves as tuples arrive.
    ties
        ``"row_number"``: k objects, of equal scores the one seen last first. ``"rank"``: also every object with the
        score of the k-th, and equal scores share a rank (1, 1, 3). Not for approximate methods, which may miss objects.
    origin
        Anchor of the answer times: a `datetime`, ISO text or microseconds (time), or a tuple's number (count).
        With `zone`, a time without offset is a local time.
    zone, week_start
        A time zone such as ``"Europe/Paris"``: windows begin at local midnight, and `size` may be days, weeks, months,
        quarters or years, in whole lengths of `every`. `week_start` is the first day of a week, ``"monday"`` unless
        given.
    cumulative
        Windows grow: they start with each `size`, and are answered `every` so often ("so far today").

    Examples
    --------
    >>> import skyband as sb
    >>> sb.IncompleteTopK(name="flows", k=20, size="5 minutes", every="10 seconds", object="flow", stream="router",
    ...                   value="bytes", streams=["r1", "r2"], bounds=(0, 1e9))  # doctest: +NORMALIZE_WHITESPACE
    IncompleteTopK(name='flows', k=20, size='5 minutes', every='10 seconds', object='flow', stream='router',
        value='bytes', streams=('r1', 'r2'), bounds=(0.0, 1000000000.0))
    """

    family: ClassVar[str] = "incomplete"
    moment: ClassVar[str] = "time"

    name: str = "topk"
    k: int
    size: str | timedelta | int
    every: str | timedelta | int | None = None
    object: str | None = None
    stream: str | None = None
    value: str | None = None
    where: str | None = None
    partition_by: Iterable[str] = ()
    streams: Iterable[str | int] | None = None
    aggregate: Monotone | str = "sum"
    weights: Mapping[Any, float] | Iterable[tuple[str | int, float]] | None = None
    bounds: tuple[float, float] | Mapping[Any, tuple[float, float]] | Iterable[tuple[Any, Any]] = (0.0, 1.0)
    occurrences: int | Literal["once"] = 1
    method: Method = "exact"
    intervals: bool = False
    origin: datetime | str | int | None = None
    order: Literal["desc", "asc"] = "desc"
    ties: Literal["row_number", "rank"] = "row_number"
    zone: str | None = None
    week_start: str | None = None
    cumulative: bool = False
    axis: Axis = field(init=False, compare=False)
    window: Windows = field(init=False, compare=False)

    def __post_init__(self) -> None:
        windowed = self._windowed()
        streams = checked_streams(self.streams)
        aggregate = _checked_aggregate(self.aggregate, streams)
        bounds = _checked_bounds(self.bounds, streams)
        occurrences = _checked_occurrences(self.occurrences)
        order = checked_choice("order", self.order, {"desc": "higher first", "asc": "lower first"})
        _reject_worse_sums(self.bounds, bounds, occurrences, order)
        weights = _checked_weights(self.weights, streams, aggregate)
        _reject_overflow(bounds, limit_of(occurrences), streams, dict(weights or ()))
        if aggregate not in MONOTONE and streams is not None:
            from skyband.incomplete.expression import compiled  # noqa: PLC0415 - needs Arrow, other queries do not

            by_stream = {one: _pair_of(bounds, one) for one in streams}
            compiled(aggregate, streams, by_stream, limit_of(occurrences), ascending=order == "asc")
        method = checked_choice("method", self.method, METHODS)
        if self.intervals is True and method != "exact":
            raise InvalidQueryError(
                f"intervals=True is not supported with method={method!r}. Use method='exact', which computes upper "
                "bounds of scores."
            )
        ties = checked_choice("ties", self.ties, {"row_number": "k objects", "rank": "also all with the k-th score"})
        if ties == "rank" and method in APPROXIMATE:
            raise InvalidQueryError(
                f"ties='rank' is not supported with method={method!r}, which may drop objects with the score of the "
                "k-th. Use method='exact'."
            )
        self._settle(
            {
                **windowed,
                "name": checked_name(self.name),
                "k": checked_k(self.k),
                "object": checked_expression("object", self.object),
                "stream": checked_expression("stream", self.stream),
                "value": checked_expression("value", self.value),
                "where": checked_expression("where", self.where),
                "partition_by": checked_columns(self.partition_by),
                "streams": streams,
                "aggregate": aggregate,
                "weights": weights,
                "bounds": bounds,
                "occurrences": occurrences,
                "method": method,
                "intervals": checked_flag("intervals", self.intervals),
                "order": order,
                "ties": ties,
            }
        )

    def _windowed(self) -> dict[str, Any]:
        """The fields that define the query's windows, normalized, and the windows."""
        every = self.size if self.every is None else self.every
        kind = {name: getattr(self, name) for name in ("zone", "week_start", "cumulative")}
        if self.size is not None and not is_irregular({"size": self.size, **kind}):
            axis = same_axis(self.size, every, "every")
            window = window_of(axis, self.size, every, self.origin, called="every")
            lengths = {"size": spelled(axis, window.size), "every": spelled(axis, window.slide)}
            return {**lengths, "origin": window.origin, "axis": axis, "window": window}
        if self.size is None:
            raise InvalidQueryError(
                "size is missing. Set a duration, or a number of tuples. Windows since a moment (size=None) are not "
                "supported for IncompleteTopK, because every object would be held forever."
            )
        try:
            found = irregular_fields(self.size, self.every, self.origin, **kind)
        except InvalidQueryError as error:
            raise InvalidQueryError(str(error).replace("slide", "every")) from None
        found["every"] = found.pop("slide")
        _reject_other_panes(found["window"], found["size"], found["every"])
        return {"axis": "time", **found}

    @property
    def window_kind(self) -> str:
        """The kind of the query's windows: sliding, calendar or cumulative.

        >>> import skyband as sb
        >>> sb.IncompleteTopK(k=1, size="1 day", every="1 hour", cumulative=True).window_kind
        'cumulative'
        """
        if self.cumulative:
            return "cumulative"
        return "sliding" if self.zone is None else "calendar"

    @property
    def window_text(self) -> str:
        """A short description of the windows and the answer frequency.

        >>> import skyband as sb
        >>> sb.IncompleteTopK(k=1, size="1 day", every="1 hour", cumulative=True, zone="Asia/Tokyo").window_text
        '1 day so far, every 1 hour, in Asia/Tokyo'
        """
        if self.window_kind == "sliding":
            return super().window_text
        where = "" if self.zone is None else f", in {self.zone}"
        week = "" if self.week_start is None else f", weeks from {self.week_start.capitalize()}"
        return f"{self.size}{' so far' if self.cumulative else ''}, every {self.every}{where}{week}"

    def to_dict(self) -> dict[str, Any]:
        """Return the query as plain values for JSON; ``IncompleteTopK(**query.to_dict())`` is the same query.

        >>> import skyband as sb
        >>> sb.IncompleteTopK(k=1, size=9, partition_by="region").to_dict()["partition_by"]
        ['region']
        """
        found = super().to_dict()
        return {name: value for name, value in found.items() if name not in _OPTIONAL or value != _OPTIONAL[name]}

    def to_sql(self, *, named: bool = False) -> str | None:
        """Return the query as one line of SQL; None if it has no object or no value.

        >>> import skyband as sb
        >>> print(sb.IncompleteTopK(k=5, size="1 hour", every="1 minute", object="flow", stream="router", value="load"))
        TOPK sum(load), 5 OBJECT flow STREAM router OVER 1 HOUR EVERY 1 MINUTE
        """
        if self.object is None or self.value is None:
            return None
        return writer.write_incomplete(self.to_dict(), named=named)

    def scan_key(self) -> tuple[Any, ...]:
        """Return the fields that must be equal for queries to read the same tuples of the same groups."""
        read = (self.object, self.stream, self.value, self.where)
        return (*read, self.groups) if self.groups else read

    @property
    def shares(self) -> bool:
        """Whether the query can share instances with others: exact ones without intervals, which depend on k."""
        return self.method == "exact" and not self.intervals

    def sharing_key(self) -> tuple[Any, ...]:
        """Return what queries must have in common to share instances.

        If streams are declared to report an object once, that does not include the windows. Otherwise it does, because
        the tuples that count depend on them.

        >>> import skyband as sb
        >>> day, hour = (sb.IncompleteTopK(k=1, size=size, occurrences="once") for size in ("1 day", "1 hour"))
        >>> day.sharing_key() == hour.sharing_key()
        True
        """
        alike = (self.streams, self.aggregate, self.weights, self.bounds, self.occurrences, self.method, self.intervals)
        windows: tuple[Any, ...] = () if self.occurrences == "once" else (self.size, self.every, self.origin)
        if self.window_kind != "sliding":  # they are on another axis
            windows = (self.size, self.every, self.origin, self.zone, self.week_start, self.cumulative)
        rest = [self.order] if self.ascending else []
        return (*self.scan_key(), *alike, *windows, *rest, *([self.ties] if self.ties == "rank" else []))

    @property
    def ascending(self) -> bool:
        """Whether lower scores are better.

        >>> import skyband as sb
        >>> sb.IncompleteTopK(k=3, size=9, order="asc").ascending
        True
        """
        return self.order == "asc"

    def weight_of(self, stream: str | int) -> float:
        """Return the weight of a stream.

        >>> import skyband as sb
        >>> query = sb.IncompleteTopK(k=1, size=10, streams=["a", "b"], weights={"b": 2})
        >>> query.weight_of("a"), query.weight_of("b")
        (1.0, 2.0)
        """
        return float(dict(self.weights or ()).get(stream, 1.0))

    def bounds_of(self, stream: str | int) -> tuple[float, float]:
        """Return the smallest and the largest value of a stream.

        >>> import skyband as sb
        >>> query = sb.IncompleteTopK(k=1, size=10, streams=["a", "b"], bounds={"a": (0, 1), "b": (0, 100)})
        >>> query.bounds_of("b")
        (0.0, 100.0)
        """
        return _pair_of(self.bounds, stream)  # type: ignore[arg-type]  # normalized by __post_init__

    @property
    def limit(self) -> int:
        """The maximum number of tuples of an object per stream and window."""
        return limit_of(self.occurrences)

    @property
    def has_bounds_by_stream(self) -> bool:
        """Whether each stream has its own bounds."""
        return None not in _each(self.bounds)  # type: ignore[arg-type]  # normalized by __post_init__

    @property
    def score_text(self) -> str:
        """Short description of the score."""
        return f"{self.aggregate} of {self.value or 'values'}" if self.aggregate in MONOTONE else self.aggregate

    @property
    def ranked_text(self) -> str:
        """Short description of the ranking."""
        best = "lowest" if self.ascending else "best"
        return f"the {self.k} {best} {'objects' if self.object is None else f'values of {self.object}'}"


def _reject_other_panes(window: Windows, size: str, every: str) -> None:
    """Reject windows that engines cannot see as windows of one length."""
    from skyband.incomplete.window_axis import MOST_PANES, has_whole_panes, most_panes  # noqa: PLC0415 - needs numpy

    if not has_whole_panes(window):
        raise InvalidQueryError(
            f"size={size!r} must be whole lengths of every={every!r} in a time zone: a window of a month has 28 to 31 "
            "days, but what a score can still become is bounded for windows of one number of steps. Use "
            "every='1 month', or cumulative=True."
        )
    if (found := most_panes(window)) > MOST_PANES:
        raise InvalidQueryError(
            f"size={size!r} has {found:,} answers with every={every!r}, at most {MOST_PANES:,} are supported in "
            "windows of calendars and cumulative windows. Use a longer every=."
        )


def optional_columns(queries: Iterable[IncompleteTopK]) -> tuple[str, ...]:
    """Return the columns that the answers of these queries have besides those of all answers.

    >>> import skyband as sb
    >>> from skyband.incomplete.query import optional_columns
    >>> optional_columns([sb.IncompleteTopK(k=1, size=9, method="approximate"), sb.IncompleteTopK(k=1, size=9)])
    ('exact',)
    """
    found = list(queries)
    bounds = ("best", "sure") if any(query.intervals for query in found) else ()
    return (*bounds, "exact") if any(query.method in APPROXIMATE for query in found) else bounds


def checked_streams(streams: object) -> tuple[str | int, ...] | None:
    """Return validated stream names: unique, and either all strings or all integers."""
    if streams is None:
        return None
    try:
        names: tuple[Any, ...] = () if isinstance(streams, str) else tuple(streams)  # type: ignore[arg-type]
    except TypeError:
        names = ()
    if not names:
        raise InvalidQueryError(f"streams={streams!r} must be a non-empty list of stream names.")
    texts = [isinstance(name, str) for name in names]
    if any(texts) != all(texts) or not all(text or is_integer(name) for text, name in zip(texts, names, strict=True)):
        raise InvalidQueryError(f"streams={names!r} must be all strings or all integers.")
    found = tuple(map(str, names)) if all(texts) else tuple(operator.index(name) for name in names)
    if len(set(found)) < len(found):
        raise InvalidQueryError(f"streams={found!r} must not contain a stream twice.")
    return found


def _checked_aggregate(aggregate: object, streams: tuple[str | int, ...] | None) -> str:
    if isinstance(aggregate, str):
        if aggregate in MONOTONE:
            return aggregate
        if not aggregate.isidentifier() or aggregate in (streams or ()):
            return str(checked_expression("aggregate", aggregate))
    if callable(aggregate):
        raise InvalidQueryError(
            f"aggregate={aggregate!r} is a function, which could not be stored in a snapshot or sent to Spark. Write "
            "it as an expression over the streams, for example aggregate='0.7 * a + sqrt(b)'."
        )
    raise InvalidQueryError(
        f"aggregate={aggregate!r} must be one of {', '.join(map(repr, MONOTONE))}, or an expression over the streams, "
        "for example '0.7 * a + sqrt(b)'. Only monotone aggregates bound the score of an object before all its values "
        "have arrived."
    )


def _checked_weights(
    weights: object, streams: tuple[str | int, ...] | None, aggregate: str
) -> tuple[tuple[str | int, float], ...] | None:
    if weights is None:
        return None
    if aggregate != "sum":
        raise InvalidQueryError(
            f"weights={weights!r} is not supported with aggregate={aggregate!r}. Remove weights=, or use "
            "aggregate='sum'."
        )
    try:
        found = dict(weights)  # type: ignore[call-overload]  # other types are rejected below
    except (TypeError, ValueError):
        raise InvalidQueryError(
            f"weights={weights!r} must map streams to factors, for example {{'stream': 2.0}}."
        ) from None
    for stream, weight in found.items():
        if streams is not None and stream not in streams:
            raise UnknownNameError.among("stream in weights=", repr(stream), map(repr, streams))
        if not 0 <= as_number(weight) < math.inf:
            raise InvalidQueryError(
                f"weights[{stream!r}]={weight!r} must be a finite number of at least 0. With a negative weight, the "
                "score of an object could not be bounded before all its values have arrived."
            )
    return tuple((stream, float(weight)) for stream, weight in found.items())


Pair = tuple[float, float]


def _each(bounds: Pair | tuple[tuple[str | int, Pair], ...]) -> dict[str | int | None, Pair]:
    """Return bounds by stream; under None if they are those of all streams."""
    first = bounds[0]
    return dict(bounds) if isinstance(first, tuple) else {None: bounds}  # type: ignore[arg-type, dict-item]


def _pair_of(bounds: Pair | tuple[tuple[str | int, Pair], ...], stream: str | int) -> Pair:
    each = _each(bounds)
    return each[stream if stream in each else None]


def _checked_bounds(bounds: object, streams: tuple[str | int, ...] | None) -> Pair | tuple[tuple[str | int, Pair], ...]:
    """Return a pair, or a pair for each stream."""
    if isinstance(bounds, Mapping):
        by_stream = list(bounds.items())
    elif isinstance(bounds, list | tuple) and bounds and all(isinstance(one, list | tuple) for one in bounds):
        by_stream = [tuple(one) for one in bounds]  # as `to_dict` returns it
    else:
        return _checked_pair("bounds", bounds)
    if not by_stream or any(len(one) != 2 for one in by_stream):
        raise InvalidQueryError(
            f"bounds={bounds!r} must be a pair of the smallest and the largest value, or such a pair for each stream, "
            "for example {'a': (0, 1), 'b': (0, 100)}."
        )
    found = {stream: _checked_pair(f"bounds[{stream!r}]", pair) for stream, pair in by_stream}
    unknown = [stream for stream in found if streams is not None and stream not in streams]
    if unknown:
        raise UnknownNameError.among("stream in bounds=", repr(unknown[0]), map(repr, streams or ()))
    missing = [stream for stream in streams or () if stream not in found]
    if missing:
        raise InvalidQueryError(
            f"bounds={bounds!r} has no bounds for the stream {missing[0]!r}. With bounds by stream, every stream needs "
            "them, because they limit how far a score can rise."
        )
    return tuple(found.items())


def _checked_pair(name: str, bounds: object) -> Pair:
    try:
        if isinstance(bounds, str | Mapping):
            raise TypeError
        low, high = (float(value) for value in bounds)  # type: ignore[attr-defined]  # other types are rejected below
    except OverflowError:
        low, high = -math.inf, math.inf  # an integer outside the float range
    except (TypeError, ValueError):
        raise InvalidQueryError(
            f"{name}={bounds!r} must be a pair of the smallest and the largest value, for example (0, 1)."
        ) from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidQueryError(
            f"{name}={bounds!r} must be two finite numbers, the smaller first. They bound how far a score can rise."
        )
    return low, high


def _reject_overflow(
    bounds: Pair | tuple[tuple[str | int, Pair], ...],
    occurrences: int,
    streams: tuple[str | int, ...] | None,
    weights: Mapping[Any, float],
) -> None:
    """Reject bounds that allow a score to overflow: infinite scores cannot be ranked."""
    each = _each(bounds)
    largest = {stream: max(map(abs, pair)) * occurrences for stream, pair in each.items()}
    names: tuple[str | int | None, ...] = streams or tuple(each)
    total = sum(largest.get(stream, largest.get(None, 0.0)) * weights.get(stream, 1.0) for stream in names)
    if not math.isfinite(total):
        raise InvalidQueryError(
            f"bounds={bounds!r} with occurrences={occurrences} and weights={weights!r} allow scores to exceed the "
            "float range, where they cannot be ranked. Scale the values down."
        )


def _reject_worse_sums(
    given: object, bounds: Pair | tuple[tuple[str | int, Pair], ...], occurrences: int | Literal["once"], order: str
) -> None:
    """Reject bounds with which a further value could make a sum worse."""
    pairs = _each(bounds).values()
    if limit_of(occurrences) == 1:
        return
    if order == "desc" and min(low for low, _ in pairs) < 0:
        raise InvalidQueryError(
            f"bounds={given!r} must not be negative with occurrences={occurrences}: values are added, so a "
            "further negative value could lower a score. Shift the values, or use occurrences=1."
        )
    if order == "asc" and max(high for _, high in pairs) > 0:
        raise InvalidQueryError(
            f"bounds={given!r} must not be positive with occurrences={occurrences} and order='asc': values are added, "
            "so a further positive value could raise a score, and it could not be bounded. Use occurrences=1."
        )


def limit_of(occurrences: int | Literal["once"]) -> int:
    """Return the number of tuples that `occurrences` allows."""
    return 1 if occurrences == "once" else occurrences


def _checked_occurrences(occurrences: object) -> int | Literal["once"]:
    if isinstance(occurrences, str) and occurrences == "once":
        return "once"
    if not is_integer(occurrences) or not 1 <= operator.index(occurrences) < 2**31:  # type: ignore[arg-type]
        raise InvalidQueryError(
            f"occurrences={occurrences!r} must be an integer between 1 and {2**31 - 1}, or 'once'. It limits how many "
            "tuples of an object in one stream count per window."
        )
    return operator.index(occurrences)  # type: ignore[arg-type]  # checked above
