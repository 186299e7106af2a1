"""Local paths, and URLs of remote storage."""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path

__all__ = ["absolute", "has_scheme", "local_files"]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # at least two letters: C: is a drive


def absolute(path: str, folder: Path) -> str:
    """Return the absolute path; a path with a scheme is returned unchanged.

    >>> absolute("data/*.csv", Path("/work")), absolute("s3a://bucket/x", Path("/work"))
    ('/work/data/*.csv', 's3a://bucket/x')
    """
    return path if has_scheme(path) else os.path.normpath(folder / Path(path).expanduser())


def has_scheme(path: object) -> bool:
    """Whether a path is a URL such as ``s3a://bucket/x``, not a local path.

    >>> has_scheme("hdfs://host/x"), has_scheme("C:/x"), has_scheme("answers")
    (True, False, False)
    """
    return isinstance(path, str) and _SCHEME.match(path) is not None


def local_files(path: str) -> list[Path] | None:
    """Return the files of a local path, folder or glob, sorted by name; None for a URL.

    Like Spark, it ignores files whose names begin with a dot or an underscore.
    """
    if has_scheme(path):
        return None
    found: list[Path] = []
    for name in sorted(glob.glob(path)):
        entry = Path(name)
        found += [file for file in sorted(entry.rglob("*")) if file.is_file()] if entry.is_dir() else [entry]
    return [file for file in found if not file.name.startswith((".", "_"))]
