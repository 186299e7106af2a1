"""The Java that Spark runs on: which one it will find, whether that one will do, and how to get one.

Nothing of Spark is imported, so `python -m skyband.java` can be asked before Spark is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import NamedTuple

from skyband.errors import MissingDependencyError

__all__ = ["OLDEST", "Java", "check", "find", "major"]

OLDEST = 17  # what Spark 4 is compiled for

_ADVICE = """Get one with
  Debian, Ubuntu   sudo apt-get install openjdk-17-jre-headless
  macOS            brew install openjdk@17
  Windows          winget install EclipseAdoptium.Temurin.17.JDK
  conda            conda install -c conda-forge openjdk=17
and set JAVA_HOME to its folder: Spark takes JAVA_HOME/bin/java, or without JAVA_HOME the java on the PATH."""


class Java(NamedTuple):
    """A Java that was found.

    >>> Java("/usr/bin/java", 17).version
    17
    """

    path: str
    version: int


def find(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the java that Spark will start, or None: that of JAVA_HOME, and of the PATH only without JAVA_HOME.

    >>> find({"JAVA_HOME": "/nowhere", "PATH": "/usr/bin"}) is None
    True
    """
    home = environ.get("JAVA_HOME")
    return shutil.which("java", path=os.path.join(home, "bin") if home else environ.get("PATH", ""))


def major(said: str) -> int | None:
    """Read the version out of what `java -version` said; None when it is not in there.

    >>> major('openjdk version "17.0.15" 2025-04-15'), major('java version "1.8.0_392"'), major("no Java here")
    (17, 8, None)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', said)  # until 8, the first number was always 1
    return int(found[1]) if found else None


def check(environ: Mapping[str, str] = os.environ) -> Java:
    """Return the Java that Spark will start, or raise what is wrong with it and how to get a fitting one.

    >>> check({"PATH": ""})
    Traceback (most recent call last):
    ...
    skyband.errors.MissingDependencyError: there is no java on the PATH, and JAVA_HOME is not set; ...
    """
    path, home = find(environ), environ.get("JAVA_HOME")
    if path is None:
        where = (
            f"JAVA_HOME={home} has no bin/java" if home else "there is no java on the PATH, and JAVA_HOME is not set"
        )
        raise _refusal(where)
    try:
        done = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _refusal(f"{path} cannot be run ({error})") from error
    version = major(done.stderr + done.stdout)
    if version is None:
        raise _refusal(f"{path} does not tell its version (exit code {done.returncode})")
    if version < OLDEST:
        raise _refusal(f"{path} is Java {version}")
    return Java(path, version)


def _refusal(what: str) -> MissingDependencyError:
    return MissingDependencyError(f"{what}; Spark needs Java {OLDEST} or newer, and does not start. {_ADVICE}")


def main() -> int:
    """Say which Java there is, or on standard error what to do; the exit code tells which."""
    try:
        java = check()
    except MissingDependencyError as error:
        sys.stderr.write(f"skyband: {error}\n")
        return 1
    sys.stdout.write(f"Java {java.version}: {java.path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
