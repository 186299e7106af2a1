"""What `skyband.spark` needs beside Skyband itself; checked first, so that it fails with what to install.

The versions that will do are those of the extra ``spark``, read from the installed package: they are written once, in
pyproject.toml.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec

from packaging.requirements import Requirement

from skyband.errors import MissingDependencyError

__all__ = ["check", "requirements"]

# What nothing works without; the rest of the extra is for Spark Connect, which asks for it itself.
NEEDED = ("pyspark", "pandas", "protobuf", "grpcio")


def requirements() -> list[Requirement]:
    """What is needed, with versions; nothing where Skyband lies on the path without having been installed.

    >>> [requirement.name for requirement in requirements()]
    ['grpcio', 'pandas', 'protobuf', 'pyspark']
    """
    try:
        declared = map(Requirement, requires("skyband") or ())
    except PackageNotFoundError:  # in an archive, which Spark has handed to its executors
        return []
    of_spark = (one for one in declared if one.marker is not None and one.marker.evaluate({"extra": "spark"}))
    return [one for one in of_spark if one.name in NEEDED]


def check(needed: Iterable[Requirement] | None = None) -> None:
    """Raise MissingDependencyError unless everything is there, in a version that will do.

    >>> check([Requirement("numpy>=1.26"), Requirement("flink>=2.0")])
    Traceback (most recent call last):
    ...
    skyband.errors.MissingDependencyError: skyband.spark needs flink>=2.0 (not installed) and was not loaded; ...
    """
    wrong = [
        f"{one.name}{_bounds(one)} ({what})"
        for one in (requirements() if needed is None else needed)
        if (what := _wrong(one))
    ]
    if wrong:
        raise MissingDependencyError(
            f"skyband.spark needs {', '.join(wrong)} and was not loaded; get it with: pip install 'skyband[spark]'"
        )


def _wrong(requirement: Requirement) -> str | None:
    there = _version(requirement.name)
    if there is None:
        return "not installed"
    return None if requirement.specifier.contains(there, prereleases=True) else f"installed is {there}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        # On the path without having been installed, as Spark's own scripts put it there.
        return str(import_module(package).__version__) if find_spec(package) is not None else None


def _bounds(requirement: Requirement) -> str:
    """The lower bound first."""
    return ",".join(sorted(map(str, requirement.specifier), reverse=True))
