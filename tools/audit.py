"""Audit the installed packages, offline: every distribution is pinned, every pin is reviewed, every licence allowed.

``constraints.txt`` has the pins. ``tools/reviewed.toml`` has the reviewed version, the date, the purpose and the
licence of each distribution, and the metadata of the installed distributions must agree with it. Looking up known
vulnerabilities needs a network, so this script does not do it and prints a reminder.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from datetime import date
from importlib.metadata import Distribution, distributions
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
OURSELVES = "skyband"
# Purposes of a distribution. Those with scope "build" are not installed.
SCOPES = ("run", "spark", "sinks", "page", "otel", "dev", "build")

_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;#]+)")


class Installed(NamedTuple):
    """An installed distribution: its version, and the licence that its metadata declare."""

    version: str
    licence: str


class Entry(NamedTuple):
    """The result of a review of a distribution."""

    version: str
    licence: str
    scope: str
    why: str
    reviewed: date


class Reviewed(NamedTuple):
    """The reviewed list."""

    allowed: frozenset[str]
    spelled: dict[str, list[str]]  # licence text in metadata: SPDX identifiers that it can mean
    brought: frozenset[str]  # distributions that come with Python's own venv
    entries: dict[str, Entry]


def main() -> int:
    """Audit this environment, print all problems and their solutions, and return the exit code."""
    installed = installed_in(sys.path)
    pins, wrong = pins_of((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    wrong += problems(installed, pins, reviewed_of((ROOT / "tools" / "reviewed.toml").read_text(encoding="utf-8")))
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(installed)} distributions installed, {len(pins)} pinned and reviewed, {len(wrong)} problems")
    print(_not_looked_up())
    return 1 if wrong else 0


def installed_in(path: Sequence[str]) -> dict[str, Installed]:
    """Return the distributions of an environment by normalised name; the first one on the path is in use."""
    found: dict[str, Installed] = {}
    for one in distributions(path=list(path)):
        found.setdefault(normal(one.metadata["Name"]), Installed(one.version, declared(one)))
    found.pop(OURSELVES, None)
    return found


def pins_of(text: str) -> tuple[dict[str, str], list[str]]:
    """Return the pins of a constraints file, and the problems of its lines."""
    pins, wrong = {}, []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.partition("#")[0].strip()
        found = _PIN.fullmatch(stripped)
        if found is None and stripped:
            wrong.append(f"constraints.txt:{number}: {stripped!r} is not a pin; write name==version.")
        elif found and normal(found[1]) in pins:
            wrong.append(f"constraints.txt:{number}: {found[1]} is pinned twice; remove one line.")
        elif found:
            pins[normal(found[1])] = found[2]
    return pins, wrong


def reviewed_of(text: str) -> Reviewed:
    """Parse the reviewed list."""
    read = tomllib.loads(text)
    return Reviewed(
        frozenset(read["allowed"]),
        read["spelled"],
        frozenset(map(normal, read["brought_by_python"])),
        {normal(name): Entry(**fields) for name, fields in read["distributions"].items()},
    )


def problems(installed: dict[str, Installed], pins: dict[str, str], reviewed: Reviewed) -> list[str]:
    """Return all problems, one line each, with the solution."""
    return [
        *_about_installed(installed, pins, reviewed),
        *_about_pins(installed, pins, reviewed),
        *_about_licences(installed, reviewed),
    ]


def _about_installed(installed: dict[str, Installed], pins: dict[str, str], reviewed: Reviewed) -> Iterator[str]:
    for name, one in sorted(installed.items()):
        if name in reviewed.brought:
            continue
        if name not in pins:
            yield (
                f"{name} {one.version} is installed and not pinned; if something needs it, add {name}=={one.version} "
                "to constraints.txt and review it, else remove it (make clean setup)."
            )
        elif pins[name] != one.version:
            yield (
                f"{name} {one.version} is installed and {pins[name]} is pinned; install what is pinned (make clean "
                "setup), or review the other version and pin it."
            )


def _about_pins(installed: dict[str, Installed], pins: dict[str, str], reviewed: Reviewed) -> Iterator[str]:
    for name, version in sorted(pins.items()):
        entry = reviewed.entries.get(name)
        if entry is None:
            yield f"{name}=={version} is pinned and was not reviewed; review it, and add it to tools/reviewed.toml."
            continue
        if entry.version != version:
            yield (
                f"{name}=={version} is pinned and {entry.version} was reviewed; review the changes, then enter the "
                "version and the date in tools/reviewed.toml."
            )
        if name not in installed and entry.scope != "build":
            yield f"{name}=={version} is pinned and not installed; nothing needs it: remove pin and entry."
    for name in sorted(reviewed.entries.keys() - pins.keys()):
        yield f"{name} was reviewed and is not pinned; remove its entry from tools/reviewed.toml, or pin it."


def _about_licences(installed: dict[str, Installed], reviewed: Reviewed) -> Iterator[str]:
    for name, entry in sorted(reviewed.entries.items()):
        if entry.scope not in SCOPES:
            yield f"{name}: scope must be one of {', '.join(SCOPES)}, got {entry.scope!r}."
        if not entry.why.strip():
            yield f"{name}: why is empty; enter what the package is needed for, or remove it."
        if entry.reviewed > date.today():
            yield f"{name}: the review date {entry.reviewed} is in the future; enter the correct date."
        if not permitted(entry.licence, reviewed.allowed):
            yield (
                f"{name} has the licence {entry.licence}, which is not allowed; remove the package, or add the licence "
                "to `allowed` in tools/reviewed.toml."
            )
        there = installed.get(name)
        if there is None or name in reviewed.brought or there.version != entry.version:
            continue
        if there.licence != entry.licence and entry.licence not in reviewed.spelled.get(there.licence, ()):
            yield (
                f"{name} {there.version} declares the licence {there.licence!r} and was reviewed as {entry.licence}; "
                "read its licence file, then correct the entry, or add the text to `spelled`."
            )


def permitted(expression: str, allowed: frozenset[str]) -> bool:
    """Return whether allowed licences satisfy an SPDX expression; parentheses are not supported.

    >>> permitted("MIT OR GPL-3.0-only", frozenset({"MIT"})), permitted("MIT AND GPL-3.0-only", frozenset({"MIT"}))
    (True, False)
    """
    return any(all(part in allowed for part in choice.split(" AND ")) for choice in expression.split(" OR "))


def declared(one: Distribution) -> str:
    """Return the licence in the metadata: the SPDX expression, else a line of text, else the classifiers."""
    if expression := one.metadata["License-Expression"]:
        return str(expression)
    line = (one.metadata["License"] or "").strip()
    if line and "\n" not in line and len(line) < 60 and line != "UNKNOWN":
        return str(line)
    kinds = [kind for kind in one.metadata.get_all("Classifier") or [] if kind.startswith("License ::")]
    return "; ".join(kind.rpartition(" :: ")[2] for kind in kinds) or "nothing"


def normal(name: str) -> str:
    """Normalise the name of a distribution as package indexes do.

    >>> normal("PyYAML_env.tag")
    'pyyaml-env-tag'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def _not_looked_up() -> str:
    if find_spec("pip_audit") is None:
        how = "pip-audit is not installed; with a network, install it and run pip-audit -r constraints.txt"
    else:
        how = "that needs a network; run pip-audit -r constraints.txt"
    return f"known vulnerabilities were not looked up: {how}"


if __name__ == "__main__":
    sys.exit(main())
