"""Texts of Parquet files that are stored once and numbered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow.parquet as pq

__all__ = ["numbered_texts"]

_NUMBER_BYTES = 4  # at most, of a value that is a number of a dictionary


def numbered_texts(metadata: pq.FileMetaData, names: Iterable[str]) -> list[str]:
    """Return those of these columns whose texts are numbered in every row group: they are read several times faster."""
    places = {metadata.schema.column(at).path: at for at in range(metadata.num_columns)}
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    return [name for name in names if name in places and all(_is_numbered(one.column(places[name])) for one in groups)]


def _is_numbered(chunk: Any) -> bool:
    """Return whether texts of a column chunk are likely stored once: a writer stops that when there are too many."""
    if chunk.physical_type != "BYTE_ARRAY" or not chunk.has_dictionary_page:
        return False
    return bool(chunk.total_uncompressed_size <= _NUMBER_BYTES * chunk.num_values)
