"""Writes answers to a PostgreSQL table: one transaction per micro-batch, idempotent when a batch is repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import pyarrow as pa

from skyband.connectors.row_identity import groups_of, newest_answers, refuse_taken_names, with_places
from skyband.connectors.secrets import HIDDEN, secrets_of, shown_address
from skyband.connectors.server import GivenUpError, Patience
from skyband.errors import InvalidInputError, MissingDependencyError, PipelineError, SkybandError
from skyband.queries import Query

try:
    import psycopg
    from psycopg import errors as pg
    from psycopg.conninfo import conninfo_to_dict
except ImportError as error:
    raise MissingDependencyError(
        f"a sink of type postgres needs psycopg ({error}). Install it with: pip install 'skyband[postgres]'"
    ) from None

from skyband.connectors.postgres_table import DatabaseColumn, Table, copied, table_for

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
    ) -> None:
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
        what_next = "The stream stopped; no answers are lost. Fix the problem and run it again."
        try:
            self._patience.attempt(lambda: self._write(placed), self._transient_reason)
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

    def _write(self, rows: pa.Table) -> None:
        table, connection = self._prepared(), self._connected()
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute(table.stage())
            with cursor.copy(table.copy()) as copy:
                for piece in copied(rows):
                    copy.write(piece)
            cursor.execute(table.upsert())
            cursor.execute(_BY_INDEX)
            cursor.execute(table.cut())
            if self._newest:
                cursor.execute(table.forget(), [rows["query"].unique().to_pylist()])

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
            given = {**conninfo_to_dict(self._url), **self._options}
            defaults = {name: value for name, value in _DEFAULTS.items() if name not in given}
            # No prepared statements: a connection pooler may switch connections between transactions.
            self._connection = psycopg.connect(
                self._url, autocommit=True, prepare_threshold=None, **{**defaults, **self._options}
            )
        return self._connection

    def _once(self, work: Callable[[], T]) -> T:
        """Run `work` without retries; raise InvalidInputError if it fails."""
        try:
            return work()
        except SkybandError:
            raise
        except psycopg.Error as error:
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


def _one(cursor: psycopg.Cursor[Any]) -> Any:
    row = cursor.fetchone()
    assert row is not None
    return row
