"""Readings that are only probably true: which are the best, and what that means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, Literal

from skyband.errors import InvalidQueryError
from skyband.queries.base import Query
from skyband.queries.fields import (
    Axis,
    as_number,
    checked_choice,
    checked_expression,
    checked_k,
    checked_name,
    same_axis,
    spelled,
    window_of,
)
from skyband.queries.sharing import places_by
from skyband.sql import writer
from skyband.windows import SlidingWindow

__all__ = [
    "SEMANTICS",
    "Semantics",
    "UncertainTopK",
    "checked_epsilon",
    "checked_meaning",
    "classes_of",
    "refuse_other_sizes",
    "refuse_several_sizes",
    "stream_of",
]

Semantics = Literal["pk-topk", "global-topk", "pt-k", "u-kranks", "u-topk", "expected-rank"]
SEMANTICS = {
    "pk-topk": "the k tuples with the highest probability of being among the k best",
    "global-topk": "the same under its other name",
    "pt-k": "all tuples that are among the k best with at least the probability `threshold`",
    "u-kranks": "for each rank the tuple most likely to have it",
    "u-topk": "the list most likely to be the k best",
    "expected-rank": "the k tuples with the lowest expected rank",
}
_RANKED = {
    "pk-topk": "the {k} likeliest to be among the {k} best",
    "global-topk": "the {k} likeliest to be among the {k} best",
    "pt-k": "all that are among the {k} best with a probability of at least {threshold}",
    "u-kranks": "the likeliest for each of the first {k} ranks",
    "u-topk": "the likeliest list of the {k} best",
    "expected-rank": "the {k} of the lowest expected rank",
}
_OF_STREAMS = ("pk-topk", "global-topk")


@dataclass(frozen=True, kw_only=True, repr=False)
class UncertainTopK(Query):
    """The k best of the last `size`, at least once in every `every`, where tuples exist with a probability only.

    `every` bounds the time between two answers from above. Queries are run together by a shared plan, which may answer
    one of them more often, never less; the first answer comes at most `every` after the first tuple.

    Parameters
    ----------
    k
        How many tuples compete for a place, at least 1.
    size, every
        Interval text (``"20 minutes"``) or `timedelta` for a window over event time, integers for a window over the
        last `size` tuples. `every` defaults to `size`. All queries of a workload have one size.
    name
        What the query is called in its answers; unique in a workload.
    by, probability, rule, where
        SQL expressions for the score, the probability, the label of the rule (null: none) and a filter. Tuples of one
        rule exclude each other. Arrays carry all that themselves, so that `skyband.uncertain.replay` needs none.
    semantics
        ``"pk-topk"``, ``"global-topk"``, ``"pt-k"``, ``"u-kranks"``, ``"u-topk"`` or ``"expected-rank"``; what they
        mean is told by `skyband.uncertain.rank`.
    threshold
        For ``"pt-k"``, and needed there: the least probability, in (0, 1].
    stream
        An SQL expression that tells which stream a tuple comes from, to rank the streams instead of their tuples: by
        the sum of their tuples' probabilities of being among the k best. For ``"pk-topk"`` and ``"global-topk"``.
        Arrays carry the streams themselves (``streams=``), so that any text will do there.

    Examples
    --------
    >>> import skyband as sb
    >>> sb.UncertainTopK(name="fast", k=3, size="20 minutes", every="2 minutes", by="speed", probability="confidence")
    UncertainTopK(name='fast', k=3, size='20 minutes', every='2 minutes', by='speed', probability='confidence')
    """

    family: ClassVar[str] = "uncertain"
    moment: ClassVar[str] = "time"
    at_least: ClassVar[bool] = True
    starts_whole: ClassVar[bool] = False

    name: str = "topk"
    k: int
    size: str | timedelta | int
    every: str | timedelta | int | None = None
    by: str | None = None
    probability: str | None = None
    rule: str | None = None
    where: str | None = None
    semantics: Semantics = "pk-topk"
    threshold: float | None = None
    stream: str | None = None
    axis: Axis = field(init=False, compare=False)
    window: SlidingWindow = field(init=False, compare=False)

    def __post_init__(self) -> None:
        every = self.size if self.every is None else self.every
        axis = same_axis(self.size, every, "every")
        window = window_of(axis, self.size, every, None, called="every")
        by = checked_expression("by", self.by)
        probability = checked_expression("probability", self.probability)
        if by is not None and probability is None:
            raise InvalidQueryError(
                f"probability=None beside by={by!r}: without the column that holds the tuples' probabilities nothing "
                "is uncertain. Name it, or ask sb.TopK."
            )
        if probability is not None and by is None:
            raise InvalidQueryError(
                f"by=None beside probability={probability!r}: tuples without a score have no order. Name its column."
            )
        k, semantics, threshold = checked_meaning(self.k, self.semantics, self.threshold)
        stream = checked_expression("stream", self.stream)
        if stream is not None and semantics not in _OF_STREAMS:
            raise InvalidQueryError(
                f"semantics={semantics!r} beside stream={stream!r}: streams are ranked by the sum of their tuples' "
                f"probabilities of being among the k best, which only {' and '.join(map(repr, _OF_STREAMS))} speak of. "
                "Ask for one of these, or leave stream= out to rank tuples."
            )
        self._settle(
            {
                "name": checked_name(self.name),
                "k": k,
                "size": spelled(axis, window.size),
                "every": spelled(axis, window.slide),
                "by": by,
                "probability": probability,
                "rule": checked_expression("rule", self.rule),
                "where": checked_expression("where", self.where),
                "semantics": semantics,
                "threshold": threshold,
                "stream": stream,
                "axis": axis,
                "window": window,
            }
        )

    @property
    def ranked_text(self) -> str:
        """What is ranked, in a few words.

        >>> import skyband as sb
        >>> sb.UncertainTopK(k=2, size="1 hour", stream="ship").ranked_text
        'the 2 values of ship expected to have most of the 2 best'
        """
        if self.stream is not None:
            return f"the {self.k} values of {self.stream} expected to have most of the {self.k} best"
        return _RANKED[self.semantics].format(k=self.k, threshold=self.threshold)

    def to_sql(self, *, named: bool = False) -> str:
        """The query as one line of SQL, its canonical form; `skyband.sql` reads it back.

        >>> import skyband as sb
        >>> print(sb.UncertainTopK(k=3, size="20 minutes", every="2 minutes", by="speed", probability="confidence"))
        TOPK speed, 3 PROBABILITY confidence OVER 20 MINUTES FREQUENCY 2 MINUTES
        """
        return writer.write_uncertain(self.to_dict(), named=named)

    def scan_key(self) -> tuple[str | None, str | None, str | None, str | None]:
        """What queries must agree in to be run together; streams apart, which only some of them rank."""
        return self.by, self.probability, self.rule, self.where

    @classmethod
    def check_together(cls, queries: Iterable[Any]) -> None:
        """Refuse queries that run together, but over windows of different sizes."""
        refuse_other_sizes(queries)


def stream_of(queries: Iterable[UncertainTopK]) -> str | None:
    """What tells the streams apart for the queries of a class; None: all of them rank tuples."""
    return next((query.stream for query in queries if query.stream is not None), None)


def classes_of(queries: Iterable[UncertainTopK]) -> tuple[tuple[UncertainTopK, ...], ...]:
    """The queries that run together, in the order in which they first appear.

    A pass gives every tuple its probability, whether tuples are ranked or streams, so that both may share it. But a
    tuple has one label: where streams are told apart in several ways, each way has a class, and queries that rank
    tuples belong to the first.

    >>> import skyband as sb
    >>> shared = {"k": 1, "size": "1 hour", "by": "height", "probability": "p"}
    >>> names = [("a", "sensor"), ("b", None), ("c", "region"), ("d", "sensor")]
    >>> queries = [sb.UncertainTopK(name=name, stream=stream, **shared) for name, stream in names]
    >>> [[query.name for query in together] for together in classes_of(queries)]
    [['a', 'b', 'd'], ['c']]
    """
    queries = tuple(queries)
    alike = places_by(UncertainTopK.sharing_key, queries)
    first = {shared: stream_of(queries[place] for place in places) for shared, places in alike.items()}
    found = places_by(lambda query: (query.sharing_key(), query.stream or first[query.sharing_key()]), queries)
    return tuple(tuple(queries[place] for place in places) for places in found.values())


def refuse_other_sizes(queries: Iterable[UncertainTopK]) -> None:
    """Refuse queries that ought to run together, but over windows of different sizes."""
    for together in classes_of(queries):
        refuse_several_sizes(together, "all queries of a class")


def refuse_several_sizes(queries: Sequence[UncertainTopK], which: str = "all queries") -> None:
    """Refuse queries that cannot be answered from the same arrays."""
    first = queries[0]
    for query in queries:
        if query.window.size != first.window.size:
            raise InvalidQueryError(
                f"queries {first.name!r} and {query.name!r} have different sizes ({first.size!r} and {query.size!r}); "
                f"a run answers {which} from the tuples of one window. Make two workloads of them."
            )


def checked_meaning(k: object, semantics: object, threshold: object) -> tuple[int, str, float | None]:
    """What an answer is to hold: k, the semantics, and the threshold where there is one."""
    meaning = checked_choice("semantics", semantics, SEMANTICS)
    if meaning != "pt-k":
        if threshold is not None:
            raise InvalidQueryError(
                f"threshold={threshold!r} was given, but only semantics='pt-k' has one; {meaning!r} would ignore it."
            )
        return checked_k(k), meaning, None
    if threshold is None:
        raise InvalidQueryError(
            "threshold=None is missing; semantics='pt-k' needs the least probability of being among the k best that an "
            "answer tells, a number in (0, 1]."
        )
    if not 0 < as_number(threshold) <= 1:
        raise InvalidQueryError(
            f"threshold={threshold!r} must be a number in (0, 1] for semantics='pt-k'; it is the least probability of "
            "being among the k best that an answer tells."
        )
    return checked_k(k), meaning, as_number(threshold)


def checked_epsilon(epsilon: object) -> float:
    """By how much probabilities may be off."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 <= epsilon < 1:
        raise InvalidQueryError(
            f"epsilon={epsilon!r} must be a number in [0, 1); by so much probabilities may be off, 0 for not at all."
        )
    return float(epsilon)
