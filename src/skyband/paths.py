"""Paths of this machine, and addresses that are none."""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path

__all__ = ["absolute", "has_scheme", "local_files"]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # of two letters and more: C: is a drive


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
