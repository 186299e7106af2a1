"""Audit what is installed, offline: every distribution is pinned, every pin was reviewed, every licence is allowed.

``constraints.txt`` has the pins, ``tools/reviewed.toml`` who looked at which version, when, what it is for, and under
which licence it comes; the metadata of the installed distributions must say the same. Known vulnerabilities are kept by
services on the network, so they are not looked up here, and the last line says so.
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
# What a distribution is for; those to build with are not installed.
SCOPES = ("run", "spark", "sinks", "page", "dev", "build")

_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;#]+)")


class Installed(NamedTuple):
    """A distribution that is there, and the licence its metadata declare."""

    version: str
    licence: str


class Entry(NamedTuple):
    """What somebody found who looked at a distribution."""

    version: str
    licence: str
    scope: str
    why: str
    reviewed: date


class Reviewed(NamedTuple):
    """The reviewed list."""

    allowed: frozenset[str]
    spelled: dict[str, list[str]]  # what metadata call a licence: which ones that may be
    brought: frozenset[str]  # distributions that come with Python's own venv
    entries: dict[str, Entry]


def main() -> int:
    """Audit this environment, print what is wrong and what to do, and return the exit code."""
    installed = installed_in(sys.path)
    pins, wrong = pins_of((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    wrong += problems(installed, pins, reviewed_of((ROOT / "tools" / "reviewed.toml").read_text(encoding="utf-8")))
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(installed)} distributions installed, {len(pins)} pinned and reviewed, {len(wrong)} problems")
    print(_not_looked_up())
    return 1 if wrong else 0


def installed_in(path: Sequence[str]) -> dict[str, Installed]:
    """The distributions of an environment, by their normalised names; the first on the path is the one in use."""
    found: dict[str, Installed] = {}
    for one in distributions(path=list(path)):
        found.setdefault(normal(one.metadata["Name"]), Installed(one.version, declared(one)))
    found.pop(OURSELVES, None)
    return found


def pins_of(text: str) -> tuple[dict[str, str], list[str]]:
    """The pins of a constraints file, and what is wrong with its lines."""
    pins, wrong = {}, []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.partition("#")[0].strip()
        found = _PIN.fullmatch(stripped)
        if found is None and stripped:
            wrong.append(f"constraints.txt:{number}: {stripped!r} pins nothing; write name==version.")
        elif found and normal(found[1]) in pins:
            wrong.append(f"constraints.txt:{number}: {found[1]} is pinned twice; leave one line.")
        elif found:
            pins[normal(found[1])] = found[2]
    return pins, wrong


def reviewed_of(text: str) -> Reviewed:
    """The reviewed list behind its text."""
    read = tomllib.loads(text)
    return Reviewed(
        frozenset(read["allowed"]),
        read["spelled"],
        frozenset(map(normal, read["brought_by_python"])),
        {normal(name): Entry(**fields) for name, fields in read["distributions"].items()},
    )


def problems(installed: dict[str, Installed], pins: dict[str, str], reviewed: Reviewed) -> list[str]:
    """All that is wrong, a line each, with what to do about it."""
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
            yield f"{name}=={version} is pinned and was not reviewed; look at it, and add it to tools/reviewed.toml."
            continue
        if entry.version != version:
            yield (
                f"{name}=={version} is pinned and {entry.version} was reviewed; look at what changed, then enter the "
                "version and the date in tools/reviewed.toml."
            )
        if name not in installed and entry.scope != "build":
            yield f"{name}=={version} is pinned and not installed; nothing needs it any more: remove pin and entry."
    for name in sorted(reviewed.entries.keys() - pins.keys()):
        yield f"{name} was reviewed and is not pinned; remove its entry from tools/reviewed.toml, or pin it."


def _about_licences(installed: dict[str, Installed], reviewed: Reviewed) -> Iterator[str]:
    for name, entry in sorted(reviewed.entries.items()):
        if entry.scope not in SCOPES:
            yield f"{name}: scope {entry.scope!r} is none of {', '.join(SCOPES)}."
        if not entry.why.strip():
            yield f"{name}: nobody wrote down why it is there; say so, or remove it."
        if entry.reviewed > date.today():
            yield f"{name}: it was reviewed on {entry.reviewed}, which is yet to come; enter the day."
        if not permitted(entry.licence, reviewed.allowed):
            yield (
                f"{name} comes under {entry.licence}, which is not allowed; do without it, or decide that this licence "
                "is and add it to `allowed` in tools/reviewed.toml."
            )
        there = installed.get(name)
        if there is None or name in reviewed.brought or there.version != entry.version:
            continue
        if there.licence != entry.licence and entry.licence not in reviewed.spelled.get(there.licence, ()):
            yield (
                f"{name} {there.version} declares the licence {there.licence!r} and was reviewed as {entry.licence}; "
                "read its licence file, then correct the entry, or add to `spelled` what the words mean."
            )


def permitted(expression: str, allowed: frozenset[str]) -> bool:
    """Whether an SPDX expression can be met with allowed licences; parentheses are not needed yet.

    >>> permitted("MIT OR GPL-3.0-only", frozenset({"MIT"})), permitted("MIT AND GPL-3.0-only", frozenset({"MIT"}))
    (True, False)
    """
    return any(all(part in allowed for part in choice.split(" AND ")) for choice in expression.split(" OR "))


def declared(one: Distribution) -> str:
    """The licence that metadata declare: an SPDX expression, else a line of text, else the classifiers."""
    if expression := one.metadata["License-Expression"]:
        return str(expression)
    line = (one.metadata["License"] or "").strip()
    if line and "\n" not in line and len(line) < 60 and line != "UNKNOWN":
        return str(line)
    kinds = [kind for kind in one.metadata.get_all("Classifier") or [] if kind.startswith("License ::")]
    return "; ".join(kind.rpartition(" :: ")[2] for kind in kinds) or "nothing"


def normal(name: str) -> str:
    """A distribution's name as indexes compare it.

    >>> normal("PyYAML_env.tag")
    'pyyaml-env-tag'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def _not_looked_up() -> str:
    if find_spec("pip_audit") is None:
        how = "pip-audit is not installed; where there is a network, install it and run pip-audit -r constraints.txt"
    else:
        how = "that needs a network; run pip-audit -r constraints.txt"
    return f"known vulnerabilities were not looked up: {how}"


if __name__ == "__main__":
    sys.exit(main())
