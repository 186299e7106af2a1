"""The protocol that all engines follow, and what the compiled ones share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skyband.data.answer_log import AnswerLog
from skyband.errors import UnsupportedError
from skyband.kernels.stream import ANSWERS_FULL, DONE, TIED, Answers, Floats, Ints, KernelQuery, Queries, Rows, Ties
from skyband.topk.kernels.listed import REGULAR, Listed, Lists
from skyband.topk.query import TopK
from skyband.windows import ALWAYS, NEVER, ListedWindows, SlidingWindow

__all__ = ["Engine", "Objects", "kernel_queries", "kernel_query", "listed_windows", "with_room"]

State = Mapping[str, Any]


class Objects(NamedTuple):
    """Objects an engine holds."""

    keys: Floats
    positions: Ints
    ids: Ints


def kernel_query(query: TopK) -> KernelQuery:
    """The query as kernels see it."""
    window = query.window
    # A list has no lattice; the numbers that stand for one say how long an object can matter.
    lattice = (window.slide, window.origin) if isinstance(window, SlidingWindow) else (1, 0)
    return KernelQuery(query.k, window.longest, *lattice, int(query.full_only))


def kernel_queries(queries: Sequence[TopK], since: Sequence[int]) -> Queries:
    """Several queries as shared engines see them."""
    table = np.array([kernel_query(query) for query in queries], np.int64)
    ks, sizes, slides, origins, full_only = (np.ascontiguousarray(column) for column in table.T)
    return Queries(ks, sizes, slides, origins, full_only, np.array(since, np.int64))


def listed_windows(queries: Sequence[TopK]) -> Lists:
    """The lists of those queries whose windows lie on no lattice; None if all do."""
    windows = [query.window for query in queries]
    lists = list(dict.fromkeys(window for window in windows if isinstance(window, ListedWindows)))
    if not lists:
        return None
    starts = np.concatenate([np.array(one.starts, np.int64) for one in lists])
    ends = np.concatenate([np.array(one.ends, np.int64) for one in lists])
    begins = np.cumsum([0, *(len(one.ends) for one in lists)], dtype=np.int64)
    number = {window: number for number, window in enumerate(lists)}
    of_query = np.array(
        [number[window] if isinstance(window, ListedWindows) else REGULAR for window in windows], np.int64
    )
    return Listed(starts, ends, begins, of_query, np.unique(starts))


def with_room(arrays: Any, capacity: int, *, keep: Sequence[str] = ()) -> Any:
    """The named tuple `arrays` with its last axes lengthened to `capacity`; those in `keep` stay as they are."""
    grown = {}
    for name, old in arrays._asdict().items():
        if name in keep:
            grown[name] = old
            continue
        grown[name] = np.zeros((*old.shape[:-1], capacity), old.dtype)
        grown[name][..., : old.shape[-1]] = old
    return type(arrays)(**grown)


class Engine(ABC):
    """Answers the queries it was made for over the rows of one group, in order, exactly.

    An engine is told of rows and of the watermark by `advance`, and writes each window once, when the watermark reaches
    its end. Between two calls its whole state is arrays and numbers: `state` shows them and `load` takes them back.
    """

    name: ClassVar[str]
    #: One line for `skyband.algorithms()`.
    summary: ClassVar[str]
    #: Whether one engine serves several queries together.
    shares: ClassVar[bool] = False
    #: Whether it serves queries with ``ties="rank"``. The published structures rest on a total order.
    ranks_ties: ClassVar[bool] = False
    #: Whether it serves windows that are listed by their starts and ends. The published structures follow a lattice.
    takes_lists: ClassVar[bool] = False

    def __init__(self, queries: Sequence[TopK], since: Sequence[int] | None = None) -> None:
        """Serve `queries`, each from the windows on that start at or after its entry in `since`."""
        self._queries = tuple(queries)
        self.refuse_ties(self._queries)
        self.refuse_lists(self._queries)
        self._only_listed = all(isinstance(query.window, ListedWindows) for query in self._queries)
        # All queries of an engine have the same policy.
        self._ties: Ties = TIED if self._queries[0].ties == "rank" else None
        self._since = [ALWAYS] * len(self._queries) if since is None else list(since)
        self._kernel_query = kernel_query(self._queries[0])
        self._only_since = ALWAYS
        if not self.shares and self._since[0] != ALWAYS:
            # A query that joined late reports what a full-only query would, had the stream begun then.
            self._only_since = self._since[0]
            self._kernel_query = self._kernel_query._replace(full_only=1)

    def advance(self, rows: Rows, watermark: int, first: int, log: AnswerLog) -> None:
        """Take in `rows`, then answer every window that ends at or before `watermark`.

        `first` is the position of the stream's first object, for queries that report full windows only.
        """
        if self._only_since != ALWAYS:
            first = max(first, self._only_since) if self._queries[0].full_only else self._only_since
        if self._only_listed:
            rows = self._in_windows(rows)
        at = 0
        while True:
            why, at = self._run(rows, at, watermark, first, log.buffers)
            if why == DONE:
                return
            if why == ANSWERS_FULL:
                log.make_room(self._longest_answer())
            else:
                self._grow()

    def _in_windows(self, rows: Rows) -> Rows:
        """The rows that some window holds; between listed windows, and after the last of them, there may be others."""
        held = np.zeros(rows.keys.size, bool)
        for window in dict.fromkeys(query.window for query in self._queries):
            assert isinstance(window, ListedWindows)
            # Of the windows that end after a row, the first starts first.
            starts, ends = np.array([*window.starts, NEVER]), np.array(window.ends)
            held |= starts[np.searchsorted(ends, rows.positions, side="right")] <= rows.positions
        if held.all():
            return rows
        ids = rows.ids if rows.ids.size else rows.first_id + np.arange(rows.keys.size)
        return Rows(rows.keys[held], rows.positions[held], ids[held], rows.first_position, rows.first_id)

    @abstractmethod
    def _run(self, rows: Rows, at: int, watermark: int, first: int, answers: Answers) -> tuple[int, int]:
        """Call the kernel once: why it came back, and the first row it has not taken in."""

    @abstractmethod
    def _grow(self) -> None:
        """Give the state more room, after the kernel has said that it is full."""

    @property
    @abstractmethod
    def candidates(self) -> int:
        """How many objects are held."""

    @property
    def object_count(self) -> int:
        """How many objects `objects` shows: the candidates, and what an engine keeps to find further ones in."""
        return self.candidates

    @property
    def is_empty(self) -> bool:
        """Whether nothing is held."""
        return self.candidates == 0

    @abstractmethod
    def objects(self) -> Objects:
        """The objects held, in no particular order."""

    def _longest_answer(self) -> int:
        """No answer can have more rows than this."""
        return self._at_most_k(self.candidates)

    def _at_most_k(self, rows: int) -> int:
        """How many of so many objects an answer can have at most."""
        return rows if self._ties else min(max(query.k for query in self._queries), rows)

    @classmethod
    def refuse_ties(cls, queries: Sequence[TopK]) -> None:
        """Refuse queries with ``ties="rank"`` where the algorithm knows nothing of ties."""
        for query in queries:
            if query.ties == "rank" and not cls.ranks_ties:
                raise UnsupportedError(
                    f"{query.name!r} has ties='rank', which {cls.name} does not support: it drops objects that tie "
                    "with the k-th. Use algorithm='panes'."
                )

    @classmethod
    def refuse_lists(cls, queries: Sequence[TopK]) -> None:
        """Refuse queries whose windows are listed where the algorithm needs a lattice of them."""
        for query in queries:
            if not cls.takes_lists and not isinstance(query.window, SlidingWindow):
                raise UnsupportedError(
                    f"{query.name!r} has windows listed by starts and ends, but {cls.name} supports only windows with "
                    "one size and one slide. Use algorithm='panes' or 'naive'."
                )

    @property
    @abstractmethod
    def next_end(self) -> int:
        """The end of the oldest window still to be answered; meaningful while objects are held."""

    def counters(self) -> dict[str, int]:
        """What the algorithm did so far, by name, where its paper counts it."""
        return {}

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Everything that `load` needs to go on from here. Not changed by later calls."""

    @abstractmethod
    def load(self, state: State) -> None:
        """Go on from what `state` returned."""


def packed(arrays: NamedTuple) -> dict[str, Any]:
    """Copies of the arrays of a named tuple, by name."""
    return {name: array.copy() for name, array in arrays._asdict().items()}
