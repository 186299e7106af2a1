"""Rank objects over incomplete streams continuously, in process: arrays in, Arrow tables out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa

from skyband.data.arrow import from_bytes, one, to_bytes
from skyband.data.columns import length, refuse_other_lengths, score_column
from skyband.data.key_dictionary import KeyDictionary, key_column
from skyband.errors import InvalidInputError, InvalidQueryError
from skyband.incomplete.arrivals import (
    ArrivedTuples,
    PendingTuples,
    content_hashes,
    out_of_bounds,
    stream_names,
    stream_numbers,
)
from skyband.incomplete.early_aggregation import without_losses
from skyband.incomplete.engine import from_end_on
from skyband.incomplete.executor import IncompleteExecutor, Lattice, advanced, lattice_of, shared
from skyband.incomplete.grouped_executor import GroupedExecutor
from skyband.incomplete.query import APPROXIMATE, IncompleteTopK
from skyband.incomplete.table import answer_rows, wanted_columns
from skyband.kernels.stream import Floats, Ints
from skyband.local.frames import refuse_missing_arrays
from skyband.local.replay import replayed
from skyband.monitor import MonitorBase
from skyband.queries.workload import Workload, of_family
from skyband.snapshot import StateFormat

__all__ = ["Monitor", "replay"]

_NONE = np.empty(0, np.int64)
T = TypeVar("T")


def _from_version_1(saved: dict[str, Any]) -> dict[str, Any]:
    streams = saved["queries"][0]["streams"]
    return {**saved, "streams": streams, "groups": None, "computed": True, "valid_from": {}, "ready": []}


def _from_version_2(saved: dict[str, Any]) -> dict[str, Any]:
    lanes = []
    for query, lane in zip(saved["queries"], saved["lanes"], strict=True):
        lattice = list(lattice_of(IncompleteTopK(**query)))
        engine = _engine_from_version_2(lane["engine"])
        lanes.append({**lane, "queries": [query["name"]], "lattice": lattice, "engine": engine})
    return {**saved, "lanes": lanes}


def _engine_from_version_2(engine: dict[str, Any]) -> dict[str, Any]:
    """Add which streams have reported an object, unknown before, and the counter of repeated reports."""
    if "early" in engine:
        return {**engine, "early": _engine_from_version_2(engine["early"])}
    found = {**engine, "registers": np.append(engine["registers"], 0)}
    if "owners" in engine:
        found["reported"] = np.zeros((engine["touches"].size, 0), np.bool_)
    return found


def _from_version_3(saved: dict[str, Any]) -> dict[str, Any]:
    """Add what approximate methods have lost: unknown for the windows with a tuple that was processed before."""
    lanes = []
    for lane in saved["lanes"]:
        engine = lane["engine"]
        if "early" in engine:
            lattice = Lattice(*lane["lattice"])
            early = without_losses(engine["early"], lattice.size, lattice.every)
            engine = {**engine, "early": early, "then": None}
            if "hurdles" in engine:
                engine["prospects"] = None
        lanes.append({**lane, "engine": engine})
    return {**saved, "lanes": lanes}


class Monitor(MonitorBase[IncompleteTopK, pa.Table]):
    """Rank objects whose attributes arrive in several streams, over pushed tuples.

    Parameters
    ----------
    queries
        One `IncompleteTopK`, several, or a `Workload` of them, all with the same `streams`. Queries share state where
        they can, see `IncompleteTopK.sharing_key`. On a time axis, queries can be added while the stream runs. An added
        query has its own state and reads tuples from the newest position on. Its first answer is for the first window
        that begins at or after it.
    lasts
        Whether answers have a column ``last`` with the position at which each object was seen last. It breaks ties.
    computed
        True if the caller has already applied `where` and the expressions of the queries. Otherwise a query that has
        any of them is rejected.
    time, id
        For data frames instead of arrays: the columns with the event time and the id, as in `skyband.Monitor`.

    Examples
    --------
    >>> import skyband as sb
    >>> monitor = sb.incomplete.Monitor(sb.IncompleteTopK(k=1, size="10 seconds", streams=["north", "south"]))
    >>> monitor.push([1_000_000, 2_000_000, 4_000_000], ["a", "b", "a"], ["north", "south", "south"], [0.5, 0.7, 0.3])
    >>> monitor.advance_to(10_000_000)
    >>> monitor.answers().to_pylist()
    [{'query': 'topk', 'time': 10000000, 'rank': 1, 'object': 'a', 'score': 0.8}]
    """

    asks = IncompleteTopK
    counts = "tuples"
    state_format = StateFormat("incomplete monitor", [_from_version_1, _from_version_2, _from_version_3])

    def __init__(
        self,
        queries: IncompleteTopK | Iterable[IncompleteTopK] | Workload[IncompleteTopK],
        *,
        lasts: bool = False,
        computed: bool = False,
        time: str | None = None,
        id: str | None = None,  # noqa: A002 - the name that Spark's calls have for it
    ) -> None:
        self._refuse_id_without_time(id)
        self._lasts = lasts
        self._workload = self._checked(queries, computed)
        super().__init__(self._workload.axis, computed=computed)
        self._streams = tuple(self.queries[0].streams or ())
        self._object_kind: pa.DataType | None = None  # type of objects in answers
        self._book: KeyDictionary | None = None  # for objects that are not integers
        self._waiting = PendingTuples()
        self._all_grouped = False  # groups were pushed although no query has partition_by: they apply to all queries
        self._executors = [self._executor(mine, lattice) for lattice, mine in shared(self._workload)]
        self._seen = np.zeros(len(self._streams), np.int64)  # number of tuples per stream
        self._newest = np.full(len(self._streams), np.iinfo(np.int64).min)  # newest position per stream

    @property
    def candidates(self) -> int:
        """Number of items held: tuples for ``sorted-lists``, object instances for the other methods."""
        return sum(executor.items for executor in self._executors) + len(self._waiting)

    def push(
        self, positions: Any, objects: Any = None, streams: Any = None, values: Any = None, *, groups: Any = None
    ) -> None:
        """Process the next tuples of all streams. A rejected push changes nothing.

        Parameters
        ----------
        positions
            int64 microseconds or timestamps that do not go backwards; None for count windows.
        objects
            The ranked objects: numbers, text, dates and so on. Tuples with a null object are dropped.
        streams
            The stream name of each tuple. Tuples with a null stream are dropped.
        values
            Numbers within the bounds of all queries. Tuples with a null or NaN value are dropped.
        groups
            One value per tuple. Each group has separate windows and a separate top k. Null and NaN are one group.
        """
        self._refuse_after_end()
        refuse_missing_arrays(positions, objects=objects, streams=streams, values=values)
        self._refuse_missing_groups(groups)
        rows = length(objects, "objects")
        refuse_other_lengths(rows, "objects", positions=positions, streams=streams, values=values, groups=groups)
        found = key_column(objects, "objects", earlier=self._object_kind)
        numbers = score_column(values, "values")
        codes = stream_numbers(streams, self._streams)
        missing = found.stored.is_null().to_numpy(zero_copy_only=False) | (codes < 0)
        if missing.any():
            numbers = np.where(missing, np.nan, numbers)
        _reject_out_of_bounds(numbers, codes, self._streams, self.queries)
        checked = self._intake.check(positions, numbers, None, groups)
        if checked.groups is not None and self._intake.groups is None and not any(one.groups for one in self.queries):
            self._all_grouped = True
            self._executors = [self._executor(mine, lattice) for lattice, mine in shared(self._workload)]
        self._intake.adopt(checked)
        self._object_kind = self._object_kind or found.kind
        kept = np.flatnonzero(~np.isnan(numbers)) if checked.ids.size == 0 else checked.ids - checked.first_id
        stored = found.stored if kept.size == rows else found.stored.take(pa.array(kept))
        codes = codes[kept]
        arrived = ArrivedTuples(
            checked.positions, stored, codes, checked.scores, _NONE if checked.groups is None else checked.groups.codes
        )
        self._note(arrived)
        self._take_in(arrived)
        if self._intake.groups is not None and self._intake.groups.has_grown:
            self._forget_groups()

    def _move_time(self) -> None:
        self._take_in(None)

    def _end(self, beyond: int) -> None:
        self._advance(self._waiting.take_before(None, None), beyond)

    def _table(self, pending: list[pa.Table]) -> pa.Table:
        table = pa.concat_tables([self._columns().empty_table(), *pending], promote_options="permissive")
        return table.combine_chunks() if len(pending) > 1 else table

    def _add(self, query: IncompleteTopK, after: Workload[IncompleteTopK]) -> None:
        newest = self._intake.newest
        _reject_out_of_bounds(self._waiting.values, self._waiting.streams, self._streams, [query])
        self._workload = after
        self._executors.append(self._executor([query]))
        if newest is not None:
            # Tuples at the newest position are still pending, so the new engine will process all of them.
            self._valid_from[query.name] = query.window.first_end_from(newest)

    def _remove(self, name: str, after: Workload[IncompleteTopK]) -> None:
        self._workload = after
        mine = next(executor for executor in self._executors if name in (query.name for query in executor.queries))
        if len(mine.queries) == 1:
            self._executors.remove(mine)
        else:
            mine.remove(name)

    def metrics(self) -> dict[str, Any]:
        """Return counters: rows, dropped rows, answers, items held, and counters per query and per stream.

        ``over_limit`` counts dropped tuples beyond the declared `occurrences`. ``remembered`` is the number of tuples
        kept to detect these. With an approximate method both are 0. With ``occurrences="once"`` nothing is remembered,
        and ``over_limit`` counts only those repeated tuples whose object is still held.

        >>> import skyband as sb
        >>> monitor = sb.incomplete.Monitor(sb.IncompleteTopK(k=1, size=9, streams=["s", "t"]))
        >>> monitor.push(None, ["a", "a", None], ["s", "s", "t"], [0.5, 0.6, 0.7])
        >>> found = monitor.metrics()
        >>> found["dropped_null"], found["over_limit"], found["streams"]["t"]["tuples"]
        (1, 1, 0)
        """
        return super().metrics()

    def _executor(
        self, queries: list[IncompleteTopK], lattice: Lattice | None = None
    ) -> IncompleteExecutor | GroupedExecutor:
        kind = GroupedExecutor if self._all_grouped or queries[0].groups else IncompleteExecutor
        return kind(queries, self._streams, lattice)

    def _forget_groups(self) -> int:
        """Remove the groups without tuples that a window needs; return the number of those left.

        On a count axis all groups are retained, because windows depend on the numbers of their tuples.
        """
        groups = self._intake.groups
        if groups is None:
            return 0
        if self._intake.axis == "time":
            used = np.zeros(groups.codes, bool)
            used[self._waiting.groups] = True
            for executor in self._executors:
                if isinstance(executor, GroupedExecutor):
                    used[executor.groups] = True
            groups.forget(used)
        return len(groups)

    def _counters(self) -> dict[str, Any]:
        grouped = {} if self._intake.groups is None else {"groups": self._forget_groups()}
        return {
            **grouped,
            "over_limit": sum(executor.over_limit for executor in self._executors),
            "queries": self._by_query(lambda executor: [executor.metrics()] * len(executor.queries)),
            "streams": {
                name: {"tuples": int(seen), "newest": int(newest) if seen and self._intake.axis == "time" else None}
                for name, seen, newest in zip(self._streams, self._seen, self._newest, strict=True)
            },
        }

    def _state(self) -> dict[str, Any]:
        self._forget_groups()
        kind = pa.schema([] if self._object_kind is None else [("object", self._object_kind)])
        return {
            **({"all_grouped": True} if self._all_grouped else {}),
            "lasts": self._lasts,
            "streams": self._streams,
            "object_kind": kind.serialize().to_pybytes(),
            "book": None if self._book is None else _book_state(self._book),
            "waiting": self._waiting.state(),
            "seen": self._seen,
            "newest": self._newest,
            "pending": [to_bytes(table) for table in self._pending],
            "lanes": [executor.state() for executor in self._executors],
        }

    @classmethod
    def _made(cls, queries: list[IncompleteTopK], saved: dict[str, Any]) -> Self:
        return cls(queries, lasts=saved["lasts"], computed=True)

    def _load(self, saved: dict[str, Any]) -> None:
        # The order is that of the monitor's first query, which may have been removed since.
        self._streams = tuple(saved["streams"])
        queries = {query.name: query for query in self.queries}
        self._all_grouped = saved.get("all_grouped", False)
        self._executors = [
            self._executor([queries[name] for name in lane["queries"]], Lattice(*lane["lattice"]))
            for lane in saved["lanes"]
        ]
        kinds = pa.ipc.read_schema(pa.py_buffer(saved["object_kind"]))
        self._object_kind = kinds.field("object").type if len(kinds) else None
        if saved["book"] is not None:
            self._book = KeyDictionary(self._unused)
            self._book.load(saved["book"]["slots"], one(from_bytes(saved["book"]["values"])["object"]))
        self._waiting.load(saved["waiting"])
        self._seen, self._newest = saved["seen"], saved["newest"]
        self._pending = [from_bytes(table) for table in saved["pending"]]
        for executor, state in zip(self._executors, saved["lanes"], strict=True):
            executor.load(state)

    @classmethod
    def _checked(
        cls, queries: IncompleteTopK | Iterable[IncompleteTopK] | Workload[IncompleteTopK], computed: bool
    ) -> Workload[IncompleteTopK]:
        found = super()._checked(queries, computed)
        _reject_different_streams(found)
        return found

    def _note(self, arrived: ArrivedTuples) -> None:
        self._seen += np.bincount(arrived.streams, minlength=self._seen.size)
        if arrived.positions.size:
            np.maximum.at(self._newest, arrived.streams, arrived.positions)

    def _take_in(self, arrived: ArrivedTuples | None) -> None:
        if self._intake.axis == "count":
            self._advance(arrived, None)
        elif self._intake.newest is not None:
            self._advance(self._waiting.take_before(arrived, self._intake.newest), self._intake.newest)

    def _advance(self, rows: ArrivedTuples | None, clock: int | None) -> None:
        """Pass tuples in their final order to every query and collect the answers."""
        keys, hashes = (_NONE, _NONE) if rows is None else self._known(rows.objects)
        positions, streams, values = (_NONE, _NONE, np.empty(0)) if rows is None else (rows[0], rows[2], rows[3])
        columns = (positions, keys, streams, values, hashes, clock, _NONE if rows is None else rows.groups)
        found = list(self._by_query(lambda executor: advanced(executor, columns)).values())
        for place, query in enumerate(self.queries):
            if query.name in self._valid_from:
                found[place] = from_end_on(found[place], self._valid_from[query.name])
        if any(one.ends.size for one in found):
            self._windows += sum(one.ends.size for one in found)
            groups = self._intake.groups
            self._pending.append(answer_rows(found, self.queries, self._columns(), self._values, groups))

    def _by_query(self, results: Callable[[Any], Sequence[T]]) -> dict[str, T]:
        """Return the results of all executors by query, in the order of the queries."""
        found: dict[str, T] = {}
        for executor in self._executors:
            found |= dict(zip((query.name for query in executor.queries), results(executor), strict=True))
        return {query.name: found[query.name] for query in self.queries}

    def _columns(self) -> pa.Schema:
        groups = self._intake.groups
        kind = None if groups is None else groups.kind or pa.null()
        return wanted_columns(self.queries, self._intake.position_kind, self._object_kind, self._lasts, kind)

    def _known(self, stored: pa.Array) -> tuple[Ints, Ints]:
        """Return the engine keys of objects, and hashes of their content if a query is approximate."""
        if not len(stored):  # an empty column may be untyped
            return _NONE, _NONE
        sketched = any(query.method in APPROXIMATE for query in self.queries)
        hashes = content_hashes(stored) if sketched else _NONE
        if stored.type == pa.int64():
            return stored.to_numpy(zero_copy_only=False).copy(), hashes
        self._book = self._book or KeyDictionary(self._unused)
        return self._book.slots_of(stored), hashes

    def _values(self, keys: Ints) -> pa.Array:
        """Return the objects of engine keys."""
        return pa.array(keys) if self._book is None else self._book.values(keys)

    def _unused(self, slots: int) -> Any:
        unused = np.ones(slots, bool)
        for executor in self._executors:
            unused[executor.objects_in_use()] = False
        return unused


def replay(
    queries: IncompleteTopK | Iterable[IncompleteTopK] | Workload[IncompleteTopK],
    positions: Any,
    objects: Any = None,
    streams: Any = None,
    values: Any = None,
    *,
    groups: Any = None,
    time: str | None = None,
    id: str | None = None,  # noqa: A002 - the name that Spark's calls have for it
) -> Any:
    """Return all answers over a stream in memory: ``query, [group,] time, rank, object, score``.

    The columns ``best`` and ``sure`` exist if a query has `intervals`, ``exact`` if one is approximate. Queries without
    `streams` use those in the input, sorted by name.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.IncompleteTopK(k=2, size=4, every=2, intervals=True)
    >>> table = sb.incomplete.replay(query, None, [7, 8, 7, 9], ["x", "x", "y", "y"], [0.5, 0.9, 0.1, 0.2])
    >>> [table[name].to_pylist() for name in ("time", "object", "score", "best", "sure")]
    [[2, 2, 4, 4], [8, 7, 8, 7], [0.9, 0.5, 0.9, 0.6], [1.9, 1.5, 1.9, 0.6], [True, True, True, False]]
    """
    arrays = {"objects": objects, "streams": streams, "values": values, "groups": groups}
    if (found := replayed(queries, positions, arrays, time=time, id_=id)) is not None:
        return found
    workload = of_family(queries, IncompleteTopK, "skyband.incomplete.replay")
    refuse_missing_arrays(positions, objects=objects, streams=streams, values=values)
    if any(one.streams is None for one in workload):
        names = stream_names(streams)
        workload = Workload([_with_streams(one, names) if one.streams is None else one for one in workload])
    return Monitor(workload)._replayed(positions, objects, streams, values, groups=groups)


def _with_streams(query: IncompleteTopK, streams: tuple[str | int, ...]) -> IncompleteTopK:
    return IncompleteTopK(**{**query.to_dict(), "streams": streams or (0,)})


def _reject_out_of_bounds(
    numbers: Floats, codes: Ints, streams: tuple[str | int, ...], queries: Iterable[IncompleteTopK]
) -> None:
    for query in queries:
        found = out_of_bounds(query, streams, codes, numbers)
        if found is not None:
            raise InvalidInputError(
                f"values[{found.row}]={numbers[found.row]} is outside {found.bounds} of query {query.name!r}, so "
                "scores could not be bounded. Widen bounds=; this batch was rejected."
            )


def _reject_different_streams(workload: Workload[IncompleteTopK]) -> None:
    """Reject queries without `streams`, or with different ones."""
    first = workload.queries[0]
    for query in workload:
        if query.streams is None:
            raise InvalidQueryError(
                f"query {query.name!r} has no streams=. A monitor needs all stream names in advance, because the "
                "number of streams bounds how far a score can rise. List them all, for example streams=['a', 'b']."
            )
        if set(query.streams) != set(first.streams or ()):
            raise InvalidQueryError(
                f"queries {first.name!r} and {query.name!r} have different streams ({first.streams} and "
                f"{query.streams}), but queries over the same tuples must have the same streams. "
                "Make two workloads of them."
            )


def _book_state(book: KeyDictionary) -> dict[str, Any]:
    state = book.state()
    return {"slots": state, "values": to_bytes(pa.table({"object": book.values(state["slots"])}))}
