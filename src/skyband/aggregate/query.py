"""The everyday question: which keys have the largest total, count, maximum, … in the window?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar, Literal, NamedTuple

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
from skyband.windows import SlidingWindow

__all__ = ["AGGREGATES", "Aggregate", "AggregateTopK"]

Aggregate = Literal["sum", "count", "max", "min", "avg", "stddev"]


class AggregateState(NamedTuple):
    """What is kept of a key's values for an aggregate. How the score follows from it says `kernels/key_top.py`."""

    text: str
    powers: int = 0  # exact sums: 0 for none but the count, 1 for that of the values, 2 for that of their squares too
    extremes: tuple[str, ...] = ()  # of "max" and "min", those that are kept

    @property
    def needs_values(self) -> bool:
        """Whether anything but the number of values is kept."""
        return bool(self.extremes) or self.powers > 0


AGGREGATES: dict[str, AggregateState] = {
    "sum": AggregateState("the total of the key's values", powers=1),
    "count": AggregateState("how many values the key has"),
    "max": AggregateState("its largest value", extremes=("max",)),
    "min": AggregateState("its smallest value", extremes=("min",)),
    "avg": AggregateState("the mean of its values", powers=1),
    "stddev": AggregateState("the sample standard deviation of its values", powers=2),
}


@dataclass(frozen=True, kw_only=True, repr=False)
class AggregateTopK(Query):
    """The k keys with the highest aggregate of their values in every window ``[end - size, end)``.

    A key may occur any number of times. Higher scores come first; of equal ones the key seen last, then the larger key.

    Parameters
    ----------
    k
        How many keys an answer ranks, at least 1.
    size, slide
        Interval text (``"1 hour"``) or `timedelta` for a window over event time, integers for a window over the last
        `size` rows. `slide` defaults to `size` and need not divide it.
    name
        What the query is called in its answers; unique in a workload.
    key, value, where, partition_by
        SQL expressions for the key, the number that is aggregated, the filter and the groups. Arrays carry keys and
        values themselves, so that `skyband.aggregate.replay` needs none of them.
    aggregate
        ``"sum"``, ``"count"``, ``"max"``, ``"min"``, ``"avg"`` or ``"stddev"``, the sample standard deviation, which
        a key with one value does not have. A count needs no value.
    origin
        Where the windows are anchored: a `datetime`, ISO text or microseconds (time), or a sequence number (count).
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
    origin: datetime | str | int | None = None
    full_only: bool = False
    axis: Axis = field(init=False, compare=False)
    window: SlidingWindow = field(init=False, compare=False)

    def __post_init__(self) -> None:
        slide = self.size if self.slide is None else self.slide
        axis = same_axis(self.size, slide, "slide")
        window = window_of(axis, self.size, slide, self.origin)
        key = checked_expression("key", self.key)
        value = checked_expression("value", self.value)
        aggregate = checked_choice("aggregate", self.aggregate, {name: kept.text for name, kept in AGGREGATES.items()})
        if key is not None and value is None and AGGREGATES[aggregate].needs_values:
            raise InvalidQueryError(
                f"value=None, but aggregate={self.aggregate!r} is made of values; name the column that holds them, or "
                "ask for aggregate='count'."
            )
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
                "origin": window.origin,
                "full_only": checked_flag("full_only", self.full_only),
                "axis": axis,
                "window": window,
            }
        )

    @property
    def score_text(self) -> str:
        """What the score is, in a few words."""
        return "count" if self.aggregate == "count" else f"{self.aggregate} of {self.value or 'values'}"

    @property
    def ranked_text(self) -> str:
        """What is ranked, in a few words."""
        value = "" if self.value is None or self.aggregate == "count" else f" of {self.value}"
        ranked = "keys" if self.key is None else f"values of {self.key}"
        return f"the {self.k} {ranked} with the highest {self.aggregate}{value}"

    def scan_key(self) -> tuple[str | None, str | None, str | None, tuple[str, ...]]:
        """What queries must agree in to share partials: key, value, filter and groups."""
        return self.key, self.value, self.where, tuple(self.partition_by)
