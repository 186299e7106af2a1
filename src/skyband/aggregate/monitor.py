"""Rank keys by an aggregate continuously, in process: arrays in, Arrow tables out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Self

import numpy as np
import pyarrow as pa

from skyband.aggregate.cohort import ALL_GROUPS, WHOLE, Cohort
from skyband.aggregate.executor import AggregateExecutor, KeyBatch, KeyedAnswers, ended_by
from skyband.aggregate.query import AGGREGATES, AggregateTopK
from skyband.aggregate.sketch_executor import evictions, exact_bounds
from skyband.aggregate.sketches import refuse_other_weights
from skyband.data.answer_log import RankedWindows, joined
from skyband.data.answer_table import arrow_schema
from skyband.data.arrow import from_bytes, one, to_bytes
from skyband.data.columns import as_arrow, flag_column, id_column, length, refuse_other_lengths, score_column
from skyband.data.composite_key import packed_keys, unpacked_keys
from skyband.data.key_dictionary import KeyColumn, key_column, restored
from skyband.data.validation import Batch as Checked
from skyband.data.window_bounds import all_sliding, last_ends, starts_of
from skyband.data.window_table import WindowQueries, window_table
from skyband.data.wrong_values import wrong_value
from skyband.errors import InvalidInputError
from skyband.kernels.stream import Floats, Ints
from skyband.kernels.validation import rows_by_group
from skyband.local.frames import refuse_missing_arrays
from skyband.local.replay import replayed
from skyband.monitor import MonitorBase
from skyband.queries.families import FAMILIES
from skyband.queries.sharing import places_by
from skyband.queries.windowed import refuse_past_landmark
from skyband.queries.workload import Workload
from skyband.session_windows import SessionWindows
from skyband.snapshot import StateFormat
from skyband.windows import ALWAYS, NEVER

__all__ = ["Monitor", "replay"]

_SCHEMA = FAMILIES["aggregate"].answers
_COUNTS = {"count", "count_distinct", "approx_count_distinct"}  # aggregates of values of any type


def _from_version_1(saved: dict[str, Any]) -> dict[str, Any]:
    first = {"queries": saved["queries"], "since": [ALWAYS] * len(saved["queries"]), "lanes": saved["lanes"]}
    return {**saved, "cohorts": [first], "computed": True, "valid_from": {}, "ready": []}


def _from_version_2(saved: dict[str, Any]) -> dict[str, Any]:
    for cohort in saved["cohorts"]:
        for lane in cohort["lanes"]:
            none = np.zeros((lane["engine"]["slots"].size, 0), np.int64)
            lane["engine"] |= {"ats": none, "ids": none}
    if saved["pending_keys"] is not None:
        rows = from_bytes(saved["pending_keys"])
        saved["pending_keys"] = to_bytes(rows.append_column("id", pa.nulls(rows.num_rows, pa.int64())))
    return {**saved, "has_ids": None}


class Monitor(MonitorBase[AggregateTopK, KeyedAnswers]):
    """Rank keys by an aggregate of their values over a pushed stream, exactly and incrementally.

    All queries share one partial per key and pane. A partial is added to a key's running total once and subtracted once
    per window size. Sums are exact, so answers do not depend on how the stream is split into pushes. On a time axis,
    queries can be added while the stream runs. An added query has separate partials, and its first answer is for the
    first window that begins after the newest row.

    Parameters
    ----------
    queries
        One `AggregateTopK`, several, or a `Workload` of them.
    computed
        True if the caller has already applied `where` and the expressions of the queries. Otherwise a query that has
        any of them is rejected.
    time, id
        For data frames instead of arrays: the columns with the event time and the id, as in `skyband.Monitor`.

    Examples
    --------
    >>> import skyband as sb
    >>> monitor = sb.aggregate.Monitor(sb.AggregateTopK(k=2, size="10 seconds", slide="5 seconds"))
    >>> monitor.push([1_000_000, 4_000_000, 7_000_000], ["ann", "bob", "ann"], [3.0, 9.0, 7.0])
    >>> monitor.answers().to_pylist()[0]
    {'query': 'topk', 'window_start': -5000000, 'window_end': 5000000, 'rank': 1, 'key': 'bob', 'score': 9.0}
    >>> monitor.finish()
    >>> monitor.answers()["score"].to_pylist()
    [10.0, 9.0, 7.0]
    """

    asks = AggregateTopK
    state_format = StateFormat("aggregate monitor", [_from_version_1, _from_version_2])

    def __init__(
        self,
        queries: AggregateTopK | Iterable[AggregateTopK] | Workload[AggregateTopK],
        *,
        computed: bool = False,
        time: str | None = None,
        id: str | None = None,  # noqa: A002 - the name that Spark's calls have for it
    ) -> None:
        self._refuse_id_without_time(id)
        self._workload = self._checked(queries, computed)
        super().__init__(self._workload.axis, computed=computed)
        self._key_kind: pa.DataType | None = None
        self._parts: pa.Schema | None = None  # the columns of keys that have several
        self._value_kind: pa.DataType | None = None  # of values that are counted, not added up
        self._has_ids: bool | None = None  # whether rows have ids, not row numbers; None: no row yet
        self._all_grouped = False  # groups were pushed although no query has partition_by: they apply to all queries
        self._has_deletes = False  # whether rows of this push can delete their keys
        self._limits_keys = self._deletes_keys = False  # whether a query has `max_keys`, or `delete`
        self._cohorts: list[Cohort] = []
        self._begin(self.queries, ALWAYS)

    @property
    def candidates(self) -> int:
        """Number of partials held: one per key and pane that a window still needs."""
        return sum(lane.partials for _, lane in self._lanes())

    def row_ids(self) -> Ints:
        """Return the ids of the rows that later answers can return; some of them more than once."""
        return np.concatenate([np.empty(0, np.int64), *(lane.row_ids() for _, lane in self._lanes())])

    @property
    def next_end(self) -> int:
        """A position before which no window ends without further rows; NEVER if there is none."""
        return min((lane.next_end for _, lane in self._lanes()), default=NEVER)

    def begin_at(self, names: Collection[str], position: int) -> None:
        """Answer windows of these queries that begin at or after a position: earlier rows are not known."""
        for cohort in self._cohorts:
            cohort.begin_at(names, position)

    def groups_in_use(self) -> list[Any]:
        """Return the groups that later answers can be of, and of pending ones; on a count axis all groups."""
        self._forget_groups()
        return [] if self._intake.groups is None else self._intake.groups.values

    def push(
        self,
        positions: Any,
        keys: Any = None,
        values: Any = None,
        *,
        ids: Any = None,
        groups: Any = None,
        deletes: Any = None,
    ) -> None:
        """Process the next rows of the stream. A rejected push changes nothing.

        Parameters
        ----------
        positions
            int64 microseconds or timestamps that do not go backwards; None for count windows.
        keys
            The ranked keys: numbers, text, dates and so on; for keys of several columns, a mapping of their names to
            columns. Rows with a null or NaN key are dropped.
        values
            The aggregated numbers; if all queries count them, values of any type that keys can have. Rows with a null
            or NaN value are dropped. None if all queries count rows.
        ids
            One integer per row, for queries with ``row=True``, ``aggregate="latest"`` or ``aggregate="first"``: of
            rows with the same position and value, the one with the larger id counts. None: row numbers.
        groups
            One value per row. Each group has separate windows and a separate top k. Null and NaN are one group.
        deletes
            One Boolean per row, for ``aggregate="latest"``: whether the row deletes its key. Its value is ignored and
            can be null.
        """
        self._refuse_after_end()
        refuse_missing_arrays(positions, keys=keys)
        self._refuse_missing_groups(groups)
        self._reject_missing_values(values)
        self._reject_misplaced_deletes(deletes)
        named = keys
        keys, parts = self._packed(keys)
        rows = length(keys, "keys")
        refuse_other_lengths(rows, "keys", positions=positions, values=values, ids=ids, groups=groups, deletes=deletes)
        names = self._names_of_rows(ids, rows)
        found = key_column(keys, earlier=self._key_kind)
        numbers, counted = self._numbers_of(values, rows, named)
        if found.stored.null_count:
            numbers = np.where(found.stored.is_null().to_numpy(zero_copy_only=False), np.nan, numbers)
        deleted = None if deletes is None else flag_column(deletes, "deletes")
        if deleted is not None:
            deleted &= found.stored.is_valid().to_numpy(zero_copy_only=False)
            numbers = np.where(deleted, 0.0, numbers)  # a delete counts without a value
        if any(query.sketched and query.aggregate == "sum" for query in self.queries):
            refuse_other_weights(numbers, "values")
        before = self._before_limits()
        checked = self._intake.check(positions, numbers, None, groups)
        if deleted is not None:
            checked = _with_deletes(checked, deleted)
        self._has_deletes = deleted is not None
        if checked.groups is not None and self._intake.groups is None and not self._grouped_places():
            self._all_grouped = True
        self._intake.adopt(checked)
        self._key_kind, self._parts = self._key_kind or found.kind, parts
        if counted is not None:
            self._value_kind = self._value_kind or counted.kind
        self._has_ids = self._has_ids if self._has_ids is not None or not rows else ids is not None
        with self._unchanged_if_rejected(before):
            self._take_in(checked, found, None if counted is None else counted.stored, values is not None, names)
        if self._intake.groups is not None and self._intake.groups.has_grown:
            self._forget_groups()

    def _table(self, pending: list[KeyedAnswers]) -> pa.Table:
        queries, groups, position = self.queries, self._intake.groups, self._intake.position_kind
        parts = self._parts or pa.schema([])
        own = {"window_start": position, "window_end": position, "key": self._key_kind}
        own |= dict(zip(parts.names, parts.types, strict=True))
        wanted = arrow_schema(
            _SCHEMA.with_keys(parts.names),
            own,
            group=None if groups is None else groups.kind or pa.null(),
            wanted=_optional(queries),
        )
        window_queries = WindowQueries(
            [query.name for query in queries],
            [query.window.longest for query in queries],
            [query.ascending for query in queries],
            [query.shares_ranks for query in queries],
            starts=None if all_sliding(queries) else partial(starts_of, queries),  # sessions have their own
        )
        windows, rows = _concatenated(pending, wanted.empty_table())

        def row_columns(places: Ints) -> dict[str, pa.Array]:
            found = rows.take(pa.array(places))
            columns = {name: one(found[name]) for name in found.column_names if name in wanted.names}
            columns |= exact_bounds(columns, places.size, wanted.names)
            if parts.names:
                return columns | dict(zip(parts.names, unpacked_keys(one(found["key"]), parts.types), strict=True))
            return columns | {"key": restored(columns["key"], wanted.field("key").type)}

        windows = windows._replace(ids=np.arange(rows.num_rows))
        table = window_table([windows], window_queries, wanted, groups, row_columns)
        if any(query.others and query.shares_ranks for query in queries):
            return _with_ranks_of_others(table, parts.names or ["key"])
        return table

    def metrics(self) -> dict[str, Any]:
        """Return counters: rows pushed, dropped rows, answered windows, partials created and held, keys held and so on.

        ``entered`` and ``left`` count how often a partial was added to or subtracted from running totals, over all
        queries. ``scored`` counts how often a key was rescored. ``unrankable`` counts how often a key's aggregate was
        NaN because its values contain infinities. With ``method="sketch"``, ``evicted`` counts evicted counters. If
        rows can delete their keys, ``unknown_deletes`` counts deletes of keys without a value.

        >>> import skyband as sb
        >>> monitor = sb.aggregate.Monitor(sb.AggregateTopK(k=1, size=2))
        >>> monitor.push(None, ["a", None, "b"], [1.0, 2.0, float("nan")])
        >>> monitor.metrics()["dropped_null"]
        2
        """
        return super().metrics()

    def _counters(self) -> dict[str, Any]:
        counters = ("partials", "entered", "left", "scored", "unrankable")
        work = [lane.counters() for _, lane in self._lanes()]
        return {
            "groups": self._forget_groups(),
            "keys": sum(lane.keys for _, lane in self._lanes()),
            **{name: sum(done[name] for done in work) for name in counters},
            **evictions(lane for _, lane in self._lanes()),
            **self._unknown_deletes(),
        }

    def _unknown_deletes(self) -> dict[str, int]:
        """Return the number of deletes of keys without a value, if rows can delete their keys."""
        found = [lane.unknown_deletes for _, lane in self._lanes()]
        known = [number for number in found if number is not None]
        if not known and not self._deletes_keys:
            return {}
        return {"unknown_deletes": sum(known)}

    def advance_to(self, position: Any) -> None:
        """Move time forward without a row: windows that end at or before `position` become final."""
        with self._unchanged_if_rejected(self._before_limits()):
            super().advance_to(position)

    def finish(self) -> None:
        """End the stream: answer every time window that contains a row. Fetch the answers with `answers`."""
        with self._unchanged_if_rejected(self._before_limits()):
            super().finish()

    def _before_limits(self) -> bytes | None:
        """Return the state before rows that can be rejected for their keys; None if no query limits them."""
        return self.snapshot() if self._limits_keys else None

    @contextmanager
    def _unchanged_if_rejected(self, before: bytes | None) -> Iterator[None]:
        """Restore an earlier state if a window has more keys than its query allows."""
        try:
            yield
        except InvalidInputError:
            if before is not None:
                vars(self).update(vars(type(self).resume(before)))
            raise

    def _state(self) -> dict[str, Any]:
        self._forget_groups()
        windows, rows = _concatenated(self._pending, pa.table({}))
        kind = pa.schema([] if self._key_kind is None else [("key", self._key_kind)])
        kind = self._parts or kind
        value = self._value_kind
        return {
            "all_grouped": self._all_grouped,
            "has_ids": self._has_ids,
            "value_kind": None if value is None else pa.schema([("value", value)]).serialize().to_pybytes(),
            "key_kind": kind.serialize().to_pybytes(),
            "pending": windows._asdict(),
            "pending_keys": to_bytes(rows) if rows.num_rows else None,
            "cohorts": [cohort.state() for cohort in self._cohorts],
        }

    @classmethod
    def _made(cls, queries: list[AggregateTopK], saved: dict[str, Any]) -> Self:
        return cls(queries, computed=True)

    def _load(self, saved: dict[str, Any]) -> None:
        kinds = pa.ipc.read_schema(pa.py_buffer(saved["key_kind"]))
        self._key_kind = kinds.field(0).type if len(kinds) else None
        if len(kinds) > 1:
            self._key_kind, self._parts = pa.binary(), kinds
        if saved.get("value_kind") is not None:
            self._value_kind = pa.ipc.read_schema(pa.py_buffer(saved["value_kind"])).field(0).type
        self._all_grouped, self._has_ids = saved["all_grouped"], saved["has_ids"]
        if saved["pending_keys"] is not None:
            self._pending = [KeyedAnswers(RankedWindows(**saved["pending"]), from_bytes(saved["pending_keys"]))]
        names = [query.name for query in self.queries]
        self._cohorts = [Cohort.load(state, names, self._all_grouped) for state in saved["cohorts"]]

    def _packed(self, keys: Any) -> tuple[Any, pa.Schema | None]:
        """Return keys of several columns as one column, and the names and types of the columns."""
        if not isinstance(keys, Mapping):
            if self._parts is not None:
                raise InvalidInputError(
                    f"keys is one column, but earlier pushes had the columns {', '.join(self._parts.names)}. Pass a "
                    "mapping with these columns. This push was rejected."
                )
            return keys, None
        names = [str(name) for name in keys]
        others = () if any(query.sketched for query in self.queries) else ("error", "guaranteed")
        known = [name for name in _SCHEMA.names if name not in others]
        taken = [name for name in names if name in (*known, "group", "id")]
        if len(names) < 2 or taken:
            what = f"{taken[0]!r} is a column of every answer" if taken else f"got {len(names)}"
            raise InvalidInputError(
                f"keys={{{', '.join(map(repr, names))}}} must be a mapping of at least two names to columns, and "
                f"{what}. This push was rejected."
            )
        columns = [as_arrow(column, f"keys[{name!r}]") for name, column in zip(names, keys.values(), strict=True)]
        refuse_other_lengths(len(columns[0]), names[0], **dict(zip(names[1:], columns[1:], strict=True)))
        found = [key_column(column, f"keys[{name!r}]") for name, column in zip(names, columns, strict=True)]
        parts = pa.schema([(name, column.kind or pa.null()) for name, column in zip(names, found, strict=True)])
        if self._parts is not None and parts != self._parts:
            raise InvalidInputError(
                f"keys has the columns {_described(parts)}, but earlier pushes had {_described(self._parts)}, so one "
                "key would be counted as two. Cast the columns to one type. This push was rejected."
            )
        if self._parts is None and self._key_kind is not None:
            raise InvalidInputError(
                f"keys has the columns {_described(parts)}, but earlier pushes had one column. This push was rejected."
            )
        return packed_keys(columns), parts

    def _names_of_rows(self, ids: Any, rows: int) -> Ints:
        """Return the ids of pushed rows."""
        if rows and self._has_ids is not None and self._has_ids != (ids is not None):
            given, earlier = ("ids= is missing", "ids") if ids is None else ("ids= was given", "none")
            raise InvalidInputError(
                f"{given}, but earlier pushes had {earlier}, so rows could not be compared. Pass ids with every push, "
                "or with none. This push was rejected."
            )
        names = np.arange(self._intake.rows, self._intake.rows + rows) if ids is None else id_column(ids)
        if isinstance(names, pa.Array):
            raise InvalidInputError(
                f"ids must be integers for aggregate queries, got type {names.type}. Pass row numbers, or a data frame "
                "with time= and id=, whose ids can be of any type. This push was rejected."
            )
        return names

    def _numbers_of(self, values: Any, rows: int, keys: Any) -> tuple[Floats, KeyColumn | None]:
        """Return values as numbers, NaN for null; and the values themselves, if they are only counted."""
        if values is None:
            return np.zeros(rows), None
        if {query.items for query in self.queries}.isdisjoint(("values", "hashes")):
            return _numbers(values, keys), None
        if not {name for query in self.queries for name in query.aggregates} <= _COUNTS:
            # Other queries need numbers: these are counted, unless there were values of another type before.
            numbers = _numbers(values, keys)
            if self._value_kind in (None, pa.float64()):
                return numbers, KeyColumn(pa.array(numbers + 0.0), pa.float64())
            return numbers, key_column(values, "values", self._value_kind)
        counted = key_column(values, "values", self._value_kind)
        return np.where(counted.stored.is_null().to_numpy(zero_copy_only=False), np.nan, 0.0), counted

    def _take_in(self, checked: Checked, keys: KeyColumn, counted: pa.Array | None, valued: bool, names: Ints) -> None:
        """Pass accepted rows to their executors and advance time to the newest row."""
        stored = keys.stored
        if checked.ids.size or checked.scores.size < checked.rows:
            rows = checked.ids - checked.first_id
            stored, names = stored.take(pa.array(rows, pa.int64())), names[rows]
            counted = None if counted is None else counted.take(pa.array(rows, pa.int64()))
        codes = None if checked.groups is None else checked.groups.codes
        batch = KeyBatch(
            stored,
            checked.scores if valued else np.empty(0),
            checked.positions,
            names,
            codes,
            counted,
            self._has_deletes or self._deletes_keys,
        )
        if len(stored):
            self._feed(WHOLE, batch._replace(groups=None))
            if codes is not None:
                self._feed_groups(batch)
        if self._intake.axis == "count":
            for _, lane in self._lanes():
                self._collect(lane.advance(lane.objects, 1, 0))
        else:
            self._move_time()

    def _feed_groups(self, batch: KeyBatch) -> None:
        if self._intake.axis == "time":
            self._feed(ALL_GROUPS, batch)
            return
        if not self._grouped_places():
            return
        # Each group counts its own rows, so each group has separate panes.
        codes: Any = batch.groups
        order, begins = rows_by_group(codes, int(codes.max()) + 1)
        keys = batch.keys.take(pa.array(order))
        values = batch.values[order] if batch.values.size else batch.values
        items = None if batch.items is None else batch.items.take(pa.array(order))
        for code in np.flatnonzero(np.diff(begins)).tolist():
            mine = slice(begins[code], begins[code + 1])
            counted = None if items is None else items[mine]
            ids = batch.ids[order[mine]]
            self._feed(code, KeyBatch(keys[mine], values[mine], batch.positions, ids, None, counted, batch.deletes))

    def _feed(self, name: int, batch: KeyBatch) -> None:
        first = 0 if self._intake.axis == "count" or self._intake.first is None else self._intake.first
        for cohort in self._cohorts:
            if name in cohort.lanes or cohort.members(name, self._all_grouped):
                self._collect(cohort.lane(name, self._all_grouped).take_in(batch, self._groups(name), first))

    def _move_time(self) -> None:
        if self._intake.newest is not None:
            self._end(self._intake.newest)

    def _end(self, beyond: int) -> None:
        first = self._intake.first or 0
        for name, lane in self._lanes():
            self._collect(lane.advance(beyond, self._groups(name), first))

    def _groups(self, name: int) -> int:
        """Number of groups in a lane."""
        return self._intake.groups.codes if name == ALL_GROUPS and self._intake.groups is not None else 1

    def _lanes(self) -> Iterator[tuple[int, AggregateExecutor]]:
        for cohort in self._cohorts:
            yield from cohort.lanes.items()

    def _begin(self, queries: Iterable[AggregateTopK], since: int) -> None:
        """Start a cohort of queries that answer windows beginning at or after `since`, for each kind of partials."""
        for places in places_by(_partials_of, mine := tuple(queries)).values():
            self._cohorts.append(Cohort([mine[place] for place in places], [since] * len(places)))
        self._settle_cohorts()

    def _settle_cohorts(self) -> None:
        self._cohorts = [cohort for cohort in self._cohorts if not cohort.is_empty]
        for cohort in self._cohorts:
            cohort.settle([query.name for query in self.queries])
        self._limits_keys = any(query.max_keys is not None for query in self.queries)
        self._deletes_keys = any(query.delete is not None for query in self.queries)

    def _add(self, query: AggregateTopK, after: Workload[AggregateTopK]) -> None:
        newest = self._intake.newest
        since = ALWAYS if newest is None else newest + 1
        refuse_past_landmark(query, since)
        self._put_aside()
        self._workload = after
        self._begin([query], since)
        if newest is not None and query.window_kind != "session":  # each group has its own sessions
            self._valid_from[query.name] = query.window.first_end_from(since)

    def _remove(self, name: str, after: Workload[AggregateTopK]) -> None:
        self._put_aside()
        for cohort in self._cohorts:
            cohort.remove(name)
        self._workload = after
        self._settle_cohorts()

    def _grouped_places(self) -> tuple[int, ...]:
        """Workload indices of the queries that answer per group."""
        return tuple(place for place, query in enumerate(self.queries) if self._all_grouped or query.partition_by)

    def _collect(self, answered: list[KeyedAnswers]) -> None:
        if self._finished and self._intake.newest is not None and not all_sliding(self.queries):
            ends = last_ends(self.queries, self._intake.newest)
            answered = [ended_by(part, ends) for part in answered]
        self._windows += sum(part.windows.ends.size for part in answered)
        self._pending += answered

    def _forget_groups(self) -> int:
        """Drop groups without keys and without pending answers. Return the number of groups left.

        On a count axis all groups are retained, because windows depend on the sequence numbers of their rows.
        """
        groups = self._intake.groups
        if groups is None:
            return 0
        if self._intake.axis == "time":
            used = np.zeros(groups.codes, bool)
            for name, lane in self._lanes():
                if name == ALL_GROUPS:
                    used[lane.groups] = True
            for part in self._pending:
                used[part.windows.groups[part.windows.groups >= 0]] = True
            groups.forget(used)
        return len(groups)

    def _reject_missing_values(self, values: Any) -> None:
        for query in self.queries:
            needy = [name for name in query.aggregates if AGGREGATES[name].needs_values]
            if values is None and needy:
                field = f"aggregate={query.aggregate!r}" if needy[0] == query.aggregate else f"having={query.having!r}"
                raise InvalidInputError(
                    f"values=None, but query {query.name!r} has {field}, which needs values. "
                    "Pass values=; only aggregate='count' works without them. This batch was rejected."
                )

    def _reject_misplaced_deletes(self, deletes: Any) -> None:
        for query in self.queries:
            if deletes is None and query.delete is not None:
                raise InvalidInputError(
                    f"deletes= is missing: query {query.name!r} has delete={query.delete!r}. Pass one Boolean per row "
                    "as deletes=. This push was rejected."
                )
            if deletes is not None and not query.takes_deletes:
                other = next(name for name in query.aggregates if name != "latest")
                raise InvalidInputError(
                    f"deletes= was given, but query {query.name!r} uses the {other} of a key, and a delete has no "
                    "value. Use deletes= with aggregate='latest' only. This push was rejected."
                )


def _numbers(values: Any, keys: Any) -> Floats:
    """Return values as numbers; an error names the key of the first one that is not a number."""
    try:
        return score_column(values, "values")
    except InvalidInputError as error:
        said, rejected = str(error).rstrip("."), "this push was rejected"
        end = "" if rejected in said.lower() else f" T{rejected[1:]}."
        raise InvalidInputError(f"{said}.{wrong_value(values, keys)}{end}") from error


def _with_deletes(checked: Checked, deleted: Any) -> Checked:
    """Return the rows with NaN as the value of deletes."""
    kept = checked.ids - checked.first_id if checked.scores.size < checked.rows else slice(None)
    return checked._replace(scores=np.where(deleted[kept], np.nan, checked.scores))


def _partials_of(query: AggregateTopK) -> Any:
    """What partials contain that are not those of other queries: items, counters, decaying rows, rows of sessions."""
    if isinstance(query.window, SessionWindows):
        return query.items, query.window
    return query.scan_key()[1] if query.sketched else (query.items, query.decay)


def _optional(queries: Sequence[AggregateTopK]) -> list[str]:
    """Return the optional columns that queries request."""
    sketched = any(query.sketched for query in queries)
    found = {
        "id": any(query.row for query in queries),
        "share": any(query.share for query in queries),
        "error": sketched,
        "guaranteed": sketched,
    }
    return [name for name, is_wanted in found.items() if is_wanted]


def _described(parts: pa.Schema) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in parts)


def _concatenated(pending: list[KeyedAnswers], empty: pa.Table) -> tuple[RankedWindows, pa.Table]:
    """Concatenate pending answers: the windows and the table of their rows, `empty` if there are no rows."""
    stored = [part.rows for part in pending if part.rows.num_rows]  # empty columns may have any type
    rows = pa.concat_tables(stored, promote_options="default").combine_chunks() if stored else empty
    return joined([part.windows for part in pending]), rows


def replay(
    queries: AggregateTopK | Iterable[AggregateTopK] | Workload[AggregateTopK],
    positions: Any,
    keys: Any = None,
    values: Any = None,
    *,
    ids: Any = None,
    groups: Any = None,
    deletes: Any = None,
    time: str | None = None,
    id: str | None = None,  # noqa: A002 - the name that Spark's calls have for it
) -> Any:
    """Return all answers over a stream that is in memory.

    The arguments are those of `Monitor.push`. The table has the columns ``query, [group,] window_start, window_end,
    rank, key, [id,] score[, share]``, sorted by window end, query in workload order, group and rank. For a data frame
    instead of arrays, `time` and `id` name the columns with the event time and the id, as in `skyband.replay`.

    >>> import skyband as sb
    >>> clicks = sb.AggregateTopK(k=2, size="1 minute", slide="30 seconds", aggregate="count")
    >>> table = sb.aggregate.replay(clicks, [5_000_000, 20_000_000, 50_000_000], ["shoe", "hat", "hat"])
    >>> table.select(["window_end", "rank", "key", "score"]).slice(2).to_pylist()[0]
    {'window_end': 60000000, 'rank': 1, 'key': 'hat', 'score': 2.0}
    """
    arrays = {"keys": keys, "values": values, "ids": ids, "groups": groups, "deletes": deletes}
    found = replayed(queries, positions, arrays, time=time, id_=id)
    if found is None:
        found = Monitor(queries)._replayed(positions, keys, values, ids=ids, groups=groups, deletes=deletes)
    return found


def _with_ranks_of_others(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return answers where the row of all other keys does not share a rank: the number of keys before it, plus one."""
    others = np.logical_and.reduce([one(table[name]).is_null().to_numpy(zero_copy_only=False) for name in keys])
    owners = [name for name in ("query", "window_start", "window_end", "group") if name in table.column_names]
    places = np.arange(table.num_rows)
    begins = places == 0
    for name in owners:
        codes = one(table[name]).dictionary_encode(null_encoding="encode").indices.to_numpy()
        begins[1:] |= codes[1:] != codes[:-1]
    begun = np.maximum.accumulate(np.where(begins, places, 0))
    ranks = np.where(others, places - begun + 1, table["rank"].to_numpy())
    at = table.column_names.index("rank")
    return table.set_column(at, table.schema.field("rank"), pa.array(ranks))
