"""Answers that tasks copy into a table of their micro-batch, from which the commit takes them.

The table is unlogged, and each attempt of a micro-batch has another one. Each copy has a token; the commit takes only
the tokens that successful tasks have returned, so repeated and failed tasks add nothing. A server that crashes empties
such tables, so the commit counts the rows that it takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple
from uuid import uuid4

import psycopg
import pyarrow as pa
from psycopg import sql

from skyband.connectors.postgres_table import Table, copied
from skyband.connectors.row_identity import with_places
from skyband.connectors.server import GivenUpError, Patience
from skyband.errors import PipelineError
from skyband.sharding.delivery import TaskFile

__all__ = ["Connecting", "TaskTable", "copy_part", "leftovers"]

_TOKEN = "skyband_token"


class Connecting(NamedTuple):
    """How tasks connect to the server."""

    where: str  # for messages, without secrets
    conninfo: str
    options: Mapping[str, Any]
    retry: float  # seconds

    def __repr__(self) -> str:
        return f"Connecting({self.where!r})"  # without secrets


class TaskTable(NamedTuple):
    """The table of an attempt of a micro-batch."""

    table: Table
    name: str

    @classmethod
    def of(cls, table: Table, key: str) -> TaskTable:
        """Return a new name for answers of the stream and sink `key`."""
        return cls(table, f"{prefix_of(key)}{uuid4().hex[:12]}")

    def create(self) -> sql.Composed:
        """Return the statement that creates the table."""
        columns = sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.Identifier(column.name), sql.SQL(column.type)) for column in self.table.columns
        )
        return sql.SQL("CREATE UNLOGGED TABLE {} ({} text NOT NULL, {})").format(
            self._identifier, sql.Identifier(_TOKEN), columns
        )

    def copy(self) -> sql.Composed:
        """Return the statement with which a task copies rows."""
        return sql.SQL("COPY {} ({}, {}) FROM STDIN (FORMAT csv)").format(
            self._identifier, sql.Identifier(_TOKEN), self._columns
        )

    def take(self) -> sql.Composed:
        """Return the statement that adds the rows of the bound tokens to the temporary table of the commit."""
        # Beside bound values, a percent sign in a name would be read as a value.
        names = sql.SQL(", ").join(sql.Identifier(column.name.replace("%", "%%")) for column in self.table.columns)
        return sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} WHERE {} = ANY(%s)").format(
            sql.Identifier("pg_temp", self.table.staging),
            names,
            names,
            sql.Identifier(*(part.replace("%", "%%") for part in self.table.parts[:-1]), self.name),
            sql.Identifier(_TOKEN),
        )

    @property
    def _identifier(self) -> sql.Identifier:
        return sql.Identifier(*self.table.parts[:-1], self.name)

    @property
    def _columns(self) -> sql.Composed:
        return sql.SQL(", ").join(sql.Identifier(column.name) for column in self.table.columns)


def prefix_of(key: str) -> str:
    """Return the beginning of the names of the tables of a stream and sink.

    >>> prefix_of("trades/answers")
    'skyband_tasks_a80c53d589_'
    """
    return f"skyband_tasks_{sha256(key.encode()).hexdigest()[:10]}_"


def leftovers(cursor: psycopg.Cursor[Any], key: str) -> list[sql.Composed]:
    """Return the statements that remove the tables of attempts that were not committed."""
    cursor.execute(
        "SELECT nspname, relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace "
        "WHERE starts_with(relname, %s) AND relkind = 'r' AND relpersistence = 'u' "
        "AND pg_has_role(relowner, 'USAGE')",
        [prefix_of(key)],
    )
    return [sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(*row)) for row in cursor.fetchall()]


def copy_part(
    rows: pa.Table, parts: TaskTable, connecting: Connecting, groups: Mapping[str, tuple[str, ...]]
) -> TaskFile:
    """Copy answers in one transaction, with a new token; called by tasks. An attempt that fails leaves nothing."""
    placed = with_places(rows, groups)
    patience = Patience(connecting.retry, connecting.where)

    def attempt() -> TaskFile:
        token = uuid4().hex
        marked = placed.add_column(0, _TOKEN, pa.repeat(pa.scalar(token), placed.num_rows))
        size = 0
        with (
            psycopg.connect(connecting.conninfo, prepare_threshold=None, **connecting.options) as connection,
            connection.cursor() as cursor,
            cursor.copy(parts.copy()) as copy,
        ):
            for piece in copied(marked):
                copy.write(piece)
                size += len(piece)
        return TaskFile(token, placed.num_rows, size)

    try:
        return patience.attempt(attempt, _transient)
    except (GivenUpError, psycopg.Error) as error:
        raise PipelineError(f"{connecting.where} cannot be written: {_line(error)}.") from None


def _transient(error: Exception) -> str | None:
    is_transient = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return _line(error) if is_transient else None


def _line(error: Exception) -> str:
    primary: Sequence[str] = str(error).splitlines() or [type(error).__name__]
    return primary[0].rstrip(".")
