"""Rows with text that is not UTF-8 are malformed: Spark's tasks cannot decode it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from skyband.connectors.arrow.batches import FileRows, letters
from skyband.data.arrow import plain_columns

__all__ = ["checked_texts", "wrong_texts"]


def checked_texts(file: Path, rows: pa.Table, numbers: Sequence[int]) -> FileRows:
    """Return rows of a file without those with invalid UTF-8; `numbers` are their places in the file."""
    reasons = wrong_texts(rows)
    if not reasons:
        return FileRows(rows, rows.num_rows, letters())
    places = sorted(reasons)
    wrong = pa.array([place in reasons for place in range(rows.num_rows)])
    found = letters([reasons[place] for place in places], file, rows=[numbers[place] for place in places])
    return FileRows(plain_columns(rows).filter(pc.invert(wrong)), rows.num_rows, found)


def wrong_texts(rows: pa.Table) -> dict[int, str]:
    """Return the rows with invalid UTF-8, with the problem of each."""
    try:
        rows.validate(full=True)
        return {}
    except pa.ArrowInvalid:
        pass
    found: dict[int, str] = {}
    rows = plain_columns(rows)
    for field in rows.schema:
        if pa.types.is_string(field.type):
            for place, value in enumerate(rows[field.name].cast(pa.binary()).to_pylist()):
                if not _is_utf8(value):
                    found.setdefault(place, f"column {field.name!r} contains invalid UTF-8")
    return found


def _is_utf8(value: bytes | None) -> bool:
    try:
        return value is None or value.decode() is not None
    except UnicodeDecodeError:
        return False
