"""The data files of the newest version of a Delta table, or of the current snapshot of an Iceberg table.

The folder of a table also has files that are not part of it: of earlier versions, of files that were merged, and of
failed commits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from skyband.errors import InvalidInputError, MissingDependencyError, UnsupportedError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DeltaSnapshot", "IcebergFolder", "IcebergSnapshot", "PartitionValues", "TableSnapshot", "snapshot_of"]

_METADATA = re.compile(r"v?(\d+)(?:-[^/]*)?(?:\.gz)?\.metadata\.json|v?(\d+)(?:-[^/]*)?\.metadata\.json\.gz")
_HINT = "version-hint.text"
_UNPARTITIONED = ("rank", "window_start", "window_end", "time")  # columns by which files are searched


class PartitionValues(NamedTuple):
    """Columns of a table that a file does not have, because all of its rows have one value."""

    columns: tuple[str, ...]  # of the table, in order
    values: Mapping[str, pa.Scalar]


class TableSnapshot(Protocol):
    """The files of a table, as of its newest version."""

    folder: Path

    def files(self) -> frozenset[Path]:
        """Return the files of the newest version; the same object if the table has not changed."""

    def partition(self, path: Path) -> PartitionValues | None:
        """Return the columns that a file does not have; None if it has all of them."""


def snapshot_of(folder: Path) -> TableSnapshot | None:
    """Return the table in a folder; None if the folder has none, so that all of its files count."""
    if (folder / "_delta_log").is_dir():
        return DeltaSnapshot(folder)
    if (folder / "metadata").is_dir() and _metadata_files(folder):
        return IcebergFolder(folder)
    return None


class DeltaSnapshot:
    """The files of a Delta table in a folder, by its log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._table: Any = None
        self._files: tuple[int, frozenset[Path]] | None = None  # with the version
        self._partitions: dict[Path, PartitionValues] = {}
        self._commit: tuple[int, int] | None = None  # identifies the file of the version in the log

    def files(self) -> frozenset[Path]:
        """Return the files of the newest version."""
        try:
            from deltalake import DeltaTable
            from deltalake.exceptions import DeltaError
        except ImportError as error:
            raise _missing(f"Delta table {str(self.folder)!r}", "deltalake", "delta", error) from None
        try:
            if self._files is None or self._commit != self._commit_of(self._files[0]):
                self._table, self._files = DeltaTable(str(self.folder)), None  # also if the table was created again
            else:
                self._table.update_incremental()
            version = int(self._table.version())
            if self._files is None or self._files[0] != version:
                self._commit, self._files = self._commit_of(version), (version, self._active())
        except DeltaError as error:
            self._files = None
            raise InvalidInputError(
                f"Delta table {str(self.folder)!r} cannot be read: {str(error).partition(chr(10))[0]}"
            ) from None
        return self._files[1]

    def _commit_of(self, version: int) -> tuple[int, int] | None:
        try:
            found = (self.folder / "_delta_log" / f"{version:020}.json").stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns

    def _active(self) -> frozenset[Path]:
        import pyarrow as pa

        from skyband.connectors.arrow.delta_log import unsupported_features

        meta = self._table.metadata()
        used = unsupported_features(self._table.protocol().reader_features or (), meta.configuration)
        used += [f"partitions by {name}" for name in meta.partition_columns if name in _UNPARTITIONED]
        if used:
            raise _unsupported(f"Delta table {str(self.folder)!r} uses {', '.join(used)}")
        actions = pa.table(self._table.get_add_actions(flatten=True))
        paths = [self.folder / unquote(path).removeprefix("file://") for path in actions["path"].to_pylist()]
        self._partitions = {}
        if meta.partition_columns:
            schema = pa.schema(self._table.schema().to_arrow())
            columns = tuple(schema.names)
            for place, path in enumerate(paths):
                values = {name: actions[f"partition.{name}"][place] for name in meta.partition_columns}
                self._partitions[path] = PartitionValues(columns, values)
        return frozenset(paths)

    def partition(self, path: Path) -> PartitionValues | None:
        """Return the columns that a file does not have."""
        return self._partitions.get(path)


class IcebergSnapshot:
    """The files of the current snapshot of an Iceberg table in a catalog. `properties` are those of pyiceberg."""

    def __init__(self, table: str, catalog: str, properties: Mapping[str, str]) -> None:
        self._name, self._catalog_name, self._properties = table, catalog, dict(properties)
        self._catalog: Any = None
        self._files: tuple[int | None, frozenset[Path]] | None = None  # with the snapshot
        self.folder = _local(str(self._load().location()), f"Iceberg table {table!r}")

    def files(self) -> frozenset[Path]:
        """Return the files of the current snapshot."""
        self._files = _files_of(self._load(), self._files)
        return self._files[1]

    def partition(self, path: Path) -> PartitionValues | None:
        """Files of Iceberg tables have all columns."""
        return None

    def _load(self) -> Any:
        try:
            from pyiceberg.catalog import load_catalog
            from pyiceberg.exceptions import NoSuchTableError
        except ImportError as error:
            raise _missing(f"Iceberg table {self._name!r}", "pyiceberg", "iceberg", error) from None
        try:
            if self._catalog is None:
                self._catalog = load_catalog(self._catalog_name, **self._properties)
            return self._catalog.load_table(self._name)
        except NoSuchTableError:
            raise InvalidInputError(
                f"Iceberg table {self._name!r} does not exist. Start the run that creates it, or correct the name."
            ) from None


class IcebergFolder:
    """The files of an Iceberg table in a folder, without its catalog.

    The newest metadata file is the current one. A commit that failed leaves a file with the same number as the next
    one; then the file before both counts, until a later commit follows.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._current: Path | None = None
        self._files: tuple[int | None, frozenset[Path]] | None = None

    def files(self) -> frozenset[Path]:
        """Return the files of the current snapshot."""
        try:
            from pyiceberg.table import StaticTable
        except ImportError as error:
            raise _missing(f"Iceberg table {str(self.folder)!r}", "pyiceberg", "iceberg", error) from None
        current = _current_metadata(self.folder)
        if self._files is None or current != self._current:
            try:
                table = StaticTable.from_metadata(str(current))
            except (OSError, ValueError) as error:
                raise InvalidInputError(f"{str(current)!r} cannot be read: {error}") from None
            self._files = _files_of(table, self._files)
            self._current = current
        return self._files[1]

    def partition(self, path: Path) -> PartitionValues | None:
        """Files of Iceberg tables have all columns."""
        return None


def _current_metadata(folder: Path) -> Path:
    """Return the metadata file of the current version of a table."""
    files = _metadata_files(folder)
    hint = folder / "metadata" / _HINT
    if hint.is_file():
        text = hint.read_text().strip()
        found = [path for number in files for path in files[number] if path.name.startswith((f"v{text}.", f"{text}-"))]
        if found:
            return found[0]
    alone = [number for number, paths in files.items() if len(paths) == 1]
    if not alone:
        raise InvalidInputError(f"{str(folder / 'metadata')!r} has no metadata file of an Iceberg table.")
    return files[max(alone)][0]


def _metadata_files(folder: Path) -> dict[int, list[Path]]:
    """Return the metadata files of a table by their number."""
    found: dict[int, list[Path]] = {}
    for path in (folder / "metadata").iterdir():
        if named := _METADATA.fullmatch(path.name):
            found.setdefault(int(named[1] or named[2]), []).append(path)
    return found


def _files_of(table: Any, before: tuple[int | None, frozenset[Path]] | None) -> tuple[int | None, frozenset[Path]]:
    """Return the current snapshot of a table and its files."""
    snapshot = table.current_snapshot()
    number = None if snapshot is None else int(snapshot.snapshot_id)
    if before is not None and before[0] == number:
        return before
    where = f"Iceberg table {table.location()!r}"
    tasks = [] if snapshot is None else list(table.scan().plan_files())
    if any(task.delete_files for task in tasks):
        raise _unsupported(f"{where} has files of deleted rows")
    return number, frozenset(_local(task.file.file_path, where) for task in tasks)


def _local(address: str, where: str) -> Path:
    """Return the path of a file or folder on this machine."""
    if address.startswith("file:"):
        return Path(unquote(urlsplit(address).path))
    if "://" in address:
        raise UnsupportedError(f"{where} is in {address!r}, and only tables in folders of this machine can be served.")
    return Path(address)


def _missing(where: str, package: str, extra: str, error: ImportError) -> MissingDependencyError:
    return MissingDependencyError(
        f"{where} cannot be read without {package} ({error}). Install it with: pip install 'skyband[{extra}]'"
    )


def _unsupported(what: str) -> UnsupportedError:
    return UnsupportedError(f"{what}, which is not supported: rows could be wrong. Rewrite the table without it.")
