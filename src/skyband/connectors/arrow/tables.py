"""Tables that are logs of data files: Delta and Iceberg. What reads them is loaded when a stream of one is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa

from skyband.connectors.delta_source import DeltaSource
from skyband.connectors.files import FilesSource
from skyband.connectors.iceberg_source import IcebergSource

if TYPE_CHECKING:
    from skyband.connectors.arrow.delta_rows import DeltaRows
    from skyband.connectors.arrow.iceberg_rows import IcebergRows

__all__ = ["FollowedTable", "TableFile", "TableLog", "follow_table", "open_table", "table_files"]


class TableFile(NamedTuple):
    """A data file, and the version of a Delta table or the snapshot of an Iceberg table that added it."""

    path: str
    version: int
    size: int


class TableLog(Protocol):
    """What a stream has read: paths of files, and the versions of the first and the last of them."""

    def __contains__(self, file: str, /) -> bool: ...

    @property
    def versions(self) -> tuple[int, int] | None:
        """The versions of the first and the last file that was read; None if no file was read."""


class FollowedTable(Protocol):
    """Finds the files of a table that a stream has not read."""

    @property
    def has_unsettled(self) -> bool:
        """Whether the last look found files that are still written."""

    def look(self) -> list[TableFile]:
        """Return what is new since the last call, in the order in which it is read."""


def table_files(name: str, stream: FilesSource) -> list[TableFile]:
    """Return the files of the version or snapshot with which a stream begins, sorted by path."""
    if isinstance(stream, DeltaSource):
        from skyband.connectors.arrow.delta_log import delta_files

        return delta_files(name, stream)
    from skyband.connectors.arrow.iceberg_log import iceberg_files

    assert isinstance(stream, IcebergSource)
    return iceberg_files(name, stream)


def follow_table(name: str, stream: FilesSource, log: TableLog, schema: pa.Schema | None = None) -> FollowedTable:
    """Return what finds new files of a table. `schema` are the columns of the stream."""
    if isinstance(stream, DeltaSource):
        from skyband.connectors.arrow.delta_log import FollowedDelta

        return FollowedDelta(name, stream, log, schema)
    from skyband.connectors.arrow.iceberg_log import FollowedIceberg

    assert isinstance(stream, IcebergSource)
    return FollowedIceberg(name, stream, log, schema)


def open_table(name: str, stream: FilesSource, declared: pa.Schema | None) -> DeltaRows | IcebergRows:
    """Return the reader of a table's rows. `declared` are the columns with which the stream has begun, if it has."""
    if isinstance(stream, DeltaSource):
        from skyband.connectors.arrow.delta_rows import DeltaRows

        return DeltaRows(name, stream, declared)
    from skyband.connectors.arrow.iceberg_rows import IcebergRows

    assert isinstance(stream, IcebergSource)
    return IcebergRows(name, stream, declared)
