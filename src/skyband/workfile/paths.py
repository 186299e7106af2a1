"""Paths in a workload file: relative to the folder it is in, unless they have a scheme."""

from __future__ import annotations

import os
import re
from pathlib import Path

from skyband.workfile.model import Format

__all__ = ["absolute", "format_of"]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # of two letters and more: C: is a drive
_PACKED = re.compile(r"\.(gz|bz2|zst|zstd|snappy|lz4|xz|deflate)$", re.IGNORECASE)
_FORMATS: dict[str, Format] = {
    "csv": "csv",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
    "parquet": "parquet",
    "pq": "parquet",
}


def absolute(path: str, folder: Path) -> str:
    """The path from the root on; one with a scheme stays as it is.

    >>> absolute("data/*.csv", Path("/work")), absolute("s3a://bucket/x", Path("/work"))
    ('/work/data/*.csv', 's3a://bucket/x')
    """
    return path if _SCHEME.match(path) else os.path.normpath(folder / Path(path).expanduser())


def format_of(path: str) -> Format | None:
    """What the ending of a path says about its format.

    >>> format_of("trades.csv.gz"), format_of("trades/*.parquet"), format_of("trades")
    ('csv', 'parquet', None)
    """
    ending = _PACKED.sub("", path.rstrip("/")).rpartition(".")[2]
    return _FORMATS.get(ending.lower())
