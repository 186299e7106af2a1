"""Download jars from Maven Central with Ivy, the resolver that Spark includes. Needs no Maven, session or Ivy cache.

SKYBAND_IVY_SETTINGS names an Ivy settings file for another repository.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from skyband import java
from skyband.errors import MissingDependencyError

__all__ = ["SETTINGS", "AbsentError", "Module", "NotFetchedError", "fetch", "spark_jars"]

SETTINGS = "SKYBAND_IVY_SETTINGS"
PATIENCE = 600  # seconds


class NotFetchedError(MissingDependencyError):
    """Jars could not be downloaded."""


class AbsentError(NotFetchedError):
    """The repository does not contain the jars."""


class Module(NamedTuple):
    """The coordinates of a published module.

    >>> Module.parse("org.apache.kafka:kafka-clients:3.9.2")
    Module(group='org.apache.kafka', name='kafka-clients', version='3.9.2')
    """

    group: str
    name: str
    version: str

    @classmethod
    def parse(cls, text: str) -> Module:
        """Parse ``group:name:version``."""
        group, name, version = text.split(":")
        return cls(group, name, version)

    @property
    def file(self) -> str:
        """The file name of the jar."""
        return f"{self.name}-{self.version}.jar"

    def __str__(self) -> str:
        return ":".join(self)


def fetch(modules: Iterable[Module], folder: Path, *, with_all_they_need: bool = False) -> list[Path]:
    """Download the jars of the modules into a folder; raise NotFetchedError if one is unavailable.

    >>> fetch([Module.parse("org.apache.kafka:kafka-clients:3.9.2")], Path("jars"))  # doctest: +SKIP
    [PosixPath('jars/kafka-clients-3.9.2.jar')]
    """
    wanted = list(modules)
    with TemporaryDirectory(prefix="skyband-ivy-") as home:
        ivy_file = Path(home, "ivy.xml")
        ivy_file.write_text(_request(wanted, with_all_they_need), encoding="utf-8")
        settings = os.environ.get(SETTINGS)
        command = [
            java.check().path,
            f"-Divy.default.ivy.user.dir={home}",
            "-jar",
            str(_resolver()),
            *(["-settings", settings] if settings else []),
            *("-ivy", str(ivy_file), "-confs", "default"),
            *("-retrieve", f"{folder}/[artifact]-[revision](-[classifier]).[ext]"),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        except subprocess.TimeoutExpired:
            raise NotFetchedError(
                f"the Maven repository did not respond within {PATIENCE} s; no jars were downloaded."
            ) from None
    said = done.stdout + done.stderr
    missing = sorted(set(re.findall(r":: (\S+#\S+;\S+): not found", said)))
    if missing or done.returncode:
        raise _failure(missing, said)
    found = sorted(folder.glob("*.jar"))
    gone = [module.file for module in wanted if folder / module.file not in found]
    if gone:
        raise NotFetchedError(f"the Maven repository did not provide {', '.join(gone)}; no jars were downloaded.")
    return found


def spark_jars() -> Path:
    """Return the folder of Spark's jars."""
    home = os.environ.get("SPARK_HOME")
    if home:
        return Path(home, "jars")
    spec = find_spec("pyspark")
    assert spec is not None  # requirements.check() has found it
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0], "jars")


def _resolver() -> Path:
    found = sorted(spark_jars().glob("ivy-*.jar"))
    if not found:
        raise MissingDependencyError(
            f"{spark_jars()} has no ivy-….jar, the resolver that Spark includes; no jars were downloaded. Copy the "
            "jars there manually, or install Spark with: pip install 'skyband[spark]'"
        )
    return found[-1]


def _request(modules: Iterable[Module], transitive: bool) -> str:
    """Return the Ivy file of the request; the `master` configuration of a module is its jar without dependencies."""
    lines = "".join(
        f"    <dependency org={quoteattr(module.group)} name={quoteattr(module.name)} rev={quoteattr(module.version)} "
        f'conf="default->{"default" if transitive else "master"}" transitive="{str(transitive).lower()}"/>\n'
        for module in modules
    )
    return (
        '<ivy-module version="2.0">\n  <info organisation="skyband" module="jars"/>\n'
        '  <configurations><conf name="default"/></configurations>\n'
        f"  <dependencies>\n{lines}  </dependencies>\n</ivy-module>\n"
    )


def _failure(missing: list[str], said: str) -> NotFetchedError:
    unreachable = re.search(r"(?im)^.*(server access error|host \S+ not found).*$", said)
    if unreachable:
        return NotFetchedError(
            f"the Maven repository is unreachable ({unreachable[0].strip()}); no jars were downloaded. To use a "
            f"mirror, set {SETTINGS} to the path of its Ivy settings file."
        )
    if missing:
        named = ", ".join(name.replace("#", ":").replace(";", ":") for name in missing)
        return AbsentError(f"the Maven repository does not contain {named}; no jars were downloaded.")
    last = [line.strip() for line in said.splitlines() if line.strip()][-1:]
    return NotFetchedError(f"the resolver failed ({''.join(last) or 'without output'}); no jars were downloaded.")
