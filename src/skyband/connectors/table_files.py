"""Parquet files that tasks write into the folder of a table. They are part of the table after a commit names them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from skyband.sharding.delivery import TaskFile

__all__ = ["WRITE_CHECK", "read_parts", "refuse_read_only", "remove_parts", "stored_types", "write_part"]

WRITE_CHECK = "_skyband_write_check"  # written and deleted when a stream starts; readers ignore names with _


def write_part(rows: pa.Table, folder: str, narrowest: int = 8) -> TaskFile:
    """Write rows to a new file of a folder. `narrowest` as in `stored_types`."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    path = Path(folder) / f"part-{uuid4().hex}.parquet"
    # Nanoseconds and other units are not in tables; the default version writes microseconds as they are.
    pq.write_table(stored_types(rows, narrowest), path, compression="zstd")
    return TaskFile(str(path), rows.num_rows, path.stat().st_size)


def refuse_read_only(folder: Path) -> None:
    """Raise an error if files cannot be created in a folder of this machine, or the folder itself cannot."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        raise NotADirectoryError(f"{str(folder)!r} is not a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"no right to write to folder {str(folder)!r}")


def read_parts(files: Sequence[TaskFile]) -> pa.Table:
    """Return the rows of files."""
    return pa.concat_tables([pq.read_table(file.path, partitioning=None) for file in files])


def remove_parts(files: Sequence[TaskFile]) -> None:
    """Remove files that no commit names."""
    for file in files:
        Path(file.path).unlink(missing_ok=True)


def stored_types(rows: pa.Table, narrowest: int = 8) -> pa.Table:
    """Return rows without the types that tables do not have: dictionaries, unsigned integers, columns of nulls.

    `narrowest` is the smallest width of integers, in bits.

    >>> stored_types(pa.table({"a": pa.array([1], pa.uint8())}), 32).schema.field("a").type
    DataType(int32)
    """

    def stored(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_dictionary(kind):
            return stored(kind.value_type)
        if pa.types.is_null(kind):
            return pa.string()
        if pa.types.is_integer(kind):
            width = kind.bit_width * (1 if pa.types.is_signed_integer(kind) else 2)
            if width > 64:
                return pa.decimal128(20, 0)
            wide: pa.DataType = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[max(width, narrowest)]
            return wide
        return kind

    return rows.cast(pa.schema([pa.field(field.name, stored(field.type)) for field in rows.schema]))
