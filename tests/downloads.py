"""Programs that tests fetch once into the user's cache, by the resolver that Spark includes, with a checksum."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from skyband import java
from skyband.spark import ivy

REQUEST = """
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="skyband" module="tests"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="{module.group}" name="{module.name}" rev="{module.version}"
      conf="default->master" transitive="false">
      <artifact name="{module.name}" type="{ending}" ext="{ending}" m:classifier="{classifier}"/>
    </dependency>
  </dependencies>
</ivy-module>
"""
PATIENCE = 300  # seconds


class NotFetchedError(Exception):
    """A program cannot be had; the message says why."""


def fetched(module, classifier, sha256, ending="jar"):
    """The file of a module with a classifier, fetched if need be; NotFetchedError where it cannot be had."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "skyband" / "tests"
    file = cache / f"{module.name}-{module.version}-{classifier}.{ending}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / ".lock").open("w") as lock:  # the suite may run in several processes
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            with TemporaryDirectory(dir=cache) as home:
                _fetch(module, classifier, Path(home), sha256, file, ending)
    return file


def _fetch(module, classifier, home, sha256, file, ending):
    request = home / "ivy.xml"
    request.write_text(REQUEST.format(module=module, classifier=classifier, ending=ending).strip(), encoding="utf-8")
    settings = os.environ.get(ivy.SETTINGS)
    command = [
        *(java.check().path, f"-Divy.default.ivy.user.dir={home}", "-jar", str(ivy._resolver())),
        *(["-settings", settings] if settings else []),
        *("-ivy", str(request), "-confs", "default", "-retrieve", f"{home}/found/[artifact]-[revision].[ext]"),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise NotFetchedError(f"{module} was not fetched within {PATIENCE} s") from None
    jars = list(home.glob(f"found/*.{ending}"))
    if done.returncode or not jars:
        raise NotFetchedError(f"{module} was not fetched: {(done.stdout + done.stderr)[-500:]}")
    found = hashlib.sha256(jars[0].read_bytes()).hexdigest()
    if found != sha256:
        raise NotFetchedError(f"{module} has the SHA-256 checksum {found}, expected {sha256}")
    os.replace(jars[0], file)
