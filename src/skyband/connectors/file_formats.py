"""File formats, and how they follow from the extension of a path."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

__all__ = ["ENDING", "Format", "format_of", "is_blocked", "is_packed", "is_tabs"]

Format = Literal["parquet", "csv", "json", "avro", "protobuf", "text"]

_FORMATS: dict[str, Format] = {
    "avro": "avro",
    "csv": "csv",
    "tsv": "csv",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
    "parquet": "parquet",
    "pq": "parquet",
}
_PACKED = ("gz", "bz2", "zst", "snappy", "lz4", "deflate")


def _any_case(words: Iterable[str]) -> str:
    """Return a case-insensitive pattern without flags, which JSON Schema does not support."""
    return "|".join("".join(f"[{c}{c.upper()}]" if c.isalpha() else c for c in word) for word in words)


# The extension of a path that determines its format, with or without compression.
ENDING = rf"\.({_any_case(_FORMATS)})(\.({_any_case(_PACKED)}))?/*$"


def format_of(path: str) -> Format | None:
    """Return the format of a path by its extension; None if the extension is unknown.

    >>> format_of("trades.csv.gz"), format_of("trades/*.parquet"), format_of("trades")
    ('csv', 'parquet', None)
    """
    ending = re.search(ENDING, path)
    return _FORMATS[ending[1].lower()] if ending else None


def is_tabs(path: str) -> bool:
    """Whether the extension of a path denotes tab-separated values.

    >>> is_tabs("trades.tsv.gz"), is_tabs("trades.csv")
    (True, False)
    """
    ending = re.search(ENDING, path)
    return ending is not None and ending[1].lower() == "tsv"


def is_blocked(kind: str | None) -> bool:
    """Whether files of a format are binary and have parts that can be read by themselves: row groups, blocks."""
    return kind in ("parquet", "avro")


def is_packed(path: str) -> bool:
    """Whether the extension of a path denotes compression.

    >>> is_packed("trades.csv.gz"), is_packed("trades.csv")
    (True, False)
    """
    return Path(path).suffix.lower().removeprefix(".") in _PACKED
