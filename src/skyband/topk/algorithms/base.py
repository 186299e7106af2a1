"""The interface of all engines, and the common parts of the compiled ones."""

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
from skyband.windows import ALWAYS, NEVER, IrregularWindows, ListedWindows, SlidingWindow, Windows

__all__ = ["Engine", "Objects", "kernel_queries", "kernel_query", "listed_windows", "with_more_rows", "with_room"]

State = Mapping[str, Any]

_PAGE_STEPS = 8192  # endless windows are read in parts of so many slides, so that a long silence needs no memory


class Objects(NamedTuple):
    """The objects that an engine keeps."""

    keys: Floats
    positions: Ints
    ids: Ints


def kernel_query(query: TopK) -> KernelQuery:
    """Convert the query for kernels."""
    window = query.window
    # A list has no slide and origin; the placeholders only define how long an object is kept.
    lattice = (window.slide, window.origin) if isinstance(window, SlidingWindow) else (1, 0)
    return KernelQuery(query.k, window.longest, *lattice, int(query.full_only))


def kernel_queries(queries: Sequence[TopK], since: Sequence[int]) -> Queries:
    """Convert several queries for shared engines."""
    table = np.array([kernel_query(query) for query in queries], np.int64)
    ks, sizes, slides, origins, full_only = (np.ascontiguousarray(column) for column in table.T)
    return Queries(ks, sizes, slides, origins, full_only, np.array(since, np.int64))


def listed_windows(queries: Sequence[TopK], low: int, high: int) -> Lists:
    """The windows without a lattice that positions in ``(low, high]`` need; None if all windows are regular."""
    windows = [query.window for query in queries]
    lists = list(dict.fromkeys(window for window in windows if isinstance(window, IrregularWindows)))
    if not lists:
        return None
    pages = [window.page(low, high) for window in lists]
    starts, ends = (np.concatenate(columns) for columns in zip(*pages, strict=True))
    begins = np.cumsum([0, *(page[1].size for page in pages)], dtype=np.int64)
    number: dict[Windows, int] = {window: number for number, window in enumerate(lists)}
    of_query = np.array([number.get(window, REGULAR) for window in windows], np.int64)
    return Listed(starts, ends, begins, of_query, np.unique(starts))


def with_room(arrays: Any, capacity: int, *, keep: Sequence[str] = ()) -> Any:
    """Return the named tuple `arrays` with its last axes extended to `capacity`; those in `keep` are not changed."""
    grown = {}
    for name, old in arrays._asdict().items():
        if name in keep:
            grown[name] = old
            continue
        grown[name] = np.zeros((*old.shape[:-1], capacity), old.dtype)
        grown[name][..., : old.shape[-1]] = old
    return type(arrays)(**grown)


def with_more_rows(table: Any, rows: int) -> Any:
    """Return a copy of the two-dimensional array with so many rows; the new ones are 0."""
    grown = np.zeros((rows, table.shape[1]), table.dtype)
    grown[: table.shape[0]] = table
    return grown


class Engine(ABC):
    """Answer the given queries over the rows of one group, in order, exactly.

    `advance` passes rows and the watermark to an engine. The engine writes each window once, when the watermark reaches
    its end. Between two calls its whole state is arrays and numbers: `state` returns them and `load` restores them.
    """

    name: ClassVar[str]
    #: One line for `skyband.algorithms()`.
    summary: ClassVar[str]
    #: Whether one engine answers several queries together.
    shares: ClassVar[bool] = False
    #: Whether it supports ``ties="rank"``. The published algorithms require a total order.
    ranks_ties: ClassVar[bool] = False
    #: Whether it supports `distinct`. The published algorithms count rows, not entities.
    takes_distinct: ClassVar[bool] = False
    #: Whether it supports irregular windows. The published algorithms require one size and one slide.
    takes_lists: ClassVar[bool] = False

    def __init__(self, queries: Sequence[TopK], since: Sequence[int] | None = None) -> None:
        """Create an engine for `queries`; each answers windows that start at or after its entry in `since`."""
        self._queries = tuple(queries)
        self.refuse_ties(self._queries)
        self.refuse_lists(self._queries)
        irregular = [query.window for query in self._queries if isinstance(query.window, IrregularWindows)]
        self._only_listed = len(irregular) == len(self._queries)
        # The slide that limits how many positions one page covers; None if all windows are regular or in lists.
        self._page_step = min((one.step for one in irregular if not isinstance(one, ListedWindows)), default=None)
        self._covered = (NEVER, ALWAYS)  # the positions that the current page of windows covers
        # All queries of an engine have the same tie policy.
        self._ties: Ties = TIED if self._queries[0].ties == "rank" else None
        self._since = [ALWAYS] * len(self._queries) if since is None else list(since)
        self._kernel_query = kernel_query(self._queries[0])
        self._only_since = ALWAYS
        if not self.shares and self._since[0] != ALWAYS:
            # A query that joined late reports the same windows as a full-only query on a stream that began then.
            self._only_since = self._since[0]
            self._kernel_query = self._kernel_query._replace(full_only=1)

    def advance(self, rows: Rows, watermark: int, first: int, log: AnswerLog) -> None:
        """Process `rows`, then answer every window that ends at or before `watermark`.

        `first` is the position of the stream's first object, for queries that report full windows only.
        """
        if self._only_since != ALWAYS:
            first = max(first, self._only_since) if self._queries[0].full_only else self._only_since
        if self._only_listed and rows.keys.size:
            rows = self._in_windows(rows)
        if self._page_step is not None:
            self._advance_by_page(rows, watermark, first, log)
        else:
            self._advance(rows, watermark, first, log)

    def _advance(self, rows: Rows, watermark: int, first: int, log: AnswerLog) -> None:
        at = 0
        while True:
            why, at = self._run(rows, at, watermark, first, log.buffers)
            if why == DONE:
                return
            if why == ANSWERS_FULL:
                log.make_room(self._longest_answer())
            else:
                self._grow()

    def _advance_by_page(self, rows: Rows, watermark: int, first: int, log: AnswerLog) -> None:
        """Advance over endless windows: from page to page, from the oldest unanswered window on."""
        assert self._page_step is not None
        at, n = 0, rows.keys.size
        while at < n or not self.is_empty:
            low = int(rows.positions[at]) if self.is_empty else self.next_end - 1
            if at == n and low >= watermark:
                break
            high = min(max(watermark, low), low + _PAGE_STEPS * self._page_step)
            stop = int(np.searchsorted(rows.positions, high, side="right"))
            self.cover(low, high)
            some = Rows(rows.keys[at:stop], rows.positions[at:stop], rows.ids[at:stop], 0, rows.first_id + at)
            self._advance(some, min(watermark, high), first, log)
            at = stop
            if high >= watermark:
                break

    def cover(self, low: int, high: int) -> None:
        """Read the windows without a lattice that positions in ``(low, high]`` need, unless they have been read."""
        if low < self._covered[0] or high > self._covered[1]:
            self._covered = (low, high)
            self._read_windows(listed_windows(self._queries, low, high))

    def _read_windows(self, listed: Lists) -> None:
        """Continue with these windows; only called if the algorithm supports irregular ones."""
        raise NotImplementedError

    def _in_windows(self, rows: Rows) -> Rows:
        """The rows that some window contains; rows before, between and after the windows are dropped."""
        held = np.zeros(rows.keys.size, bool)
        for window in dict.fromkeys(query.window for query in self._queries):
            assert isinstance(window, IrregularWindows)
            if not isinstance(window, ListedWindows):
                held |= rows.positions >= window.begin
                continue
            # Of the windows that end after a row, the first has the smallest start.
            starts, ends = window.page(int(rows.positions[0]), int(rows.positions[-1]))
            held |= np.append(starts, NEVER)[np.searchsorted(ends, rows.positions, side="right")] <= rows.positions
        if held.all():
            return rows
        ids = rows.ids if rows.ids.size else rows.first_id + np.arange(rows.keys.size)
        return Rows(rows.keys[held], rows.positions[held], ids[held], rows.first_position, rows.first_id)

    @abstractmethod
    def _run(self, rows: Rows, at: int, watermark: int, first: int, answers: Answers) -> tuple[int, int]:
        """Call the kernel once; return its status and the first row that it has not processed."""

    @abstractmethod
    def _grow(self) -> None:
        """Extend the state arrays after the kernel reported that they are full."""

    @property
    @abstractmethod
    def candidates(self) -> int:
        """Number of objects kept as candidates."""

    @property
    def object_count(self) -> int:
        """Number of objects that `objects` returns: the candidates, and other objects that the engine keeps."""
        return self.candidates

    @property
    def is_empty(self) -> bool:
        """Whether the engine keeps no object."""
        return self.candidates == 0

    @abstractmethod
    def objects(self) -> Objects:
        """The objects kept, in arbitrary order."""

    def window_sample(self, most: int) -> Floats | None:
        """Up to `most` evenly spaced keys of the window, oldest first; None if not all of its objects are kept."""
        return None

    def _longest_answer(self) -> int:
        """Maximum number of rows of an answer."""
        return self._at_most_k(self.candidates)

    def _at_most_k(self, rows: int) -> int:
        """Maximum number of rows of an answer if there are `rows` objects."""
        return rows if self._ties else min(max(query.k for query in self._queries), rows)

    @classmethod
    def refuse_ties(cls, queries: Sequence[TopK]) -> None:
        """Reject queries with ``ties="rank"`` if the algorithm does not support ties."""
        for query in queries:
            if query.ties == "rank" and not cls.ranks_ties:
                raise UnsupportedError(
                    f"{query.name!r} has ties='rank', which {cls.name} does not support: it drops objects that tie "
                    "with the k-th. Use algorithm='panes'."
                )

    @classmethod
    def refuse_distinct(cls, queries: Sequence[TopK]) -> None:
        """Reject queries with `distinct` if the algorithm does not support them."""
        for query in queries:
            if query.distinct is not None and not cls.takes_distinct:
                raise UnsupportedError(
                    f"{query.name!r} has distinct={query.distinct!r}, which {cls.name} does not support: it counts "
                    "better rows, and k better rows may belong to one entity. Use algorithm='panes'."
                )

    @classmethod
    def refuse_lists(cls, queries: Sequence[TopK]) -> None:
        """Reject queries with irregular windows if the algorithm does not support them."""
        for query in queries:
            if not cls.takes_lists and not isinstance(query.window, SlidingWindow):
                raise UnsupportedError(
                    f"{query.name!r} has {query.window_kind} windows, but {cls.name} supports only windows with one "
                    "size and one slide. Use algorithm='panes' or 'naive'."
                )

    @property
    @abstractmethod
    def next_end(self) -> int:
        """The end of the oldest unanswered window; defined while objects are kept."""

    def counters(self) -> dict[str, int]:
        """Counters of the algorithm, by name, as its paper defines them."""
        return {}

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return the state for `load`. Later calls do not change it."""

    @abstractmethod
    def load(self, state: State) -> None:
        """Restore what `state` returned."""


def packed(arrays: NamedTuple) -> dict[str, Any]:
    """Copy the arrays of a named tuple, by name."""
    return {name: array.copy() for name, array in arrays._asdict().items()}
