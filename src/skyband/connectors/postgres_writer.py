"""The writer of a table in PostgreSQL: each micro-batch in one transaction, and written again it is written once."""

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
    # A connection whose other end is gone without a word is given up within a minute.
    "keepalives_idle": 20,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 40_000,
}
# What may pass by itself: the server restarts or is another now, others are in the way, there is no room at present.
_PASSING = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    pg.ReadOnlySqlTransaction,
    pg.IdleInTransactionSessionTimeout,
)
_STAYING = ("authentication failed", "pg_hba.conf", "does not exist", "certificate", "no password supplied")
# One look into the index for each answer, however large the table: the planner knows nothing of a batch just copied.
# What is switched off has an enormous cost in its eyes, for which it would compile the query for half a second.
_BY_INDEX = """
    SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
           set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true)
"""
_NEEDS = {
    "temporary": "TEMPORARY on the database",
    "schema": "USAGE on the schema, and CREATE where the table is not there yet",
    "table": "SELECT, INSERT, UPDATE and DELETE on the table",
}


class PostgresWriter:
    """Writes answers to a table, which it makes if it is not there.

    Rows are known by their query, the moment of their answer, their group and their place in the answer, so a
    micro-batch that is written again after a crash replaces its own rows. An answer is replaced as a whole.

    Parameters
    ----------
    table
        Its name, with that of its schema before a dot.
    groups
        By query: the columns that tell its groups.
    url, options
        Where the server is, as libpq takes it; what is left out is in libpq's environment variables.
    newest
        Keep only the newest window of each query.
    retry
        For how many seconds a server that is gone is waited for.

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
        """See whether the server lets us in. There is no waiting: what is wrong now may have been wrong all along."""
        self._once(self._connected)

    def prepare(self, rows: pa.Table) -> None:
        """Make the table for such rows, or see whether it fits."""
        self._refuse_odd_names(rows)
        table = table_for(self._name, with_places(rows.slice(0, 0), self._groups).schema)
        self._once(lambda: self._make(table))
        self._table = table

    @property
    def is_prepared(self) -> bool:
        """Whether the table is known to be there, and to fit."""
        return self._table is not None

    def ask(self, queries: Iterable[Query]) -> None:
        """From here on, rows are answers of these queries."""
        self._groups = groups_of(queries)

    def holds_rows(self) -> bool:
        """Whether the table has rows of these queries."""
        table = self._prepared()
        return bool(self._once(lambda: self._asked(table.has_rows(), [list(self._groups)])[0][0]))

    def clear(self) -> None:
        """Remove the rows of these queries."""
        table = self._prepared()
        self._once(lambda: self._run([(table.clear(), [list(self._groups)])]))

    def take(self, batch: int, rows: pa.Table) -> None:
        """Write the answers of a micro-batch: all of them or none."""
        if not rows.num_rows:
            return
        if self._table is None:
            self.prepare(rows)
        if self._newest:
            rows = newest_answers(rows, ["query"])
        placed = with_places(rows, self._groups)
        lost = "the stream stops, and nothing is lost: once the server takes answers again, run it again."
        try:
            self._patience.attempt(lambda: self._write(placed), self._passing_reason)
        except GivenUpError as error:
            raise PipelineError(
                f"{self._where} could not be written for {self._patience.seconds:g} seconds ({error}); {lost}"
            ) from None
        except psycopg.Error as error:
            raise PipelineError(f"{self._where} cannot be written: {self._reason(error)}; {lost}") from None

    def stop_waiting(self) -> None:
        """Make no further attempt where the server is gone."""
        self._patience.end()

    def close(self) -> None:
        """Leave the server."""
        self._patience.end()
        self._hang_up()

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

    def _make(self, table: Table) -> None:
        connection = self._connected()
        with connection.transaction(), connection.cursor() as cursor:
            # Two that make one table at once would get in each other's way: IF NOT EXISTS does not lock.
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

    def _asked(self, statement: Any, values: Sequence[Any]) -> list[Any]:
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
        """The connection; a new one where there is none any more."""
        if self._connection is None or self._connection.closed:
            given = {**conninfo_to_dict(self._url), **self._options}
            defaults = {name: value for name, value in _DEFAULTS.items() if name not in given}
            # Never prepared: a pool that hands connections around would not know the statement any more.
            self._connection = psycopg.connect(
                self._url, autocommit=True, prepare_threshold=None, **{**defaults, **self._options}
            )
        return self._connection

    def _once(self, work: Callable[[], T]) -> T:
        """Do it, or say why not."""
        try:
            return work()
        except SkybandError:
            raise
        except psycopg.Error as error:
            self._hang_up()
            raise InvalidInputError(f"{self._where} cannot be used: {self._reason(error)}.") from None

    def _passing_reason(self, error: Exception) -> str | None:
        """Why an attempt failed that may be repeated; the next one begins with a new connection."""
        if not isinstance(error, psycopg.Error):
            return None
        self._hang_up()
        said = self._reason(error)
        stays = not isinstance(error, _PASSING) or any(word in said for word in _STAYING)
        return None if stays else said

    def _reason(self, error: psycopg.Error) -> str:
        """What the server said, in a line, without secrets; and what a user lacks, where it is a right."""
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

    def _hang_up(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def _prepared(self) -> Table:
        assert self._table is not None, "prepare() comes before"
        return self._table

    def _refuse_odd_names(self, rows: pa.Table) -> None:
        refuse_taken_names(rows, self._where)
        odd = next((name for name in self._groups if "\0" in name), None)
        if odd is not None:
            raise InvalidInputError(f"query {odd!r} has a NUL in its name, which PostgreSQL cannot hold.")


def _one(cursor: psycopg.Cursor[Any]) -> Any:
    row = cursor.fetchone()
    assert row is not None
    return row
