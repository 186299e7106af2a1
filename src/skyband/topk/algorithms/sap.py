"""SAP: only the k best of each partition of the window are candidates; three ways to choose the partitions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, comb, sqrt
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np

from skyband.kernels.select import empty_waiting
from skyband.kernels.stream import Answers, Floats, Ints, Rows
from skyband.topk.algorithms.base import Engine, Objects, State, packed, with_room
from skyband.topk.kernels import ring as rings
from skyband.topk.kernels import sap as kernels
from skyband.topk.kernels import sap_state as states
from skyband.topk.kernels import savl as stacks
from skyband.topk.kernels.sap_formation import SPARE
from skyband.topk.query import TopK

__all__ = ["SapDynamic", "SapEager", "SapEnhanced", "SapEqual", "SapRescan"]

ALPHA = 0.05
SMALL_SAMPLE = 10  # up to this k the rank test is exact
_FLOATS = ("keys", "best_keys", "unit_keys", "tops", "floors")


def _arrays(cls: Any, *shape: int) -> Any:
    return cls(**{name: np.zeros(shape, np.float64 if name in _FLOATS else np.int64) for name in cls._fields})


class _Sap(Engine):
    """The common part of the three engines; they differ in how partition ends are chosen."""

    mode: ClassVar[int]
    units: ClassVar[int] = 0  # number of units per window; 0: m*, which gives the best bound of candidates
    forming: ClassVar[int] = states.WITH_STACKS
    paired: ClassVar[bool] = (
        False  # whether a paired test decides about units, not a rank test (the paper's footnote 1)
    )

    def __init__(self, queries: Sequence[TopK], since: Sequence[int] | None = None) -> None:
        super().__init__(queries, since)
        slide = self._kernel_query.slide if self._queries[0].axis == "count" else 0
        self._plan = _plan(self.mode, self._kernel_query.k, slide, self.units, self.forming, self.paired)
        span = np.zeros(rings.SPAN, np.int64)
        registers = np.zeros(states.REGISTERS, np.int64)
        registers[states.UNIT_PLACE] = 2
        lists = [64, self._most(64), self._longest_list(64)]
        self._sap = states.Sap(
            ring=_arrays(rings.Ring, 64)._replace(span=span),
            candidates=_arrays(states.SapCandidates, 2, 64),
            front=_arrays(states.Front, 2 * lists[1] + kernels.LEAST_WASTE),
            opened=states.Opened(
                np.zeros(lists[1]), np.zeros(lists[1], np.int64), np.zeros(lists[2]), np.zeros(lists[2], np.int64)
            ),
            result=_arrays(states.Result, lists[1]),
            parts=_arrays(states.Parts, 4),
            units=_arrays(states.Units, 4),
            kept=np.zeros(64, np.int64),
            savl=stacks.Savl(
                np.zeros((stacks.PLACES, lists[1])),
                np.zeros((stacks.PLACES, lists[1]), np.int64),
                np.zeros(stacks.REGISTERS, np.int64),
            ),
            work=self._room(64, 64),
            reals=np.zeros(states.REALS),
            registers=registers,
        )

    def _most(self, capacity: int) -> int:
        """Length of a list with at most k entries."""
        return min(self._kernel_query.k, capacity)

    def _longest_list(self, capacity: int) -> int:
        """Length of an open unit's list."""
        return min(self._plan.limit, capacity) + 1

    def _room(self, capacity: int, candidates: int) -> states.SapScratch:
        """Allocate scratch space for a window of `capacity` objects and for `candidates` candidates."""
        most = min(kernels.LONG_CELL * self._kernel_query.k, capacity)
        if self.forming != states.WITH_STACKS:
            most = capacity  # a whole partition is sorted
        longest = candidates + most + 4 * self._most(capacity) + self._longest_list(capacity) + 2 * SPARE
        work: states.SapScratch = _arrays(states.SapScratch, longest)._replace(waiting=empty_waiting())
        return work

    def _run(self, rows: Rows, at: int, watermark: int, first: int, answers: Answers) -> tuple[int, int]:
        return kernels.advance(self._sap, self._plan, self._kernel_query, rows, at, watermark, first, answers)

    def _grow(self) -> None:
        sap = self._sap
        if self.object_count == sap.ring.keys.size:
            self._grow_ring()
        if kernels.lacks_candidates(sap, self._kernel_query.k):
            needed = int(sap.registers[states.CANDIDATES]) + 2 * self._most(self.object_count)
            self._sap = self._sap._replace(
                candidates=with_room(sap.candidates, max(needed, 2 * sap.candidates.keys.shape[1]))
            )
        if kernels.lacks_parts(sap):
            self._sap = self._sap._replace(
                parts=_wider(sap.parts, self._numbers(states.OLDEST_PART, states.NEWEST_PART))
            )
        if kernels.lacks_units(sap, self._plan):
            self._sap = self._sap._replace(
                units=_wider(sap.units, self._numbers(states.OLDEST_UNIT, states.NEWEST_UNIT))
            )
        while kernels.lacks_kept(self._sap, self._plan):
            numbers = self._numbers(states.OLDEST_KEPT, states.NEWEST_KEPT)
            self._sap = self._sap._replace(kept=_spread(self._sap.kept, numbers))
        self._sap = self._sap._replace(work=self._room(self._sap.ring.keys.size, self._sap.candidates.keys.shape[1]))

    def _grow_ring(self) -> None:
        sap = self._sap
        for place in range(stacks.PLACES):
            if self.forming == states.WITH_STACKS:
                stacks.drop_expired(sap.ring, sap.savl, place, sap.work.waiting)
            else:
                stacks.unlink_expired(sap.ring, sap.savl, place)
        numbers = self._window_numbers()
        ring = _wider(sap.ring, numbers)
        capacity = ring.keys.size
        most, longest = self._most(capacity), self._longest_list(capacity)
        opened = with_room(sap.opened, most, keep=["unit_keys", "unit_numbers"])
        self._sap = sap._replace(
            ring=ring,
            front=with_room(sap.front, 2 * most + kernels.LEAST_WASTE),
            opened=with_room(opened, longest, keep=["keys", "numbers"]),
            result=with_room(sap.result, most),
            savl=with_room(sap.savl, most, keep=["registers"]),
        )

    def _numbers(self, oldest: int, newest: int) -> Ints:
        return np.arange(self._sap.registers[oldest], self._sap.registers[newest])

    def _window_numbers(self) -> Ints:
        return np.arange(self._sap.ring.span[rings.HEAD], self._sap.ring.span[rings.TAIL])

    @property
    def object_count(self) -> int:
        return int(self._sap.ring.span[rings.TAIL] - self._sap.ring.span[rings.HEAD])

    @property
    def is_empty(self) -> bool:
        return self.object_count == 0

    @property
    def candidates(self) -> int:
        return self.candidate_numbers().size

    def candidate_numbers(self) -> Ints:
        """The numbers of the objects in C and M, in arbitrary order; objects are numbered in order of arrival."""
        found = np.zeros(self.object_count, np.int64)
        return found[: kernels.held_numbers(self._sap, self._kernel_query.k, found)]

    def _longest_answer(self) -> int:
        return self._at_most_k(self.object_count)

    def objects(self) -> Objects:
        ring, numbers = self._sap.ring, self._window_numbers()
        slots, span = numbers % ring.keys.size, ring.span
        positions = ring.positions[slots] if span[rings.LOOSE_POSITIONS] else numbers + span[rings.POSITION_BASE]
        ids = ring.ids[slots] if span[rings.LOOSE_IDS] else numbers + span[rings.ID_BASE]
        return Objects(ring.keys[slots], positions, ids)

    def window_sample(self, most: int) -> Floats:
        ring, held = self._sap.ring, self.object_count
        count = min(held, most)
        numbers = ring.span[rings.HEAD] + np.arange(count) * held // max(count, 1)
        sample: Floats = ring.keys[numbers % ring.keys.size]
        return sample

    @property
    def next_end(self) -> int:
        return int(self._sap.registers[states.NEXT_END])

    def counters(self) -> dict[str, int]:
        r = self._sap.registers
        counted = {
            "partitions": states.PARTITIONS,
            "partition_objects": states.PARTITIONED,
            "largest_partition": states.LARGEST,
            "units": states.UNITS,
            "formations": states.FORMATIONS,
            "formations_skipped": states.SKIPPED,
            "units_scanned": states.UNITS_SCANNED,
            "units_listed": states.UNITS_LISTED,
            "units_skipped": states.UNITS_SKIPPED,
            "units_relearned": states.RELEARNED,
            "insertions": states.INSERTIONS,
            "deletions": states.DELETIONS,
        }
        return {"window_objects": self.object_count} | {name: int(r[at]) for name, at in counted.items()}

    def state(self) -> dict[str, Any]:
        return {
            name: part.copy() if isinstance(part, np.ndarray) else packed(part)
            for name, part in self._sap._asdict().items()
            if name != "work"
        }

    def load(self, state: State) -> None:
        parts: dict[str, Any] = {
            "ring": rings.Ring,
            "candidates": states.SapCandidates,
            "front": states.Front,
            "opened": states.Opened,
            "result": states.Result,
            "parts": states.Parts,
            "units": states.Units,
            "savl": stacks.Savl,
        }
        loaded = {name: cls(**state[name]) for name, cls in parts.items()}
        work = self._room(loaded["ring"].keys.size, loaded["candidates"].keys.shape[1])
        self._sap = states.Sap(
            **loaded, kept=state["kept"], work=work, reals=state["reals"], registers=state["registers"]
        )


class SapEqual(_Sap):
    """Cut the window into m* = ⌈√(n / max(s, k))⌉ equal partitions and keep the k best of each.

    An object outside the k best of its partition cannot be in an answer before the partition begins to expire. So only
    the front partition needs more than its k best: its meaningful objects M, the k-skyband among the others. M is empty
    if k candidates of later partitions beat the partition's k-th (group dominance number ρ ≥ k). Otherwise a scan of
    the partition from its newest object to its oldest builds M as an S-AVL, incrementally with each slide while the
    partition before it expires. The scan needs the whole window; `candidates` counts C ∪ M, as the paper does, and
    `counters` contains the `window_objects`.

    |C ∪ M| is at most (m - 1)·k + n/m·k/max(s, k). Cost: one comparison for an object that is dropped at once, O(1)
    amortised for one of the k best so far of its partition, O(log k) for an object that is added to M or removed from
    it, O(|C|) for each partition that is closed: O(log k) per object in the worst case, and O(k) for each answer.

    Zhu, Wang, Yang, Zheng, Wang: SAP: Improving Continuous Top-K Queries over Streaming Data, TKDE 2017.

    Differences from the paper: the tops of an S-AVL are in an array, first sorted and then a heap, instead of an AVL
    tree. Those of the k best that a scan has passed count as dominators. An object of M is promoted when an answer
    needs it, not whenever a candidate expires.

    >>> import skyband as sb
    >>> monitor = sb.Monitor(sb.TopK(k=1, size=9, slide=1), algorithm="sap-equal")
    >>> monitor.push(None, [5.0, 9.0, 7.0, 3.0, 1.0, 4.0, 8.0, 2.0, 6.0])
    >>> monitor.candidates, monitor.metrics()["window_objects"], monitor.metrics()["partitions"]
    (3, 8, 3)
    """

    name = "sap-equal"
    summary = "equal partitions, their k best, and a stack index for the one that expires (TKDE 2017)"
    mode = states.EQUAL


class SapRescan(SapEqual):
    """The equal partitions of `sap-equal`, with M formed without an S-AVL: the paper's Algorithm 1 as such.

    If a partition that begins to expire needs an M, all of its objects are sorted, and a merge counts for each the
    better ones that expire no earlier. Those with fewer than k - ρ are M, a list sorted best first. The work is not
    spread over slides: the first slide of a partition does all of it. For measurements; use ``sap``.

    Cost of a partition that needs an M: O(n/m · log(n/m)).

    Zhu, Wang, Yang, Zheng, Wang: SAP: Improving Continuous Top-K Queries over Streaming Data, TKDE 2017, table 2.

    >>> import skyband as sb
    >>> monitor = sb.Monitor(sb.TopK(k=2, size=100, slide=1), algorithm="sap-rescan")
    >>> monitor.push(None, [float(-i) for i in range(500)])
    >>> monitor.metrics()["formations"] > 0
    True
    """

    name = "sap-rescan"
    summary = "equal partitions without a stack index, the one that expires is sorted (TKDE 2017, table 2)"
    forming = states.RESCANNED


class SapEager(SapEqual):
    """The equal partitions of `sap-rescan`, with the M of a partition formed when it is closed: *non-delay*.

    Nothing is known about later objects at that time, so every partition has an M, of all its objects with fewer than k
    better ones in it that expire no earlier. Most of them turn out to be needless: that is what the delay saves. For
    measurements; use ``sap``.

    Zhu, Wang, Yang, Zheng, Wang: SAP: Improving Continuous Top-K Queries over Streaming Data, TKDE 2017, table 2.

    >>> import skyband as sb
    >>> values = [float(i * 37 % 101) for i in range(500)]
    >>> eager, delayed = (sb.Monitor(sb.TopK(k=2, size=100, slide=1), name) for name in ("sap-eager", "sap-rescan"))
    >>> for monitor in (eager, delayed):
    ...     monitor.push(None, values)
    >>> eager.answers().equals(delayed.answers()), eager.candidates > delayed.candidates
    (True, True)
    """

    name = "sap-eager"
    summary = "equal partitions, each with its meaningful objects from the start: non-delay (TKDE 2017, table 2)"
    forming = states.AT_ONCE


class SapDynamic(_Sap):
    """Choose the length of a partition by its scores: units of n/m* objects join it while a rank test allows it.

    The state is that of `sap-equal`. When a unit is complete, a rank test (Mann, Whitney) compares the k best that the
    partition would have with the η·k best candidates of the window before it. If they tend to be higher, later objects
    are unlikely to make M unnecessary, and the unit begins the next partition. It also does if the partition would
    exceed l_max = n / (1 + η). So partitions are long where scores are average (fewer candidates), and short where they
    are high (less to scan). Up to k = 10 the test is exact.

    Zhu, Wang, Yang, Zheng, Wang: SAP: Improving Continuous Top-K Queries over Streaming Data, TKDE 2017.

    >>> import skyband as sb
    >>> monitor = sb.Monitor(sb.TopK(k=2, size=100, slide=1), algorithm="sap-dynamic")
    >>> monitor.push(None, [float(i * 37 % 101) for i in range(500)])
    >>> monitor.metrics()["units"] > monitor.metrics()["partitions"] > 0
    True
    """

    name = "sap-dynamic"
    summary = "partitions as long as a rank test of their k best allows (TKDE 2017)"
    mode = states.DYNAMIC


class SapEnhanced(_Sap):
    """Dynamic partitions that track which of their units may contain many meaningful objects, and skip the others.

    A unit's list inherits its bar, τ, from the unit before (TBUI): while scores do not change, each unit has about ζ*
    objects above it, and every other object costs one comparison. A unit that is followed by one with k objects above
    its bar is a non-k-unit: only its best key is kept. Of a k-unit, the list is kept. When a partition needs an M
    (UBSA), it skips non-k-units whose best key does not reach the k-th best of later objects. From k-units it uses the
    k best first, and the rest only when the unit is about to expire, from the list if that is sufficient.

    Zhu, Wang, Yang, Zheng, Wang: SAP: Improving Continuous Top-K Queries over Streaming Data, TKDE 2017.

    Differences from the paper: the list of a unit with fewer than k objects above its inherited bar is rebuilt from the
    window as soon as an answer would miss one of them. Whether a unit is a non-k-unit is decided by its own bar.

    >>> import skyband as sb
    >>> monitor = sb.Monitor(sb.TopK(k=2, size=100, slide=1), algorithm="sap")
    >>> monitor.push(None, [float(-i) for i in range(500)])
    >>> monitor.metrics()["formations"] > 0 and monitor.candidates < monitor.metrics()["window_objects"]
    True
    """

    name = "sap"
    summary = "dynamic partitions with thresholds and lists for their units: SAP's fastest form (TKDE 2017)"
    mode = states.ENHANCED


def _spread(column: Any, numbers: Ints) -> Any:
    """Return a ring of twice the capacity with the entries of the given numbers."""
    wide = np.zeros(2 * column.size, column.dtype)
    wide[numbers % wide.size] = column[numbers % column.size]
    return wide


def _wider(table: Any, numbers: Ints) -> Any:
    """Do the same for all columns of a table that are as long as its first."""
    places = table[0].size
    return type(table)(*(_spread(column, numbers) if column.size == places else column for column in table))


@lru_cache(maxsize=64)
def _plan(
    mode: int, k: int, slide: int, units: int = 0, forming: int = states.WITH_STACKS, paired: bool = False
) -> states.SapPlan:
    """Parameters derived from k, the objects per slide (0: time windows), and the units per window."""
    # The solution of (eta k - k) / sqrt(eta k) = 3. The equation for zeta* is the same.
    sample = ((3.0 + sqrt(9.0 + 4.0 * k)) / 2.0) ** 2
    plenty = sample + 3.0 * sqrt(sample)
    keep, limit = k, 2 * k + SPARE
    if mode == states.ENHANCED:
        keep = ceil(sample)
        limit = ceil(max(2 * keep, plenty))
    most_ranks = _most_ranks(k, ceil(sample)) if k <= SMALL_SAMPLE else np.zeros((1, 1), np.int64)
    long_cells = int(slide == 0 or slide > 4 * kernels.LONG_CELL * k)
    return states.SapPlan(
        mode,
        units,
        int(slide > 0),
        keep,
        limit,
        plenty,
        long_cells,
        sample / k,
        ceil(sample),
        forming,
        _t_quantile(k - 1) if paired else 0.0,
        most_ranks,
    )


def _t_quantile(freedom: int) -> float:
    """The quantile of Student's t at 1 - ALPHA / 2, expanded around the normal one (Abramowitz, Stegun 26.7.5)."""
    if freedom < 3:
        return {0: 12.706, 1: 12.706, 2: 4.303}[freedom]
    u = NormalDist().inv_cdf(1 - ALPHA / 2)
    terms = (
        (u**3 + u) / 4,
        (5 * u**5 + 16 * u**3 + 3 * u) / 96,
        (3 * u**7 + 19 * u**5 + 17 * u**3 - 15 * u) / 384,
        (79 * u**9 + 776 * u**7 + 1482 * u**5 - 1920 * u**3 - 945 * u) / 92160,
    )
    return u + sum(term / float(freedom) ** (power + 1) for power, term in enumerate(terms))


def _most_ranks(a: int, b: int) -> Ints:
    """T_up of the rank-sum test: for samples of up to a and b, the largest rank sum that is not significant."""
    return np.array([[_most_rank_sum(i, j) for j in range(b + 1)] for i in range(a + 1)], np.int64)


@lru_cache(maxsize=1024)
def _most_rank_sum(a: int, b: int) -> int:
    """The smallest T that the rank sum of `a` among ``a + b`` exceeds with a probability of at most ALPHA / 2."""
    # ways[i][s]: number of subsets of i of the ranks so far with the sum s.
    most = sum(range(b + 1, a + b + 1))
    ways = [[0] * (most + 1) for _ in range(a + 1)]
    ways[0][0] = 1
    for rank in range(1, a + b + 1):
        for i in range(min(a, rank), 0, -1):
            for total in range(most, rank - 1, -1):
                ways[i][total] += ways[i - 1][total - rank]
    beyond, total = 0, most
    while total > 0 and beyond + ways[a][total] <= ALPHA / 2 * comb(a + b, a):
        beyond += ways[a][total]
        total -= 1
    return total
