"""Objects whose attributes arrive in different streams at different moments, some of them never."""

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
    "sum": "the sum of an object's attributes, each times its weight",
    "avg": "their mean over all declared streams",
    "min": "the smallest of them",
    "max": "the largest of them",
}
Method = Literal["exact", "sorted-lists", "approximate"]
MOST_K = 2**24
METHODS = {
    "exact": "early aggregation (EAA): keeps only the instances of objects that may still be in an answer",
    "sorted-lists": "a sorted list per stream and the threshold algorithm (SLA): keeps every tuple of the window",
    "approximate": "early aggregation with likely instead of best possible scores: keeps fewer, may miss some",
}


@dataclass(frozen=True, kw_only=True, repr=False)
class IncompleteTopK(Query):
    """The k best objects at every ``origin + i * every``, over tuples (object, stream, value) of the last `size`.

    An object's score is the aggregate of its value in each declared stream, with the lower bound where the window holds
    no tuple of it in that stream; objects with at least one tuple compete. Higher scores come first; of equal ones the
    object seen last, then the larger object id.

    Parameters
    ----------
    k
        How many objects an answer ranks, at least 1.
    size, every
        Interval text (``"10 minutes"``) or `timedelta` for a window over event time, integers for a window over the
        last `size` tuples of all streams together. `every` defaults to `size`.
    name
        What the query is called in its answers; unique in a workload.
    object, stream, value, where
        SQL expressions for the object id, the name of the stream, the attribute's value and a filter. Arrays carry them
        themselves, so that `skyband.incomplete.replay` needs none of them.
    streams
        The names of all streams. In process they default to those in the input.
    aggregate, weights
        ``"sum"`` (with ``weights={stream: factor}``, 1 where a stream has none), ``"avg"``, ``"min"`` or ``"max"``.
    bounds
        The smallest and the largest value a tuple may have. A value outside is refused: scores could not be bounded.
    occurrences
        How often a stream may report an object in one window; its values add up. What comes more often is left out and
        counted.
    method
        ``"exact"``, ``"sorted-lists"`` (exact too, keeps every tuple) or ``"approximate"``.
    intervals
        Whether answers also tell, for each object, the best score it may still come to by attributes that have not
        arrived (``best``), and whether it stays among the k best even if all others come to theirs (``sure``). For
        ``method="exact"``.
    origin
        Where the answers are anchored: a `datetime`, ISO text or microseconds (time), or a tuple's number (count).

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
                f"bounds={self.bounds!r} with occurrences={occurrences}: values that add up must not be negative, or "
                "one more of them could lower a score. Shift the values, or ask for occurrences=1."
            )
        weights = _checked_weights(self.weights, streams, aggregate)
        _refuse_endless(bounds, occurrences, streams, dict(weights or ()))
        method = checked_choice("method", self.method, METHODS)
        if self.intervals is True and method != "exact":
            raise InvalidQueryError(
                f"intervals=True with method={method!r}: only method='exact' knows how far scores can still rise."
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
        """What queries must agree in to read the same tuples."""
        return self.object, self.stream, self.value, self.where

    def weight_of(self, stream: str | int) -> float:
        """The factor of a stream's values.

        >>> import skyband as sb
        >>> query = sb.IncompleteTopK(k=1, size=10, streams=["a", "b"], weights={"b": 2})
        >>> query.weight_of("a"), query.weight_of("b")
        (1.0, 2.0)
        """
        return float(dict(self.weights or ()).get(stream, 1.0))

    @property
    def score_text(self) -> str:
        """What the score is, in a few words."""
        return f"{self.aggregate} of {self.value or 'values'}"

    @property
    def ranked_text(self) -> str:
        """What is ranked, in a few words."""
        return f"the {self.k} best {'objects' if self.object is None else f'values of {self.object}'}"


def _checked_k(k: object) -> int:
    value = checked_k(k)
    if value > MOST_K:
        raise InvalidQueryError(
            f"k={value} must be at most {MOST_K} for an incomplete stream: the engines reserve the rows of an answer "
            "when they are made, and so many take gigabytes. Ask for fewer."
        )
    return value


def checked_streams(streams: object) -> tuple[str | int, ...] | None:
    """The names of streams, each once; all are text or all are whole numbers."""
    if streams is None:
        return None
    try:
        names: tuple[Any, ...] = () if isinstance(streams, str) else tuple(streams)  # type: ignore[arg-type]
    except TypeError:
        names = ()
    if not names:
        raise InvalidQueryError(f"streams={streams!r} must be a list of names; an object has an attribute in each.")
    texts = [isinstance(name, str) for name in names]
    if any(texts) != all(texts) or not all(text or is_integer(name) for text, name in zip(texts, names, strict=True)):
        raise InvalidQueryError(f"streams={names!r} must be all text or all whole numbers; others cannot be compared.")
    found = tuple(map(str, names)) if all(texts) else tuple(operator.index(name) for name in names)
    if len(set(found)) < len(found):
        raise InvalidQueryError(f"streams={found!r} names a stream twice; an object has one attribute in each.")
    return found


def _checked_aggregate(aggregate: object) -> str:
    if isinstance(aggregate, str) and aggregate in MONOTONE:
        return aggregate
    raise InvalidQueryError(
        f"aggregate={aggregate!r} must be one of {', '.join(map(repr, MONOTONE))}: of an aggregate that may fall when "
        "a value rises, nothing bounds the score of an object whose other values have not arrived."
    )


def _checked_weights(
    weights: object, streams: tuple[str | int, ...] | None, aggregate: str
) -> tuple[tuple[str | int, float], ...] | None:
    if weights is None:
        return None
    if aggregate != "sum":
        raise InvalidQueryError(f"weights={weights!r} were given, but only aggregate='sum' has them.")
    try:
        found = dict(weights)  # type: ignore[call-overload]  # what is no mapping is refused
    except (TypeError, ValueError):
        raise InvalidQueryError(f"weights={weights!r} must map streams to factors: {{'stream': 2.0}}.") from None
    for stream, weight in found.items():
        if streams is not None and stream not in streams:
            raise UnknownNameError.among("stream in weights=", repr(stream), map(repr, streams))
        if not 0 <= as_number(weight) < math.inf:
            raise InvalidQueryError(
                f"weights[{stream!r}]={weight!r} must be a finite number, and not negative: a score would fall when a "
                "value rises, and nothing could be told of an object before all its values have arrived."
            )
    return tuple((stream, float(weight)) for stream, weight in found.items())


def _checked_bounds(bounds: object) -> tuple[float, float]:
    try:
        if isinstance(bounds, str | Mapping):
            raise TypeError
        low, high = (float(value) for value in bounds)  # type: ignore[attr-defined]  # what is no pair is refused
    except OverflowError:
        low, high = -math.inf, math.inf  # a whole number beyond all floats
    except (TypeError, ValueError):
        raise InvalidQueryError(f"bounds={bounds!r} must be the smallest and the largest value: (0, 1).") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidQueryError(
            f"bounds={bounds!r} must be two finite numbers, the smaller first; from them follows how far a score can "
            "still rise."
        )
    return low, high


def _refuse_endless(
    bounds: tuple[float, float], occurrences: int, streams: tuple[str | int, ...] | None, weights: Mapping[Any, float]
) -> None:
    """Refuse bounds that let a sum grow beyond all numbers: what is infinite twice over cannot be ranked."""
    largest = max(map(abs, bounds)) * occurrences
    total = sum(largest * weights.get(stream, 1.0) for stream in streams or (None,))
    if not math.isfinite(total):
        raise InvalidQueryError(
            f"bounds={bounds!r} with occurrences={occurrences} and weights={weights!r} let a score grow beyond the "
            "largest number, where scores can no longer be told apart. Scale the values down."
        )


def _checked_occurrences(occurrences: object) -> int:
    if not is_integer(occurrences) or not 1 <= operator.index(occurrences) < 2**31:  # type: ignore[arg-type]
        raise InvalidQueryError(
            f"occurrences={occurrences!r} must be a whole number of at least 1 and below 2**31; so often a stream may "
            "report an object in one window."
        )
    return operator.index(occurrences)  # type: ignore[arg-type]  # checked just above
