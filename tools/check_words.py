"""Search docstrings, comments, messages and pages for phrases that are not plain technical English.

``tools/words.toml`` lists the phrases, each with a replacement. The script searches:

- Python in ``src/skyband``, ``tools`` and ``examples``: comments and strings. A string without a space is a name and is
  skipped.
- TypeScript, HTML and CSS in ``front/src``: comments, strings and texts between tags.
- Markdown in the root folder, in ``docs`` and in ``examples``: everything except blocks, inline code and targets of
  links.

Each hit is printed as ``file:line: phrase: replacement``. A marker (``words: allow`` in a comment) on the line of the
hit allows it. For a hit in a string of several lines, the marker can follow the end of the string. A marker that allows
nothing is an error.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
import tomllib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CODE = "\0"  # replaces each character that is not searched

_LAYOUT = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
_FSTRING_START, _FSTRING_END = (getattr(tokenize, name, -1) for name in ("FSTRING_START", "FSTRING_END"))
_PYTHON_MARKER = re.compile(r"#\s*words: allow\s*$", re.MULTILINE)
_FRONT_MARKER = re.compile(r"//\s*words: allow\s*$|/\*\s*words: allow\s*\*/", re.MULTILINE)
_PAGE_MARKER = re.compile(r"<!--\s*words: allow\s*-->")
_INLINE_CODE = re.compile(r"(`+)(?:(?!\n\s*\n).)+?\1", re.DOTALL)
_LINK_TARGET = re.compile(r"\]\([^)]*\)|<https?:[^>]*>")
_FENCED = re.compile(r"^([ \t]*)(`{3,}|~{3,}).*?^[ \t]*\2[ \t]*$", re.DOTALL | re.MULTILINE)
_REPLACED = re.compile(r"\{[^{}]*\}")  # an expression of an f-string, a field of a format
_QUOTES = re.compile(r"""^[a-zA-Z]*('{3}|"{3}|'|")""")
_FRONT_TEXT = re.compile(
    r"""//[^\n]*|/\*.*?\*/|<!--.*?-->|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`|(?<=[^=]>)[^<>{};=]+(?=[<{])""",
    re.DOTALL,
)


class Phrase(NamedTuple):
    """A phrase to avoid, and its replacement."""

    pattern: re.Pattern[str]
    instead: str


class Prose(NamedTuple):
    """The text of a file with ``CODE`` for everything that is not searched, and the lines that allow a hit."""

    text: str
    markers: set[int]
    ends: dict[int, int]  # line within a string of several lines: its last line


def main() -> int:
    """Check all texts, print the hits, and return the exit code."""
    phrases = phrases_of((ROOT / "tools" / "words.toml").read_text(encoding="utf-8"))
    wrong = [line for path in sources() for line in problems(path, phrases)]
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(phrases)} phrases searched, {len(wrong)} problems")
    return 1 if wrong else 0


def sources() -> list[Path]:
    """All files that are searched."""
    python = [path for folder in ("src/skyband", "tools", "examples") for path in (ROOT / folder).rglob("*.py")]
    front = [path for path in (ROOT / "front/src").rglob("*") if path.suffix in {".ts", ".tsx", ".html", ".css"}]
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md")]
    return [*sorted(python), *sorted(front), *sorted(pages)]


def phrases_of(text: str) -> list[Phrase]:
    """Read the list of phrases."""
    listed: Mapping[str, str] = tomllib.loads(text)["phrases"]
    return [Phrase(re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE), instead) for pattern, instead in listed.items()]


def problems(path: Path, phrases: Iterable[Phrase]) -> list[str]:
    """Return a line for each phrase found in a file, and for each marker that allows nothing."""
    prose, name = _prose_of(path), path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    words = re.sub(r"\s+", " ", prose.text)  # a phrase can span lines
    begins = [0, *_line_begins(prose.text)]
    found, used = [], set[int]()
    for phrase in phrases:
        for hit in phrase.pattern.finditer(words):
            line = bisect_right(begins, hit.start())
            allowed = {line, prose.ends.get(line, line)} & prose.markers
            used |= allowed
            if not allowed:
                found.append((line, f"{hit[0]!r}: {phrase.instead}"))
    found += [(line, "this marker allows nothing; remove it") for line in prose.markers - used]
    return [f"{name}:{line}: {what}" for line, what in sorted(found)]


def _line_begins(text: str) -> Iterator[int]:
    """Where the second and later lines begin once each run of white space is one character long."""
    removed = 0
    for run in re.finditer(r"\s+", text):
        for _ in range(run[0].count("\n")):
            yield run.end() - removed - (len(run[0]) - 1)
        removed += len(run[0]) - 1


def _prose_of(path: Path) -> Prose:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return _python(text)
    return _page(text) if path.suffix == ".md" else _front(text)


def _python(text: str) -> Prose:
    """Keep comments and strings. Adjacent strings are one text, and so are comments of adjacent lines."""
    begins = [0, *(match.end() for match in re.finditer("\n", text))]
    kept, ends, last, previous = list[str](), dict[int, int](), 0, 0
    held = list[str]()  # adjacent strings, each after what separates it from the one before
    for kind, start, stop in _tokens(text):
        if kind in (tokenize.COMMENT, tokenize.STRING):
            begin, end = (begins[line - 1] + column for line, column in (start, stop))
            if kind != previous:
                kept += _unless_names(held)
                held = [_hidden(text[last:begin])]
            else:
                held.append(re.sub(r"[^\n]", " ", text[last:begin]))
            held.append(_words(text[begin:end], kind))
            last = end
            ends.update(dict.fromkeys(range(start[0], stop[0]), stop[0]))
        previous = kind
    kept += _unless_names(held)
    return Prose("".join(kept), _lines(_PYTHON_MARKER, text), ends)


def _tokens(text: str) -> Iterator[tuple[int, tuple[int, int], tuple[int, int]]]:
    """Yield kind, start and end of each token that is not layout. From Python 3.12 on, f-strings come in parts."""
    depth, start = 0, (0, 0)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == _FSTRING_START:
            depth, start = depth + 1, token.start if depth == 0 else start
        elif token.type == _FSTRING_END:
            depth -= 1
            if depth == 0:
                yield tokenize.STRING, start, token.end
        elif depth == 0 and token.type not in _LAYOUT:
            yield token.type, token.start, token.end


def _words(source: str, kind: int) -> str:
    """Replace what encloses the words of a comment or string by blanks, and the code in them by ``CODE``."""
    if kind == tokenize.COMMENT:
        source = source.replace("#", " ")
    elif opening := _QUOTES.match(source):
        body = source[opening.end() : -len(opening[1])].replace("\\n", "  ")
        body = _REPLACED.sub(_blank, body) if "f" in opening[0].lower() else body
        source = " " * opening.end() + body + " " * len(opening[1])
    return _INLINE_CODE.sub(_blank, source)


def _unless_names(held: list[str]) -> list[str]:
    """Hide strings that together have no space: they are names, not texts."""
    return held if any(re.search(r"\S\s+\S", words) for words in held[1::2]) else [_hidden("".join(held))]


def _page(text: str) -> Prose:
    """Keep everything but blocks, inline code and targets of links."""
    prose = _INLINE_CODE.sub(_blank, _FENCED.sub(_blank, text))
    return Prose(_LINK_TARGET.sub(_blank, prose), _lines(_PAGE_MARKER, prose), {})


def _front(text: str) -> Prose:
    """Keep comments, strings with a space in them, and texts between tags."""
    kept = list(_hidden(text))
    for found in _FRONT_TEXT.finditer(text):
        if re.search(r"\w\s+\w", found[0]):
            kept[found.start() : found.end()] = _REPLACED.sub(_blank, found[0])
    return Prose("".join(kept), _lines(_FRONT_MARKER, text), {})


def _blank(found: re.Match[str]) -> str:
    return _hidden(found[0])


def _hidden(text: str) -> str:
    return re.sub(r"[^\n]", CODE, text)


def _lines(marker: re.Pattern[str], text: str) -> set[int]:
    return {text.count("\n", 0, found.start()) + 1 for found in marker.finditer(text)}


if __name__ == "__main__":
    sys.exit(main())
