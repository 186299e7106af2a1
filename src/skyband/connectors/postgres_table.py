"""A table of answers in PostgreSQL: its columns, its key, the statements that fill it, and rows as COPY takes them.

Names only ever reach a statement as quoted identifiers, values only by COPY or as bound parameters.
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


_CHUNK = 1 << 16  # rows that are spelled out at a time
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
_WIDER = {  # what takes every value of a type just as well
    "text": {"character varying"},
    "smallint": {"integer", "bigint"},
    "integer": {"bigint"},
    "real": {"double precision"},
    "jsonb": {"json"},
}


class Column(NamedTuple):
    """A column as it is wanted."""

    name: str
    type: str


class DatabaseColumn(NamedTuple):
    """A column as it is in the database."""

    name: str
    type: str
    needed: bool  # it must not be null, and nothing fills it


def sql_type(kind: pa.DataType, column: str = "") -> str:
    """PostgreSQL's type for one of Arrow's, as the database spells it.

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
        f"column {column!r} is of type {kind}, for which PostgreSQL has none; compute another from it under columns of "
        "the stream, or leave it out of the stream."
    )


class Table(NamedTuple):
    """A table of answers, as it is wanted."""

    parts: tuple[str, ...]  # the name, after that of its schema if there is one
    columns: tuple[Column, ...]
    moment: str

    @property
    def name(self) -> str:
        """As messages show it."""
        return ".".join(self.parts)

    @property
    def key(self) -> tuple[str, ...]:
        """What rows are known by; the newest answer of a query is a short walk in its index."""
        return ("query", self.moment, GROUP, PLACE)

    @property
    def staging(self) -> str:
        """The name of the temporary table; pooled connections may hold those of other sinks."""
        return f"skyband_{sha256(repr(self).encode()).hexdigest()[:16]}"

    def create(self) -> sql.Composed:
        """Make the table, unless it is there."""
        columns = sql.SQL(", ").join(
            sql.SQL("{} {}{}").format(
                sql.Identifier(column.name),
                sql.SQL(column.type),  # one of ours, never a user's
                sql.SQL(" NOT NULL" if column.name in self.key else ""),
            )
            for column in self.columns
        )
        return sql.SQL("CREATE TABLE IF NOT EXISTS {} ({}, PRIMARY KEY ({}))").format(
            self._identifier, columns, _names(self.key)
        )

    def stage(self) -> sql.Composed:
        """Make the temporary table that a batch is copied to."""
        columns = sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.Identifier(column.name), sql.SQL(column.type)) for column in self.columns
        )
        return sql.SQL("CREATE TEMPORARY TABLE IF NOT EXISTS {} ({}) ON COMMIT DELETE ROWS").format(
            self._staging, columns
        )

    def copy(self) -> sql.Composed:
        """Fill the temporary table."""
        return sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(self._staging, self._all)

    def upsert(self) -> sql.Composed:
        """Bring the batch into the table; rows that are there are replaced."""
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
        """Remove what answers of the batch had beyond their end: they are replaced as a whole."""
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
        """Remove all but the newest window of each of the queries that are bound."""
        return sql.SQL(
            "DELETE FROM {table} AS old USING (SELECT query, max({moment}) AS newest FROM {table} "
            "WHERE query = ANY(%s) GROUP BY query) AS new WHERE old.query = new.query AND old.{moment} < new.newest"
        ).format(table=self._identifier_beside_values, moment=sql.Identifier(self.moment))

    def clear(self) -> sql.Composed:
        """Remove all rows of the queries that are bound."""
        return sql.SQL("DELETE FROM {} WHERE query = ANY(%s)").format(self._identifier_beside_values)

    def has_rows(self) -> sql.Composed:
        """Whether the queries that are bound have rows."""
        return sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE query = ANY(%s))").format(self._identifier_beside_values)

    @property
    def quoted(self) -> str:
        """The name as `to_regclass` takes it, bound as text."""
        return ".".join('"' + part.replace('"', '""') + '"' for part in self.parts)

    def refuse_another_shape(self, found: Mapping[str, DatabaseColumn], unique: Iterator[frozenset[str]]) -> None:
        """A table that is there already must have the columns of the answers, and a key that tells them apart."""
        where = f"table {self.name!r} is there already, and"
        fix = "Write to another table, or change this one."
        for column in self.columns:
            known = found.get(column.name)
            if known is None:
                raise InvalidInputError(
                    f"{where} has no column {column.name!r} ({column.type}), which answers of this stream have. {fix} "
                    "Streams of different columns need a table each: write {stream} in its name."
                )
            if known.type != column.type and known.type not in _wider(column.type):
                raise InvalidInputError(
                    f"{where} its column {column.name!r} is of type {known.type}, but {column.type} is wanted. {fix}"
                )
        ours = {column.name for column in self.columns}
        other = next((column for column in found.values() if column.needed and column.name not in ours), None)
        if other is not None:
            raise InvalidInputError(
                f"{where} has a column {other.name!r} that must not be null, and answers have none of that name. {fix}"
            )
        if frozenset(self.key) not in set(unique):
            key = ", ".join(self.key)
            raise InvalidInputError(
                f"{where} has no primary key or unique index on ({key}); without one, rows that are written again "
                "would be there twice. Make one, or write to another table."
            )

    @property
    def _identifier(self) -> sql.Identifier:
        return sql.Identifier(*self.parts)

    @property
    def _identifier_beside_values(self) -> sql.Identifier:
        """The same where values are bound: a per cent sign would announce one."""
        return sql.Identifier(*(part.replace("%", "%%") for part in self.parts))

    @property
    def _staging(self) -> sql.Identifier:
        return sql.Identifier("pg_temp", self.staging)

    @property
    def _all(self) -> sql.Composed:
        return _names(column.name for column in self.columns)


def table_for(name: str, rows: pa.Schema) -> Table:
    """The table for rows of answers, which have their places already."""
    columns = []
    for field in rows:
        size = len(field.name.encode())
        if size > LONGEST_NAME or "\0" in field.name or not field.name:
            raise InvalidInputError(
                f"column {field.name!r} cannot have that name in PostgreSQL: it has {size} bytes, and names have 1 to "
                f"{LONGEST_NAME}, and no NUL; give it another one under columns of the stream."
            )
        columns.append(Column(field.name, sql_type(field.type, field.name)))
    parts = tuple(name.split("."))
    return Table(parts, tuple(columns), moment_of(rows.names))


def copied(rows: pa.Table) -> Iterator[memoryview]:
    r"""The rows as COPY takes them, in pieces. Text cannot hold NUL in PostgreSQL; the replacement character can.

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
    """The column so that what a CSV writer makes of it is what PostgreSQL reads."""
    column = far_times_as_text(column, bc=True)
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        # Arrow spells times with a zone thirty times as slowly as those without.
        return pc.binary_join_element_wise(column.cast(pa.timestamp(kind.unit)).cast(pa.string()), "Z", "")
    if _is_bytes(kind):
        texts = [None if value is None else "\\x" + value.hex() for value in column.to_pylist()]
    elif pa.types.is_duration(kind):
        micros = column.cast(pa.duration("us")).cast(pa.int64()).to_pylist()
        texts = [None if value is None else f"{value} microseconds" for value in micros]
    elif pa.types.is_nested(kind):
        # JSON spells NUL as an escape, which jsonb refuses, and a backslash before it as another one.
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
