"""The jars of Spark's Kafka connector: downloaded once into a folder, and read from there."""

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
_LIST = "jars.json"  # the list of jars in the folder, written last


class Jars(NamedTuple):
    """The jars of a folder, and their versions."""

    folder: Path
    files: tuple[str, ...]
    spark: str  # the version of Spark that they were downloaded for
    connector: str  # the version of the connector: that of Spark, or the fallback

    @property
    def paths(self) -> str:
        """The paths, in the format of ``spark.jars``.

        >>> Jars(Path("/jars"), ("a.jar", "b.jar"), "4.3.0", "4.3.0").paths
        '/jars/a.jar,/jars/b.jar'
        """
        return ",".join(str(self.folder / file) for file in self.files)


def folder() -> Path:
    """Return the folder of the jars: SKYBAND_JARS, or a folder for this version of Spark in the user's cache."""
    configured = os.environ.get(FOLDER)
    if configured:
        return Path(configured).expanduser().absolute()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser().absolute() / "skyband" / f"kafka-for-spark-{_spark()}"


def kafka_jars() -> Jars:
    """Return the downloaded jars; raise MissingDependencyError, with the command to run, if there are none."""
    where = folder()
    try:
        listed = json.loads((where / _LIST).read_text(encoding="utf-8"))
        found = Jars(where, tuple(listed["jars"]), str(listed["spark"]), str(listed["connector"]))
        there = all((where / file).is_file() for file in found.files)
    except (OSError, ValueError, KeyError, TypeError):
        found, there = None, False
    if found is None or not there or found.spark != _spark():
        what = f"{str(where)!r} has those of Spark {found.spark}" if there and found else f"{str(where)!r} has none"
        raise MissingDependencyError(
            f"Kafka needs jars that Spark {_spark()} does not include, and {what}. Fetch them once with: skyband jars"
        )
    return found


def fetch_jars(fetch: Callable[..., list[Path]] = ivy.fetch) -> Jars:
    """Download the jars, replace the content of `folder` atomically, and return the jars.

    The connector has the version of Spark. If the repository does not contain that version, a tested fallback is used.
    Raises NotFetchedError if neither is available, or if the checksum of a jar is wrong.

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
        _reject_changed(unfinished, made.files, sums)
        listed = {"spark": made.spark, "connector": made.connector, "jars": list(made.files)}
        (unfinished / _LIST).write_text(json.dumps(listed, indent=2) + "\n", encoding="utf-8")
        unfinished.chmod(0o755)
        _put(unfinished, where)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return made


def _spark() -> str:
    try:
        return version("pyspark")
    except PackageNotFoundError:  # on the path but not installed, as Spark's scripts do
        import pyspark  # noqa: PLC0415

        return str(pyspark.__version__)


def _reject_changed(where: Path, files: tuple[str, ...], sums: dict[str, str]) -> None:
    for file in files:
        found = sha256((where / file).read_bytes()).hexdigest()
        if file in sums and found != sums[file]:
            raise NotFetchedError(
                f"{file} has the SHA-256 checksum {found} instead of {sums[file]}: the repository provided a different "
                "file. No jars were downloaded."
            )


def _put(new: Path, where: Path) -> None:
    """Move the new folder to its place. Reject an existing folder with files that are not ours."""
    if where.exists():
        foreign = [path.name for path in where.iterdir() if path.name != _LIST and path.suffix != ".jar"]
        if foreign:
            raise NotFetchedError(
                f"{str(where)!r} contains other files ({foreign[0]!r}), which would be deleted. Set {FOLDER} to a "
                "folder that contains only jars."
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
