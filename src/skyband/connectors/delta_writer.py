"""Writes answers to a Delta table. The number of a micro-batch is an application transaction of its commit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import time
from typing import Any

import pyarrow as pa

from skyband.connectors.delta_compaction import Compaction, Compactor
from skyband.connectors.table_errors import cause_of, is_denied
from skyband.connectors.table_files import WRITE_CHECK, refuse_read_only
from skyband.connectors.table_writer import Committed, TableWriter
from skyband.connectors.window_answers import Range
from skyband.errors import MissingDependencyError
from skyband.paths import has_scheme
from skyband.queries import Query
from skyband.sharding.delivery import TaskFile

try:
    from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
    from deltalake.exceptions import CommitFailedError, TableNotFoundError
    from deltalake.fs import DeltaStorageHandler
    from deltalake.transaction import AddAction
except ImportError as error:
    raise MissingDependencyError(
        f"a sink of type delta needs deltalake ({error}). Install it with: pip install 'skyband[delta]'"
    ) from None

__all__ = ["DeltaWriter"]

_SEARCHED = 100  # commits in which the queries of the last micro-batch are searched first


class DeltaWriter(TableWriter):
    """Appends answers to a Delta table. The parameters are the keys of `skyband.sinks.Delta`.

    >>> writer = DeltaWriter("answers", "trades/answers", queries)  # doctest: +SKIP
    """

    def __init__(
        self,
        path: str,
        key: str,
        queries: Sequence[Query],
        *,
        options: Mapping[str, Any] | None = None,
        retry: float = 60,
        compaction: Compaction | None = None,
        by_tasks: bool = False,
    ) -> None:
        super().__init__(f"Delta table {path!r}", key, queries, retry, by_tasks=by_tasks)
        self._path, self._options = path, {name: str(value) for name, value in (options or {}).items()}
        self._table: Any = None
        if compaction is not None:
            self.compactor = Compactor(self._load, compaction, str(self))

    def _load(self) -> Any:
        return DeltaTable(self._path, storage_options=self._options)

    def _newest(self) -> Any:
        return self._table

    def _open(self) -> bool:
        try:
            if self._table is None:
                self._table = self._load()
            else:
                self._table.update_incremental()
            # A table that was removed is not noticed by an update.
            if not DeltaTable.is_deltatable(self._path, storage_options=self._options):
                self._table = None
        except TableNotFoundError:
            self._table = None
        return self._table is not None

    def _try_to_write(self) -> None:
        if not has_scheme(self._path):
            refuse_read_only(Path(self._path) / "_delta_log")
            return
        # A commit of a table beside the data: deltalake has no other function that writes an object.
        empty = pa.schema([("a", pa.int32())])
        DeltaTable.create(f"{self._path}/{WRITE_CHECK}", empty, mode="overwrite", storage_options=self._options)
        with suppress(Exception):  # some have no right to delete; the files are not part of the table
            DeltaStorageHandler(self._path, self._options).delete_dir(WRITE_CHECK)

    def _create(self, schema: pa.Schema) -> None:
        DeltaTable.create(self._path, schema, storage_options=self._options)

    def _schema(self) -> pa.Schema:
        return pa.schema(self._table.schema().to_arrow())

    def _read_committed(self) -> Committed:
        epoch = self._table.transaction_version(f"skyband/{self._key}") or 0
        batch = self._table.transaction_version(self._id(epoch))
        if batch is None:
            return Committed(epoch)
        return Committed(epoch, batch, self._queries_of(epoch, batch))

    def _queries_of(self, epoch: int, batch: int) -> frozenset[str]:
        """Return the queries in the commit of the last micro-batch; all of them if it is not found."""
        if self._committed is not None and self._committed[:2] == (epoch, batch):
            return self._committed.queries
        wanted = {"skyband.key": self._key, "skyband.epoch": str(epoch), "skyband.batch": str(batch)}
        for limit in (_SEARCHED, None):
            for commit in self._table.history(limit):
                if all(commit.get(name) == value for name, value in wanted.items()):
                    return frozenset(commit["skyband.queries"].split())
        return frozenset(self._queries.values())

    def _append(self, rows: pa.Table, committed: Committed) -> None:
        self._write(rows, committed, mode="append")

    def _read(self, wanted: Range) -> pa.Table:
        ends = [(wanted.column, ">=", wanted.first), (wanted.column, "<=", wanted.last)]
        return self._table.to_pyarrow_table(filters=[("query", "in", wanted.queries), *ends])

    def _overwrite(self, replaced: Range, rows: pa.Table, committed: Committed) -> None:
        first, last = (_literal(bound) for bound in (replaced.first, replaced.last))
        where = f"query in ({_listed(replaced.queries)}) AND {replaced.column} >= {first}"
        self._write(rows, committed, mode="overwrite", predicate=f"{where} AND {replaced.column} <= {last}")

    def _write(self, rows: pa.Table, committed: Committed, **how: Any) -> None:
        known = set(self._schema().names)
        write_deltalake(
            self._table,
            rows,
            **how,
            schema_mode=None if known == set(rows.column_names) else "merge",
            storage_options=self._options,
            commit_properties=self._properties(committed, Transaction(self._id(committed.epoch), committed.batch)),
        )

    def _add_files(self, files: Sequence[TaskFile], schema: pa.Schema, committed: Committed) -> None:
        new = [field for field in schema if field.name not in self._schema().names]
        if new:  # a separate commit; if the next one fails, the columns are empty
            self._table.alter.add_columns(Schema.from_arrow(pa.schema(new)).fields)
        now = int(time() * 1000)
        actions = [
            AddAction(Path(file.path).name, file.bytes, {}, now, True, json.dumps({"numRecords": file.rows}))
            for file in files
        ]
        self._table.create_write_transaction(
            actions,
            "append",
            self._table.schema(),
            commit_properties=self._properties(committed, Transaction(self._id(committed.epoch), committed.batch)),
        )

    def _folder(self) -> str:
        return self._path

    def _remove(self, names: Sequence[str], committed: Committed) -> None:
        epoch = Transaction(f"skyband/{self._key}", committed.epoch)
        self._table.delete(f"query in ({_listed(names)})", commit_properties=self._properties(committed, epoch))

    def _properties(self, committed: Committed, transaction: Any) -> Any:
        about = {
            "skyband.key": self._key,
            "skyband.epoch": str(committed.epoch),
            "skyband.batch": str(committed.batch),
            "skyband.queries": " ".join(sorted(committed.queries)),
        }
        return CommitProperties(custom_metadata=about, app_transactions=[transaction])

    def _id(self, epoch: int) -> str:
        return f"skyband/{self._key}/{epoch}"

    def _transient(self, error: Exception) -> str | None:
        is_transient = isinstance(error, CommitFailedError) or (isinstance(error, OSError) and not is_denied(error))
        return cause_of(error) if is_transient else None


def _listed(names: Sequence[str]) -> str:
    return ", ".join("'" + name.replace("'", "''") + "'" for name in names)


def _literal(bound: pa.Scalar) -> str:
    """Return a number or a time in Delta's SQL."""
    if not pa.types.is_timestamp(bound.type):
        return str(bound.as_py())
    micros = bound.cast(pa.timestamp("us", bound.type.tz)).value
    return f"'{datetime.fromtimestamp(0, UTC) + timedelta(microseconds=micros):%Y-%m-%dT%H:%M:%S.%fZ}'"
