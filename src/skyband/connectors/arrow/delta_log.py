"""The data files of a Delta table: those of a version, and those that later commits add, in the order of commits.

deltalake reads a version. Commits after it are read from the log of the table, one JSON file each, because their order
and whether they change rows are not in a version.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from skyband.connectors.arrow.delta_changes import CHANGE_COLUMNS, ChangedFile, changed_files
from skyband.connectors.arrow.tables import TableFile, TableLog
from skyband.connectors.delta_source import DeltaSource
from skyband.errors import InvalidInputError, MissingDependencyError
from skyband.expressions.types import spark_name, spark_type

__all__ = [
    "FollowedDelta",
    "delta_files",
    "partition_of",
    "table_columns",
    "unsupported_features",
]

_LOG = logging.getLogger("skyband.sources")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_UNSUPPORTED = ("deletionVectors", "columnMapping", "v2Checkpoint", "typeWidening", "variantType")


def delta_files(name: str, stream: DeltaSource, version: int | None = None) -> list[TableFile]:
    """Return the files of a version of a table, sorted by path; by default of the one with which a stream begins."""
    table = _opened(name, stream, stream.version if version is None else version)
    found = pa.table(table.get_add_actions(flatten=True))
    rows = zip(found["path"].to_pylist(), found["size_bytes"].to_pylist(), strict=True)
    partitions = [column for column in found.column_names if column.startswith("partition.")]
    for path, *values in zip(found["path"].to_pylist(), *(found[one].to_pylist() for one in partitions), strict=True):
        given = {one.removeprefix("partition."): _spelled(value) for one, value in zip(partitions, values, strict=True)}
        _check_partition(name, stream, unquote(path), given)
    files = sorted(TableFile(_absolute(stream, path), table.version(), size) for path, size in rows)
    if not stream.has_changes:
        return files
    change = ChangedFile("insert", table.version(), _time_of(name, stream, table.version()))
    return [file._replace(path=change.marked(file.path)) for file in files]


def table_columns(name: str, stream: DeltaSource) -> tuple[pa.Schema, frozenset[str]]:
    """Return the columns of a table, with Spark's types, and which of them are partitions. Nested ones are omitted."""
    table = _opened(name, stream, stream.version)
    columns = _columns(pa.schema(table.schema().to_arrow()))
    if stream.has_changes:
        both = next((one for one in columns.names if one.lower() in CHANGE_COLUMNS.names), None)
        if both is not None:
            raise InvalidInputError(
                f"stream {name!r}: Delta table {stream.path!r} has a column {both!r}, which changed_rows: feed adds. "
                "Rename the column of the table."
            )
        columns = pa.schema([*columns, *CHANGE_COLUMNS])
    return columns, frozenset(table.metadata().partition_columns)


class FollowedDelta:
    """Finds the files of a table that a stream has not read. Each call of `look` returns what is new since the last."""

    def __init__(self, name: str, stream: DeltaSource, log: TableLog, schema: pa.Schema | None = None) -> None:
        self._name, self._stream, self._log = name, stream, log
        self._next: int | None = None
        self._schema = schema
        self.has_unsettled = False  # a commit is complete when it appears

    def look(self) -> list[TableFile]:
        """Return new files by version, then by path."""
        found: list[TableFile] = []
        if self._next is None:
            found, self._next = self._begun()
        while (commit := self._commit(self._next)) is not None:
            found += self._added(self._next, commit)
            self._next += 1
        return [file for file in found if file.path not in self._log]

    def _begun(self) -> tuple[list[TableFile], int]:
        """Return the files at which an earlier run stopped, or all of the first version; and the version after."""
        newest = int(_opened(self._name, self._stream).version())
        versions = self._log.versions
        if versions is None:
            first = newest if self._stream.version is None else self._stream.version
            return delta_files(self._name, self._stream, first), first + 1
        begin, last = versions
        if last < newest and self._commit(last + 1) is None:
            raise InvalidInputError(
                f"stream {self._name!r}: the log of Delta table {self._stream.path!r} has no version {last + 1} any "
                f"more, and the stream has read version {last}. The files that were added since then are unknown, so "
                "the stream was not started. Start over with --fresh, and retain the log of the table for longer."
            )
        if last == begin:
            return delta_files(self._name, self._stream, begin), begin + 1
        commit = self._commit(last)
        return (self._added(last, commit) if commit is not None else []), last + 1

    def _commit(self, version: int) -> list[dict[str, Any]] | None:
        """Return the actions of a commit; None if there is no such version."""
        path = Path(self._stream.path) / "_delta_log" / f"{version:020}.json"
        try:
            lines = path.read_bytes().splitlines()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._stopped(version, f"cannot be read ({error.strerror or error})") from None
        try:
            return [json.loads(line) for line in lines if line.strip()]
        except ValueError as error:
            raise self._stopped(version, f"is not a Delta commit ({error})") from None

    def _added(self, version: int, commit: Iterable[Mapping[str, Any]]) -> list[TableFile]:
        """Return the files with rows that a commit appends, or changes; [] for a compaction."""
        found, changes = [], False
        if self._stream.has_changes:
            commit = list(commit)
            found = self._changed(version, commit)
        for action in commit:
            if (protocol := action.get("protocol")) is not None:
                _check_features(self._name, self._stream, protocol.get("readerFeatures") or ())
            if (metadata := action.get("metaData")) is not None:
                self._check_columns(version)
                _check_features(self._name, self._stream, (), metadata.get("configuration") or {})
            if self._stream.has_changes:
                continue
            changes = changes or bool((action.get("remove") or {}).get("dataChange"))
            add = action.get("add")
            if add is None or not add.get("dataChange", True):
                continue
            if add.get("deletionVector") is not None:
                changes = True
            _check_partition(self._name, self._stream, unquote(add["path"]), add.get("partitionValues") or {})
            found.append(TableFile(_absolute(self._stream, add["path"]), version, int(add["size"])))
        if not changes:
            return sorted(found)
        if self._stream.changed_rows != "skip":
            raise self._stopped(
                version, "deletes, updates or overwrites rows, which may be in answers", "Set changed_rows: skip, or s"
            )
        _LOG.warning("stream %r: version %d of the table changes rows and is skipped.", self._name, version)
        return []

    def _changed(self, version: int, commit: Iterable[Mapping[str, Any]]) -> list[TableFile]:
        """Return the files with the changes of a commit: deleted rows before inserted ones."""
        files = changed_files(commit, version, 0)
        if not files:
            return []
        if {change.kind for change, _ in files} & {"delete"} and not self._has_feed(version):
            raise self._stopped(
                version,
                "deletes or replaces rows, and the table does not record them",
                "For later versions, set the table property delta.enableChangeDataFeed to true. Then s",
            )
        time, found = _time_of(self._name, self._stream, version), list[TableFile]()
        for change, file in files:
            _check_partition(self._name, self._stream, unquote(file["path"]), file.get("partitionValues") or {})
            path = _absolute(self._stream, file["path"])
            size = file.get("size")
            if size is None or change.kind == "delete":
                try:
                    size = Path(path).stat().st_size
                except OSError as error:
                    raise self._stopped(version, f"removed {path!r}, which cannot be read ({error.strerror})") from None
            found.append(TableFile(change._replace(time=time).marked(path), version, int(size)))
        return found

    def _has_feed(self, version: int) -> bool:
        settings = _opened(self._name, self._stream, version).metadata().configuration
        return str((settings or {}).get("delta.enableChangeDataFeed", "false")).lower() == "true"

    def _check_columns(self, version: int) -> None:
        """Reject a version in which a column of the stream is missing or has another type."""
        if self._schema is None:
            return
        now = _columns(pa.schema(_opened(self._name, self._stream, version).schema().to_arrow()))
        types = {field.name.lower(): field.type for field in now}
        for field in self._schema:
            if self._stream.has_changes and field.name in CHANGE_COLUMNS.names:
                continue
            there = types.get(field.name.lower())
            if there is None:
                raise self._stopped(version, f"no longer has the column {field.name!r}")
            if there != field.type:
                was, is_now = spark_name(field.type), spark_name(there)
                raise self._stopped(version, f"has column {field.name!r} of type {is_now}, which was {was}")

    def _stopped(self, version: int, why: str, advice: str = "S") -> InvalidInputError:
        return InvalidInputError(
            f"stream {self._name!r}: version {version} of Delta table {self._stream.path!r} {why}. The stream stopped "
            f"before it read the version. {advice}tart over with --fresh."
        )


def partition_of(file: Path, root: str) -> dict[str, str | None]:
    """Return the values of a file's partition columns, from the names of its folders.

    >>> partition_of(Path("/t/day=2024-01-01/x%2Fy=__HIVE_DEFAULT_PARTITION__/1.parquet"), "/t")
    {'day': '2024-01-01', 'x/y': None}
    """
    parts = [part.partition("=") for part in file.relative_to(root).parts[:-1] if "=" in part]
    return {unquote(name): None if value == _NO_VALUE else unquote(value) for name, _, value in parts}


def _opened(name: str, stream: DeltaSource, version: int | None = None) -> Any:
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError
    except ImportError as error:
        raise MissingDependencyError(
            f"a stream of source delta needs deltalake ({error}). Install it with: pip install 'skyband[delta]'"
        ) from None
    try:
        table = DeltaTable(stream.path, version=version)
    except TableNotFoundError:
        raise InvalidInputError(
            f"stream {name!r}: {stream.path!r} is not a Delta table. Correct the path, or create the table."
        ) from None
    except DeltaError as error:
        which = "" if version is None else f"version {version} of "
        why = str(error).partition("\n")[0]
        newest = None if version is None else DeltaTable(stream.path).version()
        if version is not None and newest is not None and version > newest:
            why = f"the newest is {newest}. Correct version, or omit it to begin with the newest"
        why = why.rstrip(".")
        raise InvalidInputError(f"stream {name!r}: {which}Delta table {stream.path!r} cannot be read: {why}.") from None
    _check_features(name, stream, table.protocol().reader_features or (), table.metadata().configuration)
    return table


def unsupported_features(features: Iterable[str], settings: Mapping[str, str] | None = None) -> list[str]:
    """Return the features of a table that change what its files mean. `settings` is the configuration of the table."""
    used = [one for one in features if one in _UNSUPPORTED and one != "columnMapping"]
    if (settings or {}).get("delta.columnMapping.mode", "none") != "none":
        used.append("columnMapping")
    return used


def _check_features(
    name: str, stream: DeltaSource, features: Iterable[str], settings: Mapping[str, str] | None = None
) -> None:
    if used := unsupported_features(features, settings):
        raise InvalidInputError(
            f"stream {name!r}: Delta table {stream.path!r} uses {', '.join(used)}, which is not supported, so rows "
            "could be wrong. Rewrite the table without it, or read it with Spark and skyband.spark.start."
        )


def _check_partition(name: str, stream: DeltaSource, path: str, given: Mapping[str, str | None]) -> None:
    """Reject a file whose folders do not have the names of its partition: its rows would have other values."""
    if partition_of(Path(path), "") != {column: value or None for column, value in given.items()}:
        raise InvalidInputError(
            f"stream {name!r}: {path!r} in Delta table {stream.path!r} has the partition {dict(given)}, and its "
            "folders have other names. Such tables are not supported; rewrite the table."
        )


def _time_of(name: str, stream: DeltaSource, version: int) -> int:
    """Return the time of a commit, in milliseconds since 1970."""
    path = Path(stream.path) / "_delta_log" / f"{version:020}.json"
    try:
        actions = [json.loads(line) for line in path.read_bytes().splitlines() if line.strip()]
        info = next(action["commitInfo"] for action in actions if action.get("commitInfo"))
        return int(info.get("inCommitTimestamp") or info["timestamp"])
    except (OSError, ValueError, KeyError, TypeError, StopIteration):
        raise InvalidInputError(
            f"stream {name!r}: the log of Delta table {stream.path!r} has no time of version {version}, which "
            "changed_rows: feed needs. Set version to a later one, or make a new commit, and start over with --fresh."
        ) from None


def _spelled(value: Any) -> str | None:
    """Return a value of a partition as the log has it."""
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _absolute(stream: DeltaSource, path: str) -> str:
    plain = unquote(path).removeprefix("file://")
    return plain if plain.startswith("/") else str(Path(stream.path) / plain)


def _columns(schema: pa.Schema) -> pa.Schema:
    return pa.schema(list(_supported(schema)))


def _supported(schema: pa.Schema) -> Iterator[pa.Field]:
    for field in schema:
        is_bytes = pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type)
        kind = pa.binary() if is_bytes else spark_type(field.type)
        if kind is not None and not pa.types.is_null(kind):
            yield pa.field(field.name, kind)
