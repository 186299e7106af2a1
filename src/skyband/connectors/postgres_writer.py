"""Writes answers to a PostgreSQL table: one transaction per micro-batch, idempotent when a batch is repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from skyband.connectors.row_identity import groups_of, newest_answers, refuse_taken_names, with_places
from skyband.connectors.secrets import HIDDEN, secrets_of, shown_address
from skyband.connectors.server import GivenUpError, Patience
from skyband.errors import InvalidInputError, MissingDependencyError, PipelineError, SkybandError
from skyband.queries import Query
from skyband.sharding.delivery import TaskFile

try:
    import psycopg
    from psycopg import errors as pg
    from psycopg.conninfo import conninfo_to_dict
except ImportError as error:
    raise MissingDependencyError(
        f"a sink of type postgres needs psycopg ({error}). Install it with: pip install 'skyband[postgres]'"
    ) from None

from skyband.connectors.postgres_table import DatabaseColumn, Table, copied, table_for
from skyband.connectors.postgres_tasks import Connecting, TaskTable, copy_part, leftovers

__all__ = ["PostgresWriter"]

T = TypeVar("T")

_DEFAULTS: dict[str, Any] = {
    "application_name": "skyband",
    "connect_timeout": 10,
    # Detect a dead connection within a minute.
    "keepalives_idle": 20,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 40_000,
}
# Transient errors: restart, failover, lock conflicts, no space or connections left.
_TRANSIENT = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    pg.ReadOnlySqlTransaction,
    pg.IdleInTransactionSessionTimeout,
)
_PERMANENT = ("authentication failed", "pg_hba.conf", "does not exist", "certificate", "no password supplied")
# Force one index lookup per answer, independent of the table's size: the planner has no statistics of the copied batch.
# Disabled plans have a huge estimated cost, which would trigger half a second of JIT compilation.
_BY_INDEX = """
    SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
           set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true)
"""
_NEEDS = {
    "temporary": "TEMPORARY on the database",
    "schema": "USAGE on the schema, and CREATE if the table does not exist",
    "table": "SELECT, INSERT, UPDATE and DELETE on the table",
}


class PostgresWriter:
    """Writes answers to a table. Creates the table if it does not exist.

    The key of a row is its query, the end of its window, its group and its place in the answer. A micro-batch that is
    repeated after a crash replaces its own rows. An answer is always replaced completely.

    Parameters
    ----------
    table
        The name of the table, or schema.table.
    groups
        The group columns of each query, by its name.
    url, options
        The address of the server, for libpq; missing parts default to libpq's environment variables.
    newest
        Retain only the newest window of each query.
    retry
        How many seconds to retry while the server is unavailable.
    by_tasks
        Whether tasks copy large answers to the server.
    key
        Identifies the stream and the sink, so that tables of their tasks are found again.

    Examples
    --------
    >>> sink = PostgresWriter("answers", {"big": ()}, url="postgresql://me@db/sales")
    >>> sink.take(0, rows)  # doctest: +SKIP
    """

    def __init__(
        self,
        table: str,
        groups: Mapping[str, tuple[str, ...]],
        *,
        url: str | None = None,
        options: Mapping[str, Any] | None = None,
        newest: bool = False,
        retry: float = 60,
        by_tasks: bool = False,
        key: str = "",
    ) -> None:
        self.by_tasks = by_tasks
        self._key = key
        self._parts: TaskTable | None = None  # of the current micro-batch
        self._name = table
        self._groups = groups
        self._url, self._options = url or "", {name: str(value) for name, value in (options or {}).items()}
        self._newest = newest
        self._secrets = secrets_of(url, self._options)
        self._where = f"table {table!r} of {shown_address(url) if url else 'PostgreSQL'}"
        self._patience = Patience(retry, self._where)
        self._table: Table | None = None
        self._connection: psycopg.Connection[Any] | None = None

    def __str__(self) -> str:
        return self._where

    def reach(self) -> None:
        """Connect to the server, without retries: at startup, a failure is likely to be a wrong configuration."""
        self._once(self._connected)

    def check(self, rows: pa.Table) -> None:
        """Check that rows of this schema can be written, in a transaction that is rolled back."""
        table = self._table_for(rows)
        self._once(lambda: self._try_out(table))

    def prepare(self, rows: pa.Table) -> None:
        """Create the table for rows of this schema, or validate the existing table."""
        table = self._table_for(rows)
        self._once(lambda: self._make(table))
        self._table = table
        if self.by_tasks:
            self._once(self._sweep)

    @property
    def is_prepared(self) -> bool:
        """Whether the table exists and was validated."""
        return self._table is not None

    def ask(self, queries: Iterable[Query]) -> None:
        """Set the queries whose answers follow."""
        self._groups = groups_of(queries)

    def holds_rows(self) -> bool:
        """Whether the table has rows of these queries."""
        table = self._prepared()
        return bool(self._once(lambda: self._fetch(table.has_rows(), [list(self._groups)])[0][0]))

    def clear(self) -> None:
        """Remove the rows of these queries."""
        table = self._prepared()
        self._once(lambda: self._run([(table.clear(), [list(self._groups)])]))

    def take(self, batch: int, rows: pa.Table) -> None:
        """Write the answers of a micro-batch in one transaction."""
        if not rows.num_rows:
            return
        if self._table is None:
            self.prepare(rows)
        if self._newest:
            rows = newest_answers(rows, ["query"])
        placed = with_places(rows, self._groups)
        self._commit(lambda: self._write(placed))
        self._sweep_parts()

    def task_writer(self) -> Callable[[pa.Table], TaskFile]:
        """Create a table for the answers of a micro-batch; return the function with which tasks copy to it."""
        parts = self._parts = TaskTable.of(self._prepared(), self._key)

        def make() -> Connecting:
            self._sweep()
            connection = self._connected()
            with connection.cursor() as cursor:
                cursor.execute(parts.create())
            secret = {"password": connection.info.password} if connection.info.password else {}
            options = {**secret, **self._connection_options}
            return Connecting(self._where, self._url, options, self._patience.seconds)

        found: list[Connecting] = []
        self._commit(lambda: found.append(make()))
        return partial(copy_part, parts=parts, connecting=found[-1], groups=dict(self._groups))

    def take_files(self, batch: int, files: Sequence[TaskFile], rest: pa.Table | None) -> None:
        """Merge what tasks have copied and the `rest` of the answers of a micro-batch, in one transaction."""
        parts = self._parts
        if parts is None or not (files or (rest is not None and rest.num_rows)):
            self._sweep_parts()
            return
        placed = None if rest is None or not rest.num_rows else with_places(rest, self._groups)
        self._commit(lambda: self._write(placed, parts, files))
        self._sweep_parts()

    def _commit(self, work: Callable[[], None]) -> None:
        """Run a transaction, and retry it while the server is unavailable."""
        what_next = "The stream stopped; no answers are lost. Fix the problem and run it again."
        try:
            self._patience.attempt(work, self._transient_reason)
        except GivenUpError as error:
            raise PipelineError(
                f"{self._where} could not be written for {self._patience.seconds:g} seconds ({error}). {what_next}"
            ) from None
        except psycopg.Error as error:
            raise PipelineError(f"{self._where} cannot be written: {self._reason(error)}. {what_next}") from None

    def stop_waiting(self) -> None:
        """Stop retrying."""
        self._patience.end()

    def close(self) -> None:
        """Close the connection."""
        self._patience.end()
        self._disconnect()

    def _write(self, rows: pa.Table | None, parts: TaskTable | None = None, files: Sequence[TaskFile] = ()) -> None:
        table, connection = self._prepared(), self._connected()
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute(table.stage())
            if rows is not None:
                with cursor.copy(table.copy()) as copy:
                    for piece in copied(rows):
                        copy.write(piece)
            if parts is not None and files:
                self._take_parts(cursor, parts, files)
            cursor.execute(table.upsert())
            cursor.execute(_BY_INDEX)
            cursor.execute(table.cut())
            if self._newest:
                cursor.execute(table.forget(), [list(self._groups) if rows is None or files else _queries_in(rows)])

    def _take_parts(self, cursor: psycopg.Cursor[Any], parts: TaskTable, files: Sequence[TaskFile]) -> None:
        cursor.execute(parts.take(), [[file.path for file in files]])
        expected = sum(file.rows for file in files)
        if cursor.rowcount != expected:
            raise PipelineError(
                f"{self._where}: {cursor.rowcount} of {expected} rows that tasks have copied are left, because the "
                "server crashed in between. Nothing of the micro-batch was written. The stream stopped; no answers "
                "are lost. Run it again."
            )

    def _sweep_parts(self) -> None:
        """Remove the table of a micro-batch; if that fails, the next micro-batch does."""
        if self._parts is not None:
            self._parts = None
            with suppress(psycopg.Error):
                self._sweep()

    def _sweep(self) -> None:
        """Remove tables of micro-batches that were committed or given up."""
        connection = self._connected()
        with connection.cursor() as cursor:
            for statement in leftovers(cursor, self._key):
                with suppress(pg.LockNotAvailable, pg.InsufficientPrivilege), connection.transaction():
                    cursor.execute("SET LOCAL lock_timeout = '1s'")
                    cursor.execute(statement)

    def _table_for(self, rows: pa.Table) -> Table:
        self._reject_invalid_names(rows)
        return table_for(self._name, with_places(rows.slice(0, 0), self._groups).schema)

    def _try_out(self, table: Table) -> None:
        """Run the statements of a micro-batch without rows, and undo them: they need the same rights."""
        connection = self._connected()
        with connection.transaction(force_rollback=True), connection.cursor() as cursor:
            self._make_in(cursor, table)
            cursor.execute(table.stage())
            cursor.execute(table.upsert())
            cursor.execute(table.cut())
            cursor.execute(table.clear(), [[]])
            if self.by_tasks:
                cursor.execute(TaskTable.of(table, self._key).create())

    def _make(self, table: Table) -> None:
        connection = self._connected()
        with connection.transaction(), connection.cursor() as cursor:
            self._make_in(cursor, table)

    def _make_in(self, cursor: psycopg.Cursor[Any], table: Table) -> None:
        """Create or validate the table in the transaction of the cursor."""
        # Concurrent CREATE TABLE IF NOT EXISTS can fail, because it does not lock.
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 7919))", [table.quoted])
        cursor.execute("SELECT to_regclass(%s)::oid", [table.quoted])
        if _one(cursor)[0] is None:
            cursor.execute(table.create())
        cursor.execute(
            "SELECT attname, format_type(atttypid, atttypmod), attnotnull AND NOT atthasdef AND attidentity = '' "
            "FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
            [table.quoted],
        )
        found = {row[0]: DatabaseColumn(*row) for row in cursor.fetchall()}
        cursor.execute(
            "SELECT array_agg(attname::text) FROM pg_index "
            "JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY(indkey[0:indnkeyatts - 1]) "
            "WHERE indrelid = to_regclass(%s) AND indisunique AND indisvalid AND indpred IS NULL "
            "AND indexprs IS NULL GROUP BY indexrelid",
            [table.quoted],
        )
        table.refuse_another_shape(found, (frozenset(row[0]) for row in cursor.fetchall()))

    def _fetch(self, statement: Any, values: Sequence[Any]) -> list[Any]:
        connection = self._connected()
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute(statement, values)
            return cursor.fetchall()

    def _run(self, statements: Sequence[tuple[Any, Sequence[Any]]]) -> None:
        connection = self._connected()
        with connection.transaction(), connection.cursor() as cursor:
            for statement, values in statements:
                cursor.execute(statement, values)

    def _connected(self) -> psycopg.Connection[Any]:
        """Return the connection; reconnect if it is closed."""
        if self._connection is None or self._connection.closed:
            # No prepared statements: a connection pooler may switch connections between transactions.
            self._connection = psycopg.connect(
                self._url, autocommit=True, prepare_threshold=None, **self._connection_options
            )
        return self._connection

    @property
    def _connection_options(self) -> dict[str, Any]:
        given = {**conninfo_to_dict(self._url), **self._options}
        defaults = {name: value for name, value in _DEFAULTS.items() if name not in given}
        return {**defaults, **self._options}

    def _once(self, work: Callable[[], T]) -> T:
        """Run `work`; raise InvalidInputError if it fails. It is only repeated if an older connection was cut."""
        had_connection = self._connection is not None
        try:
            return work()
        except SkybandError:
            raise
        except psycopg.Error as error:
            if had_connection and self._transient_reason(error) is not None:
                return self._once(work)  # disconnected now
            self._disconnect()
            raise InvalidInputError(f"{self._where} cannot be used: {self._reason(error)}.") from None

    def _transient_reason(self, error: Exception) -> str | None:
        """Return the reason of a transient error, or None. The next attempt opens a new connection."""
        if not isinstance(error, psycopg.Error):
            return None
        self._disconnect()
        said = self._reason(error)
        permanent = not isinstance(error, _TRANSIENT) or any(word in said for word in _PERMANENT)
        return None if permanent else said

    def _reason(self, error: psycopg.Error) -> str:
        """Return the server's message in one line, without secrets, and the missing privilege if there is one."""
        primary = error.diag.message_primary
        said = " ".join((primary or str(error)).split()).rstrip(".") or type(error).__name__
        if isinstance(error, pg.InsufficientPrivilege):
            lacks = next((right for word, right in _NEEDS.items() if word in said), _NEEDS["table"])
            said += f" (the user needs {lacks})"
        if self._url:
            said = said.replace(self._url, shown_address(self._url))
        for secret in sorted(self._secrets, key=len, reverse=True):
            said = said.replace(secret, HIDDEN)
        return said

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def _prepared(self) -> Table:
        assert self._table is not None, "prepare() must be called first"
        return self._table

    def _reject_invalid_names(self, rows: pa.Table) -> None:
        refuse_taken_names(rows, self._where)
        odd = next((name for name in self._groups if "\0" in name), None)
        if odd is not None:
            raise InvalidInputError(
                f"query name {odd!r} contains a NUL character, which PostgreSQL cannot store. Rename the query."
            )


def _queries_in(rows: pa.Table) -> list[str]:
    found: list[str] = rows["query"].unique().to_pylist()
    return found


def _one(cursor: psycopg.Cursor[Any]) -> Any:
    row = cursor.fetchone()
    assert row is not None
    return row
