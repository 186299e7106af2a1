"""The jars with which Spark reads and writes Kafka: fetched once into a folder, and found there ever after."""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from collections.abc import Callable
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

from skyband.errors import MissingDependencyError
from skyband.spark import ivy
from skyband.spark.ivy import AbsentError, Module, NotFetchedError

__all__ = ["FOLDER", "Jars", "fetch_jars", "folder", "kafka_jars"]

FOLDER = "SKYBAND_JARS"
_PINNED = Path(__file__).with_name("kafka_jars.toml")
_LIST = "jars.json"  # what is in the folder, written last


class Jars(NamedTuple):
    """The jars of a folder, and what they are for."""

    folder: Path
    files: tuple[str, ...]
    spark: str  # the version of Spark they were fetched for
    connector: str  # the version of the connector: that of Spark, or the one that stands in for it

    @property
    def paths(self) -> str:
        """As ``spark.jars`` takes them.

        >>> Jars(Path("/jars"), ("a.jar", "b.jar"), "4.3.0", "4.3.0").paths
        '/jars/a.jar,/jars/b.jar'
        """
        return ",".join(str(self.folder / file) for file in self.files)


def folder() -> Path:
    """Where the jars are: SKYBAND_JARS, or a folder for this Spark in the user's cache."""
    told = os.environ.get(FOLDER)
    if told:
        return Path(told).expanduser().absolute()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser().absolute() / "skyband" / f"kafka-for-spark-{_spark()}"


def kafka_jars() -> Jars:
    """The jars that were fetched; raise MissingDependencyError, with the command to run, if there are none."""
    where = folder()
    try:
        told = json.loads((where / _LIST).read_text(encoding="utf-8"))
        found = Jars(where, tuple(told["jars"]), str(told["spark"]), str(told["connector"]))
        there = all((where / file).is_file() for file in found.files)
    except (OSError, ValueError, KeyError, TypeError):
        found, there = None, False
    if found is None or not there or found.spark != _spark():
        what = f"those in {str(where)!r} are for Spark {found.spark}" if there and found else f"{str(where)!r} has none"
        raise MissingDependencyError(
            f"Kafka needs jars that do not come with Spark {_spark()}, and {what}; fetch them once with: skyband jars"
        )
    return found


def fetch_jars(fetch: Callable[..., list[Path]] = ivy.fetch) -> Jars:
    """Fetch the jars into `folder`, in place of what it held before, and return them; the folder changes in one step.

    The connector has the version of Spark. Where the registry does not have that, the one that was tried in its stead
    is taken. Raises NotFetchedError if neither can be had, or if a jar is not the one it should be.

    >>> fetch_jars().connector  # doctest: +SKIP
    '4.3.0'
    """
    pinned: dict[str, Any] = tomllib.loads(_PINNED.read_text(encoding="utf-8"))
    beside = [Module.parse(one["module"]) for one in pinned["with"]]
    own = [Module.parse(f"{name}_{pinned['scala']}:{_spark()}") for name in pinned["of_spark"]]
    instead = [Module.parse(one["module"]) for one in pinned["instead"]]
    sums = {Module.parse(one["module"]).file: one["sha256"] for one in (*pinned["with"], *pinned["instead"])}
    where = folder()
    where.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(mkdtemp(prefix=f".{where.name}-", dir=where.parent))
    try:
        connector = own
        try:
            fetch([*own, *beside], unfinished)
        except AbsentError:
            _empty(unfinished)
            connector = instead
            fetch([*instead, *beside], unfinished)
        made = Jars(where, tuple(module.file for module in (*connector, *beside)), _spark(), connector[0].version)
        _refuse_changed(unfinished, made.files, sums)
        told = {"spark": made.spark, "connector": made.connector, "jars": list(made.files)}
        (unfinished / _LIST).write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
        unfinished.chmod(0o755)
        _put(unfinished, where)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return made


def _spark() -> str:
    try:
        return version("pyspark")
    except PackageNotFoundError:  # on the path without having been installed, as Spark's own scripts do it
        import pyspark  # noqa: PLC0415

        return str(pyspark.__version__)


def _refuse_changed(where: Path, files: tuple[str, ...], sums: dict[str, str]) -> None:
    for file in files:
        found = sha256((where / file).read_bytes()).hexdigest()
        if file in sums and found != sums[file]:
            raise NotFetchedError(
                f"{file} has the SHA-256 {found}, but {sums[file]} was expected; what the registry gave is not what it "
                "gave before. Nothing was fetched."
            )


def _put(new: Path, where: Path) -> None:
    """Let the folder take its place; what was there before must be ours."""
    if where.exists():
        foreign = [path.name for path in where.iterdir() if path.name != _LIST and path.suffix != ".jar"]
        if foreign:
            raise NotFetchedError(
                f"{str(where)!r} has other files in it ({foreign[0]!r}), which would be lost; name a folder of its own "
                f"in {FOLDER}."
            )
        old = Path(mkdtemp(prefix=f".{where.name}-", dir=where.parent))
        os.replace(where, old)
        os.replace(new, where)
        shutil.rmtree(old, ignore_errors=True)
    else:
        os.replace(new, where)


def _empty(where: Path) -> None:
    for path in where.iterdir():
        path.unlink()
