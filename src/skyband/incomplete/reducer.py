"""Convert a task's rows to tuples, addressed to the shard of their object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import one
from skyband.data.group_key import GROUP, packed_groups
from skyband.errors import InvalidInputError, UnknownNameError
from skyband.incomplete.arrivals import out_of_bounds
from skyband.incomplete.plan import IncompletePlan, IncompleteScan
from skyband.incomplete.query import IncompleteTopK
from skyband.sharding.envelope import Envelope, Note
from skyband.sharding.rows import group_rows, positions_of, shard_of_groups
from skyband.windows import ALWAYS, NEVER

__all__ = ["ID", "TIME", "columns_of", "gather_rows"]

TIME, ID = "__skyband_time", "__skyband_id"
COUNTING_SHARD = 0


def columns_of(number: int) -> tuple[str, str, str]:
    """Return the names of the object, stream and value columns of a scan."""
    return f"__skyband_object_{number}", f"__skyband_stream_{number}", f"__skyband_value_{number}"


def gather_rows(plan: IncompletePlan, batches: Iterable[pa.RecordBatch], _timely: int = NEVER) -> Iterator[Envelope]:
    """Yield a task's rows as tuples, addressed to the shards of their objects.

    Every shard gets a note with every batch, so all shards know the newest position.
    """
    for batch in batches:
        if not batch.num_rows:
            continue
        table = pa.Table.from_batches([batch])
        timed = table.filter(pc.is_valid(table[TIME]))
        positions = positions_of(timed, TIME)
        dropped_null = np.zeros(timed.num_rows, bool)
        parts = []
        for number, scan in enumerate(plan.scans):
            tuples, lacking = _tuples(plan, number, scan, timed, positions)
            dropped_null |= lacking
            parts.append(tuples)
        tuples = pa.concat_tables(parts)
        newest = int(positions.max(initial=ALWAYS))
        note = Note(newest, int(positions.min(initial=NEVER)))
        homes = _homes(plan, tuples)
        counts = (table.num_rows, table.num_rows - timed.num_rows + int(dropped_null.sum()), 0)
        for shard in range(plan.shards):
            mine = tuples if plan.shards == 1 else tuples.filter(pa.array(homes == shard))
            yield Envelope(shard, mine, note, *(counts if shard == COUNTING_SHARD else (0, 0, 0)))


def _tuples(
    plan: IncompletePlan, number: int, scan: IncompleteScan, table: pa.Table, positions: Any
) -> tuple[pa.Table, Any]:
    """Return the tuples of a scan, and a mask of rows with missing fields. Filtered rows are in neither."""
    names = columns_of(number)
    objects, streams, values = (one(table[name]) for name in names)
    unfiltered = values.is_valid().to_numpy(zero_copy_only=False)  # null: filtered row; NaN: missing value
    numbers = values.fill_null(np.nan).to_numpy(zero_copy_only=False)
    there = objects.is_valid().to_numpy(zero_copy_only=False) & streams.is_valid().to_numpy(zero_copy_only=False)
    whole = there & ~np.isnan(numbers)
    places = [plan.queries[place] for place in scan.places]
    codes = _stream_codes(places[0], streams)
    for query in places:
        # Queries of one scan may declare their streams in another order.
        own = codes if query.streams == places[0].streams else _stream_codes(query, streams)
        _reject_out_of_bounds(query, own[whole], numbers[whole])
    rows = pa.array(np.flatnonzero(whole))
    tuples = {
        "told": pa.array(np.full(len(rows), number), pa.int32()),
        "position": pa.array(positions[whole]),
        "id": one(table[ID]).take(rows),
        "object": objects.take(rows),
        "stream": pa.array(codes[whole]),
        "value": pa.array(numbers[whole]),
    }
    if plan.group_columns:
        columns = [one(table[name]).take(rows) for name in plan.groups[number]]
        tuples[GROUP] = packed_groups(columns) if columns else pa.nulls(len(rows), pa.binary())
    return pa.table(tuples), unfiltered & ~whole


def _reject_out_of_bounds(query: IncompleteTopK, codes: Any, numbers: Any) -> None:
    outside = out_of_bounds(query, tuple(query.streams or ()), codes, numbers)
    if outside is not None:
        raise InvalidInputError(
            f"query {query.name!r}: a value of {numbers[outside.row]} is outside {outside.bounds}, so "
            "scores could not be bounded. Widen bounds=, or drop such rows with where=."
        )


def _stream_codes(query: IncompleteTopK, streams: pa.Array) -> Any:
    declared = [str(name) for name in query.streams or ()]
    encoded = streams.dictionary_encode()
    known = np.full(len(encoded.dictionary) + 1, -1, np.int64)
    for code, name in enumerate(encoded.dictionary.to_pylist()):
        if name not in declared:
            raise UnknownNameError(
                f"query {query.name!r}: a row has the stream {name!r}, which is not among streams={declared}, "
                "so no score has a place for its value. Add the stream, or drop such rows with where=."
            )
        known[code] = declared.index(name)
    return known[encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)]


def _homes(plan: IncompletePlan, tuples: pa.Table) -> Any:
    """Return the shard of each tuple: that of its group, or of its object if the scan has no groups."""
    homes = _shards_by(plan, tuples, "object")
    if plan.group_columns:
        grouped = one(tuples[GROUP]).is_valid().to_numpy(zero_copy_only=False)
        homes = np.where(grouped, _shards_by(plan, tuples, GROUP), homes)
    return homes


def _shards_by(plan: IncompletePlan, tuples: pa.Table, column: str) -> Any:
    grouping = group_rows(tuples, [column])
    return shard_of_groups(tuples, [column], grouping, plan.shards)[grouping.codes]
