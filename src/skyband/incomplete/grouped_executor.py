"""The executor of a stream with groups: one executor for each group, for queries that share instances.

All groups have the same windows on a time axis. So a group without arriving tuples needs no work until a window ends,
and it is removed when its last instance has expired: no later window contains one of its tuples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from skyband.incomplete.engine import ObjectAnswers, joined
from skyband.incomplete.executor import IncompleteExecutor, Lattice, lattice_of
from skyband.incomplete.query import APPROXIMATE, IncompleteTopK
from skyband.kernels.stream import Floats, Ints
from skyband.windows import ALWAYS

__all__ = ["GroupedExecutor"]

_STATE_SIZES = ("items", "sharing", "remembered")  # metrics that are not counters of work


class GroupedExecutor:
    """Queries with an executor for each group, by the code of the group."""

    def __init__(
        self, queries: Sequence[IncompleteTopK], streams: tuple[str | int, ...], lattice: Lattice | None = None
    ) -> None:
        self.queries = list(queries)
        self.lattice = lattice_of(self.queries[0]) if lattice is None else lattice
        self._streams = streams
        self._executors: dict[int, IncompleteExecutor] = {}
        self._next_end = ALWAYS  # the next window end, on a time axis
        self._past: Counter[str] = Counter()  # what removed groups have counted

    @property
    def items(self) -> int:
        """Number of items held."""
        return sum(executor.items for executor in self._executors.values())

    @property
    def over_limit(self) -> int:
        """Number of dropped tuples beyond the limit of occurrences."""
        return self._past["over_limit"] + sum(executor.over_limit for executor in self._executors.values())

    @property
    def groups(self) -> list[int]:
        """The codes of the groups that are held."""
        return list(self._executors)

    def advance(
        self,
        positions: Ints,
        objects: Ints,
        streams: Ints,
        values: Floats,
        hashes: Ints,
        clock: int | None,
        groups: Ints,
    ) -> list[ObjectAnswers]:
        """Process tuples and return the answers of windows that ended, per query."""
        order = np.argsort(groups, kind="stable")
        codes = groups[order]
        found: list[list[ObjectAnswers]] = [[] for _ in self.queries]
        for part in np.split(order, np.flatnonzero(np.diff(codes)) + 1) if codes.size else ():
            code = int(groups[part[0]])
            executor = self._executors.get(code) or self._new(code)
            times = positions[part] if positions.size else positions  # empty on a count axis
            keys = hashes[part] if hashes.size else hashes
            _collect(found, executor.advance(times, objects[part], streams[part], values[part], keys, clock), code)
        if clock is not None and clock >= self._next_end:
            none = positions[:0]
            for code in list(self._executors):  # groups of arrived tuples have nothing more to answer
                executor = self._executors[code]
                if executor.items:
                    _collect(found, executor.advance(none, none, none, values[:0], none, clock), code)
                if not executor.items and self.queries[0].method not in APPROXIMATE:  # sketches outlive instances
                    self._forget(code)
            self._next_end = self.lattice.origin + self.lattice.every * (
                (clock - self.lattice.origin) // self.lattice.every + 1
            )
        return [joined(parts) for parts in found]

    def _new(self, code: int) -> IncompleteExecutor:
        executor = IncompleteExecutor(self.queries, self._streams, self.lattice, small=True)
        self._executors[code] = executor
        return executor

    def _forget(self, code: int) -> None:
        self._past.update(_work(self._executors.pop(code)))

    def remove(self, name: str) -> None:
        """Remove one of several queries."""
        for executor in self._executors.values():
            executor.remove(name)
        self.queries = [query for query in self.queries if query.name != name]

    def objects_in_use(self) -> Ints:
        """Return the keys of all objects in the engines or ledgers; not distinct."""
        return np.concatenate(
            [np.empty(0, np.int64), *(executor.objects_in_use() for executor in self._executors.values())]
        )

    def metrics(self) -> dict[str, int]:
        """Return counters of items held and work done, over all groups."""
        found = Counter(self._past)
        for executor in self._executors.values():
            found.update(_work(executor))
        sizes = {"items": self.items, "sharing": len(self.queries)}
        remembered = sum(executor.remembered for executor in self._executors.values())
        return {**sizes, "remembered": remembered, "over_limit": self.over_limit, **found}

    def state(self) -> dict[str, Any]:
        """Return the state for `load`."""
        return {
            "queries": [query.name for query in self.queries],
            "lattice": list(self.lattice),
            "next_end": self._next_end,
            "past": dict(self._past),
            "groups": [(code, executor.state()) for code, executor in self._executors.items()],
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restore the state that `state` returned."""
        self._next_end, self._past = state["next_end"], Counter(state["past"])
        for code, saved in state["groups"]:
            self._new(code).load(saved)


def _collect(found: list[list[ObjectAnswers]], answers: Sequence[ObjectAnswers], code: int) -> None:
    for parts, answer in zip(found, answers, strict=True):
        if answer.ends.size:
            parts.append(answer._replace(groups=np.full(answer.ends.size, code)))


def _work(executor: IncompleteExecutor) -> dict[str, int]:
    return {name: count for name, count in executor.metrics().items() if name not in _STATE_SIZES}
