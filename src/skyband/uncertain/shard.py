"""The shard of an uncertain workload: puts tuples in stream order and answers at the times of the shared plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.arrow import one
from skyband.data.group_key import GROUP
from skyband.errors import InvalidInputError, SnapshotError
from skyband.sharding.ordered_shard import OrderedShard
from skyband.sharding.shard import Segments
from skyband.snapshot import StateFormat, unchanged
from skyband.uncertain.monitor import Monitor
from skyband.uncertain.plan import UncertainPlan, cut_of
from skyband.uncertain.query import UncertainTopK, stream_of
from skyband.uncertain.reducer import UncertainNote
from skyband.windows import ALWAYS

__all__ = ["SHARD", "UncertainShard"]


class UncertainShard(OrderedShard):
    """The tuples that an answer may still need, in one monitor per class of queries."""

    state_format = StateFormat("uncertain shard", [unchanged])
    note_type = UncertainNote
    may_reject = True  # the probabilities of a rule may exceed 1
    order = ("id", "score", "probability")

    def __init__(self, plan: UncertainPlan, number: int, segments: Segments | None = None) -> None:
        super().__init__(plan, number, segments)
        self.monitors = [
            Monitor(_without_filters(together), plan=plan.method, computed=True) for together in plan.classes
        ]
        self.cut = [ALWAYS] * len(plan.classes)  # position of the newest tuple that reducers pruned

    @property
    def owner_columns(self) -> Sequence[str]:
        return (GROUP,) if self.plan.group_columns else ()

    @property
    def candidates(self) -> int:
        return sum(monitor.candidates for monitor in self.monitors)

    def due_times(self) -> Iterator[int]:
        oldest = self.oldest_waiting
        for monitor, together in zip(self.monitors, self.plan.classes, strict=True):
            if monitor.next_time is not None:
                yield monitor.next_time
            if oldest is not None:  # the first tuple may start a plan; its first run is not earlier than this
                yield oldest + 1 if monitor.next_time is None else max(oldest, self.clock) + _unit(together)

    def accept(self, arrived: Sequence[pa.Table], notes: Sequence[UncertainNote], limit: int) -> int:
        for note in notes:
            for number, newest in enumerate(note.newest_cut):
                self.cut[number] = max(self.cut[number], newest)
        return super().accept(arrived, notes, limit)

    def rank(self, ready: pa.Table | None) -> list[pa.Table]:
        out = []
        for number, monitor in enumerate(self.monitors):
            mine = None if ready is None else ready.filter(pc.equal(ready["class"], number))
            if mine is not None and mine.num_rows:
                self._push(number, mine, monitor)
            if self.plan.axis == "time":
                monitor.advance_to(self.clock)
            out.append(self._grouped(self._reported(monitor.answers())))
        return out

    def so_far(self) -> list[pa.Table]:
        """Return the answers of moments after the clock, from copies of the monitors that take the waiting tuples."""
        waiting = None if self.waiting is None else self.in_stream_order(self.waiting)
        out = []
        for number, monitor in enumerate(self.monitors):
            ahead = Monitor.resume(monitor.snapshot())
            mine = None if waiting is None else waiting.filter(pc.equal(waiting["class"], number))
            if mine is not None and mine.num_rows:
                self._push(number, mine, ahead)
            ahead.advance_to(self.newest)
            out += [self._grouped(self._reported(table)) for table in (ahead.answers(), ahead.next_answers())]
        return out

    def _grouped(self, found: pa.Table) -> pa.Table:
        """Return answers with the column of groups, if other queries have groups."""
        if self.plan.group_columns and GROUP not in found.column_names:
            return found.append_column(GROUP, pa.nulls(found.num_rows, pa.binary()))
        return found

    def _reported(self, answers: pa.Table) -> pa.Table:
        """Return the answers without those of windows that a query with a past does not report."""
        for query in self.plan.queries if self.since and answers.num_rows else ():
            if query.name in self.since:
                starts = pc.subtract(answers["time"], query.window.size)
                is_other = pc.not_equal(answers["query"], query.name)
                answers = answers.filter(pc.or_(is_other, pc.greater_equal(starts, self.since[query.name])))
        return answers

    def _push(self, number: int, mine: pa.Table, monitor: Monitor) -> None:
        positions = one(mine["position"]) if self.plan.axis == "time" else None
        scores, chances, rules, ids = (one(mine[name]) for name in ("score", "probability", "rule", "id"))
        ranked = self.plan.streams[number] is not None and "stream" in mine.column_names
        streams = one(mine["stream"]) if ranked else None
        groups = one(mine[GROUP]) if self.plan.classes[number][0].groups else None
        try:
            monitor.push(positions, scores, chances, rules, ids, streams, groups=groups)
        except InvalidInputError as error:
            names = ", ".join(repr(query.name) for query in self.plan.classes[number])
            raise InvalidInputError(f"queries {names} (positions in microseconds): {error}") from error

    def save(self) -> dict[str, Any]:
        return {
            **super().save(),
            "classes": [[query.to_dict() for query in together] for together in self.plan.classes],
            "monitors": [monitor.snapshot() for monitor in self.monitors],
            "cut": self.cut,
            **({"since": self.since} if self.since else {}),
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Resume the monitors of known classes. New classes start with the rows after the newest one."""
        super().load(saved)
        before = [tuple(UncertainTopK(**fields) for fields in together) for together in saved["classes"]]
        sources = _matched(before, self.plan.classes)
        for number, (together, source) in enumerate(zip(self.plan.classes, sources, strict=True)):
            wanted = _without_filters(together)
            if source is None:
                if self.newest != ALWAYS:
                    self.monitors[number] = self._joining(wanted)
                continue
            self.cut[number] = saved["cut"][source]
            self.monitors[number] = Monitor.resume(saved["monitors"][source])
            same = set(wanted) == set(_without_filters(before[source]))
            # A stored plan is as good as "auto": it continues until the queries change.
            if not same or self.plan.method not in ("auto", self.monitors[number].plan_method):
                self._change_queries(number, wanted, before[source])
        self._readdress(before, sources)
        known = {query for together in before for query in together}
        self.joined = [query.name for query in self.plan.queries if query not in known]
        same_names = {query.name for query in self.plan.queries if query in known}
        self.since |= {name: at for name, at in saved.get("since", {}).items() if name in same_names}
        self.load_reports(saved, same_names)
        self.load_open(saved, same_names)

    def _joining(self, wanted: list[UncertainTopK]) -> Monitor:
        self._reject_count_windows(wanted[0])
        return Monitor(wanted, plan=self.plan.method, since=self.newest + 1, computed=True)

    def _change_queries(self, number: int, wanted: list[UncertainTopK], before: tuple[UncertainTopK, ...]) -> None:
        """Replace the queries of a class. A window that ends now may miss tuples pruned up to the next unit."""
        monitor = self.monitors[number]
        if self.newest == ALWAYS:
            self.monitors[number] = Monitor(wanted, plan=self.plan.method, computed=True)
            return
        if self.plan.axis == "count":
            if stream_of(before) is None and stream_of(wanted) is not None:
                self._reject_count_windows(next(query for query in wanted if query.stream is not None))
            known = _without_filters(before)
            for query in wanted:
                if query.groups and query not in known:
                    self._reject_count_windows(query)
            monitor.take_up(wanted, since=monitor.metrics()["tuples"], is_complete=True, plan=self.plan.method)
            return
        cut = cut_of(before)
        is_complete = cut is None or self.cut[number] < self.clock // cut.unit * cut.unit
        monitor.take_up(wanted, since=self.newest + 1, is_complete=is_complete, plan=self.plan.method)

    def _reject_count_windows(self, query: UncertainTopK) -> None:
        if self.plan.axis == "count":
            raise SnapshotError(
                f"query {query.name!r} is not in this checkpoint, which has no tuples with its expressions, window "
                "size and stream. Count windows cannot be added to a running stream without them, because tuples "
                "processed before are not counted. Remove the query, or start it with a new checkpoint."
            )

    def _readdress(self, before: list[tuple[UncertainTopK, ...]], sources: list[int | None]) -> None:
        """Renumber the classes of buffered rows from the previous workload to the current one."""
        if self.waiting is None:
            return
        numbers = np.full(len(before), -1, np.int32)
        for number, source in enumerate(sources):
            if source is not None:
                numbers[source] = number
        classes = numbers[one(self.waiting["class"]).to_numpy(zero_copy_only=False)]
        at = self.waiting.schema.get_field_index("class")
        self.waiting = self.waiting.set_column(at, "class", pa.array(classes)).filter(pa.array(classes >= 0))
        streams = zip(sources, self.plan.streams, strict=True)
        still = any(stream and source is not None and stream_of(before[source]) == stream for source, stream in streams)
        if "stream" in self.waiting.column_names and not still:
            self.waiting = self.waiting.drop_columns("stream")


SHARD = UncertainShard


def _matched(before: list[tuple[UncertainTopK, ...]], now: tuple[tuple[UncertainTopK, ...], ...]) -> list[int | None]:
    """Return, per current class, the index of the previous class with the same tuples and a compatible stream."""
    found: list[int | None] = [None] * len(now)
    for strict in (True, False):
        for number, together in enumerate(now):
            for source, others in enumerate(before):
                streams = stream_of(together), stream_of(others)
                alike = streams[0] == streams[1] or (not strict and None in streams)
                if found[number] is None and source not in found and alike and _scan(together) == _scan(others):
                    found[number] = source
    return found


def _scan(together: tuple[UncertainTopK, ...]) -> tuple[Any, ...]:
    return *together[0].sharing_key(), together[0].window.size


def _unit(together: tuple[UncertainTopK, ...]) -> int:
    return min(query.window.slide for query in together)


def _without_filters(together: tuple[UncertainTopK, ...]) -> list[UncertainTopK]:
    """Return the queries without `where`: filtered rows are already dropped."""
    return [UncertainTopK(**{**query.to_dict(), "where": None}) for query in together]
