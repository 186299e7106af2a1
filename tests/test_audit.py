"""The audit of the installed packages, over made-up environments: each problem is reported with its solution."""

from __future__ import annotations

import socket
import sys

import pytest
from tools import audit

REVIEWED = """
allowed = ["MIT", "BSD-3-Clause"]
brought_by_python = ["pip"]
[spelled]
"BSD License" = ["BSD-2-Clause", "BSD-3-Clause"]
[distributions]
one-thing = {version = "1.0", licence = "MIT", scope = "run", why = "the thing", reviewed = 2026-01-02}
other = {version = "2.5", licence = "BSD-3-Clause", scope = "dev", why = "needed by one-thing", reviewed = 2026-01-02}
maker = {version = "3.0", licence = "MIT", scope = "build", why = "builds", reviewed = 2026-01-02}
"""
PINS = "# exact\none-thing==1.0\nother==2.5\nmaker==3.0\n"
MIT, BSD = "License-Expression: MIT", "Classifier: License :: OSI Approved :: BSD License"


def installed(folder, name, version, licence):
    about = folder / f"{name}-{version}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n{licence}\n")


@pytest.fixture
def folder(tmp_path):
    """An environment with which all is well; names are spelled as their authors like it."""
    installed(tmp_path, "One_Thing", "1.0", MIT)
    installed(tmp_path, "other", "2.5", BSD)
    installed(tmp_path, "pip", "23.0", "License: whatever")
    installed(tmp_path, "skyband", "0.1.0", "License-Expression: Apache-2.0")
    return tmp_path


def audited(folder, pins=PINS, reviewed=REVIEWED):
    found, wrong = audit.pins_of(pins)
    return wrong + audit.problems(audit.installed_in([str(folder)]), found, audit.reviewed_of(reviewed))


def test_all_is_well(folder):
    assert audited(folder) == []


def test_what_is_not_pinned(folder):
    installed(folder, "stray", "0.1", MIT)
    (line,) = audited(folder)
    assert line.startswith("stray 0.1 is installed and not pinned; if something needs it, add stray==0.1 to")


@pytest.mark.parametrize(
    ("pins", "reviewed", "says"),
    [
        (PINS.replace("1.0", "1.1"), REVIEWED.replace('"1.0"', '"1.1"'), "1.0 is installed and 1.1 is pinned; install"),
        (PINS.replace("3.0", "3.1"), REVIEWED, "maker==3.1 is pinned and 3.0 was reviewed; review the changes"),
        (PINS.replace("maker==3.0\n", ""), REVIEWED, "maker was reviewed and is not pinned; remove its entry"),
        (PINS, REVIEWED.replace("maker =", "marker ="), "maker==3.0 is pinned and was not reviewed; review it"),
        (
            PINS,
            REVIEWED.replace('"build"', '"dev"'),
            "maker==3.0 is pinned and not installed; nothing needs it: remove pin and entry.",
        ),
        (
            PINS,
            REVIEWED.replace('"build"', '"fun"'),
            "maker: scope must be one of run, spark, sinks, page, otel, dev, build, got 'fun'.",
        ),
        (PINS, REVIEWED.replace('"builds"', '" "'), "maker: why is empty; enter what the package is needed for"),
        (PINS, REVIEWED.replace("2026", "9026"), "is in the future; enter the correct date"),
        (
            PINS,
            REVIEWED.replace('["MIT", ', "["),
            "one-thing has the licence MIT, which is not allowed; remove the package",
        ),
        (
            PINS,
            REVIEWED.replace('"BSD-3-Clause", scope', '"MIT", scope'),
            "2.5 declares the licence 'BSD License'",
        ),
        (PINS + "loose>=1\n", REVIEWED, "constraints.txt:5: 'loose>=1' is not a pin"),
        (PINS + "Other==2.5\n", REVIEWED, "constraints.txt:5: Other is pinned twice"),
    ],
)
def test_problems_are_reported(folder, pins, reviewed, says):
    assert any(says in line for line in audited(folder, pins, reviewed)), audited(folder, pins, reviewed)


@pytest.mark.parametrize(
    ("metadata", "licence"),
    [
        ("License-Expression: MIT OR Apache-2.0\nLicense: words", "MIT OR Apache-2.0"),
        ("License: BSD", "BSD"),
        ("License: UNKNOWN\nClassifier: License :: OSI Approved :: MIT License", "MIT License"),
        ("License: Copyright\n        a long\n        text\nClassifier: License :: OSI Approved :: X", "X"),
        ("Summary: nothing at all", "nothing"),
    ],
)
def test_the_licence_is_looked_for(tmp_path, metadata, licence):
    installed(tmp_path, "thing", "1", metadata)
    assert audit.installed_in([str(tmp_path)]) == {"thing": audit.Installed("1", licence)}


def test_this_environment_passes_without_a_network_and_says_what_was_not_done(capsys, monkeypatch):
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("nothing is looked up elsewhere"))
    code = audit.main()
    told = capsys.readouterr()
    assert (code, told.err) == (0, ""), told.err
    assert "known vulnerabilities were not looked up" in told.out.splitlines()[-1]


def test_a_failure_has_its_exit_code(monkeypatch, capsys, folder):
    monkeypatch.setattr(sys, "path", [str(folder)])
    assert audit.main() == 1
    assert "is pinned and not installed" in capsys.readouterr().err
