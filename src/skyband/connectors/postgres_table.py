"""The PostgreSQL table of answers: columns, key, SQL statements, and rows in the format of COPY.

Names enter statements only as quoted identifiers, values only through COPY or as bound parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
from psycopg import sql

from skyband.connectors.postgres import LONGEST_NAME
from skyband.connectors.row_identity import GROUP, PLACE
from skyband.data.json_lines import as_json
from skyband.data.wide_timestamps import far_times_as_text, values_of
from skyband.errors import InvalidInputError
from skyband.queries.answer_schema import moment_of

__all__ = ["Column", "DatabaseColumn", "Table", "copied", "sql_type", "table_for"]


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind))


_CHUNK = 1 << 16  # rows formatted at a time
_PLAIN = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int64, "bigint"),
    (pa.types.is_int32, "integer"),
    (lambda kind: pa.types.is_int16(kind) or pa.types.is_int8(kind), "smallint"),
    (pa.types.is_float64, "double precision"),
    (pa.types.is_floating, "real"),
    (pa.types.is_date, "date"),
    (pa.types.is_time, "time without time zone"),
    (pa.types.is_duration, "interval"),
    (_is_bytes, "bytea"),
    (_is_text, "text"),
    (pa.types.is_nested, "jsonb"),
)
_WIDER = {  # types that can store every value of the key type
    "text": {"character varying"},
    "smallint": {"integer", "bigint"},
    "integer": {"bigint"},
    "real": {"double precision"},
    "jsonb": {"json"},
}


class Column(NamedTuple):
    """A required column."""

    name: str
    type: str


class DatabaseColumn(NamedTuple):
    """An existing column in the database."""

    name: str
    type: str
    needed: bool  # NOT NULL without a default


def sql_type(kind: pa.DataType, column: str = "") -> str:
    """Return the PostgreSQL type for an Arrow type, as the database spells it.

    >>> sql_type(pa.float64()), sql_type(pa.timestamp("us", "UTC")), sql_type(pa.list_(pa.int64()))
    ('double precision', 'timestamp with time zone', 'jsonb')
    """
    if pa.types.is_timestamp(kind):
        return f"timestamp {'with' if kind.tz else 'without'} time zone"
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    for is_it, name in _PLAIN:
        if is_it(kind):
            return name
    raise InvalidInputError(
        f"column {column!r} has type {kind}, which has no equivalent in PostgreSQL. Convert it with columns: of the "
        "stream, or drop it from the stream."
    )


class Table(NamedTuple):
    """The required table of answers."""

    parts: tuple[str, ...]  # the name, after the name of its schema if given
    columns: tuple[Column, ...]
    moment: str

    @property
    def name(self) -> str:
        """The name, for messages."""
        return ".".join(self.parts)

    @property
    def key(self) -> tuple[str, ...]:
        """The primary key. Its order makes the newest answer of a query a short index scan."""
        return ("query", self.moment, GROUP, PLACE)

    @property
    def staging(self) -> str:
        """The name of the temporary table; pooled connections may contain those of other sinks."""
        return f"skyband_{sha256(repr(self).encode()).hexdigest()[:16]}"

    def create(self) -> sql.Composed:
        """Return the statement that creates the table if it does not exist."""
        columns = sql.SQL(", ").join(
            sql.SQL("{} {}{}").format(
                sql.Identifier(column.name),
                sql.SQL(column.type),  # from sql_type, never user input
                sql.SQL(" NOT NULL" if column.name in self.key else ""),
            )
            for column in self.columns
        )
        return sql.SQL("CREATE TABLE IF NOT EXISTS {} ({}, PRIMARY KEY ({}))").format(
            self._identifier, columns, _names(self.key)
        )

    def stage(self) -> sql.Composed:
        """Return the statement that creates the temporary table for a batch."""
        columns = sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.Identifier(column.name), sql.SQL(column.type)) for column in self.columns
        )
        return sql.SQL("CREATE TEMPORARY TABLE IF NOT EXISTS {} ({}) ON COMMIT DELETE ROWS").format(
            self._staging, columns
        )

    def copy(self) -> sql.Composed:
        """Return the statement that copies a batch into the temporary table."""
        return sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(self._staging, self._all)

    def upsert(self) -> sql.Composed:
        """Return the statement that inserts the batch into the table, and replaces existing rows."""
        rest = [column.name for column in self.columns if column.name not in self.key]
        return sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} ON CONFLICT ({}) DO UPDATE SET {}").format(
            self._identifier,
            self._all,
            self._all,
            self._staging,
            _names(self.key),
            sql.SQL(", ").join(
                sql.SQL("{} = EXCLUDED.{}").format(sql.Identifier(name), sql.Identifier(name)) for name in rest
            ),
        )

    def cut(self) -> sql.Composed:
        """Return the statement that deletes old rows beyond the end of the batch's answers, if those became shorter."""
        return sql.SQL(
            "DELETE FROM {table} AS old USING (SELECT {answer}, max({place}) AS last FROM {staging} GROUP BY {answer}) "
            "AS new WHERE {same} AND old.{place} > new.last"
        ).format(
            table=self._identifier,
            answer=_names(self.key[:3]),
            place=sql.Identifier(PLACE),
            staging=self._staging,
            same=sql.SQL(" AND ").join(
                sql.SQL("old.{} = new.{}").format(sql.Identifier(name), sql.Identifier(name)) for name in self.key[:3]
            ),
        )

    def forget(self) -> sql.Composed:
        """Return the statement that deletes all but the newest window of the bound queries."""
        return sql.SQL(
            "DELETE FROM {table} AS old USING (SELECT query, max({moment}) AS newest FROM {table} "
            "WHERE query = ANY(%s) GROUP BY query) AS new WHERE old.query = new.query AND old.{moment} < new.newest"
        ).format(table=self._identifier_beside_values, moment=sql.Identifier(self.moment))

    def clear(self) -> sql.Composed:
        """Return the statement that deletes all rows of the bound queries."""
        return sql.SQL("DELETE FROM {} WHERE query = ANY(%s)").format(self._identifier_beside_values)

    def has_rows(self) -> sql.Composed:
        """Return the statement that checks whether the bound queries have rows."""
        return sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE query = ANY(%s))").format(self._identifier_beside_values)

    @property
    def quoted(self) -> str:
        """The quoted name, as text for `to_regclass`."""
        return ".".join('"' + part.replace('"', '""') + '"' for part in self.parts)

    def refuse_another_shape(self, found: Mapping[str, DatabaseColumn], unique: Iterator[frozenset[str]]) -> None:
        """Reject an existing table without the columns of the answers, or without a unique key for them."""
        where = f"table {self.name!r} exists, but"
        fix = "Write to another table, or alter this one."
        for column in self.columns:
            known = found.get(column.name)
            if known is None:
                raise InvalidInputError(
                    f"{where} has no column {column.name!r} ({column.type}), which answers of this stream need. {fix} "
                    "Streams with different columns need separate tables: write {stream} in the table name."
                )
            if known.type != column.type and known.type not in _wider(column.type):
                raise InvalidInputError(
                    f"{where} its column {column.name!r} has type {known.type} instead of {column.type}. {fix}"
                )
        ours = {column.name for column in self.columns}
        other = next((column for column in found.values() if column.needed and column.name not in ours), None)
        if other is not None:
            raise InvalidInputError(
                f"{where} its column {other.name!r} is NOT NULL without a default, and answers do not set it. {fix}"
            )
        if frozenset(self.key) not in set(unique):
            key = ", ".join(self.key)
            raise InvalidInputError(
                f"{where} has no primary key or unique index on ({key}), so repeated micro-batches would insert "
                "duplicate rows. Create one, or write to another table."
            )

    @property
    def _identifier(self) -> sql.Identifier:
        return sql.Identifier(*self.parts)

    @property
    def _identifier_beside_values(self) -> sql.Identifier:
        """The identifier for statements with bound values, in which a percent sign marks a value."""
        return sql.Identifier(*(part.replace("%", "%%") for part in self.parts))

    @property
    def _staging(self) -> sql.Identifier:
        return sql.Identifier("pg_temp", self.staging)

    @property
    def _all(self) -> sql.Composed:
        return _names(column.name for column in self.columns)


def table_for(name: str, rows: pa.Schema) -> Table:
    """Return the table for rows of answers, given their schema with group and place."""
    columns = []
    for field in rows:
        size = len(field.name.encode())
        if size > LONGEST_NAME or "\0" in field.name or not field.name:
            raise InvalidInputError(
                f"column name {field.name!r} is not valid in PostgreSQL: it has {size} bytes, and names must have 1 to "
                f"{LONGEST_NAME} bytes and no NUL character. Rename the column."
            )
        columns.append(Column(field.name, sql_type(field.type, field.name)))
    parts = tuple(name.split("."))
    return Table(parts, tuple(columns), moment_of(rows.names))


def copied(rows: pa.Table) -> Iterator[memoryview]:
    r"""Yield the rows in the format of COPY. NUL, which PostgreSQL rejects in text, becomes the replacement character.

    >>> [bytes(piece) for piece in copied(pa.table({"a": ["x\0", None], "b": [float("inf"), 2.5], "c": [[1], []]}))]
    [b'"x\xef\xbf\xbd",inf,"[1]"\n,2.5,"[]"\n']
    """
    options = pcsv.WriteOptions(include_header=False)
    for begin in range(0, rows.num_rows, _CHUNK):
        part = rows.slice(begin, _CHUNK)
        spelled = pa.table([_spelled(column) for column in part.columns], names=list(map(str, range(part.num_columns))))
        out = pa.BufferOutputStream()
        pcsv.write_csv(spelled, out, options)
        yield memoryview(out.getvalue())


def _spelled(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert a column so that PostgreSQL can read its CSV form."""
    column = far_times_as_text(column, bc=True)
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        # Arrow formats times with a zone thirty times slower than times without.
        return pc.binary_join_element_wise(column.cast(pa.timestamp(kind.unit)).cast(pa.string()), "Z", "")
    if _is_bytes(kind):
        texts = [None if value is None else "\\x" + value.hex() for value in column.to_pylist()]
    elif pa.types.is_duration(kind):
        micros = column.cast(pa.duration("us")).cast(pa.int64()).to_pylist()
        texts = [None if value is None else f"{value} microseconds" for value in micros]
    elif pa.types.is_nested(kind):
        # JSON escapes NUL, and jsonb rejects that escape; so it is replaced before formatting.
        texts = [None if value is None else as_json(_without_nul(value)) for value in values_of(column)]
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        has_nul = pc.any(pc.match_substring(column, "\0")).as_py()
        return pc.replace_substring(column, "\0", "\ufffd") if has_nul else column
    else:
        return column
    return pa.chunked_array([pa.array(texts, pa.string())])


def _without_nul(value: object) -> object:
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, dict):
        return {_without_nul(key): _without_nul(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nul(inner) for inner in value]
    return value


def _wider(wanted: str) -> set[str]:
    return {"numeric"} if wanted.startswith("numeric(") else _WIDER.get(wanted, set())


def _names(names: Iterator[str] | tuple[str, ...]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))
