"""Delivery of answers to sinks, one micro-batch at a time. A repeated micro-batch replaces its previous output.

Opening a sink for a stream returns an outlet. Each outlet receives its part of the answers as an Arrow table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import InvalidInputError, SnapshotError
from skyband.queries import Query
from skyband.queries.answer_schema import OLD_SCORE, moment_of
from skyband.queries.workload import Workload
from skyband.sharding.plan import Output

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "Folder",
    "Opening",
    "Outlet",
    "Server",
    "Sink",
    "TaskFile",
    "Wanted",
    "WrittenByTasks",
    "ask_servers",
    "check_servers",
    "clear_servers",
    "has_old_scores",
    "output_of",
    "parts_of",
    "prepare_servers",
    "queries_named",
    "refuse_newer_batches",
    "servers_among",
]


_NUMBER = re.compile(r"-(\d{8,})(?:\.\w+)?$")


class Outlet(Protocol):
    """A writer of answers."""

    def take(self, batch: int, rows: pa.Table) -> None:
        """Write the answers of a micro-batch. The same batch number again means that the batch is repeated."""


class Wanted(NamedTuple):
    """An outlet and the part of the answers that it receives."""

    outlet: Outlet
    output: Output
    queries: Sequence[str] | None = None  # None: all
    old_scores: bool = False  # whether changes have the score in the previous window

    @classmethod
    def of(cls, sink: Sink, outlet: Outlet) -> Wanted:
        """Return the outlet of a sink with what the sink receives."""
        return cls(outlet, sink.output, sink.queries, getattr(sink, "reads_old_scores", False))


@runtime_checkable
class Folder(Protocol):
    """An output folder of one run, with files named by stream and micro-batch."""

    folder: Path
    holds: str
    of_dead_letters: bool
    first: int  # the number of the first micro-batch

    def files(self) -> list[Path]:
        """Return the files that the stream has written."""

    def clear(self) -> None:
        """Remove the files that the stream has written."""


@runtime_checkable
class Server(Protocol):
    """An outlet that writes to a server, which may be unavailable or reject connections."""

    def take(self, batch: int, rows: pa.Table) -> None:
        """Write the answers of a micro-batch. The same batch number again means that the batch is repeated."""

    def reach(self) -> None:
        """Connect to the server."""

    def check(self, rows: pa.Table) -> None:
        """Check that rows of this schema can be written; `rows` can be empty. Changes nothing."""

    def prepare(self, rows: pa.Table) -> None:
        """Prepare for rows of this schema; `rows` can be empty."""

    def ask(self, queries: Sequence[Query]) -> None:
        """Set the queries whose answers follow."""

    def holds_rows(self) -> bool:
        """Whether the server stores answers of these queries."""

    def clear(self) -> None:
        """Remove the answers of these queries."""

    def stop_waiting(self) -> None:
        """Stop retrying."""

    def close(self) -> None:
        """Close the connection."""


class TaskFile(NamedTuple):
    """A file that a task has written."""

    path: str
    rows: int
    bytes: int


@runtime_checkable
class WrittenByTasks(Protocol):
    """An outlet whose files tasks can write, so that large answers do not pass through the driver process."""

    by_tasks: bool  # whether they do

    def take(self, batch: int, rows: pa.Table) -> None:
        """Write the answers of a micro-batch. The same batch number again means that the batch is repeated."""

    def task_writer(self) -> Callable[[pa.Table], TaskFile]:
        """Return the function with which tasks write answers to a file."""

    def take_files(self, batch: int, files: Sequence[TaskFile], rest: pa.Table | None) -> None:
        """Make the files of a micro-batch and the `rest` of its answers visible, at once."""


class Opening(NamedTuple):
    """The stream that a sink is opened for."""

    spark: SparkSession | None  # None in a local run
    stream: str  # its name
    workload: Callable[[], Workload[Any]]  # returns the queries, which can change while the stream runs
    checkpoint: str | None = None  # the stream's folder for state, if it has one on this machine

    def queries(self, names: Sequence[str] | None) -> list[Query]:
        """Return the queries with these names; None: all."""
        return queries_named(self.workload(), names)


@runtime_checkable
class Sink(Protocol):
    """A destination of answers, from `skyband.sinks` or a workload file."""

    @property
    def type(self) -> str:
        """The type of the sink."""

    @property
    def output(self) -> Literal["answers", "changes"]:
        """Whether it receives whole answers or changes."""

    @property
    def queries(self) -> list[str] | None:
        """The queries whose answers it receives; None: all."""

    def open(self, opening: Opening) -> Outlet | None:
        """Return the outlet for the answers of a stream; None if the running program displays them itself."""


def output_of(wanted: Sequence[Wanted]) -> Output:
    """Return the output that the pipeline must produce for all outlets; answers if there are none."""
    found = {one.output for one in wanted} or {"answers"}
    return "both" if len(found) > 1 else found.pop()


def has_old_scores(wanted: Sequence[Wanted]) -> bool:
    """Return whether the pipeline must produce the scores of the previous window."""
    return any(one.old_scores for one in wanted)


def parts_of(
    rows: pa.Table, wanted: Sequence[Wanted], workload: Workload[Any], output: Output
) -> Iterator[tuple[Outlet, pa.Table]]:
    """Yield each outlet and its part of the rows."""
    places = {query.name: place for place, query in enumerate(workload)}
    rows = _in_order(rows, places)
    for one in wanted:
        yield one.outlet, _part(rows, one, output)


def servers_among(wanted: Sequence[Wanted]) -> list[Server]:
    """Return the outlets that are servers."""
    return [one.outlet for one in wanted if isinstance(one.outlet, Server)]


def ask_servers(wanted: Sequence[Wanted], workload: Workload[Any]) -> None:
    """Pass the changed workload to the servers."""
    for one in wanted:
        if isinstance(one.outlet, Server):
            one.outlet.ask(queries_named(workload, one.queries))


def check_servers(wanted: Sequence[Wanted], workload: Workload[Any], output: Output, empty: pa.Table) -> None:
    """Check that all servers can write answers with the columns of `empty`. Changes nothing."""
    for outlet, rows in parts_of(empty, wanted, workload, output):
        if isinstance(outlet, Server):
            outlet.check(rows)


def prepare_servers(
    wanted: Sequence[Wanted],
    workload: Workload[Any],
    output: Output,
    empty: pa.Table,
    *,
    replace: bool = False,
    kept: bool = False,
) -> None:
    """Prepare the servers for answers with the columns of `empty`. `replace`: they will replace stored answers.

    Raises InvalidInputError if stored answers belong to a run whose state is `kept`.
    """
    for outlet, rows in parts_of(empty, wanted, workload, output):
        if isinstance(outlet, Server):
            outlet.prepare(rows)
    for server in servers_among(wanted) if replace and kept else ():
        if server.holds_rows():
            raise InvalidInputError(
                f"{server} contains answers of a run whose state is stored; this batch run would replace them. Write "
                "to another place, resume that run, or use --fresh (fresh=True), which removes its answers and state."
            )


def clear_servers(wanted: Sequence[Wanted]) -> None:
    """Remove the answers of an earlier run."""
    for server in servers_among(wanted):
        server.clear()


def refuse_newer_batches(
    folders: Sequence[Folder], stream: str, checkpoint: str, last_batch: Callable[[Folder], int]
) -> None:
    """Reject a checkpoint that is older than the files in an output folder.

    A micro-batch is planned in the checkpoint before its file is written. Whenever a run is killed, no file has a
    larger number than the last planned batch. A file with a larger number was written after the checkpoint was copied.
    Resuming would answer its windows again, in files with other numbers, and duplicate the answers. The files are not
    removed here, because the input rows of those answers may no longer exist.
    """
    for folder in folders:
        newest = max((_number(path) for path in folder.files()), default=-1)
        if newest < 0:
            continue
        last = last_batch(folder)
        if newest > last:
            ends = f"ends with batch {last}" if last >= 0 else "has no batches"
            raise SnapshotError(
                f"{str(folder.folder)!r} contains {folder.holds} of stream {stream!r} up to batch {newest}, but the "
                f"checkpoint {checkpoint!r} {ends}, so it is an older copy of the state. Resuming would write "
                f"{folder.holds} of batches {last + 1} to {newest} twice, so the stream was not started. Restore the "
                f"newer checkpoint; or remove the files of this stream with numbers above {last:08} (they are written "
                "again if their input can still be read); or start without state: with --fresh (fresh=True), or in "
                "other folders."
            )


def _number(path: Path) -> int:
    found = _NUMBER.search(path.name)
    return -1 if found is None else int(found[1])


def queries_named(workload: Workload[Any], names: Sequence[str] | None) -> list[Query]:
    """Return the queries with these names; None: all."""
    return [query for query in workload if names is None or query.name in names]


def _part(rows: pa.Table, wanted: Wanted, output: Output) -> pa.Table:
    if wanted.queries is not None:
        rows = rows.filter(pc.is_in(rows["query"], pa.array(wanted.queries)))
    if output == "both" and wanted.output != "both":
        is_answer = pc.is_null(rows["change"])
        rows = rows.filter(is_answer if wanted.output == "answers" else pc.invert(is_answer))
        if wanted.output == "answers":
            rows = rows.drop_columns(["change", "old_rank"])
    if OLD_SCORE.name in rows.column_names and not wanted.old_scores:
        rows = rows.drop_columns([OLD_SCORE.name])
    return rows


def _in_order(rows: pa.Table, places: dict[str, int]) -> pa.Table:
    """Sort by window end, then by query in workload order; stable, so that a group's rows stay adjacent and ranked."""
    place = pc.index_in(rows["query"], pa.array(list(places))).to_numpy()
    end = rows[moment_of(rows.column_names)].to_numpy()
    earlier, same = end[:-1] < end[1:], end[:-1] == end[1:]
    if np.all(earlier | (same & (place[:-1] <= place[1:]))):  # usual for one shard: nothing is copied
        return rows
    return rows.take(pa.array(np.lexsort((place, end))))
