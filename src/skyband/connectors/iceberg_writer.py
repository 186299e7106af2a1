"""Writes answers to an Iceberg table. The number of a micro-batch is a table property of the same commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from skyband.connectors.delta_compaction import Compaction
from skyband.connectors.table_errors import cause_of, is_denied
from skyband.connectors.table_files import WRITE_CHECK, refuse_read_only
from skyband.connectors.table_writer import Committed, TableWriter
from skyband.connectors.window_answers import Range
from skyband.errors import MissingDependencyError
from skyband.paths import has_scheme
from skyband.queries import Query
from skyband.sharding.delivery import TaskFile

try:
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import (
        CommitFailedException,
        CommitStateUnknownException,
        NoSuchTableError,
        ServerError,
        ServiceUnavailableError,
    )
    from pyiceberg.expressions import And, BooleanExpression, GreaterThanOrEqual, In, LessThanOrEqual
    from pyiceberg.io import load_file_io
    from requests import ConnectionError as Unreachable
    from requests import Timeout
except ImportError as error:
    raise MissingDependencyError(
        f"a sink of type iceberg needs pyiceberg ({error}). Install it with: pip install 'skyband[iceberg]'"
    ) from None

__all__ = ["IcebergWriter"]

# A commit whose result is unknown is attempted again: the property shows whether it was made.
_TRANSIENT = (
    CommitFailedException,
    CommitStateUnknownException,
    ServerError,
    ServiceUnavailableError,
    Timeout,
    Unreachable,
)


class IcebergWriter(TableWriter):
    """Appends answers to an Iceberg table. `catalog` and `properties` are those of pyiceberg.

    >>> writer = IcebergWriter("sales.answers", "trades.answers", queries, properties={})  # doctest: +SKIP
    """

    narrowest = 32

    def __init__(
        self,
        table: str,
        key: str,
        queries: Sequence[Query],
        *,
        properties: Mapping[str, Any],
        catalog: str = "default",
        retry: float = 60,
        by_tasks: bool = False,
        compaction: Compaction | None = None,
    ) -> None:
        super().__init__(f"Iceberg table {table!r}", key, queries, retry, by_tasks=by_tasks)
        self._name, self._properties = table, {name: str(value) for name, value in properties.items()}
        self._catalog_name = catalog
        self._catalog: Any = None
        self._table: Any = None
        if compaction is not None:
            from skyband.connectors.iceberg_compaction import IcebergCompactor

            self.compactor = IcebergCompactor(self._load, compaction, str(self))

    def _load(self) -> Any:
        # The thread of a compaction does not share the connection of the stream.
        return load_catalog(self._catalog_name, **self._properties).load_table(self._name)

    def _newest(self) -> Any:
        return self._table

    def _open(self) -> bool:
        if self._catalog is None:
            self._catalog = load_catalog(self._catalog_name, **self._properties)
        try:
            self._table = self._catalog.load_table(self._name)
        except NoSuchTableError:
            self._table = None
        return self._table is not None

    def _try_to_write(self) -> None:
        if (engine := getattr(self._catalog, "engine", None)) is not None:  # a catalog in a database
            with engine.begin() as connection:
                connection.exec_driver_sql("UPDATE iceberg_tables SET table_name = table_name WHERE 1 = 0")
        warehouse = self._properties.get("warehouse")
        place = f"{self._table.location()}/metadata" if self._table is not None else warehouse
        if place is None:
            return  # a REST catalog selects the place
        if not has_scheme(place) or place.startswith("file:"):
            refuse_read_only(Path(place.removeprefix("file://")))
            return
        files = load_file_io({**self._catalog.properties, **({} if self._table is None else self._table.io.properties)})
        check = files.new_output(f"{place}/{WRITE_CHECK}")
        with check.create(overwrite=True) as file:
            file.write(b"skyband")
        with suppress(Exception):  # some have no right to delete; the file is not part of the table
            files.delete(check)

    def _create(self, schema: pa.Schema) -> None:
        self._catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
        self._catalog.create_table(self._name, schema)

    def _schema(self) -> pa.Schema:
        schema: pa.Schema = self._table.schema().as_arrow()
        return schema

    def _read_committed(self) -> Committed:
        epoch, batch, *queries = (self._table.properties.get(self._property) or "0 -1").split()
        return Committed(int(epoch), int(batch), frozenset(queries))

    def _append(self, rows: pa.Table, committed: Committed) -> None:
        new = set(rows.column_names) - set(self._schema().names)
        with self._table.transaction() as changes:
            if new:
                changes.update_schema().union_by_name(rows.schema).commit()
            changes.append(rows)
            changes.set_properties({self._property: _text(committed)})

    def _read(self, wanted: Range) -> pa.Table:
        return self._table.scan(row_filter=_filter(wanted)).to_arrow()

    def _overwrite(self, replaced: Range, rows: pa.Table, committed: Committed) -> None:
        new = set(rows.column_names) - set(self._schema().names)
        with self._table.transaction() as changes:
            if new:
                changes.update_schema().union_by_name(rows.schema).commit()
            changes.overwrite(rows, overwrite_filter=_filter(replaced))
            changes.set_properties({self._property: _text(committed)})

    def _add_files(self, files: Sequence[TaskFile], schema: pa.Schema, committed: Committed) -> None:
        with self._table.transaction() as changes:
            if set(schema.names) - set(self._schema().names):
                changes.update_schema().union_by_name(schema).commit()
            # The names are new, so no search for duplicates in all files of the table is needed.
            changes.add_files([f"file://{file.path}" for file in files], check_duplicate_files=False)
            changes.set_properties({self._property: _text(committed)})

    def _folder(self) -> str:
        return f"{self._table.location().removeprefix('file://')}/data"

    def _remove(self, names: Sequence[str], committed: Committed) -> None:
        with self._table.transaction() as changes:
            changes.delete(In("query", set(names)))
            changes.set_properties({self._property: _text(committed)})

    @property
    def _property(self) -> str:
        return f"skyband.{self._key}"

    def _transient(self, error: Exception) -> str | None:
        is_of_catalog = isinstance(error, _TRANSIENT) or type(error).__module__.startswith("sqlalchemy")
        is_transient = is_of_catalog or (isinstance(error, OSError) and not is_denied(error))
        return cause_of(error) if is_transient else None


def _filter(wanted: Range) -> BooleanExpression:
    bounds = [bound.as_py() for bound in (wanted.first, wanted.last)]
    first, last = (bound.isoformat() if isinstance(bound, datetime) else bound for bound in bounds)
    ends = And(GreaterThanOrEqual(wanted.column, first), LessThanOrEqual(wanted.column, last))
    return And(In("query", set(wanted.queries)), ends)


def _text(committed: Committed) -> str:
    return " ".join([str(committed.epoch), str(committed.batch), *sorted(committed.queries)])
