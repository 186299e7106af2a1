"""The formats of files, and what the ending of a path says about them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

__all__ = ["ENDING", "Format", "format_of", "is_packed", "is_tabs"]

Format = Literal["parquet", "csv", "json", "text"]

_FORMATS: dict[str, Format] = {
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
    """A pattern without flags, which JSON Schema has not."""
    return "|".join("".join(f"[{c}{c.upper()}]" if c.isalpha() else c for c in word) for word in words)


# The ending of a path that tells its format, with or without compression.
ENDING = rf"\.({_any_case(_FORMATS)})(\.({_any_case(_PACKED)}))?/*$"


def format_of(path: str) -> Format | None:
    """What the ending of a path says about its format.

    >>> format_of("trades.csv.gz"), format_of("trades/*.parquet"), format_of("trades")
    ('csv', 'parquet', None)
    """
    ending = re.search(ENDING, path)
    return _FORMATS[ending[1].lower()] if ending else None


def is_tabs(path: str) -> bool:
    """Whether the ending of a path says that tabs separate its values.

    >>> is_tabs("trades.tsv.gz"), is_tabs("trades.csv")
    (True, False)
    """
    ending = re.search(ENDING, path)
    return ending is not None and ending[1].lower() == "tsv"


def is_packed(path: str) -> bool:
    """Whether the ending of a path says that it is compressed.

    >>> is_packed("trades.csv.gz"), is_packed("trades.csv")
    (True, False)
    """
    return Path(path).suffix.lower().removeprefix(".") in _PACKED
