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
    checked_expression,
    checked_flag,
    checked_k,
    checked_name,
    is_integer,
    same_axis,
    spelled,
    window_of,
)
from skyband.windows import SlidingWindow

__all__ = ["METHODS", "MONOTONE", "IncompleteTopK", "Method", "Monotone"]

Monotone = Literal["sum", "avg", "min", "max"]
MONOTONE = {
    "sum": "the weighted sum of an object's attributes",
    "avg": "the mean of an object's attributes over all declared streams",
    "min": "the smallest of an object's attributes",
    "max": "the largest of an object's attributes",
}
Method = Literal["exact", "sorted-lists", "approximate"]
MOST_K = 2**24
METHODS = {
    "exact": "early aggregation (EAA): keeps only the object instances that may still be in an answer",
    "sorted-lists": "a sorted list per stream and the threshold algorithm (SLA): keeps every tuple of the window",
    "approximate": "early aggregation with likely scores instead of best possible ones: keeps fewer instances, may "
    "miss some objects",
}


@dataclass(frozen=True, kw_only=True, repr=False)
class IncompleteTopK(Query):
    """The k best objects at every ``origin + i * every``, over tuples (object, stream, value) of the last `size`.

    An object's score is the aggregate of its values in all declared streams. The lower bound is used for streams in
    which the window contains no tuple of the object. Objects with at least one tuple are ranked. Higher scores rank
    first. Ties are broken by the object seen last, then by the larger object id.

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
    streams
        The names of all streams. `skyband.incomplete.replay` defaults to those in the input.
    aggregate, weights
        ``"sum"`` (with ``weights={stream: factor}``, default factor 1), ``"avg"``, ``"min"`` or ``"max"``.
    bounds
        The smallest and the largest value a tuple may have. Values outside are rejected, because they would invalidate
        the score bounds.
    occurrences
        How many tuples of an object in one stream count per window. Their values are added. Further tuples are dropped
        and counted as ``over_limit``.
    method
        ``"exact"``, ``"sorted-lists"`` (exact too, keeps every tuple) or ``"approximate"``.
    intervals
        Whether answers also contain ``best``, the best score an object can still reach through attributes that have not
        arrived, and ``sure``, whether the object stays in the top k even if all other objects reach theirs. Requires
        ``method="exact"``.
    origin
        Anchor of the answer times: a `datetime`, ISO text or microseconds (time), or a tuple's number (count).

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
    streams: Iterable[str | int] | None = None
    aggregate: Monotone = "sum"
    weights: Mapping[Any, float] | Iterable[tuple[str | int, float]] | None = None
    bounds: tuple[float, float] = (0.0, 1.0)
    occurrences: int = 1
    method: Method = "exact"
    intervals: bool = False
    origin: datetime | str | int | None = None
    axis: Axis = field(init=False, compare=False)
    window: SlidingWindow = field(init=False, compare=False)

    def __post_init__(self) -> None:
        every = self.size if self.every is None else self.every
        axis = same_axis(self.size, every, "every")
        window = window_of(axis, self.size, every, self.origin, called="every")
        streams = checked_streams(self.streams)
        aggregate = _checked_aggregate(self.aggregate)
        bounds = _checked_bounds(self.bounds)
        occurrences = _checked_occurrences(self.occurrences)
        if occurrences > 1 and bounds[0] < 0:
            raise InvalidQueryError(
                f"bounds={self.bounds!r} must not be negative with occurrences={occurrences}: values are added, so a "
                "further negative value could lower a score. Shift the values, or use occurrences=1."
            )
        weights = _checked_weights(self.weights, streams, aggregate)
        _reject_overflow(bounds, occurrences, streams, dict(weights or ()))
        method = checked_choice("method", self.method, METHODS)
        if self.intervals is True and method != "exact":
            raise InvalidQueryError(
                f"intervals=True is not supported with method={method!r}. Use method='exact', which computes upper "
                "bounds of scores."
            )
        self._settle(
            {
                "name": checked_name(self.name),
                "k": _checked_k(self.k),
                "size": spelled(axis, window.size),
                "every": spelled(axis, window.slide),
                "object": checked_expression("object", self.object),
                "stream": checked_expression("stream", self.stream),
                "value": checked_expression("value", self.value),
                "where": checked_expression("where", self.where),
                "streams": streams,
                "aggregate": aggregate,
                "weights": weights,
                "bounds": bounds,
                "occurrences": occurrences,
                "method": method,
                "intervals": checked_flag("intervals", self.intervals),
                "origin": window.origin,
                "axis": axis,
                "window": window,
            }
        )

    def scan_key(self) -> tuple[str | None, str | None, str | None, str | None]:
        """Return the fields that must be equal for queries to read the same tuples."""
        return self.object, self.stream, self.value, self.where

    def weight_of(self, stream: str | int) -> float:
        """Return the weight of a stream.

        >>> import skyband as sb
        >>> query = sb.IncompleteTopK(k=1, size=10, streams=["a", "b"], weights={"b": 2})
        >>> query.weight_of("a"), query.weight_of("b")
        (1.0, 2.0)
        """
        return float(dict(self.weights or ()).get(stream, 1.0))

    @property
    def score_text(self) -> str:
        """Short description of the score."""
        return f"{self.aggregate} of {self.value or 'values'}"

    @property
    def ranked_text(self) -> str:
        """Short description of the ranking."""
        return f"the {self.k} best {'objects' if self.object is None else f'values of {self.object}'}"


def _checked_k(k: object) -> int:
    value = checked_k(k)
    if value > MOST_K:
        raise InvalidQueryError(
            f"k={value} must be at most {MOST_K} for an IncompleteTopK query. The engines allocate the rows of an "
            "answer in advance, and a larger k would take gigabytes."
        )
    return value


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


def _checked_aggregate(aggregate: object) -> str:
    if isinstance(aggregate, str) and aggregate in MONOTONE:
        return aggregate
    raise InvalidQueryError(
        f"aggregate={aggregate!r} must be one of {', '.join(map(repr, MONOTONE))}. Only monotone aggregates bound the "
        "score of an object before all its values have arrived."
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


def _checked_bounds(bounds: object) -> tuple[float, float]:
    try:
        if isinstance(bounds, str | Mapping):
            raise TypeError
        low, high = (float(value) for value in bounds)  # type: ignore[attr-defined]  # other types are rejected below
    except OverflowError:
        low, high = -math.inf, math.inf  # an integer outside the float range
    except (TypeError, ValueError):
        raise InvalidQueryError(
            f"bounds={bounds!r} must be a pair of the smallest and the largest value, for example (0, 1)."
        ) from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidQueryError(
            f"bounds={bounds!r} must be two finite numbers, the smaller first. They bound how far a score can rise."
        )
    return low, high


def _reject_overflow(
    bounds: tuple[float, float], occurrences: int, streams: tuple[str | int, ...] | None, weights: Mapping[Any, float]
) -> None:
    """Reject bounds that allow a score to overflow: infinite scores cannot be ranked."""
    largest = max(map(abs, bounds)) * occurrences
    total = sum(largest * weights.get(stream, 1.0) for stream in streams or (None,))
    if not math.isfinite(total):
        raise InvalidQueryError(
            f"bounds={bounds!r} with occurrences={occurrences} and weights={weights!r} allow scores to exceed the "
            "float range, where they cannot be ranked. Scale the values down."
        )


def _checked_occurrences(occurrences: object) -> int:
    if not is_integer(occurrences) or not 1 <= operator.index(occurrences) < 2**31:  # type: ignore[arg-type]
        raise InvalidQueryError(
            f"occurrences={occurrences!r} must be an integer between 1 and {2**31 - 1}. It limits how many tuples of "
            "an object in one stream count per window."
        )
    return operator.index(occurrences)  # type: ignore[arg-type]  # checked above
