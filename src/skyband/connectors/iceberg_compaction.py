"""Merges small files of an Iceberg table beside the stream that appends them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from time import time
from typing import Any
from uuid import uuid4

from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files
from pyiceberg.manifest import ManifestContent
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _OverwriteFiles

from skyband.connectors.delta_compaction import Compactor
from skyband.connectors.table_errors import cause_of

__all__ = ["IcebergCompactor"]

_LOG = logging.getLogger(__name__)
_SIZE = 128 << 20  # bytes of a merged file, if neither the sink nor the table says
_TARGET = "write.target-file-size-bytes"
_ATTEMPTS = 5  # of a commit, while the stream commits, too


class IcebergCompactor(Compactor):
    """Starts a compaction when the oldest small file has the age for it, as `Compactor` does for Delta tables.

    A commit replaces some files by one with the same rows. Its snapshot has the operation ``replace``,
    which streams over the table skip. If the stream commits at the same time, one of both commits is repeated. Files
    that are replaced stay until their snapshots expire.
    """

    def compact(self) -> None:
        """Merge small files, up to the size of a merged file at a time."""
        try:
            table = self._load()
            for files in list(_groups(table, self._size(table))):
                self._merge(table, files)
        except Exception as error:  # answers are complete without it
            _LOG.warning("%s: small files were not merged: %s", self._where, cause_of(error))

    def _size(self, table: Any) -> int:
        return self._plan.size or int(table.properties.get(_TARGET, _SIZE))

    def _oldest(self, table: Any) -> float:
        """Return the time at which the oldest of several small files was added; now, if there are none."""
        snapshot = table.current_snapshot()
        if snapshot is None:
            return time()
        times = {one.snapshot_id: one.timestamp_ms / 1000 for one in table.snapshots()}
        found = []
        for manifest in snapshot.manifests(table.io):
            if manifest.content == ManifestContent.DATA:
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                small = [one for one in entries if one.data_file.file_size_in_bytes < self._size(table)]
                found += [times.get(one.snapshot_id, 0.0) for one in small]  # a snapshot that has expired is old
        return min(found) if len(found) > 1 else time()

    def _merge(self, table: Any, files: list[Any]) -> None:
        """Replace some files by one with the same rows."""
        scan = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
        rows = scan.to_table(files)
        new = list(_dataframe_to_data_files(table.metadata, rows, table.io, write_uuid=uuid4()))
        old = {task.file.file_path: task.file for task in files}
        for attempt in range(_ATTEMPTS):
            present = {task.file.file_path for task in table.scan().plan_files()}
            if not old.keys() <= present:
                break  # another commit has removed some
            try:
                with table.transaction() as changes, _Replaced(Operation.OVERWRITE, changes, table.io) as replaced:
                    for file in old.values():
                        replaced.delete_data_file(file)
                    for file in new:
                        replaced.append_data_file(file)
            except (CommitFailedException, ValidationException):  # the stream has committed meanwhile
                if attempt == _ATTEMPTS - 1:
                    raise
                table.refresh()
            else:
                return
        for file in new:
            table.io.delete(file.file_path)


class _Replaced(_OverwriteFiles):  # type: ignore[misc]  # pyiceberg is not typed
    """An overwrite that replaces files by others with the same rows. pyiceberg writes no summary for it."""

    def _summary(self, *given: Any, **more: Any) -> Summary:
        values = super()._summary(*given, **more).model_dump()
        return Summary(**{**values, "operation": Operation.REPLACE})


def _groups(table: Any, size: int) -> Iterator[list[Any]]:
    """Yield groups of small files of one partition, each with the size of a merged file at most."""
    open_groups: dict[str, list[Any]] = {}
    for task in table.scan().plan_files():
        file = task.file
        if file.file_size_in_bytes >= size or task.delete_files:
            continue
        key = f"{file.spec_id} {file.partition}"
        group = open_groups.setdefault(key, [])
        if group and sum(one.file.file_size_in_bytes for one in group) + file.file_size_in_bytes > size:
            if len(group) > 1:
                yield group
            group = open_groups[key] = []
        group.append(task)
    yield from (group for group in open_groups.values() if len(group) > 1)
