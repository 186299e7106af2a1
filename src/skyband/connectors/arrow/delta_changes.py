"""Files of changed rows of a Delta table. A file can be read twice: its rows were inserted, and later deleted.

So the path of such a file has an ending, in logs of read files and in splits: what its rows are, the version that
changed them, and its time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "CHANGE_COLUMNS",
    "CHANGE_TYPE",
    "ChangedFile",
    "change_columns",
    "changed_file",
    "changed_files",
    "stored_path",
]

CHANGE_TYPE = "_change_type"  # also the name of the column in files of changes
_ENDING = re.compile(r"#(insert|delete|change)@(\d+)@(\d+)$")
_TIME = pa.timestamp("us", "UTC")
CHANGE_COLUMNS = pa.schema(
    [
        (CHANGE_TYPE, pa.string()),  # insert, update_preimage, update_postimage or delete
        ("_commit_version", pa.int64()),
        ("_commit_timestamp", _TIME),
        ("op", pa.string()),  # d: the row no longer exists; u: it is new or has replaced another one
        ("op_number", pa.int64()),  # the order of changes: of a commit, deletes come first
    ]
)


class ChangedFile(NamedTuple):
    """What the rows of a file are: inserted, deleted, or changes with a type each; by a commit and its time."""

    kind: Literal["insert", "delete", "change"]
    version: int
    time: int  # milliseconds since 1970

    def marked(self, path: str) -> str:
        """Return the path of a file with the ending for this change.

        >>> ChangedFile("delete", 3, 1700000000000).marked("/t/1.parquet")
        '/t/1.parquet#delete@3@1700000000000'
        """
        return f"{path}#{self.kind}@{self.version}@{self.time}"


def stored_path(path: str | Path) -> Path:
    """Return the path of the file on disk.

    >>> str(stored_path("/t/1.parquet#delete@3@1700000000000")), str(stored_path("/t/1#x.parquet"))
    ('/t/1.parquet', '/t/1#x.parquet')
    """
    return Path(_ENDING.sub("", str(path)))


def changed_file(path: Path) -> ChangedFile:
    """Return what the ending of a path says."""
    found = _ENDING.search(str(path))
    assert found is not None, path
    return ChangedFile(found[1], int(found[2]), int(found[3]))  # type: ignore[arg-type]


def change_columns(change: ChangedFile, types: pa.ChunkedArray) -> dict[str, pa.ChunkedArray]:
    """Return the columns about the changes of some rows. `types` is the column of the file, null if it has none."""
    rows = len(types)
    if change.kind != "change":
        types = _repeated(pa.scalar(change.kind), rows)
    is_delete = pc.or_(pc.equal(types, "delete"), pc.equal(types, "update_preimage"))
    first, second = pa.scalar(2 * change.version, pa.int64()), pa.scalar(2 * change.version + 1, pa.int64())
    return {
        CHANGE_TYPE: types,
        "_commit_version": _repeated(pa.scalar(change.version, pa.int64()), rows),
        "_commit_timestamp": _repeated(pa.scalar(change.time * 1000, pa.int64()).cast(_TIME), rows),
        "op": pc.if_else(is_delete, "d", "u"),
        "op_number": pc.if_else(is_delete, first, second),
    }


def changed_files(
    actions: Iterable[Mapping[str, Any]], version: int, time: int
) -> list[tuple[ChangedFile, Mapping[str, Any]]]:
    """Return the files with the changes of a commit, as the protocol of Delta tables defines them."""
    every = list(actions)
    found = [(ChangedFile("change", version, time), action["cdc"]) for action in every if action.get("cdc")]
    if found:
        return found  # they have all changes of the commit
    removed, added = (
        [file for action in every if (file := action.get(name)) is not None and file.get("dataChange", True)]
        for name in ("remove", "add")
    )
    deleted, inserted = ChangedFile("delete", version, time), ChangedFile("insert", version, time)
    return [*((deleted, file) for file in removed), *((inserted, file) for file in added)]


def _repeated(value: pa.Scalar, rows: int) -> pa.ChunkedArray:
    return pa.chunked_array([pa.repeat(value, rows)], value.type)
