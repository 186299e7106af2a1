"""Find and check the Java installation that Spark uses.

This module does not import Spark, so `python -m skyband.java` works before Spark is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import NamedTuple

from skyband.errors import MissingDependencyError, PipelineError, SkybandError

__all__ = ["OLDEST", "Java", "check", "find", "major"]

OLDEST = 17  # required by Spark 4

_ADVICE = """Install Java with
  Debian, Ubuntu   sudo apt-get install openjdk-17-jre-headless
  macOS            brew install openjdk@17
  Windows          winget install EclipseAdoptium.Temurin.17.JDK
  conda            conda install -c conda-forge openjdk=17
and set JAVA_HOME to its folder. Spark uses JAVA_HOME/bin/java, or the java on the PATH if JAVA_HOME is not set.
Without Java, `skyband run FILE --local` runs a workload file over local files, and `skyband demo` shows a demo."""


class Java(NamedTuple):
    """A Java installation.

    >>> Java("/usr/bin/java", 17).version
    17
    """

    path: str
    version: int


def find(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the java that Spark uses, or None: from JAVA_HOME if it is set, otherwise from the PATH.

    >>> find({"JAVA_HOME": "/nowhere", "PATH": "/usr/bin"}) is None
    True
    """
    home = environ.get("JAVA_HOME")
    return shutil.which("java", path=os.path.join(home, "bin") if home else environ.get("PATH", ""))


def major(output: str) -> int | None:
    """Return the major version in the output of `java -version`; None if there is none.

    >>> major('openjdk version "17.0.15" 2025-04-15'), major('java version "1.8.0_392"'), major("no Java here")
    (17, 8, None)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', output)  # up to version 8, the first number was 1
    return int(found[1]) if found else None


def check(environ: Mapping[str, str] = os.environ) -> Java:
    """Return the Java that Spark uses; raise MissingDependencyError if it is missing or too old.

    A java that is killed before it prints its version is a PipelineError: the Java may be all right, and starting
    again may succeed.

    >>> check({"PATH": ""})
    Traceback (most recent call last):
    ...
    skyband.errors.MissingDependencyError: no java found on the PATH, and JAVA_HOME is not set; ...
    """
    path, home = find(environ), environ.get("JAVA_HOME")
    if path is None:
        where = f"JAVA_HOME={home} has no bin/java" if home else "no java found on the PATH, and JAVA_HOME is not set"
        raise _missing(where)
    try:
        done = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _missing(f"{path} cannot be run ({error})") from error
    if done.returncode < 0:
        raise PipelineError(
            f"{path} -version was killed by signal {-done.returncode}, so Spark was not started. "
            "Nothing was read or written; start again."
        )
    version = major(done.stderr + done.stdout)
    if version is None:
        raise _missing(f"{path} does not print its version (exit code {done.returncode})")
    if version < OLDEST:
        raise _missing(f"{path} is Java {version}")
    return Java(path, version)


def _missing(what: str) -> MissingDependencyError:
    return MissingDependencyError(f"{what}; Spark needs Java {OLDEST} or newer and cannot start. {_ADVICE}")


def main() -> int:
    """Print the Java that Spark uses and return 0, or print the problem to stderr and return 1."""
    try:
        java = check()
    except SkybandError as error:
        sys.stderr.write(f"skyband: {error}\n")
        return 1
    sys.stdout.write(f"Java {java.version}: {java.path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
