"""The registry of query families: names, answer columns, unsupported features, and modules.

A family is a package of `skyband` with the same file names as the others (query, monitor, shard, spark, explain, …).
To add a family, add a package and an entry here. Other modules do not test for a family; they read its entry. Modules
are imported on first use, so that a query of one family does not load compiled code of another.
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
    "late rows",  # returned to the caller
    "rejecting late rows",
    "frames by name",  # several data frames, one for each stream
    "resharding",  # stored state distributed over another number of shards
    "cost",  # of one more query
    "timeline",  # a plan that can be drawn
    "verification",  # by brute force in Spark SQL
    "provisional answers",  # of open windows, in streams
    "corrections",  # of final windows, which are emitted again after late rows
    "session windows",
    "calendar windows",  # also cumulative ones
    "several columns",  # orders, one row per entity, decay: what is ranked beyond one score
]


@dataclass(frozen=True, kw_only=True)
class Family:
    """One family of queries."""

    name: str  # in workload files and in `Query.family`
    query: str  # the name of its query class
    namespace: str  # the module with its `replay` and `Monitor`
    answers: AnswerSchema
    engines: str | None = None  # the module and attribute that list its algorithms or plans
    whole_groups: bool = False  # whether shards need all rows of a group, so that queries without groups have one
    clauses: bool = False  # whether its module `sql` parses clauses that only its queries have
    lacks: Mapping[Feature, str] = field(default_factory=dict)  # unsupported features: the reason, and what to do

    @property
    def package(self) -> str:
        """The package with its modules.

        >>> FAMILIES["aggregate"].package
        'skyband.aggregate'
        """
        return f"skyband.{self.name}"

    @property
    def monitor(self) -> str:
        """The qualified name of its monitor class.

        >>> FAMILIES["topk"].monitor, FAMILIES["aggregate"].monitor
        ('skyband.Monitor', 'skyband.aggregate.Monitor')
        """
        return f"{self.namespace}.Monitor"

    @property
    def answered_by(self) -> str:
        """The functions and classes that run its queries, for messages."""
        return f"{self.namespace}.replay, {self.monitor} or skyband.spark.answers"

    def part(self, name: str) -> ModuleType:
        """Import one of its modules: ``"query"``, ``"monitor"``, ``"shard"``, ``"spark"``, ``"explain"``, …"""
        return import_module(f"{self.package}.{name}")

    @property
    def query_class(self) -> Any:
        """The class of its queries."""
        return getattr(self.part("query"), self.query)

    def supports(self, feature: Feature) -> bool:
        """Whether the family supports this feature.

        >>> FAMILIES["topk"].supports("cost"), FAMILIES["aggregate"].supports("cost")
        (True, False)
        """
        return feature not in self.lacks

    def algorithms(self) -> tuple[str, ...]:
        """Return the names of its algorithms or plans; empty if there is only one.

        >>> FAMILIES["uncertain"].algorithms()
        ('none', 'in', 'inco', 'dp', 'greedy')
        """
        if self.engines is None:
            return ()
        module, _, name = self.engines.rpartition(".")
        return tuple(getattr(self.part(module), name))


def _schema(
    *columns: str,
    optional: Collection[str] = (),
    ranked: Collection[str] = (),
    row_id: AnswerColumn | None = None,
    identity: tuple[str, ...] = ("id",),
) -> AnswerSchema:
    """Return a schema of columns given as ``"name kind"``; a column without a kind has a type from the input."""
    parts = [(*column.split(), "own")[:2] for column in columns]
    return AnswerSchema(
        tuple(AnswerColumn(name, kind, name in optional, name in ranked) for name, kind in parts),  # type: ignore[arg-type]
        row_id,
        identity,
    )


_WINDOW = ("query text", "window_start", "window_end", "rank rank")
_MOMENT = ("query text", "time", "rank rank")
_NO_COST = "it has no views that another query could share."
_NO_SCHEDULE = "only queries over uncertain streams are scheduled by a plan. Omit plan=."
_NO_PLAN = "it has no plan with a timeline."

_KEEP_SHARDS = (
    "Nothing was changed. Use the stored number: with Spark 4.2 or newer, reshard=True still changes the number of "
    "partitions, so that more cores process the same shards. Or start with a new checkpoint."
)
_NOT_COUNTED = (
    "rows pushed before are not counted for a new query, so its windows would contain other rows. Add it before the "
    "first push, or use another monitor for it."
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
                "frames by name": "they rank the rows of one data frame. Pass a single data frame.",
                "plan": _NO_SCHEDULE,
            },
        ),
        Family(
            name="aggregate",
            query="AggregateTopK",
            namespace="skyband.aggregate",
            answers=_schema(
                *_WINDOW, "key", "score number", "share number", "error number", "guaranteed flag",
                optional=["share", "error", "guaranteed"], ranked=["key"],
                row_id=AnswerColumn("id", "own", True, True), identity=("key",),
            ),
            clauses=True,
            lacks={
                "add to count windows": _NOT_COUNTED,
                "algorithm": "there is only one algorithm. Omit algorithm=.",
                "plan": _NO_SCHEDULE,
                "frames by name": "they rank the keys of one data frame. Pass a single data frame, or a union.",
                "resharding": "a shard stores sums of its keys for each pane, in segments that only it can read, so "
                f"keys cannot move to another shard. {_KEEP_SHARDS}",
                "cost": _NO_COST,
                "timeline": _NO_PLAN,
                "several columns": "a key has one total and is in an answer once; of equal totals, that of the newest "
                "key is first.",
            },
        ),
        Family(
            name="incomplete",
            query="IncompleteTopK",
            namespace="skyband.incomplete",
            answers=_schema(
                *_MOMENT, "object", "score number", "best number", "sure flag", "exact flag",
                optional=["best", "sure", "exact"], ranked=["object"], identity=("object",),
            ),
            clauses=True,
            lacks={
                "add to count windows": _NOT_COUNTED,
                "algorithm": "each query has a method= instead. Omit algorithm=.",
                "plan": _NO_SCHEDULE,
                "resharding": "a shard stores the bounds of its objects' scores in the order in which tuples reached "
                f"it, so objects cannot move to another shard. {_KEEP_SHARDS}",
                "cost": _NO_COST,
                "timeline": _NO_PLAN,
                "session windows": "bounds of scores are compared by when their tuples leave the window, and a "
                "session's end follows from tuples that have not arrived.",
                "several columns": "an object has one score and is in an answer once, and its bounds must not change "
                "with time.",
            },
        ),
        Family(
            name="uncertain",
            query="UncertainTopK",
            namespace="skyband.uncertain",
            answers=_schema(
                *_MOMENT, "id", "score number", "probability number", "expected_rank number", "prf number",
                "stream",
                optional=["expected_rank", "prf", "stream"], ranked=["id", "expected_rank", "prf", "stream"],
                identity=("id", "stream"),
            ),
            engines="schedules.METHODS",
            whole_groups=True,
            clauses=True,
            lacks={
                "frames by name": "they rank the rows of one data frame. Pass a union.",
                "resharding": "a shard stores the tuples of its groups in one table, so groups cannot move to another "
                f"shard. {_KEEP_SHARDS}",
                "cost": _NO_COST,
                "corrections": "a plan chooses the moments at which they are answered, beginning with the first tuple, "
                "so a late tuple could move all of them. Use a longer watermark.",
                "session windows": "a plan chooses the moments of answers, and a session's end follows from its rows.",
                "calendar windows": "a plan chooses the moments of answers, which needs windows of one length.",
                "several columns": "probabilities of ranks depend on one score of each tuple.",
            },
        ),
    )
}  # fmt: skip


def family_of(query: Any) -> Family:
    """Return the family of a query or a workload.

    >>> import skyband as sb
    >>> family_of(sb.TopK(k=1, size=10)).query
    'TopK'
    """
    return FAMILIES[query.family]


def inferred_family(names: Collection[str]) -> Family:
    """Return the family whose answers have these columns: the same time column, and most columns in common.

    >>> inferred_family(["query", "window_start", "window_end", "rank", "key", "score"]).name
    'aggregate'
    """
    moment = moment_of(names)
    fitting = [family for family in FAMILIES.values() if family.answers.moment == moment]
    return max(fitting, key=lambda family: len(set(family.answers.names) & set(names)))


def refuse_unsupported(family: Family, feature: Feature, given: str) -> None:
    """Raise UnsupportedError if the family does not support the feature; `given` is what the user wrote.

    >>> refuse_unsupported(FAMILIES["topk"], "add to count windows", "add('big')")
    >>> try:
    ...     refuse_unsupported(FAMILIES["aggregate"], "algorithm", "algorithm='sap'")
    ... except UnsupportedError as error:
    ...     print(str(error).partition(":")[0])
    algorithm='sap' is not supported for AggregateTopK queries
    """
    if not family.supports(feature):
        raise UnsupportedError(f"{given} is not supported for {family.query} queries: {family.lacks[feature]}")
