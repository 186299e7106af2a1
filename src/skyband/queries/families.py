"""The registry of query families: what each is called, what its answers look like, what it lacks, where its parts are.

A family is a package of `skyband` with the same file names as the others (query, monitor, shard, spark, explain, …).
Adding one is a package and an entry here. No other module asks which family a query is of: it reads the entry. The
parts are loaded when they are first asked for, so that a query of one family loads no compiled code of another.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any, Literal

from skyband.errors import UnsupportedError
from skyband.queries.answer_schema import AnswerColumn, AnswerSchema, moment_of

__all__ = ["FAMILIES", "Family", "Feature", "family_of", "inferred_family", "refuse_unsupported"]

Feature = Literal[
    "add to count windows",  # a query, to a monitor, after the first push
    "algorithm",  # an algorithm chosen by name
    "plan",  # a schedule for all queries of a class, chosen by name
    "changes",  # the change feed
    "late rows",  # handed back
    "refusing late rows",
    "frames by name",  # several data frames, one for each stream
    "shards",  # state cut into parts
    "count windows",  # on Spark
    "cost",  # of one more query
    "timeline",  # a plan that can be drawn
    "verification",  # by brute force in Spark SQL
    "whole rows",  # answers bring back all columns of a row
]


@dataclass(frozen=True, kw_only=True)
class Family:
    """One family of queries."""

    name: str  # in workload files, and in `Query.family`
    query: str  # the name of its class of queries
    namespace: str  # where users find its `replay` and `Monitor`
    answers: AnswerSchema
    engines: str | None = None  # where the names of its algorithms or plans are: a module and a name in it
    clauses: bool = False  # whether its module `sql` reads clauses that only its queries have
    lacks: Mapping[Feature, str] = field(default_factory=dict)  # what it does not support: what happens, what to do

    @property
    def package(self) -> str:
        """The package that holds its parts.

        >>> FAMILIES["aggregate"].package
        'skyband.aggregate'
        """
        return f"skyband.{self.name}"

    @property
    def monitor(self) -> str:
        """How its monitor is called in Python.

        >>> FAMILIES["topk"].monitor, FAMILIES["aggregate"].monitor
        ('skyband.Monitor', 'skyband.aggregate.Monitor')
        """
        return f"{self.namespace}.Monitor"

    @property
    def answered_by(self) -> str:
        """What answers its queries, as a user writes it."""
        return f"{self.namespace}.replay, {self.monitor} or skyband.spark.answers"

    def part(self, name: str) -> ModuleType:
        """One of its modules: ``"query"``, ``"monitor"``, ``"shard"``, ``"spark"``, ``"explain"``, …"""
        return import_module(f"{self.package}.{name}")

    @property
    def query_class(self) -> Any:
        """The class of its queries."""
        return getattr(self.part("query"), self.query)

    def supports(self, feature: Feature) -> bool:
        """Whether its queries can be asked with this.

        >>> FAMILIES["topk"].supports("changes"), FAMILIES["aggregate"].supports("changes")
        (True, False)
        """
        return feature not in self.lacks

    def algorithms(self) -> tuple[str, ...]:
        """The names by which its queries can be run; none where there is one way only.

        >>> FAMILIES["uncertain"].algorithms()
        ('none', 'in', 'inco', 'dp', 'greedy')
        """
        if self.engines is None:
            return ()
        module, _, name = self.engines.rpartition(".")
        return tuple(getattr(self.part(module), name))


def _schema(
    *columns: str, optional: Collection[str] = (), ranked: Collection[str] = (), row_id: AnswerColumn | None = None
) -> AnswerSchema:
    """Columns as ``"name kind"``; those without a kind are of a type that comes with the rows."""
    parts = [(*column.split(), "own")[:2] for column in columns]
    return AnswerSchema(
        tuple(AnswerColumn(name, kind, name in optional, name in ranked) for name, kind in parts),  # type: ignore[arg-type]
        row_id,
    )


_WINDOW = ("query text", "window_start", "window_end", "rank rank")
_MOMENT = ("query text", "time", "rank rank")
_NO_COST = "there are no views that one more query could share."
_NO_SCHEDULE = "only queries over uncertain streams are run together by a plan. Leave it out."
_NO_PLAN = "there is no plan to draw."
_NOT_VERIFIED = "brute force in Spark SQL exists for top-k queries only. Verify a file without that stream."

_NOT_COUNTED = (
    "rows that were pushed before are not counted again, so its windows would hold other rows. Add it before the first "
    "push, or start another monitor for it."
)

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family(
            name="topk",
            query="TopK",
            namespace="skyband",
            answers=_schema(*_WINDOW, "score number", row_id=AnswerColumn("id", "own", ranked=True)),
            engines="algorithms.ENGINES",
            lacks={
                "frames by name": "top-k queries rank the rows of one; pass that one.",
                "plan": _NO_SCHEDULE,
            },
        ),
        Family(
            name="aggregate",
            query="AggregateTopK",
            namespace="skyband.aggregate",
            answers=_schema(*_WINDOW, "key", "score number", ranked=["key"]),
            lacks={
                "add to count windows": _NOT_COUNTED,
                "algorithm": "aggregates are kept in one way. Leave it out.",
                "plan": _NO_SCHEDULE,
                "changes": "aggregate queries give every window's whole answer. Leave output= out.",
                "late rows": "of aggregate queries late rows are counted. Leave late= out.",
                "refusing late rows": "of aggregate queries late rows are counted. Leave late= out.",
                "frames by name": "aggregate queries rank the keys of one; pass that one, or a union of them.",
                "count windows": "on Spark, aggregates are over windows of time. Give size= and slide= as durations, "
                "or use skyband.aggregate.Monitor, which has both.",
                "cost": _NO_COST,
                "timeline": _NO_PLAN,
                "verification": _NOT_VERIFIED,
                "whole rows": "an answer gives a key and its total.",
            },
        ),
        Family(
            name="incomplete",
            query="IncompleteTopK",
            namespace="skyband.incomplete",
            answers=_schema(
                *_MOMENT, "object", "score number", "best number", "sure flag",
                optional=["best", "sure"], ranked=["object"],
            ),
            lacks={
                "add to count windows": _NOT_COUNTED,
                "algorithm": "here each query has its method=. Leave it out.",
                "plan": _NO_SCHEDULE,
                "changes": "queries over incomplete streams give every whole answer. Leave output= out.",
                "late rows": "late rows of incomplete streams are counted. Leave late= out.",
                "cost": _NO_COST,
                "timeline": _NO_PLAN,
                "verification": _NOT_VERIFIED,
                "whole rows": "an answer gives an object and its score.",
            },
        ),
        Family(
            name="uncertain",
            query="UncertainTopK",
            namespace="skyband.uncertain",
            answers=_schema(
                *_MOMENT, "id", "score number", "probability number", "expected_rank number", "stream",
                optional=["expected_rank", "stream"], ranked=["id", "expected_rank", "stream"],
            ),
            engines="schedules.METHODS",
            clauses=True,
            lacks={
                "changes": "they give every whole answer. Leave output= out.",
                "late rows": "late rows of uncertain streams are counted. Leave late= out.",
                "frames by name": "uncertain queries rank rows of one; pass a union.",
                "shards": "the probability to be among the best depends on all tuples; leave it out.",
                "cost": _NO_COST,
                "verification": _NOT_VERIFIED,
                "whole rows": "an answer gives a tuple's id, score and probability.",
            },
        ),
    )
}  # fmt: skip


def family_of(query: Any) -> Family:
    """The family that a query, or a workload, is of.

    >>> import skyband as sb
    >>> family_of(sb.TopK(k=1, size=10)).query
    'TopK'
    """
    return FAMILIES[query.family]


def inferred_family(names: Collection[str]) -> Family:
    """The family whose answers have these columns: of those with this moment, the one with most of its columns here.

    >>> inferred_family(["query", "window_start", "window_end", "rank", "key", "score"]).name
    'aggregate'
    """
    moment = moment_of(names)
    fitting = [family for family in FAMILIES.values() if family.answers.moment == moment]
    return max(fitting, key=lambda family: len(set(family.answers.names) & set(names)))


def refuse_unsupported(family: Family, feature: Feature, given: str) -> None:
    """Refuse what a family does not support, in the one wording there is; `given` is what the user wrote.

    >>> refuse_unsupported(FAMILIES["topk"], "add to count windows", "add('big')")
    >>> try:
    ...     refuse_unsupported(FAMILIES["aggregate"], "changes", "output='changes'")
    ... except UnsupportedError as error:
    ...     print(str(error).partition(":")[0])
    output='changes' is not supported for AggregateTopK queries
    """
    if not family.supports(feature):
        raise UnsupportedError(f"{given} is not supported for {family.query} queries: {family.lacks[feature]}")
