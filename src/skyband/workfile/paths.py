"""Paths in a workload file: relative to the folder it is in, unless they have a scheme."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from skyband.workfile.model import Format

__all__ = ["ENDING", "absolute", "format_of"]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # of two letters and more: C: is a drive
_FORMATS: dict[str, Format] = {
    "csv": "csv",
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


def absolute(path: str, folder: Path) -> str:
    """The path from the root on; one with a scheme stays as it is.

    >>> absolute("data/*.csv", Path("/work")), absolute("s3a://bucket/x", Path("/work"))
    ('/work/data/*.csv', 's3a://bucket/x')
    """
    return path if has_scheme(path) else os.path.normpath(folder / Path(path).expanduser())


def has_scheme(path: object) -> bool:
    """Whether a path is an address such as ``s3a://bucket/x``, and none of this machine's folders.

    >>> has_scheme("hdfs://host/x"), has_scheme("C:/x"), has_scheme("answers")
    (True, False, False)
    """
    return isinstance(path, str) and _SCHEME.match(path) is not None


def format_of(path: str) -> Format | None:
    """What the ending of a path says about its format.

    >>> format_of("trades.csv.gz"), format_of("trades/*.parquet"), format_of("trades")
    ('csv', 'parquet', None)
    """
    ending = re.search(ENDING, path)
    return _FORMATS[ending[1].lower()] if ending else None
