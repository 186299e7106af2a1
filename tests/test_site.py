"""The pages as a site: built without a warning, whole, and asking no other machine for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from tools import check_docs

# What a browser fetches by itself when it shows a page; an `a` is followed by people only.
FETCHED = {
    "audio": ("src",),
    "embed": ("src",),
    "iframe": ("src",),
    "img": ("src", "srcset"),
    "link": ("href",),
    "object": ("data",),
    "script": ("src",),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
}
HOSTS = re.compile(r"unpkg\.com|jsdelivr|cdnjs|googleapis|gstatic|google-analytics|googletagmanager|pypi\.org|npmjs")


class Page(HTMLParser):
    """The addresses on a page: those that are fetched, those that are followed, and the places that can be linked."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.followed: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value}
        self.fetched += [given[name] for name in FETCHED.get(tag, ()) if name in given]
        self.followed += [given["href"]] if tag == "a" and "href" in given else []
        self.places |= {given[name] for name in ("id", "name") if name in given}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(
        command,
        cwd=check_docs.ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout + done.stderr == ""
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def test_every_page_is_there(site):
    docs = check_docs.ROOT / "docs"
    wanted = {path.relative_to(docs).with_suffix(".html") for path in docs.rglob("*.md")}
    wanted = {path.with_name("index.html") if path.stem == "README" else path for path in wanted}
    wanted |= {Path(name) for name in ("overview.html", "contributing.html", "changelog.html", "license.html")}
    wanted |= {Path("examples", path.stem + ".html") for path in (check_docs.ROOT / "examples").glob("*.py")}
    there = {path.relative_to(site) for path in site.rglob("*.html")}
    assert there == wanted | {Path("404.html")}


def test_every_page_is_in_the_navigation(site, pages):
    first = pages[site / "index.html"]
    linked = {(site / urlsplit(to).path).resolve() for to in first.followed if not urlsplit(to).netloc}
    assert {path for path in pages if path.name != "404.html"} <= linked


def test_nothing_is_fetched_from_another_host(site, pages):
    elsewhere = {
        f"{path.relative_to(site)}: {address}"
        for path, page in pages.items()
        for address in page.fetched
        if urlsplit(address).netloc and urlsplit(address).scheme != "data"
    }
    assert elsewhere == set()


def test_styles_fetch_nothing_from_another_host(site):
    addresses = [
        (path.name, address)
        for path in site.rglob("*.css")
        for address in re.findall(r"(?:url\(|@import\s+)['\"]?([^'\")\s]+)", path.read_text(encoding="utf-8"))
    ]
    assert [found for found in addresses if re.match(r"(https?:)?//", found[1])] == []


def test_scripts_name_no_host_of_libraries_or_counters(site):
    named = {
        f"{path.relative_to(site)}: {found[0]}"
        for path in site.rglob("*")
        if path.suffix in (".js", ".css", ".map")
        for found in [HOSTS.search(path.read_text(encoding="utf-8"))]
        if found
    }
    assert named == set()


def test_every_internal_link_leads_to_a_file_and_a_place_in_it(site, pages):
    broken = []
    for path, page in pages.items():
        if path.name == "404.html":  # shown for any address, and so linked from the root
            continue
        for address in (*page.followed, *page.fetched):
            to = urlsplit(address)
            if to.netloc or to.scheme:
                continue
            target = (path.parent / unquote(to.path)).resolve() if to.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                broken.append(f"{path.relative_to(site)}: {address} leads nowhere")
            elif to.fragment and target in pages and unquote(to.fragment) not in pages[target].places:
                broken.append(f"{path.relative_to(site)}: {address} names no place there")
    assert broken == []


def test_there_is_a_search_and_a_choice_of_light_and_dark(site):
    assert (site / "search" / "search_index.json").stat().st_size > 100_000
    first = (site / "index.html").read_text(encoding="utf-8")
    assert 'data-md-color-scheme="default"' in first
    assert 'data-md-color-scheme="slate"' in first
