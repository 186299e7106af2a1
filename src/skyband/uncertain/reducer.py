"""Convert a task's rows to uncertain tuples and drop those that cannot be in any answer.

Windows end at multiples of a *unit*, because all times of the plan are multiples of it. Let x be a tuple without a
rule. Let N be better tuples at x's position or after it, and before the next multiple of the unit. Every window that
contains x ends at that multiple or later. So it also contains N, whose tuples do not leave before x does. That is the
condition of `retention`, which says when no answer depends on x: if k tuples of N are certain (probability 1, without a
rule), or if the probabilities of N have a large sum. Tasks do not know how many tuples others drop, so the sum is so
large that the bounds of any number of tuples add up to something negligible.

Dropping x does not affect lateness: if x is not late, N is not late either. A tuple with a rule is never dropped,
because the probability sum of its rule must be known. For each ranked stream, the newest tuple before a multiple of the
unit is kept: it determines when the stream was last seen, in every window with x. The first tuple of the stream may be
dropped: N is in the same unit, where the plan begins. With groups, N are tuples of the group of x.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import one
from skyband.data.group_key import GROUP, packed_groups
from skyband.errors import InvalidInputError
from skyband.kernels.reduce import mark_outweighed
from skyband.kernels.stream import Floats, Ints
from skyband.sharding.envelope import Envelope, Histogram, Note, gathered, refuse_non_integers
from skyband.sharding.rows import group_rows, positions_of, scores_of, shard_of_groups
from skyband.uncertain.plan import PaneCut, UncertainPlan
from skyband.uncertain.query import UncertainTopK
from skyband.uncertain.retention import needed_mean, needed_sum, retention_of
from skyband.windows import ALWAYS, NEVER

__all__ = [
    "ID",
    "TIME",
    "UncertainNote",
    "columns_of",
    "newest_of_streams",
    "possible_answers",
    "separated",
    "stream_column",
    "weigh_rows",
]

TIME, ID = "__skyband_time", "__skyband_id"
NO_ROWS = np.empty(0, np.int64)
_ROUNDING = 1 + 1e-6  # sums of many weights are rounded


def columns_of(number: int) -> tuple[str, str, str]:
    """Return the names of the score, probability and rule columns of a class."""
    return f"__skyband_score_{number}", f"__skyband_probability_{number}", f"__skyband_rule_{number}"


def stream_column(number: int) -> str:
    """Return the name of the stream column of a class, if its queries rank streams."""
    return f"__skyband_stream_{number}"


@dataclass(frozen=True)
class UncertainNote(Note):
    """Also contains the newest position of pruned tuples."""

    newest_cut: Sequence[int] = ()  # per class: position of the newest pruned tuple, ALWAYS if none was pruned

    @classmethod
    def joined(cls, notes: Sequence[Self]) -> Self:
        """Return one note with the facts of several. The notes of slices of an envelope have no `newest_cut`."""
        newest = zip_longest(*(note.newest_cut for note in notes), fillvalue=ALWAYS)
        return cls(**cls._shared(notes), newest_cut=tuple(map(max, newest)))

    def refuse_other_types(self) -> None:
        """Raise TypeError or ValueError if a field is not of its type."""
        super().refuse_other_types()
        refuse_non_integers(self.newest_cut)


class _Tuples(NamedTuple):
    """The rows of a batch, from the view of one class of queries."""

    belongs: Any  # bool, per row: whether it is a tuple of the class
    kept: Ints  # rows that may be in an answer
    dropped_null: Any  # bool, per row: whether the score is missing
    table: pa.Table  # the rows in `kept`


def weigh_rows(plan: UncertainPlan, batches: Iterable[pa.RecordBatch], _timely: int = NEVER) -> Iterator[Envelope]:
    """Yield the tuples of a task's rows that may be in an answer. The note describes all rows."""
    for table in gathered(batches):
        timed = table.filter(pc.is_valid(table[TIME])) if table[TIME].null_count else table
        positions = positions_of(timed, TIME)
        found = [_tuples(plan, number, timed, positions) for number in range(len(plan.classes))]
        belongs = np.logical_or.reduce([one.belongs for one in found])
        kept = np.zeros(timed.num_rows, bool)
        for mine in found:
            kept[mine.kept] = True
        note = UncertainNote(
            newest=int(positions.max(initial=ALWAYS)),
            oldest=int(positions[belongs].min(initial=NEVER)),
            histogram=Histogram.of(positions[belongs]) if plan.may_be_late else None,
            newest_cut=_newest_cut(found, positions),
        )
        dropped_null = int(np.logical_or.reduce([one.dropped_null for one in found]).sum())
        counts = table.num_rows, table.num_rows - timed.num_rows + dropped_null, int(belongs.sum() - kept.sum())
        tuples = pa.concat_tables([one.table for one in found])
        if plan.shards == 1:
            yield Envelope(0, tuples, note, *counts)
            continue
        grouping = group_rows(tuples, [GROUP])
        homes = shard_of_groups(tuples, [GROUP], grouping, plan.shards)[grouping.codes]
        for shard in range(plan.shards):
            # One shard counts the rows, and those that are late.
            noted = (
                note
                if shard == 0
                else replace(note, histogram=None if note.histogram is None else Histogram.of(NO_ROWS))
            )
            yield Envelope(
                shard, tuples.filter(pa.array(homes == shard)), noted, *(counts if shard == 0 else (0, 0, 0))
            )


def _newest_cut(found: list[_Tuples], positions: Ints) -> tuple[int, ...]:
    newest = []
    for mine in found:
        cut = mine.belongs.copy()
        cut[mine.kept] = False
        newest.append(int(positions[cut].max(initial=ALWAYS)))
    return tuple(newest)


def _tuples(plan: UncertainPlan, number: int, timed: pa.Table, positions: Ints) -> _Tuples:
    query, names = plan.classes[number][0], columns_of(number)
    numbers, known = scores_of(timed, names[0]), one(timed[names[0]]).is_valid().to_numpy(zero_copy_only=False)
    there = ~np.isnan(numbers)
    rows = np.flatnonzero(there)
    chances = one(timed[names[1]]).to_numpy(zero_copy_only=False)
    rules = one(timed[names[2]])
    _reject_wrong_probability(query, chances[rows])
    streams = None
    if plan.streams[number] is not None:
        streams = one(timed[stream_column(number)])
        _reject_missing_stream(plan.streams[number], plan.classes[number], streams, there)
    cut, groups = plan.cuts[number], None
    if plan.group_columns:
        columns = [one(timed[name]).take(pa.array(rows)) for name in plan.groups[number]]
        groups = packed_groups(columns) if columns else pa.nulls(rows.size, pa.binary())
    if cut is not None and rows.size:
        ruled = rules.is_valid().to_numpy(zero_copy_only=False)[rows]
        at, unit = separated(positions[rows], cut.unit, groups)
        kept = possible_answers(cut._replace(unit=unit), at, numbers[rows], chances[rows], ruled)
        if streams is not None and not kept.all():
            kept |= newest_of_streams(unit, at, streams.take(pa.array(rows)))
        rows = rows[kept]
        groups = None if groups is None else groups.filter(pa.array(kept))
    places = pa.array(rows)
    table = {
        "class": pa.array(np.full(rows.size, number), pa.int32()),
        "position": pa.array(positions[rows]),
        "id": one(timed[ID]).take(places),
        "score": pa.array(numbers[rows]),
        "probability": pa.array(chances[rows]),
        "rule": rules.take(places),
    }
    if any(stream is not None for stream in plan.streams):
        kind = timed.schema.field(next(stream_column(i) for i, stream in enumerate(plan.streams) if stream)).type
        table["stream"] = pa.nulls(rows.size, kind) if streams is None else streams.take(places)
    if groups is not None:
        table[GROUP] = groups
    # A null score marks a filtered row, which is not counted as dropped_null.
    return _Tuples(there, rows, ~there & known, pa.table(table))


def separated(positions: Ints, unit: int, groups: pa.Array | None) -> tuple[Ints, int]:
    """Return positions and a unit such that tuples of two groups are in different units; without groups, as given.

    >>> separated(np.array([1, 7, 8]), 5, pa.array(["a", "a", "b"]))[0].tolist()
    [0, 4, 8]
    """
    if groups is None or groups.null_count == len(groups):
        return positions, unit
    codes = groups.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False).astype(np.int64)
    panes = np.unique(positions // unit, return_inverse=True)[1].reshape(-1).astype(np.int64)
    cells = np.unique(codes * (panes.max() + 1) + panes, return_inverse=True)[1].reshape(-1).astype(np.int64)
    ranks = np.unique(positions, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return cells * positions.size + ranks, positions.size


def possible_answers(cut: PaneCut, positions: Ints, scores: Floats, chances: Floats, ruled: Any) -> Any:
    """Return a mask of the tuples on which an answer may depend."""
    scores = -scores if cut.queries[0].ascending else scores
    needed = retention_of(cut.queries)
    assert needed is not None
    order, heap = np.argsort(positions, kind="stable"), np.empty(scores.size, np.int64)

    def outweighed(weights: Floats, least: float) -> Any:
        found = np.zeros(scores.size, bool)
        if weights.sum() >= least:
            mark_outweighed(scores, positions, order, weights, least, cut.unit, heap, found)
        return found

    dropped = ~ruled
    if needed.k:
        in_no_rank = outweighed(((chances >= 1) & ~ruled).astype(float), needed.k)
        mean = needed_mean(needed.k, needed.negligible)
        if mean is not None:
            in_no_rank |= outweighed(chances, mean * _ROUNDING)
        dropped &= in_no_rank
    for alpha in needed.alphas:
        dropped &= outweighed(-np.log1p((alpha - 1) * chances), needed_sum(alpha) * _ROUNDING)
    return ~dropped


def newest_of_streams(unit: int, positions: Ints, streams: pa.Array) -> Any:
    """Return a mask of the tuples that are the newest of their stream before a multiple of the unit."""
    codes = streams.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    order = np.lexsort([positions, positions // unit, codes])
    cells = np.stack([codes[order], positions[order] // unit])
    found = np.zeros(positions.size, bool)
    found[order[np.append((cells[:, 1:] != cells[:, :-1]).any(axis=0), True)]] = True
    return found


def _reject_wrong_probability(query: UncertainTopK, chances: Any) -> None:
    wrong = ~((chances > 0) & (chances <= 1))
    if wrong.any():
        found = chances[np.argmax(wrong)]
        raise InvalidInputError(
            f"query {query.name!r}: probability={query.probability!r} must be in (0, 1], got "
            f"{'null' if np.isnan(found) else found}. Drop such rows with where=."
        )


def _reject_missing_stream(
    stream: str | None, together: tuple[UncertainTopK, ...], labels: pa.Array, there: Any
) -> None:
    lacking = labels.is_null().to_numpy(zero_copy_only=False) & there
    if lacking.any():
        query = next(query for query in together if query.stream is not None)
        raise InvalidInputError(
            f"query {query.name!r}: stream={stream!r} must not be null, because the query ranks streams by their "
            "tuples. Drop such rows with where=, or replace null with coalesce()."
        )
