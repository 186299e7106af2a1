"""SAP for many queries: one partition sequence, shared by all window sizes, slides and k."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from skyband.kernels.select import empty_waiting
from skyband.kernels.stream import Answers, Floats, Ints, Queries, Rows
from skyband.topk.algorithms.base import Engine, Objects, State, kernel_queries, packed, with_room
from skyband.topk.kernels import ring as rings
from skyband.topk.kernels import sap_shared as kernels
from skyband.topk.kernels.moments import Moments, moments_of
from skyband.topk.query import TopK

__all__ = ["SapShared"]

MARGIN = 16  # a list has room for so many objects more than one and a half times k
_TABLES = {"ring": rings.Ring, "parts": kernels.SharedParts, "tops": kernels.Tops}
_ROWS = ("keys", "numbers", "ids")


class SapShared(Engine):
    """Cut the stream into partitions once for all queries, and keep the best objects of each window size.

    Of each partition the d best are candidates, where d is the length of the longest list below; a candidate is dropped
    when enough candidates of later partitions are better. An object outside of the d best of its partition can be in an
    answer only if the window's start cuts the partition. As every window size has its own start, several partitions are
    cut at once. The meaningful objects M of a partition are found when a window needs them for the first time, by one
    scan from its newest object to its oldest, and are kept best first, so that windows of all sizes read them.

    Each window size has one list with the best objects of its newest window, up to k + k/2 + 16 for the largest k of
    its queries, which answer from its beginning. A new object is compared with the last entry of the list. The list is
    read from the partitions again only when so many of its objects have expired that fewer than k remain.

    |C ∪ M| is at most (m + 2)·d + 64 + b·l with m partitions of l = √(n·d) objects, of which b are cut by the start of
    a window of some size and have an M; the lists of the window sizes contain no other objects, except those of windows
    that are shorter than a partition. Like SAP, it keeps the whole longest window: `counters` contains the
    `window_objects`. Cost: one comparison per object and window size, O(1) amortised for the lists of partitions,
    O(d + m) for a list that is read again, and the rows of the answers. Slides need not have common multiples.

    After Zhu, Wang, Yang, Zheng, Wang: SAP: Improving Continuous Top-K Queries over Streaming Data, TKDE 2017, which is
    about one query.

    >>> import skyband as sb
    >>> queries = [sb.TopK(name="short", k=1, size=20, slide=1), sb.TopK(name="long", k=2, size=400, slide=3)]
    >>> monitor = sb.Monitor(queries, algorithm="sap-shared")
    >>> monitor.push(None, [float(i * 37 % 101) for i in range(500)])
    >>> monitor.answers().select(["query", "window_end", "score"]).to_pylist()[-1]
    {'query': 'short', 'window_end': 500, 'score': 98.0}
    >>> monitor.candidates < monitor.metrics()["window_objects"] and monitor.metrics()["partitions"] > 0
    True
    """

    name = "sap-shared"
    summary = "SAP for many queries: one partition sequence, and the best objects of each window size"
    shares = True

    def __init__(self, queries: Sequence[TopK], since: Sequence[int] | None = None) -> None:
        super().__init__(queries, since)
        self._together, self._plan, moments = _prepared(self._queries, tuple(self._since))
        self._moments = Moments(**packed(moments))
        sizes = self._plan.sizes.size
        registers = np.zeros(kernels.REGISTERS, np.int64)
        registers[kernels.EMPTY], registers[kernels.OPEN_LENGTH] = 1, kernels.LEAST_LENGTH
        columns: dict[str, Any] = {
            name: np.zeros(sizes, np.float64 if name == "bar_keys" else np.int64) for name in kernels.Tops._fields[3:]
        }
        columns |= {
            "oldest": np.full(sizes, kernels.NOTHING, np.int64),
            "complete": np.ones(sizes, np.int64),
        }
        numbers = np.zeros(0, np.int64)
        self._sap = kernels.SharedSap(
            ring=rings.Ring(
                np.zeros(64),
                np.zeros(64, np.int64),
                np.zeros(64, np.int64),
                np.zeros(64, np.int64),
                np.zeros(rings.SPAN, np.int64),
            ),
            parts=kernels.SharedParts(
                np.zeros((0, 0)), np.zeros((0, 0), np.int64), np.zeros((0, 0), np.int64), *(numbers for _ in range(5))
            ),
            open_keys=np.zeros(64),
            open_numbers=np.zeros(64, np.int64),
            tops=kernels.Tops(
                np.zeros((sizes, 32)), np.zeros((sizes, 32), np.int64), np.zeros((sizes, 32), np.int64), **columns
            ),
            work=self._room(64, 64),
            reals=np.full(kernels.REALS, -np.inf),
            registers=registers,
        )

    def _room(self, objects: int, longest: int) -> kernels.SharedScratch:
        """Allocate scratch space for a ring of `objects` objects and partitions of at most `longest`."""
        entries = min(2 * self._plan.depth + kernels.SPARE, objects) + 1
        return kernels.SharedScratch(
            np.zeros(entries),
            np.zeros(entries, np.int64),
            np.zeros(entries),
            np.zeros(entries, np.int64),
            np.zeros(longest),
            np.zeros(longest, np.int64),
            empty_waiting(),
        )

    def _run(self, rows: Rows, at: int, watermark: int, first: int, answers: Answers) -> tuple[int, int]:
        return kernels.advance(
            self._sap, self._plan, self._together, self._moments, rows, at, watermark, first, answers
        )

    def _grow(self) -> None:
        sap = self._sap
        lacks, needs = (int(sap.registers[at]) for at in (kernels.LACKS, kernels.NEEDS))
        if lacks == kernels.RING:
            numbers = np.arange(sap.ring.span[rings.HEAD], sap.ring.span[rings.TAIL])
            sap = sap._replace(ring=_wider(sap.ring, 2 * sap.ring.keys.size, numbers))
            sap = sap._replace(work=self._room(sap.ring.keys.size, sap.work.band_keys.size))
        elif lacks == kernels.OPEN:
            size = 2 * sap.open_keys.size
            sap = sap._replace(open_keys=_longer(sap.open_keys, size), open_numbers=_longer(sap.open_numbers, size))
        elif lacks == kernels.PARTS:
            sap = sap._replace(parts=self._more_parts(needs))
        elif lacks == kernels.TOPS:
            width = max(needs, 2 * sap.tops.keys.shape[1])
            sap = sap._replace(tops=with_room(sap.tops, width, keep=kernels.Tops._fields[3:]))
        else:
            sap = sap._replace(work=self._room(sap.ring.keys.size, max(needs, 2 * sap.work.band_keys.size)))
        sap.registers[kernels.RECENT_SIZE] = kernels.NOT_FORMED  # it is in the scratch space
        self._sap = sap

    def _more_parts(self, width: int) -> kernels.SharedParts:
        """Return the partitions with room for one more, and for lists of this width."""
        parts, r = self._sap.parts, self._sap.registers
        numbers = np.arange(r[kernels.OLDEST_PART], r[kernels.NEWEST_PART])
        if width > parts.keys.shape[1]:
            wide = max(width, min(self._plan.depth, 2 * parts.keys.shape[1]))
            parts = with_room(parts, wide, keep=kernels.SharedParts._fields[3:])
        if numbers.size < parts.begins.size:
            return parts
        return kernels.SharedParts(*_wider(parts, max(4, 2 * parts.begins.size), numbers))

    @property
    def _live(self) -> Ints:
        """The numbers of the objects that an unanswered window can contain."""
        ring, span = self._sap.ring, self._sap.ring.span
        numbers: Ints = np.arange(span[rings.HEAD], span[rings.TAIL])
        if self._sap.registers[kernels.EMPTY]:
            return numbers[:0]
        start = int((self._moments.due - self._moments.longest).min())
        if not span[rings.LOOSE_POSITIONS]:
            return numbers[max(0, start - int(span[rings.HEAD] + span[rings.POSITION_BASE])) :]
        live: Ints = numbers[ring.positions[numbers % ring.keys.size] >= start]
        return live

    @property
    def object_count(self) -> int:
        return self._live.size

    @property
    def is_empty(self) -> bool:
        return bool(self._sap.registers[kernels.EMPTY])

    @property
    def candidates(self) -> int:
        return self.candidate_numbers().size

    def candidate_numbers(self) -> Ints:
        """The numbers of the candidates, ascending: the lists of all partitions, every M, and those of all sizes."""
        sap, r, live = self._sap, self._sap.registers, self._live
        found = [sap.open_numbers[: r[kernels.OPEN_SIZE]]]
        for part in range(r[kernels.OLDEST_PART], r[kernels.NEWEST_PART]):
            at = part % sap.parts.begins.size
            found.append(sap.parts.numbers[at, : sap.parts.counts[at]])
            formed = np.arange(sap.parts.begins[at], sap.parts.begins[at] + max(0, sap.parts.formed[at]))
            found.append(sap.ring.below[formed % sap.ring.keys.size])
        for c, begin in enumerate(sap.tops.begins):
            found.append(sap.tops.numbers[c, begin : begin + sap.tops.counts[c]])
        numbers = np.unique(np.concatenate(found))
        return numbers[numbers >= live[0]] if live.size else live

    def _longest_answer(self) -> int:
        span = self._sap.ring.span
        return self._at_most_k(int(span[rings.TAIL] - span[rings.HEAD]))

    def objects(self) -> Objects:
        ring, numbers = self._sap.ring, self._live
        slots, span = numbers % ring.keys.size, ring.span
        positions = ring.positions[slots] if span[rings.LOOSE_POSITIONS] else numbers + span[rings.POSITION_BASE]
        ids = ring.ids[slots] if span[rings.LOOSE_IDS] else numbers + span[rings.ID_BASE]
        return Objects(ring.keys[slots], positions, ids)

    def window_sample(self, most: int) -> Floats:
        ring, live = self._sap.ring, self._live
        count = min(live.size, most)
        numbers = live[np.arange(count) * live.size // max(count, 1)]
        sample: Floats = ring.keys[numbers % ring.keys.size]
        return sample

    @property
    def next_end(self) -> int:
        return int(self._moments.due[self._moments.heap[0]])

    def counters(self) -> dict[str, int]:
        r = self._sap.registers
        counted = {
            "partitions": kernels.PARTITIONS,
            "formations": kernels.FORMATIONS,
            "refills": kernels.REFILLS,
            "insertions": kernels.INSERTIONS,
        }
        return {"window_objects": self.object_count} | {name: int(r[at]) for name, at in counted.items()}

    def state(self) -> dict[str, Any]:
        sap, registers = self._sap, self._sap.registers.copy()
        registers[kernels.RECENT_SIZE] = kernels.NOT_FORMED  # the recent objects are in the scratch space
        return {
            **{name: packed(getattr(sap, name)) for name in _TABLES},
            "open_keys": sap.open_keys.copy(),
            "open_numbers": sap.open_numbers.copy(),
            "reals": sap.reals.copy(),
            "registers": registers,
            "moments": packed(self._moments),
        }

    def load(self, state: State) -> None:
        tables = {name: cls(**state[name]) for name, cls in _TABLES.items()}
        parts, r = tables["parts"], state["registers"]
        # The open partition is closed with at most this many objects, or has been allocated for more.
        longest = max(64, int(r[kernels.OPEN_LENGTH]), int((parts.ends - parts.begins).max(initial=0)))
        self._moments = Moments(**state["moments"])
        self._sap = kernels.SharedSap(
            **tables,
            open_keys=state["open_keys"],
            open_numbers=state["open_numbers"],
            work=self._room(tables["ring"].keys.size, longest),
            reals=state["reals"],
            registers=r,
        )


def _longer(column: Any, size: int) -> Any:
    """Return a longer copy of a column."""
    longer = np.zeros(size, column.dtype)
    longer[: column.size] = column
    return longer


def _wider(table: Any, capacity: int, numbers: Ints) -> Any:
    """Return a table whose rings have this capacity, with the entries of the given numbers."""
    old = table[0].shape[0]
    columns = []
    for column in table:
        if column.shape[0] != old:
            columns.append(column)  # not a ring
            continue
        wide = np.zeros((capacity, *column.shape[1:]), column.dtype)
        if old:
            wide[numbers % capacity] = column[numbers % old]
        columns.append(wide)
    return type(table)(*columns)


@lru_cache(maxsize=64)
def _prepared(queries: tuple[TopK, ...], since: tuple[int, ...]) -> tuple[Queries, kernels.SharedSapPlan, Moments]:
    """Values derived from the queries alone, computed once for the engines of all groups."""
    together = kernel_queries(queries, since)
    return together, _plan(together), moments_of(together, None)


def _plan(queries: Queries) -> kernels.SharedSapPlan:
    ascending, of_query = np.unique(queries.sizes, return_inverse=True)
    sizes = np.ascontiguousarray(ascending[::-1])
    of_query = sizes.size - 1 - of_query.reshape(-1).astype(np.int64)
    ks = np.zeros(sizes.size, np.int64)
    np.maximum.at(ks, of_query, queries.ks)
    most = ks + ks // 2 + MARGIN
    depths = np.maximum.accumulate(most)
    depth = int(depths[-1])
    return kernels.SharedSapPlan(sizes, ks, most, depths, of_query, depth, depth + depth // 4 + 16)
