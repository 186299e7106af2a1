"""What `skyband.spark` needs beside Skyband itself; checked first, so that it fails with what to install."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import NamedTuple

from skyband.errors import MissingDependencyError

__all__ = ["NEEDS", "Need", "check"]


class Need(NamedTuple):
    """A package by the name it is installed under, the module it brings, and the versions that will do.

    >>> Need("pandas", "pandas", "2.2", below="3")
    pandas>=2.2,<3
    """

    package: str
    module: str
    least: str
    below: str | None = None

    def __repr__(self) -> str:
        return f"{self.package}>={self.least}" + (f",<{self.below}" if self.below else "")


# The same bounds as in the extra `spark` of pyproject.toml; a test compares them.
NEEDS = (
    Need("pyspark", "pyspark", "4.3", below="5"),
    Need("pandas", "pandas", "2.2", below="3"),
    Need("protobuf", "google.protobuf", "6.33.5"),
    Need("grpcio", "grpc", "1.76"),
)


def check(needs: Sequence[Need] = NEEDS) -> None:
    """Raise MissingDependencyError unless everything is there, in a version that will do.

    >>> check([Need("numpy", "numpy", "1.26"), Need("flink", "no_such_module", "2.0")])
    Traceback (most recent call last):
    ...
    skyband.errors.MissingDependencyError: skyband.spark needs flink>=2.0 (not installed) and was not loaded; ...
    """
    wrong = [f"{need} ({what})" for need in needs if (what := _wrong(need))]
    if wrong:
        raise MissingDependencyError(
            f"skyband.spark needs {', '.join(wrong)} and was not loaded; get it with: pip install 'skyband[spark]'"
        )


def _wrong(need: Need) -> str | None:
    there = _version(need)
    if there is None:
        return "not installed"
    if _numbers(there) < _numbers(need.least) or (need.below and _numbers(there) >= _numbers(need.below)):
        return f"installed is {there}"
    return None


def _version(need: Need) -> str | None:
    try:
        if find_spec(need.module) is None:
            return None
    except ModuleNotFoundError:  # a parent of it is not there either
        return None
    try:
        return version(need.package)
    except PackageNotFoundError:  # on the path without having been installed, as Spark's own scripts do it
        return str(import_module(need.module).__version__)


def _numbers(text: str) -> tuple[int, ...]:
    found = re.match(r"\d+(\.\d+)*", text)
    return tuple(map(int, found[0].split("."))) if found else ()
