"""The pane executor: the minimal candidate set of any number of queries, updated per pane and per block."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from skyband.kernels.radix import sort_room
from skyband.kernels.stream import TIED, Answers, Floats, Ints, Queries, Rows, Ties
from skyband.topk.algorithms.base import Engine, Objects, State, kernel_queries, listed_windows, packed, with_room
from skyband.topk.kernels import candidates, group_runs, minimal, open_pane
from skyband.topk.kernels import panes as kernels
from skyband.topk.kernels.listed import REGULAR, Lists
from skyband.topk.kernels.moments import Moments, due_by_query, moments_of, reset
from skyband.topk.query import TopK

__all__ = ["Candidates", "Panes"]

MOST_LATTICES = 64  # with view starts on more lattices than this, finding the next pane costs more than it saves
_BLOCK = ("block_keys", "block_positions", "block_ids")
_STANDING = ("keys", "positions", "ids", "dominated")


class Candidates(NamedTuple):
    """Standing candidates, best first."""

    keys: Floats
    positions: Ints
    ids: Ints
    dominated: Ints  # number of better objects at the same position or later, as counted so far


class Panes(Engine):
    """Keep one candidate set for all queries, and answer each of them from it.

    Objects between two window boundaries (a pane) enter and leave every window together, so only the k best of a pane
    can be in an answer: a threshold selects them. Panes are collected in a sorted block. When the block has grown, one
    sweep merges it with the standing candidates and drops objects that too many younger objects beat. So the papers'
    per-object work is done once per block. Between sweeps, a few more objects than necessary may be kept; `candidates`
    and `objects` return the minimal set, exactly MinTopk's for one query and MTopList's for several. Cost: one
    comparison for an object that is dropped at once if panes are long, O(log) for each object if they are short, and
    the rows of the answers.

    >>> import skyband as sb
    >>> hour = sb.TopK(name="hour", k=1, size="1 hour", slide="30 minutes")
    >>> day = sb.TopK(name="day", k=2, size="1 day", slide="1 hour")
    >>> table = sb.replay([hour, day], [0, 3_000_000_000], [3.0, 1.0], algorithm="panes")
    >>> table.slice(0, 3).select(["query", "window_end", "score"]).to_pydict()
    {'query': ['hour', 'hour', 'day'], 'window_end': [1800000000, 3600000000, 3600000000], 'score': [3.0, 3.0, 3.0]}
    """

    name = "panes"
    summary = "the minimal candidate set, updated once per pane, for one query or thousands; the default of `auto`"
    shares = True
    ranks_ties = True
    takes_lists = True
    takes_distinct = True

    def __init__(self, queries: Sequence[TopK], since: Sequence[int] | None = None) -> None:
        super().__init__(queries, since)
        self._together, self._plan, moments = _prepared(self._queries, tuple(self._since))
        self._moments = Moments(**packed(moments))
        self._pane = open_pane.empty_pane(64)
        columns: dict[str, Any] = {name: np.zeros((2, 256), np.int64) for name in _STANDING}
        columns |= {name: np.zeros((2, 64), np.int64) for name in _BLOCK}
        columns |= {"keys": np.zeros((2, 256)), "block_keys": np.zeros((2, 64))}
        self._store = candidates.CandidateStore(**columns, registers=np.zeros(candidates.REGISTERS, np.int64))
        self._store.registers[candidates.PANE_END] = candidates.NO_PANE
        self._work = self._room()
        self._settled = True  # whether the kept objects are exactly the minimal set

    def _run(self, rows: Rows, at: int, watermark: int, first: int, answers: Answers) -> tuple[int, int]:
        self._settled = False
        return kernels.advance(
            self._store,
            self._pane,
            self._together,
            self._moments,
            self._plan,
            self._work,
            rows,
            at,
            watermark,
            first,
            answers,
        )

    def _read_windows(self, listed: Lists) -> None:
        before = self._plan.listed
        if listed is not None and before is not None and not before.cuts.size:  # too many lattices to cut panes by
            listed = listed._replace(cuts=before.cuts)
        self._plan = self._plan._replace(listed=listed)

    def _grow(self) -> None:
        r = self._store.registers
        opened = int(self._pane.registers[open_pane.SIZE])
        if opened == self._pane.keys.size:
            self._pane = with_room(self._pane, 2 * opened, keep=["registers", "sample", "picked", "hint"])
        if r[candidates.BLOCK] + opened > self._store.block_keys.shape[1]:
            self._store = with_room(self._store, 2 * int(r[candidates.BLOCK] + opened), keep=[*_STANDING, "registers"])
        total = int(r[candidates.STANDING] + r[candidates.BLOCK] + opened)
        if total >= self._store.keys.shape[1]:
            self._store = with_room(self._store, 2 * total, keep=[*_BLOCK, "registers"])
        self._work = self._room()

    def _room(self) -> candidates.PanesScratch:
        block = max(self._store.block_keys.shape[1], self._pane.keys.size)
        return candidates.PanesScratch(
            sort_room(block),
            np.zeros(block, np.int64),
            np.zeros(block + 1, np.int64),
            np.zeros(self._pane.keys.size, np.int64),
            np.zeros(self._store.keys.shape[1], np.int64),
        )

    def _settle(self) -> None:
        """Merge all objects and keep their minimal candidate set."""
        if self._settled:
            return
        self._settled = True
        r = self._store.registers
        if self.is_empty:
            return
        while not candidates.has_space(self._store, self._pane):
            self._grow()
        newest = int(r[candidates.NEWEST])
        candidates.close_pane(self._store, self._pane, self._plan, self._work, newest)
        if r[candidates.BLOCK]:
            candidates.sweep(self._store, self._plan, self._work, newest)
        listed = self._plan.listed
        due = due_by_query(self._moments, self._together, listed)
        starts, ks = minimal.live_views(self._together, listed, due, newest)
        side, standing = int(r[candidates.SIDE]), int(r[candidates.STANDING])
        keys, positions = self._store.keys[side, :standing], self._store.positions[side, :standing]
        kept = minimal.needed(keys, positions, starts, ks, self._ties)
        for name in _STANDING:
            column = getattr(self._store, name)[side]
            column[: kept.size] = column[kept]
        r[candidates.STANDING] = kept.size

    @property
    def is_empty(self) -> bool:
        return self.stored_count == 0

    @property
    def candidates(self) -> int:
        self._settle()
        return int(self._store.registers[candidates.STANDING])

    def _longest_answer(self) -> int:
        return self._at_most_k(self.stored_count)

    def objects(self) -> Objects:
        held, side = self.candidates, int(self._store.registers[candidates.SIDE])
        return Objects(*(getattr(self._store, name)[side, :held] for name in _STANDING[:3]))

    @property
    def next_end(self) -> int:
        return int(self._moments.due[self._moments.heap[0]])

    def counters(self) -> dict[str, int]:
        return {"sweeps": int(self._store.registers[candidates.SWEEPS])}

    def state(self) -> dict[str, Any]:
        held, side = self.candidates, int(self._store.registers[candidates.SIDE])
        registers = self._store.registers.copy()
        registers[[candidates.SIDE, candidates.BLOCK_SIDE]] = 0
        return {
            **{name: getattr(self._store, name)[side, :held].copy() for name in _STANDING},
            "registers": registers,
            "moments": packed(self._moments),
        }

    def load(self, state: State) -> None:
        registers = state["registers"]
        held = int(registers[candidates.STANDING])
        self._store = with_room(self._store, 2 * held + 256, keep=[*_BLOCK, "registers"])._replace(registers=registers)
        for name in _STANDING:
            getattr(self._store, name)[0, :held] = state[name]
        self._moments = Moments(**state["moments"])
        self._pane = open_pane.empty_pane(64)
        self._settled = True
        self._work = self._room()

    @property
    def stored_count(self) -> int:
        """Number of objects stored, including some that are not candidates; unlike `candidates` this is cheap."""
        r = self._store.registers  # reading arrays is faster than calling a compiled function
        return int(r[candidates.STANDING]) + int(r[candidates.BLOCK]) + int(self._pane.registers[open_pane.SIZE])

    def hand_over(self) -> Candidates:
        """Return the minimal candidate set."""
        held, side = self.candidates, int(self._store.registers[candidates.SIDE])
        return Candidates(*(getattr(self._store, name)[side, :held].copy() for name in _STANDING))

    def take_over(self, held: Candidates, answered: int) -> None:
        """Load these candidates of a stream whose windows have been answered up to `answered`."""
        registers = np.zeros(candidates.REGISTERS, np.int64)
        registers[candidates.STANDING] = held.keys.size
        registers[candidates.NEWEST] = held.positions.max(initial=candidates.NO_PANE)
        registers[candidates.PANE_END] = candidates.NO_PANE
        registers[candidates.SWEEPS] = self._store.registers[candidates.SWEEPS]
        moments = Moments(**packed(self._moments))
        if self._page_step is not None:
            low = max(answered, int(held.positions.min(initial=answered)))
            self.cover(low, max(low, int(registers[candidates.NEWEST])))
        reset(moments, self._plan.listed, answered)
        self.load({**held._asdict(), "registers": registers, "moments": moments._asdict()})
        self._settled = False

    def run_groups(
        self,
        segments: group_runs.GroupSegments,
        joined: group_runs.JoinStarts,
        arrived: group_runs.ArrivedRows,
        first: int,
        answers: Answers,
    ) -> int:
        """Process one group after another in this executor; return the kernel's status."""
        return group_runs.advance_groups(
            segments,
            self._store,
            self._pane,
            self._together,
            joined,
            self._moments,
            self._plan,
            self._work,
            arrived,
            first,
            answers,
        )

    def cover_groups(self, segments: group_runs.GroupSegments, arrived: group_runs.ArrivedRows) -> None:
        """Read the windows that these groups need, before `run_groups` runs them."""
        if self._page_step is not None:
            continued = arrived.before[segments.counts[arrived.groups] > 0]
            high = int(arrived.watermarks.max())
            self.cover(int(min(continued.min(initial=high), arrived.positions.min(initial=high))), high)

    def keep_minimal(
        self, segments: group_runs.GroupSegments, joined: group_runs.JoinStarts, groups: Ints, answered: Ints
    ) -> None:
        """Keep exactly the minimal candidate sets of these groups."""
        if self._page_step is not None and groups.size:
            newest = int(segments.positions[: segments.registers[group_runs.TAIL]].max(initial=answered.max()))
            self.cover(int(answered.min()), newest)
        group_runs.keep_minimal(segments, self._together, joined, self._moments, self._plan, groups, answered)

    def make_room(self, standing: int | None = None) -> None:
        """Make room for `standing` candidates, or for whatever the kernel lacked."""
        if standing is None:
            self._grow()
        elif 2 * standing >= self._store.keys.shape[1]:
            self._store = with_room(self._store, 2 * standing + 256, keep=[*_BLOCK, "registers"])
            self._work = self._room()

    def longest_answer(self) -> int:
        """Maximum number of rows of an answer."""
        return self._longest_answer()

    def count_sweeps(self, sweeps: int) -> None:
        """Set the sweep counter."""
        self._store.registers[candidates.SWEEPS] = sweeps


@lru_cache(maxsize=64)
def _prepared(queries: tuple[TopK, ...], since: tuple[int, ...]) -> tuple[Queries, candidates.PanesPlan, Moments]:
    """Values derived from the queries alone, computed once for the engines of all groups."""
    together, listed = kernel_queries(queries, since), listed_windows(queries, 0, 0)
    plan = _plan(together, listed, TIED if queries[0].ties == "rank" else None)
    return together, plan, moments_of(together, plan.listed)


def _plan(queries: Queries, listed: Lists, ties: Ties) -> candidates.PanesPlan:
    longest = int(queries.sizes.max())
    shift = 0
    while longest >> shift >= candidates.AGES:
        shift += 1
    # An object of age a can be in windows with size > a. A step uses its youngest age, so that no window is missed.
    ages = np.arange(candidates.AGES, dtype=np.int64) << shift
    longest_first = np.argsort(-queries.sizes)
    largest_k = np.append(0, np.maximum.accumulate(queries.ks[longest_first]))
    by_age = largest_k[np.searchsorted(-queries.sizes[longest_first], -ages)]
    pairs = np.stack([queries.slides, (queries.origins - queries.sizes) % queries.slides], axis=1)
    lattices = np.unique(pairs if listed is None else pairs[listed.of_query == REGULAR], axis=0)
    if len(lattices) > MOST_LATTICES:
        lattices = lattices[:0]
        listed = None if listed is None else listed._replace(cuts=listed.cuts[:0])
    return candidates.PanesPlan(int(queries.ks.max()), by_age, shift, np.ascontiguousarray(lattices), ties, listed)
