"""The aggregate engine: running totals of keys over one stream, and answers computed from them by kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np

from skyband.aggregate.addends import Addends, fitted
from skyband.aggregate.decayed_limbs import DecayedLimbs
from skyband.aggregate.kernels import totals as kernels
from skyband.aggregate.kernels.items import Items
from skyband.aggregate.kernels.key_scores import KeyScratch
from skyband.aggregate.kernels.partials import (
    CLOCK,
    ENTERED,
    EVERYTHING,
    FIRST_PANE,
    HEAD,
    IS_OPEN,
    LAST_PANE,
    LEFT,
    NEVER,
    NEXT,
    NONE,
    OPEN_AT,
    SCORED,
    TAIL,
    UNRANKABLE,
    State,
    mark_ladders,
)
from skyband.aggregate.shape import AggregateShape, page_fields
from skyband.aggregate.window_pages import page_at
from skyband.data.answer_log import RankedWindows
from skyband.errors import SnapshotError
from skyband.kernels.keys import Keys
from skyband.kernels.stream import ANSWERS_FULL, DONE, ROWS, WINDOWS, Floats, Ints

__all__ = ["AggregateEngine", "EngineAnswers", "KeyRows"]

_FEW = 1024
_PER_SLOT = ("added", "last", "open", "tails")
_PER_TRACK = ("left", "place", "live", "heads", "dirty", "touched", "scores")
_PER_PEAK = ("peaks", "peak_ats", "peak_ids")  # per growing track
_GROWING = ("newest", *_PER_PEAK)  # states of engines without growing tracks do not contain them
_PER_PARTIAL = ("slots", "adds", "extremes", "ats", "ids", "older", "younger")
_PER_PANE = ("lows", "firsts", "here")


class KeyRows(NamedTuple):
    """Rows in stream order, with slots instead of keys."""

    slots: Ints
    positions: Ints  # empty: consecutive positions from first_position on
    values: Floats  # empty if all queries only count
    ids: Ints  # empty if the shape is not identified
    first_position: int


class EngineAnswers(NamedTuple):
    """Answers of the engine. The ids of their rows are slots."""

    windows: RankedWindows
    more: dict[str, Ints]  # additional columns, by the names in `kernels.totals.MORE`
    held: Any  # (rows, width): exact sums, if a query has totals; the row of all keys has the slot NONE
    addends: Addends  # of `held`


class AggregateEngine:
    """Answer queries over the same keys and values. A `KeyDictionary` assigns the slots; its `Keys` order them."""

    def __init__(self, shape: AggregateShape) -> None:
        self.shape = shape
        self.addends = Addends(shape.powers)
        self._query_set = shape.query_set(0)
        self.decayed = None if shape.decay is None else DecayedLimbs(shape, shape.decay)
        self._items: Items | None = None  # an `ItemEngine` has some
        self._state = self._fresh_state()
        self._room = _room(0, 1, self.addends)
        self._fetch: Callable[[int], None] = _reject_missing
        self._parts: list[EngineAnswers] = []
        self._out = self._buffers(_FEW)

    @property
    def identified(self) -> int:
        """Number of extremes whose rows have a position and an id."""
        return len(self.shape.extremes) if self.shape.identified else 0

    @property
    def partials(self) -> int:
        """Number of partials held, including those of the open pane and the sums of growing windows."""
        grown = self._state.alive[self._query_set.grows != NONE]
        return self._in_ring + int(grown.sum())

    @property
    def _in_ring(self) -> int:
        return int(self._state.clock[TAIL] - self._state.clock[HEAD])

    @property
    def next_end(self) -> int:
        """End of the next window to answer, NEVER if all windows are empty until more rows arrive."""
        return int(self._state.next_end.min())

    def answer_since(self, starts: Sequence[int]) -> None:
        """Set, per query, the smallest window start that is answered."""
        self._query_set = self.shape.query_set(self._first_limb, starts)

    def counters(self) -> dict[str, int]:
        """Return counters of the work done, in partials and keys."""
        clock = self._state.clock
        names = {"partials": TAIL, "entered": ENTERED, "left": LEFT, "scored": SCORED, "unrankable": UNRANKABLE}
        return {name: int(clock[place]) for name, place in names.items()}

    def unused(self, slots: int) -> Any:
        """Return a mask of the first `slots` slots: True if no window needs the slot."""
        state = self._state
        mask = np.ones(slots, bool)
        known = min(slots, state.last.size)
        mask[:known] = (state.place[:, :known] == NONE).all(axis=0)
        if state.clock[IS_OPEN]:
            mask[:known] &= state.open[:known] < state.clock[OPEN_AT]
        return mask

    def last_seen(self, slots: Ints) -> Ints:
        """Return the position at which the keys in these slots were seen last."""
        found: Ints = self._state.last[slots]
        return found

    def take_rows(self, rows: KeyRows, keys: Keys, groups: int, first: int) -> None:
        """Process rows. `first` is the first position of the stream."""
        if self.decayed is None:
            self._take_rows(rows, keys, groups, first)
            return
        for epoch, part in self.decayed.by_epoch(rows):
            self._begin_epoch(epoch, keys, groups, first)
            if self.decayed.has_weights:
                self._take_partials(*self.decayed.partials(part), keys, groups, first)
            else:
                self._take_rows(part, keys, groups, first)

    def _take_rows(self, rows: KeyRows, keys: Keys, groups: int, first: int) -> None:
        self._reserve_slots(keys.prefix.size, groups)
        values = rows.values if self.shape.values else np.empty(0)
        bits = values.view(np.int64)
        self._widen(self.addends.holding(bits) if self.decayed is None else self.decayed.holding(self.addends, bits))
        arrivals = kernels.KeyArrivals(rows.slots, rows.positions, values, bits, rows.ids, rows.first_position)
        self._run(
            lambda progress: kernels.take_rows(
                self._state, self._query_set, keys, self._room, self._items, arrivals, self._out, progress, first
            )
        )

    def take_partials(self, rows: kernels.Partials, addends: Addends, keys: Keys, groups: int, first: int) -> None:
        """Process partials sorted by pane. `addends` describes their additive columns."""
        if self.decayed is None:
            self._take_partials(rows, addends, keys, groups, first)
            return
        self.decayed.note(rows, addends)
        for epoch, mine in self.decayed.runs(rows.lows):
            self._begin_epoch(epoch, keys, groups, first)
            part = kernels.Partials(*(column[mine] for column in rows))
            self._take_partials(part, addends, keys, groups, first)

    def _take_partials(self, rows: kernels.Partials, addends: Addends, keys: Keys, groups: int, first: int) -> None:
        self._reserve_slots(keys.prefix.size, groups)
        self._widen(self.addends.joined(addends))
        rows = rows._replace(adds=fitted(rows.adds, addends, self.addends))
        self._run(
            lambda progress: kernels.take_partials(
                self._state, self._query_set, keys, self._room, self._items, rows, self._out, progress, first
            )
        )

    def advance(self, to: int, keys: Keys, groups: int, first: int) -> None:
        """Advance time to `to` and answer every window that ends at or before it."""
        if self.decayed is None:
            self._advance(to, keys, groups, first)
            return
        while (due := int(self._state.clock[NEXT])) <= to:
            self._move_base(self.decayed.epoch_of(due))
            self._advance(min(to, self.decayed.epoch_end), keys, groups, first)
        self._advance(to, keys, groups, first)

    def _begin_epoch(self, epoch: int, keys: Keys, groups: int, first: int) -> None:
        """Answer the windows that end before an epoch, whose rows follow."""
        assert self.decayed is not None
        if epoch != self.decayed.base:
            self.advance(self.decayed.begin_of(epoch), keys, groups, first)
            self._move_base(epoch)

    def _move_base(self, epoch: int) -> None:
        """Compute scores relative to another epoch: again for all keys."""
        assert self.decayed is not None
        if epoch == self.decayed.base:
            return
        self.decayed.base = epoch
        self._convert(self.decayed.trimmed(self.addends, self._state))
        for track in range(self._state.alive.size):
            live = self._state.live[track, : self._state.alive[track]]
            fresh = live[self._state.dirty[track, live] == 0]
            stale = int(self._state.stale[track])
            self._state.touched[track, stale : stale + fresh.size] = fresh
            self._state.dirty[track, live] = EVERYTHING
            self._state.stale[track] += fresh.size

    def _advance(self, to: int, keys: Keys, groups: int, first: int) -> None:
        self._reserve_slots(keys.prefix.size, groups)
        self._run(
            lambda progress: kernels.advance(
                self._state, self._query_set, keys, self._room, self._items, self._out, progress, to, first
            )
        )

    def renumber_rows(self, renumber: Callable[[Ints], Ints]) -> None:
        """Replace the ids of all rows that a later answer can contain."""
        state = self._state
        if not self.identified:
            return
        marks = np.zeros(state.slots.size, bool)
        mark_ladders(state, np.arange(state.tails.shape[0]), marks)
        if state.clock[IS_OPEN]:  # its partials are not in ladders yet
            marks[np.arange(state.clock[OPEN_AT], state.clock[TAIL]) & (marks.size - 1)] = True
        used = np.flatnonzero(marks)
        growing = np.flatnonzero(self._query_set.grows != NONE)
        is_alive = state.place[growing] != NONE
        peaks = state.peak_ids[is_alive].ravel() if growing.size else np.empty(0, np.int64)
        found = renumber(np.concatenate([state.ids[used].ravel(), peaks]))
        split = used.size * self.identified
        state.ids[used] = found[:split].reshape(used.size, self.identified)
        if growing.size:
            state.peak_ids[is_alive] = found[split:].reshape(-1, self.identified)

    def copied(self, more: int) -> Self:
        """Return a copy that can take `more` partials, for answers so far; its answers have been fetched.

        Partials are only appended, and the copy is dropped before this engine appends any. So both share the ring of
        partials, except the links between them that a newer partial changes.
        """
        found, free = copy(self), self._state.slots.size - self._in_ring
        shared = (set(_PER_PARTIAL) - {"younger"}) if free >= more else set()
        found._state = State(
            *(array if name in shared else array.copy() for name, array in zip(State._fields, self._state, strict=True))
        )
        found.decayed = copy(self.decayed)
        found._parts = []
        return found

    def fetch_with(self, fetch: Callable[[int], None]) -> None:
        """Set the function that loads the partials of a pane that is not in memory."""
        self._fetch = fetch

    def end_query(self, place: int) -> None:
        """Answer no later window of a query, given by its place in the shape. The others do not change."""
        q = int(np.flatnonzero(self._query_set.places == place)[0])
        self._state.next_end[q] = NEVER
        track = self._query_set.tracks[q]
        if (self._state.next_end[self._query_set.tracks == track] == NEVER).all():
            self._state.gone[track] = self._state.clock[LAST_PANE]  # nothing has to leave its windows any more

    def answers(self) -> list[EngineAnswers]:
        """Return the answers since the last call."""
        self._flush_answers()
        parts, self._parts = self._parts, []
        return parts

    def state(self) -> dict[str, Any]:
        """Return the state for `load`."""
        state = self._state._asdict()
        if not any(self.shape.grows):
            state = {name: value for name, value in state.items() if name not in _GROWING}
        state["dirty"] = self._state.dirty != 0
        decayed = {} if self.decayed is None else self.decayed.state()
        return {"low": self.addends.low, "limbs": self.addends.limbs, **decayed, **state}

    def load(self, state: dict[str, Any], fetch: Callable[[int], None] | None = None) -> None:
        """Restore the state that `state` returned. `fetch` loads the partials of a pane that is not in memory."""
        self.addends = Addends(self.shape.powers, state["low"], state["limbs"])
        if self.decayed is not None:
            self.decayed.load(state)
        self._query_set = self._query_set._replace(low=self._first_limb)
        fresh = self._fresh_state()._asdict()
        loaded = {name: state[name] if name in state else fresh[name] for name in State._fields}
        loaded["dirty"] = np.where(loaded["dirty"], EVERYTHING, 0).astype(np.uint8)
        self._state = State(**loaded)
        self._room, self._out = _room(0, 1, self.addends), self._buffers(_FEW)
        self._fetch = fetch or self._fetch

    def _run(self, call: Callable[[Ints], int]) -> None:
        """Call a kernel until it is done. Grow buffers and load panes as it requests."""
        progress = np.zeros(2, np.int64)
        while True:
            reason = call(progress)
            if reason == DONE:
                return
            wanted = int(progress[kernels.WANTED])
            if reason == ANSWERS_FULL:
                self._flush_answers()
                self._out = self._buffers(max(2 * wanted, _FEW))
            elif reason == kernels.PANE_MISSING:
                self._fetch(wanted)
            elif reason == kernels.PAGE_MISSING:
                self._turn_page(wanted)
            else:
                self._grow_rings(wanted)

    def _turn_page(self, position: int) -> None:
        """Load the bounds of irregular windows around a position; ends that are not answered yet are after it."""
        page = page_at(self.shape.irregular, min(position, self.next_end - 1))
        self._query_set = self._query_set._replace(**page_fields(page))

    def _flush_answers(self) -> None:
        windows, rows = (int(self._out.cursor[place]) for place in (WINDOWS, ROWS))
        if not windows:
            return
        out = self._out
        found = RankedWindows(
            out.queries[:windows].copy(),
            out.groups[:windows].copy(),
            out.ends[:windows].copy(),
            np.diff(out.stops[:windows], prepend=0),
            out.scores[:rows].copy(),
            out.slots[:rows].copy(),
        )
        more = dict(zip(kernels.MORE, out.more[:, :rows].copy(), strict=True))
        self._parts.append(EngineAnswers(found, more, out.held[:rows].copy(), self.addends))
        out.cursor[:] = 0

    def _fresh_state(self) -> State:
        tracks, extremes, width = len(self.shape.tracks), len(self.shape.extremes), self.addends.width
        growing = sum(self.shape.grows)
        clock = np.zeros(CLOCK, np.int64)
        clock[NEXT] = NEVER
        return State(
            added=np.zeros((0, width), np.int64),
            last=np.zeros(0, np.int64),
            open=np.zeros(0, np.int64),
            tails=np.zeros((0, extremes), np.int64),
            left=np.zeros((tracks, 0, width), np.int64),
            place=np.zeros((tracks, 0), np.int32),
            live=np.zeros((tracks, 0), np.int32),
            heads=np.zeros((tracks, 0, extremes), np.int64),
            dirty=np.zeros((tracks, 0), np.uint8),
            touched=np.zeros((tracks, 0), np.int32),
            scores=np.zeros((self._query_set.whats.size, 0)),
            slots=np.zeros(_FEW, np.int64),
            adds=np.zeros((_FEW, width), np.int64),
            extremes=np.zeros((_FEW, extremes)),
            ats=np.zeros((_FEW, self.identified), np.int64),
            ids=np.zeros((_FEW, self.identified), np.int64),
            older=np.zeros((_FEW, extremes), np.int64),
            younger=np.zeros((_FEW, extremes), np.int64),
            lows=np.zeros(16, np.int64),
            firsts=np.zeros(16, np.int64),
            here=np.zeros(16, bool),
            gone=np.zeros(tracks, np.int64),
            alive=np.zeros(tracks, np.int64),
            stale=np.zeros(tracks, np.int64),
            newest=np.full(min(growing, 1), -NEVER),
            peaks=np.zeros((growing, 0, extremes)),
            peak_ats=np.zeros((growing, 0, self.identified), np.int64),
            peak_ids=np.zeros((growing, 0, self.identified), np.int64),
            next_end=np.full(len(self.shape.queries), NEVER),
            clock=clock,
        )

    def _reserve_slots(self, slots: int, groups: int) -> None:
        """Reserve space for the slots of keys, and for groups."""
        self._reserve_state(slots)
        self._reserve_room(self._state.last.size, groups)

    def _reserve_state(self, slots: int) -> None:
        state = self._state
        more = slots - state.last.size
        if more > 0:
            grown = {name: _extended(getattr(state, name), more, 0) for name in _PER_SLOT}
            grown |= {name: _extended(getattr(state, name), more, 1) for name in (*_PER_TRACK, *_PER_PEAK)}
            for name in ("open", "tails"):
                grown[name][-more:] = NONE
            for name in ("place", "heads"):
                grown[name][:, -more:] = NONE
            grown["scores"][:, -more:] = np.nan
            grown["last"][-more:] = -NEVER
            self._state = state._replace(**grown)

    def _reserve_room(self, slots: int, groups: int) -> None:
        if self._room.heap.size != slots or self._room.begins.size != groups:
            self._room = _room(slots, groups, self.addends)

    def _grow_rings(self, partials: int) -> None:
        """Double the ring of partials until there is space for `partials` more; for 0, that of panes."""
        state, clock = self._state, self._state.clock
        names: tuple[str, ...]
        if partials:
            names, first, behind, size = _PER_PARTIAL, HEAD, TAIL, state.slots.size
            while size - self._in_ring < partials:
                size *= 2
        else:
            names, first, behind, size = _PER_PANE, FIRST_PANE, LAST_PANE, 2 * state.lows.size
        ends = int(clock[first]), int(clock[behind])
        self._state = state._replace(**{name: _larger_ring(getattr(state, name), size, *ends) for name in names})

    def _widen(self, wanted: Addends) -> None:
        """Extend the limbs to those of `wanted`, which includes the current ones."""
        if wanted != self.addends:
            self._convert(wanted)

    @property
    def _first_limb(self) -> int:
        """The first limb, as kernels count limbs."""
        return self.addends.low - (0 if self.decayed is None else self.decayed.base or 0)

    def _fitted_ring(self, wanted: Addends) -> Any:
        """Return the sums of partials with the limbs of `wanted`; free places of the ring are not touched."""
        ring, clock = self._state.adds, self._state.clock
        if wanted == self.addends or 2 * self._in_ring > ring.shape[0]:
            return fitted(ring, self.addends, wanted)
        used = np.arange(clock[HEAD], clock[TAIL]) & (ring.shape[0] - 1)
        found = np.zeros((ring.shape[0], wanted.width), np.int64)
        found[used] = fitted(ring[used], self.addends, wanted)
        return found

    def _convert(self, wanted: Addends) -> None:
        """Store the limbs of `wanted`. Those that it lacks are 0."""
        self._flush_answers()
        wider = {name: fitted(getattr(self._state, name), self.addends, wanted) for name in ("added", "left")}
        wider["adds"] = self._fitted_ring(wanted)
        self._state = self._state._replace(**wider)
        self.addends = wanted
        self._query_set = self._query_set._replace(low=self._first_limb)
        self._room = _room(self._room.heap.size, self._room.begins.size, wanted)
        self._out = self._buffers(self._out.scores.size)

    def _buffers(self, rows: int) -> kernels.TotalAnswers:
        return _buffers(rows, self.addends.width if self.shape.totals else 0)


def _reject_missing(pane: int) -> None:
    raise SnapshotError(f"the partials of pane {pane} are missing from the stored state, so totals cannot be updated.")


def _room(slots: int, groups: int, addends: Addends) -> KeyScratch:
    limbs = addends.limbs
    return KeyScratch(
        sorted=np.zeros(max(slots, kernels.RUN), np.int64),
        heap=np.zeros(slots, np.int64),
        begins=np.zeros(groups, np.int64),
        total=np.zeros(limbs + 2, np.int64),
        squares=np.zeros(2 * limbs + 4, np.int64),
        buckets=np.zeros(kernels.BUCKETS, np.int64),
        sums=np.zeros((groups, addends.width), np.int64),
    )


def _buffers(rows: int, width: int) -> kernels.TotalAnswers:
    return kernels.TotalAnswers(
        queries=np.zeros(rows, np.int64),
        groups=np.zeros(rows, np.int64),
        ends=np.zeros(rows, np.int64),
        stops=np.zeros(rows, np.int64),
        scores=np.zeros(rows),
        slots=np.zeros(rows, np.int64),
        more=np.zeros((len(kernels.MORE), rows), np.int64),
        held=np.zeros((rows if width else 0, width), np.int64),
        cursor=np.zeros(2, np.int64),
    )


def _extended(array: Any, more: int, axis: int) -> Any:
    """Return the array with zeros after it; their memory is not committed before it is written."""
    shape = list(array.shape)
    before = shape[axis]
    shape[axis] += more
    grown = np.zeros(shape, array.dtype)
    grown[(slice(None),) * axis + (slice(before),)] = array
    return grown


def _larger_ring(ring: Any, larger: int, first: int, behind: int) -> Any:
    """Return the ring with a larger size, and the numbers from `first` to before `behind` at their new indices."""
    size = ring.shape[0]
    grown = np.zeros((larger, *ring.shape[1:]), ring.dtype)
    while first < behind:
        at, to = first & (size - 1), first & (larger - 1)  # up to the end of the old ring
        count = min(size - at, behind - first)
        grown[to : to + count] = ring[at : at + count]
        first += count
    return grown
