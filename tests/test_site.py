"""The pages as a site: built without a warning, whole, and asking no other machine for anything."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import snowballstemmer
from tools import build_site, check_docs

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
pytestmark = pytest.mark.long  # building the site takes long; tests/test_docs.py checks the pages in make test
MADE_BY_SPHINX = {"search.html", "genindex.html", "py-modindex.html"}
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
    command = [sys.executable, "tools/build_site.py", str(folder)]
    done = subprocess.run(command, cwd=check_docs.ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout + done.stderr == ""
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def test_every_page_is_there(site):
    wanted = {Path(name).with_suffix(".html") for name in build_site.sources().values()}
    assert {Path("overview.html"), Path("contributing.html"), Path("changelog.html"), Path("license.html")} <= wanted
    assert {Path("examples", path.stem + ".html") for path in (check_docs.ROOT / "examples").glob("*.py")} <= wanted
    there = {path.relative_to(site) for path in site.rglob("*.html")}
    assert there == wanted | {Path("search.html"), Path("genindex.html"), Path("py-modindex.html")}


def test_every_page_is_in_the_navigation(site, pages):
    first = pages[site / "index.html"]
    linked = {(site / urlsplit(to).path).resolve() for to in first.followed if not urlsplit(to).netloc}
    assert {path for path in pages if path.name not in MADE_BY_SPHINX} <= linked | {site / "index.html"}


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


def test_there_is_a_choice_of_light_and_dark(site):
    assert "theme-toggle" in (site / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "page"),
    [
        (["kafka"], "how-to/kafka"),
        (["pandas"], "tutorial/python"),
        (["time", "zone"], "how-to/time_zones"),
        (["databricks"], "how-to/deployment"),
        (["non_time_window_not_supported_in_streaming"], "reference/errors"),
        (["flink"], "how-to/from_flink"),
    ],
)
def test_the_search_finds_what_people_look_for(site, words, page):
    text = (site / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    number = index["docnames"].index(page)
    stemmed = snowballstemmer.stemmer("english").stemWords(words)
    for word in {*stemmed} - {"time"}:
        found = [index[where].get(word, []) for where in ("terms", "titleterms")]
        assert number in [one for of in found for one in (of if isinstance(of, list) else [of])], word


def test_every_public_name_is_in_the_api_reference(pages):
    places = {place for page in pages.values() for place in page.places}
    modules = ["", ".aggregate", ".incomplete", ".jobs", ".sinks", ".spark", ".streams", ".uncertain"]
    public = {f"skyband{name}.{one}" for name in modules for one in importlib.import_module(f"skyband{name}").__all__}
    assert sorted(public - places - {"skyband.streams.OPENING"}) == []
