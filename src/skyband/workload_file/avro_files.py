"""Look into Avro files: their columns, their first rows, and the number of all rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from skyband.connectors.files import FilesSource

__all__ = ["avro_columns", "avro_head", "avro_rows"]


def avro_columns(file: Path) -> Sequence[str]:
    """Return the names of the columns that are read from a file."""
    return tuple(_reader(file).schema.names)


def avro_head(file: Path, rows: int) -> Any:
    """Return the first rows of a file as an Arrow table."""
    import pyarrow as pa  # noqa: PLC0415 - loaded when data is read

    from skyband.connectors.arrow.splits import Split  # noqa: PLC0415

    reader = _reader(file)
    found, count = [reader.schema.empty_table()], 0
    for batch in reader.read([Split(file)]):
        found.append(batch.rows)
        count += batch.rows.num_rows
        if count >= rows:
            break
    return pa.concat_tables(found).slice(0, rows)


def avro_rows(file: Path) -> int:
    """Return the number of rows in a file, from the sizes of its blocks; raise ValueError if it is damaged."""
    from skyband.connectors.arrow.avro_container import opened_container  # noqa: PLC0415
    from skyband.connectors.arrow.unreadable import UnreadableError  # noqa: PLC0415

    try:
        with opened_container(file) as container:
            return sum(block.rows for block in container.blocks())
    except UnreadableError as error:
        raise ValueError(str(error)) from None


def _reader(file: Path) -> Any:
    from skyband.connectors.arrow.avro import AvroFiles  # noqa: PLC0415
    from skyband.errors import SkybandError  # noqa: PLC0415

    try:
        return AvroFiles("avro", FilesSource(path=str(file), format="avro", schema=None, time="time"), [file], None)
    except SkybandError as error:
        raise ValueError(str(error)) from None
