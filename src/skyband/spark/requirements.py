"""The dependencies of `skyband.spark`, checked on import, so that the error names the packages to install.

The supported versions are those of the extra ``spark``, read from the metadata of the installed package, where
pyproject.toml declares them. They are for the latest Spark; managed platforms have an earlier one, with packages that
fit it.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec

from packaging.requirements import Requirement

from skyband.errors import MissingDependencyError

__all__ = ["check", "requirements"]

# Always required. The rest of the extra is for Spark Connect, which checks it itself.
NEEDED = ("pyspark", "pandas", "protobuf", "grpcio")
# What an earlier Spark needs: the protobuf that generated its messages, and the grpcio of its extra for Connect.
EARLIER = {"4.0": {"protobuf": "5.28.3", "grpcio": "1.67"}, "4.1": {"protobuf": "6.33.0", "grpcio": "1.76"}}


def requirements() -> list[Requirement]:
    """Return the required packages with versions; empty if Skyband is on the path but not installed.

    >>> [requirement.name for requirement in requirements()]
    ['grpcio', 'pandas', 'protobuf', 'pyspark']
    """
    try:
        declared = map(Requirement, requires("skyband") or ())
    except PackageNotFoundError:  # in an archive that Spark sent to its executors
        return []
    of_spark = (one for one in declared if one.marker is not None and one.marker.evaluate({"extra": "spark"}))
    earlier = EARLIER.get(".".join((_version("pyspark") or "").split(".")[:2]), {})
    return [
        Requirement(f"{one.name}>={earlier[one.name]}") if one.name in earlier else one
        for one in of_spark
        if one.name in NEEDED
    ]


def check(needed: Iterable[Requirement] | None = None) -> None:
    """Raise MissingDependencyError unless all packages are installed in supported versions.

    >>> check([Requirement("numpy>=1.26"), Requirement("flink>=2.0")])
    Traceback (most recent call last):
    ...
    skyband.errors.MissingDependencyError: skyband.spark needs flink>=2.0 (not installed). Install it with: ...
    """
    wrong = [
        f"{one.name}{_bounds(one)} ({what})"
        for one in (requirements() if needed is None else needed)
        if (what := _wrong(one))
    ]
    if wrong:
        raise MissingDependencyError(
            f"skyband.spark needs {', '.join(wrong)}. Install it with: pip install 'skyband[spark]'"
        )


def _wrong(requirement: Requirement) -> str | None:
    there = _version(requirement.name)
    if there is None:
        return "not installed"
    return None if requirement.specifier.contains(there, prereleases=True) else f"found {there}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        # On the path but not installed, as Spark's scripts do.
        return str(import_module(package).__version__) if find_spec(package) is not None else None


def _bounds(requirement: Requirement) -> str:
    """Return the version bounds, the lower bound first."""
    return ",".join(sorted(map(str, requirement.specifier), reverse=True))
