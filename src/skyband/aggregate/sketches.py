"""Summaries of panes for queries with ``method="sketch"``: the heaviest keys, with bounds of their totals.

A query with ``counters=m`` holds, of each pane and group, the m keys with the largest upper bounds. A window adds up
the bounds of its panes, so its errors are at most its weight divided by m + 1, however many panes it has.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.aggregate.kernels.space_saving import (
    CLOCK,
    EVICTED,
    FREE,
    HELD,
    NONE,
    TEXT_FULL,
    USED,
    WHOLE,
    WRITTEN,
    Summary,
    Weighted,
    evict,
    fill_table,
    in_order,
    take,
)
from skyband.data.key_dictionary import TEXT
from skyband.data.slot_dictionary import as_order, from_order, letters_of
from skyband.errors import InvalidInputError, SnapshotError
from skyband.kernels.stream import DONE, Floats, Ints
from skyband.kernels.xxhash import hash_bytes

__all__ = ["LARGEST_WEIGHT", "HeldCounters", "KeyIdentities", "PaneSummary", "refuse_other_weights"]

_FEW = 256
LARGEST_WEIGHT = 1e290  # so that no sum overflows
_PRIMES = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


class HeldCounters(NamedTuple):
    """The counters of a pane: group by group, the last to enter first."""

    keys: pa.Array
    groups: Ints
    highs: Floats
    lows: Floats
    lasts: Ints
    evicted: Ints  # the groups with evicted keys
    offsets: Floats  # of these groups: the largest total of a key without a counter
    weights: Floats  # of these groups: the sum of all weights
    whole: bool  # whether all bounds are whole numbers, without rounding


class KeyIdentities(NamedTuple):
    """Keys as numbers: equal keys have equal numbers. Different texts with the same number differ in their bytes."""

    identities: Ints
    begins: Ints
    lengths: Ints  # empty if keys are numbers, which are their identities
    letters: Any

    @classmethod
    def of(cls, stored: pa.Array) -> KeyIdentities:
        """Return the identities of keys, which are stored as `key_column` returns them."""
        none = np.empty(0, np.int64)
        if stored.type not in TEXT:
            return cls(as_order(stored), none, none, np.empty(0, np.uint8))
        letters, begins, lengths = letters_of(stored)
        seeds = np.zeros(len(stored), np.uint64)
        hash_bytes(letters, begins, begins + lengths, np.ones(len(stored), np.bool_), seeds)
        return cls(seeds.view(np.int64), begins, lengths, letters)

    def slice(self, low: int, high: int) -> KeyIdentities:
        """Return the keys from `low` to `high`."""
        return self._replace(
            identities=self.identities[low:high], begins=self.begins[low:high], lengths=self.lengths[low:high]
        )


class PaneSummary:
    """The heaviest keys of each group of a pane."""

    def __init__(self, counters: int) -> None:
        self.counters = counters
        self._kind: pa.DataType | None = None  # of the keys
        self._room = np.empty(2 * counters)
        self._state = _empty(_FEW, 0, 0)

    def __len__(self) -> int:
        """Return the number of counters held."""
        return int(self._state.clock[HELD])

    @property
    def evicted(self) -> int:
        """How often a counter was evicted."""
        return int(self._state.clock[EVICTED])

    @property
    def nbytes(self) -> int:
        """The size of all arrays in bytes."""
        return int(sum(array.nbytes for array in self._state)) + self._room.nbytes

    @property
    def groups(self) -> Ints:
        """The codes of the groups with counters."""
        return np.flatnonzero(self._state.sizes)

    def take(
        self,
        keys: KeyIdentities,
        kind: pa.DataType,
        weights: tuple[Floats, Floats] | None,
        positions: Ints,
        groups: Ints | None = None,
        first_position: int = 0,
    ) -> None:
        """Add keys in stream order. `weights` are rounded up and down; None: 1 for each key.

        Empty `positions` count from `first_position`.
        """
        self._kind = kind
        codes = np.empty(0, np.int64) if groups is None else groups
        self._reserve_groups(int(codes.max(initial=0)) + 1)
        highs, lows = weights or (np.empty(0), np.empty(0))
        homes = _homes(keys.identities, codes)
        rows = Weighted(
            homes,
            keys.identities,
            keys.begins,
            keys.lengths,
            keys.letters,
            np.ascontiguousarray(codes),
            np.ascontiguousarray(highs),
            np.ascontiguousarray(lows),
            np.ascontiguousarray(positions),
            first_position,
        )
        progress = np.zeros(1, np.int64)
        while True:
            reason = take(self._state, rows, self.counters, self._room, progress)
            if reason == DONE:
                return
            if reason == TEXT_FULL:
                self._drop_text(int(keys.lengths[progress[0]]))
            else:
                self._grow()

    def held(self) -> HeldCounters:
        """Return the counters, at most `counters` for each group; the others are evicted."""
        for group in np.flatnonzero(self._state.sizes > self.counters).tolist():
            evict(self._state, group, self.counters, self._room)
        return self._listed()

    def clear(self) -> None:
        """Remove all counters. The arrays remain, unless they are much larger than the next pane may need."""
        state, evicted = self._state, self.evicted
        if state.highs.size > 8 * _FEW and state.clock[USED] < state.highs.size // 4:
            self._state = _empty(_FEW, 0, 0)
        else:
            state.table[:] = NONE
            state.sizes[:] = 0
            state.heads[:] = NONE
            state.offsets[:] = state.weights[:] = 0.0
        self._state.clock[:] = 0
        self._state.clock[FREE], self._state.clock[WHOLE], self._state.clock[EVICTED] = NONE, 1, evicted

    def state(self) -> dict[str, Any]:
        """Return the state for `load`, without the keys, which `keys` returns."""
        found = self._listed()
        state = {name: getattr(found, name) for name in ("groups", "highs", "lows", "lasts", "evicted", "offsets")}
        return {**state, "weights": self._state.weights, "whole": found.whole, "evictions": self.evicted}

    @property
    def keys(self) -> pa.Array:
        """The keys of the counters, in the order of `state`."""
        return self._listed().keys

    def load(self, state: dict[str, Any], keys: pa.Array) -> None:
        """Restore what `state` and `keys` returned."""
        size, identities = len(keys), KeyIdentities.of(keys)
        codes, most = np.asarray(state["groups"]), len(state["weights"])
        if codes.size != size or (np.diff(codes, prepend=0) < 0).any() or codes.max(initial=0) >= max(1, most):
            raise SnapshotError("the counters of a sketch do not belong to its groups. Nothing was resumed.")
        self._kind = keys.type if size else None
        room = max(_FEW, 1 << max(0, size - 1).bit_length())
        found = _empty(room, most, int(identities.lengths.sum()))
        found.homes[:size] = _homes(identities.identities, state["groups"])
        found.identities[:size] = identities.identities
        for name in ("groups", "highs", "lows", "lasts"):
            getattr(found, name)[:size] = state[name]
        if identities.lengths.size:
            found.begins[:size], found.lengths[:size] = identities.begins, identities.lengths
            found.letters[:] = identities.letters
        found.offsets[state["evicted"]] = state["offsets"]
        found.weights[:] = state["weights"]
        found.sizes[:] = np.bincount(state["groups"], minlength=most)
        # Each counter is followed by the next one in the list; the last one of a group by none.
        found.after[:size] = np.arange(1, size + 1)
        stops = np.cumsum(found.sizes)
        found.heads[:] = np.where(found.sizes > 0, stops - found.sizes, NONE)
        found.clock[USED] = found.clock[HELD] = size
        found.clock[WRITTEN] = found.letters.size
        found.clock[WHOLE], found.clock[EVICTED] = state["whole"], state["evictions"]
        self._state = found
        fill_table(found)

    def _listed(self) -> HeldCounters:
        state = self._state
        order = np.empty(len(self), np.int64)
        in_order(state, order)
        evicted = np.flatnonzero(state.offsets > 0)
        return HeldCounters(
            self._keys(order),
            state.groups[order],
            state.highs[order],
            state.lows[order],
            state.lasts[order],
            evicted,
            state.offsets[evicted],
            state.weights[evicted],
            bool(state.clock[WHOLE]),
        )

    def _keys(self, order: Ints) -> pa.Array:
        if self._kind is None:
            return pa.nulls(0, pa.int64())
        if self._kind not in TEXT:
            return from_order(self._state.identities[order], self._kind)
        begins, lengths = self._state.begins[order], self._state.lengths[order]
        stops = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        letters = self._state.letters[_places(begins, lengths)]
        wide = pa.Array.from_buffers(pa.large_binary(), order.size, [None, pa.py_buffer(stops), pa.py_buffer(letters)])
        return wide.cast(self._kind)

    def _reserve_groups(self, groups: int) -> None:
        state = self._state
        more = groups - state.heads.size
        if more > 0:
            more = max(more, state.heads.size)
            self._state = state._replace(
                heads=np.concatenate([state.heads, np.full(more, NONE)]),
                sizes=np.concatenate([state.sizes, np.zeros(more, np.int64)]),
                offsets=np.concatenate([state.offsets, np.zeros(more)]),
                weights=np.concatenate([state.weights, np.zeros(more)]),
            )

    def _grow(self) -> None:
        """Double the number of counters."""
        state, size = self._state, self._state.highs.size
        grown = _empty(2 * size, state.heads.size, 0)
        for name in _PER_COUNTER:
            getattr(grown, name)[:size] = getattr(state, name)
        kept = {name: getattr(state, name) for name in ("heads", "sizes", "offsets", "weights", "letters", "clock")}
        self._state = grown._replace(**kept)
        fill_table(self._state)

    def _drop_text(self, more: int) -> None:
        """Drop the bytes of evicted keys; double the space if they are few."""
        state, order = self._state, np.empty(len(self), np.int64)
        in_order(state, order)
        lengths = state.lengths[order]
        used = int(lengths.sum())
        letters = np.empty(max(2 * used, used + more, 16 * _FEW), np.uint8)
        letters[:used] = state.letters[_places(state.begins[order], lengths)]
        state.begins[order] = np.cumsum(lengths) - lengths
        state.clock[WRITTEN] = used
        self._state = state._replace(letters=letters)


def refuse_other_weights(values: Any, what: str) -> None:
    """Raise an error if a value is negative or too large; NaN stands for a missing value."""
    wrong = (values < 0) | (values > LARGEST_WEIGHT)
    if wrong.any():
        value = float(values[np.flatnonzero(wrong)[0]])
        raise InvalidInputError(
            f"{what} contains {value!r}, but method='sketch' adds up numbers from 0 to {LARGEST_WEIGHT:g}: its bounds "
            "hold only if totals never decrease. Filter these rows with where=, or omit method=, which gives exact "
            "totals. No row of this batch was counted."
        )


_PER_COUNTER = ("homes", "identities", "begins", "lengths", "groups", "highs", "lows", "lasts", "after")


def _empty(counters: int, groups: int, letters: int) -> Summary:
    clock = np.zeros(CLOCK, np.int64)
    clock[FREE], clock[WHOLE] = NONE, 1
    return Summary(
        table=np.full(2 * counters, NONE, np.int32),
        homes=np.zeros(counters, np.int64),
        identities=np.zeros(counters, np.int64),
        begins=np.zeros(counters, np.int64),
        lengths=np.zeros(counters, np.int64),
        groups=np.zeros(counters, np.int64),
        highs=np.zeros(counters),
        lows=np.zeros(counters),
        lasts=np.zeros(counters, np.int64),
        after=np.full(counters, NONE),
        heads=np.full(groups, NONE),
        sizes=np.zeros(groups, np.int64),
        offsets=np.zeros(groups),
        weights=np.zeros(groups),
        letters=np.zeros(letters, np.uint8),
        clock=clock,
    )


def _homes(identities: Ints, groups: Ints) -> Ints:
    """Return a hash of each key and its group; it is not negative."""
    words = identities.view(np.uint64)
    if groups.size:
        words = words + groups.view(np.uint64) * _PRIMES[1]
    words = words ^ (words >> np.uint64(30))
    words *= _PRIMES[0]
    words ^= words >> np.uint64(27)
    words *= _PRIMES[1]
    words ^= words >> np.uint64(31)
    words >>= np.uint64(1)
    found: Ints = words.view(np.int64)
    return found


def _places(begins: Ints, lengths: Ints) -> Ints:
    """Return the places of all bytes of texts, one text after another."""
    stops = np.cumsum(lengths)
    found: Ints = np.repeat(begins - (stops - lengths), lengths) + np.arange(int(lengths.sum()))
    return found
