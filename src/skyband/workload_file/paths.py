"""Paths in a workload file: relative to the folder it is in, unless they have a scheme."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from pathlib import Path

from skyband.workload_file.models import Format

__all__ = ["ENDING", "absolute", "format_of", "has_scheme", "is_packed", "is_tabs", "local_files"]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # of two letters and more: C: is a drive
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


def local_files(path: str) -> list[Path] | None:
    """The files of a path, a folder or a glob of this machine, by name; None for an address.

    Those that Spark passes over are left out: names that begin with a dot or an underscore.
    """
    if has_scheme(path):
        return None
    found: list[Path] = []
    for name in sorted(glob.glob(path)):
        there = Path(name)
        found += [file for file in sorted(there.rglob("*")) if file.is_file()] if there.is_dir() else [there]
    return [file for file in found if not file.name.startswith((".", "_"))]
