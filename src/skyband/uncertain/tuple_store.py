"""The tuples of the window, in the order that breaks ties: by position, then by id."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.data.arrow import from_bytes, one, to_bytes
from skyband.kernels.stream import Floats, Ints
from skyband.uncertain.kernels import pruning
from skyband.uncertain.single_pass import best_first

__all__ = ["TupleRows", "TupleStore", "ids_of"]

_FEW = 1024


class TupleRows(NamedTuple):
    """Tuples in stream order."""

    positions: Ints
    scores: Floats
    probabilities: Floats
    rules: Ints  # -1: none
    streams: Ints  # -1: none is told
    ids: Any  # whole numbers, or whatever ids are, as objects


class TupleStore:
    """Takes tuples in, shows those of a window, forgets the past and what can be in no answer any more."""

    def __init__(self) -> None:
        self._rows = _empty(np.int64)
        self._head = 0
        self._tail = 0
        self._look_at = _FEW  # so many tuples are looked through for hopeless ones
        self.dropped = 0  # hopeless tuples, so far
        self._drops: list[tuple[int, float, int]] = []  # the newest position, the error, and the k of each time

    def __len__(self) -> int:
        return self._tail - self._head

    @property
    def rules_in_use(self) -> Ints:
        """The rules of the tuples that are held."""
        found = self._rows.rules[self._head : self._tail]
        return found[found >= 0]

    @property
    def streams_in_use(self) -> Ints:
        """The streams of the tuples that are held."""
        found = self._rows.streams[self._head : self._tail]
        return found[found >= 0]

    def window(self, start: int, end: int) -> TupleRows:
        """The tuples at or after `start` and before `end`."""
        positions = self._rows.positions[self._head : self._tail]
        low, high = np.searchsorted(positions, [start, end])
        return self._slice(self._head + int(low), self._head + int(high))

    def first_from(self, position: int) -> int | None:
        """The position of the oldest tuple at or after `position`."""
        positions = self._rows.positions[self._head : self._tail]
        at = int(np.searchsorted(positions, position))
        return int(positions[at]) if at < positions.size else None

    def add(self, rows: TupleRows, *, in_order: bool) -> None:
        """Take tuples in, none of them older than those held; unless `in_order`, equal positions are put in order."""
        if not rows.positions.size:
            return
        if not in_order:
            positions = self._rows.positions[self._head : self._tail]
            same = self._head + int(np.searchsorted(positions, rows.positions[0]))
            rows = _ordered(_joined(self._slice(same, self._tail), rows))
            self._tail = same
        self._reserve(rows)
        low, self._tail = self._tail, self._tail + rows.positions.size
        for column, new in zip(self._rows, rows, strict=True):
            column[low : self._tail] = new

    def forget_before(self, position: int) -> None:
        """Let go of all tuples before `position`."""
        positions = self._rows.positions[self._head : self._tail]
        self._head += int(np.searchsorted(positions, position))
        self._drops = [drop for drop in self._drops if drop[0] >= position]

    def drop_hopeless(self, k: int, epsilon: float, newest: int) -> None:
        """Drop tuples that can be among the k best of no window to come, now and then.

        Tuples at `newest` stay, and count for nothing: a window may end there. Where tuples are dropped that could
        have been in an answer with a probability, these add up to at most `epsilon` in any window: an answer differs
        from the true one only if one of them is among the k best. Of each stream the newest tuple before `newest`
        stays, whatever its chances: it tells when the stream was seen last, in every window to come.
        """
        if len(self) < self._look_at:
            return
        positions = self._rows.positions[self._head : self._tail]
        older = int(np.searchsorted(positions, newest))
        rows = self._slice(self._head, self._head + older)
        limit = max(0.0, epsilon - self.error_bound) / max(1, older)
        if older > k and (limit > 0 or int((rows.probabilities >= 1).sum()) >= k):
            self._drop(rows, k, limit)
        self._look_at = max(_FEW, 2 * len(self))

    def _drop(self, rows: TupleRows, k: int, limit: float) -> None:
        n = rows.positions.size
        places = np.empty(n, np.int64)
        places[best_first(rows.scores, n)] = np.arange(n)
        bounds = np.empty(n)
        sums = np.zeros(n + 1, np.int64), np.zeros(n + 1)
        pruning.mark_hopeless(places, rows.probabilities, rows.rules, k, limit, *sums, bounds)
        bounds[_newest_of_streams(rows.streams)] = 2.0
        gone = np.flatnonzero(bounds <= 1)
        if not gone.size:
            return
        self._drops.append((int(rows.positions[gone[-1]]), float(bounds[gone].sum()), k))
        self.dropped += gone.size
        kept = np.ones(len(self), bool)
        kept[gone] = False
        rest = TupleRows._make(column[self._head : self._tail][kept] for column in self._rows)
        self._head, self._tail = 0, rest.positions.size
        for column, new in zip(self._rows, rest, strict=True):
            column[: self._tail] = new

    @property
    def error_bound(self) -> float:
        """By how much a probability can differ from the true one, for what was dropped."""
        return sum((error for _, error, _ in self._drops), 0.0)

    @property
    def least_dropped(self) -> tuple[int, int] | None:
        """The smallest k that tuples of the window were dropped for, and the position of the newest of those."""
        if not self._drops:
            return None
        return min(k for _, _, k in self._drops), max(position for position, _, _ in self._drops)

    def state(self, id_kind: pa.DataType) -> dict[str, Any]:
        """Everything that `load` needs."""
        rows = self._slice(self._head, self._tail)._asdict()
        rows["ids"] = pa.array(rows["ids"], id_kind)
        return {
            "rows": to_bytes(pa.table(rows)),
            "look_at": self._look_at,
            "dropped": self.dropped,
            "drops": self._drops,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        table = from_bytes(state["rows"])
        ids = one(table["ids"])
        columns = [one(table[name]).to_numpy(zero_copy_only=False).copy() for name in TupleRows._fields[:-1]]
        self.add(TupleRows._make([*columns, ids_of(ids)]), in_order=True)
        self._look_at, self.dropped = state["look_at"], state["dropped"]
        self._drops = [(position, error, k) for position, error, k in state["drops"]]

    def _slice(self, low: int, high: int) -> TupleRows:
        return TupleRows._make(column[low:high] for column in self._rows)

    def _reserve(self, rows: TupleRows) -> None:
        """Make room at the end: by moving to the front where that is enough, else by growing."""
        more, kind = rows.positions.size, rows.ids.dtype
        if self._tail + more <= self._rows.positions.size and self._rows.ids.dtype == kind:
            return
        held = self._slice(self._head, self._tail)
        room = max(_FEW, 2 * (len(self) + more))
        fresh = _empty(kind, room)
        for column, old in zip(fresh, held, strict=True):
            column[: len(self)] = old
        self._rows, self._head, self._tail = fresh, 0, len(self)


def ids_of(column: pa.Array) -> Any:
    """Ids as an array: of whole numbers if they are such, else of objects that have their order."""
    if column.type == pa.int64():
        return column.to_numpy(zero_copy_only=False).copy()
    found = np.empty(len(column), object)
    found[:] = column.to_pylist()
    return found


def _empty(kind: Any, room: int = 0) -> TupleRows:
    whole = [np.zeros(room, np.int64) for _ in range(3)]
    return TupleRows(whole[0], np.zeros(room), np.zeros(room), whole[1], whole[2], np.zeros(room, kind))


def _newest_of_streams(streams: Ints) -> Ints:
    """The place of the newest tuple of each stream; tuples come oldest first."""
    lasts = np.full(int(streams.max(initial=-1)) + 1, -1)
    there = np.flatnonzero(streams >= 0)
    lasts[streams[there]] = there
    return lasts[lasts >= 0]


def _joined(first: TupleRows, second: TupleRows) -> TupleRows:
    if not first.positions.size:
        return second
    return TupleRows._make(np.concatenate([a, b]) for a, b in zip(first, second, strict=True))


def _ordered(rows: TupleRows) -> TupleRows:
    """Tuples of the same position by id; of the same id in the order in which they came."""
    same = rows.positions[1:] == rows.positions[:-1]
    if not same.any():
        return rows
    if rows.ids.dtype == object:
        order = np.arange(rows.positions.size)
        tied = np.flatnonzero(np.append(same, False) | np.insert(same, 0, False)).tolist()
        order[tied] = sorted(tied, key=lambda row: (rows.positions[row], rows.ids[row]))
    else:
        order = np.lexsort([rows.ids, rows.positions])
    return TupleRows._make(column[order] for column in rows)
