"""A workload over Arrow tables in this process: rows are projected and reduced, shards answer, answers are merged.

The stations are those of a pipeline on Spark, so the answers are the same, row for row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from skyband.data.arrow import least, taken
from skyband.kernels.stream import Ints
from skyband.local.arrow_source import ArrowColumn, ArrowSource
from skyband.queries.answer_schema import CHANGE_COLUMNS, OLD_SCORE
from skyband.queries.families import FAMILIES, Family, refuse_unsupported
from skyband.queries.workload import Workload
from skyband.sharding.bounded_input import cut_by_time, step_in_order
from skyband.sharding.envelope import Envelope
from skyband.sharding.late_shard import resumed_shard, stream_shard
from skyband.sharding.pipeline import BoundedRows, ShardPipeline
from skyband.sharding.projection import WHOLE, Projection, ProjectionRequest
from skyband.sharding.reported_answers import wanted_rows, windows_in
from skyband.sharding.shard import MemorySegments, Segments, Shard, Tally, shard_type
from skyband.windows import ALWAYS, NEVER

__all__ = ["ANSWER_KINDS", "Counts", "DeleteCounts", "LocalPlan", "TableRows", "plan_for", "refuse_unsupported_frames"]

ANSWER_KINDS = {"text": pa.string(), "rank": pa.int64(), "number": pa.float64(), "flag": pa.bool_(), WHOLE: pa.int64()}


@dataclass
class Counts:
    """What happened to the rows."""

    rows: int = 0
    dropped_null: int = 0
    pruned: int = 0
    late: int = 0
    windows: int = 0
    over_limit: int = 0
    unrankable: int = 0

    def add_envelope(self, envelope: Envelope) -> None:
        """Add the rows that a reducer has read."""
        self.rows += envelope.taken
        self.dropped_null += envelope.dropped_null
        self.pruned += envelope.pruned

    def add_step(self, tally: Tally, *, with_windows: bool = True) -> None:
        """Add what a step of a shard has done. Windows whose answers are merged are counted by the merge."""
        self.late += tally.late
        self.windows += tally.windows if with_windows else 0
        self.over_limit += tally.over_limit
        self.unrankable += tally.unrankable


@dataclass
class LateCounts(Counts):
    """Counts of a stream with an allowed lateness."""

    late_used: int = 0

    def add_step(self, tally: Tally, *, with_windows: bool = True) -> None:
        """Add what a step of a shard has done, and the late rows that it used."""
        super().add_step(tally, with_windows=with_windows)
        self.late_used += tally.late_used


@dataclass
class DeleteCounts(Counts):
    """Counts of a stream whose rows can delete their keys."""

    unknown_deletes: int = 0

    def add_step(self, tally: Tally, *, with_windows: bool = True) -> None:
        """Add what a step of a shard has done, and the deletes of keys without a value."""
        super().add_step(tally, with_windows=with_windows)
        self.unknown_deletes += tally.unknown_deletes


@dataclass(frozen=True, eq=False)
class LocalPlan:
    """A workload that fits the columns of a stream."""

    family: Family
    columns: Mapping[str, ArrowColumn]
    plan: Any  # a ShardPlan
    kinds: pa.Schema  # of answers, as tasks name the columns
    names: tuple[str, ...]  # of answers, as users name them
    types: Mapping[str, str]  # of the columns that a stored state depends on
    read: frozenset[str] = frozenset()  # the columns of the stream that are needed
    passed_on: frozenset[str] = frozenset()  # those of them that are not computed with

    @property
    def pipeline(self) -> ShardPipeline:
        """The family's stations."""
        found: ShardPipeline = self.family.part("pipeline").PIPELINE
        return found

    @property
    def texts(self) -> frozenset[str]:
        """The columns of text that the reducer only passes on, and may receive as dictionaries."""
        if not self.pipeline.takes_dictionaries:
            return frozenset()
        key = self.columns[self.plan.id].name  # ids are sorted
        return frozenset(
            column.name
            for column in self.columns.values()
            if column.name in self.passed_on and column.name != key and pa.types.is_string(column.kind)
        )

    @property
    def group_names(self) -> tuple[str, ...]:
        """The group columns of answers, as users name them."""
        users = dict(zip(self.kinds.names, self.names, strict=True))
        return tuple(users[name] for name in getattr(self.plan, "group_columns", ()))

    @property
    def unit_names(self) -> list[str]:
        """What each shard reads of a row: shards of two plans with equal names can take over each other's state."""
        plan = self.plan
        scans = plan.scan_names if plan.has_shards_by_scan else [()]
        return [repr((*scan, shard)) for scan in scans for shard in range(plan.shards)]

    def counts(self) -> Counts:
        """Return new counts for a stream."""
        if self.plan.counts_deletes:
            return DeleteCounts()
        return LateCounts() if self.plan.emission.lateness else Counts()

    def empty(self) -> pa.Table:
        """Return a table of answers without rows."""
        return self.kinds.empty_table().rename_columns(list(self.names))

    def project(self, table: pa.Table, names: Sequence[str] | None = None) -> pa.Table:
        """Compute what the reducer reads from each row, or the columns with these names."""
        wanted = list(self.columns) if names is None else list(names)
        return pa.Table.from_arrays([self.columns[name].compute(table) for name in wanted], names=wanted)

    def reads(self, names: Iterable[str]) -> frozenset[str]:
        """Return the columns of the stream from which these columns are computed."""
        return frozenset().union(*(self.columns[name].reads for name in names))

    @property
    def has_whole(self) -> bool:
        """Whether the family answers all windows of bounded rows in one pass."""
        return self.pipeline.whole is not None and bool(self.plan.has_whole)

    def whole(self, rows: BoundedRows) -> pa.Table:
        """Answer every window of bounded rows in one pass, if `has_whole`."""
        if self.pipeline.whole is None:
            raise TypeError(f"queries of family {self.family.name!r} have no pass over bounded rows.")
        return self.pipeline.whole(self.plan, rows, self.kinds).rename_columns(list(self.names))

    def envelopes(
        self, projected: Iterable[pa.Table], counts: Counts, *, drop_unmatched: bool = False, timely: int = NEVER
    ) -> Iterator[Envelope]:
        """Reduce the rows that `project` returned; return what the shards receive.

        Rows that no query can use move time forward in a stream, unless the caller drops them and knows the time. From
        the position `timely` on no row is late.
        """
        matching = self.pipeline.matching if drop_unmatched else None
        rows = projected if matching is None else (matching(self.plan, table) for table in projected)
        batches = (batch for table in rows for batch in table.to_batches())
        for envelope in self.pipeline.reduce(self.plan, batches, timely):
            counts.add_envelope(envelope)
            yield envelope

    def shard(self, number: int) -> Shard:
        """Return a new shard."""
        return shard_type(self.plan, number)(self.plan, number)

    def resumed(
        self,
        stored: Mapping[str, tuple[bytes, Segments]],
        newest: int,
        segments_of_new: Callable[[], Segments] = MemorySegments,
        past: Iterable[str] = (),
    ) -> list[Shard]:
        """Return the shards with the states that were `stored` under their names, of this plan or of an earlier one.

        A shard without a state has new queries. They are answered from the first window after the `newest` row, unless
        they are in `past`: what they lack is then read before the next step.
        """
        known = frozenset(past)
        found = []
        for number, name in enumerate(self.unit_names):
            if name in stored:
                blob, segments = stored[name]
                found.append(resumed_shard(self.plan, number, blob, segments, known))
                continue
            shard = stream_shard(self.plan, number, segments_of_new())
            shard.past = known
            if stored:
                shard.newest, shard.joining = newest, self._names_of(number)
            found.append(shard)
        return found

    def _names_of(self, number: int) -> list[str]:
        """Return the names of the queries that a shard answers."""
        plan, queries = self.plan, self.plan.queries
        if plan.has_shards_by_scan:
            queries = [queries[place] for place in plan.scans[number // plan.shards].places]
        return [query.name for query in queries]

    def bounded(self, projected: Iterable[pa.Table], counts: Counts) -> Iterator[pa.Table]:
        """Answer every window of a bounded input. No row is late, whatever the order of rows and tables."""
        arrived: dict[int, list[Envelope]] = {number: [] for number in range(self.plan.units)}
        positions = self.pipeline.positions
        for envelope in self.envelopes(projected, counts, drop_unmatched=True):
            for part in cut_by_time(envelope, lambda table: positions(self.plan, table)):
                arrived[part.shard].append(part)
        yield from self.merged(self._answered(arrived, counts), counts)

    def merged(self, answers: Iterable[tuple[int, int, pa.Table]], counts: Counts | None = None) -> Iterator[pa.Table]:
        """Merge the answers of all shards, with the columns that users see.

        Windows of families whose answers are merged are counted here; the shards of others count them.
        """
        for table in self.pipeline.merge(self.plan, answers, self.kinds):
            if counts is not None and self.plan.compares_merged:
                counts.windows += windows_in(self.plan, [table])
            yield wanted_rows(self.plan, table).rename_columns(list(self.names))

    def _answered(self, arrived: Mapping[int, list[Envelope]], counts: Counts) -> Iterator[tuple[int, int, pa.Table]]:
        found: list[tuple[int, int, pa.Table]] = []
        for number, envelopes in arrived.items():
            envelopes.sort(key=lambda envelope: envelope.note.oldest)
            parts = ((envelope.rows, envelope.note) for envelope in envelopes)
            for tables, tally in step_in_order(parts, self.shard(number)):
                counts.add_step(tally, with_windows=not self.plan.compares_merged)
                found += [(number, self.first_end(table), table) for table in tables if table.num_rows]
        scans = getattr(self.plan, "shards", 1)
        found.sort(key=lambda answer: (answer[0] // scans, answer[1]))
        return iter(found)

    def first_end(self, table: pa.Table) -> int:
        """Return the end of the first window in a shard's table."""
        return least(table[self.pipeline.end]) or ALWAYS


@dataclass(frozen=True)
class TableRows:
    """The rows of a table in memory."""

    plan: LocalPlan
    table: pa.Table

    @property
    def size(self) -> int:
        """Number of rows."""
        return int(self.table.num_rows)

    def project(self, names: Sequence[str]) -> pa.Table:
        """Compute columns of the plan for all rows."""
        return self.plan.project(self.table, names)

    def project_rows(self, rows: Ints, names: Sequence[str]) -> pa.Table:
        """Compute columns of the plan for some rows."""
        needed = self.table.select(sorted(self.plan.reads(names)))
        return self.plan.project(taken(needed, rows), names)


def refuse_unsupported_frames(workload: Workload[Any], algorithm: str, *, by_name: bool = False) -> None:
    """Reject what queries of this family cannot do over data frames, according to the registry of families."""
    family = FAMILIES[workload.family]
    if by_name:
        refuse_unsupported(family, "frames by name", "a dict with a data frame for each stream")
    if algorithm != "auto":
        refuse_unsupported(family, "algorithm", f"algorithm={algorithm!r}")


def plan_for(
    schema: pa.Schema,
    request: ProjectionRequest,
    *,
    rank: pa.DataType | None = None,
    rows: pa.Table | None = None,
    **stream: Any,
) -> LocalPlan:
    """Check a workload against the columns of a stream, and settle how it is answered. Nothing runs yet.

    `rank` is the type of ranks in answers, by default a 64-bit integer. `rows` are known rows, of which error messages
    show one. `stream=` names the stream that all rows belong to, if each stream has a data frame.
    """
    family = FAMILIES[request.workload.family]
    part = family.part("projection")
    source = ArrowSource(schema, part.taken(request), rows)
    found: Projection = part.project(source, request, **stream)
    known = ANSWER_KINDS if rank is None else {**ANSWER_KINDS, "rank": rank}
    kinds = pa.schema([(name, known[kind] if isinstance(kind, str) else kind) for name, kind in found.fields])
    if found.plan.has_shards_by_scan:
        added = {column.name for column in (*CHANGE_COLUMNS, OLD_SCORE)}  # a restart may add or remove them
        added |= {column.name for column in found.plan.emission.columns}
        types = {name: str(kind) for name, kind in zip(kinds.names, kinds.types, strict=True) if name not in added}
    else:
        types = {name: str(found.columns[name].kind) for name in found.checked}
    read, passed_on = frozenset(source.read), frozenset(source.read - source.computed_with)
    return LocalPlan(family, found.columns, found.plan, kinds, found.names, types, read, passed_on)
