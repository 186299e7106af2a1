"""The query class for ranking keys by an aggregate of their values in a window."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal, NamedTuple

from skyband.aggregate.having import Condition, parse_having
from skyband.aggregate.sketch_fields import checked_sketch, counters_of
from skyband.durations import parse_duration
from skyband.errors import InvalidQueryError
from skyband.queries.fields import (
    Axis,
    checked_choice,
    checked_columns,
    checked_expression,
    checked_expressions,
    checked_flag,
    checked_half_life,
    checked_k,
    checked_name,
)
from skyband.queries.window_fields import NO_SIZE
from skyband.queries.windowed import WINDOW_FIELDS, WindowedQuery
from skyband.session_windows import SessionWindows
from skyband.sql import writer
from skyband.windows import Windows

__all__ = ["AGGREGATES", "Aggregate", "AggregateTopK", "Items"]

Aggregate = Literal[
    "sum",
    "count",
    "max",
    "min",
    "avg",
    "stddev",
    "stddev_pop",
    "latest",
    "first",
    "count_distinct",
    "approx_count_distinct",
    "median",
    "quantile",
]
Items = Literal["values", "numbers", "hashes"]


MOST_HALF_LIVES = 2_000  # in a window; the weights of its rows differ by a factor of at most 2**2000


class AggregateState(NamedTuple):
    """The state that an aggregate needs per key. `kernels/key_scores.py` computes the score from it."""

    text: str
    powers: int = 0  # exact sums: 0 for the count only, 1 for the sum of values, 2 for the sum of squares too
    extremes: tuple[str, ...] = ()  # subset of "max", "min", "latest" and "first": the value of one row of the key
    items: Items | None = None  # what is counted for each key: its values of any type, its numbers, or hashes of them

    @property
    def needs_values(self) -> bool:
        """Whether the aggregate needs more than the number of values."""
        return bool(self.extremes) or self.powers > 0 or self.items is not None


AGGREGATES: dict[str, AggregateState] = {
    "sum": AggregateState("the total of the key's values", powers=1),
    "count": AggregateState("the number of the key's values"),
    "max": AggregateState("the key's largest value", extremes=("max",)),
    "min": AggregateState("the key's smallest value", extremes=("min",)),
    "avg": AggregateState("the mean of the key's values", powers=1),
    "stddev": AggregateState("the sample standard deviation of the key's values", powers=2),
    "stddev_pop": AggregateState("the population standard deviation of the key's values", powers=2),
    "latest": AggregateState("the key's newest value", extremes=("latest",)),
    "first": AggregateState("the key's oldest value", extremes=("first",)),
    "count_distinct": AggregateState("the number of the key's distinct values", items="values"),
    "approx_count_distinct": AggregateState("an estimate of the number of the key's distinct values", items="hashes"),
    "median": AggregateState("the middle one of the key's values", items="numbers"),
    "quantile": AggregateState("the quantile= of the key's values", items="numbers"),
}


TIES = {"row_number": "k keys", "rank": "also all with the k-th score"}


@dataclass(frozen=True, kw_only=True, repr=False)
class AggregateTopK(WindowedQuery):
    """The k keys with the highest aggregate of their values in every window ``[end - size, end)``.

    A key may occur any number of times. Higher scores rank first, with ``order="asc"`` lower scores. Ties are broken by
    the key seen last, then by the larger key.

    Parameters
    ----------
    k
        Number of keys per answer, at least 1.
    size, slide
        Interval text (``"1 hour"``) or `timedelta` for a window over event time, integers for a window over the last
        `size` rows. `slide` defaults to `size` and need not divide it. With ``size=None`` every window starts at
        `origin` (by default 1970-01-01), so answers are the standings since then.
    name
        Name of the query in its answers. Must be unique in a workload.
    key, value, where, partition_by
        SQL expressions for the key, the aggregated number, the filter and the groups. A list of keys ranks their
        combinations, and answers have a column for each instead of ``key``. `skyband.aggregate.replay` and
        `skyband.aggregate.Monitor` take keys and values as arrays and need none of them.
    aggregate
        ``"sum"``, ``"count"``, ``"max"``, ``"min"``, ``"avg"``, ``"stddev"`` (sample standard deviation; keys with one
        value are not ranked), ``"stddev_pop"`` (population standard deviation), ``"latest"`` or ``"first"`` (the key's
        newest or oldest value in the window; of rows with the same time, that with the larger or smaller id).
        ``"count"`` needs no value. ``"count_distinct"`` counts the distinct values, of any type that a key can have,
        ``"approx_count_distinct"`` estimates their number with a standard error of 3.3 %. ``"median"`` and
        ``"quantile"`` interpolate between the two nearest values.
    quantile
        The quantile for ``aggregate="quantile"``, from 0 (the minimum) to 1 (the maximum).
    row
        Whether an answer also returns the row with the score, for ``"max"``, ``"min"``, ``"latest"`` and ``"first"``:
        all its columns, or its id if the input is arrays. Of rows with the same value, the newest, then the one with
        the larger id.
    delete
        SQL expression, for ``"latest"``: a row where it is true deletes its key. The newest row of a key in the window
        decides: a deleted key is in no answer until a newer row has a value. A delete needs no value.
    order
        ``"desc"``: higher scores first, ``"asc"``: lower scores first.
    having
        Condition on the key's values in the window: only keys that meet it are ranked. Comparisons of ``score``,
        ``count(*)`` or another aggregate of the value with a number, joined by ``and``: ``"count(*) >= 3"``.
    others
        Whether each answer ends with a row for all other keys of the window, ranked or not, whose key is null; for
        ``"sum"`` and ``"count"``. Without other keys, there is no such row.
    share
        Whether answers have a column ``share``: the score divided by that of all keys of the window together; for
        ``"sum"`` and ``"count"``. It is null if this total is 0 or not finite.
    method
        ``"exact"``, or ``"sketch"`` for more keys than fit into memory: for ``"sum"`` of values that are not negative
        and ``"count"``. Then a score is an upper bound, and answers have a column ``error``: the key's total is between
        ``score - error`` and ``score``. In the column ``guaranteed``, true means that no key that is missing in the
        answer has a higher total. No error is larger than ``error=`` times the total of the window.
    error, counters
        For ``method="sketch"``, one of them: the largest error as a share of the total of the window (by default
        0.001), or the number of keys held of each pane and group, which is 1 / `error` - 1.
    half_life
        Rows decay, for ``"sum"``, ``"count"`` and ``"avg"``: after this time a row counts half. Scores are as of the
        end of the window. Not with `having`, `others` and `share`, nor with ``size=None``.
    ties
        ``"row_number"``: k keys; of equal scores, the key seen last ranks first. ``"rank"``: all keys with
        the k-th score are included, and equal scores share a rank. Not with ``method="sketch"`` and `half_life`, whose
        scores are bounds or rounded weights.
    origin
        Anchor of the windows: a `datetime`, ISO text or microseconds (time), or a sequence number (count).
        With `zone`, a time without offset is a local time.
    full_only
        Report only windows that begin at or after the first row of the stream.
    max_keys
        The most keys with a row in one window, in each shard, counting a key once for each group; deleted keys do not
        count. Rows with more keys are rejected, which stops a stream. None: no limit.
    zone, week_start
        A time zone such as ``"Europe/Paris"``: windows begin at local midnight, and `size` may be days, weeks, months,
        quarters or years. `week_start` is the first day of a week, ``"monday"`` unless given.
    cumulative
        Windows grow: they start with each `size` and end every `slide` ("so far today", Flink's CUMULATE).
    gap, max_length
        Session windows instead of `size` and `slide`: in each group, a session contains the rows that follow each other
        within less than `gap`, for less than `max_length` after its first row. Each group has its own sessions. Not
        with ``method="sketch"`` and `half_life`.

    Examples
    --------
    >>> import skyband as sb
    >>> sb.AggregateTopK(name="busy", k=20, size="1 hour", slide="1 minute", key="client", value="bytes")
    AggregateTopK(name='busy', k=20, size='1 hour', slide='1 minute', key='client', value='bytes')
    >>> sb.AggregateTopK(k=20, size="1 day", slide="1 minute", cumulative=True, zone="Europe/Paris").window_text
    '1 day so far, every 1 minute, in Europe/Paris'
    """

    family: ClassVar[str] = "aggregate"
    instead: ClassVar[str] = "Use size= and slide= without zone and cumulative."
    optional: ClassVar[tuple[str, ...]] = (*WINDOW_FIELDS, "method", "error", "counters", "half_life")

    name: str = "topk"
    k: int
    size: str | timedelta | int | None = NO_SIZE
    slide: str | timedelta | int | None = None
    key: str | Iterable[str] | None = None
    aggregate: Aggregate = "sum"
    value: str | None = None
    quantile: float | None = None
    where: str | None = None
    delete: str | None = None
    partition_by: Iterable[str] = ()
    order: Literal["desc", "asc"] = "desc"
    having: str | None = None
    row: bool = False
    others: bool = False
    share: bool = False
    method: Literal["exact", "sketch"] = "exact"
    error: float | None = None
    counters: int | None = None
    origin: datetime | str | int | None = None
    full_only: bool = False
    max_keys: int | None = field(default=None, compare=False)  # a change of it continues the query
    zone: str | None = None
    week_start: str | None = None
    cumulative: bool = False
    half_life: str | timedelta | None = None
    ties: Literal["row_number", "rank"] = "row_number"
    gap: str | timedelta | None = None
    max_length: str | timedelta | None = None
    axis: Axis = field(init=False, compare=False)
    window: Windows = field(init=False, compare=False)
    conditions: tuple[Condition, ...] = field(init=False, compare=False)  # of `having`

    def __post_init__(self) -> None:
        key = checked_expressions("key", self.key)
        value = checked_expression("value", self.value)
        aggregate = checked_choice("aggregate", self.aggregate, {name: kept.text for name, kept in AGGREGATES.items()})
        conditions = parse_having(self.having, aggregate, value, tuple(AGGREGATES))
        quantile = _checked_quantile(self.quantile, aggregate, [condition.aggregate for condition in conditions])
        items = _items_of(aggregate, self.having, [condition.aggregate for condition in conditions])
        if items is not None and aggregate == "count":
            _refuse_totals_of_items(self.others, self.share, self.having)
        if key is not None and value is None:
            _reject_missing_value(f"aggregate={aggregate!r}", [aggregate])
            _reject_missing_value(f"having={self.having!r}", [condition.aggregate for condition in conditions])
        ties = checked_choice("ties", self.ties, TIES)
        windowed = self._windowed()
        half_life = checked_half_life(self.half_life, windowed["axis"])
        if self.gap is not None:
            self._refuse_of_sessions()
        if half_life is not None:
            self._refuse_other_decays(aggregate, windowed["window"], parse_duration(half_life, field="half_life"))
        self._settle(
            {
                **windowed,
                "name": checked_name(self.name),
                "k": checked_k(self.k),
                "key": key,
                "aggregate": aggregate,
                "value": value,
                "quantile": quantile,
                "where": checked_expression("where", self.where),
                "delete": _checked_delete(checked_expression("delete", self.delete), aggregate, conditions),
                "partition_by": checked_columns(self.partition_by),
                "order": checked_choice("order", self.order, {"desc": "higher first", "asc": "lower first"}),
                "row": _checked_row(self.row, aggregate),
                "others": _checked_total("others", self.others, aggregate),
                "share": _checked_total("share", self.share, aggregate),
                "having": None if self.having is None else self.having.strip(),
                "full_only": checked_flag("full_only", self.full_only),
                "max_keys": None if self.max_keys is None else checked_k(self.max_keys, "max_keys"),
                "half_life": half_life,
                "ties": ties,
                "conditions": conditions,
            }
        )
        self._settle(checked_sketch(self))
        if self.shares_ranks:
            self._refuse_ties()

    def _refuse_ties(self) -> None:
        """Reject shared ranks of scores that are not the exact values of keys."""
        if self.sketched or self.half_life is not None:
            given = "method='sketch'" if self.sketched else f"half_life={self.half_life!r}"
            scores = "upper bounds" if self.sketched else "rounded from weights that no number has exactly"
            raise InvalidQueryError(
                f"ties='rank' and {given} cannot be combined: scores are {scores}, so two keys with the same total can "
                "have different scores. Omit one."
            )

    def _refuse_of_sessions(self) -> None:
        """Reject what needs the pane of a row when it arrives, which a session does not have."""
        if self.method != "exact":
            raise InvalidQueryError(
                f"method={self.method!r} and gap={self.gap!r} cannot be combined: a sketch summarizes the rows of a "
                "pane, and which session a row belongs to is known later. Omit method=, or use windows with a size."
            )
        if self.half_life is not None:
            raise InvalidQueryError(
                f"half_life={self.half_life!r} and gap={self.gap!r} cannot be combined: exact totals are weighted "
                "relative to the window's end, of which a session has none before it ends. Omit half_life=, or use "
                "windows with a size."
            )

    def _refuse_other_decays(self, aggregate: str, window: Windows, half_life: int) -> None:
        """Reject what has no decayed total."""
        given = f"half_life={self.half_life!r}"
        if aggregate not in ("sum", "count", "avg"):
            raise InvalidQueryError(
                f"{given}, but aggregate={aggregate!r} is not a total or mean of rows that could count less with time. "
                "Use aggregate='sum', 'count' or 'avg', or omit half_life."
            )
        if self.having is not None:
            raise InvalidQueryError(
                f"{given} and having={self.having!r} cannot be combined: keys are compared before their scores are "
                "computed as of the end of a window. Filter the answers by score instead."
            )
        for name in ("others", "share"):
            if getattr(self, name):
                raise InvalidQueryError(
                    f"{given} and {name}=True cannot be combined: exact totals of all keys are not decayed. Omit one."
                )
        if self.size is None:
            raise InvalidQueryError(
                f"{given} and size=None cannot be combined: an exact total since a moment has more digits with every "
                "half-life. Use a window of some dozens of half-lives; older rows hardly count."
            )
        if window.longest > MOST_HALF_LIVES * half_life:
            raise InvalidQueryError(
                f"{given} is too short for size={self.size!r}: an exact total over more than {MOST_HALF_LIVES:,} "
                "half-lives has too many digits. Use a shorter window; older rows do not count any more."
            )

    @property
    def score_text(self) -> str:
        """Short description of the score."""
        return "count" if self.aggregate == "count" else f"{self._aggregate_text} of {self.value or 'values'}"

    @property
    def _aggregate_text(self) -> str:
        return self.aggregate if self.quantile is None else f"{self.aggregate} {self.quantile:g}"

    @property
    def ranked_text(self) -> str:
        """Short description of the ranking."""
        value = "" if self.value is None or self.aggregate == "count" else f" of {self.value}"
        ranked = f"values of {', '.join(self.key_columns)}" if self.key_columns else "keys"
        having = "" if self.having is None else f" having {self.having}"
        which = "lowest" if self.ascending else "highest"
        tied = " and all that equal the last" if self.shares_ranks else ""
        deleted = "" if self.delete is None else f" deleted when {self.delete}"
        decays = "" if self.half_life is None else f", halved every {self.half_life}"
        sketched = f", within {self.largest_error:.3g} of the total" if self.sketched else ""
        best = f"the {self.k} {ranked} with the {which} {self._aggregate_text}{value}"
        return f"{best}{tied}{having}{deleted}{decays}{sketched}"

    @property
    def ascending(self) -> bool:
        """Whether lower scores rank first.

        >>> import skyband as sb
        >>> sb.AggregateTopK(k=3, size="1 hour", order="asc").ascending
        True
        """
        return self.order == "asc"

    @property
    def shares_ranks(self) -> bool:
        """Whether equal scores share a rank, and all keys with the k-th score are in the answer.

        >>> import skyband as sb
        >>> sb.AggregateTopK(k=3, size="1 hour", ties="rank").shares_ranks
        True
        """
        return self.ties == "rank"

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The expressions of the key; empty if keys are pushed as arrays.

        >>> import skyband as sb
        >>> sb.AggregateTopK(k=3, size="1 hour", key=["team", "player"], aggregate="count").key_columns
        ('team', 'player')
        """
        if self.key is None:
            return ()
        return (self.key,) if isinstance(self.key, str) else tuple(self.key)

    @property
    def identified(self) -> bool:
        """Whether rows are compared by time and id: to return them, or to find the newest or oldest."""
        return self.row or not {"latest", "first"}.isdisjoint(self.aggregates)

    @property
    def whole_rows(self) -> bool:
        """Whether answers contain all columns of a row."""
        return self.row

    @property
    def totals(self) -> bool:
        """Whether answers need the total of all keys of the window.

        >>> import skyband as sb
        >>> sb.AggregateTopK(k=3, size="1 hour", aggregate="count", share=True).totals
        True
        """
        return self.others or self.share

    @property
    def sketched(self) -> bool:
        """Whether scores are upper bounds from summaries.

        >>> import skyband as sb
        >>> sb.AggregateTopK(k=3, size="1 hour", aggregate="count", method="sketch").sketched
        True
        """
        return self.method == "sketch"

    @property
    def largest_error(self) -> float:
        """The largest error of a sketch, as a share of the total of the window.

        >>> import skyband as sb
        >>> sb.AggregateTopK(k=3, size="1 hour", aggregate="count", method="sketch", counters=99).largest_error
        0.01
        """
        return 1 / (self.most_counters + 1)

    @property
    def most_counters(self) -> int:
        """The number of keys that a sketch holds of each pane and group.

        >>> import skyband as sb
        >>> sb.AggregateTopK(k=3, size="1 hour", aggregate="count", method="sketch", error=0.01).most_counters
        99
        """
        return counters_of(self)

    @property
    def counts_rows(self) -> bool:
        """Whether scores are numbers of rows."""
        return self.aggregate == "count"

    @property
    def aggregates(self) -> tuple[str, ...]:
        """The aggregates of a key that the query needs: for its score, and for `having`.

        >>> import skyband as sb
        >>> sb.AggregateTopK(k=3, size="1 hour", aggregate="avg", having="count(*) > 2").aggregates
        ('avg', 'count')
        """
        return tuple(dict.fromkeys([self.aggregate, *(condition.aggregate for condition in self.conditions)]))

    @property
    def items(self) -> Items | None:
        """What is counted for each key: its values, numbers, or hashes; None if sums and extremes are enough.

        >>> import skyband as sb
        >>> sb.AggregateTopK(k=3, size="1 hour", aggregate="median").items
        'numbers'
        """
        return _items_of(self.aggregate, self.having, self.aggregates)

    def to_sql(self, *, named: bool = False) -> str | None:
        """Return the query as one line of SQL; None if it has no key, or fields that SQL cannot express.

        >>> import skyband as sb
        >>> print(sb.AggregateTopK(name="busy", k=20, size="1 hour", slide="1 minute", key="client", value="bytes"))
        busy: TOPK sum(bytes), 20 BY KEY client OVER 1 HOUR EVERY 1 MINUTE
        """
        others = [item for item in fields(self) if item.init and item.name not in writer.AGGREGATE]
        if self.key is None or any(getattr(self, item.name) != item.default for item in others):
            return None
        return writer.write_aggregate(self.to_dict(), named=named)

    def to_dict(self) -> dict[str, Any]:
        """Return the query as plain values for JSON; ``AggregateTopK(**query.to_dict())`` is the same query.

        >>> import skyband as sb
        >>> "method" in sb.AggregateTopK(k=3, size="1 hour", aggregate="count").to_dict()
        False
        """
        found = super().to_dict()
        if not self.sketched:
            del found["method"]
        if not self.shares_ranks:
            del found["ties"]
        return found

    def scan_key(self) -> tuple[Any, ...]:
        """Return the fields that must be equal for queries to share partials: key, value, filter, groups and deletes.

        A key of one column is its text. Stored states name their scans by it. With the value is named what is counted
        for each key, if anything is: such queries have separate partials. So have sessions.
        """
        key = self.key_columns
        one = key if len(key) > 1 else (key or (None,))[0]
        value: Any = self.value if self.items is None else (self.items, self.value)
        if self.sketched:
            value = (f"{self.aggregate} of {self.most_counters}", self.value)
        shared = (one, value, self.where, tuple(self.partition_by))
        if isinstance(self.window, SessionWindows):
            return (*shared, self.delete, None, self.window)
        if self.decay is not None:
            return (*shared, None, self.decay)
        return shared if self.delete is None else (*shared, self.delete)

    @property
    def decay(self) -> tuple[int, str] | None:
        """The half-life in microseconds, and what decays; None: rows count fully as long as they are in the window.

        >>> import skyband as sb
        >>> sb.AggregateTopK(k=3, size="1 hour", aggregate="count", half_life="5 minutes").decay
        (300000000, 'count')
        """
        if self.half_life is None:
            return None
        return parse_duration(self.half_life, field="half_life"), self.aggregate

    @property
    def takes_deletes(self) -> bool:
        """Whether a row can delete its key.

        >>> import skyband as sb
        >>> sb.AggregateTopK(k=3, size="1 hour", aggregate="sum").takes_deletes
        False
        """
        return set(self.aggregates) == {"latest"}


def _checked_row(row: object, aggregate: str) -> bool:
    if checked_flag("row", row) and not AGGREGATES[aggregate].extremes:
        having_row = ", ".join(repr(name) for name, kept in AGGREGATES.items() if kept.extremes)
        raise InvalidQueryError(
            f"row=True, but the score of aggregate={aggregate!r} is not that of a single row, so there is no row to "
            f"return. Omit row=, or use one of {having_row}."
        )
    return bool(row)


def _checked_delete(delete: str | None, aggregate: str, conditions: Iterable[Condition]) -> str | None:
    """Return the expression. A delete has no value, so other aggregates of a key with deletes are not defined."""
    if delete is not None and aggregate != "latest":
        raise InvalidQueryError(
            f"delete={delete!r}, but aggregate={aggregate!r} adds up or compares all rows of a key, so no row can "
            "delete it. Omit delete=, or use aggregate='latest', where a row replaces the value of its key."
        )
    if delete is not None and (others := [one.aggregate for one in conditions if one.aggregate != "latest"]):
        raise InvalidQueryError(
            f"having has a condition on {others[0]}, but with delete={delete!r} a key has one value, that of its "
            "newest row. Compare the score instead, for example having='score > 0'."
        )
    return delete


def _checked_total(name: str, flag: object, aggregate: str) -> bool:
    if checked_flag(name, flag) and aggregate not in ("sum", "count"):
        raise InvalidQueryError(
            f"{name}=True, but the scores of aggregate={aggregate!r} do not add up to that of all keys together, so "
            "there is no share and no rest. Omit it, or use aggregate='sum' or 'count'."
        )
    return bool(flag)


def _checked_quantile(quantile: object, aggregate: str, conditions: Sequence[str]) -> float | None:
    if aggregate != "quantile":
        if quantile is not None:
            raise InvalidQueryError(
                f"quantile={quantile!r} is only for aggregate='quantile', got aggregate={aggregate!r}. Omit it."
            )
        if "quantile" in conditions:
            raise InvalidQueryError(
                f"having has a quantile, but aggregate={aggregate!r}, so it is not known which. Use "
                "aggregate='quantile' and a condition on score, or a condition on median(value)."
            )
        return None
    if isinstance(quantile, bool) or not isinstance(quantile, int | float) or not 0 <= quantile <= 1:
        raise InvalidQueryError(
            f"aggregate='quantile' needs quantile= between 0 (the minimum) and 1 (the maximum), got {quantile!r}. For "
            "example, quantile=0.9 is exceeded by a tenth of the values."
        )
    return float(quantile)


def _items_of(aggregate: str, having: str | None, conditions: Iterable[str]) -> Items | None:
    """Return what must be counted for each key; reject aggregates that cannot be computed from the same partials."""
    names = list(dict.fromkeys([aggregate, *conditions]))
    kinds = {AGGREGATES[name].items: name for name in names if AGGREGATES[name].items is not None}
    if not kinds:
        return None
    others = [name for name in names if AGGREGATES[name].items is None and name != "count"]
    if others or ("hashes" in kinds and len(kinds) > 1):
        mine, other = next(iter(kinds.values())), others[0] if others else [*kinds.values()][1]
        raise InvalidQueryError(
            f"aggregate={aggregate!r} and having={having!r} need {mine} and {other} of the same key, which are stored "
            f"in different ways, so one query cannot have both. With {mine}, a condition can be on score and count(*)"
            + (" only." if "hashes" in kinds else ", and on count_distinct or median.")
        )
    return "numbers" if "numbers" in kinds else next(iter(kinds))


def _refuse_totals_of_items(others: object, share: object, having: str | None) -> None:
    for name, flag in (("others", others), ("share", share)):
        if flag:
            raise InvalidQueryError(
                f"{name}=True, but having={having!r} needs distinct values or a quantile, and their partials do not "
                "add up to the total of all keys. Omit one of them."
            )


def _reject_missing_value(given: str, aggregates: Iterable[str]) -> None:
    if any(AGGREGATES[name].needs_values for name in aggregates):
        raise InvalidQueryError(
            f"value=None, but {given} needs values. Set value= to the column that holds them, or use aggregate='count'."
        )
