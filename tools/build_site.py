"""Build the documentation site: `python tools/build_site.py [FOLDER]` writes it to FOLDER, by default site/.

The pages of docs/ are written for a Git host: they link to files anywhere in the repository, and each folder has a
README.md. This script copies them to a temporary folder, adds a page for each file outside docs/ that readers need,
rewrites the links, and runs Sphinx there. Sphinx treats every warning as an error, so a broken link or a page that is
missing from the table of contents fails the build.

The navigation comes from docs/README.md: each `##` heading is a section, and the links in its lists are the pages. A
README.md in a folder below is followed by all other pages of that folder, in the order of their names.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from posixpath import relpath

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^(`{3,}|~{3,})")
_CODE = re.compile(r"(`+[^`]*`+)")
_LINK = re.compile(r"(\]\()<?([^)\s>#]+)(#[^)\s>]*)?>?(\))")
_ENTRY = re.compile(r"^(?:[-*]|\d+\.) \[[^\]]*\]\(([^)#\s]+)\)")


def main() -> int:
    """Build the site into the folder given on the command line and return Sphinx's exit code."""
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "site").resolve()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "source")
        collect(source)
        command = [sys.executable, "-m", "sphinx", "-b", "html", "-q", "-W", "--keep-going"]
        command += ["-c", str(DOCS), "-d", str(Path(folder, "doctrees")), str(source), str(target)]
        return subprocess.run(command, check=False).returncode


def sources() -> dict[Path, str]:
    """Return the files that become pages, and the name of each page in the site."""
    found = {path: path.relative_to(DOCS).as_posix() for path in sorted(DOCS.rglob("*.md"))}
    found |= {ROOT / name: name.lower() for name in ("CONTRIBUTING.md", "CHANGELOG.md")}
    found |= {ROOT / "README.md": "overview.md", ROOT / "LICENSE": "license.md"}
    reports = sorted((ROOT / "benchmarks" / "reports").glob("*.md"))
    found |= {path: f"reports/{path.name}" for path in reports}
    found |= {path: f"examples/{path.name}" for path in sorted((ROOT / "examples").glob("*.md"))}
    found |= {path: f"examples/{path.stem}.md" for path in sorted((ROOT / "examples").glob("*.py"))}
    return {path: re.sub(r"(^|/)README\.md$", r"\1index.md", name) for path, name in found.items()}


def collect(folder: Path) -> None:
    """Write all pages and pictures into a folder, as Sphinx reads them."""
    pages = sources()
    for images in (DOCS / "images", ROOT / "benchmarks" / "reports" / "images"):
        shutil.copytree(images, folder / "images", dirs_exist_ok=True)
    for other in DOCS.glob("*.json"):
        shutil.copy(other, folder / other.name)
    for path, name in pages.items():
        text = _linked(_content(path), path, name, pages)
        if name == "index.md":
            text += _contents(path, pages)
        elif name.endswith("/index.md"):
            text += "\n```{toctree}\n:hidden:\n:glob:\n\n*\n```\n"
        page = folder / name
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")


def _contents(path: Path, pages: dict[Path, str]) -> str:
    """Return the navigation: a table of contents for each section of the first page."""
    sections: dict[str, list[str]] = {}
    title = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            title = line.removeprefix("## ")
        elif entry := _ENTRY.match(line):
            target = _page(path.parent / entry[1], pages)
            if target:
                sections.setdefault(title, []).append(target.removesuffix(".md"))
    head = "\n```{toctree}\n:hidden:\n:caption: "
    return "".join(f"{head}{title}\n\n{chr(10).join(listed)}\n```\n" for title, listed in sections.items())


def _page(path: Path, pages: dict[Path, str]) -> str | None:
    """Return the page of the site for a file or a folder of the repository."""
    path = path.resolve()
    return pages.get(path / "README.md" if path.is_dir() else path)


def _content(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    if path.suffix == ".py":
        about = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
        return f"# {path.stem.replace('_', ' ').capitalize()}\n\n{about}\n\n```python\n{text}```\n"
    return f"# {path.name.capitalize()}\n\n```text\n{text}```\n"


def _linked(text: str, path: Path, name: str, pages: dict[Path, str]) -> str:
    """Return the text of a page with its links as they are in the site; code is unchanged."""

    def led(link: re.Match[str]) -> str:
        if re.match(r"[a-z][a-z+.-]*:", link[2]):
            return link[0]
        to = (path.parent / link[2]).resolve()
        target = _page(to, pages)
        if target is None and "images" in to.parts:
            target = f"images/{to.name}"
        if target is None and to.parent == DOCS:
            target = to.name
        if target is None:
            return link[0]  # Sphinx reports it
        return f"{link[1]}{relpath(target, Path(name).parent.as_posix())}{link[3] or ''}{link[4]}"

    lines, fence = [], ""
    for line in text.splitlines():
        found = _FENCE.match(line)
        if fence or found:
            fence = "" if line.strip() == fence else fence or (found[1] if found else "")
            lines.append(line)
        else:
            parts = enumerate(_CODE.split(line))  # every second part is code
            lines.append("".join(part if n % 2 else _LINK.sub(led, part) for n, part in parts))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
