"""A hook of MkDocs: what pages link to outside docs/ becomes a page of the site, and links are led there.

On a Git host ``../CONTRIBUTING.md`` or ``../examples/spark_batch.py`` is right; a site knows nothing above docs/. So
the few files there that are for readers get a page each, links to them and from them are rewritten, and a link to
anything else outside docs/ stays as it is, which strict mode refuses. In the navigation ``folder/*.md`` stands for all
pages it fits, in order: a new decision needs no line there.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path, PurePosixPath
from posixpath import relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^(`{3,}|~{3,})")
_CODE = re.compile(r"(`+[^`]*`+)")
_LINK = re.compile(r"(\]\()<?([^)\s>#]+)(#[^)\s>]*)?>?(\))")
_HOSTS = re.compile(r"https://(?:unpkg\.com|cdn\.jsdelivr\.net)/")


def outside() -> dict[Path, str]:
    """The files outside docs/ that have a page, and where it stands in the site."""
    found = {
        ROOT / "README.md": "overview.md",
        ROOT / "CONTRIBUTING.md": "contributing.md",
        ROOT / "CHANGELOG.md": "changelog.md",
        ROOT / "LICENSE": "license.md",
    }
    return found | {path: f"examples/{path.stem}.md" for path in sorted((ROOT / "examples").glob("*.py"))}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill in what the navigation says of many pages at once."""
    config.nav = _filled(config.nav)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made."""
    for path, uri in outside().items():
        files.append(File.generated(config, uri, content=_content(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to where the site has what they mean."""
    made = {uri: path.parent for path, uri in outside().items()}
    stands = made.get(page.file.src_uri, (DOCS / page.file.src_uri).parent)
    lines, fence = [], ""
    for line in markdown.splitlines():
        found = _FENCE.match(line)
        if fence or found:
            fence = "" if line.strip() == fence else fence or (found[1] if found else "")
            lines.append(line)
        else:
            parts = enumerate(_CODE.split(line))  # every second part is code
            lines.append("".join(part if n % 2 else _led(part, stands, page.file.src_uri) for n, part in parts))
    return "\n".join(lines)


def on_post_build(config: MkDocsConfig) -> None:
    """Take the hosts out that the theme's script would ask for parts we do not use; source maps name them too."""
    for path in Path(config.site_dir, "assets").rglob("*"):
        if path.suffix == ".map":
            path.unlink()
        elif path.suffix == ".js":
            text = path.read_text(encoding="utf-8")
            path.write_text(_HOSTS.sub("", text), encoding="utf-8")


def _filled(nav: Any) -> Any:
    if isinstance(nav, dict):
        return {title: _filled(part) for title, part in nav.items()}
    if isinstance(nav, list):
        return [entry for part in nav for entry in (_fitting(part) if _is_pattern(part) else [_filled(part)])]
    return nav


def _is_pattern(part: Any) -> bool:
    return isinstance(part, str) and "*" in part


def _fitting(pattern: str) -> list[str]:
    made = [uri for uri in outside().values() if PurePosixPath(uri).match(pattern)]
    written = [path.relative_to(DOCS).as_posix() for path in DOCS.glob(pattern)]
    return sorted([*made, *written], key=lambda uri: uri.removesuffix(".md"))


def _content(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    if path.suffix == ".py":
        said = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
        return f"# {path.stem.replace('_', ' ').capitalize()}\n\n{said}\n\n```python\n{text}```\n"
    return f"# {path.name.capitalize()}\n\n```text\n{text}```\n"


def _led(text: str, stands: Path, uri: str) -> str:
    """The links of a text that stands in a folder of the repository, as they are for the page `uri` of the site."""

    def led(link: re.Match[str]) -> str:
        if re.match(r"[a-z][a-z+.-]*:", link[2]):
            return link[0]
        to = (stands / link[2]).resolve()
        target = outside().get(to) or (to.relative_to(DOCS).as_posix() if to.is_relative_to(DOCS) else None)
        if target is None or target == ".":
            return link[0]
        return f"{link[1]}{relpath(target, Path(uri).parent.as_posix())}{link[3] or ''}{link[4]}"

    return _LINK.sub(led, text)
