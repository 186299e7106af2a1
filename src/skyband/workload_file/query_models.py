"""Models of a query in a workload file: one per family, selected by `type`, and one for SQL.

Each key of a family is defined here: its type, its default, whether it is required, and its description in the
published schema.
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
from skyband.workload_file.values import (
    Bounds,
    CalendarExtent,
    Extent,
    Labels,
    Names,
    Occurrences,
    Origin,
    Share,
    Size,
    Weights,
)

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
_Zone = Annotated[
    Text | None,
    Field(
        description="A time zone of the IANA database. Windows then begin at local midnight.",
        examples=["America/New_York"],
    ),
]
_WeekStart = Annotated[
    Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"] | None,
    Field(description="With zone and weeks: the first day of a week. Default: monday."),
]
_Cumulative = Annotated[
    bool, Field(description="Windows grow: they start with each size and end every slide, as in 'so far today'.")
]


class QuerySection(Section):
    """A continuous top-k query, as keys or as SQL."""

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
        description="The query's name in its answers; unique in the file. Default: topk.",
        examples=["big"],
    )
    stream: Text | None = Field(
        default=None, description="The stream of the query. Optional if the file has one stream."
    )
    label: Text | None = Field(
        default=None,
        description="The column that names a row on the dashboard, in the terminal and in the read API. Default: the "
        "id. It does not change answers.",
        examples=["customer_name"],
    )
    since: Text | None = Field(
        default=None,
        description="For a query that is new in a stream that was run before: windows that begin so long before the "
        "restart, or later, are complete, because files or records that were read are read again for it.",
        examples=["7 days"],
    )


class SqlQuery(QuerySection):
    """One or more queries in SQL."""

    sql: Text = Field(
        description="The query as SQL, instead of keys. Separate several statements with semicolons.",
        examples=["TOPK price * size, 5 BY symbol OVER 1 HOUR EVERY 5 MINUTES"],
    )

    @classmethod
    def known_keys(cls) -> Iterable[str]:
        """Return the keys of all query types."""
        return flat_fields(FamilyQuery)

    @classmethod
    def unknown_key(cls, name: str) -> str:
        """Return the message for an unknown key, or for a key that SQL replaces."""
        if name in cls.known_keys():
            return "cannot be combined with sql; write it in the SQL, or write the whole query as keys."
        return super().unknown_key(name)


class FamilyQuery(QuerySection, Kind):
    """A continuous top-k query, as keys or as SQL."""

    tag: ClassVar[str] = "type"
    usual: ClassVar[str] = "topk"
    kinds: ClassVar[dict[str, Any]] = {}
    untagged: ClassVar[Mapping[str, Any]] = {"sql": SqlQuery}
    noun: ClassVar[str] = "a query of type {kind}"
    purpose: ClassVar[str] = "the query type"
    foreign: ClassVar[str] = "is a key of queries of type {owners}; this query has type {kind}."
    missing: ClassVar[Mapping[str, str]] = {
        "k": "set the number of rows in an answer",
        "size": "set the length of a window",
    }

    type: str = Field(description="The query type. All queries of a stream must have the same type.")

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """Report a section without any required key as one problem."""
        needed = cls.usual_keys()
        if not any(key in raw for key in needed):
            yield "", f"is not a query; set {', '.join(needed)}, or sql."

    @classmethod
    def usual_keys(cls) -> list[str]:
        """Return the keys that most queries of this type have."""
        return cls.needed_keys()


class _WindowQuery(FamilyQuery):
    """Keys of all query types."""

    k: Count = Field(le=2**31 - 1, description="The number of rows in an answer.", examples=[10])
    size: Size = Field(
        description="The length of a window: a duration for event-time windows, a whole number of rows for count "
        "windows.",
        examples=["10 minutes", 10000],
    )
    where: Text | None = Field(
        default=None,
        description="An SQL condition. Only rows for which it is true are ranked.",
        examples=["exchange <> 'D'"],
    )


class _SlidingQuery(_WindowQuery):
    """Keys of queries with sliding windows and groups."""

    instead: ClassVar[Mapping[str, str]] = {"every": "slide"}

    slide: Extent | None = Field(
        default=None,
        description="The distance between the ends of two windows; of the same kind as size and not longer. Default: "
        "size.",
        examples=["1 minute", 100],
    )
    partition_by: Names | None = Field(
        default=None,
        description="The group column, or a list of columns. Each group has its own top k.",
        examples=["symbol", ["exchange", "symbol"]],
    )
    origin: _Anchor = None
    full_only: bool = Field(
        default=False, description="Emit only windows that start at or after the first row of the stream."
    )


class _CalendarQuery(_SlidingQuery):
    """Keys of queries whose windows can also be those of a calendar, cumulative or landmarks."""

    size: Size | None = Field(  # type: ignore[assignment]  # required in other families
        default=None,
        description="The length of a window: a duration for event-time windows, a whole number of rows for count "
        "windows. With zone also weeks, months, quarters and years; all: every window starts at origin. Required, "
        "except with gap.",
        examples=["10 minutes", 10000],
    )
    slide: CalendarExtent | None = Field(
        default=None,
        description="The distance between the ends of two windows; of the same kind as size and not longer. Default: "
        "size.",
        examples=["1 minute", 100],
    )
    zone: _Zone = None
    week_start: _WeekStart = None
    cumulative: _Cumulative = False
    gap: Extent | None = Field(
        default=None,
        description="Session windows instead of size and slide: rows of a group that follow each other within less "
        "than this duration.",
        examples=["30 minutes"],
    )
    max_length: Extent | None = Field(
        default=None, description="With gap: the maximal length of a session.", examples=["8 hours"]
    )

    @classmethod
    def usual_keys(cls) -> list[str]:
        """Return the keys that most queries have; sessions have a gap instead of a size."""
        return [name for name in ("k", "size", "by", "key") if name in cls.model_fields]

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """Report a query without windows."""
        yield from super().rules(raw)
        known = any(key in raw for key in cls.usual_keys() if key != "size")
        if known and not any(key in raw for key in ("size", "gap", "max_length")):
            yield "size", f"is missing; {cls.missing['size']}, or gap for session windows."


# Of all families: a key has one type in the schema. The query class rejects the methods of others.
_Method = Literal["exact", "sketch", "sorted-lists", "approximate", "expected-scores"]


class TopKSection(_CalendarQuery):
    """The best rows."""

    missing: ClassVar[Mapping[str, str]] = {**FamilyQuery.missing, "by": "set the score, an SQL expression"}

    type: Literal["topk"] = Field(default="topk", description="the best rows")
    by: _Score
    then_by: Names | None = Field(
        default=None,
        description="Further columns, which rank rows with equal scores: an SQL expression, or a list of them, each "
        "with asc or desc and nulls first or last.",
        examples=["symbol asc", ["size desc", "symbol asc"]],
    )
    distinct: Text | None = Field(
        default=None,
        description="An SQL expression. An answer contains at most one row for each of its values, the best.",
        examples=["player_id"],
    )
    half_life: Text | None = Field(
        default=None,
        description="The time after which a score counts half. Answers contain the score as of the end of the window.",
        examples=["10 minutes"],
    )
    order: Literal["desc", "asc"] = Field(
        default="desc", description="The order of scores: highest first (desc) or lowest first (asc)."
    )
    ties: Literal["row_number", "rank"] = Field(
        default="row_number",
        description="How equal scores are ranked. row_number: exactly k rows, the newest first. rank: all rows with "
        "the k-th score are included, and equal scores share a rank.",
    )


class AggregateSection(_CalendarQuery):
    """The keys with the highest totals."""

    missing: ClassVar[Mapping[str, str]] = {**FamilyQuery.missing, "key": "set the key to rank, an SQL expression"}
    instead: ClassVar[Mapping[str, str]] = {**_CalendarQuery.instead, "by": "key"}

    type: Literal["aggregate"] = Field(default="aggregate", description="the keys with the highest totals")
    key: Names = Field(
        description="The key to rank, an SQL expression over the row, or a list of them to rank their combinations.",
        examples=["client", ["team", "player"]],
    )
    value: Text | None = Field(
        default=None,
        description="The value to aggregate, an SQL expression: a number; for distinct counts of any type of a key. "
        "Not needed for count.",
        examples=["bytes"],
    )
    aggregate: Aggregate = Field(default="sum", description="The aggregate function over a key's values.")
    quantile: float | None = Field(
        default=None,
        description="For aggregate: quantile, which one: from 0, the minimum, to 1, the maximum.",
        examples=[0.9],
    )
    delete: Text | None = Field(
        default=None,
        description="For latest: a condition on a row, in SQL. A row that meets it deletes its key and needs no value.",
        examples=["op = 'd'"],
    )
    order: Literal["desc", "asc"] = Field(
        default="desc", description="The order of scores: highest first (desc) or lowest first (asc)."
    )
    ties: Literal["row_number", "rank"] = Field(
        default="row_number",
        description="How equal scores are ranked. row_number: exactly k keys, the one seen last first. rank: all keys "
        "with the k-th score are included, and equal scores share a rank.",
    )
    having: Text | None = Field(
        default=None,
        description="A condition on a key's values in the window: comparisons of score, count(*) or another aggregate "
        "with a number, joined by and. Only keys that meet it are ranked.",
        examples=["count(*) >= 3"],
    )
    row: bool = Field(
        default=False,
        description="Whether an answer also returns the row with the score; for max, min, latest and first.",
    )
    others: bool = Field(
        default=False,
        description="Whether each answer ends with a row for all other keys, whose key is null; for sum and count.",
    )
    max_keys: int | None = Field(
        default=None,
        ge=1,
        description="The most keys with a row in one window, in each shard; more stop the stream. Default: no limit.",
    )
    share: bool = Field(
        default=False,
        description="Whether answers have the share of each score in the total of the window; for sum and count.",
    )
    method: _Method = Field(
        default="exact",
        description="exact or sketch: exact holds all keys, sketch holds the heaviest keys of each pane, for sum and "
        "count: answers have the largest error of each score, in the column error.",
    )
    error: float | None = Field(
        default=None,
        description="For method: sketch, the largest error as a share of the total of the window. Default: 0.001.",
        examples=[0.001],
    )
    counters: int | None = Field(
        default=None,
        description="For method: sketch instead of error: the number of keys held of each pane and group.",
        examples=[2000],
    )
    half_life: Text | None = Field(
        default=None,
        description="The time after which a row counts half, for sum, count and avg. Scores are as of the end of "
        "the window.",
        examples=["10 minutes"],
    )


class _EveryQuery(_WindowQuery):
    """Keys of queries with periodic answers, and groups."""

    instead: ClassVar[Mapping[str, str]] = {"slide": "every"}

    every: Extent | None = Field(
        default=None,
        description="The interval between answers; of the same kind as size and not longer. Default: size.",
        examples=["1 minute", 100],
    )
    partition_by: Names | None = Field(
        default=None,
        description="The group column, or a list of columns. Each group has its own top k.",
        examples=["symbol", ["exchange", "symbol"]],
    )


class IncompleteSection(_EveryQuery):
    """The best objects, whose attributes arrive in several streams."""

    missing: ClassVar[Mapping[str, str]] = {
        **FamilyQuery.missing,
        "object": "set the object to rank, an SQL expression",
        "stream_by": "set the stream of a row, an SQL expression",
        "value": "set the attribute of a row, an SQL expression",
        "streams": "list the names of all streams",
    }

    type: Literal["incomplete"] = Field(
        default="incomplete", description="the best objects, whose attributes arrive in several streams"
    )
    object: Text = Field(description="The object to rank, an SQL expression over the row.", examples=["flow"])
    stream_by: Text = Field(description="The stream of the row, an SQL expression.", examples=["router"])
    value: Text = Field(description="The attribute that the row contains, an SQL expression.")
    streams: Labels = Field(description="The names of all streams.", examples=[["r1", "r2"]])
    aggregate: Aggregate = Field(
        default="sum",
        description="The aggregate function over an object's attributes; only sum, max, min and avg are supported.",
    )
    formula: Text | None = Field(
        default=None,
        description="The score of an object as an expression over the streams, instead of aggregate. It must rise with "
        "each of them.",
        examples=["0.7 * r1 + sqrt(r2)"],
    )
    weights: Weights | None = Field(
        default=None, description="A factor by stream, for sum. Default: 1.", examples=[{"r1": 2.0}]
    )
    bounds: Bounds | None = Field(
        default=None,
        description="The smallest and the largest value that a row can have, or such a pair for each stream. Default: "
        "[0, 1].",
        examples=[[0, 1000], {"r1": [0, 1], "r2": [0, 1000]}],
    )
    occurrences: Occurrences | None = Field(
        default=None,
        description="The maximum number of rows per object, stream and window. Default: 1. once: no stream reports an "
        "object twice, in no window; this is not checked.",
        examples=[1, "once"],
    )
    method: _Method = Field(
        default="exact",
        description="The method: exact, exact with sorted lists, approximate with less memory, or the published "
        "approximation by expected scores.",
    )
    intervals: bool = Field(
        default=False, description="Report how much each score can still rise, and whether its rank is certain."
    )
    order: Literal["desc", "asc"] = Field(
        default="desc", description="The order of scores: higher is better (desc) or lower is better (asc)."
    )
    ties: Literal["row_number", "rank"] = Field(
        default="row_number",
        description="How equal scores are ranked. row_number: exactly k objects, the one seen last first. rank: all "
        "objects with the k-th score are included, and equal scores share a rank.",
    )
    origin: _Anchor = None
    every: CalendarExtent | None = Field(
        default=None,
        description="The interval between answers; of the same kind as size and not longer. Default: size.",
        examples=["1 minute", 100],
    )
    zone: _Zone = None
    week_start: _WeekStart = None
    cumulative: _Cumulative = False

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """Report a formula beside an aggregate."""
        yield from super().rules(raw)
        if raw.get("formula") is not None and raw.get("aggregate") is not None:
            yield "formula", "cannot be combined with aggregate; both define the score."


class UncertainSection(_EveryQuery):
    """The best rows, where rows are true with a probability."""

    missing: ClassVar[Mapping[str, str]] = {
        **TopKSection.missing,
        "probability": "set the probability of a row, an SQL expression",
    }

    type: Literal["uncertain"] = Field(
        default="uncertain", description="the best rows, where rows are true with a probability"
    )
    by: _Score
    probability: Text = Field(
        description="The probability that the row is true, in (0, 1]; an SQL expression.", examples=["confidence"]
    )
    rule: Text | None = Field(
        default=None,
        description="An SQL expression. Rows with the same value exclude each other; null for no rule.",
        examples=["reading"],
    )
    stream_by: Text | None = Field(
        default=None,
        description="The stream of the row, an SQL expression. If set, streams are ranked instead of rows.",
        examples=["router"],
    )
    order: Literal["desc", "asc"] = Field(
        default="desc", description="The order of scores: higher is better (desc) or lower is better (asc)."
    )
    semantics: Semantics = Field(default="pk-topk", description="The ranking semantics; see skyband.uncertain.rank.")
    threshold: Share | None = Field(
        default=None, description="The minimum probability of being in the top k, for pt-k."
    )
    rank_weights: list[float] | None = Field(
        default=None, description="The weights of the ranks 1, 2, …, for prf.", examples=[[1, 0.5, 0.25]]
    )
    alpha: Share | None = Field(default=None, description="For prf: rank i has the weight alpha ** i.", examples=[0.9])


if TYPE_CHECKING:
    AnyQuery = QuerySection
else:
    AnyQuery = union(FamilyQuery, "Query")


_FIELDS = {"stream_by": "stream", "formula": "aggregate", "rank_weights": "weights"}


def field_of(key: str) -> str:
    """Return the field of a query that a key sets. Keys have another name where it has another meaning elsewhere.

    >>> field_of("stream_by"), field_of("rank_weights"), field_of("by")
    ('stream', 'weights', 'by')
    """
    return _FIELDS.get(key, key)
