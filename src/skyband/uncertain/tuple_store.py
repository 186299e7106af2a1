"""Store the tuples of the window, sorted by position, then by id. This order breaks ties."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.data.arrow import from_bytes, one, to_bytes
from skyband.kernels.stream import Floats, Ints
from skyband.uncertain.kernels import pruning
from skyband.uncertain.retention import Retention, needed_sum
from skyband.uncertain.single_pass import best_first

__all__ = ["TupleRows", "TupleStore", "ids_of"]

_FEW = 1024
_LEAST = 16  # of the store of a group


class TupleRows(NamedTuple):
    """Tuples in stream order."""

    positions: Ints
    scores: Floats
    probabilities: Floats
    rules: Ints  # -1: no rule
    streams: Ints  # -1: no stream
    ids: Any  # int64, or objects for other types


class TupleStore:
    """Store tuples, return those of a window, and drop those that are expired or can no longer be in an answer."""

    def __init__(self, *, few: bool = False) -> None:
        self._room = _LEAST if few else _FEW
        self._rows = _empty(np.int64)
        self._head = 0
        self._tail = 0
        self._look_at = _FEW  # number of tuples at which the next pruning starts
        self.dropped = 0  # number of pruned tuples
        self._drops: list[tuple[int, float, int]] = []  # per pruning: newest dropped position, error, k

    def __len__(self) -> int:
        return self._tail - self._head

    @property
    def rules_in_use(self) -> Ints:
        """Codes of the rules of all tuples held."""
        found = self._rows.rules[self._head : self._tail]
        return found[found >= 0]

    @property
    def streams_in_use(self) -> Ints:
        """Codes of the streams of all tuples held."""
        found = self._rows.streams[self._head : self._tail]
        return found[found >= 0]

    def window(self, start: int, end: int) -> TupleRows:
        """Return the tuples at or after `start` and before `end`."""
        positions = self._rows.positions[self._head : self._tail]
        low, high = np.searchsorted(positions, [start, end])
        return self._slice(self._head + int(low), self._head + int(high))

    def first_from(self, position: int) -> int | None:
        """Return the position of the oldest tuple at or after `position`, None if there is none."""
        positions = self._rows.positions[self._head : self._tail]
        at = int(np.searchsorted(positions, position))
        return int(positions[at]) if at < positions.size else None

    def add(self, rows: TupleRows, *, in_order: bool) -> None:
        """Add tuples, none older than those held. Unless `in_order`, tuples at equal positions are sorted by id."""
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

    def drop_before(self, position: int) -> None:
        """Remove all tuples before `position`."""
        positions = self._rows.positions[self._head : self._tail]
        self._head += int(np.searchsorted(positions, position))
        self._drops = [drop for drop in self._drops if drop[0] >= position]

    def prune(self, needed: Retention, epsilon: float, newest: int) -> None:
        """Drop tuples that no later window needs (see `retention`), whenever the store has doubled in size.

        Tuples at `newest` are kept and not counted as better tuples, because a window may end there. With `epsilon`,
        tuples with a small probability of being in an answer are dropped too. These probabilities add up to at most
        `epsilon` in any window, and an answer is wrong only if one of these tuples is in the top k. The newest tuple of
        each stream before `newest` is always kept, because it determines when the stream was last seen.
        """
        if len(self) < self._look_at:
            return
        positions = self._rows.positions[self._head : self._tail]
        older = int(np.searchsorted(positions, newest))
        rows = self._slice(self._head, self._head + older)
        limit = max(0.0, max(epsilon, needed.negligible) - self.error_bound) / max(1, older)
        if older > needed.k and (limit > 0 or int((rows.probabilities >= 1).sum()) >= needed.k):
            self._drop(rows, needed, limit)
        self._look_at = max(_FEW, 2 * len(self))

    def _drop(self, rows: TupleRows, needed: Retention, limit: float) -> None:
        n = rows.positions.size
        places = np.empty(n, np.int64)
        places[best_first(rows.scores, n)] = np.arange(n)
        bounds = np.zeros(n)
        if needed.k:
            sums = np.zeros(n + 1, np.int64), np.zeros(n + 1)
            pruning.bound_probabilities(places, rows.probabilities, rows.rules, needed.k, limit, *sums, bounds)
        for alpha in needed.alphas:
            before = np.empty(n)
            pruning.sum_newer_better(places, -np.log1p((alpha - 1) * rows.probabilities), np.zeros(n + 1), before)
            bounds[before < needed_sum(alpha)] = 2.0
        bounds[_newest_of_streams(rows.streams)] = 2.0
        gone = np.flatnonzero(bounds <= 1)
        if not gone.size:
            return
        self._drops.append((int(rows.positions[gone[-1]]), float(bounds[gone].sum()), needed.k))
        self.dropped += gone.size
        kept = np.ones(len(self), bool)
        kept[gone] = False
        rest = TupleRows._make(column[self._head : self._tail][kept] for column in self._rows)
        self._head, self._tail = 0, rest.positions.size
        for column, new in zip(self._rows, rest, strict=True):
            column[: self._tail] = new

    @property
    def error_bound(self) -> float:
        """Maximum error of a probability because of dropped tuples."""
        return sum((error for _, error, _ in self._drops), 0.0)

    @property
    def least_dropped(self) -> tuple[int, int] | None:
        """The smallest k for which tuples of the window were dropped, and the newest position of a dropped tuple."""
        if not self._drops:
            return None
        return min(k for _, _, k in self._drops), max(position for position, _, _ in self._drops)

    def state(self, id_kind: pa.DataType) -> dict[str, Any]:
        """Return the state for `load`."""
        rows = self._slice(self._head, self._tail)._asdict()
        rows["ids"] = pa.array(rows["ids"] if rows["ids"].size else [], id_kind)
        return {
            "rows": to_bytes(pa.table(rows)),
            "look_at": self._look_at,
            "dropped": self.dropped,
            "drops": self._drops,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restore the state that `state` returned."""
        table = from_bytes(state["rows"])
        ids = one(table["ids"])
        columns = [one(table[name]).to_numpy(zero_copy_only=False).copy() for name in TupleRows._fields[:-1]]
        self.add(TupleRows._make([*columns, ids_of(ids)]), in_order=True)
        self._look_at, self.dropped = state["look_at"], state["dropped"]
        self._drops = [(position, error, k) for position, error, k in state["drops"]]

    def _slice(self, low: int, high: int) -> TupleRows:
        return TupleRows._make(column[low:high] for column in self._rows)

    def _reserve(self, rows: TupleRows) -> None:
        """Make space at the end: move tuples to the front of new, larger arrays if necessary."""
        more, kind = rows.positions.size, rows.ids.dtype
        if self._tail + more <= self._rows.positions.size and self._rows.ids.dtype == kind:
            return
        held = self._slice(self._head, self._tail)
        room = max(self._room, 2 * (len(self) + more))
        fresh = _empty(kind, room)
        for column, old in zip(fresh, held, strict=True):
            column[: len(self)] = old
        self._rows, self._head, self._tail = fresh, 0, len(self)


def ids_of(column: pa.Array) -> Any:
    """Return ids as a NumPy array: int64 for integers, otherwise Python objects with the same order."""
    if column.type == pa.int64():
        return column.to_numpy(zero_copy_only=False).copy()
    found = np.empty(len(column), object)
    found[:] = column.to_pylist()
    return found


def _empty(kind: Any, room: int = 0) -> TupleRows:
    whole = [np.zeros(room, np.int64) for _ in range(3)]
    return TupleRows(whole[0], np.zeros(room), np.zeros(room), whole[1], whole[2], np.zeros(room, kind))


def _newest_of_streams(streams: Ints) -> Ints:
    """Return the index of the newest tuple of each stream. Tuples are sorted oldest first."""
    lasts = np.full(int(streams.max(initial=-1)) + 1, -1)
    there = np.flatnonzero(streams >= 0)
    lasts[streams[there]] = there
    return lasts[lasts >= 0]


def _joined(first: TupleRows, second: TupleRows) -> TupleRows:
    if not first.positions.size:
        return second
    return TupleRows._make(np.concatenate([a, b]) for a, b in zip(first, second, strict=True))


def _ordered(rows: TupleRows) -> TupleRows:
    """Sort tuples at the same position by id, and those of one id in order of arrival."""
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
