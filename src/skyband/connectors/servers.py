"""Sinks that are servers: made from a workload file's words, opened before the first answer, closed after the last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from skyband.connectors.row_identity import groups_of
from skyband.connectors.sinks import Wanted, parts_of
from skyband.durations import parse_duration
from skyband.errors import InvalidInputError
from skyband.queries import Query
from skyband.queries.workload import Workload
from skyband.sharding.output import Output
from skyband.workload_file import Sink

__all__ = ["Server", "ask_servers", "clear_servers", "open_servers", "server_for", "servers_among"]

_PATIENCE = "60 seconds"


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


def server_for(sink: Sink, stream: str, workload: Workload[Any]) -> Server:
    """The server that a sink of a workload file means, for the answers of a stream."""
    asked = _named(workload, sink.queries)
    retry = _seconds(sink.retry or _PATIENCE)
    if sink.type == "redis":
        from skyband.connectors.redis import SortedSets  # noqa: PLC0415 - not everybody has what it needs

        return SortedSets(
            asked,
            url=str(sink.url),
            options=sink.options,
            prefix=sink.prefix or "skyband",
            member=sink.member,
            by_rank=sink.sort == "rank",
            expire=None if sink.expire is None else _seconds(sink.expire),
            retry=retry,
        )
    from skyband.connectors.postgres import PostgresSink  # noqa: PLC0415

    return PostgresSink(
        str(sink.table).replace("{stream}", stream),
        groups_of(asked),
        url=sink.url,
        options=sink.options,
        newest=sink.history == "newest",
        retry=retry,
    )


def ask_servers(wanted: Sequence[Wanted], workload: Workload[Any]) -> None:
    """Tell the servers whose answers will come; the workload has been changed."""
    for one in wanted:
        if isinstance(one.outlet, Server):
            one.outlet.ask(_named(workload, one.queries))


def _named(workload: Workload[Any], names: Sequence[str] | None) -> list[Query]:
    return [query for query in workload if names is None or query.name in names]


def _seconds(text: str) -> float:
    return parse_duration(text, field="duration") / 1e6


def servers_among(wanted: Sequence[Wanted]) -> list[Server]:
    """Those of the outlets that are servers."""
    return [one.outlet for one in wanted if isinstance(one.outlet, Server)]


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
