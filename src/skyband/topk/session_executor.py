"""The session queries of a monitor: rows in stream order in, final sessions out.

Rows are collected until a session may have ended, or until as many have arrived as are retained. So a push costs time
for its own rows, not for all open sessions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from skyband.data.answer_log import RankedWindows, chosen
from skyband.kernels.stream import Floats, Ints
from skyband.session_windows import SessionWindows
from skyband.topk.query import TopK
from skyband.topk.sessions import rank_sessions
from skyband.topk.window_ranking import Lined
from skyband.windows import ALWAYS, NEVER

__all__ = ["SessionExecutor"]

FEW = 1024  # rows that are collected in any case


class _Stored(NamedTuple):
    """Rows of one kind of sessions in stream order."""

    groups: Ints
    positions: Ints
    scores: Floats
    ids: Ints

    @classmethod
    def nothing(cls) -> _Stored:
        none = np.empty(0, np.int64)
        return cls(none, none, np.empty(0), none)

    def taken(self, rows: Ints) -> _Stored:
        return _Stored(self.groups[rows], self.positions[rows], self.scores[rows], self.ids[rows])


class _Kind:
    """Queries with equal gaps and limits, over groups or over the whole stream."""

    def __init__(self, window: SessionWindows, grouped: bool, since: int) -> None:
        self.window, self.grouped, self.since = window, grouped, since
        self.stored = _Stored.nothing()
        self.fresh: list[_Stored] = []
        self.waiting = 0  # rows in `fresh`
        self.answered = ALWAYS
        self.next_end = NEVER  # no session ends earlier

    def rows(self) -> _Stored:
        """All rows, in stream order."""
        if self.fresh:
            together = zip(self.stored, *self.fresh, strict=True)
            self.stored = _Stored(*(np.concatenate(columns) for columns in together))
            self.fresh, self.waiting = [], 0
        return self.stored


class SessionExecutor:
    """Rank the sessions of the workload's session queries."""

    def __init__(self, queries: Sequence[TopK], grouped: Iterable[int], since: Sequence[int]) -> None:
        self._queries, self._since = tuple(queries), list(since)
        self._grouped = frozenset(grouped)
        self._kinds: dict[tuple[SessionWindows, bool], _Kind] = {}
        self._found: list[RankedWindows] = []
        for place, query in enumerate(self._queries):
            if isinstance(query.window, SessionWindows):
                key = query.window, place in self._grouped
                kind = self._kinds.setdefault(key, _Kind(*key, self._since[place]))
                kind.since = min(kind.since, self._since[place])

    def __bool__(self) -> bool:
        return bool(self._kinds)

    @property
    def candidates(self) -> int:
        """Number of rows kept."""
        return sum(kind.stored.ids.size + kind.waiting for kind in self._kinds.values())

    @property
    def ids(self) -> list[Ints]:
        """The ids of all rows kept."""
        return [kind.rows().ids for kind in self._kinds.values()]

    def mark_groups(self, used: Any) -> None:
        """Mark the groups that have rows."""
        for kind in self._kinds.values():
            if kind.grouped:
                used[kind.rows().groups] = True

    def take_in(self, scores: Floats, positions: Ints, ids: Ints, groups: Ints | None, watermark: int) -> None:
        """Add rows in stream order, and answer the sessions that end at or before the watermark."""
        for kind in self._kinds.values():
            if scores.size:
                codes = groups if kind.grouped and groups is not None else np.zeros(scores.size, np.int64)
                kind.fresh.append(_Stored(codes, positions, scores, ids))
                kind.waiting += scores.size
                kind.next_end = min(kind.next_end, kind.window.first_end_from(int(positions[0])))
            if kind.next_end <= watermark or kind.waiting > max(FEW, kind.stored.ids.size):
                self._rank(kind, watermark)

    def _rank(self, kind: _Kind, watermark: int) -> None:
        rows = kind.rows()
        order = np.argsort(rows.groups, kind="stable")
        codes, begins = np.unique(rows.groups[order], return_index=True)
        lined = Lined(rows.scores[order], rows.positions[order], np.append(begins, order.size))
        places = [
            place
            for place, query in enumerate(self._queries)
            if query.window == kind.window and (place in self._grouped) == kind.grouped
        ]
        found = rank_sessions(
            kind.window,
            [self._queries[place] for place in places],
            lined,
            np.full(codes.size, kind.answered),
            np.full(codes.size, watermark),
            since=kind.since,
            ids=rows.ids[order],
        )
        windows = found.windows
        queries = np.array(places, np.int64)[windows.queries]
        wanted = windows.starts >= np.array(self._since, np.int64)[queries]
        windows = windows._replace(
            queries=queries,
            groups=codes[windows.groups] if kind.grouped else np.full(windows.groups.size, -1, np.int64),
            ids=rows.ids[order][windows.ids],
        )
        self._found.append(chosen(windows, wanted))
        kept = np.sort(order[found.needed])
        kind.stored = rows.taken(kept)
        kind.answered, kind.next_end = watermark, found.next_end

    def end(self, watermark: int) -> None:
        """Answer the remaining sessions."""
        nothing = np.empty(0, np.int64)
        self.take_in(np.empty(0), nothing, nothing, nothing, watermark)

    def answers(self) -> list[RankedWindows]:
        """Return the answers since the last call."""
        found, self._found = [part for part in self._found if part.ends.size], []
        return found

    def changed(
        self, queries: Sequence[TopK], grouped: Iterable[int], since: Sequence[int], moved: Mapping[int, int]
    ) -> SessionExecutor:
        """Return an executor for other queries over the same stream."""
        made = SessionExecutor(queries, grouped, since)
        for key in list(made._kinds):
            if key in self._kinds:
                made._kinds[key] = self._kinds[key]
        made._found = self._found
        return made

    def state(self) -> list[dict[str, Any]]:
        """Return the state for `load`."""
        return [
            {
                "gap": kind.window.gap,
                "limit": kind.window.max_length,
                "grouped": kind.grouped,
                "since": kind.since,
                "answered": kind.answered,
                "next_end": kind.next_end,
                "rows": kind.rows()._asdict(),
            }
            for kind in self._kinds.values()
        ]

    def load(self, state: Iterable[Mapping[str, Any]]) -> None:
        """Restore what `state` returned."""
        for saved in state:
            key = SessionWindows(gap=saved["gap"], max_length=saved["limit"]), saved["grouped"]
            if key in self._kinds:
                kind = self._kinds[key]
                kind.since, kind.answered, kind.next_end = saved["since"], saved["answered"], saved["next_end"]
                kind.stored = _Stored(**saved["rows"])
