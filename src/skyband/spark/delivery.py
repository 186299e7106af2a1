"""Answers handed to sinks, a micro-batch at a time; a batch that is run again replaces itself.

A sink is opened for a stream and gives an outlet. Answers are brought to this process once, and each outlet is given
the part that it wants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from skyband.errors import InvalidInputError
from skyband.queries import Query
from skyband.queries.answer_schema import moment_of
from skyband.queries.workload import Workload
from skyband.sharding.plan import Output

__all__ = [
    "Folder",
    "Opening",
    "Outlet",
    "Server",
    "Sink",
    "Wanted",
    "ask_servers",
    "clear_servers",
    "open_servers",
    "output_of",
    "parts_of",
    "queries_named",
    "servers_among",
    "write_to",
]


class Outlet(Protocol):
    """Something that takes answers."""

    def take(self, batch: int, rows: pa.Table) -> None:
        """Take the answers of a micro-batch; the same number again means the same answers again."""


class Wanted(NamedTuple):
    """An outlet and what it is to be given."""

    outlet: Outlet
    output: Output
    queries: Sequence[str] | None = None  # all


@runtime_checkable
class Folder(Protocol):
    """A place whose files belong to one run, and are told apart by stream and micro-batch."""

    folder: Path
    holds: str
    of_dead_letters: bool

    def files(self) -> list[Path]:
        """What the stream has written there."""

    def clear(self) -> None:
        """Remove that."""


@runtime_checkable
class Server(Protocol):
    """An outlet somewhere else, which may refuse, or be gone for a while."""

    def take(self, batch: int, rows: pa.Table) -> None:
        """Take the answers of a micro-batch; the same number again means the same answers again."""

    def reach(self) -> None:
        """See whether it is there and lets us in."""

    def prepare(self, rows: pa.Table) -> None:
        """Get ready for such rows, of which there need not be any."""

    def ask(self, queries: Sequence[Query]) -> None:
        """From here on, answers are those of these queries."""

    def holds_rows(self) -> bool:
        """Whether answers of these queries are there."""

    def clear(self) -> None:
        """Remove them."""

    def stop_waiting(self) -> None:
        """Make no further attempt where it is gone."""

    def close(self) -> None:
        """Leave it."""


class Opening(NamedTuple):
    """What a sink is opened for."""

    spark: SparkSession
    stream: str  # its name
    workload: Callable[[], Workload[Any]]  # the queries over it; what is asked may change while it runs

    def asked(self, names: Sequence[str] | None) -> list[Query]:
        """The queries of these names; None: all."""
        return queries_named(self.workload(), names)


@runtime_checkable
class Sink(Protocol):
    """Where answers are to go, as `skyband.sinks` and workload files say it."""

    @property
    def type(self) -> str:
        """What kind of sink it is."""

    @property
    def output(self) -> Literal["answers", "changes"]:
        """Whether it takes whole answers or what changed."""

    @property
    def queries(self) -> list[str] | None:
        """The queries whose answers it takes; None: all."""

    def open(self, opening: Opening) -> Outlet | None:
        """What takes the answers of a stream; None where the program that runs it shows them itself."""


def output_of(wanted: Sequence[Wanted]) -> Output:
    """What the pipeline must give to serve all outlets; answers, where there are none."""
    found = {one.output for one in wanted} or {"answers"}
    return "both" if len(found) > 1 else found.pop()


def write_to(wanted: Sequence[Wanted], workload: Workload[Any], output: Output) -> Callable[[DataFrame, int], None]:
    """What Spark is to call with each micro-batch of answers: they are brought here once, and handed to each outlet."""

    def take(frame: DataFrame, batch: int) -> None:
        for outlet, rows in parts_of(frame.toArrow(), wanted, workload, output):
            outlet.take(batch, rows)

    return take


def parts_of(
    rows: pa.Table, wanted: Sequence[Wanted], workload: Workload[Any], output: Output
) -> Iterator[tuple[Outlet, pa.Table]]:
    """What each outlet is given of the pipeline's rows."""
    places = {query.name: place for place, query in enumerate(workload)}
    groups = list(dict.fromkeys(name for query in workload for name in query.groups))
    rows = _whole(_in_order(rows, places), groups)
    for one in wanted:
        yield one.outlet, _part(rows, one, output)


def servers_among(wanted: Sequence[Wanted]) -> list[Server]:
    """Those of the outlets that are servers."""
    return [one.outlet for one in wanted if isinstance(one.outlet, Server)]


def ask_servers(wanted: Sequence[Wanted], workload: Workload[Any]) -> None:
    """Tell the servers whose answers will come; the workload has been changed."""
    for one in wanted:
        if isinstance(one.outlet, Server):
            one.outlet.ask(queries_named(workload, one.queries))


def open_servers(
    wanted: Sequence[Wanted],
    workload: Workload[Any],
    output: Output,
    answers: DataFrame,
    *,
    replace: bool = False,
    kept: bool = False,
) -> None:
    """Get the servers ready for answers like these, which are to `replace` what is there or not.

    Answers of a run whose state is `kept` are not replaced.
    """
    servers = servers_among(wanted)
    if not servers:
        return
    none_yet = to_arrow_schema(answers.schema, timezone="UTC").empty_table()
    for outlet, rows in parts_of(none_yet, wanted, workload, output):
        if isinstance(outlet, Server):
            outlet.prepare(rows)
    for server in servers if replace and kept else ():
        if server.holds_rows():
            raise InvalidInputError(
                f"{server} holds answers that belong to a run whose state is kept; answering once would replace them. "
                "Write elsewhere, go on with that run, or begin anew with --fresh (fresh=True), which removes both."
            )


def clear_servers(wanted: Sequence[Wanted]) -> None:
    """Remove the answers of an earlier run."""
    for server in servers_among(wanted):
        server.clear()


def queries_named(workload: Workload[Any], names: Sequence[str] | None) -> list[Query]:
    """The queries of these names; None: all."""
    return [query for query in workload if names is None or query.name in names]


def _part(rows: pa.Table, wanted: Wanted, output: Output) -> pa.Table:
    if wanted.queries is not None:
        rows = rows.filter(pc.is_in(rows["query"], pa.array(wanted.queries)))
    if output == "both" and wanted.output != "both":
        is_answer = pc.is_null(rows["change"])
        rows = rows.filter(is_answer if wanted.output == "answers" else pc.invert(is_answer))
        if wanted.output == "answers":
            rows = rows.drop_columns(["change", "old_rank"])
    return rows


def _whole(rows: pa.Table, groups: Sequence[str]) -> pa.Table:
    """Columns that groups are told by, with the row's own value where a query has no groups."""
    spelled = {name.lower(): name for name in rows.column_names}
    for group in groups:
        column, own = spelled.get(group.lower(), group), spelled.get(f"row_{group}".lower())
        if own is not None:
            place = rows.schema.get_field_index(column)
            rows = rows.set_column(place, column, pc.coalesce(rows[column], rows[own])).drop_columns([own])
    return rows


def _in_order(rows: pa.Table, places: dict[str, int]) -> pa.Table:
    """By when they were final, query in workload order, and as they came: a group's rows are together and ranked."""
    place = pc.index_in(rows["query"], pa.array(list(places)))
    order = pc.sort_indices(
        pa.table({"end": rows[moment_of(rows.column_names)], "place": place, "row": pa.array(range(rows.num_rows))}),
        [("end", "ascending"), ("place", "ascending"), ("row", "ascending")],
    )
    return rows.take(order)
