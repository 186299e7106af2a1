"""Arriving tuples: stream codes, object hashes, and the order that breaks ties.

If two objects were last seen at the same position, the object id breaks the tie. So tuples are sorted by position, then
by object. Tuples at the newest position are buffered until time advances, because a later push may add more of them.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import from_bytes, one, to_bytes
from skyband.data.columns import as_arrow
from skyband.errors import InvalidInputError, UnknownNameError
from skyband.incomplete.query import IncompleteTopK
from skyband.kernels.stream import Floats, Ints

_NONE = np.empty(0, np.int64)

__all__ = [
    "ArrivedTuples",
    "Outside",
    "PendingTuples",
    "content_hashes",
    "out_of_bounds",
    "stream_names",
    "stream_numbers",
]


class ArrivedTuples(NamedTuple):
    """Tuples with their objects, in a sortable form."""

    positions: Ints  # empty on a count axis
    objects: pa.Array
    streams: Ints
    values: Floats
    groups: Ints = _NONE  # empty without groups


class PendingTuples:
    """Buffer of the tuples at the newest position."""

    def __init__(self) -> None:
        self._rows: ArrivedTuples | None = None

    def __len__(self) -> int:
        return 0 if self._rows is None else self._rows.values.size

    @property
    def values(self) -> Floats:
        """The values of the tuples."""
        return np.empty(0) if self._rows is None else self._rows.values

    @property
    def groups(self) -> Ints:
        """The groups of the tuples; empty without groups."""
        return _NONE if self._rows is None else self._rows.groups

    @property
    def streams(self) -> Ints:
        """The stream numbers of the tuples."""
        return np.empty(0, np.int64) if self._rows is None else self._rows.streams

    def take_before(self, arrived: ArrivedTuples | None, until: int | None) -> ArrivedTuples | None:
        """Return buffered and new tuples before the position `until` (None: all), sorted. Buffer the others."""
        rows = _joined(self._rows, arrived if arrived is not None and arrived.values.size else None)
        if rows is None:
            return None
        rows = _by_object(rows)
        cut = rows.values.size if until is None else int(np.searchsorted(rows.positions, until))
        self._rows = None if cut == rows.values.size else _slice(rows, cut, rows.values.size)
        return _slice(rows, 0, cut)

    def state(self) -> bytes | None:
        """Return the buffered tuples as bytes."""
        if self._rows is None:
            return None
        columns = {name: column for name, column in self._rows._asdict().items() if name != "groups" or column.size}
        return to_bytes(pa.table(columns))

    def load(self, state: bytes | None) -> None:
        """Restore the state that `state` returned."""
        if state is None:
            self._rows = None
            return
        table = from_bytes(state)
        known = [name for name in ("positions", "streams", "values", "groups") if name in table.column_names]
        columns = {name: one(table[name]).to_numpy(zero_copy_only=False).copy() for name in known}
        self._rows = ArrivedTuples(objects=one(table["objects"]), **columns)


def _joined(first: ArrivedTuples | None, second: ArrivedTuples | None) -> ArrivedTuples | None:
    if first is None or second is None:
        return first if second is None else second
    return ArrivedTuples(
        np.concatenate([first.positions, second.positions]),
        pa.concat_arrays([first.objects, second.objects]),
        np.concatenate([first.streams, second.streams]),
        np.concatenate([first.values, second.values]),
        np.concatenate([first.groups, second.groups]),
    )


def _slice(rows: ArrivedTuples, low: int, high: int) -> ArrivedTuples:
    return ArrivedTuples(
        rows.positions[low:high],
        rows.objects.slice(low, high - low),
        rows.streams[low:high],
        rows.values[low:high],
        rows.groups[low:high],
    )


def _by_object(rows: ArrivedTuples) -> ArrivedTuples:
    """Sort tuples at the same position by object, and those of one object in order of arrival."""
    same = rows.positions[1:] == rows.positions[:-1]
    if not same.any():
        return rows
    tied = np.flatnonzero(np.append(same, False) | np.insert(same, 0, False))
    order = np.arange(rows.values.size)
    table = pa.table({"position": rows.positions[tied], "object": rows.objects.take(pa.array(tied)), "row": tied})
    order[tied] = tied[pc.sort_indices(table, [(name, "ascending") for name in table.column_names]).to_numpy()]
    return ArrivedTuples(*(_any_take(column, order) for column in rows))


def _any_take(column: Any, order: Ints) -> Any:
    if isinstance(column, pa.Array):
        return column.take(pa.array(order))
    return column[order] if column.size else column


def stream_names(column: Any) -> tuple[str | int, ...]:
    """Return the distinct names in a column of streams, sorted."""
    return tuple(sorted(value for value in _names(column).drop_null().unique().to_pylist()))


def stream_numbers(column: Any, declared: tuple[str | int, ...]) -> Ints:
    """Return the index of each tuple's stream among the declared ones, -1 for null."""
    array = _names(column)
    if pa.types.is_null(array.type):
        return np.full(len(array), -1)
    encoded = array.dictionary_encode()
    places = {name: place for place, name in enumerate(declared)}
    known = np.empty(len(encoded.dictionary) + 1, np.int64)
    known[-1] = -1
    for code, name in enumerate(encoded.dictionary.to_pylist()):
        if name not in places:
            raise UnknownNameError.among("stream", str(name), map(str, declared))
        known[code] = places[name]
    indices = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
    found: Ints = known[indices]
    return found


def _names(column: Any) -> pa.Array:
    array = as_arrow(column, "streams")
    kind = array.type
    if not (pa.types.is_null(kind) or pa.types.is_integer(kind) or kind in (pa.string(), pa.large_string())):
        raise InvalidInputError(
            f"streams are of type {kind}, but stream names must be strings or integers. This batch was rejected."
        )
    return array


class Outside(NamedTuple):
    """A tuple whose value is outside its bounds."""

    row: int
    bounds: str  # as the query declares them


def out_of_bounds(query: IncompleteTopK, streams: tuple[str | int, ...], codes: Ints, values: Floats) -> Outside | None:
    """Return the first tuple whose value is outside the bounds of its stream; NaN never is."""
    if not query.has_bounds_by_stream:
        low, high = query.bounds_of(streams[0])
        outside = (values < low) | (values > high)
        return Outside(int(np.argmax(outside)), f"bounds={query.bounds}") if outside.any() else None
    lows, highs = np.array([query.bounds_of(stream) for stream in streams]).T
    outside = (values < lows[codes]) | (values > highs[codes])
    if not outside.any():
        return None
    row = int(np.argmax(outside))
    stream = streams[codes[row]]
    return Outside(row, f"bounds[{stream!r}]={query.bounds_of(stream)}")


def content_hashes(stored: pa.Array) -> Ints:
    """Return an integer hash per object that depends only on the object."""
    if pa.types.is_integer(stored.type):
        whole: Ints = stored.to_numpy(zero_copy_only=False).astype(np.int64)
        return whole
    if pa.types.is_floating(stored.type):
        bits: Ints = np.ascontiguousarray(stored.to_numpy(zero_copy_only=False)).view(np.int64)
        return bits
    encoded = stored.dictionary_encode()
    texts = encoded.dictionary.cast(pa.large_binary()).to_pylist()
    digests = [int.from_bytes(blake2b(text, digest_size=8).digest(), "little", signed=True) for text in texts]
    found: Ints = np.array(digests, np.int64)[encoded.indices.to_numpy(zero_copy_only=False)]
    return found
