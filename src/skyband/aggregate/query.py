"""The query class for ranking keys by an aggregate of their values in a window."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import ClassVar, Literal, NamedTuple

from skyband.aggregate.having import Condition, parse_having
from skyband.errors import InvalidQueryError
from skyband.queries.base import Query
from skyband.queries.fields import (
    Axis,
    checked_choice,
    checked_columns,
    checked_expression,
    checked_flag,
    checked_k,
    checked_name,
    same_axis,
    spelled,
    window_of,
)
from skyband.sql import writer
from skyband.windows import SlidingWindow

__all__ = ["AGGREGATES", "Aggregate", "AggregateTopK"]

Aggregate = Literal["sum", "count", "max", "min", "avg", "stddev", "latest", "first"]


class AggregateState(NamedTuple):
    """The state that an aggregate needs per key. `kernels/key_top.py` computes the score from it."""

    text: str
    powers: int = 0  # exact sums: 0 for the count only, 1 for the sum of values, 2 for the sum of squares too
    extremes: tuple[str, ...] = ()  # subset of "max", "min", "latest" and "first": the value of one row of the key

    @property
    def needs_values(self) -> bool:
        """Whether the aggregate needs more than the number of values."""
        return bool(self.extremes) or self.powers > 0


AGGREGATES: dict[str, AggregateState] = {
    "sum": AggregateState("the total of the key's values", powers=1),
    "count": AggregateState("the number of the key's values"),
    "max": AggregateState("the key's largest value", extremes=("max",)),
    "min": AggregateState("the key's smallest value", extremes=("min",)),
    "avg": AggregateState("the mean of the key's values", powers=1),
    "stddev": AggregateState("the sample standard deviation of the key's values", powers=2),
    "latest": AggregateState("the key's newest value", extremes=("latest",)),
    "first": AggregateState("the key's oldest value", extremes=("first",)),
}


@dataclass(frozen=True, kw_only=True, repr=False)
class AggregateTopK(Query):
    """The k keys with the highest aggregate of their values in every window ``[end - size, end)``.

    A key may occur any number of times. Higher scores rank first, with ``order="asc"`` lower scores. Ties are broken by
    the key seen last, then by the larger key.

    Parameters
    ----------
    k
        Number of keys per answer, at least 1.
    size, slide
        Interval text (``"1 hour"``) or `timedelta` for a window over event time, integers for a window over the last
        `size` rows. `slide` defaults to `size` and need not divide it.
    name
        Name of the query in its answers. Must be unique in a workload.
    key, value, where, partition_by
        SQL expressions for the key, the aggregated number, the filter and the groups. `skyband.aggregate.replay` and
        `skyband.aggregate.Monitor` take keys and values as arrays and need none of them.
    aggregate
        ``"sum"``, ``"count"``, ``"max"``, ``"min"``, ``"avg"``, ``"stddev"`` (sample standard deviation; keys with one
        value are not ranked), ``"latest"`` or ``"first"`` (the key's newest or oldest value in the window; of rows with
        the same time, that with the larger or smaller id). ``"count"`` needs no value.
    row
        Whether an answer also returns the row with the score, for ``"max"``, ``"min"``, ``"latest"`` and ``"first"``:
        all its columns, or its id if the input is arrays. Of rows with the same value, the newest, then the one with
        the larger id.
    order
        ``"desc"``: higher scores first, ``"asc"``: lower scores first.
    having
        Condition on the key's values in the window: only keys that meet it are ranked. Comparisons of ``score``,
        ``count(*)`` or another aggregate of the value with a number, joined by ``and``: ``"count(*) >= 3"``.
    origin
        Anchor of the windows: a `datetime`, ISO text or microseconds (time), or a sequence number (count).
    full_only
        Report only windows that begin at or after the first row of the stream.

    Examples
    --------
    >>> import skyband as sb
    >>> sb.AggregateTopK(name="busy", k=20, size="1 hour", slide="1 minute", key="client", value="bytes")
    AggregateTopK(name='busy', k=20, size='1 hour', slide='1 minute', key='client', value='bytes')
    """

    family: ClassVar[str] = "aggregate"

    name: str = "topk"
    k: int
    size: str | timedelta | int
    slide: str | timedelta | int | None = None
    key: str | None = None
    aggregate: Aggregate = "sum"
    value: str | None = None
    where: str | None = None
    partition_by: Iterable[str] = ()
    order: Literal["desc", "asc"] = "desc"
    having: str | None = None
    row: bool = False
    origin: datetime | str | int | None = None
    full_only: bool = False
    axis: Axis = field(init=False, compare=False)
    window: SlidingWindow = field(init=False, compare=False)
    conditions: tuple[Condition, ...] = field(init=False, compare=False)  # of `having`

    def __post_init__(self) -> None:
        slide = self.size if self.slide is None else self.slide
        axis = same_axis(self.size, slide, "slide")
        window = window_of(axis, self.size, slide, self.origin)
        key = checked_expression("key", self.key)
        value = checked_expression("value", self.value)
        aggregate = checked_choice("aggregate", self.aggregate, {name: kept.text for name, kept in AGGREGATES.items()})
        conditions = parse_having(self.having, aggregate, value, tuple(AGGREGATES))
        if key is not None and value is None:
            _reject_missing_value(f"aggregate={aggregate!r}", [aggregate])
            _reject_missing_value(f"having={self.having!r}", [condition.aggregate for condition in conditions])
        self._settle(
            {
                "name": checked_name(self.name),
                "k": checked_k(self.k),
                "size": spelled(axis, window.size),
                "slide": spelled(axis, window.slide),
                "key": key,
                "aggregate": aggregate,
                "value": value,
                "where": checked_expression("where", self.where),
                "partition_by": checked_columns(self.partition_by),
                "order": checked_choice("order", self.order, {"desc": "higher first", "asc": "lower first"}),
                "row": _checked_row(self.row, aggregate),
                "having": None if self.having is None else self.having.strip(),
                "origin": window.origin,
                "full_only": checked_flag("full_only", self.full_only),
                "axis": axis,
                "window": window,
                "conditions": conditions,
            }
        )

    @property
    def score_text(self) -> str:
        """Short description of the score."""
        return "count" if self.aggregate == "count" else f"{self.aggregate} of {self.value or 'values'}"

    @property
    def ranked_text(self) -> str:
        """Short description of the ranking."""
        value = "" if self.value is None or self.aggregate == "count" else f" of {self.value}"
        ranked = "keys" if self.key is None else f"values of {self.key}"
        having = "" if self.having is None else f" having {self.having}"
        which = "lowest" if self.ascending else "highest"
        return f"the {self.k} {ranked} with the {which} {self.aggregate}{value}{having}"

    @property
    def ascending(self) -> bool:
        """Whether lower scores rank first.

        >>> import skyband as sb
        >>> sb.AggregateTopK(k=3, size="1 hour", order="asc").ascending
        True
        """
        return self.order == "asc"

    @property
    def identified(self) -> bool:
        """Whether rows are compared by time and id: to return them, or to find the newest or oldest."""
        return self.row or not {"latest", "first"}.isdisjoint(self.aggregates)

    @property
    def whole_rows(self) -> bool:
        """Whether answers contain all columns of a row."""
        return self.row

    @property
    def aggregates(self) -> tuple[str, ...]:
        """The aggregates of a key that the query needs: for its score, and for `having`.

        >>> import skyband as sb
        >>> sb.AggregateTopK(k=3, size="1 hour", aggregate="avg", having="count(*) > 2").aggregates
        ('avg', 'count')
        """
        return tuple(dict.fromkeys([self.aggregate, *(condition.aggregate for condition in self.conditions)]))

    def to_sql(self, *, named: bool = False) -> str | None:
        """Return the query as one line of SQL; None if it has no key, or fields that SQL cannot express.

        >>> import skyband as sb
        >>> print(sb.AggregateTopK(name="busy", k=20, size="1 hour", slide="1 minute", key="client", value="bytes"))
        busy: TOPK sum(bytes), 20 BY KEY client OVER 1 HOUR EVERY 1 MINUTE
        """
        others = [item for item in fields(self) if item.init and item.name not in writer.AGGREGATE]
        if not isinstance(self.key, str) or any(getattr(self, item.name) != item.default for item in others):
            return None
        return writer.write_aggregate(self.to_dict(), named=named)

    def scan_key(self) -> tuple[str | None, str | None, str | None, tuple[str, ...]]:
        """Return the fields that must be equal for queries to share partials: key, value, filter and groups."""
        return self.key, self.value, self.where, tuple(self.partition_by)


def _checked_row(row: object, aggregate: str) -> bool:
    if checked_flag("row", row) and not AGGREGATES[aggregate].extremes:
        having_row = ", ".join(repr(name) for name, kept in AGGREGATES.items() if kept.extremes)
        raise InvalidQueryError(
            f"row=True, but the score of aggregate={aggregate!r} is not that of a single row, so there is no row to "
            f"return. Omit row=, or use one of {having_row}."
        )
    return bool(row)


def _reject_missing_value(given: str, aggregates: Iterable[str]) -> None:
    if any(AGGREGATES[name].needs_values for name in aggregates):
        raise InvalidQueryError(
            f"value=None, but {given} needs values. Set value= to the column that holds them, or use aggregate='count'."
        )
