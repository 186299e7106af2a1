"""The answers of aggregate queries by their definition: every window is grouped by key, scored and sorted on its own.

This code shares no engine, reducer or shard with the pipeline. It shares the definition of a query and, without Spark,
the evaluation of expressions over Arrow, and the powers of two of decayed means.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.aggregate.bound_checks import with_bounds, within_bounds
from skyband.aggregate.decay import power_of_two
from skyband.aggregate.query import AggregateTopK
from skyband.data.arrow import one
from skyband.data.row_hash import row_hash
from skyband.errors import UnsupportedError
from skyband.expressions import compile_expression
from skyband.queries.workload import Workload
from skyband.session_windows import SessionWindows
from skyband.windows import IrregularWindows

__all__ = ["OWN", "by_definition", "decayed_score", "defined_score", "within_bounds"]

OWN = ("__time", "__id")  # columns with the time and the id of a returned row
SMALLEST = 1e-300  # of decayed scores that are compared; nearer to zero, doubles have fewer digits


def _total(values: Sequence[float]) -> float:
    """Return the sum, rounded once; NaN if it contains both infinities."""
    infinite = {value for value in values if math.isinf(value)}
    if infinite:
        return infinite.pop() if len(infinite) == 1 else math.nan
    try:
        return math.fsum(values)
    except OverflowError:  # of a partial sum, or of the result
        exact = sum(map(Fraction, values), Fraction(0))
        try:
            return float(exact)
        except OverflowError:
            return math.inf if exact > 0 else -math.inf


def _deviation(values: Sequence[float], lost: int = 1) -> float:
    """Return the standard deviation, from exact sums: of a sample, which has none for one value, or a population."""
    number = len(values)
    if number <= lost or any(map(math.isinf, values)):
        return math.nan
    exact = [Fraction(value) for value in values]
    spread = number * sum(value * value for value in exact) - sum(exact) ** 2
    if not spread:
        return 0.0
    half = (spread.numerator.bit_length() - spread.denominator.bit_length()) // 2  # squares of large values overflow
    try:
        return math.ldexp(math.sqrt(float(spread / Fraction(4) ** half) / (number * (number - lost))), half)
    except OverflowError:
        return math.inf


def _quantile(values: Sequence[float], fraction: float) -> float:
    """Return the quantile as Spark's `percentile`: interpolated between the two values around its place."""
    ordered = sorted(values)
    place = fraction * (len(ordered) - 1)
    lower = math.floor(place)
    low, high = ordered[lower], ordered[min(lower + 1, len(ordered) - 1)]
    if low == high or place == lower:
        return low + 0.0
    return (lower + 1 - place) * low + (place - lower) * high


_SCORES: dict[str, Callable[[Sequence[float]], float]] = {
    "sum": _total,
    "count": lambda values: float(len(values)),
    "max": lambda values: max(values) + 0.0,
    "min": lambda values: min(values) + 0.0,
    "avg": lambda values: _total(values) / len(values),
    "stddev": _deviation,
    "stddev_pop": partial(_deviation, lost=0),
    "count_distinct": lambda values: float(len(set(values))),
    "median": partial(_quantile, fraction=0.5),
    # The values of a key are in the order of its rows. That of a row which deletes the key is NaN.
    "latest": lambda values: values[-1] + 0.0,
    "first": lambda values: values[0] + 0.0,
}


# The fields that the definition here uses. A query with other ones has other answers.
_DEFINED = frozenset(
    [
        "name",
        "k",
        "size",
        "slide",
        "key",
        "aggregate",
        "value",
        "quantile",
        "where",
        "delete",
        "partition_by",
        "origin",
        "full_only",
        "order",
        "having",
        "others",
        "share",
        "row",
        "max_keys",
        "zone",
        "week_start",
        "cumulative",
        "method",
        "error",
        "counters",
        "half_life",
        "gap",
        "max_length",
        "ties",
    ]
)


def defined_score(query: AggregateTopK) -> Callable[[Sequence[float]], float]:
    """Return the function from the values of a key in a window to its score; NaN is not ranked.

    >>> import skyband as sb
    >>> defined_score(sb.AggregateTopK(k=1, size=10, aggregate="avg"))([1.0, 2.0])
    1.5
    """
    others = [item.name for item in fields(query) if item.init and item.name not in _DEFINED]
    given = [name for name in others if getattr(query, name) != getattr(type(query), name)]
    known = (*_SCORES, "quantile")
    if not set(known) >= set(query.aggregates) or given:
        what = given[0] if given else "aggregate" if query.aggregate not in known else "having"
        raise UnsupportedError(
            f"query {query.name!r} has {what}={getattr(query, what)!r}, which verify cannot compute by brute force. "
            f"Verify a file with the aggregates {', '.join(known)}."
        )
    return _score_of(query, query.aggregate)


def _score_of(query: AggregateTopK, aggregate: str) -> Callable[[Sequence[float]], float]:
    if aggregate == "quantile":
        return partial(_quantile, fraction=query.quantile or 0.0)
    return _SCORES[aggregate]


_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
    "=": operator.eq,
    "<>": lambda score, bound: not math.isnan(score) and score != bound,
}


def decayed_score(query: AggregateTopK) -> Callable[[Sequence[float], Sequence[int], int], tuple[float, float]]:
    """Return the function from the values of a key, their times and a window end to its order and its score.

    Keys are ordered by their totals relative to the end of an epoch of 32 half-lives, from weighted values that are
    rounded once. Scores have four digits here, because a power of two has other last bits elsewhere. Means are totals
    divided by the sum of weights; their order has the same weights as elsewhere, because equal means are common.

    >>> import skyband as sb
    >>> query = sb.AggregateTopK(k=1, size="1 hour", half_life="10 seconds")
    >>> decayed_score(query)([8.0], [0], 20_000_000)[1]
    2.0
    """
    defined_score(query)  # rejects what is not defined here
    if query.aggregate == "avg":
        return partial(_decayed_mean, _half_life(query))
    return partial(_decayed, _half_life(query), query.counts_rows)


def _half_life(query: AggregateTopK) -> int:
    return query.decay[0] if query.decay is not None else 0


def _decayed(half_life: int, counts: bool, values: Sequence[float], at: Sequence[int], end: int) -> tuple[float, float]:
    epoch = (end - 1) // (32 * half_life)
    infinite, exact = set(), Fraction(0)
    for value, position in zip(values, at, strict=True):
        lives, rest = divmod(position, half_life)
        weighed = math.ldexp((1.0 if counts else value) * 2.0 ** (rest / half_life), lives % 32 - 32)
        if math.isinf(weighed):
            infinite.add(weighed)
        else:
            exact += Fraction(weighed) * Fraction(2) ** (32 * (lives // 32 - epoch))
    total = (infinite.pop() if len(infinite) == 1 else math.nan) if infinite else _nearest(exact)
    lives, rest = divmod((epoch + 1) * 32 * half_life - end, half_life)
    try:
        score = math.ldexp(total * 2.0 ** (rest / half_life), lives)
    except OverflowError:
        score = math.copysign(math.inf, total)
    return total, float(f"{score:.3e}") if abs(score) >= SMALLEST else 0.0


def _decayed_mean(half_life: int, values: Sequence[float], at: Sequence[int], end: int) -> tuple[float, float]:
    epoch = (end - 1) // (32 * half_life)
    infinite, total, weights = set(), Fraction(0), Fraction(0)
    for value, position in zip(values, at, strict=True):
        lives, rest = divmod(position, half_life)
        power = float(power_of_two(np.array([rest / half_life]))[0])
        unit = Fraction(2) ** (32 * (lives // 32 - epoch))
        weighed = math.ldexp(value * power, lives % 32 - 32)
        weights += Fraction(math.ldexp(power, lives % 32 - 32)) * unit
        if math.isinf(weighed):
            infinite.add(weighed)
        else:
            total += Fraction(weighed) * unit
    if infinite:
        mean = infinite.pop() if len(infinite) == 1 else math.nan
    else:
        numerator, denominator = _to_53_bits(total), _to_53_bits(weights)
        mean = _nearest(_to_53_bits(numerator / denominator))
    return mean, float(f"{mean:.3e}") if abs(mean) >= SMALLEST else 0.0


def _to_53_bits(number: Fraction) -> Fraction:
    """Return the number rounded to 53 bits, without limits for its exponent."""
    unit = Fraction(2) ** (number.numerator.bit_length() - number.denominator.bit_length())
    return Fraction(float(number / unit)) * unit


def _nearest(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def meets(query: AggregateTopK, values: Sequence[float]) -> bool:
    """Return whether the values of a key in a window meet the conditions of ``having=``; NaN meets none."""
    return all(
        _COMPARE[condition.operator](_score_of(query, condition.aggregate)(values), condition.bound)
        for condition in query.conditions
    )


def by_definition(rows: pa.Table, workload: Workload[Any], *, time: str, id_: str | None = None) -> pa.Table:
    """Return all answers: query, groups, window end, rank, key and score. Rows need no id.

    If a query has ``row=True``, also the ``__time`` and ``__id`` of the returned row. For a sketch, all keys of a
    window; `within_bounds` compares answers with them.
    """
    names = list(dict.fromkeys(name for query in workload for name in query.groups))
    kinds = {name: compile_expression(name, rows.schema).type for name in names}
    found = [_answers(rows, query, kinds, time, id_) for query in workload]
    unused = [] if any(query.share for query in workload) else ["share"]
    unused += [] if any(query.row for query in workload) else [name for name in OWN if name in found[0].column_names]
    return with_bounds(pa.concat_tables([one.drop_columns(unused) for one in found]), workload)


def in_order(query: AggregateTopK) -> bool:
    """Return whether the order of a key's rows matters: by time, id and value; deletes are last.

    >>> import skyband as sb
    >>> in_order(sb.AggregateTopK(k=1, size=10, aggregate="avg", having="latest(value) > 0"))
    True
    """
    return query.identified


def _answers(
    rows: pa.Table, query: AggregateTopK, kinds: dict[str, pa.DataType], time: str, id_: str | None
) -> pa.Table:
    newest = pc.max(rows[time].cast(pa.int64())).as_py()  # of all rows: they move time, whether they count or not
    if query.where is not None:
        rows = rows.filter(pc.fill_null(compile_expression(query.where, rows.schema).evaluate(rows), False))
    names = query.key_columns if len(query.key_columns) > 1 else ("key",)
    keys = pa.table([_plain(compile_expression(text, rows.schema).evaluate(rows)) for text in query.key_columns], names)
    values = pa.repeat(0.0, rows.num_rows)
    if query.value is not None:
        found = compile_expression(query.value, rows.schema).evaluate(rows)
        if query.items == "values":  # of any type: equal values have equal numbers
            known = _plain(found)
            found = pc.if_else(known.is_valid(), pc.rank(known, "ascending", tiebreaker="dense"), None)
        values = _plain(found.cast(pa.float64(), safe=False))
    if query.delete is not None:
        deletes = pc.fill_null(compile_expression(query.delete, rows.schema).evaluate(rows), False)
        values = pc.if_else(deletes, math.nan, values)
    valid = pc.and_(one(rows[time]).is_valid(), values.is_valid())
    for column in keys.columns:
        valid = pc.and_(valid, one(column).is_valid())
    rows, keys, values = rows.filter(valid), keys.filter(valid), values.filter(valid)
    groups = {name: _plain(compile_expression(name, rows.schema).evaluate(rows)) for name in query.groups}
    at = one(rows[time]).cast(pa.int64()).to_numpy(zero_copy_only=False)
    order = np.argsort(at, kind="stable")
    if in_order(query):
        ids = [] if id_ is None else [_ranks(one(rows[id_]))]
        order = np.lexsort([values.to_numpy(), *ids, at])  # by time first; NaN is last
    ranks = [pc.rank(one(column), "ascending", tiebreaker="dense").to_numpy() for column in keys.columns]
    places = np.unique(np.stack(ranks, axis=1).astype(np.int64), axis=0, return_inverse=True)[1].reshape(-1)
    codes = _codes(groups)
    if query.axis == "count":
        ties = row_hash(rows) if id_ is None else _ranks(one(rows[id_]))
        order, at = _numbered(np.lexsort([places, values.to_numpy(), ties, at]), codes)
    found_rows = [
        (row, end, *found)
        for inside, end in _inside(order, at, codes, query, newest)
        for row, *found in _ranked(inside, at, codes, places, values.to_numpy(), query, end)
    ]
    chosen = pa.array([row for row, *_ in found_rows], pa.int64())
    returned = chosen if query.row else pa.nulls(len(found_rows), pa.int64())
    keyed = pa.array([None if is_rest else row for row, *_, is_rest in found_rows], pa.int64())
    columns: dict[str, Any] = {"query": pa.repeat(query.name, len(found_rows))}
    for name, kind in kinds.items():
        columns[name] = groups[name].take(chosen) if name in groups else pa.nulls(len(found_rows), kind)
    ends = pa.array([end for _, end, *_ in found_rows], pa.int64())
    columns["window_end"] = ends.cast(rows.schema.field(time).type) if query.axis == "time" else ends
    columns["rank"] = pa.array([rank for _, _, rank, *_ in found_rows], pa.int64())
    columns |= {name: one(keys[name]).take(keyed) for name in names}
    columns["score"] = pa.array([score for _, _, _, score, *_ in found_rows], pa.float64())
    columns["share"] = pa.array([share for *_, share, _ in found_rows], pa.float64())
    columns |= {own: one(rows[name]).take(returned) for own, name in zip(OWN, (time, id_), strict=True) if name}
    return pa.table(columns)


def _plain(column: Any) -> Any:
    """Return a column without NaN, which is missing, and without -0.0."""
    if not pa.types.is_floating(column.type):
        return column
    return pc.add(pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column), pa.scalar(0.0, column.type))


def _ranks(ids: Any) -> Any:
    """Return numbers in the order of ids; null is the smallest."""
    found = pc.rank(ids, "ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    return np.where(ids.is_valid().to_numpy(zero_copy_only=False), found, 0)


def _codes(groups: dict[str, Any]) -> Any:
    """Return a number for the group of each row; None if all rows are of one group."""
    codes = None
    for group in groups.values():
        encoded = group.dictionary_encode(null_encoding="encode")
        mine = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        codes = (
            mine if codes is None else np.unique(codes * (len(encoded.dictionary) + 1) + mine, return_inverse=True)[1]
        )
    return codes


def _numbered(order: Any, codes: Any) -> tuple[Any, Any]:
    """Return the rows, and the number of each row in its group."""
    numbers = np.empty(order.size, np.int64)
    for rows in _by_group(order, codes):
        numbers[rows] = np.arange(rows.size)
    return order, numbers


def _by_group(order: Any, codes: Any) -> list[Any]:
    """Return the rows of each group, in their order."""
    if codes is None or not order.size:
        return [order]
    order = order[np.argsort(codes[order], kind="stable")]
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def _inside(order: Any, at: Any, codes: Any, query: AggregateTopK, newest: int) -> Iterator[tuple[Any, int]]:
    """Yield the rows in each window that contains one, in their order, and the window's end."""
    if isinstance(query.window, SessionWindows):
        for rows in _by_group(order, codes):
            yield from _in_sessions(rows, at, query.window)
        return
    if query.axis == "time":
        for inside, end in _windows(at[order], query, newest):
            yield order[inside], end
        return
    for rows in _by_group(order, codes):
        for inside, end in _windows(at[rows], query, newest):
            if end <= rows.size:
                yield rows[inside], end


def _in_sessions(rows: Any, at: Any, window: SessionWindows) -> Iterator[tuple[Any, int]]:
    """Yield the rows of each session of a group, and its end."""
    mine: list[int] = []
    for row in rows.tolist():
        if mine and at[row] >= window.end(int(at[mine[0]]), int(at[mine[-1]])):
            yield np.array(mine), window.end(int(at[mine[0]]), int(at[mine[-1]]))
            mine = []
        mine.append(row)
    if mine:
        yield np.array(mine), window.end(int(at[mine[0]]), int(at[mine[-1]]))


def _windows(at: Any, query: AggregateTopK, newest: int) -> Iterator[tuple[slice, int]]:
    """Yield the range of sorted positions in each window that contains one, and the window's end."""
    if isinstance(query.window, IrregularWindows):
        if at.size:
            yield from _listed(at, query, *query.window.reported(int(at[0]), newest))
        return
    size, slide, origin = query.sliding.size, query.sliding.slide, query.sliding.origin
    low = 0
    end = 0 if not at.size else origin + ((int(at[0]) - origin) // slide + 1) * slide
    while low < at.size:
        low, high = (int(place) for place in np.searchsorted(at, [end - size, end]))
        if low < high:
            if not query.full_only or end - size >= at[0]:
                yield slice(low, high), end
            end += slide
        elif low < at.size:
            end = origin + ((int(at[low]) - origin) // slide + 1) * slide  # the next window with a position


def _listed(at: Any, query: AggregateTopK, starts: Any, ends: Any) -> Iterator[tuple[slice, int]]:
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        low, high = (int(place) for place in np.searchsorted(at, [start, end]))
        if low < high and (not query.full_only or start >= at[0]):
            yield slice(low, high), end


def _ranked(
    inside: Any, at: Any, codes: Any, places: Any, values: Any, query: AggregateTopK, end: int
) -> Iterator[tuple[int, int, float, float | None, bool]]:
    """Yield a row of each of the best keys of a window, its rank in its group, its score and its share.

    It is the row with the score, if that is the value of one row; `inside` has the rows in their order.
    The last of a group can be all other keys together, which is true in the last column.
    """
    score = defined_score(query)
    by_key: dict[tuple[int, int], list[int]] = {}
    for row in inside.tolist():
        by_key.setdefault((0 if codes is None else int(codes[row]), int(places[row])), []).append(row)
    sign = -1.0 if query.ascending else 1.0
    by_group: dict[int, list[tuple[float, int, int, int]]] = {}
    shown: dict[int, float] = {}  # scores that are not what keys are ordered by
    for (group, key), mine in by_key.items():
        listed = values[mine].tolist()
        if query.decay is None:
            found = score(listed)
        else:
            found, shown[mine[0]] = decayed_score(query)(listed, at[mine].tolist(), end)
        if not math.isnan(found) and meets(query, listed):
            row = _chosen(query, mine, listed, found)
            by_group.setdefault(group, []).append((sign * found, int(at[mine].max()), key, row))
    for group, keys in by_group.items():
        best = _best(query, keys)
        named = {key for _, (_, _, key, _) in best}
        rest = [
            row for (at_group, key), mine in by_key.items() if at_group == group and key not in named for row in mine
        ]
        total = math.nan
        if query.totals:
            total = score([values[row] for (of, _), mine in by_key.items() if of == group for row in mine])
        for rank, (found, _, _, row) in best:
            yield row, rank, shown.get(row, sign * found) + 0.0, _share(query, sign * found, total), False
        if query.others and rest:
            found = score(values[rest].tolist())
            yield rest[0], len(best) + 1, found + 0.0, _share(query, found, total), True


def _best(
    query: AggregateTopK, keys: Sequence[tuple[float, int, int, int]]
) -> list[tuple[int, tuple[float, int, int, int]]]:
    """Return the keys of an answer with their ranks, from their scores, the last times and the keys."""
    ordered = sorted(keys, reverse=True)
    if not query.shares_ranks:
        return list(enumerate(ordered[: len(keys) if query.sketched else query.k], 1))
    first: dict[float, int] = {}  # rank of each score: one more than the number of better keys
    ranked = [(first.setdefault(key[0], place), key) for place, key in enumerate(ordered, 1)]
    return [one for one in ranked if one[0] <= query.k]


def _chosen(query: AggregateTopK, rows: list[int], values: Sequence[float], score: float) -> int:
    """Return the row of a key that has the score, of equal ones the last; its first row for other aggregates."""
    if query.aggregate == "latest":
        return rows[-1]
    if query.aggregate not in ("max", "min"):
        return rows[0]
    return [row for row, value in zip(rows, values, strict=True) if value == score][-1]


def _share(query: AggregateTopK, score: float, total: float) -> float | None:
    undefined = not query.share or not total or not math.isfinite(total) or math.isnan(score)
    return None if undefined else score / total
