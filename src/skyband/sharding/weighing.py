"""Uncertain streams on their way through a pipeline: tuples in stream order, answered when the shared plan says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.algorithms.base import ALWAYS
from skyband.arrow import one
from skyband.errors import InvalidInputError
from skyband.queries import UncertainTopK
from skyband.sharding.envelope import Envelope, Note
from skyband.sharding.order import positions_of
from skyband.sharding.ranking import NEVER
from skyband.sharding.sequencing import Sequencing
from skyband.sharding.weighing_plan import WeighingPlan
from skyband.uncertain.monitor import Monitor

__all__ = ["ID", "TIME", "Weighing", "columns_of", "weigh_rows"]

TIME, ID = "__skyband_time", "__skyband_id"


def columns_of(number: int) -> tuple[str, str, str]:
    """The columns that tell a row's score, probability and rule to the queries that run together."""
    return f"__skyband_score_{number}", f"__skyband_probability_{number}", f"__skyband_rule_{number}"


def weigh_rows(plan: WeighingPlan, batches: Iterable[pa.RecordBatch]) -> Iterator[Envelope]:
    """A task's rows as uncertain tuples."""
    for batch in batches:
        if not batch.num_rows:
            continue
        table = pa.Table.from_batches([batch])
        timed = table.filter(pc.is_valid(table[TIME]))
        positions = positions_of(timed, TIME)
        left_out = np.zeros(timed.num_rows, bool)
        parts = []
        for number, together in enumerate(plan.classes):
            scores, chances, rules = (one(timed[name]) for name in columns_of(number))
            numbers = scores.fill_null(np.nan).to_numpy(zero_copy_only=False)
            there = ~np.isnan(numbers)
            left_out |= ~there & scores.is_valid().to_numpy(zero_copy_only=False)  # null: the filter removes the row
            _refuse_impossible(together[0], chances.to_numpy(zero_copy_only=False)[there])
            rows = pa.array(np.flatnonzero(there))
            parts.append(
                pa.table(
                    {
                        "class": pa.array(np.full(len(rows), number), pa.int32()),
                        "position": pa.array(positions[there]),
                        "id": one(timed[ID]).take(rows),
                        "score": pa.array(numbers[there]),
                        "probability": chances.take(rows),
                        "rule": rules.take(rows),
                    }
                )
            )
        note = Note(int(positions.max(initial=ALWAYS)), int(positions.min(initial=NEVER)), None, {})
        out = table.num_rows - timed.num_rows + int(left_out.sum())
        yield Envelope(0, pa.concat_tables(parts), note, table.num_rows, out, 0)


def _refuse_impossible(query: UncertainTopK, chances: Any) -> None:
    wrong = ~((chances > 0) & (chances <= 1))
    if wrong.any():
        raise InvalidInputError(
            f"query {query.name!r}: a probability of {chances[np.argmax(wrong)]} (probability={query.probability!r}) "
            "does not lie in (0, 1]; such a tuple exists in no world, or in more than all of them. Leave such rows out "
            "with where=."
        )


class Weighing(Sequencing):
    """The tuples that some answer may still need, and the plan they are answered by."""

    order = ("id", "score", "probability")

    def __init__(self, plan: WeighingPlan, number: int) -> None:
        super().__init__(plan, number)
        self.monitors = [Monitor(map(_without_filter, together), plan=plan.method) for together in plan.classes]

    @property
    def held(self) -> int:
        return sum(monitor.candidates for monitor in self.monitors)

    def end_of_stream(self) -> int:
        return int(max(query.window.size for query in self.plan.queries))

    def dues(self) -> Iterator[int]:
        oldest = self.oldest_waiting
        for monitor, together in zip(self.monitors, self.plan.classes, strict=True):
            if monitor.next_time is not None:
                yield monitor.next_time
            if oldest is not None:  # the first tuple may begin a plan, whose first run comes this soon
                yield oldest + 1 if monitor.next_time is None else max(oldest, self.clock) + _unit(together)

    def hand_on(self, ready: pa.Table | None) -> list[pa.Table]:
        out = []
        for number, monitor in enumerate(self.monitors):
            mine = None if ready is None else ready.filter(pc.equal(ready["class"], number))
            on_time = self.plan.axis == "time"
            if mine is not None and mine.num_rows:
                columns = (one(mine[name]) for name in ("score", "probability", "rule", "id"))
                monitor.push(one(mine["position"]) if on_time else None, *columns)
            if on_time:
                monitor.advance_to(self.clock)
            out.append(monitor.answers())
        return out

    def inner_state(self) -> dict[str, Any]:
        return {
            "classes": [[query.to_dict() for query in together] for together in self.plan.classes],
            "monitors": [monitor.snapshot() for monitor in self.monitors],
        }

    def inner_load(self, state: dict[str, Any]) -> None:
        known = {_told(fields[0]): blob for fields, blob in zip(state["classes"], state["monitors"], strict=True)}
        for number, together in enumerate(self.plan.classes):
            blob = known.get(_told(together[0].to_dict()))
            if blob is not None:
                self.monitors[number] = _taken_up(Monitor.resume(blob), [_without_filter(one) for one in together])


def _taken_up(monitor: Monitor, wanted: list[UncertainTopK]) -> Monitor:
    """The monitor with other queries than it had: the plan is made anew, and every bound holds from here on."""
    for query in wanted:
        if query not in monitor.queries and query.name not in [one.name for one in monitor.queries]:
            monitor.add(query)
    for query in monitor.queries:
        if query not in wanted:
            monitor.remove(query.name)
    for query in wanted:
        if query not in monitor.queries:
            monitor.add(query)
    return monitor


def _told(fields: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(fields[name] for name in ("by", "probability", "rule", "where", "size"))


def _unit(together: tuple[UncertainTopK, ...]) -> int:
    return min(query.window.slide for query in together)


def _without_filter(query: UncertainTopK) -> UncertainTopK:
    """The query as it is asked of tuples: rows that its filter removes have become none."""
    return UncertainTopK(**{**query.to_dict(), "where": None})
