"""The queries that run together over one stream."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from skyband.display import Explanation, html_page, html_table
from skyband.errors import InvalidQueryError, UnknownNameError, UnsupportedError, brief
from skyband.queries import Axis, Query
from skyband.queries.families import FAMILIES, family_of, refuse_unsupported

__all__ = ["Workload", "of_family", "refuse_expressions"]

if TYPE_CHECKING:
    from skyband.topk.explain import Cost
    from skyband.topk.query import TopK

Q = TypeVar("Q", bound=Query, default="TopK")


@dataclass(frozen=True, slots=True)
class Workload(Generic[Q]):
    """One or more queries of one family with distinct names on one axis; frozen, ordered, comparable.

    >>> import skyband as sb
    >>> work = sb.Workload([
    ...     sb.TopK(name="hour", k=5, size="1 hour", slide="1 minute"),
    ...     sb.TopK(name="day", k=20, size="1 day", slide="1 hour"),
    ... ])
    >>> len(work), work.axis, work["day"].k
    (2, 'time', 20)
    """

    queries: tuple[Q, ...]

    def __init__(self, queries: Q | Iterable[Q] | Workload[Q]) -> None:
        try:
            found: tuple[Any, ...] = (queries,) if isinstance(queries, Query) else tuple(iter(queries))
        except TypeError as error:
            raise InvalidQueryError(f"{brief(queries)} is not a query. A workload consists of {_FAMILIES}.") from error
        for query in found:
            if not isinstance(query, Query):
                raise InvalidQueryError(f"{brief(query)} is not a query. A workload consists of {_FAMILIES}.")
        if not found:
            raise InvalidQueryError("a workload must contain at least one query, got none.")
        _refuse_mixed_families(found)
        _refuse_duplicates(found)
        _refuse_mixed_axes(found)
        type(found[0]).check_together(found)
        object.__setattr__(self, "queries", found)

    @property
    def family(self) -> str:
        """``"topk"``, ``"aggregate"``, ``"incomplete"`` or ``"uncertain"``: the family of all queries."""
        return self.queries[0].family

    @property
    def axis(self) -> Axis:
        """``"time"`` or ``"count"``: the axis of all windows."""
        return self.queries[0].axis

    def explain(self, *, on_spark: bool = False, plan: str | None = None) -> Explanation:
        """Describe what this workload answers, how much it keeps, and how it runs, in process or on Spark.

        The result is text that displays itself in notebooks. The first lines are a summary; details follow. For queries
        over uncertain streams, `plan` names the plan that runs them, if it is not the default.

        >>> import skyband as sb
        >>> print(sb.Workload([sb.TopK(name="big", k=10, size="10 minutes", slide="1 minute")]).explain())
        1 query over event time: the 10 best in 10 minutes, every 1 minute.
        Each row is processed once.
        Memory: about 29 candidate rows (at most 100). It keeps more if it switches to the algorithm sap (see below).
        <BLANKLINE>
        1 sharing class; the queries of a class share their candidates, the rows that can be in an answer
        class 1: by the given score, desc
          queries       1: big
          window        10 minutes
          views         10 open, for 10 open windows of the queries
          k per view    10 (10 views)
          panes         1 minute
          candidates    about 29 expected, never more than 100
          algorithm     panes: keeps MinTopk's minimal candidate set, updated once per pane instead of once per row; \
switches to sap if windows contain many rows and slides few; sap also keeps 8 to 24 bytes per row of the window; \
switches to mintopk while scores fall
        """
        family = family_of(self)
        if plan is not None:
            refuse_unsupported(family, "plan", f"plan={plan!r}")
        named = {} if plan is None else {"plan": plan}
        return Explanation(family.part("explain").page(self.queries, on_spark=on_spark, **named))

    def cost(self, query: Q) -> Cost:
        """Return the cost of adding `query`: additional views and candidates, and additional work per row.

        >>> import skyband as sb
        >>> work = sb.Workload([sb.TopK(name="day", k=20, size="1 day", slide="1 hour")])
        >>> print(work.cost(sb.TopK(name="half", k=20, size="12 hours", slide="1 hour")))
        +0 views, +0 candidates, +50% time
        """
        together = Workload([*self.queries, query])  # raises if the query cannot be added
        family = family_of(together)
        refuse_unsupported(family, "cost", "cost()")
        found: Cost = family.part("explain").cost(self.queries, query)
        return found

    def __iter__(self) -> Iterator[Q]:
        return iter(self.queries)

    def __len__(self) -> int:
        return len(self.queries)

    def __getitem__(self, name: str) -> Q:
        for query in self.queries:
            if query.name == name:
                return query
        raise UnknownNameError.among("query", name, (query.name for query in self.queries))

    def __str__(self) -> str:
        """Return the queries as SQL, one per line; `skyband.sql` parses them.

        >>> import skyband as sb
        >>> print(sb.Workload([sb.TopK(name="few", k=3, size=500), sb.TopK(name="many", k=90, size=500, slide=50)]))
        few: TOPK 3 OVER 500 ROWS;
        many: TOPK 90 OVER 500 ROWS EVERY 50 ROWS
        """
        # Statements without a name are numbered when there are several, so even the default name must be written.
        several = len(self.queries) > 1
        return ";\n".join(query.to_sql(named=several) or repr(query) for query in self.queries)

    def __repr__(self) -> str:
        return f"Workload([{', '.join(map(repr, self.queries))}])"

    def _repr_html_(self) -> str:
        """Return a table of the queries, without columns that are empty in all."""
        columns: dict[str, list[object]] = {
            "query": [query.name for query in self.queries],
            "k": [query.k for query in self.queries],
            "window": [query.window_text for query in self.queries],
            "score": [query.score_text for query in self.queries],
            "where": [getattr(query, "where", None) for query in self.queries],
            "for each": [", ".join(query.groups) or None for query in self.queries],
        }
        shown = {name: values for name, values in columns.items() if any(value is not None for value in values)}
        count = "1 query" if len(self) == 1 else f"{len(self):,} queries"
        title = f"{count} of family {self.family}, {self.axis} windows"
        return html_page(title, html_table(shown, zip(*shown.values(), strict=True), len(self)))


_FAMILIES = "skyband.{}, {}, {} or {} values".format(*(family.query for family in FAMILIES.values()))


def of_family(queries: Any, family: type[Q], user: str) -> Workload[Q]:
    """Return the workload of these queries, which must be of the family that `user` (a function or class) supports."""
    found = Workload(queries)
    first = found.queries[0]
    if not isinstance(first, family):
        raise UnsupportedError(
            f"{user} supports {family.__name__} queries, got query {first.name!r} of type {type(first).__name__}. "
            f"Use {family_of(first).answered_by}."
        )
    return found


def refuse_expressions(queries: Iterable[Any]) -> None:
    """Reject queries with a filter or an expression if rows are given as arrays, because nothing evaluates them.

    A plain column name is allowed: it documents what an array contains.

    >>> import skyband as sb
    >>> refuse_expressions([sb.TopK(k=1, size=10, by="price")])
    """
    for query in queries:
        if query.where is not None:
            raise InvalidQueryError(
                f"query {query.name!r} has where={query.where!r}, but rows given as arrays cannot be filtered. "
                "Filter the arrays first and omit where=, or pass a data frame with time= instead of arrays."
            )
        for name in _COLUMNS:
            given = getattr(query, name, None) or ()
            for text in (given,) if isinstance(given, str) else given:
                if not _NAME.fullmatch(text.strip()):
                    raise InvalidQueryError(
                        f"query {query.name!r} has {name}={text!r}, but expressions are not evaluated when rows are "
                        f"given as arrays. Compute the values first, pass them as an array, and omit {name}= or set it "
                        "to a column name; or pass a data frame with time= instead of arrays."
                    )


_COLUMNS = ("by", "partition_by", "key", "value", "delete", "object", "stream", "probability", "rule")
_NAME = re.compile(r"(?:[^\W\d]\w*|`[^`]+`)(?:\.(?:[^\W\d]\w*|`[^`]+`))*")


def _refuse_mixed_families(queries: tuple[Query, ...]) -> None:
    first = queries[0]
    for query in queries:
        if query.family != first.family:
            raise InvalidQueryError(
                f"all queries of a workload must be of one family, but {first.name!r} is of type "
                f"{type(first).__name__} and {query.name!r} of type {type(query).__name__}. Make two workloads of them."
            )


def _refuse_duplicates(queries: tuple[Query, ...]) -> None:
    seen: set[str] = set()
    for query in queries:
        if query.name in seen:
            raise InvalidQueryError(
                f"name={query.name!r} is used by more than one query. Names identify queries in answers; give each "
                "query a different name=."
            )
        seen.add(query.name)


def _refuse_mixed_axes(queries: tuple[Query, ...]) -> None:
    first = queries[0]
    for query in queries:
        if query.axis != first.axis:
            raise InvalidQueryError(
                f"all queries of a workload must be on one axis, but {first.name!r} has {first.axis} windows and "
                f"{query.name!r} has {query.axis} windows. Make two workloads of them."
            )
