"""The answers of a bounded input by their definition: every window is filtered, sorted and cut, one after another.

This code shares no engine, reducer or shard with the pipeline. It shares the definition of a query, the evaluation of
expressions over Arrow, and the hash of a row that breaks ties without an id.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import one
from skyband.data.row_hash import row_hash
from skyband.expressions import compile_expression
from skyband.queries.answer_schema import moment_of
from skyband.queries.workload import Workload
from skyband.session_windows import SessionWindows
from skyband.topk.query import TopK
from skyband.windows import IrregularWindows

__all__ = ["SHOWN", "Difference", "by_definition", "compare_tables", "rounded"]

SHOWN = 10
SMALLEST = 1e-300  # of decayed scores that are compared; nearer to zero, doubles have fewer digits
_COUNT = "__n"


class Difference(NamedTuple):
    """Differences between two sets of answers."""

    compared: int  # number of rows by brute force
    missing: int  # how many of them the pipeline did not return
    unexpected: int  # number of rows that only the pipeline returned
    examples: list[dict[str, Any]]  # some rows of both kinds


class _Objects(NamedTuple):
    """The rows that a query ranks."""

    rows: Any  # their numbers in the table
    at: Any  # event time, or the sequence number in the group
    score: Any
    tie: Any  # the larger ranks higher
    group: Any  # number of the group
    entity: Any  # number of the entity, of which an answer contains one row
    keys: Any  # per row: what it is ranked by, larger is better; a column for each part of the order


def by_definition(rows: pa.Table, workload: Workload[Any], *, time: str, id_: str | None) -> pa.Table:
    """Return all answers: query, groups, window end, rank, score, and the row's ``__time`` and ``__id``."""
    names = list(dict.fromkeys(name for query in workload for name in query.partition_by))
    kinds = {name: compile_expression(name, rows.schema).type for name in names}
    return pa.concat_tables([_answers(rows, query, kinds, time, id_) for query in workload])


def compare_tables(expected: pa.Table, found: pa.Table) -> Difference:
    """Compare both as multisets of rows, by the columns of the brute-force answers."""
    names = expected.column_names
    both = pa.concat_tables(
        [
            expected.append_column(_COUNT, pa.repeat(1, expected.num_rows)),
            found.select(names).cast(expected.schema).append_column(_COUNT, pa.repeat(-1, found.num_rows)),
        ]
    )
    summed = both.group_by(names).aggregate([(_COUNT, "sum")]).rename_columns([*names, _COUNT])
    differing = summed.filter(pc.not_equal(summed[_COUNT], 0))
    counts = differing[_COUNT].to_numpy()
    order = [(name, "ascending") for name in (moment_of(names), "query", "rank")]
    examples = [
        {"what": "missing" if row.pop(_COUNT) > 0 else "unexpected", **row}
        for row in differing.sort_by(order).slice(0, SHOWN).to_pylist()
    ]
    missing, unexpected = int(counts[counts > 0].sum()), int(-counts[counts < 0].sum())
    return Difference(expected.num_rows, missing, unexpected, examples)


def _answers(rows: pa.Table, query: TopK, kinds: dict[str, pa.DataType], time: str, id_: str | None) -> pa.Table:
    newest = pc.max(one(rows[time]).cast(pa.int64())).as_py()  # of all rows: those that are filtered move time too
    if query.where is not None:
        rows = rows.filter(pc.fill_null(compile_expression(query.where, rows.schema).evaluate(rows), False))
    groups = {name: compile_expression(name, rows.schema).evaluate(rows) for name in query.partition_by}
    objects = _objects(rows, query, list(groups.values()), time, id_)
    found = list(_in_time(objects, query, newest) if query.axis == "time" else _in_sequence(objects, query))
    chosen = _joined([one.rows for one, _, _ in found])
    ends = _joined([np.full(one.rows.size, end) for one, end, _ in found])
    ranks = _joined([ranks for _, _, ranks in found])
    taken = pa.array(chosen)
    columns: dict[str, Any] = {"query": pa.repeat(query.name, chosen.size)}
    for name, kind in kinds.items():
        columns[name] = groups[name].take(taken) if name in groups else pa.nulls(chosen.size, kind)
    kind = rows.schema.field(time).type
    columns["window_end"] = pa.array(ends).cast(kind) if query.axis == "time" else pa.array(ends)
    scores = _joined([_as_of(one, end, query) for one, end, _ in found], np.float64)
    columns |= {"rank": pa.array(ranks), "score": pa.array(scores)}
    columns["__time"] = one(rows[time]).take(taken)
    if id_ is not None:
        columns["__id"] = one(rows[id_]).take(taken)
    return pa.table(columns)


def _joined(parts: list[Any], kind: Any = np.int64) -> Any:
    return np.concatenate([np.empty(0, kind), *parts]).astype(kind)


def _objects(rows: pa.Table, query: TopK, groups: list[Any], time: str, id_: str | None) -> _Objects:
    """Return the rows with a time and a score, in any order."""
    at = one(rows[time]).cast(pa.int64())
    first = compile_expression(str(query.by), rows.schema).evaluate(rows)
    score = _numbers(first)
    valid = pc.and_(at.is_valid(), pc.invert(pc.fill_null(pc.is_nan(score), True)))
    kept = pc.indices_nonzero(valid).to_numpy()
    ties = pa.array(row_hash(rows)) if id_ is None else one(rows[id_])
    codes = np.zeros(kept.size, np.int64)
    for group in groups:
        codes = np.unique(codes * (kept.size + 1) + _codes(group.take(pa.array(kept))), return_inverse=True)[1]
    entity = np.arange(kept.size)
    if query.distinct is not None:
        entity = _codes(compile_expression(query.distinct, rows.schema).evaluate(rows).take(pa.array(kept)))
    # Equal ties have equal numbers; a row without an id is before all others.
    ranked = pc.rank(ties, "ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    ranked[ties.is_null().to_numpy(zero_copy_only=False)] = 0
    return _Objects(
        kept,
        at.take(pa.array(kept)).to_numpy(zero_copy_only=False),
        score.take(pa.array(kept)).to_numpy(zero_copy_only=False) + 0.0,
        ranked[kept],
        codes,
        entity,
        _keys(rows, query, first, kept, at.take(pa.array(kept)).to_numpy(zero_copy_only=False)),
    )


def _codes(values: Any) -> Any:
    """Number equal values; a missing value is one of them."""
    values = pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values
    return values.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _numbers(values: Any) -> Any:
    """Return a score of any type as answers contain it."""
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
        heads = [None if value is None else value[:6].ljust(6, b"\0") for value in values.cast(pa.binary()).to_pylist()]
        return pa.array([None if head is None else float(int.from_bytes(head, "big")) for head in heads], pa.float64())
    if pa.types.is_timestamp(kind):
        values = values.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
    elif pa.types.is_date32(kind):
        values = values.cast(pa.int32())
    elif pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    return values.cast(pa.float64(), safe=False)


def _keys(rows: pa.Table, query: TopK, first: Any, kept: Any, at: Any) -> Any:
    """Return what rows are ranked by, one column for each part of the order; larger is better."""
    rule = query.ranking_rule
    if rule is not None and rule.half_life_ticks is not None:
        parts = _decayed_parts(_numbers(first).take(pa.array(kept)).to_numpy(), at, rule.half_life_ticks)
    else:
        parts = [_places(first.take(pa.array(kept)))]
    parts = [-part for part in parts] if query.order == "asc" else parts
    for column in () if rule is None else rule.columns:
        values = compile_expression(column.text, rows.schema).evaluate(rows).take(pa.array(kept))
        missing = values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
        places = _places(values) * (-1.0 if column.order == "asc" else 1.0)
        parts.append(np.where(missing, np.inf if column.nulls_first else -np.inf, places))
    return np.stack(parts, axis=1)


def _places(values: Any) -> Any:
    """Return the place of each value in the order of all values."""
    if pa.types.is_null(values.type):
        return np.zeros(len(values))
    values = pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values
    return pc.rank(values, "ascending", tiebreaker="dense").to_numpy().astype(np.float64)


def _decayed_parts(scores: Any, at: Any, half_life: int) -> list[Any]:
    """Return sign, exponent and fraction of ``score * 2 ** (at / half_life)``, each with the sign of the score."""
    whole, rest = np.divmod(at, half_life)
    finite = np.isfinite(scores) & (scores != 0)
    sizes = np.where(finite, np.abs(scores), 1.0)
    fraction, exponent = np.frexp(sizes.astype(np.longdouble))
    fraction, more = np.frexp(fraction * np.exp2(rest.astype(np.longdouble) / half_life))
    sign = np.where(finite, np.sign(scores), 0.0)
    infinite = np.sign(scores) * np.where(np.isinf(scores), 2, 1)
    whole_exponent = (exponent.astype(np.int64) + more + whole).astype(np.longdouble)
    return [infinite, np.where(finite, sign * whole_exponent, 0), np.where(finite, sign * fraction, 0)]


def _as_of(window: _Objects, end: int, query: TopK) -> Any:
    """Return the scores as of the end of the window, rounded if they decay."""
    half_life = None if query.ranking_rule is None else query.ranking_rule.half_life_ticks
    if half_life is None:
        return window.score
    whole, rest = np.divmod(end - window.at, half_life)
    scores = np.ldexp(window.score * np.exp2(-(rest / half_life)), -np.minimum(whole, 1 << 20).astype(np.int32))
    return rounded(scores)


def rounded(scores: Any) -> Any:
    """Return decayed scores with four digits: their last bits depend on how powers of two are computed."""
    return np.array([float(f"{score:.3e}") if abs(score) >= SMALLEST else 0.0 for score in scores], np.float64)


def _in_time(objects: _Objects, query: TopK, newest: int) -> Iterator[tuple[_Objects, int, Any]]:
    """Yield the answer of every window over event time: its objects, its end, and their ranks."""
    if not objects.at.size:
        return
    objects = _taken(objects, np.argsort(objects.at, kind="stable"))
    if isinstance(query.window, SessionWindows):
        yield from _in_sessions(objects, query, query.window)
        return
    first = int(objects.at[0]) if query.full_only else None
    if isinstance(query.window, IrregularWindows):
        starts, ends = query.window.reported(int(objects.at[0]), newest)
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            low, high = (int(place) for place in np.searchsorted(objects.at, [start, end]))
            if low < high and (first is None or start >= first):
                yield _best(_taken(objects, slice(low, high)), end, query)
        return
    for low, high, end in _spans(objects.at, query):
        if first is None or end - query.sliding.size >= first:
            yield _best(_taken(objects, slice(low, high)), end, query)


def _in_sessions(objects: _Objects, query: TopK, window: SessionWindows) -> Iterator[tuple[_Objects, int, Any]]:
    """Yield the answer of every session; objects are in the order of time."""
    rows: dict[int, list[int]] = {}
    first: dict[int, int] = {}
    for row, (group, at) in enumerate(zip(objects.group.tolist(), objects.at.tolist(), strict=True)):
        if group in rows and at >= (end := window.end(first[group], int(objects.at[rows[group][-1]]))):
            yield _best(_taken(objects, np.array(rows.pop(group))), end, query)
        if group not in rows:
            rows[group], first[group] = [], at
        rows[group].append(row)
    for group, mine in rows.items():
        yield _best(_taken(objects, np.array(mine)), window.end(first[group], int(objects.at[mine[-1]])), query)


def _in_sequence(objects: _Objects, query: TopK) -> Iterator[tuple[_Objects, int, Any]]:
    """Yield the answer of every complete window of each group, over its objects in the order of time and tie."""
    order = np.lexsort([objects.tie, objects.at, objects.group])
    begins = np.flatnonzero(np.diff(objects.group[order], prepend=-1))
    for rows in np.split(order, begins[1:]) if order.size else ():
        mine = _taken(objects, rows)._replace(at=np.arange(rows.size))
        for low, high, end in _spans(mine.at, query):
            if end <= rows.size and (not query.full_only or end >= query.sliding.size):
                yield _best(_taken(mine, slice(low, high)), end, query)


def _spans(at: Any, query: TopK) -> Iterator[tuple[int, int, int]]:
    """Yield the range of sorted positions in each window that contains one, and the window's end."""
    size, slide, origin = query.sliding.size, query.sliding.slide, query.sliding.origin
    low, end = 0, origin + ((int(at[0]) - origin) // slide + 1) * slide
    while True:
        low, high = (int(place) for place in np.searchsorted(at, [end - size, end]))
        if low < high:
            yield low, high, end
            end += slide
        elif low < at.size:
            end = origin + ((int(at[low]) - origin) // slide + 1) * slide  # the next window with a position
        else:
            return


def _best(window: _Objects, end: int, query: TopK) -> tuple[_Objects, int, Any]:
    """Sort a window best first, and keep the k best of each group."""
    order = np.lexsort([-window.tie, -window.at, *(-window.keys.T[::-1]), window.group])
    if query.distinct is not None:
        pairs = np.stack([window.group[order], window.entity[order]], axis=1)
        order = order[np.sort(np.unique(pairs, axis=0, return_index=True)[1])]
    groups, keys = window.group[order], window.keys[order]
    begins = np.flatnonzero(np.diff(groups, prepend=-1))
    place = np.arange(order.size)
    first = np.repeat(begins, np.diff(begins, append=order.size))
    if query.ties == "rank":  # the place of the first object with the same score
        starts = np.flatnonzero(np.append(True, (groups[1:] != groups[:-1]) | (keys[1:] != keys[:-1]).any(axis=1)))
        place = np.repeat(starts, np.diff(starts, append=order.size))
    ranks = place - first + 1
    kept = ranks <= query.k
    return _taken(window, order[kept]), end, ranks[kept]


def _taken(objects: _Objects, places: Any) -> _Objects:
    return _Objects(*(column[places] for column in objects))
