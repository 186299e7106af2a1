"""The data files of an Iceberg table: those of a snapshot, and those that later snapshots append, in their order.

Every snapshot names its parent. A stream continues from the last snapshot whose files it has read: it follows the
parents of the current snapshot back to that one, and reads the snapshots between them one by one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from skyband.connectors.arrow.tables import TableFile, TableLog
from skyband.connectors.iceberg_source import IcebergSource
from skyband.connectors.section import nearest
from skyband.connectors.table_errors import cause_of
from skyband.errors import InvalidInputError, MissingDependencyError, SkybandError
from skyband.expressions.types import spark_name, spark_type

__all__ = ["FollowedIceberg", "column_types", "iceberg_files", "load_table", "snapshot_columns"]

_LOG = logging.getLogger("skyband.sources")
_MOST = 12  # tables that a message lists


def load_table(name: str, stream: IcebergSource) -> Any:
    """Return the table of a stream, as pyiceberg's catalog has it now."""
    try:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NoSuchTableError
    except ImportError as error:
        raise MissingDependencyError(
            f"a stream of source iceberg needs pyiceberg ({error}). Install it with: pip install 'skyband[iceberg]'"
        ) from None
    _refuse_missing_file(name, stream)
    try:
        catalog = load_catalog(stream.catalog_name or "default", **stream.properties)
        try:
            return catalog.load_table(stream.table)
        except NoSuchTableError:
            raise _missing(name, stream, catalog) from None
    except SkybandError:
        raise
    except Exception as error:  # of pyiceberg, of a database, or of a server
        raise _unreachable(name, stream, error) from None


def _missing(name: str, stream: IcebergSource, catalog: Any) -> InvalidInputError:
    """Return the error for a table that the catalog does not have; it suggests one."""
    namespace = stream.table.rpartition(".")[0]
    try:
        known = [".".join(found) for found in catalog.list_tables(namespace)]
    except Exception:  # a namespace that does not exist, or no right to list it
        known = []
    if not known:
        try:
            spaces = sorted(".".join(found) for found in catalog.list_namespaces())
        except Exception:
            spaces = []
        hint = f"The catalog has no tables in {namespace!r}" + (
            f"; its namespaces are {', '.join(spaces[:_MOST])}." if spaces else "."
        )
        if others := _other_catalogs(catalog):
            hint = (
                f"The database has no tables of a catalog named {catalog.name!r}, but of {', '.join(others[:_MOST])}. "
                "Set catalog_name, or the first part of the name with source: table."
            )
    else:
        near = nearest(stream.table, known)
        hint = f"Did you mean {near!r}?" if near else f"Tables in {namespace!r}: {', '.join(sorted(known)[:_MOST])}."
    return InvalidInputError(
        f"stream {name!r}: {stream.described()} does not exist. {hint} Correct the name, or create the table."
    )


def _refuse_missing_file(name: str, stream: IcebergSource) -> None:
    """Reject a file of SQLite that does not exist: to open it would create an empty database."""
    address = str(stream.properties.get("uri", ""))
    file = address.removeprefix("sqlite:///")
    if file != address and file and not file.startswith((":", "file:")) and not Path(file.partition("?")[0]).exists():
        raise InvalidInputError(
            f"stream {name!r}: {stream.described()} cannot be read: the file {file!r} does not exist. Correct the path "
            "of the catalog. Nothing was read or created."
        )


def _other_catalogs(catalog: Any) -> list[str]:
    """Return the names of the catalogs that a database has, if none of its tables is of this catalog."""
    try:
        from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
        from sqlalchemy import select

        if not isinstance(catalog, SqlCatalog):
            return []
        with catalog.engine.connect() as database:
            names = sorted(str(row[0]) for row in database.execute(select(IcebergTables.catalog_name).distinct()))
    except Exception:  # of another version of pyiceberg, or no right to read the table
        return []
    return [] if catalog.name in names else names


def _unreachable(name: str, stream: IcebergSource, error: Exception) -> InvalidInputError:
    return InvalidInputError(f"stream {name!r}: {stream.described()} cannot be read: {cause_of(error)}.")


def iceberg_files(name: str, stream: IcebergSource) -> list[TableFile]:
    """Return the files of the snapshot with which a stream begins, sorted by path."""
    table = load_table(name, stream)
    first = _first_snapshot(name, stream, table)
    return [] if first is None else _Reading(name, stream, table).live_files(first)


def snapshot_columns(name: str, stream: IcebergSource) -> tuple[Any, Any]:
    """Return a table, and its columns in the snapshot with which a stream begins."""
    table = load_table(name, stream)
    first = None if stream.snapshot is None else _first_snapshot(name, stream, table)
    return table, _schema_of(table, first)


def column_types(schema: Any) -> pa.Schema:
    """Return the columns of an Iceberg schema with Spark's types. Nested columns, UUIDs and times are omitted."""
    fields = []
    for field in schema.as_arrow():
        is_bytes = pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type)
        kind = pa.binary() if is_bytes else spark_type(field.type)
        if kind is not None and not pa.types.is_null(kind):
            fields.append(pa.field(field.name, kind))
    return pa.schema(fields)


class FollowedIceberg:
    """Finds the files of a table that a stream has not read. Each call of `look` returns what is new since the last."""

    def __init__(self, name: str, stream: IcebergSource, log: TableLog, schema: pa.Schema | None = None) -> None:
        self._name, self._stream, self._log, self._schema = name, stream, log, schema
        self._begun = False
        self._table: Any = None
        self._last: int | None = None  # the last snapshot that was looked at; None: none, the table had no snapshot
        self.has_unsettled = False  # a snapshot is complete when it appears

    def look(self) -> list[TableFile]:
        """Return new files by snapshot, then by path."""
        table = self._table = self._refreshed()
        reading = _Reading(self._name, self._stream, table)
        try:
            found = [] if self._begun else self._first(table, reading)
            for snapshot in self._after(table, self._last):
                self._check_columns(table, snapshot)
                # After a table without snapshots, everything is new. Its first ones may have expired.
                found += reading.live_files(snapshot) if self._last is None else reading.appended(snapshot)
                self._last = snapshot.snapshot_id
        except SkybandError:
            raise
        except Exception as error:  # of pyiceberg, or of the file system
            raise _unreachable(self._name, self._stream, error) from None
        self._begun = True
        return [file for file in found if file.path not in self._log]

    def _refreshed(self) -> Any:
        if self._table is None:
            return load_table(self._name, self._stream)
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return self._table.refresh()
        except NoSuchTableError:
            raise _missing(self._name, self._stream, self._table.catalog) from None
        except Exception as error:  # of a database, or of a server
            raise _unreachable(self._name, self._stream, error) from None

    def _first(self, table: Any, reading: _Reading) -> list[TableFile]:
        """Return the files of the snapshot with which the stream begins, or of that at which an earlier run stopped."""
        versions = self._log.versions
        if versions is None:
            first = _first_snapshot(self._name, self._stream, table)
            self._last = None if first is None else first.snapshot_id
            return [] if first is None else reading.live_files(first)
        begin, self._last = versions
        last = table.snapshot_by_id(self._last)
        if last is not None:
            return reading.live_files(last) if begin == self._last else reading.appended(last)
        # The snapshot has expired. The one after it still has all files that it added, if it only appends.
        after = list(self._after(table, self._last))
        if not after or after[0].summary is None or after[0].summary.operation.value != "append":
            raise self._expired(table)
        return reading.files_before(after[0], self._last, every=begin == self._last)

    def _after(self, table: Any, last: int | None) -> Iterator[Any]:
        """Yield the snapshots after one, oldest first; those of the whole table if there was none."""
        found = []
        snapshot = table.current_snapshot()
        at = None if snapshot is None else snapshot.snapshot_id
        while at != last:
            snapshot = None if at is None else table.snapshot_by_id(at)
            if snapshot is None:
                is_known = last is not None and table.snapshot_by_id(last) is not None
                raise self._rolled_back(table) if is_known else self._expired(table)
            found.append(snapshot)
            at = snapshot.parent_snapshot_id
        yield from reversed(found)

    def _check_columns(self, table: Any, snapshot: Any) -> None:
        """Reject a snapshot in which a column of the stream is missing or has another type."""
        if self._schema is None:
            return
        types = {field.name.lower(): field.type for field in column_types(_schema_of(table, snapshot))}
        for field in self._schema:
            there = types.get(field.name.lower())
            if there is None:
                raise _stopped(self._name, self._stream, snapshot, f"no longer has the column {field.name!r}")
            if there != field.type:
                was, is_now = spark_name(field.type), spark_name(there)
                why = f"has column {field.name!r} of type {is_now}, which was {was}"
                raise _stopped(self._name, self._stream, snapshot, why)

    def _expired(self, table: Any) -> InvalidInputError:
        known = table.snapshots()
        since = f"; the oldest one left is {min(known, key=_age).snapshot_id}" if known else ""
        last = "that were to be read" if self._last is None else f"after {self._last}, the last one that was read"
        return InvalidInputError(
            f"stream {self._name!r}: snapshots of {self._stream.described()} {last}, have expired{since}. The rows "
            "that were appended since then are unknown, so the stream stopped. Start over with --fresh, and retain "
            "snapshots for longer."
        )

    def _rolled_back(self, table: Any) -> InvalidInputError:
        now = table.current_snapshot()
        return InvalidInputError(
            f"stream {self._name!r}: snapshot {self._last}, the last one that was read, is not in the history of "
            f"{self._stream.described()}, whose current snapshot is {None if now is None else now.snapshot_id}: the "
            "table was rolled back. Rows that it no longer has may be in answers, so the stream stopped. Start over "
            "with --fresh."
        )


class _Reading:
    """Reads the manifests of a table as it was loaded."""

    def __init__(self, name: str, stream: IcebergSource, table: Any) -> None:
        self._name, self._stream, self._table = name, stream, table

    def live_files(self, snapshot: Any) -> list[TableFile]:
        """Return all files of a snapshot, sorted by path."""
        manifests = snapshot.manifests(self._table.io)
        if any(map(_has_deletes, manifests)):
            raise self._deleted(snapshot)
        entries = (entry for one in manifests for entry in one.fetch_manifest_entry(self._table.io))
        return sorted(self._file(entry, snapshot.snapshot_id) for entry in entries)

    def files_before(self, snapshot: Any, last: int, *, every: bool) -> list[TableFile]:
        """Return the files of the snapshot `last` before this one, `every` file or those that it added, by path."""
        manifests = (one for one in snapshot.manifests(self._table.io) if not _has_deletes(one))
        entries = (entry for one in manifests for entry in one.fetch_manifest_entry(self._table.io))
        added = snapshot.snapshot_id
        return sorted(
            self._file(entry, last)
            for entry in entries
            if (entry.snapshot_id != added if every else entry.snapshot_id == last)
        )

    def appended(self, snapshot: Any) -> list[TableFile]:
        """Return the files with rows that a snapshot appends; [] for a compaction."""
        operation = "" if snapshot.summary is None else snapshot.summary.operation.value
        if operation == "replace":
            return []
        new = [one for one in snapshot.manifests(self._table.io) if one.added_snapshot_id == snapshot.snapshot_id]
        # A snapshot that deletes can also drop whole manifests, which leaves no trace in new ones.
        changes = operation == "delete" or any(map(_has_deletes, new))
        found = []
        for manifest in new:
            for entry in manifest.fetch_manifest_entry(self._table.io, discard_deleted=False):
                if entry.snapshot_id == snapshot.snapshot_id and not _has_deletes(manifest):
                    changes = changes or entry.status.name == "DELETED"
                    found += [self._file(entry, snapshot.snapshot_id)] if entry.status.name == "ADDED" else []
        if not changes:
            return sorted(found)
        if self._stream.changed_rows != "skip":
            why = f"deletes, updates or overwrites rows (operation {operation}), which may be in answers"
            raise _stopped(self._name, self._stream, snapshot, why, "Set changed_rows: skip, or s")
        _LOG.warning(
            "stream %r: snapshot %d of the table changes rows and is skipped.", self._name, snapshot.snapshot_id
        )
        return []

    def _file(self, entry: Any, snapshot: int) -> TableFile:
        file = entry.data_file
        kind = str(getattr(file.file_format, "value", file.file_format)).lower()
        if kind != "parquet":
            raise InvalidInputError(
                f"stream {self._name!r}: {file.file_path!r} of {self._stream.described()} has the format {kind}; only "
                "Parquet files are supported. Rewrite the table's data files."
            )
        return TableFile(self._local(str(file.file_path)), snapshot, int(file.file_size_in_bytes))

    def _local(self, address: str) -> str:
        if address.startswith("file:"):
            return unquote(urlsplit(address).path)
        if "://" in address:
            raise InvalidInputError(
                f"stream {self._name!r}: {self._stream.described()} has its files in {address.partition('://')[0]}://; "
                "only tables in folders of this machine are supported as sources."
            )
        return str(Path(address))

    def _deleted(self, snapshot: Any) -> InvalidInputError:
        return InvalidInputError(
            f"stream {self._name!r}: snapshot {snapshot.snapshot_id} of {self._stream.described()} has files of "
            "deleted rows, which are not supported, so rows could be wrong. Rewrite the table's data files (in Spark: "
            "CALL system.rewrite_data_files with delete-file-threshold 1), and run it again."
        )


def _first_snapshot(name: str, stream: IcebergSource, table: Any) -> Any:
    """Return the snapshot with which a stream begins; None if the table has none yet."""
    if stream.snapshot is None:
        return table.current_snapshot()
    found = table.snapshot_by_id(stream.snapshot)
    if found is None:
        known = ", ".join(str(one.snapshot_id) for one in sorted(table.snapshots(), key=_age)[-_MOST:]) or "none"
        raise InvalidInputError(
            f"stream {name!r}: {stream.described()} has no snapshot {stream.snapshot}; it may have expired. Its newest "
            f"snapshots are {known}. Correct snapshot, or omit it to begin with the current one."
        )
    return found


def _schema_of(table: Any, snapshot: Any) -> Any:
    """Return the columns of a table in a snapshot. Tables of version 1 may not store them."""
    number = None if snapshot is None else snapshot.schema_id
    return table.schema() if number is None else table.schemas().get(number, table.schema())


def _has_deletes(manifest: Any) -> bool:
    from pyiceberg.manifest import ManifestContent

    return bool(manifest.content == ManifestContent.DELETES)


def _age(snapshot: Any) -> int:
    return int(snapshot.timestamp_ms)


def _stopped(name: str, stream: IcebergSource, snapshot: Any, why: str, advice: str = "S") -> InvalidInputError:
    return InvalidInputError(
        f"stream {name!r}: snapshot {snapshot.snapshot_id} of {stream.described()} {why}. The stream stopped before it "
        f"read the snapshot. {advice}tart over with --fresh."
    )
