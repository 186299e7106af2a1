"""What a workload file may say of a query: one section for all families, told apart by `type`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from skyband.aggregate.query import Aggregate
from skyband.connectors.section import Section, Wrong
from skyband.connectors.values import Count, Text
from skyband.uncertain.query import Semantics
from skyband.workload_file.values import Bounds, Extent, Labels, Names, Origin, Share, Weights

__all__ = ["KEYS", "NEEDS", "QuerySection", "field_of"]

Family = Literal["topk", "aggregate", "incomplete", "uncertain"]


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
    sql: Text | None = Field(
        default=None,
        description="The query as SQL, instead of the fields. Several statements are parted by semicolons.",
        examples=["TOPK price * size, 5 BY symbol OVER 1 HOUR EVERY 5 MINUTES"],
    )
    type: Family = Field(
        default="topk",
        description="topk: the best rows. aggregate: the keys with the highest totals. incomplete: the best objects, "
        "whose attributes come in several streams. uncertain: the best rows, where rows are true with a probability. "
        "The queries of a stream are of one type.",
    )
    k: Count | None = Field(default=None, le=2**31 - 1, description="How many rows an answer ranks.", examples=[10])
    size: Extent | None = Field(
        default=None,
        description="How long a window is: a duration for a window over event time, a whole number for a window over "
        "so many rows.",
        examples=["10 minutes", 10000],
    )
    slide: Extent | None = Field(
        default=None,
        description="How far apart two windows end; of the same kind as size and not longer. Default: size. For topk "
        "and aggregate.",
        examples=["1 minute", 100],
    )
    every: Extent | None = Field(
        default=None,
        description="How often there is an answer; of the same kind as size and not longer. Default: size. For "
        "incomplete, and for uncertain, where it may come more often.",
        examples=["1 minute", 100],
    )
    by: Text | None = Field(
        default=None,
        description="The score, an SQL expression over the row. For topk and uncertain.",
        examples=["price * size"],
    )
    where: Text | None = Field(
        default=None, description="Only rows for which this SQL condition is true.", examples=["exchange <> 'D'"]
    )
    partition_by: Names | None = Field(
        default=None,
        description="A column, or a list of them: each group has its own top k. For topk and aggregate.",
        examples=["symbol", ["exchange", "symbol"]],
    )
    order: Literal["desc", "asc"] = Field(
        default="desc", description="desc: higher scores first; asc: lower scores first. For topk."
    )
    origin: Origin | None = Field(
        default=None,
        description="Where windows are anchored: an ISO date or time or microseconds since 1970 (time), or a sequence "
        "number (count). Default 0. Not for uncertain.",
        examples=["2024-01-01T09:30:00+00:00", 0],
    )
    full_only: bool = Field(
        default=False,
        description="Report only windows that begin at or after the first row of the stream. For topk and aggregate.",
    )
    ties: Literal["row_number", "rank"] = Field(
        default="row_number",
        description="row_number: k rows, of equal scores the newest first. rank: all rows that equal the k-th are in, "
        "and share ranks. For topk.",
    )
    key: Text | None = Field(
        default=None, description="Aggregate: what is ranked, an SQL expression over the row.", examples=["client"]
    )
    value: Text | None = Field(
        default=None,
        description="Aggregate: the number that is added up; a count needs none. Incomplete: the attribute that a row "
        "brings. An SQL expression.",
        examples=["bytes"],
    )
    aggregate: Aggregate = Field(
        default="sum",
        description="Aggregate: what is made of a key's values. Incomplete: what is made of an object's attributes "
        "(not count, not stddev).",
    )
    object: Text | None = Field(
        default=None, description="Incomplete: what is ranked, an SQL expression over the row.", examples=["flow"]
    )
    stream_by: Text | None = Field(
        default=None,
        description="Incomplete: which stream a row is from, an SQL expression. Uncertain: the same, and whole streams "
        "are ranked by it.",
        examples=["router"],
    )
    streams: Labels | None = Field(
        default=None, description="Incomplete: the names of all streams.", examples=[["r1", "r2"]]
    )
    weights: Weights | None = Field(
        default=None, description="Incomplete, for a sum: a factor by stream. Default 1.", examples=[{"r1": 2.0}]
    )
    bounds: Bounds | None = Field(
        default=None,
        description="Incomplete: the smallest and the largest value a row may have. Default [0, 1].",
        examples=[[0, 1000]],
    )
    occurrences: Count | None = Field(
        default=None, description="Incomplete: how often a stream may report an object in a window. Default 1."
    )
    method: Literal["exact", "sorted-lists", "approximate"] = Field(
        default="exact", description="Incomplete: exact, exact by sorted lists, or approximate, which holds less."
    )
    intervals: bool = Field(
        default=False, description="Incomplete: tell how far each score can still rise, and whether its place is sure."
    )
    probability: Text | None = Field(
        default=None,
        description="Uncertain: how likely it is that the row is true, in (0, 1]; an SQL expression.",
        examples=["confidence"],
    )
    rule: Text | None = Field(
        default=None,
        description="Uncertain: rows with the same value of this SQL expression exclude each other; null for none.",
        examples=["reading"],
    )
    semantics: Semantics = Field(
        default="pk-topk", description="Uncertain: what an answer means; skyband.uncertain.rank tells."
    )
    threshold: Share | None = Field(
        default=None, description="Uncertain, for pt-k: the least probability of being among the k best."
    )

    @classmethod
    def fields(cls) -> list[str]:
        """The keys that SQL takes the place of."""
        return [name for name in cls.model_fields if name not in ("name", "stream", "sql")]

    @classmethod
    def rules(cls, raw: Mapping[str, Any]) -> Wrong:
        """Either fields or SQL, enough of them, and those of the query's type."""
        if "sql" in raw:
            for key in cls.fields():
                if key in raw:
                    yield key, "cannot stand beside sql; say it in the SQL, or write all of the query as keys."
            return
        kind = raw.get("type", "topk")
        if not isinstance(kind, str) or kind not in KEYS:
            return
        for key in raw:
            types = [name for name, keys in KEYS.items() if key in keys]
            if types and kind not in types:
                yield key, f"is for type: {' or '.join(types)}; the type of this query is {kind}{_instead(key, kind)}."
        if not any(key in raw for key in NEEDS[kind]):
            yield "", f"is no query yet; write {', '.join(NEEDS[kind])}, or sql."
            return
        for key, what in NEEDS[kind].items():
            if key not in raw:
                yield key, f"is missing; say {what}."


_ALL = ("k", "size", "where")
KEYS: dict[str, tuple[str, ...]] = {  # the keys that queries of a type have
    "topk": (*_ALL, "slide", "by", "partition_by", "order", "origin", "full_only", "ties"),
    "aggregate": (*_ALL, "slide", "key", "value", "aggregate", "partition_by", "origin", "full_only"),
    "incomplete": (
        *(*_ALL, "every", "object", "stream_by", "value", "streams", "aggregate", "weights", "bounds"),
        *("occurrences", "method", "intervals", "origin"),
    ),
    "uncertain": (*_ALL, "every", "by", "probability", "rule", "stream_by", "semantics", "threshold"),
}
_K, _SIZE = {"k": "how many rows an answer ranks"}, {"size": "how long a window is"}
NEEDS: dict[str, dict[str, str]] = {  # and those without which they ask nothing
    "topk": {**_K, **_SIZE, "by": "the score, in SQL"},
    "aggregate": {**_K, **_SIZE, "key": "what is ranked, in SQL"},
    "incomplete": {
        **_K,
        **_SIZE,
        "object": "what is ranked, in SQL",
        "stream_by": "which stream a row is from, in SQL",
        "value": "the attribute that a row brings, in SQL",
        "streams": "the names of all streams",
    },
    "uncertain": {**_K, **_SIZE, "by": "the score, in SQL", "probability": "how likely a row is true, in SQL"},
}


def field_of(key: str) -> str:
    """The field of a query that a key is for; `stream` is taken, by the stream that the query is asked over.

    >>> field_of("stream_by"), field_of("by")
    ('stream', 'by')
    """
    return "stream" if key == "stream_by" else key


def _instead(key: str, kind: str) -> str:
    """What the type has in a key's place, if anything."""
    other = {"slide": "every", "every": "slide", "by": "key"}.get(key, "")
    return f", which has {other}" if other in KEYS[kind] else ""
