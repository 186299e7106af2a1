"""A task's rows as uncertain tuples, without those that can be in no answer.

Windows end at multiples of a *unit*: the plan's times are whole units, counted from one. Let x be a tuple without a
rule, and let k better ones be certain (of probability 1, without a rule), stand at x's position or after it, and before
the next multiple of the unit after x. Every window that holds x ends at that multiple or later, so that it holds these
k too, and they leave no window before x does. So in every window with x,

- fewer than k better tuples never exist: ``Pr_k(x) = 0``, x is the i-th best of no world for i <= k, and in no list;
- a tuple T that x could stand before has the same k better ones: ``Pr_k(T) = 0`` with x and without it.

So no probability depends on x, in any window, for any k that is asked for, unless expected ranks are, which count all
tuples. Whether x is late or not, nothing else changes: where x is not late, neither are the k, which stand after it. A
tuple with a rule is never left behind, as what its rule comes to must be known. Of each stream that is ranked, the
newest tuple before a multiple of the unit stays: it tells when the stream was seen last, in every window with x. And
the first tuple of all may go: one of the k stands in the same unit, which is where the plan begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import one
from skyband.errors import InvalidInputError
from skyband.kernels.reduce import mark_hopeful
from skyband.kernels.stream import Floats, Ints
from skyband.sharding.envelope import Envelope, Histogram, Note, gathered
from skyband.sharding.rows import positions_of, scores_of
from skyband.uncertain.plan import PaneCut, UncertainPlan
from skyband.uncertain.query import UncertainTopK
from skyband.windows import ALWAYS, NEVER

__all__ = ["ID", "TIME", "UncertainNote", "columns_of", "stream_column", "weigh_rows"]

TIME, ID = "__skyband_time", "__skyband_id"


def columns_of(number: int) -> tuple[str, str, str]:
    """The columns that tell a row's score, probability and rule to the queries that run together."""
    return f"__skyband_score_{number}", f"__skyband_probability_{number}", f"__skyband_rule_{number}"


def stream_column(number: int) -> str:
    """The column that tells which stream a row comes from, where the queries that run together rank streams."""
    return f"__skyband_stream_{number}"


@dataclass(frozen=True)
class UncertainNote(Note):
    """Also tells of the tuples that were cut."""

    newest_cut: Sequence[int] = ()  # per class: where the newest of them stands; ALWAYS where none was


class _Tuples(NamedTuple):
    """What the rows of a stretch are to the queries that run together."""

    belongs: Any  # bool, per row: whether it is a tuple of theirs
    kept: Ints  # the rows that may matter
    dropped_null: Any  # bool, per row: whether it lacks a score
    table: pa.Table  # of the rows in `kept`


def weigh_rows(plan: UncertainPlan, batches: Iterable[pa.RecordBatch]) -> Iterator[Envelope]:
    """A task's rows as uncertain tuples, those that may matter. The note tells of all of them."""
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
        yield Envelope(0, pa.concat_tables([one.table for one in found]), note, *counts)


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
    _refuse_impossible(query, chances[rows])
    streams = None
    if plan.streams[number] is not None:
        streams = one(timed[stream_column(number)])
        _refuse_nameless(plan.streams[number], plan.classes[number], streams, there)
    cut = plan.cuts[number]
    if cut is not None and rows.size:
        ruled = rules.is_valid().to_numpy(zero_copy_only=False)[rows]
        kept = _hopeful(cut, positions[rows], numbers[rows], chances[rows], ruled)
        if streams is not None and not kept.all():
            kept |= _newest_of_streams(cut.unit, positions[rows], streams.take(pa.array(rows)))
        rows = rows[kept]
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
    # A score that is null was removed by the filter: such a row is not asked about, and lacks nothing.
    return _Tuples(there, rows, ~there & known, pa.table(table))


def _hopeful(cut: PaneCut, positions: Ints, scores: Floats, chances: Floats, ruled: Any) -> Any:
    """Which tuples may be in an answer; a mask."""
    certain = (chances >= 1) & ~ruled
    if int(certain.sum()) < cut.k:
        return np.ones(scores.size, bool)
    order = np.argsort(positions, kind="stable")
    kept = ruled.astype(np.int64)
    heap = np.empty(cut.k), np.empty(cut.k, np.int64)
    mark_hopeful(scores, positions, order, certain.astype(np.int64), cut.unit, cut.k, *heap, kept)
    return kept > 0


def _newest_of_streams(unit: int, positions: Ints, streams: pa.Array) -> Any:
    """Which tuples are the newest of their stream before a multiple of the unit; a mask."""
    codes = streams.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    order = np.lexsort([positions, positions // unit, codes])
    cells = np.stack([codes[order], positions[order] // unit])
    found = np.zeros(positions.size, bool)
    found[order[np.append((cells[:, 1:] != cells[:, :-1]).any(axis=0), True)]] = True
    return found


def _refuse_impossible(query: UncertainTopK, chances: Any) -> None:
    wrong = ~((chances > 0) & (chances <= 1))
    if wrong.any():
        found = chances[np.argmax(wrong)]
        raise InvalidInputError(
            f"query {query.name!r}: a probability of {'null' if np.isnan(found) else found} "
            f"(probability={query.probability!r}) does not lie in (0, 1]; such a tuple exists in no world, or in more "
            "than all of them. Leave such rows out with where=."
        )


def _refuse_nameless(stream: str | None, together: tuple[UncertainTopK, ...], labels: pa.Array, there: Any) -> None:
    lacking = labels.is_null().to_numpy(zero_copy_only=False) & there
    if lacking.any():
        query = next(query for query in together if query.stream is not None)
        raise InvalidInputError(
            f"query {query.name!r}: a stream of null (stream={stream!r}) is none; where streams are ranked, a tuple "
            "adds to the one it comes from, and without one it would be lost. Leave such rows out with where=, or "
            "name them with coalesce()."
        )
