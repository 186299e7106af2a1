"""The query class for ranking tuples that exist with a probability."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, Literal, NamedTuple, TypeGuard

from skyband.errors import InvalidQueryError
from skyband.queries.base import Query
from skyband.queries.fields import (
    Axis,
    as_number,
    checked_choice,
    checked_columns,
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
    "OWN_COLUMNS",
    "SEMANTICS",
    "Meaning",
    "Semantics",
    "UncertainTopK",
    "checked_epsilon",
    "checked_meaning",
    "classes_of",
    "requests_of",
    "require_one_grouping",
    "require_one_order",
    "require_one_size",
    "require_one_size_per_class",
    "stream_of",
]

Semantics = Literal["pk-topk", "global-topk", "pt-k", "u-kranks", "u-topk", "expected-rank", "prf"]
SEMANTICS = {
    "pk-topk": "the k tuples with the highest probability of being in the top k",
    "global-topk": "another name for 'pk-topk'",
    "pt-k": "all tuples that are in the top k with a probability of at least `threshold`",
    "u-kranks": "for each rank the tuple most likely to have it",
    "u-topk": "the list of k tuples most likely to be the top k",
    "expected-rank": "the k tuples with the lowest expected rank",
    "prf": "the k tuples with the highest sum over all ranks of the rank's weight times its probability",
}
_RANKED = {
    "pk-topk": "the {k} tuples most likely to be in the top {k}",
    "global-topk": "the {k} tuples most likely to be in the top {k}",
    "pt-k": "all tuples in the top {k} with a probability of at least {threshold}",
    "u-kranks": "the most likely tuple for each of the first {k} ranks",
    "u-topk": "the most likely top-{k} list",
    "expected-rank": "the {k} tuples with the lowest expected rank",
    "prf": "the {k} tuples with the highest weighted rank probabilities",
}
OWN_COLUMNS = {"expected_rank": "expected-rank", "prf": "prf"}  # optional answer columns, and their semantics
# Fields that states and journals contain only if they are set, so that those of other queries are as before.
_OPTIONAL = ("partition_by",)
_MOST_WEIGHTS = 100_000
_OF_STREAMS = ("pk-topk", "global-topk")


class Meaning(NamedTuple):
    """Validated parameters of a semantics."""

    k: int
    semantics: str
    threshold: float | None = None
    weights: tuple[float, ...] | None = None
    alpha: float | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class UncertainTopK(Query):
    """The k best tuples of the last `size`, at least once per `every`, where tuples exist with a probability.

    `every` is the maximum time between two answers. A shared plan runs all queries and may answer a query more often,
    but never less often. The first answer comes at most `every` after the first tuple.

    Parameters
    ----------
    k
        Size of the top k, at least 1.
    size, every
        Interval text (``"20 minutes"``) or `timedelta` for a window over event time, integers for a window over the
        last `size` tuples. `every` defaults to `size`. All queries of a workload must have the same size.
    name
        Name of the query in its answers. Must be unique in a workload.
    by, probability, rule, where
        SQL expressions for the score, the probability, the label of the rule (null for none) and a filter. Tuples of
        one rule exclude each other. `skyband.uncertain.replay` and `skyband.uncertain.Monitor` take these as arrays and
        need none of them.
    partition_by
        SQL expressions for the groups: each group has its own ranking, and its own windows over the last tuples. Rules
        exclude tuples of their group only. All groups are answered at the same moments, which do not depend on the
        first tuple. In process, groups are passed as an array (``groups=``).
    semantics
        ``"pk-topk"``, ``"global-topk"``, ``"pt-k"``, ``"u-kranks"``, ``"u-topk"``, ``"expected-rank"`` or ``"prf"``.
        See `skyband.uncertain.rank` for their definitions.
    threshold
        The minimum probability, in (0, 1]. Required for ``"pt-k"``.
    weights, alpha
        For ``"prf"``, one of them: the weights of the ranks 1, 2, …, all others being 0; or a number in (0, 1], where
        rank i has the weight ``alpha ** i``.
    stream
        An SQL expression for the stream of a tuple. If set, the query ranks streams instead of tuples, by the sum of
        their tuples' probabilities of being in the top k. For ``"pk-topk"`` and ``"global-topk"``. In process, streams
        are passed as an array (``streams=``), and any text can be used here.
    order
        ``"desc"``: higher scores are better, ``"asc"``: lower scores are better. All queries of a monitor of arrays
        must have the same order.

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
    partition_by: Iterable[str] = ()
    semantics: Semantics = "pk-topk"
    threshold: float | None = None
    weights: Sequence[float] | None = None
    alpha: float | None = None
    stream: str | None = None
    order: Literal["desc", "asc"] = "desc"
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
                f"probability=None, but by={by!r} is set. Set probability= to the column with the tuples' "
                "probabilities, or use sb.TopK for certain tuples."
            )
        if probability is not None and by is None:
            raise InvalidQueryError(
                f"by=None, but probability={probability!r} is set. Set by= to the column with the tuples' scores."
            )
        k, semantics, threshold, weights, alpha = checked_meaning(
            self.k, self.semantics, self.threshold, self.weights, self.alpha
        )
        stream = checked_expression("stream", self.stream)
        if stream is not None and semantics not in _OF_STREAMS:
            raise InvalidQueryError(
                f"semantics={semantics!r} is not supported with stream={stream!r}: streams are ranked by the sum of "
                f"their tuples' top-k probabilities. Use semantics={' or '.join(map(repr, _OF_STREAMS))}, or remove "
                "stream= to rank tuples."
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
                "partition_by": checked_columns(self.partition_by),
                "semantics": semantics,
                "threshold": threshold,
                "weights": weights,
                "alpha": alpha,
                "stream": stream,
                "order": checked_choice("order", self.order, {"desc": "higher first", "asc": "lower first"}),
                "axis": axis,
                "window": window,
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the query as plain values for JSON; ``UncertainTopK(**query.to_dict())`` is the same query.

        >>> import skyband as sb
        >>> sb.UncertainTopK(k=1, size=9, partition_by="region").to_dict()["partition_by"]
        ['region']
        """
        return {name: value for name, value in super().to_dict().items() if value or name not in _OPTIONAL}

    @property
    def ascending(self) -> bool:
        """Whether lower scores are better.

        >>> import skyband as sb
        >>> sb.UncertainTopK(k=3, size=9, order="asc").ascending
        True
        """
        return self.order == "asc"

    @property
    def depth(self) -> int | None:
        """The last rank that matters: a tuple with so many better ones is in no answer. None if all ranks matter.

        >>> import skyband as sb
        >>> sb.UncertainTopK(k=3, size=9).depth
        3
        >>> sb.UncertainTopK(k=3, size=9, semantics="prf", weights=[1, 0.5, 0.25, 0.125]).depth
        4
        """
        if self.semantics == "expected-rank" or self.alpha is not None:
            return None
        return self.k if self.weights is None else len(self.weights)

    @property
    def needs_all_tuples(self) -> bool:
        """Whether answers depend on every tuple of the window, however many better ones there are.

        >>> import skyband as sb
        >>> sb.UncertainTopK(k=3, size=9).needs_all_tuples
        False
        >>> sb.UncertainTopK(k=3, size=9, semantics="expected-rank").needs_all_tuples
        True
        """
        return self.semantics == "expected-rank" or self.alpha == 1.0

    @property
    def ranked_text(self) -> str:
        """Short description of the ranking.

        >>> import skyband as sb
        >>> sb.UncertainTopK(k=2, size="1 hour", stream="ship").ranked_text
        'the 2 values of ship with the most expected tuples in the top 2'
        """
        if self.stream is not None:
            found = f"the {self.k} values of {self.stream} with the most expected tuples in the top {self.k}"
        else:
            found = _RANKED[self.semantics].format(k=self.k, threshold=self.threshold)
        return f"{found}, lowest scores first" if self.ascending else found

    def to_sql(self, *, named: bool = False) -> str:
        """Return the query in its canonical form, one line of SQL. `skyband.sql` parses it.

        >>> import skyband as sb
        >>> print(sb.UncertainTopK(k=3, size="20 minutes", every="2 minutes", by="speed", probability="confidence"))
        TOPK speed, 3 PROBABILITY confidence OVER 20 MINUTES FREQUENCY 2 MINUTES
        """
        return writer.write_uncertain(self.to_dict(), named=named)

    def scan_key(self) -> tuple[Any, ...]:
        """Return the fields that must be equal for queries to run together, except `stream`."""
        shared = (self.by, self.probability, self.rule, self.where)
        ordered = (*shared, self.order) if self.ascending else shared
        return (*ordered, self.groups) if self.groups else ordered

    @classmethod
    def check_together(cls, queries: Iterable[Any]) -> None:
        """Reject queries that run together but have different window sizes."""
        require_one_size_per_class(queries)


def stream_of(queries: Iterable[UncertainTopK]) -> str | None:
    """Return the `stream` expression of a class of queries, None if all of them rank tuples."""
    return next((query.stream for query in queries if query.stream is not None), None)


def requests_of(queries: Iterable[UncertainTopK]) -> tuple[tuple[int, int], ...]:
    """Return (every, k) of each query for `schedule`. A pass computes as many ranks as there are weights."""
    return tuple((query.window.slide, query.depth or query.k) for query in queries)


def classes_of(queries: Iterable[UncertainTopK]) -> tuple[tuple[UncertainTopK, ...], ...]:
    """Group queries into classes that run together, in order of first appearance.

    One pass computes the probabilities of all tuples, for rankings of tuples and of streams. But a tuple has only one
    stream label: each distinct `stream` expression has a separate class, and queries that rank tuples belong to the
    first one.

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


def require_one_size_per_class(queries: Iterable[UncertainTopK]) -> None:
    """Reject queries that must run together but have different window sizes."""
    for together in classes_of(queries):
        require_one_size(together, "all queries of a class")


def require_one_size(queries: Sequence[UncertainTopK], which: str = "all queries") -> None:
    """Reject queries with different window sizes."""
    first = queries[0]
    for query in queries:
        if query.window.size != first.window.size:
            raise InvalidQueryError(
                f"queries {first.name!r} and {query.name!r} have different sizes ({first.size!r} and {query.size!r}), "
                f"but a run answers {which} from one window. Make two workloads of them."
            )


def require_one_order(queries: Sequence[UncertainTopK]) -> None:
    """Reject queries that rank the same tuples in different orders."""
    first = queries[0]
    for query in queries:
        if query.order != first.order:
            raise InvalidQueryError(
                f"queries {first.name!r} and {query.name!r} have different orders ({first.order!r} and "
                f"{query.order!r}), but one pass over a window ranks tuples in one order. Use a monitor for each "
                "order, or data frames."
            )


def require_one_grouping(queries: Sequence[UncertainTopK]) -> None:
    """Reject queries that rank the same tuples in different groups."""
    first = queries[0]
    for query in queries:
        if query.groups != first.groups:
            raise InvalidQueryError(
                f"queries {first.name!r} and {query.name!r} have different groups ({list(first.groups)} and "
                f"{list(query.groups)}), but a monitor of arrays gets one group for each tuple. Use a monitor for each "
                "of them, or data frames."
            )


def checked_meaning(
    k: object, semantics: object, threshold: object = None, weights: object = None, alpha: object = None
) -> Meaning:
    """Return validated parameters. Those that the semantics does not have must be None."""
    meaning = checked_choice("semantics", semantics, SEMANTICS)
    for name, given, owner in (("threshold", threshold, "pt-k"), ("weights", weights, "prf"), ("alpha", alpha, "prf")):
        if given is not None and meaning != owner:
            raise InvalidQueryError(
                f"{name}={given!r} is not supported with semantics={meaning!r}. Remove {name}=, or use "
                f"semantics={owner!r}."
            )
    return Meaning(
        checked_k(k),
        meaning,
        _checked_threshold(threshold) if meaning == "pt-k" else None,
        *(_checked_weights(weights, alpha) if meaning == "prf" else ()),
    )


def _checked_threshold(threshold: object) -> float:
    if threshold is None:
        raise InvalidQueryError(
            "threshold=None is missing; semantics='pt-k' needs the minimum probability of being in the top k, a number "
            "in (0, 1]."
        )
    if not 0 < as_number(threshold) <= 1:
        raise InvalidQueryError(
            f"threshold={threshold!r} must be a number in (0, 1] for semantics='pt-k'. It is the minimum probability "
            "of being in the top k."
        )
    return as_number(threshold)


def _checked_weights(weights: object, alpha: object) -> tuple[tuple[float, ...] | None, float | None]:
    """Return the weights of ranks, or the base of weights that fall geometrically."""
    if weights is None and alpha is None:
        raise InvalidQueryError(
            "weights=None is missing; semantics='prf' needs weights= of the ranks 1, 2, …, or alpha=, where rank i has "
            "the weight alpha ** i."
        )
    if weights is not None and alpha is not None:
        raise InvalidQueryError(f"alpha={alpha!r} is not supported with weights=. Remove one of them.")
    if alpha is not None:
        if not 0 < as_number(alpha) <= 1:
            raise InvalidQueryError(
                f"alpha={alpha!r} must be a number in (0, 1] for semantics='prf'. Rank i has the weight alpha ** i."
            )
        return None, as_number(alpha)
    found = [as_number(one) for one in weights] if _is_listed(weights) else []
    if not found or not all(map(math.isfinite, found)) or not any(found) or len(found) > _MOST_WEIGHTS:
        shown = f"{len(found)} weights" if len(found) > _MOST_WEIGHTS else repr(weights)
        raise InvalidQueryError(
            f"weights must be a list of 1 to {_MOST_WEIGHTS} finite numbers, not all 0, got {shown}. They are the "
            "weights of the ranks 1, 2, …; ranks without a weight count 0."
        )
    while not found[-1]:  # a last weight of 0 changes nothing
        found.pop()
    return tuple(found), None


def _is_listed(weights: object) -> TypeGuard[Iterable[object]]:
    return isinstance(weights, Iterable) and not isinstance(weights, str | bytes | Mapping)


def checked_epsilon(epsilon: object) -> float:
    """Return the validated maximum error of probabilities."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 <= epsilon < 1:
        raise InvalidQueryError(
            f"epsilon={epsilon!r} must be a number in [0, 1). It is the maximum error of probabilities; 0 means exact."
        )
    return float(epsilon)
