"""Continuous top-k queries over a stream in this process: arrays in, Arrow tables out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.algorithms import engine_named
from skyband.answers import Ranked, joined
from skyband.choice import choose
from skyband.errors import InvalidInputError, InvalidQueryError, SnapshotError
from skyband.groups import GroupBook
from skyband.ids import IdBook, from_bytes, to_bytes
from skyband.intake import NONE, Batch, Intake
from skyband.lanes import Arrivals, Lanes
from skyband.query import TopK
from skyband.snapshot import decode, encode
from skyband.table import answer_table
from skyband.workload import Workload

__all__ = ["Monitor", "replay"]


class Monitor:
    """Answers continuous top-k queries over a stream that is pushed to it, exactly and incrementally.

    Parameters
    ----------
    queries
        One query, several, or a `Workload`.
    algorithm
        ``"auto"`` or a name from `skyband.algorithms`. A single-query algorithm runs several queries one by one.

    Examples
    --------
    >>> import skyband as sb
    >>> monitor = sb.Monitor(sb.TopK(k=2, size="10 seconds", slide="5 seconds"))
    >>> monitor.push([1_000_000, 4_000_000, 7_000_000], [3.0, 9.0, 5.0])
    >>> monitor.answers().to_pylist()[0]
    {'query': 'topk', 'window_start': -5000000, 'window_end': 5000000, 'rank': 1, 'id': 1, 'score': 9.0}
    >>> monitor.finish()
    >>> monitor.answers()["window_end"].unique().to_pylist()
    [10000000, 15000000]
    """

    def __init__(self, queries: TopK | Iterable[TopK] | Workload, algorithm: str = "auto") -> None:
        self._workload = Workload(queries)
        for query in self._workload:
            if query.where is not None:
                raise InvalidQueryError(
                    f"{query.name!r} has where={query.where!r}, and arrays have no columns to filter by; "
                    "filter the arrays first and leave where= out."
                )
        self._engine = engine_named(choose(self.queries).algorithm if algorithm == "auto" else algorithm)
        self._intake = Intake(self._workload.axis)
        self._ids: IdBook | None = None
        self._pending: list[Ranked] = []
        self._windows = 0
        self._finished = False
        # Groups are known to be there when a query asks for them, or when the first push brings them.
        partitioned = [place for place, query in enumerate(self._workload) if query.partition_by]
        self._lanes = Lanes(self.queries, partitioned, self._engine)
        self._asks_for_groups = bool(partitioned)

    @property
    def queries(self) -> tuple[TopK, ...]:
        """The queries, in workload order."""
        return self._workload.queries

    @property
    def algorithm(self) -> str:
        """The name of the engine at work (``"auto"`` resolved)."""
        return self._engine.name

    @property
    def candidates(self) -> int:
        """How many objects are held, over all queries and groups."""
        return sum(engine.candidates for engine in self._lanes.engines) + (len(self._ids) if self._ids else 0)

    def push(self, positions: Any, scores: Any, ids: Any = None, *, groups: Any = None) -> None:
        """Take in the next rows of the stream. A push that is refused changes nothing.

        Parameters
        ----------
        positions
            int64 microseconds or timestamps that do not go backwards; None for count windows.
        scores
            Numbers; a null or NaN score leaves the row out.
        ids
            What ties are broken by and answers speak of; None numbers the rows from 0.
        groups
            One value a row: each group has its own windows and its own top k.
        """
        self._refuse_after_end()
        if groups is None and self._asks_for_groups:
            names = [query.name for query in self.queries if query.partition_by]
            raise InvalidInputError(
                f"groups=None, but {names[0]!r} has partition_by={list(self._workload[names[0]].partition_by)}; "
                "pass the group of every row as groups=."
            )
        batch = self._intake.check(positions, scores, ids, groups)
        if groups is not None and not self._asks_for_groups and self._intake.groups is None:
            self._lanes = Lanes(self.queries, range(len(self.queries)), self._engine)
        self._intake.adopt(batch)
        self._advance(self._arrivals(batch))

    def advance_to(self, position: Any) -> None:
        """Move time forward without a row: windows that end at or before `position` become final.

        >>> import skyband as sb
        >>> monitor = sb.Monitor(sb.TopK(k=1, size="10 seconds"))
        >>> monitor.push([1_000_000], [3.0])
        >>> monitor.advance_to(10_000_000)
        >>> monitor.answers().num_rows
        1
        """
        self._refuse_after_end()
        self._intake.newest, kind = self._intake.check_time(position)
        self._intake.position_kind = self._intake.position_kind or kind
        self._advance(self._arrivals(None))

    def finish(self) -> None:
        """End the stream: every time window that holds an object is answered. Fetch them with `answers`."""
        if self._finished:
            return
        self._finished = True
        if self._intake.axis == "time" and self._intake.first is not None and self._intake.newest is not None:
            self._advance(self._arrivals(None))
            beyond = self._intake.newest + max(query.window.size for query in self.queries)
            self._lanes.end(beyond, self._intake.first)
            self._collect()

    def answers(self) -> pa.Table:
        """What has become final since the last call, by window end, query, group and rank."""
        pending, self._pending = self._pending, []
        return answer_table(
            pending,
            self.queries,
            position_kind=self._intake.position_kind or pa.int64(),
            groups=self._intake.groups,
            ids=self._ids,
        )

    def metrics(self) -> dict[str, Any]:
        """Counts so far: rows pushed, left out (no score or no position), objects, windows answered, candidates held, …

        >>> import skyband as sb
        >>> monitor = sb.Monitor(sb.TopK(k=1, size=2))
        >>> monitor.push(None, [1.0, float("nan"), 2.0])
        >>> monitor.metrics()["left_out"]
        1
        """
        found = {
            "algorithm": self.algorithm,
            "rows": self._intake.rows,
            "left_out": self._intake.left_out,
            "late": 0,  # positions never go backwards here: a late row is refused, not dropped
            "objects": self._intake.objects,
            "groups": len(self._intake.groups) if self._intake.groups is not None else 0,
            "windows": self._windows,
            "candidates": self.candidates,
        }
        for engine in self._lanes.engines:
            for name, value in engine.counters().items():
                found[name] = found.get(name, 0) + value
        return found

    def snapshot(self) -> bytes:
        """The monitor as bytes, answers not yet fetched included.

        >>> import skyband as sb
        >>> monitor = sb.Monitor(sb.TopK(k=1, size=2))
        >>> monitor.push(None, [1.0])
        >>> again = sb.Monitor.resume(monitor.snapshot())
        >>> again.push(None, [2.0])
        >>> again.answers()["score"].to_pylist()
        [2.0]
        """
        groups = self._intake.groups
        return encode(
            {
                "queries": [query.to_dict() for query in self.queries],
                "algorithm": self.algorithm,
                "finished": self._finished,
                "windows": self._windows,
                "intake": self._intake.state(),
                "groups": None if groups is None else to_bytes(pa.table({"group": groups.column()})),
                "ids": None if self._ids is None else self._ids.state(),
                "pending": joined(self._pending)._asdict(),
                "lanes": self._lanes.state(),
            }
        )

    @classmethod
    def resume(cls, blob: bytes, queries: TopK | Iterable[TopK] | Workload | None = None) -> Monitor:
        """The monitor that `snapshot` was taken of; with `queries`, refused unless they are the snapshot's own."""
        saved = decode(blob)
        workload = Workload(TopK(**fields) for fields in saved["queries"])
        if queries is not None and Workload(queries) != workload:
            raise SnapshotError(
                f"the snapshot is of {workload!r} and was resumed under {Workload(queries)!r}; its candidates are too few "
                "for other queries, so the answers would be wrong. Resume it without queries, or start anew."
            )
        monitor = cls(workload, saved["algorithm"])
        groups = None
        if saved["groups"] is not None:
            column = from_bytes(saved["groups"])["group"]
            groups = GroupBook(column.type, column.to_pylist())
            if not monitor._asks_for_groups:
                monitor._lanes = Lanes(monitor.queries, range(len(monitor.queries)), monitor._engine)
        monitor._intake = Intake.load(saved["intake"], groups)
        monitor._ids = None if saved["ids"] is None else IdBook.load(saved["ids"])
        monitor._pending = [Ranked(**saved["pending"])]
        monitor._windows, monitor._finished = saved["windows"], saved["finished"]
        monitor._lanes.load(saved["lanes"])
        return monitor

    def _refuse_after_end(self) -> None:
        if self._finished:
            raise InvalidInputError("the stream has ended with finish(); rows pushed now would belong to no window.")

    def _arrivals(self, batch: Batch | None) -> Arrivals:
        """The objects to take in now: those of the batch, or with ids that are not numbers those whose turn has come."""
        kind = self._intake.id_kind
        if kind is None or kind == pa.int64():
            if batch is None:
                return Arrivals(np.empty(0), NONE, NONE, 0, NONE if self._intake.groups is not None else None)
            codes = None if batch.groups is None else batch.groups.codes
            return Arrivals(batch.scores, batch.positions, batch.ids, batch.first_id, codes)
        if self._ids is None:
            self._ids = IdBook(kind, max(query.k for query in self.queries))
        count = self._intake.axis == "count"
        until = None if count or self._finished else self._intake.newest
        if batch is None or batch.named_ids is None:
            numbered = self._ids.number(NONE, np.empty(0), NONE, pa.array([], kind), until)
        else:
            places = np.arange(batch.scores.size) if count else batch.positions
            codes = np.zeros(batch.scores.size, np.int64) if batch.groups is None else batch.groups.codes
            numbered = self._ids.number(places, batch.scores, codes, batch.named_ids, until)
        grouped = self._intake.groups is not None
        return Arrivals(
            numbered.scores,
            NONE if count else numbered.positions,
            numbered.numbers,
            0,
            numbered.groups if grouped else None,
        )

    def _advance(self, arrivals: Arrivals) -> None:
        first = 0 if self._intake.first is None else self._intake.first
        newest = self._intake.newest
        if newest is None and self._intake.axis == "time":
            return  # no row had a position yet: no object, no time
        self._lanes.take_in(arrivals, 0 if newest is None else newest, first)
        self._collect()

    def _collect(self) -> None:
        """Take over what the engines answered; forget ids that nothing refers to any more."""
        found = self._lanes.answers()
        self._windows += sum(part.ends.size for part in found)
        self._pending += found
        if self._ids is not None:
            engines = [engine.objects().ids for engine in self._lanes.engines]
            self._ids.forget_all_but(np.concatenate([NONE, *engines, *(part.ids for part in self._pending)]))


def replay(
    queries: TopK | Iterable[TopK] | Workload,
    positions: Any,
    scores: Any,
    ids: Any = None,
    algorithm: str = "auto",
    *,
    groups: Any = None,
) -> pa.Table:
    """All answers of the queries over a whole, bounded stream.

    The columns are those of `Monitor.push`. The table has ``query, [group,] window_start, window_end, rank, id, score``,
    by window end, query in workload order, group and rank.

    >>> import skyband as sb
    >>> query = sb.TopK(k=2, size="1 minute", slide="30 seconds")
    >>> table = sb.replay(query, [5_000_000, 20_000_000, 50_000_000], [3.0, 1.0, 2.0])
    >>> table.select(["window_end", "rank", "score"]).slice(2).to_pydict()
    {'window_end': [60000000, 60000000, 90000000], 'rank': [1, 2, 1], 'score': [3.0, 2.0, 2.0]}
    """
    monitor = Monitor(queries, algorithm)
    monitor.push(positions, scores, ids, groups=groups)
    monitor.finish()
    return monitor.answers()
