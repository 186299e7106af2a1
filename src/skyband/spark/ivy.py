"""Jars from Maven's registry, fetched by the resolver that comes with Spark: no Maven, no session, no cache of its own.

Where the registry is, the resolver knows, or the settings file that SKYBAND_IVY_SETTINGS names.
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
    """Jars that could not be had."""


class AbsentError(NotFetchedError):
    """The registry answers, and does not have them."""


class Module(NamedTuple):
    """A published module by its coordinates.

    >>> Module.parse("org.apache.kafka:kafka-clients:3.9.2")
    Module(group='org.apache.kafka', name='kafka-clients', version='3.9.2')
    """

    group: str
    name: str
    version: str

    @classmethod
    def parse(cls, text: str) -> Module:
        """Read ``group:name:version``."""
        group, name, version = text.split(":")
        return cls(group, name, version)

    @property
    def file(self) -> str:
        """The name of its jar."""
        return f"{self.name}-{self.version}.jar"

    def __str__(self) -> str:
        return ":".join(self)


def fetch(modules: Iterable[Module], folder: Path, *, with_all_they_need: bool = False) -> list[Path]:
    """Put the jars of the modules into a folder; raise NotFetchedError if one cannot be had.

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
            raise NotFetchedError(f"the registry did not answer within {PATIENCE} s; nothing was fetched.") from None
    said = done.stdout + done.stderr
    missing = sorted(set(re.findall(r":: (\S+#\S+;\S+): not found", said)))
    if missing or done.returncode:
        raise _refusal(missing, said)
    found = sorted(folder.glob("*.jar"))
    gone = [module.file for module in wanted if folder / module.file not in found]
    if gone:
        raise NotFetchedError(f"the registry gave no {', '.join(gone)}; nothing was fetched.")
    return found


def spark_jars() -> Path:
    """The folder of the jars that come with Spark."""
    home = os.environ.get("SPARK_HOME")
    if home:
        return Path(home, "jars")
    spec = find_spec("pyspark")
    assert spec is not None  # needs.check() has seen it
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0], "jars")


def _resolver() -> Path:
    found = sorted(spark_jars().glob("ivy-*.jar"))
    if not found:
        raise MissingDependencyError(
            f"{spark_jars()} has no ivy-….jar, the resolver that comes with Spark; nothing was fetched. Put the jars "
            "there by hand, or use a Spark from: pip install 'skyband[spark]'"
        )
    return found[-1]


def _request(modules: Iterable[Module], transitive: bool) -> str:
    """What the resolver is asked for, in its own words; a module's `master` is its jar without what it needs."""
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


def _refusal(missing: list[str], said: str) -> NotFetchedError:
    unreachable = re.search(r"(?im)^.*(server access error|host \S+ not found).*$", said)
    if unreachable:
        return NotFetchedError(
            f"Maven's registry cannot be reached ({unreachable[0].strip()}); nothing was fetched. Behind a mirror, "
            f"name its settings file in {SETTINGS}."
        )
    if missing:
        named = ", ".join(name.replace("#", ":").replace(";", ":") for name in missing)
        return AbsentError(f"Maven's registry has no {named}; nothing was fetched.")
    last = [line.strip() for line in said.splitlines() if line.strip()][-1:]
    return NotFetchedError(f"the resolver stopped ({''.join(last) or 'it said nothing'}); nothing was fetched.")
