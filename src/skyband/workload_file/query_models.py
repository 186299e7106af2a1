"""What a workload file may say about a query: one model for each family, told by `type`, and one for SQL.

A key of a family is written in one place, here: what it takes, its default, whether the family needs it, and what the
published schema says about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from skyband.aggregate.query import Aggregate
from skyband.connectors.kinds import Kind, flat_fields, union
from skyband.connectors.section import Section, Wrong
from skyband.connectors.values import Count, Text
from skyband.uncertain.query import Semantics
from skyband.workload_file.values import Bounds, Extent, Labels, Names, Origin, Share, Weights

__all__ = ["AnyQuery", "FamilyQuery", "QuerySection", "SqlQuery", "field_of"]

_Score = Annotated[Text, Field(description="The score, an SQL expression over the row.", examples=["price * size"])]
_Anchor = Annotated[
    Origin | None,
    Field(
        description="The anchor of the windows: an ISO date or time or microseconds since 1970 (time), or a sequence "
        "number (count). Default 0.",
        examples=["2024-01-01T09:30:00+00:00", 0],
    ),
]


class QuerySection(Section):
    """One continuous top-k query: either its fields, or SQL."""

    other_names: ClassVar[Mapping[str, str]] = {
        "window": "size",
        "range": "size",
        "step": "slide",
        "frequency": "every",
        "score": "by",
        "order_by": "by",
        "group_by": "partition_by",
        "groups": "partition_by",
        "filter": "where",
        "limit": "k",
        "top": "k",
        "query": "sql",
        "confidence": "probability",
        "family": "type",
    }

    name: Text | None = Field(
        default=None,
        description="What the query is called in its answers; unique in the file. Default topk.",
        examples=["big"],
    )
    stream: Text | None = Field(
        default=None, description="The stream it is asked over. May be left out where the file has one stream."
    )


class SqlQuery(QuerySection):
    """One or more queries in SQL."""

    sql: Text = Field(
        description="The query as SQL, instead of the fields. Several statements are parted by semicolons.",
        examples=["TOPK price * size, 5 BY symbol OVER 1 HOUR EVERY 5 MINUTES"],
    )

    @classmethod
    def known_keys(cls) -> Iterable[str]:
        """Those of all queries, as in any other of them."""
        return flat_fields(FamilyQuery)

    @classmethod
    def unknown_key(cls, name: str) -> str:
        """SQL takes the place of all fields."""
        if name in cls.known_keys():
            return "cannot stand beside sql; say it in the SQL, or write all of the query as keys."
        return super().unknown_key(name)


class FamilyQuery(QuerySection, Kind):
    """One continuous top-k query: either its fields, or SQL."""

    tag: ClassVar[str] = "type"
    usual: ClassVar[str] = "topk"
    kinds: ClassVar[dict[str, Any]] = {}
    untagged: ClassVar[Mapping[str, Any]] = {"sql": SqlQuery}
    noun: ClassVar[str] = "a query of type {kind}"
    purpose: ClassVar[str] = "what is ranked"
    foreign: ClassVar[str] = "is for type: {owners}; the type of this query is {kind}."
    missing: ClassVar[Mapping[str, str]] = {
        "k": "say how many rows an answer ranks",
        "size": "say how long a window is",
    }

    type: str = Field(description="What is ranked; the queries of a stream are of one type.")

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """A section without any of the keys that it needs asks nothing."""
        needed = cls.needed_keys()
        if not any(key in raw for key in needed):
            yield "", f"is no query yet; write {', '.join(needed)}, or sql."


class _WindowQuery(FamilyQuery):
    """What the queries of all families have."""

    k: Count = Field(le=2**31 - 1, description="How many rows an answer ranks.", examples=[10])
    size: Extent = Field(
        description="How long a window is: a duration for a window over event time, a whole number for a window over "
        "so many rows.",
        examples=["10 minutes", 10000],
    )
    where: Text | None = Field(
        default=None, description="Only rows for which this SQL condition is true.", examples=["exchange <> 'D'"]
    )


class _SlidingQuery(_WindowQuery):
    """What the queries have that are asked about each group."""

    instead: ClassVar[Mapping[str, str]] = {"every": "slide"}

    slide: Extent | None = Field(
        default=None,
        description="How far apart two windows end; of the same kind as size and not longer. Default: size.",
        examples=["1 minute", 100],
    )
    partition_by: Names | None = Field(
        default=None,
        description="The column, or a list of columns, whose groups have a top k each.",
        examples=["symbol", ["exchange", "symbol"]],
    )
    origin: _Anchor = None
    full_only: bool = Field(
        default=False, description="Report only windows that begin at or after the first row of the stream."
    )


class TopKSection(_SlidingQuery):
    """The best rows."""

    missing: ClassVar[Mapping[str, str]] = {**FamilyQuery.missing, "by": "say the score, in SQL"}

    type: Literal["topk"] = Field(default="topk", description="the best rows")
    by: _Score
    order: Literal["desc", "asc"] = Field(
        default="desc", description="Which scores come first: the higher (desc) or the lower (asc)."
    )
    ties: Literal["row_number", "rank"] = Field(
        default="row_number",
        description="How equal scores rank. row_number: k rows, of equal scores the newest first. rank: all rows that "
        "equal the k-th are in, and share ranks.",
    )


class AggregateSection(_SlidingQuery):
    """The keys with the highest totals."""

    missing: ClassVar[Mapping[str, str]] = {**FamilyQuery.missing, "key": "say what is ranked, in SQL"}
    instead: ClassVar[Mapping[str, str]] = {**_SlidingQuery.instead, "by": "key"}

    type: Literal["aggregate"] = Field(default="aggregate", description="the keys with the highest totals")
    key: Text = Field(description="What is ranked, an SQL expression over the row.", examples=["client"])
    value: Text | None = Field(
        default=None,
        description="The number that is added up, an SQL expression; a count needs none.",
        examples=["bytes"],
    )
    aggregate: Aggregate = Field(default="sum", description="What is made of a key's values.")


class _EveryQuery(_WindowQuery):
    """What the queries have that are answered every so often."""

    instead: ClassVar[Mapping[str, str]] = {"slide": "every"}

    every: Extent | None = Field(
        default=None,
        description="How often there is an answer; of the same kind as size and not longer. Default: size.",
        examples=["1 minute", 100],
    )


class IncompleteSection(_EveryQuery):
    """The best objects, whose attributes come in several streams."""

    missing: ClassVar[Mapping[str, str]] = {
        **FamilyQuery.missing,
        "object": "say what is ranked, in SQL",
        "stream_by": "say which stream a row is from, in SQL",
        "value": "say the attribute that a row brings, in SQL",
        "streams": "say the names of all streams",
    }

    type: Literal["incomplete"] = Field(
        default="incomplete", description="the best objects, whose attributes come in several streams"
    )
    object: Text = Field(description="What is ranked, an SQL expression over the row.", examples=["flow"])
    stream_by: Text = Field(description="Which stream a row is from, an SQL expression.", examples=["router"])
    value: Text = Field(description="The attribute that a row brings, an SQL expression.")
    streams: Labels = Field(description="The names of all streams.", examples=[["r1", "r2"]])
    aggregate: Aggregate = Field(
        default="sum", description="What is made of an object's attributes; count and stddev are not for this type."
    )
    weights: Weights | None = Field(
        default=None, description="A factor by stream, for a sum. Default 1.", examples=[{"r1": 2.0}]
    )
    bounds: Bounds | None = Field(
        default=None,
        description="The smallest and the largest value a row may have. Default [0, 1].",
        examples=[[0, 1000]],
    )
    occurrences: Count | None = Field(
        default=None, description="How often a stream may report an object in a window. Default 1."
    )
    method: Literal["exact", "sorted-lists", "approximate"] = Field(
        default="exact", description="Exact, exact by sorted lists, or approximate, which holds less."
    )
    intervals: bool = Field(
        default=False, description="Report how far each score can still rise, and whether its place is sure."
    )
    origin: _Anchor = None


class UncertainSection(_EveryQuery):
    """The best rows, where rows are true with a probability."""

    missing: ClassVar[Mapping[str, str]] = {
        **TopKSection.missing,
        "probability": "say how likely a row is true, in SQL",
    }

    type: Literal["uncertain"] = Field(
        default="uncertain", description="the best rows, where rows are true with a probability"
    )
    by: _Score
    probability: Text = Field(
        description="How likely it is that the row is true, in (0, 1]; an SQL expression.", examples=["confidence"]
    )
    rule: Text | None = Field(
        default=None,
        description="Rows with the same value of this SQL expression exclude each other; null for none.",
        examples=["reading"],
    )
    stream_by: Text | None = Field(
        default=None,
        description="Which stream a row is from, an SQL expression; whole streams are ranked by it.",
        examples=["router"],
    )
    semantics: Semantics = Field(
        default="pk-topk", description="What an answer means, as skyband.uncertain.rank describes it."
    )
    threshold: Share | None = Field(
        default=None, description="The least probability of being among the k best, for pt-k."
    )


if TYPE_CHECKING:
    AnyQuery = QuerySection
else:
    AnyQuery = union(FamilyQuery, "Query")


def field_of(key: str) -> str:
    """The field of a query that a key is for; `stream` is taken, by the stream that the query is asked over.

    >>> field_of("stream_by"), field_of("by")
    ('stream', 'by')
    """
    return "stream" if key == "stream_by" else key
