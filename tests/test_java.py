"""Which Java Spark will start, and what is said when there is none that will do: with false ones, made for the test."""

from __future__ import annotations

import subprocess
import sys

import pytest

import skyband as sb
from skyband import java

OPENJDK = 'openjdk version "{}" 2025-04-15\nOpenJDK Runtime Environment (build {})\n'


@pytest.fixture
def fake(tmp_path):
    """Make a java that says `said` on standard error and ends with `code`; the folder is for JAVA_HOME."""
    if sys.platform == "win32":
        pytest.skip("a shell script stands in for java")

    def make(said, code=0, home="jdk"):
        path = tmp_path / home / "bin" / "java"
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\n/bin/cat >&2 <<'end'\n{said}\nend\nexit {code}\n")
        path.chmod(0o755)
        return path.parent.parent

    return make


@pytest.mark.parametrize(
    ("said", "version"),
    [
        (OPENJDK.format("17.0.15", "17.0.15+6-Debian-1deb12u1"), 17),
        (OPENJDK.format("21", "21+35"), 21),
        (OPENJDK.format("25-ea", "25-ea+3"), 25),
        ('java version "1.8.0_392"\nJava(TM) SE Runtime Environment (build 1.8.0_392-b08)', 8),
        ('openjdk version "11.0.2" 2019-01-15', 11),
        ('Picked up JAVA_TOOL_OPTIONS: -Dsome.version=3\nopenjdk version "17.0.1" 2021-10-19', 17),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
        ("", None),
    ],
)
def test_versions_as_they_are_written(said, version):
    assert java.major(said) == version


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_a_java_that_will_do(fake, version):
    home = fake(OPENJDK.format(version, version))
    found = java.check({"JAVA_HOME": str(home), "PATH": ""})
    assert found == (str(home / "bin" / "java"), int(version[:2]))


def test_a_java_that_is_killed_is_not_called_missing(fake):
    home = fake("")
    (home / "bin" / "java").write_text("#!/bin/sh\nkill -9 $$\n")
    with pytest.raises(sb.PipelineError, match=r"killed by signal 9.*start again"):
        java.check({"JAVA_HOME": str(home), "PATH": ""})


def test_java_home_comes_before_the_path(fake):
    old, new = fake('java version "1.8.0_392"', home="old"), fake(OPENJDK.format("17.0.1", "x"), home="new")
    assert java.check({"JAVA_HOME": str(new), "PATH": str(old / "bin")}).version == 17
    assert java.check({"PATH": str(new / "bin")}).version == 17
    assert java.check({"JAVA_HOME": "", "PATH": str(new / "bin")}).version == 17  # Spark's script takes empty for unset
    with pytest.raises(sb.MissingDependencyError, match="is Java 8; Spark needs Java 17 or newer"):
        java.check({"JAVA_HOME": str(old), "PATH": str(new / "bin")})


def test_a_wrong_java_home_is_named_even_if_the_path_has_a_java(fake, tmp_path):
    new = fake(OPENJDK.format("17.0.1", "x"))
    with pytest.raises(sb.MissingDependencyError, match=r"^JAVA_HOME=.*empty has no bin/java; "):
        java.check({"JAVA_HOME": str(tmp_path / "empty"), "PATH": str(new / "bin")})


def test_a_java_that_only_pretends_to_be_one(fake):
    home = fake("Unable to locate a Java Runtime.", code=1)  # what macOS has at /usr/bin/java when none is installed
    with pytest.raises(sb.MissingDependencyError, match=r"does not print its version \(exit code 1\); "):
        java.check({"PATH": str(home / "bin")})


def test_a_java_that_cannot_be_run(fake):
    home = fake("")
    (home / "bin" / "java").write_bytes(b"\x7fELF, but no more of it")
    with pytest.raises(sb.MissingDependencyError, match="cannot be run"):
        java.check({"JAVA_HOME": str(home)})


def test_the_message_says_how_to_get_one():
    with pytest.raises(sb.MissingDependencyError) as caught:
        java.check({"PATH": ""})
    for part in ("apt-get install openjdk-17", "brew install openjdk@17", "winget", "conda install", "JAVA_HOME"):
        assert part in str(caught.value)
    assert isinstance(caught.value, ImportError)


def test_as_a_program(fake):
    def run(home):
        environ = {"JAVA_HOME": str(home), "PATH": ""}
        program = [sys.executable, "-m", "skyband.java"]
        return subprocess.run(program, env=environ, capture_output=True, text=True, check=False)

    good, bad = run(fake(OPENJDK.format("21", "21+35"))), run("/nowhere")
    assert (good.returncode, good.stdout[:9], good.stderr) == (0, "Java 21: ", "")
    assert (bad.returncode, bad.stdout) == (1, "")
    assert bad.stderr.startswith("skyband: JAVA_HOME=/nowhere has no bin/java; ")
