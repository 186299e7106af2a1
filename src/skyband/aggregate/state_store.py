"""Store an engine between two steps: its totals as one value, its partials in segments that are written once.

Totals are small, one row per key, and change with every step. Partials are many, one row per key and pane, and never
change: a segment of panes is written when the panes close, read when one of them leaves a window, and removed when all
of them have left all windows. So the I/O of a step depends on the number of keys, not on the window size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.aggregate.addends import Addends, fitted
from skyband.aggregate.engine import AggregateEngine
from skyband.aggregate.kernels.ladders import put_ladders
from skyband.aggregate.kernels.partials import (
    COUNT,
    EVERYTHING,
    FIRST_PANE,
    HEAD,
    IS_OPEN,
    LAST_PANE,
    NEVER,
    NONE,
    TAIL,
    State,
    mark_ladders,
)
from skyband.aggregate.shape import AggregateShape
from skyband.kernels.stream import Ints
from skyband.sharding.shard import Segments
from skyband.snapshot import StateFormat, decode, encode, unchanged

__all__ = ["StateStore", "packed", "unpacked"]

_SPARE = 1 << 18  # free partials in a restored engine; the memory is not committed until it is written
PEAKS = ("peaks", "peak_ats", "peak_ids")  # of growing windows
_SEGMENT = 1 << 15  # partials: small panes are combined up to this size, to limit the number of segments


class StateStore:
    """Spill the panes of an engine to segments, and restore the engine."""

    def __init__(self, engine: AggregateEngine, segments: Segments) -> None:
        self._engine = engine
        self._segments = segments
        self._begins: list[int] = []  # first pane of each stored segment
        self._stored = 0  # all panes before this one are in segments

    def spill(self, slots: Ints) -> dict[str, Any]:
        """Write new segments, remove old ones, and return the totals. `slots` are the slots in use."""
        state = self._engine._state
        clock = state.clock
        assert not clock[IS_OPEN], "a pane that is still open cannot be stored"
        first, last = int(clock[FIRST_PANE]), int(clock[LAST_PANE])
        self._store(max(first, self._stored), last)
        self._stored = last
        while self._begins and (self._begins[1] if len(self._begins) > 1 else last) <= first:
            self._segments.remove(self._begins.pop(0))
        panes = np.arange(first, last) & (state.lows.size - 1)
        low = int(state.lows[panes[0]]) if panes.size else 0
        marks = np.zeros(state.slots.size, bool)
        mark_ladders(state, slots, marks)
        numbers = np.arange(int(clock[HEAD]), int(clock[TAIL]))
        numbers = numbers[marks[numbers & (marks.size - 1)]] if marks.any() else numbers[:0]
        on_ladders = numbers & (marks.size - 1)
        head = int(clock[HEAD])
        return {
            "low": self._engine.addends.low,
            "limbs": self._engine.addends.limbs,
            **({} if self._engine.decayed is None else self._engine.decayed.state()),
            "parcels": self._begins,
            "clock": clock,
            "next_end": state.next_end,
            "gone": state.gone,
            "lows": state.lows[panes],
            "firsts": state.firsts[panes],
            "last": _narrow(state.last[slots] - low),
            "last_low": low,
            # Only the window totals (added - left) are stored.
            "held": _columns(state.added[slots][None] - state.left[:, slots]),
            # Partials are stored relative to HEAD; released ones are NONE.
            "tails": _since(state.tails[slots], head),
            "heads": _since(state.heads[:, slots], head),
            "ladder": _since(numbers, head),
            "older": _since(state.older[on_ladders], head),
            "younger": _since(state.younger[on_ladders], head),
            "extremes": state.extremes[on_ladders],
            "ats": state.ats[on_ladders],
            "ids": state.ids[on_ladders],
            **self._grown(slots),
        }

    def _grown(self, slots: Ints) -> dict[str, Any]:
        """Return the state of growing windows: nothing without them."""
        state = self._engine._state
        if not state.newest.size:
            return {}
        peaks = {name: getattr(state, name)[:, slots] for name in PEAKS}
        return {"newest": state.newest, **peaks}

    def restore(self, before: AggregateShape, saved: dict[str, Any], slots: Ints, size: int) -> None:
        """Restore what `spill` returned, with `size` slots. `before` is the shape of the stored queries."""
        self._begins, self._stored = list(saved["parcels"]), int(saved["clock"][LAST_PANE])
        shape = self._engine.shape
        if shape != before:
            saved = _rearranged(saved, before, shape, slots.size)
            self._drop_powers_above(before.powers)
        state = _empty(self._engine, saved, size)
        held = _rows(saved["held"], state.left.shape[0], slots.size)
        head = int(state.clock[HEAD])
        state.last[slots] = saved["last"].astype(np.int64) + saved["last_low"]
        state.left[:, slots] = -held
        state.tails[slots], state.heads[:, slots] = (_numbered(saved[name], head) for name in ("tails", "heads"))
        for track in range(held.shape[0]):
            live = slots[held[track, :, COUNT] != 0]
            state.alive[track] = state.stale[track] = live.size
            state.live[track, : live.size] = state.touched[track, : live.size] = live
            state.place[track, live] = np.arange(live.size)
            state.dirty[track, live] = EVERYTHING
        panes = np.arange(int(state.clock[FIRST_PANE]), int(state.clock[LAST_PANE])) & (state.lows.size - 1)
        state.lows[panes], state.firsts[panes] = saved["lows"], saved["firsts"]
        ladder, older, younger = (_int64(saved[name]) for name in ("ladder", "older", "younger"))
        put_ladders(state, head, ladder, older, younger, saved["extremes"], _int64(saved["ats"]), _int64(saved["ids"]))
        if "newest" in saved and state.newest.size:
            state.newest[:] = saved["newest"]
            for name in PEAKS:
                getattr(state, name)[:, slots] = saved[name]
        more: dict[str, Any] = {name: saved[name] for name in ("low", "limbs", "lowest") if name in saved}
        self._engine.load({**more, **state._asdict()}, self._fetch)

    def _store(self, low: int, high: int) -> None:
        """Write the panes from `low` to `high` to segments."""
        state = self._engine._state
        ring, end = state.firsts.size - 1, int(state.clock[TAIL])
        while low < high:
            behind, first, stop = low, int(state.firsts[low & ring]), 0
            while behind < high and (behind == low or stop - first < _SEGMENT):
                behind += 1
                stop = end if behind == int(state.clock[LAST_PANE]) else int(state.firsts[behind & ring])
            numbers = np.arange(first, stop) & (state.slots.size - 1)
            segment = {
                "powers": self._engine.addends.powers,
                "limb": self._engine.addends.low,
                "panes": behind - low,
                "first": first,
                "slots": _narrow(state.slots[numbers]),
                "adds": _columns(state.adds[numbers]),
            }
            self._segments.put(low, SEGMENT.encode(segment))
            self._begins.append(low)
            low = behind

    def _fetch(self, pane: int) -> None:
        """Load the segment of a pane into memory."""
        self.fetch_into(self._engine, pane)

    def fetch_into(self, engine: AggregateEngine, pane: int) -> None:
        """Load the segment of a pane into the memory of this engine, or of a copy of it."""
        begin = max(begin for begin in self._begins if begin <= pane)
        segment = SEGMENT.decode(self._segments.get(begin))
        state = engine._state
        columns, held, ring = segment["adds"], _addends_of(segment), state.slots.size
        if held != engine.addends:
            columns = fitted(_rows(columns, segment["slots"].size), held, engine.addends).T
        low = max(0, int(state.clock[HEAD]) - segment["first"])  # those before have left all windows
        while low < segment["slots"].size:
            at = (segment["first"] + low) & (ring - 1)
            count = min(ring - at, segment["slots"].size - low)
            state.slots[at : at + count] = segment["slots"][low : low + count]
            for place, column in enumerate(columns):
                state.adds[at : at + count, place] = column[low : low + count]
            low += count
        panes = np.arange(max(begin, int(state.clock[FIRST_PANE])), begin + segment["panes"])
        state.here[panes & (state.here.size - 1)] = True

    def _drop_powers_above(self, powers: int) -> None:
        """Drop higher sums from segments if the last workload did not use them: they are not in the totals.

        Otherwise they would be subtracted from the totals of a new query that uses them.
        """
        if powers >= self._engine.shape.powers:
            return
        for begin in self._begins:
            segment = SEGMENT.decode(self._segments.get(begin))
            held = _addends_of(segment)
            if held.powers > powers:
                less = Addends(powers, held.low, held.limbs) if powers else Addends(0)
                adds = fitted(_rows(segment["adds"], segment["slots"].size), held, less)
                self._segments.put(begin, SEGMENT.encode({**segment, "powers": powers, "adds": _columns(adds)}))


def _addends_of(segment: dict[str, Any]) -> Addends:
    """Return the addends of a stored segment."""
    return Addends.of_width(segment["powers"], segment["limb"], len(segment["adds"]))


def _rearranged(saved: dict[str, Any], before: AggregateShape, shape: AggregateShape, keys: int) -> dict[str, Any]:
    """Convert totals to the shape of another workload. New window sizes and extremes are empty."""
    held = _rows(saved["held"], len(before.tracks), keys)
    had = Addends(before.powers, saved["low"], saved["limbs"])
    has = Addends(shape.powers, had.low, had.limbs) if before.powers and shape.powers else Addends(shape.powers)
    tracks = [before.tracks.index(track) if track in before.tracks else None for track in shape.tracks]
    extremes = [before.extremes.index(name) if name in before.extremes else None for name in shape.extremes]
    identified = [place if before.identified else None for place in extremes] if shape.identified else []
    nothing = np.zeros((keys, has.width), np.int64)
    found = [nothing if t is None else fitted(held[t], had, has) for t in tracks]
    last = int(saved["clock"][LAST_PANE])
    ends = {(query.name, query): int(end) for query, end in zip(before.in_order, saved["next_end"], strict=True)}
    heads = saved["heads"].astype(np.int64)
    none = np.full((keys, heads.shape[2]), NONE)
    by_track = np.stack([none if t is None else heads[t] for t in tracks])
    return saved | {
        "low": has.low,
        "limbs": has.limbs,
        "held": _columns(np.stack(found)),
        "gone": np.array([last if t is None else saved["gone"][t] for t in tracks], np.int64),
        "next_end": np.array([ends.get((query.name, query), NEVER) for query in shape.in_order], np.int64),
        "heads": _picked(by_track, extremes, NONE),
        **{name: _picked(saved[name], extremes, NONE) for name in ("tails", "older", "younger")},
        "extremes": _picked(saved["extremes"], extremes, -np.inf),
        **{name: _picked(saved[name], identified, NONE) for name in ("ats", "ids")},
        **_rearranged_peaks(saved, before, shape, keys, (extremes, identified)),
    }


def _rearranged_peaks(
    saved: dict[str, Any], before: AggregateShape, shape: AggregateShape, keys: int, picked: tuple[Any, Any]
) -> dict[str, Any]:
    """Convert the state of growing windows to the shape of another workload."""
    if not any(shape.grows):
        return {}
    had, has = ([track for track, grows in zip(one.tracks, one.grows, strict=True) if grows] for one in (before, shape))
    found: dict[str, Any] = {"newest": saved.get("newest", np.full(1, -NEVER))}
    for name, columns in zip(PEAKS, (picked[0], picked[1], picked[1]), strict=True):
        kind = np.float64 if name == "peaks" else np.int64
        # Values have no positions and ids if the queries before did not compare rows.
        width = saved[name].shape[-1] if name in saved else len(before.extremes)
        nothing = np.zeros((keys, width), kind)
        by_track = np.stack([saved[name][had.index(track)] if track in had else nothing for track in has])
        found[name] = _picked(by_track, columns, NONE)
    return found


def _picked(array: Any, places: list[int | None], otherwise: Any) -> Any:
    """Return the columns at these indices, filled with `otherwise` where the index is None."""
    shape = (*array.shape[:-1], len(places))
    found = np.full(shape, otherwise, np.float64 if array.dtype == np.float64 else np.int64)
    for column, place in enumerate(places):
        if place is not None:
            found[..., column] = array[..., place]
    return found


def packed(values: Mapping[str, Any]) -> bytes:
    """Return values as compressed bytes with a checksum."""
    data = encode(values)
    return len(data).to_bytes(8, "little") + bytes(pa.compress(data, codec="lz4", asbytes=True))


def unpacked(data: bytes) -> dict[str, Any]:
    """Return the values that were packed."""
    size = int.from_bytes(data[:8], "little")
    return decode(pa.decompress(data[8:], size, codec="lz4", asbytes=True))


def _from_version_2(saved: dict[str, Any]) -> dict[str, Any]:
    return {**saved, "powers": 1 if len(saved["adds"]) > 1 else 0}


SEGMENT = StateFormat("aggregate segment", [unchanged, _from_version_2], pack=packed, unpack=unpacked)


def _empty(engine: AggregateEngine, saved: dict[str, Any], size: int) -> State:
    """Return empty arrays for `size` slots and the stored partials and panes."""
    engine.addends = Addends(engine.shape.powers, saved["low"], saved["limbs"])
    fresh = engine._fresh_state()
    tracks, extremes, width = len(engine.shape.tracks), len(engine.shape.extremes), engine.addends.width
    clock = saved["clock"]
    partials = _power(int(clock[TAIL] - clock[HEAD]) + _SPARE)
    panes = _power(int(clock[LAST_PANE] - clock[FIRST_PANE]) + 16)
    return fresh._replace(
        added=np.zeros((size, width), np.int64),
        last=np.full(size, -NEVER),
        open=np.full(size, NONE),
        tails=np.full((size, extremes), NONE),
        left=np.zeros((tracks, size, width), np.int64),
        place=np.full((tracks, size), NONE, np.int32),
        live=np.zeros((tracks, size), np.int32),
        heads=np.full((tracks, size, extremes), NONE),
        dirty=np.zeros((tracks, size), np.uint8),
        touched=np.zeros((tracks, size), np.int32),
        **{
            name: np.zeros(
                (*getattr(fresh, name).shape[:1], size, *getattr(fresh, name).shape[2:]), getattr(fresh, name).dtype
            )
            for name in PEAKS
        },
        scores=np.full((fresh.scores.shape[0], size), np.nan),
        slots=np.zeros(partials, np.int64),
        adds=np.zeros((partials, width), np.int64),
        extremes=np.zeros((partials, extremes)),
        ats=np.zeros((partials, engine.identified), np.int64),
        ids=np.zeros((partials, engine.identified), np.int64),
        older=np.zeros((partials, extremes), np.int64),
        younger=np.zeros((partials, extremes), np.int64),
        lows=np.zeros(panes, np.int64),
        firsts=np.zeros(panes, np.int64),
        here=np.zeros(panes, bool),
        gone=saved["gone"],
        next_end=saved["next_end"],
        clock=clock,
    )


def _since(numbers: Any, head: int) -> Any:
    return _narrow(np.where(numbers < head, NONE, numbers - head))


def _numbered(since: Any, head: int) -> Any:
    return np.where(since == NONE, NONE, since.astype(np.int64) + head)


def _int64(numbers: Any) -> Any:
    return np.ascontiguousarray(numbers, np.int64)


def _power(number: int) -> int:
    return 1 << (number - 1).bit_length()


def _columns(rows: Any) -> list[Any]:
    """Return the columns of an integer table, each in the narrowest integer type."""
    flat = rows.reshape(-1, rows.shape[-1])
    return [_narrow(flat[:, column]) for column in range(flat.shape[1])]


def _rows(columns: list[Any], *shape: int) -> Any:
    """Return the table that `_columns` was called with."""
    return np.stack([column.astype(np.int64) for column in columns], axis=-1).reshape(*shape, len(columns))


def _narrow(numbers: Any) -> Any:
    low, high = (int(numbers.min()), int(numbers.max())) if numbers.size else (0, 0)
    for kind in (np.int8, np.int16, np.int32):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return numbers.astype(kind)
    return np.ascontiguousarray(numbers)
