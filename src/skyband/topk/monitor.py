"""Continuous top-k queries over a stream in this process: arrays in, Arrow tables out."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from math import log
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from skyband.data.answer_log import RankedWindows, as_fields, chosen, joined
from skyband.data.answer_table import arrow_schema
from skyband.data.arrow import from_numpy
from skyband.data.id_dictionary import IdDictionary
from skyband.data.validation import NONE, Batch
from skyband.data.window_bounds import all_sliding, last_ends, starts_of
from skyband.data.window_table import WindowQueries, window_table
from skyband.errors import InvalidInputError, UnsupportedError
from skyband.kernels.stream import Ints
from skyband.local.frames import refuse_missing_arrays
from skyband.local.replay import replayed
from skyband.monitor import MonitorBase
from skyband.queries.families import FAMILIES
from skyband.queries.windowed import refuse_past_landmark
from skyband.queries.workload import Workload
from skyband.snapshot import StateFormat
from skyband.topk.admission import SeenStream, first_exact_start
from skyband.topk.algorithm_selection import Seen, best_engine, depends_on_excess, most_excess, suits_long_pushes
from skyband.topk.algorithms import Engine, engine_named
from skyband.topk.candidate_estimate import SAMPLE, estimated_excess, has_no_trend, sampled_excess
from skyband.topk.group_executors import Arrivals, GroupExecutors
from skyband.topk.query import TopK, topk_from
from skyband.topk.sessions import is_session
from skyband.windows import ALWAYS, SlidingWindow

__all__ = ["Monitor", "replay"]

LONG_PUSH = 32_768  # rows
_SCHEMA = FAMILIES["topk"].answers


def _from_version_2(saved: dict[str, Any]) -> dict[str, Any]:
    from skyband.topk.earlier_states import from_version_2  # noqa: PLC0415 - loads kernels, for few snapshots

    return from_version_2(saved)


class Monitor(MonitorBase[TopK, RankedWindows]):
    """Answer continuous top-k queries over a stream of pushed rows, exactly and incrementally.

    Parameters
    ----------
    queries
        One query, several, or a `Workload`.
    algorithm
        ``"auto"`` or a name from `skyband.algorithms`. A single-query algorithm runs each query separately.
    computed
        True if the caller has already applied `where` and the expressions of the queries to the arrays. Otherwise a
        query with a filter or an expression is rejected.
    time
        The name of the column with the event time. The monitor then takes data frames (Arrow, pandas, polars, DuckDB,
        or a dict of columns) instead of arrays, evaluates the expressions of the queries over their columns, and
        returns `Answers`.
    id
        With `time`: the name of the column that breaks ties between rows of equal score and time. By default a hash of
        the row does.

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

    >>> monitor = sb.Monitor(sb.TopK(k=1, size="10 seconds", by="price * size", where="size > 1"), time="at")
    >>> monitor.push({"at": pa.array([1, 4, 10], pa.timestamp("s")), "price": [3.0, 9.0, 5.0], "size": [4, 1, 2]})
    >>> monitor.answers().select(["rank", "score", "price"]).to_pylist()
    [{'rank': 1, 'score': 12.0, 'price': 3.0}]
    """

    asks = TopK
    state_format = StateFormat(
        "topk monitor", [lambda saved: {**saved, "family": "topk", "computed": False}, _from_version_2]
    )

    def __init__(
        self,
        queries: TopK | Iterable[TopK] | Workload,
        algorithm: str = "auto",
        *,
        computed: bool = False,
        time: str | None = None,
        id: str | None = None,  # noqa: A002 - the name that Spark's calls have for it
    ) -> None:
        self._refuse_id_without_time(id)
        self._workload = self._checked(queries, computed)
        _refuse_rules(self._workload)
        super().__init__(self._workload.axis, computed=computed)
        self._auto = isinstance(algorithm, str) and algorithm == "auto"
        self._consider_at = 0  # number of objects after which `auto` reconsiders its choice
        self._all_grouped = False  # groups arrived although no query has partition_by: they apply to every query
        self._engine = engine_named("panes" if self._auto else algorithm)
        self._engine = self._suitable_engine(self._workload)
        self._ids: IdDictionary | None = None
        self._executors = GroupExecutors(self.queries, self._grouped(self.queries), self._engine)

    @property
    def algorithm(self) -> str:
        """The name of the algorithm that runs (``"auto"`` resolved)."""
        return self._engine.name

    @property
    def candidates(self) -> int:
        """Number of objects kept, over all queries and groups."""
        return self._executors.candidates + (len(self._ids) if self._ids else 0)

    def push(self, positions: Any, scores: Any = None, ids: Any = None, *, groups: Any = None) -> None:
        """Push the next rows of the stream. A rejected push changes nothing.

        Parameters
        ----------
        positions
            int64 microseconds or timestamps in ascending order; None for count windows.
        scores
            Numbers. A row with a null or NaN score is dropped.
        ids
            Ids of the rows, returned in answers and used to break ties. With None, rows are numbered from 0.
        groups
            One value per row. Each group has its own windows and its own top k. Null and NaN are one group.
        """
        self._refuse_after_end()
        refuse_missing_arrays(positions, scores=scores)
        self._refuse_missing_groups(groups)
        batch = self._intake.check(positions, scores, ids, groups)
        first_groups = batch.groups is not None and self._intake.groups is None
        before = self._reached()
        self._intake.adopt(batch)
        if first_groups and not self._grouped(self.queries):
            self._all_grouped = True
            self._engine = self._suitable_engine(self._workload)
            self._executors = GroupExecutors(self.queries, self._grouped(self.queries), self._engine)
        self._reconsider(batch, before)
        self._advance(self._arrivals(batch))

    @classmethod
    def _query(cls, fields: dict[str, Any]) -> TopK:
        return topk_from(fields)

    def _add(self, query: TopK, after: Workload) -> None:
        grouped = len(self.queries) in self._grouped(after.queries)
        if self._intake.rows and grouped and after.axis == "count" and not self._grouped(self.queries):
            raise InvalidInputError(
                f"{query.name!r} has count windows per group, but this monitor has not counted the rows of each group "
                "so far. Start a new monitor with this query."
            )
        start = self._first_exact_start(query, grouped)
        refuse_past_landmark(query, start)
        since = [*([ALWAYS] * len(self.queries)), start]
        self._change(after, since, {place: place for place in range(len(self.queries))})
        if start != ALWAYS and not is_session(query):  # each group has its own sessions
            self._valid_from[query.name] = query.window.first_end_from(start)

    def _remove(self, name: str, after: Workload) -> None:
        kept = [place for place, query in enumerate(self.queries) if query.name != name]
        self._change(after, [ALWAYS] * len(kept), dict(enumerate(kept)))

    def _counters(self) -> dict[str, Any]:
        return {"algorithm": self.algorithm, "groups": self._forget_groups(), **self._executors.counters()}

    def _state(self) -> dict[str, Any]:
        self._forget_groups()
        return {
            "algorithm": self.algorithm,
            "ids": None if self._ids is None else self._ids.state(),
            "pending": as_fields(joined(self._pending)),
            "all_grouped": self._all_grouped,
            "auto": self._auto,
            "consider_at": self._consider_at,
            "lanes": self._executors.state(),
        }

    @classmethod
    def _made(cls, queries: list[TopK], saved: dict[str, Any]) -> Self:
        return cls(queries, saved["algorithm"], computed=True)

    def _load(self, saved: dict[str, Any]) -> None:
        self._all_grouped = saved["all_grouped"]
        self._auto, self._consider_at = saved["auto"], saved["consider_at"]
        self._executors = GroupExecutors(self.queries, self._grouped(self.queries), self._engine)
        self._ids = None if saved["ids"] is None else IdDictionary.load(saved["ids"])
        self._pending = [RankedWindows(**saved["pending"])]
        self._executors.load(saved["lanes"], self._intake.newest)

    def _move_time(self) -> None:
        self._advance(self._arrivals(None))

    def _end(self, beyond: int) -> None:
        if self._intake.first is not None:
            self._move_time()
            self._executors.end(beyond, self._intake.first)
            self._collect(ended=not all_sliding(self.queries))

    def _grouped(self, queries: tuple[TopK, ...]) -> tuple[int, ...]:
        """Indexes of the queries that answer per group."""
        return tuple(place for place, query in enumerate(queries) if self._all_grouped or query.partition_by)

    def _table(self, pending: list[RankedWindows]) -> pa.Table:
        queries, groups, ids = self.queries, self._intake.groups, self._ids
        position = self._intake.position_kind
        own = {"window_start": position, "window_end": position, "id": None if ids is None else ids.kind}
        wanted = arrow_schema(_SCHEMA, own, group=None if groups is None else groups.kind or pa.null())
        asked = WindowQueries(
            names=[query.name for query in queries],
            sizes=[query.window.longest for query in queries],
            ascending=[query.order == "asc" for query in queries],
            tied=[query.ties == "rank" for query in queries],
            starts=None if all_sliding(queries) else partial(starts_of, queries),
        )

        def row_columns(numbers: Ints) -> dict[str, pa.Array]:
            return {"id": from_numpy(numbers, pa.int64()) if ids is None else ids.ids_of(numbers)}

        return window_table(pending, asked, wanted, groups, row_columns)

    def _first_exact_start(self, query: TopK, grouped: bool) -> int:
        """The smallest window start for which `query` is exact if it joins now."""
        if self._intake.first is None:
            return ALWAYS
        if self._intake.axis == "count":
            seen = self._intake.objects
            if grouped:
                return ALWAYS  # for new executors; existing ones use their group's own count
            stream = SeenStream(0, seen - 1, seen)
        else:
            newest = self._intake.newest
            stream = SeenStream(self._intake.first, self._intake.first if newest is None else newest, newest or 0)
        mine = [
            place
            for place, other in enumerate(self.queries)
            if other.order == query.order and (place in self._grouped(self.queries)) == grouped
        ]
        return first_exact_start(
            query, [self.queries[place] for place in mine], [self._executors.since[place] for place in mine], stream
        )

    def _suitable_engine(
        self, workload: Workload, excess: float | None = None, *, steady: bool = False
    ) -> type[Engine]:
        """Return the named engine, or the one that `auto` selects from the stream so far.

        `steady`: the next rows are one long push whose scores have no trend.
        """
        if not self._auto:
            return self._engine
        apart = not self._allows_sap(workload)
        seen = self._seen(workload)
        return engine_named(best_engine(workload.queries, seen, excess, grouped=apart, steady=steady))

    def _allows_sap(self, workload: Workload) -> bool:
        """Whether the groups and ids of the stream allow SAP."""
        # SAP keeps the whole window. For ids that are not integers, the dictionary would keep one id per object: too
        # many.
        return not self._grouped(workload.queries) and self._intake.id_kind in (None, pa.int64())

    def _seen(self, workload: Workload) -> Seen | None:
        """Return the objects of the longest window and slide; of time windows, once the stream is as long as one."""
        windows, first, newest = [query.window for query in workload], self._intake.first, self._intake.newest
        sliding = [window for window in windows if isinstance(window, SlidingWindow)]
        if len(sliding) < len(windows):
            return None
        size, slide = max(window.size for window in sliding), max(window.slide for window in sliding)
        if workload.axis == "count":
            return Seen(size, slide)
        if first is None or newest is None or newest - first < size:
            return None
        density = self._intake.objects / (newest - first)
        return Seen(density * size, density * slide)

    def _excess(self, batch: Batch, objects: int) -> float | None:
        """Estimate the number of candidates beyond k; None if it does not matter or no complete window can be seen.

        `objects` is the number of objects before this batch.
        """
        query, seen = max(self.queries, key=lambda query: query.k), self._seen(self._workload)
        if (
            len({query.order for query in self.queries}) > 1
            or seen is None
            or not self._allows_sap(self._workload)
            or not (depends_on_excess(self.queries, seen) or self._is_long(batch))
        ):
            return None
        size, k = max(1, round(seen.size)), query.k
        if batch.scores.size >= size:
            return estimated_excess(batch.scores, size, k, most_excess(query, seen), ascending=query.order == "asc")
        if objects < size:
            return None
        (engine,) = self._executors.engines
        sample = engine.window_sample(SAMPLE)
        if sample is None:
            # The k-skyband has more objects than the candidates: of a slide, only the k best are candidates.
            return engine.candidates - k + k * log(max(1.0, seen.slide / k))
        return min(most_excess(query, seen), sampled_excess(sample, engine.object_count, k))

    def _is_long(self, batch: Batch) -> bool:
        """Whether a push contains a window and many rows, and the query suits MinTopk's batches."""
        seen, rows = self._seen(self._workload), batch.scores.size
        return seen is not None and rows >= max(LONG_PUSH, seen.size) and suits_long_pushes(self.queries, seen)

    def _reconsider(self, batch: Batch, before: _Reached) -> None:
        """Let `auto` switch to another engine before it processes a batch; checked whenever the stream doubles.

        MinTopk is checked once per window: it becomes many times slower if scores begin to rise. If it was chosen for a
        long push, the next push is checked.
        """
        if not self._auto or self._intake.objects < self._consider_at:
            return
        self._consider_at = 2 * self._intake.objects
        steady = self._is_long(batch) and has_no_trend(batch.scores)
        engine = self._suitable_engine(self._workload, self._excess(batch, before.objects), steady=steady)
        if engine.name == "mintopk" and (seen := self._seen(self._workload)) is not None:
            self._consider_at = min(self._consider_at, self._intake.objects + (0 if steady else round(seen.size)))
        if engine is self._engine:
            return
        if before.objects:
            places = range(len(self.queries))
            self._change(self._workload, [ALWAYS] * len(places), {place: place for place in places}, engine, before)
        else:
            self._engine = engine
            self._executors = GroupExecutors(self.queries, self._grouped(self.queries), engine)

    def _reached(self) -> _Reached:
        """Return how far the engines have processed the stream; between pushes, this is all of it."""
        return _Reached(self._intake.newest or 0, self._intake.first or 0, self._intake.objects)

    def _change(
        self,
        workload: Workload,
        since: list[int],
        moved: dict[int, int],
        engine: type[Engine] | None = None,
        before: _Reached | None = None,
    ) -> None:
        """Switch to another workload or engine; `moved` maps the new indexes of queries that stay to their old indexes.

        `before` is the part of the stream that the engines have processed, if it is not all of it.
        """
        since = [self._executors.since[moved[place]] if place in moved else at for place, at in enumerate(since)]
        self._engine = engine or self._suitable_engine(workload)
        executors = self._executors.changed(
            self._engine,
            workload.queries,
            self._grouped(workload.queries),
            since,
            moved,
            *(before or self._reached()),
        )
        self._put_aside()
        if self._ids is not None:
            self._ids.k, self._ids.tied = max(query.k for query in workload), _any_ties(workload)
        self._executors, self._workload = executors, workload

    def _arrivals(self, batch: Batch | None) -> Arrivals:
        """Objects to process now: those of the batch, or, if ids are numbered first, those whose numbers are final."""
        kind = self._intake.id_kind
        if kind is None or kind == pa.int64():
            if batch is None:
                return Arrivals(np.empty(0), NONE, NONE, 0, NONE if self._intake.groups is not None else None)
            codes = None if batch.groups is None else batch.groups.codes
            return Arrivals(batch.scores, batch.positions, batch.ids, batch.first_id, codes)
        if self._ids is None:
            self._ids = IdDictionary(kind, max(query.k for query in self.queries), _any_ties(self.queries))
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
            return  # no row had a position yet
        self._executors.take_in(arrivals, 0 if newest is None else newest, first)
        self._collect()

    def _collect(self, *, ended: bool = False) -> None:
        """Collect the answers of the engines, and drop ids that are no longer referenced.

        If the stream has `ended`, windows that never close are answered only once more.
        """
        found = self._executors.answers()
        if ended and self._intake.newest is not None:
            last = last_ends(self.queries, self._intake.newest)
            found = [chosen(part, part.ends <= last[part.queries]) for part in found]
        self._windows += sum(part.ends.size for part in found)
        self._pending += found
        if self._ids is not None:
            self._ids.forget_all_but(
                np.concatenate([NONE, *self._executors.ids, *(part.ids for part in self._pending)])
            )
        if self._intake.groups is not None and self._intake.groups.has_grown:
            self._forget_groups()

    def _forget_groups(self) -> int:
        """Drop groups without kept objects and pending answers; return how many groups remain."""
        groups = self._intake.groups
        if groups is None:
            return 0
        used = self._executors.is_in_use(groups.codes)
        for part in self._pending:
            used[part.groups[part.groups >= 0]] = True
        if self._ids is not None:
            used[self._ids.groups] = True
        groups.forget(used)
        return len(groups)


def _refuse_rules(queries: Iterable[TopK]) -> None:
    for query in queries:
        if query.ranking_rule is not None:
            raise UnsupportedError(
                f"query {query.name!r} ranks {query.ranking_rule.described()}, which needs the columns of rows, but "
                "rows are given as arrays. Pass a data frame with time= instead."
            )


class _Reached(NamedTuple):
    """A part of the stream, from its beginning."""

    newest: int  # position
    first: int  # position
    objects: int


def _any_ties(queries: Iterable[TopK]) -> bool:
    return any(query.ties == "rank" for query in queries)


def replay(
    queries: TopK | Iterable[TopK] | Workload,
    positions: Any,
    scores: Any = None,
    ids: Any = None,
    algorithm: str = "auto",
    *,
    groups: Any = None,
    time: str | None = None,
    id: str | None = None,  # noqa: A002 - the name that Spark's calls have for it
) -> Any:
    """Return all answers of the queries over a bounded stream.

    With arrays, the columns are those of `Monitor.push`. The table has ``query, [group,] window_start, window_end,
    rank, id, score``, ordered by window end, query (in workload order), group and rank.

    With a data frame in place of the positions (Arrow, pandas, polars, DuckDB, or a dict of columns), the expressions
    of the queries are evaluated over its columns, and answers have the rows' own columns, as on Spark. `time` names the
    column with the event time. `id` names the column that breaks ties between rows of equal score and time; by default
    a hash of the row does. The queries may be of any family. The path of a Parquet file is read in place of a data
    frame: only the columns that are needed, and faster than into a data frame first.

    >>> import skyband as sb
    >>> query = sb.TopK(k=2, size="1 minute", slide="30 seconds")
    >>> table = sb.replay(query, [5_000_000, 20_000_000, 50_000_000], [3.0, 1.0, 2.0])
    >>> table.select(["window_end", "rank", "score"]).slice(2).to_pydict()
    {'window_end': [60000000, 60000000, 90000000], 'rank': [1, 2, 1], 'score': [3.0, 2.0, 2.0]}

    >>> import pyarrow as pa
    >>> trades = {"at": pa.array([1, 2, 9], pa.timestamp("s")), "price": [4.0, 8.0, 6.0], "size": [5, 1, 2]}
    >>> best = sb.TopK(k=1, size="5 seconds", by="price * size", where="size < 5")
    >>> sb.replay(best, trades, time="at").select(["rank", "score", "price", "size"]).to_pylist()
    [{'rank': 1, 'score': 8.0, 'price': 8.0, 'size': 1}, {'rank': 1, 'score': 12.0, 'price': 6.0, 'size': 2}]
    """
    arrays = {"scores": scores, "ids": ids, "groups": groups}
    found = replayed(queries, positions, arrays, time=time, id_=id, algorithm=algorithm)
    return Monitor(queries, algorithm)._replayed(positions, scores, ids, groups=groups) if found is None else found
