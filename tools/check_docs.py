"""Check the Markdown pages: the targets of their links exist, and their Python runs.

Blocks marked ``python`` are run. Those of one page run in order, in one namespace. The output of a block with ``>>>``
prompts must match. Other blocks (``text``, ``bash``, no mark) are skipped.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent

_FENCE = re.compile(r"^(`{3,}|~{3,})\s*(\w*)")
_LINK = re.compile(r"\[[^\]]*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
_HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$")


class Block(NamedTuple):
    """A fenced block of code: its mark, its first line, its text."""

    mark: str
    line: int
    text: str


def pages() -> list[Path]:
    """Return all Markdown pages of the root folder and of docs/."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> Iterator[Block]:
    """Return the fenced blocks of a page."""
    fence, mark, begin, held = "", "", 0, list[str]()
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        found = _FENCE.match(line)
        if not fence and found:
            fence, mark, begin, held = found[1], found[2], number + 1, []
        elif fence and line.strip() == fence:
            yield Block(mark, begin, "\n".join(held) + "\n")
            fence = ""
        elif fence:
            held.append(line)


def prose(page: Path) -> list[tuple[int, str]]:
    """Return the numbered lines of a page outside its blocks, without inline code."""
    found, fence = [], ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        opening = _FENCE.match(line)
        if fence:
            fence = "" if line.strip() == fence else fence
        elif opening:
            fence = opening[1]
        else:
            found.append((number, re.sub(r"`[^`]*`", lambda code: "x" * len(code[0]), line)))
    return found


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page."""
    kept = page.read_text(encoding="utf-8").splitlines()
    titles = [heading[1] for number, _ in prose(page) if (heading := _HEADING.match(kept[number - 1]))]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(page: Path) -> list[str]:
    """Return a line for each link of a page to a file or heading that does not exist."""
    wrong = []
    for number, line in prose(page):
        for target in _LINK.findall(line):
            if re.match(r"[a-z][a-z+.-]*:", target):
                continue  # links to other sites are not checked
            path, _, anchor = target.partition("#")
            to = (page.parent / path).resolve() if path else page
            where = f"{page.relative_to(ROOT)}:{number}"
            if not to.exists():
                wrong.append(f"{where}: {target} does not exist")
            elif anchor and to.suffix == ".md" and anchor not in anchors(to):
                wrong.append(f"{where}: {target} is not a heading of that page")
    return wrong


def run_python(page: Path) -> int:
    """Run the Python blocks of a page in an empty folder and return their number; raise the first error."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return _run_blocks(page)


def _run_blocks(page: Path) -> int:
    namespace: dict[str, Any] = {"__name__": f"page:{page.name}"}
    count = 0
    for block in blocks(page):
        if block.mark != "python":
            continue
        count += 1
        name = str(page.relative_to(ROOT))
        if block.text.lstrip().startswith(">>>"):
            test = doctest.DocTestParser().get_doctest(block.text, namespace, name, name, block.line)
            runner = doctest.DebugRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
            runner.run(test, clear_globs=False)
            namespace.update(test.globs)
        else:
            # The empty lines make the line numbers of a traceback those of the page.
            exec(compile("\n" * (block.line - 1) + block.text, name, "exec"), namespace)
    return count


def main() -> int:
    """Check all pages, print the problems, and return the exit code."""
    wrong, run = 0, 0
    for page in pages():
        for line in broken_links(page):
            print(line, file=sys.stderr)
            wrong += 1
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # output of the pages is not shown
                run += run_python(page)
        except Exception:
            traceback.print_exc()
            print(f"{page.relative_to(ROOT)}: its Python does not run", file=sys.stderr)
            wrong += 1
    print(f"{len(pages())} pages, {run} blocks of Python run, {wrong} problems")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
