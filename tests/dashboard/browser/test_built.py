"""What is shipped was built from the sources as they are, is small, and asks nobody else for anything."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FRONT = ROOT / "front"
ASSETS = ROOT / "src" / "skyband" / "dashboard" / "assets"


def test_the_assets_are_those_of_the_sources():
    names = sorted(
        path.relative_to(FRONT).as_posix()
        for path in FRONT.rglob("*")
        if path.is_file() and "node_modules" not in path.relative_to(FRONT).parts
    )
    digest = hashlib.sha256()
    for name in names:
        content = (FRONT / name).read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    assert (ASSETS / "built-from.txt").read_text().strip() == digest.hexdigest(), "front/ has changed: run make page"


def test_the_whole_is_under_300_kilobytes():
    sizes = {path.name: len(gzip.compress(path.read_bytes(), 9)) for path in ASSETS.iterdir()}
    assert sum(sizes.values()) < 300_000, sizes


def test_there_is_no_script_or_style_in_the_document_and_no_other_address():
    page = (ASSETS / "index.html").read_text(encoding="utf-8")
    assert "<style" not in page
    assert "style=" not in page
    assert re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL) == [""]
    for name in ("index.html", "page.css", "page.js"):
        text = (ASSETS / name).read_text(encoding="utf-8")
        found = re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\s\"'`)]*", text)
        assert [one for one in found if "www.w3.org/" not in one and "github.com" not in one] == [], name


def test_data_are_never_parsed_as_html():
    for path in (FRONT / "src").rglob("*.ts*"):
        text = path.read_text(encoding="utf-8")
        for way in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "dangerouslySetInnerHTML",
            "document.write",
            "eval(",
        ):
            assert way not in text, f"{path.name}: {way}"


def test_parts_are_pinned_exactly_and_without_addresses():
    wanted = json.loads((FRONT / "package.json").read_text())
    for name, version in {**wanted["dependencies"], **wanted["devDependencies"]}.items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version), name
    assert "resolved" not in (FRONT / "package-lock.json").read_text()
