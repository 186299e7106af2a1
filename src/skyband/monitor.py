"""The base class of the monitors of all families: time, pending answers, snapshots, adding and removing queries.

A family's monitor implements the input of rows (`push`), the progress of time (`_move_time`, `_end`), the answer table
(`_table`) and its state (`candidates`, `_counters`, `_state`, `_load`). All public methods except `push` are here, so
that they have the same signature and the same rules in every family.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Generic, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import TypeVar

from skyband.data.arrow import from_bytes, one, to_bytes
from skyband.data.group_dictionary import GroupDictionary
from skyband.data.validation import Intake
from skyband.errors import InvalidInputError, InvalidQueryError, SnapshotError, UnsupportedError
from skyband.queries import Axis, Query
from skyband.queries.answer_schema import FINAL
from skyband.queries.families import FAMILIES, Family, refuse_unsupported
from skyband.queries.workload import Workload, of_family, refuse_expressions
from skyband.snapshot import StateFormat, decode, refuse_other_family, resuming

__all__ = ["MonitorBase"]

Q = TypeVar("Q", bound=Query)
P = TypeVar("P")  # the form of answers that are not fetched yet


class MonitorBase(Generic[Q, P]):
    """Answer continuous queries of one family over pushed rows."""

    asks: ClassVar[type[Any]]  # its query class
    counts: ClassVar[str] = "objects"  # the name of the number of accepted rows in `metrics`
    state_format: ClassVar[StateFormat]  # the version of its snapshots, and migrations from earlier ones

    _workload: Workload[Q]

    def __new__(cls, *_: Any, time: str | None = None, **__: Any) -> Self:
        """Create a monitor for arrays or, if `time` names the column with the event time, for data frames."""
        found: Any = cls if time is None else cls._family().part("frame_monitor").FrameMonitor
        made: Self = object.__new__(found)
        return made

    def __init__(self, axis: Axis, *, computed: bool) -> None:
        self._computed = computed
        self._intake = Intake(axis, rejects_epoch=not computed)
        self._pending: list[P] = []
        self._ready: list[pa.Table] = []  # answers of earlier workloads
        self._windows = 0
        self._finished = False
        self._valid_from: dict[str, int] = {}  # for each query added later: the end of its first window

    @property
    def queries(self) -> tuple[Q, ...]:
        """The queries, in workload order."""
        return self._workload.queries

    @property
    def candidates(self) -> int:
        """The number of items in the state."""
        raise NotImplementedError

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
        self._move_time()

    def finish(self) -> None:
        """End the stream: answer every time window that contains a row. Fetch the answers with `answers`."""
        if self._finished:
            return
        self._finished = True
        if self._intake.axis == "time" and self._intake.newest is not None:
            self._end(self._intake.newest + max(query.window.tail for query in self.queries))

    def answers(self) -> pa.Table:
        """Return the answers that became final since the last call, by time, query, group and rank."""
        self._settle()
        pending, self._pending = self._pending, []
        table = self._table(pending)
        if self._ready:
            table, self._ready = pa.concat_tables([*self._ready, table], promote_options="permissive"), []
        return table

    def so_far(self) -> Any:
        """Return the answers of open windows from the rows so far, with a column `final`, which is false.

        For each query and group, that is the window that ends next: of windows that are open, it contains all rows that
        the others contain. Of session windows, all open ones are returned, with the end that they have so far. Queries
        over uncertain streams are answered as of the next moment at which the plan answers them. Final answers that are
        not fetched yet are not affected; after `finish`, no window is open.

        The monitor is copied through its snapshot, and the copy is ended. So a call costs about as much as a snapshot
        and answering all open windows, and nothing is stored between calls.

        >>> import skyband as sb
        >>> monitor = sb.Monitor(sb.TopK(k=1, size="10 seconds"))
        >>> monitor.push([1_000_000, 4_000_000], [3.0, 9.0])
        >>> monitor.so_far().to_pylist()
        [{'query': 'topk', 'window_start': 0, 'window_end': 10000000, 'final': False, 'rank': 1, 'id': 1, 'score': 9.0}]
        """
        if self._intake.axis == "count":
            raise UnsupportedError(
                f"so_far() is not supported for query {self.queries[0].name!r} with count windows: a window is "
                "answered as soon as its last row arrives. Use time windows."
            )
        copied = type(self).resume(self.snapshot())
        copied._settle()
        copied._ready, copied._pending = [], []
        return self._marked(self._open_answers(copied))

    def _open_answers(self, copied: Self) -> pa.Table:
        """Return the answers of the windows that end next, from a copy of this monitor, which is changed."""
        copied.finish()
        table, newest = MonitorBase.answers(copied).combine_chunks(), self._intake.newest
        if newest is None or not table.num_rows:
            return table
        names, ends = table["query"], one(table[self._family().answers.moment])
        ends = ends.cast(pa.timestamp("us")) if pa.types.is_timestamp(ends.type) else ends
        wanted = pa.array(np.zeros(table.num_rows, bool))
        for query in self.queries:
            mine = pc.equal(one(names), query.name)
            if getattr(query, "window_kind", "") != "session":
                end = pa.scalar(query.window.first_end_after(newest), pa.int64())
                mine = pc.and_(mine, pc.less_equal(ends.cast(pa.int64()), end))
            wanted = pc.or_(wanted, mine)
        return table.filter(wanted)

    def _marked(self, table: pa.Table) -> Any:
        """Return provisional answers with the column `final`."""
        at = table.column_names.index(self._family().answers.moment) + 1
        return table.add_column(at, FINAL, pa.array(np.zeros(table.num_rows, bool)))

    def add(self, query: Q) -> Any:
        """Add a query to the running stream. The other queries are not affected.

        Returns the end of the first window that the query answers: from this window on, the retained state is enough
        for exact answers. Returns None if each group has a different one, if the query answers at once, or before the
        first push. `valid_from` has the same value later.

        >>> import skyband as sb
        >>> monitor = sb.Monitor(sb.TopK(name="ten", k=5, size=10, slide=5))
        >>> monitor.push(None, range(12))
        >>> monitor.add(sb.TopK(name="five", k=5, size=5))  # shares the views of the other
        15
        >>> monitor.add(sb.TopK(name="more", k=6, size=10, slide=5))  # needs one more object than the state retains
        25
        """
        self._refuse_after_end()
        after = self._checked([*self.queries, query], self._computed)
        if self._intake.rows:
            self._refuse_unknown_groups(query)
            if self._intake.axis == "count":
                given = f"add({query.name!r}) after the first push"
                refuse_unsupported(self._family(), "add to count windows", given)
        self._add(query, after)
        return self.valid_from[query.name]

    def remove(self, name: str) -> None:
        """Remove a query and release the state that only it needed. Answers that are not fetched yet remain.

        >>> import skyband as sb
        >>> monitor = sb.Monitor([sb.TopK(name="a", k=9, size=20), sb.TopK(name="b", k=1, size=20)])
        >>> monitor.push(None, [float(score) for score in range(10)])
        >>> monitor.candidates
        9
        >>> monitor.remove("a")
        >>> monitor.candidates
        1
        """
        self._refuse_after_end()
        removed = self._workload[name]
        rest = [query for query in self.queries if query is not removed]
        if not rest:
            raise InvalidQueryError(
                f"{name!r} is the last query and cannot be removed. Call finish() to end the stream."
            )
        self._remove(name, Workload(rest))
        self._valid_from.pop(name, None)

    @property
    def valid_from(self) -> dict[str, Any]:
        """The end of the first window that each query answers; None for queries that were not added later."""
        kind = self._intake.position_kind or pa.int64()
        return {
            query.name: pa.scalar(self._valid_from[query.name]).cast(kind).as_py()
            if query.name in self._valid_from
            else None
            for query in self.queries
        }

    def metrics(self) -> dict[str, Any]:
        """Return counters: rows pushed, dropped and accepted, windows answered, items in the state; then the family's.

        >>> import skyband as sb
        >>> monitor = sb.Monitor(sb.TopK(k=1, size=2))
        >>> monitor.push(None, [1.0, float("nan"), 2.0])
        >>> monitor.metrics()["dropped_null"]
        1
        """
        family = self._counters()  # before `candidates`, which may release the state of a group
        common = {
            "rows": self._intake.rows,
            "dropped_null": self._intake.dropped_null,
            "late": 0,  # positions never decrease here: a late row is rejected, not dropped
            self.counts: self._intake.objects,
            "windows": self._windows,
            "candidates": self.candidates,
        }
        return common | family

    def snapshot(self) -> bytes:
        """Return the state of the monitor as bytes, including answers that are not fetched yet.

        >>> import skyband as sb
        >>> monitor = sb.Monitor(sb.TopK(k=1, size=2))
        >>> monitor.push(None, [1.0])
        >>> again = sb.Monitor.resume(monitor.snapshot())
        >>> again.push(None, [2.0])
        >>> again.answers()["score"].to_pylist()
        [2.0]
        """
        self._settle()
        family = self._state()
        groups = self._intake.groups
        return self.state_format.encode(
            {
                "family": self.asks.family,
                "queries": [query.to_dict() for query in self.queries],
                "computed": self._computed,
                "finished": self._finished,
                "windows": self._windows,
                "valid_from": self._valid_from,
                "ready": [to_bytes(table) for table in self._ready],
                "intake": self._intake.state(),
                "groups": None if groups is None else groups.state(),
                **family,
            }
        )

    @classmethod
    def resume(cls, blob: bytes, queries: Q | Iterable[Q] | Workload[Q] | None = None) -> Self:
        """Restore a monitor from the bytes of `snapshot`. If `queries` are given, they must equal the snapshot's.

        Snapshots of earlier versions are converted.
        """
        expected = None if queries is None else Workload(queries)
        with resuming():
            saved = decode(blob)
            refuse_other_family(saved, cls.asks.family)
            found = cls._family().part("frame_monitor").FrameMonitor if saved.get("frames") else cls
            saved = found.state_format.migrated(saved)
            monitor = found._made([cls._query(fields) for fields in saved["queries"]], saved)
            monitor._computed = saved["computed"]
            monitor._finished, monitor._windows = saved["finished"], saved["windows"]
            monitor._valid_from = saved["valid_from"]
            monitor._ready = [from_bytes(table) for table in saved["ready"]]
            groups = None if saved["groups"] is None else GroupDictionary.load(saved["groups"])
            monitor._intake = Intake.load(saved["intake"], groups)
            monitor._intake.rejects_epoch = not monitor._computed
            monitor._load(saved)
        if expected is not None and expected != monitor._workload:
            raise SnapshotError(
                f"the snapshot contains {monitor._workload!r}, but queries={expected!r} was given; nothing was "
                "resumed, because its state would give wrong answers for other queries. Resume it without queries=."
            )
        return monitor

    def _replayed(self, *columns: Any, **named: Any) -> pa.Table:
        """Return all answers over a stream that consists of these columns."""
        self.push(*columns, **named)  # type: ignore[attr-defined]  # the columns differ between families
        self.finish()
        return self.answers()

    @classmethod
    def _family(cls) -> Family:
        return FAMILIES[cls.asks.family]

    @classmethod
    def _checked(cls, queries: Q | Iterable[Q] | Workload[Q], computed: bool) -> Workload[Q]:
        """Return the workload of these queries, or raise if one monitor cannot answer them together."""
        found: Workload[Q] = of_family(queries, cls.asks, cls._family().monitor)
        if not computed:
            refuse_expressions(found)
        return found

    @staticmethod
    def _refuse_id_without_time(id_: str | None) -> None:
        if id_ is not None:
            raise InvalidInputError(
                f"id={id_!r} names a column of data frames, but time= is missing. Name the column with the time of "
                "each row as well, for example time='ts', or omit id= and push ids as an array."
            )

    def _refuse_after_end(self) -> None:
        if self._finished:
            raise InvalidInputError(
                "the stream was ended by finish(), and its windows are final. Use another monitor for more rows or "
                "queries."
            )

    def _refuse_missing_groups(self, groups: Any) -> None:
        for query in self.queries:
            if groups is None and query.groups:
                raise InvalidInputError(
                    f"groups= is missing: query {query.name!r} has partition_by={list(query.groups)}. "
                    "Pass the group of every row as groups=."
                )

    def _refuse_unknown_groups(self, query: Q) -> None:
        if query.groups and self._intake.groups is None:
            raise InvalidInputError(
                f"query {query.name!r} has partition_by={list(query.groups)}, but the rows so far were pushed without "
                "groups=. Use another monitor and push with groups=."
            )

    def _put_aside(self) -> None:
        """Convert pending answers to a table before the queries change."""
        if self._pending:
            self._ready.append(self._table(self._pending))
            self._pending = []

    def _settle(self) -> None:
        """Convert new answers to pending answers before they are fetched or stored."""

    def _move_time(self) -> None:
        """Answer the windows that are final at the newest position."""
        raise NotImplementedError

    def _end(self, beyond: int) -> None:
        """Answer every window that contains a row; all of them end at or before `beyond`."""
        raise NotImplementedError

    def _table(self, pending: list[P]) -> pa.Table:
        """Return pending answers as the table for the user."""
        raise NotImplementedError

    def _counters(self) -> dict[str, Any]:
        """Return the family's part of `metrics`."""
        raise NotImplementedError

    def _add(self, query: Q, after: Workload[Q]) -> None:
        """Change the workload to `after`, which has the additional `query`."""
        raise NotImplementedError

    def _remove(self, name: str, after: Workload[Q]) -> None:
        """Change the workload to `after`, which lacks the query `name`."""
        raise NotImplementedError

    @classmethod
    def _query(cls, fields: dict[str, Any]) -> Q:
        """Return the query that `Query.to_dict` serialized."""
        found: Q = cls.asks(**fields)
        return found

    @classmethod
    def _made(cls, queries: list[Q], saved: dict[str, Any]) -> Self:
        """Return a monitor without rows, configured as in a snapshot."""
        raise NotImplementedError

    def _state(self) -> dict[str, Any]:
        """Return the family's part of a snapshot."""
        raise NotImplementedError

    def _load(self, saved: dict[str, Any]) -> None:
        """Restore the state that `_state` returned."""
        raise NotImplementedError
